package stats

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// darwin is Darwin's maize: differences of height in eighths of an inch
// (Fisher 1935).
var darwin = []float64{49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48}

func TestS6_DarwinMaize(t *testing.T) {
	t.Parallel()
	s := value[SignFlip](t)(SignFlipTest(singles(darwin), Resampling{}))
	near(t, "sum", s.Statistic, 314, 0)
	near(t, "greater", s.Greater, 863./32768, 1e-15)
	near(t, "two-sided", s.P, 1726./32768, 1e-15)
	near(t, "two-sided as published", s.P, .0526733, 5e-8)
	f := flips{sums: darwin, observed: 315, tolerance: 1e-6} // sums are of one parity: > 314 is ≥ 315
	f.all(0, 0)
	if !s.Exact || s.Families != 15 || f.greater != 835 {
		t.Errorf("%+v, strictly greater %d", s, f.greater)
	}
}

func TestS6_FAM6(t *testing.T) {
	t.Parallel()
	fams := value[[]FamilySum](t)(FamilySums(fam6()))
	for i, want := range []float64{.6, .2, 0, .8, .4, 0} {
		near(t, "sum of family "+fams[i].Family, fams[i].T, want, 1e-12)
	}
	s := value[SignFlip](t)(SignFlipTest(fams, Resampling{}))
	near(t, "greater", s.Greater, 4./64, 1e-15)
	near(t, "two-sided", s.P, 8./64, 1e-15)
	near(t, "floor", s.Floor, .03125, 1e-15)
}

func TestS6_DrawnFlipsAgreeWithCountedOnes(t *testing.T) {
	t.Parallel()
	counted := value[SignFlip](t)(SignFlipTest(singles(darwin), Resampling{}))
	f := flips{sums: darwin, observed: counted.Statistic, tolerance: 1e-6}
	f.draw(Resampling{Draws: 200_000, Seed: 5})
	near(t, "two-sided", float64(f.extreme)/200_000, counted.P, .002)
	near(t, "greater", float64(f.greater)/200_000, counted.Greater, .0015)
	for n, exact := range map[int]bool{ExactFamilies: true, ExactFamilies + 1: false} {
		ones := slices.Repeat([]float64{1}, n)
		s := value[SignFlip](t)(SignFlipTest(singles(ones), Resampling{Draws: 99}))
		if s.Exact != exact || exact && s.P != math.Ldexp(1, 1-n) {
			t.Errorf("%d families: %+v", n, s)
		}
	}
	var many []float64
	for i := range 70 { // more than the bits of one random word
		many = append(many, float64(1+i%3))
	}
	s := value[SignFlip](t)(SignFlipTest(singles(many), Resampling{Draws: 999, Seed: 1, Stream: 2}))
	if s.Exact || s.P != 1./1000 || s.Floor != 1./1000 || s.Seed != 1 || s.Stream != 2 || s.Draws != 999 {
		t.Errorf("%+v", s)
	}
}

// TestS6_EveryFamilyIsFlipped: the weight lies in families beyond the bits of
// one random word, of which one flip in 32 is as extreme.
func TestS6_EveryFamilyIsFlipped(t *testing.T) {
	t.Parallel()
	weights := append(make([]float64, 64), 1, 1, 1, 1, 1, 1)
	s := value[SignFlip](t)(SignFlipTest(singles(weights), Resampling{Draws: 20_000, Seed: 2}))
	near(t, "two-sided", s.P, 2./64, .004)
	near(t, "greater", s.Greater, 1./64, .003)
}

// TestS6_TiesAreTies: sums that are equal but for rounding count alike.
func TestS6_TiesAreTies(t *testing.T) {
	t.Parallel()
	var tenths, whole []float64
	for i := range 12 {
		whole = append(whole, float64(i%5+1))
		tenths = append(tenths, float64(i%5+1)/10)
	}
	for i := range 4 {
		whole[i], tenths[i] = -whole[i], -tenths[i]
	}
	a := value[SignFlip](t)(SignFlipTest(singles(whole), Resampling{}))
	b := value[SignFlip](t)(SignFlipTest(singles(tenths), Resampling{}))
	if a.P != b.P || a.Greater != b.Greater {
		t.Errorf("%+v and in tenths %+v", a, b)
	}
}

func TestS6_Refusals(t *testing.T) {
	t.Parallel()
	zeros := singles(make([]float64, 7))
	_, eFew := SignFlipTest(singles(darwin[:5]), Resampling{})
	_, eZero := SignFlipTest(zeros, Resampling{})
	_, eNone := SignFlipTest(nil, Resampling{})
	_, eNaN := SignFlipTest(singles([]float64{math.Inf(1)}), Resampling{})
	_, eDraws := SignFlipTest(singles(darwin), Resampling{Draws: -5})
	_, mFew := MaxStatistic([]FamilyTriple{{"a", [3]float64{1, 2, 3}}}, Resampling{})
	_, mNone := MaxStatistic(nil, Resampling{})
	_, mDraws := MaxStatistic(nil, Resampling{Draws: -1})
	var same []FamilyTriple
	for i := range 7 {
		same = append(same, FamilyTriple{fmt.Sprint(i), [3]float64{2, 2, 2}})
	}
	_, mSame := MaxStatistic(same, Resampling{})
	_, sumNone := FamilySums(nil)
	for i, c := range []struct{ got, want error }{
		{eFew, ErrTooFewFamilies},
		{eZero, ErrNoVariation},
		{eNone, ErrNoData},
		{eNaN, ErrNotFinite},
		{eDraws, ErrRange},
		{mFew, ErrTooFewFamilies},
		{mNone, ErrNoData},
		{mDraws, ErrRange},
		{mSame, ErrNoVariation},
		{sumNone, ErrNoData},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("refusal %d: got %v, want %v", i, c.got, c.want)
		}
	}
	var r *Refusal
	if !errors.As(eFew, &r) || r.Method != "sign-flip test" {
		t.Errorf("%v", eFew)
	}
}

// TestS6_SignFlipProperties: p is what a count over bit masks gives, is never
// below 2/2^C, and knows neither order nor arm names.
func TestS6_SignFlipProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pairs := drawPairs(t)
		fams, err := FamilySums(pairs)
		if err != nil {
			t.Fatal(err)
		}
		s, err := SignFlipTest(fams, Resampling{})
		if errors.Is(err, ErrNoVariation) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		extreme, greater := 0, 0
		for mask := range 1 << len(fams) {
			var sum float64
			for i, f := range fams {
				sum += f.T * float64(1-2*(mask>>i&1))
			}
			if math.Abs(sum) >= math.Abs(s.Statistic)-1e-9 {
				extreme++
			}
			if sum >= s.Statistic-1e-9 {
				greater++
			}
		}
		total := math.Ldexp(1, len(fams))
		if s.P != float64(extreme)/total || s.Greater != float64(greater)/total || s.P < 2/total || s.P > 1 {
			t.Fatalf("%+v, naive %d and %d", s, extreme, greater)
		}
		shuffled, err := SignFlipTest(rapid.Permutation(fams).Draw(t, "order"), Resampling{})
		if diff := cmp.Diff(s, shuffled); diff != "" || err != nil {
			t.Fatalf("order matters: %s%v", diff, err)
		}
	})
}

// TestS6_MaxStatisticIsTheCountOverAllRelabellings compares with a count that
// keeps no family fixed.
func TestS6_MaxStatisticIsTheCountOverAllRelabellings(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(4, 4))
	for range 4 {
		var fams []FamilyTriple
		for i := range 6 {
			fams = append(fams, FamilyTriple{fmt.Sprint(i), [3]float64{float64(rng.IntN(4)), float64(rng.IntN(4)), float64(1 + rng.IntN(4))}})
		}
		got := value[ThreeArms](t)(MaxStatistic(fams, Resampling{}))
		var reached [3]int
		all := 0
		var walk func(i int, sum [3]float64)
		walk = func(i int, sum [3]float64) {
			if i == len(fams) {
				all++
				most := math.Max(math.Abs(sum[0]-sum[1]), math.Max(math.Abs(sum[0]-sum[2]), math.Abs(sum[1]-sum[2])))
				for k, p := range got.Pairs {
					if most >= math.Abs(p.Statistic)-1e-9 {
						reached[k]++
					}
				}
				return
			}
			f := fams[i].Sum
			for _, l := range relabellings {
				walk(i+1, [3]float64{sum[0] + f[l[0]], sum[1] + f[l[1]], sum[2] + f[l[2]]})
			}
		}
		walk(0, [3]float64{})
		for k, p := range got.Pairs {
			near(t, fmt.Sprintf("arms %d and %d", p.I, p.J), p.Max, float64(reached[k])/float64(all), 1e-15)
			if p.Adjusted < p.Max || p.Adjusted < p.Alone || got.Omnibus > p.Max {
				t.Errorf("%+v", got)
			}
		}
		if all != 46656 || !got.Exact {
			t.Errorf("%d relabellings, %+v", all, got)
		}
		m := maxima{tolerance: 1e-9}
		for _, f := range fams {
			m.triples = append(m.triples, f.Sum)
		}
		for k, p := range got.Pairs {
			m.observed[k] = math.Abs(p.Statistic)
		}
		m.draw(Resampling{Draws: 40_000, Seed: 9})
		for k, p := range got.Pairs {
			near(t, "drawn", float64(m.reached[k])/40_000, p.Max, .011)
		}
	}
}

// TestS17_ThreeArmsKeepTheirAlpha simulates two equal arms, and a third that
// is equal or far off: the chance of a false pair stays at 5 % in both. The
// worst of three unadjusted p values does not.
func TestS17_ThreeArmsKeepTheirAlpha(t *testing.T) {
	t.Parallel()
	const campaigns = 500
	for _, shift := range []float64{0, 3} {
		rng := rand.New(rand.NewPCG(21, uint64(shift)))
		adjusted, alone := 0, 0
		for range campaigns {
			var fams []FamilyTriple
			for i := range 9 {
				fams = append(fams, FamilyTriple{fmt.Sprint(i), [3]float64{rng.NormFloat64(), rng.NormFloat64(), rng.NormFloat64() + shift}})
			}
			got := value[ThreeArms](t)(MaxStatistic(fams, Resampling{Draws: 199, Seed: rng.Uint64()}))
			falseAdjusted, falseAlone := false, false
			for _, p := range got.Pairs {
				if shift == 0 || p.I == 0 && p.J == 1 {
					falseAdjusted = falseAdjusted || p.Adjusted <= .05
					falseAlone = falseAlone || p.Alone <= .05
				}
			}
			if falseAdjusted {
				adjusted++
			}
			if falseAlone {
				alone++
			}
		}
		// .05 and three standard errors.
		if limit := .05*campaigns + 3*math.Sqrt(.05*.95*campaigns); float64(adjusted) > limit {
			t.Errorf("shift %v: %d false pairs of %d, limit %.0f", shift, adjusted, campaigns, limit)
		}
		if shift == 0 && float64(alone) < .075*campaigns {
			t.Errorf("unadjusted pairs are false in just %d of %d: the test shows nothing", alone, campaigns)
		}
	}
}
