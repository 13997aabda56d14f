package host_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/host"
	"github.com/agentrooms/qualify/engine/planner"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
)

var wholeRun = []string{"plan coordinator", "turn clerk", "turn editor", "review auditor"}

func TestR65_TickWorksTheRoomToRest(t *testing.T) {
	t.Parallel()
	x := begin(t)
	x.accept("m1")
	done := x.tick()
	if done.Busy || done.More || done.Calls != 4 || done.Aborted != 0 || done.Rev != x.look().Rev {
		t.Errorf("%+v", done)
	}
	if diff := cmp.Diff(wholeRun, x.h.calls()); diff != "" {
		t.Error(diff)
	}
	v := x.look()
	if v.Planner.Objectives[0].Status != planner.StatusCompleted || v.Planner.Claim != "coordinator" || len(v.Operations) != 0 || v.Undelivered != 0 {
		t.Errorf("%+v", v.Planner)
	}
	if diff := cmp.Diff(engine.Money{Limit: 1_000_000, Charged: 1_210}, v.Money); diff != "" {
		t.Error(diff)
	}
	before := v.Rev
	if again := x.tick(); again.Events != 0 || again.Calls != 0 || x.look().Rev != before {
		t.Errorf("a tick of a room at rest did %+v", again)
	}
	x.h.once(t)
}

// One tick does no more than its bound; the next goes on.
func TestR65_ATickIsBounded(t *testing.T) {
	t.Parallel()
	x := begin(t)
	x.s = x.service(func(c *host.Config) { c.Events = 1 })
	x.accept("m1")
	ticks := 0
	for x.tick().More {
		if ticks++; ticks > 50 {
			t.Fatal("no rest")
		}
	}
	if ticks < 3 {
		t.Errorf("%d ticks", ticks)
	}
	if diff := cmp.Diff(wholeRun, x.h.calls()); diff != "" {
		t.Error(diff)
	}
	x.h.once(t)
}

// Two services, as of two processes, accept and tick at once, again and again.
// One works, the other is told who does; every operation is called once, and
// everything that was accepted is answered.
func TestR65_TwoServicesTickOneRoom(t *testing.T) {
	t.Parallel()
	x := begin(t)
	x.h.propose = func(q engine.PlanRequest) engine.PlanEnvelope {
		return decide(q, engine.DecideAnswer, "to "+q.Messages[len(q.Messages)-1].ID)
	}
	const n = 12
	var wg sync.WaitGroup
	for k := range 2 {
		s := x.service(func(c *host.Config) { c.Lease = 30 * time.Millisecond; c.Process = []string{"one", "two"}[k] })
		ids := make([]string, n)
		for i := range ids {
			ids[i] = "q" + string(rune('a'+k)) + string(rune('a'+i))
			x.h.post(ids[i], "ana", engine.MsgRequest, "question "+ids[i])
		}
		wg.Go(func() {
			for _, id := range ids {
				if _, err := s.AcceptEvent(context.Background(), tenant, room, id); err != nil {
					t.Error(err)
				}
				done, err := s.Tick(context.Background(), tenant, room)
				if err != nil {
					t.Error(err)
				}
				if done.Busy && done.Holder == "" {
					t.Error("nobody is said to have the room")
				}
			}
		})
	}
	wg.Wait()
	v := x.look()
	if len(v.Planner.Inbox) != 0 || len(v.Operations) != 0 || v.Undelivered != 0 {
		t.Errorf("something was left undone: %+v, %+v", v.Planner.Inbox, v.Operations)
	}
	x.h.once(t)
}

// A proposal's errors are recorded outcomes and never errors of Tick (R70).
func TestR70_ProposalsAreNoErrorsOfTick(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(x *scene)
		calls []string
	}{
		"no envelope": {func(x *scene) {
			x.h.propose = func(engine.PlanRequest) engine.PlanEnvelope { return engine.PlanEnvelope{} }
		}, []string{"plan coordinator", "plan coordinator", "plan coordinator"}},
		"a stranger in the plan": {func(x *scene) {
			x.h.propose = func(q engine.PlanRequest) engine.PlanEnvelope { return twoSteps(q, "eve", "editor") }
		}, []string{"plan coordinator"}},
		"failing calls": {func(x *scene) {
			x.h.during = func(context.Context, host.Call) (*host.Result, error) { return &host.Result{Failed: "busy"}, nil }
		}, []string{"plan coordinator", "plan coordinator", "plan coordinator"}},
		"no call was made": {func(x *scene) {
			x.h.during = func(context.Context, host.Call) (*host.Result, error) { return nil, host.ErrNotMade }
		}, []string{"plan coordinator", "plan coordinator", "plan coordinator"}},
		"a lost reply": {func(x *scene) {
			x.h.during = func(context.Context, host.Call) (*host.Result, error) { return nil, errors.New("time-out") }
		}, []string{"plan coordinator"}},
		"a panic": {func(x *scene) {
			x.h.during = func(context.Context, host.Call) (*host.Result, error) { panic("boom") }
		}, []string{"plan coordinator"}},
		"no bound":        {func(x *scene) { x.h.bounds = -1 }, nil},
		"beyond the room": {func(x *scene) { x.h.bounds = 2_000_000 }, nil},
		"an invalid review": {func(x *scene) {
			x.h.review = func(engine.ReviewRequest) engine.ReviewReply { return engine.ReviewReply{} }
		}, []string{"plan coordinator", "turn clerk", "turn editor", "review auditor", "review auditor"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := begin(t)
			c.spoil(x)
			x.accept("m1")
			x.tick()
			if diff := cmp.Diff(c.calls, x.h.calls()); diff != "" {
				t.Error(diff)
			}
			if v := x.look(); v.Planner.Claim != "" {
				t.Error("claimed all the same")
			}
			x.h.once(t)
		})
	}
}

// What calls cost: the actual where it is known, the bound where it is not,
// nothing where provably nothing was done, the hold where nobody knows.
func TestR38_MissingCostsAreChargedAtTheBound(t *testing.T) {
	t.Parallel()
	dear, none := int64(5_000), int64(0)
	for name, c := range map[string]struct {
		res  *host.Result
		err  error
		want engine.Money
		halt bool
	}{
		"missing":  {res: &host.Result{Failed: "busy"}, want: engine.Money{Charged: 3 * 2_000}},
		"nothing":  {res: &host.Result{Failed: "busy", Micros: &none}, want: engine.Money{}},
		"not made": {err: host.ErrNotMade, want: engine.Money{}},
		"unknown":  {err: errors.New("time-out"), want: engine.Money{Held: 2_000, Unknown: 2_000}},
		"overrun":  {res: &host.Result{Failed: "busy", Micros: &dear}, want: engine.Money{Charged: 5_000}, halt: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := begin(t)
			x.h.during = func(context.Context, host.Call) (*host.Result, error) { return c.res, c.err }
			x.accept("m1")
			x.tick()
			v := x.look()
			c.want.Limit = 1_000_000
			if diff := cmp.Diff(c.want, v.Money); diff != "" || v.Halted != c.halt {
				t.Errorf("halted %t\n%s", v.Halted, diff)
			}
			x.h.once(t)
		})
	}
}

// Authority is read again at dispatch: whoever lost it in between is not
// called, and nothing is charged (R12).
func TestR12_ARevokedSpecialistIsNotCalled(t *testing.T) {
	t.Parallel()
	x := begin(t)
	propose := x.h.propose
	x.h.propose = func(q engine.PlanRequest) engine.PlanEnvelope {
		if q.Reason != "message" {
			return decide(q, engine.DecideWait, "")
		}
		return propose(q)
	}
	// The clerk is allowed at the commit that admits the plan and reserves its
	// first call, and gone at the dispatch.
	commits := x.store
	x.store = &watching{Store: commits, committed: func(c *store.Commit) {
		for i := range c.Ops {
			if c.Ops[i].Agent == "clerk" {
				x.h.allow("auditor", "editor", "second")
			}
		}
	}}
	x.s = x.service(nil)
	x.accept("m1")
	x.tick()
	for _, call := range x.h.calls() {
		if call == "turn clerk" {
			t.Error("a revoked specialist was called")
		}
	}
	if v := x.look(); v.Money.Held != 0 || v.Money.Charged != int64(1_000*len(x.h.calls())) {
		t.Errorf("%+v after %v", v.Money, x.h.calls())
	}
}

// watching tells a test about commits, after they were made.
type watching struct {
	host.Store
	committed func(c *store.Commit)
}

func (w *watching) Commit(ctx context.Context, c store.Commit) (*store.Committed, error) {
	done, err := w.Store.Commit(ctx, c)
	if err == nil {
		w.committed(&c)
	}
	return done, err
}

// Notifications come at least once, in order, under stable ids; an author who
// lost its authority is delivered without words (R12, R57).
func TestR57_NotificationsComeAtLeastOnce(t *testing.T) {
	t.Parallel()
	x := begin(t)
	fails := 2
	x.h.deliver = func(host.Notification) error {
		if fails > 0 {
			fails--
			return errors.New("mail server down")
		}
		return nil
	}
	x.h.propose = func(q engine.PlanRequest) engine.PlanEnvelope {
		return decide(q, engine.DecideAnswer, "to "+q.Messages[len(q.Messages)-1].ID)
	}
	x.accept("m1")
	x.tick()
	x.h.post("m2", "ana", engine.MsgRequest, "and?")
	x.accept("m2")
	x.tick()
	if v := x.look(); v.Undelivered != 0 {
		t.Fatalf("%d notifications left", v.Undelivered)
	}
	var got []string
	for _, n := range x.h.sayings {
		got = append(got, n.Text)
	}
	if diff := cmp.Diff([]string{"to m1", "to m1", "to m1", "to m2"}, got); diff != "" {
		t.Error(diff)
	}
	ids := map[string]string{}
	for _, n := range x.h.sayings {
		if had, ok := ids[n.ID]; ok && had != n.Text || n.Room != here || n.From != "coordinator" {
			t.Errorf("%+v", n)
		}
		ids[n.ID] = n.Text
	}
	if len(ids) != 2 {
		t.Errorf("ids %v", ids)
	}
}

func TestR57_ACrashAfterDeliveryBringsTheSameIDAgain(t *testing.T) {
	t.Parallel()
	x := begin(t)
	crash := &runtime.Crash{Hook: func(p runtime.Point) error {
		if p == runtime.AfterDelivery {
			return errors.New("power cut")
		}
		return nil
	}}
	dying := x.service(func(c *host.Config) { c.Crash = crash })
	x.accept("m1")
	if _, err := dying.Tick(t.Context(), tenant, room); err == nil || !strings.Contains(err.Error(), "power cut") {
		t.Fatal(err)
	}
	if done := x.tick(); !done.Busy || done.Holder != "test" {
		t.Fatalf("the lease of a dead process was not respected: %+v", done)
	}
	x.clock.pass(2 * time.Second)
	x.tick()
	if n := len(x.h.sayings); n != 2 || x.h.sayings[0].ID != x.h.sayings[1].ID || len(x.h.distinct) != 1 {
		t.Errorf("%+v", x.h.sayings)
	}
	x.h.once(t)
}

func TestR12_WhatAPersonWithoutAuthoritySaidIsWithheld(t *testing.T) {
	t.Parallel()
	x := begin(t)
	x.h.post("m2", "ana", engine.MsgRequest, "@clerk how many?")
	x.h.execute = func(host.Call) engine.TurnReply {
		return engine.TurnReply{Status: engine.StatusAnswer, Text: "eleven"}
	}
	x.store = &watching{Store: x.store, committed: func(c *store.Commit) { // between the commit and the delivery
		if len(c.Outbox) > 0 {
			x.h.allow("auditor", "editor", "second")
		}
	}}
	x.s = x.service(nil)
	x.accept("m2")
	x.tick()
	if len(x.h.sayings) != 1 || !x.h.sayings[0].Withheld || x.h.sayings[0].Text != "" || x.h.sayings[0].From != "clerk" {
		t.Errorf("%+v", x.h.sayings)
	}
}

// An Authority that cannot answer stops the work and changes nothing.
func TestR12_NobodyActsWhileAuthorityIsUnknown(t *testing.T) {
	t.Parallel()
	x := begin(t)
	x.accept("m1")
	x.h.authErr = errors.New("the directory is down")
	_, err := x.s.Tick(t.Context(), tenant, room)
	want(t, err, engine.CodeAdapter)
	if len(x.h.calls()) != 0 {
		t.Error(x.h.calls())
	}
	x.h.authErr = nil
	x.tick()
	if diff := cmp.Diff(wholeRun, x.h.calls()); diff != "" {
		t.Error(diff)
	}
}
