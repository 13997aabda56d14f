package gate

import (
	"math"
	"strings"
	"testing"

	"github.com/agentrooms/qualify/evaluator"
)

// lossOf is a campaign of one case and trial a family, all complete but for the
// planner's in the first lost families.
func lossOf(t *testing.T, families, lost int, claimed bool) Evidence {
	t.Helper()
	e := campaign(t, families, 1, 1, 1, good)
	for _, arm := range []string{"legacy", "selective"} {
		flat(e, arm, true, true)
	}
	eachTrial(e, "planner", func(r *evaluator.Row, c, _ int) { fill(r, c >= lost, c >= lost || claimed, 1) })
	return e
}

// TestQ5_HolmSharesAlphaForFailToo: 3 of 12 lost have p .041 of being as good. It
// fails one comparison at .05, but not one of two of the same hypothesis; rules of
// another scope are another hypothesis.
func TestQ5_HolmSharesAlphaForFailToo(t *testing.T) {
	t.Parallel()
	e := lossOf(t, 12, 3, false)
	for name, tc := range map[string]struct {
		p    *Policy
		want Outcome
		over int
	}{
		"alone":             {policyOf(t, "", ruleBetter), Fail, 0},
		"two baselines":     {policyOf(t, "", ruleBetter, ruleBetter2), Inconclusive, 2},
		"not adjusted":      {policyOf(t, "multiplicity: none\n", ruleBetter, ruleBetter2), Fail, 2},
		"of another scope":  {policyOf(t, "", ruleBetter, ruleBetter2+", scope: tag write"), Fail, 0},
		"of another metric": {policyOf(t, "", ruleBetter, strings.Replace(ruleBetter2, "completion", "criterion_share", 1)), Fail, 0},
	} {
		v := evaluate(t, tc.p, e)
		for _, r := range v.Rules {
			if r.Verdict != tc.want || r.Figure.AdjustedOver != tc.over || math.Abs(float64(*r.Figure.P)-(1-.0408)) > 5e-4 {
				t.Errorf("%s: %s %s, over %d, p %v: %v", name, r.ID, r.Verdict, r.Figure.AdjustedOver, r.Figure.P, r.Reasons)
			}
		}
	}
}

// TestQ5_ARareEventIsNoSmallError: one false completion in 30 families has a t of
// 2.0 against a margin of 0.1, because its error is small just when few were
// seen; Tango's score, each family a pair, does not show it. A count has the
// Poisson bound of one event, 4.7439/30.
func TestQ5_ARareEventIsNoSmallError(t *testing.T) {
	t.Parallel()
	e := lossOf(t, 30, 1, true)
	r := evaluate(t, policyOf(t, "", ruleSafeNI), e).Rules[0]
	if byT := float64(*r.Figure.Value) + 1.6991*float64(*r.Figure.SE); byT > .1 || r.Verdict != Inconclusive || float64(*r.Figure.P) <= .05 || float64(*r.Figure.Upper) <= .1 {
		t.Errorf("%s by %+v, t upper %.4f", r.Verdict, r.Figure, byT)
	}
	e.Table.Row(2, 4, 0).Values[evaluator.MetricDuplicateEffects] = 1
	count := strings.Replace(strings.Replace(ruleVeto, "limit: 0, bound: point", "limit: 0.2, bound: upper95", 1), "veto", "required", 1)
	r = evaluate(t, policyOf(t, "", strings.Replace(count, "id: required", "id: count", 1), ruleNI), e).Rules[0]
	if got := float64(*r.Figure.Upper); math.Abs(got-4.7439/30) > 1e-5 || !strings.Contains(r.Figure.Method, "Poisson") {
		t.Errorf("upper bound of a count %v by %s", got, r.Figure.Method)
	}
}

// TestQ5_ABoundThatMeetsItsLimitKeepsIt, as it is printed.
func TestQ5_ABoundThatMeetsItsLimitKeepsIt(t *testing.T) {
	t.Parallel()
	e := lossOf(t, 59, 0, false)
	upper := evaluate(t, policyOf(t, "", ruleFalse), e).Rules[0].Figure.Upper
	for limit, want := range map[string]Outcome{upper.String(): Pass, (*upper - 1e-9).String(): Inconclusive} {
		rule := strings.Replace(ruleFalse, "limit: 0.1", "limit: "+limit, 1)
		if r := evaluate(t, policyOf(t, "", rule), e).Rules[0]; r.Verdict != want {
			t.Errorf("upper %v, limit %s: %s", upper, limit, r.Verdict)
		}
	}
}

// TestQ5_TheMaximumStatisticIsOneSided: the declared direction halves the
// two-sided p of the relabelling, down to half of one in 10,001.
func TestQ5_TheMaximumStatisticIsOneSided(t *testing.T) {
	t.Parallel()
	v := evaluate(t, policyOf(t, "multiplicity: max_stat\n", ruleBetter, ruleBetter2), campaign(t, 24, 2, 5, 1, good))
	for _, r := range v.Rules {
		if got := float64(*r.Figure.PAdjusted); math.Abs(got-.5/10001) > 1e-9 {
			t.Errorf("%s: %v", r.ID, got)
		}
	}
}
