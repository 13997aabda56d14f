package main

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/evaluator/trace"
)

// R68: a timeline tells plan versions, repairs, readmissions and escalations in
// words; what it has no words for stands as it is in the trace.
func TestR68_ATimelineTellsThePlannersDecisions(t *testing.T) {
	t.Parallel()
	note := func(kind, body string) string { return `{"note":"` + kind + `","body":` + body + `}` }
	for _, c := range []struct{ kind, body, want string }{
		{
			"note", note("plan", `{"plan":{"version":2,"steps":[{"key":"fix","participant":"keeper","retained":true},{"key":"r","participant":"writer","report":true}]},"title":"May","explanation":"because"}`),
			"plan: version 2: fix (keeper, kept), r (writer, report); because (May)",
		},
		{
			"note", note("plan_refused", `{"interpretation":1,"issues":[{"code":"id_conflict","step":"fix","text":"changed"},{"code":"format","text":"odd"}]}`),
			"repair: proposal 1 refused: id_conflict fix: changed; format: odd",
		},
		{"note", note("stale", `{}`), "repair: proposal is stale and is asked for again"},
		{"note", note("objective", `{"objective":"o","from":"verifying","to":"needs_attention","trigger":"failed_reports"}`), "escalate: o: verifying to needs_attention (failed_reports)"},
		{"note", note("objective", `{"objective":"o","from":"","to":"active","trigger":"created"}`), "state: o: - to active (created)"},
		{"note", note("attention", `{"event":"m1"}`), "escalate: m1 could not be interpreted (attention)"},
		{
			"note", note("verdict", `{"report":{"version":3},"overall":"unmet","reviewers":["a","b"],"verdicts":[{"criterion":"c1","verdict":"met"},{"criterion":"c2","verdict":"unmet"}]}`),
			"verdict: report version 3: unmet by a, b: c1 met, c2 unmet",
		},
		{"note", note("review", `{"report":{"version":3},"reviewers":["a"]}`), "review: report version 3 goes to a"},
		{"note", note("replan", `{"objective":"o","reason":"review_unmet"}`), "replan: o needs a new plan (review_unmet)"},
		{"note", note("decision", `{"decision":"wait","explanation":"nothing to do"}`), "decide: wait: nothing to do"},
		{"note", note("task", `{"task":"t","status":"failed","why":"no access"}`), "task: t failed: no access"},
		{"note", note("task", `{"task":"t","status":"completed"}`), "task: t completed"},
		{
			"note", note("pending_readmission", `{"op":"op_1","task":"t","bound_control_revision":0,"control_revision":1}`),
			"held: result of op_1 for t waits for readmission, control revision 0 is now 1",
		},
		{"note", note("readmitted", `{"op":"op_1","task":"t"}`), "readmit: result of op_1 for t"},
		{"note", note("reconciled", `{"op":"op_1","outcome":"not_executed"}`), "proof: op_1 was not_executed"},
		{"note", note("evidence_only", `{"op":"op_1","task":"t"}`), "evidence: result of op_1 for t came without authority"},
		{"note", note("command", `{"kind":"pause","from":"ana"}`), "command: pause by ana: done"},
		{"note", note("command", `{"kind":"pause","from":"bob","code":"FORBIDDEN","why":"bob is not the owner"}`), "command: pause by bob: FORBIDDEN bob is not the owner"},
		{"note", note("blocked", `{"code":"BUDGET_EXHAUSTED","reason":"too little","task":""}`), "blocked: BUDGET_EXHAUSTED too little "},
		{"note", note("route", `{"message":"m","basis":"explicit_reference","participants":["a","b"]}`), "route: m to a, b (explicit_reference)"},
		{
			"note", note("review_invalid", `{"report":{"version":2},"reviewer":"a","why":"criterion \"c1\" is not judged"}`),
			`review: no valid verdict on report version 2 by a: criterion "c1" is not judged`,
		},
		{"note", note("interpretation_failed", `{"event":"m1","error":"overloaded"}`), "repair: interpretation of m1 failed: overloaded"},
		{"note", note("rejected", `{"event":"m1","from":"eve","code":"FORBIDDEN","why":"not authorized"}`), "reject: m1 eve: FORBIDDEN not authorized"},
		{"note", note("rejected", `{"reviewer":"a","code":"FORBIDDEN","why":"gone"}`), "reject: a: FORBIDDEN gone"},
		{"note", note("owner_correction", `{"objective":"o","event":"m2","objective_revision":3}`), "correct: o: objective revision 3 by m2"},
		{"note", note("stray", `{"op":"op_1","kind":"model_reply"}`), "evidence: outcome of op_1 (model_reply) that nothing waits for"},
		{"note", note("of_another_machine", `{"message":"m"}`), `event: note {"body":{"message":"m"},"note":"of_another_machine"}`},
		{"artifact", `{"by":"keeper","name":"paper","task":"t","version":2}`, "artifact: paper version 2 by keeper"},
		{"post", `{"from":"coordinator","text":"Plan version 1"}`, "post: coordinator: Plan version 1"},
		{"say", `{"from":"keeper","to":["ana"],"status":"done","text":"fixed"}`, "say: keeper to ana (done): fixed"},
		{"claim", `{"by":"keeper"}`, "claim: by keeper"},
		{"withdraw", `{}`, "withdraw: the claim no longer stands"},
		{"end", `{"reason":"escalated"}`, "rest: escalated"},
		{"answer", `{"key":"k","code":"CONFLICT","reason":"used"}`, "answer: to k: CONFLICT used"},
		{"note", `{"note":"plan","body":{"plan":7}}`, `event: note {"body":{"plan":7},"note":"plan"}`},
		{"tool_ok", `{"from":7}`, `event: tool_ok {"from":7}`},
	} {
		var canonical any
		if err := json.Unmarshal([]byte(c.body), &canonical); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(canonical)
		if err != nil {
			t.Fatal(err)
		}
		label, text := describeEvent(&trace.Event{Kind: c.kind, Body: b})
		if diff := cmp.Diff(c.want, label+": "+text); diff != "" {
			t.Errorf("%s %s:\n%s", c.kind, c.body, diff)
		}
	}
}
