package evaluator

import "strconv"

// ArmFamily is an arm's completion in one family of cases.
type ArmFamily struct {
	Family  string `json:"family"`
	Planned int    `json:"planned"`
	N       int    `json:"n"` // the denominator of the rate (Q2)
	Met     int    `json:"met"`
	Rate    *Num   `json:"rate"`
	False   int    `json:"false_completion"` // claims that the oracle refutes, among the n
}

// Findings whose trace lines an arm's summary names.
const (
	LinkFalseCompletion  = "false_completion" // the last claim
	LinkCorrection       = "owner_correction"
	LinkRepeatedWork     = "repeated_work"
	LinkDuplicateEffect  = "duplicate_effect"
	LinkCollateralEffect = "collateral_effect"
)

// LinkKinds are all kinds of links, in the order in which reports show them.
func LinkKinds() []string {
	return []string{LinkFalseCompletion, LinkDuplicateEffect, LinkCollateralEffect, LinkCorrection, LinkRepeatedWork}
}

func (a *aggregator) family(name string) *ArmFamily {
	f := a.perFamily[name]
	if f == nil {
		f = &ArmFamily{Family: name}
		a.perFamily[name] = f
	}
	return f
}

func (a *aggregator) finishFamilies() {
	for _, name := range sortedKeys(a.perFamily) {
		f := a.perFamily[name]
		f.Rate = ratio(f.Met, f.N)
		a.sum.Families = append(a.sum.Families, *f)
	}
}

// link names the trace lines of a trial's findings. Trials come in the order
// of their keys, so the lists do not depend on the order of the scores.
func (a *aggregator) link(s *TrialScore) {
	add := func(kind string, lines []int) {
		for _, n := range lines {
			a.sum.Links[kind] = append(a.sum.Links[kind], s.Key+":"+strconv.Itoa(n))
		}
	}
	if s.FalseCompletion() && s.ClaimLine > 0 {
		add(LinkFalseCompletion, []int{s.ClaimLine})
	}
	add(LinkCorrection, s.CorrectionLines)
	add(LinkRepeatedWork, s.RepeatedLines)
	if s.Effects != nil {
		add(LinkDuplicateEffect, s.Effects.DuplicateLines)
		add(LinkCollateralEffect, s.Effects.CollateralLines)
	}
}
