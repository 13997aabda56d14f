package stats

import (
	"math"

	"gonum.org/v1/gonum/stat"
)

// cr2 is the bias-reduced clustered error of the mean of all values, and its
// Satterthwaite degrees of freedom, both in closed form for a mean. groups are
// the families, at least two.
//
// With n_g cases of N in family g, h_g = n_g/N and S_g the sum of the family's
// residuals, the adjustment (I − H_g)^(−1/2) acts on the vector of ones as the
// number (1 − h_g)^(−1/2), so that
//
//	CR2² = Σ S_g²/(1 − h_g) / N²
//	df   = 1 / (Σ h_g² + (Σ q_g)² − Σ q_g²),   q_g = h_g²/(1 − h_g)
//
// which are CR1² and C − 1 when all families have one size. The working model
// of the degrees of freedom is independent errors of equal variance.
//
// Sources: Bell and McCaffrey 2002; Pustejovsky and Tipton 2018.
func cr2(groups [][]float64) (se, df float64) {
	var n, sum float64
	for _, g := range groups {
		n += float64(len(g))
		for _, v := range g {
			sum += v
		}
	}
	mean := sum / n
	var ss, h2, q1, q2 float64
	for _, g := range groups {
		h := float64(len(g)) / n
		s := float64(len(g)) * (stat.Mean(g, nil) - mean)
		ss += s * s / (1 - h)
		h2 += h * h
		q := h * h / (1 - h)
		q1 += q
		q2 += q * q
	}
	return math.Sqrt(ss) / n, min(1/(h2+q1*q1-q2), float64(len(groups)-1))
}
