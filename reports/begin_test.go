package reports

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/agentrooms/qualify/evaluator"
)

// TestQ7_EveryReportBeginsWithWhatBoundsIt: verdict, evidence, corpus and split,
// model and prices, freeze, openings in log and head, and the proof of the budget
// stand before the first figure of an arm, for each side of a comparison too. A
// campaign that opened no holdout says so.
func TestQ7_EveryReportBeginsWithWhatBoundsIt(t *testing.T) {
	t.Parallel()
	held := smallCampaign(t)
	held.Corpus.Split = "holdout"
	held.Freeze = &evaluator.RunFreeze{ID: "f_12", Openings: 2, AllOpenings: 5, Reopen: "twice", Rows: 31, Head: "77", Verified: true}
	dev := smallCampaign(t)
	comparison := smallComparison(t)
	comparison.A, comparison.B = evaluator.SideOf(held, "legacy"), evaluator.SideOf(dev, "planner")
	verdict := []string{`(?i)verdict:(\*\*)? not tested`, `(?i)evidence:(\*\*)? simulated`}
	bounds := func(split, freeze string) []string {
		return []string{`split ` + split, "sha256:bb", `sim-1, seed 7`, `sha256:aa`, freeze, `charged \S+ \+ held \S+ ≤ limit \S+ `, `unknown \S+; greatest sum `}
	}
	opened := bounds("holdout", `freeze: f_12; holdout openings: 2 \(5 under any freeze\) in log of 31 rows, head 77; opened again: twice`)
	none := bounds("dev", `(freeze: none;|no freeze, and) no holdout was opened`)
	for _, tc := range []struct {
		name  string
		write func(io.Writer) error
		want  []string
	}{
		{"table of a holdout", func(w io.Writer) error { return RunTable(w, held) }, append(verdict[:2:2], opened...)},
		{"Markdown of a holdout", func(w io.Writer) error { return RunMarkdown(w, held) }, append(verdict[:2:2], opened...)},
		{"table of dev cases", func(w io.Writer) error { return RunTable(w, dev) }, append(verdict[:2:2], none...)},
		{"Markdown of dev cases", func(w io.Writer) error { return RunMarkdown(w, dev) }, append(verdict[:2:2], none...)},
		{"comparison", func(w io.Writer) error { return CompareTable(w, comparison) }, append(append(verdict[:2:2], opened...), none...)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			if err := tc.write(&b); err != nil {
				t.Fatal(err)
			}
			rest, _, found := strings.Cut(b.String(), "outcome, by the oracle")
			if !found {
				t.Fatalf("no figures in\n%s", b.String())
			}
			rest = strings.Join(strings.Fields(strings.NewReplacer("`", "", `\_`, "_").Replace(rest)), " ")
			for _, w := range tc.want {
				at := regexp.MustCompile(w).FindStringIndex(rest)
				if at == nil {
					t.Fatalf("%s is not in the head, or not in its place; left of it:\n%s", w, rest)
				}
				rest = rest[at[1]:]
			}
		})
	}
}
