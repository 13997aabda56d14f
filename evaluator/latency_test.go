package evaluator

import (
	"fmt"
	"testing"
)

// TestQ7_P95HasAnIntervalByFamily: unbounded above with few runs, never the
// longest time; none with fewer than six families.
func TestQ7_P95HasAnIntervalByFamily(t *testing.T) {
	t.Parallel()
	summary := func(families, trials int) *RunLatency {
		t.Helper()
		var planned []Planned
		var scores []TrialScore
		for f := range families {
			for i := range trials {
				s := TrialScore{
					Key: fmt.Sprintf("c%02d/a/%d", f, i), Arm: "a", Case: fmt.Sprintf("c%02d", f), Family: fmt.Sprintf("f%02d", f), Trial: i, Evidence: EvidenceMeasured,
					Outcome: ClaimedMet, Claimed: true, Latency: &Latency{US: int64(1000 * (1 + f + families*i))},
				}
				planned, scores = append(planned, Planned{Key: s.Key, Case: s.Case, Family: s.Family, Trial: i}), append(scores, s)
			}
		}
		sum, err := Aggregate(Arm{Name: "a"}, scores, planned)
		if err != nil {
			t.Fatal(err)
		}
		return sum.Latency
	}
	if l := summary(5, 3); l.P95CI95 != nil || l.P95 != 15000 {
		t.Errorf("five families: %+v", l)
	}
	if l := summary(7, 2); l.P95CI95 == nil || l.P95CI95.Hi != nil || l.P95CI95.Lo == nil || *l.P95CI95.Lo >= 14000 {
		t.Errorf("seven families: %+v", l.P95CI95)
	}
	if l := summary(40, 20); l.P95CI95.Hi == nil || *l.P95CI95.Hi >= 800_000 || *l.P95CI95.Lo > l.P95 || *l.P95CI95.Hi < l.P95 {
		t.Errorf("forty families: %+v", l)
	}
}
