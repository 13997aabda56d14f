package gate

import (
	"fmt"
	"strconv"
	"testing"
)

// TestQ5_ExactBoundsHoldForFamiliesOfAnySize computes, without any draw, how
// often the bounds of a rare rate hold when whole families are events or not,
// which is the worst that families can do: each with the true rate, the sizes
// as in the calibration (docs/calibration.md). Both must hold in 95 % at every
// rate.
func TestQ5_ExactBoundsHoldForFamiliesOfAnySize(t *testing.T) {
	t.Parallel()
	type named struct {
		name  string
		sizes []int
	}
	designs := []named{
		{"one twice the others", []int{2, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
		{"large and small", []int{7, 1, 7, 1, 7, 1, 7, 1, 7, 1, 7, 1, 7, 1, 7, 1}},
		{"at the limit", []int{22, 10, 10, 10, 10, 10, 10, 10, 10}},
		{"just beyond it", []int{23, 10, 10, 10, 10, 10, 10, 10, 10}},
		{"two large", []int{30, 30, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4}},
	}
	for _, s := range shapes() {
		for _, families := range []int{8, 12, 24, 48} {
			designs = append(designs, named{fmt.Sprintf("%s, %d families", s, families), design{s, families}.sizes()})
		}
	}
	for _, d := range designs {
		var of []string
		for f, k := range d.sizes {
			for range k {
				of = append(of, strconv.Itoa(f))
			}
		}
		w := weigh(of)
		n := len(of)
		lo, hi := make([]float64, n+1), make([]float64, n+1)
		for x := range n + 1 {
			var err error
			if lo[x], hi[x], err = w.exact(float64(x)/float64(n), .95, x == 0 || x == n); err != nil {
				t.Fatal(err)
			}
		}
		for rate := .005; rate <= .5; rate += .005 {
			var upper, lower float64
			for x, p := range eventCases(d.sizes, rate) {
				if hi[x] >= rate {
					upper += p
				}
				if lo[x] <= rate {
					lower += p
				}
			}
			if upper < .95-1e-9 || lower < .95-1e-9 {
				t.Errorf("%s, rate %.3f: the upper bound holds in %.4f, the lower in %.4f", d.name, rate, upper, lower)
			}
		}
	}
}

// eventCases is the distribution of the number of cases in families that are
// events.
func eventCases(sizes []int, rate float64) []float64 {
	out := []float64{1}
	for _, k := range sizes {
		next := make([]float64, len(out)+k)
		for x, p := range out {
			next[x] += p * (1 - rate)
			next[x+k] += p * rate
		}
		out = next
	}
	return out
}
