package reports

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/gate"
)

// VerdictTable writes a verdict for people, in one write: the verdict and what
// bounds it first (Q7), then every rule with its figure, and the verdict as the
// last line. The same document gives the same bytes.
func VerdictTable(w io.Writer, doc *gate.Document) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "verdict: %s\n", Clean(doc.Label))
	for _, r := range doc.Reasons {
		wrap(&b, "- "+reasonLine(r))
	}
	fmt.Fprintf(&b, "evidence: %s%s\n", Clean(doc.Evidence), parenthesis(simulatedNote(doc.Evidence)))
	fmt.Fprintf(&b, "campaign: %s %s, %s\n", Clean(doc.Campaign.Name), Clean(doc.Campaign.ID), Clean(doc.Status))
	fmt.Fprintf(&b, "corpus: split %s, %s, %s, %s each\n  %s\n", Clean(doc.Corpus.Split), plural(doc.Corpus.Families, "family", "families"),
		plural(doc.Corpus.Cases, "case", "cases"), plural(doc.Trials, "trial", "trials"), Clean(doc.Corpus.Digest))
	fmt.Fprintf(&b, "model: %s, seed %d\n  prices %s\n", Clean(doc.Model), doc.Seed, Clean(doc.Prices))
	fmt.Fprintf(&b, "%s\n", FreezeLine(doc))
	fmt.Fprintf(&b, "budget: %s\n", proofLine(&doc.Budget))
	fmt.Fprintf(&b, "policy: %s%s\n  %s\n", policyLine(doc.Policy), registeredWords(&doc.Verdict), Clean(doc.Policy.Digest))
	fmt.Fprintf(&b, "looks: %s\n", lookLine(&doc.Sequential))
	if n := len(doc.DroppedTriples); n > 0 {
		wrap(&b, fmt.Sprintf("dropped triples, not run in any arm (%d): %s", n, Clean(strings.Join(doc.DroppedTriples, ", "))))
	}
	for _, a := range doc.Arms {
		wrap(&b, "denominators of "+Clean(a.Arm)+": "+denominatorLine(&a.Denominators))
	}
	b.WriteByte('\n')
	rows := make([]row, 0, len(doc.Rules))
	for _, step := range gate.Steps() {
		var here []row
		for i := range doc.Rules {
			if r := &doc.Rules[i]; r.Step == step {
				here = append(here, row{Clean(r.ID), ruleCells(r)})
			}
		}
		if len(here) > 0 {
			rows = append(append(rows, heading("["+string(step)+"]")), here...)
		}
	}
	if err := grid(&b, "rule", ruleColumns, rows); err != nil {
		return err
	}
	for i := range doc.Rules {
		writeRule(&b, doc, &doc.Rules[i])
	}
	for i := range doc.Hypotheses {
		wrap(&b, Clean(hypothesisLine(&doc.Hypotheses[i])))
	}
	for _, c := range doc.Preconditions {
		wrap(&b, fmt.Sprintf("precondition %s (%s): %s%s", Clean(c.ID), c.Severity, c.Verdict, because(c.Reasons)))
	}
	if len(doc.Preconditions) == 0 {
		b.WriteString("preconditions: " + noPreconditions + "\n")
	}
	fmt.Fprintf(&b, "traces: %s\n", Clean(doc.TraceSetDigest))
	b.WriteString(verdictLegend)
	fmt.Fprintf(&b, "verdict: %s\n", Clean(doc.Label))
	_, err := w.Write(b.Bytes())
	return wrapWrite(err)
}

// noPreconditions stands where a policy asks for none, so that their absence is
// not taken for their success.
const noPreconditions = "the policy asks for none, so none was tested"

const verdictLegend = `figures are for "cases like these": families of cases are the units, and the noise between
  them counts; bounds are one-sided; a difference is the arm minus the other one
`

// writeRule writes the reasons and the figure of a rule. Reasons of the whole
// campaign stand at the head and are not repeated.
func writeRule(b *bytes.Buffer, doc *gate.Document, r *gate.RuleVerdict) {
	f := &r.Figure
	own := slices.DeleteFunc(slices.Clone(r.Reasons), func(x gate.Reason) bool { return slices.Contains(doc.Reasons, x) })
	unit := "case"
	if r.Comparison == gate.Absolute {
		unit = "trial"
	}
	text := fmt.Sprintf("%s (%s): %s%s; %s, n %s in %s", Clean(r.ID), r.Severity, r.Verdict, because(own), Clean(f.Method), plural(f.N, unit, unit+"s"), plural(f.Families, "family", "families"))
	if f.Pairs > 0 {
		text += ", " + plural(f.Pairs, "pair", "pairs")
	}
	if f.P != nil {
		text += ", p " + probability(f.P)
	}
	if f.PAdjusted != nil {
		text += fmt.Sprintf(", adjusted %s over %d", probability(f.PAdjusted), f.AdjustedOver)
	}
	if f.MDE != nil {
		text += ", smallest detectable " + digits(f.MDE)
	}
	if f.These != nil {
		text += fmt.Sprintf("; these cases: %s to %s", figureText(r, &f.These.Lower), figureText(r, &f.These.Upper))
	}
	for _, n := range f.Notes {
		text += "; " + Clean(n)
	}
	wrap(b, text)
}

// hypothesisLine is a hypothesis that was registered, with what its rules say.
func hypothesisLine(h *gate.HypothesisVerdict) string {
	name := "hypothesis"
	if h.Primary {
		name = "primary hypothesis"
	}
	return fmt.Sprintf("%s: %s by %s: %s", name, h.Outcome, strings.Join(h.Rules, ", "), h.Text)
}

func reasonLine(r gate.Reason) string {
	if r.Rule != "" {
		return Clean(r.Rule) + ": " + Clean(r.Text)
	}
	return Clean(r.Text)
}

func because(rs []gate.Reason) string {
	if len(rs) == 0 {
		return ""
	}
	out := make([]string, len(rs))
	for i, r := range rs {
		out[i] = Clean(r.Text)
	}
	return ", because " + strings.Join(out, "; ")
}

// FreezeLine is the freeze of a verdict, the openings of its holdout, and the log
// that counts them (Q4.4), in one line.
func FreezeLine(doc *gate.Document) string {
	id, openings := "freeze: none (not tested)", "holdout openings: none (not tested)"
	if doc.Freeze.ID != "" {
		id = "freeze: " + Clean(doc.Freeze.ID)
	}
	if doc.Freeze.Openings != nil {
		openings = "holdout openings: " + strconv.Itoa(*doc.Freeze.Openings)
	}
	if l := doc.Freeze.Log; l != nil {
		openings += logWords(doc.Freeze.Openings, l.Openings, l.Rows, l.Head)
	}
	if n := len(doc.Freeze.Void); n > 0 {
		openings += voidWords(n)
	}
	return id + "; " + openings
}

func proofLine(g *gate.BudgetProof) string {
	sign, word := "≤", "holds"
	if g.Charged+g.Held > g.Limit {
		sign = ">"
	}
	if !g.Holds {
		word = "DOES NOT HOLD"
	}
	return fmt.Sprintf("charged %s + held %s %s limit %s (%s funds), %s; unknown %s", usd(g.Charged), usd(g.Held), sign, usd(g.Limit), Clean(g.Funds), word, usd(g.Unknown))
}

// registeredWords tell whether the policy is the one that was registered.
func registeredWords(v *gate.Verdict) string {
	switch v.Registered {
	case "":
		return "; not registered before the first trial"
	case v.Policy.Digest:
		return "; registered before the first trial"
	}
	return "; not the one that was registered"
}

func policyLine(p gate.PolicyRef) string {
	return fmt.Sprintf("%s, for %s evidence; alpha %s one-sided, power %s, %s", Clean(p.Name), kindWord(p.Kind), p.Alpha, p.Power, p.Multiplicity)
}

func kindWord(k gate.Kind) string {
	if k == gate.KindSimulation {
		return evaluator.EvidenceSimulated
	}
	return string(k)
}

func lookLine(l *gate.LookFigures) string {
	s := fmt.Sprintf("%s; %d of %d planned triples complete, alpha now %s, spent %s", l.Method, l.Complete, l.Planned, l.NominalAlpha, l.SpentAlpha)
	if l.Method == gate.MethodLooks {
		s += fmt.Sprintf(" (%s), look %d of %d", Clean(l.Spending), l.Look, len(l.At))
		if l.Look > 0 {
			s += fmt.Sprintf(", on the first %d of the schedule", l.Used)
		}
	}
	return s
}

func denominatorLine(d *evaluator.Denominators) string {
	s := fmt.Sprintf("planned %d = claimed met %d + claimed unmet %d + unclaimed met %d + unclaimed unmet %d + infrastructure %d + grader error %d + not run %d",
		d.Planned, d.ClaimedMet, d.ClaimedUnmet, d.UnclaimedMet, d.UnclaimedUnmet, d.Infrastructure, d.GraderError, d.NotRun)
	if d.Missing > 0 {
		s += fmt.Sprintf(" (%d unclaimed unmet have no trace)", d.Missing)
	}
	return s
}

// ruleCells are the cells of a rule: verdict, figure, bounds, what it was held
// against.
func ruleCells(r *gate.RuleVerdict) []string {
	f := &r.Figure
	bounds := ""
	if f.Lower != nil && f.Upper != nil {
		bounds = figureText(r, f.Lower) + " to " + figureText(r, f.Upper)
	}
	value := figureText(r, f.Value)
	if isRatio(r) && f.Ratio != nil {
		value = figureText(r, f.Ratio)
	}
	return []string{string(r.Verdict), value, bounds, against(r)}
}

// ruleColumns head the cells of ruleCells.
var ruleColumns = []string{"verdict", "figure", "bounds", "held against"}

// isRatio reports a rule whose figure is shown as a ratio of means.
func isRatio(r *gate.RuleVerdict) bool {
	return r.Comparison != gate.Absolute && (r.Unit == "us" || r.Unit == "micros")
}

// figureText writes a figure of a rule in its unit.
func figureText(r *gate.RuleVerdict, n *evaluator.Num) string {
	if n == nil {
		return notEvaluable
	}
	sign := ""
	if r.Comparison != gate.Absolute && !isRatio(r) && n.Round() > 0 {
		sign = "+"
	}
	switch {
	case isRatio(r):
		return places(n, 3) + "x"
	case r.Unit == "us":
		return strconv.FormatFloat(n.Round()/1e6, 'f', 1, 64) + " s"
	case r.Unit == "micros":
		return "$" + strconv.FormatFloat(n.Round()/1e6, 'f', 6, 64)
	}
	return sign + places(n, 3)
}

// against says what a rule holds its figure against.
func against(r *gate.RuleVerdict) string {
	sign := "<= "
	if r.Better == "higher" {
		sign = ">= "
	}
	if r.Comparison == gate.Absolute {
		return sign + figureText(r, r.Limit)
	}
	margin := 0.
	if r.Margin != nil {
		margin = float64(*r.Margin)
	}
	worse := r.Better == "lower" // a worse arm has the greater figure
	if r.Comparison == gate.SuperiorTo {
		margin = -margin
	}
	if !worse {
		margin = -margin
	}
	sign = "< "
	if !worse {
		sign = "> "
	}
	limit := evaluator.Num(margin)
	if isRatio(r) {
		limit++
	}
	return sign + figureText(r, &limit) + " (" + Clean(r.Baseline) + ")"
}
