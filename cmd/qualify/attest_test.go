package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine/store/sqlite"
	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/gate"
	"github.com/agentrooms/qualify/evaluator/trace"
	"github.com/agentrooms/qualify/freeze"
	"github.com/agentrooms/qualify/reports/attest"
)

// signing is a folder with a campaign file, the store in which it ran, a release
// and a key.
type signing struct{ dir string }

func newSigning(t *testing.T) signing {
	t.Helper()
	g := signing{t.TempDir()}
	sim := simulation{seed: 4, trials: 1, rates: goldenRates()}
	g.write(t, "campaign.yaml", sim.yaml()+"\ncases: {split: dev, include: [\"brief-*\"], exclude: []}\n")
	g.write(t, "release.bin", "what is released")
	g.must(t, "run", g.path("campaign.yaml"))
	g.must(t, "attest", "keygen", "-o", g.path("k"))
	return g
}

// with runs a command on the store of g.
func (g signing) with(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return command(t, append(args, "--store", "sqlite:"+g.path("q.db"))...)
}

func (g signing) must(t *testing.T, args ...string) (stdout string) {
	t.Helper()
	code, out, talk := g.with(t, args...)
	if code != exitOK {
		t.Fatalf("%v: exit %d\n%s", args, code, talk)
	}
	return out
}

func (g signing) path(name string) string { return filepath.Join(g.dir, name) }

func (g signing) write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(g.path(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// runs runs qualify attest and requires its exit code.
func (g signing) runs(t *testing.T, exit int, args ...string) (stdout, stderr string) {
	t.Helper()
	code, stdout, stderr := command(t, append([]string{"attest"}, args...)...)
	if code != exit {
		t.Fatalf("attest %v: exit %d, want %d\n%s%s", args, code, exit, stdout, stderr)
	}
	return stdout, stderr
}

func (g signing) sign(t *testing.T, name string) (talk string) {
	t.Helper()
	_, talk = g.runs(t, exitOK, "sign", "test", "--key", g.path("k"), "--artifact", g.path("release.bin"), "-o", g.path(name), "--store", "sqlite:"+g.path("q.db"))
	return talk
}

func (g signing) verify(t *testing.T, exit int, name string, flags ...string) string {
	t.Helper()
	for i, f := range flags {
		if f == "--recompute" {
			flags = append([]string{"--store", "sqlite:" + g.path("q.db")}, flags[i:]...)
		}
	}
	out, _ := g.runs(t, exit, append([]string{"verify", g.path(name), "--key", g.path("k.pub")}, flags...)...)
	return out
}

// TestQ8_AForgedFigureIsFoundByComputing: an honest key under a verdict with one
// figure changed holds as a signature, and not against store or traces.
func TestQ8_AForgedFigureIsFoundByComputing(t *testing.T) {
	t.Parallel()
	g := newSigning(t)
	g.export(t)
	secret, err := os.ReadFile(g.path("k"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := attest.ParsePrivate(secret)
	if err != nil {
		t.Fatal(err)
	}
	code, text, talk := g.with(t, "gate", "test", "--json")
	if talk != "" || code != exitInconclusive && code != exitFail {
		t.Fatalf("exit %d, %s", code, talk)
	}
	store, traces := []string{"--recompute"}, []string{"--traces", g.path("traces"), "--campaign", g.path("campaign.yaml")}
	for _, tc := range []struct {
		flags  []string
		change func(d *gate.Document)
		words  string // "" is found the same
	}{
		{store, func(*gate.Document) {}, ""},
		{store, func(d *gate.Document) { n := evaluator.Num(0.123); d.Metrics[0].Metrics[0].Mean = &n }, "metrics[0].metrics[0].mean: attested 0.123"},
		{store, func(d *gate.Document) { d.Budget.Charged++ }, "budget.charged_micros"},
		{traces, func(*gate.Document) {}, ""},
		{traces, func(d *gate.Document) { d.Arms[0].ClaimedMet++ }, "arms[0].claimed_met"},
		{traces, func(d *gate.Document) { d.Rules = d.Rules[1:] }, "rules[0]."},
	} {
		doc := new(gate.Document)
		if err := json.Unmarshal([]byte(text), doc); err != nil {
			t.Fatal(err)
		}
		tc.change(doc)
		now := time.Now().UTC().Truncate(time.Second)
		forged, err := attest.Sign(attest.Claim{
			Document: doc, Created: now, Until: now.AddDate(0, 0, 1),
			Subjects: []attest.Resource{{Name: "x", Digest: map[string]string{"sha256": strings.Repeat("0", 64)}}},
		}, key)
		if err != nil {
			t.Fatal(err)
		}
		data, err := forged.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		g.write(t, "forged", string(data))
		g.verify(t, exitOK, "forged")
		exit, words := exitFail, "the computed verdict differs at "+tc.words
		if tc.words == "" {
			exit, words = exitOK, "the verdict follows from the"
		}
		if out := g.verify(t, exit, "forged", tc.flags...); !strings.Contains(out, words) {
			t.Errorf("%s, %s: %s", tc.flags[0], tc.words, out)
		}
	}
}

// export writes the traces of the campaign into files.
func (g signing) export(t *testing.T) {
	t.Helper()
	g.must(t, "trace", "export", "-o", g.path("traces"))
}

// TestQ8_AChangedTraceIsFound changes one trace file: a bit of it, and a whole
// sound trace of another trial in its place.
func TestQ8_AChangedTraceIsFound(t *testing.T) {
	t.Parallel()
	g := newSigning(t)
	g.sign(t, "a")
	g.export(t)
	files, err := filepath.Glob(g.path("traces/*/planner/0.jsonl"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%v, %v", files, err)
	}
	good, err := trace.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	other, err := trace.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	flipped := []byte(string(good))
	flipped[len(flipped)/2] ^= 1
	for _, tc := range []struct {
		name, words string
		content     []byte
		exit        int
	}{
		{"a bit", "FAIL", flipped, exitFail},
		{"another trial", "are the set sha256:", other, exitFail},
		{"as it was", "follows from the traces", good, exitOK},
	} {
		if err := os.WriteFile(files[0], tc.content, 0o600); err != nil {
			t.Fatal(err)
		}
		if out := g.verify(t, tc.exit, "a", "--traces", g.path("traces"), "--campaign", g.path("campaign.yaml")); !strings.Contains(out, tc.words) {
			t.Errorf("%s: %s", tc.name, out)
		}
	}
}

// TestQ8_AttestationsAreSealed: with the end of the campaign in the seal log,
// signing appends the verdict once and each attestation, and the log verifies.
func TestQ8_AttestationsAreSealed(t *testing.T) {
	t.Parallel()
	g := newSigning(t)
	s, err := sqlite.Open(t.Context(), g.path("q.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	camp, err := findCampaign(t.Context(), s, "test")
	if err != nil {
		t.Fatal(err)
	}
	log := storeLog{s}
	const at = "2026-11-30T12:00:00Z"
	for _, e := range []struct {
		kind string
		body any
	}{
		{freeze.KindCampaignStart, freeze.StartEntry{Campaign: camp.ID, Moment: freeze.Moment{At: at}}},
		{freeze.KindCampaignEnd, freeze.EndEntry{Campaign: camp.ID, Moment: freeze.Moment{At: at}, Status: "done"}},
	} {
		if rows, err := log.SealLog(t.Context()); err != nil || hasKind(rows, e.kind) {
			continue // a run that seals it itself
		}
		if _, err := freeze.Append(t.Context(), log, e.kind, e.body); err != nil {
			t.Fatal(err)
		}
	}
	rows, err := log.SealLog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	before := len(rows)
	for _, name := range []string{"a", "b"} {
		if talk := g.sign(t, name); strings.Contains(talk, "note:") {
			t.Errorf("%s", talk)
		}
		g.verify(t, exitOK, name, "--recompute") // a longer log changes no verdict
	}
	if rows, err = log.SealLog(t.Context()); err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, r := range rows[before:] {
		kinds = append(kinds, r.Kind)
	}
	if diff := cmp.Diff([]string{freeze.KindVerdict, freeze.KindAttestation, freeze.KindAttestation}, kinds); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if v := freeze.VerifyLog(rows); len(v.Faults) > 0 {
		t.Errorf("faults %v", v.Faults)
	}
	for _, flags := range [][]string{{"--json"}, {"--json", "--at", "2020-01-01T00:00:00Z"}} {
		exit := exitOK
		if len(flags) > 1 {
			exit = exitFail
		}
		var doc any
		if err := json.Unmarshal([]byte(g.verify(t, exit, "a", flags...)), &doc); err != nil {
			t.Fatal(err)
		}
		for _, m := range missing(doc, attestationKeys) {
			t.Errorf("%v: %s", flags, m)
		}
	}
}

// attestationKeys are the keys of attest verify --json that scripts read, as in
// shapes_test.go.
const attestationKeys = `
schema.name string; schema.version number; ok bool; fault string; file string; keys.* string; result string; predicate_type string
verdict string; label string; evidence string; campaign string; freeze string; created string; valid_until string; recomputed string
subjects.*.name string; subjects.*.digest.sha256 string; configuration.*.name string; configuration.*.digest.sha256 string`

func hasKind(rows []freeze.Row, kind string) bool {
	for _, r := range rows {
		if r.Kind == kind {
			return true
		}
	}
	return false
}

// TestQ8_AFreezeIsComparedWithItsManifest verifies against the manifest that a
// verdict names, and against one that differs in a byte of a file.
func TestQ8_AFreezeIsComparedWithItsManifest(t *testing.T) {
	t.Parallel()
	g := signing{t.TempDir()}
	g.must(t, "attest", "keygen", "-o", g.path("k"))
	manifest := func(name, content string) *freeze.Manifest {
		g.write(t, "frozen", content)
		m, err := freeze.Build(t.Context(), freeze.Inputs{Name: "n", Root: g.dir, Include: []string{"frozen"}})
		if err == nil {
			err = writeManifest(g.path(name), m)
		}
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	manifest("other.json", "two")
	m := manifest("manifest.json", "one")
	id, err := m.ID()
	if err != nil {
		t.Fatal(err)
	}
	doc := gate.NewDocument(gate.Verdict{Verdict: gate.Inconclusive, Label: "INCONCLUSIVE (simulated)", Evidence: "simulated"})
	some := "sha256:" + strings.Repeat("0", 64)
	doc.Campaign.Registration, doc.Policy.Digest, doc.TraceSetDigest, doc.Corpus.Digest, doc.Prices = some, some, some, some, some
	doc.Freeze.ID = id
	secret, err := os.ReadFile(g.path("k"))
	if err != nil {
		t.Fatal(err)
	}
	key, err := attest.ParsePrivate(secret)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UTC().Truncate(time.Second)
	a, err := attest.Sign(attest.Claim{
		Document: doc, Created: now, Until: now.AddDate(0, 0, 1), Manifest: m,
		Subjects: []attest.Resource{{Name: "frozen", Digest: map[string]string{"sha256": m.Trees[0].Files[0].SHA256}}},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	data, err := a.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	g.write(t, "a", string(data))
	g.verify(t, exitOK, "a", "--artifact", g.path("frozen"), "--freeze", g.path("manifest.json"))
	if out := g.verify(t, exitFail, "a", "--freeze", g.path("other.json")); !strings.Contains(out, "the verdict names freeze "+id) {
		t.Error(out)
	}
	g.runs(t, exitUsage, "verify", g.path("a"), "--key", g.path("k.pub"), "--freeze", g.path("frozen"))
}

// TestQ8_SecretsReachNoOutput runs every command with the private key, right and
// wrong, and looks for its text.
func TestQ8_SecretsReachNoOutput(t *testing.T) {
	t.Parallel()
	g := newSigning(t)
	data, err := os.ReadFile(g.path("k"))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(g.path("k")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	lines := strings.Split(string(data), "\n")
	secret := lines[1][20:40] // the DER header before it is no secret
	var all strings.Builder
	for _, args := range [][]string{
		{"keygen", "-o", g.path("k")},
		{"sign", "test", "--key", g.path("k"), "--artifact", g.path("release.bin")},
		{"sign", "test", "--key", g.path("k")},
		{"sign", "test", "--key", g.path("k"), "--key", g.path("k"), "--artifact", g.path("release.bin")},
		{"sign", "none", "--key", g.path("k")},
		{"verify", g.path("k"), "--key", g.path("k.pub")},
		{"verify", g.path("k"), "--key", g.path("k"), "--json"},
		{"verify", g.path("k"), "--key", g.path("k.pub"), "--json"},
	} {
		runs := command
		if args[0] == "sign" {
			runs = g.with
		}
		_, out, talk := runs(t, append([]string{"attest"}, args...)...)
		all.WriteString(out + talk)
	}
	if strings.Contains(all.String(), secret) {
		t.Error("the private key is in the output")
	}
	g.sign(t, "a")
	att, err := os.ReadFile(g.path("a"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(att), secret) {
		t.Error("the private key is in the attestation")
	}
}
