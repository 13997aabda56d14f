package stats

import (
	"math"

	"gonum.org/v1/gonum/stat"
)

// CaseMoments holds what is kept of one case's paired trials in two arms, in
// constant room however many trials there are. The zero value has no trials.
type CaseMoments struct {
	Family     string
	N          int     // paired trials
	SumA, SumB float64 // exact for whole numbers up to 2^53, in any order
	// SSA, SSB and SSD are sums of squared deviations, of A, of B and of A−B.
	SSA, SSB, SSD float64
}

// Add takes one paired trial (Welford's update of the squares, which depend on
// the order of the trials by rounding only).
func (c *CaseMoments) Add(a, b float64) {
	before := c.Pair()
	c.N++
	c.SumA += a
	c.SumB += b
	after := c.Pair()
	da, db, ea, eb := a-before.A, b-before.B, a-after.A, b-after.B
	c.SSA += da * ea
	c.SSB += db * eb
	c.SSD += (da - db) * (ea - eb)
}

// Pair is the case as one observation, its means; 0 and 0 without trials.
func (c CaseMoments) Pair() Pair {
	n := float64(max(c.N, 1))
	return Pair{Family: c.Family, A: c.SumA / n, B: c.SumB / n}
}

// CasePairs are the cases as observations.
func CasePairs(cases []CaseMoments) []Pair {
	out := make([]Pair, len(cases))
	for i, c := range cases {
		out[i] = c.Pair()
	}
	return out
}

// PairedSplit takes the variances of a paired comparison apart.
type PairedSplit struct {
	A, B Split // of the arms' case means
	Diff Split // of the case differences A − B
	// Trials is the number of paired trials of every case; 0 when it differs.
	Trials int
	// TheseCases is the standard error of the mean difference over just these
	// cases: trial noise alone, the cases taken as fixed. The errors of
	// Difference are those of "cases like these" (statistics §0.7).
	TheseCases float64
	Cases      int
}

// SplitPairs splits variance into trial noise and what remains between cases:
// Between = Var(case means) − mean(s²/K), not below 0 (Clamped says so). Cases
// may have different numbers of trials.
//
// Assumption: trials of a case are independent and equally distributed.
// Errors: ErrNoData, ErrNotFinite, ErrOneValue (one case), ErrRange (a case
// with fewer than two paired trials: its noise cannot be told). Source: Miller
// 2024 §3.
func SplitPairs(cases []CaseMoments) (PairedSplit, error) {
	const method = "variance split"
	switch len(cases) {
	case 0:
		return PairedSplit{}, refuse(method, ErrNoData, "no cases")
	case 1:
		return PairedSplit{}, refuse(method, ErrOneValue, "one case")
	}
	out := PairedSplit{Trials: cases[0].N, Cases: len(cases)}
	var a, b, d noisy
	for i, c := range cases {
		if c.N < 2 {
			return PairedSplit{}, refuse(method, ErrRange, "case %d of family %q has %d paired trials", i+1, c.Family, c.N)
		}
		if c.N != out.Trials {
			out.Trials = 0
		}
		p := c.Pair()
		a.add(p.A, c.SSA, c.N)
		b.add(p.B, c.SSB, c.N)
		d.add(p.A-p.B, c.SSD, c.N)
	}
	for _, x := range []*noisy{&a, &b, &d} {
		for _, v := range [][]float64{x.means, x.within, x.noise} {
			if err := checkFinite(v); err != nil {
				return PairedSplit{}, &Refusal{Method: method, Rule: err}
			}
		}
	}
	out.A, out.B, out.Diff = a.split(), b.split(), d.split()
	out.TheseCases = math.Sqrt(out.Diff.Noise / float64(len(cases)))
	return out, nil
}

// noisy are case means with the variance of their trials.
type noisy struct{ means, within, noise []float64 }

func (x *noisy) add(mean, ss float64, n int) {
	s2 := max(0, ss) / float64(n-1)
	x.means, x.within, x.noise = append(x.means, mean), append(x.within, s2), append(x.noise, s2/float64(n))
}

func (x *noisy) split() Split {
	s := Split{Means: stat.Variance(x.means, nil), Within: stat.Mean(x.within, nil), Noise: stat.Mean(x.noise, nil)}
	if s.Between = s.Means - s.Noise; s.Between < 0 {
		s.Between, s.Clamped = 0, true
	}
	return s
}

// Design is the design of a comparison with the variances found here: W2 is
// the variance between the cases' true differences. The trials of a pair share
// a world, so that the noise of the difference is not the sum of the arms'
// noises: it stands whole in SA2, and SB2 is 0. ErrUneven.
func (s PairedSplit) Design(alpha, power float64) (Design, error) {
	if s.Trials == 0 {
		return Design{}, refuse("design of a comparison", ErrUneven, "%d cases", s.Cases)
	}
	return Design{W2: s.Diff.Between, SA2: s.Diff.Within, KA: s.Trials, KB: s.Trials, Alpha: alpha, Power: power}, nil
}
