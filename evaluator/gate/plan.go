package gate

import (
	"errors"
	"fmt"
	"math"

	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/stats"
)

// Design is the size of a campaign before it runs.
type Design struct {
	Arms   []string
	Cases  []evaluator.TableCase
	Trials int
}

// PlanDocument is what `qualify gate --plan --json` prints: what each rule needs
// to be able to PASS, before money is spent. Keys are stable.
type PlanDocument struct {
	Schema   evaluator.Document `json:"schema"`
	Tool     string             `json:"tool"`
	Campaign string             `json:"campaign"`
	Policy   PolicyRef          `json:"policy"`
	Families int                `json:"families"`
	Cases    int                `json:"cases"`
	Trials   int                `json:"trials"` // of each case, in each arm
	Fits     bool               `json:"fits"`   // every required rule can pass
	Rules    []RulePlan         `json:"rules"`
	Assumed  []string           `json:"assumed"`
}

// RulePlan is what one rule needs. Families is nil where no number can be named
// before there is data; Reason says why.
type RulePlan struct {
	ID       string   `json:"id"`
	Step     Step     `json:"step"`
	Severity Severity `json:"severity"`
	Scope    string   `json:"scope"`
	Families *int     `json:"families"` // needed, of the average size of the design
	Cases    *int     `json:"cases"`
	Trials   *int     `json:"trials"` // needed in each arm, at the design's trials a case
	Has      int      `json:"has"`    // families of the design in scope
	Fits     bool     `json:"fits"`
	Reason   string   `json:"reason"`
}

// planWord is the evidence word of what a policy of the kind can pass.
func planWord(k Kind) string {
	if k == KindSimulation {
		return evaluator.EvidenceSimulated
	}
	return evaluator.EvidenceMeasured
}

// mostFamilies bounds the search for a number of families.
const mostFamilies = 1_000_000

// Plan computes what each rule needs to be able to PASS at its last look. It is
// a pure function of policy and design. Assumptions are in the document; a rule
// about a metric whose spread nobody can guess has no number. Errors: a policy
// that does not fit the design (a Faults).
func Plan(p *Policy, d Design) (*PlanDocument, error) {
	if err := p.Fits(d.Arms, d.Cases); err != nil {
		return nil, err
	}
	if d.Trials < 1 {
		return nil, fmt.Errorf("plan: %d trials of each case, at least 1 is needed", d.Trials)
	}
	g := p.Planning
	out := &PlanDocument{
		Schema: evaluator.Document{Name: "qualify.plan", Version: 1}, Policy: p.ref(), Cases: len(d.Cases), Trials: d.Trials,
		Families: familiesOf(d.Cases, nil), Fits: true, Rules: []RulePlan{},
		Assumed: []string{
			"evidence of the kind that the policy is for: " + planWord(p.Kind) + "; with any other no rule can pass",
			fmt.Sprintf("variance of case differences %s, of a case's trials %s in each arm, likeness within a family %s (planning of the policy)",
				say(g.Between), say(g.Within), say(g.ICC)),
			fmt.Sprintf("a superiority rule is sized for a true advantage of %s, a non-inferiority rule for equal arms; power %s", say(g.Detect), say(p.Power)),
			"rates that must stay low are sized for no event at all; with events more families are needed",
		},
	}
	alpha, err := p.lastAlpha()
	if err != nil {
		return nil, err
	}
	for i := range p.Rules {
		r, err := p.planRule(&p.Rules[i], &d, alpha)
		if err != nil {
			return nil, fmt.Errorf("rule %s: %w", p.Rules[i].ID, err)
		}
		out.Fits = out.Fits && (r.Fits || r.Severity == SeverityAdvisory)
		out.Rules = append(out.Rules, r)
	}
	return out, nil
}

func (p *Policy) ref() PolicyRef {
	return PolicyRef{p.Name, p.Kind, p.digest, evaluator.Num(p.Alpha), evaluator.Num(p.Power), p.Multiplicity}
}

// lastAlpha is the nominal level of the last look.
func (p *Policy) lastAlpha() (float64, error) {
	if p.Sequential.Method != MethodLooks {
		return p.Alpha, nil
	}
	looks, err := stats.SpendingLooks(p.Sequential.Spending, p.Alpha, p.Sequential.At, stats.UpperSide)
	if err != nil {
		return 0, fmt.Errorf("looks: %w", err)
	}
	return looks[len(looks)-1].NominalP, nil
}

func familiesOf(cases []evaluator.TableCase, in func(*evaluator.TableCase) bool) int {
	seen := map[string]bool{}
	for i := range cases {
		if in == nil || in(&cases[i]) {
			seen[cases[i].Family] = true
		}
	}
	return len(seen)
}

func (p *Policy) planRule(r *Rule, d *Design, alpha float64) (RulePlan, error) {
	in := r.in()
	cases := 0
	for i := range d.Cases {
		if in == nil || in(&d.Cases[i]) {
			cases++
		}
	}
	has := familiesOf(d.Cases, in)
	perFamily := float64(cases) / float64(has)
	if r.Bound == BoundPoint {
		has = familiesOf(d.Cases, nil)
	}
	out := RulePlan{ID: r.ID, Step: r.Step, Severity: r.Severity, Scope: r.Scope, Has: has}
	need, reason, err := p.need(r, perFamily, d.Trials, alpha)
	out.Reason = reason
	if err != nil || need == 0 {
		return out, err
	}
	need = max(need, stats.MinFamilies)
	casesNeeded := int(math.Ceil(float64(need) * perFamily))
	out.Families, out.Cases, out.Trials = new(need), new(casesNeeded), new(casesNeeded*d.Trials)
	out.Fits = has >= need
	return out, nil
}

// need is the number of families with which the rule can pass; 0 when it cannot
// be told.
func (p *Policy) need(r *Rule, perFamily float64, trials int, alpha float64) (families int, reason string, err error) {
	m := evaluator.Metrics()[r.metric]
	switch {
	case r.Bound == BoundPoint:
		return stats.MinFamilies, "a point; no campaign of fewer families passes", nil
	case p.Sequential.Method == MethodEProcess:
		return 0, "an e-process passes whenever its wealth reaches 1/alpha; no number of families is fixed before", nil
	case r.compare == Absolute && m.Bounded && m.Rare:
		n, err := stats.ZeroEventUnits(*r.Limit, 1-alpha)
		if errors.Is(err, stats.ErrRange) || n > mostFamilies {
			return 0, fmt.Sprintf("no number of families up to a million shows a rate of at most %s", say(*r.Limit)), nil
		}
		return n, fmt.Sprintf("no event in this many families bounds the rate by %s", say(*r.Limit)), err
	case r.compare == Absolute && m.Rare:
		one, err := stats.PoissonUpper(0, 1, 1-alpha)
		if err != nil {
			return 0, "", err
		}
		n := math.Ceil(one / *r.Limit)
		if !(n <= mostFamilies) {
			return 0, fmt.Sprintf("no number of families up to a million shows a count of at most %s", say(*r.Limit)), nil
		}
		return int(n), fmt.Sprintf("no event in this many families bounds the count by %s", say(*r.Limit)), nil
	case r.compare == Absolute:
		return 0, "how far the arm is from the limit is not known before there is data", nil
	case !m.Bounded:
		return 0, fmt.Sprintf("the spread of %s is not known before there is data; gate a pilot campaign and read smallest_detectable", m.Name), nil
	}
	effect, what := *r.Margin, "non-inferior when the arms are equal"
	if r.compare == SuperiorTo {
		effect, what = p.Planning.Detect-*r.Margin, fmt.Sprintf("superior when the true advantage is %s", say(p.Planning.Detect))
		if effect <= 0 {
			return 0, fmt.Sprintf("the margin %s is not below the advantage %s that the policy plans for", say(*r.Margin), say(p.Planning.Detect)), nil
		}
	}
	g := p.Planning
	deff, err := stats.DesignEffect(perFamily, g.ICC)
	if err != nil {
		return 0, "", err
	}
	perTrials := g.Between + 2*g.Within/float64(trials) // variance of a case's difference
	n, err := stats.FamilyDesign{
		SD: math.Sqrt(perTrials * deff / perFamily), Alpha: p.holmAlpha(r, alpha), Power: p.Power, Sides: stats.UpperSide,
	}.Families(effect)
	if errors.Is(err, stats.ErrRange) || n > mostFamilies {
		return 0, "more than a million families", nil
	}
	return n, what, err
}

// holmAlpha is the strictest level that the adjustment over baselines can ask
// for.
func (p *Policy) holmAlpha(r *Rule, alpha float64) float64 {
	n := 0
	for i := range p.Rules {
		if sameHypothesis(r, &p.Rules[i]) {
			n++
		}
	}
	if p.Multiplicity == MultiplicityNone || n == 0 {
		return alpha
	}
	return alpha / float64(n)
}
