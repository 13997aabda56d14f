package reports

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/evaluator"
)

var update = flag.Bool("update", false, "rewrite golden files")

func num(f float64) *evaluator.Num {
	n := evaluator.Num(f)
	return &n
}

func scoreDoc() *evaluator.ScoreDocument {
	errs, unfinished := 3, 1
	return &evaluator.ScoreDocument{
		Schema: evaluator.Document{Name: "qualify.score", Version: 1}, Tool: "qualify test",
		Files: []evaluator.ScoreFile{{Path: "d/a.json", SHA256: "00ff", Format: "tau-bench", Arm: "a", Effects: "tau-airline"}},
		Arms: []evaluator.ScoreArm{{
			Name: "a\x1b[31m", Evidence: "recorded", Traces: 4, Cases: 2, Trials: 2,
			Completion: evaluator.Completion{Rate: num(.5), SE: num(.25), N: 4, Clusters: 2, Met: 2},
			PassHat:    map[string]evaluator.Num{"1": .5, "2": .25}, PassAt: map[string]evaluator.Num{"1": .5, "2": .75},
			ToolCalls: 9, ToolErrors: &errs, Writes: &evaluator.Writes{Attempted: 4, Confirmed: 3},
			RepeatedCalls: evaluator.CountIn{Count: 2, Traces: 1}, RepeatedWork: &evaluator.CountIn{},
			Unfinished: &unfinished, UserCost: &evaluator.UserCost{Unit: "usd", Sum: .125, N: 3, Missing: 1},
			Denominators: evaluator.Recorded{Planned: 4, Met: 2, Unmet: 2},
			NotEvaluable: []evaluator.NotEvaluable{{Metric: "cost", Reason: "no usage"}, {Metric: "duplicate_effects", Reason: "no ground truth", Count: 2}},
		}, {Name: "b", Evidence: "recorded", Traces: 1, Cases: 1, Trials: 1, Completion: evaluator.Completion{Rate: num(1), N: 1, Clusters: 1, Met: 1}, PassHat: map[string]evaluator.Num{"1": 1}, PassAt: map[string]evaluator.Num{"1": 1}}},
		Warnings: []string{"arm a: two\nlines"},
	}
}

func runDoc() *evaluator.RunDocument {
	d := evaluator.NewRunDocument()
	d.Evidence, d.Status, d.Model, d.Prices, d.Seed, d.Trials = "simulated", "done", "sim-1", "sha256:aa", 7, 3
	d.Campaign = evaluator.RunCampaign{ID: "c_1", Name: "demo"}
	d.Corpus = evaluator.RunCorpus{Digest: "sha256:bb", Split: "dev", Families: 6, Cases: 12}
	d.Budget = evaluator.Budget{Funds: "simulated", Limit: 1_000_000, Charged: 412_330, Held: 10, Unknown: 10, MaxSum: 598_110, Holds: true}
	d.TraceSetDigest = "sha256:cc"
	arm := evaluator.ArmSummary{
		Name: "planner", Mode: "planner", Evidence: "simulated",
		Denominators: evaluator.Denominators{Planned: 36, ClaimedMet: 29, ClaimedUnmet: 2, UnclaimedMet: 1, UnclaimedUnmet: 3, NotRun: 1, Missing: 1},
		Termination:  map[string]int{"gave_up": 4, "completed": 30},
		Completion:   evaluator.RunCompletion{Rate: num(30. / 35), SE: num(.05), Clusters: 6, N: 35, Met: 30},
		False:        evaluator.FalseCompletion{Count: 2, Rate: num(2. / 35), N: 35, Claims: 31, RateOfClaims: num(2. / 31)},
		Corrections:  &evaluator.RunCorrections{Count: 5, PerTrial: num(5. / 34), AfterClaim: 2, AfterClaimPerTrial: num(2. / 34), N: 34},
		Duplicates:   evaluator.RunDuplicates{Confirmed: 1, Suppressed: 4, Unknown: 2, Trials: 1, N: 34},
		Collateral:   evaluator.CountN{N: 34},
		Latency:      &evaluator.RunLatency{P50: 71_049_999, P95: 188_050_000, P95AtLeast: true, P95CI95: &evaluator.LatencyBounds{Lo: new(int64(120_400_000))}, N: 34, Censored: 1},
		Cost:         evaluator.RunCost{Charged: 190_220, Held: 10, Unknown: 10, ByRole: map[string]int64{"specialist": 91_000, "reasoner": 99_220}, N: 34},
		Faults:       map[string]int{"slow": 3, "lost_reply": 2},
	}
	bare := evaluator.ArmSummary{Name: "legacy", Mode: "legacy", Denominators: evaluator.Denominators{Planned: 1, NotRun: 1}, NotEvaluable: []evaluator.NotEvaluable{{Metric: "completion", Reason: "no trial is rated"}}}
	abl := arm
	abl.Name, abl.Role = "legacy-keyed", "ablation"
	d.Arms, d.Ablations = []evaluator.ArmSummary{bare, arm}, []evaluator.ArmSummary{abl}
	d.Controls = []evaluator.Control{{Name: "claim-only", Trials: 12}, {Name: "do-nothing", Trials: 12, Completed: 1}}
	d.OracleFaults = []evaluator.OracleFault{{Case: "x-01", Control: "do-nothing"}}
	d.DroppedTriples = []string{"x-01/2"}
	d.Peak, d.Store = evaluator.Peak{Trials: 8, Calls: 5}, evaluator.StoreFigures{Driver: "sqlite", Commits: 1, Writes: 2}
	return d
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestScoreTable_Golden(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := ScoreTable(&b, scoreDoc()); err != nil {
		t.Fatal(err)
	}
	golden(t, "score.txt", b.Bytes())
}

func TestRunTable_Golden(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := RunTable(&b, runDoc()); err != nil {
		t.Fatal(err)
	}
	golden(t, "run.txt", b.Bytes())
	out := b.String()
	if !strings.HasPrefix(out, "verdict: not tested (qualify gate gives one)\nevidence: simulated") || !strings.HasSuffix(out, "\nverdict: not tested (qualify gate gives one)\n") {
		t.Error("the verdict must come first and last, the evidence word behind it")
	}
}

// TestRunTable_FitsATerminal: three arms with figures of ordinary size stand
// side by side within 100 characters; more of them go below, none is lost.
func TestRunTable_FitsATerminal(t *testing.T) {
	t.Parallel()
	d := runDoc()
	arm := d.Arms[1]
	arm.Completion.CI95 = &evaluator.Interval{Lo: .7526, Hi: .9331}
	arm.Corrections = &evaluator.RunCorrections{Count: 312, PerTrial: num(1.486), AfterClaim: 310, AfterClaimPerTrial: num(1.476), N: 34}
	arm.Duplicates.Confirmed, arm.Duplicates.Trials, arm.Duplicates.N = 130, 130, 700
	arm.NotEvaluable = []evaluator.NotEvaluable{{Metric: "latency", Reason: strings.Repeat("a long reason ", 20)}}
	d.Campaign.Registration, d.Corpus.Digest, d.Prices, d.TraceSetDigest = strings.Repeat("r", 71), strings.Repeat("d", 71), strings.Repeat("p", 71), strings.Repeat("t", 71)
	d.DroppedTriples, d.Arms = nil, nil
	for i := range 40 {
		d.DroppedTriples = append(d.DroppedTriples, "ledger-two-books-01/"+string(rune('a'+i%26)))
	}
	for _, name := range []string{"legacy", "selective", "planner", "planner-two", "planner-three"} {
		arm.Name = name
		d.Arms = append(d.Arms, arm)
	}
	var b bytes.Buffer
	if err := RunTable(&b, d); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(b.String(), "\n") {
		if n := utf8.RuneCountInString(line); n > 100 {
			t.Errorf("%d characters: %s", n, line)
		}
	}
	for _, want := range []string{"| legacy ", "| selective ", "| planner ", "| planner-two ", "| planner-three |", "0.7526 to 0.9331"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q", want)
		}
	}
	if got := strings.Count(b.String(), "ledger-two-books-01/"); got != 40 {
		t.Errorf("%d of 40 dropped triples", got)
	}
}

// TestTables_NoControlCharacters: nothing from outside reaches the terminal as
// a control sequence.
func TestTables_NoControlCharacters(t *testing.T) {
	t.Parallel()
	evil := "a\x1b]0;x\x07\r\nb\u202e\u009b\xff"
	s := scoreDoc()
	s.Arms[0].Name, s.Files[0].Path, s.Warnings[0] = evil, evil, evil
	s.Arms[0].NotEvaluable[0].Reason = evil
	r := runDoc()
	r.Campaign.Name, r.Arms[0].Name, r.Model, r.DroppedTriples[0], r.OracleFaults[0].Case = evil, evil, evil, evil, evil
	r.Arms[0].Faults, r.Arms[0].Termination = map[string]int{evil: 1}, map[string]int{evil: 1}
	r.Warnings = []string{evil}
	var b bytes.Buffer
	if err := errors.Join(ScoreTable(&b, s), RunTable(&b, r)); err != nil {
		t.Fatal(err)
	}
	if strings.ContainsAny(b.String(), "\x1b\x07\r\u202e\u009b") || !utf8.Valid(b.Bytes()) {
		t.Error("control characters in a table")
	}
	if !strings.Contains(b.String(), `a\x1b]0;x\x07\x0d\x0ab\u{202e}\u{9b}\xff`) {
		t.Error("foreign text lost instead of escaped")
	}
}

func TestCell_CutsLongNames(t *testing.T) {
	t.Parallel()
	if got := cell(strings.Repeat("ä", 500)); got != strings.Repeat("ä", 60)+"…" {
		t.Errorf("%d bytes", len(got))
	}
}

func TestBudgetLine_SaysWhenTheProofFails(t *testing.T) {
	t.Parallel()
	d := runDoc()
	d.Budget.Charged, d.Budget.Holds, d.Budget.Overruns = 2_000_000, false, []string{"op_1"}
	var b bytes.Buffer
	if err := RunTable(&b, d); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"charged $2.000000 + held $0.000010 > limit $1.000000 (simulated funds)\n  proof: DOES NOT HOLD at every ledger row", "budget overrun: op_1"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q", want)
		}
	}
}

func TestFormat_MoneyAndTime(t *testing.T) {
	t.Parallel()
	for in, want := range map[int64]string{0: "$0.000000", 1: "$0.000001", 5_000_000: "$5.000000", -1_500_000: "-$1.500000"} {
		if got := usd(in); got != want {
			t.Errorf("%d: %s, want %s", in, got, want)
		}
	}
	for in, want := range map[int64]string{0: "0.0 s", 49_999: "0.0 s", 50_000: "0.1 s", 71_049_999: "71.0 s", -150_000: "-0.2 s"} {
		if got := seconds(in); got != want {
			t.Errorf("%d: %s, want %s", in, got, want)
		}
	}
}

// TestJSON_KeysOfTheShapes: the keys that scripts and gates use are there.
func TestJSON_KeysOfTheShapes(t *testing.T) {
	t.Parallel()
	var s, r bytes.Buffer
	if err := errors.Join(JSON(&s, scoreDoc()), JSON(&r, runDoc())); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		doc   []byte
		paths string
	}{
		{s.Bytes(), "schema.name schema.version tool files warnings arms.0.completion.rate arms.0.completion.se_method arms.0.pass_hat.2 arms.0.reused_call_ids.traces arms.0.denominators.not_run arms.0.not_evaluable"},
		{r.Bytes(), "schema.name evidence campaign.id campaign.registration status exit corpus.digest corpus.families model prices seed trials budget.funds budget.limit_micros budget.charged_micros budget.held_micros budget.unknown_micros budget.max_sum_micros budget.holds trace_set_digest arms.1.denominators.claimed_met arms.1.termination.gave_up arms.1.completion.cluster arms.1.false_completion.rate arms.1.owner_corrections.per_trial arms.1.duplicate_effects.suppressed arms.1.collateral_effects.count arms.1.repeated_work.count arms.1.latency_us.p95 arms.1.latency_us.censored arms.1.latency_us.rule arms.1.cost_micros.by_role.reasoner arms.1.not_evaluable controls.0.completed oracle_faults dropped_triples peak.calls store.commits outside_identity"},
	} {
		var v any
		if err := json.Unmarshal(c.doc, &v); err != nil {
			t.Fatal(err)
		}
		for _, p := range strings.Fields(c.paths) {
			if !has(v, strings.Split(p, ".")) {
				t.Errorf("no key %s", p)
			}
		}
	}
}

func has(v any, path []string) bool {
	if len(path) == 0 {
		return true
	}
	switch n := v.(type) {
	case map[string]any:
		next, ok := n[path[0]]
		return ok && has(next, path[1:])
	case []any:
		i := int(path[0][0] - '0')
		return i < len(n) && has(n[i], path[1:])
	}
	return false
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("pipe closed") }

func TestReports_WriteErrorsAreReturned(t *testing.T) {
	t.Parallel()
	for _, err := range []error{ScoreTable(broken{}, scoreDoc()), RunTable(broken{}, runDoc()), JSON(broken{}, scoreDoc()), JSON(broken{}, runDoc())} {
		if err == nil || !strings.Contains(err.Error(), "pipe closed") {
			t.Errorf("got %v", err)
		}
	}
}
