package simulated

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
)

func reviewRequest(report string, evidence []engine.TaskProgress) engine.ReviewRequest {
	return engine.ReviewRequest{
		Schema: engine.FormatReview, Report: engine.ReportRef{Ref: "r", Version: 2, SourceSet: "abc"}, ReportText: report,
		Criteria: []engine.Criterion{{ID: "c-amount"}, {ID: "c-note"}, {ID: "c-free"}},
		Messages: planRequest().Messages, Evidence: evidence,
	}
}

func verdicts(t *testing.T, p *Provider, req engine.ReviewRequest) map[string]string {
	t.Helper()
	var reply engine.ReviewReply
	text := ask(t, p, engine.FormatReview, "op", req)
	if err := json.Unmarshal([]byte(text), &reply); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if diff := cmp.Diff(req.Report, reply.Report); diff != "" || reply.Schema != engine.FormatReview {
		t.Error(diff, reply.Schema)
	}
	out := map[string]string{}
	for _, v := range reply.Verdicts {
		if out[v.Criterion] != "" {
			t.Errorf("%s judged twice", v.Criterion)
		}
		out[v.Criterion] = v.Verdict
	}
	return out
}

func TestReviewerJudgesByTheEvidence(t *testing.T) {
	t.Parallel()
	p := provider(t, relay())
	plan := propose(t, p, "op", planRequest()).Plan
	words := "The books agree. i-17 and i-19 are right"
	for _, c := range []struct {
		name, report, amount, note string
		broken                     map[string]string
	}{
		{"all there", words, engine.VerdictMet, engine.VerdictMet, nil},
		{"a wrong argument", words, engine.VerdictUnmet, engine.VerdictMet, map[string]string{"s2": "wrong"}},
		{"a call left out", words, engine.VerdictUnmet, engine.VerdictMet, map[string]string{"s3": "left out"}},
		{"an error", words, engine.VerdictUnmet, engine.VerdictMet, map[string]string{"s3": engine.ToolError}},
		{"an unknown outcome", words, engine.VerdictUnmet, engine.VerdictMet, map[string]string{"s3": engine.ToolUnknown}},
		{"a wrong note", words, engine.VerdictMet, engine.VerdictUnmet, map[string]string{"s4": "wrong"}},
		{"a read that nothing asks for", words, engine.VerdictMet, engine.VerdictMet, map[string]string{"s5": "left out"}},
		{"no words", "Done.", engine.VerdictMet, engine.VerdictUnmet, nil},
	} {
		evidence := progressOf(t, p, plan, c.broken)
		evidence[3].Result = "" // the words are in the report or nowhere
		want := map[string]string{"c-amount": c.amount, "c-note": c.note, "c-free": engine.VerdictMet}
		if diff := cmp.Diff(want, verdicts(t, p, reviewRequest(c.report, evidence))); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
	// Calls of a superseded plan did what they did; its words are not delivered.
	evidence := progressOf(t, p, plan, nil)
	for i := range evidence {
		evidence[i].Current = false
	}
	want := map[string]string{"c-amount": engine.VerdictMet, "c-note": engine.VerdictUnmet, "c-free": engine.VerdictMet}
	if diff := cmp.Diff(want, verdicts(t, p, reviewRequest("Done.", evidence))); diff != "" {
		t.Errorf("superseded: %s", diff)
	}
}

// Two intended equal calls need two calls in the evidence.
func TestReviewerCountsCalls(t *testing.T) {
	t.Parallel()
	o := ledger()
	o.Steps = []Step{
		{ID: "a", By: "keeper", Tool: "add", Args: raw(`{"id":"x"}`), Meets: []string{"c-amount"}},
		{ID: "b", By: "keeper", Tool: "add", Args: raw(`{"id":"x"}`), Meets: []string{"c-amount"}},
	}
	p := provider(t, o)
	call := engine.CallEvidence{Tool: "add", Args: raw(`{"id":"x"}`), Outcome: engine.ToolOK}
	for n, want := range map[int]string{1: engine.VerdictUnmet, 2: engine.VerdictMet} {
		var task engine.TaskProgress
		for range n {
			task.Calls = append(task.Calls, call)
		}
		if got := verdicts(t, p, reviewRequest("", []engine.TaskProgress{task}))["c-amount"]; got != want {
			t.Errorf("%d calls: %s, want %s", n, got, want)
		}
	}
}

func TestReviewRates(t *testing.T) {
	t.Parallel()
	good := provider(t, ledger())
	plan := propose(t, good, "op", planRequest()).Plan
	right := reviewRequest("", progressOf(t, good, plan, nil))
	wrong := reviewRequest("", progressOf(t, good, plan, map[string]string{"s2": "wrong"}))
	all := func(v string) map[string]string { return map[string]string{"c-amount": v, "c-note": v, "c-free": v} }
	for _, c := range []struct {
		name string
		r    Rates
		req  engine.ReviewRequest
		want map[string]string
	}{
		{"passes bad work", Rates{PassesBad: always}, wrong, all(engine.VerdictMet)},
		{"and good work as before", Rates{PassesBad: always}, right, all(engine.VerdictMet)},
		{"fails good work", Rates{FailsGood: always}, right, all(engine.VerdictUnmet)},
		{"and bad work as before", Rates{FailsGood: always}, wrong, all(engine.VerdictUnmet)},
	} {
		if diff := cmp.Diff(c.want, verdicts(t, provider(t, ledger(), rates(c.r)), c.req)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}
