package stats

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestS11_OrderStatisticRanks(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		n        int
		q        float64
		lo, hi   int
		coverage float64 // 0: none given
		tol      float64
	}{
		{9, .5, 2, 8, .9609375, 1e-12},
		{10, .5, 2, 9, .9785156, 5e-8},
		{50, .95, 44, 51, 0, 0},
		{93, .95, 84, 93, .97358, 5e-6},
		{100, .95, 90, 100, .98261, 5e-6},
		{200, .95, 184, 197, .96715, 5e-6},
		{200, .99, 195, 201, 0, 0},
	} {
		r := value[Ranks](t)(QuantileRanks(v.n, v.q, .95))
		if r.Lo != v.lo || r.Hi != v.hi {
			t.Errorf("n %d, q %v: ranks %d and %d, want %d and %d", v.n, v.q, r.Lo, r.Hi, v.lo, v.hi)
		}
		if v.coverage > 0 {
			near(t, fmt.Sprintf("coverage at n %d", v.n), r.Coverage, v.coverage, v.tol)
		}
	}
	near(t, "n 9 as published", value[Ranks](t)(QuantileRanks(9, .5, .95)).Coverage, .961, 5e-4)
	near(t, "n 10 as published", value[Ranks](t)(QuantileRanks(10, .5, .95)).Coverage, .979, 5e-4)
}

func TestS11_LeastNumberWithAnUpperBound(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		q     float64
		sides Sides
		want  int
	}{{.95, UpperSide, 59}, {.99, UpperSide, 299}, {.95, BothSides, 72}, {.99, BothSides, 368}} {
		if got := value[int](t)(QuantileMinN(v.q, .95, v.sides)); got != v.want {
			t.Errorf("q %v, %d sides: %d, want %d", v.q, v.sides, got, v.want)
		}
		if v.sides == BothSides { // it is where QuantileRanks begins to have one
			before, at := value[Ranks](t)(QuantileRanks(v.want-1, v.q, .95)), value[Ranks](t)(QuantileRanks(v.want, v.q, .95))
			if before.Hi != v.want || at.Hi != v.want {
				t.Errorf("q %v: upper rank %d of %d, %d of %d", v.q, before.Hi, v.want-1, at.Hi, v.want)
			}
		}
	}
}

// TestS17_AQuantileWithTooFewRunsIsUnbounded: never the maximum (§17.7).
func TestS17_AQuantileWithTooFewRunsIsUnbounded(t *testing.T) {
	t.Parallel()
	xs := make([]float64, 50)
	var times []Duration
	for i := range xs {
		xs[i] = float64(i + 1)
		times = append(times, Duration{US: int64(i + 1)})
	}
	o := value[QuantileInterval](t)(OrderInterval(xs, .95, .95))
	if o.Hi != nil || o.Lo == nil || *o.Lo != 44 {
		t.Errorf("%+v", o)
	}
	d := value[DurationInterval](t)(OrderDurations(times, .95, .95))
	if d.Hi != nil || d.Lo == nil || *d.Lo != 44 {
		t.Errorf("%+v", d)
	}
	var families []FamilyDurations
	for f := range 7 {
		families = append(families, FamilyDurations{Family: fmt.Sprint("f", f), Times: times[7*f : 7*f+7]})
	}
	c := value[DurationInterval](t)(ClusterQuantile(families, .95, .95, Resampling{Seed: 1}))
	if c.Hi != nil || c.Lo == nil || *c.Lo < 20 {
		t.Errorf("%+v", c)
	}
	if c = value[DurationInterval](t)(ClusterQuantile(families, .5, .95, Resampling{Seed: 1})); c.Hi == nil || *c.Hi >= 49 {
		t.Errorf("the median has an upper bound: %+v", c)
	}
	if o = value[QuantileInterval](t)(OrderInterval(xs[:3], .05, .95)); o.Lo != nil {
		t.Errorf("a lower bound of p05 from three values: %+v", o)
	}
}

// TestS11_RanksAgainstExactSums compares with exact rational arithmetic.
func TestS11_RanksAgainstExactSums(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 80).Draw(t, "n")
		q := rapid.SampledFrom([]float64{.05, .25, .5, .75, .9, .95, .99}).Draw(t, "q")
		level := rapid.SampledFrom([]float64{.9, .95, .99}).Draw(t, "level")
		r, err := QuantileRanks(n, q, level)
		if err != nil {
			t.Fatal(err)
		}
		below := make([]float64, n+2) // P(B < r)
		for k := range n + 1 {
			choose, _ := new(big.Float).SetInt(new(big.Int).Binomial(int64(n), int64(k))).Float64()
			below[k+1] = below[k] + choose*math.Pow(q, float64(k))*math.Pow(1-q, float64(n-k))
		}
		tail := (1 - level) / 2
		lo, hi := 0, n+1
		for k := 1; k <= n && below[k] <= tail+1e-12; k++ {
			lo = k
		}
		for k := n; k >= 1 && 1-below[k] <= tail+1e-12; k-- {
			hi = k
		}
		if r.Lo != lo || r.Hi != hi || math.Abs(r.Coverage-(below[hi]-below[lo])) > 1e-9 || r.Coverage < level-1e-9 {
			t.Fatalf("%+v, want %d and %d", r, lo, hi)
		}
	})
}

// uniforms are the 100 uniforms of scipy's test_mstats_extras.
var uniforms = []float64{
	.706560797, .727229578, .990399276, .927065621, .158953014, .887764025, .239407086, .349638551, .972791145, .149789972,
	.936947700, .132359948, .046041972, .641675031, .945530547, .224218684, .771450991, .820257774, .336458052, .589113496,
	.509736129, .696838829, .491323573, .622767425, .775189248, .641461450, .118455200, .773029450, .319280007, .752229111,
	.047841438, .466295911, .583850781, .840581845, .550086491, .466470062, .504765074, .226855960, .362641207, .891620942,
	.127898691, .490094097, .044882048, .041441695, .317976349, .504135618, .567353033, .434617473, .636243375, .231803616,
	.230154113, .160011327, .819464108, .854706985, .438809221, .487427267, .786907310, .408367937, .405534192, .250444460,
	.995309248, .144389588, .739947527, .953543606, .680051621, .388382017, .863530727, .006514031, .118007779, .924024803,
	.384236354, .893687694, .626534881, .473051932, .750134705, .241843555, .432947602, .689538104, .136934797, .150206859,
	.474335206, .907775349, .525869295, .189184225, .854284286, .831089744, .251637345, .587038213, .254475554, .237781276,
	.827928620, .480283781, .594514455, .213641488, .024194386, .536668589, .699497811, .892804071, .093835427, .731107772,
}

func TestS11_HarrellDavis(t *testing.T) {
	t.Parallel()
	ten := []float64{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}
	for _, v := range []struct {
		what    string
		xs      []float64
		q, want float64
		tol     float64
	}{
		{"scipy", uniforms, .25, .253210762, 5e-10},
		{"scipy", uniforms, .5, .512847491, 5e-10},
		{"scipy", uniforms, .75, .762232442, 5e-10},
		// The specification has 28.9250250; integrating the weights numerically
		// gives 28.92502522.
		{"x16", x16, .5, 28.92502522399589, 1e-8},
		{"x16 of the specification", x16, .5, 28.9250250, 3e-7},
		{"x16", x16, .9, 154.0855550, 5e-8},
		{"x16", x16, .95, 187.9329704, 5e-8},
		{"1..10", ten, .5, 5.5, 1e-12},
		{"1..10", ten, .25, 2.9986869, 5e-8},
		{"1..10", ten, .95, 9.7920572, 5e-8},
	} {
		near(t, fmt.Sprintf("%s at %v", v.what, v.q), value[float64](t)(HarrellDavis(v.xs, v.q)), v.want, v.tol)
	}
}

func TestS11_QuantileRefusals(t *testing.T) {
	t.Parallel()
	_, eN := QuantileRanks(0, .5, .95)
	_, eQ := QuantileRanks(9, 1, .95)
	_, eLevel := QuantileRanks(9, .5, 1)
	_, oNone := OrderInterval(nil, .5, .95)
	_, oNaN := OrderInterval([]float64{math.NaN()}, .5, .95)
	_, oQ := OrderInterval([]float64{1}, 0, .95)
	_, mQ := QuantileMinN(1, .95, UpperSide)
	_, mLevel := QuantileMinN(.5, 1, UpperSide)
	_, mSides := QuantileMinN(.5, .95, 0)
	_, mMany := QuantileMinN(1-1e-12, .95, UpperSide)
	_, hNone := HarrellDavis(nil, .5)
	_, hQ := HarrellDavis([]float64{1}, math.NaN())
	_, bNone := QuantileBounds(nil, .5)
	_, bQ := QuantileBounds([]Duration{{1, false}}, 0)
	_, kNone := KaplanMeier(nil, .5)
	_, kQ := KaplanMeier([]Duration{{1, false}}, 2)
	_, dNone := OrderDurations(nil, .5, .95)
	_, cNone := ClusterQuantile(nil, .5, .95, Resampling{})
	_, cFew := ClusterQuantile([]FamilyDurations{{"a", []Duration{{1, false}}}}, .5, .95, Resampling{})
	_, cQ := ClusterQuantile(nil, 1, .95, Resampling{})
	_, cLevel := ClusterQuantile(nil, .5, 0, Resampling{})
	_, cDraws := ClusterQuantile(nil, .5, .95, Resampling{Draws: -1})
	for i, c := range []struct{ got, want error }{
		{eN, ErrNoData},
		{eQ, ErrRange},
		{eLevel, ErrRange},
		{oNone, ErrNoData},
		{oNaN, ErrNotFinite},
		{oQ, ErrRange},
		{mQ, ErrRange},
		{mLevel, ErrRange},
		{mSides, ErrRange},
		{mMany, ErrRange},
		{hNone, ErrNoData},
		{hQ, ErrRange},
		{bNone, ErrNoData},
		{bQ, ErrRange},
		{kNone, ErrNoData},
		{kQ, ErrRange},
		{dNone, ErrNoData},
		{cNone, ErrNoData},
		{cFew, ErrTooFewFamilies},
		{cQ, ErrRange},
		{cLevel, ErrRange},
		{cDraws, ErrRange},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("refusal %d: got %v, want %v", i, c.got, c.want)
		}
	}
}

// times makes durations; a negative number is censored at its magnitude.
func times(vs ...int64) []Duration {
	var out []Duration
	for _, v := range vs {
		out = append(out, Duration{max(v, -v), v < 0})
	}
	return out
}

// TestS11_KaplanMeierMedians are those of the two groups of the acute
// myelogenous leukaemia trial (Miller 1981).
func TestS11_KaplanMeierMedians(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what string
		in   []Duration
		q    float64
		want Quantile
	}{
		{"maintained", times(9, 13, -13, 18, 23, -28, 31, 34, -45, 48, -161), .5, Quantile{31, false}},
		{"not maintained", times(5, 5, 8, 8, 12, -16, 23, 27, 30, 33, 43, 45), .5, Quantile{23, false}},
		{"above the completion rate", times(9, 13, -13, 18, 23, -28, 31, 34, -45, 48, -161), .95, Quantile{161, true}},
		{"finish before cut at one time", times(-2, 2), .5, Quantile{2, false}},
		{"all cut", times(-2, -7), .5, Quantile{7, true}},
		{"nothing finishes at a cut", times(-1, 2), 1e-13, Quantile{2, false}},
		{"the last", times(1, 2, 3), 1, Quantile{3, false}},
	} {
		got := value[Quantile](t)(KaplanMeier(c.in, c.q))
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.what, got, c.want)
		}
	}
}

func TestS11_QuantileBoundsTakeCensoringBothWays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   []Duration
		q    float64
		want DurationBounds
	}{
		{times(1, 2, 3), .5, DurationBounds{2, new(int64(2))}},
		{times(-1, 2, 9), .5, DurationBounds{2, new(int64(9))}},
		{times(1, 2, -9), .95, DurationBounds{9, nil}},
		{times(-5), .5, DurationBounds{5, nil}},
	} {
		got := value[DurationBounds](t)(QuantileBounds(c.in, c.q))
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%v at %v: %s", c.in, c.q, diff)
		}
	}
}

// TestS11_OrderDurationsWithCuts: ranks 2 and 9 of ten.
func TestS11_OrderDurationsWithCuts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in     []Duration
		lo, hi *int64
	}{
		{times(1, 2, 3, 4, 5, 6, 7, 8, 9, 10), new(int64(2)), new(int64(9))},
		{times(-1, -2, 3, 4, 5, 6, 7, 8, 9, 10), new(int64(2)), nil},
		{times(-1, 2, 3, 4, 5, 6, 7, 8, 9, 10), new(int64(2)), new(int64(10))},
		{times(1, 2, 3, 4, 5, 6, 7, 8, -9, -9), new(int64(2)), nil},
	} {
		got := value[DurationInterval](t)(OrderDurations(c.in, .5, .95))
		if diff := cmp.Diff([]*int64{c.lo, c.hi}, []*int64{got.Lo, got.Hi}); diff != "" {
			t.Errorf("%v: %s", c.in, diff)
		}
	}
}

// TestS11_CensoringProperties: the bounds hold whatever the cut trials would
// have taken, and with one limit for all the product limit is the nearest rank.
func TestS11_CensoringProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var xs, truth []Duration
		for range rapid.IntRange(1, 30).Draw(t, "n") {
			us := rapid.Int64Range(1, 20).Draw(t, "us")
			cut := rapid.Int64Range(1, 20).Draw(t, "cut")
			truth = append(truth, Duration{US: us})
			xs = append(xs, Duration{min(us, cut), cut < us})
		}
		q := rapid.SampledFrom([]float64{.1, .5, .9, .95, 1}).Draw(t, "q")
		b, err := QuantileBounds(xs, q)
		true1, err2 := NearestRank(truth, q)
		if err != nil || err2 != nil || b.Lo > true1.US || b.Hi != nil && *b.Hi < true1.US {
			t.Fatalf("%+v does not hold %+v (%v %v)", b, true1, err, err2)
		}
		limit := rapid.Int64Range(1, 20).Draw(t, "limit")
		for i, d := range truth {
			xs[i] = Duration{min(d.US, limit), d.US > limit}
		}
		km, err := KaplanMeier(xs, q)
		rank, err2 := NearestRank(xs, q)
		if err != nil || err2 != nil || km != rank {
			t.Fatalf("product limit %+v, nearest rank %+v (%v %v)", km, rank, err, err2)
		}
	})
}

// TestS11_ClusterQuantileIsTheBootstrapOfSortedTrials compares with a
// bootstrap that pools and sorts the trials of every draw.
func TestS11_ClusterQuantileIsTheBootstrapOfSortedTrials(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var fams []FamilyDurations
		for f := range rapid.IntRange(MinFamilies, 9).Draw(t, "families") {
			fd := FamilyDurations{Family: fmt.Sprint("f", f)}
			for range rapid.IntRange(1, 6).Draw(t, "trials") {
				fd.Times = append(fd.Times, Duration{rapid.Int64Range(1, 40).Draw(t, "us"), rapid.IntRange(0, 9).Draw(t, "cut") == 0})
			}
			fams = append(fams, fd)
		}
		q := rapid.SampledFrom([]float64{.5, .9, .95}).Draw(t, "q")
		r := Resampling{Draws: 60, Seed: rapid.Uint64().Draw(t, "seed")}
		got, err := ClusterQuantile(fams, q, .9, r)
		if err != nil {
			t.Fatal(err)
		}
		lo, hi := naiveClusterQuantile(fams, q, .9, r)
		if diff := cmp.Diff([]*int64{lo, hi}, []*int64{got.Lo, got.Hi}); diff != "" {
			t.Fatal(diff)
		}
		split := slices.Clone(fams) // the same family in two parts, in another order
		split[0].Times = fams[0].Times[1:]
		split = append([]FamilyDurations{{"f0", fams[0].Times[:1]}}, rapid.Permutation(split).Draw(t, "order")...)
		again, err := ClusterQuantile(split, q, .9, r)
		if diff := cmp.Diff(got, again); diff != "" || err != nil {
			t.Fatalf("grouping matters: %s%v", diff, err)
		}
	})
}
