package stats

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func near(t *testing.T, what string, got, want, tol float64) {
	t.Helper()
	if math.IsNaN(got) || math.Abs(got-want) > tol {
		t.Errorf("%s = %.10g, want %.10g ± %g", what, got, want, tol)
	}
}

func TestS1_ClusteredErrorsOfInspectAIAndStatsmodels(t *testing.T) {
	t.Parallel()
	var ten, twenty []float64
	var mod4 []string
	for i := range 20 {
		if i < 10 {
			ten = append(ten, float64(i))
		}
		twenty = append(twenty, float64(i))
		mod4 = append(mod4, fmt.Sprint(i%4))
	}
	se, err := SEIID(ten)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "SE of 0..9", se, .957, 5e-4)
	near(t, "variance of 0..9", se*se*10, 9.167, 5e-4)
	c, err := ClusteredMean(twenty, mod4)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "CR1", c.CR1, .6454972, 5e-8)
	near(t, "CR0", c.CR0, .5590170, 5e-8)
	near(t, "naive", c.IID, 1.3228757, 5e-8)
}

func TestS1_FAM6(t *testing.T) {
	t.Parallel()
	fams := [][]float64{{.4, .2, 0}, {.1, .1}, {-.2, 0, .1, .1}, {.3, .5}, {0, .2, .2}, {.1, -.1}}
	var v []float64
	var cl []string
	for i, f := range fams {
		for _, x := range f {
			v, cl = append(v, x), append(cl, fmt.Sprint(i))
		}
	}
	c, err := ClusteredMean(v, cl)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "mean", c.Mean, .125, 1e-12)
	near(t, "iid", c.IID, .0442531, 5e-8)
	near(t, "CR0", c.CR0, .0511107, 5e-8)
	near(t, "CR1", c.CR1, .0559890, 5e-8)
	tt, err := c.TTest(.95)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "t", tt.T, 2.232582, 5e-7)
	near(t, "p", tt.P, .0759184, 5e-8)
	near(t, "lo", tt.Lo, -.0189242, 5e-8)
	near(t, "hi", tt.Hi, .2689242, 5e-8)
	deff, err := c.Deff()
	if err != nil || tt.DF != 5 || c.N != 16 || c.Clusters != 6 {
		t.Fatalf("%+v %+v %v", c, tt, err)
	}
	near(t, "deff", deff, 1.600731, 5e-7)
}

func TestS1_MillerPower(t *testing.T) {
	t.Parallel()
	d := Design{W2: 1. / 9, KA: 1, KB: 1, Alpha: .05, Power: .8}
	n, err := d.Cases(.03)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "n", n, 968.9975, 5e-4)
	d.SA2, d.SB2 = 1./6, 1./6
	one, err := d.MDE(198)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "MDE K=1", one, .132733, 5e-7)
	d.KA, d.KB = 10, 10
	many, err := d.MDE(198)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "MDE K=10", many, .075670, 5e-7)
	back, err := d.Cases(many)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "cases of the MDE", back, 198, 1e-9)
	for _, v := range []struct{ pd, delta, want float64 }{{.2, .1, 154.599}, {.2, .05, 625.547}} {
		got, err := DiscordantPairs(v.pd, v.delta, .05, .8)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "McNemar pairs", got, v.want, 5e-4)
	}
}

func TestS1_VarianceSplit(t *testing.T) {
	t.Parallel()
	s, err := VarianceSplit([]int{8, 6, 4, 0}, 8)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "within", s.Within, .125, 1e-12)
	near(t, "means", s.Means, .1822917, 5e-8)
	near(t, "between", s.Between, .1666667, 5e-8)
	if s, err = VarianceSplit([]int{1, 1, 1}, 2); err != nil || !s.Clamped || s.Between != 0 {
		t.Errorf("negative estimate not clamped and said: %+v %v", s, err)
	}
}

func TestS1_Refusals(t *testing.T) {
	t.Parallel()
	one, err := ClusteredMean([]float64{0, 1}, []string{"a", "a"})
	if !errors.Is(err, ErrOneCluster) || one.Mean != .5 || one.CR1 != 0 || one.Clusters != 1 {
		t.Errorf("one cluster: %+v %v", one, err)
	}
	_, eTT := one.TTest(.95)
	_, eNo := ClusteredMean(nil, nil)
	_, eLen := ClusteredMean([]float64{1}, nil)
	_, eNaN := ClusteredMean([]float64{1, math.NaN()}, []string{"a", "b"})
	_, eInf := SEIID([]float64{math.Inf(1), 1})
	_, eOne := SEIID([]float64{1})
	flat, err := ClusteredMean([]float64{1, 1}, []string{"a", "b"})
	if err != nil || flat.CR1 != 0 {
		t.Errorf("flat: %+v %v", flat, err)
	}
	_, eFlat := flat.TTest(.95)
	_, eDeff := flat.Deff()
	_, eLevel := Clustered{Clusters: 2, CR1: 1}.TTest(1)
	_, eDesign := Design{}.Cases(.1)
	_, eDelta := Design{KA: 1, KB: 1, Alpha: .05, Power: .8}.Cases(0)
	_, eMDE := Design{KA: 1, KB: 1, Alpha: .05, Power: .8}.MDE(0)
	_, ePairs := DiscordantPairs(.1, .2, .05, .8)
	_, eSplit := VarianceSplit([]int{1, 9}, 8)
	_, eSplit1 := VarianceSplit([]int{1}, 8)
	_, eSplit0 := VarianceSplit(nil, 8)
	for i, c := range []struct{ got, want error }{
		{eTT, ErrOneCluster},
		{eNo, ErrNoData},
		{eLen, ErrLength},
		{eNaN, ErrNotFinite},
		{eInf, ErrNotFinite},
		{eOne, ErrOneValue},
		{eFlat, ErrNoVariation},
		{eDeff, ErrNoVariation},
		{eLevel, ErrRange},
		{eDesign, ErrRange},
		{eDelta, ErrRange},
		{eMDE, ErrRange},
		{ePairs, ErrRange},
		{eSplit, ErrRange},
		{eSplit1, ErrOneValue},
		{eSplit0, ErrNoData},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("refusal %d: got %v, want %v", i, c.got, c.want)
		}
	}
}

func TestS2_PassVectors(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		n, c, k  int
		at, pass float64
	}{{5, 2, 3, .9, 0}, {8, 6, 2, .9642857, .5357143}, {200, 50, 10, .9479064, 4.57542e-7}} {
		at, err := PassAt(v.n, v.c, v.k)
		if err != nil {
			t.Fatal(err)
		}
		hat, err := PassHat(v.n, v.c, v.k)
		if err != nil {
			t.Fatal(err)
		}
		near(t, "pass@", at, v.at, 5e-8)
		near(t, "pass^", hat, v.pass, 5e-8*math.Max(v.pass, 1e-5))
	}
	for k, want := range map[int][2]float64{1: {.5625, .5625}, 2: {.4375, .6875}, 4: {.3071429, .7464286}, 8: {.25, .75}} {
		var at, hat float64
		for _, c := range []int{8, 6, 4, 0} {
			a, errA := PassAt(8, c, k)
			h, errH := PassHat(8, c, k)
			if errA != nil || errH != nil {
				t.Fatal(errA, errH)
			}
			at, hat = at+a/4, hat+h/4
		}
		near(t, fmt.Sprintf("suite pass^%d", k), hat, want[0], 5e-8)
		near(t, fmt.Sprintf("suite pass@%d", k), at, want[1], 5e-8)
	}
	if _, err := PassAt(2, 1, 3); !errors.Is(err, ErrKBeyondN) {
		t.Errorf("k beyond n: %v", err)
	}
	for _, bad := range [][3]int{{0, 0, 1}, {2, 3, 1}, {2, -1, 1}, {2, 1, 0}} {
		if _, err := PassHat(bad[0], bad[1], bad[2]); !errors.Is(err, ErrRange) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// TestS2_PassEqualsExactBinomials compares the product forms with exact
// rational arithmetic.
func TestS2_PassEqualsExactBinomials(t *testing.T) {
	t.Parallel()
	choose := func(n, k int) *big.Rat {
		return new(big.Rat).SetInt(new(big.Int).Binomial(int64(n), int64(k)))
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "n")
		c := rapid.IntRange(0, n).Draw(t, "c")
		k := rapid.IntRange(1, n).Draw(t, "k")
		all := choose(n, k)
		hat, _ := new(big.Rat).Quo(choose(c, k), all).Float64()
		none, _ := new(big.Rat).Quo(choose(n-c, k), all).Float64()
		at, errA := PassAt(n, c, k)
		got, errH := PassHat(n, c, k)
		if errA != nil || errH != nil || math.Abs(at-(1-none)) > 1e-10 || math.Abs(got-hat) > 1e-10 {
			t.Fatalf("pass@ %v want %v, pass^ %v want %v (%v %v)", at, 1-none, got, hat, errA, errH)
		}
	})
}

func TestQ1_NearestRankCensoringIsALowerBound(t *testing.T) {
	t.Parallel()
	xs := func(vs ...int64) []Duration {
		var out []Duration
		for _, v := range vs {
			if v < 0 {
				out = append(out, Duration{-v, true})
			} else {
				out = append(out, Duration{v, false})
			}
		}
		return out
	}
	for _, c := range []struct {
		in   []Duration
		q    float64
		want Quantile
	}{
		{xs(3, 1, 2), .5, Quantile{2, false}},
		{xs(4, 3, 1, 2), .5, Quantile{2, false}},
		{xs(7), .95, Quantile{7, false}},
		{xs(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20), .95, Quantile{19, false}},
		{xs(1, 2, -9), .5, Quantile{2, false}},
		{xs(1, 2, -9), .95, Quantile{9, true}},
		{xs(-1, 2, 9), .5, Quantile{2, true}},
		{xs(-2, 2, 2), .5, Quantile{2, false}},
	} {
		got, err := NearestRank(c.in, c.q)
		if err != nil || got != c.want {
			t.Errorf("%v q %v: %+v %v, want %+v", c.in, c.q, got, err, c.want)
		}
	}
	if _, err := NearestRank(nil, .5); !errors.Is(err, ErrNoData) {
		t.Errorf("no data: %v", err)
	}
	for _, q := range []float64{0, 1.1, math.NaN()} {
		if _, err := NearestRank(xs(1), q); !errors.Is(err, ErrRange) {
			t.Errorf("q %v: %v", q, err)
		}
	}
}
