package evaluator

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// duel makes one trial score.
func duel(arm, caseID, family string, trial int, o Outcome, cost int64) TrialScore {
	return TrialScore{
		Key: caseID + "/" + arm, Arm: arm, Case: caseID, Family: family, Trial: trial, Evidence: "simulated",
		Outcome: o, Cost: Cost{Charged: cost},
	}
}

func planOf(scores []TrialScore) []Planned {
	var out []Planned
	for _, s := range scores {
		out = append(out, Planned{Key: s.Key, Case: s.Case, Family: s.Family, Trial: s.Trial})
	}
	return out
}

func digestsOf(scores []TrialScore) map[string]string {
	m := map[string]string{}
	for _, s := range scores {
		m[s.Case] = "sha256:" + s.Case
	}
	return m
}

func metricOf(t *testing.T, p ArmPair, name string) Difference {
	t.Helper()
	for _, d := range p.Differences {
		if d.Metric == name {
			return d
		}
	}
	t.Fatalf("no difference of %s", name)
	return Difference{}
}

// TestComparePair_ByHand: a case counts once however many trials it has, and
// the error is clustered by family.
func TestComparePair_ByHand(t *testing.T) {
	t.Parallel()
	a := []TrialScore{
		duel("x", "a1", "f", 0, ClaimedMet, 10), duel("x", "a1", "f", 1, ClaimedUnmet, 10),
		duel("x", "a2", "f", 0, ClaimedUnmet, 10), duel("x", "b1", "g", 0, UnclaimedUnmet, 10),
		duel("x", "b1", "g", 1, GraderError, 10), duel("x", "b1", "g", 2, ClaimedMet, 10),
	}
	b := []TrialScore{
		duel("y", "a1", "f", 0, ClaimedMet, 30), duel("y", "a1", "f", 1, ClaimedMet, 30),
		duel("y", "a2", "f", 0, ClaimedUnmet, 30), duel("y", "b1", "g", 0, ClaimedMet, 30),
		duel("y", "b1", "g", 1, ClaimedMet, 50),
	}
	planB := append(planOf(b), Planned{Case: "b1", Family: "g", Trial: 2}, Planned{Case: "z", Family: "g"})
	p, err := ComparePair(
		PairSide{Scores: a, Planned: planOf(a), Cases: digestsOf(a)},
		PairSide{Scores: b, Planned: planB, Cases: digestsOf(a)},
	)
	if err != nil {
		t.Fatal(err)
	}
	if p.Pairs != 5 || p.Cases != 3 || p.Families != 2 {
		t.Errorf("%d pairs, %d cases, %d families", p.Pairs, p.Cases, p.Families)
	}
	// Cases: a1 (0 + 1)/2 = 0.5, a2 0, b1 1 (its second pair has a grader error). Mean 0.5;
	// families deviate by −0.5 and 0.5: CR0 = √0.5/3, CR1 = CR0·√2 = 1/3.
	d := metricOf(t, p, "completion")
	if d.Mean.String() != "0.5" || d.SE.String() != "0.333333333" || d.N != 3 || d.Clusters != 2 || d.Pairs != 4 {
		t.Errorf("completion: %v ± %v, %+v", d.Mean, d.SE, d)
	}
	if d = metricOf(t, p, "cost_charged_micros"); d.Mean.String() != "23.33333333" || d.Pairs != 5 {
		t.Errorf("cost: %v, %+v", d.Mean, d)
	}
	if d = metricOf(t, p, "latency_us"); d.Mean != nil || d.SE != nil || d.N != 0 || d.Pairs != 0 {
		t.Errorf("a metric that no trial has is given: %+v", d)
	}
	want := []MissingPair{{"b1", 2, "not run in B"}, {"z", 0, "only B planned it"}}
	if diff := cmp.Diff(want, p.Missing); diff != "" {
		t.Error(diff)
	}
}

func TestComparePair_CaseOfOtherContentIsNoPair(t *testing.T) {
	t.Parallel()
	s := []TrialScore{duel("x", "a1", "f", 0, ClaimedMet, 1), duel("x", "b1", "g", 0, ClaimedMet, 1)}
	other := map[string]string{"a1": "sha256:a1", "b1": "sha256:new"}
	p, err := ComparePair(PairSide{Scores: s, Planned: planOf(s), Cases: digestsOf(s)}, PairSide{Scores: s, Planned: planOf(s), Cases: other})
	if err != nil {
		t.Fatal(err)
	}
	if p.Pairs != 1 || metricOf(t, p, "completion").SE != nil {
		t.Errorf("%d pairs, %+v: one family has no standard error", p.Pairs, p.Differences[0])
	}
	if diff := cmp.Diff([]MissingPair{{"b1", 0, "the case differs"}}, p.Missing); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]ChangedCase{{"b1", "sha256:b1", "sha256:new"}}, ChangedCases(digestsOf(s), other)); diff != "" {
		t.Error(diff)
	}
	if _, err := ComparePair(PairSide{Scores: []TrialScore{s[0], s[0]}}, PairSide{}); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("got %v", err)
	}
}

// TestComparePair_SwappedSidesNegate: A against B is B against A with the
// opposite sign and the same error, whatever the outcomes and the order.
func TestComparePair_SwappedSidesNegate(t *testing.T) {
	t.Parallel()
	outcomes := []Outcome{ClaimedMet, ClaimedUnmet, UnclaimedMet, UnclaimedUnmet, GraderError, Infrastructure}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(arm string) []TrialScore {
			var out []TrialScore
			for i := range 6 {
				if rapid.IntRange(0, 4).Draw(t, "runs") == 0 {
					continue
				}
				s := duel(arm, string(rune('a'+i/2)), string(rune('f'+i/4)), i%2, rapid.SampledFrom(outcomes).Draw(t, "outcome"), rapid.Int64Range(0, 99).Draw(t, "cost"))
				out = append(out, s)
			}
			return rapid.Permutation(out).Draw(t, "order")
		}
		a, b := draw("x"), draw("y")
		cases := map[string]string{}
		side := func(s []TrialScore) PairSide { return PairSide{Scores: s, Planned: planOf(s), Cases: cases} }
		one, err := ComparePair(side(a), side(b))
		if err != nil {
			t.Fatal(err)
		}
		two, err := ComparePair(side(b), side(a))
		if err != nil {
			t.Fatal(err)
		}
		if one.Pairs+len(one.Missing) != two.Pairs+len(two.Missing) || one.Pairs != two.Pairs {
			t.Fatalf("%d pairs and %d missing, swapped %d and %d", one.Pairs, len(one.Missing), two.Pairs, len(two.Missing))
		}
		for i, d := range one.Differences {
			e := two.Differences[i]
			if (d.Mean == nil) != (e.Mean == nil) || (d.SE == nil) != (e.SE == nil) || d.N != e.N || d.Pairs != e.Pairs {
				t.Fatalf("%+v, swapped %+v", d, e)
			}
			if d.Mean != nil && math.Abs(float64(*d.Mean+*e.Mean)) > 1e-9 || d.SE != nil && math.Abs(float64(*d.SE-*e.SE)) > 1e-9 {
				t.Fatalf("%s: %v ± %v, swapped %v ± %v", d.Metric, d.Mean, d.SE, e.Mean, e.SE)
			}
		}
	})
}

func TestDifferencesOf_NamesBothValues(t *testing.T) {
	t.Parallel()
	a := CompareSide{Evidence: "simulated", Model: "m1", Prices: "p", Seed: 1, Trials: 3, Corpus: RunCorpus{Digest: "d", Split: "dev", Cases: 2}}
	b := a
	if d := DifferencesOf(&a, &b); len(d) != 0 {
		t.Errorf("equal sides differ in %v", d)
	}
	b = CompareSide{Evidence: "measured", Model: "m2", Prices: "q", Seed: 2, Trials: 4, Corpus: RunCorpus{Digest: "e", Split: "holdout", Cases: 3}}
	want := []Differing{
		{"evidence", "simulated", "measured"},
		{"corpus", "d", "e"},
		{"split", "dev", "holdout"},
		{"cases", "2", "3"},
		{"model", "m1", "m2"},
		{"prices", "p", "q"},
		{"seed", "1", "2"},
		{"trials", "3", "4"},
	}
	if diff := cmp.Diff(want, DifferencesOf(&a, &b)); diff != "" {
		t.Error(diff)
	}
}
