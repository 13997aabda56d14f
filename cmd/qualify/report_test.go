package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/reports"
)

// stored is a small campaign, run once for the tests that only read it: four
// cases of two families, two trials, three arms and an ablation.
var stored = struct {
	once sync.Once
	simResult
}{}

func storedCampaignOf(t *testing.T) simResult {
	t.Helper()
	stored.once.Do(func() {
		stored.simResult = simulation{
			seed: 5, trials: 2, parallel: 4, cases: []string{"ledger-*", "errand-*"},
			rates: map[string]string{"skip_step": "0.2", "early_claim": "0.2", "wrong_argument": "0.1", "retry_after_unknown": "0.5"},
			arms: []string{
				"{name: legacy, mode: legacy, idempotency: off}", "{name: selective, mode: selective, idempotency: on}",
				"{name: planner, mode: planner, idempotency: on}", "{name: legacy-keyed, mode: legacy, idempotency: on, role: ablation}",
			},
			into: memory.New(memory.Options{Now: time.Now}), // outlives the test that runs it
		}.run(t)
	})
	if stored.doc == nil {
		t.Fatal("the campaign did not run")
	}
	return stored.simResult
}

// doctored shows another store than the one behind it.
type doctored struct {
	store.Store
	status string
	open   []string // trials without a terminal record
	totals []byte
	money  int64             // added to every trial record
	traces map[string]string // trial to the trial whose trace is given instead
}

func (d doctored) Campaign(ctx context.Context, id string) (store.Campaign, error) {
	c, err := d.Store.Campaign(ctx, id)
	return d.campaign(c), err
}

func (d doctored) Campaigns(ctx context.Context, name string) ([]store.Campaign, error) {
	all, err := d.Store.Campaigns(ctx, name)
	for i := range all {
		all[i] = d.campaign(all[i])
	}
	return all, err
}

func (d doctored) campaign(c store.Campaign) store.Campaign {
	if d.status != "" {
		c.Status = d.status
	}
	if d.totals != nil {
		c.Totals = d.totals
	}
	return c
}

func (d doctored) Trials(ctx context.Context, campaign string) ([]store.Trial, error) {
	all, err := d.Store.Trials(ctx, campaign)
	for i := range all {
		all[i].Money.Charged += d.money
		if slices.Contains(d.open, all[i].Key) {
			all[i].Status, all[i].TraceDigest = store.TrialRunning, ""
		}
	}
	return all, err
}

func (d doctored) Trace(ctx context.Context, campaign, key string) (string, []byte, error) {
	if other := d.traces[key]; other != "" {
		key = other
	}
	return d.Store.Trace(ctx, campaign, key)
}

// reportOf runs report --format json and decodes it.
func reportOf(t *testing.T, s store.Store, args ...string) *evaluator.RunDocument {
	t.Helper()
	code, out, talk := runWith(t, s, append([]string{"report", "test", "--format", "json"}, args...)...)
	if code != exitOK || talk != "" {
		t.Fatalf("exit %d, stderr %q", code, talk)
	}
	var doc evaluator.RunDocument
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	return &doc
}

// without removes the dotted paths from a JSON document.
func without(t *testing.T, data []byte, paths []string) map[string]any {
	t.Helper()
	var doc map[string]any
	if err := json.Unmarshal(data, &doc); err != nil {
		t.Fatal(err)
	}
	for _, p := range paths {
		at := doc
		parts := strings.Split(p, ".")
		for _, k := range parts[:len(parts)-1] {
			next, ok := at[k].(map[string]any)
			if !ok {
				t.Fatalf("%s: %s is no object", p, k)
			}
			at = next
		}
		delete(at, parts[len(parts)-1])
	}
	return doc
}

// TestQ7_ReportIsTheDocumentOfTheRun: scored again from the stored traces, a
// finished campaign gives what run printed, but for the keys that it lists.
func TestQ7_ReportIsTheDocumentOfTheRun(t *testing.T) {
	t.Parallel()
	res := storedCampaignOf(t)
	var ran bytes.Buffer
	if err := reports.JSON(&ran, res.doc); err != nil {
		t.Fatal(err)
	}
	code, out, talk := runWith(t, res.store, "report", res.plan.ID, "--format", "json")
	if code != exitOK {
		t.Fatalf("exit %d, stderr %q", code, talk)
	}
	outside := res.doc.Outside
	if diff := cmp.Diff(without(t, ran.Bytes(), outside), without(t, []byte(out), outside)); diff != "" {
		t.Error(diff)
	}
	if res.doc.Arms[0].Denominators.Planned != 8 || res.doc.Peak.Trials == 0 {
		t.Errorf("the run is not what this test is about: %+v", res.doc)
	}
}

// TestReport_ReadsNoStoredSummary: falsified totals and trial records change
// no figure.
func TestReport_ReadsNoStoredSummary(t *testing.T) {
	t.Parallel()
	res := storedCampaignOf(t)
	want := reportOf(t, res.store)
	got := reportOf(t, doctored{Store: res.store, totals: []byte(`{"arms":[]}`), money: 777_777})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestQ3_ReportOfAnUnfinishedCampaign: a triple that is not complete enters no
// figure in any arm unless the campaign was ended by hand; then what is missing
// counts against its arm, and the trials that ran are kept.
func TestQ3_ReportOfAnUnfinishedCampaign(t *testing.T) {
	t.Parallel()
	res := storedCampaignOf(t)
	key := func(arm string) string { return "ledger-two-books-01/" + arm + "/1" }
	whole := reportOf(t, res.store)
	for _, tc := range []struct {
		status  string
		exit    int
		notRun  int // in each matched arm
		missing int // in the arm planner
	}{
		{campaigns.StatusRunning, exitInterrupted, 1, 0},
		{campaigns.StatusStopped, exitLimit, 1, 0},
		{campaigns.StatusCancelled, exitRefused, 0, 1},
	} {
		d := reportOf(t, doctored{Store: res.store, status: tc.status, open: []string{key("planner")}})
		if d.Status != tc.status || d.Exit != tc.exit || d.Partial == nil || d.Partial.Done != 31 || d.Partial.Planned != 32 {
			t.Errorf("%s: status %s, exit %d, partial %+v", tc.status, d.Status, d.Exit, d.Partial)
			continue
		}
		open, dropped := []string{}, []string{}
		left := 2 * tc.notRun
		switch tc.status {
		case campaigns.StatusRunning:
			open = []string{"ledger-two-books-01/1"}
		case campaigns.StatusStopped:
			dropped = []string{"ledger-two-books-01/1"}
		}
		if diff := cmp.Diff(open, d.Partial.Open) + cmp.Diff(dropped, d.DroppedTriples); diff != "" || d.Partial.LeftOut != left {
			t.Errorf("%s: %d left out, %s", tc.status, d.Partial.LeftOut, diff)
		}
		for i, a := range d.Arms {
			want := tc.missing
			if a.Name != "planner" {
				want = 0
			}
			if a.Denominators.NotRun != tc.notRun || a.Denominators.Missing != want || a.Denominators.Planned != 8 || !a.Denominators.Closed() {
				t.Errorf("%s, arm %s: %+v", tc.status, a.Name, a.Denominators)
			}
			if ran := whole.Arms[i].Cost.N - tc.notRun - want; a.Cost.N != ran {
				t.Errorf("%s, arm %s: figures of %d trials, want %d", tc.status, a.Name, a.Cost.N, ran)
			}
		}
		if diff := cmp.Diff(whole.Ablations, d.Ablations); diff != "" {
			t.Errorf("%s: the ablation's own triples are complete:\n%s", tc.status, diff)
		}
		code, out, _ := runWith(t, doctored{Store: res.store, status: tc.status, open: []string{key("planner")}}, "report", "test")
		if head, _, _ := strings.Cut(out, "corpus:"); code != exitOK || !strings.Contains(head, "PARTIAL: 31 of 32 planned trials are done") {
			t.Errorf("%s: exit %d, the table does not begin with how much is missing:\n%s", tc.status, code, head)
		}
	}
}

// TestReport_NamesWhoElseDrewOnTheCeiling: failed and diagnostic campaigns too
// (Q7).
func TestReport_NamesWhoElseDrewOnTheCeiling(t *testing.T) {
	t.Parallel()
	res := simulation{trials: 1, cases: []string{"ledger-two-books-01"}}.run(t)
	ctx := t.Context()
	name := campaigns.OwnCeiling(res.plan.ID)
	must(t, res.store.PutCampaign(ctx, store.Campaign{ID: "c_try", Name: "try-out", PlanDigest: "p", Plan: []byte("{}"), Status: campaigns.StatusStopped}))
	for _, id := range []string{"c_try/a", "c_try/b"} {
		_, err := res.store.Allot(ctx, store.Allotment{ID: id, Ceiling: name, Funds: store.FundsSimulated, Campaign: "c_try", Sum: 500})
		must(t, err)
	}
	_, err := res.store.Release(ctx, "c_try/a", 200, 50)
	must(t, err)
	d := reportOf(t, res.store)
	want := []evaluator.CeilingUser{{ID: "c_try", Name: "try-out", Status: "stopped", Allotments: 2, Charged: 200, Held: 550}}
	if diff := cmp.Diff(want, d.SharedCeiling); diff != "" || !d.Budget.Holds {
		t.Errorf("%+v %s", d.Budget, diff)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestReport_BadInput: one line, exit 3, nothing on stdout.
func TestReport_BadInput(t *testing.T) {
	t.Parallel()
	res := storedCampaignOf(t)
	first := "ledger-two-books-01/legacy/0"
	var all []string
	for _, s := range res.plan.Seats() {
		all = append(all, s.Key())
	}
	changed := copyCorpus(t)
	path := filepath.Join(changed, "ledger", "ledger-two-books-01.yaml")
	text, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, bytes.Replace(text, []byte("title: "), []byte("title: Not as it was. "), 1), 0o600))
	goldless := copyCorpus(t)
	must(t, os.RemoveAll(filepath.Join(goldless, "gold", "ledger")))
	for name, tc := range map[string]struct {
		store store.Store
		args  []string
		want  string
	}{
		"unknown campaign":    {res.store, []string{"report", "tst"}, `no campaign "tst"; did you mean test?`},
		"unknown id":          {res.store, []string{"report", "c_0"}, `no campaign "c_0"`},
		"empty name":          {res.store, []string{"report", ""}, "the campaign's name is empty"},
		"no trial":            {doctored{Store: res.store, open: all}, []string{"report", "test"}, "has no finished trial yet; qualify run goes on with it"},
		"format":              {res.store, []string{"report", "test", "--format", "html"}, `--format "html": this version writes table, markdown, json`},
		"case changed":        {res.store, []string{"report", "test", "--corpus", changed}, "case ledger-two-books-01 has changed since it ran; name the corpus it ran on with --corpus"},
		"no gold":             {res.store, []string{"report", "test", "--corpus", goldless}, "has no gold: expected gold/ledger/<case>.yaml"},
		"trace of another":    {doctored{Store: res.store, traces: map[string]string{first: "ledger-two-books-01/legacy/1"}}, []string{"report", "test"}, "the trace is of trial ledger-two-books-01/legacy/1; qualify trace verify"},
		"compare: unknown":    {res.store, []string{"compare", "test", "tst"}, `no campaign "tst"`},
		"compare: no arm":     {res.store, []string{"compare", "test/legcy", "test/planner"}, `test/legcy: campaign test has no arm "legcy", it has legacy, selective, planner, legacy-keyed; did you mean legacy?`},
		"compare: empty arm":  {res.store, []string{"compare", "test/", "test/planner"}, `has no arm ""`},
		"compare: itself":     {res.store, []string{"compare", "test", res.plan.ID}, "are the same"},
		"compare: own arm":    {res.store, []string{"compare", "test/legacy", "test"}, "are the same"},
		"compare: one side":   {res.store, []string{"compare", "test"}, "missing B"},
		"compare: case gone":  {res.store, []string{"compare", "test/legacy", "test/planner", "--corpus-b", changed}, "has changed since it ran"},
		"compare: no corpus":  {res.store, []string{"compare", "test/legacy", "test/planner", "--corpus", "gone"}, "corpus gone: "},
		"output: no folder":   {res.store, []string{"report", "test", "-o", filepath.Join(t.TempDir(), "gone", "r.md")}, "gone: no such file or directory"},
		"output: is a folder": {res.store, []string{"report", "test", "-o", t.TempDir()}, "is no regular file; name a file"},
	} {
		code, out, talk := runWith(t, tc.store, tc.args...)
		if code != exitUsage || out != "" || !strings.Contains(talk, tc.want) || strings.Count(talk, "\n") != 1 {
			t.Errorf("%s: exit %d, stdout %q, stderr %q, want %q", name, code, out, talk, tc.want)
		}
	}
}

// copyCorpus copies the corpus of the source tree.
func copyCorpus(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, sub := range []string{"ledger", "errand", "gold/ledger", "gold/errand"} {
		must(t, os.CopyFS(filepath.Join(dir, sub), os.DirFS(filepath.Join("..", "..", "corpus", sub))))
	}
	return dir
}

// TestReport_AnyCorpusThatHoldsTheCases: the cases decide, not the folder.
func TestReport_AnyCorpusThatHoldsTheCases(t *testing.T) {
	t.Parallel()
	res := storedCampaignOf(t)
	if diff := cmp.Diff(reportOf(t, res.store), reportOf(t, res.store, "--corpus", copyCorpus(t))); diff != "" {
		t.Error(diff)
	}
}

// TestReport_OutputReplacesAFileWhole: and says so; the bytes are those of
// stdout.
func TestReport_OutputReplacesAFileWhole(t *testing.T) {
	t.Parallel()
	res, dir := storedCampaignOf(t), t.TempDir()
	path := filepath.Join(dir, "r.md")
	for _, verb := range []string{" is in ", " replaces what was in "} {
		code, out, talk := runWith(t, res.store, "report", "test", "--format", "markdown", "-o", path)
		if code != exitOK || out != "" || !strings.Contains(talk, verb+path) {
			t.Errorf("exit %d, stdout %q, stderr %q, want %q", code, out, talk, verb)
		}
	}
	_, want, _ := runWith(t, res.store, "report", "test", "--format", "markdown")
	got, err := os.ReadFile(path)
	if diff := cmp.Diff(want, string(got)); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("want the one file, got %v, %v", files, err)
	}
}

// TestQ7_LinksNameTheRecordsTheyCount: every link of a report leads to a line
// of its trace that is what the link says.
func TestQ7_LinksNameTheRecordsTheyCount(t *testing.T) {
	t.Parallel()
	res := storedCampaignOf(t)
	want := map[string]string{
		evaluator.LinkFalseCompletion: `"kind":"claim"`, evaluator.LinkCorrection: `"rec":"owner"`,
		evaluator.LinkDuplicateEffect: `"rec":"effect"`, evaluator.LinkCollateralEffect: `"rec":"effect"`, evaluator.LinkRepeatedWork: `"tool":`,
	}
	seen := map[string]int{}
	for _, a := range slices.Concat(res.doc.Arms, res.doc.Ablations) {
		if n := len(a.Links[evaluator.LinkDuplicateEffect]); n != a.Duplicates.Confirmed {
			t.Errorf("arm %s: %d links of %d duplicates", a.Name, n, a.Duplicates.Confirmed)
		}
		if n := len(a.Links[evaluator.LinkFalseCompletion]); n != a.False.Count {
			t.Errorf("arm %s: %d links of %d false completions", a.Name, n, a.False.Count)
		}
		if n := len(a.Links[evaluator.LinkRepeatedWork]); n != a.RepeatedWork.Count {
			t.Errorf("arm %s: %d links of %d repeats", a.Name, n, a.RepeatedWork.Count)
		}
		for kind, links := range a.Links {
			for _, l := range links {
				key, no, _ := strings.Cut(l, ":")
				lines := strings.Split(string(res.traces[key]), "\n")
				var n int
				if err := json.Unmarshal([]byte(no), &n); err != nil || n < 1 || n > len(lines) || !strings.Contains(lines[n-1], want[kind]) {
					t.Errorf("%s %s is no such record", kind, l)
				}
				seen[kind]++
			}
		}
	}
	for kind := range want {
		if seen[kind] == 0 {
			t.Errorf("the campaign has no %s to test the links of", kind)
		}
	}
}

func comparisonOf(t *testing.T, s store.Store, args ...string) *evaluator.CompareDocument {
	t.Helper()
	code, out, talk := runWith(t, s, append([]string{"compare", "--json"}, args...)...)
	if code != exitOK {
		t.Fatalf("exit %d, stderr %q", code, talk)
	}
	var doc evaluator.CompareDocument
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	return &doc
}

// TestCompare_TwoArms: the paired difference of completion is the difference of
// the arms' rates, because every case has the same number of trials.
func TestCompare_TwoArms(t *testing.T) {
	t.Parallel()
	res := storedCampaignOf(t)
	doc := comparisonOf(t, res.store, "test/legacy", "test/planner")
	if doc.Schema != (evaluator.Document{Name: "qualify.compare", Version: 1}) || len(doc.Arms) != 1 || len(doc.Differs) != 0 {
		t.Fatalf("%+v", doc)
	}
	p := doc.Arms[0]
	if diff := cmp.Diff([]evaluator.ArmSummary{res.arm(t, "legacy"), res.arm(t, "planner")}, []evaluator.ArmSummary{p.A, p.B}, rounded); diff != "" {
		t.Error(diff)
	}
	d := p.Differences[0]
	want := evaluator.Num(res.completion(t, "planner") - res.completion(t, "legacy"))
	if p.Pairs != 8 || p.Cases != 4 || p.Families != 2 || len(p.Missing) != 0 || d.Metric != "completion" || d.Mean.String() != want.String() || d.SE == nil {
		t.Errorf("%+v, completion %v ± %v, want %v", p.Missing, d.Mean, d.SE, want)
	}
	_, table, _ := runWith(t, res.store, "compare", "test/legacy", "test/planner")
	if !strings.Contains(table, "pairs: 8, of 4 cases in 2 families") {
		t.Errorf("no count of pairs in\n%s", table)
	}
}

// rounded compares statistics as they are printed.
var rounded = cmp.Comparer(func(a, b evaluator.Num) bool { return a.String() == b.String() })

// TestCompare_TwoCampaigns: what they do not share comes first, arms are paired
// by name, and a trial that ran on one side only is listed.
func TestCompare_TwoCampaigns(t *testing.T) {
	t.Parallel()
	st := memory.New(memory.Options{Now: time.Now})
	a := simulation{trials: 2, cases: []string{"ledger-*", "errand-*"}, into: st}.run(t)
	b := simulation{
		seed: 6, trials: 1, cases: []string{"ledger-*"}, arms: []string{"{name: legacy, mode: legacy, idempotency: off}", "{name: solo, mode: planner}"},
		name: "later", into: st,
	}.run(t)
	doc := comparisonOf(t, a.store, a.plan.ID, "later")
	var what []string
	for _, d := range doc.Differs {
		what = append(what, d.What)
	}
	if diff := cmp.Diff([]string{"cases", "seed", "trials"}, what); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"selective", "planner"}, doc.OnlyA) + cmp.Diff([]string{"solo"}, doc.OnlyB); diff != "" {
		t.Error(diff)
	}
	if doc.B.Campaign.ID != b.plan.ID || len(doc.Arms) != 1 || doc.Arms[0].Pairs != 2 || len(doc.Arms[0].Missing) != 6 {
		t.Errorf("%+v", doc)
	}
	if se := doc.Arms[0].Differences[0].SE; se != nil {
		t.Errorf("one family, yet a standard error of %v", se)
	}
}
