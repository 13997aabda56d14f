package stats

import (
	"cmp"
	"fmt"
	"slices"
)

// FamilySum holds the two sums of a family of which an estimate is the ratio
// ΣT/ΣN: differences and cases, cost and successes, cost and cost.
type FamilySum struct {
	Family string
	T, N   float64
}

// FamilySums sums A − B and counts cases by family, in the order of the family
// names. Their ratio is the mean difference over cases. ErrNoData,
// ErrNotFinite, ErrRange.
func FamilySums(pairs []Pair) ([]FamilySum, error) {
	sums := make([]FamilySum, len(pairs))
	for i, p := range sortedPairs(pairs) {
		sums[i] = FamilySum{p.Family, p.A - p.B, 1}
	}
	return mergeFamilies(sums)
}

// mergeFamilies gives one entry a family, sorted by name, so that neither the
// order nor the grouping of the input shows in a result.
func mergeFamilies(sums []FamilySum) ([]FamilySum, error) {
	if len(sums) == 0 {
		return nil, ErrNoData
	}
	s := slices.Clone(sums)
	slices.SortFunc(s, func(a, b FamilySum) int {
		return cmp.Or(cmp.Compare(a.Family, b.Family), cmp.Compare(a.T, b.T), cmp.Compare(a.N, b.N))
	})
	out := s[:0]
	for _, f := range s {
		if err := checkFinite([]float64{f.T, f.N}); err != nil {
			return nil, fmt.Errorf("family %q: %w", f.Family, err)
		}
		if n := len(out); n > 0 && out[n-1].Family == f.Family {
			out[n-1].T += f.T
			out[n-1].N += f.N
			continue
		}
		out = append(out, f)
	}
	return out, nil
}

// Resampling fixes the random draws of a resampling method. Draws 0 means
// DefaultDraws. The same data, Seed and Stream give the same draws on every
// machine (PCG); a result carries them.
type Resampling struct {
	Draws        int
	Seed, Stream uint64
}

// DefaultDraws is the least number of draws of a gate (statistics §7).
const DefaultDraws = 10_000

func (r Resampling) withDefaults(method string) (Resampling, error) {
	if r.Draws == 0 {
		r.Draws = DefaultDraws
	}
	if r.Draws < 1 {
		return r, refuse(method, ErrRange, "%d draws", r.Draws)
	}
	return r, nil
}
