package reports

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/gate"
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
	judged := verdictDoc(t)
	n := 2
	judged.Corpus.Split, judged.Model = "holdout", "sim-1"
	judged.Freeze = gate.Freeze{ID: "f_12", Openings: &n, Log: &gate.Log{Rows: 31, Head: "77", Openings: 5}}
	ruled := []string{
		`(?i)verdict:(\*\*)? FAIL`, `(?i)evidence:(\*\*)? measured`, `split holdout`, `sha256:bb`, `sim-1, seed 7`, `sha256:aa`,
		`freeze: f_12; holdout openings: 2 \(5 under any freeze\) in log of 31 rows, head 77`, `charged \S+ \+ held \S+ ≤ limit \S+ `, `unknown `,
	}
	const figures, rules = "outcome, by the oracle", "no-duplicates (veto)"
	verdict := []string{`(?i)verdict:(\*\*)? not tested`, `(?i)evidence:(\*\*)? simulated`}
	bounds := func(split, freeze string) []string {
		return []string{`split ` + split, "sha256:bb", `sim-1, seed 7`, `sha256:aa`, freeze, `charged \S+ \+ held \S+ ≤ limit \S+ `, `unknown \S+; greatest sum `}
	}
	opened := bounds("holdout", `freeze: f_12; holdout openings: 2 \(5 under any freeze\) in log of 31 rows, head 77; opened again: twice`)
	none := bounds("dev", `(freeze: none;|no freeze, and) no holdout was opened`)
	for _, tc := range []struct {
		name  string
		until string // where the figures begin
		write func(io.Writer) error
		want  []string
	}{
		{"table of a holdout", figures, func(w io.Writer) error { return RunTable(w, held) }, append(verdict[:2:2], opened...)},
		{"Markdown of a holdout", figures, func(w io.Writer) error { return RunMarkdown(w, held) }, append(verdict[:2:2], opened...)},
		{"table of dev cases", figures, func(w io.Writer) error { return RunTable(w, dev) }, append(verdict[:2:2], none...)},
		{"Markdown of dev cases", figures, func(w io.Writer) error { return RunMarkdown(w, dev) }, append(verdict[:2:2], none...)},
		{"verdict", rules, func(w io.Writer) error { return VerdictTable(w, judged) }, ruled},
		{"Markdown of a verdict", "## Rules", func(w io.Writer) error { return VerdictMarkdown(w, judged) }, ruled},
		{"JUnit of a verdict", "<testcase", func(w io.Writer) error { return VerdictJUnit(w, judged) }, []string{
			`"verdict" value="FAIL"`, `"evidence" value="measured"`, `sha256:bb, split holdout`, `"sim-1"`, `sha256:aa`, ruled[6], ruled[7], ruled[8],
		}},
		{"comparison", figures, func(w io.Writer) error { return CompareTable(w, comparison) }, append(append(verdict[:2:2], opened...), none...)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var b bytes.Buffer
			if err := tc.write(&b); err != nil {
				t.Fatal(err)
			}
			rest, _, found := strings.Cut(b.String(), tc.until)
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

// TestQ7_DeviationsTellOfTheHoldout: void results and a holdout that was opened
// again are deviations, although every trial has ended.
func TestQ7_DeviationsTellOfTheHoldout(t *testing.T) {
	t.Parallel()
	const none, again, void = "- none from the plan", "- the holdout had been opened by another campaign, and was opened again: too few\n", "- void, since what the freeze covers was changed (2): "
	const unverified = "- the freeze was not verified behind the last trial\n"
	for name, tc := range map[string]struct {
		freeze   *evaluator.RunFreeze
		has, not []string
	}{
		"dev cases":  {nil, []string{none}, []string{again, void, unverified}},
		"opened":     {&evaluator.RunFreeze{ID: "f_1", Verified: true}, []string{none}, []string{again, void, unverified}},
		"reopened":   {&evaluator.RunFreeze{ID: "f_1", Verified: true, Reopen: "too few"}, []string{again}, []string{none, void, unverified}},
		"void":       {&evaluator.RunFreeze{ID: "f_1", Void: []string{"desk-01/legacy/0", "desk-01/planner/0"}}, []string{void}, []string{none, again, unverified}},
		"unverified": {&evaluator.RunFreeze{ID: "f_1"}, []string{unverified}, []string{none, again, void}},
	} {
		doc := smallCampaign(t)
		doc.Partial, doc.Freeze = nil, tc.freeze
		var b bytes.Buffer
		if err := RunMarkdown(&b, doc); err != nil {
			t.Fatal(err)
		}
		_, part, _ := strings.Cut(b.String(), "## Deviations")
		for _, w := range tc.has {
			if !strings.Contains(part, w) {
				t.Errorf("%s: no %q in %s", name, w, part)
			}
		}
		for _, w := range tc.not {
			if strings.Contains(part, w) {
				t.Errorf("%s: %q in %s", name, w, part)
			}
		}
	}
}
