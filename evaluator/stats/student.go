package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

func student(df float64) distuv.StudentsT { return distuv.StudentsT{Mu: 0, Sigma: 1, Nu: df} }

// tUpper is the value that Student's t of df degrees of freedom exceeds with
// probability tail, in (0, 1). gonum v0.17.0 errs at some large df (with
// 1,481,130 degrees and a tail of 10⁻⁷ by a factor of 60), so its quantile is
// kept only where the tail beyond it is right.
func tUpper(tail, df float64) float64 {
	if tail > .5 {
		return -tUpper(1-tail, df)
	}
	d := student(df)
	if x := d.Quantile(1 - tail); math.Abs(d.Survival(x)-tail) <= 1e-10*tail {
		return x
	}
	hi := 1.0
	for d.Survival(hi) > tail {
		hi *= 2
	}
	return bisect(0, hi, func(x float64) bool { return d.Survival(x) > tail })
}

// StudentQuantile is the value that Student's t of df degrees of freedom, above
// 0, stays below with probability p, in (0, 1). Right in the far tail and at any
// df, where the library's own is not (see tUpper).
func StudentQuantile(p, df float64) float64 { return tUpper(1-p, df) }

// tTwoSided is the critical value of a two-sided interval of the level.
func tTwoSided(level, df float64) float64 { return tUpper((1-level)/2, df) }
