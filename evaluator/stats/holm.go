package stats

import (
	"cmp"
	"math"
	"slices"
)

// Holm gives the p values adjusted by Holm's step-down (Scand. J. Statist. 6,
// 1979, 65), in the order of p: comparing them with alpha bounds the chance of
// any false rejection by alpha, whatever the dependence. Equal p get equal
// adjusted p. p is not changed. ErrNoData; ErrRange for a p that is not a number
// in [0, 1].
func Holm(p []float64) ([]float64, error) {
	order, err := ascending("Holm", p)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(p))
	var reached float64
	for rank, i := range order {
		reached = math.Max(reached, math.Min(1, float64(len(p)-rank)*p[i]))
		out[i] = reached
	}
	return out, nil
}

// BenjaminiHochberg gives the p values adjusted by the step-up of Benjamini and
// Hochberg (J. R. Statist. Soc. B 57, 1995, 289), in the order of p: comparing
// them with q bounds the expected share of false rejections by q when the tests
// are independent or positively dependent. For exploration (per-family tables),
// never for the gate. Errors as Holm.
func BenjaminiHochberg(p []float64) ([]float64, error) {
	order, err := ascending("Benjamini-Hochberg", p)
	if err != nil {
		return nil, err
	}
	out := make([]float64, len(p))
	reached := 1.0
	for rank := len(p); rank >= 1; rank-- {
		i := order[rank-1]
		// m·p/m may come out an ulp under p.
		reached = math.Min(reached, math.Max(p[i], float64(len(p))*p[i]/float64(rank)))
		out[i] = reached
	}
	return out, nil
}

// ascending gives the indices of p in ascending order of value, ties in order
// of index.
func ascending(method string, p []float64) ([]int, error) {
	if len(p) == 0 {
		return nil, refuse(method, ErrNoData, "0 p values")
	}
	order := make([]int, len(p))
	for i, v := range p {
		if !(v >= 0 && v <= 1) {
			return nil, refuse(method, ErrRange, "p value %d is %v", i+1, v)
		}
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(p[a], p[b]) })
	return order, nil
}
