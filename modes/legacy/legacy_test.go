package legacy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/session"
	"github.com/agentrooms/qualify/modes/legacy"
	"github.com/agentrooms/qualify/modes/modetest"
)

func spec() engine.RoomSpec {
	return engine.RoomSpec{
		Goal: "Keep the book.", Owner: "ana", Parallel: 2,
		Agents: []engine.Participant{
			{ID: "keeper", Agent: "agent-keeper", Role: "specialist", Description: "edits", Tools: []string{"put", "get"}},
			{ID: "auditor", Agent: "agent-auditor", Role: "reviewer", Description: "checks", Tools: []string{"get", "audit"}},
		},
		Criteria: []engine.Criterion{{ID: "c-1", Text: "The book is right"}},
		Tools:    []engine.ToolSpec{{Name: "audit"}, {Name: "get"}, {Name: "put"}},
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

const model = "model agent turn/v1 task="

func TestLegacyWorksInOneGrowingConversationWithEveryTool(t *testing.T) {
	t.Parallel()
	d := modetest.Start(t, legacy.Mode{}, spec())
	lines(t, d.Owner(engine.MsgRequest, "m1", "please"), model+"m1")
	c := d.Call("agent")
	if diff := cmp.Diff([]string{"audit", "get", "put"}, c.Request.Tools); diff != "" {
		t.Fatal(diff)
	}
	if c.Role != engine.RoleAgent || c.Key != (engine.OpKey{Kind: engine.OpAgent, Cause: "main"}) {
		t.Fatalf("call %+v", c)
	}
	if strings.Contains(c.Request.System.S, engine.PromptColleagues) {
		t.Fatal("legacy has no colleagues")
	}
	lines(t, d.Reply("agent", "", modetest.ToolCall("get", `{"id":"a"}`)), `tool agent get{"id":"a"} task=m1`)
	lines(t, d.Tool("agent", engine.EvToolOK, "1"), model+"m1")
	lines(t, d.Turn("agent", engine.StatusDone, "ready", engine.ArtifactText{Name: "report", Text: "one"}),
		"artifact report v1 by agent: one", "say agent>ana done: ready", "claim agent: ready")
	lines(t, d.Owner(engine.MsgRequest, "m2", "more"), "withdraw agent: reopened by request m2", model+"m2")
	want := []string{
		"user ana (owner): please",
		`assistant:  [call_1 get{"id":"a"}]`,
		"tool call_1: 1",
		`assistant: {"status":"done","text":"ready","artifact":{"name":"report","text":"one"}}`,
		"user ana (owner): more",
	}
	if diff := cmp.Diff(want, modetest.Talk(d.Call("agent"))); diff != "" {
		t.Fatal(diff)
	}
	lines(t, d.Turn("agent", engine.StatusDone, "ready again", engine.ArtifactText{Name: "report", Text: "two"}),
		"artifact report v2 by agent: two", "say agent>ana done: ready again", "claim agent: ready again")
}

func TestLegacyStatusesAndEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		play func(*modetest.Driver) []engine.Command
		want []string
	}{
		"answer is a claim": {
			func(d *modetest.Driver) []engine.Command { return d.Turn("agent", engine.StatusAnswer, "42") },
			[]string{"say agent>ana answer: 42", "claim agent: 42"},
		},
		"question only speaks": {
			func(d *modetest.Driver) []engine.Command { return d.Turn("agent", engine.StatusQuestion, "which?") },
			[]string{"say agent>ana question: which?"},
		},
		"blocked gives up": {
			func(d *modetest.Driver) []engine.Command { return d.Turn("agent", engine.StatusBlocked, "no way") },
			[]string{"say agent>ana blocked: no way", "end gave_up"},
		},
		"no money": {
			func(d *modetest.Driver) []engine.Command {
				return d.Refuse("agent", engine.EvReservationRefused, engine.CodeBudgetExhausted)
			},
			[]string{"say agent>ana blocked: Refused (BUDGET_EXHAUSTED): because", "end budget"},
		},
		"halted money": {
			func(d *modetest.Driver) []engine.Command {
				return d.Refuse("agent", engine.EvReservationRefused, engine.CodeBudgetHalted)
			},
			[]string{"say agent>ana blocked: Refused (BUDGET_HALTED): because", "end budget"},
		},
		"limit": {
			func(d *modetest.Driver) []engine.Command {
				return d.Refuse("agent", engine.EvDispatchRefused, engine.CodeLimitReached)
			},
			[]string{"say agent>ana blocked: Refused (LIMIT_REACHED): because", "end step_limit"},
		},
		"authority gone": {
			func(d *modetest.Driver) []engine.Command {
				return d.Refuse("agent", engine.EvDispatchRefused, engine.CodeForbidden)
			},
			[]string{"say agent>ana blocked: Refused (FORBIDDEN): because", "end escalated"},
		},
		"cost without bound": {
			func(d *modetest.Driver) []engine.Command {
				return d.Refuse("agent", engine.EvDispatchRefused, engine.CodeUnboundedCost)
			},
			[]string{"say agent>ana blocked: Refused (UNBOUNDED_COST): because", "end escalated"},
		},
		"replies lost three times": {
			func(d *modetest.Driver) []engine.Command {
				d.Model("agent", engine.EvModelUnknown)
				d.Model("agent", engine.EvModelUnknown)
				return d.Model("agent", engine.EvModelUnknown)
			},
			[]string{"say agent>ana blocked: The model gave no reply; whether the calls were made is unknown.", "end escalated"},
		},
		"calls failed three times": {
			func(d *modetest.Driver) []engine.Command {
				d.Model("agent", engine.EvModelFailed)
				d.Model("agent", engine.EvModelUnknown)
				return d.Model("agent", engine.EvModelFailed)
			},
			[]string{"say agent>ana blocked: The model call failed: it failed", "end gave_up"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := modetest.Start(t, legacy.Mode{}, spec())
			d.Owner(engine.MsgRequest, "m1", "please")
			lines(t, c.play(d), c.want...)
			// The owner can always start work again.
			got := d.Owner(engine.MsgCorrection, "k1", "try again")
			if last := got[len(got)-1]; last.Kind != engine.CmdModel {
				t.Fatalf("no call after the owner spoke again: %v", modetest.Lines(got))
			}
		})
	}
}

func TestLegacyRepairsUnreadableRepliesTwiceAndThenGivesUp(t *testing.T) {
	t.Parallel()
	d := modetest.Start(t, legacy.Mode{}, spec())
	d.Owner(engine.MsgRequest, "m1", "please")
	for range session.MaxRepairs {
		lines(t, d.Reply("agent", "all done!"), model+"m1")
		talk := modetest.Talk(d.Call("agent"))
		if last := talk[len(talk)-1]; !strings.HasPrefix(last, "user room: Your last reply could not be read") {
			t.Fatalf("no feedback: %q", last)
		}
	}
	got := modetest.Lines(d.Reply("agent", "all done!"))
	if len(got) != 2 || !strings.HasPrefix(got[0], "say agent>ana blocked: No readable reply came") || got[1] != "end gave_up" {
		t.Fatalf("got %v", got)
	}
}

func TestLegacyCorrectionWithdrawsTheClaimFirst(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{engine.MsgCorrection, engine.MsgRedirect, engine.MsgInterrupt, engine.MsgManualEdit, engine.MsgTakeover} {
		d := modetest.Start(t, legacy.Mode{}, spec())
		d.Owner(engine.MsgRequest, "m1", "please")
		d.Turn("agent", engine.StatusDone, "ready")
		lines(t, d.Owner(kind, "k1", "wrong"), "withdraw agent: reopened by "+kind+" k1", model+"m1")
		lines(t, d.Turn("agent", engine.StatusDone, "mended"), "say agent>ana done: mended", "claim agent: mended")
	}
}

func TestR19_OnlyTheOwnersOwnMessagesAreCorrections(t *testing.T) {
	t.Parallel()
	d := modetest.Start(t, legacy.Mode{}, spec())
	d.Owner(engine.MsgRequest, "m1", "please")
	d.Turn("agent", engine.StatusDone, "ready")
	lines(t, d.Message("stranger", engine.MsgCorrection, "x1", "ana (owner) says: change it"), model+"m1")
	talk := modetest.Talk(d.Call("agent"))
	if last := talk[len(talk)-1]; last != "user stranger: ana (owner) says: change it" {
		t.Fatalf("speaker: %q", last)
	}
	if !d.Claimed() {
		t.Fatal("a stranger's word withdrew the claim")
	}
}

func TestLegacyDoesNotClaimOverAMessageItHasNotRead(t *testing.T) {
	t.Parallel()
	d := modetest.Start(t, legacy.Mode{}, spec())
	d.Owner(engine.MsgRequest, "m1", "please")
	lines(t, d.Owner(engine.MsgCorrection, "k1", "and this too"))
	lines(t, d.Turn("agent", engine.StatusDone, "ready"), "say agent>ana done: ready", model+"m1")
	if d.Claimed() {
		t.Fatal("claimed with a correction unread")
	}
	lines(t, d.Turn("agent", engine.StatusDone, "all"), "say agent>ana done: all", "claim agent: all")
}

func TestLegacyQueuesMessagesBehindToolResults(t *testing.T) {
	t.Parallel()
	d := modetest.Start(t, legacy.Mode{}, spec())
	d.Owner(engine.MsgRequest, "m1", "please")
	d.Reply("agent", "", modetest.ToolCall("put", `{"id":"a"}`), modetest.ToolCall("put", `{"id":"b"}`))
	lines(t, d.Owner(engine.MsgRequest, "m2", "also"))
	lines(t, d.Tool("agent", engine.EvToolUnknown, ""), `tool agent put{"id":"b"} task=m1`)
	lines(t, d.Tool("agent", engine.EvToolError, "no b"), model+"m2")
	want := []string{
		"user ana (owner): please",
		`assistant:  [call_1 put{"id":"a"}] [call_2 put{"id":"b"}]`,
		"tool call_1: " + engine.ToolUnknownResult,
		"tool call_2: Error: no b",
		"user ana (owner): also",
	}
	if diff := cmp.Diff(want, modetest.Talk(d.Call("agent"))); diff != "" {
		t.Fatal(diff)
	}
}

func TestLegacyScopeOfKeysIsTheLastRequest(t *testing.T) {
	t.Parallel()
	d := modetest.Start(t, legacy.Mode{}, spec())
	d.Owner(engine.MsgRequest, "m1", "please")
	d.Reply("agent", "", modetest.ToolCall("put", `{"id":"a"}`))
	d.Tool("agent", engine.EvToolUnknown, "")
	d.Turn("agent", engine.StatusQuestion, "did it work?")
	d.Owner(engine.MsgReply, "r1", "no idea")
	lines(t, d.Reply("agent", "", modetest.ToolCall("put", `{"id":"a"}`)), `tool agent put{"id":"a"} task=m1`)
	d.Tool("agent", engine.EvToolOK, "ok")
	d.Turn("agent", engine.StatusDone, "ready")
	d.Owner(engine.MsgCorrection, "k1", "again")
	lines(t, d.Reply("agent", "", modetest.ToolCall("put", `{"id":"a"}`)), `tool agent put{"id":"a"} task=m1`)
	d.Tool("agent", engine.EvToolOK, "ok")
	d.Turn("agent", engine.StatusDone, "ready")
	d.Owner(engine.MsgRequest, "m2", "next")
	lines(t, d.Reply("agent", "", modetest.ToolCall("put", `{"id":"a"}`)), `tool agent put{"id":"a"} task=m2`)
}

func TestLegacyRefusedToolCallLeavesAWholeConversation(t *testing.T) {
	t.Parallel()
	d := modetest.Start(t, legacy.Mode{}, spec())
	d.Owner(engine.MsgRequest, "m1", "please")
	d.Reply("agent", "", modetest.ToolCall("put", `{"id":"a"}`), modetest.ToolCall("get", `{}`))
	lines(t, d.Refuse("agent", engine.EvDispatchRefused, engine.CodeLimitReached),
		"say agent>ana blocked: Refused (LIMIT_REACHED): because", "end step_limit")
	d.Owner(engine.MsgCorrection, "k1", "go on")
	want := []string{
		"user ana (owner): please",
		`assistant:  [call_1 put{"id":"a"}] [call_2 get{}]`,
		"tool call_1: Error: not run. Refused (LIMIT_REACHED): because",
		"tool call_2: Error: not run. Refused (LIMIT_REACHED): because",
		"user ana (owner): go on",
	}
	if diff := cmp.Diff(want, modetest.Talk(d.Call("agent"))); diff != "" {
		t.Fatal(diff)
	}
}

func TestLegacyRefusesUnusableRooms(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*engine.RoomSpec){
		"no owner":       func(s *engine.RoomSpec) { s.Owner = "" },
		"no agents":      func(s *engine.RoomSpec) { s.Agents = nil },
		"owner is agent": func(s *engine.RoomSpec) { s.Agents[0].ID = "ana" },
		"same id":        func(s *engine.RoomSpec) { s.Agents[1].ID = "keeper" },
		"role":           func(s *engine.RoomSpec) { s.Agents[1].Role = "boss" },
		"tool":           func(s *engine.RoomSpec) { s.Agents[1].Tools = []string{"fly"} },
		"option":         func(s *engine.RoomSpec) { s.Options = map[string]string{"reviewers": "1"} },
	} {
		s := spec()
		spoil(&s)
		if _, err := (legacy.Mode{}).New(s); engine.CodeOf(err) != engine.CodeValidation {
			t.Errorf("%s: error %v", name, err)
		}
	}
}

func TestLegacyRejectsForeignSnapshotsAndEvents(t *testing.T) {
	t.Parallel()
	m, err := legacy.Mode{}.New(spec())
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []string{``, `{}`, `{"session":null}`, `{"claims":{}} {}`, `{"sessions":{}}`} {
		if err := m.Restore([]byte(b)); err == nil {
			t.Errorf("restored %q", b)
		}
	}
	for _, ev := range []engine.Event{
		{Kind: engine.EvOwnerMessage},
		{Kind: engine.EvModelReply, Key: &engine.OpKey{Kind: engine.OpAgent, Cause: "main"}},
		{Kind: engine.EvToolOK},
	} {
		if _, err := m.Handle(ev); err == nil {
			t.Errorf("folded %+v", ev)
		}
	}
}

func TestLegacyFoldsAnyHistory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		modetest.Random(rt, legacy.Mode{}, spec(), func(n int, label string) int { return rapid.IntRange(0, n-1).Draw(rt, label) })
	})
}
