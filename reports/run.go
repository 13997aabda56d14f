package reports

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/evaluator"
)

// RunTable writes the run document for people, in one write: the verdict and what
// bounds the figures first (Q7), and the verdict again as the last line. The same
// document gives the same bytes.
func RunTable(w io.Writer, doc *evaluator.RunDocument) error {
	var b bytes.Buffer
	writeHead(&b, doc)
	writeBudget(&b, doc.Budget)
	if err := writeArms(&b, doc.Arms); err != nil {
		return err
	}
	b.WriteString(legend)
	if len(doc.Ablations) > 0 {
		b.WriteString("\nablations, outside the triple, the comparison and the verdict:\n")
		if err := writeArms(&b, doc.Ablations); err != nil {
			return err
		}
	}
	b.WriteByte('\n')
	if err := writeFaults(&b, slices.Concat(doc.Arms, doc.Ablations)); err != nil {
		return err
	}
	writeControls(&b, doc)
	for _, c := range doc.SharedCeiling {
		fmt.Fprintf(&b, "same ceiling: campaign %s %s, %s, charged %s, held %s\n", Clean(c.Name), Clean(c.ID), Clean(c.Status), usd(c.Charged), usd(c.Held))
	}
	if len(doc.DroppedTriples) > 0 {
		wrap(&b, fmt.Sprintf("dropped triples, not run in any arm (%d): %s", len(doc.DroppedTriples), Clean(strings.Join(doc.DroppedTriples, ", "))))
	}
	for _, a := range slices.Concat(doc.Arms, doc.Ablations) {
		writeLacks(&b, cell(a.Name), a.NotEvaluable)
	}
	fmt.Fprintf(&b, "traces: %s\n", doc.TraceSetDigest)
	if doc.Peak.Trials > 0 || doc.Store.Commits > 0 { // else the process only read
		fmt.Fprintf(&b, "this process: at most %s and %s in flight; store %s, %s for %s\n",
			plural(doc.Peak.Trials, "trial", "trials"), plural(doc.Peak.Calls, "call", "calls"), Clean(doc.Store.Driver),
			plural(int(doc.Store.Commits), "commit", "commits"), plural(int(doc.Store.Writes), "write", "writes"))
	}
	if len(doc.Outside) > 0 {
		wrap(&b, "may differ between two runs: "+strings.Join(doc.Outside, ", "))
	}
	writeWarnings(&b, doc.Warnings)
	fmt.Fprintf(&b, "verdict: %s\n", doc.Verdict)
	_, err := w.Write(b.Bytes())
	return wrapWrite(err)
}

func writeHead(b *bytes.Buffer, doc *evaluator.RunDocument) {
	fmt.Fprintf(b, "verdict: %s\nevidence: %s", doc.Verdict, doc.Evidence)
	if doc.Evidence == evaluator.EvidenceSimulated {
		b.WriteString(" (says nothing about any real model)")
	}
	fmt.Fprintf(b, "\ncampaign: %s %s, %s\n", Clean(doc.Campaign.Name), doc.Campaign.ID, doc.Status)
	if doc.Campaign.Registration != "" {
		fmt.Fprintf(b, "  registration %s\n", doc.Campaign.Registration)
	}
	if doc.Partial != nil {
		wrap(b, "PARTIAL: "+partial(doc.Partial))
	}
	fmt.Fprintf(b, "corpus: split %s, %s, %s, %s each\n  %s\n", Clean(doc.Corpus.Split),
		plural(doc.Corpus.Families, "family", "families"), plural(doc.Corpus.Cases, "case", "cases"), plural(doc.Trials, "trial", "trials"), doc.Corpus.Digest)
	fmt.Fprintf(b, "model: %s, seed %d\n  prices %s\n", Clean(doc.Model), doc.Seed, doc.Prices)
	writeFreeze(b, doc.Freeze)
}

// partial says how much of a campaign its figures cover.
func partial(p *evaluator.Partial) string {
	s := fmt.Sprintf("%d of %s are done", p.Done, plural(p.Planned, "planned trial", "planned trials"))
	if p.LeftOut > 0 {
		s += fmt.Sprintf(", %d of them left out because their triple is not complete", p.LeftOut)
	}
	return s + "; " + Clean(p.Rule)
}

// writeFaults writes planted faults that fired, a row per kind.
func writeFaults(b *bytes.Buffer, arms []evaluator.ArmSummary) error {
	names := make([]string, 0, len(arms))
	for i := range arms {
		names = append(names, cell(arms[i].Name))
	}
	rows := countRows(arms, func(a *evaluator.ArmSummary) map[string]int { return a.Faults })
	if len(rows) == 0 {
		b.WriteString("faults fired: none\n")
		return nil
	}
	for i := range rows {
		rows[i].name = strings.TrimPrefix(rows[i].name, "  ")
	}
	return grid(b, "faults fired", names, rows)
}

func writeBudget(b *bytes.Buffer, g evaluator.Budget) {
	sign, word := "≤", "holds"
	if g.Charged+g.Held > g.Limit {
		sign = ">"
	}
	if !g.Holds {
		word = "DOES NOT HOLD"
	}
	fmt.Fprintf(b, "budget: charged %s + held %s %s limit %s (%s funds)\n  proof: %s at every ledger row; unknown %s; greatest sum %s\n",
		usd(g.Charged), usd(g.Held), sign, usd(g.Limit), g.Funds, word, usd(g.Unknown), usd(g.MaxSum))
	for _, o := range g.Overruns {
		fmt.Fprintf(b, "budget overrun: %s\n", Clean(o))
	}
}

func writeControls(b *bytes.Buffer, doc *evaluator.RunDocument) {
	for _, c := range doc.Controls {
		fmt.Fprintf(b, "control %s: completed %d of %s\n", Clean(c.Name), c.Completed, plural(c.Trials, "trial", "trials"))
	}
	if len(doc.OracleFaults) == 0 {
		b.WriteString("oracle faults: none\n")
	}
	for _, f := range doc.OracleFaults {
		fmt.Fprintf(b, "oracle fault: case %s, trial %d is completed by control %s\n", Clean(f.Case), f.Trial, Clean(f.Control))
	}
}
