package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/freeze"
)

// protocol is the whole chain of a qualification. Its outputs are in the folder
// out; the number is the exit code.
var protocol = []struct {
	exit int
	out  string // file for stdout
	args string
}{
	{exitOK, "run-dev.json", "run qualify/campaign.yaml --json"},
	{exitOK, "freeze.txt", "freeze create qualify/campaign.yaml --seal-log seal.jsonl -o out/manifest.json"},
	{exitOK, "run-holdout.json", "run qualify/campaign.yaml --split holdout --freeze f_ --seal-log seal.jsonl --json"},
	{exitFail, "verdict.json", "gate demo --corpus qualify/cases --json"},
	{exitFail, "verdict.md", "gate demo --corpus qualify/cases --format markdown"},
	{exitOK, "report.md", "report demo --corpus qualify/cases --format markdown"},
	{exitOK, "report.json", "report demo --corpus qualify/cases --format json"},
	{exitOK, "", "attest sign demo --corpus qualify/cases --key ../test.key --seal-log seal.jsonl -o out/attestation.jsonl"},
	{exitOK, "log.txt", "freeze log --verify --compare seal.jsonl --export out/log.jsonl"},
	{exitOK, "", "trace export --campaign demo -o out/traces"},
}

// reproduced runs the chain in a folder of this name and returns its outputs by
// path.
func reproduced(t *testing.T, bin, name string, env ...string) map[string]string {
	t.Helper()
	root := filepath.Join(t.TempDir(), filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(root), 0o755); err != nil { //nolint:gosec // a test's folder
		t.Fatal(err)
	}
	if err := os.CopyFS(root, os.DirFS(frozenFolder(t))); err != nil {
		t.Fatal(err)
	}
	campaign := filepath.Join(root, "qualify", "campaign.yaml")
	editFile(t, campaign, "trials: 5", "trials: 2")
	editFile(t, campaign, "parallel: 8", "parallel: 1")
	editFile(t, campaign, "\nfreeze:", "\npolicy: builtin:simulation\nfreeze:")
	key, err := x509.MarshalPKCS8PrivateKey(ed25519.NewKeyFromSeed(slices.Repeat([]byte{7}, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
	if err := errors.Join(os.WriteFile(filepath.Join(root, "..", "test.key"), text, 0o600), os.Mkdir(filepath.Join(root, "out"), 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, step := range protocol {
		cmd := exec.CommandContext(t.Context(), bin, strings.Fields(step.args)...)
		cmd.Dir = root
		cmd.Env = append(append(os.Environ(), "QUALIFY_STORE=", envEpoch+"=1796000000"), env...)
		out, err := cmd.Output()
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			if exit.ExitCode() != step.exit {
				t.Fatalf("%s: exit %d, want %d: %s", step.args, exit.ExitCode(), step.exit, exit.Stderr)
			}
		} else if err != nil || step.exit != exitOK {
			t.Fatalf("%s: exit 0, want %d: %v", step.args, step.exit, err)
		}
		if step.out != "" {
			if err := os.WriteFile(filepath.Join(root, "out", step.out), out, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	got := map[string]string{}
	err = fs.WalkDir(os.DirFS(root), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path != "seal.jsonl" && !strings.HasPrefix(path, "out/") {
			return err
		}
		b, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
		got[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestQ8_AQualificationIsReproducedByteForByte runs the whole chain twice, in two
// folders, time zones and stores, at other times: manifest, seal log, verdict,
// attestation, reports and traces are the same bytes.
func TestQ8_AQualificationIsReproducedByteForByte(t *testing.T) {
	t.Parallel()
	bin := qualifyBin(t)
	one := reproduced(t, bin, "p", "TZ=UTC")
	other := reproduced(t, bin, "another folder/p", "TZ=Asia/Tokyo", "LANG=de_DE.UTF-8", "HOME=/nonexistent")
	for _, name := range []string{
		"seal.jsonl", "out/log.jsonl", "out/manifest.json", "out/verdict.json", "out/report.md", "out/attestation.jsonl",
		"out/traces/ledger-cash-tin-02/planner/0.jsonl",
	} {
		if one[name] == "" {
			t.Errorf("the chain made no %s", name)
		}
	}
	for _, name := range []string{"out/run-dev.json", "out/run-holdout.json"} {
		// What the process itself saw stands in the document of a run only, under keys
		// that the document names.
		if diff := cmp.Diff(without(t, []byte(one[name]), []string{"peak", "store"}), without(t, []byte(other[name]), []string{"peak", "store"})); diff != "" {
			t.Errorf("%s (-one +other):\n%s", name, diff)
		}
		delete(one, name)
		delete(other, name)
	}
	if diff := cmp.Diff(one, other); diff != "" {
		t.Errorf("(-one +other):\n%s", diff)
	}
	if log := one["seal.jsonl"]; strings.Count(log, `"at":"2026-11-30T00:53:20Z"`) != strings.Count(log, `"clock":"set"`) || !strings.Contains(log, `"clock":"set"`) {
		t.Errorf("rows with a set moment do not say so:\n%s", log)
	}
	if strings.Count(one["seal.jsonl"], `"at":"`) != strings.Count(one["seal.jsonl"], `"at":"2026-11-30T00:53:20Z"`) {
		t.Errorf("a row has another moment:\n%s", one["seal.jsonl"])
	}
}

// TestQ4_MeasuredEvidenceHasNoSetClock: a set clock is for records of evidence that
// costs nothing to make again.
func TestQ4_MeasuredEvidenceHasNoSetClock(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		epoch    string
		evidence model.Evidence
		exit     int
		at       string // "" for the machine's clock
	}{
		{"", model.Measured, exitOK, ""},
		{"", model.Simulated, exitOK, ""},
		{"0", model.Simulated, exitOK, "1970-01-01T00:00:00Z"},
		{"1796000000", model.Deterministic, exitOK, "2026-11-30T00:53:20Z"},
		{"1796000000", model.Recorded, exitOK, "2026-11-30T00:53:20Z"},
		{"253402300799", model.Simulated, exitOK, "9999-12-31T23:59:59Z"},
		{"1796000000", model.Measured, exitRefused, ""},
		{"1796000000", "", exitRefused, ""},
		{"253402300800", model.Simulated, exitUsage, ""},
		{"-1", model.Simulated, exitUsage, ""},
		{"+1", model.Simulated, exitUsage, ""},
		{"1.5", model.Simulated, exitUsage, ""},
		{"1e9", model.Measured, exitUsage, ""},
		{" 5", model.Simulated, exitUsage, ""},
		{"99999999999999999999", model.Simulated, exitUsage, ""},
	} {
		var talk strings.Builder
		a := newApp(strings.NewReader(""), io.Discard, &talk)
		a.env = func(name string) string { return map[string]string{envEpoch: tc.epoch}[name] }
		before := time.Now().Add(-time.Second)
		c, err := a.recordClock(tc.evidence)
		if tc.exit != exitOK {
			if err == nil || exitCode(err) != tc.exit || !strings.Contains(err.Error(), envEpoch) || talk.String() != "" {
				t.Errorf("%q, %s: %v, %q, want exit %d", tc.epoch, tc.evidence, err, talk.String(), tc.exit)
			}
			continue
		}
		if _, again := a.recordClock(tc.evidence); err != nil || again != nil {
			t.Errorf("%q, %s: %v, %v", tc.epoch, tc.evidence, err, again)
		}
		m := c.moment()
		switch {
		case tc.at == "":
			at, err := time.Parse(time.RFC3339, m.At)
			if err != nil || at.Before(before) || m.Clock != "" || talk.String() != "" {
				t.Errorf("%s: %+v, %q: %v", tc.evidence, m, talk.String(), err)
			}
		case m != freeze.Moment{At: tc.at, Clock: freeze.ClockSet} || c.now().Format(time.RFC3339) != tc.at:
			t.Errorf("%q: %+v, %s", tc.epoch, m, c.now())
		case strings.Count(talk.String(), "\n") != 1 || !strings.Contains(talk.String(), tc.at):
			t.Errorf("%q: told %q, want one line", tc.epoch, talk.String())
		}
	}
}

// TestQ4_RecordsHaveOneClock: the clock of the machine is read in clock.go for
// records, and elsewhere only for what stays in a process or its lease.
func TestQ4_RecordsHaveOneClock(t *testing.T) {
	t.Parallel()
	want := map[string]int{
		"clock.go":        1,
		"freezeverify.go": 1, // age of what --incremental remembers
		"owner.go":        1, // who holds a lease, for people
		"run.go":          1, // progress
		"store.go":        1, // longest wait for the store
	}
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), "time.Now"); n > 0 {
			got[name] = n
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("uses of time.Now (-want +got):\n%s", diff)
	}
}
