package gate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/stats"
)

// cell is one truth under one design; tally is what its campaigns gave.
type cell struct {
	truth  *truth
	design design
}

type tally struct {
	n        int
	verdicts map[Outcome]int
	rules    []ruleTally // in the order of the verdict
	// compared campaigns were judged by the simulation policy too; differing are
	// those in which a rule's figure or verdict was not the same.
	compared, differing int
	criticals           map[float64]float64
}

// critical is the two-sided 95 % point of t; designs have few degrees of
// freedom, so it is looked up.
func (t *tally) critical(df float64) float64 {
	if q, ok := t.criticals[df]; ok {
		return q
	}
	q := stats.StudentQuantile(.975, df)
	t.criticals[df] = q
	return q
}

// share is a count of a number of campaigns.
type share struct{ x, n int }

func (s *share) add(hit bool) {
	s.n++
	if hit {
		s.x++
	}
}

func (s share) rate() float64 { return float64(s.x) / float64(s.n) }

// se is the Monte-Carlo standard error, of a rate with half an event more on
// each side so that none and all have one too.
func (s share) se() float64 {
	p := (float64(s.x) + .5) / (float64(s.n) + 1)
	return math.Sqrt(p * (1 - p) / float64(s.n))
}

// ruleTally counts for one rule. Its own outcome is that before the ladder.
type ruleTally struct {
	pass, fail share
	lower      share // lower bound at or under the truth, where one is given
	upper      share
	two        share // 95 % interval of the clustered error
	flagged    share // names a family that is too large, of figures that rest on their sizes
}

// campaignsOf judges n campaigns of a cell; the first both of them by the
// simulation policy too. The seeds of the campaigns come of (seed, index).
func (c cell) campaignsOf(n, both int, seed, index uint64) (*tally, error) {
	w, err := newWorld(c.truth, c.design)
	if err != nil {
		return nil, err
	}
	measured, simulation, err := calibrationPolicies()
	if err != nil {
		return nil, err
	}
	e := Evidence{Table: w.table, Word: evaluator.EvidenceMeasured, Checks: map[string]Check{}}
	for _, id := range Preconditions() {
		e.Checks[id] = Check{State: CheckHolds}
	}
	t := &tally{verdicts: map[Outcome]int{}, criticals: map[float64]float64{}}
	root := rand.New(rand.NewPCG(seed, index))
	for i := range n {
		w.draw(rand.New(rand.NewPCG(root.Uint64(), root.Uint64())))
		v, err := Evaluate(measured, e)
		if err != nil {
			return nil, fmt.Errorf("campaign %d: %w", i, err)
		}
		t.add(c.truth, &v)
		if i < both {
			s := e
			s.Word = evaluator.EvidenceSimulated
			sv, err := Evaluate(simulation, s)
			if err != nil {
				return nil, fmt.Errorf("campaign %d: %w", i, err)
			}
			t.compared++
			if !sameRules(v.Rules, sv.Rules) || v.Verdict != sv.Verdict {
				t.differing++
			}
		}
	}
	return t, nil
}

func calibrationPolicies() (measured, simulation *Policy, err error) {
	for _, x := range []struct {
		name string
		to   **Policy
	}{{PolicyDefault, &measured}, {PolicySimulation, &simulation}} {
		p, ok, err := Builtin(x.name)
		if err != nil || !ok {
			return nil, nil, fmt.Errorf("policy %s: %w", x.name, err)
		}
		*x.to = p
	}
	return measured, simulation, nil
}

func sameRules(a, b []RuleVerdict) bool {
	return slices.EqualFunc(a, b, func(x, y RuleVerdict) bool {
		num := func(n *evaluator.Num) string {
			if n == nil {
				return "none"
			}
			return n.String()
		}
		f, g := &x.Figure, &y.Figure
		return x.ID == y.ID && x.Verdict == y.Verdict && num(f.Value) == num(g.Value) && num(f.Lower) == num(g.Lower) &&
			num(f.Upper) == num(g.Upper) && num(f.P) == num(g.P) && num(f.PAdjusted) == num(g.PAdjusted)
	})
}

func (t *tally) add(tr *truth, v *Verdict) {
	if t.rules == nil {
		t.rules = make([]ruleTally, len(v.Rules))
	}
	t.n++
	t.verdicts[v.Verdict]++
	for i := range v.Rules {
		r := &v.Rules[i]
		x, f := &t.rules[i], &r.Figure
		x.pass.add(passesAlone(r))
		x.fail.add(r.Verdict == Fail)
		if f.SE != nil || strings.HasPrefix(f.Method, "Clopper") {
			x.flagged.add(slices.ContainsFunc(f.Notes, func(s string) bool { return strings.Contains(s, "the largest family holds") }))
		}
		want := trueFigure(tr, r)
		if f.Lower != nil && f.Upper != nil {
			x.lower.add(float64(*f.Lower) <= want)
			x.upper.add(float64(*f.Upper) >= want)
		}
		if f.SE != nil && r.Comparison != Absolute && !isRatio(r) {
			half := t.critical(float64(*f.DF)) * float64(*f.SE)
			x.two.add(math.Abs(float64(*f.Value)-want) <= half)
		}
	}
}

// passesAlone reports whether the rule's own figure passes, whatever steps
// before it said.
func passesAlone(r *RuleVerdict) bool {
	return r.Verdict == Pass || r.Verdict == Inconclusive && len(r.Reasons) == 1 && r.Reasons[0].Code == CodeLadder
}

func metricOf(r *RuleVerdict) (int, *evaluator.Metric) {
	i, _ := evaluator.MetricNamed(r.Metric)
	return i, &evaluator.Metrics()[i]
}

func isRatio(r *RuleVerdict) bool {
	_, m := metricOf(r)
	return m.Scale == evaluator.ScaleRatio
}

// trueFigure is what the figure of a rule estimates: a mean, a difference, or a
// ratio of means.
func trueFigure(tr *truth, r *RuleVerdict) float64 {
	m, _ := metricOf(r)
	arm := tr.arms[slices.Index(calibrationArms, r.Arm)].mean(m)
	if r.Comparison == Absolute {
		return arm
	}
	base := tr.arms[slices.Index(calibrationArms, r.Baseline)].mean(m)
	if isRatio(r) {
		return arm / base
	}
	return arm - base
}

// trulyGood reports whether the truth keeps the rule: strictly better than its
// limit or margin. At the margin it does not, and a PASS is false.
func trulyGood(tr *truth, r *RuleVerdict) bool {
	got, limit := trueFigure(tr, r), 0.
	_, m := metricOf(r)
	turn := float64(m.Better)
	switch {
	case r.Comparison == Absolute:
		limit = float64(*r.Limit)
	case isRatio(r):
		limit = 1 - turn*float64(*r.Margin)
		if r.Comparison == SuperiorTo {
			limit = 1 + turn*float64(*r.Margin)
		}
	case r.Comparison == NonInferiorTo:
		limit = -turn * float64(*r.Margin)
	default:
		limit = turn * float64(*r.Margin)
	}
	return turn*(got-limit) > 1e-9
}

// deciding is the bound that a rule is held by; false for one without bounds.
func (x *ruleTally) deciding(r *RuleVerdict) (share, bool) {
	switch r.Bound {
	case BoundLower, BoundLower95:
		return x.lower, true
	case BoundUpper, BoundUpper95:
		return x.upper, true
	case BoundPoint:
	}
	return share{}, false
}

// calibrateCells judges n campaigns of every cell. The result does not depend
// on how many run at once.
func calibrateCells(cells []cell, n, both int, seed uint64) ([]*tally, error) {
	out := make([]*tally, len(cells))
	err := each(len(cells), func(i int) error {
		var err error
		if out[i], err = cells[i].campaignsOf(n, both, seed, uint64(i)); err != nil {
			return fmt.Errorf("truth %s, %s, %d families: %w", cells[i].truth.letter, cells[i].design.shape, cells[i].design.families, err)
		}
		return nil
	})
	return out, err
}

// each calls do for every index below n, one at a time for each processor, and
// gives the first error in the order of the indices.
func each(n int, do func(i int) error) error {
	errs, next := make([]error, n), make(chan int)
	var wg sync.WaitGroup
	for range runtime.NumCPU() {
		wg.Go(func() {
			for i := range next {
				errs[i] = do(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
