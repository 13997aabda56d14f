package reports

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/agentrooms/qualify/evaluator"
)

// CompareTable writes the comparison for people, in one write: the verdict, what
// bounds each side (Q7) and what they do not share first, then each pair of arms
// side by side with its differences B − A, and the verdict as the last line. The
// same document gives the same bytes.
func CompareTable(w io.Writer, doc *evaluator.CompareDocument) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "verdict: %s\nevidence: %s%s\n", Clean(doc.Verdict), Clean(doc.Evidence), parenthesis(simulatedNote(doc.Evidence)))
	writeSide(&b, "A", &doc.A)
	writeSide(&b, "B", &doc.B)
	if len(doc.Differs) == 0 {
		b.WriteString("A and B share evidence, corpus, split, model, prices, seed and trials\n")
	}
	for _, d := range doc.Differs {
		wrap(&b, fmt.Sprintf("DIFFERENT %s: A %s, B %s", Clean(d.What), Clean(d.A), Clean(d.B)))
	}
	for _, c := range doc.Changed {
		wrap(&b, fmt.Sprintf("DIFFERENT case %s, not paired: A %s, B %s", Clean(c.Case), Clean(c.A), Clean(c.B)))
	}
	writeWarnings(&b, doc.Warnings)
	for i := range doc.Arms {
		if err := writePair(&b, &doc.Arms[i]); err != nil {
			return err
		}
	}
	if len(doc.OnlyA) > 0 {
		wrap(&b, "arms without a partner in B: "+Clean(strings.Join(doc.OnlyA, ", ")))
	}
	if len(doc.OnlyB) > 0 {
		wrap(&b, "arms without a partner in A: "+Clean(strings.Join(doc.OnlyB, ", ")))
	}
	b.WriteString(compareLegend)
	fmt.Fprintf(&b, "verdict: %s\n", Clean(doc.Verdict))
	_, err := w.Write(b.Bytes())
	return wrapWrite(err)
}

const compareLegend = `difference: B - A, the mean over cases of each case's mean over its pairs; a pair is one case and
  trial index with a trace on both sides. Interval and p are for "cases like these": families are
  the units, by t. p is two-sided, adjusted by Holm over the metrics of the pair of arms that have
  one, and the result goes by it; an interval is of its metric alone, so it can leave 0 out where
  no difference is shown. That is no proof of equality either: detectable is the smallest true
  difference that would be shown with power 0.8. "These cases" takes the cases as they are: trials
  vary only; n: cases/families/pairs
`

func parenthesis(note string) string {
	if note == "" {
		return ""
	}
	return " (" + strings.TrimPrefix(note, "; ") + ")"
}

func writeSide(b *bytes.Buffer, name string, s *evaluator.CompareSide) {
	arm := ""
	if s.Arm != "" {
		arm = ", arm " + Clean(s.Arm)
	}
	fmt.Fprintf(b, "%s: campaign %s %s%s, %s\n", name, Clean(s.Campaign.Name), Clean(s.Campaign.ID), arm, Clean(s.Status))
	if s.Partial != nil {
		wrap(b, "  PARTIAL: "+partial(s.Partial))
	}
	fmt.Fprintf(b, "  split %s, %s, %s, %s each\n  corpus %s\n", Clean(s.Corpus.Split), plural(s.Corpus.Families, "family", "families"),
		plural(s.Corpus.Cases, "case", "cases"), plural(s.Trials, "trial", "trials"), Clean(s.Corpus.Digest))
	fmt.Fprintf(b, "  model %s, seed %d, prices %s\n", Clean(s.Model), s.Seed, Clean(s.Prices))
	writeFreeze(b, s.Freeze)
	writeBudget(b, s.Budget)
}

func writePair(b *bytes.Buffer, p *evaluator.ArmPair) error {
	a, c := p.A, p.B
	a.Name, c.Name = "A: "+p.A.Name, "B: "+p.B.Name
	b.WriteByte('\n')
	if err := writeArms(b, []evaluator.ArmSummary{a, c}); err != nil {
		return err
	}
	for _, s := range []*evaluator.ArmSummary{&a, &c} {
		writeLacks(b, cell(s.Name), s.NotEvaluable)
	}
	fmt.Fprintf(b, "pairs: %d, of %s in %s\n", p.Pairs, plural(p.Cases, "case", "cases"), plural(p.Families, "family", "families"))
	writeMissing(b, p.Missing)
	if len(p.Differences) == 0 {
		return nil
	}
	writePerCompletion(b, p.PerCompletion)
	rows := make([]row, 0, len(p.Differences))
	for i := range p.Differences {
		d := &p.Differences[i]
		rows = append(rows, row{differenceName(d.Metric), []string{
			differenceText(d.Metric, d.Mean, true), differenceInterval(d.Metric, d.CI95), optionalNum(d.PAdjusted), differenceWord(d),
		}})
	}
	if err := grid(b, "difference B - A", []string{"mean", "95% interval", "p, Holm", "result"}, rows); err != nil {
		return err
	}
	for i := range p.Differences {
		d := &p.Differences[i]
		rows[i] = row{differenceName(d.Metric), []string{
			differenceOr(d.Metric, d.SE), differenceOr(d.Metric, d.MDE), differenceInterval(d.Metric, d.These.CI95),
			fmt.Sprintf("%d/%d/%d", d.N, d.Clusters, d.Pairs),
		}}
	}
	return grid(b, "error of it", []string{"se (" + methods(p.Differences) + ")", "detectable", "95%, these cases", "n"}, rows)
}

// writePerCompletion writes what one completed trial costs in each arm.
func writePerCompletion(b *bytes.Buffer, c *evaluator.CostPerCompletion) {
	if c == nil {
		return
	}
	dollars := func(n *evaluator.Num) string {
		if n == nil {
			return notEvaluable
		}
		return "$" + strconv.FormatFloat(n.Round()/1e6, 'f', 4, 64)
	}
	text := fmt.Sprintf("cost per completion, failed trials paid for too: A %s, B %s", dollars(c.A), dollars(c.B))
	if c.Ratio != nil {
		text += ", B/A " + places(c.Ratio, 3)
	}
	if c.Ratio95 != nil {
		text += fmt.Sprintf(" (95%% %s to %s)", places(&c.Ratio95.Lo, 3), places(&c.Ratio95.Hi, 3))
	}
	if c.Reason != "" {
		text += "; " + Clean(c.Reason)
	}
	wrap(b, text)
}

// methods names the standard errors of a table.
func methods(ds []evaluator.Difference) string {
	var out []string
	for i := range ds {
		if m := Clean(ds[i].SEMethod); !slices.Contains(out, m) {
			out = append(out, m)
		}
	}
	slices.Sort(out)
	return strings.Join(out, " or ")
}

func differenceInterval(metric string, i *evaluator.Interval) string {
	if i == nil {
		return "-"
	}
	return differenceText(metric, &i.Lo, true) + " to " + differenceText(metric, &i.Hi, true)
}

// differenceOr is an amount in the metric's unit, or a dash where it does not
// apply.
func differenceOr(metric string, n *evaluator.Num) string {
	if n == nil {
		return "-"
	}
	return differenceText(metric, n, false)
}

func optionalNum(n *evaluator.Num) string {
	if n == nil {
		return "-"
	}
	return places(n, 4)
}

// differenceWord is what the test says, shortened where there is none.
func differenceWord(d *evaluator.Difference) string {
	word, _, _ := strings.Cut(Clean(d.Word), ": ")
	if d.Censored > 0 {
		word += ", " + plural(d.Censored, "value", "values") + " cut off"
	}
	if d.LargestFamily != nil {
		word += ", largest family " + places(d.LargestFamily, 1) + " times the average"
	}
	return word
}

// writeMissing lists the pairs that are in no difference, by reason.
func writeMissing(b *bytes.Buffer, missing []evaluator.MissingPair) {
	var order []string
	by := map[string][]string{}
	for _, m := range missing {
		if by[m.Why] == nil {
			order = append(order, m.Why)
		}
		by[m.Why] = append(by[m.Why], m.Case+"/"+strconv.Itoa(m.Trial))
	}
	for _, why := range order {
		wrap(b, fmt.Sprintf("missing pairs, %s (%d): %s", Clean(why), len(by[why]), Clean(strings.Join(by[why], ", "))))
	}
}

func differenceName(metric string) string {
	switch metric {
	case "latency_us":
		return "latency"
	case "cost_charged_micros":
		return "cost charged"
	}
	return strings.ReplaceAll(metric, "_", " ")
}

// differenceText writes a difference in its metric's unit, with its sign.
func differenceText(metric string, n *evaluator.Num, signed bool) string {
	if n == nil {
		return notEvaluable
	}
	sign := ""
	if signed && n.Round() > 0 {
		sign = "+"
	}
	switch metric {
	case "latency_us":
		return sign + strconv.FormatFloat(n.Round()/1e6, 'f', 1, 64) + " s"
	case "cost_charged_micros":
		return sign + strconv.FormatFloat(n.Round()/1e6, 'f', 4, 64) + " $"
	}
	return sign + places(n, 3)
}
