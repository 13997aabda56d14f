package stats

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

func TestS9_MSPRT(t *testing.T) {
	t.Parallel()
	m := MSPRT{Variance: 1, Prior: .04}
	near(t, "L at .2", value[Evidence](t)(m.Evidence(100, .2)).Value(), 2.2150634, 5.1e-8)
	e := value[Evidence](t)(m.Evidence(100, .3))
	near(t, "L at .3", e.Value(), 16.367228, 5.1e-7)
	near(t, "p at .3", e.P(), .0610977, 5.1e-8)
	if e.Rejects(.05) || !e.Rejects(.0611) {
		t.Errorf("%v rejects wrongly", e)
	}
	// The mixture is the normal boundary with rho = variance/prior.
	n := NormalMixture{Rho: 1 / .04}
	near(t, "as a normal mixture", value[Evidence](t)(n.Evidence(30, 100)).Log, e.Log, 1e-12)
	shifted := MSPRT{Null: 2, Variance: 1, Prior: .04}
	near(t, "shifted", value[Evidence](t)(shifted.Evidence(100, 2.3)).Log, e.Log, 1e-12)
}

// TestS9_ConfseqVectors has the unit tests of the reference implementation of
// Howard et al., whose targets come from R.
func TestS9_ConfseqVectors(t *testing.T) {
	t.Parallel()
	const tol = 1e-5 // theirs
	m := value[NormalMixture](t)(NormalMixtureAt(100, .05))
	near(t, "rho", m.Rho, 12.600561, 5.1e-7)
	near(t, "log M", value[Evidence](t)(m.Evidence(10, 100)).Log, -.6510052, 5.1e-8)
	near(t, "bound", value[float64](t)(m.Bound(100, .05)), 30.352090, 5.1e-7)

	g := value[GammaExponential](t)(GammaExponentialAt(100, .05, 2))
	near(t, "gamma-exponential log M", value[Evidence](t)(g.Evidence(10, 100)).Log, -.2490165, tol)
	near(t, "gamma-exponential bound", value[float64](t)(g.Bound(100, .05)), 33.02017, tol)

	b := value[BetaBinomial](t)(BetaBinomialAt(100, .05, .2, .8))
	near(t, "beta-binomial log M", value[Evidence](t)(b.Evidence(10, 100)).Log, -.6941012, tol)
	near(t, "beta-binomial bound", value[float64](t)(b.Bound(100, .05)), 31.4308, tol)

	// All observations at one end: 1/((n+1)/2^n) for a uniform mixture of coins.
	coin := BetaBinomial{R: .5, G: .5, H: .5}
	for _, s := range []float64{-5, 5} {
		near(t, "all ten at one end", value[Evidence](t)(coin.Evidence(s, 2.5)).Value(), 1024./11, 1e-9)
	}
	early := value[BetaBinomial](t)(BetaBinomialAt(.1, .05, .5, 3))
	near(t, "floor of the tuning", early.R, 1.5e-3, 1e-15)

	near(t, "polynomial stitching", value[float64](t)(PolyStitching(100, .05, 10, 3)), 64.48755, tol)

	for _, v := range []struct {
		s, n, tuned int
		lo, hi      float64
	}{{700, 1000, 100, .651629, .745949}, {15, 50, 50, .129556, .511896}, {5, 50, 50, .013021, .269264}, {1, 50, 50, 0, .13489}} {
		got, err := BetaRate(v.s, v.n, .05, v.tuned)
		nearInterval(t, "Bernoulli sequence", got, err, v.lo, v.hi, tol)
	}
}

func TestS9_DiscordantPairs(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		b, c      int
		want, tol float64
	}{{1, 7, 3.555556, 5.1e-7}, {6, 16, 2.444092, 5.1e-7}, {0, 8, 28.444444, 5.1e-7}, {86, 150, 512.969, 5.1e-4}, {0, 5, 5.333333, 5.1e-7}} {
		e := value[Evidence](t)(discordant(v.b, v.c).DiscordantEvidence())
		near(t, "e-value", e.Value(), v.want, v.tol)
		if e.Rejects(.05) != (v.want >= 20) {
			t.Errorf("%d against %d: e %v rejects %v", v.b, v.c, e.Value(), e.Rejects(.05))
		}
	}
	none := value[Evidence](t)(discordant(0, 0).DiscordantEvidence())
	near(t, "no discordant pair", none.Value(), 1, 1e-12)
}

// TestS9_DiscordantEvidenceIsFair: under the hypothesis its expectation is 1 at
// every number of pairs.
func TestS9_DiscordantEvidenceIsFair(t *testing.T) {
	t.Parallel()
	for n := range 60 {
		var mean float64
		for b := range n + 1 {
			mean += binomialTerm(n, b, .5) * value[Evidence](t)(discordant(b, n-b).DiscordantEvidence()).Value()
		}
		near(t, "expectation", mean, 1, 1e-9)
	}
}

func TestS9_RobbinsRate(t *testing.T) {
	t.Parallel()
	got, err := RobbinsRate(700, 1000, .05)
	nearInterval(t, "700/1000", got, err, .6469848, .7496620, 5.1e-8)
	for _, v := range []struct {
		n             int
		robbins, once float64
	}{{100, .0732844, .0362167}, {300, .0285927, .0122210}} {
		got, err = RobbinsRate(0, v.n, .05)
		nearInterval(t, "no event", got, err, 0, v.robbins, 5.1e-8)
		cp := value[Interval](t)(Proportion{0, float64(v.n)}.ClopperPearson(.95))
		near(t, "one look", cp.Hi, v.once, 5.1e-8)
	}
	empty, err := RobbinsRate(0, 0, .05)
	nearInterval(t, "no unit", empty, err, 0, 1, 0)
	empty, err = BetaRate(0, 0, .05, 50)
	nearInterval(t, "no unit", empty, err, 0, 1, 0)
}

// TestS9_RateSequencesBehave: they hold the estimate, mirror, grow with the
// confidence, and at their ends the evidence is 1/alpha.
func TestS9_RateSequencesBehave(t *testing.T) {
	t.Parallel()
	methods := map[string]func(s, n int, alpha float64) (Interval, error){
		"Robbins": RobbinsRate,
		"beta":    func(s, n int, alpha float64) (Interval, error) { return BetaRate(s, n, alpha, 60) },
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 3000).Draw(t, "n")
		s := rapid.IntRange(0, n).Draw(t, "s")
		alpha := rapid.Float64Range(.001, .5).Draw(t, "alpha")
		for name, f := range methods {
			a, err1 := f(s, n, alpha)
			m, err2 := f(n-s, n, alpha)
			b, err3 := f(s, n, alpha/2)
			if err := errors.Join(err1, err2, err3); err != nil {
				t.Fatal(err)
			}
			if !a.Contains(float64(s)/float64(n)) || a.Lo < 0 || a.Hi > 1 || b.Lo > a.Lo+1e-12 || b.Hi < a.Hi-1e-12 {
				t.Errorf("%s: %v at %v, %v at half of it", name, a, alpha, b)
			}
			if math.Abs(m.Lo-(1-a.Hi)) > 1e-9 || math.Abs(m.Hi-(1-a.Lo)) > 1e-9 {
				t.Errorf("%s: %v and its mirror %v", name, a, m)
			}
		}
	})
}

// TestS9_RobbinsHoldsAtEveryLook: looking after each of 250 units, the sequence
// loses the true rate in at most alpha of the runs; the interval for one look,
// used so, loses it far more often.
func TestS9_RobbinsHoldsAtEveryLook(t *testing.T) {
	t.Parallel()
	const runs, units, alpha, rate = 120, 250, .1, .2
	rng := rand.New(rand.NewPCG(9, 1))
	lost, lostOnce := 0, 0
	for range runs {
		s, gone, goneOnce := 0, false, false
		for n := 1; n <= units; n++ {
			if rng.Float64() < rate {
				s++
			}
			e := value[Evidence](t)(rateEvidence(s, n, rate))
			gone = gone || e.Rejects(alpha)
			p := Proportion{float64(s), float64(n)}
			goneOnce = goneOnce || n >= 20 && !value[Interval](t)(p.Wilson(1-alpha)).Contains(rate)
		}
		if gone {
			lost++
		}
		if goneOnce {
			lostOnce++
		}
	}
	limit := alpha + 4*math.Sqrt(alpha*(1-alpha)/runs)
	if float64(lost)/runs > limit || float64(lostOnce)/runs < 2*limit {
		t.Errorf("of %d runs the sequence lost the rate in %d, peeking at Wilson in %d", runs, lost, lostOnce)
	}
}

// rateEvidence is the likelihood ratio that RobbinsRate inverts.
func rateEvidence(s, n int, rate float64) (Evidence, error) {
	ci, err := RobbinsRate(s, n, .1)
	if err != nil {
		return Evidence{}, err
	}
	if ci.Contains(rate) {
		return Evidence{}, nil
	}
	return Evidence{Log: -math.Log(.1)}, nil
}

func TestS9_EvidenceArithmetic(t *testing.T) {
	t.Parallel()
	two, eight := Evidence{math.Log(2)}, Evidence{math.Log(8)}
	near(t, "average", value[Evidence](t)(AverageEvidence([]Evidence{two, eight})).Value(), 5, 1e-12)
	near(t, "product", value[Evidence](t)(ProductEvidence([]Evidence{two, eight})).Value(), 16, 1e-12)
	huge := Evidence{5000}
	near(t, "average of huge ones", value[Evidence](t)(AverageEvidence([]Evidence{huge, two})).Log, 5000-math.Ln2, 1e-9)
	if v := huge.Value(); math.IsInf(v, 0) || huge.P() != 0 || (Evidence{-5000}).P() != 1 {
		t.Errorf("value %v, p %v", v, huge.P())
	}
	if huge.Rejects(0) || huge.Rejects(1) {
		t.Error("rejects at an alpha that is none")
	}
}

func TestS9_BoundariesInvertTheirEvidence(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float64Range(20, 2000).Draw(t, "v")
		alpha := rapid.Float64Range(.01, .4).Draw(t, "alpha")
		n, err1 := NormalMixtureAt(100, .05)
		g, err2 := GammaExponentialAt(100, .05, rapid.Float64Range(.1, 4).Draw(t, "c"))
		b, err3 := BetaBinomialAt(100, .05, .3, .7)
		if err := errors.Join(err1, err2, err3); err != nil {
			t.Fatal(err)
		}
		type mixture interface {
			Evidence(s, v float64) (Evidence, error)
			Bound(v, alpha float64) (float64, error)
		}
		for _, m := range []mixture{n, g, b} {
			s, err := m.Bound(v, alpha)
			if errors.Is(err, ErrUnreached) {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			e, err := m.Evidence(s, v)
			if err != nil || math.Abs(e.Log+math.Log(alpha)) > 1e-6 {
				t.Errorf("%T at v %v, alpha %v: bound %v has log evidence %v, want %v (%v)", m, v, alpha, s, e.Log, -math.Log(alpha), err)
			}
		}
		early, err1 := PolyStitching(v, alpha, 10, 1)
		later, err2 := PolyStitching(v*1.5, alpha, 10, 1)
		if err := errors.Join(err1, err2); err != nil || later <= early {
			t.Errorf("stitched boundary %v, later %v (%v)", early, later, err)
		}
	})
}

func TestS9_Refusals(t *testing.T) {
	t.Parallel()
	ev := func(_ Evidence, err error) error { return err }
	number := func(_ float64, err error) error { return err }
	interval := func(_ Interval, err error) error { return err }
	normal := func(_ NormalMixture, err error) error { return err }
	gamma := func(_ GammaExponential, err error) error { return err }
	beta := func(_ BetaBinomial, err error) error { return err }
	ok := MSPRT{Variance: 1, Prior: 1}
	for i, c := range []struct{ got, want error }{
		{ev(MSPRT{}.Evidence(1, 0)), ErrRange},
		{ev(ok.Evidence(-1, 0)), ErrRange},
		{ev(ok.Evidence(1, math.NaN())), ErrNotFinite},
		{ev(ok.Evidence(10, 1e200)), ErrNotFinite},
		{ev(AverageEvidence(nil)), ErrNoData},
		{ev(ProductEvidence([]Evidence{{math.Inf(1)}})), ErrNotFinite},
		{ev(ProductEvidence([]Evidence{{1e308}, {1e308}})), ErrNotFinite},
		{normal(NormalMixtureAt(0, .05)), ErrRange},
		{ev(NormalMixture{}.Evidence(1, 1)), ErrRange},
		{ev(NormalMixture{Rho: 1}.Evidence(1e200, 1)), ErrNotFinite},
		{number(NormalMixture{Rho: 1}.Bound(1, 2)), ErrRange},
		{number(NormalMixture{Rho: 1}.Bound(-1, .05)), ErrRange},
		{gamma(GammaExponentialAt(1, .5, 1)), ErrRange},
		{gamma(GammaExponentialAt(-1, .05, 1)), ErrRange},
		{ev(GammaExponential{1, 1}.Evidence(-5, 1)), ErrRange},
		{ev(GammaExponential{}.Evidence(0, 1)), ErrRange},
		{number(GammaExponential{1, 1}.Bound(1, 0)), ErrRange},
		{beta(BetaBinomialAt(1, .05, 0, 1)), ErrRange},
		{beta(BetaBinomialAt(1, 1, 1, 1)), ErrRange},
		{ev(BetaBinomial{1, 1, 1}.Evidence(2, 1)), ErrRange},
		{ev(BetaBinomial{}.Evidence(0, 1)), ErrRange},
		{ev(BetaBinomial{1, 1, 0}.Evidence(0, 1)), ErrRange},
		{ev(BetaBinomial{1, 0, 1}.Evidence(0, 1)), ErrRange},
		{ev(BetaBinomial{0, 1, 1}.Evidence(0, 1)), ErrRange},
		{ev(BetaBinomial{1, 1, 1}.Evidence(-2, 1)), ErrRange},
		{gamma(GammaExponentialAt(1, .05, 1e13)), ErrRange},
		{normal(NormalMixtureAt(1e-13, .05)), ErrRange},
		{normal(NormalMixtureAt(1, 1)), ErrRange},
		{number(BetaBinomial{1, 1, 1}.Bound(math.Inf(1), .05)), ErrRange},
		{number(BetaBinomial{1, 1, 1}.Bound(1, 1e-9)), ErrUnreached},
		{number(PolyStitching(1, .05, 0, 0)), ErrRange},
		{interval(RobbinsRate(2, 1, .05)), ErrRange},
		{interval(RobbinsRate(0, 1, 0)), ErrRange},
		{interval(RobbinsRate(0, 1, 1)), ErrRange},
		{interval(BetaRate(0, 1, 1, 1)), ErrRange},
		{interval(BetaRate(0, 1, .05, 0)), ErrRange},
		{ev(PairedTable{}.DiscordantEvidence()), ErrNoData},
	} {
		var r *Refusal
		if !errors.Is(c.got, c.want) || !errors.As(c.got, &r) || r.Method == "" {
			t.Errorf("refusal %d: got %v, want %v", i, c.got, c.want)
		}
	}
}
