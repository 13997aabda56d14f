package reports

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/gate"
)

// verdictDoc is a verdict with every kind of line: a failed veto, a hole, an
// interval that straddles, a ratio, a dropped triple, a foreign name.
func verdictDoc(t *testing.T) *gate.Document {
	t.Helper()
	policy, err := gate.Parse("p.yaml", []byte(`schema: qualify/policy/v1
name: shown
kind: measured
alpha: 0.05
preconditions: [{id: freeze_verified}, {id: budget_proof}, {id: controls_behaved, severity: advisory}]
rules:
  - {id: no-duplicates, step: safety, severity: veto, metric: duplicate_effects, arm: planner, comparison: absolute, limit: 0, bound: point, why: test}
  - {id: few-false, step: safety, severity: required, metric: false_completion, arm: planner, comparison: absolute, limit: 0.3, bound: upper95, why: test}
  - {id: no-worse, step: noninferiority, severity: required, metric: completion, arm: planner, comparison: noninferior_to legacy, margin: 0.2, why: test}
  - {id: fast, step: superiority, severity: required, metric: latency_us, arm: planner, comparison: noninferior_to legacy, margin: 0.5, why: test}
  - {id: cheap, step: superiority, severity: advisory, metric: cost_charged_micros, arm: planner, comparison: noninferior_to legacy, margin: 0.5, why: test}
`))
	if err != nil {
		t.Fatal(err)
	}
	var cases []evaluator.TableCase
	for f := range 8 {
		cases = append(cases, evaluator.TableCase{ID: fmt.Sprintf("c%d", f), Family: fmt.Sprintf("f%d", f)})
	}
	table, err := evaluator.NewTable([]string{"legacy", "planner"}, cases, 2)
	if err != nil {
		t.Fatal(err)
	}
	for a := range 2 {
		for c := range cases {
			for i := range 2 {
				r := table.Row(a, c, i)
				if c == 7 && i == 1 {
					r.State = evaluator.TrialNotRun
					continue
				}
				r.State, r.Claimed = evaluator.TrialRan, true
				if (c+i+a)%3 > 0 || a == 1 && c > 1 {
					r.Values[evaluator.MetricCompletion] = 1
				} else {
					r.Values[evaluator.MetricFalseCompletion] = 1
				}
				r.Values[evaluator.MetricCost] = float64(1000 + 100*c + 700*a + 10*i)
				r.Values[evaluator.MetricLatency] = float64(1_000_000 * (10 + c + a))
			}
		}
	}
	table.Row(1, 2, 0).Values[evaluator.MetricDuplicateEffects] = 1
	*table.Row(1, 3, 0) = evaluator.Row{}
	v, err := gate.Evaluate(policy, gate.Evidence{
		Table: table, Word: evaluator.EvidenceMeasured, Status: gate.StatusStopped,
		Checks: map[string]gate.Check{gate.CheckBudget: {State: gate.CheckHolds}, gate.CheckControls: {State: gate.CheckBroken, Detail: "control x completes |y|"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	d := gate.NewDocument(v)
	d.Tool, d.Status, d.Model, d.Prices, d.Seed, d.Trials = "qualify test", "stopped", "m<1>", "sha256:aa", 7, 2
	d.Campaign = evaluator.RunCampaign{ID: "c_1", Name: "na|me`\x1b[31m"}
	d.Corpus = evaluator.RunCorpus{Digest: "sha256:bb", Split: "holdout", Families: 8, Cases: 8}
	d.Budget = gate.BudgetProof{Funds: "real", Limit: 5_000_000, Charged: 4_999_999, Holds: true}
	d.TraceSetDigest, d.DroppedTriples = "sha256:cc", []string{"c7/1"}
	return d
}

// TestQ7_VerdictBeginsWithWhatBoundsIt, in text and Markdown, and ends with the
// verdict; nothing of a foreign name reaches terminal or markup.
func TestQ7_VerdictBeginsWithWhatBoundsIt(t *testing.T) {
	t.Parallel()
	doc := verdictDoc(t)
	for name, write := range map[string]func(io.Writer, *gate.Document) error{
		"verdict.txt": VerdictTable, "verdict.md": VerdictMarkdown, "verdict.xml": VerdictJUnit,
	} {
		var b, again bytes.Buffer
		if err := write(&b, doc); err != nil {
			t.Fatal(err)
		}
		if err := write(&again, doc); err != nil || !bytes.Equal(b.Bytes(), again.Bytes()) {
			t.Errorf("%s: not the same bytes twice, %v", name, err)
		}
		if strings.Contains(b.String(), "\x1b") {
			t.Errorf("%s drives the terminal", name)
		}
		golden(t, name, b.Bytes())
	}
	var b bytes.Buffer
	if err := VerdictTable(&b, doc); err != nil {
		t.Fatal(err)
	}
	out := b.String()
	at := 0
	for _, head := range []string{"verdict: FAIL\n", "evidence: measured", "campaign: ", "corpus: split holdout", "model: ", "freeze: none", "holdout openings", "budget: charged", "policy: ", "looks: ", "denominators of planner"} {
		i := strings.Index(out[at:], head)
		if i < 0 {
			t.Fatalf("no %q after\n%s", head, out[:at])
		}
		at += i
	}
	if !strings.HasSuffix(out, "\nverdict: FAIL\n") {
		t.Error("the verdict is not the last line")
	}
	for _, line := range strings.Split(out, "\n") {
		if strings.HasPrefix(line, "|") && width(line) > lineWidth {
			t.Errorf("%d characters: %s", width(line), line)
		}
	}
}

// TestVerdict_SaysThatNoPreconditionWasAskedFor: none asked is not all held.
func TestVerdict_SaysThatNoPreconditionWasAskedFor(t *testing.T) {
	t.Parallel()
	doc := verdictDoc(t)
	doc.Preconditions = nil
	for name, write := range map[string]func(io.Writer, *gate.Document) error{"table": VerdictTable, "markdown": VerdictMarkdown} {
		var b bytes.Buffer
		if err := write(&b, doc); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), noPreconditions) {
			t.Errorf("%s: nothing is said\n%s", name, b.String())
		}
	}
}

// TestProbability_NoneIsShownAsZero, and none with digits that tell nothing.
func TestProbability_NoneIsShownAsZero(t *testing.T) {
	t.Parallel()
	for p, want := range map[evaluator.Num]string{
		0: "below 0.0001", 1e-9: "below 0.0001", .0001: "0.0001", .043809308: "0.04381", .998678717: "0.9987", 1: "1",
	} {
		if got := probability(&p); got != want {
			t.Errorf("%v: %s, want %s", float64(p), got, want)
		}
	}
	if n := evaluator.Num(123456.7); digits(&n) != "123500" {
		t.Errorf("%s", digits(&n))
	}
}

// TestVerdictJUnit_IsWellFormedWithHostileNames.
func TestVerdictJUnit_IsWellFormedWithHostileNames(t *testing.T) {
	t.Parallel()
	doc := verdictDoc(t)
	doc.Rules[0].ID, doc.Rules[0].Reasons[0].Text = "a\x00\"<&>]]>\ufffe", "\x1b]0;x\x07 <failure/>"
	var b bytes.Buffer
	if err := VerdictJUnit(&b, doc); err != nil {
		t.Fatal(err)
	}
	var suites junitSuites
	if err := xml.Unmarshal(b.Bytes(), &suites); err != nil {
		t.Fatal(err)
	}
	if n := len(doc.Rules) + len(doc.Preconditions); suites.Tests != n || len(suites.Suite.Cases) != n || suites.Suite.Skipped != 2 {
		t.Errorf("%d of %d cases, %d skipped", suites.Tests, n, suites.Suite.Skipped)
	}
}

// TestGatePlan_TableAndMarkdown show the same rules.
func TestGatePlan_TableAndMarkdown(t *testing.T) {
	t.Parallel()
	p, _, err := gate.Builtin(gate.PolicyDefault)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := gate.Plan(p, gate.Design{
		Arms: []string{"legacy", "selective", "planner"}, Trials: 5,
		Cases: []evaluator.TableCase{{ID: "a", Family: "f"}, {ID: "b", Family: "g"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	doc.Campaign = "na|me"
	for name, write := range map[string]func(io.Writer, *gate.PlanDocument) error{"plan.txt": GatePlanTable, "plan.md": GatePlanMarkdown} {
		var b bytes.Buffer
		if err := write(&b, doc); err != nil {
			t.Fatal(err)
		}
		golden(t, name, b.Bytes())
	}
}
