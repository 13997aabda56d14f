package evaluator

import (
	"errors"
	"fmt"
	"math"

	"github.com/agentrooms/qualify/evaluator/stats"
)

// Paired holds the pairs of one metric in two arms of a table: the same case
// and trial index, each evaluable in both. A case is one pair of means, so it
// counts once however many of its trials are paired.
type Paired struct {
	Pairs    []stats.Pair
	Used     int // pairs of trials in Pairs
	Excluded int // pairs of which a trial is outside the denominator (Q2)
	LackingA int // pairs of which A's trial is not evaluable
	LackingB int
	// CensoredA and CensoredB count trials whose value is only a lower bound.
	CensoredA, CensoredB int
	// NoiseVar is the variance of the mean difference from trial to trial with
	// the cases fixed, NoiseDF its degrees of freedom; 0 and 0 unless every case
	// has two pairs.
	NoiseVar float64
	NoiseDF  int
}

// Pairs pairs arms a and b on a metric over the cases that in selects; nil
// selects all.
func (t *Table) Pairs(metric, a, b int, in func(*TableCase) bool) Paired {
	var p Paired
	single := false
	for c := range t.Cases {
		if in != nil && !in(&t.Cases[c]) {
			continue
		}
		m := stats.CaseMoments{Family: t.Cases[c].Family}
		for i := range t.Trials {
			ra, rb := t.Row(a, c, i), t.Row(b, c, i)
			va, sa := ra.Value(metric)
			vb, sb := rb.Value(metric)
			switch {
			case sa == ValueExcluded || sb == ValueExcluded:
				p.Excluded++
				continue
			case sa == ValueLacking || sb == ValueLacking:
				if sa == ValueLacking {
					p.LackingA++
				}
				if sb == ValueLacking {
					p.LackingB++
				}
				continue
			}
			if metric == MetricLatency {
				p.CensoredA += int(bit(ra.Censored))
				p.CensoredB += int(bit(rb.Censored))
			}
			m.Add(va, vb)
		}
		if m.N == 0 {
			continue
		}
		p.Used += m.N
		p.Pairs = append(p.Pairs, m.Pair())
		if m.N < 2 {
			single = true
			continue
		}
		p.NoiseVar += max(0, m.SSD) / float64(m.N-1) / float64(m.N)
		p.NoiseDF += m.N - 1
	}
	if single || len(p.Pairs) == 0 {
		p.NoiseVar, p.NoiseDF = 0, 0
		return p
	}
	k := float64(len(p.Pairs))
	p.NoiseVar /= k * k
	return p
}

// Sample holds the trials of one metric in one arm.
type Sample struct {
	Values   []float64
	Families []string // of Values
	Excluded int      // trials outside the denominator (Q2)
	Lacking  int      // trials in which it is not evaluable
	Censored int      // values that are only a lower bound
}

// Sample gathers an arm's trials over the cases that in selects; nil selects
// all.
func (t *Table) Sample(metric, arm int, in func(*TableCase) bool) Sample {
	var s Sample
	for c := range t.Cases {
		if in != nil && !in(&t.Cases[c]) {
			continue
		}
		for i := range t.Trials {
			r := t.Row(arm, c, i)
			v, state := r.Value(metric)
			switch state {
			case ValueExcluded:
				s.Excluded++
			case ValueLacking:
				s.Lacking++
			case ValueOK:
				s.Values, s.Families = append(s.Values, v), append(s.Families, t.Cases[c].Family)
				if metric == MetricLatency {
					s.Censored += int(bit(r.Censored))
				}
			}
		}
	}
	return s
}

// UnbalancedFrom is the share of the largest family over the average beyond
// which a comparison rests mostly on few families and is flagged
// (statistics §1, docs/calibration.md).
const UnbalancedFrom = 2.0

// MethodFor is the standard error that a paired difference is tested with: CR1,
// or CR2 with Satterthwaite degrees of freedom when families hold different
// numbers of cases, where CR1 claims too much: at 8 families, none over twice
// the average, its 95 % intervals cover about 93 % (docs/calibration.md). With
// equal families the two are the same. It depends on the design alone, never on
// results.
func MethodFor(d *stats.Difference) stats.SEMethod {
	if d.Imbalance > 1+1e-9 {
		return stats.CR2
	}
	return stats.CR1
}

// ErrorOf is the standard error of a difference by a method, with its degrees
// of freedom.
func ErrorOf(d *stats.Difference, m stats.SEMethod) (se, df float64) {
	if m == stats.CR2 {
		return d.CR2, d.DF2
	}
	return d.CR1, float64(d.Clusters - 1)
}

// SmallestDetectable is the smallest true difference that a one-sided t test at
// alpha shows with the given power, at the error that was achieved. 0 degrees
// of freedom or error give 0.
func SmallestDetectable(se, df, alpha, power float64) float64 {
	if !(se > 0) || !(df > 0) {
		return 0
	}
	return (stats.StudentQuantile(1-alpha, df) + stats.StudentQuantile(power, df)) * se
}

// Figures of the comparison of two campaigns, all fixed before any data.
const (
	compareLevel = .95
	comparePower = .8
	compareSeed  = 1
)

// NoDifferenceShown is the word of a difference that no test tells from zero.
// It is not a proof of equality: see the smallest detectable difference.
const NoDifferenceShown = "no difference shown"

// Differences are those of arm b from arm a, B − A, in every metric that stands
// for itself, with p adjusted by Holm over them. Pairs are those that both have.
func (t *Table) Differences(a, b int) ([]Difference, error) {
	out := []Difference{}
	for m := range metrics {
		if metrics[m].derived {
			continue
		}
		d, err := t.difference(m, a, b)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, adjust(out)
}

// MetricSummary is the mean of a metric over the trials of an arm, with its CR1
// error by family. A nil statistic is not evaluable.
type MetricSummary struct {
	Metric   string    `json:"metric"`
	Unit     string    `json:"unit"`
	Mean     *Num      `json:"mean"`
	SE       *Num      `json:"se"`
	CI95     *Interval `json:"ci95"` // by t; nil where the error is undefined or zero
	N        int       `json:"n"`
	Families int       `json:"families"`
	Excluded int       `json:"excluded"` // outside the denominator
	Lacking  int       `json:"lacking"`  // not evaluable
	Censored int       `json:"censored"` // only lower bounds
}

// Summaries are the metrics of an arm, in the order of Metrics.
func (t *Table) Summaries(arm int) ([]MetricSummary, error) {
	out := make([]MetricSummary, 0, len(metrics))
	for m := range metrics {
		s := t.Sample(m, arm, nil)
		x := MetricSummary{
			Metric: metrics[m].Name, Unit: metrics[m].Unit, N: len(s.Values), Excluded: s.Excluded, Lacking: s.Lacking, Censored: s.Censored,
		}
		c, err := stats.ClusteredMean(s.Values, s.Families)
		x.Families = c.Clusters
		switch {
		case errors.Is(err, stats.ErrNoData):
		case errors.Is(err, stats.ErrOneCluster):
			x.Mean = numPtr(c.Mean)
		case err != nil:
			return nil, fmt.Errorf("%s: %w", x.Metric, err)
		default:
			x.Mean, x.SE = numPtr(c.Mean), numPtr(c.CR1)
			if test, err := c.TTest(compareLevel); err == nil {
				x.CI95 = &Interval{Num(test.Lo), Num(test.Hi)}
			} else if !errors.Is(err, stats.ErrNoVariation) {
				return nil, fmt.Errorf("%s: %w", x.Metric, err)
			}
		}
		out = append(out, x)
	}
	return out, nil
}

// difference is B − A of one metric.
func (t *Table) difference(metric, a, b int) (Difference, error) {
	d := Difference{
		Metric: metrics[metric].Name, SEMethod: "CR1", Cluster: "family", Better: metrics[metric].betterWord(),
		Estimand: EstimandLike, These: TheseCases{Estimand: EstimandThese}, Word: "not tested: no pair is evaluable in both arms",
	}
	p := t.Pairs(metric, b, a, nil)
	d.Pairs, d.Censored = p.Used, p.CensoredA+p.CensoredB
	s, err := stats.PairedDifference(p.Pairs, compareLevel)
	d.N, d.Clusters = s.N, s.Clusters
	if err == nil && Num(s.CR1).Round() == 0 { // rounding is no certainty
		err = stats.ErrNoVariation
	}
	switch {
	case errors.Is(err, stats.ErrNoData):
		return d, nil
	case errors.Is(err, stats.ErrOneCluster):
		d.Mean = numPtr(s.Mean)
		d.Word = "not tested: one family"
	case errors.Is(err, stats.ErrTooFewFamilies):
		d.Mean, d.SE = numPtr(s.Mean), numPtr(s.CR1)
		d.Word = fmt.Sprintf("not tested: %d families, a test needs %d", s.Clusters, stats.MinFamilies)
	case errors.Is(err, stats.ErrNoVariation):
		d.Mean, d.SE = numPtr(s.Mean), numPtr(s.CR1)
		d.Word = "not tested: the difference is the same in every case"
		if Num(s.Mean).Round() == 0 {
			d.Word = NoDifferenceShown
		}
	case err != nil:
		return d, fmt.Errorf("difference of %s: %w", d.Metric, err)
	default:
		d.test(&s)
	}
	d.Correlation = numOf(s.Correlation)
	d.DesignEffect = numOf(s.DesignEffect)
	d.these(&p, s.Mean)
	if err := d.resample(&p); err != nil {
		return d, err
	}
	if metrics[metric].Scale == ScaleRatio {
		d.ratio(&p)
	}
	return d, nil
}

func (d *Difference) test(s *stats.Difference) {
	m := MethodFor(s)
	inf := s.T1
	if m == stats.CR2 {
		inf = s.T2
	}
	d.SEMethod = string(m)
	if s.Imbalance > UnbalancedFrom {
		d.LargestFamily = numPtr(s.Imbalance)
	}
	d.Mean, d.SE, d.DF = numPtr(s.Mean), numPtr(inf.SE), numPtr(inf.DF)
	d.CI95, d.P = &Interval{Num(inf.Lo), Num(inf.Hi)}, numPtr(inf.P)
	d.MDE = numPtr(SmallestDetectable(inf.SE, inf.DF, (1-compareLevel)/2, comparePower))
}

// these is the interval of the other estimand: the cases as they are, with the
// noise of trials only.
func (d *Difference) these(p *Paired, mean float64) {
	if p.NoiseDF == 0 {
		d.These.Reason = "a case has fewer than two pairs: the noise of trials cannot be told"
		return
	}
	se := math.Sqrt(p.NoiseVar)
	d.These.SE = numPtr(se)
	if se == 0 {
		d.These.Reason = "no case varies from trial to trial"
		return
	}
	half := stats.StudentQuantile(1-(1-compareLevel)/2, float64(p.NoiseDF)) * se
	d.These.CI95 = &Interval{Num(mean - half), Num(mean + half)}
}

// resample adds the two cross-checks: the family sign-flip p and the cluster
// bootstrap. Where they do not apply they are left out.
func (d *Difference) resample(p *Paired) error {
	fams, err := stats.FamilySums(p.Pairs)
	if err != nil {
		return fmt.Errorf("difference of %s: %w", d.Metric, err)
	}
	r := stats.Resampling{Draws: stats.DefaultDraws, Seed: compareSeed}
	flip, err := stats.SignFlipTest(fams, r)
	if err == nil {
		d.PermutationP = numPtr(flip.P)
	} else if !refused(err) {
		return fmt.Errorf("difference of %s: %w", d.Metric, err)
	}
	boot, err := stats.ClusterBootstrap(fams, compareLevel, r)
	if err == nil {
		d.Bootstrap95 = &Interval{Num(boot.BCa.Lo), Num(boot.BCa.Hi)}
	} else if !refused(err) {
		return fmt.Errorf("difference of %s: %w", d.Metric, err)
	}
	return nil
}

// refused reports whether a method says that it does not apply to the data.
func refused(err error) bool {
	var r *stats.Refusal
	return errors.As(err, &r)
}

// ratio is the ratio of the arms' totals by Fieller.
func (d *Difference) ratio(p *Paired) {
	totals := make([]stats.FamilyTotals, len(p.Pairs))
	for i, x := range p.Pairs {
		totals[i] = stats.FamilyTotals(x)
	}
	r, err := stats.FamilyRatio(totals, compareLevel)
	if err != nil {
		if r.Ratio > 0 {
			d.Ratio = numPtr(r.Ratio)
		}
		return
	}
	d.Ratio, d.Ratio95 = numPtr(r.Ratio), &Interval{Num(r.Lo), Num(r.Hi)}
}

// adjust gives the tested differences their Holm-adjusted p, over the metrics
// of one pair of arms, and their words.
func adjust(ds []Difference) error {
	var p []float64
	for i := range ds {
		if ds[i].P != nil {
			p = append(p, float64(*ds[i].P))
		}
	}
	if len(p) == 0 {
		return nil
	}
	adjusted, err := stats.Holm(p)
	if err != nil {
		return fmt.Errorf("adjust for %d metrics: %w", len(p), err)
	}
	for i := range ds {
		d := &ds[i]
		if d.P == nil {
			continue
		}
		d.PAdjusted, d.AdjustedOver = numPtr(adjusted[0]), len(p)
		adjusted = adjusted[1:]
		d.Word = d.word()
	}
	return nil
}

func (d *Difference) word() string {
	if float64(*d.PAdjusted) >= 1-compareLevel {
		return NoDifferenceShown
	}
	word := "B is lower"
	if *d.Mean > 0 {
		word = "B is higher"
	}
	if better := d.Better == betterHigher; better == (*d.Mean > 0) {
		return word + ", better"
	}
	return word + ", worse"
}

func numOf(f *float64) *Num {
	if f == nil {
		return nil
	}
	return numPtr(*f)
}

// Words for the direction of a metric.
const (
	betterHigher = "higher"
	betterLower  = "lower"
)

func (m *Metric) betterWord() string {
	if m.Better == HigherBetter {
		return betterHigher
	}
	return betterLower
}
