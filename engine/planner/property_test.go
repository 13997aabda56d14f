package planner

import (
	"encoding/json"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/engine"
)

// TestInvariantsHoldUnderAnyReply plays rooms whose model answers well, badly
// and with malice, whose calls fail, get lost and are refused, and whose owner
// interrupts. Handle never errs, a restored machine always agrees, and I3, I4,
// I5, I8, I9 and I12 hold after every event (driver).
func TestInvariantsHoldUnderAnyReply(t *testing.T) {
	t.Parallel()
	completed, replanned, refused := 0, 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		spec := testSpec()
		spec.Reviewers = rapid.IntRange(1, 2).Draw(rt, "reviewers")
		spec.Identity = rapid.SampledFrom([]Identity{IdentityPlan, IdentityObjective}).Draw(rt, "identity")
		d := start(rt, spec)
		good := rapid.IntRange(0, 10).Draw(rt, "goodness")
		for range rapid.IntRange(1, 30).Draw(rt, "events") {
			d.random(rt, good)
		}
		completed += len(d.done)
		replanned += d.notes(NoteReplan)
		refused += d.notes(NoteRefused)
	})
	if !testing.Short() && (completed == 0 || replanned == 0 || refused == 0) { // rapid plays a fifth of the histories then
		t.Errorf("the histories reach too little: %d completed, %d replans, %d refusals", completed, replanned, refused)
	}
}

func (d *driver) random(rt *rapid.T, good int) {
	if len(d.open) == 0 || rapid.IntRange(0, 11).Draw(rt, "owner") == 0 {
		kind := rapid.SampledFrom([]string{engine.MsgRequest, engine.MsgReply, engine.MsgCorrection, engine.MsgTakeover, "odd"}).Draw(rt, "type")
		from := rapid.SampledFrom([]string{"ana", "ana", "ana", "keeper", "stranger"}).Draw(rt, "from")
		d.message(from, kind, rapid.SampledFrom([]string{"do it", "@keeper please", "", "\xff"}).Draw(rt, "text"))
		return
	}
	c := d.open[rapid.IntRange(0, len(d.open)-1).Draw(rt, "call")]
	fine := rapid.IntRange(0, 10).Draw(rt, "luck") <= good
	if !fine && rapid.IntRange(0, 5).Draw(rt, "refused") == 0 {
		code := rapid.SampledFrom([]string{engine.CodeBudgetExhausted, engine.CodeLimitReached, engine.CodeForbidden, engine.CodeUnboundedCost}).Draw(rt, "code")
		kind := rapid.SampledFrom([]engine.EventKind{engine.EvReservationRefused, engine.EvDispatchRefused}).Draw(rt, "kind")
		d.outcome(c, engine.Event{Kind: kind, Refusal: &engine.Refusal{Code: code, Reason: "because"}})
		return
	}
	if c.Tool != nil {
		kind := rapid.SampledFrom([]engine.EventKind{engine.EvToolOK, engine.EvToolError, engine.EvToolUnknown}).Draw(rt, "outcome")
		r := &engine.ToolResult{Tool: c.Tool.Tool, Args: c.Tool.Args, Write: c.Tool.Tool != "list"}
		if kind != engine.EvToolUnknown {
			r.Result = engine.Plain("result")
		}
		d.outcome(c, engine.Event{Kind: kind, Tool: r})
		return
	}
	if !fine {
		switch rapid.IntRange(0, 3).Draw(rt, "fault") {
		case 0:
			d.outcome(c, engine.Event{Kind: engine.EvModelUnknown})
			return
		case 1:
			d.outcome(c, engine.Event{Kind: engine.EvModelFailed, Reply: &engine.ModelReply{Error: "down"}})
			return
		}
	}
	d.outcome(c, engine.Event{Kind: engine.EvModelReply, Reply: d.randomReply(rt, c, fine)})
}

func (d *driver) randomReply(rt *rapid.T, c engine.Call, fine bool) *engine.ModelReply {
	if !fine && rapid.Bool().Draw(rt, "nonsense") {
		return &engine.ModelReply{Text: engine.Plain(rapid.SampledFrom([]string{
			"", "no", "{}", "null", "[1]", `{"schema":"plan/v1"}`, `{"schema":"review/v1"}`, `{"status":"done"}`, "\xff", `{"plan":[null,{}]}`,
			`{"schema":"plan/v1","bound_objective_revision":0,"bound_control_revision":0,"decision":"revise_plan","plan":[{"key":"x"}]}`,
		}).Draw(rt, "nonsense text"))}
	}
	switch c.Request.Format {
	case engine.FormatPlan:
		return d.randomPlan(rt, c, fine)
	case engine.FormatReview:
		var req engine.ReviewRequest
		if err := json.Unmarshal([]byte(c.Request.Messages[0].Text.S), &req); err != nil {
			rt.Fatalf("review request: %v", err)
		}
		r := engine.ReviewReply{Schema: engine.FormatReview, Report: req.Report}
		for _, cr := range req.Criteria {
			v := "met"
			if !fine || rapid.IntRange(0, 3).Draw(rt, "strict") == 0 {
				v = rapid.SampledFrom([]string{"met", "unmet", "unmet", "unknown"}).Draw(rt, "verdict")
			}
			r.Verdicts = append(r.Verdicts, engine.CriterionVerdict{Criterion: cr.ID, Verdict: v})
		}
		return jsonReply(rt, r)
	default:
		if len(c.Request.Tools) > 0 && rapid.Bool().Draw(rt, "works") {
			return &engine.ModelReply{ToolCalls: []engine.ToolCall{{Tool: c.Request.Tools[0], Args: engine.JSONText(fmt.Appendf(nil, `{"n":%d}`, rapid.IntRange(0, 3).Draw(rt, "n")))}}}
		}
		status := engine.StatusDone
		if !fine {
			status = rapid.SampledFrom([]string{engine.StatusBlocked, engine.StatusQuestion, engine.StatusAnswer}).Draw(rt, "status")
		}
		r := engine.TurnReply{Status: status, Text: rapid.SampledFrom([]string{"one", "two", "@writer go on"}).Draw(rt, "words")}
		if rapid.IntRange(0, 3).Draw(rt, "delivers") == 0 {
			r.Artifact = &engine.ArtifactText{Name: "paper", Text: "body"}
		}
		return jsonReply(rt, r)
	}
}

func (d *driver) randomPlan(rt *rapid.T, c engine.Call, fine bool) *engine.ModelReply {
	var req engine.PlanRequest
	if err := json.Unmarshal([]byte(c.Request.Messages[0].Text.S), &req); err != nil {
		rt.Fatalf("plan request: %v", err)
	}
	env := engine.PlanEnvelope{
		Schema: engine.FormatPlan, BoundObjectiveRevision: req.ObjectiveRevision, BoundControlRevision: req.ControlRevision,
		Decision: engine.DecideObjective, Text: "words", Explanation: "why",
	}
	if req.ObjectiveID != "" && (req.PlanVersion == 0 || rapid.IntRange(0, 9).Draw(rt, "another objective") > 0) {
		env.Decision = engine.DecideRevisePlan
	}
	if len(req.Objectives) > 1 && rapid.Bool().Draw(rt, "addresses") {
		h := req.Objectives[rapid.IntRange(0, len(req.Objectives)-1).Draw(rt, "objective")]
		env.ObjectiveID, env.BoundObjectiveRevision, env.BoundControlRevision = h.ID, h.ObjectiveRevision, h.ControlRevision
	}
	if !fine || rapid.IntRange(0, 5).Draw(rt, "other decision") == 0 {
		env.Decision = rapid.SampledFrom([]string{
			engine.DecideAnswer, engine.DecideObjective, engine.DecideRevisePlan, engine.DecideAskUser, engine.DecideWait,
			engine.DecideChallenge, engine.DecideExplain, engine.DecideNoop,
		}).Draw(rt, "decision")
	}
	if env.Decision != engine.DecideObjective && env.Decision != engine.DecideRevisePlan {
		return jsonReply(rt, env)
	}
	n := rapid.IntRange(0, 99).Draw(rt, "name")
	fix := with(fixStep(), func(s *engine.PlanStep) { s.Key = fmt.Sprintf("fix%d", n) })
	for _, p := range req.Progress {
		if p.Current && !p.Report && p.Status == "completed" && rapid.Bool().Draw(rt, "keeps") {
			fix = engine.PlanStep{
				Key: p.Step, TaskID: p.Task, Participant: p.Participant, Instruction: p.Instruction, ExpectedOutput: p.ExpectedOutput,
				Deps: p.Deps, ActionLevel: p.ActionLevel, Tools: p.Tools, Criteria: p.Criteria,
			}
			break
		}
	}
	var judged *engine.PlanStep
	for _, p := range req.Progress {
		if p.Current && p.Report && p.Status == "completed" && len(p.Deps) == 1 && p.Deps[0] == fix.Key {
			judged = &engine.PlanStep{
				Key: p.Step, TaskID: p.Task, Participant: p.Participant, Instruction: p.Instruction, ExpectedOutput: p.ExpectedOutput,
				Deps: p.Deps, ActionLevel: p.ActionLevel, Tools: p.Tools, Criteria: p.Criteria, Report: true,
			}
		}
	}
	report := with(reportStep(fix.Key), func(s *engine.PlanStep) { s.Key = fmt.Sprintf("report%d", n) })
	if judged != nil && rapid.IntRange(0, 2).Draw(rt, "resamples") == 0 {
		report = *judged // nothing new: the judged report once more (R53)
	}
	if !fine {
		rapid.SampledFrom([]func(){
			func() { report.Participant = "nobody" },
			func() { report.Participant = "auditor"; report.Tools = nil },
			func() { report.Deps = []string{report.Key} },
			func() { report.Criteria = nil },
			func() { report.TaskID = "made-up" },
			func() { fix.Instruction += "!" },
			func() { fix.ActionLevel = "execute" },
			func() {},
		}).Draw(rt, "spoils")()
	}
	env.Plan = []engine.PlanStep{fix, report}
	return jsonReply(rt, env)
}

func jsonReply(rt *rapid.T, v any) *engine.ModelReply {
	b, err := json.Marshal(v)
	if err != nil {
		rt.Fatalf("reply: %v", err)
	}
	return &engine.ModelReply{Text: engine.Plain(string(b))}
}
