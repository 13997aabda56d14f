package stats

import (
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// Ranks are the order statistics that enclose a quantile, counted from 1. Lo 0
// means that there is no lower bound, Hi n+1 that there is no upper one.
type Ranks struct {
	Lo, Hi   int
	Coverage float64 // the exact chance that the interval covers
}

// QuantileRanks gives the order statistics that enclose the q-quantile of n
// independent values: with B ~ Bin(n, q), Lo is the largest r with P(B < r) ≤
// a/2 and Hi the smallest s with P(B ≥ s) ≤ a/2, a = 1−level. 0 < q < 1.
//
// Assumption: independent values. Over trials of families the interval is too
// short; use ClusterQuantile. ErrNoData, ErrRange. Source: Conover 1999 §3.2.
func QuantileRanks(n int, q, level float64) (Ranks, error) {
	const method = "quantile interval"
	if n < 1 {
		return Ranks{}, refuse(method, ErrNoData, "n = %d", n)
	}
	if !(q > 0 && q < 1) {
		return Ranks{}, refuse(method, ErrRange, "quantile %v", q)
	}
	if err := checkLevel(method, level); err != nil {
		return Ranks{}, err
	}
	b := distuv.Binomial{N: float64(n), P: q}
	below := func(r int) float64 { // P(B < r)
		switch {
		case r <= 0:
			return 0
		case r > n:
			return 1
		}
		return b.CDF(float64(r - 1))
	}
	// A tail that equals a/2 but for rounding is not above it.
	tail := (1 - level) / 2 * (1 + 1e-12)
	lo := sort.Search(n+1, func(i int) bool { return below(i+1) > tail }) // largest r that is not above the tail
	hi := 1 + sort.Search(n, func(i int) bool { return 1-below(i+1) <= tail })
	return Ranks{Lo: lo, Hi: hi, Coverage: below(hi) - below(lo)}, nil
}

// QuantileInterval is an interval of a quantile; a bound that the values do
// not give is nil, "unbounded", and never the least or greatest value.
type QuantileInterval struct {
	Q, Level float64
	N        int
	Ranks    Ranks
	Lo, Hi   *float64
}

// OrderInterval encloses the q-quantile of independent values by order
// statistics (QuantileRanks, its assumption and its errors); ErrNotFinite.
func OrderInterval(values []float64, q, level float64) (QuantileInterval, error) {
	if err := checkFinite(values); err != nil {
		return QuantileInterval{}, &Refusal{Method: "quantile interval", Rule: err}
	}
	r, err := QuantileRanks(len(values), q, level)
	if err != nil {
		return QuantileInterval{}, err
	}
	sorted := slices.Sorted(slices.Values(values))
	out := QuantileInterval{Q: q, Level: level, N: len(values), Ranks: r}
	if r.Lo >= 1 {
		out.Lo = new(sorted[r.Lo-1])
	}
	if r.Hi <= len(sorted) {
		out.Hi = new(sorted[r.Hi-1])
	}
	return out, nil
}

// QuantileMinN is the least number of independent values with which the
// q-quantile has an upper bound at the level: with UpperSide of a one-sided
// bound, with BothSides of an interval. ErrRange.
func QuantileMinN(q, level float64, sides Sides) (int, error) {
	const method = "quantile interval"
	if err := checkLevel(method, level); err != nil {
		return 0, err
	}
	if !(q > 0 && q < 1) || sides != UpperSide && sides != BothSides {
		return 0, refuse(method, ErrRange, "quantile %v, %d sides", q, sides)
	}
	n := math.Ceil(math.Log((1-level)/float64(sides))/math.Log(q) - 1e-9)
	if n > math.MaxInt32 {
		return 0, refuse(method, ErrRange, "quantile %v needs more than %d values", q, math.MaxInt32)
	}
	return max(int(n), 1), nil
}

// HarrellDavis estimates the q-quantile, 0 < q < 1, by the mean of all order
// statistics weighted by a Beta(q(n+1), (1−q)(n+1)) density: smoother than one
// order statistic, and moved by outliers. It cannot be used on censored values.
// ErrNoData, ErrNotFinite, ErrRange. Source: Harrell and Davis 1982.
func HarrellDavis(values []float64, q float64) (float64, error) {
	const method = "Harrell-Davis quantile"
	if err := checkFinite(values); err != nil {
		return 0, &Refusal{Method: method, Rule: err}
	}
	if !(q > 0 && q < 1) {
		return 0, refuse(method, ErrRange, "quantile %v", q)
	}
	sorted := slices.Sorted(slices.Values(values))
	n := float64(len(sorted))
	a, b := q*(n+1), (1-q)*(n+1)
	var sum, before float64
	for i, v := range sorted {
		upto := mathext.RegIncBeta(a, b, float64(i+1)/n)
		sum += v * (upto - before)
		before = upto
	}
	return min(max(sum, sorted[0]), sorted[len(sorted)-1]), nil
}
