package stats

import (
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// TestS0_NoRateOrEvidenceIsNaNOrInfinite feeds extreme counts and numbers:
// whatever the error, every figure of a result is finite.
func TestS0_NoRateOrEvidenceIsNaNOrInfinite(t *testing.T) {
	t.Parallel()
	number := rapid.OneOf(
		rapid.SampledFrom([]float64{
			0, 1, -1, .5, 1e-300, 5e-324, 1e300, math.MaxFloat64, -math.MaxFloat64, 1e-6, 1e15, 1 << 52, math.NaN(), math.Inf(1), math.Inf(-1),
		}),
		rapid.Float64Range(0, 1),
		rapid.Float64Range(-1e3, 1e6),
	)
	count := rapid.OneOf(rapid.IntRange(0, 9), rapid.IntRange(-1, 1<<41), rapid.SampledFrom([]int{math.MaxInt, math.MinInt, 1 << 40}))
	share := rapid.SampledFrom([]float64{0, 5e-324, 1e-300, 1e-15, .01, .05, .5, .95, 1 - 1e-15, 1, math.NaN()})
	rapid.Check(t, func(t *rapid.T) {
		level := share.Draw(t, "level")
		a, b, c, d := number.Draw(t, "a"), number.Draw(t, "b"), number.Draw(t, "c"), number.Draw(t, "d")
		i, j, k, l := count.Draw(t, "i"), count.Draw(t, "j"), count.Draw(t, "k"), count.Draw(t, "l")
		check := func(what string, v any, err error) {
			if s := notFinite(reflect.ValueOf(v), what); s != "" {
				t.Fatalf("%s (error: %v)", s, err)
			}
		}
		p := Proportion{a, b}
		eff, err := p.Effective(c)
		check("Effective", eff, err)
		table := PairedTable{i, j, k, l}
		for name, f := range map[string]func(float64) (Interval, error){
			"Wilson": p.Wilson, "ClopperPearson": p.ClopperPearson, "Jeffreys": p.Jeffreys, "MidP": p.MidP,
			"Newcombe10": table.Newcombe10, "Newcombe8": table.Newcombe8, "Tango": table.Tango,
			"RobbinsRate": func(x float64) (Interval, error) { return RobbinsRate(i, j, x) },
			"BetaRate":    func(x float64) (Interval, error) { return BetaRate(i, j, x, k) },
		} {
			v, err := f(level)
			check(name, v, err)
			if v.Lo > v.Hi {
				t.Fatalf("%s is turned over: %v", name, v)
			}
		}
		families := make([]DiscordantFamily, 7)
		for n := range families {
			families[n] = DiscordantFamily{i, j, k}
		}
		normal, err := NormalMixtureAt(a, level)
		check("NormalMixtureAt", normal, err)
		gamma, err := GammaExponentialAt(a, level, b)
		check("GammaExponentialAt", gamma, err)
		beta, err := BetaBinomialAt(a, level, b, c)
		check("BetaBinomialAt", beta, err)
		for name, f := range map[string]func() (float64, error){
			"ClopperPearsonUpper": func() (float64, error) { return p.ClopperPearsonUpper(level) },
			"ClopperPearsonLower": func() (float64, error) { return p.ClopperPearsonLower(level) },
			"ZeroEventUpper":      func() (float64, error) { return ZeroEventUpper(a, level) },
			"RuleOfThree":         func() (float64, error) { return RuleOfThree(a) },
			"PoissonUpper":        func() (float64, error) { return PoissonUpper(i, a, level) },
			"Difference":          table.Difference,
			"McNemarExact":        table.McNemarExact,
			"McNemarMidP":         table.McNemarMidP,
			"McNemarAWorse":       table.McNemarAWorse,
			"TangoZ":              func() (float64, error) { return table.TangoZ(a) },
			"Spent":               func() (float64, error) { return OBrienFleming.Spent(level, a) },
			"NormalMixture":       func() (float64, error) { return NormalMixture{a}.Bound(b, level) },
			"GammaExponential":    func() (float64, error) { return gamma.Bound(c, level) },
			"BetaBinomial":        func() (float64, error) { return beta.Bound(d, level) },
			"PolyStitching":       func() (float64, error) { return PolyStitching(a, level, b, c) },
			"BettingLower":        func() (float64, error) { return BettingLower([]float64{b, c}, a, d, level) },
		} {
			v, err := f()
			check(name, v, err)
		}
		for name, f := range map[string]func() (Evidence, error){
			"MSPRT":            func() (Evidence, error) { return MSPRT{a, b, c}.Evidence(i, d) },
			"NormalMixture":    func() (Evidence, error) { return NormalMixture{a}.Evidence(b, c) },
			"GammaExponential": func() (Evidence, error) { return GammaExponential{a, b}.Evidence(c, d) },
			"BetaBinomial":     func() (Evidence, error) { return BetaBinomial{a, b, c}.Evidence(d, a) },
			"Discordant":       table.DiscordantEvidence,
			"Average":          func() (Evidence, error) { return AverageEvidence([]Evidence{{a}, {b}}) },
			"Product":          func() (Evidence, error) { return ProductEvidence([]Evidence{{a}, {b}}) },
		} {
			e, err := f()
			check(name, e, err)
			check(name+" value", e.Value(), err)
			check(name+" p", e.P(), err)
		}
		if bet, err := NewBetting(BettingRule{Low: a, High: b, Null: c, Fixed: d}); err == nil {
			for _, x := range []float64{a, b, c, a, b} {
				e, err := bet.Add(x)
				check("Betting", e, err)
			}
			check("Peak", bet.Peak(), nil)
		}
		chi, err := table.McNemarAsymptotic()
		check("McNemarAsymptotic", chi, err)
		chi, err = ClusteredMcNemar(families)
		check("ClusteredMcNemar", chi, err)
		ni, err := table.NonInferior(a)
		check("NonInferior", ni, err)
		looks, err := SpendingLooks(Pocock, level, []float64{.3, a}, BothSides)
		check("SpendingLooks", looks, err)
		looks, err = ClassicPocock(level, 2, UpperSide)
		check("ClassicPocock", looks, err)
		looks, err = BonferroniLooks(level, 3, UpperSide)
		check("BonferroniLooks", looks, err)
	})
}
