package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/gate"
	"github.com/agentrooms/qualify/freeze"
)

// heldOut is a frozen folder whose corpus has one case marked as holdout.
type heldOut struct {
	dir, id string
}

func newHeldOut(t *testing.T, trials string) heldOut {
	t.Helper()
	h := heldOut{dir: frozenFolder(t)}
	editFile(t, h.path("qualify/campaign.yaml"), "trials: 5", "trials: "+trials)
	editFile(t, h.path("qualify/campaign.yaml"), "\nfreeze:", "\npolicy: policy.yaml\nfreeze:")
	h.id = createFreeze(t, h.dir).Freeze
	return h
}

func (h heldOut) path(name string) string { return filepath.Join(h.dir, filepath.FromSlash(name)) }

func (h heldOut) db() string { return "sqlite:" + h.path("q.db") }

func (h heldOut) args(more ...string) []string {
	return append([]string{"run", h.path("qualify/campaign.yaml"), "--split", "holdout", "--store", h.db(), "--json"}, more...)
}

// run runs the holdout under the freeze and wants an exit code.
func (h heldOut) run(t *testing.T, exit int, more ...string) (stdout, stderr string) {
	t.Helper()
	code, out, talk := command(t, h.args(append([]string{"--freeze", h.id}, more...)...)...)
	if code != exit {
		t.Fatalf("run %v: exit %d, want %d: %s", more, code, exit, talk)
	}
	return out, talk
}

// gate judges the campaign of a name by the folder's policy.
func (h heldOut) gate(t *testing.T, name string) (int, gate.Document) {
	t.Helper()
	code, out, talk := command(t, "gate", name, "--policy", h.path("qualify/policy.yaml"), "--corpus", h.path("qualify/cases"), "--store", h.db(), "--json")
	var doc gate.Document
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatalf("exit %d: %s: %v", code, talk, err)
	}
	return code, doc
}

func stateOf(t *testing.T, doc *gate.Document, id string) gate.CheckState {
	t.Helper()
	i := slices.IndexFunc(doc.Preconditions, func(c gate.CheckVerdict) bool { return c.ID == id })
	if i < 0 {
		t.Fatalf("the policy does not ask for %s", id)
	}
	return doc.Preconditions[i].State
}

// rows is the seal log, which must be sound.
func (h heldOut) rows(t *testing.T) []freeze.Row {
	t.Helper()
	a := newApp(nil, os.Stdout, os.Stderr)
	a.storeURL = h.db()
	rows, err := a.readSealLog(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if v := freeze.VerifyLog(rows); len(v.Faults) > 0 {
		t.Errorf("faults of the log: %v", v.Faults)
	}
	return rows
}

func kindsOf(rows []freeze.Row) []string {
	out := []string{}
	for _, r := range rows {
		out = append(out, r.Kind)
	}
	return out
}

func count(rows []freeze.Row, kind string) int {
	n := 0
	for _, r := range rows {
		if r.Kind == kind {
			n++
		}
	}
	return n
}

func TestR62_Q4_AHoldoutNeedsAFreeze(t *testing.T) {
	t.Parallel()
	h := newHeldOut(t, "1")
	for _, tc := range []struct {
		name string
		args []string
		exit int
		want string
	}{
		{"no freeze", nil, exitRefused, "`qualify freeze create " + h.path("qualify/campaign.yaml") + "` makes one"},
		{"an unknown freeze", []string{"--freeze", "f_00"}, exitUsage, "holds no freeze f_00"},
		{"more trials", []string{"--freeze", h.id, "--trials", "2"}, exitRefused, "does not hold the plan"},
	} {
		code, out, talk := command(t, h.args(tc.args...)...)
		if code != tc.exit || out != "" || strings.Count(talk, "\n") != 1 || !strings.Contains(talk, tc.want) {
			t.Errorf("%s: exit %d, %q%q, want %q", tc.name, code, out, talk, tc.want)
		}
	}
	code, _, talk := command(t, "run", h.path("qualify/campaign.yaml"), "--freeze", h.id, "--store", h.db())
	if code != exitUsage || !strings.Contains(talk, "split dev needs no freeze") {
		t.Errorf("a dev run: exit %d, %s", code, talk)
	}
	if diff := cmp.Diff([]string{freeze.KindFreeze}, kindsOf(h.rows(t))); diff != "" {
		t.Errorf("refusals leave no trace (-want +got):\n%s", diff)
	}
}

// TestR62_Q4_OneChangedByteStopsTheHoldout changes one thing after another before
// the first trial. Each run is refused and names it; nothing is opened. Put
// back, the holdout runs, is opened once and judged.
func TestR62_Q4_OneChangedByteStopsTheHoldout(t *testing.T) {
	t.Parallel()
	h := newHeldOut(t, "2")
	for _, tc := range []struct{ want, file, old, now string }{
		{"file src/a.go: sha256:", "src/a.go", "package a", "package b"},
		{"price sim-1/rates/output: 10000000 → 10010000", "qualify/campaign.yaml", `output: "10.00"`, `output: "10.01"`},
		{"case holdout/ledger-cash-tin-02: sha256:", "qualify/cases/ledger/ledger-cash-tin-02.yaml", "a wrong amount", "a wrong sum"},
		{"gold holdout/ledger-cash-tin-02: sha256:", "qualify/cases/gold/ledger/ledger-cash-tin-02.yaml", "cents: 580", "cents: 581"},
		{"policy digest: sha256:", "qualify/policy.yaml", "margin: 0.10", "margin: 0.11"},
		{"plan holdout", "qualify/campaign.yaml", "seed: 7", "seed: 8"},
		{"verification failed", "qualify/policy.yaml", "schema:", "scheme:"},
	} {
		editFile(t, h.path(tc.file), tc.old, tc.now)
		code, out, talk := command(t, h.args("--freeze", h.id)...)
		if tc.want == "verification failed" { // the campaign itself cannot be read
			if code == exitOK || out != "" {
				t.Errorf("%s: exit %d, %s", tc.file, code, talk)
			}
		} else if code != exitRefused || out != "" || !strings.Contains(talk, "the present is not freeze "+h.id) || !strings.Contains(talk, tc.want) {
			t.Errorf("%s: exit %d, %s, want %q", tc.file, code, talk, tc.want)
		}
		editFile(t, h.path(tc.file), tc.now, tc.old)
	}
	h.run(t, exitOK)
	want := []string{
		freeze.KindFreeze, freeze.KindRegistration, freeze.KindCampaignStart, freeze.KindOpening,
		freeze.KindVerified, freeze.KindVerified, freeze.KindVerified, freeze.KindCampaignEnd,
	}
	if diff := cmp.Diff(want, kindsOf(h.rows(t))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	_, doc := h.gate(t, "demo")
	for _, id := range []string{gate.CheckFreeze, gate.CheckLog, gate.CheckHoldout} {
		if s := stateOf(t, &doc, id); s != gate.CheckHolds {
			t.Errorf("%s: %s: %+v", id, s, doc.Preconditions)
		}
	}
	if doc.Freeze.ID != h.id || doc.Freeze.Openings == nil || *doc.Freeze.Openings != 1 || doc.Freeze.Log == nil || doc.Freeze.Log.Head == "" {
		t.Errorf("freeze of the verdict: %+v", doc.Freeze)
	}
	if got := kindsOf(h.rows(t)); got[len(got)-1] != freeze.KindUse {
		t.Errorf("scoring is no use in the log: %v", got)
	}
	editFile(t, h.path("qualify/policy.yaml"), "margin: 0.10", "margin: 0.11")
	if _, doc := h.gate(t, "demo"); stateOf(t, &doc, gate.CheckFreeze) != gate.CheckBroken {
		t.Errorf("judged by a policy that is not the frozen one: %+v", doc.Preconditions)
	}
}

// TestQ4_AnotherPromptOrBinaryStopsTheHoldout: prompts and the binary cannot
// change under a running test, so the freeze is of others.
func TestQ4_AnotherPromptOrBinaryStopsTheHoldout(t *testing.T) {
	t.Parallel()
	h := newHeldOut(t, "1")
	for _, tc := range []struct {
		want string
		edit func(*freeze.Manifest)
	}{
		{"prompt planner/", func(m *freeze.Manifest) {
			for name := range m.Prompts {
				if strings.HasPrefix(name, "planner/") {
					m.Prompts[name] = "sha256:0"
				}
			}
		}},
		{"binary ", func(m *freeze.Manifest) { m.Binaries[0].SHA256 = strings.Repeat("0", 64) }},
	} {
		a := newApp(nil, os.Stdout, os.Stderr)
		a.storeURL = h.db()
		f, _, err := a.findFreeze(t.Context(), h.id, "")
		if err != nil {
			t.Fatal(err)
		}
		tc.edit(f.Manifest)
		other := h
		err = a.withStoreTo(t.Context(), changing, func(s store.Store) error {
			sealed, _, err := freeze.Seal(t.Context(), storeLog{s}, f.Manifest, freeze.Moment{At: "2026-11-30T15:00:00Z"})
			other.id = sealed.ID
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, talk := other.run(t, exitRefused); !strings.Contains(talk, tc.want) {
			t.Errorf("%s: %s", tc.want, talk)
		}
	}
	if n := count(h.rows(t), freeze.KindOpening); n != 0 {
		t.Errorf("%d openings", n)
	}
}

// commandOn runs a command line on what wrap makes of the store that it writes to.
func commandOn(ctx context.Context, wrap func(store.Store) store.Store, args ...string) (code int, stderr string) {
	var talk strings.Builder
	code = guard(&talk, func() error {
		a := newApp(strings.NewReader(""), io.Discard, &talk)
		open := a.open
		a.open = func(ctx context.Context, path string, access storeAccess) (store.Store, error) {
			s, err := open(ctx, path, access)
			if err != nil || access != creating {
				return s, err
			}
			return wrap(s), nil
		}
		return a.execute(ctx, args)
	})
	return code, talk.String()
}

// between is a store that calls edit once, when the first trial of the second
// batch has ended.
type between struct {
	store.Store
	edit func()
}

func (b *between) PutTrial(ctx context.Context, rec store.Trial) error {
	err := b.Store.PutTrial(ctx, rec)
	if rec.Index == 1 && b.edit != nil {
		edit := b.edit
		b.edit = nil
		edit()
	}
	return err
}

// TestQ4_AChangeVoidsTheBatch changes a file while the second of three batches
// runs: the batch is void, the third is never begun, and nothing passes.
func TestQ4_AChangeVoidsTheBatch(t *testing.T) {
	t.Parallel()
	h := newHeldOut(t, "3")
	code, talk := commandOn(t.Context(), func(s store.Store) store.Store {
		return &between{s, func() { editFile(t, h.path("src/a.go"), "package a", "package b") }}
	}, h.args("--freeze", h.id, "--parallel", "1")...)
	if code != exitRefused || !strings.Contains(talk, "file src/a.go: sha256:") || !strings.Contains(talk, "void results from batch 1 on: 4") {
		t.Fatalf("exit %d, %s", code, talk)
	}
	rows := h.rows(t)
	held := freeze.HoldoutOf(rows, registered(t, rows))
	if len(held.Voids) != 1 || held.Voids[0].Batch != 1 || len(held.Voids[0].Trials) != 4 || held.Voids[0].Differences[0].Name != "src/a.go" || held.Verified != 1 {
		t.Errorf("%+v", held)
	}
	editFile(t, h.path("src/a.go"), "package b", "package a")
	if _, talk := h.run(t, exitRefused); !strings.Contains(talk, "are void (row ") {
		t.Errorf("run again: %s", talk)
	}
	code, doc := h.gate(t, "demo")
	if code == exitOK || stateOf(t, &doc, gate.CheckFreeze) != gate.CheckBroken || len(doc.Freeze.Void) != 4 {
		t.Errorf("gate: exit %d, %+v", code, doc.Freeze)
	}
	if !slices.ContainsFunc(doc.Reasons, func(r gate.Reason) bool { return r.Code == gate.CodeVoid }) {
		t.Errorf("reasons %v", doc.Reasons)
	}
	for _, d := range doc.Arms {
		if d.Planned != 3 || d.NotRun != 2 {
			t.Errorf("arm %s: %+v, want 1 of 3 trials counted", d.Arm, d)
		}
	}
	code, text, errs := command(t, "report", "demo", "--corpus", h.path("qualify/cases"), "--store", h.db(), "--format", "json")
	var run evaluator.RunDocument
	if err := json.Unmarshal([]byte(text), &run); err != nil {
		t.Fatalf("exit %d: %s: %v", code, errs, err)
	}
	if run.Freeze == nil || len(run.Freeze.Void) != 4 || run.Freeze.Verified {
		t.Errorf("report: %+v", run.Freeze)
	}
}

// registrations are the rows of the log that register campaigns.
func registrations(t *testing.T, rows []freeze.Row) []freeze.RegistrationEntry {
	t.Helper()
	var out []freeze.RegistrationEntry
	for _, r := range rows {
		if r.Kind != freeze.KindRegistration {
			continue
		}
		var e freeze.RegistrationEntry
		must(t, json.Unmarshal(r.Body, &e))
		out = append(out, e)
	}
	return out
}

// registered is the campaign that the log registers first.
func registered(t *testing.T, rows []freeze.Row) string {
	t.Helper()
	all := registrations(t, rows)
	if len(all) == 0 {
		t.Fatal("no registration")
	}
	return all[0].Campaign
}

// TestQ4_ASecondCampaignIsRefused: another campaign opens the holdout again only
// with a reason, and both openings are counted.
func TestQ4_ASecondCampaignIsRefused(t *testing.T) {
	t.Parallel()
	h := newHeldOut(t, "1")
	h.run(t, exitOK, "--seal-log", h.path("seal.jsonl"))
	if _, talk := h.run(t, exitRefused, "--trials", "2"); !strings.Contains(talk, "opened the holdout under freeze "+h.id) || !strings.Contains(talk, "--reopen REASON") {
		t.Errorf("a second campaign: %s", talk)
	}
	if n := count(h.rows(t), freeze.KindOpening); n != 1 {
		t.Errorf("%d openings, want 1", n)
	}
	out, _ := h.run(t, exitOK, "--trials", "2", "--reopen", "the first had too few trials", "--seal-log", h.path("seal.jsonl"))
	var doc evaluator.RunDocument
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Freeze == nil || doc.Freeze.Openings != 2 || doc.Freeze.Reopen != "the first had too few trials" {
		t.Errorf("%+v", doc.Freeze)
	}
	_, verdict := h.gate(t, "demo")
	if s := stateOf(t, &verdict, gate.CheckHoldout); s != gate.CheckBroken {
		t.Errorf("opened twice: %s", s)
	}
	for _, c := range verdict.Preconditions {
		if c.ID == gate.CheckHoldout && (len(c.Reasons) == 0 || !strings.Contains(c.Reasons[0].Text, "the first had too few trials")) {
			t.Errorf("the reason is not told: %+v", c.Reasons)
		}
	}
	rows := h.rows(t)
	file, err := freeze.FileLog{Path: h.path("seal.jsonl")}.SealLog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c := freeze.Compare(rows, file); c.Forked || c.A != 1 || c.B != 0 { // the gate's use is in the store only
		t.Errorf("the log in the file: %+v", c)
	}
	if _, talk := h.run(t, exitOK); strings.Contains(talk, "open") { // the first one prints again
		t.Errorf("%s", talk)
	}
	if n := count(h.rows(t), freeze.KindOpening); n != 2 {
		t.Errorf("%d openings, want 2", n)
	}
	_, first := h.gate(t, registered(t, rows)) // whose holdout has been seen twice by now
	for _, c := range first.Preconditions {
		if c.ID == gate.CheckHoldout && (c.State != gate.CheckBroken || !strings.Contains(c.Reasons[0].Text, "opened 2 times under freeze "+h.id)) {
			t.Errorf("the first campaign after the second: %+v", c)
		}
	}
}

// TestQ4_ACrashOpensOnce ends the process after each of the first writes of a
// run, the opening among them: the resumed run logs a use and no second
// opening.
func TestQ4_ACrashOpensOnce(t *testing.T) {
	t.Parallel()
	bin := qualifyBin(t)
	opened := map[int]bool{} // openings in the log at the crash
	for _, at := range []string{"4", "5", "6", "7"} {
		h := heldOut{dir: frozenFolder(t)}
		editFile(t, h.path("qualify/campaign.yaml"), "trials: 5", "trials: 1")
		do := func(crash string, args ...string) (string, int) {
			t.Helper()
			return ran(t, h.dir, []string{envCrashAt + "=" + crash}, bin, args...)
		}
		if out, code := do("", "freeze", "create", "qualify/campaign.yaml", "--store", h.db()); code != exitOK {
			t.Fatalf("exit %d: %s", code, out)
		}
		if out, code := do("after_write:"+at, h.args("--freeze", "f_")...); code == exitOK {
			t.Fatalf("after write %s: the run did not end: %s", at, out)
		}
		before := h.rows(t)
		opened[count(before, freeze.KindOpening)] = true
		if out, code := do("", h.args("--freeze", "f_")...); code != exitOK {
			t.Fatalf("after write %s: exit %d: %s", at, code, out)
		}
		rows := h.rows(t)
		if n := count(rows, freeze.KindOpening); n != 1 {
			t.Errorf("after write %s: %d openings: %v", at, n, kindsOf(rows))
		}
		if uses := count(rows, freeze.KindUse); uses != count(before, freeze.KindOpening) {
			t.Errorf("after write %s: %d uses: %v", at, uses, kindsOf(rows))
		}
	}
	if !opened[0] || !opened[1] {
		t.Errorf("no crash on both sides of the opening: %v", opened)
	}
}

// TestQ4_AnOlderLogIsRefused: a policy that names a head is answered only with a
// log that holds it.
func TestQ4_AnOlderLogIsRefused(t *testing.T) {
	t.Parallel()
	h := newHeldOut(t, "1")
	h.run(t, exitOK)
	text, err := os.ReadFile(h.path("qualify/policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	judge := func(head string) (int, string) {
		path := h.path("head.yaml")
		if err := os.WriteFile(path, append(slices.Clone(text), []byte("\nlog_head: "+head+"\n")...), 0o600); err != nil {
			t.Fatal(err)
		}
		code, _, talk := command(t, "gate", "demo", "--policy", path, "--corpus", h.path("qualify/cases"), "--store", h.db())
		return code, talk
	}
	if code, talk := judge(strings.Repeat("0", 64)); code != exitRefused || !strings.Contains(talk, "is an older copy") {
		t.Errorf("a head that is not there: exit %d, %s", code, talk)
	}
	if code, talk := judge(h.rows(t)[0].Digest); code == exitRefused || code == exitUsage {
		t.Errorf("a head that is there: exit %d, %s", code, talk)
	}
	if code, talk := judge("abc"); code != exitUsage || !strings.Contains(talk, "log_head is") {
		t.Errorf("no head: exit %d, %s", code, talk)
	}
}
