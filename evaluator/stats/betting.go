package stats

import "math"

// Betting is the e-process of Waudby-Smith and Ramdas (J. R. Statist. Soc. B
// 86, 2024, 1) for a mean of bounded observations, staked one family at a time:
// it multiplies its wealth by 1 + λ·(x − Null). The hypothesis it bets against
// is E[x] ≤ Null for every family given those before it, x in [Low, High].
//
// It assumes that the order of the families was declared before any result
// (else the order can be chosen to win) and nothing else: families may be of
// any size and distribution. Each family is one observation, its mean, so the
// estimand is the mean over families. Add a family once, when all of its planned
// trials are done: families cut short, or means that change from look to look,
// make another process at every look, and no level holds for looking at several.
//
// The zero value is unusable; use NewBetting, NonInferiorBetting or
// RateBelowBetting.
type Betting struct {
	rule  BettingRule
	n     int
	sum   float64 // of the observations so far
	sq    float64 // of their squared distances from Null
	log   float64 // of the wealth now
	peak  float64 // the greatest log wealth so far
	limit float64 // λ that could lose everything, 1/(Null−Low)
}

// BettingRule declares an e-process, before the first family.
type BettingRule struct {
	Low, High float64 // bounds of an observation
	Null      float64 // the hypothesis: mean ≤ Null; Low < Null < High
	// Fixed is λ for every family, 0 ≤ λ < 1/(Null−Low). With 0, λ is
	// predicted from the families before: the Kelly-like stake
	// (mean − Null) / (variance about Null), shrunk by one observation at Null
	// with a variance of (range/4)², at least 0 and at most Cap/(Null−Low).
	Fixed float64
	Cap   float64 // in (0, 1); 0 stands for ¾
}

// NewBetting starts with a wealth of 1. ErrRange, ErrNotFinite.
func NewBetting(r BettingRule) (*Betting, error) {
	const method = "betting e-process"
	for _, v := range []float64{r.Low, r.High, r.Null, r.Fixed, r.Cap} {
		if !finite(v) {
			return nil, refuse(method, ErrNotFinite, "%+v", r)
		}
	}
	if !(r.Low < r.Null && r.Null < r.High) || r.Cap < 0 || r.Cap >= 1 {
		return nil, refuse(method, ErrRange, "%+v", r)
	}
	if r.Cap == 0 {
		r.Cap = .75
	}
	limit, span := 1/(r.Null-r.Low), r.High-r.Low
	if !finite(limit) || !finite(span*span*mostUnits) || span*span < math.SmallestNonzeroFloat64*mostUnits {
		return nil, refuse(method, ErrRange, "observations in [%v, %v]: scale them", r.Low, r.High)
	}
	if r.Fixed < 0 || r.Fixed >= limit {
		return nil, refuse(method, ErrRange, "stake %v is not in [0, %v)", r.Fixed, limit)
	}
	return &Betting{rule: r, limit: limit}, nil
}

// NonInferiorBetting bets against "A is worse than B by margin or more": the
// observations are family means of A − B in [−1, 1], the hypothesis is
// E[x] ≤ −margin, 0 ≤ margin < 1 (0: superiority). λ is predicted. ErrRange.
func NonInferiorBetting(margin float64) (*Betting, error) {
	if !(margin >= 0 && margin < 1) {
		return nil, refuse("betting e-process", ErrRange, "margin %v is not in [0, 1)", margin)
	}
	return NewBetting(BettingRule{Low: -1, High: 1, Null: -margin})
}

// RateBelowBetting bets against "the rate is limit or more"; observations for
// Add are MINUS the family's rate of events, in [−1, 0]. 0 < limit < 1. λ is
// predicted. ErrRange.
func RateBelowBetting(limit float64) (*Betting, error) {
	if !(limit > 0 && limit < 1) {
		return nil, refuse("betting e-process", ErrRange, "limit %v is not in (0, 1)", limit)
	}
	return NewBetting(BettingRule{Low: -1, High: 0, Null: -limit})
}

// Stake is λ for the next family; it depends only on the families before.
func (b *Betting) Stake() float64 {
	if b.rule.Fixed > 0 {
		return b.rule.Fixed
	}
	n, span := float64(b.n), b.rule.High-b.rule.Low
	lead := (b.sum - n*b.rule.Null) / (n + 1)
	variance := (b.sq + span*span/16) / (n + 1)
	return math.Min(math.Max(lead/variance, 0), b.rule.Cap*b.limit)
}

// Add stakes on the next family and pays out; it gives the wealth now.
// ErrRange for an observation out of bounds, ErrNotFinite; then nothing
// changes.
func (b *Betting) Add(x float64) (Evidence, error) {
	const method = "betting e-process"
	if !finite(x) {
		return Evidence{}, refuse(method, ErrNotFinite, "family %d", b.n+1)
	}
	if x < b.rule.Low || x > b.rule.High {
		return Evidence{}, refuse(method, ErrRange, "family %d: %v is not in [%v, %v]", b.n+1, x, b.rule.Low, b.rule.High)
	}
	d := x - b.rule.Null
	b.log += math.Log1p(b.Stake() * d)
	b.peak = math.Max(b.peak, b.log)
	b.n++
	b.sum += x
	b.sq += d * d
	return b.Now(), nil
}

// Families is the number of families staked on.
func (b *Betting) Families() int { return b.n }

// Now is the wealth now.
func (b *Betting) Now() Evidence { return Evidence{Log: b.log} }

// Peak is the greatest wealth so far, at least 1: its P is the anytime-valid p
// value of the process, and a boundary once crossed stays crossed.
func (b *Betting) Peak() Evidence { return Evidence{Log: b.peak} }

// bettingGrid is the number of hypotheses that BettingLower tries.
const bettingGrid = 1000

// BettingLower is the lower confidence bound of the mean of observations in
// [low, high], in their declared order, that holds at every number of families
// at once with confidence 1 − alpha: the greatest of 999 evenly spaced values
// up to which a bet (λ predicted) against every "mean ≤ value" has reached
// 1/alpha, or low when there is none. Negate observations and bounds for an
// upper bound.
//
// It assumes what Betting does. The grid costs up to a 1,000th of the range and
// no confidence: a false bound means that the bet against the first grid value
// at or over the true mean has won. ErrNoData, ErrRange, ErrNotFinite.
func BettingLower(xs []float64, low, high, alpha float64) (float64, error) {
	const method = "betting confidence sequence"
	if len(xs) == 0 {
		return 0, refuse(method, ErrNoData, "0 families")
	}
	if !(alpha > 0 && alpha < 1) {
		return 0, refuse(method, ErrRange, "alpha %v", alpha)
	}
	bound := low
	for i := 1; i < bettingGrid; i++ {
		null := low + (high-low)*float64(i)/bettingGrid
		b, err := NewBetting(BettingRule{Low: low, High: high, Null: null})
		if err != nil {
			return 0, err
		}
		for _, x := range xs {
			if _, err := b.Add(x); err != nil {
				return 0, err
			}
		}
		if !b.Peak().Rejects(alpha) {
			break
		}
		bound = null
	}
	return bound, nil
}
