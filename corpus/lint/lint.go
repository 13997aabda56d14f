package lint

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/corpus/gold"
)

// Rules of the audit.
const (
	RuleNoGold         = "no-gold"         // a case without gold, or gold without a case
	RuleReference      = "reference"       // gold names something the case does not have
	RuleNoCriteria     = "no-criteria"     // nothing is judged, or nothing is required
	RuleGoldRun        = "gold-run"        // the gold solution does not complete the case
	RuleFaultRun       = "fault-run"       // … not with the faults on
	RuleFaultIdle      = "fault-idle"      // a fault that the gold run never meets
	RuleDoNothing      = "do-nothing"      // doing nothing completes the case
	RuleClaimOnly      = "claim-only"      // a bare claim completes the case
	RuleAlwaysTrue     = "always-true"     // a required criterion that nothing falsifies
	RuleExpectedEffect = "expected-effect" // an expected effect that no tool can make
	RuleUnusedTool     = "unused-tool"     // a tool that nobody can or need call
	RuleReviewer       = "reviewer"        // no reviewer independent of the authors
	RulePlan           = "plan"            // the solution makes no admissible plan
	RuleSameActions    = "same-actions"    // more than two cases of a family act alike
	RuleUnproven       = "unproven"        // an action that the oracle does not miss
	RuleNearDuplicate  = "near-duplicate"  // two cases that say the same
	RuleCoverage       = "coverage"        // see Coverage
)

// Finding is one thing wrong with a case.
type Finding struct {
	Case  string `json:"case"`
	Rule  string `json:"rule"`
	Where string `json:"where"` // file, or file:line
	Text  string `json:"text"`
}

// report gathers findings.
type report struct {
	list []Finding
}

func (r *report) addf(caseID, rule, where, format string, args ...any) {
	r.list = append(r.list, Finding{caseID, rule, where, fmt.Sprintf(format, args...)})
}

func (r *report) sorted() []Finding {
	slices.SortStableFunc(r.list, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Case, b.Case), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Where, b.Where), cmp.Compare(a.Text, b.Text))
	})
	return slices.Compact(r.list)
}

// Run audits every case of a corpus against its gold. Findings are sorted by
// case, rule and place; none means that the audit is clean.
func Run(c *corpus.Corpus, set *gold.Set) []Finding {
	return RunOf(c, set, func(string) bool { return true })
}

// RunOf is Run with the findings of some cases only, and those of the corpus as
// a whole. The gold runs of the other cases, most of the work, are left out; what
// compares cases with each other looks at all of them.
func RunOf(c *corpus.Corpus, set *gold.Set, some func(id string) bool) []Finding {
	var r report
	for _, k := range c.Cases {
		if !some(k.ID) {
			continue
		}
		g, ok := set.Get(k.ID)
		if !ok {
			r.addf(k.ID, RuleNoGold, k.File(), "the case has no gold file")
			continue
		}
		checkCase(&r, k, g)
	}
	for _, g := range set.All() {
		if _, ok := c.Case(g.Case); !ok {
			r.addf(g.Case, RuleNoGold, g.Where("case"), "gold of a case that does not exist")
		}
	}
	sameActions(&r, c, set)
	nearDuplicates(&r, c)
	r.list = slices.DeleteFunc(r.list, func(f Finding) bool { return f.Case != "" && !some(f.Case) })
	return r.sorted()
}

func checkCase(r *report, c *corpus.Case, g *gold.Gold) {
	before := len(r.list)
	checkCriteria(r, c, g)
	checkReferences(r, c, g)
	checkPlan(r, c, g)
	checkTools(r, c, g)
	checkControls(r, c, g)
	if slices.ContainsFunc(r.list[before:], func(f Finding) bool { return f.Rule == RuleReference }) {
		return // a walk over dangling names would only repeat them
	}
	checkRuns(r, c, g)
}

// sameActions finds families in which more than two cases call the same tools
// in the same order.
func sameActions(r *report, c *corpus.Corpus, set *gold.Set) {
	seen := map[string]int{}
	for _, k := range c.Cases {
		g, ok := set.Get(k.ID)
		if !ok {
			continue
		}
		key := k.Family
		for _, s := range g.Solution {
			if !s.Final() {
				key += "\x00" + s.Call
			}
		}
		seen[key]++
		if seen[key] > 2 {
			r.addf(k.ID, RuleSameActions, g.Where("solution"), "two other cases of family %s call the same tools in the same order", k.Family)
		}
	}
}
