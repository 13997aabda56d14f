package stats

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// Evidence is an e-value: the wealth of a bet of 1 against the hypothesis, as
// its natural logarithm, so that it never overflows. Under the hypothesis the
// expected wealth is at most 1 at every stopping time, so the chance that it
// ever reaches 1/alpha is at most alpha (Ville 1939): one may look after every
// family and stop when the money ends.
type Evidence struct{ Log float64 }

// Value is the e-value, cut to the greatest finite number.
func (e Evidence) Value() float64 { return math.Min(math.Exp(e.Log), math.MaxFloat64) }

// P is the anytime-valid p value min(1, 1/e).
func (e Evidence) P() float64 { return math.Min(1, math.Exp(-e.Log)) }

// Rejects says whether the evidence has reached 1/alpha, 0 < alpha < 1.
func (e Evidence) Rejects(alpha float64) bool {
	return alpha > 0 && alpha < 1 && e.Log >= -math.Log(alpha)
}

// AverageEvidence is the mean of e-values of one hypothesis (or of all of
// several hypotheses), which is an e-value however they depend on each other:
// for arms that share cases. ErrNoData, ErrNotFinite.
func AverageEvidence(es []Evidence) (Evidence, error) {
	top, err := checkEvidence("average of e-values", es)
	if err != nil {
		return Evidence{}, err
	}
	var sum float64
	for _, e := range es {
		sum += math.Exp(e.Log - top)
	}
	return Evidence{Log: top + math.Log(sum/float64(len(es)))}, nil
}

// ProductEvidence is the product, an e-value only when the parts are
// independent (separate families) or each was staked knowing those before.
// ErrNoData, ErrNotFinite.
func ProductEvidence(es []Evidence) (Evidence, error) {
	if _, err := checkEvidence("product of e-values", es); err != nil {
		return Evidence{}, err
	}
	var out Evidence
	for _, e := range es {
		out.Log += e.Log
	}
	return finiteEvidence("product of e-values", out.Log)
}

func checkEvidence(method string, es []Evidence) (top float64, err error) {
	if len(es) == 0 {
		return 0, refuse(method, ErrNoData, "0 e-values")
	}
	top = es[0].Log
	for i, e := range es {
		if !finite(e.Log) {
			return 0, refuse(method, ErrNotFinite, "e-value %d", i+1)
		}
		top = math.Max(top, e.Log)
	}
	return top, nil
}

func finiteEvidence(method string, log float64) (Evidence, error) {
	if !finite(log) {
		return Evidence{}, refuse(method, ErrNotFinite, "log e-value %v", log)
	}
	return Evidence{Log: log}, nil
}

// MSPRT is the mixture sequential probability ratio test of Johari, Koomen,
// Pekelis and Walsh (Oper. Res. 70, 2022, 1806) for the mean of independent
// normal observations of KNOWN variance, against a N(Null, Prior) mixture. With
// an estimated variance it is only approximate: prefer Betting for the gate.
type MSPRT struct {
	Null     float64 // the mean under the hypothesis
	Variance float64 // of one observation, known, > 0
	Prior    float64 // variance of the mixture, > 0
}

// Evidence is the likelihood ratio after n observations with the mean given.
// The p value of a running test is the least P so far. ErrRange, ErrNotFinite.
func (m MSPRT) Evidence(n int, mean float64) (Evidence, error) {
	const method = "mSPRT"
	if n < 0 || !(m.Variance > 0) || !(m.Prior > 0) || !finite(m.Variance) || !finite(m.Prior) {
		return Evidence{}, refuse(method, ErrRange, "n %d, variance %v, prior %v", n, m.Variance, m.Prior)
	}
	if !finite(mean) || !finite(m.Null) {
		return Evidence{}, refuse(method, ErrNotFinite, "mean %v, hypothesis %v", mean, m.Null)
	}
	k, d := float64(n), mean-m.Null
	total := m.Variance + k*m.Prior
	return finiteEvidence(method, .5*math.Log(m.Variance/total)+k*d*k*d*m.Prior/(2*m.Variance*total))
}

// DiscordantEvidence is the two-sided e-value against "discordant pairs fall
// either way with chance ½", 2^(b+c)·B(b+1, c+1), the uniform mixture of
// binomial likelihood ratios. It assumes independent pairs: one trial per arm
// and case, no families; else use Betting. ErrRange, ErrNoData.
func (t PairedTable) DiscordantEvidence() (Evidence, error) {
	if err := t.check("discordant-pair e-value"); err != nil {
		return Evidence{}, err
	}
	b, c := float64(t.AOnly), float64(t.BOnly)
	return Evidence{Log: (b+c)*math.Ln2 + mathext.Lbeta(b+1, c+1)}, nil
}

// RobbinsRate is the confidence sequence of level 1 − alpha for a rate after s
// events in n independent units, by the uniform mixture (Robbins, Ann. Math.
// Statist. 41, 1970, 1397): the rates p with B(s+1, n−s+1) < p^s(1−p)^(n−s)/alpha.
// It holds at all n at once, so one may stop at any; it is wider than an
// interval for one look. ErrRange; with no unit it is [0, 1].
func RobbinsRate(s, n int, alpha float64) (Interval, error) {
	if s < 0 || n < s || !(alpha > 0 && alpha < 1) {
		return Interval{}, refuse("Robbins confidence sequence", ErrRange, "%d of %d, alpha %v", s, n, alpha)
	}
	out := Interval{Lo: 0, Hi: 1}
	if n == 0 {
		return out, nil
	}
	hit, miss := float64(s), float64(n-s)
	limit := mathext.Lbeta(hit+1, miss+1) + math.Log(alpha)
	inside := func(p float64) bool { return xlogy(hit, p)+xlog1py(miss, -p) > limit }
	est := hit / float64(n)
	if s > 0 {
		out.Lo = bisect(0, est, func(p float64) bool { return !inside(p) })
	}
	if s < n {
		out.Hi = bisect(est, 1, inside)
	}
	return out, nil
}

// BetaRate is the confidence sequence of level 1 − alpha for a rate after s
// events in n independent units by a beta mixture centred on each rate in turn
// (Howard, Ramdas, McAuliffe and Sekhon, Ann. Statist. 49, 2021, 1055), tightest near n = tuned units. RobbinsRate needs no tuning and
// is wider there. ErrRange; with no unit it is [0, 1].
func BetaRate(s, n int, alpha float64, tuned int) (Interval, error) {
	if s < 0 || n < s || !(alpha > 0 && alpha < 1) || tuned < 1 {
		return Interval{}, refuse("beta-mixture confidence sequence", ErrRange, "%d of %d, alpha %v, tuned to %d", s, n, alpha, tuned)
	}
	out := Interval{Lo: 0, Hi: 1}
	if n == 0 {
		return out, nil
	}
	hit, miss := float64(s), float64(n-s)
	best, err := NormalMixtureAt(float64(tuned), .05)
	if err != nil {
		return Interval{}, err
	}
	weight := math.Max(best.Rho-1, 1e-3) // of the mixture, in units
	inside := func(p float64) bool {
		if p <= 0 || p >= 1 {
			return false
		}
		a, b := p*weight, (1-p)*weight
		log := mathext.Lbeta(a+hit, b+miss) - mathext.Lbeta(a, b) - xlogy(hit, p) - xlog1py(miss, -p)
		return log < -math.Log(alpha)
	}
	est := hit / float64(n)
	if s > 0 {
		out.Lo = bisect(0, est, func(p float64) bool { return !inside(p) })
	}
	if s < n {
		out.Hi = bisect(est, 1, inside)
	}
	return out, nil
}

// xlogy is x·ln y, 0 when x is 0.
func xlogy(x, y float64) float64 {
	if x == 0 {
		return 0
	}
	return x * math.Log(y)
}

// xlog1py is x·ln(1+y), 0 when x is 0.
func xlog1py(x, y float64) float64 {
	if x == 0 {
		return 0
	}
	return x * math.Log1p(y)
}
