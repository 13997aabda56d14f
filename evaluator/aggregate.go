package evaluator

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/evaluator/stats"
)

// Planned is one planned trial of an arm.
type Planned struct {
	Key    string // case/arm/trial
	Case   string
	Family string
	Trial  int
	// NotRun: its triple was cut by a ceiling in all arms. A planned trial
	// without trace that is not NotRun counts unclaimed_unmet (Q3).
	NotRun bool
}

// Arm names an arm to sum up.
type Arm struct {
	Name string
	Mode string
	Role string // ablation, or empty
}

// Aggregate sums up one arm over its planned trials; the order of scores does
// not matter. Errors: a score of an arm, case or key that is not planned, two
// scores of one trial, a score of a trial that was not run, mixed evidence.
func Aggregate(arm Arm, scores []TrialScore, planned []Planned) (ArmSummary, error) {
	byKey := make(map[string]*TrialScore, len(scores))
	for i := range scores {
		s := &scores[i]
		if s.Arm != arm.Name {
			return ArmSummary{}, fmt.Errorf("arm %s: trial %s is of arm %s", arm.Name, s.Key, s.Arm)
		}
		if byKey[s.Key] != nil {
			return ArmSummary{}, fmt.Errorf("arm %s: trial %s twice", arm.Name, s.Key)
		}
		byKey[s.Key] = s
	}
	plan := slices.SortedFunc(slices.Values(planned), func(a, b Planned) int { return cmp.Compare(a.Key, b.Key) })
	a := aggregator{sum: ArmSummary{
		Name: arm.Name, Mode: arm.Mode, Role: arm.Role, Termination: map[string]int{}, Calls: map[string]int{}, Faults: map[string]int{},
		Families: []ArmFamily{}, Links: map[string][]string{}, NotEvaluable: []NotEvaluable{},
	}, perFamily: map[string]*ArmFamily{}, corrections: RunCorrections{ByType: map[string]int{}}, byRole: map[string]int64{}}
	for i, p := range plan {
		if i > 0 && plan[i-1].Key == p.Key {
			return ArmSummary{}, fmt.Errorf("arm %s: trial %s planned twice", arm.Name, p.Key)
		}
		s := byKey[p.Key]
		delete(byKey, p.Key)
		if err := a.trial(p, s); err != nil {
			return ArmSummary{}, fmt.Errorf("arm %s: %w", arm.Name, err)
		}
	}
	for _, k := range sortedKeys(byKey) {
		return ArmSummary{}, fmt.Errorf("arm %s: trial %s is not planned", arm.Name, k)
	}
	if err := a.finish(); err != nil {
		return ArmSummary{}, fmt.Errorf("arm %s: %w", arm.Name, err)
	}
	return a.sum, nil
}

type aggregator struct {
	sum         ArmSummary
	completed   []float64 // 0 or 1, over the denominator of rates
	families    []string
	perFamily   map[string]*ArmFamily
	share       float64
	corrections RunCorrections
	durations   []stats.Duration
	ofFamily    []string // of durations
	latency     RunLatency
	queue       int64
	queued      int
	byRole      map[string]int64
	noRole      bool
}

func (a *aggregator) trial(p Planned, s *TrialScore) error {
	d := &a.sum.Denominators
	d.Planned++
	a.family(p.Family).Planned++
	switch {
	case s == nil && p.NotRun:
		d.NotRun++
		return nil
	case s == nil:
		d.Missing++
		d.UnclaimedUnmet++
		a.rated(0, p.Family)
		return nil
	case p.NotRun:
		return fmt.Errorf("trial %s has a trace and is listed as not run", p.Key)
	case s.Case != p.Case || s.Family != p.Family || s.Trial != p.Trial:
		return fmt.Errorf("trial %s: the trace is of case %s, family %s, trial %d", p.Key, s.Case, s.Family, s.Trial)
	}
	if a.sum.Evidence == "" {
		a.sum.Evidence = s.Evidence
	} else if a.sum.Evidence != s.Evidence {
		return fmt.Errorf("trial %s is %s, others are %s: evidence never mixes", p.Key, s.Evidence, a.sum.Evidence)
	}
	a.sum.Termination[s.Termination]++
	switch s.Outcome {
	case ClaimedMet:
		d.ClaimedMet++
		a.rated(1, p.Family)
	case UnclaimedMet:
		d.UnclaimedMet++
		a.rated(1, p.Family)
	case ClaimedUnmet:
		d.ClaimedUnmet++
		a.family(p.Family).False++
		a.rated(0, p.Family)
	case UnclaimedUnmet:
		d.UnclaimedUnmet++
		a.rated(0, p.Family)
	case Infrastructure:
		d.Infrastructure++
	case GraderError:
		d.GraderError++
	case NotRun:
		return fmt.Errorf("trial %s: a trace cannot be of a trial that was not run", p.Key)
	default:
		return fmt.Errorf("trial %s: unknown outcome %q", p.Key, s.Outcome)
	}
	if s.Outcome != Infrastructure && s.Outcome != GraderError && s.Required > 0 {
		a.share += float64(s.Met) / float64(s.Required)
		a.sum.CriterionShare.N++
	}
	a.figures(s)
	return nil
}

func (a *aggregator) rated(v float64, family string) {
	a.completed, a.families = append(a.completed, v), append(a.families, family)
	f := a.family(family)
	f.N++
	f.Met += int(v)
}

// figures adds up what is counted in every trial that ran, whatever its place
// in the denominators: safety and money do not depend on it.
func (a *aggregator) figures(s *TrialScore) {
	a.sum.Withdrawn += s.Withdrawn
	a.link(s)
	for k, n := range s.Calls {
		a.sum.Calls[k] += n
	}
	for k, n := range s.Faults {
		a.sum.Faults[k] += n
	}
	if c := s.Corrections; c != nil {
		a.corrections.N++
		a.corrections.Count += c.Count
		a.corrections.AfterClaim += c.AfterClaim
		for k, n := range c.ByType {
			a.corrections.ByType[k] += n
		}
	}
	if e := s.Effects; e != nil {
		var dup CountN
		dup.add(e.Duplicates)
		a.sum.Duplicates.Confirmed += dup.Count
		a.sum.Duplicates.Trials += dup.Trials
		a.sum.Duplicates.N += dup.N
		a.sum.Duplicates.Suppressed += e.Suppressed
		a.sum.Duplicates.Unknown += e.Unknown
		a.sum.Collateral.add(e.Collateral)
	}
	if r := s.RepeatedWork; r != nil {
		a.sum.RepeatedWork.add(&r.Count)
		a.sum.RepeatedWork.Calls += r.Calls
		a.sum.RepeatedWork.Tasks += r.Tasks
	}
	if l := s.Latency; l != nil {
		a.durations, a.ofFamily = append(a.durations, stats.Duration{US: l.US, Censored: l.Censored}), append(a.ofFamily, s.Family)
		a.latency.ModelUS += l.ModelUS
		a.latency.ToolUS += l.ToolUS
		if l.Censored {
			a.latency.Censored++
		}
		if l.QueueUS != nil {
			a.queued++
			a.queue += *l.QueueUS
		}
	}
	c := &a.sum.Cost
	c.N++
	c.Charged += s.Cost.Charged
	c.Held += s.Cost.Held
	c.Unknown += s.Cost.Unknown
	a.noRole = a.noRole || s.Cost.ByRole == nil
	for k, n := range s.Cost.ByRole {
		a.byRole[k] += n
	}
	for _, n := range s.NotEvaluable {
		a.lack(n.Metric, n.Reason)
	}
}

// lack counts trials for which a metric is not evaluable, by reason.
func (a *aggregator) lack(metric, reason string) {
	for i := range a.sum.NotEvaluable {
		if n := &a.sum.NotEvaluable[i]; n.Metric == metric && n.Reason == reason {
			n.Count++
			return
		}
	}
	a.sum.NotEvaluable = append(a.sum.NotEvaluable, NotEvaluable{metric, reason, 1})
}

func (a *aggregator) finish() error {
	s := &a.sum
	d := s.Denominators
	n := d.N()
	if !d.Closed() || n != len(a.completed) {
		return fmt.Errorf("denominators do not close: %+v", d)
	}
	met := d.ClaimedMet + d.UnclaimedMet
	s.Completion = RunCompletion{SEMethod: "CR1", Cluster: "family", N: n, Met: met}
	c, err := stats.ClusteredMean(a.completed, a.families)
	switch {
	case errors.Is(err, stats.ErrNoData):
		a.lackArm("completion", "no trial is rated")
	case errors.Is(err, stats.ErrOneCluster):
		s.Completion.Rate, s.Completion.Clusters = numPtr(c.Mean), c.Clusters
		a.lackArm("completion.se", "one family: its standard error is undefined")
	case err != nil:
		return fmt.Errorf("completion: %w", err)
	default:
		s.Completion.Rate, s.Completion.SE, s.Completion.Clusters = numPtr(c.Mean), numPtr(c.CR1), c.Clusters
		if s.Completion.CI95, err = interval95(c); err != nil {
			return fmt.Errorf("completion: %w", err)
		}
	}
	claims := d.ClaimedMet + d.ClaimedUnmet
	s.False = FalseCompletion{Count: d.ClaimedUnmet, Rate: ratio(d.ClaimedUnmet, n), N: n, Claims: claims, RateOfClaims: ratio(d.ClaimedUnmet, claims)}
	s.Silent = CountRate{d.UnclaimedMet, ratio(d.UnclaimedMet, n), n}
	s.Honest = CountRate{d.UnclaimedUnmet, ratio(d.UnclaimedUnmet, n), n}
	if s.CriterionShare.N > 0 {
		s.CriterionShare.Mean = numPtr(a.share / float64(s.CriterionShare.N))
	}
	if a.corrections.N > 0 {
		a.corrections.PerTrial = ratio(a.corrections.Count, a.corrections.N)
		a.corrections.AfterClaimPerTrial = ratio(a.corrections.AfterClaim, a.corrections.N)
		s.Corrections = &a.corrections
	}
	if !a.noRole && s.Cost.N > 0 {
		s.Cost.ByRole = a.byRole
	}
	a.lackNothingRan()
	a.finishFamilies()
	slices.SortFunc(s.NotEvaluable, func(x, y NotEvaluable) int {
		return cmp.Or(cmp.Compare(x.Metric, y.Metric), cmp.Compare(x.Reason, y.Reason))
	})
	return a.finishLatency()
}

func (a *aggregator) lackArm(metric, reason string) {
	a.sum.NotEvaluable = append(a.sum.NotEvaluable, NotEvaluable{Metric: metric, Reason: reason})
}

// interval95 is nil where the error is zero: an interval of no width would
// claim certainty.
func interval95(c stats.Clustered) (*Interval, error) {
	t, err := c.TTest(.95)
	if errors.Is(err, stats.ErrNoVariation) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &Interval{Num(max(0, t.Lo)), Num(min(1, t.Hi))}, nil
}

// lackNothingRan names the figures that have no input at all: those over rated
// trials when none is rated, those over claims when none is made, and those
// over trials when none ran. Their counts are 0 of n 0, which is no zero.
func (a *aggregator) lackNothingRan() {
	s := &a.sum
	switch {
	case s.Completion.N == 0:
		for _, m := range []string{"criterion_share", "false_completion", "silent_completion", "honest_failure"} {
			a.lackArm(m, "no trial is rated")
		}
	case s.False.Claims == 0:
		a.lackArm("false_completion.rate_of_claims", "no claim stands at the end of a trial")
	}
	if s.Cost.N > 0 {
		return
	}
	s.Evidence = EvidenceNotTested
	for _, m := range []string{"owner_corrections", "duplicate_effects", "collateral_effects", "repeated_work", "latency", "cost"} {
		a.lackArm(m, "no trial ran")
	}
}

func (a *aggregator) finishLatency() error {
	if len(a.durations) == 0 {
		return nil
	}
	l := &a.latency
	l.N, l.Rule = len(a.durations), "nearest rank"
	for _, q := range []struct {
		q       float64
		us      *int64
		atLeast *bool
	}{{.5, &l.P50, &l.P50AtLeast}, {.95, &l.P95, &l.P95AtLeast}, {.99, &l.P99, &l.P99AtLeast}} {
		v, err := stats.NearestRank(a.durations, q.q)
		if err != nil {
			return fmt.Errorf("latency: %w", err)
		}
		*q.us, *q.atLeast = v.US, v.AtLeast
	}
	if err := a.boundP95(); err != nil {
		return err
	}
	if a.queued == l.N {
		l.QueueUS = &a.queue
	}
	a.sum.Latency = l
	return nil
}

// boundP95 gives the 95th percentile its interval; nil with too few families.
func (a *aggregator) boundP95() error {
	times := make([]stats.FamilyDurations, len(a.durations))
	for i, d := range a.durations {
		times[i] = stats.FamilyDurations{Family: a.ofFamily[i], Times: []stats.Duration{d}}
	}
	d, err := stats.ClusterQuantile(times, .95, compareLevel, stats.Resampling{Draws: stats.DefaultDraws, Seed: compareSeed})
	switch {
	case errors.Is(err, stats.ErrTooFewFamilies), errors.Is(err, stats.ErrOneCluster):
		return nil
	case err != nil:
		return fmt.Errorf("latency: %w", err)
	}
	a.latency.P95CI95 = &LatencyBounds{Lo: d.Lo, Hi: d.Hi}
	return nil
}

// Controls sums up control trials by arm name and lists the cases that one of
// them completed, each an oracle fault (Q6).
func Controls(scores []TrialScore) ([]Control, []OracleFault) {
	byName := map[string]*Control{}
	faults := []OracleFault{}
	sorted := slices.SortedFunc(slices.Values(scores), func(a, b TrialScore) int { return cmp.Compare(a.Key, b.Key) })
	for i := range sorted {
		s := &sorted[i]
		c := byName[s.Mode]
		if c == nil {
			c = &Control{Name: s.Mode}
			byName[s.Mode] = c
		}
		c.Trials++
		if s.Completed() {
			c.Completed++
			faults = append(faults, OracleFault{s.Case, s.Mode, s.Trial})
		}
	}
	out := []Control{}
	for _, name := range sortedKeys(byName) {
		out = append(out, *byName[name])
	}
	return out, faults
}
