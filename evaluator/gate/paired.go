package gate

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/stats"
)

// paired holds an arm against another over the pairs of case and trial that
// both have. Inside, differences are turned so that more is better for the arm;
// the figure shows arm − baseline.
func (g *judge) paired(t *test) error {
	r := t.rule
	arm, _ := g.table.Arm(r.Arm)
	base, _ := g.table.Arm(r.baseline)
	m := evaluator.Metrics()[r.metric]
	p := g.seen.Pairs(r.metric, arm, base, r.in())
	f := &t.figure
	f.Pairs, f.Excluded, f.Lacking, f.Censored = p.Used, p.Excluded, p.LackingA+p.LackingB, p.CensoredA+p.CensoredB
	t.cutArm, t.cutBase = p.CensoredA, p.CensoredB
	c := contrastOf(r, &m, p.Pairs)
	d, err := stats.PairedDifference(c.pairs, g.level())
	f.N, f.Families, f.Method = d.N, d.Clusters, "none: not evaluable"
	if len(p.Pairs) > 0 {
		means(f, p.Pairs)
	}
	switch {
	case g.lacking(t, r.Arm, r.baseline):
		return nil
	case errors.Is(err, stats.ErrNoData):
		t.refuse(CodeNotEvaluable, "%s is not evaluable: no pair of arms %s and %s is in its denominator", m.Name, r.Arm, r.baseline)
		return nil
	case err != nil && !undefined(err):
		return err
	}
	f.Method = "CR1 by family, t"
	if d.Clusters < stats.MinFamilies || g.look.alpha == 0 {
		return nil
	}
	if g.policy.Sequential.Method == MethodEProcess {
		return g.betDifference(t, &m, c)
	}
	if noVariation(&d, err) {
		return g.flat(t, &m, c, &d)
	}
	return g.tTest(t, &m, c, &d, &p)
}

// contrast is a linear comparison in which the arm is good enough when its mean
// is above threshold: more − less, turned by the metric's direction. Of a ratio,
// the baseline is scaled by the ratio allowed and the threshold is 0 (this is
// Fieller's test).
type contrast struct {
	pairs     []stats.Pair // A − B is good for the arm
	threshold float64
	turn      float64 // arm − baseline = turn·(A − B); of a ratio, see scaled
	scaled    float64 // factor of the baseline, 0 for a difference
	base      float64 // mean of the baseline
}

func contrastOf(r *Rule, m *evaluator.Metric, pairs []stats.Pair) contrast {
	c := contrast{pairs: slices.Clone(pairs), threshold: *r.Margin, turn: 1}
	if r.compare == NonInferiorTo {
		c.threshold = -*r.Margin
	}
	if m.Scale == evaluator.ScaleRatio {
		// Good enough is a mean at most (for a metric of which less is better) this
		// many times the baseline's.
		c.scaled, c.threshold = 1+float64(m.Better)*c.threshold, 0
	}
	for i := range c.pairs {
		x := &c.pairs[i]
		c.base += x.B / float64(len(c.pairs))
		if c.scaled != 0 {
			x.B *= c.scaled
		}
	}
	if m.Better == evaluator.LowerBetter {
		c.turn = -1
		for i := range c.pairs {
			c.pairs[i].A, c.pairs[i].B = c.pairs[i].B, c.pairs[i].A
		}
	}
	return c
}

// means are those of the arms over the pairs, in the order of families, so that
// they do not depend on that of the cases.
func means(f *Figure, pairs []stats.Pair) {
	var a, b float64
	for _, p := range pairs {
		a, b = a+p.A, b+p.B
	}
	n := float64(len(pairs))
	a, b = a/n, b/n
	f.Value, f.Arm, f.Baseline = new(evaluator.Num(a-b)), new(evaluator.Num(a)), new(evaluator.Num(b))
	if b > 0 {
		f.Ratio = new(evaluator.Num(a / b))
	}
}

// tTest is the clustered test of the contrast against its threshold.
func (g *judge) tTest(t *test, m *evaluator.Metric, c contrast, d *stats.Difference, p *evaluator.Paired) error {
	f := &t.figure
	se, df := g.errorOf(t, d)
	one, err := d.NonInferior(-c.threshold, g.look.alpha, evaluator.MethodFor(d))
	if err != nil {
		return err
	}
	t.pass, t.fail, t.testable = one.P, 1-one.P, true
	f.P = pNum(one.P)
	half := stats.StudentQuantile(1-g.look.alpha, df) * se
	lo, hi := c.turn*d.Mean-half, c.turn*d.Mean+half
	mde := evaluator.SmallestDetectable(se, df, g.look.alpha, g.policy.Power)
	if c.scaled == 0 {
		f.Lower, f.Upper = new(evaluator.Num(lo)), new(evaluator.Num(hi))
		g.these(f, p)
	} else {
		if c.base <= 0 {
			t.testable = false
			t.undecided(CodeVariation, "the mean of arm %s is 0: a share of it is no limit", t.rule.baseline)
			return nil
		}
		mde /= c.base
		f.Method = string(evaluator.MethodFor(d)) + " by family, t, of the arm less " + say(c.scaled) + " times the baseline (Fieller)"
		g.ratio(f, p.Pairs)
	}
	f.MDE = new(evaluator.Num(mde))
	t.mdeOver = t.rule.compare == NonInferiorTo && round(mde) > round(*t.rule.Margin)
	if t.sums, err = stats.FamilySums(c.pairs); err != nil {
		return err
	}
	if m.Rare && m.Bounded {
		return g.rare(t, c)
	}
	return nil
}

// rare makes the test of an event that should not happen at least as strict as
// Tango's score with each family one pair. The t test of a few events passes too
// often: its error is small just when few were seen (docs/decisions, what a verdict needs).
// Families that are good or bad in part are rounded against the arm.
func (g *judge) rare(t *test, c contrast) error {
	if c.threshold > 0 {
		return nil // a margin of superiority: Tango's test has none
	}
	var good, bad float64
	for _, s := range t.sums {
		good += math.Max(0, s.T/s.N)
		bad += math.Max(0, -s.T/s.N)
	}
	n := len(t.sums)
	table := stats.PairedTable{AOnly: int(math.Floor(good + 1e-9)), BOnly: int(math.Ceil(bad - 1e-9))}
	table.Neither = max(0, n-table.AOnly-table.BOnly)
	z, err := table.NonInferior(-c.threshold)
	if err != nil {
		return err
	}
	iv, err := table.Tango(g.level())
	if err != nil {
		return err
	}
	f := &t.figure
	f.Method += ", at least as strict as Tango's score with each family one pair"
	t.pass = math.Max(t.pass, z.P)
	f.P = pNum(t.pass)
	if c.turn < 0 {
		f.Upper = new(evaluator.Num(math.Max(float64(*f.Upper), -iv.Lo)))
	} else {
		f.Lower = new(evaluator.Num(math.Min(float64(*f.Lower), iv.Lo)))
	}
	return nil
}

// ratio shows Fieller's interval, one-sided at the nominal level on each side.
func (g *judge) ratio(f *Figure, pairs []stats.Pair) {
	totals := make([]stats.FamilyTotals, len(pairs))
	for i, x := range pairs {
		totals[i] = stats.FamilyTotals(x)
	}
	r, err := stats.FamilyRatio(totals, g.level())
	if err != nil {
		f.Notes = append(f.Notes, "no interval of the ratio: "+err.Error())
		return
	}
	f.Lower, f.Upper = new(evaluator.Num(r.Lo)), new(evaluator.Num(r.Hi))
	f.Notes = append(f.Notes, "the bounds are of the ratio")
}

// these is the other estimand: the cases as they are.
func (g *judge) these(f *Figure, p *evaluator.Paired) {
	if p.NoiseDF == 0 || p.NoiseVar == 0 {
		return
	}
	se := math.Sqrt(p.NoiseVar)
	half := stats.StudentQuantile(1-g.look.alpha, float64(p.NoiseDF)) * se
	mean := float64(*f.Value)
	f.These = &TheseCases{evaluator.Num(se), evaluator.Num(mean - half), evaluator.Num(mean + half)}
}

// flat is a bounded metric whose difference is the same in every case: all
// families agree, wholly or not at all, so that each counts as one pair
// (Tango's score, which does not take agreement for certainty).
func (g *judge) flat(t *test, m *evaluator.Metric, c contrast, d *stats.Difference) error {
	table := stats.PairedTable{}
	switch {
	case !m.Bounded || c.scaled != 0 || round(d.Mean) != 0 && math.Abs(round(d.Mean)) != 1 || c.threshold > 0:
		t.undecided(CodeVariation, "the difference of %s is the same in every case: there is no error to judge by", m.Name)
		return nil
	case round(d.Mean) == 0:
		table.Neither = d.Clusters
	case d.Mean > 0:
		table.AOnly = d.Clusters
	default:
		table.BOnly = d.Clusters
	}
	z, err := table.NonInferior(-c.threshold)
	if err != nil {
		return err
	}
	iv, err := table.Tango(g.level())
	if err != nil {
		return err
	}
	f := &t.figure
	f.Method = "Tango score, each family one pair"
	f.P, t.pass, t.fail, t.testable = pNum(z.P), z.P, 1-z.P, true
	lo, hi := iv.Lo, iv.Hi
	if c.turn < 0 {
		lo, hi = -iv.Hi, -iv.Lo
	}
	f.Lower, f.Upper = new(evaluator.Num(lo)), new(evaluator.Num(hi))
	return nil
}

// conclude gives a paired rule its outcome from adjusted p values; count is
// over how many baselines they are adjusted.
func (t *test) conclude(alpha, pass, fail float64, count int) {
	f := &t.figure
	if count > 1 {
		f.PAdjusted, f.AdjustedOver = pNum(pass), count
	}
	r := t.rule
	what := "margin " + say(*r.Margin)
	switch m := evaluator.Metrics()[r.metric]; {
	case m.Scale == evaluator.ScaleRatio:
		// The bounds are of the ratio, so the limit is one too (see contrastOf).
		limit := *r.Margin
		if r.compare == NonInferiorTo {
			limit = -limit
		}
		what = say(1+float64(m.Better)*limit) + " times the baseline"
	case r.compare == SuperiorTo && *r.Margin == 0:
		what = "0"
	}
	switch {
	case fail <= alpha:
		t.outcome = Fail
		t.add(CodeLimit, "%s lies on the wrong side of %s", t.interval("the whole interval"), what)
	case pass > alpha && t.pass <= alpha:
		t.undecided(CodeMultiplicity, "p %s alone, %s adjusted for %s: above %s", sayAt(f.P), sayAt(f.PAdjusted), plural(count, "comparison", "comparisons"), say(alpha))
	case pass > alpha:
		text := t.interval("the interval") + " holds " + what
		if r.compare == SuperiorTo {
			text = evaluator.NoDifferenceShown + ": " + text
		}
		t.undecided(CodeStraddles, "%s", text)
	case t.mdeOver:
		t.undecided(CodeMDE, "the smallest difference that could be detected, %s, is larger than the margin %s", sayAt(f.MDE), say(*r.Margin))
	default:
		t.outcome = Pass
	}
	t.censored()
	if t.mdeOver && t.outcome == Inconclusive && !slices.ContainsFunc(t.reasons, func(x Reason) bool { return x.Code == CodeMDE }) {
		t.add(CodeMDE, "the smallest difference that could be detected, %s, is larger than the margin %s", sayAt(f.MDE), say(*r.Margin))
	}
}

// interval names what was held against the margin.
func (t *test) interval(word string) string {
	f := &t.figure
	switch {
	case f.Wealth != nil:
		return "the e-process, which reached " + sayAt(f.Wealth) + ","
	case f.Lower == nil || f.Upper == nil:
		return word + ", which is unbounded,"
	}
	return word + " " + sayAt(f.Lower) + " to " + sayAt(f.Upper)
}

// multiplicity adjusts the p values of rules that are one hypothesis about an
// arm and a metric against several baselines, and gives every paired rule its
// outcome. Different steps and metrics are not adjusted for: the ladder is a
// fixed sequence, and within a step all rules must pass.
func (g *judge) multiplicity(tests []test) error {
	done := make([]bool, len(tests))
	for i := range tests {
		if done[i] || !tests[i].testable {
			continue
		}
		var group []*test
		for j := i; j < len(tests); j++ {
			if tests[j].testable && sameHypothesis(tests[i].rule, tests[j].rule) {
				group, done[j] = append(group, &tests[j]), true
			}
		}
		if err := g.conclude(group); err != nil {
			return err
		}
	}
	return nil
}

func sameHypothesis(a, b *Rule) bool {
	return a == b || a.Step == b.Step && a.metric == b.metric && a.compare == b.compare && a.Arm == b.Arm && a.Scope == b.Scope && a.baseline != b.baseline
}

func (g *judge) conclude(group []*test) error {
	alpha := round(g.look.alpha)
	pass, fail := make([]float64, len(group)), make([]float64, len(group))
	for i, t := range group {
		t.pass, t.fail = clamp(round(t.pass)), clamp(round(t.fail))
		pass[i], fail[i] = t.pass, t.fail
	}
	if len(group) > 1 && g.policy.Multiplicity != MultiplicityNone {
		var err error
		if fail, err = stats.Holm(fail); err != nil {
			return err
		}
		if pass, err = g.adjust(group, pass); err != nil {
			return err
		}
	}
	for i, t := range group {
		t.conclude(alpha, round(pass[i]), round(fail[i]), len(group))
	}
	return nil
}

// adjust is Holm, or for superiority over two baselines the maximum statistic
// where the policy asks for it.
func (g *judge) adjust(group []*test, p []float64) ([]float64, error) {
	if g.policy.Multiplicity == MultiplicityMaxStat {
		adjusted, ok, err := g.maxStat(group)
		if err != nil || ok {
			return adjusted, err
		}
	}
	adjusted, err := stats.Holm(p)
	for _, t := range group {
		t.note("p adjusted by Holm over %d baselines", len(group))
	}
	return adjusted, err
}

// maxStat relabels the three arms within families. It tests equality, so it
// serves superiority without margin only; ok is false where it does not apply.
func (g *judge) maxStat(group []*test) (p []float64, ok bool, err error) {
	if len(group) != 2 {
		return nil, false, nil
	}
	var triples []stats.FamilyTriple
	r := group[0].rule
	if r.compare != SuperiorTo || *r.Margin != 0 || *group[1].rule.Margin != 0 || evaluator.Metrics()[r.metric].Scale == evaluator.ScaleRatio {
		return nil, false, nil
	}
	if len(group[0].sums) != len(group[1].sums) || len(group[0].sums) == 0 {
		return nil, false, nil
	}
	for i, a := range group[0].sums {
		b := group[1].sums[i]
		if a.Family != b.Family || a.N != b.N {
			return nil, false, nil // not the same cases: Holm needs no such thing
		}
		triples = append(triples, stats.FamilyTriple{Family: a.Family, Sum: [3]float64{0, -a.T, -b.T}})
	}
	out, err := stats.MaxStatistic(triples, stats.Resampling{Seed: 1})
	if err != nil {
		if undefined(err) {
			return nil, false, nil
		}
		return nil, false, err
	}
	p = []float64{1, 1}
	for _, x := range out.Pairs {
		if x.I == 0 && x.Statistic > 0 {
			p[x.J-1] = x.Adjusted / 2 // two-sided, in the direction that was declared
		}
	}
	for _, t := range group {
		t.note("p adjusted by the maximum statistic over three arms (family relabelling)")
	}
	return p, true, nil
}

func clamp(p float64) float64 { return math.Max(0, math.Min(1, p)) }

// betDifference is the e-process of a comparison: each family, in the order of
// the names, is one stake, up to the first that is not whole.
func (g *judge) betDifference(t *test, m *evaluator.Metric, c contrast) error {
	if !m.Bounded {
		t.undecided(CodeLook, "an e-process needs a metric between 0 and 1, and %s is none", m.Name)
		return nil
	}
	t.testable = true
	_, err := g.bet(t, c.pairs, stats.BettingRule{Low: -1, High: 1, Null: c.threshold})
	return err
}

// bet stakes the families' means of pairs on more than rule.Null, and against it
// on less; it gives the p values of both, and the bet against.
func (g *judge) bet(t *test, pairs []stats.Pair, rule stats.BettingRule) (bad *stats.Betting, err error) {
	sums, err := stats.FamilySums(pairs)
	if err != nil {
		return nil, err
	}
	good, err := stats.NewBetting(rule)
	if err != nil {
		return nil, err
	}
	if bad, err = stats.NewBetting(stats.BettingRule{Low: -rule.High, High: -rule.Low, Null: -rule.Null}); err != nil {
		return nil, err
	}
	for _, f := range g.staked(t, sums) {
		x := math.Max(rule.Low, math.Min(rule.High, f.T/f.N))
		if _, err := good.Add(x); err != nil {
			return nil, err
		}
		if _, err := bad.Add(-x); err != nil {
			return nil, err
		}
	}
	t.wealth(good, bad)
	return bad, nil
}

// betRate is the e-process of an absolute rule.
func (g *judge) betRate(t *test, m *evaluator.Metric, s *evaluator.Sample, limit float64) error {
	if !m.Bounded || limit <= 0 || limit >= 1 {
		t.undecided(CodeLook, "an e-process cannot show %s against %s", m.Name, say(limit))
		return nil
	}
	turn := float64(m.Better)
	pairs := make([]stats.Pair, len(s.Values))
	for i, v := range s.Values {
		pairs[i] = stats.Pair{Family: s.Families[i], A: turn * v}
	}
	bad, err := g.bet(t, pairs, stats.BettingRule{Low: math.Min(turn, 0), High: math.Max(turn, 0), Null: turn * limit})
	if err != nil {
		return err
	}
	alpha := round(g.look.alpha)
	t.pass, t.fail = round(t.pass), round(t.fail)
	switch {
	case t.fail <= alpha:
		t.outcome = Fail
		t.add(CodeLimit, "the e-process against keeping limit %s reached %s", say(limit), sayAt(wealthNum(bad)))
	case t.pass <= alpha:
		t.outcome = Pass
	default:
		t.undecided(CodeStraddles, "the e-process reached %s of %s", sayAt(t.figure.Wealth), say(1/alpha))
	}
	return nil
}

// staked are the families to bet on: in the order of their names, up to the
// first of which a trial is still to come. A family that was staked in part
// would be another observation at the next look, and the level of an e-process
// holds only while what was staked stays (stats.Betting).
func (g *judge) staked(t *test, sums []stats.FamilySum) []stats.FamilySum {
	open := map[string]bool{}
	arms := g.armIndices()
	toCome := g.evidence.Status == StatusRunning || g.evidence.Status == StatusStopped
	for c := range g.table.Cases {
		for i := range g.table.Trials {
			for _, a := range arms {
				state := g.table.Row(a, c, i).State
				if state == evaluator.TrialNotRun || state == evaluator.TrialMissing && toCome {
					open[g.table.Cases[c].Family] = true
				}
			}
		}
	}
	n := slices.IndexFunc(sums, func(s stats.FamilySum) bool { return open[s.Family] })
	if n < 0 {
		return sums
	}
	t.note("%d of %d families staked: the next one, %s, is not whole yet", n, len(sums), sums[n].Family)
	return sums[:n]
}

func (t *test) wealth(good, bad *stats.Betting) {
	t.pass, t.fail = good.Peak().P(), bad.Peak().P()
	f := &t.figure
	f.Method = "betting e-process over families in the order of their names"
	f.P, f.Wealth = pNum(t.pass), wealthNum(good)
	f.Notes = append(f.Notes, fmt.Sprintf("%d families staked; the bet against the arm reached %s", good.Families(), sayAt(wealthNum(bad))))
}

// mostWealth is the greatest e-value shown: beyond it nobody needs the digits.
const mostWealth = 1e9

func wealthNum(b *stats.Betting) *evaluator.Num {
	return new(evaluator.Num(math.Min(b.Peak().Value(), mostWealth)))
}

// pNum is a p value as it is shown: never 0, which no test can claim.
func pNum(p float64) *evaluator.Num { return new(evaluator.Num(math.Max(p, 1e-9))) }
