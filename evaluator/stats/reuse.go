package stats

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/stat/distuv"
)

// Thresholdout answers queries of a holdout by the figure of the training
// split for as long as the two agree, and pays from a budget where they do not.
//
// It is for corpora of thousands of cases: with fewer than 200 families its
// noise drowns what it protects, and a counted and rotated holdout is the
// honest minimum (statistics §13). Noise 0 makes it deterministic and leaves
// the counting alone. Source: Dwork et al. 2015; constants of the public ports.
type Thresholdout struct {
	threshold, sigma float64
	budget           int
	noisy            float64 // threshold of this round
	rng              rand.Source
}

// NewThresholdout starts with a budget of disagreements. threshold ≥ 0 is the
// agreement that is free, sigma ≥ 0 the scale of the Laplace noise (0: none).
// ErrRange.
func NewThresholdout(threshold, sigma float64, budget int, seed, stream uint64) (*Thresholdout, error) {
	if !(threshold >= 0) || !finite(threshold) || !(sigma >= 0) || !finite(sigma) || budget < 0 {
		return nil, refuse("thresholdout", ErrRange, "threshold %v, noise %v, budget %d", threshold, sigma, budget)
	}
	t := &Thresholdout{threshold: threshold, sigma: sigma, budget: budget, rng: rand.NewPCG(seed, stream)}
	t.noisy = threshold + t.noise(2)
	return t, nil
}

// Budget is the number of disagreements that may still be answered.
func (t *Thresholdout) Budget() int { return t.budget }

// Query is train where it agrees with holdout within the threshold, else the
// holdout's figure, for one of the budget. ErrHoldoutSpent at budget 0,
// ErrNotFinite.
func (t *Thresholdout) Query(train, holdout float64) (float64, error) {
	if t.budget == 0 {
		return 0, refuse("thresholdout", ErrHoldoutSpent, "its budget is 0")
	}
	if !finite(train) || !finite(holdout) {
		return 0, refuse("thresholdout", ErrNotFinite, "train %v, holdout %v", train, holdout)
	}
	if math.Abs(train-holdout) <= t.noisy+t.noise(4) {
		return train, nil
	}
	t.budget--
	t.noisy = t.threshold + t.noise(2)
	return holdout + t.noise(1), nil
}

func (t *Thresholdout) noise(scale float64) float64 {
	if t.sigma == 0 {
		return 0
	}
	return distuv.Laplace{Mu: 0, Scale: scale * t.sigma, Src: t.rng}.Rand()
}

// Ladder publishes a holdout figure only when it betters the best published
// one by more than Step, rounded to Step; else the best one again. The zero
// Best means that nothing is published. Source: Blum and Hardt 2015.
type Ladder struct {
	Step float64
	Best *float64
}

// Publish takes a figure of which more is better. ErrRange (Step not above 0),
// ErrNotFinite.
func (l *Ladder) Publish(figure float64) (float64, error) {
	if !(l.Step > 0) || !finite(l.Step) {
		return 0, refuse("ladder", ErrRange, "step %v", l.Step)
	}
	if !finite(figure) || !finite(figure/l.Step) {
		return 0, refuse("ladder", ErrNotFinite, "figure %v", figure)
	}
	if l.Best == nil || figure > *l.Best+l.Step {
		l.Best = new(math.Round(figure/l.Step) * l.Step)
	}
	return *l.Best, nil
}
