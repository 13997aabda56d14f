package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/gate"
)

// gateOf runs gate --json over a store and requires its exit code.
func gateOf(t *testing.T, s store.Store, exit int, args ...string) (*gate.Document, string) {
	t.Helper()
	code, out, talk := runWith(t, s, append([]string{"gate", "test", "--json"}, args...)...)
	if code != exit {
		t.Fatalf("exit %d, want %d, stderr %q\n%s", code, exit, talk, out)
	}
	var doc gate.Document
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	return &doc, out
}

// TestQ5_VerdictJSONIsTheSameBytesAtAnyParallelism: the same campaign run one
// trial at a time and eight at once, judged by both shipped policies.
func TestQ5_VerdictJSONIsTheSameBytesAtAnyParallelism(t *testing.T) {
	t.Parallel()
	var want [2]string
	for i, parallel := range []int{1, 8} {
		res := simulation{seed: 4, trials: 1, parallel: parallel, rates: goldenRates()}.run(t)
		for j, p := range []string{"builtin:default", "builtin:simulation"} {
			_, out, talk := runWith(t, res.store, "gate", "test", "--json", "--policy", p)
			if talk != "" || !strings.Contains(out, `"qualify.verdict"`) {
				t.Fatalf("stderr %q\n%s", talk, out)
			}
			if i == 0 {
				want[j] = out
			} else if diff := cmp.Diff(want[j], out); diff != "" {
				t.Errorf("policy %s, parallel %d:\n%s", p, parallel, diff)
			}
		}
	}
}

// verdictKeys are the keys of a verdict that scripts read, as in shapes_test.go.
const verdictKeys = `
schema.name string; schema.version number; tool string; exit number; campaign.id string; campaign.name string; campaign.registration string
status string; corpus.digest string; corpus.split string; corpus.families number; corpus.cases number; model string; prices string; seed number
trials number; freeze.id string; freeze.holdout_openings number?; freeze.word string
budget.funds string; budget.limit_micros number; budget.charged_micros number; budget.held_micros number; budget.unknown_micros number; budget.holds bool
trace_set_digest string; verdict string; label string; evidence string; reasons.*.code string; reasons.*.text string
policy.name string; policy.kind string; policy.digest string; policy.alpha number; policy.power number; policy.multiplicity string
sequential.method string; sequential.planned number; sequential.complete number; sequential.used number; sequential.information number; sequential.nominal_alpha number
sequential.spent_alpha number; estimand string; arms.*.arm string; arms.*.planned number; arms.*.claimed_met number; arms.*.not_run number
preconditions.*.id string; preconditions.*.severity string; preconditions.*.state string; preconditions.*.verdict string; preconditions.*.hole bool
preconditions.*.evidence string; preconditions.*.reasons array
rules.*.id string; rules.*.step string; rules.*.severity string; rules.*.verdict string; rules.*.hole bool; rules.*.reasons array; rules.*.metric string
rules.*.unit string; rules.*.better string; rules.*.arm string; rules.*.comparison string; rules.*.scope string; rules.*.bound string; rules.*.why string
rules.*.figure.evidence string; rules.*.figure.method string; rules.*.figure.value number; rules.*.figure.n number; rules.*.figure.families number
rules.*.figure.excluded number; rules.*.figure.lacking number; rules.*.figure.censored number; rules.*.figure.level number; rules.*.figure.lower number?
rules.*.figure.upper number?; rules.*.figure.p number?; rules.*.figure.se number?; rules.*.figure.df number?; rules.*.figure.notes array
metrics.*.arm string; metrics.*.metrics.*.metric string; metrics.*.metrics.*.mean number; metrics.*.metrics.*.n number
dropped_triples array; outside_identity array`

// TestVerdictJSON_KeysAndTypes: a real verdict has every key that scripts depend on.
func TestVerdictJSON_KeysAndTypes(t *testing.T) {
	t.Parallel()
	_, out := gateOf(t, storedCampaignOf(t).store, exitInconclusive)
	var doc any
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	for _, m := range missing(doc, verdictKeys) {
		t.Error(m)
	}
}

// TestQ5_TheGateReadsTracesAndNoStoredSummary: a doctored summary changes
// nothing; a trace that is not the one of its record is no evidence.
func TestQ5_TheGateReadsTracesAndNoStoredSummary(t *testing.T) {
	t.Parallel()
	res := storedCampaignOf(t)
	_, want := gateOf(t, res.store, exitInconclusive)
	if _, got := gateOf(t, doctored{Store: res.store, totals: []byte(`{"arms":[]}`)}, exitInconclusive); got != want {
		t.Errorf("a stored summary shows in the verdict:\n%s", cmp.Diff(want, got))
	}
	a, b := "ledger-two-books-01/planner/0", "ledger-two-books-01/planner/1"
	code, _, talk := runWith(t, doctored{Store: res.store, traces: map[string]string{a: b}}, "gate", "test")
	if code != exitUsage || !strings.Contains(talk, a) || !strings.Contains(talk, "trace verify") {
		t.Errorf("exit %d, stderr %q", code, talk)
	}
}

// TestQ5_GateFiguresAreThoseOfTheReport: completion and denominators of every
// arm, and the trace set.
func TestQ5_GateFiguresAreThoseOfTheReport(t *testing.T) {
	t.Parallel()
	res := storedCampaignOf(t)
	doc, _ := gateOf(t, res.store, exitInconclusive)
	report := reportOf(t, res.store)
	if doc.TraceSetDigest != report.TraceSetDigest || doc.Campaign != report.Campaign || doc.Corpus != report.Corpus {
		t.Errorf("%+v, %+v", doc.Campaign, report.Campaign)
	}
	if doc.Label != "INCONCLUSIVE (simulated)" || doc.Evidence != "simulated" {
		t.Errorf("%s, %s", doc.Label, doc.Evidence)
	}
	for _, a := range doc.Arms {
		if diff := cmp.Diff(res.arm(t, a.Arm).Denominators, a.Denominators); diff != "" {
			t.Errorf("%s: %s", a.Arm, diff)
		}
	}
	for _, r := range doc.Rules {
		if r.ID == "few-false-completions" {
			want := report.Arms[2].False
			if r.Figure.Value.String() != want.Rate.String() || r.Figure.N != want.N {
				t.Errorf("%+v, report %+v", r.Figure, want)
			}
		}
		if r.ID == "completion-than-legacy" {
			want := evaluator.Num(res.completion(t, "planner") - res.completion(t, "legacy"))
			if r.Figure.Value.String() != want.String() {
				t.Errorf("difference %v, report %v", r.Figure.Value, want)
			}
		}
	}
}

// TestQ5_CampaignsThatAreNotComplete: where a ceiling or a person ended it, or
// nobody did, no verdict is PASS and the reason says which.
func TestQ5_CampaignsThatAreNotComplete(t *testing.T) {
	t.Parallel()
	res := simulation{seed: 4, trials: 1, parallel: 4, rates: goldenRates()}.run(t)
	open := []string{"ledger-two-books-01/planner/0"}
	for status, want := range map[string]gate.Code{"stopped": gate.CodeCeiling, "running": gate.CodeUnfinished, "cancelled": gate.CodeUnfinished} {
		code, out, talk := runWith(t, doctored{Store: res.store, status: status, open: open}, "gate", "test", "--json", "--policy", "builtin:simulation")
		var doc gate.Document
		if err := json.Unmarshal([]byte(out), &doc); err != nil {
			t.Fatalf("%v, %s", err, talk)
		}
		if doc.Exit != code || code == exitOK || doc.Status != status || doc.Reasons[0].Code != want {
			t.Errorf("%s: exit %d, %v", status, code, doc.Reasons)
		}
		dropped := status != "cancelled"
		if (len(doc.DroppedTriples) == 1) != dropped || (doc.Arms[2].NotRun == 1) != dropped || (doc.Arms[0].NotRun == 1) != dropped || (doc.Arms[2].Missing == 1) == dropped {
			t.Errorf("%s: dropped %v, %+v", status, doc.DroppedTriples, doc.Arms)
		}
	}
}

// TestQ5_ALookFollowsTheSchedule: with one triple open the look at a half is due
// where the triple stands in the second half of the schedule, and rests on the first.
func TestQ5_ALookFollowsTheSchedule(t *testing.T) {
	t.Parallel()
	res := simulation{seed: 4, trials: 1, parallel: 4, rates: goldenRates()}.run(t)
	path := filepath.Join(t.TempDir(), "p.yaml")
	must(t, os.WriteFile(path, []byte(`schema: qualify/policy/v1
name: looks
kind: simulation
alpha: 0.05
sequential: {method: looks, at: [0.5, 1]}
rules:
  - {id: better, step: superiority, severity: required, metric: completion, arm: planner, comparison: superior_to legacy, why: test}
`), 0o600))
	order := cellsOf(res.plan)
	for i, want := range map[int]int{2: 0, 6: 0, 7: 7, 12: 7} { // of 14
		open := []string{order[i].Case + "/planner/0"}
		_, out, talk := runWith(t, doctored{Store: res.store, status: "stopped", open: open}, "gate", "test", "--json", "--policy", path)
		var doc gate.Document
		if err := json.Unmarshal([]byte(out), &doc); err != nil {
			t.Fatalf("%v, %s", err, talk)
		}
		if q := doc.Sequential; len(order) != 14 || q.Complete != 13 || q.Look != min(want, 1) || want > 0 && (q.Used != want || doc.Rules[0].Figure.Pairs != want) {
			t.Errorf("open at %d: %+v, %d pairs", i, q, doc.Rules[0].Figure.Pairs)
		}
	}
}

// TestQ5_ATurnedClaimTurnsTheVerdict: with the claims of legacy's traces flipped
// and nothing else, a rule about false completion that failed passes, and its
// figure is the failures that had not been claimed.
func TestQ5_ATurnedClaimTurnsTheVerdict(t *testing.T) {
	t.Parallel()
	d := runDemo(t, 1)
	policy, err := gate.Parse("p.yaml", []byte(`schema: qualify/policy/v1
name: claims
kind: simulation
alpha: 0.05
rules:
  - {id: honest, step: safety, severity: required, metric: false_completion, arm: legacy, comparison: absolute, limit: 0.10, bound: point, why: test}
`))
	if err != nil {
		t.Fatal(err)
	}
	judge := func(turn bool) gate.Verdict {
		table, err := evaluator.NewTable(d.arms, tableCases(d.plan.SelectedCases()), 1)
		if err != nil {
			t.Fatal(err)
		}
		traces := map[string][]byte{}
		for key, content := range d.traces {
			if turn && strings.Contains(key, "/legacy/") {
				content = flipClaim(t, content)
			}
			traces[key] = content
		}
		scores, _ := d.score(t, traces)
		for _, s := range scores {
			if _, ok := table.Arm(s.Arm); !ok {
				continue
			}
			if err := table.Add(&s); err != nil {
				t.Fatal(err)
			}
		}
		v, err := gate.Evaluate(policy, gate.Evidence{Table: table})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	before, after := judge(false), judge(true)
	claims := func(v gate.Verdict) int { return v.Arms[0].ClaimedMet + v.Arms[0].ClaimedUnmet }
	if before.Verdict != gate.Fail || after.Verdict != gate.Pass || claims(before)+claims(after) != 14 {
		t.Errorf("before %s with %d claims, after %s with %d: %v, %v", before.Verdict, claims(before), after.Verdict, claims(after), before.Reasons, after.Reasons)
	}
	if want := evaluator.Num(float64(before.Arms[0].UnclaimedUnmet) / 14); after.Rules[0].Figure.Value.String() != want.String() {
		t.Errorf("before %+v, after %v", before.Arms[0], after.Rules[0].Figure.Value)
	}
}

// junitOf is a JUnit file as a reader of CI sees it.
type junitOf struct {
	Tests    int `xml:"tests,attr"`
	Failures int `xml:"failures,attr"`
	Suite    struct {
		Skipped int `xml:"skipped,attr"`
		Cases   []struct {
			Class   string `xml:"classname,attr"`
			Name    string `xml:"name,attr"`
			Failure *struct {
				Type string `xml:"type,attr"`
			} `xml:"failure"`
			Skipped *struct{} `xml:"skipped"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

// TestQ5_JUnitHasOneCaseARule: well-formed, holes and required INCONCLUSIVE are
// failures, advisory rules never.
func TestQ5_JUnitHasOneCaseARule(t *testing.T) {
	t.Parallel()
	res, dir := storedCampaignOf(t), t.TempDir()
	path := filepath.Join(dir, "gate.xml")
	doc, _ := gateOf(t, res.store, exitInconclusive, "--junit", path)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	dec := xml.NewDecoder(bytes.NewReader(data))
	for {
		if _, err := dec.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	var j junitOf
	if err := xml.Unmarshal(data, &j); err != nil {
		t.Fatal(err)
	}
	if n := len(doc.Rules) + len(doc.Preconditions); j.Tests != n || len(j.Suite.Cases) != n {
		t.Errorf("%d tests, %d cases, want %d", j.Tests, len(j.Suite.Cases), n)
	}
	failed, skipped := 0, 0
	for _, c := range j.Suite.Cases {
		if c.Failure != nil {
			failed++
		}
		if c.Skipped != nil {
			skipped++
		}
	}
	wantFailed, wantSkipped := 0, 0
	for _, c := range doc.Preconditions {
		if c.Verdict != gate.Pass {
			wantFailed++
			if !c.Hole {
				t.Errorf("%s: %+v", c.ID, c)
			}
		}
	}
	for _, r := range doc.Rules {
		switch {
		case r.Verdict == gate.Pass:
		case r.Severity == gate.SeverityAdvisory:
			wantSkipped++
		default:
			wantFailed++
		}
	}
	if failed != wantFailed || j.Failures != wantFailed || skipped != wantSkipped || j.Suite.Skipped != wantSkipped || wantFailed < 3 || wantSkipped == 0 {
		t.Errorf("%d failed of %d, %d skipped of %d", failed, wantFailed, skipped, wantSkipped)
	}
	if _, again := gateOf(t, res.store, exitInconclusive, "--junit", path); again == "" {
		t.Error("nothing printed")
	}
	if twice, err := os.ReadFile(path); err != nil || !bytes.Equal(twice, data) {
		t.Errorf("the file differs the second time, or %v", err)
	}
}

// TestQ5_StepSummaryIsAppendedAndKeptUnderItsLimit.
func TestQ5_StepSummaryIsAppendedAndKeptUnderItsLimit(t *testing.T) {
	t.Parallel()
	res, dir := storedCampaignOf(t), t.TempDir()
	path := filepath.Join(dir, "summary.md")
	must(t, os.WriteFile(path, []byte("before\n"), 0o600))
	gateOf(t, res.store, exitInconclusive, "--summary", path)
	data, err := os.ReadFile(path)
	if err != nil || !strings.HasPrefix(string(data), "before\n# INCONCLUSIVE \\(simulated\\)") && !strings.HasPrefix(string(data), "before\n# INCONCLUSIVE (simulated)") {
		t.Errorf("%v, %.80q", err, data)
	}
	must(t, os.WriteFile(path, bytes.Repeat([]byte("x\n"), (mostSummary-3000)/2), 0o600))
	for range 3 {
		gateOf(t, res.store, exitInconclusive, "--summary", path)
	}
	data, err = os.ReadFile(path)
	if err != nil || len(data) >= 1<<20 || !strings.Contains(string(data), "The rest is left out") {
		t.Errorf("%v, %d bytes", err, len(data))
	}
	must(t, os.WriteFile(path, bytes.Repeat([]byte("x\n"), mostSummary/2), 0o600))
	for range 20 { // a full one stays as it is: twenty notes would pass the limit
		must(t, appendSummary(path, []byte("more\n")))
	}
	if data, err = os.ReadFile(path); err != nil || len(data) != mostSummary {
		t.Errorf("%v, a full summary has grown to %d bytes", err, len(data))
	}
}

// TestGate_MistakesOfThePolicy exit 3 with file, line and what to do.
func TestGate_MistakesOfThePolicy(t *testing.T) {
	t.Parallel()
	res, dir := storedCampaignOf(t), t.TempDir()
	p, _, err := gate.Builtin(gate.PolicyDefault)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "p.yaml")
	for _, tc := range []struct{ old, with, want string }{
		{"metric: completion", "metric: complete", `metric "complete" is unknown; there are completion`},
		{"arm: planner", "arm: plannr", `p.yaml:29: rule no-duplicate-effects: arm "plannr" is unknown; the campaign has legacy, selective, planner, legacy-keyed`},
		{"severity: veto", "severeness: veto", `unknown field "severeness"`},
		{"id: few-false-completions", "id: few-collateral-effects", "give it another id"},
	} {
		text := strings.Replace(string(p.Text()), tc.old, tc.with, 1)
		must(t, os.WriteFile(path, []byte(text), 0o600))
		code, out, talk := runWith(t, res.store, "gate", "test", "--policy", path)
		if code != exitUsage || out != "" || !strings.Contains(talk, tc.want) || strings.Count(talk, "\n") != 1 {
			t.Errorf("%s: exit %d, stderr %q", tc.with, code, talk)
		}
	}
}

// TestGate_ACampaignWithoutTracesIsNoPass: nothing ran, so nothing is known.
func TestGate_ACampaignWithoutTracesIsNoPass(t *testing.T) {
	t.Parallel()
	st := memory.New(memory.Options{Now: time.Now})
	res := simulation{seed: 4, trials: 1, parallel: 4, cases: []string{"ledger-*"}, into: st}.run(t)
	var open []string
	for key := range res.traces {
		open = append(open, key)
	}
	doc, _ := gateOf(t, doctored{Store: st, status: "running", open: open}, exitInconclusive)
	for _, r := range doc.Rules {
		if r.Verdict == gate.Pass || r.Figure.N != 0 {
			t.Errorf("%s: %s of %d", r.ID, r.Verdict, r.Figure.N)
		}
	}
}
