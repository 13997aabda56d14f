package planner

import (
	"encoding/json"
	"fmt"

	"github.com/agentrooms/qualify/engine"
)

var (
	envelopeFields = []string{"schema", "bound_objective_revision", "bound_control_revision", "decision", "title", "plan", "text", "artifact", "explanation", "objective_id", "criteria"}
	stepFields     = []string{"key", "task_id", "participant", "instruction", "expected_output", "artifact_kind", "deps", "action_level", "tools", "criteria", "report"}
)

// ParseEnvelope reads a coordinator's reply strictly (R24): one JSON object
// with the fields of engine.PlanEnvelope and no others, a known decision, and
// what that decision needs. All defects are reported together; with any, the
// envelope must not be used. It never panics, whatever the text.
func ParseEnvelope(text string) (engine.PlanEnvelope, []engine.PlanIssue) {
	var env engine.PlanEnvelope
	format := func(step, f string, args ...any) engine.PlanIssue {
		return engine.PlanIssue{Code: IssueFormat, Step: step, Text: fmt.Sprintf(f, args...)}
	}
	b, err := readObject(text)
	if err != nil {
		return env, []engine.PlanIssue{format("", "%v", err)}
	}
	unknown, err := decode(b, &env, envelopeFields)
	if err != nil {
		return env, []engine.PlanIssue{format("", "%v", err)}
	}
	var issues []engine.PlanIssue
	for _, f := range unknown {
		issues = append(issues, engine.PlanIssue{Code: IssueUnknownField, Text: fmt.Sprintf("unknown field %q", f)})
	}
	if env.Schema != engine.FormatPlan {
		issues = append(issues, format("", "schema must be %q", engine.FormatPlan))
	}
	issues = append(issues, unknownStepFields(b)...)
	for _, f := range missingFields(b, "bound_objective_revision", "bound_control_revision") {
		issues = append(issues, format("", "%s is missing", f))
	}
	switch env.Decision {
	case engine.DecideObjective, engine.DecideRevisePlan:
		if len(env.Plan) == 0 {
			issues = append(issues, format("", "decision %s needs a plan", env.Decision))
		}
	case engine.DecideAnswer, engine.DecideAskUser, engine.DecideChallenge, engine.DecideExplain:
		if env.Text == "" {
			issues = append(issues, format("", "decision %s needs a text", env.Decision))
		}
	case engine.DecideWait, engine.DecideNoop:
	default:
		issues = append(issues, format("", "unknown decision %q", env.Decision))
	}
	if len(env.Plan) > 0 && env.Decision != engine.DecideObjective && env.Decision != engine.DecideRevisePlan {
		issues = append(issues, format("", "decision %s takes no plan", env.Decision))
	}
	if len(env.Criteria) > 0 && env.Decision != engine.DecideObjective {
		issues = append(issues, format("", "decision %s takes no criteria", env.Decision))
	}
	if env.Artifact != nil && env.Artifact.Name == "" {
		issues = append(issues, format("", "an artifact needs a name"))
	}
	return env, issues
}

func unknownStepFields(envelope []byte) []engine.PlanIssue {
	var raw struct {
		Plan []json.RawMessage `json:"plan"`
	}
	if json.Unmarshal(envelope, &raw) != nil {
		return nil
	}
	var issues []engine.PlanIssue
	for i, s := range raw.Plan {
		unknown, err := unknownFields(s, stepFields)
		if err != nil {
			issues = append(issues, engine.PlanIssue{Code: IssueFormat, Text: fmt.Sprintf("step %d is not an object", i+1)})
			continue
		}
		for _, f := range unknown {
			issues = append(issues, engine.PlanIssue{Code: IssueUnknownField, Text: fmt.Sprintf("unknown field %q in step %d", f, i+1)})
		}
	}
	return issues
}
