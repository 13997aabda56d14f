package planner_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/engine"
	core "github.com/agentrooms/qualify/engine/planner"
	"github.com/agentrooms/qualify/modes"
	"github.com/agentrooms/qualify/modes/modetest"
	"github.com/agentrooms/qualify/modes/planner"
)

func spec() engine.RoomSpec {
	return engine.RoomSpec{
		Goal: "Make the lists agree", Owner: "ana", Parallel: 2,
		Agents: []engine.Participant{
			{ID: "keeper", Agent: "agent-keeper", Role: modes.RoleSpecialist, Description: "edits", Tools: []string{"read", "write"}},
			{ID: "auditor", Agent: "agent-auditor", Role: modes.RoleReviewer, Description: "checks", Tools: []string{"read"}},
		},
		Criteria: []engine.Criterion{{ID: "c1", Text: "they agree"}},
		Tools: []engine.ToolSpec{
			{Name: "read", Action: engine.ActionRead, Description: "reads a list"},
			{Name: "write", Action: engine.ActionWrite, Description: "sets an entry"},
		},
		Options: map[string]string{"reviewers": "1"},
	}
}

// body of the last user message of a call, as the document v.
func body(t *testing.T, c engine.Call, v any) {
	t.Helper()
	m := c.Request.Messages[len(c.Request.Messages)-1]
	if err := json.Unmarshal([]byte(m.Text.S), v); err != nil || m.Role != engine.MsgUser {
		t.Fatalf("last message %s %q: %v", m.Role, m.Text.S, err)
	}
}

func TestPlannerWritesReviewsAndClaims(t *testing.T) {
	t.Parallel()
	d := modetest.Start(t, planner.Mode{}, spec())
	d.Owner(engine.MsgRequest, "m1", "please make them agree")
	var req engine.PlanRequest
	body(t, d.Call("coordinator"), &req)
	want := engine.PlanRequest{
		Schema: engine.FormatPlan, Goal: "Make the lists agree", Criteria: spec().Criteria, Participants: spec().Agents,
		Messages: []engine.PlanMessage{{ID: "m1", Type: engine.MsgRequest, From: "ana", Text: "please make them agree"}},
		Progress: []engine.TaskProgress{}, Reason: "message",
	}
	if diff := cmp.Diff(want, req); diff != "" {
		t.Fatal(diff)
	}
	d.Reply("coordinator", `{"schema":"plan/v1","bound_objective_revision":0,"bound_control_revision":0,"decision":"create_objective","title":"lists",
		"plan":[{"key":"a","participant":"keeper","instruction":"set i-1 and report","expected_output":"","deps":[],"action_level":"write","tools":["read","write"],"criteria":["c1"],"report":true}],"explanation":"one step"}`)
	d.Reply("keeper", "", modetest.ToolCall("write", `{"id":"i-1"}`))
	d.Tool("keeper", engine.EvToolOK, `{}`)
	d.Turn("keeper", engine.StatusDone, "i-1 is set", engine.ArtifactText{Name: "account", Text: "i-1: set"})
	var review engine.ReviewRequest
	body(t, d.Call("auditor"), &review)
	if review.ReportText != "i-1: set" || review.Evidence[0].Calls[0].Tool != "write" {
		t.Fatalf("%+v", review)
	}
	reply, err := json.Marshal(engine.ReviewReply{Schema: engine.FormatReview, Report: review.Report, Verdicts: []engine.CriterionVerdict{{Criterion: "c1", Verdict: "met", Evidence: "the call"}}})
	if err != nil {
		t.Fatal(err)
	}
	got := modetest.Lines(d.Reply("auditor", string(reply)))
	if diff := cmp.Diff([]string{"say coordinator>ana done: i-1: set", "claim coordinator: i-1: set"}, got[len(got)-2:]); diff != "" || !d.Claimed() {
		t.Fatal(diff)
	}
}

// The example replies in the prompts must be replies that the machine reads.
func TestPromptsShowReadableReplies(t *testing.T) {
	t.Parallel()
	prompts := planner.Mode{}.Prompts()
	env, issues := core.ParseEnvelope(example(t, prompts["planner/coordinator.txt"]))
	if len(issues) > 0 || len(env.Plan) != 2 || env.Decision != engine.DecideObjective {
		t.Fatalf("%v %+v", issues, env)
	}
	ref := engine.ReportRef{Ref: "report:obj_1", Version: 1, SourceSet: "5f2c"}
	if _, err := core.ParseVerdict(example(t, prompts["planner/reviewer.txt"]), ref, []engine.Criterion{{ID: "c-dates"}, {ID: "c-note"}}); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{
		engine.DecideAnswer, engine.DecideObjective, engine.DecideRevisePlan, engine.DecideAskUser, engine.DecideWait, engine.DecideChallenge,
		engine.DecideExplain, engine.DecideNoop, engine.ActionRead, engine.ActionDraft, engine.ActionWrite,
	} {
		if !strings.Contains(prompts["planner/coordinator.txt"], word) {
			t.Errorf("the coordinator is not told about %q", word)
		}
	}
}

// example is the JSON object that stands in a prompt between blank lines.
func example(t *testing.T, prompt string) string {
	t.Helper()
	for _, part := range strings.Split(prompt, "\n\n") {
		if strings.HasPrefix(part, "{") {
			return part
		}
	}
	t.Fatal("the prompt has no example")
	return ""
}

func TestSystemPromptsCarryTheFactsOfTheRoom(t *testing.T) {
	t.Parallel()
	d := modetest.Start(t, planner.Mode{}, spec())
	d.Owner(engine.MsgRequest, "m1", "go")
	sys := d.Call("coordinator").Request.System.S
	for _, want := range []string{engine.PromptYouAre + "coordinator\n", "- write (write): sets an entry", "The owner is: ana"} {
		if !strings.Contains(sys, want) {
			t.Errorf("the coordinator's system prompt lacks %q", want)
		}
	}
}

func TestNewRefusesBadRooms(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*engine.RoomSpec){
		"unknown option": func(s *engine.RoomSpec) { s.Options = map[string]string{"speed": "9"} },
		"bad option":     func(s *engine.RoomSpec) { s.Options = map[string]string{"reviewers": "many"} },
		"no criteria":    func(s *engine.RoomSpec) { s.Criteria = nil },
		"unknown tool":   func(s *engine.RoomSpec) { s.Agents[0].Tools = []string{"fly"} },
	} {
		s := spec()
		change(&s)
		if m, err := (planner.Mode{}).New(s); engine.CodeOf(err) != engine.CodeValidation || m != nil {
			t.Errorf("%s: %v %v", name, m, err)
		}
	}
	m, err := planner.Mode{}.New(spec())
	if err != nil || m.Version() != "planner@2" || (planner.Mode{}).Name() != "planner" {
		t.Fatal(m, err)
	}
}

func TestPlannerFoldsAnyHistory(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		modetest.Random(rt, planner.Mode{}, spec(), func(n int, label string) int { return rapid.IntRange(0, n-1).Draw(rt, label) })
	})
}
