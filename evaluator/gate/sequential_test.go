package gate

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/evaluator"
)

// TestQ5_ACrossedBoundaryPassesACutCampaign: with looks declared, what a ceiling
// cut is less information and less alpha; without, the verdict is INCONCLUSIVE.
func TestQ5_ACrossedBoundaryPassesACutCampaign(t *testing.T) {
	t.Parallel()
	e := campaign(t, 48, 2, 5, 1, good)
	cut(e, 192) // of 480
	e.Status = StatusStopped
	if v := evaluate(t, policyOf(t, "", ruleBetter), e); v.Verdict != Inconclusive {
		t.Errorf("fixed: %s", v.Verdict)
	}
	v := evaluate(t, policyOf(t, "sequential: {method: looks, at: [0.5, 1]}\n", ruleBetter), e)
	q := v.Sequential
	if v.Verdict != Pass || q.Look != 1 || q.Information.String() != "0.6" || q.Complete != 288 {
		t.Errorf("looks: %s %v, %+v", v.Verdict, v.Reasons, q)
	}
	// O'Brien-Fleming at 0.6: 2 - 2*Phi(1.959964/sqrt 0.6) = 0.011396.
	if math.Abs(float64(q.SpentAlpha)-.0113964) > 1e-7 || q.NominalAlpha != q.SpentAlpha || v.Rules[0].Figure.Level != 1-q.NominalAlpha {
		t.Errorf("%+v, level %v", q, v.Rules[0].Figure.Level)
	}
	early := campaign(t, 48, 2, 5, 1, good)
	cut(early, 440) // 40 of 480 are left
	early.Status = StatusStopped
	v = evaluate(t, policyOf(t, "sequential: {method: looks, at: [0.08, 1]}\n", ruleBetter), early)
	if v.Verdict != Inconclusive || v.Rules[0].Reasons[0].Code != CodeCeiling || v.Sequential.NominalAlpha != 0 {
		t.Errorf("a look without alpha: %s %v", v.Verdict, v.Rules[0].Reasons)
	}
	full := campaign(t, 48, 2, 5, 1, good)
	v = evaluate(t, policyOf(t, "sequential: {method: looks, at: [0.5, 1]}\n", ruleBetter), full)
	if q = v.Sequential; v.Verdict != Pass || q.Look != 2 || q.SpentAlpha != .05 || !(q.NominalAlpha < .05) {
		t.Errorf("last look: %s %+v", v.Verdict, q)
	}
}

// TestQ5_TheEProcessMayStopWhenTheMoneyEnds: a large advantage passes though the
// campaign was cut; equal arms do not; a much worse one fails.
func TestQ5_TheEProcessMayStopWhenTheMoneyEnds(t *testing.T) {
	t.Parallel()
	p := policyOf(t, "sequential: {method: e_process}\n", ruleFalse, ruleFloor, ruleNI, ruleBetter)
	for _, tc := range []struct {
		rate map[string]float64
		want Outcome
	}{
		{map[string]float64{"legacy": .3, "selective": .5, "planner": .8}, Pass},
		{map[string]float64{"legacy": .6, "selective": .5, "planner": .6}, Inconclusive},
		{map[string]float64{"legacy": .8, "selective": .5, "planner": .3}, Fail},
	} {
		e := campaign(t, 60, 2, 5, 1, tc.rate)
		cutFamilies(e, 12)
		e.Status = StatusStopped
		v := evaluate(t, p, e)
		if v.Verdict != tc.want {
			t.Errorf("%v: %s %v", tc.rate, v.Verdict, v.Reasons)
		}
		for _, r := range v.Rules {
			if r.Figure.Wealth == nil || r.Figure.P == nil {
				t.Errorf("%s has no wealth", r.ID)
			}
		}
	}
	cost := "id: cost, step: superiority, severity: advisory, metric: cost_charged_micros, arm: planner, comparison: superior_to legacy"
	v := evaluate(t, policyOf(t, "sequential: {method: e_process}\n", ruleFalse, cost), campaign(t, 60, 2, 5, 1, good))
	if r := v.Rules[1]; r.Verdict != Inconclusive || r.Reasons[0].Code != CodeLook {
		t.Errorf("cost: %+v", r)
	}
}

// TestQ5_TheEProcessStakesWholeFamiliesOnly: what was staked stays, however the
// campaign goes on; a family with a trial to come is not staked, nor one behind it.
func TestQ5_TheEProcessStakesWholeFamiliesOnly(t *testing.T) {
	t.Parallel()
	p := policyOf(t, "sequential: {method: e_process}\n", ruleFloor, ruleBetter)
	full := campaign(t, 30, 2, 5, 1, good)
	short := campaign(t, 20, 2, 5, 1, good) // the same first families, drawn alike
	for c := range short.Table.Cases {
		for i := range short.Table.Trials {
			for a := range short.Table.Arms {
				*short.Table.Row(a, c, i) = *full.Table.Row(a, c, i)
			}
		}
	}
	want := evaluate(t, p, short)
	for what, open := range map[string]func(Evidence){
		"stopped": func(e Evidence) {
			*e.Table.Row(0, 40, 4) = evaluator.Row{State: evaluator.TrialNotRun} // family 21
		},
		"in the middle": func(e Evidence) {
			*e.Table.Row(2, 41, 0) = evaluator.Row{}
		},
	} {
		e := campaign(t, 30, 2, 5, 1, good)
		open(e)
		e.Status = StatusStopped
		v := evaluate(t, p, e)
		for i, r := range v.Rules {
			if d := cmp.Diff(want.Rules[i].Figure.Wealth, r.Figure.Wealth); d != "" {
				t.Errorf("%s, %s: the stakes changed:\n%s", what, r.ID, d)
			}
			if !slices.ContainsFunc(r.Figure.Notes, func(n string) bool { return strings.Contains(n, "20 of 30 families staked") }) {
				t.Errorf("%s, %s: %v", what, r.ID, r.Figure.Notes)
			}
		}
	}
	// A trial that is lost for good is a failure of its arm, not a trial to come.
	lost := campaign(t, 30, 2, 5, 1, good)
	*lost.Table.Row(2, 41, 0) = evaluator.Row{}
	if v := evaluate(t, p, lost); len(v.Rules[0].Figure.Notes) != 1 || !strings.HasPrefix(v.Rules[0].Figure.Notes[0], "30 families staked") {
		t.Errorf("lost: %v", v.Rules[0].Figure.Notes)
	}
}

// TestQ5_MaxStatisticForThreeArms: superiority over both baselines, adjusted by
// relabelling; the other way round it fails.
func TestQ5_MaxStatisticForThreeArms(t *testing.T) {
	t.Parallel()
	p := policyOf(t, "multiplicity: max_stat\n", ruleBetter, ruleBetter2)
	v := evaluate(t, p, campaign(t, 24, 2, 5, 1, good))
	for _, r := range v.Rules {
		f := r.Figure
		if r.Verdict != Pass || f.AdjustedOver != 2 || f.PAdjusted == nil || float64(*f.PAdjusted) < 1./20003 {
			t.Errorf("%s: %s %+v", r.ID, r.Verdict, f)
		}
	}
	v = evaluate(t, p, campaign(t, 24, 2, 5, 1, map[string]float64{"legacy": .8, "selective": .8, "planner": .4}))
	if v.Verdict != Fail {
		t.Errorf("worse: %s %v", v.Verdict, v.Reasons)
	}
}

// TestQ5_ScopeNarrowsARule to the cases of a family or tag.
func TestQ5_ScopeNarrowsARule(t *testing.T) {
	t.Parallel()
	e := campaign(t, 12, 2, 3, 1, good)
	for c := range e.Table.Cases {
		if c%2 == 0 {
			e.Table.Cases[c].Tags = []string{"draft"}
		}
	}
	eachTrial(e, "planner", func(r *evaluator.Row, c, _ int) { fill(r, c%2 == 0, true, 1) })
	rule := func(scope string) string {
		return "id: x, step: noninferiority, severity: required, metric: completion, arm: planner, comparison: absolute, limit: 0.5, bound: lower95, scope: " + scope
	}
	for scope, want := range map[string]string{"all": "0.5", "tag draft": "1", "tag write": "0"} {
		v := evaluate(t, policyOf(t, "", rule(scope)), e)
		if got := v.Rules[0].Figure.Value.String(); got != want {
			t.Errorf("%s: %s, want %s", scope, got, want)
		}
	}
	point := strings.Replace(rule("family f03"), "lower95", "point", 1)
	if v := evaluate(t, policyOf(t, "", point), e); v.Verdict != Pass || v.Rules[0].Figure.Value.String() != "0.5" || v.Rules[0].Figure.Families != 1 {
		t.Errorf("a point in one family of 12: %s %v", v.Verdict, v.Rules[0].Reasons)
	}
	if v := evaluate(t, policyOf(t, "", rule("tag draft")), e); v.Verdict != Pass {
		t.Errorf("draft: %s %v", v.Verdict, v.Reasons) // 12 families all complete: exact lower bound 0.78
	}
	if v := evaluate(t, policyOf(t, "", rule("tag write")), e); v.Verdict != Fail {
		t.Errorf("write: %s %v", v.Verdict, v.Reasons)
	}
}

// TestQ5_UnequalFamiliesUseCR2, and the figure says so.
func TestQ5_UnequalFamiliesUseCR2(t *testing.T) {
	t.Parallel()
	var cases []evaluator.TableCase
	for i, n := range []int{20, 2, 2, 2, 2, 2, 2, 2} {
		for c := range n {
			cases = append(cases, evaluator.TableCase{ID: string(rune('a'+i)) + string(rune('a'+c)), Family: string(rune('a' + i))})
		}
	}
	table, err := evaluator.NewTable([]string{"legacy", "planner"}, cases, 2)
	if err != nil {
		t.Fatal(err)
	}
	for c := range cases {
		for i := range 2 {
			fill(table.Row(0, c, i), c%3 == 0, true, 1)
			fill(table.Row(1, c, i), c%3 != 1, true, 1)
		}
	}
	v := evaluate(t, policyOf(t, "", ruleNI), Evidence{Table: table, Word: evaluator.EvidenceMeasured})
	if f := v.Rules[0].Figure; f.Method != "CR2 by family, t" || len(f.Notes) == 0 || !(float64(*f.DF) < 7) {
		t.Errorf("%+v", f)
	}
}

// TestQ5_RoundingIsNoCertainty: a difference of one third in every case leaves
// an error of some 1e-17, and of 1 an exact 0. Neither is a proof by itself.
func TestQ5_RoundingIsNoCertainty(t *testing.T) {
	t.Parallel()
	rule := "id: share, step: superiority, severity: required, metric: criterion_share, arm: planner, comparison: superior_to legacy"
	for _, tc := range []struct {
		share float64
		want  Code
		out   Outcome
	}{{1. / 3, CodeVariation, Inconclusive}, {1, "", Pass}} {
		e := campaign(t, 11, 3, 3, 1, good)
		eachTrial(e, "planner", func(r *evaluator.Row, _, _ int) { r.Values[evaluator.MetricCriterionShare] = tc.share })
		eachTrial(e, "legacy", func(r *evaluator.Row, _, _ int) { r.Values[evaluator.MetricCriterionShare] = 0 })
		v := evaluate(t, policyOf(t, "", rule), e)
		r := v.Rules[0]
		if r.Verdict != tc.out || tc.want != "" && r.Reasons[0].Code != tc.want || tc.out == Pass && !strings.HasPrefix(r.Figure.Method, "Tango") {
			t.Errorf("%v: %s %v, %s", tc.share, r.Verdict, r.Reasons, r.Figure.Method)
		}
	}
}
