package host_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/host"
	"github.com/agentrooms/qualify/engine/planner"
	"github.com/agentrooms/qualify/engine/store"
)

// doubtful is a room whose clerk's first call timed out, worked to rest by two
// services and after an hour once more, and the operation in doubt.
func doubtful(t *testing.T) (*scene, string) {
	t.Helper()
	x := begin(t)
	asked := 0
	x.h.during = func(_ context.Context, c host.Call) (*host.Result, error) {
		x.h.mu.Lock()
		defer x.h.mu.Unlock()
		if c.Participant == "clerk" {
			if asked++; asked == 1 {
				return nil, errors.New("time-out")
			}
		}
		return nil, nil
	}
	x.accept("m1")
	x.tick()
	x.s = x.service(func(c *host.Config) { c.Process = "another" })
	x.clock.pass(time.Hour)
	x.tick()
	v := x.look()
	if len(v.Operations) != 1 || v.Operations[0].Status != store.OpUncertain || v.Money.Unknown != 2_000 {
		t.Fatalf("%+v %+v", v.Operations, v.Money)
	}
	return x, v.Operations[0].Op
}

// R45, R66: an executor's call of unknown outcome is never made again, under
// whatever operation id, by no tick, process or time; its hold stays, and its
// owner is told which operation it is.
func TestR66_AnExecutorsLostCallIsNotMadeAgain(t *testing.T) {
	t.Parallel()
	x, op := doubtful(t)
	if diff := cmp.Diff([]string{"plan coordinator", "turn clerk"}, x.h.calls()); diff != "" {
		t.Error(diff)
	}
	o := x.objective()
	if o.Status != planner.StatusActive || o.Plan.Version != 1 || !slices.Equal(o.BlockedBy, []string{planner.BlockedByUncertain}) || !slices.Equal(o.Tasks[0].Unknown, []string{op}) {
		t.Errorf("%+v", o)
	}
	_, err := x.s.Reconcile(t.Context(), tenant, room, order("k"), op) // no evidence
	want(t, err, engine.CodeUncertain)
	x.tick()
	if n := len(x.h.calls()); n != 2 || x.look().Money.Unknown != 2_000 {
		t.Errorf("%d calls, %+v", n, x.look().Money)
	}
}

// R45, R47: the proof decides how the work goes on: what was not executed runs
// in the same task; of what was executed the reply is used, and where it is
// lost a plan follows that knows of it.
func TestR45_ProofDecidesALostCall(t *testing.T) {
	t.Parallel()
	reply, err := host.Reply(engine.TurnReply{Status: engine.StatusDone, Text: "from the log"}, 321)
	if err != nil {
		t.Fatal(err)
	}
	lost := []string{"plan coordinator", "turn clerk", "plan coordinator", "turn clerk", "turn editor", "review auditor"}
	for name, want := range map[string]struct {
		outcome string
		result  *host.Result
		version int
		calls   []string
		charged int64
	}{
		"not executed":          {engine.ReconciledNotExecuted, nil, 1, []string{"plan coordinator", "turn clerk", "turn clerk", "turn editor", "review auditor"}, 1_210},
		"executed, reply known": {engine.ReconciledExecuted, &reply, 1, wholeRun, 1_110 + 321},
		"executed, reply lost":  {engine.ReconciledExecuted, nil, 2, lost, 2_210 + 321},
		"executed, and failed":  {engine.ReconciledExecuted, &host.Result{Failed: "out of memory"}, 2, lost, 2_210 + 321},
		"executed, unreadable":  {engine.ReconciledExecuted, &host.Result{Text: "well"}, 2, lost, 2_210 + 321},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x, op := doubtful(t)
			x.h.evidence = func(host.Operation) (host.Evidence, error) {
				e := host.Evidence{Outcome: want.outcome, Proof: "the server's log", Result: want.result}
				if want.outcome == engine.ReconciledExecuted {
					e.Micros = ptr(321)
				}
				return e, nil
			}
			if _, err := x.s.Reconcile(t.Context(), tenant, room, order("k"), op); err != nil {
				t.Fatal(err)
			}
			x.tick()
			if diff := cmp.Diff(want.calls, x.h.calls()); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(engine.Money{Limit: 1_000_000, Charged: want.charged}, x.look().Money); diff != "" {
				t.Error(diff)
			}
			if o := x.objective(); o.Status != planner.StatusCompleted || o.Plan.Version != want.version || len(o.BlockedBy) != 0 {
				t.Errorf("%+v", o)
			}
			x.h.once(t)
		})
	}
}

// R47: an order that was cut short after the money was settled still gets the
// work its reply.
func TestR47_ASettledCallStillGivesItsReply(t *testing.T) {
	t.Parallel()
	x, op := doubtful(t)
	reply, err := host.Reply(engine.TurnReply{Status: engine.StatusDone, Text: "from the log"}, 321)
	x.must(err)
	x.h.evidence = func(host.Operation) (host.Evidence, error) {
		return host.Evidence{Outcome: engine.ReconciledExecuted, Micros: ptr(321), Proof: "log", Result: &reply}, nil
	}
	whole := x.store
	x.store = contested{whole, 0}
	_, err = x.service(nil).Reconcile(t.Context(), tenant, room, order("k"), op)
	x.store = whole
	want(t, err, engine.CodeConflict)
	if m := x.look().Money; m.Unknown != 0 || m.Charged != 1_321 {
		t.Errorf("%+v", m)
	}
	if _, err := x.s.Reconcile(t.Context(), tenant, room, order("k"), op); err != nil {
		t.Fatal(err)
	}
	x.tick()
	if diff := cmp.Diff(wholeRun, x.h.calls()); diff != "" {
		t.Error(diff)
	}
}

// R47: a reply that comes with the word that the call was not executed is none,
// also where another process has settled the call as executed meanwhile.
func TestR47_OnlyAnExecutedCallHasAReply(t *testing.T) {
	t.Parallel()
	x, op := doubtful(t)
	reply, err := host.Reply(engine.TurnReply{Status: engine.StatusDone, Text: "of another call"}, 321)
	x.must(err)
	rooms, err := x.store.ListRooms(t.Context(), "")
	x.must(err)
	x.h.evidence = func(host.Operation) (host.Evidence, error) {
		quicker := store.Reconciliation{Executed: true, Proof: "the server's log", ChargedMicros: 321, UsageSource: "actual"}
		err := x.store.Reconcile(t.Context(), rooms[0].Room, op, quicker)
		return host.Evidence{Outcome: engine.ReconciledNotExecuted, Proof: "an old log", Result: &reply}, err
	}
	if _, err := x.s.Reconcile(t.Context(), tenant, room, order("k"), op); err != nil {
		t.Fatal(err)
	}
	x.tick()
	if diff := cmp.Diff([]string{"plan coordinator", "turn clerk", "plan coordinator", "turn clerk", "turn editor", "review auditor"}, x.h.calls()); diff != "" {
		t.Error(diff)
	}
}

// R66: the owner's correction decides too: a new plan, new work, and the old
// hold stays until proof comes.
func TestR66_TheOwnerMayOrderTheWorkAnew(t *testing.T) {
	t.Parallel()
	x, _ := doubtful(t)
	x.h.propose = func(q engine.PlanRequest) engine.PlanEnvelope {
		env := twoSteps(q, "clerk", "editor")
		env.Decision = engine.DecideRevisePlan
		return env
	}
	x.h.post("m2", "ana", engine.MsgCorrection, "nothing was done; do it again")
	x.accept("m2")
	x.tick()
	if o := x.objective(); o.Status != planner.StatusCompleted || o.Plan.Version != 2 {
		t.Errorf("%+v", o)
	}
	if m := x.look().Money; m.Unknown != 2_000 || m.Held != 2_000 || m.Charged != 2_210 {
		t.Errorf("%+v", m)
	}
	x.h.once(t)
}
