package evaluator

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
)

// TestQ7_FindingsNameTheirTraceLines: what an arm counts can be looked up, and
// families add up to the arm.
func TestQ7_FindingsNameTheirTraceLines(t *testing.T) {
	t.Parallel()
	p := newTape(t).owner("m1", "request", 0).op(tool(1, 2), engine.EvToolOK, `{"n":1}`).op(tool(3, 4), engine.EvToolOK, `{"n":1}`).
		owner("k1", "correction", 5).claim(6).claim(7)
	s := p.score()
	var claims, corrections, events []int
	tr := p.read()
	for i := range tr.Events {
		switch tr.Events[i].Kind {
		case eventClaim:
			claims = append(claims, tr.Events[i].N+1)
		case eventToolOK:
			events = append(events, tr.Events[i].N+1)
		}
	}
	for i := range tr.Owners {
		if tr.Owners[i].Type == engine.MsgCorrection {
			corrections = append(corrections, tr.Owners[i].N+1)
		}
	}
	if s.ClaimLine != claims[len(claims)-1] {
		t.Errorf("claim line %d of %v", s.ClaimLine, claims)
	}
	if diff := cmp.Diff(corrections, s.CorrectionLines) + cmp.Diff(events[1:], s.RepeatedLines); diff != "" {
		t.Error(diff)
	}

	scores := []TrialScore{
		{
			Key: "a/x/0", Arm: "x", Case: "a", Family: "f", Evidence: "simulated", Outcome: ClaimedUnmet, ClaimLine: 9, CorrectionLines: []int{4},
			Effects: &EffectFigures{DuplicateLines: []int{6, 8}, CollateralLines: []int{7}}, RepeatedLines: []int{5},
		},
		{Key: "b/x/0", Arm: "x", Case: "b", Family: "g", Evidence: "simulated", Outcome: ClaimedMet, ClaimLine: 3},
	}
	plan := []Planned{
		{Key: "a/x/0", Case: "a", Family: "f"},
		{Key: "b/x/0", Case: "b", Family: "g"},
		{Key: "b/x/1", Case: "b", Family: "g", Trial: 1, NotRun: true},
		{Key: "b/x/2", Case: "b", Family: "g", Trial: 2},
	}
	a, err := Aggregate(Arm{Name: "x"}, scores, plan)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		LinkFalseCompletion: {"a/x/0:9"}, LinkCorrection: {"a/x/0:4"}, LinkRepeatedWork: {"a/x/0:5"},
		LinkDuplicateEffect: {"a/x/0:6", "a/x/0:8"}, LinkCollateralEffect: {"a/x/0:7"},
	}
	if diff := cmp.Diff(want, a.Links); diff != "" {
		t.Error(diff)
	}
	zero, half := Num(0), Num(.5)
	families := []ArmFamily{{Family: "f", Planned: 1, N: 1, Rate: &zero, False: 1}, {Family: "g", Planned: 3, N: 2, Met: 1, Rate: &half}}
	if diff := cmp.Diff(families, a.Families); diff != "" {
		t.Error(diff)
	}
}
