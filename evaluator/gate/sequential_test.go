package gate

import (
	"math"
	"math/rand/v2"
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
	if v.Verdict != Pass || q.Look != 1 || q.Information.String() != "0.5" || q.Complete != 288 || q.Used != 240 || v.Rules[0].Figure.Pairs != 240 {
		t.Errorf("looks: %s %v, %+v", v.Verdict, v.Reasons, q)
	}
	// O'Brien-Fleming at 0.5: 2 - 2*Phi(1.959964/sqrt 0.5) = 0.0055746.
	if math.Abs(float64(q.SpentAlpha)-.0055746) > 1e-7 || q.NominalAlpha != q.SpentAlpha || v.Rules[0].Figure.Level != 1-q.NominalAlpha {
		t.Errorf("%+v, level %v", q, v.Rules[0].Figure.Level)
	}
	early := campaign(t, 48, 2, 5, 1, good)
	cut(early, 440) // 40 of 480 are left
	early.Status = StatusStopped
	v = evaluate(t, policyOf(t, "sequential: {method: looks, at: [0.08, 1]}\n", ruleBetter), early)
	if v.Verdict != Inconclusive || v.Rules[0].Reasons[0].Code != CodeCeiling || v.Sequential.NominalAlpha != 0 || v.Sequential.Used != 0 ||
		!strings.Contains(v.Reasons[0].Text, "no declared look is due") {
		t.Errorf("a look without alpha: %s %v", v.Verdict, v.Rules[0].Reasons)
	}
	full := campaign(t, 48, 2, 5, 1, good)
	v = evaluate(t, policyOf(t, "sequential: {method: looks, at: [0.5, 1]}\n", ruleBetter), full)
	if q = v.Sequential; v.Verdict != Pass || q.Look != 2 || q.SpentAlpha != .05 || !(q.NominalAlpha < .05) {
		t.Errorf("last look: %s %+v", v.Verdict, q)
	}
}

// TestQ5_ALookIsTheSameHoweverOftenItIsTaken: between two looks nothing that comes
// in changes a figure, so that asking again is no further look; the schedule says
// which trials a look rests on, and what was seen beyond it still is a veto.
func TestQ5_ALookIsTheSameHoweverOftenItIsTaken(t *testing.T) {
	t.Parallel()
	p := policyOf(t, "sequential: {method: looks, at: [0.5, 0.8, 1]}\n", ruleVeto, ruleBetter, ruleFloor)
	full := campaign(t, 24, 2, 5, 1, good)
	var order []evaluator.Cell
	for i := range full.Table.Trials {
		for _, c := range full.Table.Cases {
			order = append(order, evaluator.Cell{Case: c.ID, Trial: i})
		}
	}
	rng := rand.New(rand.NewPCG(8, 9))
	rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	at := func(done int, holes ...int) Verdict { // of 240
		t.Helper()
		e := campaign(t, 24, 2, 5, 1, good)
		e.Order, e.Status = order, StatusRunning
		for i, cell := range order {
			if i < done && !slices.Contains(holes, i) {
				continue
			}
			c, _ := e.Table.Case(cell.Case)
			for a := range e.Table.Arms {
				*e.Table.Row(a, c, cell.Trial) = evaluator.Row{State: evaluator.TrialNotRun}
			}
		}
		return evaluate(t, p, e)
	}
	figures := func(v Verdict) []Figure { return []Figure{v.Rules[1].Figure, v.Rules[2].Figure} }
	first := at(120)
	if q := first.Sequential; q.Look != 1 || q.Used != 120 || first.Rules[2].Figure.Pairs != 120 || first.Rules[1].Figure.N != 120 {
		t.Fatalf("first look: %+v, %+v", q, first.Rules[1].Figure)
	}
	for _, done := range []int{121, 150, 191} {
		v := at(done)
		if diff := cmp.Diff(figures(first), figures(v)); diff != "" || v.Sequential.Look != 1 || v.Sequential.Complete != done {
			t.Errorf("%d done: %+v\n%s", done, v.Sequential, diff)
		}
	}
	if diff := cmp.Diff(figures(first), figures(at(240, 130))); diff != "" {
		t.Errorf("a hole before the second look: %s", diff)
	}
	if v := at(119); v.Sequential.Look != 0 || !slices.Contains(codes(v), CodeLook) {
		t.Errorf("before the first: %+v", v.Sequential)
	}
	if v := at(240, 3); v.Sequential.Look != 0 {
		t.Errorf("a hole before the first: %+v", v.Sequential)
	}
	second := at(200)
	if q := second.Sequential; q.Look != 2 || q.Used != 192 || second.Rules[2].Figure.Pairs != 192 {
		t.Errorf("second look: %+v", q)
	}
	e := campaign(t, 24, 2, 5, 1, good)
	e.Order = order
	last := order[239]
	c, _ := e.Table.Case(last.Case)
	e.Table.Row(2, c, last.Trial).Values[evaluator.MetricDuplicateEffects] = 1
	cell := order[200]
	c, _ = e.Table.Case(cell.Case)
	for a := range e.Table.Arms {
		*e.Table.Row(a, c, cell.Trial) = evaluator.Row{State: evaluator.TrialNotRun}
	}
	if v := evaluate(t, p, e); v.Verdict != Fail || v.Rules[0].Verdict != Fail || v.Sequential.Look != 2 {
		t.Errorf("a duplicate beyond the look: %s, %+v", v.Verdict, v.Sequential)
	}
	for _, bad := range [][]evaluator.Cell{order[1:], append([]evaluator.Cell{order[1]}, order[1:]...), append([]evaluator.Cell{{Case: "none"}}, order[1:]...)} {
		e.Order = bad
		if _, err := Evaluate(p, e); err == nil || !strings.Contains(err.Error(), "the schedule") {
			t.Errorf("a schedule that is none: %v", err)
		}
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

// TestAnEProcessOfACountShowsNothing: an advisory comparison of a metric
// without bounds is undecided, whatever its margin, and no error.
func TestAnEProcessOfACountShowsNothing(t *testing.T) {
	t.Parallel()
	count := "id: few, step: safety, severity: advisory, metric: owner_corrections, arm: planner, comparison: noninferior_to legacy, margin: 5"
	v := evaluate(t, policyOf(t, "sequential: {method: e_process}\n", count, ruleBetter), campaign(t, 12, 2, 5, 1, good))
	if r := v.Rules[0]; r.Verdict != Inconclusive || len(r.Reasons) == 0 || r.Reasons[0].Code != CodeLook {
		t.Errorf("%s %v", r.Verdict, r.Reasons)
	}
}
