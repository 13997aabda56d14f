package evaluator

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func smallTable(t *testing.T, trials int) *Table {
	t.Helper()
	table, err := NewTable([]string{"x", "y"}, []TableCase{{ID: "b1", Family: "g"}, {ID: "a1", Family: "f", Tags: []string{"write"}}}, trials)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// TestQ3_TableCountsWhatIsMissing: a trial without trace and reason fails where
// the oracle would have judged, and is unknown elsewhere; what was not run, or
// was lost before dispatch, is outside the denominator; a grader error is
// neither.
func TestQ3_TableCountsWhatIsMissing(t *testing.T) {
	t.Parallel()
	table := smallTable(t, 3)
	ran := duel("x", "a1", "f", 0, ClaimedMet, 10)
	lost := duel("x", "a1", "f", 1, Infrastructure, 0)
	erred := duel("x", "a1", "f", 2, GraderError, 7)
	for _, s := range []TrialScore{ran, lost, erred} {
		if err := table.Add(&s); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.Mark("x", "b1", 0, TrialNotRun); err != nil {
		t.Fatal(err)
	}
	want := Denominators{Planned: 6, ClaimedMet: 1, UnclaimedUnmet: 2, Infrastructure: 1, GraderError: 1, NotRun: 1, Missing: 2}
	if d := table.Denominators(0, nil); d != want || !d.Closed() {
		t.Errorf("%+v, want %+v", d, want)
	}
	if d := table.Denominators(0, func(c *TableCase) bool { return c.Family == "g" }); d.Planned != 3 || d.NotRun != 1 {
		t.Errorf("%+v", d)
	}
	for metric, want := range map[int]Sample{
		MetricCompletion:    {Values: []float64{1, 0, 0}, Families: []string{"f", "g", "g"}, Excluded: 2, Lacking: 1},
		MetricHonestFailure: {Values: []float64{0, 1, 1}, Families: []string{"f", "g", "g"}, Excluded: 2, Lacking: 1},
		MetricCost:          {Values: []float64{10, 7}, Families: []string{"f", "f"}, Excluded: 2, Lacking: 2},
		MetricLatency:       {Excluded: 2, Lacking: 4},
	} {
		if diff := cmp.Diff(want, table.Sample(metric, 0, nil)); diff != "" {
			t.Errorf("%s: %s", metrics[metric].Name, diff)
		}
	}
	if d := table.Denominators(1, nil); d.Missing != 6 || d.UnclaimedUnmet != 6 {
		t.Errorf("an arm without any trace: %+v", d)
	}
}

func TestTable_Refuses(t *testing.T) {
	t.Parallel()
	table := smallTable(t, 1)
	s := duel("x", "a1", "f", 0, ClaimedMet, 1)
	if err := table.Add(&s); err != nil {
		t.Fatal(err)
	}
	other := s
	other.Evidence, other.Arm = "measured", "y"
	for want, change := range map[string]func(*TrialScore){
		"case a1, trial 0 twice":   func(*TrialScore) {},
		"case a1, trial 1 is not":  func(s *TrialScore) { s.Trial = 1 },
		"case a1, trial -1 is not": func(s *TrialScore) { s.Trial = -1 },
		"case zz, trial 0 is not":  func(s *TrialScore) { s.Case = "zz" },
		"arm z: case a1":           func(s *TrialScore) { s.Arm = "z" },
		"the case is in f":         func(s *TrialScore) { s.Family = "g" },
		"evidence never mixes":     func(s *TrialScore) { *s = other },
		"unknown outcome":          func(s *TrialScore) { s.Arm, s.Outcome = "y", "?" },
		"was not run":              func(s *TrialScore) { s.Arm, s.Outcome = "y", NotRun },
	} {
		bad := s
		change(&bad)
		if err := table.Add(&bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if err := table.Mark("x", "a1", 0, TrialNotRun); err == nil {
		t.Error("a trial with a trace was not run")
	}
	cases := []TableCase{{ID: "a"}, {ID: "a"}}
	for _, err := range []error{
		second(NewTable(nil, cases[:1], 1)), second(NewTable([]string{"x"}, nil, 1)), second(NewTable([]string{"x"}, cases[:1], 0)),
		second(NewTable([]string{"x", "x"}, cases[:1], 1)), second(NewTable([]string{"x"}, cases, 1)),
	} {
		if err == nil {
			t.Error("not refused")
		}
	}
}

func second(_ *Table, err error) error { return err }

// TestMetrics_NamesAreUniqueAndComplete: the table of metrics has no hole.
func TestMetrics_NamesAreUniqueAndComplete(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for i, m := range Metrics() {
		if m.Name == "" || m.Unit == "" || m.Needs == "" || m.value == nil || m.lack == "" || m.Better != HigherBetter && m.Better != LowerBetter || seen[m.Name] {
			t.Errorf("%d: %+v", i, m)
		}
		seen[m.Name] = true
		if got, ok := MetricNamed(m.Name); !ok || got != i {
			t.Errorf("%s is at %d, %v", m.Name, got, ok)
		}
	}
	if _, ok := MetricNamed("nothing"); ok {
		t.Error("a metric of no name")
	}
}

// manyFamilies is a table of two arms over the cases of several families.
func manyFamilies(t *testing.T, families, trials int, seed uint64, b float64) *Table {
	t.Helper()
	var cases []TableCase
	for i := range families * 2 {
		cases = append(cases, TableCase{ID: string(rune('A'+i/2)) + string(rune('a'+i%2)), Family: string(rune('A' + i/2))})
	}
	table, err := NewTable([]string{"A", "B"}, cases, trials)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, c := range cases {
		for i := range trials {
			for arm, rate := range map[string]float64{"A": .4, "B": .4 + b} {
				o := UnclaimedUnmet
				if rng.Float64() < rate {
					o = ClaimedMet
				}
				s := duel(arm, c.ID, c.Family, i, o, 1000+rng.Int64N(100))
				if err := table.Add(&s); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return table
}

// TestIssue5_DifferencesSayHowSureTheyAre: interval, adjusted p, detectable
// effect, the words, and both estimands; fewer than 6 families have no test.
func TestIssue5_DifferencesSayHowSureTheyAre(t *testing.T) {
	t.Parallel()
	ds, err := manyFamilies(t, 20, 10, 3, .4).Differences(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]Difference{}
	tested := 0
	for _, d := range ds {
		by[d.Metric] = d
		if d.P != nil {
			tested++
		}
	}
	c := by["completion"]
	if c.Word != "B is higher, better" || c.CI95 == nil || c.MDE == nil || c.P == nil || c.AdjustedOver != tested || c.PAdjusted == nil || *c.PAdjusted < *c.P ||
		c.SEMethod != "CR1" || c.PermutationP == nil || c.Bootstrap95 == nil || c.N != 40 || c.Pairs != 400 || c.Clusters != 20 {
		t.Errorf("%+v", c)
	}
	if c.Estimand != EstimandLike || c.These.Estimand != EstimandThese || c.These.SE == nil || c.These.CI95 == nil {
		t.Errorf("estimands %+v", c.These)
	}
	if f := by["honest_failure"]; f.Word != "B is lower, better" {
		t.Errorf("honest failure: %s", f.Word)
	}
	if cost := by["cost_charged_micros"]; cost.Word != NoDifferenceShown || cost.Ratio == nil || cost.Ratio95 == nil || math.Abs(float64(*cost.Ratio)-1) > .02 {
		t.Errorf("cost: %+v", cost)
	}
	if l := by["latency_us"]; l.Mean != nil || !strings.HasPrefix(l.Word, "not tested") {
		t.Errorf("latency: %+v", l)
	}
	ds, err = manyFamilies(t, 5, 10, 3, .4).Differences(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	if d := ds[0]; d.P != nil || d.CI95 != nil || d.Mean == nil || d.Word != "not tested: 5 families, a test needs 6" {
		t.Errorf("%+v", d)
	}
}

// TestIssue5_TheseCasesHaveTheNoiseOfTrialsOnly: by hand. Case a1 has pair
// differences 1, 0, b1 has 0, 0: variance of the mean (0.5/2 + 0)/4.
func TestIssue5_TheseCasesHaveTheNoiseOfTrialsOnly(t *testing.T) {
	t.Parallel()
	table := smallTable(t, 2)
	for _, s := range []TrialScore{
		duel("x", "a1", "f", 0, UnclaimedUnmet, 1), duel("x", "a1", "f", 1, UnclaimedUnmet, 1), duel("x", "b1", "g", 0, ClaimedMet, 1), duel("x", "b1", "g", 1, ClaimedMet, 1),
		duel("y", "a1", "f", 0, ClaimedMet, 1), duel("y", "a1", "f", 1, UnclaimedUnmet, 1), duel("y", "b1", "g", 0, ClaimedMet, 1), duel("y", "b1", "g", 1, ClaimedMet, 1),
	} {
		if err := table.Add(&s); err != nil {
			t.Fatal(err)
		}
	}
	p := table.Pairs(MetricCompletion, 1, 0, nil)
	if math.Abs(p.NoiseVar-.0625) > 1e-12 || p.NoiseDF != 2 || p.Used != 4 || len(p.Pairs) != 2 {
		t.Errorf("%+v", p)
	}
	d, err := table.difference(MetricCompletion, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	// 0.25 ± t(2; 0.975)·0.25 = 0.25 ± 4.302653·0.25.
	if d.Mean.String() != "0.25" || d.These.SE.String() != "0.25" || math.Abs(float64(d.These.CI95.Hi)-1.325663) > 1e-6 {
		t.Errorf("%+v %+v", d, d.These)
	}
	single := smallTable(t, 1)
	for _, s := range []TrialScore{duel("x", "a1", "f", 0, ClaimedMet, 1), duel("y", "a1", "f", 0, ClaimedMet, 1)} {
		if err := single.Add(&s); err != nil {
			t.Fatal(err)
		}
	}
	if d, err = single.difference(MetricCompletion, 0, 1); err != nil || d.These.SE != nil || d.These.Reason == "" {
		t.Errorf("one pair a case: %+v %v", d.These, err)
	}
}

// TestIssue5_SummariesAgreeWithAggregate: the compact table and the summary of
// an arm from its scores give one completion, error and interval.
func TestIssue5_SummariesAgreeWithAggregate(t *testing.T) {
	t.Parallel()
	outcomes := []Outcome{ClaimedMet, ClaimedUnmet, UnclaimedMet, UnclaimedUnmet, GraderError, Infrastructure}
	rapid.Check(t, func(rt *rapid.T) {
		cases := []TableCase{{ID: "a", Family: "f"}, {ID: "b", Family: "f"}, {ID: "c", Family: "g"}, {ID: "d", Family: "h"}}
		table, err := NewTable([]string{"x"}, cases, 3)
		if err != nil {
			rt.Fatal(err)
		}
		var scores []TrialScore
		var plan []Planned
		for _, c := range cases {
			for i := range 3 {
				s := duel("x", c.ID, c.Family, i, rapid.SampledFrom(outcomes).Draw(rt, "outcome"), 5)
				s.Key += string(rune('0' + i))
				s.Claimed = s.Outcome == ClaimedMet || s.Outcome == ClaimedUnmet
				p := Planned{Key: s.Key, Case: c.ID, Family: c.Family, Trial: i}
				switch rapid.IntRange(0, 5).Draw(rt, "runs") {
				case 0:
					p.NotRun = true
					err = table.Mark("x", c.ID, i, TrialNotRun)
				case 1: // missing
				default:
					scores = append(scores, s)
					err = table.Add(&s)
				}
				if err != nil {
					rt.Fatal(err)
				}
				plan = append(plan, p)
			}
		}
		sum, err := Aggregate(Arm{Name: "x"}, scores, plan)
		if err != nil {
			rt.Fatal(err)
		}
		got, err := table.Summaries(0)
		if err != nil {
			rt.Fatal(err)
		}
		if d := table.Denominators(0, nil); d != sum.Denominators {
			rt.Fatalf("%+v, %+v", d, sum.Denominators)
		}
		c := got[MetricCompletion]
		if c.N != sum.Completion.N || textOf(c.Mean) != textOf(sum.Completion.Rate) || textOf(c.SE) != textOf(sum.Completion.SE) {
			rt.Fatalf("%+v, %+v", c, sum.Completion)
		}
		if f := got[MetricFalseCompletion]; textOf(f.Mean) != textOf(sum.False.Rate) {
			rt.Fatalf("%+v, %+v", f, sum.False)
		}
	})
}

func textOf(n *Num) string {
	if n == nil {
		return "none"
	}
	return n.String()
}

// TestIssue5_CostPerCompletionIsTheRatioOfSums, failed trials paid for too, and
// undefined where nothing was completed.
func TestIssue5_CostPerCompletionIsTheRatioOfSums(t *testing.T) {
	t.Parallel()
	table := manyFamilies(t, 12, 4, 9, .3)
	got, err := table.CostPerCompletion(0, 1)
	if err != nil {
		t.Fatal(err)
	}
	var cost, met [2]float64
	for a := range 2 {
		for c := range table.Cases {
			for i := range 4 {
				cost[a] += table.Row(a, c, i).Values[MetricCost]
				met[a] += table.Row(a, c, i).Values[MetricCompletion]
			}
		}
	}
	want := [3]string{Num(cost[0] / met[0]).String(), Num(cost[1] / met[1]).String(), Num(cost[1] / met[1] / (cost[0] / met[0])).String()}
	if have := [3]string{got.A.String(), got.B.String(), got.Ratio.String()}; have != want || got.Pairs != 96 || got.Ratio95 == nil ||
		got.Ratio95.Lo > *got.Ratio || got.Ratio95.Hi < *got.Ratio {
		t.Errorf("%v, want %v: %+v", have, want, got)
	}
	none := smallTable(t, 1)
	for _, s := range []TrialScore{duel("x", "a1", "f", 0, UnclaimedUnmet, 5), duel("y", "a1", "f", 0, ClaimedMet, 5)} {
		if err := none.Add(&s); err != nil {
			t.Fatal(err)
		}
	}
	if got, err = none.CostPerCompletion(0, 1); err != nil || got.A != nil || got.B.String() != "5" || got.Reason == "" || got.Pairs != 1 {
		t.Errorf("%+v %v", got, err)
	}
}
