package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/corpus/gold"
	"github.com/agentrooms/qualify/evaluator"
)

// long reports whether the long counts are asked for (make test-long).
func long() bool { return os.Getenv("QUALIFY_LONG") != "" }

// With all rates 0 and world faults off every arm does every case (DESIGN §5),
// in both splits.
func TestFairness_PerfectModelScoresOneInEveryArm(t *testing.T) {
	t.Parallel()
	for _, s := range []struct {
		split string
		simulation
	}{
		{corpus.SplitDev, simulation{seed: 3, trials: 2, noFaults: true}},
		{corpus.SplitHoldout, simulation{seed: 3, trials: 1, noFaults: true, holdout: true}},
	} {
		t.Run(s.split, func(t *testing.T) {
			t.Parallel()
			scoresOne(t, s.run(t))
		})
	}
}

func scoresOne(t *testing.T, s simResult) {
	t.Helper()
	for _, arm := range []string{"legacy", "selective", "planner"} {
		a := s.arm(t, arm)
		if s.completion(t, arm) != 1 || a.False.Count != 0 || a.Denominators.ClaimedMet != a.Denominators.Planned {
			t.Errorf("%s: completion %v, denominators %+v, terminations %v; want 1 and all claimed", arm, s.completion(t, arm), a.Denominators, a.Termination)
		}
		if a.Collateral.Count != 0 {
			t.Errorf("%s: %d collateral effects; want none", arm, a.Collateral.Count)
		}
	}
	legacy := s.arm(t, "legacy").Cost.Charged
	for _, arm := range []string{"selective", "planner"} {
		if c := s.arm(t, arm).Cost.Charged; c <= legacy {
			t.Errorf("%s costs %d micros, legacy %d: legacy must be cheaper when nothing goes wrong", arm, c, legacy)
		}
	}
}

// Renaming the arms changes nothing but the draws: where nothing is drawn but
// fractions of a millisecond, each mode does the same under any name, for the
// same money, also when the world's faults fire.
func TestFairness_RenamingTheArmsChangesNothing(t *testing.T) {
	t.Parallel()
	run := func(names map[string]string) map[string]evaluator.ArmSummary {
		t.Helper()
		var arms []string
		for _, mode := range []string{"legacy", "selective", "planner"} {
			arms = append(arms, fmt.Sprintf("{name: %s, mode: %s, idempotency: on}", names[mode], mode))
		}
		s := simulation{seed: 7, trials: 1, arms: arms, instant: true}.run(t)
		out := map[string]evaluator.ArmSummary{}
		for mode, name := range names {
			a := s.arm(t, name)
			if a.Mode != mode {
				t.Fatalf("arm %s runs %s, want %s", name, a.Mode, mode)
			}
			// What names the arm, and what is drawn.
			a.Name, a.Links, a.Latency = "", nil, nil
			out[mode] = a
		}
		return out
	}
	want := run(map[string]string{"legacy": "legacy", "selective": "selective", "planner": "planner"})
	got := run(map[string]string{"legacy": "planner", "selective": "legacy", "planner": "a-third"})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-named for their mode +otherwise):\n%s", diff)
	}
	if a := want["legacy"]; len(a.Faults) == 0 || a.Cost.Charged == 0 {
		t.Errorf("nothing happened: %+v", a)
	}
}

// A reviewer that passes everything leaves the planner no edge over selective
// routing; one that rejects everything leaves it nothing completed.
func TestFairness_ReviewerMakesTheDifference(t *testing.T) {
	t.Parallel()
	trials := 8 // 112 an arm
	if long() {
		trials = 143 // 2,002 an arm
	}
	rates := map[string]string{
		"skip_step": "0.10", "wrong_argument": "0.08", "early_claim": "0.15", "malformed_json": "0.03",
		"missing_usage": "0.02", "lost_reply": "0.01", "retry_after_unknown": "0.50", "plan_fault": "0.08",
		"passes_bad": "1", "fails_good": "0",
	}
	arms := []string{"{name: selective, mode: selective, idempotency: on}", "{name: planner, mode: planner, idempotency: on}"}
	s := simulation{seed: 11, trials: trials, parallel: 2, rates: rates, arms: arms}.run(t)
	sel, pl := s.completion(t, "selective"), s.completion(t, "planner")
	n := s.arm(t, "planner").Completion.N
	t.Logf("n %d an arm: selective %.4f, planner %.4f, difference %.4f; terminations %v and %v", n, sel, pl, pl-sel, s.arm(t, "selective").Termination, s.arm(t, "planner").Termination)
	margin := 0.05
	if !long() {
		margin += 2 * math.Sqrt(0.5/float64(n)) // two standard errors of a difference at this n
	}
	if math.Abs(pl-sel) > margin {
		t.Errorf("planner %.4f and selective %.4f with a reviewer that passes everything: further apart than %.3f", pl, sel, margin)
	}

	s = simulation{seed: 5, trials: 2, arms: arms[1:], rates: map[string]string{"fails_good": "1", "passes_bad": "0"}, noFaults: true}.run(t)
	if a, plain := s.arm(t, "planner"), answered(t, s); a.Denominators.ClaimedMet+a.Denominators.ClaimedUnmet != plain {
		t.Errorf("a reviewer that rejects everything: denominators %+v; only ordinary answers (%d), which no reviewer sees, may be claimed", a.Denominators, plain)
	}
}

// answered counts trials of cases that a coordinator answers by itself, without
// a plan: nobody reviews those.
func answered(t *testing.T, s simResult) int {
	t.Helper()
	cs, err := new(app).loadCases(builtinName, ".")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, c := range s.plan.SelectedCases() {
		_, g, err := cs.of(c.ID)
		if err != nil {
			t.Fatal(err)
		}
		calls := slices.ContainsFunc(g.Solution, func(st gold.Step) bool { return !st.Final() })
		if !g.NeedsPlan && !calls {
			n += s.plan.Trials
		}
	}
	return n
}
