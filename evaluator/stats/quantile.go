package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Duration is one observed time; Censored means that the true one is at least
// as long (the trial was cut at a limit).
type Duration struct {
	US       int64 // microseconds
	Censored bool
}

// Quantile is a nearest-rank quantile. AtLeast means that censoring reaches
// the rank: the true quantile is this value or greater.
type Quantile struct {
	US      int64
	AtLeast bool
}

// NearestRank is the value at rank ⌈q·n⌉ of the sorted durations, 0 < q ≤ 1;
// no interpolation. At equal times a censored one sorts last. xs is not
// changed. ErrNoData, ErrRange.
func NearestRank(xs []Duration, q float64) (Quantile, error) {
	if len(xs) == 0 {
		return Quantile{}, ErrNoData
	}
	if !(q > 0 && q <= 1) {
		return Quantile{}, fmt.Errorf("%w: quantile %v", ErrRange, q)
	}
	s := slices.Clone(xs)
	slices.SortFunc(s, compareDurations)
	rank := nearestRank(q, len(s))
	out := Quantile{US: s[rank-1].US}
	for _, d := range s[:rank] {
		out.AtLeast = out.AtLeast || d.Censored
	}
	return out, nil
}

// compareDurations orders by time; at equal times a censored one is later.
func compareDurations(a, b Duration) int {
	if c := cmp.Compare(a.US, b.US); c != 0 {
		return c
	}
	return boolInt(a.Censored) - boolInt(b.Censored)
}

// nearestRank is ⌈q·n⌉, at least 1.
func nearestRank(q float64, n int) int { return max(ceilShare(q, n), 1) }

// ceilShare is ⌈q·n⌉; q·n in floating point may pass an integer by one part in
// 2^52.
func ceilShare(q float64, n int) int { return int(math.Ceil(q*float64(n) - 1e-9)) }

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
