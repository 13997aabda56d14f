package stats

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestF18_BothConventionsOfUnevaluableTrials: tasks of 4, 4 and 3 evaluable
// trials of 4. Every k stands under both conventions by name, and k = 4 is
// refused where a task has but 3.
func TestF18_BothConventionsOfUnevaluableTrials(t *testing.T) {
	t.Parallel()
	cases := []CaseTrials{{"a", "one", 4, 0, 0}, {"b", "two", 2, 2, 0}, {"c", "three", 3, 0, 1}}
	rows := value[[]PassRow](t)(PassTable(cases, .95))
	if len(rows) != 8 {
		t.Fatalf("%d rows", len(rows))
	}
	want := map[string]float64{
		"1 " + string(ExcludeUnevaluable): (1 + .5 + 1) / 3,
		"2 " + string(ExcludeUnevaluable): (1 + 1./6 + 1) / 3,
		"3 " + string(ExcludeUnevaluable): (1 + 0. + 1) / 3,
		"1 " + string(FailUnevaluable):    (1 + .5 + .75) / 3,
		"2 " + string(FailUnevaluable):    (1 + 1./6 + .5) / 3,
		"3 " + string(FailUnevaluable):    (1 + 0. + .25) / 3,
		"4 " + string(FailUnevaluable):    (1 + 0. + 0) / 3,
	}
	for _, r := range rows {
		name := fmt.Sprint(r.K, " ", r.Convention)
		if r.K == 4 && r.Convention == ExcludeUnevaluable {
			if !errors.Is(r.Refused, ErrKBeyondN) || r.Hat != (PassFigure{}) {
				t.Errorf("k = 4 of 3 trials: %+v", r)
			}
			for _, part := range []string{"k = 4", string(ExcludeUnevaluable), `case "three"`, "has 3 (1 unevaluable)"} {
				if !strings.Contains(r.Refused.Error(), part) {
					t.Errorf("%q is not in %q", part, r.Refused)
				}
			}
			continue
		}
		if r.Refused != nil {
			t.Errorf("%s: %v", name, r.Refused)
		}
		near(t, "pass^"+name, r.Hat.Mean, want[name], 1e-12)
		if r.Convention == ExcludeUnevaluable && (r.Least != 3 || r.Most != 4) || r.Convention == FailUnevaluable && (r.Least != 4 || r.Most != 4) {
			t.Errorf("%s: trials %d to %d", name, r.Least, r.Most)
		}
		if r.Hat.Interval != nil || !errors.Is(r.Hat.NoInterval, ErrTooFewFamilies) || r.Hat.N != 3 {
			t.Errorf("%s: an interval of three families: %+v", name, r.Hat)
		}
	}
}

// TestF18_ACaseWithoutEvaluableTrialsDoesNotVanish: it would raise the mean.
func TestF18_ACaseWithoutEvaluableTrialsDoesNotVanish(t *testing.T) {
	t.Parallel()
	cases := []CaseTrials{{"a", "one", 4, 0, 0}, {"b", "two", 0, 0, 4}}
	if _, err := PassK(cases, 1, ExcludeUnevaluable, .95); !errors.Is(err, ErrKBeyondN) {
		t.Errorf("%v", err)
	}
	e := value[PassEstimate](t)(PassK(cases, 1, FailUnevaluable, .95))
	near(t, "pass^1", e.Hat.Mean, .5, 0)
}

// TestS2_PassIntervalsAreClusteredByFamily: the suite of the specification in
// families of different sizes has the interval of its case estimates.
func TestS2_PassIntervalsAreClusteredByFamily(t *testing.T) {
	t.Parallel()
	var cases []CaseTrials
	var hats []float64
	var families []string
	for i := range 24 {
		met := []int{8, 6, 4, 0}[i%4]
		family := fmt.Sprint(min(i/3, 6))
		cases = append(cases, CaseTrials{family, fmt.Sprint(i), met, 8 - met, 0})
		h := value[float64](t)(PassHat(8, met, 4))
		hats, families = append(hats, h), append(families, family)
	}
	e := value[PassEstimate](t)(PassK(cases, 4, FailUnevaluable, .95))
	near(t, "pass^4", e.Hat.Mean, .3071429, 5e-8)
	near(t, "pass@4", e.At.Mean, .7464286, 5e-8)
	c := value[Clustered](t)(ClusteredMean(hats, families))
	tt := value[TTest](t)(c.TTest(.95))
	near(t, "lo", e.Hat.Interval.Lo, max(0, tt.Lo), 1e-12)
	near(t, "hi", e.Hat.Interval.Hi, tt.Hi, 1e-12)
	if e.Hat.CR1 != c.CR1 || e.Hat.Clusters != 7 || e.Hat.N != 24 {
		t.Errorf("%+v", e.Hat)
	}
	for i := range cases {
		cases[i].Met, cases[i].Unmet = 8, 0
	}
	e = value[PassEstimate](t)(PassK(cases, 4, FailUnevaluable, .95))
	if e.Hat.Mean != 1 || e.Hat.Interval != nil || !errors.Is(e.Hat.NoInterval, ErrNoVariation) {
		t.Errorf("all met: %+v", e.Hat)
	}
}

func TestS2_PassRefusals(t *testing.T) {
	t.Parallel()
	one := []CaseTrials{{"a", "x", 1, 1, 0}}
	bad := []CaseTrials{{"a", "x", 1, -1, 0}}
	_, eNone := PassK(nil, 1, FailUnevaluable, .95)
	_, eLevel := PassK(one, 1, FailUnevaluable, 1)
	_, eConv := PassK(one, 1, "both", .95)
	_, eK := PassK(one, 3, FailUnevaluable, .95)
	_, eK0 := PassK(one, 0, FailUnevaluable, .95)
	_, eBad := PassK(bad, 1, FailUnevaluable, .95)
	_, tNone := PassTable(nil, .95)
	_, tLevel := PassTable(one, 0)
	_, tBad := PassTable(bad, .95)
	for i, c := range []struct{ got, want error }{
		{eNone, ErrNoData},
		{eLevel, ErrRange},
		{eConv, ErrRange},
		{eK, ErrKBeyondN},
		{eK0, ErrRange},
		{eBad, ErrRange},
		{tNone, ErrNoData},
		{tLevel, ErrRange},
		{tBad, ErrRange},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("refusal %d: got %v, want %v", i, c.got, c.want)
		}
	}
}

// TestS2_PassProperties: pass^k falls and pass@k rises with k, both are the
// rate at k = 1, failing the unevaluable never raises a figure, and the
// plug-in (c/n)^k is never below pass^k.
func TestS2_PassProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var cases []CaseTrials
		var plugIn [9]float64
		n := rapid.IntRange(1, 5).Draw(t, "least")
		for i := range rapid.IntRange(1, 12).Draw(t, "cases") {
			met, unmet := rapid.IntRange(0, 3).Draw(t, "met"), rapid.IntRange(n, n+2).Draw(t, "unmet")
			cases = append(cases, CaseTrials{fmt.Sprint(i % 7), fmt.Sprint(i), met, unmet, rapid.IntRange(0, 2).Draw(t, "unevaluable")})
			for k := range plugIn {
				plugIn[k] += math.Pow(float64(met)/float64(met+unmet), float64(k))
			}
		}
		before := map[Convention]PassEstimate{}
		for k := 1; k <= n; k++ {
			for _, c := range []Convention{ExcludeUnevaluable, FailUnevaluable} {
				e, err := PassK(cases, k, c, .95)
				if err != nil {
					t.Fatal(err)
				}
				if b, ok := before[c]; ok && (e.Hat.Mean > b.Hat.Mean+1e-12 || e.At.Mean < b.At.Mean-1e-12) {
					t.Fatalf("k %d: %+v after %+v", k, e, b)
				}
				if k == 1 && math.Abs(e.Hat.Mean-e.At.Mean) > 1e-12 {
					t.Fatalf("k 1: %+v", e)
				}
				if i := e.Hat.Interval; i != nil && !(0 <= i.Lo && i.Lo <= i.Hi && i.Hi <= 1) {
					t.Fatalf("%+v", i)
				}
				before[c] = e
			}
			ex, fail := before[ExcludeUnevaluable], before[FailUnevaluable]
			if fail.Hat.Mean > ex.Hat.Mean+1e-12 || fail.At.Mean > ex.At.Mean+1e-12 || ex.Hat.Mean > plugIn[k]/float64(len(cases))+1e-12 {
				t.Fatalf("k %d: %+v and %+v", k, ex, fail)
			}
		}
	})
}
