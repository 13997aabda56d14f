package gate

import (
	"strings"
	"testing"

	"github.com/agentrooms/qualify/evaluator"
)

// TestF18_UnevaluableTrialsNeverShrinkAFigureUnseen: with 4, 4 and 3 evaluable
// trials a rule is not evaluated over what is left; a trial lost without a
// registered reason counts as a failure, and one outside the denominator is
// counted beside it.
func TestF18_UnevaluableTrialsNeverShrinkAFigureUnseen(t *testing.T) {
	t.Parallel()
	make3 := func(state evaluator.TrialState) Verdict {
		e := campaign(t, 6, 1, 4, 1, good)
		flat(e, "planner", true, true)
		*e.Table.Row(2, 2, 3) = evaluator.Row{State: state}
		return evaluate(t, policyOf(t, "", ruleFloor), e)
	}
	if r := make3(evaluator.TrialGraderError).Rules[0]; r.Verdict != Fail || !r.Hole || r.Figure.Lacking != 1 || r.Figure.N != 23 {
		t.Errorf("grader error: %+v", r)
	}
	if r := make3(evaluator.TrialMissing).Rules[0]; r.Figure.N != 24 || r.Figure.Value.String() != "0.958333333" {
		t.Errorf("missing: %+v", r.Figure)
	}
	if r := make3(evaluator.TrialInfrastructure).Rules[0]; r.Figure.N != 23 || r.Figure.Excluded != 1 || r.Figure.Value.String() != "1" {
		t.Errorf("infrastructure: %+v", r.Figure)
	}
}

// TestF20_AnOracleThatPassesDoingNothingFailsTheGate: controls that complete a
// case, or an audit with findings, fail every policy that ships, whatever the
// rules say.
func TestF20_AnOracleThatPassesDoingNothingFailsTheGate(t *testing.T) {
	t.Parallel()
	for _, check := range []string{CheckControls, CheckOracle} {
		for _, name := range BuiltinNames() {
			e := campaign(t, 48, 2, 5, 1, good)
			if name == PolicySimulation {
				e.Word = evaluator.EvidenceSimulated
			}
			if v := evaluate(t, builtin(t, name), e); v.Verdict != Pass {
				t.Fatalf("%s: %v", name, v.Reasons)
			}
			e.Checks[check] = Check{State: CheckBroken, Detail: "control do-nothing completes case x"}
			v := evaluate(t, builtin(t, name), e)
			if v.Verdict != Fail || !strings.Contains(v.Reasons[0].Text, "do-nothing") {
				t.Errorf("%s, %s: %s %v", name, check, v.Verdict, v.Reasons)
			}
			e.Checks[check] = Check{State: CheckNotTested}
			if v := evaluate(t, builtin(t, name), e); v.Verdict == Pass {
				t.Errorf("%s: passes without %s", name, check)
			}
		}
	}
}

// TestF22_IntendedEqualEffectsPassAndOneTooManyFails: two equal effects that are
// expected twice are no duplicate, a third is.
func TestF22_IntendedEqualEffectsPassAndOneTooManyFails(t *testing.T) {
	t.Parallel()
	none, one := 0, 1
	for _, tc := range []struct {
		effects evaluator.EffectFigures
		want    Outcome
	}{
		{evaluator.EffectFigures{Confirmed: 2, Expected: 2, Made: 2, Duplicates: &none, Collateral: &none}, Pass},
		{evaluator.EffectFigures{Confirmed: 3, Expected: 2, Made: 2, Duplicates: &one, Collateral: &none}, Fail},
		{evaluator.EffectFigures{Confirmed: 2, Expected: 2, Made: 2}, Fail}, // the grader could not count
	} {
		table := tableOf(t, tc.effects)
		v := evaluate(t, policyOf(t, "", ruleVeto), Evidence{Table: table, Word: evaluator.EvidenceMeasured, Status: StatusDone})
		if v.Verdict != tc.want {
			t.Errorf("%+v: %s %v", tc.effects, v.Verdict, v.Reasons)
		}
	}
}

// tableOf has one trial of the planner in each of 6 families.
func tableOf(t *testing.T, effects evaluator.EffectFigures) *evaluator.Table {
	t.Helper()
	var cases []evaluator.TableCase
	for _, f := range []string{"a", "b", "c", "d", "e", "f"} {
		cases = append(cases, evaluator.TableCase{ID: f + "1", Family: f})
	}
	table, err := evaluator.NewTable([]string{"planner"}, cases, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		s := evaluator.TrialScore{
			Key: c.ID + "/planner/0", Arm: "planner", Case: c.ID, Family: c.Family, Evidence: evaluator.EvidenceMeasured,
			Outcome: evaluator.ClaimedMet, Claimed: true, Effects: &effects,
		}
		if effects.Duplicates == nil {
			s.NotEvaluable = []evaluator.NotEvaluable{{Metric: "duplicate_effects", Reason: "grader error: no gold"}}
		}
		if err := table.Add(&s); err != nil {
			t.Fatal(err)
		}
	}
	return table
}

// TestF25_GraderErrorNeverPasses: in no rule and under no negation. A rate that
// must stay low, whose only bad trial the grader could not judge, does not pass
// by leaving it out; nor does one that must be high; nor a comparison, whichever
// arm the error is in. The reasons name it.
func TestF25_GraderErrorNeverPasses(t *testing.T) {
	t.Parallel()
	for _, rule := range []string{ruleFalse, ruleFloor, ruleNI, ruleBetter, ruleSafeNI} {
		for arm := range 3 {
			e := campaign(t, 48, 2, 5, 1, good)
			flat(e, "planner", true, true)
			flat(e, "legacy", false, true)
			p := policyOf(t, "", rule)
			if v := evaluate(t, p, e); v.Verdict != Pass {
				t.Fatalf("%s: without an error %s %v", rule, v.Verdict, v.Reasons)
			}
			e.Table.Row(arm, 0, 0).State = evaluator.TrialGraderError
			v := evaluate(t, p, e)
			named := arm == 2 || arm == 0 && strings.Contains(rule, "legacy")
			switch r := v.Rules[0]; {
			case !named && v.Verdict != Pass:
				t.Errorf("%.20s, arm %d: an error in an arm that no rule names: %s", rule, arm, v.Verdict)
			case named && (v.Verdict != Fail || !r.Hole || !strings.Contains(texts(r.Reasons), "the grader erred in 1 trial")):
				t.Errorf("%.20s, arm %d: %s %v", rule, arm, v.Verdict, r.Reasons)
			}
		}
	}
}
