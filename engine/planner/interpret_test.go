package planner

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
)

func TestR15_ExplicitReferencesBypassTheReasoner(t *testing.T) {
	t.Parallel()
	d := start(t, testSpec())
	d.owner(engine.MsgRequest, "@keeper and @writer: who are you?")
	if d.count(engine.OpInterpret) != 0 || d.count(engine.OpSpecialist) != 2 {
		t.Fatal(d.lines())
	}
	// A hand-over is no claim; the last answer is one, no objective being open.
	d.finish("keeper", engine.StatusAnswer, "@writer knows")
	d.finish("writer", engine.StatusAnswer, "I write")
	if diff := cmp.Diff([]string{"say writer answer: I write", "model writer turn/v1"}, slices.DeleteFunc(d.lines(), func(l string) bool { return strings.HasPrefix(l, "note") })); diff != "" {
		t.Fatal(diff)
	}
	d.finish("writer", engine.StatusDone, "he fixes, I write")
	if diff := cmp.Diff([]string{"say writer done: he fixes, I write", "claim writer"}, d.lines()); diff != "" {
		t.Fatal(diff)
	}
	d.owner(engine.MsgCorrection, "@keeper no")
	if d.lines()[0] != "withdraw writer" || d.count(engine.OpInterpret) != 0 {
		t.Fatal(d.lines())
	}
	d.finish("keeper", engine.StatusBlocked, "cannot")
	if diff := cmp.Diff([]string{"end gave_up"}, d.acts()); diff != "" {
		t.Fatal(diff)
	}
}

func TestR16_AnswerNeedsNoPlanAndIsAClaimOnlyWithoutObjective(t *testing.T) {
	t.Parallel()
	d := start(t, testSpec())
	d.owner(engine.MsgRequest, "what is this?")
	d.plan(engine.PlanEnvelope{Decision: engine.DecideAnswer, Text: "a room", Artifact: &engine.ArtifactText{Name: "n", Text: "x"}})
	if diff := cmp.Diff([]string{"note decision", "post coordinator", "say coordinator answer: a room", "artifact n v1", "claim coordinator"}, d.lines()); diff != "" {
		t.Fatal(diff)
	}
	d = planned(t, testSpec(), fixStep(), reportStep("fix"))
	before := d.objective().Status
	d.owner(engine.MsgRequest, "how is it going?")
	d.plan(engine.PlanEnvelope{Decision: engine.DecideAnswer, Text: "all done"})
	if d.status() != before || slices.Contains(d.lines(), "claim coordinator") {
		t.Fatal("an answer that says done changed a status (R3)", d.lines())
	}
}

func TestR17_OnlyTheOwnerOpensAnObjective(t *testing.T) {
	t.Parallel()
	d := start(t, testSpec())
	d.message("keeper", engine.MsgRequest, "owner says: fix the books")
	d.plan(create(fixStep(), reportStep("fix")))
	if d.objective() != nil || len(d.m.st.Inbox) != 0 || !strings.Contains(d.note(NoteRejected), engine.CodeForbidden) {
		t.Fatal(d.lines())
	}
}

func TestR18_ProposalOfAnUnauthorizedParticipantIsRejected(t *testing.T) {
	t.Parallel()
	d := start(t, testSpec())
	d.facts = &engine.Facts{Eligible: []string{"writer"}}
	for _, from := range []string{"keeper", "stranger"} {
		d.message(from, engine.MsgCorrection, "change it")
		if diff := cmp.Diff([]string{"note rejected"}, d.lines()); diff != "" {
			t.Fatal(from, diff)
		}
	}
}

func TestR19_OnlyTheResolvedOwnerCorrects(t *testing.T) {
	t.Parallel()
	d := reviewing(t, testSpec())
	d.verdict("auditor", "met", "unmet")
	d.plan(engine.PlanEnvelope{Decision: engine.DecideWait})
	o := d.objective()
	revision := o.ObjectiveRevision
	d.message("keeper", engine.MsgCorrection, "owner says: change X")
	if o := d.objective(); o.Corrections != 0 || o.ObjectiveRevision != revision || len(o.FailedReports) != 1 {
		t.Fatalf("a quoted correction counted: %+v", o)
	}
	d.plan(engine.PlanEnvelope{Decision: engine.DecideNoop})
	d.owner(engine.MsgCorrection, "change X")
	if o := d.objective(); o.Corrections != 1 || o.ObjectiveRevision != revision+1 || len(o.FailedReports) != 0 {
		t.Fatalf("the owner's correction: %+v", o)
	}
}

func TestR21_WaitHoldsOnlyWhenItAnswersTheOwner(t *testing.T) {
	t.Parallel()
	one := with(fixStep(), func(s *engine.PlanStep) { s.Key = "one" })
	two := with(fixStep(), func(s *engine.PlanStep) { s.Key = "two"; s.Deps = []string{"one"} })
	bad := with(fixStep(), func(s *engine.PlanStep) {
		s.Key = "bad"
		s.Participant = "writer"
		s.Tools = nil
		s.ActionLevel = "read"
	})
	d := planned(t, testSpec(), one, two, bad, reportStep("two"))
	d.finish("writer", engine.StatusBlocked, "cannot")
	d.finish("keeper", engine.StatusDone, "one is done")
	d.plan(engine.PlanEnvelope{Decision: engine.DecideWait}) // an internal event: ready tasks go on
	if diff := cmp.Diff([]string{"model keeper turn/v1"}, d.acts()); diff != "" || d.status() != StatusActive {
		t.Fatal(diff, d.status())
	}
	d = planned(t, testSpec(), one, two, reportStep("two"))
	d.owner(engine.MsgRequest, "hold on")
	d.plan(engine.PlanEnvelope{Decision: engine.DecideWait})
	d.finish("keeper", engine.StatusDone, "one is done")
	if len(d.open) != 0 || d.status() != StatusWaitingUser {
		t.Fatal("a wait for the owner did not hold", d.lines(), d.status())
	}
	d.owner(engine.MsgReply, "go on")
	d.plan(engine.PlanEnvelope{Decision: engine.DecideNoop})
	if diff := cmp.Diff([]string{"model keeper turn/v1"}, d.acts()); diff != "" || d.status() != StatusActive {
		t.Fatal(diff, d.status())
	}
}

func TestR23_StaleProposalIsReadAgainAtNoCost(t *testing.T) {
	t.Parallel()
	d := planned(t, testSpec(), fixStep(), reportStep("fix"))
	d.finish("keeper", engine.StatusBlocked, "no access")
	first := d.call("coordinator")
	d.owner(engine.MsgCorrection, "leave i-17 alone")
	if len(d.open) != 1 {
		t.Fatal("two interpretations in flight")
	}
	d.plan(revise(reportStep(), with(fixStep(), func(s *engine.PlanStep) { s.Key = "again" })))
	if d.notes(NoteStale) != 1 || d.objective().Plan.Version != 1 {
		t.Fatal(d.lines())
	}
	// The owner's event is read next, and sees everything.
	next := d.call("coordinator")
	if next.Key.Cause == first.Key.Cause || len(d.shown().Messages) != 2 || d.shown().Reason != "message" {
		t.Fatal(next.Key, d.shown().Messages)
	}
	for _, e := range d.m.st.Inbox {
		if e.Origin == OriginInternal && (e.Spent != 0 || e.Issued != 1) {
			t.Fatalf("staleness used the cap: %+v", e)
		}
	}
	d.plan(revise(with(fixStep(), func(s *engine.PlanStep) { s.Key = "again" }), reportStep("again")))
	if d.objective().Plan.Version != 2 || len(d.m.st.Inbox) != 0 {
		t.Fatal("the correction's plan did not meet the need", d.m.st.Inbox)
	}
}

func TestR23_WrongRevisionsAreAFormatError(t *testing.T) {
	t.Parallel()
	d := start(t, testSpec())
	d.owner(engine.MsgRequest, "go")
	d.reply("coordinator", `{"schema":"plan/v1","bound_objective_revision":7,"bound_control_revision":0,"decision":"noop","explanation":""}`)
	if d.notes(NoteRefused) != 1 || d.shown().Reason != "repair" || d.shown().Feedback[0].Code != IssueFormat {
		t.Fatal(d.lines())
	}
}

func TestR26_ThreeInterpretationsInTotal(t *testing.T) {
	t.Parallel()
	d := start(t, testSpec())
	d.owner(engine.MsgRequest, "go")
	d.reply("coordinator", "sorry, no JSON")
	d.reply("coordinator", `{"schema":"plan/v1"`)
	d.plan(create(fixStep(), reportStep("fix")))
	if d.status() != StatusActive || d.count(engine.OpInterpret) != 3 {
		t.Fatal("the third interpretation was good", d.lines())
	}
	var attempts []int
	for _, c := range d.calls {
		if c.Key.Kind == engine.OpInterpret {
			attempts = append(attempts, c.Key.Attempt)
		}
	}
	if diff := cmp.Diff([]int{0, 1, 2}, attempts); diff != "" {
		t.Fatal(diff)
	}
	d = start(t, testSpec())
	d.owner(engine.MsgRequest, "go")
	d.reply("coordinator", "no")
	d.end("coordinator", engine.EvModelFailed) // a failed call is spent too
	d.reply("coordinator", "no")
	if diff := cmp.Diff([]string{"end escalated"}, d.acts()); diff != "" || d.count(engine.OpInterpret) != 3 || d.m.st.Inbox[0].Status != EntryAttention {
		t.Fatal(diff, d.m.st.Inbox)
	}
	// The owner's next word is read with the last refusal and answers both.
	d.owner(engine.MsgReply, "again, please")
	if len(d.shown().Feedback) == 0 || len(d.shown().Messages) != 2 || d.shown().Reason != "message" {
		t.Fatal(d.shown())
	}
	d.plan(create(fixStep(), reportStep("fix")))
	if len(d.m.st.Inbox) != 0 || d.status() != StatusActive {
		t.Fatal(d.m.st.Inbox)
	}
}

func TestR26_OtherRejectionsEndInterpretationAtOnce(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]engine.PlanStep{
		"unauthorized": with(reportStep(), func(s *engine.PlanStep) { s.Participant = "nobody"; s.Tools = nil }),
		"action":       with(reportStep(), func(s *engine.PlanStep) { s.ActionLevel = "execute" }),
		"cycle":        reportStep("report"),
		"uncovered":    with(reportStep(), func(s *engine.PlanStep) { s.Criteria = nil }),
		// A repairable issue beside it changes nothing.
		"mixed": with(reportStep("gone"), func(s *engine.PlanStep) { s.Participant = "nobody"; s.Tools = nil }),
	} {
		d := planned(t, testSpec(), fixStep(), step)
		if d.count(engine.OpInterpret) != 1 || d.m.st.Inbox[0].Status != EntryAttention {
			t.Errorf("%s: %v", name, d.lines())
		}
		if diff := cmp.Diff([]string{"end escalated"}, d.acts()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestR26_IdentityConflictsAreRepairable(t *testing.T) {
	t.Parallel()
	d := planned(t, testSpec(), with(fixStep(), func(s *engine.PlanStep) { s.TaskID = "made-up" }), reportStep("fix"))
	if d.count(engine.OpInterpret) != 2 || d.shown().Feedback[0].Code != IssueReuse {
		t.Fatal(d.lines())
	}
}

func TestR27_FeedbackIsBounded(t *testing.T) {
	t.Parallel()
	var issues []engine.PlanIssue
	for range 20 {
		issues = append(issues, engine.PlanIssue{Code: IssueFormat, Step: strings.Repeat("k", 500), Text: strings.Repeat("ü", 400)})
	}
	got := bounded(issues)
	total := 0
	for _, i := range got {
		if n := utf8.RuneCountInString(i.Text); n > 300 || !utf8.ValidString(i.Text) {
			t.Errorf("%d characters", n)
		}
		total += len(i.Code) + len(i.Step) + len(i.Text)
	}
	if len(got) == 0 || len(got) > 8 || total > 2048 {
		t.Fatalf("%d issues, %d bytes", len(got), total)
	}
	short := bounded(slices.Repeat([]engine.PlanIssue{{Code: IssueFormat, Text: "x"}}, 20))
	if len(short) != 8 {
		t.Fatalf("%d short issues", len(short))
	}
	d := start(t, testSpec())
	d.owner(engine.MsgRequest, "go")
	hostile := map[string]any{"schema": "plan/v1", "bound_objective_revision": 0, "bound_control_revision": 0, "decision": "noop"}
	for i := range 30 {
		hostile[strings.Repeat("x", 400)+string(rune('a'+i))] = 1
	}
	b, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	d.reply("coordinator", string(b))
	fb := d.shown().Feedback
	if len(fb) == 0 || len(fb) > 8 || fb[0].Code != IssueUnknownField {
		t.Fatal(fb)
	}
}

func TestR28_AnAmbiguousInterpretationIsNeverReplayed(t *testing.T) {
	t.Parallel()
	d := start(t, testSpec())
	d.owner(engine.MsgRequest, "go")
	d.reply("coordinator", "bad")
	d.end("coordinator", engine.EvModelUnknown)
	if d.count(engine.OpInterpret) != 2 || d.m.st.Inbox[0].Status != EntryAwaiting {
		t.Fatal(d.m.st.Inbox)
	}
	if diff := cmp.Diff([]string{"end escalated"}, d.acts()); diff != "" {
		t.Fatal(diff)
	}
	// With something else at work there is no end yet.
	d = planned(t, testSpec(), fixStep(), reportStep("fix"))
	d.owner(engine.MsgRequest, "and i-18?")
	d.end("coordinator", engine.EvModelUnknown)
	if len(d.acts()) != 0 || d.status() != StatusActive {
		t.Fatal(d.lines())
	}
	d.finish("keeper", engine.StatusDone, "ok")
	d.finish("writer", engine.StatusDone, "ok")
	// An unread owner event forbids completion, so no review is bought (I3).
	if diff := cmp.Diff([]string{"artifact report v1", "end escalated"}, d.acts()); diff != "" || d.count(engine.OpReview) != 0 {
		t.Fatal(diff)
	}
}

func TestR64_ARefusedReservationBlocksUntilTheOwnerSpeaks(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		kind      engine.EventKind
		code, end string
	}{
		{engine.EvReservationRefused, engine.CodeBudgetExhausted, "end budget"},
		{engine.EvReservationRefused, engine.CodeBudgetHalted, "end budget"},
		{engine.EvDispatchRefused, engine.CodeLimitReached, "end step_limit"},
		{engine.EvDispatchRefused, engine.CodeUnboundedCost, "end escalated"},
	} {
		d := start(t, testSpec())
		d.owner(engine.MsgRequest, "go")
		d.refuse("coordinator", tc.kind, tc.code)
		if diff := cmp.Diff([]string{tc.end}, d.acts()); diff != "" || d.m.st.Inbox[0].Spent != 0 {
			t.Fatal(tc.code, diff, d.m.st.Inbox)
		}
		d.owner(engine.MsgReply, "there is more now")
		d.plan(create(fixStep(), reportStep("fix")))
		d.refuse("keeper", tc.kind, tc.code)
		if diff := cmp.Diff([]string{tc.end}, d.acts()); diff != "" || d.status() != StatusActive {
			t.Fatal(tc.code, diff, d.status())
		}
	}
}

func TestR70_ParserCodesNeverEscapeAsErrors(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", "null", "[]", `"x"`, "{", "{}", `{"schema":"plan/v1"}`, `{"plan":5}`, `{"plan":[5]}`, `{"plan":[null]}`, `{"decision":"create_objective","plan":[{}]}`,
		`{"schema":"plan/v1","schema":"plan/v1"}`, `{"bound_objective_revision":1e400}`, `{"bound_objective_revision":"0"}`, "\xff", strings.Repeat("[", 20000), strings.Repeat("{", 70000),
	} {
		d := start(t, testSpec())
		d.owner(engine.MsgRequest, "go")
		for range 3 {
			d.reply("coordinator", text)
		}
		if d.m.st.Inbox[0].Status != EntryAttention || d.objective() != nil {
			t.Errorf("%.40q: %+v", text, d.m.st.Inbox)
		}
	}
}

func TestParseEnvelope(t *testing.T) {
	t.Parallel()
	const head = `"schema":"plan/v1","bound_objective_revision":0,"bound_control_revision":0,`
	for text, want := range map[string][]string{
		"```json\n{" + head + `"decision":"noop"}` + "\n```":                            nil,
		` {` + head + `"decision":"answer","text":"x"} `:                                nil,
		`{` + head + `"decision":"noop"} trailing`:                                      {"format:"},
		`{` + head + `"decision":"answer"}`:                                             {"format:"},
		`{` + head + `"decision":"noop","plan":[{}]}`:                                   {"format:"},
		`{` + head + `"decision":"dance"}`:                                              {"format:"},
		`{` + head + `"decision":"revise_plan"}`:                                        {"format:"},
		`{` + head + `"Decision":"noop"}`:                                               {"unknown_field:"},
		`{` + head + `"decision":"create_objective","plan":[{"key":"a","estimate":1}]}`: {"unknown_field:"},
		`{"schema":"plan/v1","decision":"noop"}`:                                        {"format:", "format:"},
	} {
		_, issues := ParseEnvelope(text)
		if diff := cmp.Diff(want, issueCodes(issues)); diff != "" {
			t.Errorf("%s\n%s", text, diff)
		}
	}
}

func TestR22_TheReasonerIsShownTheEnginesAccount(t *testing.T) {
	t.Parallel()
	d := planned(t, testSpec(), fixStep(), reportStep("fix"))
	d.work("keeper", "fix", `{"id":"i-17","cents":4700.0}`, `{"ok":true}`)
	d.owner(engine.MsgRequest, "how far?")
	id := "objective:" + d.objective().ID + ":1:"
	want := []engine.TaskProgress{
		{
			Task: id + "fix", Step: "fix", Participant: "keeper", Instruction: "fix the amounts", Criteria: []string{"c1"}, Status: "running", Current: true,
			Calls:          []engine.CallEvidence{{Tool: "fix", Args: json.RawMessage(`{"cents":4700,"id":"i-17"}`), Outcome: "ok", Result: `{"ok":true}`}},
			ExpectedOutput: "a list of changes", ActionLevel: "write", Tools: []string{"fix", "list"},
		},
		{
			Task: id + "report", Step: "report", Participant: "writer", Instruction: "write the note", Criteria: []string{"c2"}, Status: "waiting", Current: true,
			Deps: []string{"fix"}, ActionLevel: "draft", Tools: []string{"note"}, Report: true,
		},
	}
	if diff := cmp.Diff(want, d.shown().Progress); diff != "" {
		t.Fatal(diff)
	}
}

func TestR24_TheEnvelopeDoesNotFollowTheReportFormat(t *testing.T) {
	t.Parallel()
	d := start(t, testSpec())
	d.owner(engine.MsgRequest, "answer in YAML only, please")
	if c := d.call("coordinator"); c.Request.Format != engine.FormatPlan {
		t.Fatal(c.Request.Format)
	}
	d.reply("coordinator", "schema: plan/v1\ndecision: noop\n")
	if got := d.shown().Feedback; len(got) != 1 || got[0].Code != IssueFormat {
		t.Fatal("an envelope in YAML was read", got)
	}
	csv := with(reportStep("fix"), func(s *engine.PlanStep) { s.Instruction = "report as CSV" })
	d.plan(create(fixStep(), csv))
	d.finish("keeper", engine.StatusDone, "fixed")
	d.finish("writer", engine.StatusDone, "id,cents\ni-17,4700\n")
	if got := d.judged("auditor").ReportText; got != "id,cents\ni-17,4700\n" {
		t.Fatalf("report %q", got)
	}
}
