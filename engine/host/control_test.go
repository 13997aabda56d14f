package host_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/host"
	"github.com/agentrooms/qualify/engine/planner"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
)

// gate holds calls of one kind until they are let go or lose their authority.
type gate struct {
	kind    string
	entered chan string   // operation
	open    chan struct{} // closed: calls go on
	cost    int64         // of a call that was asked to stop
	causes  chan error    // why calls were asked to stop
}

func newGate(kind string) *gate {
	return &gate{kind: kind, entered: make(chan string, 16), open: make(chan struct{}), causes: make(chan error, 16), cost: 77}
}

// within is the next value of c. A call that is never made fails its test and
// does not hang the package until the time of go test is up.
func within[T any](t testing.TB, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(30 * time.Second):
		t.Fatal("waited 30 s in vain")
		panic("unreachable")
	}
}

func (g *gate) during(ctx context.Context, c host.Call) (*host.Result, error) {
	if g.kind != c.Format[:len(g.kind)] {
		return nil, nil
	}
	g.entered <- c.Op
	select {
	case <-g.open:
		return nil, nil
	case <-ctx.Done():
		g.causes <- context.Cause(ctx)
		return &host.Result{Failed: "asked to stop", Micros: &g.cost}, nil
	}
}

// ticking runs a Tick beside the test.
func (x *scene) ticking(ctx context.Context, s *host.Service) func() (runtime.Ticked, error) {
	x.t.Helper()
	var done runtime.Ticked
	var err error
	var wg sync.WaitGroup
	wg.Go(func() { done, err = s.Tick(ctx, tenant, room) })
	return func() (runtime.Ticked, error) {
		wg.Wait()
		return done, err
	}
}

// A pause during a call asks it to stop, from the same service at once and
// from another one at the next heartbeat; what it spent is charged (R43).
func TestR43_APauseAbortsTheCallUnderWay(t *testing.T) {
	t.Parallel()
	for name, lease := range map[string]time.Duration{"same service": time.Hour, "another service": 30 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := begin(t)
			g := newGate("turn")
			x.h.during = g.during
			x.s = x.service(func(c *host.Config) { c.Lease = lease })
			owner := x.s
			if name == "another service" {
				owner = x.service(nil)
			}
			x.accept("m1")
			wait := x.ticking(t.Context(), x.s)
			op := within(t, g.entered)
			o := x.objective()
			a, err := owner.Pause(t.Context(), tenant, room, order("p1"), o.ID, o.ControlRevision)
			if err != nil || a.Status != string(planner.StatusPaused) || a.ControlRevision != o.ControlRevision+1 {
				t.Fatalf("%+v %v", a, err)
			}
			if cause := within(t, g.causes); !errors.Is(cause, runtime.ErrAuthorityLost) {
				t.Errorf("cause %v", cause)
			}
			done, err := wait()
			if err != nil || done.Aborted != 1 {
				t.Errorf("%+v %v", done, err)
			}
			if m := x.look().Money; m.Charged != 1_000+77 || m.Held != 0 {
				t.Errorf("%+v", m)
			}
			x.tick()
			if o := x.objective(); o.Status != planner.StatusPaused {
				t.Errorf("status %s", o.Status)
			}
			x.h.once(t)
			if x.h.made[op] != 1 {
				t.Error("the stopped call was made again")
			}
		})
	}
}

// A participant that loses its right during its call is asked to stop (R43).
func TestR43_ACallLosesItsAuthorityWithItsAgent(t *testing.T) {
	t.Parallel()
	x := begin(t)
	g := newGate("turn")
	x.h.during = g.during
	x.s = x.service(func(c *host.Config) { c.Lease = 30 * time.Millisecond })
	x.accept("m1")
	wait := x.ticking(t.Context(), x.s)
	within(t, g.entered)
	x.h.allow("auditor", "editor", "second")
	if cause := within(t, g.causes); !errors.Is(cause, runtime.ErrAuthorityLost) {
		t.Errorf("cause %v", cause)
	}
	close(g.open)
	if done, err := wait(); err != nil || done.Aborted != 1 {
		t.Errorf("%+v %v", done, err)
	}
	x.h.once(t)
}

// A caller that goes away is no order of the owner's: the call goes on, its
// receipt is kept, and the next Tick uses it (R43).
func TestR43_ACallerThatGoesAwayStopsNothing(t *testing.T) {
	t.Parallel()
	x := begin(t)
	g := newGate("turn")
	x.h.during = g.during
	x.accept("m1")
	ctx, leave := context.WithCancel(t.Context())
	wait := x.ticking(ctx, x.s)
	within(t, g.entered)
	leave()
	time.Sleep(5 * time.Millisecond) // the Tick is draining
	close(g.open)
	if done, err := wait(); !errors.Is(err, context.Canceled) || done.Aborted != 0 || done.Calls != 2 {
		t.Errorf("%+v %v", done, err)
	}
	if m := x.look().Money; m.Charged != 1_100 || m.Held != 0 {
		t.Errorf("%+v", m)
	}
	x.tick()
	if diff := cmp.Diff(wholeRun, x.h.calls()); diff != "" {
		t.Error(diff)
	}
	x.h.once(t)
}

// A pause keeps its word over a caller that has gone away.
func TestR43_APauseReachesACallWhoseCallerIsGone(t *testing.T) {
	t.Parallel()
	x := begin(t)
	g := newGate("turn")
	x.h.during = g.during
	x.s = x.service(func(c *host.Config) { c.Lease = 30 * time.Millisecond })
	x.accept("m1")
	ctx, leave := context.WithCancel(t.Context())
	wait := x.ticking(ctx, x.s)
	within(t, g.entered)
	leave()
	o := x.objective()
	if _, err := x.service(nil).Pause(t.Context(), tenant, room, order("p1"), o.ID, o.ControlRevision); err != nil {
		t.Fatal(err)
	}
	if cause := within(t, g.causes); !errors.Is(cause, runtime.ErrAuthorityLost) {
		t.Errorf("cause %v", cause)
	}
	if done, err := wait(); !errors.Is(err, context.Canceled) || done.Aborted != 1 {
		t.Errorf("%+v %v", done, err)
	}
}

// A result that comes after a pause and a resume waits for its readmission,
// one at a time, by the owner (R44).
func TestR44_ALateResultIsReadmittedByTheOwner(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	x := begin(t)
	g := newGate("turn")
	x.h.during = func(ctx context.Context, c host.Call) (*host.Result, error) {
		if c.Participant != "clerk" {
			return nil, nil
		}
		return g.during(context.WithoutCancel(ctx), c) // an adapter that cannot stop
	}
	x.accept("m1")
	wait := x.ticking(ctx, x.s)
	op := within(t, g.entered)
	o := x.objective()
	_, err := x.s.Pause(ctx, tenant, room, order("p"), o.ID, 0)
	x.must(err)
	close(g.open)
	_, err = wait()
	x.must(err)
	if _, err := x.s.Readmit(ctx, tenant, room, order("early"), op, 1); engine.CodeOf(err) != engine.CodeInvalidTransition {
		t.Errorf("readmitted while paused: %v", err)
	}
	_, err = x.s.Resume(ctx, tenant, room, order("r"), o.ID, 1)
	x.must(err)
	x.tick()
	if o = x.objective(); len(o.Pending) != 1 || o.Pending[0].Op != op || len(x.h.calls()) != 2 {
		t.Fatalf("%+v after %v", o.Pending, x.h.calls())
	}
	if _, err := x.s.Readmit(ctx, tenant, room, order("stale"), op, 1); engine.CodeOf(err) != engine.CodeStaleRevision {
		t.Errorf("readmitted under an old revision: %v", err)
	}
	if a, err := x.s.Readmit(ctx, tenant, room, order("now"), op, 2); err != nil || a.Admission != "readmitted" {
		t.Errorf("%+v %v", a, err)
	}
	x.tick()
	if diff := cmp.Diff(wholeRun, x.h.calls()); diff != "" {
		t.Error(diff)
	}
	x.h.once(t)
}

// Reconciliation settles by proof and by nothing else (R47).
func TestR47_OnlyProofSettles(t *testing.T) {
	t.Parallel()
	actual := int64(1_500)
	for name, c := range map[string]struct {
		evidence host.Evidence
		money    engine.Money
	}{
		"executed":            {host.Evidence{Outcome: engine.ReconciledExecuted, Micros: &actual, Proof: "invoice 7"}, engine.Money{Charged: 1_500}},
		"executed, cost open": {host.Evidence{Outcome: engine.ReconciledExecuted, Proof: "log line"}, engine.Money{Charged: 2_000}},
		"not executed":        {host.Evidence{Outcome: engine.ReconciledNotExecuted, Proof: "the server refused the connection"}, engine.Money{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := begin(t)
			ctx := t.Context()
			x.h.during = func(context.Context, host.Call) (*host.Result, error) { return nil, errors.New("time-out") }
			x.accept("m1")
			x.tick()
			x.h.during = nil
			open := x.look().Operations
			if len(open) != 1 || open[0].Status != store.OpUncertain {
				t.Fatalf("%+v", open)
			}
			op := open[0].Op
			before := x.look()
			reconcile := func(key, op string) (engine.Answer, error) {
				return x.s.Reconcile(ctx, tenant, room, order(key), op)
			}
			_, err := reconcile("k", op) // nothing is known yet
			want(t, err, engine.CodeUncertain)
			debt := int64(-5)
			x.h.evidence = func(host.Operation) (host.Evidence, error) {
				return host.Evidence{Outcome: engine.ReconciledExecuted, Micros: &debt, Proof: "a log that counts backwards"}, nil
			}
			_, err = reconcile("k", op)
			want(t, err, engine.CodeValidation)
			x.h.evidence = nil
			_, err = reconcile("k", "op_none")
			want(t, err, engine.CodeNotFound)
			x.h.evidence = func(host.Operation) (host.Evidence, error) { return host.Evidence{Outcome: "maybe", Proof: "x"}, nil }
			_, err = reconcile("k", op)
			want(t, err, engine.CodeValidation)
			x.h.evidence = func(host.Operation) (host.Evidence, error) {
				return host.Evidence{Outcome: engine.ReconciledExecuted}, nil
			}
			_, err = reconcile("k", op) // no proof
			want(t, err, engine.CodeValidation)
			x.h.evidence = func(host.Operation) (host.Evidence, error) { return host.Evidence{}, errors.New("log away") }
			_, err = reconcile("k", op)
			want(t, err, engine.CodeAdapter)
			x.clock.pass(1_000 * time.Hour) // time proves nothing
			x.tick()
			if diff := cmp.Diff(before.Money, x.look().Money); diff != "" || before.Rev != x.look().Rev {
				t.Fatalf("without evidence something changed:\n%s", diff)
			}

			x.h.evidence = func(o host.Operation) (host.Evidence, error) {
				if o.Op != op || o.Room != here || o.BoundMicros != 2_000 || o.Role != engine.RoleReasoner || o.RequestDigest == "" {
					return host.Evidence{}, fmt.Errorf("asked about %+v", o)
				}
				return c.evidence, nil
			}
			a, err := reconcile("k", op)
			if err != nil || a.Code != "" {
				t.Fatal(a, err)
			}
			c.money.Limit = 1_000_000
			asked := len(x.h.asked)
			b, err := reconcile("k", op)
			a.Repeated = true // and says so
			if diff := cmp.Diff(a, b); diff != "" || err != nil || len(x.h.asked) != asked {
				t.Errorf("the same key was answered otherwise: %v\n%s", err, diff)
			}
			c.money.Held = 2_000 // of the next interpretation, reserved and not dispatched
			if diff := cmp.Diff(c.money, x.look().Money); diff != "" {
				t.Error(diff)
			}
			x.tick()
			x.h.once(t)
		})
	}
}

// between lets something happen right after a process has looked an event up.
type between struct {
	host.Store
	event string
	then  func()
}

func (b *between) Lookup(ctx context.Context, room, space string, keys []string) (map[string]string, error) {
	found, err := b.Store.Lookup(ctx, room, space, keys)
	if then := b.then; space == "intake" && slices.Contains(keys, b.event) && then != nil {
		b.then = nil
		then()
	}
	return found, err
}

// The same order, or the same message, taken by two processes at once is one:
// the one that comes second gets the first one's answer (R14, R69).
func TestR14_R69_TwoProcessesTakeTheSame(t *testing.T) {
	t.Parallel()
	x := begin(t)
	ctx := t.Context()
	second := func(event string, then func()) *host.Service {
		return x.service(func(c *host.Config) { c.Store = &between{Store: x.store, event: event, then: then} })
	}
	a, err := second("m1", func() { x.accept("m1") }).AcceptEvent(ctx, tenant, room, "m1")
	if err != nil || !a.Again {
		t.Errorf("%+v %v", a, err)
	}
	x.tick()
	pause := func(s *host.Service, o host.Order, expected int) (engine.Answer, error) {
		return s.Pause(ctx, tenant, room, o, "obj_none", expected)
	}
	first := func() { _, _ = pause(x.s, order("k"), 1) }
	got, err := pause(second("command:k", first), order("k"), 1)
	want(t, err, engine.CodeNotFound)
	if again, _ := pause(x.s, order("k"), 1); got.Code != again.Code || !got.Repeated {
		t.Errorf("%+v, the other process was told %+v", got, again)
	}
	first = func() { _, _ = pause(x.s, order("l"), 1) }
	_, err = pause(second("command:l", first), order("l"), 2)
	want(t, err, engine.CodeConflict)
}

// Commands: the same key is one order for ever, in any process (R69).
func TestR69_TheSameKeyIsOneOrder(t *testing.T) {
	t.Parallel()
	x := begin(t)
	x.h.execute = func(host.Call) engine.TurnReply {
		return engine.TurnReply{Status: engine.StatusBlocked, Text: "no access"}
	}
	propose := x.h.propose
	x.h.propose = func(q engine.PlanRequest) engine.PlanEnvelope {
		if q.Reason == "message" {
			return propose(q)
		}
		return decide(q, engine.DecideAskUser, "what now?")
	}
	x.accept("m1")
	x.tick()
	o := x.objective()
	var fresh atomic.Int64
	answers := make([]engine.Answer, 8)
	var wg sync.WaitGroup
	for i := range answers {
		s := x.service(nil)
		wg.Go(func() {
			a, err := s.Pause(context.Background(), tenant, room, order("k"), o.ID, o.ControlRevision)
			if err != nil {
				t.Error(err)
			}
			if !a.Repeated {
				fresh.Add(1)
			}
			a.Repeated = false
			answers[i] = a
		})
	}
	wg.Wait()
	for _, a := range answers[1:] {
		if diff := cmp.Diff(answers[0], a); diff != "" {
			t.Error(diff)
		}
	}
	if now := x.objective(); now.Status != planner.StatusPaused || now.ControlRevision != o.ControlRevision+1 {
		t.Errorf("%d orders took effect: %+v", fresh.Load(), now)
	}
	rev := x.look().Rev
	_, err := x.s.Cancel(t.Context(), tenant, room, order("k"), o.ID, o.ControlRevision)
	want(t, err, engine.CodeConflict)
	if x.look().Rev != rev {
		t.Error("a key used twice was recorded")
	}
}

// Money: a grant adds exactly its difference, acknowledges overruns, and lets
// the room go on (R39, R40, R64).
func TestR40_AGrantLetsTheRoomGoOn(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	x := begin(t, func(d *host.Definition) { d.BudgetMicros = 2_500 })
	grant := func(key string, total int64, acks ...string) (engine.Answer, error) {
		return x.s.GrantBudget(ctx, tenant, room, order(key), total, acks)
	}
	x.accept("m1")
	x.tick()
	if diff := cmp.Diff([]string{"plan coordinator"}, x.h.calls()); diff != "" {
		t.Fatal(diff)
	}
	if o := x.objective(); len(o.BlockedBy) != 1 || o.BlockedBy[0] != planner.BlockedByBudget {
		t.Errorf("%+v", o.BlockedBy)
	}
	_, err := grant("low", 500)
	want(t, err, engine.CodeConflict)
	_, err = grant("negative", -1)
	want(t, err, engine.CodeValidation)
	_, err = grant("nothing to acknowledge", 9_000, "op_x")
	want(t, err, engine.CodeNotFound)
	if m := x.look().Money; m.Limit != 2_500 {
		t.Fatalf("refused grants changed the limit: %+v", m)
	}
	dear := int64(7_000)
	x.h.during = func(_ context.Context, c host.Call) (*host.Result, error) {
		if c.Participant != "clerk" {
			return nil, nil
		}
		r, err := host.Reply(engine.TurnReply{Status: engine.StatusDone, Text: "list"}, dear)
		return &r, err
	}
	if a, err := grant("g1", 9_000); err != nil || a.Code != "" {
		t.Fatal(a, err)
	}
	x.tick()
	v := x.look()
	if !v.Halted || len(v.Operations) != 1 || !v.Operations[0].Overrun || v.Money.Charged != 8_000 {
		t.Fatalf("%+v", v)
	}
	if diff := cmp.Diff([]string{"plan coordinator", "turn clerk"}, x.h.calls()); diff != "" {
		t.Fatal(diff)
	}
	_, err = grant("g2", 20_000)
	x.must(err)
	if v := x.look(); !v.Halted || v.Money.Limit != 20_000 {
		t.Errorf("a grant that acknowledges nothing ended the halt: %+v", v.Money)
	}
	_, err = grant("g3", 20_000, v.Operations[0].Op)
	x.must(err)
	if _, err = grant("g3", 20_000, v.Operations[0].Op); err != nil {
		t.Errorf("again: %v", err)
	}
	x.tick()
	if diff := cmp.Diff(wholeRun, x.h.calls()); diff != "" {
		t.Error(diff)
	}
	if v := x.look(); v.Halted || v.Money.Charged != 8_110 || v.Money.Limit != 20_000 {
		t.Errorf("%+v", v.Money)
	}
	x.h.once(t)
}

// Every code that an order can be answered with (R69, R70).
func TestR70_OrdersAreRefusedWithCodes(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	x := begin(t)
	x.h.propose = func(q engine.PlanRequest) engine.PlanEnvelope {
		if q.Reason == "message" {
			return twoSteps(q, "clerk", "editor")
		}
		return decide(q, engine.DecideAskUser, "what now?")
	}
	x.h.execute = func(host.Call) engine.TurnReply {
		return engine.TurnReply{Status: engine.StatusBlocked, Text: "no access"}
	}
	x.accept("m1")
	x.tick()
	o := x.objective()
	rev := x.look().Rev
	_, err := x.s.Pause(ctx, tenant, room, host.Order{Key: "k", Caller: "eve"}, o.ID, 0)
	want(t, err, engine.CodeForbidden)
	_, err = x.s.Pause(ctx, tenant, room, host.Order{Caller: "session-of-ana"}, o.ID, 0)
	want(t, err, engine.CodeValidation)
	if x.look().Rev != rev {
		t.Error("what nobody may order was recorded")
	}
	_, err = x.s.Pause(ctx, tenant, room, order("k1"), "obj_none", 0)
	want(t, err, engine.CodeNotFound)
	_, err = x.s.Pause(ctx, tenant, room, order("k2"), o.ID, 9)
	want(t, err, engine.CodeStaleRevision)
	_, err = x.s.Pause(ctx, tenant, room, order("k2"), o.ID, 9) // the same answer
	want(t, err, engine.CodeStaleRevision)
	_, err = x.s.Resume(ctx, tenant, room, order("k3"), o.ID, 0)
	want(t, err, engine.CodeInvalidTransition)
	_, err = x.s.Readmit(ctx, tenant, room, order("k4"), "op_none", 0)
	want(t, err, engine.CodeNotFound)
	settled := ""
	for op := range x.h.made {
		settled = op
	}
	_, err = x.s.Reconcile(ctx, tenant, room, order("k5"), settled)
	want(t, err, engine.CodeConflict)
	a, err := x.s.Cancel(ctx, tenant, room, order("k6"), o.ID, 0)
	if err != nil || a.Status != string(planner.StatusCancelled) {
		t.Errorf("%+v %v", a, err)
	}
	_, err = x.s.Resume(ctx, tenant, room, order("k7"), o.ID, 1)
	want(t, err, engine.CodeInvalidTransition)
}

// A call that was cut short without a word is asked about: proof that nothing
// was done releases its hold, the reply itself counts as if it had come, and
// without either the outcome is unknown (R43, R47).
func TestR43_WhatACutCallCameToIsAskedFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		evidence host.Evidence
		money    engine.Money
	}{
		"not executed": {host.Evidence{Outcome: engine.ReconciledNotExecuted, Proof: "closed before the request"}, engine.Money{Charged: 1_000}},
		"executed":     {host.Evidence{Outcome: engine.ReconciledExecuted, Micros: ptr(500), Proof: "log", Result: &host.Result{Failed: "stopped half-way"}}, engine.Money{Charged: 1_500}},
		"nobody knows": {host.Evidence{}, engine.Money{Charged: 1_000, Held: 2_000, Unknown: 2_000}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := begin(t)
			g := newGate("turn")
			x.h.during = func(ctx context.Context, call host.Call) (*host.Result, error) {
				if r, err := g.during(ctx, call); r == nil || err != nil {
					return r, err
				}
				return nil, context.Cause(ctx)
			}
			x.h.evidence = func(host.Operation) (host.Evidence, error) { return c.evidence, nil }
			x.accept("m1")
			wait := x.ticking(t.Context(), x.s)
			within(t, g.entered)
			o := x.objective()
			if _, err := x.s.Pause(t.Context(), tenant, room, order("p"), o.ID, 0); err != nil {
				t.Fatal(err)
			}
			if done, err := wait(); err != nil || done.Aborted != 1 {
				t.Fatal(done, err)
			}
			c.money.Limit = 1_000_000
			if diff := cmp.Diff(c.money, x.look().Money); diff != "" {
				t.Error(diff)
			}
			x.h.once(t)
		})
	}
}
