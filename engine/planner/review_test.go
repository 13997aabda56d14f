package planner

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
)

func TestR50_TheReviewerSharesNoIdentityWithAnAuthor(t *testing.T) {
	t.Parallel()
	d := reviewing(t, testSpec())
	// "double" stands first but is the writer's agent.
	if c := d.call("auditor"); c.Key.Kind != engine.OpReview || c.Role != engine.RoleReviewer || d.count(engine.OpReview) != 1 {
		t.Fatal(c.Key)
	}
	spec := testSpec()
	spec.Agents = spec.Agents[:3]
	d = reviewing(t, spec)
	if diff := cmp.Diff([]string{"artifact report v1", "end escalated"}, d.acts()); diff != "" || d.status() != StatusWaitingIntervention {
		t.Fatal(diff, d.status())
	}
	// Nor is somebody asked who is not authorized now.
	d = planned(t, testSpec(), fixStep(), reportStep("fix"))
	d.finish("keeper", engine.StatusDone, "fixed")
	d.facts = &engine.Facts{Eligible: []string{"keeper", "second", "writer"}}
	d.finish("writer", engine.StatusDone, "done")
	if d.call("second").Key.Kind != engine.OpReview {
		t.Fatal(d.lines())
	}
}

func TestR50_AuthorsOfRetainedTasksCount(t *testing.T) {
	t.Parallel()
	spec := testSpec()
	spec.Agents[0].Agent = "agent-a" // the keeper is the auditor's other self
	d := planned(t, spec, fixStep(), reportStep("fix"))
	d.finish("keeper", engine.StatusDone, "fixed")
	d.finish("writer", engine.StatusBlocked, "no")
	d.plan(revise(d.keep("fix"), reportStep("fix")))
	d.finish("writer", engine.StatusDone, "report")
	if !d.tasks()[0].Step.Retained || d.call("second").Key.Kind != engine.OpReview {
		t.Fatal(d.lines())
	}
}

func TestR50_ReviewersCanBeSeveral(t *testing.T) {
	t.Parallel()
	spec := testSpec()
	spec.Reviewers = 2
	d := reviewing(t, spec)
	d.verdict("second", "met", "met")
	if d.status() != StatusVerifying || d.m.st.Claim != "" {
		t.Fatal("one of two was enough")
	}
	d.verdict("auditor", "met", "met")
	if d.status() != StatusCompleted {
		t.Fatal(d.lines())
	}
	d = reviewing(t, spec)
	d.verdict("second", "unknown", "met")
	d.verdict("auditor", "unmet", "unmet")
	if d.status() != StatusWaitingIntervention {
		t.Fatal("unknown dominates", d.status())
	}
	spec.Reviewers = 3
	if d = reviewing(t, spec); d.status() != StatusWaitingIntervention || d.count(engine.OpReview) != 0 {
		t.Fatal("two of three cannot do", d.lines())
	}
}

func TestR51_ReviewIsBoundAndShowsTheEvidence(t *testing.T) {
	t.Parallel()
	d := reviewing(t, testSpec())
	req := d.judged("auditor")
	if req.Report.Version != 1 || req.Report.SourceSet == "" || req.ReportText != "i-17 was fixed" || len(req.Criteria) != 2 {
		t.Fatalf("%+v", req)
	}
	if len(req.Evidence) != 2 || len(req.Evidence[0].Calls) != 1 || string(req.Evidence[0].Calls[0].Args) != `{"id":"i-17"}` || req.Messages[0].Text != "please fix the books" {
		t.Fatalf("%+v", req.Evidence)
	}
}

func TestR51_InvalidReviews(t *testing.T) {
	t.Parallel()
	good := func(req engine.ReviewRequest) engine.ReviewReply {
		return engine.ReviewReply{Schema: engine.FormatReview, Report: req.Report, Verdicts: []engine.CriterionVerdict{
			{Criterion: "c1", Verdict: "met"}, {Criterion: "c2", Verdict: "met"},
		}}
	}
	for name, change := range map[string]func(*engine.ReviewReply){
		"criterion omitted": func(r *engine.ReviewReply) { r.Verdicts = r.Verdicts[:1] },
		"criterion twice":   func(r *engine.ReviewReply) { r.Verdicts[1] = r.Verdicts[0] },
		"criterion too many": func(r *engine.ReviewReply) {
			r.Verdicts = append(r.Verdicts, engine.CriterionVerdict{Criterion: "c3", Verdict: "met"})
		},
		"unknown word":       func(r *engine.ReviewReply) { r.Verdicts[0].Verdict = "fine" },
		"other version":      func(r *engine.ReviewReply) { r.Report.Version = 2 },
		"other ref":          func(r *engine.ReviewReply) { r.Report.Ref = "report:x" },
		"altered source set": func(r *engine.ReviewReply) { r.Report.SourceSet = "0" },
		"other schema":       func(r *engine.ReviewReply) { r.Schema = "review/v2" },
		"no verdicts":        func(r *engine.ReviewReply) { r.Verdicts = nil },
	} {
		d := reviewing(t, testSpec())
		r := good(d.judged("auditor"))
		change(&r)
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		d.reply("auditor", string(b))
		if d.status() != StatusVerifying || len(d.objective().FailedReports) != 0 || d.notes(NoteInvalid) != 1 || d.count(engine.OpReview) != 2 {
			t.Errorf("%s: %v", name, d.lines())
			continue
		}
		// One review more of the same version, then no other.
		d.reply("auditor", "no JSON")
		if d.status() != StatusWaitingIntervention || d.count(engine.OpReview) != 2 {
			t.Errorf("%s: %s after %d reviews", name, d.status(), d.count(engine.OpReview))
		}
	}
	d := reviewing(t, testSpec())
	d.reply("auditor", "no JSON")
	d.verdict("auditor", "met", "met")
	if d.status() != StatusCompleted {
		t.Fatal(d.lines())
	}
}

func TestR51_AReviewCallWithoutVerdictIsMadeAnewThreeTimesAtMost(t *testing.T) {
	t.Parallel()
	d := reviewing(t, testSpec())
	d.end("auditor", engine.EvModelUnknown)
	d.end("auditor", engine.EvModelFailed)
	d.end("auditor", engine.EvModelUnknown)
	if diff := cmp.Diff([]string{"end escalated"}, d.acts()); diff != "" || d.count(engine.OpReview) != 3 || d.status() != StatusWaitingIntervention {
		t.Fatal(diff, d.status())
	}
}

func TestR52_AllMetCompletes(t *testing.T) {
	t.Parallel()
	d := reviewing(t, testSpec())
	d.verdict("auditor", "met", "met")
	if diff := cmp.Diff([]string{"note verdict", "note objective", "say coordinator done: i-17 was fixed", "claim coordinator"}, d.lines()); diff != "" {
		t.Fatal(diff)
	}
	if !strings.Contains(d.note(NoteVerdict), `"sourceAuthenticity":"not_assessed"`) {
		t.Fatal("R56", d.note(NoteVerdict))
	}
	// An internal outcome after completion starts nothing (R20, I12).
	d.outcome(d.calls[0], engine.Event{Kind: engine.EvModelUnknown})
	if diff := cmp.Diff([]string{"note stray"}, d.lines()); diff != "" {
		t.Fatal(diff)
	}
}

func TestR52_UnknownBeatsUnmetAndWaits(t *testing.T) {
	t.Parallel()
	d := reviewing(t, testSpec())
	d.verdict("auditor", "unmet", "unknown")
	if diff := cmp.Diff([]string{"end escalated"}, d.acts()); diff != "" || d.status() != StatusWaitingIntervention || len(d.objective().FailedReports) != 0 {
		t.Fatal(diff, d.status())
	}
	// The owner's answer may lead to a new plan.
	d.owner(engine.MsgReply, "look again at i-17")
	d.plan(revise(d.keep("fix"), reportStep("fix")))
	if d.status() != StatusActive {
		t.Fatal(d.lines())
	}
}

func TestR53_ACorrectivePlanNeedsANewReport(t *testing.T) {
	t.Parallel()
	d := reviewing(t, testSpec())
	d.verdict("auditor", "unmet", "met")
	req := d.shown()
	if req.Reason != "review_unmet" || req.Review == nil || req.Review.Verdicts[0].Verdict != "unmet" {
		t.Fatalf("%+v", req)
	}
	d.plan(revise(d.keep("report"), d.keep("fix"))) // only reordered
	if d.count(engine.OpInterpret) != 2 || d.objective().Plan.Version != 1 || d.status() != StatusVerifying {
		t.Fatal(d.lines())
	}
	d.owner(engine.MsgReply, "please go on")
	d.plan(revise(d.keep("fix"), with(fixStep(), func(s *engine.PlanStep) { s.Key = "more" }), d.keep("report")))
	if d.objective().Plan.Version != 1 {
		t.Fatal("the reviewed report was kept")
	}
}

func TestR53_TheSameOutputIsNeverReviewedTwice(t *testing.T) {
	t.Parallel()
	d := reviewing(t, testSpec())
	d.verdict("auditor", "met", "unmet")
	for v := 2; v <= 3; v++ {
		d.plan(revise(d.keep("fix"), reportStep("fix")))
		d.finish("writer", engine.StatusDone, "i-17 was fixed") // byte for byte
		if d.count(engine.OpReview) != 1 || len(d.objective().FailedReports) != v {
			t.Fatal(d.lines())
		}
	}
	if diff := cmp.Diff([]string{"artifact report v3", "end escalated"}, d.acts()); diff != "" || d.status() != StatusNeedsAttention {
		t.Fatal(diff, d.status())
	}
	// A verdict that could not tell is a verdict too: the owner's answer buys a
	// new report, never another sample of the old one.
	d = reviewing(t, testSpec())
	d.verdict("auditor", "unknown", "met")
	for v := 2; v <= 3; v++ {
		d.owner(engine.MsgReply, "look again")
		d.plan(revise(d.keep("fix"), reportStep("fix")))
		d.finish("writer", engine.StatusDone, "i-17 was fixed")
		if o := d.objective(); d.count(engine.OpReview) != 1 || d.status() != StatusWaitingIntervention || o.Report.Ref.Version != v || len(o.Outputs) != 1 {
			t.Fatal(d.status(), d.lines())
		}
	}
	// So is one that an unread message of the owner kept from completing (R55):
	// it stands for the new version of the same output.
	d = reviewing(t, testSpec())
	d.owner(engine.MsgRequest, "is the note short?")
	d.verdict("auditor", "met", "met")
	d.plan(revise(d.keep("fix"), with(reportStep("fix"), func(s *engine.PlanStep) { s.Instruction = "write a short note" })))
	d.finish("writer", engine.StatusDone, "i-17 was fixed")
	if d.count(engine.OpReview) != 1 || d.status() != StatusCompleted || d.objective().Report.Ref.Version != 2 {
		t.Fatal(d.status(), d.lines())
	}
	// The same words over other effects are another output.
	d = reviewing(t, testSpec())
	d.verdict("auditor", "unmet", "met")
	d.plan(revise(d.keep("fix"), with(fixStep(), func(s *engine.PlanStep) { s.Key = "more" }), reportStep("fix", "more")))
	d.work("keeper", "fix", `{"id":"i-18"}`, "ok")
	d.finish("keeper", engine.StatusDone, "fixed i-18")
	d.finish("writer", engine.StatusDone, "i-17 was fixed")
	if d.judged("auditor").Report.Version != 2 {
		t.Fatal(d.lines())
	}
}

func TestR54_ThreeFailedReportsNeedAttention(t *testing.T) {
	t.Parallel()
	d := reviewing(t, testSpec())
	for v := 1; v <= 3; v++ {
		d.verdict("auditor", "met", "unmet")
		if v == 3 {
			break
		}
		d.plan(revise(d.keep("fix"), reportStep("fix")))
		d.finish("writer", engine.StatusDone, "note "+itoa(v))
	}
	if diff := cmp.Diff([]string{"end escalated"}, d.acts()); diff != "" || d.status() != StatusNeedsAttention || d.count(engine.OpInterpret) != 3 {
		t.Fatal(diff, d.status(), d.count(engine.OpInterpret))
	}
	d.owner(engine.MsgCorrection, "write it to Ana")
	if o := d.objective(); o.Status != StatusActive || len(o.FailedReports) != 0 {
		t.Fatalf("%+v", o)
	}
	d.plan(revise(d.keep("fix"), reportStep("fix")))
	d.finish("writer", engine.StatusDone, "Dear Ana")
	d.verdict("auditor", "met", "met")
	if d.status() != StatusCompleted || d.objective().Report.Ref.Version != 4 {
		t.Fatal(d.lines())
	}
}

func TestR55_AVerdictDoesNotCompleteOverAnUnreadOwnerEvent(t *testing.T) {
	t.Parallel()
	d := reviewing(t, testSpec())
	d.owner(engine.MsgCorrection, "also i-18")
	d.verdict("auditor", "met", "met")
	if d.status() == StatusCompleted || d.m.st.Claim != "" || d.notes(NoteVerdict) != 1 || !strings.Contains(d.note(NoteVerdict), `"current":false`) {
		t.Fatal(d.lines())
	}
	// The proposal was shown the correction: it is the next plan.
	d.plan(revise(d.keep("fix"), with(fixStep(), func(s *engine.PlanStep) { s.Key = "more" }), reportStep("fix", "more")))
	if d.status() != StatusActive || d.objective().Plan.Version != 2 {
		t.Fatal(d.lines())
	}
	// A message that is no correction holds completion until it is read, and
	// the verdict then stands: no second review.
	d = reviewing(t, testSpec())
	d.owner(engine.MsgRequest, "how far are you?")
	d.verdict("auditor", "met", "met")
	if d.status() != StatusVerifying {
		t.Fatal(d.status())
	}
	d.plan(engine.PlanEnvelope{Decision: engine.DecideExplain, Text: "nearly"})
	if d.status() != StatusCompleted || d.count(engine.OpReview) != 1 {
		t.Fatal(d.lines())
	}
}

func TestR20_ACorrectionAfterCompletionOpensASuccessor(t *testing.T) {
	t.Parallel()
	d := reviewing(t, testSpec())
	d.verdict("auditor", "met", "met")
	first := d.objective().ID
	d.owner(engine.MsgCorrection, "i-18 is wrong too")
	if d.lines()[0] != "withdraw coordinator" {
		t.Fatal(d.lines())
	}
	req := d.shown()
	if req.ObjectiveID != first || req.PlanVersion != 1 || req.ObjectiveRevision != 1 || len(req.Progress) != 2 {
		t.Fatalf("%+v", req)
	}
	d.plan(revise(d.keep("fix"), with(fixStep(), func(s *engine.PlanStep) { s.Key = "more" }), reportStep("fix", "more")))
	o := d.objective()
	if o.ID == first || o.Continues != first || o.Plan.Version != 2 || o.Plan.Predecessor != 1 || o.Status != StatusActive || !o.Plan.Steps[0].Retained {
		t.Fatalf("%+v", o)
	}
	// Work of a retained task is not ordered again.
	if diff := cmp.Diff([]string{"model keeper turn/v1"}, d.acts()); diff != "" || d.call("keeper").Task != "objective:"+o.ID+":2:more" {
		t.Fatal(diff)
	}
	d.work("keeper", "fix", `{"id":"i-18"}`, "ok")
	d.finish("keeper", engine.StatusDone, "fixed i-18")
	d.finish("writer", engine.StatusDone, "both fixed")
	d.verdict("auditor", "met", "met")
	if d.status() != StatusCompleted || d.m.st.Claim != "coordinator" {
		t.Fatal(d.lines())
	}
}

func TestR63_QuestionsWaitForTheOwner(t *testing.T) {
	t.Parallel()
	d := reviewing(t, testSpec())
	d.verdict("auditor", "unmet", "met")
	d.plan(engine.PlanEnvelope{Decision: engine.DecideAskUser, Text: "which amount?"})
	if diff := cmp.Diff([]string{"note decision", "post coordinator", "say coordinator question: which amount?", "note objective"}, d.lines()); diff != "" || d.status() != StatusWaitingUser {
		t.Fatal(diff, d.status())
	}
	d.owner(engine.MsgReply, "47")
	d.plan(revise(with(fixStep(), func(s *engine.PlanStep) { s.Instruction = "set 47" }), reportStep("fix")))
	if d.status() != StatusActive || d.objective().Plan.Version != 2 {
		t.Fatal(d.lines())
	}
}

func TestRefusedReviews(t *testing.T) {
	t.Parallel()
	d := reviewing(t, testSpec())
	d.refuse("auditor", engine.EvDispatchRefused, engine.CodeForbidden)
	if d.call("second").Key.Kind != engine.OpReview {
		t.Fatal("the next reviewer is asked", d.lines())
	}
	d.refuse("second", engine.EvReservationRefused, engine.CodeBudgetExhausted)
	if diff := cmp.Diff([]string{"end budget"}, d.acts()); diff != "" || d.status() != StatusVerifying {
		t.Fatal(diff, d.status())
	}
	d.owner(engine.MsgReply, "more money")
	d.plan(engine.PlanEnvelope{Decision: engine.DecideNoop})
	d.verdict("second", "met", "met")
	if d.status() != StatusCompleted {
		t.Fatal(d.lines())
	}
}

func TestANoopLeavesNobodyWaiting(t *testing.T) {
	t.Parallel()
	d := reviewing(t, testSpec())
	d.verdict("auditor", "unmet", "met")
	d.plan(engine.PlanEnvelope{Decision: engine.DecideNoop})
	if diff := cmp.Diff([]string{"end escalated"}, d.acts()); diff != "" || !strings.Contains(strings.Join(d.lines(), "\n"), "stands still") {
		t.Fatal(diff, d.lines())
	}
}

// A version that no reviewer could judge may come back after a correction that
// changes no plan: the owner is told again, under an id of its own (R57).
func TestR57_EveryVainReviewIsToldApart(t *testing.T) {
	t.Parallel()
	d := reviewing(t, testSpec())
	d.reply("auditor", "no JSON")
	d.reply("auditor", "no JSON")
	for range 2 {
		if d.status() != StatusWaitingIntervention {
			t.Fatal(d.status())
		}
		d.owner(engine.MsgCorrection, "look again")
		d.plan(engine.PlanEnvelope{Decision: engine.DecideNoop})
	}
	if d.count(engine.OpReview) != 2 {
		t.Fatal(d.lines())
	}
}
