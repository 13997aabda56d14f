package selective_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/modes/modetest"
	"github.com/agentrooms/qualify/modes/selective"
)

func spec() engine.RoomSpec {
	return engine.RoomSpec{
		Goal: "Keep the book.", Owner: "ana", Parallel: 2,
		Agents: []engine.Participant{
			{ID: "keeper", Agent: "agent-keeper", Role: "specialist", Description: "edits the book", Aliases: []string{"book"}, Tools: []string{"get", "put"}},
			{ID: "writer", Agent: "agent-writer", Role: "specialist", Description: "writes notes", Tools: []string{"note"}},
			{ID: "auditor", Agent: "agent-auditor", Role: "reviewer", Description: "checks", Tools: []string{"get"}},
		},
		Criteria: []engine.Criterion{{ID: "c-1", Text: "The book is right"}},
		Tools:    []engine.ToolSpec{{Name: "get"}, {Name: "note"}, {Name: "put"}},
	}
}

func lines(t *testing.T, got []engine.Command, want ...string) {
	t.Helper()
	if want == nil {
		want = []string{}
	}
	if diff := cmp.Diff(want, modetest.Lines(got)); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
}

func start(t *testing.T) *modetest.Driver {
	t.Helper()
	return modetest.Start(t, selective.Mode{}, spec())
}

func TestC7_ExplicitReferencesStartTheirParticipantsWithoutTheRouter(t *testing.T) {
	t.Parallel()
	d := start(t)
	lines(t, d.Owner(engine.MsgRequest, "m1", "@Writer and @auditor. please; mail a@keeper, ask @nobody"),
		`note route {"basis":"explicit_reference","message":"m1","participants":["writer","auditor"]}`,
		"model writer turn/v1 task=m1", "model auditor turn/v1 task=m1")
	c := d.Call("writer")
	if diff := cmp.Diff([]string{"note"}, c.Request.Tools); diff != "" {
		t.Fatal(diff)
	}
	want := engine.OpKey{Kind: engine.OpSpecialist, Cause: "session:writer"}
	if c.Key != want || c.Role != engine.RoleSpecialist {
		t.Fatalf("call %+v", c)
	}
	for _, line := range []string{"You are: writer", "Your tools: note", "Colleagues:\n- keeper: edits the book\n- auditor: checks\n", "Criteria:\n- c-1: The book is right\n"} {
		if !strings.Contains(c.Request.System.S, line) {
			t.Errorf("the prompt lacks %q:\n%s", line, c.Request.System.S)
		}
	}
}

func TestC7_RouterChoosesOneSpecialist(t *testing.T) {
	t.Parallel()
	d := start(t)
	lines(t, d.Owner(engine.MsgRequest, "m1", "please"), "model router route/v1 task=m1")
	c := d.Call("router")
	if c.Role != engine.RoleRouter || c.Key.Kind != engine.OpRoute || len(c.Request.Tools) != 0 {
		t.Fatalf("call %+v", c)
	}
	var req engine.RouteRequest
	if err := json.Unmarshal([]byte(c.Request.Messages[len(c.Request.Messages)-1].Text.S), &req); err != nil {
		t.Fatal(err)
	}
	s := spec()
	want := engine.RouteRequest{
		Schema: engine.FormatRoute, Goal: s.Goal,
		Message:    engine.PlanMessage{ID: "m1", Type: engine.MsgRequest, From: "ana", Text: "please"},
		Candidates: s.Agents[:2], // reviewers are reached by reference only
	}
	if diff := cmp.Diff(want, req); diff != "" {
		t.Fatal(diff)
	}
	lines(t, d.Reply("router", `{"participant":"writer","reason":"notes"}`),
		`note route {"basis":"router","message":"m1","participants":["writer"]}`, "model writer turn/v1 task=m1")
	if diff := cmp.Diff([]string{"user ana (owner): please"}, modetest.Talk(d.Call("writer"))); diff != "" {
		t.Fatal(diff)
	}
	lines(t, d.Turn("writer", engine.StatusDone, "ready"), "say writer>ana done: ready", "claim writer: ready")
	// A correction is routed like any message; the claim goes first.
	lines(t, d.Owner(engine.MsgCorrection, "k1", "wrong"), "withdraw writer: reopened by correction k1", "model router route/v1 task=m1")
	lines(t, d.Reply("router", `{"participant":"keeper","reason":"book"}`),
		`note route {"basis":"router","message":"k1","participants":["keeper"]}`, "model keeper turn/v1 task=m1")
}

func TestC7_DefaultTakesWhatTheRouterGivesNobody(t *testing.T) {
	t.Parallel()
	withDefault := spec()
	withDefault.Options = map[string]string{selective.OptionDefault: "writer"}
	for want, s := range map[string]engine.RoomSpec{"keeper": spec(), "writer": withDefault} {
		d := modetest.Start(t, selective.Mode{}, s)
		d.Owner(engine.MsgRequest, "m1", "please")
		lines(t, d.Reply("router", `{"participant":"","reason":"nobody fits"}`),
			`note route {"basis":"default","message":"m1","participants":["`+want+`"]}`, "model "+want+" turn/v1 task=m1")
	}
}

func TestSelectiveRepairsTheRouterOnceAndThenTakesTheDefault(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ reply, feedback, reason string }{
		"no JSON":      {"writer!", "the reply must be one JSON object with a participant", "router: the reply must be one JSON object with a participant"},
		"no candidate": {`{"participant":"auditor"}`, `VALIDATION_ERROR: the router named "auditor", who is no candidate`, `router: VALIDATION_ERROR: the router named \"auditor\", who is no candidate`},
	} {
		d := start(t)
		d.Owner(engine.MsgRequest, "m1", "please")
		lines(t, d.Reply("router", c.reply), "model router route/v1 task=m1")
		talk := modetest.Talk(d.Call("router"))
		if len(talk) != 2 || !strings.HasPrefix(talk[0], "user room: Your last choice could not be used: "+c.feedback) || !strings.HasPrefix(talk[1], `user: {"candidates"`) {
			t.Errorf("%s: repair request %q", name, talk)
		}
		lines(t, d.Reply("router", c.reply),
			`note route {"basis":"default","message":"m1","participants":["keeper"],"reason":"`+c.reason+`"}`, "model keeper turn/v1 task=m1")
	}
}

func TestSelectiveRouterFailures(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.Owner(engine.MsgRequest, "m1", "please")
	lines(t, d.Model("router", engine.EvModelUnknown), "model router route/v1 task=m1")
	if talk := modetest.Talk(d.Call("router")); len(talk) != 1 {
		t.Fatalf("feedback on a reply nobody saw: %q", talk)
	}
	lines(t, d.Model("router", engine.EvModelFailed),
		`note route {"basis":"default","message":"m1","participants":["keeper"],"reason":"router: the call failed"}`, "model keeper turn/v1 task=m1")

	d = start(t)
	d.Owner(engine.MsgRequest, "m1", "please")
	lines(t, d.Refuse("router", engine.EvReservationRefused, engine.CodeBudgetExhausted),
		`note route {"basis":"default","message":"m1","participants":["keeper"],"reason":"router: BUDGET_EXHAUSTED: because"}`, "model keeper turn/v1 task=m1")
	lines(t, d.Refuse("keeper", engine.EvReservationRefused, engine.CodeBudgetExhausted),
		"say keeper>ana blocked: Refused (BUDGET_EXHAUSTED): because", "end budget")
}

func TestC6_OnlyEligibleParticipantsAreCandidates(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.Eligible = []string{"auditor", "writer"}
	lines(t, d.Owner(engine.MsgRequest, "m1", "@keeper please"), "model router route/v1 task=m1")
	if text := modetest.Talk(d.Call("router"))[0]; strings.Contains(text, `"id":"keeper"`) {
		t.Fatalf("the router is offered somebody ineligible: %s", text)
	}
	lines(t, d.Reply("router", `{"participant":""}`),
		`note route {"basis":"unassigned","message":"m1","participants":[],"reason":"VALIDATION_ERROR: the default participant \"keeper\" is not eligible"}`,
		`say router>ana blocked: Nobody took this message: VALIDATION_ERROR: the default participant "keeper" is not eligible.`, "end escalated")

	d = start(t)
	d.Eligible = []string{"auditor"}
	lines(t, d.Owner(engine.MsgRequest, "m1", "please"),
		`note route {"basis":"unassigned","message":"m1","participants":[],"reason":"no_eligible_participant"}`,
		"say router>ana blocked: Nobody took this message: no_eligible_participant.", "end escalated")
}

func TestSelectiveHandsOverByReference(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.Owner(engine.MsgRequest, "m1", "@keeper please")
	d.Reply("keeper", "", modetest.ToolCall("put", `{"id":"a"}`))
	d.Tool("keeper", engine.EvToolUnknown, "")
	cmds := d.Turn("keeper", engine.StatusAnswer, "put a; @writer tell ana, @keeper not me", engine.ArtifactText{Name: "list", Text: "a"})
	lines(t, cmds,
		"artifact list v1 by keeper: a", "say keeper>writer answer: put a; @writer tell ana, @keeper not me",
		`note route {"basis":"explicit_reference","message":"`+cmds[1].Say.ID+`","participants":["writer"]}`,
		"model writer turn/v1 task=m1")
	if d.Claimed() {
		t.Fatal("a hand-over is no claim")
	}
	want := []string{"user keeper: put a; @writer tell ana, @keeper not me\n\nDelivered with this message, list:\na"}
	if diff := cmp.Diff(want, modetest.Talk(d.Call("writer"))); diff != "" {
		t.Fatal(diff)
	}
	lines(t, d.Reply("writer", "", modetest.ToolCall("note", `{}`)), "tool writer note{} task=m1")
	d.Tool("writer", engine.EvToolOK, "sent")
	lines(t, d.Turn("writer", engine.StatusAnswer, "told"), "say writer>ana answer: told", "claim writer: told")
}

func TestSelectiveClaims(t *testing.T) {
	t.Parallel()
	t.Run("an answer while a colleague is at work is none", func(t *testing.T) {
		t.Parallel()
		d := start(t)
		d.Owner(engine.MsgRequest, "m1", "@keeper @writer please")
		lines(t, d.Turn("keeper", engine.StatusAnswer, "mine is ready"), "say keeper>ana answer: mine is ready")
		lines(t, d.Turn("writer", engine.StatusAnswer, "mine too"), "say writer>ana answer: mine too", "claim writer: mine too")
	})
	t.Run("done is one even then", func(t *testing.T) {
		t.Parallel()
		d := start(t)
		d.Owner(engine.MsgRequest, "m1", "@keeper @writer please")
		lines(t, d.Turn("keeper", engine.StatusDone, "ready"), "say keeper>ana done: ready", "claim keeper: ready")
	})
	t.Run("done is none over a message not read", func(t *testing.T) {
		t.Parallel()
		d := start(t)
		d.Owner(engine.MsgRequest, "m1", "@keeper please")
		lines(t, d.Owner(engine.MsgCorrection, "k1", "@keeper and this"),
			`note route {"basis":"explicit_reference","message":"k1","participants":["keeper"]}`)
		lines(t, d.Turn("keeper", engine.StatusDone, "ready"), "say keeper>ana done: ready", "model keeper turn/v1 task=m1")
		lines(t, d.Turn("keeper", engine.StatusDone, "all"), "say keeper>ana done: all", "claim keeper: all")
	})
	t.Run("done is none over a message not routed", func(t *testing.T) {
		t.Parallel()
		d := start(t)
		d.Owner(engine.MsgRequest, "m1", "@keeper please")
		lines(t, d.Owner(engine.MsgCorrection, "k1", "and this"), "model router route/v1 task=m1")
		lines(t, d.Turn("keeper", engine.StatusDone, "ready"), "say keeper>ana done: ready")
	})
	t.Run("question goes to the owner, and its colleague too", func(t *testing.T) {
		t.Parallel()
		d := start(t)
		d.Owner(engine.MsgRequest, "m1", "@keeper please")
		lines(t, d.Turn("keeper", engine.StatusQuestion, "which?"), "say keeper>ana question: which?")
		d.Owner(engine.MsgReply, "r1", "@keeper a")
		cmds := d.Turn("keeper", engine.StatusQuestion, "ana or @writer, which?")
		lines(t, cmds, "say keeper>ana,writer question: ana or @writer, which?",
			`note route {"basis":"explicit_reference","message":"`+cmds[0].Say.ID+`","participants":["writer"]}`, "model writer turn/v1 task=m1")
	})
	t.Run("blocked ends when nobody else is at work", func(t *testing.T) {
		t.Parallel()
		d := start(t)
		d.Owner(engine.MsgRequest, "m1", "@keeper @writer please")
		lines(t, d.Turn("keeper", engine.StatusBlocked, "no"), "say keeper>ana blocked: no")
		lines(t, d.Turn("writer", engine.StatusBlocked, "no"), "say writer>ana blocked: no", "end gave_up")
	})
	t.Run("a refusal's words start nobody", func(t *testing.T) {
		t.Parallel()
		d := start(t)
		d.Owner(engine.MsgRequest, "m1", "@keeper please")
		key := d.Call("keeper").Key
		lines(t, d.Send(engine.Event{Kind: engine.EvDispatchRefused, Key: &key, Refusal: &engine.Refusal{Code: engine.CodeLimitReached, Reason: "ask @writer"}}),
			"say keeper>ana blocked: Refused (LIMIT_REACHED): ask @writer", "end step_limit")
	})
}

func TestSelectiveWorksWithinTheRoomsParallelism(t *testing.T) {
	t.Parallel()
	s := spec()
	s.Parallel = 1
	d := modetest.Start(t, selective.Mode{}, s)
	lines(t, d.Owner(engine.MsgRequest, "m1", "@auditor @keeper @writer please"),
		`note route {"basis":"explicit_reference","message":"m1","participants":["auditor","keeper","writer"]}`, "model auditor turn/v1 task=m1")
	lines(t, d.Owner(engine.MsgReply, "r1", "@auditor you again"), `note route {"basis":"explicit_reference","message":"r1","participants":["auditor"]}`)
	// The place goes to whoever was addressed first; the auditor has already
	// been served and stands last in line with its second message.
	lines(t, d.Turn("auditor", engine.StatusAnswer, "fine"), "say auditor>ana answer: fine", "model keeper turn/v1 task=m1")
	lines(t, d.Turn("keeper", engine.StatusAnswer, "fine"), "say keeper>ana answer: fine", "model writer turn/v1 task=m1")
	lines(t, d.Turn("writer", engine.StatusAnswer, "fine"), "say writer>ana answer: fine", "model auditor turn/v1 task=m1")
	lines(t, d.Turn("auditor", engine.StatusAnswer, "still fine"), "say auditor>ana answer: still fine", "claim auditor: still fine")
}

func TestSelectiveMessagesForSomebodyAtWorkJoinTheNextCall(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.Owner(engine.MsgRequest, "m1", "@keeper please")
	d.Reply("keeper", "", modetest.ToolCall("get", `{}`))
	d.Owner(engine.MsgRequest, "m2", "@keeper also")
	lines(t, d.Tool("keeper", engine.EvToolOK, "1"), "model keeper turn/v1 task=m2")
	want := []string{"user ana (owner): @keeper please", "assistant:  [call_1 get{}]", "tool call_1: 1", "user ana (owner): @keeper also"}
	if diff := cmp.Diff(want, modetest.Talk(d.Call("keeper"))); diff != "" {
		t.Fatal(diff)
	}
	lines(t, d.Turn("keeper", engine.StatusDone, "both"), "say keeper>ana done: both", "claim keeper: both")
}

func TestSelectiveRoutesMessagesInTheOrderTheyCame(t *testing.T) {
	t.Parallel()
	d := start(t)
	lines(t, d.Owner(engine.MsgRequest, "m1", "one"), "model router route/v1 task=m1")
	lines(t, d.Owner(engine.MsgReply, "r1", "@writer two"))
	lines(t, d.Owner(engine.MsgReply, "r2", "three"))
	lines(t, d.Reply("router", `{"participant":"writer"}`),
		`note route {"basis":"router","message":"m1","participants":["writer"]}`,
		`note route {"basis":"explicit_reference","message":"r1","participants":["writer"]}`,
		"model router route/v1 task=m1", "model writer turn/v1 task=m1")
	if diff := cmp.Diff([]string{"user ana (owner): one", "user ana (owner): @writer two"}, modetest.Talk(d.Call("writer"))); diff != "" {
		t.Fatal(diff)
	}
}

func TestSelectiveRefusesUnusableRooms(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(*engine.RoomSpec)
		code  string
	}{
		"unknown option":     {func(s *engine.RoomSpec) { s.Options = map[string]string{"reviewers": "1"} }, engine.CodeValidation},
		"unknown default":    {func(s *engine.RoomSpec) { s.Options = map[string]string{"default": "nobody"} }, engine.CodeValidation},
		"reviewer a default": {func(s *engine.RoomSpec) { s.Options = map[string]string{"default": "auditor"} }, engine.CodeValidation},
		"shared alias":       {func(s *engine.RoomSpec) { s.Agents[1].Aliases = []string{" BOOK "} }, engine.CodeConflict},
		"no usable alias":    {func(s *engine.RoomSpec) { s.Agents[1].ID = "the writer" }, engine.CodeValidation},
	} {
		s := spec()
		c.spoil(&s)
		if _, err := (selective.Mode{}).New(s); engine.CodeOf(err) != c.code {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestSelectiveRejectsForeignSnapshotsAndEvents(t *testing.T) {
	t.Parallel()
	m, err := selective.Mode{}.New(spec())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []string{``, `[]`, `{"members":{"nobody":{}}}`, `{"members":{"keeper":null}}`, `{"sessions":{}}`} {
		if err := m.Restore([]byte(b)); err == nil {
			t.Errorf("restored %q", b)
		}
	}
	for _, ev := range []engine.Event{
		{Kind: engine.EvOwnerMessage},
		{Kind: engine.EvModelReply},
		{Kind: engine.EvModelReply, Key: &engine.OpKey{Kind: engine.OpSpecialist, Cause: "session:keeper"}},
	} {
		if _, err := m.Handle(ev); err == nil {
			t.Errorf("folded %+v", ev)
		}
	}
}

func TestSelectiveFoldsAnyHistory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		modetest.Random(rt, selective.Mode{}, spec(), func(n int, label string) int { return rapid.IntRange(0, n-1).Draw(rt, label) })
	})
}

// A message that nobody takes ends nothing while somebody is at work.
func TestSelectiveUnassignedEndsOnlyWhenNobodyIsAtWork(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.Owner(engine.MsgRequest, "m1", "@keeper please")
	d.Eligible = []string{"auditor"}
	lines(t, d.Owner(engine.MsgRequest, "m2", "and this"),
		`note route {"basis":"unassigned","message":"m2","participants":[],"reason":"no_eligible_participant"}`,
		"say router>ana blocked: Nobody took this message: no_eligible_participant.")
	lines(t, d.Turn("keeper", engine.StatusDone, "ready"), "say keeper>ana done: ready", "claim keeper: ready")
}

// A hand-over serves the request that its chain of messages began with, also
// when the owner has asked for more meanwhile.
func TestSelectiveHandOverKeepsItsScope(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.Owner(engine.MsgRequest, "m1", "@keeper please")
	d.Owner(engine.MsgRequest, "m2", "@auditor check something else")
	d.Turn("keeper", engine.StatusAnswer, "@writer tell ana")
	if c := d.Call("writer"); c.Task != "m1" {
		t.Fatalf("the hand-over serves %s", c.Task)
	}
	if c := d.Call("auditor"); c.Task != "m2" {
		t.Fatalf("the second request is served as %s", c.Task)
	}
}
