package runtime_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/model/scripted"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
)

func TestR38_MissingUsageIsChargedAtBound(t *testing.T) {
	t.Parallel()
	p := scene{script: map[string][]turn{"a": {"nousage done"}}}.play(t)
	o := op(t, p.history, engine.OpAgent, 0)
	if o.ReservedMicros == 0 || o.ChargedMicros != o.ReservedMicros || o.Receipt.UsageSource != "bound" || o.Receipt.Usage != nil {
		t.Errorf("reserved %d, charged %d, receipt %+v", o.ReservedMicros, o.ChargedMicros, o.Receipt)
	}
	reply := p.history.Entries[2].Event.Reply
	if reply.Charged != o.ReservedMicros || reply.Source != "bound" || reply.Usage != nil {
		t.Errorf("the event says %+v", reply)
	}
}

func TestR37_FailedCallsWithUsageAreCharged(t *testing.T) {
	t.Parallel()
	p := scene{script: map[string][]turn{"a": {"fail", "done"}}}.play(t)
	o := op(t, p.history, engine.OpAgent, 0)
	if o.Status != store.OpSettledFailed || o.ChargedMicros != 219 || o.Receipt.UsageSource != "actual" {
		t.Errorf("operation %+v", o)
	}
	ev := p.history.Entries[2].Event
	if ev.Kind != engine.EvModelFailed || ev.Reply.Error != "busy now, api_key=[redacted]" || ev.Reply.Code != "overloaded" {
		t.Errorf("event %s %+v", ev.Kind, ev.Reply)
	}
}

// R42, R47: a lost reply keeps its hold while the room runs, and is settled by
// the provider's own record at the close, outside the chain.
func TestR42_LostReplyIsHeldThenReconciledAtTheClose(t *testing.T) {
	t.Parallel()
	p := scene{script: map[string][]turn{"a": {"lost", "done"}}}.play(t)
	o := op(t, p.history, engine.OpAgent, 0)
	if o.Receipt.Outcome != store.OutcomeUnknown || o.Receipt.ChargedMicros != 0 || o.Receipt.Usage != nil {
		t.Errorf("receipt %+v", o.Receipt)
	}
	if diff := cmp.Diff([]string{"started@0", "owner_message@0", "model_unknown@1000", "model_reply@2000"}, kinds(p.history)); diff != "" {
		t.Error(diff)
	}
	for _, e := range p.history.Entries[2:] {
		if m := e.Event.Money; m.Held != o.ReservedMicros || m.Unknown != o.ReservedMicros {
			t.Errorf("revision %d: money %+v, want %d held and unknown", e.Rev, m, o.ReservedMicros)
		}
	}
	want := &store.Reconciliation{
		Executed: true, ChargedMicros: 219, Usage: &engine.Usage{Input: 40, CachedRead: 7, Output: 11}, UsageSource: "actual",
		Proof: "the provider's own record of the call",
	}
	if diff := cmp.Diff(want, o.Reconciled); diff != "" {
		t.Errorf("reconciliation:\n%s", diff)
	}
	if diff := cmp.Diff(engine.Money{Limit: 1_000_000, Charged: 219 + 222}, p.res.Money); diff != "" {
		t.Errorf("money:\n%s", diff)
	}
	if p.journal.Total() != 2 || p.journal.Repeated() != nil {
		t.Errorf("%d calls, repeated %v", p.journal.Total(), p.journal.Repeated())
	}
}

func TestR42_LostReplyWithoutAnyUsageIsReconciledAtBound(t *testing.T) {
	t.Parallel()
	p := scene{script: map[string][]turn{"a": {"lost nousage", "done"}}}.play(t)
	o := op(t, p.history, engine.OpAgent, 0)
	if o.Reconciled == nil || o.Reconciled.UsageSource != "bound" || o.ChargedMicros != o.ReservedMicros {
		t.Errorf("operation %+v, reconciled %+v", o, o.Reconciled)
	}
}

// R47: without evidence nothing is reconciled. A party that cannot be asked
// leaves the hold, also after the close; one that does not answer now leaves
// the room open and the hold as it was, until it does.
func TestR47_WithoutEvidenceTheHoldStays(t *testing.T) {
	t.Parallel()
	p := scene{script: map[string][]turn{"a": {"lost", "done"}}, opaque: true}.play(t)
	o := op(t, p.history, engine.OpAgent, 0)
	if o.Status != store.OpUncertain || o.Reconciled != nil || p.res.Money.Held != o.ReservedMicros || p.res.Money.Unknown != o.ReservedMicros {
		t.Errorf("operation %+v, money %+v", o, p.res.Money)
	}
	if p.journal.Repeated() != nil || p.res.Termination != runtime.Completed {
		t.Errorf("%s, called twice: %v", p.res.Termination, p.journal.Repeated())
	}

	silent := errors.New("no answer")
	s := scene{script: map[string][]turn{"a": {"lost", "done"}}}
	st, j := memory.New(memory.Options{}), &model.MemoryJournal{}
	cfg := s.config(t, st, j)
	answering := cfg.Provider
	cfg.Provider = mute{answering, silent}
	if _, err := runtime.Run(t.Context(), cfg); !errors.Is(err, silent) {
		t.Fatalf("got %v", err)
	}
	l, err := st.Load(t.Context(), cfg.Room)
	if err != nil {
		t.Fatal(err)
	}
	if l.Head.Closed || l.Head.Money.Held == 0 || l.Head.Money.Unknown != l.Head.Money.Held {
		t.Errorf("head %+v", l.Head)
	}
	cfg.Provider = answering
	res, err := runtime.Run(t.Context(), cfg)
	if err != nil || res.Money.Held != 0 || res.Money.Charged == 0 || j.Repeated() != nil {
		t.Errorf("money %+v, called twice: %v, %v", res.Money, j.Repeated(), err)
	}
}

// mute is a provider that can be asked and does not answer.
type mute struct {
	model.Provider
	err error
}

func (m mute) Lookup(context.Context, model.Call) (model.Found, error) { return model.Found{}, m.err }

// R39: an overrun is charged in full and halts the room; calls in flight
// finish and are charged.
func TestR39_OverrunIsChargedInFullAndHaltsTheRoom(t *testing.T) {
	t.Parallel()
	p := scene{script: map[string][]turn{"a": {"dear get a", "done"}, "b": {"us=1500 get b", "done"}}}.play(t)
	o := op(t, p.history, engine.OpAgent, 0)
	if o.ChargedMicros != 2_500_000 || !p.res.Head.Halted {
		t.Errorf("charged %d, halted %v", o.ChargedMicros, p.res.Head.Halted)
	}
	if p.res.Termination != runtime.Budget || p.res.Money.Charged != 2_500_000+219 {
		t.Errorf("%s, money %+v", p.res.Termination, p.res.Money)
	}
	var codes []string
	for _, e := range p.history.Entries {
		if e.Event.Refusal != nil {
			codes = append(codes, string(e.Event.Kind)+" "+e.Event.Refusal.Code)
		}
	}
	want := []string{"reservation_refused BUDGET_HALTED", "reservation_refused BUDGET_HALTED"}
	if diff := cmp.Diff(want, codes); diff != "" {
		t.Error(diff)
	}
}

// R41: without bound or price nothing is dispatched, and nothing is charged.
func TestR41_UnboundedOrUnpricedIsRefusedBeforeDispatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		scene scene
	}{
		{"no bound", scene{provider: func(c scripted.Config) scripted.Config { c.Unbounded = true; return c }}},
		{"no output limit", scene{change: func(c *runtime.Config) { c.MaxOutputTokens = 0 }}},
		{"no price", scene{change: func(c *runtime.Config) { c.Model = "other" }}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.scene.script = map[string][]turn{"a": {"done"}}
			p := c.scene.play(t)
			ev := p.history.Entries[2].Event
			if ev.Kind != engine.EvDispatchRefused || ev.Refusal.Code != engine.CodeUnboundedCost {
				t.Errorf("event %s %+v", ev.Kind, ev.Refusal)
			}
			if o := op(t, p.history, engine.OpAgent, 0); o.Status != store.OpReleased || p.journal.Total() != 0 || p.res.Money.Charged != 0 {
				t.Errorf("operation %s, %d calls, money %+v", o.Status, p.journal.Total(), p.res.Money)
			}
		})
	}
}

// R12: authority is read again at dispatch; without it the hold is released
// and the call never made.
func TestR12_DispatchIsRefusedWhenAuthorityIsGone(t *testing.T) {
	t.Parallel()
	asked := 0
	s := scene{script: map[string][]turn{"a": {"get a", "done"}}}
	s.change = func(c *runtime.Config) {
		c.Eligible = func() []string { return []string{"b", "a"} }
		c.Authorized = func(string) bool { asked++; return asked <= 2 }
	}
	p := s.play(t)
	ev := p.history.Entries[4].Event
	if ev.Kind != engine.EvDispatchRefused || ev.Refusal.Code != engine.CodeForbidden || p.res.Termination != runtime.Escalated {
		t.Errorf("event %s %+v, %s", ev.Kind, ev.Refusal, p.res.Termination)
	}
	if diff := cmp.Diff(&engine.Facts{Eligible: []string{"a", "b"}}, ev.Facts); diff != "" {
		t.Error(diff)
	}
	o := op(t, p.history, engine.OpAgent, 1)
	if o.Status != store.OpReleased || o.ReservedMicros == 0 || p.res.Money.Held != 0 || p.journal.Total() != 1 {
		t.Errorf("operation %+v, money %+v, %d calls", o, p.res.Money, p.journal.Total())
	}
}

// R36: a reservation the room refuses is an event, not an error.
func TestR36_RefusedReservationIsAnEvent(t *testing.T) {
	t.Parallel()
	full := scene{script: map[string][]turn{"a": {"done"}}}.play(t)
	bound := op(t, full.history, engine.OpAgent, 0).ReservedMicros
	for _, c := range []struct {
		limit int64
		want  engine.EventKind
	}{{bound, engine.EvModelReply}, {bound - 1, engine.EvReservationRefused}} {
		p := scene{script: map[string][]turn{"a": {"done"}}, limits: runtime.Limits{BudgetMicros: c.limit}}.play(t)
		if got := p.history.Entries[2].Event.Kind; got != c.want {
			t.Errorf("limit %d of bound %d: %s, want %s", c.limit, bound, got, c.want)
		}
	}
}
