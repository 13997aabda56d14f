package stats

import (
	"fmt"
	"math"
	"testing"
)

// TestS14_StudentsQuantileWhereGonumErrs inverts the tail over degrees of
// freedom from 1 to 2·10⁷, whole and not.
func TestS14_StudentsQuantileWhereGonumErrs(t *testing.T) {
	t.Parallel()
	gonumErrs := 0
	for df := 1.0; df < 2e7; df *= 2 {
		for _, tail := range []float64{.9, .5, .4, .2, .05, .025, .005, 1e-4, 1e-7, 1e-12} {
			x := tUpper(tail, df)
			if got := student(df).Survival(x); !(math.Abs(got-tail) <= 1e-8*tail) {
				t.Errorf("df %v, tail %v: x %v has tail %v", df, tail, x, got)
			}
			if tail < .5 && math.Abs(student(df).Quantile(1-tail)-x) > .01*x {
				gonumErrs++
			}
		}
	}
	if gonumErrs == 0 {
		t.Error("gonum's quantile is right everywhere: tUpper can go")
	}
	// Tables of Student's t.
	for _, v := range []struct{ tail, df, want float64 }{
		{.025, 5, 2.570582}, {.05, 11, 1.795885}, {.025, 11, 2.200985}, {.005, 1, 63.65674}, {.025, 1e7, 1.959964},
	} {
		near(t, fmt.Sprintf("t of %v at %v", v.df, v.tail), tUpper(v.tail, v.df), v.want, 6e-6)
	}
}
