package host_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/host"
	"github.com/agentrooms/qualify/engine/planner"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
)

func TestR1_NewNamesTheMissingPort(t *testing.T) {
	t.Parallel()
	h := newHouse()
	for name, spoil := range map[string]func(*host.Config){
		"Store":     func(c *host.Config) { c.Store = nil },
		"Reasoner":  func(c *host.Config) { c.Ports.Reasoner = nil },
		"Executor":  func(c *host.Config) { c.Ports.Executor = nil },
		"Verifier":  func(c *host.Config) { c.Ports.Verifier = nil },
		"Authority": func(c *host.Config) { c.Ports.Authority = nil },
		"Events":    func(c *host.Config) { c.Ports.Events = nil },
		"Notifier":  func(c *host.Config) { c.Ports.Notifier = nil },
		"lease":     func(c *host.Config) { c.Lease = -1 },
		"events":    func(c *host.Config) { c.Events = -1 },
	} {
		cfg := host.Config{Store: memory.New(memory.Options{}), Ports: h.ports()}
		spoil(&cfg)
		_, err := host.New(cfg)
		want(t, err, engine.CodeValidation)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := host.New(host.Config{Store: memory.New(memory.Options{}), Ports: host.Ports{
		Reasoner: h, Executor: h, Verifier: h, Authority: h, Events: h, Notifier: h,
	}}); err != nil {
		t.Errorf("without a reconciler: %v", err)
	}
}

func TestR1_ThePlannerIsOptInPerRoom(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	x := begin(t)
	for _, r := range []host.Ref{{Tenant: tenant, Room: "other"}, {Tenant: "umbrella", Room: room}} {
		_, err := x.s.AcceptEvent(ctx, r.Tenant, r.Room, "m1")
		want(t, err, engine.CodeNotFound)
		_, err = x.s.RecordSpecialistProposal(ctx, r.Tenant, r.Room, "m1")
		want(t, err, engine.CodeNotFound)
		_, err = x.s.Tick(ctx, r.Tenant, r.Room)
		want(t, err, engine.CodeNotFound)
		_, err = x.s.Snapshot(ctx, r.Tenant, r.Room)
		want(t, err, engine.CodeNotFound)
		_, err = x.s.Pause(ctx, r.Tenant, r.Room, order("k"), "o", 0)
		want(t, err, engine.CodeNotFound)
	}
	for _, r := range []host.Ref{{"", room}, {tenant, ""}, {strings.Repeat("x", 201), room}, {tenant, "\xff"}} {
		_, err := x.s.AcceptEvent(ctx, r.Tenant, r.Room, "m1")
		want(t, err, engine.CodeValidation)
	}
	x.must(x.s.Open(ctx, tenant, room, definition())) // again
	d := definition()
	d.BudgetMicros++
	want(t, x.s.Open(ctx, tenant, room, d), engine.CodeConflict)
	d.Criteria = nil
	want(t, x.s.Open(ctx, tenant, "new", d), engine.CodeValidation)
	d = definition()
	d.Tools = []engine.ToolSpec{{Name: "look", Action: engine.ActionRead}, {Name: "look", Action: engine.ActionWrite}}
	want(t, x.s.Open(ctx, tenant, "new", d), engine.CodeValidation)
	d = definition()
	d.BudgetMicros = -1
	want(t, x.s.Open(ctx, tenant, "new", d), engine.CodeValidation)
	if _, err := x.s.Snapshot(ctx, tenant, "new"); engine.CodeOf(err) != engine.CodeNotFound {
		t.Errorf("a refused definition left a room: %v", err)
	}
}

// Names of tenants and rooms never run into each other.
func TestR65_TenantsAreIsolated(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	x := begin(t)
	refs := []host.Ref{{"a", "b/c"}, {"a/b", "c"}, {"a%2Fb", "c"}, {"A", "b"}, {"a", "b"}}
	for i, r := range refs {
		d := definition()
		d.BudgetMicros = int64(i)
		x.must(x.s.Open(ctx, r.Tenant, r.Room, d))
	}
	for tenant, want := range map[string][]string{"a": {"b", "b/c"}, "a/b": {"c"}, "a%2Fb": {"c"}, "A": {"b"}, "nobody": {}} {
		got, err := x.s.Rooms(ctx, tenant)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("rooms of %q: %v\n%s", tenant, err, diff)
		}
	}
	_, err := x.s.Rooms(ctx, "")
	want(t, err, engine.CodeValidation)
	for i, r := range refs {
		v, err := x.s.Snapshot(ctx, r.Tenant, r.Room)
		if err != nil || v.Money.Limit != int64(i) {
			t.Errorf("%+v: limit %d, %v", r, v.Money.Limit, err)
		}
	}
}

func TestR13_AuthorAndTextComeFromTheRecord(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	x := begin(t)
	_, err := x.s.AcceptEvent(ctx, tenant, room, "nowhere")
	want(t, err, engine.CodeNotFound)
	x.h.mail["theirs"] = host.Persisted{ID: "theirs", Room: host.Ref{Tenant: "umbrella", Room: room}, Author: "ana", Text: "x"}
	x.h.mail["else"] = host.Persisted{ID: "else", Room: host.Ref{Tenant: tenant, Room: "b"}, Author: "ana", Text: "x"}
	x.h.mail["alias"] = host.Persisted{ID: "m1", Room: here, Author: "ana", Text: "x"}
	x.h.post("stranger", "eve", engine.MsgRequest, "ana says: do it")
	for _, id := range []string{"theirs", "else", "alias", "stranger"} {
		_, err = x.s.AcceptEvent(ctx, tenant, room, id)
		want(t, err, engine.CodeForbidden)
	}
	x.h.post("odd", "ana", "decree", "x")
	x.h.post("start", "ana", engine.MsgRequest, "an id of the room's own must not look accepted")
	for _, id := range []string{"odd", "", "proposal:1", "command:k", "start", "ev/op_1", "timer/1", "\xff", strings.Repeat("x", 1_001)} {
		_, err = x.s.AcceptEvent(ctx, tenant, room, id)
		want(t, err, engine.CodeValidation)
	}
	for _, id := range []string{"", "\xff", strings.Repeat("x", 1_001)} {
		_, err = x.s.RecordSpecialistProposal(ctx, tenant, room, id)
		want(t, err, engine.CodeValidation)
		_, err = x.s.Pause(ctx, tenant, room, order(id), "obj_x", 0)
		want(t, err, engine.CodeValidation)
	}
	if v := x.look(); v.Rev != 0 || len(v.Planner.Inbox) != 0 {
		t.Fatalf("refused events left traces: %+v", v)
	}
	x.h.post("m2", "ana", "", "no type is a request")
	x.accept("m2")
	x.tick()
	shown := false
	x.h.propose = func(q engine.PlanRequest) engine.PlanEnvelope {
		shown = len(q.Messages) == 2 && q.Messages[1].From == "clerk" && q.Messages[1].Text == "I need the June list"
		return decide(q, engine.DecideNoop, "")
	}
	x.h.post("c1", "clerk", engine.MsgRequest, "I need the June list")
	x.accept("c1")
	x.tick()
	if !shown {
		t.Error("the reasoner was not shown the participant's message as recorded")
	}
	x.h.once(t)
}

// The same id is one inbox entry, whatever the record says by then, from any
// number of services at once (R14).
func TestR14_TheSameEventIsTakenOnce(t *testing.T) {
	t.Parallel()
	x := begin(t)
	var wg sync.WaitGroup
	var mu sync.Mutex
	fresh, seqs := 0, map[int64]bool{}
	for range 8 {
		s := x.service(nil)
		wg.Go(func() {
			a, err := s.AcceptEvent(t.Context(), tenant, room, "m1")
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			if !a.Again {
				fresh++
			}
			seqs[a.Seq] = true
		})
	}
	wg.Wait()
	if fresh != 1 || len(seqs) != 1 {
		t.Errorf("%d fresh entries at %v", fresh, seqs)
	}
	before := x.look()
	if n := len(before.Operations); n != 1 || before.Money.Held != 2_000 {
		t.Fatalf("%d operations, %+v", n, before.Money)
	}
	x.h.post("m1", "eve", engine.MsgCorrection, "forged later")
	if a := x.accept("m1"); !a.Again || !seqs[a.Seq] {
		t.Errorf("%+v", a)
	}
	if diff := cmp.Diff(before, x.look()); diff != "" {
		t.Error(diff)
	}
}

func TestR15_NamedParticipantsAreAskedWithoutReasoning(t *testing.T) {
	t.Parallel()
	x := begin(t)
	x.h.post("m2", "ana", engine.MsgRequest, "@clerk how many letters are there?")
	x.accept("m2")
	x.tick()
	if diff := cmp.Diff([]string{"turn clerk"}, x.h.calls()); diff != "" {
		t.Error(diff)
	}
}

func TestR16_OrdinaryAnswersNeedNoPlan(t *testing.T) {
	t.Parallel()
	x := begin(t)
	x.h.propose = func(q engine.PlanRequest) engine.PlanEnvelope { return decide(q, engine.DecideAnswer, "Eleven.") }
	x.accept("m1")
	x.tick()
	if v := x.look(); len(v.Planner.Objectives) != 0 || len(x.h.sayings) != 1 || x.h.sayings[0].Text != "Eleven." {
		t.Errorf("%+v %+v", v.Planner, x.h.sayings)
	}
	if diff := cmp.Diff([]string{"plan coordinator"}, x.h.calls()); diff != "" {
		t.Error(diff)
	}
}

func TestR18_AProposalNeedsARecordAndAuthorityNow(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	x := begin(t)
	record := func(id string) (host.Accepted, error) {
		return x.s.RecordSpecialistProposal(ctx, tenant, room, id)
	}
	_, err := record("p1")
	want(t, err, engine.CodeNotFound)
	_, err = record("")
	want(t, err, engine.CodeValidation)
	_, err = record("m1") // the owner's own
	want(t, err, engine.CodeForbidden)
	x.h.post("p1", "clerk", "", "create an objective: sort by date")
	x.h.allow("auditor", "editor", "second")
	_, err = record("p1")
	want(t, err, engine.CodeForbidden)
	if v := x.look(); v.Rev != 0 {
		t.Fatal("a refused proposal was recorded")
	}
	x.h.allow("auditor", "clerk", "editor", "second")
	a, err := record("p1")
	if err != nil || a.Again {
		t.Fatal(a, err)
	}
	if b, err := record("p1"); err != nil || !b.Again || b.Seq != a.Seq {
		t.Errorf("%+v %v", b, err)
	}
	// It is material, not a plan: it opens no objective (R17) and is no
	// correction of the owner's (R19).
	x.tick()
	v := x.look()
	if len(v.Planner.Objectives) != 0 || slices.Contains(x.h.calls(), "turn clerk") {
		t.Errorf("a proposal opened an objective: %+v", v.Planner)
	}
	// Authority that is gone when the proposal would be read is asked again.
	x.h.post("p2", "clerk", "", "sort by name")
	x.h.authErr = errors.New("the directory is down")
	_, err = record("p2")
	want(t, err, engine.CodeAdapter)
	x.h.once(t)
}

// An opening that was cut short after it had made the room is done anew, with
// the budget that is asked for now.
func TestR49_AnOpeningThatWasCutShortIsDoneAnew(t *testing.T) {
	t.Parallel()
	x := begin(t)
	x.must(x.store.CreateRoom(t.Context(), store.NewRoom{
		Room: "planner/acme/half", Money: engine.Money{Limit: 5}, Funds: store.FundsReal, Machine: planner.Version,
	}))
	if got, err := x.s.Rooms(t.Context(), tenant); err != nil || !slices.Equal(got, []string{room}) {
		t.Errorf("%v %v", got, err)
	}
	_, err := x.s.AcceptEvent(t.Context(), tenant, "half", "m1")
	want(t, err, engine.CodeNotFound)
	x.must(x.s.Open(t.Context(), tenant, "half", definition()))
	v, err := x.s.Snapshot(t.Context(), tenant, "half")
	if err != nil || v.Money.Limit != 1_000_000 {
		t.Errorf("%+v %v", v.Money, err)
	}
	x.must(x.s.Verify(t.Context(), tenant, "half"))
}

// Read and draft are the rule: a plan with another tool is not admitted unless
// the definition names the tool, and the executor is told which tools its step
// permits (R11).
func TestR11_ToolsAreReadAndDraftUnlessNamed(t *testing.T) {
	t.Parallel()
	for name, allowed := range map[string][]string{"not named": nil, "named": {"send"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := begin(t, func(d *host.Definition) {
				d.Tools = []engine.ToolSpec{{Name: "list", Action: engine.ActionRead}, {Name: "send", Action: engine.ActionWrite}}
				d.Agents[0].Tools = []string{"list", "send"}
				d.AllowWrite = allowed
			})
			x.h.propose = func(q engine.PlanRequest) engine.PlanEnvelope {
				env := twoSteps(q, "clerk", "editor")
				env.Plan[0].Tools, env.Plan[0].ActionLevel = []string{"list", "send"}, engine.ActionWrite
				return env
			}
			var tools []string
			x.h.execute = func(c host.Call) engine.TurnReply {
				for _, tool := range c.Tools {
					tools = append(tools, tool.Name)
				}
				return engine.TurnReply{Status: engine.StatusDone, Text: "done"}
			}
			x.accept("m1")
			x.tick()
			if allowed == nil {
				if diff := cmp.Diff([]string{"plan coordinator"}, x.h.calls()); diff != "" {
					t.Error(diff)
				}
				return
			}
			if diff := cmp.Diff(wholeRun, x.h.calls()); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff([]string{"list", "send"}, tools); diff != "" {
				t.Error(diff)
			}
		})
	}
}
