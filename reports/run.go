package reports

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/evaluator"
)

// RunTable writes the run document for people, in one write, ending with the
// verdict line. The same document gives the same bytes.
func RunTable(w io.Writer, doc *evaluator.RunDocument) error {
	var b bytes.Buffer
	writeHead(&b, doc)
	if err := writeArms(&b, doc.Arms); err != nil {
		return err
	}
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
	writeBudget(&b, doc.Budget)
	writeControls(&b, doc)
	if len(doc.DroppedTriples) > 0 {
		fmt.Fprintf(&b, "dropped triples (%d): %s\n", len(doc.DroppedTriples), Clean(strings.Join(doc.DroppedTriples, ", ")))
	}
	for _, a := range slices.Concat(doc.Arms, doc.Ablations) {
		writeLacks(&b, Clean(a.Name), a.NotEvaluable)
	}
	fmt.Fprintf(&b, "traces: %s\n", doc.TraceSetDigest)
	fmt.Fprintf(&b, "this process: at most %s and %s in flight; store %s, %s for %s\n",
		plural(doc.Peak.Trials, "trial", "trials"), plural(doc.Peak.Calls, "call", "calls"), Clean(doc.Store.Driver),
		plural(int(doc.Store.Commits), "commit", "commits"), plural(int(doc.Store.Writes), "write", "writes"))
	if len(doc.Outside) > 0 {
		fmt.Fprintf(&b, "may differ between two runs: %s\n", strings.Join(doc.Outside, ", "))
	}
	writeWarnings(&b, doc.Warnings)
	fmt.Fprintf(&b, "verdict: %s\n", doc.Verdict)
	_, err := w.Write(b.Bytes())
	return wrapWrite(err)
}

func writeHead(b *bytes.Buffer, doc *evaluator.RunDocument) {
	fmt.Fprintf(b, "evidence: %s", doc.Evidence)
	if doc.Evidence == evaluator.EvidenceSimulated {
		b.WriteString(" (says nothing about any real model)")
	}
	fmt.Fprintf(b, "\ncampaign: %s %s, %s", Clean(doc.Campaign.Name), doc.Campaign.ID, doc.Status)
	if doc.Campaign.Registration != "" {
		fmt.Fprintf(b, ", registration %s", doc.Campaign.Registration)
	}
	fmt.Fprintf(b, "\ncorpus: %s, split %s, %s, %s, %s each\n", doc.Corpus.Digest, Clean(doc.Corpus.Split),
		plural(doc.Corpus.Families, "family", "families"), plural(doc.Corpus.Cases, "case", "cases"), plural(doc.Trials, "trial", "trials"))
	fmt.Fprintf(b, "model: %s, prices %s, seed %d\n", Clean(doc.Model), doc.Prices, doc.Seed)
}

func writeArms(b *bytes.Buffer, arms []evaluator.ArmSummary) error {
	names := make([]string, 0, len(arms))
	for i := range arms {
		names = append(names, cell(arms[i].Name))
	}
	if err := grid(b, "metric", names, rowsOf(arms, runMetrics)); err != nil {
		return err
	}
	for i := range arms {
		d := arms[i].Denominators
		fmt.Fprintf(b, "denominators of %s: planned %d = claimed met %d + claimed unmet %d + unclaimed met %d + unclaimed unmet %d + infrastructure %d + grader error %d + not run %d",
			names[i], d.Planned, d.ClaimedMet, d.ClaimedUnmet, d.UnclaimedMet, d.UnclaimedUnmet, d.Infrastructure, d.GraderError, d.NotRun)
		if d.Missing > 0 {
			fmt.Fprintf(b, " (%d without a trace, counted unclaimed unmet)", d.Missing)
		}
		b.WriteByte('\n')
	}
	return nil
}

var runMetrics = []metric[evaluator.ArmSummary]{
	{"completion", func(a *evaluator.ArmSummary) string {
		return fmt.Sprintf("%s (%d/%d)", places(a.Completion.Rate, 4), a.Completion.Met, a.Completion.N)
	}},
	{"completion se, CR1 by family", func(a *evaluator.ArmSummary) string {
		return fmt.Sprintf("%s (%s)", places(a.Completion.SE, 4), plural(a.Completion.Clusters, "family", "families"))
	}},
	{"criterion share", func(a *evaluator.ArmSummary) string {
		return fmt.Sprintf("%s (n %d)", places(a.CriterionShare.Mean, 4), a.CriterionShare.N)
	}},
	{"false completion", func(a *evaluator.ArmSummary) string {
		return fmt.Sprintf("%s (%d/%d)", places(a.False.Rate, 4), a.False.Count, a.False.N)
	}},
	{"false completion of claims", func(a *evaluator.ArmSummary) string {
		return fmt.Sprintf("%s (%d/%d)", places(a.False.RateOfClaims, 4), a.False.Count, a.False.Claims)
	}},
	{"silent completion", func(a *evaluator.ArmSummary) string { return countRate(a.Silent) }},
	{"honest failure", func(a *evaluator.ArmSummary) string { return countRate(a.Honest) }},
	{"owner corrections", func(a *evaluator.ArmSummary) string {
		if a.Corrections == nil {
			return notEvaluable
		}
		return fmt.Sprintf("%d (%s a trial, n %d)", a.Corrections.Count, places(a.Corrections.PerTrial, 3), a.Corrections.N)
	}},
	{"corrections after a claim", func(a *evaluator.ArmSummary) string {
		if a.Corrections == nil {
			return notEvaluable
		}
		return fmt.Sprintf("%d (%s a trial, n %d)", a.Corrections.AfterClaim, places(a.Corrections.AfterClaimPerTrial, 3), a.Corrections.N)
	}},
	{"claims withdrawn", func(a *evaluator.ArmSummary) string { return fmt.Sprintf("%d", a.Withdrawn) }},
	{"duplicate effects", func(a *evaluator.ArmSummary) string {
		return overN(a.Duplicates.Confirmed, a.Duplicates.Trials, a.Duplicates.N)
	}},
	{"duplicates suppressed / unknown", func(a *evaluator.ArmSummary) string {
		return fmt.Sprintf("%d / %d", a.Duplicates.Suppressed, a.Duplicates.Unknown)
	}},
	{"collateral effects", func(a *evaluator.ArmSummary) string { return countN(a.Collateral) }},
	{"repeated work", func(a *evaluator.ArmSummary) string { return countN(a.RepeatedWork) }},
	{"latency p50", func(a *evaluator.ArmSummary) string {
		if a.Latency == nil {
			return notEvaluable
		}
		return quantile(a.Latency.P50, a.Latency.P50AtLeast)
	}},
	{"latency p95", func(a *evaluator.ArmSummary) string {
		if a.Latency == nil {
			return notEvaluable
		}
		return quantile(a.Latency.P95, a.Latency.P95AtLeast)
	}},
	{"latency n, censored", func(a *evaluator.ArmSummary) string {
		if a.Latency == nil {
			return notEvaluable
		}
		return fmt.Sprintf("%d, %d", a.Latency.N, a.Latency.Censored)
	}},
	{"cost charged", func(a *evaluator.ArmSummary) string { return fmt.Sprintf("%s (n %d)", usd(a.Cost.Charged), a.Cost.N) }},
	{"cost held / unknown", func(a *evaluator.ArmSummary) string { return usd(a.Cost.Held) + " / " + usd(a.Cost.Unknown) }},
	{"cost by role", func(a *evaluator.ArmSummary) string { return roles(a.Cost.ByRole) }},
	{"termination", func(a *evaluator.ArmSummary) string { return lines(counts(a.Termination)) }},
}

func countRate(c evaluator.CountRate) string {
	return fmt.Sprintf("%s (%d/%d)", places(c.Rate, 4), c.Count, c.N)
}

func countN(c evaluator.CountN) string { return overN(c.Count, c.Trials, c.N) }

func overN(count, trials, n int) string {
	if n == 0 {
		return notEvaluable
	}
	return fmt.Sprintf("%d in %d of %d", count, trials, n)
}

func quantile(us int64, atLeast bool) string {
	if atLeast {
		return "at least " + seconds(us)
	}
	return seconds(us)
}

func roles(m map[string]int64) string {
	if m == nil {
		return notEvaluable
	}
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	parts := make([]string, 0, len(keys))
	for _, k := range keys {
		parts = append(parts, Clean(k)+" "+usd(m[k]))
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, "\n")
}

// lines puts the parts of a comma-separated cell below each other.
func lines(s string) string { return strings.ReplaceAll(s, ", ", "\n") }

// writeFaults writes planted faults that fired, a row per kind.
func writeFaults(b *bytes.Buffer, arms []evaluator.ArmSummary) error {
	var kinds, names []string
	for i := range arms {
		names = append(names, cell(arms[i].Name))
		for k := range arms[i].Faults {
			if !slices.Contains(kinds, k) {
				kinds = append(kinds, k)
			}
		}
	}
	if len(kinds) == 0 {
		b.WriteString("faults fired: none\n")
		return nil
	}
	slices.Sort(kinds)
	rows := make([]row, 0, len(kinds))
	for _, k := range kinds {
		r := row{name: Clean(k)}
		for i := range arms {
			r.cells = append(r.cells, fmt.Sprintf("%d", arms[i].Faults[k]))
		}
		rows = append(rows, r)
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
	fmt.Fprintf(b, "budget (%s funds): charged %s + held %s %s limit %s: %s at every ledger row; unknown %s; greatest sum %s\n",
		g.Funds, usd(g.Charged), usd(g.Held), sign, usd(g.Limit), word, usd(g.Unknown), usd(g.MaxSum))
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
