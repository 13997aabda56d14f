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

// ScoreTable writes the score document for people, in one write. The same
// document gives the same bytes.
func ScoreTable(w io.Writer, doc *evaluator.ScoreDocument) error {
	var b bytes.Buffer
	b.WriteString("evidence: " + scoreEvidence(doc) + "\n")
	for _, f := range doc.Files {
		fmt.Fprintf(&b, "file: %s\n", Clean(f.Path))
		fmt.Fprint(&b, "  ")
		wrap(&b, fmt.Sprintf("format %s, effects %s, arm %s", f.Format, Clean(f.Effects), cell(f.Arm)))
		fmt.Fprintf(&b, "  sha256 %s\n", f.SHA256)
	}
	names := make([]string, 0, len(doc.Arms))
	for i := range doc.Arms {
		names = append(names, cell(doc.Arms[i].Name))
	}
	if err := grid(&b, "metric", names, rowsOf(doc.Arms, scoreMetrics)); err != nil {
		return err
	}
	for i := range doc.Arms {
		writeLacks(&b, names[i], doc.Arms[i].NotEvaluable)
	}
	writeWarnings(&b, doc.Warnings)
	_, err := w.Write(b.Bytes())
	return wrapWrite(err)
}

func scoreEvidence(doc *evaluator.ScoreDocument) string {
	var words []string
	for i := range doc.Arms {
		if e := doc.Arms[i].Evidence; !slices.Contains(words, e) {
			words = append(words, e)
		}
	}
	return strings.Join(words, ", ")
}

var scoreMetrics = []metric[evaluator.ScoreArm]{
	{"traces", func(a *evaluator.ScoreArm) string {
		return fmt.Sprintf("%d (%s, %s each)", a.Traces, plural(a.Cases, "case", "cases"), plural(a.Trials, "trial", "trials"))
	}},
	{"completion", func(a *evaluator.ScoreArm) string {
		return places(a.Completion.Rate, 4) + fmt.Sprintf(" (%d/%d)", a.Completion.Met, a.Completion.N)
	}},
	{"completion se, CR1 by case", func(a *evaluator.ScoreArm) string {
		return places(a.Completion.SE, 4) + fmt.Sprintf(" (%s)", plural(a.Completion.Clusters, "case", "cases"))
	}},
	{"pass^k", func(a *evaluator.ScoreArm) string { return byK(a.PassHat) }},
	{"pass^k, publisher's rule", func(a *evaluator.ScoreArm) string {
		if a.PassHatPublished == nil {
			return "the same"
		}
		return byK(a.PassHatPublished)
	}},
	{"pass@k", func(a *evaluator.ScoreArm) string { return byK(a.PassAt) }},
	{"tool calls", func(a *evaluator.ScoreArm) string { return strconv.Itoa(a.ToolCalls) }},
	{"tool errors", func(a *evaluator.ScoreArm) string { return intOr(a.ToolErrors) }},
	{"writes confirmed / attempted", func(a *evaluator.ScoreArm) string {
		if a.Writes == nil {
			return notEvaluable
		}
		return fmt.Sprintf("%d / %d", a.Writes.Confirmed, a.Writes.Attempted)
	}},
	{"repeated calls", func(a *evaluator.ScoreArm) string { return inTraces(&a.RepeatedCalls, a.Traces) }},
	{"repeated work", func(a *evaluator.ScoreArm) string { return inTraces(a.RepeatedWork, a.Traces) }},
	{"duplicate effects", func(a *evaluator.ScoreArm) string { return inTraces(a.DuplicateEffects, a.Traces) }},
	{"collateral effects", func(a *evaluator.ScoreArm) string { return inTraces(a.Collateral, a.Traces) }},
	{"traces with reused call ids", func(a *evaluator.ScoreArm) string { return fmt.Sprintf("%d of %d", a.ReusedCallIDs.Traces, a.Traces) }},
	{"unfinished", func(a *evaluator.ScoreArm) string { return intOr(a.Unfinished) }},
	{"exceptions (count as unmet)", func(a *evaluator.ScoreArm) string { return strconv.Itoa(a.Exceptions) }},
	{"cost of the simulated user", func(a *evaluator.ScoreArm) string {
		if a.UserCost == nil {
			return notEvaluable
		}
		return fmt.Sprintf("%s %s (n %d, missing %d)", places(&a.UserCost.Sum, 6), a.UserCost.Unit, a.UserCost.N, a.UserCost.Missing)
	}},
	{"denominators", nil},
	{"  planned, the sum of", func(a *evaluator.ScoreArm) string { return strconv.Itoa(a.Denominators.Planned) }},
	{"    met", func(a *evaluator.ScoreArm) string { return strconv.Itoa(a.Denominators.Met) }},
	{"    unmet", func(a *evaluator.ScoreArm) string { return strconv.Itoa(a.Denominators.Unmet) }},
	{"    infrastructure", func(a *evaluator.ScoreArm) string { return strconv.Itoa(a.Denominators.Infrastructure) }},
	{"    grader error", func(a *evaluator.ScoreArm) string { return strconv.Itoa(a.Denominators.GraderError) }},
	{"    not run", func(a *evaluator.ScoreArm) string { return strconv.Itoa(a.Denominators.NotRun) }},
}

func intOr(n *int) string {
	if n == nil {
		return notEvaluable
	}
	return strconv.Itoa(*n)
}

func inTraces(c *evaluator.CountIn, n int) string {
	if c == nil {
		return notEvaluable
	}
	return fmt.Sprintf("%d in %d of %d", c.Count, c.Traces, n)
}

// byK writes pass figures in the order of k.
func byK(m map[string]evaluator.Num) string {
	ks := make([]int, 0, len(m))
	for k := range m {
		if n, err := strconv.Atoi(k); err == nil {
			ks = append(ks, n)
		}
	}
	slices.Sort(ks)
	parts := make([]string, 0, len(ks))
	for _, k := range ks {
		v := m[strconv.Itoa(k)]
		parts = append(parts, fmt.Sprintf("%d: %s", k, places(&v, 4)))
	}
	return strings.Join(parts, ", ")
}

func writeLacks(b *bytes.Buffer, arm string, lacks []evaluator.NotEvaluable) {
	for _, n := range lacks {
		line := fmt.Sprintf("not evaluable, %s: %s: %s", arm, Clean(n.Metric), Clean(n.Reason))
		if n.Count > 0 {
			line += fmt.Sprintf(" (%s)", plural(n.Count, "trial", "trials"))
		}
		wrap(b, line)
	}
}

func writeWarnings(b *bytes.Buffer, warnings []string) {
	for _, w := range warnings {
		wrap(b, "warning: "+Clean(w))
	}
}

func wrapWrite(err error) error {
	if err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
