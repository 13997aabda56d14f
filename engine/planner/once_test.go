package planner

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/room"
)

func onceSpec() Spec {
	s := testSpec()
	s.Once = true
	return s
}

// inDoubt plays a room to a task whose call is of unknown outcome and returns
// the operation.
func inDoubt(t *testing.T, steps ...engine.PlanStep) (*driver, string) {
	t.Helper()
	d := planned(t, onceSpec(), steps...)
	op := engine.OperationID("room", d.call("keeper").Key)
	d.end("keeper", engine.EvModelUnknown)
	return d, op
}

func (d *driver) reconcile(key, op, outcome string) engine.Answer {
	d.t.Helper()
	return d.command(key, engine.CommandRequest{Kind: engine.CommandReconcile, Op: op}, &engine.CommandFound{Outcome: outcome})
}

// calledBy are the operations an agent was ever asked for.
func (d *driver) calledBy(agent string) int {
	n := 0
	for _, c := range d.calls {
		if c.Agent == agent {
			n++
		}
	}
	return n
}

func (d *driver) fix() TaskView { return d.m.View().Objectives[0].Tasks[0] }

// R45, R66: one call of unknown outcome holds its task: not failed, not asked
// again, not planned anew, nothing verified over it. Work beside it goes on,
// and its failure waits with its plan for the doubt to end.
func TestR66_ATaskInDoubtIsHeld(t *testing.T) {
	t.Parallel()
	other := with(fixStep(), func(s *engine.PlanStep) {
		s.Key, s.Participant, s.Tools, s.ActionLevel = "other", "writer", nil, "read"
	})
	d, op := inDoubt(t, fixStep(), other, reportStep("fix", "other"))
	if diff := cmp.Diff([]string{op}, d.fix().Unknown); diff != "" || d.fix().Status != string(room.TaskRunning) {
		t.Fatal(diff, d.fix())
	}
	d.finish("writer", engine.StatusBlocked, "I cannot") // a reason to plan anew, but for the doubt
	if len(d.open) != 0 || d.calledBy("keeper") != 1 || d.count(engine.OpInterpret) != 1 || d.count(engine.OpReview) != 0 {
		t.Fatal(d.lines())
	}
	d.message("writer", engine.MsgProposal, "let us start again") // not the owner's word
	if len(d.open) != 0 {
		t.Fatal("a participant had work in doubt planned anew", d.lines())
	}
	if v := d.m.View().Objectives[0]; v.Status != StatusActive || cmp.Diff([]string{BlockedByUncertain}, v.BlockedBy) != "" {
		t.Fatal(v.Status, v.BlockedBy)
	}
	if a := d.reconcile("0", op, ""); a.Code != engine.CodeUncertain || len(d.open) != 0 || len(d.fix().Unknown) != 1 {
		t.Fatalf("without evidence something moved: %+v %v", a, d.lines())
	}
}

// R47: proof that the call was not made lets the same task go on, in a new
// operation; a pause holds it like any other work.
func TestR47_ProofOfNoCallRunsTheSameTask(t *testing.T) {
	t.Parallel()
	for _, paused := range []bool{false, true} {
		d, op := inDoubt(t, fixStep(), reportStep("fix"))
		task, id := d.fix().ID, d.objective().ID
		if paused {
			d.command("p", engine.CommandRequest{Kind: engine.CommandPause, Objective: id}, nil)
		}
		if a := d.reconcile("k", op, engine.ReconciledNotExecuted); a.Code != "" {
			t.Fatalf("%+v", a)
		}
		if paused {
			if len(d.open) != 0 {
				t.Fatal("work went on during a pause", d.lines())
			}
			d.command("r", engine.CommandRequest{Kind: engine.CommandResume, Objective: id, Expected: 1}, nil)
		}
		c := d.call("keeper")
		if c.Task != task || engine.OperationID("room", c.Key) == op || d.objective().Plan.Version != 1 || len(d.m.View().Objectives[0].BlockedBy) != 0 {
			t.Fatal(c, d.lines())
		}
		d.finish("keeper", engine.StatusDone, "fixed")
		d.finish("writer", engine.StatusDone, "i-17 is fixed")
		d.verdict("auditor", "met", "met")
		if d.m.View().Objectives[0].Status != StatusCompleted {
			t.Fatal(d.lines())
		}
	}
}

// R47, R66: proof that the call was made ends the doubt; the call is not made
// again by itself, and the reasoner is told what is known.
func TestR47_ProofOfACallIsPlannedFor(t *testing.T) {
	t.Parallel()
	d, op := inDoubt(t, fixStep(), reportStep("fix"))
	if a := d.reconcile("k", op, engine.ReconciledExecuted); a.Code != "" {
		t.Fatalf("%+v", a)
	}
	q := d.shown()
	if p := q.Progress[0]; q.Reason != "task_failed" || p.Status != string(room.TaskFailed) || !strings.Contains(p.Result, "was made") {
		t.Fatalf("%+v", q)
	}
	if d.calledBy("keeper") != 1 || d.count(engine.OpInterpret) != 2 {
		t.Fatal(d.lines())
	}
}

// R44, R47: the reply that the evidence has is used as if it had come in time,
// and the lost operation is the receipt; during a pause nothing starts by it.
func TestR47_AProvenReplyIsUsed(t *testing.T) {
	t.Parallel()
	d, op := inDoubt(t, fixStep(), reportStep("fix"))
	id := d.objective().ID
	d.command("p", engine.CommandRequest{Kind: engine.CommandPause, Objective: id}, nil)
	a := d.command("k", engine.CommandRequest{Kind: engine.CommandReconcile, Op: op}, &engine.CommandFound{
		Outcome: engine.ReconciledExecuted, Reply: &engine.ModelReply{Text: engine.Plain(`{"status":"done","text":"fixed it"}`)},
	})
	if a.Code != "" || len(d.open) != 0 || d.fix().Status != string(room.TaskCompleted) || d.m.st.Tasks[d.fix().ID].Receipt.Op != op {
		t.Fatalf("%+v %+v %v", a, d.fix(), d.lines())
	}
	d.command("r", engine.CommandRequest{Kind: engine.CommandResume, Objective: id, Expected: 1}, nil)
	if c := d.call("writer"); !strings.Contains(c.Request.Messages[0].Text.S, "fixed it") || d.calledBy("keeper") != 1 {
		t.Fatal(d.lines())
	}
	d.finish("writer", engine.StatusDone, "i-17 is fixed")
	d.verdict("auditor", "met", "met")
	if d.m.View().Objectives[0].Status != StatusCompleted {
		t.Fatal(d.lines())
	}
}

// R66: the owner decides. What he says is read over the doubt, the reasoner
// sees it as what it is, and a new plan is work of a new identity; the old
// call's task has lost its authority and its proof moves nothing.
func TestR66_TheOwnerDecidesADoubt(t *testing.T) {
	t.Parallel()
	d, op := inDoubt(t, fixStep(), reportStep("fix"))
	d.owner(engine.MsgCorrection, "do it again, it was never done")
	if p := d.shown().Progress[0]; p.Step != "fix" || p.Status != TaskUncertain || !strings.Contains(p.Result, "unknown") {
		t.Fatalf("%+v", p)
	}
	d.plan(revise(d.keep("fix"), reportStep("fix")))
	if got := d.shown().Feedback; len(got) != 1 || got[0].Code != IssueReuse {
		t.Fatal("work in doubt was kept as done", got)
	}
	d.plan(revise(fixStep(), reportStep("fix")))
	if c := d.call("keeper"); d.objective().Plan.Version != 2 || !strings.HasSuffix(c.Task, ":2:fix") {
		t.Fatal(d.lines())
	}
	open := len(d.open)
	d.reconcile("k", op, engine.ReconciledNotExecuted)
	if len(d.open) != open || d.calledBy("keeper") != 2 {
		t.Fatal("a superseded call's proof moved something", d.lines())
	}
}

// R66: after a call that was known to fail a lost one is a doubt all the same,
// and not a failure that leads to a plan.
func TestR66_FailedAndLostIsADoubt(t *testing.T) {
	t.Parallel()
	d := planned(t, onceSpec(), fixStep(), reportStep("fix"))
	d.end("keeper", engine.EvModelFailed)
	d.end("keeper", engine.EvModelFailed)
	d.end("keeper", engine.EvModelUnknown)
	if d.notes(NoteReplan) != 0 || d.calledBy("keeper") != 3 || len(d.open) != 0 || len(d.fix().Unknown) != 1 {
		t.Fatal(d.lines())
	}
	// Lost and failed alone: what failed for certain is asked again, as before.
	d = planned(t, onceSpec(), fixStep(), reportStep("fix"))
	d.end("keeper", engine.EvModelFailed)
	d.finish("keeper", engine.StatusDone, "fixed")
	if d.fix().Status != string(room.TaskCompleted) {
		t.Fatal(d.lines())
	}
}

// R45: the outcome of a call that a pause overtook is held first; readmitted,
// it is the doubt that it was, and no call.
func TestR45_AHeldUnknownOutcomeIsADoubt(t *testing.T) {
	t.Parallel()
	d := planned(t, onceSpec(), fixStep(), reportStep("fix"))
	id, op := d.objective().ID, engine.OperationID("room", d.call("keeper").Key)
	d.command("p", engine.CommandRequest{Kind: engine.CommandPause, Objective: id}, nil)
	d.end("keeper", engine.EvModelUnknown)
	d.command("r", engine.CommandRequest{Kind: engine.CommandResume, Objective: id, Expected: 1}, nil)
	a := d.command("a", engine.CommandRequest{Kind: engine.CommandReadmit, Op: op, Expected: 2}, nil)
	if a.Code != "" || len(d.open) != 0 || d.calledBy("keeper") != 1 || len(d.fix().Unknown) != 1 {
		t.Fatalf("%+v %v", a, d.lines())
	}
}
