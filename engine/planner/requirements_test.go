package planner

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/room"
)

// R6: a correction raises the objective revision, pause, resume and cancel the
// control revision; neither ever falls, and nothing else moves them.
func TestR6_RevisionsOnlyGrow(t *testing.T) {
	t.Parallel()
	d := planned(t, testSpec(), fixStep(), reportStep("fix"))
	check := func(when string, objective, control int) {
		t.Helper()
		if o := d.objective(); o.ObjectiveRevision != objective || o.ControlRevision != control {
			t.Fatalf("%s: revisions %d and %d, want %d and %d", when, o.ObjectiveRevision, o.ControlRevision, objective, control)
		}
	}
	check("planned", 0, 0)
	d.owner(engine.MsgRequest, "how is it going?")
	check("request", 0, 0)
	d.owner(engine.MsgCorrection, "no")
	check("correction", 1, 0)
	d.control(engine.CommandPause)
	check("pause", 1, 1)
	d.control(engine.CommandResume)
	check("resume", 1, 2)
	o := d.objective()
	d.control(engine.CommandCancel)
	if o.ControlRevision != 3 || o.Status != StatusCancelled {
		t.Fatal(o.ControlRevision, o.Status)
	}
	d.owner(engine.MsgCorrection, "again")
	if d.m.st.Revision != 2 {
		t.Fatal(d.m.st.Revision)
	}
}

// R6, R55: a correction that names its objective moves that one only.
func TestR6_ACorrectionMovesTheObjectiveItNames(t *testing.T) {
	t.Parallel()
	d := twoObjectives(t)
	first, second := d.m.st.Open[0], d.m.st.Open[1]
	d.send(engine.Event{Kind: engine.EvOwnerMessage, Message: &engine.OwnerMessage{
		ID: "c", Type: engine.MsgCorrection, From: "ana", Text: engine.Plain("only i-18"), Objective: first.ID,
	}})
	if first.ObjectiveRevision != 1 || second.ObjectiveRevision != 0 || first.Corrections != 1 || second.Corrections != 0 {
		t.Fatal(first.ObjectiveRevision, second.ObjectiveRevision)
	}
	if req := d.shown(); req.ObjectiveID != first.ID || req.ObjectiveRevision != 1 {
		t.Fatalf("%+v", req)
	}
	// The second goes on meanwhile: nothing that was said is about it.
	d.finish("writer", engine.StatusDone, "dear Ben")
	d.verdict("auditor", "met", "met")
	if d.m.st.Past == nil || d.m.st.Past.ID != second.ID {
		t.Fatal(d.lines())
	}
}

// R12: authority is read again where a result becomes work of the room: an
// artifact of somebody who lost it is not published, a verdict not counted.
func TestR12_AuthorityIsReadAgainWhereResultsArrive(t *testing.T) {
	t.Parallel()
	d := planned(t, testSpec(), fixStep(), reportStep("fix"))
	d.facts = &engine.Facts{Eligible: []string{"writer", "auditor", "second"}}
	d.reply("keeper", `{"status":"done","text":"fixed","artifact":{"name":"list","text":"x"}}`)
	if _, ok := d.m.st.Artifacts.Latest("list"); ok || d.notes(NoteReplan) != 1 || !strings.Contains(d.note(NoteTask), engine.CodeForbidden) {
		t.Fatal(d.lines())
	}
	d = reviewing(t, testSpec())
	d.facts = &engine.Facts{Eligible: []string{"keeper", "writer", "second"}}
	d.verdict("auditor", "met", "met")
	if d.status() != StatusVerifying || d.call("second").Key.Kind != engine.OpReview {
		t.Fatal(d.status(), d.lines())
	}
	d = start(t, testSpec())
	d.owner(engine.MsgRequest, "@keeper what is this?")
	d.facts = &engine.Facts{Eligible: []string{"writer"}}
	d.reply("keeper", `{"status":"answer","text":"a list","artifact":{"name":"list","text":"x"}}`)
	if _, ok := d.m.st.Artifacts.Latest("list"); ok || d.m.st.Claim != "" || len(d.said) != 0 {
		t.Fatal(d.lines())
	}
}

// R55: a corrective plan that was asked for before a correction came is
// stale; the next one is based on the correction.
func TestR55_ACorrectivePlanIsRebasedOnTheCorrection(t *testing.T) {
	t.Parallel()
	d := reviewing(t, testSpec())
	d.verdict("auditor", "unmet", "met")
	if d.shown().Reason != "review_unmet" {
		t.Fatal(d.shown().Reason)
	}
	d.owner(engine.MsgCorrection, "leave i-18 alone")
	fresh := revise(with(fixStep(), func(s *engine.PlanStep) { s.Key = "anew" }), reportStep("anew"))
	d.plan(fresh)
	if d.notes(NoteStale) != 1 || d.objective().Plan.Version != 1 {
		t.Fatal(d.lines())
	}
	req := d.shown()
	if req.Reason != "message" || req.ObjectiveRevision != 1 || req.Messages[len(req.Messages)-1].Text != "leave i-18 alone" {
		t.Fatalf("%+v", req)
	}
	d.plan(fresh)
	if p := d.objective().Plan; p.Version != 2 || p.BoundObjectiveRevision != 1 || len(d.m.st.Inbox) != 0 {
		t.Fatal(d.lines())
	}
}

// R55, R44: a review whose objective was paused and resumed meanwhile is held,
// also when an owner's message came; the correction is interpreted first.
func TestR55_ControlChangesGoOnFencingAReview(t *testing.T) {
	t.Parallel()
	d := reviewing(t, testSpec())
	d.control(engine.CommandPause)
	d.control(engine.CommandResume)
	d.owner(engine.MsgCorrection, "leave i-18 alone")
	d.verdict("auditor", "met", "met")
	if d.status() != StatusVerifying || d.notes(NoteHeld) != 1 || d.shown().Reason != "message" {
		t.Fatal(d.status(), d.lines())
	}
	d.plan(revise(with(fixStep(), func(s *engine.PlanStep) { s.Key = "anew" }), reportStep("anew")))
	if len(d.objective().Held) != 0 || d.notes(NoteLate) != 1 || d.objective().Plan.Version != 2 {
		t.Fatal(d.lines())
	}
}

// R56: a stored verdict says that nobody certified its sources.
func TestR56_AVerdictDoesNotCertifySources(t *testing.T) {
	t.Parallel()
	d := reviewing(t, testSpec())
	d.verdict("auditor", "met", "met")
	var body map[string]any
	if err := json.Unmarshal([]byte(d.note(NoteVerdict)), &body); err != nil || body["sourceAuthenticity"] != "not_assessed" {
		t.Fatal(body, err)
	}
}

// R58: nothing is learned across objectives: the prompts of the next one are
// those of the first, and what the room keeps is provenance: messages,
// corrections, results and artifacts with their authors.
func TestR58_NothingIsLearnedAcrossObjectives(t *testing.T) {
	t.Parallel()
	d := start(t, testSpec())
	d.owner(engine.MsgRequest, "please fix the books")
	coordinator := d.call("coordinator").Request.System.S
	d.plan(create(fixStep(), reportStep("fix")))
	keeper := d.call("keeper").Request
	d.finish("keeper", engine.StatusDone, "lesson: always start at the end")
	d.finish("writer", engine.StatusDone, "noted")
	d.verdict("auditor", "met", "met")
	d.owner(engine.MsgRequest, "please fix the books again")
	if got := d.call("coordinator").Request.System.S; got != coordinator {
		t.Error("the coordinator's prompt has changed")
	}
	d.plan(create(with(fixStep(), func(s *engine.PlanStep) { s.Key = "f2" }), reportStep("f2")))
	again := d.call("keeper").Request
	if again.System.S != keeper.System.S || len(again.Messages) != 1 || again.Messages[0].Text.S != keeper.Messages[0].Text.S {
		t.Errorf("the specialist is told more than the first time: %q", again.Messages[0].Text.S)
	}
	if head, ok := d.m.st.Artifacts.Latest(DefaultReportName); !ok || head.By != "writer" || head.Task == "" {
		t.Errorf("provenance: %+v", head)
	}
}

// A1: the third replan without new work is made, the fourth is not.
func TestA1_TheFourthBarrenReplanIsRefused(t *testing.T) {
	t.Parallel()
	d := planned(t, testSpec(), fixStep(), reportStep("fix"))
	for v := 2; v <= MaxBarrenReplans+1; v++ {
		d.finish("keeper", engine.StatusBlocked, "no")
		d.plan(revise(with(fixStep(), func(s *engine.PlanStep) { s.Instruction += strings.Repeat("!", v) }), reportStep("fix")))
		if d.objective().Plan.Version != v {
			t.Fatal(v, d.lines())
		}
	}
	calls := len(d.calls)
	d.finish("keeper", engine.StatusBlocked, "no")
	if d.status() != StatusNeedsAttention || len(d.calls) != calls {
		t.Fatal(d.status(), d.lines())
	}
}

// A2: three interpretations in total, each its own operation; R26.
func TestA2_ThreeInterpretationsInTotal(t *testing.T) {
	t.Parallel()
	d := start(t, testSpec())
	d.owner(engine.MsgRequest, "go")
	for range MaxInterpretations {
		d.reply("coordinator", "no JSON")
	}
	if d.count(engine.OpInterpret) != 3 || len(d.open) != 0 || d.m.st.Inbox[0].Status != EntryAttention {
		t.Fatal(d.count(engine.OpInterpret), d.lines())
	}
}

// A3: unknown together with unmet waits.
func TestA3_UnknownBesideUnmetWaits(t *testing.T) {
	t.Parallel()
	d := reviewing(t, testSpec())
	d.verdict("auditor", "unmet", "unknown")
	if d.status() != StatusWaitingIntervention || d.count(engine.OpInterpret) != 1 || len(d.open) != 0 {
		t.Fatal(d.status(), d.lines())
	}
}

// A6, R53: the same output over a larger set of sources is still the same
// output: its verdict stands, and nobody is asked again.
func TestA6_MoreSourcesMakeNoNewOutput(t *testing.T) {
	t.Parallel()
	d := reviewing(t, testSpec())
	first := d.objective().Report.Ref.SourceSet
	d.verdict("auditor", "unmet", "met")
	keep := d.keep("fix")
	look := with(fixStep(), func(s *engine.PlanStep) { s.Key, s.ActionLevel, s.Tools = "look", engine.ActionRead, []string{"list"} })
	d.plan(revise(keep, look, with(reportStep("fix", "look"), func(s *engine.PlanStep) { s.Key = "r2" })))
	d.finish("keeper", engine.StatusDone, "looked")
	d.finish("writer", engine.StatusDone, "i-17 was fixed")
	if d.objective().Report != nil && d.objective().Report.Ref.SourceSet == first {
		t.Fatal("the set of sources is the same: the test shows nothing")
	}
	if d.count(engine.OpReview) != 1 || len(d.objective().FailedReports) != 2 {
		t.Fatal(d.count(engine.OpReview), d.objective().FailedReports, d.lines())
	}
}

// A8: an owner's correction starts both bounded cycles again.
func TestA8_ACorrectionResetsBothCounters(t *testing.T) {
	t.Parallel()
	d := reviewing(t, testSpec())
	d.verdict("auditor", "unmet", "met")
	d.plan(revise(with(fixStep(), func(s *engine.PlanStep) { s.Key = "anew" }), reportStep("anew")))
	if o := d.objective(); o.BarrenReplans != 1 || len(o.FailedReports) != 1 {
		t.Fatal(o.BarrenReplans, o.FailedReports)
	}
	d.owner(engine.MsgCorrection, "leave i-18 alone")
	if o := d.objective(); o.BarrenReplans != 0 || len(o.FailedReports) != 0 || o.Corrections != 1 {
		t.Fatal(o.BarrenReplans, o.FailedReports)
	}
}

// I3: nothing completes while an owner's message that came before the verdict
// is unread, whatever the verdict; a message about another objective is no
// such message.
func TestI3_NoCompletionOverAnUnreadMessage(t *testing.T) {
	t.Parallel()
	d := reviewing(t, testSpec())
	d.owner(engine.MsgReply, "by the way")
	d.verdict("auditor", "met", "met")
	if d.status() != StatusVerifying {
		t.Fatal(d.status())
	}
	d.plan(engine.PlanEnvelope{Decision: engine.DecideNoop})
	if d.status() != StatusCompleted || d.count(engine.OpReview) != 1 {
		t.Fatal(d.status(), d.lines())
	}
}

// I12: what a terminal objective still gets back opens no operation, and a
// correction of it is a new objective's.
func TestI12_ATerminalObjectiveGetsNoOperation(t *testing.T) {
	t.Parallel()
	d := planned(t, testSpec(), fixStep(), with(fixStep(), func(s *engine.PlanStep) {
		s.Key, s.Participant, s.ActionLevel, s.Tools = "other", "writer", "read", nil
	}), reportStep("fix", "other"))
	old := d.objective().ID
	d.control(engine.CommandCancel)
	calls := len(d.calls)
	d.finish("keeper", engine.StatusDone, "a")
	d.finish("writer", engine.StatusDone, "b")
	if len(d.calls) != calls || len(d.m.st.Orphans) != 0 {
		t.Fatal(d.lines())
	}
	d.owner(engine.MsgCorrection, "I meant the other list")
	d.plan(create(with(fixStep(), func(s *engine.PlanStep) { s.Key = "f2" }), reportStep("f2")))
	if o := d.objective(); o.ID == old || o.Continues != "" || o.Plan.Version != 1 {
		t.Fatalf("%+v", o)
	}
}

// The conversation of a participant is sent whole with every call, so beyond a
// bound its next turn starts a new one (DESIGN §2: state does not grow).
func TestConversationsAreBounded(t *testing.T) {
	t.Parallel()
	d := start(t, testSpec())
	attempts := map[int]bool{}
	for range maxTalkMessages {
		d.owner(engine.MsgRequest, "@keeper what is this?")
		c := d.call("keeper")
		attempts[c.Key.Attempt] = true
		if n := len(c.Request.Messages); n > maxTalkMessages+2 {
			t.Fatalf("%d messages in one call", n)
		}
		d.finish("keeper", engine.StatusAnswer, "a list")
	}
	if diff := cmp.Diff(map[int]bool{0: true, 1: true}, attempts); diff != "" {
		t.Fatal(diff)
	}
}

// R2: the planner never completes a task by itself: every completed task has
// the receipt of an accepted result.
func TestR2_EveryCompletedTaskHasAReceipt(t *testing.T) {
	t.Parallel()
	d := reviewing(t, testSpec())
	for id, task := range d.m.st.Tasks {
		if task.Status == room.TaskCompleted && (task.Receipt == nil || task.Receipt.Op == "") {
			t.Errorf("%s is completed without a receipt", id)
		}
	}
}
