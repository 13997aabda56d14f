package stats

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// NormalMixture is the two-sided normal-mixture boundary of Howard, Ramdas,
// McAuliffe and Sekhon (Ann. Statist. 49, 2021, 1055) for a sub-Gaussian sum S
// with intrinsic time V; Rho > 0 tunes where it is tightest.
type NormalMixture struct{ Rho float64 }

// NormalMixtureAt tunes the boundary to be tightest, nearly, at intrinsic time
// v > 0 for the level alpha. ErrRange.
func NormalMixtureAt(v, alpha float64) (NormalMixture, error) {
	if !sensible(v) || !(alpha > 0 && alpha < 1) {
		return NormalMixture{}, refuse("normal mixture", ErrRange, "intrinsic time %v, alpha %v", v, alpha)
	}
	l := -2 * math.Log(alpha)
	return NormalMixture{Rho: v / (l + math.Log1p(l))}, nil
}

// Evidence is the mixture martingale at sum s and intrinsic time v ≥ 0.
// ErrRange, ErrNotFinite.
func (m NormalMixture) Evidence(s, v float64) (Evidence, error) {
	if err := m.check(v); err != nil {
		return Evidence{}, err
	}
	return finiteEvidence("normal mixture", .5*math.Log(m.Rho/(m.Rho+v))+s*s/(2*(v+m.Rho)))
}

// Bound is the |s| at which Evidence reaches 1/alpha. ErrRange.
func (m NormalMixture) Bound(v, alpha float64) (float64, error) {
	if err := m.check(v); err != nil {
		return 0, err
	}
	if !(alpha > 0 && alpha < 1) {
		return 0, refuse("normal mixture", ErrRange, "alpha %v", alpha)
	}
	return math.Sqrt((v + m.Rho) * (math.Log1p(v/m.Rho) - 2*math.Log(alpha))), nil
}

func (m NormalMixture) check(v float64) error {
	if !sensible(m.Rho) || !sensibleTime(v) {
		return refuse("normal mixture", ErrRange, "rho %v, intrinsic time %v", m.Rho, v)
	}
	return nil
}

// GammaExponential is the one-sided gamma-exponential mixture (Howard et al.
// 2021) for a sum S of observations with sub-exponential scale C
// > 0: heavier upper tails than the normal mixture allows.
type GammaExponential struct{ Rho, C float64 }

// GammaExponentialAt tunes the boundary near intrinsic time v > 0 for the level
// alpha < ½. ErrRange.
func GammaExponentialAt(v, alpha, c float64) (GammaExponential, error) {
	const method = "gamma-exponential mixture"
	if !(alpha > 0 && alpha < .5) || !sensible(c) {
		return GammaExponential{}, refuse(method, ErrRange, "alpha %v, scale %v", alpha, c)
	}
	normal, err := NormalMixtureAt(v, 2*alpha)
	if err != nil {
		return GammaExponential{}, err
	}
	return GammaExponential{Rho: normal.Rho, C: c}, nil
}

// Evidence is the mixture martingale at sum s and intrinsic time v ≥ 0; a sum
// at or under −(v+Rho)/C has none, and is refused. ErrRange, ErrNotFinite.
func (m GammaExponential) Evidence(s, v float64) (Evidence, error) {
	if err := m.check(v); err != nil {
		return Evidence{}, err
	}
	if !finite(s) || m.C*s+v+m.Rho <= 0 {
		return Evidence{}, refuse("gamma-exponential mixture", ErrRange, "sum %v", s)
	}
	return finiteEvidence("gamma-exponential mixture", m.log(s, v))
}

// Bound is the s at which Evidence reaches 1/alpha. ErrRange, ErrNotFinite.
func (m GammaExponential) Bound(v, alpha float64) (float64, error) {
	if err := m.check(v); err != nil {
		return 0, err
	}
	return mixtureBound("gamma-exponential mixture", alpha, math.MaxFloat64, func(s float64) float64 { return m.log(s, v) })
}

func (m GammaExponential) log(s, v float64) float64 {
	c2 := m.C * m.C
	shape, now := m.Rho/c2, (v+m.Rho)/c2
	at := (m.C*s+v)/c2 + shape
	return shape*math.Log(shape) - lgamma(shape) - math.Log(mathext.GammaIncReg(shape, shape)) +
		lgamma(now) + math.Log(mathext.GammaIncReg(now, at)) - now*math.Log(at) + at - shape
}

func (m GammaExponential) check(v float64) error {
	if !sensible(m.Rho) || !sensible(m.C) || !sensibleTime(v) {
		return refuse("gamma-exponential mixture", ErrRange, "rho %v, scale %v, intrinsic time %v", m.Rho, m.C, v)
	}
	return nil
}

// BetaBinomial is the two-sided beta-binomial mixture (Howard et al.
// 2021) for a sum S of independent centred observations in [−G, H].
type BetaBinomial struct{ R, G, H float64 }

// BetaBinomialAt tunes the boundary near intrinsic time v > 0 for the level
// alpha, observations in [−g, h]. ErrRange.
func BetaBinomialAt(v, alpha, g, h float64) (BetaBinomial, error) {
	if !sensible(g) || !sensible(h) {
		return BetaBinomial{}, refuse("beta-binomial mixture", ErrRange, "observations in [-%v, %v]", g, h)
	}
	normal, err := NormalMixtureAt(v, alpha)
	if err != nil {
		return BetaBinomial{}, err
	}
	return BetaBinomial{R: math.Max(normal.Rho-g*h, 1e-3*g*h), G: g, H: h}, nil
}

// Evidence is the mixture martingale at sum s and intrinsic time v ≥ 0,
// −v/H ≤ s ≤ v/G. ErrRange, ErrNotFinite.
func (m BetaBinomial) Evidence(s, v float64) (Evidence, error) {
	if err := m.check(v); err != nil {
		return Evidence{}, err
	}
	if !(s >= -v/m.H && s <= v/m.G) {
		return Evidence{}, refuse("beta-binomial mixture", ErrRange, "sum %v at intrinsic time %v", s, v)
	}
	return finiteEvidence("beta-binomial mixture", m.log(s, v))
}

// Bound is the s > 0 at which Evidence reaches 1/alpha. ErrRange, ErrNotFinite;
// ErrUnreached when no sum that can occur at time v reaches it.
func (m BetaBinomial) Bound(v, alpha float64) (float64, error) {
	if err := m.check(v); err != nil {
		return 0, err
	}
	return mixtureBound("beta-binomial mixture", alpha, v/m.G, func(s float64) float64 { return m.log(s, v) })
}

func (m BetaBinomial) log(s, v float64) float64 {
	span := m.G + m.H
	up, down := (v+m.H*s)/(m.H*span), (v-m.G*s)/(m.G*span)
	a, b := m.R/(m.G*span), m.R/(m.H*span)
	return v/(m.G*m.H)*math.Log(span) - up*math.Log(m.G) - down*math.Log(m.H) +
		mathext.Lbeta(a+down, b+up) - mathext.Lbeta(a, b)
}

func (m BetaBinomial) check(v float64) error {
	if !sensible(m.G) || !sensible(m.H) || !(m.R > 0) || !finite(m.R) || !sensibleTime(v) {
		return refuse("beta-binomial mixture", ErrRange, "%+v, intrinsic time %v", m, v)
	}
	return nil
}

// PolyStitching is the polynomial stitched boundary (Howard et al. 2021,
// Theorem 1, s = 1.4, η = 2): u with P(some V ≥ start has S ≥ u(V)) ≤ alpha, for
// sub-gamma sums of scale c (0: sub-Gaussian). Before start it stays as at
// start. It grows as √(V log log V). start > 0. ErrRange.
func PolyStitching(v, alpha, start, c float64) (float64, error) {
	const power, eta = 1.4, 2.0
	if !(alpha > 0 && alpha < 1) || !sensible(start) || !sensibleTime(v) || !sensibleTime(c) {
		return 0, refuse("polynomial stitching", ErrRange, "intrinsic time %v, alpha %v, start %v, scale %v", v, alpha, start, c)
	}
	v = math.Max(v, start)
	k1 := (math.Pow(eta, .25) + math.Pow(eta, -.25)) / math.Sqrt2
	k2 := (math.Sqrt(eta) + 1) / 2
	ell := power*math.Log(math.Log(eta*v/start)) + math.Log(mathext.Zeta(power, 1)/math.Pow(math.Ln2, power)) - math.Log(alpha)
	slope := k2 * c * ell
	return math.Sqrt(k1*k1*v*ell+slope*slope) + slope, nil
}

// sensible and sensibleTime bound the arguments of boundaries, from 10⁻¹² (0
// for a time) to 10¹²: outside, the formulas lose their digits, and gonum's
// incomplete gamma function panics. Scale the sum.
func sensible(x float64) bool     { return x >= 1e-12 && x <= 1e12 }
func sensibleTime(x float64) bool { return x >= 0 && x <= 1e12 }

// mixtureBound finds the sum in (0, most] at which a mixture, rising from s = 0
// on, reaches 1/alpha.
func mixtureBound(method string, alpha, most float64, log func(s float64) float64) (float64, error) {
	if !(alpha > 0 && alpha < 1) {
		return 0, refuse(method, ErrRange, "alpha %v", alpha)
	}
	under := func(s float64) bool { return log(s) < -math.Log(alpha) }
	hi := math.Min(1, most)
	for under(hi) {
		if hi == most || hi > 1e12 {
			return 0, refuse(method, ErrUnreached, "alpha %v", alpha)
		}
		hi = math.Min(2*hi, most)
	}
	out := bisect(0, hi, under)
	if !finite(log(out)) {
		return 0, refuse(method, ErrNotFinite, "alpha %v", alpha)
	}
	return out, nil
}

func lgamma(x float64) float64 {
	v, _ := math.Lgamma(x)
	return v
}
