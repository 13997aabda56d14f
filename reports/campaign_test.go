package reports

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/agentrooms/qualify/evaluator"
)

// smallScores are the trials of an arm over three cases in two families, two
// trials each: outcome by (case, trial) shifted by turn, so that arms differ.
func smallScores(arm string, turn int) ([]evaluator.TrialScore, []evaluator.Planned) {
	outcomes := []evaluator.Outcome{evaluator.ClaimedMet, evaluator.ClaimedUnmet, evaluator.UnclaimedMet, evaluator.UnclaimedUnmet}
	var scores []evaluator.TrialScore
	var plan []evaluator.Planned
	for i, c := range []struct{ id, family string }{{"desk-01", "desk"}, {"desk-02", "desk"}, {"post-01", "post"}} {
		for trial := range 2 {
			n := i*2 + trial + turn
			key := fmt.Sprintf("%s/%s/%d", c.id, arm, trial)
			dup, coll := n%3/2, n%5/4
			s := evaluator.TrialScore{
				Key: key, Arm: arm, Mode: arm, Case: c.id, Family: c.family, Trial: trial, Evidence: "simulated", Termination: evaluator.TermCompleted,
				Outcome: outcomes[n%4], Met: 2 - n%2, Required: 2, ClaimLine: 5 + n, CorrectionLines: []int{4},
				Corrections:  &evaluator.Corrections{Count: 1, AfterClaim: n % 2, ByType: map[string]int{"correction": 1}},
				RepeatedWork: &evaluator.RepeatedWork{},
				Effects:      &evaluator.EffectFigures{Duplicates: &dup, Collateral: &coll, Suppressed: n % 2},
				Latency:      &evaluator.Latency{US: int64(1_000_000 * (n + 1)), Censored: n == 3, ModelUS: 400_000, ToolUS: 300_000},
				Cost:         evaluator.Cost{Charged: int64(1000 * (n + 1)), ByRole: map[string]int64{"agent": int64(1000 * (n + 1))}},
				Faults:       map[string]int{"slow": n % 2}, Calls: map[string]int{"agent": 2},
			}
			if dup > 0 {
				s.Effects.DuplicateLines = []int{9}
			}
			if coll > 0 {
				s.Effects.CollateralLines = []int{11}
			}
			scores = append(scores, s)
			plan = append(plan, evaluator.Planned{Key: key, Case: c.id, Family: c.family, Trial: trial})
		}
	}
	return scores, plan
}

func aggregate(t *testing.T, arm, role string, scores []evaluator.TrialScore, plan []evaluator.Planned) evaluator.ArmSummary {
	t.Helper()
	a, err := evaluator.Aggregate(evaluator.Arm{Name: arm, Mode: arm, Role: role}, scores, plan)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// smallCampaign is the document of a small campaign that was stopped: of the
// six triples one was cut.
func smallCampaign(t *testing.T) *evaluator.RunDocument {
	t.Helper()
	d := evaluator.NewRunDocument()
	d.Evidence, d.Status, d.Exit, d.Model, d.Prices, d.Seed, d.Trials = "simulated", "stopped", 6, "sim-1", "sha256:aa", 7, 2
	d.Campaign = evaluator.RunCampaign{ID: "c_1", Name: "small"}
	d.Corpus = evaluator.RunCorpus{Digest: "sha256:bb", Split: "dev", Families: 2, Cases: 3}
	d.Budget = evaluator.Budget{Funds: "simulated", Ceiling: "lab", Limit: 100_000, Charged: 60_000, MaxSum: 90_000, Holds: true}
	d.SharedCeiling = []evaluator.CeilingUser{{ID: "c_0", Name: "try-out", Status: "stopped", Allotments: 2, Charged: 9000, Held: 40}}
	d.TraceSetDigest, d.DroppedTriples = "sha256:cc", []string{"post-01/1"}
	d.Partial = &evaluator.Partial{Done: 15, Planned: 18, Open: []string{}, Rule: "triples cut by a limit are not run"}
	for i, name := range []string{"legacy", "planner", "legacy-keyed"} {
		scores, plan := smallScores(name, i)
		plan[5].NotRun = true
		if name == "legacy-keyed" {
			d.Ablations = append(d.Ablations, aggregate(t, name, "ablation", scores[:5], plan))
		} else {
			d.Arms = append(d.Arms, aggregate(t, name, "", scores[:5], plan))
		}
	}
	d.Controls = []evaluator.Control{{Name: "claim-only", Trials: 3}, {Name: "do-nothing", Trials: 3, Completed: 1}}
	d.OracleFaults = []evaluator.OracleFault{{Case: "desk-02", Control: "do-nothing"}}
	return d
}

func TestRunTable_GoldenOfASmallCampaign(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := RunTable(&b, smallCampaign(t)); err != nil {
		t.Fatal(err)
	}
	golden(t, "small.txt", b.Bytes())
}

// TestQ7_MarkdownGolden: the report begins with what bounds its figures, and
// every finding is linked to its trace line.
func TestQ7_MarkdownGolden(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := RunMarkdown(&b, smallCampaign(t)); err != nil {
		t.Fatal(err)
	}
	golden(t, "small.md", b.Bytes())
	at := -1
	for _, head := range []string{"**Verdict:**", "**Evidence:** simulated; says nothing", "**Partial:**", "**Corpus:**", "**Model:**", "**Prices:**", "**Budget:**", "## Arms"} {
		i := strings.Index(b.String(), head)
		if i <= at {
			t.Errorf("%s is not where it belongs", head)
		}
		at = i
	}
}

// TestRunMarkdown_ForeignTextStaysText: names from outside can neither format,
// link, embed HTML, end a cell nor start a line.
func TestRunMarkdown_ForeignTextStaysText(t *testing.T) {
	t.Parallel()
	evil := "a|b\n# x <img src=x onerror=y> [l](http://e.example) `c` **b** \x1b[31m\u202e\xff $m$ www.e.example"
	d := smallCampaign(t)
	d.Campaign.Name, d.Campaign.ID, d.Model, d.DroppedTriples[0], d.OracleFaults[0].Case, d.Warnings = evil, evil, evil, evil, evil, []string{evil}
	d.SharedCeiling[0].Name, d.Controls[0].Name, d.Budget.Ceiling, d.Partial.Rule = evil, evil, evil, evil
	d.Arms[0].Name = evil
	d.Arms[0].Links = map[string][]string{evaluator.LinkCorrection: {evil + ":3", "a)(b/c d/0:7", "no line"}}
	d.Arms[0].Families[0].Family, d.Arms[0].Faults, d.Arms[0].Termination = evil, map[string]int{evil: 1}, map[string]int{evil: 1}
	d.Arms[0].NotEvaluable = []evaluator.NotEvaluable{{Metric: evil, Reason: evil, Count: 1}}
	var b bytes.Buffer
	if err := RunMarkdown(&b, d); err != nil {
		t.Fatal(err)
	}
	out := b.String()
	if strings.ContainsAny(out, "\x1b\u202e") || !utf8.Valid(b.Bytes()) {
		t.Error("control characters in the report")
	}
	if strings.Contains(out, "<details><summary>a|b") && !strings.Contains(out, `<details><summary>a|b\x0a# x &lt;img src=x onerror=y&gt;`) {
		t.Error("HTML is not escaped by entities inside HTML")
	}
	cells := 0
	for line := range strings.Lines(out) {
		plain := strings.NewReplacer(`\\`, "", `\|`, "", `\<`, "", `\[`, "", "\\`", "", `\*`, "", `\$`, "").Replace(line)
		if strings.Contains(plain, "<img") || strings.Contains(plain, "[l]") || strings.HasPrefix(line, "# x") || strings.Contains(plain, "**b**") || strings.Contains(plain, "$m$") {
			// Inside a code span nothing but a backtick is markup.
			if !strings.HasPrefix(line, "<details>") && !strings.Contains(line, "`a") && !strings.Contains(line, "qualify trace export") {
				t.Errorf("foreign text is markup: %q", line)
			}
		}
		if !strings.HasPrefix(line, "|") {
			cells = 0
			continue
		}
		n := strings.Count(plain, "|")
		if cells == 0 {
			cells = n
		}
		if n != cells {
			t.Errorf("a cell was ended from outside: %q", line)
		}
	}
	if !strings.Contains(out, `[a)(b/c d/0:7](traces/a%29%28b/c%20d/0.jsonl#L7)`) || !strings.Contains(out, "no line") {
		t.Error("links to trace lines are not escaped")
	}
	if strings.Contains(out, "http://") && !strings.Contains(out, "`a") {
		t.Error("an address became a link")
	}
}

// smallComparison compares two arms of the small campaign, and of one that
// misses a case.
func smallComparison(t *testing.T) *evaluator.CompareDocument {
	t.Helper()
	doc := evaluator.NewCompareDocument()
	a, b := smallCampaign(t), smallCampaign(t)
	b.Campaign, b.Model, b.Status, b.Partial = evaluator.RunCampaign{ID: "c_2", Name: "later"}, "sim-2", "done", nil
	doc.Evidence, doc.A, doc.B = "simulated", evaluator.SideOf(a, "legacy"), evaluator.SideOf(b, "planner")
	doc.Differs = evaluator.DifferencesOf(&doc.A, &doc.B)
	as, ap := smallScores("legacy", 0)
	bs, bp := smallScores("planner", 1)
	bp = append(bp, evaluator.Planned{Key: "post-02/planner/0", Case: "post-02", Family: "post"})
	digests := map[string]string{"desk-01": "d1", "desk-02": "d2", "post-01": "d3"}
	pair, err := evaluator.ComparePair(
		evaluator.PairSide{Summary: aggregate(t, "legacy", "", as[:5], ap), Scores: as[:5], Planned: ap, Cases: digests},
		evaluator.PairSide{Summary: aggregate(t, "planner", "", bs, bp), Scores: bs, Planned: bp, Cases: digests},
	)
	if err != nil {
		t.Fatal(err)
	}
	doc.Arms = append(doc.Arms, pair)
	doc.OnlyA, doc.Changed = []string{"selective"}, []evaluator.ChangedCase{{Case: "desk-03", A: "sha256:1", B: "sha256:2"}}
	return doc
}

func TestCompareTable_Golden(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := CompareTable(&b, smallComparison(t)); err != nil {
		t.Fatal(err)
	}
	golden(t, "compare.txt", b.Bytes())
}

func TestCompareTable_NoControlCharacters(t *testing.T) {
	t.Parallel()
	evil := "a\x1b]0;x\x07\r\nb\u202e\u009b\xff"
	d := smallComparison(t)
	d.A.Campaign.Name, d.A.Arm, d.A.Model, d.Differs[0].A, d.Changed[0].Case = evil, evil, evil, evil, evil
	d.OnlyA, d.OnlyB, d.Warnings = []string{evil}, []string{evil}, []string{evil}
	d.Arms[0].A.Name, d.Arms[0].Missing[0].Case = evil, evil
	var b bytes.Buffer
	if err := CompareTable(&b, d); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(b.String(), "\x1b\x07\r\u202e\u009b") || !utf8.Valid(b.Bytes()) {
		t.Error("control characters in the comparison")
	}
}

func TestReports_WriteErrorsOfMarkdownAndComparison(t *testing.T) {
	t.Parallel()
	if err := errors.Join(RunMarkdown(broken{}, smallCampaign(t))); err == nil || !strings.Contains(err.Error(), "pipe closed") {
		t.Errorf("got %v", err)
	}
	if err := CompareTable(broken{}, smallComparison(t)); err == nil || !strings.Contains(err.Error(), "pipe closed") {
		t.Errorf("got %v", err)
	}
}

// TestRunMarkdown_LongListsSayWhatTheyLeaveOut: no entry disappears in silence.
func TestRunMarkdown_LongListsSayWhatTheyLeaveOut(t *testing.T) {
	t.Parallel()
	d := smallCampaign(t)
	d.DroppedTriples = nil
	var links []string
	for i := range mostLinks + 3 {
		d.DroppedTriples = append(d.DroppedTriples, fmt.Sprintf("desk-01/%d", i))
		links = append(links, fmt.Sprintf("desk-01/legacy/%d:2", i))
	}
	d.Arms[0].Links = map[string][]string{evaluator.LinkRepeatedWork: links[:mostLinks+2]}
	d.Arms[1].Links = map[string][]string{evaluator.LinkRepeatedWork: links[:mostLinks]}
	var b bytes.Buffer
	if err := RunMarkdown(&b, d); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"(43): desk-01/0", "desk-01/39, and 3 more, listed in the JSON report", "39.jsonl#L2), and 2 more, listed in the JSON report"} {
		if strings.Count(b.String(), want) != 1 {
			t.Errorf("not once in the report: %s", want)
		}
	}
	if strings.Contains(b.String(), "and 0 more") {
		t.Error("a whole list says that it is cut")
	}
}
