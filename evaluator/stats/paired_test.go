package stats

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/mat"
	"pgregory.net/rapid"
)

// fam6 is FAM6 of the specification as pairs of which B is 0.
func fam6() []Pair {
	var out []Pair
	for i, f := range [][]float64{{.4, .2, 0}, {.1, .1}, {-.2, 0, .1, .1}, {.3, .5}, {0, .2, .2}, {.1, -.1}} {
		for _, d := range f {
			out = append(out, Pair{Family: fmt.Sprint(i), A: d})
		}
	}
	return out
}

// drawPairs draws pairs of 6 to 12 families of 1 to 5 cases on a coarse grid,
// so that ties and constant arms occur.
func drawPairs(t *rapid.T) []Pair {
	var out []Pair
	for f := range rapid.IntRange(MinFamilies, 12).Draw(t, "families") {
		for range rapid.IntRange(1, 5).Draw(t, "cases") {
			a, b := rapid.IntRange(0, 4).Draw(t, "a"), rapid.IntRange(0, 4).Draw(t, "b")
			out = append(out, Pair{fmt.Sprint("f", f), float64(a) / 4, float64(b) / 4})
		}
	}
	return out
}

func TestS1_PairedDifferenceOfFAM6(t *testing.T) {
	t.Parallel()
	pairs := fam6()
	for i := range pairs { // the same differences between two arms that vary
		pairs[i].B = float64(i%3) / 10
		pairs[i].A += pairs[i].B
	}
	d := value[Difference](t)(PairedDifference(pairs, .95))
	near(t, "mean", d.Mean, .125, 1e-12)
	near(t, "iid", d.IID, .0442531, 5e-8)
	near(t, "CR0", d.CR0, .0511107, 5e-8)
	near(t, "CR1", d.CR1, .0559890, 5e-8)
	near(t, "t", d.T1.T, 2.232582, 5e-7)
	near(t, "p", d.T1.P, .0759184, 5e-8)
	near(t, "lo", d.T1.Lo, -.0189242, 5e-8)
	near(t, "hi", d.T1.Hi, .2689242, 5e-8)
	near(t, "deff", *d.DesignEffect, 1.600731, 5e-7)
	near(t, "imbalance", d.Imbalance, 4/(16./6), 1e-12)
	if d.N != 16 || d.Clusters != 6 || d.T1.DF != 5 || d.T1.Method != CR1 || d.T2.Method != CR2 {
		t.Errorf("%+v", d)
	}
	// §17.1: trials or cases taken for the unit are far too sure of themselves.
	if !(d.IID < .8*d.CR1) {
		t.Errorf("naive %v against clustered %v", d.IID, d.CR1)
	}
}

func TestS6_DarwinMaizeT(t *testing.T) {
	t.Parallel()
	var pairs []Pair
	for i, v := range darwin {
		pairs = append(pairs, Pair{fmt.Sprint(i), v, 0})
	}
	d := value[Difference](t)(PairedDifference(pairs, .95))
	near(t, "t", d.T1.T, 2.147987, 5e-7)
	near(t, "p", d.T1.P, .0497029, 5e-8)
}

func TestS5_ClusteredNonInferiority(t *testing.T) {
	t.Parallel()
	d := value[Difference](t)(PairedDifference(fam6(), .9))
	ni := value[OneSided](t)(d.NonInferior(.05, .05, CR1))
	near(t, "t", ni.T, (.125+.05)/.0559890, 5e-6)
	near(t, "lower", ni.Lower, d.T1.Lo, 1e-12) // the 90 % interval's
	if !ni.Reject {
		t.Errorf("%+v", ni)
	}
	sup := value[OneSided](t)(d.NonInferior(0, .05, CR1))
	near(t, "superiority p", sup.P, .0759184/2, 5e-8)
	eq := value[Equivalence](t)(d.Equivalent(.05, .05, CR2))
	near(t, "TOST lo", eq.Lo, d.T2.Lo, 1e-12)
	near(t, "TOST hi", eq.Hi, d.T2.Hi, 1e-12)
	if eq.Reject || eq.P != max(eq.Lower.P, eq.Upper.P) {
		t.Errorf("%+v", eq)
	}
	if eq = value[Equivalence](t)(d.Equivalent(.3, .05, CR1)); !eq.Reject {
		t.Errorf("%+v", eq)
	}
}

// TestS17_NoDifferenceIsNoNonInferiority: a difference that is far from
// significant does not show non-inferiority (§17.3).
func TestS17_NoDifferenceIsNoNonInferiority(t *testing.T) {
	t.Parallel()
	var pairs []Pair
	for i, v := range []float64{.3, -.3, .2, -.2, .1, -.1} {
		pairs = append(pairs, Pair{fmt.Sprint(i), v, 0})
	}
	d := value[Difference](t)(PairedDifference(pairs, .95))
	ni := value[OneSided](t)(d.NonInferior(.05, .025, CR1))
	if d.T1.P < .9 || ni.Reject {
		t.Errorf("p %v, %+v", d.T1.P, ni)
	}
}

// TestS17_RefusesWhatItCannotTest: one family, five, and no variation, with
// the description that still stands (§17.2).
func TestS17_RefusesWhatItCannotTest(t *testing.T) {
	t.Parallel()
	five := []Pair{{"a", 1, 0}, {"b", 0, 0}, {"c", 1, 0}, {"d", 1, 1}, {"e", 1, 0}}
	d, err := PairedDifference(five, .95)
	if !errors.Is(err, ErrTooFewFamilies) || d.Mean != .6 || d.CR1 == 0 || d.T1 != (Inference{}) {
		t.Errorf("five: %+v %v", d, err)
	}
	if _, err := d.NonInferior(.1, .05, CR1); !errors.Is(err, ErrTooFewFamilies) {
		t.Errorf("five: %v", err)
	}
	if d, err = PairedDifference(five[:1], .95); !errors.Is(err, ErrOneCluster) || d.Mean != 1 || d.MeanA != 1 || d.N != 1 {
		t.Errorf("one: %+v %v", d, err)
	}
	// .1 + .2 − .3 and the like: the errors are rounding, not zero.
	var flat []Pair
	for i := range 30 {
		flat = append(flat, Pair{fmt.Sprint(i % 7), float64(i) * .1, float64(i)*.1 - .3})
	}
	d, err = PairedDifference(flat, .95)
	if !errors.Is(err, ErrNoVariation) || d.CR1 != 0 || d.CR2 != 0 || d.IID != 0 || d.DesignEffect != nil || d.ICC != nil {
		t.Errorf("flat: %+v %v", d, err)
	}
	if _, err := d.NonInferior(.1, .05, CR2); !errors.Is(err, ErrNoVariation) {
		t.Errorf("flat: %v", err)
	}
	ok := value[Difference](t)(PairedDifference(fam6(), .95))
	_, eLevel := PairedDifference(fam6(), 0)
	_, eNone := PairedDifference(nil, .95)
	_, eNaN := PairedDifference([]Pair{{"a", math.NaN(), 0}}, .95)
	_, eInf := PairedDifference([]Pair{{"a", math.MaxFloat64, -math.MaxFloat64}}, .95)
	_, eMargin := ok.NonInferior(math.Inf(1), .05, CR1)
	_, eAlpha := ok.NonInferior(.1, 0, CR1)
	_, eMethod := ok.NonInferior(.1, .05, "CR9")
	_, eTOST := ok.Equivalent(0, .05, CR1)
	for i, c := range []struct{ got, want error }{
		{eLevel, ErrRange},
		{eNone, ErrNoData},
		{eNaN, ErrNotFinite},
		{eInf, ErrRange},
		{eMargin, ErrRange},
		{eAlpha, ErrRange},
		{eMethod, ErrRange},
		{eTOST, ErrRange},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("refusal %d: got %v, want %v", i, c.got, c.want)
		}
	}
}

// naiveCR2 is the definition by matrices: A_g = (I − H)_gg^(−1/2), V = Σ X'A e
// e'A X/(X'X)², and the degrees of freedom of Σ (p_g'e)² for independent e.
func naiveCR2(groups [][]float64) (se, df float64) {
	n := 0
	for _, g := range groups {
		n += len(g)
	}
	y := make([]float64, 0, n)
	for _, g := range groups {
		y = append(y, g...)
	}
	residual := mat.NewDense(n, n, nil) // I − X(X'X)⁻¹X'
	for i := range n {
		for j := range n {
			residual.Set(i, j, -1/float64(n))
		}
		residual.Set(i, i, 1-1/float64(n))
	}
	var e mat.VecDense
	e.MulVec(residual, mat.NewVecDense(n, y))
	var v float64
	var ps []*mat.VecDense
	at := 0
	for _, g := range groups {
		m := len(g)
		block := mat.NewSymDense(m, nil)
		for i := range m {
			for j := range m {
				block.SetSym(i, j, residual.At(at+i, at+j))
			}
		}
		var eig mat.EigenSym
		if !eig.Factorize(block, true) {
			panic("no eigenvalues")
		}
		var q mat.Dense
		eig.VectorsTo(&q)
		values := eig.Values(nil)
		root := mat.NewDense(m, m, nil)
		for k, l := range values {
			for i := range m {
				for j := range m {
					root.Set(i, j, root.At(i, j)+q.At(i, k)*q.At(j, k)/math.Sqrt(l))
				}
			}
		}
		ones := mat.NewVecDense(m, nil)
		for i := range m {
			ones.SetVec(i, 1)
		}
		var ax mat.VecDense
		ax.MulVec(root, ones)
		s := mat.Dot(&ax, e.SliceVec(at, at+m))
		v += s * s / float64(n*n)
		p := mat.NewVecDense(n, nil)
		p.MulVec(residual.Slice(0, n, at, at+m), &ax)
		ps = append(ps, p)
		at += m
	}
	var trace, square float64
	for i := range ps {
		trace += mat.Dot(ps[i], ps[i])
		for j := range ps {
			d := mat.Dot(ps[i], ps[j])
			square += d * d
		}
	}
	return math.Sqrt(v), trace * trace / square
}

func TestS1_CR2IsTheMatrixDefinition(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var groups [][]float64
		for range rapid.IntRange(2, 9).Draw(t, "families") {
			groups = append(groups, rapid.SliceOfN(rapid.Float64Range(-1, 1), 1, 8).Draw(t, "values"))
		}
		se, df := cr2(groups)
		wantSE, wantDF := naiveCR2(groups)
		if math.Abs(se-wantSE) > 1e-9 || math.Abs(df-wantDF) > 1e-7*wantDF {
			t.Fatalf("se %v want %v, df %v want %v", se, wantSE, df, wantDF)
		}
	})
}

func TestS1_CR2OfBalancedFamiliesIsCR1(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		size, families := rapid.IntRange(1, 6).Draw(t, "size"), rapid.IntRange(MinFamilies, 20).Draw(t, "families")
		var pairs []Pair
		for i := range size * families {
			pairs = append(pairs, Pair{fmt.Sprint(i % families), rapid.Float64Range(0, 1).Draw(t, "a"), rapid.Float64Range(0, 1).Draw(t, "b")})
		}
		d, err := PairedDifference(pairs, .95)
		if errors.Is(err, ErrNoVariation) {
			return
		}
		if err != nil || math.Abs(d.CR2-d.CR1) > 1e-9 || math.Abs(d.DF2-float64(families-1)) > 1e-6 || math.Abs(d.Imbalance-1) > 1e-12 {
			t.Fatalf("%+v %v", d, err)
		}
	})
}

// TestS1_PairedDifferenceProperties: order and names of families change
// nothing, exchanging the arms mirrors everything, the identity of the
// variances holds, and intervals nest.
func TestS1_PairedDifferenceProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pairs := drawPairs(t)
		d, err := PairedDifference(pairs, .95)
		shuffled := rapid.Permutation(pairs).Draw(t, "order")
		d2, err2 := PairedDifference(shuffled, .95)
		if diff := cmp.Diff(d, d2); diff != "" || (err == nil) != (err2 == nil) {
			t.Fatalf("order matters: %s%v %v", diff, err, err2)
		}
		if errors.Is(err, ErrNoVariation) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		mirror := slices.Clone(pairs)
		for i, p := range mirror {
			mirror[i] = Pair{"g" + p.Family, p.B, p.A}
		}
		m, err := PairedDifference(mirror, .95)
		if err != nil || math.Abs(m.Mean+d.Mean) > 1e-12 || math.Abs(m.T1.P-d.T1.P) > 1e-12 ||
			math.Abs(m.T2.Lo+d.T2.Hi) > 1e-9 || math.Abs(m.CR2-d.CR2) > 1e-12 {
			t.Fatalf("not a mirror: %+v %+v %v", d, m, err)
		}
		rho := 0.0
		if d.Correlation != nil {
			rho = *d.Correlation
		}
		if v := d.SEA*d.SEA + d.SEB*d.SEB - 2*rho*d.SEA*d.SEB; math.Abs(v-d.IID*d.IID) > 1e-12 {
			t.Fatalf("identity of the variances: %v and %v", v, d.IID*d.IID)
		}
		for _, i := range []Inference{d.T1, d.T2} {
			if !(i.P >= 0 && i.P <= 1) || !(i.Lo <= d.Mean && d.Mean <= i.Hi) || !finite(i.T) || !(i.DF > 0 && i.DF <= float64(d.Clusters-1)) {
				t.Fatalf("%+v", i)
			}
		}
		wide, err := PairedDifference(pairs, .99)
		if err != nil || wide.T1.Lo > d.T1.Lo || wide.T2.Hi < d.T2.Hi {
			t.Fatalf("99 %% within 95 %%: %+v %v", wide, err)
		}
		// Reject, p and bound say the same.
		ni, err := d.NonInferior(rapid.Float64Range(-.5, .5).Draw(t, "margin"), .05, CR1)
		if err != nil || math.Abs(ni.P-.05) > 1e-9 && ni.Reject != (ni.Lower > -ni.Margin) {
			t.Fatalf("%+v %v", ni, err)
		}
	})
}

func TestS1_ICCOfAKnownTable(t *testing.T) {
	t.Parallel()
	// Families 0 0 and 1 1: all variance lies between. 0 1 and 0 1: none.
	for _, c := range []struct {
		groups [][]float64
		want   float64
	}{{[][]float64{{0, 0}, {1, 1}}, 1}, {[][]float64{{0, 1}, {0, 1}}, -1}, {[][]float64{{9, 6, 7}, {2, 1, 3}}, 41. / 46}} {
		got := icc(c.groups)
		if got == nil {
			t.Fatalf("%v: nil", c.groups)
		}
		near(t, fmt.Sprint(c.groups), *got, c.want, 1e-12)
	}
	if icc([][]float64{{1}, {2}}) != nil {
		t.Error("one case a family has no ICC")
	}
}

func TestS1_MomentsAreTheTrials(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cases := rapid.IntRange(2, 6).Draw(t, "cases")
		var moments []CaseMoments
		var means, noise float64
		var diffs []float64
		for range cases {
			n := rapid.IntRange(2, 5).Draw(t, "trials")
			m := CaseMoments{Family: "f"}
			var ds []float64
			for range n {
				a, b := rapid.Float64Range(-9, 9).Draw(t, "a"), rapid.Float64Range(-9, 9).Draw(t, "b")
				m.Add(a, b)
				ds = append(ds, a-b)
			}
			mean, s2 := meanVar(ds)
			diffs = append(diffs, mean)
			noise += s2 / float64(n) / float64(cases)
			moments = append(moments, m)
		}
		_, means = meanVar(diffs)
		s, err := SplitPairs(moments)
		if err != nil || math.Abs(s.Diff.Noise-noise) > 1e-9 || math.Abs(s.Diff.Means-means) > 1e-9 ||
			math.Abs(s.Diff.Between-max(0, means-noise)) > 1e-9 || s.Diff.Clamped != (means-noise < 0) && math.Abs(means-noise) > 1e-9 {
			t.Fatalf("%+v noise %v means %v %v", s, noise, means, err)
		}
		if got, want := s.TheseCases, math.Sqrt(noise/float64(cases)); math.Abs(got-want) > 1e-9 {
			t.Fatalf("these cases %v want %v", got, want)
		}
		_, err = s.Design(.05, .8)
		if (s.Trials == 0) != errors.Is(err, ErrUneven) {
			t.Fatalf("trials %d: %v", s.Trials, err)
		}
	})
}

func meanVar(xs []float64) (mean, variance float64) {
	for _, x := range xs {
		mean += x / float64(len(xs))
	}
	for _, x := range xs {
		variance += (x - mean) * (x - mean) / float64(len(xs)-1)
	}
	return mean, variance
}

// TestS1_SplitOfMomentsIsThatOfCounts: the specification's tasks (8, 6, 4 and 0
// of 8) by both routes.
func TestS1_SplitOfMomentsIsThatOfCounts(t *testing.T) {
	t.Parallel()
	var cases []CaseMoments
	for _, c := range []int{8, 6, 4, 0} {
		m := CaseMoments{Family: fmt.Sprint(c)}
		for i := range 8 {
			a := 0.0
			if i < c {
				a = 1
			}
			m.Add(a, 0)
		}
		cases = append(cases, m)
	}
	s := value[PairedSplit](t)(SplitPairs(cases))
	near(t, "within", s.Diff.Within, .125, 1e-12)
	near(t, "means", s.Diff.Means, .1822917, 5e-8)
	near(t, "between", s.Diff.Between, .1666667, 5e-8)
	near(t, "noise", s.A.Noise, .125/8, 1e-12)
	if s.Trials != 8 || s.B != (Split{}) {
		t.Errorf("%+v", s)
	}
	if diff := cmp.Diff([]Pair{{"8", 1, 0}, {"6", .75, 0}, {"4", .5, 0}, {"0", 0, 0}}, CasePairs(cases)); diff != "" {
		t.Error(diff)
	}
	d := value[Design](t)(s.Design(.05, .8))
	if want := (Design{W2: s.Diff.Between, SA2: s.Diff.Within, KA: 8, KB: 8, Alpha: .05, Power: .8}); d != want {
		t.Errorf("%+v", d)
	}
	_, eNone := SplitPairs(nil)
	_, eOne := SplitPairs(cases[:1])
	_, eSingle := SplitPairs(append(cases[:2:2], CaseMoments{Family: "x", N: 1}))
	for i, c := range []struct{ got, want error }{{eNone, ErrNoData}, {eOne, ErrOneValue}, {eSingle, ErrRange}} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("refusal %d: %v", i, c.got)
		}
	}
}

func TestS1_FamiliesNeeded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := FamilyDesign{SD: rapid.Float64Range(.01, 1).Draw(t, "sd"), Alpha: .05, Power: .8, Sides: BothSides}
		delta := rapid.Float64Range(.05, 1).Draw(t, "delta")
		n, err := d.Families(delta)
		if err != nil {
			t.Fatal(err)
		}
		mde, err := d.MDE(n)
		if err != nil || mde > delta {
			t.Fatalf("%d families detect %v, not %v (%v)", n, mde, delta, err)
		}
		if n == MinFamilies {
			return
		}
		if mde, err = d.MDE(n - 1); err != nil || mde <= delta {
			t.Fatalf("%d families are enough: %v (%v)", n-1, mde, err)
		}
		// Never fewer than the normal formula of Miller says.
		normal, err := Design{W2: d.SD * d.SD, KA: 1, KB: 1, Alpha: .05, Power: .8}.Cases(delta)
		if err != nil || float64(n) < normal {
			t.Fatalf("%d families, normal %v (%v)", n, normal, err)
		}
	})
	ok := value[Difference](t)(PairedDifference(fam6(), .95))
	// t5 of .975 and of .8: 2.570582 and .919544.
	near(t, "achieved MDE", value[float64](t)(ok.MDE(.05, .8, BothSides)), (2.570582+.919544)*.0559890, 5e-7)
	de := value[float64](t)(DesignEffect(4, .2))
	near(t, "design effect", de, 1.6, 1e-12)
	_, eFew := FamilyDesign{SD: 1, Alpha: .05, Power: .8, Sides: UpperSide}.MDE(5)
	_, eSides := FamilyDesign{SD: 1, Alpha: .05, Power: .8}.MDE(6)
	_, ePower := FamilyDesign{SD: 1, Alpha: .05, Power: .01, Sides: UpperSide}.MDE(6)
	_, eDelta := FamilyDesign{SD: 1, Alpha: .05, Power: .8, Sides: UpperSide}.Families(0)
	_, eMany := FamilyDesign{SD: 1, Alpha: .05, Power: .8, Sides: UpperSide}.Families(1e-9)
	_, eSize := DesignEffect(0, .2)
	_, eICC := DesignEffect(2, math.NaN())
	for i, c := range []struct{ got, want error }{
		{eFew, ErrTooFewFamilies}, {eSides, ErrRange}, {ePower, ErrRange}, {eDelta, ErrRange}, {eMany, ErrRange}, {eSize, ErrRange}, {eICC, ErrRange},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("refusal %d: got %v, want %v", i, c.got, c.want)
		}
	}
}

// TestS1_CR2CoversWhereOneFamilyIsLarge: where one family holds a third of the
// cases CR1 claims too much, CR2 does not; families that are nearly balanced
// need neither remedy nor flag.
func TestS1_CR2CoversWhereOneFamilyIsLarge(t *testing.T) {
	t.Parallel()
	const campaigns, families = 1200, 16
	slack := 3 * math.Sqrt(.05*.95/campaigns)
	for _, large := range []int{3, 24} {
		rng := rand.New(rand.NewPCG(31, uint64(large)))
		covered1, covered2 := 0, 0
		for range campaigns {
			var pairs []Pair
			for f := range families {
				size, effect := 3, rng.NormFloat64()
				if f == 0 {
					size = large
				}
				for range size {
					pairs = append(pairs, Pair{fmt.Sprint(f), effect + rng.NormFloat64(), 0})
				}
			}
			d := value[Difference](t)(PairedDifference(pairs, .95))
			if d.T1.Lo <= 0 && 0 <= d.T1.Hi {
				covered1++
			}
			if d.T2.Lo <= 0 && 0 <= d.T2.Hi {
				covered2++
			}
		}
		one, two := float64(covered1)/campaigns, float64(covered2)/campaigns
		if two < .945-slack {
			t.Errorf("largest family of %d: CR2 covers %.3f", large, two)
		}
		if large == 3 && one < .95-slack || large == 24 && one > .935 {
			t.Errorf("largest family of %d: CR1 covers %.3f", large, one)
		}
	}
}
