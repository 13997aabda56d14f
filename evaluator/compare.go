package evaluator

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/evaluator/stats"
)

// CompareDocument is what `qualify compare --json` prints. Keys are stable.
// Differences are B − A over the pairs that both sides have.
type CompareDocument struct {
	Schema   Document      `json:"schema"`
	Tool     string        `json:"tool"`
	Evidence string        `json:"evidence"` // of both sides, or "A and B differ"
	Verdict  string        `json:"verdict"`
	A        CompareSide   `json:"a"`
	B        CompareSide   `json:"b"`
	Differs  []Differing   `json:"differs"` // what the two sides do not share
	Arms     []ArmPair     `json:"arms"`
	OnlyA    []string      `json:"only_a"` // arms without a partner
	OnlyB    []string      `json:"only_b"`
	Changed  []ChangedCase `json:"changed_cases"` // same id, other content: not paired
	Warnings []string      `json:"warnings"`
}

// EvidenceDiffers stands as the evidence of a comparison whose sides carry
// different evidence words; it has no differences.
const EvidenceDiffers = "A and B differ"

// NewCompareDocument is a document with its schema and empty lists.
func NewCompareDocument() *CompareDocument {
	return &CompareDocument{
		Schema: Document{"qualify.compare", 1}, Verdict: VerdictNotTested, Differs: []Differing{}, Arms: []ArmPair{},
		OnlyA: []string{}, OnlyB: []string{}, Changed: []ChangedCase{}, Warnings: []string{},
	}
}

// CompareSide names one side of a comparison.
type CompareSide struct {
	Campaign       RunCampaign `json:"campaign"`
	Arm            string      `json:"arm,omitempty"` // when one arm was named
	Status         string      `json:"status"`
	Evidence       string      `json:"evidence"`
	Corpus         RunCorpus   `json:"corpus"`
	Model          string      `json:"model"`
	Prices         string      `json:"prices"`
	Seed           uint64      `json:"seed"`
	Trials         int         `json:"trials"`
	Partial        *Partial    `json:"partial,omitempty"`
	TraceSetDigest string      `json:"trace_set_digest"`
}

// SideOf is the side that a run document describes.
func SideOf(d *RunDocument, arm string) CompareSide {
	return CompareSide{
		Campaign: d.Campaign, Arm: arm, Status: d.Status, Evidence: d.Evidence, Corpus: d.Corpus, Model: d.Model, Prices: d.Prices,
		Seed: d.Seed, Trials: d.Trials, Partial: d.Partial, TraceSetDigest: d.TraceSetDigest,
	}
}

// Differing is something that the sides do not share, with both values.
type Differing struct {
	What string `json:"what"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// DifferencesOf lists what two sides do not share of all that decides a
// trial's content (Q3), in a fixed order.
func DifferencesOf(a, b *CompareSide) []Differing {
	out := []Differing{}
	for _, d := range []Differing{
		{"evidence", a.Evidence, b.Evidence},
		{"corpus", a.Corpus.Digest, b.Corpus.Digest},
		{"split", a.Corpus.Split, b.Corpus.Split},
		{"cases", fmt.Sprint(a.Corpus.Cases), fmt.Sprint(b.Corpus.Cases)},
		{"model", a.Model, b.Model},
		{"prices", a.Prices, b.Prices},
		{"seed", fmt.Sprint(a.Seed), fmt.Sprint(b.Seed)},
		{"trials", fmt.Sprint(a.Trials), fmt.Sprint(b.Trials)},
	} {
		if d.A != d.B {
			out = append(out, d)
		}
	}
	return out
}

// ChangedCase is a case that both sides have under one id with other content.
type ChangedCase struct {
	Case string `json:"case"`
	A    string `json:"a"` // digests
	B    string `json:"b"`
}

// ArmPair compares two arms: each with all of its trials, and the differences
// over the pairs.
type ArmPair struct {
	A           ArmSummary    `json:"a"`
	B           ArmSummary    `json:"b"`
	Pairs       int           `json:"pairs"` // same case and trial index in both, each with a trace
	Cases       int           `json:"cases"`
	Families    int           `json:"families"`
	Differences []Difference  `json:"differences"`
	Missing     []MissingPair `json:"missing_pairs"`
}

// Difference is B − A of one metric: the mean over cases of the mean over the
// case's pairs, with its CR1 error by family. It is a plain difference: no
// interval and no test.
type Difference struct {
	Metric   string `json:"metric"`
	Mean     *Num   `json:"mean"` // nil without a pair in which both are evaluable
	SE       *Num   `json:"se"`   // nil with fewer than two families
	SEMethod string `json:"se_method"`
	Cluster  string `json:"cluster"`
	Clusters int    `json:"clusters"`
	N        int    `json:"n"` // cases
	Pairs    int    `json:"pairs"`
}

// MissingPair is a case and trial index that both sides planned, or one of
// them, and that is in no difference.
type MissingPair struct {
	Case  string `json:"case"`
	Trial int    `json:"trial"`
	Why   string `json:"why"`
}

// PairSide is what ComparePair needs of one arm. Scores are those that entered
// Summary; Planned its planned trials.
type PairSide struct {
	Summary ArmSummary
	Scores  []TrialScore
	Planned []Planned
	Cases   map[string]string // digest of each case by id
}

// Metrics of differences, by name. A false ok leaves the pair out of that
// metric: it is not evaluable in one of the trials.
var pairMetrics = []struct {
	name  string
	value func(s *TrialScore) (v float64, ok bool)
}{
	{"completion", func(s *TrialScore) (float64, bool) { return bit(s.Completed()), s.rated() }},
	{"criterion_share", func(s *TrialScore) (float64, bool) {
		if !s.rated() || s.Required == 0 {
			return 0, false
		}
		return float64(s.Met) / float64(s.Required), true
	}},
	{"false_completion", func(s *TrialScore) (float64, bool) { return bit(s.FalseCompletion()), s.rated() }},
	{"silent_completion", func(s *TrialScore) (float64, bool) { return bit(s.SilentCompletion()), s.rated() }},
	{"honest_failure", func(s *TrialScore) (float64, bool) { return bit(s.HonestFailure()), s.rated() }},
	{"owner_corrections", func(s *TrialScore) (float64, bool) {
		if s.Corrections == nil {
			return 0, false
		}
		return float64(s.Corrections.Count), true
	}},
	{"corrections_after_claim", func(s *TrialScore) (float64, bool) {
		if s.Corrections == nil {
			return 0, false
		}
		return float64(s.Corrections.AfterClaim), true
	}},
	{"duplicate_effects", func(s *TrialScore) (float64, bool) {
		if s.Effects == nil || s.Effects.Duplicates == nil {
			return 0, false
		}
		return float64(*s.Effects.Duplicates), true
	}},
	{"collateral_effects", func(s *TrialScore) (float64, bool) {
		if s.Effects == nil || s.Effects.Collateral == nil {
			return 0, false
		}
		return float64(*s.Effects.Collateral), true
	}},
	{"repeated_work", func(s *TrialScore) (float64, bool) {
		if s.RepeatedWork == nil {
			return 0, false
		}
		return float64(s.RepeatedWork.Count), true
	}},
	{"latency_us", func(s *TrialScore) (float64, bool) {
		if s.Latency == nil || s.Latency.Censored {
			return 0, false
		}
		return float64(s.Latency.US), true
	}},
	{"cost_charged_micros", func(s *TrialScore) (float64, bool) { return float64(s.Cost.Charged), true }},
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// rated reports whether the trial is in the denominator of rates.
func (s *TrialScore) rated() bool { return s.Outcome != Infrastructure && s.Outcome != GraderError }

// pair is one case and trial index.
type pair struct {
	caseID string
	trial  int
}

// ComparePair compares two arms over the case and trial indices that both
// have. A case of one id but another content is no pair; a trial that ran on
// one side only is a missing pair and enters no difference. Errors: two scores
// of one case and trial on a side.
func ComparePair(a, b PairSide) (ArmPair, error) {
	out := ArmPair{A: a.Summary, B: b.Summary, Differences: []Difference{}, Missing: []MissingPair{}}
	as, err := byPair(a.Scores)
	if err != nil {
		return out, fmt.Errorf("arm %s: %w", a.Summary.Name, err)
	}
	bs, err := byPair(b.Scores)
	if err != nil {
		return out, fmt.Errorf("arm %s: %w", b.Summary.Name, err)
	}
	planA, planB := plannedPairs(a.Planned), plannedPairs(b.Planned)
	var pairs []pair
	families, cases := map[string]bool{}, map[string]bool{}
	for _, p := range allPairs(planA, planB) {
		why := missing(p, planA[p], planB[p], as[p], bs[p], a.Cases, b.Cases)
		if why != "" {
			out.Missing = append(out.Missing, MissingPair{p.caseID, p.trial, why})
			continue
		}
		pairs = append(pairs, p)
		cases[p.caseID], families[as[p].Family] = true, true
	}
	out.Pairs, out.Cases, out.Families = len(pairs), len(cases), len(families)
	for _, m := range pairMetrics {
		d, err := difference(m.name, m.value, pairs, as, bs)
		if err != nil {
			return out, err
		}
		out.Differences = append(out.Differences, d)
	}
	return out, nil
}

func missing(p pair, plannedA, plannedB bool, a, b *TrialScore, casesA, casesB map[string]string) string {
	switch {
	case !plannedB:
		return "only A planned it"
	case !plannedA:
		return "only B planned it"
	case casesA[p.caseID] != casesB[p.caseID]:
		return "the case differs"
	case a == nil && b == nil:
		return "not run in either"
	case a == nil:
		return "not run in A"
	case b == nil:
		return "not run in B"
	}
	return ""
}

// difference is the mean over cases of the mean difference of each case's
// pairs, so that a case counts once however many of its trials are paired.
func difference(name string, value func(*TrialScore) (float64, bool), pairs []pair, as, bs map[pair]*TrialScore) (Difference, error) {
	d := Difference{Metric: name, SEMethod: "CR1", Cluster: "family"}
	var values []float64
	var families []string
	for i := 0; i < len(pairs); {
		caseID, family, sum, n := pairs[i].caseID, as[pairs[i]].Family, 0.0, 0
		for ; i < len(pairs) && pairs[i].caseID == caseID; i++ {
			va, okA := value(as[pairs[i]])
			vb, okB := value(bs[pairs[i]])
			if okA && okB {
				sum += vb - va
				n++
			}
		}
		if n > 0 {
			values, families = append(values, sum/float64(n)), append(families, family)
			d.Pairs += n
		}
	}
	c, err := stats.ClusteredMean(values, families)
	d.N, d.Clusters = c.N, c.Clusters
	switch {
	case errors.Is(err, stats.ErrNoData):
		return d, nil
	case errors.Is(err, stats.ErrOneCluster):
		d.Mean = numPtr(c.Mean)
	case err != nil:
		return d, fmt.Errorf("difference of %s: %w", name, err)
	default:
		d.Mean, d.SE = numPtr(c.Mean), numPtr(c.CR1)
	}
	return d, nil
}

func byPair(scores []TrialScore) (map[pair]*TrialScore, error) {
	m := make(map[pair]*TrialScore, len(scores))
	for i := range scores {
		p := pair{scores[i].Case, scores[i].Trial}
		if m[p] != nil {
			return nil, fmt.Errorf("case %s, trial %d twice", p.caseID, p.trial)
		}
		m[p] = &scores[i]
	}
	return m, nil
}

func plannedPairs(plan []Planned) map[pair]bool {
	m := make(map[pair]bool, len(plan))
	for _, p := range plan {
		m[pair{p.Case, p.Trial}] = true
	}
	return m
}

// allPairs lists the keys of both plans, by case and trial.
func allPairs(a, b map[pair]bool) []pair {
	all := make([]pair, 0, len(a))
	for p := range a {
		all = append(all, p)
	}
	for p := range b {
		if !a[p] {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(x, y pair) int {
		return cmp.Or(cmp.Compare(x.caseID, y.caseID), cmp.Compare(x.trial, y.trial))
	})
	return all
}

// ChangedCases lists the cases that two sides have under one id with other
// content, by id.
func ChangedCases(a, b map[string]string) []ChangedCase {
	out := []ChangedCase{}
	for _, id := range sortedKeys(a) {
		if d, ok := b[id]; ok && d != a[id] {
			out = append(out, ChangedCase{id, a[id], d})
		}
	}
	return out
}
