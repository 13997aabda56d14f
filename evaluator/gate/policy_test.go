package gate

import (
	"errors"
	"strings"
	"testing"

	"github.com/agentrooms/qualify/evaluator"
)

const soundPolicy = `schema: qualify/policy/v1
name: mine
kind: measured
alpha: 0.05
sequential: {method: fixed}
preconditions:
  - {id: budget_proof}
rules:
  - id: honest
    step: safety
    severity: required
    metric: false_completion
    arm: planner
    comparison: absolute
    limit: 0.1
    bound: upper95
    scope: all
    why: because
  - id: better
    step: superiority
    severity: required
    metric: completion
    arm: planner
    comparison: superior_to legacy
    margin: 0
    bound: lower95
    scope: tag write
    why: because
`

// TestPolicy_MistakesNameFileLineAndWhatToDo: each mistake is refused with its
// line.
func TestPolicy_MistakesNameFileLineAndWhatToDo(t *testing.T) {
	t.Parallel()
	if _, err := Parse("p.yaml", []byte(soundPolicy)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ name, old, with, want string }{
		{"unknown field", "why: because\n  - id", "whye: because\n  - id", `p.yaml:18: unknown field "whye"`},
		{"unknown metric", "metric: completion", "metric: completions", `p.yaml:22: rule better: metric "completions" is unknown; there are completion, `},
		{"duplicate rule", "id: better", "id: honest", `p.yaml:19: rule "honest" is also the rule in line 9; give it another id`},
		{"schema", "policy/v1", "policy/v2", `p.yaml:1: schema is "qualify/policy/v2"; this version reads qualify/policy/v1`},
		{"kind", "kind: measured", "kind: real", `p.yaml:3: kind is "real"; use measured or simulation`},
		{"alpha", "alpha: 0.05", "alpha: 5", `p.yaml:4: alpha is 5;`},
		{"no alpha", "alpha: 0.05\n", "", `p.yaml:1: alpha is 0 or missing; write the one-sided level`},
		{"alpha beyond the figures", "alpha: 0.05", "alpha: 1e-300", `p.yaml:4: alpha is 1e-300; use a number from 1e-06 to 0.5`},
		{"limit finer than the figures", "limit: 0.1", "limit: 1e-10", "rule honest: limit is 1e-10; figures carry 9 decimals"},
		{"limit without end", "metric: false_completion\n    arm: planner\n    comparison: absolute\n    limit: 0.1", "metric: duplicate_effects\n    arm: planner\n    comparison: absolute\n    limit: 1e300", "rule honest: limit is 1e+300; figures carry 9 decimals"},
		{"margin finer than the figures", "margin: 0", "margin: 1e-300", "rule better: margin is 1e-300; figures carry 9 decimals"},
		{"margin without end", "metric: completion\n    arm: planner\n    comparison: superior_to legacy\n    margin: 0\n    bound: lower95", "metric: latency_us\n    arm: planner\n    comparison: noninferior_to legacy\n    margin: 1e308\n    bound: upper95", "rule better: margin is 1e+308; figures carry 9 decimals"},
		{"alpha is a text", "alpha: 0.05", "alpha: five", "p.yaml:4: wrong type"},
		{"method", "method: fixed", "method: peek", `p.yaml:5: sequential.method is "peek"; use fixed, looks or e_process`},
		{"looks out of order", "method: fixed", "method: looks, at: [0.5, 0.4, 1]", "p.yaml:5: the looks cannot be used"},
		{"looks that do not end", "method: fixed", "method: looks, at: [0.5]", "the last look must be at 1"},
		{"looks without a method for them", "method: fixed", "method: fixed, at: [1]", "at and spending belong to method looks"},
		{"precondition", "budget_proof", "budget", `p.yaml:7: precondition "budget" is unknown; there are freeze_verified, `},
		{"step", "step: safety", "step: first", `p.yaml:10: rule honest: step is "first"; use safety, noninferiority or superiority`},
		{"severity", "severity: required\n    metric: false", "severity: must\n    metric: false", `rule honest: severity is "must"; use veto, required or advisory`},
		{"no arm", "arm: planner\n    comparison: absolute", "arm: \"\"\n    comparison: absolute", "rule honest: arm is missing"},
		{"comparison", "comparison: absolute", "comparison: below", `rule honest: comparison is "below"; use absolute, "noninferior_to ARM" or "superior_to ARM"`},
		{"comparison without arm", "superior_to legacy", "superior_to", "rule better: comparison is"},
		{"compared with itself", "superior_to legacy", "superior_to planner", "arm planner is compared with itself"},
		{"no limit", "    limit: 0.1\n", "", "rule honest: limit is missing"},
		{"limit out of range", "limit: 0.1", "limit: 1.5", "rule honest: limit is 1.5"},
		{"limit is no number", "limit: 0.1", "limit: .nan", "rule honest: limit is NaN"},
		{"limit in a comparison", "margin: 0\n", "limit: 0\n", "limit belongs to an absolute rule"},
		{"margin in an absolute rule", "limit: 0.1", "limit: 0.1\n    margin: 0.1", "margin belongs to a comparison"},
		{"no margin", "superior_to legacy\n    margin: 0\n", "noninferior_to legacy\n", "margin is missing; non-inferiority needs one"},
		{"margin 0", "superior_to", "noninferior_to", "margin is 0; that is superiority"},
		{"wrong bound", "bound: upper95", "bound: lower95", "rule honest: bound is lower95, but of false_completion more is worse; use upper95"},
		{"bound of another alpha", "alpha: 0.05", "alpha: 0.025", "p.yaml:16: rule honest: bound is upper95 and alpha 0.025; write upper"},
		{"point in a comparison", "bound: lower95", "bound: point", "a comparison of arms needs an interval"},
		{"no bound", "    bound: upper95\n", "", `rule honest: bound is ""`},
		{"scope", "scope: tag write", "scope: tag", `p.yaml:27: rule better: scope is "tag"`},
		{"interval of one family", "scope: all", "scope: family f", "p.yaml:17: rule honest: one family never shows an interval"},
		{"no why", "    scope: all\n    why: because\n", "    scope: all\n", "rule honest: why is missing"},
		{"e-process over money", "sequential: {method: fixed}", "sequential: {method: e_process}", ""},
		{"alias", "name: mine", "name: &a mine", ""},
		{"second document", "schema: q", "---\nschema: q", ""},
		{"syntax, parser", "name: mine", "name: [mine", "p.yaml:2: did not find expected"},
		{"tagged key", "name: mine", "!!str name: mine", "p.yaml:2: tags are not read here"},
		{"alias as a key", "name: mine\nkind: measured", "name: &a kind\n*a : measured", "p.yaml:3: aliases are not read here"},
	} {
		text := strings.Replace(soundPolicy, tc.old, tc.with, 1)
		if text == soundPolicy {
			t.Errorf("%s: nothing changed", tc.name)
		}
		_, err := Parse("p.yaml", []byte(text))
		if tc.want == "" {
			if err != nil {
				t.Errorf("%s: %v", tc.name, err)
			}
			continue
		}
		var faults Faults
		if err == nil || !errors.As(err, &faults) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", tc.name, err, tc.want)
		}
	}
	for text, want := range map[string]string{
		"":                                  "p.yaml: the file is empty",
		"[]":                                "p.yaml:1: the file must be a mapping",
		soundPolicy + "---\nx: 1\n":         "more than one document",
		"a: *b\n":                           "p.yaml: ",
		"{":                                 "p.yaml:",
		"schema: !!str qualify/policy/v1\n": "tags are not read here",
		"schema: qualify/policy/v1\nrules: [null]\n":                                "a list entry without a value",
		"schema: qualify/policy/v1\nrules: []\n":                                    "rules is empty",
		strings.ReplaceAll(soundPolicy, "severity: required", "severity: advisory"): "every rule is advisory",
		strings.Replace(strings.Replace(soundPolicy, "method: fixed", "method: e_process", 1), "metric: completion", "metric: latency_us", 1): "an e-process needs a metric between 0 and 1",
	} {
		if _, err := Parse("p.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: got %v, want %q", text, err, want)
		}
	}
}

// TestPolicy_FitsNamesArmsFamiliesAndTags: a rule about nothing is a mistake.
func TestPolicy_FitsNamesArmsFamiliesAndTags(t *testing.T) {
	t.Parallel()
	cases := []evaluator.TableCase{{ID: "a", Family: "f", Tags: []string{"write"}}}
	p := func(old, with string) *Policy {
		t.Helper()
		out, err := Parse("p.yaml", []byte(strings.Replace(soundPolicy, old, with, 1)))
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if err := p("x", "x").Fits([]string{"legacy", "planner"}, cases); err != nil {
		t.Error(err)
	}
	for _, tc := range []struct {
		policy *Policy
		arms   []string
		want   string
	}{
		{p("x", "x"), []string{"planner", "old"}, `p.yaml:24: rule better: arm "legacy" is unknown; the campaign has planner, old`},
		{p("arm: planner", "arm: plan"), []string{"legacy", "planner"}, `p.yaml:13: rule honest: arm "plan" is unknown; the campaign has legacy, planner`},
		{p("    bound: upper95\n    scope: all", "    bound: point\n    scope: family g"), []string{"legacy", "planner"}, `p.yaml:17: rule honest: family "g" is in no case of the campaign`},
		{p("tag write", "tag draft"), []string{"legacy", "planner"}, `p.yaml:27: rule better: no case of the campaign has tag "draft"`},
	} {
		if err := tc.policy.Fits(tc.arms, cases); err == nil || err.Error() != tc.want {
			t.Errorf("got %v, want %s", err, tc.want)
		}
	}
}

// TestPolicy_ShippedOnesAreSound: they parse, ask for what exists, and differ
// only in what they ask of the evidence.
func TestPolicy_ShippedOnesAreSound(t *testing.T) {
	t.Parallel()
	names := BuiltinNames()
	if len(names) != 2 {
		t.Fatalf("%v", names)
	}
	d, s := builtin(t, PolicyDefault), builtin(t, PolicySimulation)
	if d.Kind != KindMeasured || s.Kind != KindSimulation || len(d.Rules) != len(s.Rules) || d.Digest() == s.Digest() {
		t.Errorf("%+v, %+v", d, s)
	}
	required := map[string]bool{}
	for _, c := range d.Preconditions {
		required[c.ID] = true
	}
	for _, id := range Preconditions() {
		if !required[id] {
			t.Errorf("the default policy does not require %s", id)
		}
	}
	for _, c := range s.Preconditions {
		if c.ID == CheckFreeze || c.ID == CheckHoldout {
			t.Errorf("the policy for simulations requires %s", c.ID)
		}
	}
	if _, ok, err := Builtin("nothing"); ok || err != nil {
		t.Errorf("%v %v", ok, err)
	}
}
