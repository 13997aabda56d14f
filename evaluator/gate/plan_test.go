package gate

import (
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/stat/distuv"

	"github.com/agentrooms/qualify/evaluator"
)

func designFor(families, perFamily, trials int) Design {
	d := Design{Arms: []string{"legacy", "selective", "planner"}, Trials: trials}
	for f := range families {
		for c := range perFamily {
			d.Cases = append(d.Cases, evaluator.TableCase{ID: string(rune('A'+f)) + string(rune('a'+c)), Family: string(rune('A' + f))})
		}
	}
	return d
}

// TestQ5_PlanNamesTheFamiliesThatARuleNeeds: zero-event rules by the exact
// bound, comparisons by the power formula, and no number where none is known.
func TestQ5_PlanNamesTheFamiliesThatARuleNeeds(t *testing.T) {
	t.Parallel()
	p := policyOf(t, "planning: {between: 0.04, within: 0.16, icc: 0.1, detect: 0.15}\n",
		"id: rare, step: safety, severity: required, metric: false_completion, arm: planner, comparison: absolute, limit: 0.05, bound: upper95",
		"id: count, step: safety, severity: required, metric: duplicate_effects, arm: planner, comparison: absolute, limit: 0.05, bound: upper95",
		"id: never, step: safety, severity: advisory, metric: false_completion, arm: planner, comparison: absolute, limit: 0, bound: upper95",
		"id: tiny, step: safety, severity: advisory, metric: false_completion, arm: planner, comparison: absolute, limit: 1e-9, bound: upper95",
		ruleVeto, ruleNI, ruleBetter, ruleFloor, ruleCost)
	doc, err := Plan(p, designFor(24, 2, 3))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]RulePlan{}
	for _, r := range doc.Rules {
		got[r.ID] = r
	}
	for id, want := range map[string]int{"rare": 59, "count": 60, "veto": 6} { // 3/n for counts
		if r := got[id]; r.Families == nil || *r.Families != want || *r.Trials != want*2*3 || r.Fits != (want <= 24) {
			t.Errorf("%s: %+v, want %d families", id, r, want)
		}
	}
	for _, id := range []string{"never", "tiny", "floor", "cost"} {
		if r := got[id]; r.Families != nil || r.Fits || r.Reason == "" {
			t.Errorf("%s: %+v", id, r)
		}
	}
	if doc.Fits {
		t.Error("a design of 24 families cannot show a rate under 0.05")
	}
	for id, effect := range map[string]float64{"ni": .1, "better": .15} {
		n := *got[id].Families
		power := func(families int) float64 { // of the t test at the planned error
			se := math.Sqrt((.04 + 2*.16/3) * 1.1 / float64(2*families))
			df := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(families - 1)}
			return df.CDF(effect/se - df.Quantile(.95))
		}
		if power(n) < .8-1e-9 || power(n-1) >= .8 {
			t.Errorf("%s: %d families have power %.4f, one less %.4f", id, n, power(n), power(n-1))
		}
	}
}

// TestQ5_PlanOfADesignThatFits and of one that the policy does not fit.
func TestQ5_PlanOfADesignThatFits(t *testing.T) {
	t.Parallel()
	p := policyOf(t, "", ruleVeto, ruleNI)
	small, err := Plan(p, designFor(6, 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	large, err := Plan(p, designFor(26, 20, 50))
	if err != nil {
		t.Fatal(err)
	}
	if small.Fits || !large.Fits {
		t.Errorf("small fits %v, large fits %v: %+v", small.Fits, large.Fits, large.Rules)
	}
	if _, err := Plan(p, Design{Arms: []string{"planner"}, Cases: designFor(6, 1, 1).Cases, Trials: 1}); err == nil {
		t.Error("an arm that is not there")
	}
	if _, err := Plan(p, designFor(6, 1, 0)); err == nil {
		t.Error("no trials")
	}
	looks, err := Plan(policyOf(t, "sequential: {method: looks, at: [0.5, 1]}\n", ruleNI), designFor(6, 2, 3))
	if err != nil {
		t.Fatal(err)
	}
	fixed, err := Plan(policyOf(t, "", ruleNI), designFor(6, 2, 3))
	if err != nil {
		t.Fatal(err)
	}
	if *looks.Rules[0].Families < *fixed.Rules[0].Families {
		t.Errorf("looks cost nothing: %d families, fixed %d", *looks.Rules[0].Families, *fixed.Rules[0].Families)
	}
}

// TestQ5_PlanCountsWhatTheGateWillAsk: no fewer than six families for any rule,
// a smaller alpha for two baselines, and advisory rules do not decide whether it fits.
func TestQ5_PlanCountsWhatTheGateWillAsk(t *testing.T) {
	t.Parallel()
	loose := "id: loose, step: safety, severity: required, metric: false_completion, arm: planner, comparison: absolute, limit: 0.9, bound: upper95"
	strict := "id: strict, step: safety, severity: advisory, metric: false_completion, arm: planner, comparison: absolute, limit: 0.01, bound: upper95"
	doc, err := Plan(policyOf(t, "", loose, strict), designFor(6, 1, 1))
	if err != nil {
		t.Fatal(err)
	}
	if n := *doc.Rules[0].Families; n != 6 || !doc.Fits || doc.Rules[1].Fits {
		t.Errorf("%d families, fits %v, %+v", n, doc.Fits, doc.Rules[1])
	}
	need := func(head string, rules ...string) int {
		doc, err := Plan(policyOf(t, head, rules...), designFor(12, 1, 3))
		if err != nil {
			t.Fatal(err)
		}
		return *doc.Rules[0].Families
	}
	one, two, none := need("", ruleBetter), need("", ruleBetter, ruleBetter2), need("multiplicity: none\n", ruleBetter, ruleBetter2)
	if one >= two || none != one {
		t.Errorf("%d families against one baseline, %d against two, %d of two without adjustment", one, two, none)
	}
}

// TestQ5_APlanIsTheLeastThatSuffices: also far beyond 200 families, where t is
// nearly normal: one family less would not detect the effect.
func TestQ5_APlanIsTheLeastThatSuffices(t *testing.T) {
	t.Parallel()
	for _, margin := range []string{"0.05", "0.03", "0.02", "0.015", "0.01"} {
		p := policyOf(t, "planning: {between: 0.04, within: 0.16, icc: 0.1, detect: 0.15}\n", strings.Replace(ruleNI, "margin: 0.1", "margin: "+margin, 1))
		doc, err := Plan(p, designFor(12, 2, 3))
		if err != nil {
			t.Fatal(err)
		}
		detects := func(families int) float64 {
			se := math.Sqrt((.04 + 2*.16/3) * 1.1 / float64(2*families))
			return evaluator.SmallestDetectable(se, float64(families-1), .05, .8)
		}
		n, want := *doc.Rules[0].Families, *p.Rules[0].Margin
		if detects(n) > want || detects(n-1) <= want {
			t.Errorf("%d families detect %v, one less %v; want %v", n, detects(n), detects(n-1), want)
		}
	}
}
