package stats

import (
	"math"

	"gonum.org/v1/gonum/integrate/quad"
	"gonum.org/v1/gonum/stat/distuv"
)

// Spending is a rule that says how much of alpha may be used up when a share
// of the planned information is in (Lan and DeMets, Biometrika 70, 1983, 659).
type Spending string

// The spending functions.
const (
	// OBrienFleming spends 2 − 2Φ(z(1−α/2)/√t): next to nothing early.
	OBrienFleming Spending = "obrien-fleming"
	// Pocock spends α·ln(1 + (e−1)t): nearly evenly.
	Pocock Spending = "pocock"
)

// Spent is the alpha that one side may have spent when the share t of the
// information is in, 0 < t ≤ 1. It rises with t and is alpha at t = 1. ErrRange.
func (s Spending) Spent(alpha, t float64) (float64, error) {
	const method = "alpha spending"
	if !(alpha > 0 && alpha < 1) || !(t > 0 && t <= 1) {
		return 0, refuse(method, ErrRange, "alpha %v, information %v", alpha, t)
	}
	switch s {
	case OBrienFleming:
		z := -distuv.UnitNormal.Quantile(alpha / 2)
		return math.Min(alpha, 2*distuv.UnitNormal.Survival(z/math.Sqrt(t))), nil
	case Pocock:
		return math.Min(alpha, alpha*math.Log1p((math.E-1)*t)), nil
	}
	return 0, refuse(method, ErrRange, "spending function %q is neither %q nor %q", string(s), OBrienFleming, Pocock)
}

// Sides says which crossings end a test.
type Sides int

// The sides of a test.
const (
	UpperSide Sides = 1 // only Z ≥ boundary rejects
	BothSides Sides = 2 // |Z| ≥ boundary rejects; each side spends alpha/2
)

// Look is one of the pre-declared analyses.
type Look struct {
	Information float64 // share of the planned information, in (0, 1]
	Z           float64 // boundary for a normal statistic
	// NominalP is the p value, of the test's sides, that the boundary stands
	// for. Compare p with it, not a t statistic with Z: with few families the
	// tails of t are heavier.
	NominalP float64
	Spent    float64 // alpha spent up to and with this look
}

// Crossed says whether a p value, of the same sides as the looks, is at or
// beyond the boundary.
func (l Look) Crossed(p float64) bool { return p <= l.NominalP }

// SpendingLooks computes the boundaries of looks at the shares of information
// given, strictly increasing in (0, 1], so that the chance of crossing under
// the hypothesis follows the spending function at every look (Armitage,
// McPherson and Rowe 1969 for the recursion). BothSides spends alpha/2 with the
// function on each side, which is not the same as spending alpha once.
//
// It assumes that statistics at the looks are those of independent normal
// increments: information is the share of FAMILIES done, in an order declared
// before. Number and places of the looks may depend on the calendar, never on
// the results. A last look before 1 leaves alpha unspent.
//
// Errors: ErrNoData, ErrRange, ErrOrder; ErrSpent where a look is so close to
// the one before, or so early, that it has no alpha to spend.
func SpendingLooks(s Spending, alpha float64, information []float64, sides Sides) ([]Look, error) {
	const method = "alpha spending"
	if err := checkLooks(method, alpha, information, sides); err != nil {
		return nil, err
	}
	looks := make([]Look, len(information))
	w := newWalk(sides)
	var before float64
	for i, t := range information {
		spent, err := s.Spent(alpha/float64(sides), t)
		if err != nil {
			return nil, err
		}
		use := spent - before
		if !(use > leastSpend) {
			return nil, refuse(method, ErrSpent, "look %d at information %v may use %v", i+1, t, use)
		}
		z := w.boundary(t, use)
		w.advance(t, z)
		before = spent
		looks[i] = Look{Information: t, Z: z, NominalP: float64(sides) * distuv.UnitNormal.Survival(z), Spent: float64(sides) * spent}
	}
	return looks, nil
}

// ClassicOBrienFleming is the design of O'Brien and Fleming (Biometrics 35,
// 1979, 549): k equally spaced looks with boundaries C·√(k/i). Errors as
// SpendingLooks.
func ClassicOBrienFleming(alpha float64, k int, sides Sides) ([]Look, error) {
	return classic("O'Brien-Fleming design", alpha, k, sides, func(i int) float64 { return math.Sqrt(float64(k) / float64(i)) })
}

// ClassicPocock is the design of Pocock (Biometrika 64, 1977, 191): k equally
// spaced looks with one boundary. Errors as SpendingLooks.
func ClassicPocock(alpha float64, k int, sides Sides) ([]Look, error) {
	return classic("Pocock design", alpha, k, sides, func(int) float64 { return 1 })
}

// BonferroniLooks splits alpha evenly over k looks. It needs no assumption
// about how the looks depend on each other, and is slightly conservative.
// Errors as SpendingLooks.
func BonferroniLooks(alpha float64, k int, sides Sides) ([]Look, error) {
	info := equalLooks(k)
	if err := checkLooks("Bonferroni looks", alpha, info, sides); err != nil {
		return nil, err
	}
	looks := make([]Look, k)
	for i := range looks {
		p := alpha / float64(k)
		looks[i] = Look{
			Information: info[i], NominalP: p, Spent: math.Min(alpha, p*float64(i+1)),
			Z: -distuv.UnitNormal.Quantile(p / float64(sides)),
		}
	}
	return looks, nil
}

const (
	// leastSpend is the least alpha of one look: under it the quadrature has no
	// digits left, and no p value of a finite sample reaches it.
	leastSpend = 1e-14
	// maxLooks and leastStep bound the work of the recursion.
	maxLooks  = 200
	leastStep = 1e-3
	// reach is where the recursion cuts the normal density off: beyond nine
	// standard errors lie 1e-19.
	reach = 9.0
)

func equalLooks(k int) []float64 {
	if k < 1 || k > maxLooks {
		return nil
	}
	out := make([]float64, k)
	for i := range out {
		out[i] = float64(i+1) / float64(k)
	}
	return out
}

func checkLooks(method string, alpha float64, information []float64, sides Sides) error {
	switch {
	case len(information) == 0:
		return refuse(method, ErrNoData, "no looks, or more than %d", maxLooks)
	case len(information) > maxLooks:
		return refuse(method, ErrRange, "%d looks, at most %d", len(information), maxLooks)
	case !(alpha > leastSpend && alpha < .5):
		return refuse(method, ErrRange, "alpha %v is not in (%v, 0.5)", alpha, leastSpend)
	case sides != UpperSide && sides != BothSides:
		return refuse(method, ErrRange, "%d sides", int(sides))
	}
	var before float64
	for i, t := range information {
		if !(t > 0 && t <= 1) {
			return refuse(method, ErrRange, "look %d: information %v is not in (0, 1]", i+1, t)
		}
		if t <= before {
			return refuse(method, ErrOrder, "look %d: information %v after %v", i+1, t, before)
		}
		if i > 0 && t-before < leastStep {
			return refuse(method, ErrRange, "look %d comes %v after the one before, at least %v", i+1, t-before, leastStep)
		}
		before = t
	}
	return nil
}

// classic finds the constant by which shape must be multiplied for the looks
// to spend alpha in all.
func classic(method string, alpha float64, k int, sides Sides, shape func(i int) float64) ([]Look, error) {
	info := equalLooks(k)
	if err := checkLooks(method, alpha, info, sides); err != nil {
		return nil, err
	}
	design := func(c float64) []Look {
		w := newWalk(sides)
		looks := make([]Look, k)
		var spent float64
		for i, t := range info {
			z := c * shape(i+1)
			spent += w.crossing(t, z)
			w.advance(t, z)
			looks[i] = Look{Information: t, Z: z, NominalP: float64(sides) * distuv.UnitNormal.Survival(z), Spent: float64(sides) * spent}
		}
		return looks
	}
	// At the boundary of one look too much is spent, at Bonferroni's too little.
	lo := -distuv.UnitNormal.Quantile(alpha / float64(sides))
	hi := -distuv.UnitNormal.Quantile(alpha / float64(sides) / float64(k))
	for range 48 {
		mid := lo + (hi-lo)/2
		if design(mid)[k-1].Spent > alpha {
			lo = mid
		} else {
			hi = mid
		}
	}
	return design(hi), nil
}

// walk is the sub-density, under the hypothesis, of the score Z·√t over the
// paths that have not crossed: weights at the nodes of a Gauss-Legendre rule.
type walk struct {
	sides Sides
	t     float64   // information at the last look; 0 before the first
	s, w  []float64 // nodes, and density times weight of the rule
}

func newWalk(sides Sides) *walk { return &walk{sides: sides} }

// crossing is the chance of crossing z at information t, upper side only, on a
// path that has not crossed before.
func (w *walk) crossing(t, z float64) float64 {
	if w.t == 0 {
		return distuv.UnitNormal.Survival(z)
	}
	at, sd := z*math.Sqrt(t), math.Sqrt(t-w.t)
	var sum float64
	for i, s := range w.s {
		sum += w.w[i] * .5 * math.Erfc((at-s)/(sd*math.Sqrt2))
	}
	return sum
}

// boundary is the z which is crossed at t with chance use.
func (w *walk) boundary(t, use float64) float64 {
	if w.t == 0 {
		return -distuv.UnitNormal.Quantile(use)
	}
	return bisect(-reach, reach, func(z float64) bool { return w.crossing(t, z) > use })
}

// advance takes the density over to information t, without what crosses z.
func (w *walk) advance(t, z float64) {
	lo, hi := -reach*math.Sqrt(t), math.Min(z, reach)*math.Sqrt(t)
	if w.sides == BothSides {
		lo = -hi
	}
	step := t - w.t
	// The kernel has width √step. Four nodes of the rule to a width give ten
	// decimals in the tightest step allowed; five are taken.
	n := 24 + int(5*(hi-lo)/math.Sqrt(step))
	s, weight := make([]float64, n), make([]float64, n)
	quad.Legendre{}.FixedLocations(s, weight, lo, hi)
	for j := range s {
		weight[j] *= w.density(s[j], step)
	}
	w.t, w.s, w.w = t, s, weight
}

// density is that of the score at s, step information after the last look.
func (w *walk) density(s, step float64) float64 {
	norm := 1 / math.Sqrt(2*math.Pi*step)
	if w.t == 0 {
		return norm * math.Exp(-s*s/(2*step))
	}
	var sum float64
	for i, from := range w.s {
		d := s - from
		sum += w.w[i] * math.Exp(-d*d/(2*step))
	}
	return norm * sum
}
