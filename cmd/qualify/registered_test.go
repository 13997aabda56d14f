package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/evaluator/gate"
)

// promised is a folder with a campaign that registers a policy of two looks and
// two hypotheses.
func promised(t *testing.T) heldOut {
	t.Helper()
	h := heldOut{dir: frozenFolder(t)}
	const policy = `schema: qualify/policy/v1
name: promised
kind: simulation
alpha: 0.025
power: 0.9
multiplicity: none
sequential: {method: looks, at: [0.5, 1], spending: pocock}
rules:
  - {id: no-duplicates, step: safety, severity: veto, metric: duplicate_effects, arm: planner, comparison: absolute, limit: 0, bound: point, why: It cannot be taken back.}
  - {id: no-worse, step: noninferiority, severity: advisory, metric: completion, arm: planner, comparison: noninferior_to legacy, margin: 0.1, scope: family ledger, bound: lower, why: A tenth is borne.}
`
	if err := os.WriteFile(h.path("qualify/policy.yaml"), []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	editFile(t, h.path("qualify/campaign.yaml"), "trials: 5", "trials: 2")
	editFile(t, h.path("qualify/campaign.yaml"), "\nfreeze:", `
policy: policy.yaml
hypotheses:
  - {text: No effect happens twice., rules: [no-duplicates]}
  - {text: The planner completes as much as legacy., rules: [no-worse, no-duplicates], primary: true}
freeze:`)
	return h
}

// dev runs the cases of the campaign that need no freeze.
func (h heldOut) dev(t *testing.T) (stderr string) {
	t.Helper()
	code, _, talk := command(t, "run", h.path("qualify/campaign.yaml"), "--store", h.db(), "--json")
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, talk)
	}
	return talk
}

// TestQ4_ARegistrationHoldsWhatIsPromised: everything that Q4.1 names stands in the
// row in words and figures, so that whoever has the log needs no other file to
// read it: hypotheses, primary metric, margins and why, alpha, trials, looks,
// exclusions, stopping rule, seed, families.
func TestQ4_ARegistrationHoldsWhatIsPromised(t *testing.T) {
	t.Parallel()
	h := promised(t)
	h.dev(t)
	rows := registrations(t, h.rows(t))
	if len(rows) != 1 {
		t.Fatalf("%d registrations", len(rows))
	}
	var got campaigns.Registration
	if err := json.Unmarshal(rows[0].Record, &got); err != nil {
		t.Fatal(err)
	}
	for i := range got.Policy.Rules {
		r := &got.Policy.Rules[i]
		if r.Has != 1 || r.Fits {
			t.Errorf("needs of rule %s: %+v", r.ID, r)
		}
		r.Families, r.Cases, r.Trials, r.Has = nil, nil, nil, 0 // TestQ5_ThePlanOfTheVerdictIsRegistered
	}
	limit, margin := 0., .1
	want := campaigns.Registration{
		Seed: 7, Trials: 2,
		Policy: &campaigns.RegisteredPolicy{
			Source: "policy.yaml", Name: "promised", Kind: "simulation", Digest: got.Policy.Digest,
			Alpha: .025, Power: .9, Multiplicity: "none", Method: "looks", At: []float64{.5, 1}, Spending: "pocock",
			Rules: []campaigns.RegisteredRule{
				{
					ID: "no-duplicates", Step: "safety", Severity: "veto", Metric: "duplicate_effects", Arm: "planner", Comparison: "absolute",
					Limit: &limit, Bound: "point", Scope: "all", Why: "It cannot be taken back.",
				},
				{
					ID: "no-worse", Step: "noninferiority", Severity: "advisory", Metric: "completion", Arm: "planner", Comparison: "noninferior_to legacy",
					Margin: &margin, Bound: "lower", Scope: "family ledger", Why: "A tenth is borne.",
				},
			},
		},
		Protocol: &campaigns.Protocol{
			Hypotheses: []campaigns.Hypothesis{
				{Text: "No effect happens twice.", Rules: []string{"no-duplicates"}},
				{Text: "The planner completes as much as legacy.", Rules: []string{"no-worse", "no-duplicates"}, Primary: true},
			},
			PrimaryMetric: "completion", Families: []string{"ledger"}, Exclusions: []string{},
			Stopping: campaigns.Stopping{Rule: "looks", Trials: 2, At: []float64{.5, 1}},
		},
	}
	have := campaigns.Registration{Seed: got.Seed, Trials: got.Trials, Policy: got.Policy, Protocol: got.Protocol}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if policy, err := readPolicy(h.path("qualify/policy.yaml")); err != nil || policy.Digest() != got.Policy.Digest {
		t.Errorf("digest %s: %v", got.Policy.Digest, err)
	}
	for _, key := range []string{"schema", "plan", "name", "arms", "under_test", "matched", "schedule"} {
		var all map[string]json.RawMessage
		if err := json.Unmarshal(rows[0].Record, &all); err != nil || len(all[key]) < 3 {
			t.Errorf("%s is %s, %v", key, all[key], err)
		}
	}
}

// TestQ4_WhatWasRegisteredIsShown by show, by the gate and by the log: the
// hypotheses with what their rules say, and the campaign that this one changes. A
// bundle of it verifies, and so does an attestation.
func TestQ4_WhatWasRegisteredIsShown(t *testing.T) {
	t.Parallel()
	h := promised(t)
	h.dev(t)
	editFile(t, h.path("qualify/campaign.yaml"), "seed: 7", "seed: 8")
	if talk := h.dev(t); !strings.Contains(talk, "differs in seed\n") {
		t.Errorf("stderr: %s", talk)
	}
	editFile(t, h.path("qualify/campaign.yaml"), "trials: 2", "trials: 1")
	h.dev(t)
	rows := registrations(t, h.rows(t))
	if len(rows) != 3 || rows[0].Predecessor != "" || rows[1].Predecessor != rows[0].Campaign || rows[2].Predecessor != rows[1].Campaign {
		t.Fatalf("registered %+v", rows)
	}
	if diff := cmp.Diff([][]string{nil, {"seed"}, {"policy", "trials"}}, [][]string{rows[0].Differs, rows[1].Differs, rows[2].Differs}); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
	shows := func(want int, args []string, lines ...string) {
		t.Helper()
		code, out, talk := command(t, append(args, "--store", h.db())...)
		if code != want {
			t.Fatalf("%v: exit %d: %s", args, code, talk)
		}
		for _, l := range lines {
			if !strings.Contains(out, l) {
				t.Errorf("%v: no %q in\n%s", args, l, out)
			}
		}
	}
	shows(exitOK, []string{"freeze", "log"}, " "+rows[0].Campaign+"  ", " "+rows[1].Campaign+" after "+rows[0].Campaign+"  ", " "+rows[2].Campaign+" after "+rows[1].Campaign+"  ")
	shows(exitOK, []string{"freeze", "log", "--verify"}, ", 0 faults\n")
	shows(exitOK, []string{"campaign", "show", rows[2].Campaign},
		rows[1].Campaign+"; this one differs in policy, trials\n",
		"primary metric      completion\n",
		"hypothesis          No effect happens twice. (by no-duplicates)\n",
		"primary hypothesis  The planner completes as much as legacy. (by no-worse, no-duplicates)\n",
		"looks at [0.5 1] of the planned trials (pocock); alpha 0.025 one-sided, power 0.9, none\n")
	shows(exitOK, []string{"campaign", "show", rows[0].Campaign}, "predecessor         -\n")
	shows(exitOK, []string{"campaign", "show", rows[1].Campaign, "--json"},
		`"predecessor": "`+rows[0].Campaign+`"`, `"differs": [`, `"primary_metric": "completion"`, `"text": "No effect happens twice."`, `"why": "A tenth is borne."`)
	judged := []string{"gate", rows[1].Campaign, "--policy", h.path("qualify/policy.yaml"), "--corpus", h.path("qualify/cases")}
	code, out, talk := command(t, append(judged, "--json", "--store", h.db())...)
	var doc gate.Document
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatalf("exit %d: %s: %v", code, talk, err)
	}
	outcome := func(id string) gate.Outcome {
		return doc.Rules[slices.IndexFunc(doc.Rules, func(r gate.RuleVerdict) bool { return r.ID == id })].Verdict
	}
	if outcome("no-worse") == gate.Pass {
		t.Error("one family shows an interval")
	}
	want := []gate.HypothesisVerdict{
		{Text: "No effect happens twice.", Rules: []string{"no-duplicates"}, Outcome: outcome("no-duplicates")},
		doc.Hypothesis("The planner completes as much as legacy.", []string{"no-worse", "no-duplicates"}, true),
	}
	if diff := cmp.Diff(want, doc.Hypotheses); diff != "" {
		t.Errorf("hypotheses (-want +got):\n%s", diff)
	}
	shows(code, judged, "\nhypothesis: "+string(want[0].Outcome)+" by no-duplicates: No effect happens twice.\n", "\nprimary hypothesis: "+string(want[1].Outcome)+" by no-worse, no-duplicates: The planner")
	bundled, key, signed := h.path("b.tar.zst"), h.path("key"), h.path("a.jsonl")
	from := []string{rows[1].Campaign, "--policy", h.path("qualify/policy.yaml"), "--corpus", h.path("qualify/cases")}
	shows(exitOK, append([]string{"report", "bundle", "-o", bundled}, from...))
	shows(exitOK, []string{"report", "verify", bundled}, "ok    verdict: ")
	shows(exitOK, []string{"attest", "keygen", "-o", key})
	shows(exitOK, append([]string{"attest", "sign", "--key", key, "--artifact", h.path("go.mod"), "-o", signed}, from...))
	if code, out, talk := command(t, "attest", "verify", signed, bundled, "--key", key+".pub"); code != exitOK {
		t.Errorf("attest verify: exit %d: %s%s", code, out, talk)
	}
}

// TestQ4_TheTemplateShowsHypotheses that a campaign file can have: its comments,
// uncommented, are read, and a rule that is not there is named with its line.
func TestQ4_TheTemplateShowsHypotheses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text, err := os.ReadFile("template/campaign.yaml")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "campaign.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	editFile(t, file, "# policy: policy.yaml ", "policy: builtin:default ")
	editFile(t, file, "# hypotheses: ", "hypotheses: ")
	if code, _, talk := command(t, "run", file, "--estimate"); code != exitOK {
		t.Errorf("exit %d: %s", code, talk)
	}
	editFile(t, file, "[better-than-legacy]", "[better]")
	code, _, talk := command(t, "run", file, "--estimate")
	if want := `hypotheses.0.rules.0: "better" is no rule of the policy default; it has no-duplicate-effects,`; code != exitUsage || !strings.Contains(talk, "campaign.yaml:") || !strings.Contains(talk, want) {
		t.Errorf("exit %d: %s", code, talk)
	}
}
