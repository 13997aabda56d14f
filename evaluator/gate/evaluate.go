package gate

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/stats"
)

// Evaluate judges the evidence by the policy. It is a pure function. Errors: a
// policy that names what the evidence does not have (a Faults), no table, and
// a statistic that refuses for a reason which is no verdict.
func Evaluate(p *Policy, e Evidence) (Verdict, error) {
	if e.Table == nil {
		return Verdict{}, errors.New("gate: the evidence has no table of trials")
	}
	if err := p.Fits(e.Table.Arms, e.Table.Cases); err != nil {
		return Verdict{}, err
	}
	g := &judge{policy: p, evidence: e, table: e.Table, seen: e.Table, word: e.Word}
	if g.word == "" {
		g.word = e.Table.Evidence()
	}
	if g.word == "" {
		g.word = evaluator.EvidenceNotTested
	}
	return g.judge()
}

// judge is one evaluation.
type judge struct {
	policy   *Policy
	evidence Evidence
	table    *evaluator.Table
	seen     *evaluator.Table // what figures with an interval rest on: the table up to the look
	word     string
	look     look
	blocks   []Reason // of the campaign: no rule can pass
}

func (g *judge) judge() (Verdict, error) {
	p := g.policy
	v := Verdict{
		Evidence: g.word, Estimand: evaluator.EstimandLike, Reasons: []Reason{}, Arms: []ArmDenominators{}, Preconditions: []CheckVerdict{}, Rules: []RuleVerdict{},
		Policy: p.ref(), Registered: g.evidence.Registered,
	}
	var err error
	if g.look, err = g.place(); err != nil {
		return v, err
	}
	v.Sequential = g.look.figures
	g.blockers()
	for _, name := range g.arms() {
		i, _ := g.table.Arm(name)
		v.Arms = append(v.Arms, ArmDenominators{name, g.table.Denominators(i, nil)})
	}
	for _, c := range p.Preconditions {
		v.Preconditions = append(v.Preconditions, g.check(c))
	}
	tests := make([]test, len(p.Rules))
	for i := range p.Rules {
		if tests[i], err = g.test(&p.Rules[i]); err != nil {
			return v, fmt.Errorf("rule %s: %w", p.Rules[i].ID, err)
		}
	}
	if err := g.multiplicity(tests); err != nil {
		return v, err
	}
	passed := true // every step so far
	for _, step := range Steps() {
		here := true
		for i := range p.Rules {
			if r := &p.Rules[i]; r.Step == step {
				out := g.rule(&tests[i], passed)
				here = here && (r.Severity == SeverityAdvisory || out.Verdict == Pass)
				v.Rules = append(v.Rules, out)
			}
		}
		passed = passed && here
	}
	g.whole(&v)
	return v, nil
}

// arms are those that the rules name, in the order of the table.
func (g *judge) arms() []string {
	var out []string
	for _, name := range g.table.Arms {
		if slices.ContainsFunc(g.policy.Rules, func(r Rule) bool { return r.Arm == name || r.compare != Absolute && r.baseline == name }) {
			out = append(out, name)
		}
	}
	return out
}

// blockers are what keeps every rule from passing.
func (g *judge) blockers() {
	switch measured := g.word == evaluator.EvidenceMeasured; {
	case g.policy.Kind == KindMeasured && !measured:
		g.block(CodeSimulated, "the evidence is %s: it says nothing for or against any real model", g.word)
	case g.policy.Kind == KindSimulation && measured:
		g.block(CodeKind, "the evidence is measured, and policy %s is for simulations; judge it by a policy of kind %s", g.policy.Name, KindMeasured)
	}
	if r := g.evidence.Registered; r != "" && r != g.policy.digest {
		g.block(CodePolicy, "the campaign registered the policy of digest %s before its first trial, and this is another one; judge it by that one, with --policy", r)
	}
	if n := g.evidence.Void; n > 0 {
		g.block(CodeVoid, "%s void: what the freeze covers was changed while the campaign ran", plural(n, "result is", "results are"))
	}
	missing, lost := g.cells()
	if g.look.due {
		return // a declared look: what is cut is less information, not a fault
	}
	switch g.evidence.Status {
	case StatusStopped:
		boundary := "and no boundary is registered"
		if g.look.reason != "" {
			boundary = "and no declared look is due"
		}
		g.block(CodeCeiling, "a ceiling ended the campaign before its planned trials were done, %s", boundary)
	case StatusRunning:
		g.block(CodeUnfinished, "the campaign is not finished")
	case StatusCancelled:
		if lost > 0 {
			g.block(CodeUnfinished, "the campaign was cancelled with %d planned trials undone", lost)
		}
	}
	if missing > 0 {
		g.block(CodeMissing, "%s of case and trial not run in all arms", plural(missing, "triple", "triples"))
	}
	if g.look.reason != "" {
		g.block(CodeLook, "%s", g.look.reason)
	}
}

func (g *judge) block(code Code, format string, args ...any) {
	g.blocks = append(g.blocks, Reason{Code: code, Text: fmt.Sprintf(format, args...)})
}

// cells counts cells that a ceiling cut, and trials without a trace.
func (g *judge) cells() (cut, lost int) {
	arms := g.armIndices()
	for c := range g.table.Cases {
		for i := range g.table.Trials {
			if g.notRun(arms, c, i) {
				cut++
			}
			for _, a := range arms {
				if g.table.Row(a, c, i).State == evaluator.TrialMissing {
					lost++
				}
			}
		}
	}
	return cut, lost
}

// notRun reports whether a cell is still to come, or was cut, in one of the arms.
func (g *judge) notRun(arms []int, c, trial int) bool {
	return slices.ContainsFunc(arms, func(a int) bool { return g.table.Row(a, c, trial).State == evaluator.TrialNotRun })
}

func (g *judge) armIndices() []int {
	var out []int
	for _, name := range g.arms() {
		i, _ := g.table.Arm(name)
		out = append(out, i)
	}
	return out
}

// look is where the campaign stands among the declared looks.
type look struct {
	figures LookFigures
	alpha   float64 // nominal one-sided level now
	due     bool    // a registered boundary can be crossed now
	reason  string  // why not, when the method has boundaries
}

// place finds the level of every bound now, and what the figures rest on. The
// k-th look is due when the first cells of the schedule, up to its declared
// share, are done. It rests on these alone: a verdict that took in whatever is
// done would be another look each time it is asked for, and alpha would not hold
// (docs/decisions, looks at declared shares).
func (g *judge) place() (look, error) {
	p := g.policy
	cut, _ := g.cells()
	f := LookFigures{Method: p.Sequential.Method, Planned: len(g.table.Cases) * g.table.Trials}
	f.Complete = f.Planned - cut
	f.Used = f.Complete
	out := look{alpha: p.Alpha}
	switch p.Sequential.Method {
	case MethodFixed:
		f.SpentAlpha = evaluator.Num(p.Alpha)
	case MethodEProcess:
		out.due = f.Complete > 0
		f.SpentAlpha = evaluator.Num(p.Alpha)
	case MethodLooks:
		var err error
		if out, err = g.placeLook(&f); err != nil {
			return out, err
		}
	}
	f.Information = evaluator.Num(float64(f.Used) / float64(f.Planned))
	f.NominalAlpha = evaluator.Num(out.alpha)
	out.figures = f
	return out, nil
}

func (g *judge) placeLook(f *LookFigures) (look, error) {
	q := g.policy.Sequential
	f.Spending = string(q.Spending)
	order, whole, err := g.order()
	if err != nil {
		return look{}, err
	}
	var shares []float64
	used := 0
	for _, t := range q.At {
		f.At = append(f.At, evaluator.Num(t))
		n := int(math.Ceil(t*float64(f.Planned) - 1e-9))
		if n <= whole && n > used { // looks so close that they are one count once
			used, shares = n, append(shares, float64(n)/float64(f.Planned))
		}
	}
	if used == 0 {
		f.Used = 0
		return look{reason: fmt.Sprintf("the first look is due when the first %s of the planned trials are done, and %s are",
			percent(q.At[0]), percent(float64(whole)/float64(f.Planned)))}, nil
	}
	looks, err := stats.SpendingLooks(q.Spending, g.policy.Alpha, shares, stats.UpperSide)
	if errors.Is(err, stats.ErrSpent) || err == nil && round(looks[len(looks)-1].NominalP) == 0 {
		f.Used = 0
		return look{reason: fmt.Sprintf("the look at %s of the planned trials comes too early: there is no alpha to spend", percent(shares[len(shares)-1]))}, nil
	}
	if err != nil {
		return look{}, fmt.Errorf("looks: %w", err)
	}
	last := looks[len(looks)-1]
	f.Used, f.Look, f.SpentAlpha = used, len(looks), evaluator.Num(last.Spent)
	if used < f.Planned {
		first := map[[2]int]bool{}
		for _, cell := range order[:used] {
			first[cell] = true
		}
		g.seen = g.table.Only(func(c, trial int) bool { return first[[2]int{c, trial}] })
	}
	return look{due: true, alpha: last.NominalP}, nil
}

// order is the schedule as indices of case and trial, and how many of the first
// are done.
func (g *judge) order() (order [][2]int, whole int, err error) {
	arms := g.armIndices()
	var later [][2]int
	for c := range g.table.Cases {
		for i := range g.table.Trials {
			if g.notRun(arms, c, i) {
				later = append(later, [2]int{c, i})
			} else {
				order = append(order, [2]int{c, i})
			}
		}
	}
	if g.evidence.Order == nil {
		return append(order, later...), len(order), nil
	}
	planned := len(order) + len(later)
	order = order[:0]
	seen := map[[2]int]bool{}
	for _, cell := range g.evidence.Order {
		c, ok := g.table.Case(cell.Case)
		at := [2]int{c, cell.Trial}
		if !ok || cell.Trial < 0 || cell.Trial >= g.table.Trials || seen[at] {
			return nil, 0, fmt.Errorf("gate: the schedule names case %s, trial %d, twice or without its being planned", cell.Case, cell.Trial)
		}
		seen[at] = true
		order = append(order, at)
	}
	if len(order) != planned {
		return nil, 0, fmt.Errorf("gate: the schedule holds %d of %d planned cells", len(order), planned)
	}
	whole = slices.IndexFunc(order, func(at [2]int) bool { return g.notRun(arms, at[0], at[1]) })
	if whole < 0 {
		whole = planned
	}
	return order, whole, nil
}

func percent(share float64) string { return strconv.FormatFloat(100*share, 'f', 1, 64) + " %" }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// check is the verdict on a precondition: what nobody tested fails.
func (g *judge) check(c Precondition) CheckVerdict {
	got, ok := g.evidence.Checks[c.ID]
	if !ok {
		got = Check{State: CheckNotTested}
	}
	if c.ID == CheckDenominators && !ok {
		got = g.denominators()
	}
	out := CheckVerdict{ID: c.ID, Severity: c.Severity, State: got.State, Verdict: Fail, Evidence: evidenceCheck, Reasons: []Reason{}}
	switch got.State {
	case CheckHolds:
		out.Verdict = Pass
	case CheckBroken:
		out.Reasons = append(out.Reasons, Reason{Code: CodeBroken, Text: orText(got.Detail, c.ID+" does not hold")})
	case CheckNotTested:
		out.Hole, out.Evidence = true, evaluator.EvidenceNotTested
		out.Reasons = append(out.Reasons, Reason{Code: CodeNotTested, Text: orText(got.Detail, c.ID+" was not tested")})
	}
	return out
}

// evidenceCheck is the evidence word of a precondition (DESIGN §9).
const evidenceCheck = "deterministic check"

func orText(s, or string) string {
	if s == "" {
		return or
	}
	return s
}

// denominators closes the line of every arm that the rules name (Q2).
func (g *judge) denominators() Check {
	for _, a := range g.armIndices() {
		if d := g.table.Denominators(a, nil); !d.Closed() || d.Planned != len(g.table.Cases)*g.table.Trials {
			return Check{CheckBroken, fmt.Sprintf("arm %s: %d planned trials of %d cases and %d trials", g.table.Arms[a], d.Planned, len(g.table.Cases), g.table.Trials)}
		}
	}
	return Check{State: CheckHolds}
}

// rule is the verdict on a rule: what its figure says, unless something keeps
// it from being said.
func (g *judge) rule(t *test, reached bool) RuleVerdict {
	r := t.rule
	m := evaluator.Metrics()[r.metric]
	out := RuleVerdict{
		ID: r.ID, Step: r.Step, Severity: r.Severity, Metric: r.Metric, Unit: m.Unit, Better: better(&m), Arm: r.Arm, Comparison: r.compare,
		Baseline: r.baseline, Scope: r.Scope, Bound: r.Bound, Limit: num(r.Limit), Margin: num(r.Margin), Why: r.Why,
		Verdict: t.outcome, Hole: t.hole, Figure: t.figure, Reasons: append([]Reason{}, t.reasons...),
	}
	if t.hole {
		return out // FAIL, whatever else keeps the campaign from passing
	}
	blocks := slices.Clone(g.blocks)
	families := t.figure.Families
	if r.Bound == BoundPoint { // it says nothing of other families than those it saw
		families = familiesOf(g.table.Cases, nil)
	}
	if families < stats.MinFamilies {
		blocks = append(blocks, Reason{Code: CodeFamilies, Text: fmt.Sprintf("%s, at least %d are needed", plural(families, "family", "families"), stats.MinFamilies)})
	}
	if g.look.due && r.Bound == BoundPoint && g.look.figures.Complete < g.look.figures.Planned {
		blocks = append(blocks, Reason{Code: CodeLook, Text: "a point registers no boundary; it passes when every planned trial is done"})
	}
	switch {
	case t.outcome == Fail && r.Severity == SeverityVeto && !g.otherKind():
		return out // what was observed happened
	case len(blocks) > 0:
		if t.outcome == Fail {
			out.Reasons[0].Text = "by its own figures it would fail: " + out.Reasons[0].Text
		}
		out.Verdict, out.Reasons = Inconclusive, append(blocks, out.Reasons...)
	case t.outcome == Pass && !reached:
		out.Verdict = Inconclusive
		out.Reasons = append(out.Reasons, Reason{Code: CodeLadder, Text: "an earlier step of the ladder did not pass"})
	}
	return out
}

// otherKind reports evidence that the policy cannot judge at all.
func (g *judge) otherKind() bool {
	return slices.ContainsFunc(g.blocks, func(r Reason) bool { return r.Code == CodeSimulated || r.Code == CodeKind })
}

// whole is the verdict on the campaign. Of evidence that the policy cannot
// judge it is at best, and at worst for what rests on figures, INCONCLUSIVE;
// deterministic checks that broke fail it all the same.
func (g *judge) whole(v *Verdict) {
	v.Verdict = Pass
	other := g.otherKind()
	take := func(id string, s Severity, o Outcome, hole bool, rs []Reason) {
		if s == SeverityAdvisory || o == Pass {
			return
		}
		if o == Fail && (!hole || !other) {
			v.Verdict = Fail
		} else if v.Verdict == Pass {
			v.Verdict = Inconclusive
		}
		if own := ownReasons(rs, g.blocks); len(own) > 0 { // else the campaign's reasons say it all
			v.Reasons = append(v.Reasons, Reason{Code: CodeRule, Rule: id, Text: string(o) + ": " + texts(own)})
		}
	}
	for i := range v.Preconditions {
		c := &v.Preconditions[i]
		take(c.ID, c.Severity, c.Verdict, c.Hole, c.Reasons)
	}
	for i := range v.Rules {
		r := &v.Rules[i]
		take(r.ID, r.Severity, r.Verdict, r.Hole, r.Reasons)
	}
	v.Reasons = append(append([]Reason{}, g.blocks...), v.Reasons...) // never nil: it is a list in JSON
	v.Label = label(v.Verdict, g.word, g.policy.Kind)
}

// ownReasons are those that are not of the whole campaign.
func ownReasons(rs, blocks []Reason) []Reason {
	var out []Reason
	for _, r := range rs {
		if !slices.Contains(blocks, r) {
			out = append(out, r)
		}
	}
	return out
}

func better(m *evaluator.Metric) string {
	if m.Better == evaluator.HigherBetter {
		return "higher"
	}
	return "lower"
}

func num(f *float64) *evaluator.Num {
	if f == nil {
		return nil
	}
	return new(evaluator.Num(*f))
}
