package evaluator

import (
	"cmp"
	"fmt"
	"slices"
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
	Freeze         *RunFreeze  `json:"freeze,omitempty"` // nil when no holdout was opened
	Budget         Budget      `json:"budget"`
	Partial        *Partial    `json:"partial,omitempty"`
	TraceSetDigest string      `json:"trace_set_digest"`
}

// SideOf is the side that a run document describes.
func SideOf(d *RunDocument, arm string) CompareSide {
	return CompareSide{
		Campaign: d.Campaign, Arm: arm, Status: d.Status, Evidence: d.Evidence, Corpus: d.Corpus, Model: d.Model, Prices: d.Prices,
		Seed: d.Seed, Trials: d.Trials, Freeze: d.Freeze, Budget: d.Budget, Partial: d.Partial, TraceSetDigest: d.TraceSetDigest,
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
	A           ArmSummary   `json:"a"`
	B           ArmSummary   `json:"b"`
	Pairs       int          `json:"pairs"` // same case and trial index in both, each with a trace
	Cases       int          `json:"cases"`
	Families    int          `json:"families"`
	Differences []Difference `json:"differences"`
	// PerCompletion is nil where the sides carry different evidence.
	PerCompletion *CostPerCompletion `json:"cost_per_completion"`
	Missing       []MissingPair      `json:"missing_pairs"`
}

// Names of the two estimands (statistics §0.7).
const (
	EstimandLike  = "cases like these" // families are a sample: their noise counts
	EstimandThese = "these cases"      // the cases are fixed: only trials vary
)

// Difference is B − A of one metric: the mean over cases of the mean over the
// case's pairs, with its interval and test for "cases like these", families as
// clusters. What is nil does not apply; Word says why no test was made.
type Difference struct {
	Metric   string `json:"metric"`
	Better   string `json:"better"` // higher or lower
	Estimand string `json:"estimand"`
	Mean     *Num   `json:"mean"`      // nil without a pair in which both are evaluable
	SE       *Num   `json:"se"`        // nil with fewer than two families
	SEMethod string `json:"se_method"` // CR1, or CR2 with families of unequal size
	DF       *Num   `json:"df"`
	Cluster  string `json:"cluster"`
	Clusters int    `json:"clusters"`
	N        int    `json:"n"` // cases
	// LargestFamily is the size of the largest family over the average, given where
	// it is above UnbalancedFrom: the figure rests mostly on few families.
	LargestFamily *Num `json:"largest_family,omitempty"`
	Pairs         int  `json:"pairs"`
	// Censored counts trials in the pairs whose value is only a lower bound.
	Censored int       `json:"censored,omitempty"`
	CI95     *Interval `json:"ci95"`
	P        *Num      `json:"p"` // two-sided, of no difference
	// PAdjusted is P by Holm over the AdjustedOver metrics of this pair of arms
	// that have one.
	PAdjusted    *Num `json:"p_adjusted"`
	AdjustedOver int  `json:"adjusted_over"`
	// MDE is the smallest true difference shown with power 0.8, two-sided 0.05, at
	// the error that was achieved.
	MDE          *Num       `json:"smallest_detectable"`
	Word         string     `json:"word"`
	Correlation  *Num       `json:"correlation"` // of the arms over cases
	DesignEffect *Num       `json:"design_effect"`
	PermutationP *Num       `json:"permutation_p"`  // family sign flips, two-sided
	Bootstrap95  *Interval  `json:"bootstrap_ci95"` // cluster bootstrap, BCa, 10,000 draws
	Ratio        *Num       `json:"ratio,omitempty"`
	Ratio95      *Interval  `json:"ratio_ci95,omitempty"` // Fieller; nil where unbounded
	These        TheseCases `json:"these_cases"`
}

// TheseCases is the error of a difference when the cases are no sample.
type TheseCases struct {
	Estimand string    `json:"estimand"`
	SE       *Num      `json:"se"`
	CI95     *Interval `json:"ci95"`
	Reason   string    `json:"reason,omitempty"` // why a figure is missing
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
	table, err := pairTable(as, bs)
	if err != nil {
		return out, err
	}
	families, cases := map[string]bool{}, map[string]bool{}
	for _, p := range allPairs(planA, planB) {
		why := missing(p, planA[p], planB[p], as[p], bs[p], a.Cases, b.Cases)
		if why != "" {
			out.Missing = append(out.Missing, MissingPair{p.caseID, p.trial, why})
			continue
		}
		if as[p].Family != bs[p].Family {
			return out, fmt.Errorf("case %s is in family %s in A and %s in B", p.caseID, as[p].Family, bs[p].Family)
		}
		out.Pairs++
		cases[p.caseID], families[as[p].Family] = true, true
		for i, s := range []*TrialScore{as[p], bs[p]} {
			c, _ := table.Case(p.caseID)
			if err := table.Row(i, c, p.trial).fill(s); err != nil {
				return out, err
			}
		}
	}
	out.Cases, out.Families = len(cases), len(families)
	if out.Differences, err = table.Differences(0, 1); err != nil {
		return out, err
	}
	cost, err := table.CostPerCompletion(0, 1)
	out.PerCompletion = &cost
	return out, err
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
