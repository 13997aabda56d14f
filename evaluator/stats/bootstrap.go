package stats

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// UndercoversBelow is the number of families under which a cluster bootstrap
// covers too little and the CR1 interval is to be preferred (statistics §7).
const UndercoversBelow = 15

// Bootstrap is the outcome of a cluster bootstrap of ΣT/ΣN.
type Bootstrap struct {
	Families int
	Estimate float64
	SE       float64 // standard deviation of the draws
	Level    float64
	// Percentile is by order statistics ⌈qB⌉; BCa is bias-corrected and
	// accelerated, and equals Percentile when Fallback is not empty.
	Percentile, BCa Interval
	Z0, Accel       float64
	Fallback        string // why BCa is not defined here; empty when it is
	// Undercovers flags fewer than UndercoversBelow families.
	Undercovers bool
	// P is a two-sided p of "the ratio is 0", 2·(1+#)/(1+Draws) at the most 1
	// and never 0.
	P float64
	Resampling
}

// ClusterBootstrap draws families with replacement, all arms of a family
// together, and recomputes ΣT/ΣN. It works on family sums, so that its cost is
// Draws × families however many trials there are. The order of families does
// not matter, to the last bit.
//
// Assumptions: families are independent and drawn from one population. With
// fewer than UndercoversBelow families the interval is too short (flagged).
//
// Errors: ErrNoData, ErrNotFinite, ErrTooFewFamilies, ErrNoVariation (all draws
// equal), ErrRange (level, draws, or N not above zero in total), and
// ErrUnbounded when a draw has ΣN ≤ 0: the ratio has no bootstrap interval.
//
// Sources: Efron 1987; Efron and Tibshirani 1993 ch. 14; leave-one-family-out
// acceleration as in Field and Welsh 2007.
func ClusterBootstrap(families []FamilySum, level float64, r Resampling) (Bootstrap, error) {
	const method = "cluster bootstrap"
	r, err := r.withDefaults(method)
	if err != nil {
		return Bootstrap{}, err
	}
	if err := checkLevel(method, level); err != nil {
		return Bootstrap{}, err
	}
	fams, err := mergeFamilies(families)
	if err != nil {
		return Bootstrap{}, &Refusal{Method: method, Rule: err}
	}
	out := Bootstrap{Families: len(fams), Level: level, Undercovers: len(fams) < UndercoversBelow, Resampling: r}
	var t, n, size float64
	for _, f := range fams {
		t, n, size = t+f.T, n+f.N, size+math.Abs(f.T)
	}
	if !(n > 0) {
		return out, refuse(method, ErrRange, "the denominator is %v", n)
	}
	if err := checkResult(method, t/n); err != nil {
		return out, err
	}
	out.Estimate = t / n
	if err := checkFamilies(method, out.Families); err != nil {
		return out, err
	}
	jack := make([]float64, len(fams))
	for i, f := range fams {
		if !(n-f.N > 0) {
			return out, refuse(method, ErrUnbounded, "without family %q the denominator is %v", f.Family, n-f.N)
		}
		jack[i] = (t - f.T) / (n - f.N)
		if err := checkResult(method, jack[i]); err != nil {
			return out, err
		}
	}
	draws := make([]float64, r.Draws)
	if !drawRatios(draws, fams, r) {
		return out, refuse(method, ErrUnbounded, "a draw of families has a denominator of zero")
	}
	slices.Sort(draws)
	if err := checkResult(method, spread(draws)); err != nil {
		return out, err
	}
	scale := size / n // of the data: an estimate may be zero but for rounding
	if draws[len(draws)-1]-draws[0] <= 1e-12*scale {
		return out, refuse(method, ErrNoVariation, "every draw gives %v", out.Estimate)
	}
	out.finish(draws, jack, scale)
	return out, nil
}

// drawRatios fills draws with ΣT/ΣN of families drawn with replacement; false
// when a denominator is not above zero.
func drawRatios(draws []float64, fams []FamilySum, r Resampling) bool {
	rng := rand.New(rand.NewPCG(r.Seed, r.Stream))
	c := uint32(len(fams)) //nolint:gosec // families are far fewer than 2^32
	for i := range draws {
		var t, n float64
		for range c {
			f := &fams[rng.Uint32N(c)]
			t += f.T
			n += f.N
		}
		if !(n > 0) || !finite(t/n) {
			return false
		}
		draws[i] = t / n
	}
	return true
}

// finish sets what follows from the sorted draws and the jackknife. Two
// figures are one when they differ by less than tieTolerance of scale.
func (b *Bootstrap) finish(draws, jack []float64, scale float64) {
	b.SE = spread(draws)
	tail := (1 - b.Level) / 2
	b.Percentile = Interval{orderStat(draws, tail), orderStat(draws, 1-tail)}
	b.P = bootstrapP(draws, tieTolerance*scale)
	b.BCa = b.Percentile
	b.Z0 = biasCorrection(draws, b.Estimate, .5, tieTolerance*scale)
	var ok bool
	b.Accel, ok = acceleration(jack)
	if math.IsInf(b.Z0, 0) {
		b.Z0, b.Accel = 0, 0
		b.Fallback = "every draw lies on one side of the estimate"
		return
	}
	lo, okLo := bcaLevel(b.Z0, b.Accel, tail)
	hi, okHi := bcaLevel(b.Z0, b.Accel, 1-tail)
	if !ok || !okLo || !okHi {
		b.Fallback = "the acceleration is not defined"
		return
	}
	b.BCa = Interval{orderStat(draws, lo), orderStat(draws, hi)}
}

// spread is the standard deviation of draws, their number in the denominator.
func spread(draws []float64) float64 {
	var mean, ss float64
	for _, d := range draws {
		mean += d / float64(len(draws))
	}
	for _, d := range draws {
		ss += (d - mean) * (d - mean)
	}
	return math.Sqrt(ss / float64(len(draws)))
}

// orderStat is the ⌈qB⌉-th of B sorted draws.
func orderStat(draws []float64, q float64) float64 {
	return draws[min(nearestRank(q, len(draws)), len(draws))-1]
}

// biasCorrection is z0, ties with the estimate counting by the given share.
func biasCorrection(draws []float64, estimate, ties, tolerance float64) float64 {
	var less, tied float64
	for _, d := range draws {
		switch {
		case d < estimate-tolerance:
			less++
		case d <= estimate+tolerance:
			tied++
		}
	}
	return distuv.UnitNormal.Quantile((less + ties*tied) / float64(len(draws)))
}

// acceleration is a of BCa from the leave-one-out estimates of each sample:
// with u = (n−1)(mean − estimate), Σu³/n³ / (6·(Σu²/n²)^1.5). False when the
// estimates do not vary.
func acceleration(samples ...[]float64) (a float64, ok bool) {
	var cubes, squares float64
	for _, jack := range samples {
		n := float64(len(jack))
		var mean float64
		for _, v := range jack {
			mean += v / n
		}
		for _, v := range jack {
			u := (n - 1) * (mean - v) / n
			squares += u * u
			cubes += u * u * u
		}
	}
	if !(squares > 0) {
		return 0, false
	}
	if a = cubes / (6 * math.Pow(squares, 1.5)); !finite(a) {
		return 0, false
	}
	return a, true
}

// bcaLevel is the level of the order statistic that BCa reads for q.
func bcaLevel(z0, a, q float64) (level float64, ok bool) {
	z := z0 + distuv.UnitNormal.Quantile(q)
	d := 1 - a*z
	if !(d > 0) {
		return 0, false
	}
	return distuv.UnitNormal.CDF(z0 + z/d), true
}

// bootstrapP is the two-sided p of zero by the share of draws beyond it.
func bootstrapP(draws []float64, tolerance float64) float64 {
	below, above := 0, 0
	for _, d := range draws {
		if d <= tolerance {
			below++
		}
		if d >= -tolerance {
			above++
		}
	}
	return min(1, 2*float64(1+min(below, above))/float64(1+len(draws)))
}
