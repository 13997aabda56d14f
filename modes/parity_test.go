package modes_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/session"
	"github.com/agentrooms/qualify/modes"
	"github.com/agentrooms/qualify/modes/legacy"
	"github.com/agentrooms/qualify/modes/modetest"
	"github.com/agentrooms/qualify/modes/planner"
	"github.com/agentrooms/qualify/modes/selective"
)

// workers bring each mode to the first model call of the agent that does the
// work, in a room where one specialist holds every tool and every criterion.
var workers = []struct {
	mode  modes.Mode
	agent string
	lead  func(d *modetest.Driver) // after the owner's request
}{
	{legacy.Mode{}, legacy.Agent, func(*modetest.Driver) {}},
	{selective.Mode{}, "keeper", func(d *modetest.Driver) { d.Reply(selective.Router, `{"participant":"keeper","reason":""}`) }},
	{planner.Mode{}, "keeper", func(d *modetest.Driver) {
		d.Reply("coordinator", `{"schema":"plan/v1","bound_objective_revision":0,"bound_control_revision":0,"decision":"create_objective",
			"plan":[{"key":"a","participant":"keeper","instruction":"set i-1","expected_output":"","deps":[],"action_level":"write",
			"tools":["get","put"],"criteria":["c-1","c-2"],"report":true}],"explanation":""}`)
	}},
}

func paritySpec() engine.RoomSpec {
	return engine.RoomSpec{
		Goal: "Keep the book.\nIt is Ana's.", Owner: "ana", Parallel: 2,
		Agents: []engine.Participant{
			{ID: "keeper", Agent: "agent-keeper", Role: modes.RoleSpecialist, Description: "edits the book", Tools: []string{"get", "put"}},
			{ID: "auditor", Agent: "agent-auditor", Role: modes.RoleReviewer, Description: "checks", Tools: []string{"get"}},
		},
		Criteria: []engine.Criterion{{ID: "c-1", Text: "The book is right"}, {ID: "c-2", Text: "Nothing else changed"}},
		Tools:    []engine.ToolSpec{{Name: "get", Action: engine.ActionRead}, {Name: "put", Action: engine.ActionWrite}},
	}
}

func atWork(t *testing.T, i int) (*modetest.Driver, string) {
	t.Helper()
	w := workers[i]
	d := modetest.Start(t, w.mode, paritySpec())
	d.Owner(engine.MsgRequest, "m1", "please set i-1")
	w.lead(d)
	return d, w.agent
}

// impersonal takes out of a system prompt what may differ between modes: who
// the agent is, and the section about colleagues.
func impersonal(t *testing.T, system string) string {
	t.Helper()
	var out []string
	you, part, skip := 0, 0, false
	for line := range strings.Lines(system) {
		switch {
		case strings.HasPrefix(line, engine.PromptYouAre):
			you++
			continue
		case strings.HasPrefix(line, "Your part: "):
			part++
			continue
		case strings.HasPrefix(line, engine.PromptColleagues):
			skip = true
		case skip && strings.HasPrefix(line, "How to work"):
			skip = false
		}
		if !skip {
			out = append(out, line)
		}
	}
	if you != 1 || part != 1 || skip {
		t.Fatalf("unexpected system prompt:\n%s", system)
	}
	return strings.Join(out, "")
}

// Whoever works is told the same in every mode, byte for byte, but for who it
// is and whom it can start: legacy is not handicapped by its prompt (DESIGN §5).
func TestFairness_EveryModeIsToldTheSame(t *testing.T) {
	t.Parallel()
	var want engine.Request
	for i, w := range workers {
		d, agent := atWork(t, i)
		got := *d.Call(agent).Request
		system := impersonal(t, got.System.S)
		if i == 0 {
			want, want.System.S = got, system
			if want.Format != engine.FormatTurn || !strings.Contains(system, "- c-2: Nothing else changed") || !strings.Contains(system, "It is Ana's.") {
				t.Fatalf("%s\n%s", want.Format, system)
			}
			continue
		}
		if diff := cmp.Diff(want.System.S, system); diff != "" {
			t.Errorf("%s: another system prompt:\n%s", w.mode.Name(), diff)
		}
		if diff := cmp.Diff(want.Tools, got.Tools); diff != "" || got.Format != want.Format {
			t.Errorf("%s: format %s, other tools: %s", w.mode.Name(), got.Format, diff)
		}
		if w.mode.Name() == selective.Name {
			if diff := cmp.Diff(modetest.Talk(engine.Call{Request: &want}), modetest.Talk(engine.Call{Request: &got})); diff != "" {
				t.Errorf("the owner's words differ: %s", diff)
			}
		}
	}
	for _, w := range workers {
		for name, text := range session.Prompts() {
			if w.mode.Prompts()[name] != text {
				t.Errorf("%s: the digest of its prompts does not cover %s", w.mode.Name(), name)
			}
		}
	}
}

// Failed, lost and unreadable replies, errors and unknown outcomes are met in
// the same way by all modes, with the same words and within the same limits.
func TestFairness_EveryModeRetriesAlike(t *testing.T) {
	t.Parallel()
	var want []string
	for i, w := range workers {
		var got []string
		record := func(what string, d *modetest.Driver, agent string) {
			for _, c := range d.Open() {
				if c.Agent == agent && c.Request != nil {
					talk := modetest.Talk(c)
					got = append(got, what+": "+strings.Join(talk[1:], " | "))
					return
				}
			}
			got = append(got, what+": no call")
		}
		d, agent := atWork(t, i)
		d.Reply(agent, "", modetest.ToolCall("put", `{"id":"i-1"}`), modetest.ToolCall("pay", `{}`), modetest.ToolCall("get", `[1]`))
		d.Tool(agent, engine.EvToolUnknown, "")
		record("an unknown outcome, a tool that is not there, bad arguments", d, agent)
		d.Reply(agent, "", modetest.ToolCall("put", `{"id":"i-1"}`))
		d.Tool(agent, engine.EvToolError, "locked")
		record("an error", d, agent)
		d.Reply(agent, "I think so")
		record("an unreadable reply", d, agent)
		d.Model(agent, engine.EvModelFailed)
		record("a failed call", d, agent)
		d.Model(agent, engine.EvModelUnknown)
		record("a lost call", d, agent)
		d.Model(agent, engine.EvModelFailed)
		record("a third in a row", d, agent)

		for name, fail := range map[string]func(*modetest.Driver){
			"unreadable replies": func(d *modetest.Driver) { d.Reply(agent, "no") },
			"failed calls":       func(d *modetest.Driver) { d.Model(agent, engine.EvModelFailed) },
			"lost calls":         func(d *modetest.Driver) { d.Model(agent, engine.EvModelUnknown) },
			"calls of a tool": func(d *modetest.Driver) {
				d.Reply(agent, "", modetest.ToolCall("get", `{}`))
				d.Tool(agent, engine.EvToolOK, "1")
			},
		} {
			d, _ := atWork(t, i)
			calls := 0
			for len(d.Open()) > 0 && d.Open()[0].Agent == agent && calls < 100 {
				fail(d)
				calls++
			}
			if wantCalls := map[string]int{"unreadable replies": 3, "failed calls": 3, "lost calls": 3, "calls of a tool": 30}[name]; calls != wantCalls {
				t.Errorf("%s: %d %s end the turn, want %d", w.mode.Name(), calls, name, wantCalls)
			}
		}
		if i == 0 {
			want = got
			if len(want) != 6 || !strings.Contains(want[0], engine.ToolUnknownResult) || strings.HasSuffix(want[4], "no call") || !strings.HasSuffix(want[5], "no call") {
				t.Fatal(strings.Join(want, "\n"))
			}
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", w.mode.Name(), diff)
		}
	}
}

// Legacy may do whatever anybody of the room may do, and nothing else.
func TestFairness_LegacyHoldsTheUnionOfTools(t *testing.T) {
	t.Parallel()
	spec := paritySpec()
	spec.Agents[1].Tools = []string{"get", "audit"}
	spec.Tools = append(spec.Tools, engine.ToolSpec{Name: "audit"}, engine.ToolSpec{Name: "nobodys"})
	d := modetest.Start(t, legacy.Mode{}, spec)
	d.Owner(engine.MsgRequest, "m1", "please")
	c := d.Call(legacy.Agent)
	if diff := cmp.Diff([]string{"audit", "get", "put"}, c.Request.Tools); diff != "" || !strings.Contains(c.Request.System.S, fmt.Sprintln(engine.PromptTools+"audit, get, put")) {
		t.Fatal(diff)
	}
}
