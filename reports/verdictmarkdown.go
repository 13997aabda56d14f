package reports

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/agentrooms/qualify/evaluator/gate"
)

// VerdictMarkdown writes a verdict as GitHub-flavoured Markdown, in one write:
// it serves a step summary and a review comment. The same document gives the
// same bytes.
func VerdictMarkdown(w io.Writer, doc *gate.Document) error {
	m := &markdown{}
	m.line("# %s: campaign %s\n", md(doc.Label), md(doc.Campaign.Name))
	m.line("- **Verdict:** %s", md(doc.Label))
	for _, r := range doc.Reasons {
		if r.Rule == "" {
			m.line("  - %s", md(r.Text))
		} else {
			m.line("  - %s: %s", mdCode(r.Rule), md(r.Text))
		}
	}
	m.line("- **Evidence:** %s%s", md(doc.Evidence), simulatedNote(doc.Evidence))
	m.line("- **Campaign:** %s, %s", mdCode(doc.Campaign.ID), md(doc.Status))
	m.line("- **Corpus:** split %s, %s, %s, %s each, %s", md(doc.Corpus.Split), plural(doc.Corpus.Families, "family", "families"),
		plural(doc.Corpus.Cases, "case", "cases"), plural(doc.Trials, "trial", "trials"), mdCode(doc.Corpus.Digest))
	m.line("- **Model:** %s, seed %d", md(doc.Model), doc.Seed)
	m.line("- **Prices:** %s", mdCode(doc.Prices))
	m.line("- **Freeze and holdout:** %s", md(FreezeLine(doc)))
	m.line("- **Budget:** %s", md(proofLine(&doc.Budget)))
	m.line("- **Policy:** %s, %s", md(policyLine(doc.Policy)+registeredWords(&doc.Verdict)), mdCode(doc.Policy.Digest))
	m.line("- **Looks:** %s", md(lookLine(&doc.Sequential)))
	m.line("- **Traces:** %s", mdCode(doc.TraceSetDigest))
	if n := len(doc.DroppedTriples); n > 0 {
		m.line("- **Dropped triples:** %d, not run in any arm: %s", n, mdList(doc.DroppedTriples))
	}
	m.heading("Rules")
	rows := make([]row, 0, len(doc.Rules))
	for i := range doc.Rules {
		r := &doc.Rules[i]
		rows = append(rows, row{r.ID, append([]string{string(r.Step), string(r.Severity)}, ruleCells(r)...)})
	}
	m.table("rule", append([]string{"step", "severity"}, ruleColumns...), rows)
	m.line("")
	for i := range doc.Rules {
		var b bytes.Buffer
		writeRule(&b, doc, &doc.Rules[i])
		m.line("- %s", md(strings.Join(strings.Fields(b.String()), " ")))
	}
	m.line("\nFigures are for cases like these: families of cases are the units. Bounds are one-sided.")
	if len(doc.Hypotheses) > 0 {
		m.heading("Hypotheses")
	}
	for i := range doc.Hypotheses {
		m.line("- %s", md(hypothesisLine(&doc.Hypotheses[i])))
	}
	m.heading("Preconditions")
	for _, c := range doc.Preconditions {
		m.line("- %s (%s): %s%s", mdCode(c.ID), md(string(c.Severity)), md(string(c.Verdict)), md(because(c.Reasons)))
	}
	if len(doc.Preconditions) == 0 {
		m.line("%s", md(noPreconditions))
	}
	m.heading("Denominators")
	for _, a := range doc.Arms {
		m.line("- %s: %s", md(a.Arm), md(denominatorLine(&a.Denominators)))
	}
	_, err := w.Write(m.b.Bytes())
	return wrapWrite(err)
}

// GatePlanTable writes what each rule needs for people, in one write.
func GatePlanTable(w io.Writer, doc *gate.PlanDocument) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "campaign: %s, %s, %s, %s each\n", Clean(doc.Campaign), plural(doc.Families, "family", "families"), plural(doc.Cases, "case", "cases"), plural(doc.Trials, "trial", "trials"))
	fmt.Fprintf(&b, "policy: %s\n  %s\n", policyLine(doc.Policy), Clean(doc.Policy.Digest))
	if err := grid(&b, "rule", planColumns, planRows(doc, Clean)); err != nil {
		return err
	}
	for i := range doc.Rules {
		wrap(&b, Clean(doc.Rules[i].ID)+": "+Clean(doc.Rules[i].Reason))
	}
	for _, t := range doc.Assumed {
		wrap(&b, "assumed: "+Clean(t))
	}
	fmt.Fprintf(&b, "%s\n", planEnd(doc))
	_, err := w.Write(b.Bytes())
	return wrapWrite(err)
}

// GatePlanMarkdown is GatePlanTable as Markdown.
func GatePlanMarkdown(w io.Writer, doc *gate.PlanDocument) error {
	m := &markdown{}
	m.line("# What the rules need: campaign %s\n", md(doc.Campaign))
	m.line("- **Design:** %s, %s, %s each", plural(doc.Families, "family", "families"), plural(doc.Cases, "case", "cases"), plural(doc.Trials, "trial", "trials"))
	m.line("- **Policy:** %s, %s\n", md(policyLine(doc.Policy)), mdCode(doc.Policy.Digest))
	m.table("rule", planColumns, planRows(doc, func(s string) string { return s }))
	m.line("")
	for i := range doc.Rules {
		m.line("- %s: %s", mdCode(doc.Rules[i].ID), md(doc.Rules[i].Reason))
	}
	for _, t := range doc.Assumed {
		m.line("- assumed: %s", md(t))
	}
	m.line("\n%s", md(planEnd(doc)))
	_, err := w.Write(m.b.Bytes())
	return wrapWrite(err)
}

var planColumns = []string{"severity", "needs families", "cases", "trials an arm", "has, can pass"}

func planRows(doc *gate.PlanDocument, name func(string) string) []row {
	rows := make([]row, 0, len(doc.Rules))
	for i := range doc.Rules {
		r := &doc.Rules[i]
		can := "no"
		switch {
		case r.Fits:
			can = "yes"
		case r.Families == nil:
			can = "not known"
		}
		rows = append(rows, row{name(r.ID), []string{string(r.Severity), optional(r.Families), optional(r.Cases), optional(r.Trials), fmt.Sprintf("%d, %s", r.Has, can)}})
	}
	return rows
}

func optional(n *int) string {
	if n == nil {
		return "-"
	}
	return fmt.Sprint(*n)
}

func planEnd(doc *gate.PlanDocument) string {
	if doc.Fits {
		return "every required rule can pass with this design"
	}
	return "a required rule cannot be sure to pass with this design; INCONCLUSIVE is to be expected"
}
