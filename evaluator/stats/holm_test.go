package stats

import (
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestS10_StatsmodelsMultitest has pval0 of statsmodels' multipletests, checked
// there against R's p.adjust.
func TestS10_StatsmodelsMultitest(t *testing.T) {
	t.Parallel()
	p := []float64{
		.838541367553, .642193923795, .680845947633, .967833824309, .71626938238,
		.177096952723, 5.23656777208e-5, .0202732688798, .00028140506198, .0149877310796,
	}
	before := append([]float64(nil), p...)
	holm, bh := value[[]float64](t)(Holm(p)), value[[]float64](t)(BenjaminiHochberg(p))
	wantHolm := []float64{1, 1, 1, 1, 1, 1, 5.2365678e-4, .14191288, 2.5326456e-3, .11990185}
	wantBH := []float64{
		.93171263, .89533673, .89533673, .96783382, .89533673, .35419391, 5.2365678e-4, .05068317, 1.4070253e-3, .04995910,
	}
	for i := range p {
		near(t, "Holm", holm[i], wantHolm[i], 5.1e-9)
		near(t, "BH", bh[i], wantBH[i], 5.1e-9)
	}
	if diff := cmp.Diff(before, p); diff != "" {
		t.Errorf("p was changed:\n%s", diff)
	}
}

func TestS10_ThreeTests(t *testing.T) {
	t.Parallel()
	holm, bh := value[[]float64](t)(Holm([]float64{.01, .04, .03})), value[[]float64](t)(BenjaminiHochberg([]float64{.01, .04, .03}))
	for i, want := range []struct{ holm, bh float64 }{{.03, .03}, {.06, .04}, {.06, .04}} {
		near(t, "Holm", holm[i], want.holm, 1e-15)
		near(t, "BH", bh[i], want.bh, 1e-15)
	}
}

// TestS10_AdjustedPBehave: never under p nor over 1, in the order of p, the
// order of the tests does not matter, BH ≤ Holm ≤ Bonferroni; and Holm rejects
// what the step-down procedure rejects.
func TestS10_AdjustedPBehave(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(0, 1), rapid.Float64Range(0, .02), rapid.SampledFrom([]float64{0, .01, .5, 1})), 1, 30).Draw(t, "p")
		holm, err1 := Holm(p)
		bh, err2 := BenjaminiHochberg(p)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		m := float64(len(p))
		for i := range p {
			if bh[i] < p[i] || holm[i] < p[i] || holm[i] > 1 || bh[i] > holm[i]*(1+1e-12) || holm[i] > math.Min(1, m*p[i])*(1+1e-12) {
				t.Errorf("p %v: Holm %v, BH %v", p[i], holm[i], bh[i])
			}
			for j := range p {
				if p[i] <= p[j] && (holm[i] > holm[j] || bh[i] > bh[j]) {
					t.Errorf("order broken between %v and %v", p[i], p[j])
				}
			}
		}
		order := rapid.Permutation(indices(len(p))).Draw(t, "order")
		shuffled := make([]float64, len(p))
		for i, j := range order {
			shuffled[i] = p[j]
		}
		again, err := Holm(shuffled)
		if err != nil {
			t.Fatal(err)
		}
		for i, j := range order {
			if again[i] != holm[j] {
				t.Errorf("Holm depends on the order: %v and %v", again[i], holm[j])
			}
		}
		alpha := rapid.Float64Range(.001, .2).Draw(t, "alpha")
		rejected := map[int]bool{}
		for len(rejected) < len(p) { // the procedure as Holm states it
			least := -1
			for i := range p {
				if !rejected[i] && (least < 0 || p[i] < p[least]) {
					least = i
				}
			}
			if (m-float64(len(rejected)))*p[least] > alpha {
				break
			}
			rejected[least] = true
		}
		for i := range p {
			if (holm[i] <= alpha) != rejected[i] {
				t.Errorf("p %v: adjusted %v, step-down rejects: %v", p[i], holm[i], rejected[i])
			}
		}
	})
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func TestS10_Refusals(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func([]float64) ([]float64, error){"Holm": Holm, "BH": BenjaminiHochberg} {
		if _, err := f(nil); !errors.Is(err, ErrNoData) {
			t.Errorf("%s of nothing: %v", name, err)
		}
		for _, bad := range []float64{math.NaN(), -.1, 1.1, math.Inf(1)} {
			if _, err := f([]float64{.1, bad}); !errors.Is(err, ErrRange) {
				t.Errorf("%s of %v: %v", name, bad, err)
			}
		}
	}
}
