package planner

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/room"
)

func TestR33_TasksStartWhenTheirDependenciesAreComplete(t *testing.T) {
	t.Parallel()
	a := with(fixStep(), func(s *engine.PlanStep) { s.Key = "a" })
	b := with(fixStep(), func(s *engine.PlanStep) { s.Key = "b"; s.Participant = "writer"; s.Tools = []string{"note"} })
	c := with(fixStep(), func(s *engine.PlanStep) { s.Key = "c"; s.Participant = "auditor"; s.Tools = nil })
	d := planned(t, testSpec(), a, b, c, reportStep("a", "b"))
	// At most Parallel sessions; tasks that may not start do not exist.
	if diff := cmp.Diff([]string{"model keeper turn/v1", "model writer turn/v1"}, d.acts()); diff != "" || len(d.m.st.Tasks) != 2 {
		t.Fatal(diff, d.m.st.Tasks)
	}
	d.finish("writer", engine.StatusDone, "b is done")
	if diff := cmp.Diff([]string{"model auditor turn/v1"}, d.acts()); diff != "" {
		t.Fatal(diff)
	}
	d.finish("auditor", engine.StatusAnswer, "c is done")
	if len(d.acts()) != 0 {
		t.Fatal("the report started before its dependencies", d.lines())
	}
	d.finish("keeper", engine.StatusDone, "a is done, i-17 was 41")
	call := d.call("writer")
	first := call.Request.Messages[0]
	for _, want := range []string{"write the note", "a is done, i-17 was 41", "b is done"} {
		if !strings.Contains(first.Text.S, want) {
			t.Errorf("the instruction lacks %q:\n%s", want, first.Text.S)
		}
	}
	if strings.Contains(first.Text.S, "c is done") || first.From != "coordinator" {
		t.Errorf("from %s: %s", first.From, first.Text.S)
	}
	sys := call.Request.System.S
	for _, want := range []string{engine.PromptYouAre + "writer", engine.PromptTools + "note", "- c2: a note is written"} {
		if !strings.Contains(sys, want) {
			t.Errorf("the system prompt lacks %q", want)
		}
	}
	if strings.Contains(sys, engine.PromptColleagues) || strings.Contains(sys, "amounts agree") {
		t.Error("colleagues or foreign criteria are listed")
	}
	if diff := cmp.Diff([]string{"note"}, call.Request.Tools); diff != "" {
		t.Error(diff)
	}
	id := "objective:" + d.objective().ID + ":1:report"
	if want := (engine.OpKey{Kind: engine.OpSpecialist, Cause: id}); call.Key != want || call.Task != id || call.Role != engine.RoleSpecialist {
		t.Errorf("%+v", call)
	}
}

func TestR29_OnlyUnchangedCompletedWorkIsKept(t *testing.T) {
	t.Parallel()
	failing := func() *driver {
		other := with(fixStep(), func(s *engine.PlanStep) {
			s.Key = "other"
			s.Participant = "writer"
			s.Tools = nil
			s.ActionLevel = "read"
		})
		d := planned(t, testSpec(), fixStep(), other, reportStep("fix", "other"))
		d.finish("writer", engine.StatusBlocked, "no")
		d.work("keeper", "fix", `{"id":"i-17"}`, "ok")
		d.finish("keeper", engine.StatusDone, "fixed")
		return d
	}
	d := failing()
	d.plan(revise(with(d.keep("fix"), func(s *engine.PlanStep) { s.Instruction += " now" }), reportStep("fix")))
	if got := d.shown().Feedback; len(got) != 1 || got[0].Code != IssueIDConflict {
		t.Fatal("one changed word", got)
	}
	d.plan(revise(d.keep("fix"), d.keep("other"), reportStep("fix", "other")))
	if got := d.shown().Feedback; len(got) != 1 || got[0].Code != IssueReuse || got[0].Step != "other" {
		t.Fatal("a failed task", got)
	}
	d.plan(revise(d.keep("fix"), reportStep("fix")))
	o := d.objective()
	if o.Plan.Version != 2 || o.Plan.Predecessor != 1 || !o.Plan.Steps[0].Retained {
		t.Fatalf("%+v", o.Plan)
	}
	// No second dispatch of the kept task; its result feeds the successor.
	if diff := cmp.Diff([]string{"model writer turn/v1"}, d.acts()); diff != "" || !strings.Contains(d.call("writer").Request.Messages[0].Text.S, "fixed") {
		t.Fatal(diff)
	}
	// Kept twice under two keys is a conflict too.
	d = failing()
	d.plan(revise(d.keep("fix"), with(d.keep("fix"), func(s *engine.PlanStep) { s.Key = "fix2" }), reportStep("fix")))
	if got := d.shown().Feedback; len(got) != 1 || got[0].Code != IssueIDConflict {
		t.Fatal(got)
	}
}

// R29: a task that still runs, one whose call is of unknown outcome, and one
// that an earlier version lost cannot be kept, whatever became of them since.
func TestR29_RunningUncertainOrLostWorkIsNotKept(t *testing.T) {
	t.Parallel()
	d := planned(t, testSpec(), fixStep(), reportStep("fix"))
	d.owner(engine.MsgCorrection, "only i-17")
	fix := d.keep("fix")
	d.plan(revise(fix, reportStep("fix")))
	if got := d.shown().Feedback; len(got) != 1 || got[0].Code != IssueReuse || got[0].Step != "fix" {
		t.Fatal("running", got)
	}
	d.plan(revise(with(fixStep(), func(s *engine.PlanStep) { s.Key = "again" }), reportStep("again")))
	if d.objective().Plan.Version != 2 {
		t.Fatal(d.lines())
	}
	// The first session, cut off, ends well: its task is lost all the same.
	old := d.open[slices.IndexFunc(d.open, func(c engine.Call) bool { return c.Task == fix.TaskID })]
	d.outcome(old, engine.Event{Kind: engine.EvModelReply, Reply: &engine.ModelReply{Text: engine.Plain(`{"status":"done","text":"late"}`)}})
	d.owner(engine.MsgCorrection, "and quickly")
	d.plan(revise(fix, reportStep("fix")))
	if got := d.shown().Feedback; len(got) != 1 || got[0].Code != IssueReuse {
		t.Fatal("lost", got)
	}

	d = planned(t, testSpec(), fixStep(), reportStep("fix"))
	d.end("keeper", engine.EvModelUnknown)
	d.owner(engine.MsgCorrection, "only i-17")
	d.plan(revise(d.keep("fix"), reportStep("fix")))
	if got := d.shown().Feedback; len(got) != 1 || got[0].Code != IssueReuse {
		t.Fatal("uncertain", got)
	}
}

func TestR29_AnUpstreamChangeNeedsFreshWorkDownstream(t *testing.T) {
	t.Parallel()
	a := with(fixStep(), func(s *engine.PlanStep) { s.Key = "a" })
	b := with(fixStep(), func(s *engine.PlanStep) { s.Key = "b"; s.Deps = []string{"a"} })
	d := planned(t, testSpec(), a, b, reportStep("b"))
	d.finish("keeper", engine.StatusDone, "a")
	d.finish("keeper", engine.StatusDone, "b")
	d.finish("writer", engine.StatusBlocked, "no")
	d.plan(revise(a, d.keep("b"), reportStep("b"))) // a is ordered again: b rests on another task
	if got := d.shown().Feedback; len(got) != 1 || got[0].Code != IssueIDConflict || got[0].Step != "b" {
		t.Fatal(got)
	}
	d.plan(revise(d.keep("a"), d.keep("b"), reportStep("b")))
	if d.objective().Plan.Version != 2 {
		t.Fatal(d.lines())
	}
}

func TestR31_ObjectiveScopedIdentities(t *testing.T) {
	t.Parallel()
	spec := testSpec()
	spec.Identity = IdentityObjective
	d := planned(t, spec, fixStep(), reportStep("fix"))
	id := "objective:" + d.objective().ID + ":fix"
	if d.call("keeper").Task != id {
		t.Fatal(d.call("keeper").Task)
	}
	d.finish("keeper", engine.StatusDone, "fixed")
	d.finish("writer", engine.StatusBlocked, "no")
	d.plan(revise(fixStep(), reportStep("fix"))) // the same key of failed work cannot be used again
	if got := d.shown().Feedback; len(got) != 1 || got[0].Code != IssueReuse || got[0].Step != "report" {
		t.Fatal(got)
	}
	d.plan(revise(fixStep(), with(reportStep("fix"), func(s *engine.PlanStep) { s.Key = "report2" })))
	if steps := d.objective().Plan.Steps; !steps[0].Retained || steps[0].TaskID != id || steps[1].Retained {
		t.Fatalf("%+v", steps)
	}
	// The identity of the failed task stays taken, whatever else happens.
	d.finish("writer", engine.StatusBlocked, "no")
	d.plan(revise(fixStep(), reportStep("fix")))
	if got := d.shown().Feedback; len(got) != 1 || got[0].Code != IssueReuse {
		t.Fatal(got)
	}
}

func TestR31_APlannedIdentityKeepsItsContent(t *testing.T) {
	t.Parallel()
	spec := testSpec()
	spec.Identity = IdentityObjective
	d := planned(t, spec, fixStep(), reportStep("fix"))
	d.finish("keeper", engine.StatusBlocked, "no")
	again := with(fixStep(), func(s *engine.PlanStep) { s.Key = "again" })
	d.plan(revise(again, reportStep("again"))) // the report rests on another task now
	if got := d.shown().Feedback; len(got) != 1 || got[0].Code != IssueIDConflict || got[0].Step != "report" {
		t.Fatal(got)
	}
	d.plan(revise(again, reportStep(), with(reportStep("again"), func(s *engine.PlanStep) { s.Key = "r2"; s.Report = false })))
	if got := d.shown().Feedback; len(got) != 1 || got[0].Code != IssueIDConflict {
		t.Fatal(got)
	}
}

func TestR34_SupersededWorkIsEvidenceOnly(t *testing.T) {
	t.Parallel()
	d := planned(t, testSpec(), fixStep(), reportStep("fix"))
	d.work("keeper", "fix", `{"id":"i-17"}`, "ok")
	old := d.call("keeper")
	d.owner(engine.MsgCorrection, "only i-18")
	d.plan(revise(with(fixStep(), func(s *engine.PlanStep) { s.Instruction = "fix i-18" }), reportStep("fix")))
	if d.objective().Plan.Version != 2 || len(d.m.st.Orphans) != 1 {
		t.Fatal(d.lines())
	}
	// The old session's last reply comes: recorded, and nothing else.
	d.outcome(old, engine.Event{Kind: engine.EvModelReply, Reply: &engine.ModelReply{Text: engine.Plain(`{"status":"done","text":"late"}`)}})
	if diff := cmp.Diff([]string{"note evidence_only"}, d.lines()); diff != "" {
		t.Fatal(diff)
	}
	if d.m.st.taskStatus(d.tasks()[0].Step.TaskID) != room.TaskRunning {
		t.Fatal("a late result completed the new task")
	}
	d.finish("keeper", engine.StatusBlocked, "no")
	progress := d.shown().Progress
	i := slices.IndexFunc(progress, func(p engine.TaskProgress) bool { return !p.Current })
	if i < 0 || progress[i].Status != "cancelled" || len(progress[i].Calls) != 1 || progress[i].Calls[0].Outcome != engine.ToolOK {
		t.Fatalf("%+v", progress)
	}
}

func TestR35_ThreeBarrenReplansThenAttention(t *testing.T) {
	t.Parallel()
	d := planned(t, testSpec(), fixStep(), reportStep("fix"))
	d.finish("keeper", engine.StatusDone, "fixed")
	for v := 2; v <= 4; v++ {
		d.finish("writer", engine.StatusBlocked, "no")
		d.plan(revise(d.keep("fix"), reportStep("fix"))) // the retained task does not reset the counter
		if o := d.objective(); o.Plan.Version != v || o.BarrenReplans != v-1 {
			t.Fatalf("v%d: %+v", v, o)
		}
	}
	before := len(d.calls)
	d.finish("writer", engine.StatusBlocked, "no")
	if diff := cmp.Diff([]string{"end escalated"}, d.acts()); diff != "" || len(d.calls) != before || d.status() != StatusNeedsAttention {
		t.Fatal(diff, d.status())
	}
	// Not even on the owner's request; a correction starts the count again.
	d.owner(engine.MsgRequest, "try again")
	d.plan(revise(d.keep("fix"), reportStep("fix")))
	if d.objective().Plan.Version != 4 || d.status() != StatusNeedsAttention {
		t.Fatal(d.lines())
	}
	d.owner(engine.MsgCorrection, "shorter")
	if o := d.objective(); o.BarrenReplans != 0 || o.Status != StatusActive {
		t.Fatalf("%+v", o)
	}
	d.plan(revise(d.keep("fix"), reportStep("fix")))
	d.finish("writer", engine.StatusDone, "short")
	if o := d.objective(); o.BarrenReplans != 0 || o.Plan.Version != 5 {
		t.Fatalf("a completed new task resets the counter: %+v", o)
	}
}

func TestR66_AFailedTaskWaitsForRunningOnesBeforeThePlanIsReplaced(t *testing.T) {
	t.Parallel()
	other := with(fixStep(), func(s *engine.PlanStep) {
		s.Key = "other"
		s.Participant = "writer"
		s.Tools = nil
		s.ActionLevel = "read"
	})
	d := planned(t, testSpec(), fixStep(), other, reportStep("fix", "other"))
	d.finish("writer", engine.StatusQuestion, "which?")
	if d.count(engine.OpInterpret) != 1 || d.notes(NoteReplan) != 1 {
		t.Fatal(d.lines())
	}
	d.finish("keeper", engine.StatusDone, "fixed")
	req := d.shown()
	if req.Reason != "task_failed" || req.Progress[0].Status != "completed" || req.Progress[1].Status != "failed" || req.Progress[1].Result != "which?" {
		t.Fatalf("%+v", req)
	}
}

func TestR12_AuthorityIsReadAgainBeforeATaskStarts(t *testing.T) {
	t.Parallel()
	d := planned(t, testSpec(), fixStep(), reportStep("fix"))
	d.facts = &engine.Facts{Eligible: []string{"auditor", "keeper"}}
	d.finish("keeper", engine.StatusDone, "fixed")
	if d.count(engine.OpSpecialist) != 1 || d.shown().Reason != "task_failed" || len(d.shown().Participants) != 2 {
		t.Fatal(d.lines())
	}
	d = planned(t, testSpec(), fixStep(), reportStep("fix"))
	d.refuse("keeper", engine.EvDispatchRefused, engine.CodeForbidden)
	if d.shown().Reason != "task_failed" {
		t.Fatal("a refused dispatch is a reason to plan anew", d.lines())
	}
}

func TestR57_MessageIDsAreDigestsOfTheirCause(t *testing.T) {
	t.Parallel()
	says := func() []string {
		d := reviewing(t, testSpec())
		d.verdict("auditor", "met", "met")
		var out []string
		for _, c := range d.log {
			if c.Say != nil {
				out = append(out, c.Say.ID)
			}
		}
		return out
	}
	first := says()
	if diff := cmp.Diff(first, says()); diff != "" || len(first) != 1 {
		t.Fatal(first, diff)
	}
}

func TestStateDoesNotGrowWithClosedTasks(t *testing.T) {
	t.Parallel()
	d := planned(t, testSpec(), fixStep(), reportStep("fix"))
	for i := range max(maxShownMessages, maxHistory) + 1 {
		d.owner(engine.MsgCorrection, fmt.Sprintf("again %d", i))
		d.plan(revise(with(fixStep(), func(s *engine.PlanStep) { s.Instruction = fmt.Sprintf("try %d", i) }), reportStep("fix")))
		old := d.open[0]
		d.outcome(old, engine.Event{Kind: engine.EvModelReply, Reply: &engine.ModelReply{Text: engine.Plain(`{"status":"done","text":"late"}`)}})
		d.work("keeper", "list", "{}", "something") // evidence, which is kept when the next plan replaces the task
	}
	st := &d.m.st
	if len(st.Tasks) != 1 || len(d.tasks()) != 2 || len(st.Orphans) != 0 || len(st.History) != maxHistory || len(st.Messages) != maxShownMessages || len(st.Inbox) != 0 {
		t.Fatalf("tasks %d works %d orphans %d history %d messages %d inbox %d", len(st.Tasks), len(d.tasks()), len(st.Orphans), len(st.History), len(st.Messages), len(st.Inbox))
	}
}

func TestUnloadedTextsAreAnErrorNotAnotherAnswer(t *testing.T) {
	t.Parallel()
	d := start(t, testSpec())
	d.owner(engine.MsgRequest, "go")
	again := d.fresh()
	if err := again.Restore([]byte(d.snapshot(d.m))); err != nil {
		t.Fatal(err)
	}
	key := d.call("coordinator").Key
	ev := engine.Event{ID: "x", Kind: engine.EvModelReply, Key: &key, Reply: &engine.ModelReply{Text: engine.Plain("no")}}
	if _, err := again.Handle(ev); err == nil || !strings.Contains(err.Error(), "not loaded") {
		t.Fatalf("err = %v", err)
	}
}

// Nothing new starts while an owner's message is unread: it may change the plan.
func TestR65_NoTaskStartsOverAnUnreadOwnerMessage(t *testing.T) {
	t.Parallel()
	d := planned(t, testSpec(), fixStep(), reportStep("fix"))
	d.owner(engine.MsgRequest, "how far?")
	d.finish("keeper", engine.StatusDone, "fixed")
	if len(d.acts()) != 0 || d.count(engine.OpSpecialist) != 1 {
		t.Fatal(d.lines())
	}
	d.plan(engine.PlanEnvelope{Decision: engine.DecideExplain, Text: "half"})
	if diff := cmp.Diff([]string{"model writer turn/v1"}, d.acts()); diff != "" {
		t.Fatal(diff)
	}
}

// A document delivered without a word is the result that later tasks build on.
func TestR33_AnArtifactIsAResult(t *testing.T) {
	t.Parallel()
	d := planned(t, testSpec(), fixStep(), reportStep("fix"))
	d.reply("keeper", `{"status":"done","artifact":{"name":"list","text":"i-17 was 41"}}`)
	if text := d.call("writer").Request.Messages[0].Text.S; !strings.Contains(text, "fix (by keeper):\ni-17 was 41") {
		t.Fatal(text)
	}
}

// A call that is in flight when its task loses authority ends as evidence, and
// what a replaced task did is shown also while it still runs (R34).
func TestR34_CallsOfReplacedTasksAreShown(t *testing.T) {
	t.Parallel()
	d := planned(t, testSpec(), fixStep(), reportStep("fix"))
	d.work("keeper", "list", "{}", "i-17")
	d.reply("keeper", "", engine.ToolCall{ID: "x", Tool: "fix", Args: engine.JSONText([]byte(`{"id":"i-17"}`))})
	old := d.call("keeper")
	d.owner(engine.MsgCorrection, "only i-18")
	d.plan(revise(with(fixStep(), func(s *engine.PlanStep) { s.Instruction = "fix i-18" }), reportStep("fix")))
	calls := func() []string {
		var out []string
		for _, p := range d.shown().Progress {
			for _, c := range p.Calls {
				out = append(out, fmt.Sprintf("%s %s %v", c.Tool, c.Outcome, p.Current))
			}
		}
		return out
	}
	d.owner(engine.MsgRequest, "how far?")
	if diff := cmp.Diff([]string{"list ok false"}, calls()); diff != "" || len(d.m.st.Orphans) != 1 {
		t.Fatal(diff)
	}
	d.plan(engine.PlanEnvelope{Decision: engine.DecideNoop})
	d.outcome(old, engine.Event{Kind: engine.EvToolOK, Tool: &engine.ToolResult{Tool: "fix", Args: old.Tool.Args, Result: engine.Plain("ok"), Write: true}})
	if len(d.acts()) != 0 || len(d.m.st.Orphans) != 0 {
		t.Fatal("a replaced task went on", d.lines())
	}
	d.owner(engine.MsgRequest, "and now?")
	if diff := cmp.Diff([]string{"list ok false", "fix ok false"}, calls()); diff != "" {
		t.Fatal(diff)
	}
}
