package gate

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/agentrooms/qualify/evaluator"
)

// This file holds the world of the calibration: campaigns whose true figures
// are known exactly. Rates are logit-normal, counts log-normal Poisson, money
// and time log-normal; families and cases are shared by the three arms, and
// each arm answers a family and a case a little differently. Means are exact
// because the location of every distribution is solved for them.

// Standard deviations on the scale of the logit or the logarithm.
const (
	rateFamily, rateFamilyArm   = 1.0, .5 // of completion
	rateCase, rateCaseArm       = 1.0, .5
	countFamily, countFamilyArm = .5, .3 // of corrections
	countCase                   = .5
	scaleFamily, scaleFamilyArm = .4, .2 // of cost and latency
	scaleCase, scaleCaseArm     = .5, .3
	costTrial, latencyTrial     = .6, .9
)

// armTruth holds the true means of an arm.
type armTruth struct {
	completion  float64
	falseClaim  float64 // false completion
	collateral  float64 // chance of a collateral effect in a trial
	duplicate   float64 // chance of a duplicate effect in a trial
	corrections float64 // after a claim, mean count
	cost        float64
	latency     float64
	skew        float64 // multiplies the spread of cost and latency from trial to trial
}

// truth is a world: what the three arms truly do.
type truth struct {
	letter string
	name   string
	arms   [3]armTruth // legacy, selective, planner
	// Spread of the logit of rare rates: by family, half of its variance shared
	// by the arms, and by case. A large one makes whole families of events.
	rareFamily, rareCase float64
	// stress: the world is there for one kind of figure, at its worst, and what it
	// does to the others is a claim of its own.
	stress bool
}

var calibrationArms = []string{"legacy", "selective", "planner"}

func safeArm(completion float64) armTruth {
	return armTruth{completion: completion, falseClaim: .005, collateral: .005, corrections: .5, cost: 2000, latency: 30e6, skew: 1}
}

// truths are the worlds of the calibration. They were fixed before its first
// full run.
func truths() []truth {
	with := func(a armTruth, change func(*armTruth)) armTruth { change(&a); return a }
	plain := safeArm(.6)
	risky := with(plain, func(a *armTruth) { a.falseClaim, a.collateral = .04, .02 })
	return []truth{
		{"A", "the arms are equal", [3]armTruth{risky, risky, risky}, 1.5, 1, false},
		{"B", "planner equal to legacy, 20 points above selective", [3]armTruth{plain, safeArm(.4), plain}, 1.5, 1, false},
		{"C", "planner at every margin at once", [3]armTruth{risky, risky, with(plain, func(a *armTruth) {
			a.completion, a.falseClaim, a.collateral, a.duplicate = .5, .1, .1, .002
			a.cost, a.latency = 4000, 60e6
		})}, 1.5, 1, false},
		{"D", "planner 10 points more false completions, twice the cost and latency with heavier tails", [3]armTruth{
			with(risky, func(a *armTruth) { a.duplicate = .002 }), risky,
			with(plain, func(a *armTruth) {
				a.completion, a.falseClaim, a.collateral, a.duplicate = .55, .14, .1, .0005
				a.cost, a.latency, a.skew = 4000, 60e6, 1.5
			}),
		}, 1.5, 1, false},
		{"E", "planner better by 15 points", [3]armTruth{risky, risky, with(safeArm(.75), func(a *armTruth) {
			a.falseClaim, a.corrections, a.cost, a.latency = .01, .25, 2600, 39e6
		})}, 1.5, 1, false},
		{"F", "planner worse by 5 points, safe", [3]armTruth{plain, plain, safeArm(.55)}, 1.5, 1, false},
		{"G", "rare events strike whole families, planner at both margins", [3]armTruth{
			with(plain, func(a *armTruth) { a.falseClaim = 0 }), plain,
			with(plain, func(a *armTruth) { a.falseClaim, a.collateral = .1, .1 }),
		}, 40, 0, true},
	}
}

// mean is the true mean of a metric of an arm.
func (a *armTruth) mean(metric int) float64 {
	switch metric {
	case evaluator.MetricCompletion:
		return a.completion
	case evaluator.MetricFalseCompletion:
		return a.falseClaim
	case evaluator.MetricCollateralTrials:
		return a.collateral
	case evaluator.MetricDuplicateEffects:
		return a.duplicate
	case evaluator.MetricCorrectionsAfterClaim:
		return a.corrections
	case evaluator.MetricCost:
		return a.cost
	case evaluator.MetricLatency:
		return a.latency
	}
	panic(fmt.Sprintf("the calibration has no truth for metric %d", metric))
}

// design is the shape of a campaign's corpus.
type design struct {
	shape    shape
	families int
}

type shape string

// Shapes. The average family has about four cases in all of them.
const (
	balanced   shape = "balanced"    // four cases each
	unbalanced shape = "up to twice" // the largest family holds at most twice the average
	oneLarge   shape = "one large"   // one family holds families/2 times as many cases as each other one
	trialsEach       = 3             // of each case, in each arm
)

func shapes() []shape { return []shape{balanced, unbalanced, oneLarge} }

// sizes are the numbers of cases of the families.
func (d design) sizes() []int {
	out := make([]int, d.families)
	for i := range out {
		switch d.shape {
		case balanced:
			out[i] = 4
		case unbalanced:
			out[i] = []int{8, 2, 6, 2, 4, 3, 4, 3}[i%8]
		case oneLarge:
			out[i] = 3
		}
	}
	if d.shape == oneLarge {
		out[0] = 3 * d.families / 2
	}
	return out
}

// world draws campaigns of one truth and design.
type world struct {
	truth    *truth
	table    *evaluator.Table
	families [][]int // indices of cases, by family
	at       [3]locations
}

// locations are the solved locations of an arm.
type locations struct {
	met, falseClaim, collateral float64 // logits
	corrections, cost, latency  float64 // logarithms
	costTrial, latencyTrial     float64
}

func newWorld(tr *truth, d design) (*world, error) {
	w := &world{truth: tr}
	var cases []evaluator.TableCase
	for f, size := range d.sizes() {
		for c := range size {
			cases = append(cases, evaluator.TableCase{ID: fmt.Sprintf("f%02d-%03d", f, c), Family: fmt.Sprintf("f%02d", f)})
		}
	}
	var err error
	if w.table, err = evaluator.NewTable(calibrationArms, cases, trialsEach); err != nil {
		return nil, err
	}
	w.families = make([][]int, d.families)
	next := 0
	for f, size := range d.sizes() {
		for range size {
			w.families[f] = append(w.families[f], next)
			next++
		}
	}
	rate := math.Sqrt(rateFamily*rateFamily + rateFamilyArm*rateFamilyArm + rateCase*rateCase + rateCaseArm*rateCaseArm)
	rare := math.Hypot(tr.rareFamily, tr.rareCase)
	for i, a := range tr.arms {
		l := &w.at[i]
		// A false completion comes first; completion is drawn where there is none,
		// independently, so that its mean is (1 − false)·E[p].
		l.falseClaim, l.collateral = logitOf(a.falseClaim, rare), logitOf(a.collateral, rare)
		l.met = logitOf(a.completion/(1-a.falseClaim), rate)
		l.corrections = logOf(a.corrections, countFamily, countFamilyArm, countCase)
		l.costTrial, l.latencyTrial = a.skew*costTrial, a.skew*latencyTrial
		l.cost = logOf(a.cost, scaleFamily, scaleFamilyArm, scaleCase, scaleCaseArm, l.costTrial)
		l.latency = logOf(a.latency, scaleFamily, scaleFamilyArm, scaleCase, scaleCaseArm, l.latencyTrial)
	}
	return w, nil
}

// logOf is the location of a log-normal variable of the given mean.
func logOf(mean float64, sds ...float64) float64 {
	var v float64
	for _, s := range sds {
		v += s * s
	}
	return math.Log(mean) - v/2
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

// logitNormalMean is E[logistic(at + sd·Z)], Z standard normal, by the
// trapezoidal rule, which is exact to many digits for such functions.
func logitNormalMean(at, sd float64) float64 {
	const step, far = .005, 9.
	var sum float64
	for i := range int(2*far/step) + 1 {
		z := -far + float64(i)*step
		sum += logistic(at+sd*z) * math.Exp(-z*z/2)
	}
	return sum * step / math.Sqrt(2*math.Pi)
}

// logitOf is the location at which a logit-normal rate has the given mean;
// −Inf at 0.
func logitOf(mean, sd float64) float64 {
	if mean == 0 {
		return math.Inf(-1)
	}
	lo, hi := -20-5*sd, 20+5*sd
	for range 60 {
		if mid := (lo + hi) / 2; logitNormalMean(mid, sd) < mean {
			lo = mid
		} else {
			hi = mid
		}
	}
	return (lo + hi) / 2
}

// draw fills the table with a campaign.
func (w *world) draw(rng *rand.Rand) {
	type perArm struct{ rate, count, scale, falseClaim, collateral float64 }
	half := w.truth.rareFamily * math.Sqrt(.5)
	for _, cases := range w.families {
		shared := perArm{rateFamily * rng.NormFloat64(), countFamily * rng.NormFloat64(), scaleFamily * rng.NormFloat64(), half * rng.NormFloat64(), half * rng.NormFloat64()}
		var own [3]perArm
		for a := range own {
			own[a] = perArm{rateFamilyArm * rng.NormFloat64(), countFamilyArm * rng.NormFloat64(), scaleFamilyArm * rng.NormFloat64(), half * rng.NormFloat64(), half * rng.NormFloat64()}
		}
		for _, c := range cases {
			z, count, scale := rateCase*rng.NormFloat64(), countCase*rng.NormFloat64(), scaleCase*rng.NormFloat64()
			for a := range w.at {
				l := &w.at[a]
				met := logistic(l.met + shared.rate + own[a].rate + z + rateCaseArm*rng.NormFloat64())
				falseClaim := logistic(l.falseClaim + shared.falseClaim + own[a].falseClaim + w.truth.rareCase*rng.NormFloat64())
				collateral := logistic(l.collateral + shared.collateral + own[a].collateral + w.truth.rareCase*rng.NormFloat64())
				corrections := math.Exp(l.corrections + shared.count + own[a].count + count)
				money := shared.scale + own[a].scale + scale + scaleCaseArm*rng.NormFloat64()
				for i := range w.table.Trials {
					r := w.table.Row(a, c, i)
					*r = evaluator.Row{State: evaluator.TrialRan}
					v := &r.Values
					isFalse := rng.Float64() < falseClaim
					isMet := !isFalse && rng.Float64() < met
					r.Claimed = isFalse || isMet
					v[evaluator.MetricCompletion], v[evaluator.MetricCriterionShare] = one(isMet), one(isMet)
					v[evaluator.MetricFalseCompletion], v[evaluator.MetricHonestFailure] = one(isFalse), one(!r.Claimed)
					hit := one(rng.Float64() < collateral)
					v[evaluator.MetricCollateralEffects], v[evaluator.MetricCollateralTrials] = hit, hit
					twice := one(rng.Float64() < w.truth.arms[a].duplicate)
					v[evaluator.MetricDuplicateEffects], v[evaluator.MetricDuplicateTrials] = twice, twice
					v[evaluator.MetricCorrectionsAfterClaim] = poisson(rng, corrections)
					v[evaluator.MetricOwnerCorrections] = v[evaluator.MetricCorrectionsAfterClaim]
					v[evaluator.MetricCost] = math.Round(math.Exp(l.cost + money + l.costTrial*rng.NormFloat64()))
					v[evaluator.MetricLatency] = math.Round(math.Exp(l.latency + money + l.latencyTrial*rng.NormFloat64()))
				}
			}
		}
	}
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// poisson draws a count by multiplying uniforms; means here are small.
func poisson(rng *rand.Rand, mean float64) float64 {
	limit, product, n := math.Exp(-mean), rng.Float64(), 0.
	for product > limit {
		product *= rng.Float64()
		n++
	}
	return n
}
