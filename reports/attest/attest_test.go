package attest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/gate"
	"github.com/agentrooms/qualify/freeze"
)

// signer is a key made of one repeated byte.
func signer(t testing.TB, b byte) *PrivateKey {
	t.Helper()
	k, err := Generate(bytes.NewReader(bytes.Repeat([]byte{b}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func trust(keys ...*PrivateKey) Trust {
	t := Trust{Threshold: len(keys)}
	for _, k := range keys {
		t.Keys = append(t.Keys, k.Public())
	}
	return t
}

// clock is the moment at which the tests sign.
var clock = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func sum(c string) string { return strings.Repeat(c, 64) }

// verdictOn judges a campaign of six families by one rule. Limit 0 passes, 1
// straddles or fails: half the trials are completed.
func verdictOn(t testing.TB, word string, kind gate.Kind, rule string) *gate.Document {
	t.Helper()
	p, err := gate.Parse("p.yaml", []byte(fmt.Sprintf(`schema: qualify/policy/v1
name: p
kind: %s
alpha: 0.05
preconditions: [{id: budget_proof}]
rules:
  - {id: some, step: safety, severity: required, metric: completion, arm: planner, comparison: absolute, %s, why: test}
`, kind, rule)))
	if err != nil {
		t.Fatal(err)
	}
	var cases []evaluator.TableCase
	for f := range 6 {
		cases = append(cases, evaluator.TableCase{ID: fmt.Sprintf("c%d", f), Family: fmt.Sprintf("f%d", f)})
	}
	table, err := evaluator.NewTable([]string{"planner"}, cases, 2)
	if err != nil {
		t.Fatal(err)
	}
	for c := range cases {
		for i := range 2 {
			r := table.Row(0, c, i)
			r.State = evaluator.TrialRan
			r.Values[evaluator.MetricCompletion] = float64((c + i) % 2)
		}
	}
	v, err := gate.Evaluate(p, gate.Evidence{Table: table, Word: word, Checks: map[string]gate.Check{gate.CheckBudget: {State: gate.CheckHolds}}})
	if err != nil {
		t.Fatal(err)
	}
	d := gate.NewDocument(v)
	d.Tool, d.Status, d.Model, d.Seed, d.Trials = "qualify test", gate.StatusDone, "m", 7, 2
	d.Campaign = evaluator.RunCampaign{ID: "c_1", Name: "n", Registration: "sha256:" + sum("1")}
	d.Prices, d.TraceSetDigest = "sha256:"+sum("3"), "sha256:"+sum("4")
	d.Corpus = evaluator.RunCorpus{Digest: "sha256:" + sum("5"), Split: "dev", Families: 6, Cases: 6}
	d.Budget = gate.BudgetProof{Funds: "simulated", Limit: 5_000_000, Charged: 4_999_999, Holds: true}
	return d
}

const (
	passes    = "limit: 0, bound: point"
	fails     = "limit: 1, bound: point"
	undecided = "limit: 0.5, bound: lower95"
)

// document is a small verdict: INCONCLUSIVE on simulated evidence.
func document(t testing.TB) *gate.Document {
	return verdictOn(t, "simulated", gate.KindMeasured, passes)
}

func claimOf(d *gate.Document) Claim {
	return Claim{
		Document: d, Subjects: []Resource{{"release.tar", map[string]string{"sha256": sum("a")}}},
		Created: clock, Until: clock.Add(24 * time.Hour),
	}
}

// manifest is a freeze with one binary, one tree and one commit.
func manifest(t testing.TB) *freeze.Manifest {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	m, err := freeze.Build(t.Context(), freeze.Inputs{
		Name: "n", Root: dir, Include: []string{"."},
		Binaries: []freeze.Binary{
			{Platform: "linux/amd64", SHA256: sum("b"), Settings: map[string]string{"vcs.revision": strings.Repeat("c", 40), "vcs.modified": "false"}},
			{Platform: "linux/arm64", SHA256: sum("d"), Settings: map[string]string{"vcs.revision": strings.Repeat("e", 40), "vcs.modified": "true"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// frozen is the document under a freeze, and the manifest.
func frozen(t testing.TB, d *gate.Document) (*gate.Document, *freeze.Manifest) {
	t.Helper()
	m := manifest(t)
	id, err := m.ID()
	if err != nil {
		t.Fatal(err)
	}
	one := 1
	d.Freeze = gate.Freeze{ID: id, Openings: &one, Word: "deterministic check"}
	return d, m
}

func signed(t testing.TB, c Claim, keys ...*PrivateKey) *Attestation {
	t.Helper()
	a, err := Sign(c, keys...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func fileOf(t testing.TB, a *Attestation) []byte {
	t.Helper()
	b, err := a.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// check is what a verifier does with a file.
func check(data []byte, t Trust, at time.Time) (*Verified, error) {
	a, err := Parse(data)
	if err != nil {
		return nil, err
	}
	return a.Verify(t, at)
}

// wantError requires an error of a kind that says the words.
func wantError(t *testing.T, err, kind error, words string) {
	t.Helper()
	if !errors.Is(err, kind) || !strings.Contains(err.Error(), words) {
		t.Errorf("got %v; want %v … %s", err, kind, words)
	}
}
