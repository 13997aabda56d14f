package evaluator

import "testing"

// TestQ2_APairNeedsBothOfItsTrials: where one is outside the denominator or not
// evaluable the other is no pair, whichever arm it is, and it counts where it belongs.
func TestQ2_APairNeedsBothOfItsTrials(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b                         TrialState
		used, excluded, lackA, lackB int
	}{
		{TrialRan, TrialRan, 2, 0, 0, 0},
		{TrialInfrastructure, TrialRan, 1, 1, 0, 0},
		{TrialRan, TrialNotRun, 1, 1, 0, 0},
		{TrialInfrastructure, TrialGraderError, 1, 1, 0, 0},
		{TrialGraderError, TrialRan, 1, 0, 1, 0},
		{TrialRan, TrialGraderError, 1, 0, 0, 1},
		{TrialGraderError, TrialGraderError, 1, 0, 1, 1},
		{TrialMissing, TrialRan, 2, 0, 0, 0}, // a failure of its arm
	} {
		table, err := NewTable([]string{"a", "b"}, []TableCase{{ID: "c", Family: "f"}}, 2)
		if err != nil {
			t.Fatal(err)
		}
		for arm, state := range []TrialState{tc.a, tc.b} {
			for i, s := range []TrialState{TrialRan, state} {
				*table.Row(arm, 0, i) = Row{State: s}
				if s != TrialMissing {
					table.Row(arm, 0, i).Values[MetricCompletion] = 1
				}
			}
		}
		p := table.Pairs(MetricCompletion, 0, 1, nil)
		if p.Used != tc.used || p.Excluded != tc.excluded || p.LackingA != tc.lackA || p.LackingB != tc.lackB {
			t.Errorf("%+v: %+v", tc, p)
		}
		wantA := 1.0
		if tc.a == TrialMissing {
			wantA = .5
		}
		if len(p.Pairs) != 1 || p.Pairs[0].A != wantA || p.Pairs[0].B != 1 {
			t.Errorf("%+v: %+v", tc, p.Pairs)
		}
	}
}
