package gate

import (
	"errors"
	"fmt"
	"math"

	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/stats"
)

// test is what a rule's own figure says, before the campaign's state and the
// ladder are asked.
type test struct {
	rule    *Rule
	outcome Outcome
	hole    bool
	reasons []Reason
	figure  Figure
	// pass and fail are one-sided p values, of "not good enough" and of "good
	// enough"; 1 and 1 where the rule has no test.
	pass, fail float64
	testable   bool // takes part in the adjustment for several baselines
	mdeOver    bool // what could be detected is larger than the margin
	// cutArm and cutBase count values of the arm and of its baseline that are
	// only lower bounds.
	cutArm, cutBase int
	weights         weights // of the families, of an absolute rule
	sums            []stats.FamilySum
}

func (t *test) add(code Code, format string, args ...any) {
	t.reasons = append(t.reasons, Reason{Code: code, Text: fmt.Sprintf(format, args...)})
}

func (t *test) note(format string, args ...any) {
	t.figure.Notes = append(t.figure.Notes, fmt.Sprintf(format, args...))
}

// refuse makes a hole: the rule cannot be evaluated and fails.
func (t *test) refuse(code Code, format string, args ...any) {
	t.outcome, t.hole = Fail, true
	t.add(code, format, args...)
}

// undecided makes the rule inconclusive for a reason.
func (t *test) undecided(code Code, format string, args ...any) {
	t.outcome = Inconclusive
	t.add(code, format, args...)
}

func (g *judge) test(r *Rule) (test, error) {
	t := test{rule: r, outcome: Inconclusive, pass: 1, fail: 1}
	t.figure = Figure{Evidence: g.word, Level: evaluator.Num(1 - g.look.alpha), Notes: []string{}}
	var err error
	if r.compare == Absolute {
		err = g.absolute(&t)
	} else {
		err = g.paired(&t)
	}
	return t, err
}

// lacking makes a hole of a metric that is not evaluable in some trial: what is
// left might be the good part of it.
func (g *judge) lacking(t *test, arms ...string) bool {
	if t.figure.Lacking == 0 {
		return false
	}
	m := t.rule.metric
	grader := 0
	for _, name := range arms {
		a, _ := g.table.Arm(name)
		d := g.table.Denominators(a, t.rule.in())
		grader += d.GraderError
		for _, l := range g.table.Lacks(a, m) {
			t.note("arm %s: %s (%s)", name, l.Reason, plural(l.Count, "trial", "trials"))
		}
	}
	what := evaluator.Metrics()[m]
	t.refuse(CodeNotEvaluable, "%s is not evaluable in %s (it needs %s)", what.Name, plural(t.figure.Lacking, "trial", "trials"), what.Needs)
	if grader > 0 && what.Rated {
		t.add(CodeGrader, "the grader erred in %s, which never passes", plural(grader, "trial", "trials"))
	}
	return true
}

// absolute holds the mean of an arm over its rated trials against a limit.
func (g *judge) absolute(t *test) error {
	r := t.rule
	arm, _ := g.table.Arm(r.Arm)
	table := g.seen
	if r.Bound == BoundPoint { // what was seen was seen, whenever
		table = g.table
	}
	s := table.Sample(r.metric, arm, r.in())
	m := evaluator.Metrics()[r.metric]
	f := &t.figure
	f.N, f.Excluded, f.Lacking, f.Censored = len(s.Values), s.Excluded, s.Lacking, s.Censored
	t.cutArm = s.Censored
	pairs := make([]stats.Pair, len(s.Values))
	for i, v := range s.Values {
		pairs[i] = stats.Pair{Family: s.Families[i], A: v}
	}
	d, err := stats.PairedDifference(pairs, g.level())
	f.Families = d.Clusters
	f.Method = "none: not evaluable"
	if errors.Is(err, stats.ErrNoData) {
		if !g.lacking(t, r.Arm) {
			t.refuse(CodeNotEvaluable, "%s is not evaluable: no trial of arm %s is in its denominator", m.Name, r.Arm)
		}
		return nil
	}
	if err != nil && !undefined(err) {
		return err
	}
	f.Value, t.weights = new(evaluator.Num(d.Mean)), weigh(s.Families)
	limit := *r.Limit
	lacking := g.lacking(t, r.Arm)
	if r.Bound == BoundPoint {
		f.Method = "point"
		g.point(t, &m, d.Mean, limit)
	}
	if lacking || r.Bound == BoundPoint {
		return nil
	}
	f.Method = "CR1 by family, t"
	if d.Clusters < stats.MinFamilies || g.look.alpha == 0 {
		return nil // the rule is blocked, and says why
	}
	if g.policy.Sequential.Method == MethodEProcess {
		return g.betRate(t, &m, &s, limit)
	}
	lo, hi, err := g.bounds(t, &m, &d, err)
	if err != nil || f.Lower == nil {
		return err
	}
	value := evaluator.Num(limit)
	lo, hi, limit = round(lo), round(hi), round(limit)
	if m.Better == evaluator.HigherBetter {
		t.decide(lo >= limit, hi < limit, "lower bound %s, limit %s", "upper bound %s is below limit %s", f.Lower, f.Upper, &value)
	} else {
		t.decide(hi <= limit, lo > limit, "upper bound %s, limit %s", "lower bound %s is above limit %s", f.Upper, f.Lower, &value)
	}
	t.censored()
	return nil
}

func undefined(err error) bool {
	return errors.Is(err, stats.ErrOneCluster) || errors.Is(err, stats.ErrTooFewFamilies) || errors.Is(err, stats.ErrNoVariation)
}

// round is a statistic as it is printed and compared (evaluator.Num), so that the
// last bits of a machine decide nothing (DESIGN §8).
func round(f float64) float64 { return evaluator.Num(f).Round() }

// noVariation reports that the values do not vary: refusal is what the test of d
// says. An error that is printed as 0 is rounding, not certainty.
func noVariation(d *stats.Difference, refusal error) bool {
	return errors.Is(refusal, stats.ErrNoVariation) || refusal == nil && round(d.CR1) == 0
}

// level is the two-sided level whose bounds are one-sided at the nominal alpha.
func (g *judge) level() float64 {
	if g.look.alpha == 0 {
		return 1 - 2*g.policy.Alpha
	}
	return 1 - 2*g.look.alpha
}

// decide sets outcome and reason from two facts; near is the bound that must
// keep the limit, far the other one.
func (t *test) decide(pass, fail bool, straddle, broken string, near, far, limit *evaluator.Num) {
	switch {
	case pass:
		t.outcome = Pass
	case fail:
		t.outcome = Fail
		t.add(CodeLimit, broken, sayAt(far), sayAt(limit))
	default:
		t.undecided(CodeStraddles, "the interval holds the limit: "+straddle, sayAt(near), sayAt(limit))
	}
}

// censored keeps a rule from passing when values of its arm are only lower
// bounds, and from failing when those of the baseline are: the true ones are
// greater, and greater is worse (it is a latency). A point or interval that
// fails the arm on its lower bounds fails it all the more on the true values.
func (t *test) censored() {
	r := t.rule
	switch {
	case t.cutArm > 0 && t.outcome == Pass:
		t.undecided(CodeCensored, "%s of arm %s is only known to be at least what a limit cut off in %s", r.Metric, r.Arm, plural(t.cutArm, "trial", "trials"))
	case t.cutBase > 0 && t.outcome == Fail:
		t.undecided(CodeCensored, "%s of arm %s is only known to be at least what a limit cut off in %s", r.Metric, r.baseline, plural(t.cutBase, "trial", "trials"))
	}
}

// point holds the mean itself against the limit. Of a hole it only adds what
// was seen in the trials that are evaluable.
func (g *judge) point(t *test, m *evaluator.Metric, mean, limit float64) {
	got, want := evaluator.Num(mean), evaluator.Num(limit)
	bad, word := got.Round() > want.Round(), "above"
	if m.Better == evaluator.HigherBetter {
		bad, word = got.Round() < want.Round(), "below"
	}
	switch {
	case bad:
		t.outcome = Fail
		t.add(CodeLimit, "%s is %s, %s limit %s", m.Name, say(got), word, say(want))
	case !t.hole:
		t.outcome = Pass
	}
	t.censored()
}

// bounds are the one-sided bounds of an arm's mean. Of a rare event they are
// exact with families as units, as if all trials of a family were one: no
// number of trials can stand for families that were not there. refusal is what
// PairedDifference says of its test.
func (g *judge) bounds(t *test, m *evaluator.Metric, d *stats.Difference, refusal error) (lo, hi float64, err error) {
	f := &t.figure
	level := 1 - g.look.alpha
	flat := noVariation(d, refusal)
	switch {
	case m.Bounded && (m.Rare || flat):
		w := t.weights
		f.Method = fmt.Sprintf("Clopper-Pearson, %s families as units", say(w.units))
		if lo, hi, err = w.exact(d.Mean, level, flat); err != nil {
			return 0, 0, err
		}
		if w.large() {
			t.note("the largest family holds %s times the average: it counts for %s of these units", say(w.largest*w.families/w.n), say(w.largest*w.units/w.n))
		}
	case flat && m.Rare && d.Mean == 0:
		units := t.weights.units
		f.Method = fmt.Sprintf("Poisson, %s families as exposure", say(units))
		if hi, err = stats.PoissonUpper(0, units, level); err != nil {
			return 0, 0, err
		}
	case flat:
		t.undecided(CodeVariation, "%s is the same in every trial: there is no error to judge by", m.Name)
		return 0, 0, nil
	default:
		se, df := g.errorOf(t, d)
		half := stats.StudentQuantile(level, df) * se
		lo, hi = d.Mean-half, d.Mean+half
		if m.Rare { // a count: its error may be small by chance
			units := t.weights.units
			exact, err := stats.PoissonUpper(int(math.Ceil(d.Mean*units)), units, level)
			if err != nil {
				return 0, 0, err
			}
			hi = math.Max(hi, exact)
			f.Method += ", upper at least Poisson by families"
		}
	}
	f.Lower, f.Upper = new(evaluator.Num(lo)), new(evaluator.Num(hi))
	return lo, hi, nil
}

// errorOf is the clustered error of a difference, noted in the figure.
func (g *judge) errorOf(t *test, d *stats.Difference) (se, df float64) {
	method := evaluator.MethodFor(d)
	se, df = evaluator.ErrorOf(d, method)
	f := &t.figure
	f.SE, f.DF = new(evaluator.Num(se)), new(evaluator.Num(df))
	f.Method = string(method) + " by family, t"
	if d.Imbalance > evaluator.UnbalancedFrom {
		t.note("the largest family holds %s times the average: the figure rests mostly on few families", say(d.Imbalance))
	}
	return se, df
}

// weights tell how unequal the families of a sample are.
type weights struct {
	n, families float64 // trials, families
	largest     float64 // trials of the largest family
	// units is how many families of equal size weigh as much (Kish 1965).
	units float64
}

func weigh(families []string) weights {
	count := map[string]float64{}
	for _, f := range families {
		count[f]++
	}
	w := weights{n: float64(len(families)), families: float64(len(count))}
	var squares float64 // of whole numbers: their order does not matter
	for _, n := range count {
		squares += n * n
		w.largest = math.Max(w.largest, n)
	}
	w.units = w.n * w.n / squares
	return w
}

// large reports a family beyond evaluator.UnbalancedFrom times the average.
func (w *weights) large() bool { return w.largest*w.families > evaluator.UnbalancedFrom*w.n }

// exact are Clopper-Pearson bounds of a mean, one-sided each. With a large
// family, one event in it would look like many: the lower bound then takes every
// family for as large as that one. Both hold when whole families are events or
// not, which is the worst they can be
// (TestQ5_ExactBoundsHoldForFamiliesOfAnySize). flat says that all families
// agree, which needs no such care.
func (w *weights) exact(mean, level float64, flat bool) (lo, hi float64, err error) {
	of := func(units float64) stats.Proportion {
		return stats.Proportion{X: math.Min(mean*units, units), N: units}
	}
	if hi, err = of(w.units).ClopperPearsonUpper(level); err != nil {
		return 0, 0, err
	}
	units := w.units
	if w.large() && !flat {
		units = w.n / w.largest
	}
	lo, err = of(units).ClopperPearsonLower(level)
	return lo, hi, err
}
