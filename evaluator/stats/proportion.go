package stats

import (
	"math"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// Interval is a closed interval; Lo ≤ Hi, both finite.
type Interval struct{ Lo, Hi float64 }

// ordered puts limits that rounding has crossed in order.
func ordered(lo, hi float64) Interval { return Interval{Lo: lo, Hi: math.Max(lo, hi)} }

// Contains says whether x lies in the interval.
func (i Interval) Contains(x float64) bool { return i.Lo <= x && x <= i.Hi }

// Proportion is X successes (or events) in N independent units: families, or
// cases of one trial each; never trials. Both may be fractional, which is what
// Effective makes of clustered counts.
type Proportion struct{ X, N float64 }

// Effective divides both counts by the design effect, so that the formulas for
// independent units can be used on clustered ones (Korn and Graubard 1998).
// A design effect under 1 counts as 1: clusters never make a figure surer.
// ErrRange, ErrNotFinite.
func (p Proportion) Effective(deff float64) (Proportion, error) {
	if err := p.check("effective n"); err != nil {
		return Proportion{}, err
	}
	if !finite(deff) || deff <= 0 {
		return Proportion{}, refuse("effective n", ErrRange, "design effect %v", deff)
	}
	d := math.Max(deff, 1)
	return Proportion{X: p.X / d, N: p.N / d}, nil
}

// Estimate is X/N. ErrNoData, ErrRange.
func (p Proportion) Estimate() (float64, error) {
	if err := p.check("proportion"); err != nil {
		return 0, err
	}
	return p.X / p.N, nil
}

// Wilson is the score interval of the given level (Wilson 1927), cut to
// [0, 1]. It assumes independent units and holds its level on average, not for
// every rate: show it, and gate safety on ClopperPearsonUpper. ErrNoData,
// ErrRange.
func (p Proportion) Wilson(level float64) (Interval, error) {
	if err := p.checkLevel("Wilson", level); err != nil {
		return Interval{}, err
	}
	z := zTwoSided(level)
	r, z2 := p.X/p.N, z*z
	mid := r + z2/(2*p.N)
	half := z * math.Sqrt(r*(1-r)/p.N+z2/(4*p.N*p.N))
	den := 1 + z2/p.N
	out := Interval{Lo: clamp01((mid - half) / den), Hi: clamp01((mid + half) / den)}
	// At the edges the bound is the edge; rounding may miss it by an ulp.
	if p.X == 0 {
		out.Lo = 0
	}
	if p.X == p.N {
		out.Hi = 1
	}
	return out, nil
}

// ClopperPearson is the exact two-sided interval (Clopper and Pearson 1934):
// it covers with at least the given level for every rate, if the units are
// independent. ErrNoData, ErrRange.
func (p Proportion) ClopperPearson(level float64) (Interval, error) {
	if err := p.checkLevel("Clopper-Pearson", level); err != nil {
		return Interval{}, err
	}
	tail := (1 - level) / 2
	return ordered(p.exactLower(tail), p.exactUpper(tail)), nil
}

// ClopperPearsonUpper is the exact one-sided upper bound: with no event in N
// units it is 1 − (1−confidence)^(1/N). ErrNoData, ErrRange.
func (p Proportion) ClopperPearsonUpper(confidence float64) (float64, error) {
	if err := p.checkLevel("Clopper-Pearson upper bound", confidence); err != nil {
		return 0, err
	}
	return p.exactUpper(1 - confidence), nil
}

// ClopperPearsonLower is the exact one-sided lower bound. ErrNoData, ErrRange.
func (p Proportion) ClopperPearsonLower(confidence float64) (float64, error) {
	if err := p.checkLevel("Clopper-Pearson lower bound", confidence); err != nil {
		return 0, err
	}
	return p.exactLower(1 - confidence), nil
}

// Jeffreys is the equal-tailed interval of the Beta(½, ½) prior (Brown, Cai and
// DasGupta 2001), with Lo = 0 at X = 0 and Hi = 1 at X = N. Independent units.
// ErrNoData, ErrRange.
func (p Proportion) Jeffreys(level float64) (Interval, error) {
	if err := p.checkLevel("Jeffreys", level); err != nil {
		return Interval{}, err
	}
	tail := (1 - level) / 2
	out := Interval{Lo: 0, Hi: 1}
	if p.X > 0 {
		out.Lo = betaQuantile(p.X+.5, p.N-p.X+.5, tail)
	}
	if p.X < p.N {
		out.Hi = 1 - betaQuantile(p.N-p.X+.5, p.X+.5, tail)
	}
	return ordered(out.Lo, out.Hi), nil
}

// MidP is the mid-p exact interval (Lancaster 1961, Vollset 1993): the rates at
// which P(more extreme) + ½P(as observed) is half of 1 − level. Shorter than
// ClopperPearson, but it may undercover for some rates. Whole counts only:
// ErrNotInteger. ErrNoData, ErrRange.
func (p Proportion) MidP(level float64) (Interval, error) {
	if err := p.checkLevel("mid-p interval", level); err != nil {
		return Interval{}, err
	}
	if p.X != math.Trunc(p.X) || p.N != math.Trunc(p.N) {
		return Interval{}, refuse("mid-p interval", ErrNotInteger, "%v of %v", p.X, p.N)
	}
	tail := (1 - level) / 2
	// P(B > x) + ½P(B = x), increasing in the rate, from the two tails.
	above := func(rate float64) float64 { return (atLeast(p.X, p.N, rate) + atLeast(p.X+1, p.N, rate)) / 2 }
	below := func(rate float64) float64 { return 1 - above(rate) }
	est := p.X / p.N
	out := Interval{Lo: 0, Hi: 1}
	if p.X > 0 {
		out.Lo = bisect(0, est, func(r float64) bool { return above(r) < tail })
	}
	if p.X < p.N {
		out.Hi = bisect(est, 1, func(r float64) bool { return below(r) > tail })
	}
	return out, nil
}

// ZeroEventUpper is the exact one-sided upper bound of a rate after no event in
// n independent units, 1 − (1−confidence)^(1/n) (Hanley and Lippman-Hand 1983).
// ErrNoData, ErrRange.
func ZeroEventUpper(n, confidence float64) (float64, error) {
	p := Proportion{N: n}
	if err := p.checkLevel("zero-event bound", confidence); err != nil {
		return 0, err
	}
	return p.exactUpper(1 - confidence), nil
}

// RuleOfThree is 3/n, the rough 95 % upper bound after no event in n units, cut
// to 1. For mental arithmetic; gate on ZeroEventUpper. ErrNoData, ErrRange.
func RuleOfThree(n float64) (float64, error) {
	p := Proportion{N: n}
	if err := p.check("rule of three"); err != nil {
		return 0, err
	}
	return math.Min(1, 3/n), nil
}

// ZeroEventUnits is the least number of independent units which, all without
// an event, bound the rate below limit with the confidence given: 59 for 5 %
// and 299 for 1 % at 0.95. ErrRange.
func ZeroEventUnits(limit, confidence float64) (int, error) {
	if !(limit > 0 && limit < 1) || !(confidence > 0 && confidence < 1) {
		return 0, refuse("zero-event units", ErrRange, "limit %v, confidence %v", limit, confidence)
	}
	n := math.Log1p(-confidence) / math.Log1p(-limit)
	if n > 1<<53 {
		return 0, refuse("zero-event units", ErrRange, "limit %v needs over 2^53 units", limit)
	}
	return max(int(math.Ceil(n)), 1), nil
}

// PoissonUpper is the exact one-sided upper bound of the rate of events per
// unit of exposure after x events in the exposure given (Garwood 1936):
// χ²(confidence; 2x+2) / (2·exposure). It assumes that events are independent
// and may repeat within a unit (retries, effects). ErrRange, ErrNotFinite.
func PoissonUpper(x int, exposure, confidence float64) (float64, error) {
	if x < 0 || x > mostPairs || !finite(exposure) || exposure <= 0 || !(confidence > 0 && confidence < 1) {
		return 0, refuse("Poisson upper bound", ErrRange, "%d events, exposure %v, confidence %v", x, exposure, confidence)
	}
	// By bisection of P(more than x events): gonum's chi-squared quantile
	// panics at some confidences near 0.
	under := func(mean float64) bool { return mathext.GammaIncReg(float64(x)+1, mean) < confidence }
	hi := 1.0
	for under(hi) {
		hi *= 2
	}
	out := bisect(0, hi, under) / exposure
	if !finite(out) {
		return 0, refuse("Poisson upper bound", ErrNotFinite, "exposure %v", exposure)
	}
	return out, nil
}

// leastUnits and mostUnits bound the units of a proportion: outside, no data
// can be and the formulas lose their digits.
const (
	leastUnits = 1e-6
	mostUnits  = 1 << 52
)

func (p Proportion) exactLower(tail float64) float64 {
	if p.X == 0 {
		return 0
	}
	return betaQuantile(p.X, p.N-p.X+1, tail)
}

func (p Proportion) exactUpper(tail float64) float64 {
	switch p.X {
	case p.N:
		return 1
	case 0:
		return -math.Expm1(math.Log(tail) / p.N)
	}
	return 1 - betaQuantile(p.N-p.X, p.X+1, tail)
}

func (p Proportion) check(method string) error {
	switch {
	case !finite(p.X) || !finite(p.N):
		return refuse(method, ErrNotFinite, "%v of %v", p.X, p.N)
	case p.N == 0:
		return refuse(method, ErrNoData, "0 units")
	case p.N < leastUnits || p.N > mostUnits || p.X < 0 || p.X > p.N:
		return refuse(method, ErrRange, "%v of %v", p.X, p.N)
	}
	return nil
}

func (p Proportion) checkLevel(method string, level float64) error {
	if err := p.check(method); err != nil {
		return err
	}
	return checkLevel(method, level)
}

func checkLevel(method string, level float64) error {
	if !(level > 0 && level < 1) {
		return refuse(method, ErrRange, "level %v", level)
	}
	return nil
}

// betaQuantile is the p quantile of Beta(a, b), by bisection: gonum's
// InvRegIncBeta is quicker but wrong for some large a with p under 1e−8 (a =
// 84803, b = 27, p = 3.3e−9 gives a point whose tail is 0).
func betaQuantile(a, b, p float64) float64 {
	return bisect(0, 1, func(x float64) bool { return mathext.RegIncBeta(a, b, x) < p })
}

// atLeast is P(B ≥ x) for B ~ Bin(n, rate).
func atLeast(x, n, rate float64) float64 {
	switch {
	case x <= 0:
		return 1
	case x > n:
		return 0
	}
	return mathext.RegIncBeta(x, n-x+1, rate)
}

// bisect finds where before turns from true to false in [lo, hi], to the last
// bit that floating point has.
func bisect(lo, hi float64, before func(float64) bool) float64 {
	for {
		mid := lo + (hi-lo)/2
		if mid <= lo || mid >= hi {
			return mid
		}
		if before(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
}

func zTwoSided(level float64) float64 { return -distuv.UnitNormal.Quantile((1 - level) / 2) }

func clamp01(x float64) float64 { return math.Min(1, math.Max(0, x)) }

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
