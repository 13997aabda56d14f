package planner

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
)

// lost makes an agent call a tool whose outcome stays unknown.
func (d *driver) lost(agent, tool, args string) engine.Call {
	d.t.Helper()
	d.reply(agent, "", engine.ToolCall{ID: "x", Tool: tool, Args: engine.JSONText([]byte(args))})
	c := d.call(agent)
	d.outcome(c, engine.Event{Kind: engine.EvToolUnknown, Tool: &engine.ToolResult{Tool: tool, Args: c.Tool.Args, Write: true}})
	return c
}

// An unknown outcome stands in the engine's account as what it is, while its
// task is current and after a plan has replaced it, for reasoner and reviewer.
func TestR22_UnknownOutcomesAreShown(t *testing.T) {
	t.Parallel()
	want := []engine.CallEvidence{{Tool: "fix", Args: []byte(`{"id":"i-17"}`), Outcome: engine.ToolUnknown}}
	shown := func(progress []engine.TaskProgress, current bool) {
		t.Helper()
		i := slices.IndexFunc(progress, func(p engine.TaskProgress) bool { return len(p.Calls) > 0 })
		if i < 0 {
			t.Fatalf("no call in %+v", progress)
		}
		if diff := cmp.Diff(want, progress[i].Calls); diff != "" || progress[i].Current != current {
			t.Fatal(diff, progress[i])
		}
	}
	d := planned(t, testSpec(), fixStep(), reportStep("fix"))
	d.lost("keeper", "fix", `{"id":"i-17"}`)
	if m := d.call("keeper").Request.Messages; m[len(m)-1].Text.S != engine.ToolUnknownResult {
		t.Fatal("the agent decides", m)
	}
	d.finish("keeper", engine.StatusDone, "fixed, I think")
	d.finish("writer", engine.StatusDone, "i-17 may be fixed")
	shown(d.judged("auditor").Evidence, true)
	d.verdict("auditor", "unmet", "met")
	shown(d.shown().Progress, true)
	check := with(fixStep(), func(s *engine.PlanStep) {
		s.Key, s.Instruction, s.ActionLevel, s.Tools = "check", "see whether i-17 is fixed", "read", []string{"list"}
	})
	d.plan(revise(check, reportStep("check")))
	d.finish("keeper", engine.StatusDone, "it is")
	d.finish("writer", engine.StatusDone, "i-17 is fixed")
	shown(d.judged("auditor").Evidence, false)
	// A reviewer who cannot tell says so, and a person decides (R52, R66).
	d.verdict("auditor", "unknown", "met")
	if d.status() != StatusWaitingIntervention || d.count(engine.OpInterpret) != 2 {
		t.Fatal(d.lines())
	}
}

// Work that is ordered again is another task, and its calls have that task's
// scope of idempotency keys; a retry within the task keeps it.
func TestR29_WorkOrderedAgainHasAScopeOfItsOwn(t *testing.T) {
	t.Parallel()
	d := planned(t, testSpec(), fixStep(), reportStep("fix"))
	first := d.lost("keeper", "fix", `{"id":"i-17"}`)
	retry := d.lost("keeper", "fix", `{"id":"i-17"}`)
	if first.Task != retry.Task || first.Key == retry.Key || !strings.HasSuffix(first.Task, ":1:fix") {
		t.Fatal(first, retry)
	}
	d.finish("keeper", engine.StatusBlocked, "nobody answers")
	d.plan(revise(fixStep(), reportStep("fix")))
	if again := d.lost("keeper", "fix", `{"id":"i-17"}`); !strings.HasSuffix(again.Task, ":2:fix") {
		t.Fatal(again)
	}
}
