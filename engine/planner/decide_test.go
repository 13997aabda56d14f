package planner

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
)

// A participant's message may lead to words, and to a plan only for an
// objective that is under way: it neither takes up a completed one nor goes
// past the owner whom the objective waits for (R17, R63).
func TestR17_AParticipantDoesNotDecideForTheOwner(t *testing.T) {
	t.Parallel()
	again := revise(with(fixStep(), func(s *engine.PlanStep) { s.Key = "again" }), reportStep("again"))
	d := reviewing(t, testSpec())
	d.verdict("auditor", "met", "met")
	d.message("keeper", engine.MsgRequest, "the owner wants more")
	d.plan(again)
	if d.status() != StatusCompleted || d.objective().Plan.Version != 1 || len(d.m.st.Inbox) != 0 || !strings.Contains(d.note(NoteRejected), engine.CodeForbidden) {
		t.Fatal("completed", d.lines())
	}
	d = reviewing(t, testSpec())
	d.verdict("auditor", "unknown", "met")
	d.message("keeper", engine.MsgRequest, "let me try again")
	d.plan(again)
	if d.status() != StatusWaitingIntervention || d.objective().Plan.Version != 1 || len(d.m.st.Inbox) != 0 {
		t.Fatal("waiting", d.lines())
	}
	d = reviewing(t, testSpec())
	d.verdict("auditor", "unmet", "met")
	d.plan(create(fixStep(), reportStep("fix"))) // in answer to an internal event
	if d.objective().Plan.Version != 1 || len(d.m.st.Inbox) != 0 || !strings.Contains(d.note(NoteRejected), engine.CodeForbidden) {
		t.Fatal("internal", d.lines())
	}
	// What the owner said keeps waiting, for proof or for him (R28).
	for _, lost := range []bool{true, false} {
		d = start(t, testSpec())
		d.owner(engine.MsgRequest, "go")
		want := EntryAwaiting
		if lost {
			d.end("coordinator", engine.EvModelUnknown)
		} else {
			want = EntryAttention
			for range MaxInterpretations {
				d.reply("coordinator", "no JSON")
			}
		}
		d.message("keeper", engine.MsgProposal, "shall we?")
		d.plan(engine.PlanEnvelope{Decision: engine.DecideAnswer, Text: "yes"})
		if in := d.m.st.Inbox; len(in) != 1 || in[0].Origin != OriginOwner || in[0].Status != want || d.m.st.Claim != "" {
			t.Fatalf("%s: %+v, claim by %q", want, in, d.m.st.Claim)
		}
		if diff := cmp.Diff([]string{"end escalated"}, d.acts()); diff != "" {
			t.Fatal(diff)
		}
	}
	// Nor is an answer to a participant a claim of the owner's work.
	d = planned(t, testSpec(), fixStep(), reportStep("fix"))
	d.control(engine.CommandCancel)
	d.finish("keeper", engine.StatusDone, "too late")
	d.message("keeper", engine.MsgProposal, "shall we?")
	d.plan(engine.PlanEnvelope{Decision: engine.DecideAnswer, Text: "no"})
	if d.m.st.Claim != "" {
		t.Fatal("a claim that the owner never asked for", d.lines())
	}
}

// The decision must fit what is open; either mistake is one of form and may be
// mended.
func TestR63_CreateAndReviseFitWhatIsOpen(t *testing.T) {
	t.Parallel()
	one := testSpec()
	one.Objectives = 1
	d := planned(t, one, fixStep(), reportStep("fix"))
	id := d.objective().ID
	d.owner(engine.MsgRequest, "and i-18")
	d.plan(create(with(fixStep(), func(s *engine.PlanStep) { s.Key = "more" }), reportStep("more")))
	if got := d.shown().Feedback; len(got) != 1 || got[0].Code != IssueFormat || d.objective().ID != id {
		t.Fatal(got, d.lines())
	}
	d = start(t, testSpec())
	d.owner(engine.MsgRequest, "go")
	d.plan(revise(fixStep(), reportStep("fix")))
	if got := d.shown().Feedback; len(got) != 1 || got[0].Code != IssueFormat || d.objective() != nil {
		t.Fatal(got, d.lines())
	}
}

func TestR3_AProposalCallsNoTools(t *testing.T) {
	t.Parallel()
	d := start(t, testSpec())
	d.owner(engine.MsgRequest, "go")
	d.reply("coordinator", `{"schema":"plan/v1","bound_objective_revision":0,"bound_control_revision":0,"decision":"noop","explanation":""}`,
		engine.ToolCall{ID: "x", Tool: "fix", Args: engine.JSONText([]byte(`{"id":"i-17"}`))})
	if got := d.shown().Feedback; len(got) != 1 || got[0].Code != IssueFormat {
		t.Fatal(d.lines())
	}
	if slices.ContainsFunc(d.calls, func(c engine.Call) bool { return c.Tool != nil }) {
		t.Fatal("the reasoner acted")
	}
}

func TestR23_BothRevisionsAreBound(t *testing.T) {
	t.Parallel()
	for _, bound := range []string{
		`"bound_objective_revision":0,"bound_control_revision":1`, `"bound_objective_revision":1,"bound_control_revision":0`,
	} {
		d := start(t, testSpec())
		d.owner(engine.MsgRequest, "go")
		d.reply("coordinator", `{"schema":"plan/v1",`+bound+`,"decision":"noop","explanation":""}`)
		if d.notes(NoteRefused) != 1 || d.shown().Feedback[0].Code != IssueFormat {
			t.Error(bound, d.lines())
		}
	}
}

// An answer is no claim while the owner has said more that nobody has read, or
// while somebody is still speaking; and it answers only what it was shown.
func TestR16_AnAnswerClaimsOnlyWhenItIsTheLastWord(t *testing.T) {
	t.Parallel()
	answer := engine.PlanEnvelope{Decision: engine.DecideAnswer, Text: "a room"}
	d := start(t, testSpec())
	d.owner(engine.MsgRequest, "what is this?")
	d.owner(engine.MsgRequest, "and what is that?")
	d.plan(answer)
	if diff := cmp.Diff([]string{"note decision", "post coordinator", "say coordinator answer: a room", "model coordinator plan/v1"}, d.lines()); diff != "" {
		t.Fatal(diff)
	}
	if got := d.shown().Messages; len(got) != 2 {
		t.Fatal(got)
	}
	d.plan(answer)
	if d.m.st.Claim != "coordinator" || len(d.m.st.Inbox) != 0 {
		t.Fatal(d.lines())
	}

	d = start(t, testSpec())
	d.owner(engine.MsgRequest, "@keeper who are you?")
	d.owner(engine.MsgRequest, "what is this?")
	d.plan(answer)
	if d.m.st.Claim != "" {
		t.Fatal("claimed over the keeper", d.lines())
	}
	d.finish("keeper", engine.StatusAnswer, "I fix")
	if d.m.st.Claim != "keeper" {
		t.Fatal(d.lines())
	}
	d = start(t, testSpec())
	d.owner(engine.MsgRequest, "@keeper who are you?")
	d.owner(engine.MsgRequest, "what is this?")
	d.finish("keeper", engine.StatusAnswer, "I fix")
	if d.m.st.Claim != "" {
		t.Fatal("claimed over an unread message", d.lines())
	}
}

// While an objective waits for its owner no internal need reaches the reasoner.
func TestR63_NobodyPlansWhileTheOwnerIsAsked(t *testing.T) {
	t.Parallel()
	d := planned(t, testSpec(), fixStep(), reportStep("fix"))
	d.owner(engine.MsgRequest, "is that right?")
	d.plan(engine.PlanEnvelope{Decision: engine.DecideAskUser, Text: "which month?"})
	d.finish("keeper", engine.StatusBlocked, "no access")
	if len(d.open) != 0 || d.status() != StatusWaitingUser || d.count(engine.OpInterpret) != 2 {
		t.Fatal(d.lines())
	}
	d.owner(engine.MsgReply, "May")
	d.plan(engine.PlanEnvelope{Decision: engine.DecideExplain, Text: "thanks"})
	if d.shown().Reason != "task_failed" || d.status() != StatusActive {
		t.Fatal(d.lines())
	}
}

// One need at a time: what fails while a replan is due joins it. A barred
// replan leaves no need behind.
func TestR66_CausesJoinOneReplan(t *testing.T) {
	t.Parallel()
	other := with(fixStep(), func(s *engine.PlanStep) {
		s.Key = "other"
		s.Participant = "writer"
		s.Tools = nil
		s.ActionLevel = "read"
	})
	d := planned(t, testSpec(), fixStep(), other, reportStep("fix", "other"))
	d.finish("writer", engine.StatusBlocked, "no")
	d.finish("keeper", engine.StatusBlocked, "nor I")
	if d.notes(NoteReplan) != 1 || d.count(engine.OpInterpret) != 2 {
		t.Fatal(d.lines())
	}
	d.plan(engine.PlanEnvelope{Decision: engine.DecideNoop})
	if len(d.m.st.Inbox) != 0 || d.count(engine.OpInterpret) != 2 {
		t.Fatal("the need was raised twice", d.lines())
	}
	d = planned(t, testSpec(), fixStep(), reportStep("fix"))
	for range MaxBarrenReplans {
		d.finish("keeper", engine.StatusBlocked, "no")
		d.plan(revise(fixStep(), reportStep("fix")))
	}
	d.finish("keeper", engine.StatusBlocked, "no")
	if d.status() != StatusNeedsAttention || len(d.m.st.Inbox) != 0 {
		t.Fatal(d.m.st.Inbox)
	}
}

// Calls of unknown outcome are no reason to plan anew: the work may have been
// done. The other tasks go on, and a person decides.
func TestR66_AnUncertainTaskIsNotPlannedAnew(t *testing.T) {
	t.Parallel()
	other := with(fixStep(), func(s *engine.PlanStep) {
		s.Key = "other"
		s.Participant = "writer"
		s.Tools = nil
		s.ActionLevel = "read"
	})
	next := with(other, func(s *engine.PlanStep) { s.Key = "next"; s.Deps = []string{"other"} })
	d := planned(t, testSpec(), fixStep(), other, next, reportStep("fix", "next"))
	for range 3 {
		d.end("keeper", engine.EvModelUnknown)
	}
	d.finish("writer", engine.StatusDone, "seen")
	d.finish("writer", engine.StatusDone, "seen too") // the next task started all the same
	if diff := cmp.Diff([]string{"end escalated"}, d.acts()); diff != "" || d.notes(NoteReplan) != 0 || d.count(engine.OpInterpret) != 1 {
		t.Fatal(diff, d.lines())
	}
	if !strings.Contains(d.note(NoteTask), `"completed"`) || d.status() != StatusActive {
		t.Fatal(d.status())
	}
	// The owner's word leads to a plan, and to a task of a new identity.
	d.owner(engine.MsgReply, "then do it again")
	if p := d.shown().Progress[0]; p.Step != "fix" || p.Status != "failed" || !strings.Contains(p.Result, "unknown") {
		t.Fatalf("%+v", p)
	}
	d.plan(revise(fixStep(), d.keep("other"), d.keep("next"), reportStep("fix", "next")))
	if d.objective().Plan.Version != 2 || !strings.HasSuffix(d.call("keeper").Task, ":2:fix") {
		t.Fatal(d.lines())
	}
	// Calls that are known to have failed are a reason.
	d = planned(t, testSpec(), fixStep(), reportStep("fix"))
	for range 3 {
		d.end("keeper", engine.EvModelFailed)
	}
	if d.shown().Reason != "task_failed" {
		t.Fatal(d.lines())
	}
}

// R54: a plan that answers the owner starts the count of failed reports again.
func TestR54_TheOwnersAnswerStartsTheCycleAgain(t *testing.T) {
	t.Parallel()
	d := reviewing(t, testSpec())
	for v := range 3 {
		d.verdict("auditor", "met", "unmet")
		if v < 2 {
			d.plan(revise(d.keep("fix"), reportStep("fix")))
			d.finish("writer", engine.StatusDone, "note "+itoa(v))
		}
	}
	if d.status() != StatusNeedsAttention {
		t.Fatal(d.status())
	}
	d.owner(engine.MsgReply, "once more, please")
	d.plan(revise(d.keep("fix"), reportStep("fix")))
	d.finish("writer", engine.StatusDone, "a fourth note")
	d.verdict("auditor", "met", "unmet")
	if d.status() != StatusVerifying || d.shown().Reason != "review_unmet" {
		t.Fatal(d.status(), d.lines())
	}
	// What was reviewed stays reviewed, all the same (R53).
	d.plan(revise(d.keep("fix"), reportStep("fix")))
	reviews := d.count(engine.OpReview)
	d.finish("writer", engine.StatusDone, "note 0")
	if d.count(engine.OpReview) != reviews || len(d.objective().FailedReports) != 2 {
		t.Fatal(d.lines())
	}
	if got := d.shown().Review; got == nil || got.Report.Version != 5 {
		t.Fatalf("the verdict that stands names version 5: %+v", got)
	}
}

// A report that no verdict has judged may be kept by a successor plan, and is
// then reviewed against that plan's work and revisions.
func TestR51_AKeptReportIsBoundAnew(t *testing.T) {
	t.Parallel()
	side := with(fixStep(), func(s *engine.PlanStep) { s.Key = "side" })
	d := planned(t, testSpec(), side, with(reportStep(), func(s *engine.PlanStep) { s.Criteria = []string{"c1", "c2"} }))
	d.finish("writer", engine.StatusDone, "a report")
	d.owner(engine.MsgCorrection, "i-18, not i-17")
	d.plan(revise(with(side, func(s *engine.PlanStep) { s.Instruction = "fix i-18" }), d.keep("report")))
	if len(d.m.st.Orphans) != 1 || d.count(engine.OpReview) != 0 {
		t.Fatal(d.lines())
	}
	for _, c := range slices.Clone(d.open) {
		d.outcome(c, engine.Event{Kind: engine.EvModelReply, Reply: &engine.ModelReply{Text: engine.Plain(`{"status":"done","text":"ok"}`)}})
	}
	req := d.judged("auditor")
	if req.Report.Version != 1 || req.ObjectiveRevision != 1 || req.ReportText != "a report" {
		t.Fatalf("%+v", req)
	}
	// A review in flight when the plan changes is bound to what is gone.
	old := d.call("auditor")
	d.owner(engine.MsgCorrection, "and i-19")
	d.plan(revise(d.keep("side"), with(side, func(s *engine.PlanStep) { s.Key = "more" }), d.keep("report")))
	d.finish("keeper", engine.StatusDone, "fixed i-19")
	var now engine.Call
	for _, c := range d.open {
		if c.Key != old.Key {
			now = c
		}
	}
	if now.Key.Kind != engine.OpReview || now.Key.Cause == old.Key.Cause {
		t.Fatal(now.Key, d.lines())
	}
	d.open = []engine.Call{old}
	d.verdict("auditor", "met", "met")
	if d.status() != StatusVerifying || d.notes(NoteStray) != 1 {
		t.Fatal("the verdict on another source set counted", d.lines())
	}
	d.open = []engine.Call{now}
	d.verdict("auditor", "met", "met")
	if d.status() != StatusCompleted {
		t.Fatal(d.lines())
	}
}

// The owner is read before participants, whoever spoke first, and they before
// internal needs (R65); an objective without a title is called by the goal.
func TestR65_TheOwnerIsReadFirst(t *testing.T) {
	t.Parallel()
	d := start(t, testSpec())
	d.owner(engine.MsgRequest, "go")
	d.message("keeper", engine.MsgRequest, "I am free")
	d.owner(engine.MsgRequest, "and quickly")
	first := d.call("coordinator").Key.Cause
	d.reply("coordinator", "no JSON")
	if d.call("coordinator").Key.Cause != first {
		t.Fatal("the owner's oldest event is repaired first")
	}
	d.plan(engine.PlanEnvelope{Decision: engine.DecideObjective, Plan: []engine.PlanStep{fixStep(), reportStep("fix")}})
	if !strings.Contains(d.note(NotePlan), `"title":"Make the books agree"`) {
		t.Fatal(d.note(NotePlan))
	}
	// Both messages came before the accepted interpretation was asked for.
	if len(d.m.st.Inbox) != 0 {
		t.Fatal(d.m.st.Inbox)
	}
	d.owner(engine.MsgRequest, "how far?")
	d.message("keeper", engine.MsgRequest, "nearly")
	d.owner(engine.MsgRequest, "really?")
	asked := d.n
	d.plan(engine.PlanEnvelope{Decision: engine.DecideExplain, Text: "half"})
	if got := d.call("coordinator").Key.Cause; got != "ev-"+itoa(asked) {
		t.Fatalf("%s is read next; want the owner's, ev-%d", got, asked)
	}
}

// A correction changes what is asked for, so that words found unmet before may
// be what is wanted now: the same output is judged anew (R54).
func TestR54_ACorrectionForgetsWhatWasFoundUnmet(t *testing.T) {
	t.Parallel()
	d := reviewing(t, testSpec())
	d.verdict("auditor", "met", "unmet")
	d.owner(engine.MsgCorrection, "a shorter note is enough")
	d.plan(engine.PlanEnvelope{Decision: engine.DecideNoop}) // stale: it was asked before
	d.plan(revise(d.keep("fix"), reportStep("fix")))
	d.finish("writer", engine.StatusDone, "i-17 was fixed") // byte for byte
	if req := d.judged("auditor"); req.Report.Version != 2 || req.ObjectiveRevision != 1 {
		t.Fatalf("%+v", req)
	}
	d.verdict("auditor", "met", "met")
	if d.status() != StatusCompleted {
		t.Fatal(d.lines())
	}
}

// Looking at something again makes no new output; neither does a call that had
// no known effect (R53).
func TestR53_ReadsAndFailedCallsAreNoNewOutput(t *testing.T) {
	t.Parallel()
	for name, try := range map[string]func(d *driver){
		"read":    func(d *driver) { d.work("keeper", "list", "{}", "i-17") },
		"unknown": func(d *driver) { d.lost("keeper", "fix", `{"id":"i-18"}`) },
	} {
		d := reviewing(t, testSpec())
		d.verdict("auditor", "unmet", "met")
		d.plan(revise(d.keep("fix"), with(fixStep(), func(s *engine.PlanStep) { s.Key = "more" }), reportStep("fix", "more")))
		try(d)
		d.finish("keeper", engine.StatusDone, "looked")
		d.finish("writer", engine.StatusDone, "i-17 was fixed") // byte for byte
		if d.count(engine.OpReview) != 1 || len(d.objective().FailedReports) != 2 {
			t.Errorf("%s: %v", name, d.lines())
		}
	}
}

// A review call without verdict is not made anew over an unread owner message:
// its verdict could complete nothing (R55).
func TestR55_NoReviewIsBoughtOverAnUnreadOwnerMessage(t *testing.T) {
	t.Parallel()
	d := reviewing(t, testSpec())
	d.owner(engine.MsgRequest, "how far?")
	d.end("auditor", engine.EvModelFailed)
	if len(d.acts()) != 0 || d.count(engine.OpReview) != 1 {
		t.Fatal(d.lines())
	}
	d.plan(engine.PlanEnvelope{Decision: engine.DecideExplain, Text: "nearly"})
	if diff := cmp.Diff([]string{"model auditor review/v1"}, d.acts()); diff != "" {
		t.Fatal(diff)
	}
}

// Only participants of role reviewer review, however little others had to do
// with the work (R50).
func TestR50_OnlyReviewersReview(t *testing.T) {
	t.Parallel()
	spec := testSpec()
	idle := engine.Participant{ID: "idler", Agent: "agent-i", Role: "specialist", Description: "idles"}
	spec.Agents = append([]engine.Participant{idle}, spec.Agents...)
	d := reviewing(t, spec)
	if c := d.call("auditor"); c.Key.Kind != engine.OpReview || d.count(engine.OpReview) != 1 {
		t.Fatal(d.lines())
	}
}

// A review call that was never made counts for nothing (R51).
func TestR51_RefusedReviewCallsAreNotSpent(t *testing.T) {
	t.Parallel()
	d := reviewing(t, testSpec())
	for range MaxReviewCalls {
		d.refuse("auditor", engine.EvReservationRefused, engine.CodeBudgetExhausted)
		d.owner(engine.MsgReply, "more money")
		d.plan(engine.PlanEnvelope{Decision: engine.DecideNoop})
	}
	d.verdict("auditor", "met", "met")
	if d.status() != StatusCompleted {
		t.Fatal(d.lines())
	}
}

// One reviewer's verdict is a verdict: the version is not kept for a second
// opinion while others have still to answer (R51, R53).
func TestR53_AHalfReviewedReportIsNotKept(t *testing.T) {
	t.Parallel()
	spec := testSpec()
	spec.Reviewers = 2
	d := reviewing(t, spec)
	d.verdict("second", "met", "unmet")
	d.owner(engine.MsgCorrection, "only i-17")
	d.plan(revise(d.keep("fix"), d.keep("report")))
	if d.objective().Plan.Version != 1 || !strings.Contains(d.note(NoteRefused), "cannot be reviewed again") {
		t.Fatal(d.lines())
	}
}

// What one reviewer has said of an output stands for every later version of it:
// a plan that replaces the report before the others have answered buys no second
// sample from him (R53).
func TestR53_AReviewerWhoHasAnsweredIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	spec := testSpec()
	spec.Reviewers = 2
	asked := func(d *driver, reviewer string) (n int) {
		for _, c := range d.calls {
			if c.Key.Kind == engine.OpReview && c.Agent == reviewer {
				n++
			}
		}
		return n
	}
	for name, c := range map[string]struct {
		text   string // of the second version
		asked  int    // how many times the reviewer who answered
		failed int    // versions once the other has answered too
	}{
		"the same bytes": {"i-17 was fixed", 1, 1},
		"others":         {"i-17 and i-18 were fixed", 2, 0},
	} {
		d := reviewing(t, spec)
		d.verdict("second", "met", "unmet")
		d.owner(engine.MsgRequest, "and the note?")
		d.plan(revise(d.keep("fix"), reportStep("fix")))
		d.end("auditor", engine.EvModelFailed) // of the version that was replaced
		d.finish("writer", engine.StatusDone, c.text)
		if asked(d, "second") != c.asked || asked(d, "auditor") != 2 {
			t.Fatal(name, d.lines())
		}
		d.verdict("auditor", "met", "met")
		if n := len(d.objective().FailedReports); n != c.failed || d.notes(NoteVerdict) != c.failed {
			t.Errorf("%s: %d versions unmet after %d verdicts", name, n, d.notes(NoteVerdict))
		}
		if c.failed > 0 && !strings.Contains(d.note(NoteVerdict), `"reviewers":["auditor","second"]`) {
			t.Errorf("%s: %s", name, d.note(NoteVerdict))
		}
	}
}

// One answer is never the verdict of two reviewers, also when the other has lost
// its authority and nobody is left to take its place (R50).
func TestR50_FewerReviewersThanMustAgreeGiveNoVerdict(t *testing.T) {
	t.Parallel()
	spec := testSpec()
	spec.Reviewers = 2
	d := reviewing(t, spec)
	d.facts = &engine.Facts{Eligible: []string{"keeper", "writer", "auditor"}}
	d.verdict("second", "met", "met")
	d.verdict("auditor", "met", "met")
	if d.status() != StatusWaitingIntervention || d.notes(NoteVerdict) != 0 {
		t.Fatal(d.status(), d.lines())
	}
	d.owner(engine.MsgReply, "look again")
	d.plan(revise(d.keep("fix"), reportStep("fix")))
	d.finish("writer", engine.StatusDone, "i-17 was fixed") // byte for byte
	if d.status() != StatusWaitingIntervention || d.m.st.Claim != "" {
		t.Fatal(d.status(), d.lines())
	}
	// With a second reviewer the answer counts, and is not bought again.
	d.facts = nil
	d.control(engine.CommandResume)
	for d.status() != StatusVerifying {
		d.plan(revise(d.keep("fix"), reportStep("fix")))
		d.finish("writer", engine.StatusDone, "i-17 was fixed")
	}
	d.verdict("second", "met", "met")
	if d.status() != StatusCompleted || d.count(engine.OpReview) != 3 {
		t.Fatal(d.status(), d.lines())
	}
}
