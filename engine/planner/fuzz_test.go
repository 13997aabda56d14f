package planner

import (
	"testing"

	"github.com/agentrooms/qualify/engine"
)

// FuzzParseEnvelope: whatever the text, a proposal is either refused with
// issues of the closed set or has what its decision needs.
func FuzzParseEnvelope(f *testing.F) {
	f.Add(`{"schema":"plan/v1","bound_objective_revision":0,"bound_control_revision":0,"decision":"noop","explanation":"x"}`)
	f.Add("```json\n{\"plan\":[{\"key\":\"a\"}]}\n```")
	f.Fuzz(func(t *testing.T, text string) {
		env, issues := ParseEnvelope(text)
		for _, i := range bounded(issues) {
			if i.Code != IssueFormat && i.Code != IssueUnknownField {
				t.Fatalf("code %q", i.Code)
			}
		}
		if len(issues) > 0 {
			return
		}
		planned := env.Decision == engine.DecideObjective || env.Decision == engine.DecideRevisePlan
		if env.Schema != engine.FormatPlan || planned != (len(env.Plan) > 0) {
			t.Fatalf("accepted: %+v", env)
		}
		spec := testSpec()
		c := &candidate{spec: &spec, criteria: spec.Criteria, eligible: func(string) bool { return true }, objective: "o", version: 1}
		plan, refused, err := c.admit(env.Plan)
		if err != nil || (plan == nil) == (len(refused) == 0) {
			t.Fatalf("plan %v, issues %v, error %v", plan, refused, err)
		}
	})
}

// FuzzParseVerdict: an accepted verdict names the report and judges every
// criterion once.
func FuzzParseVerdict(f *testing.F) {
	ref := engine.ReportRef{Ref: "r", Version: 1, SourceSet: "s"}
	f.Add(`{"schema":"review/v1","report":{"ref":"r","version":1,"source_set":"s"},"verdicts":[{"criterion":"c1","verdict":"met","evidence":"e"},{"criterion":"c2","verdict":"unmet","evidence":""}]}`)
	f.Add(`{"schema":"review/v1","report":{"ref":"r","version":2,"source_set":"s"},"verdicts":[]}`)
	f.Fuzz(func(t *testing.T, text string) {
		criteria := testSpec().Criteria
		reply, err := ParseVerdict(text, ref, criteria)
		if err != nil {
			if engine.CodeOf(err) != engine.CodeReviewInvalid {
				t.Fatalf("code of %v", err)
			}
			return
		}
		if reply.Report != ref || len(reply.Verdicts) != len(criteria) {
			t.Fatalf("accepted: %+v", reply)
		}
		for i, v := range reply.Verdicts {
			if v.Criterion != criteria[i].ID || verdictRank(v.Verdict) == 2 && v.Verdict != engine.VerdictUnknown {
				t.Fatalf("verdict %d: %+v", i, v)
			}
		}
	})
}
