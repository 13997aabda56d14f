package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/freeze"
)

// frozenFolder is a project with a source file, a private corpus of one family
// with a dev and a holdout case, a policy and a campaign.
func frozenFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	corpus := filepath.Join(dir, "qualify", "cases")
	must(t, copyCases(corpus, "dev", "ledger-two-books-01"))
	must(t, copyCases(corpus, "holdout", "ledger-cash-tin-02"))
	demo, ok := campaigns.Builtin("demo")
	if !ok {
		t.Fatal("no built-in campaign")
	}
	text := strings.Replace(string(demo), "\ncorpus: builtin", "\ncorpus: cases", 1)
	write("qualify/campaign.yaml", text+"\nfreeze: {root: .., include: [src, go.mod], exclude: [\"*.tmp\"]}\n")
	write("src/a.go", "package a\n")
	write("src/scratch.tmp", "x")
	write("go.mod", "module example.org/a\n")
	code, policy, talk := command(t, "gate", "--print-default")
	if code != exitOK {
		t.Fatal(talk)
	}
	write("qualify/policy.yaml", policy)
	return dir
}

// editFile replaces the first old in a file.
func editFile(t *testing.T, path, old, now string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte(old)) {
		t.Fatalf("%s does not hold %q", path, old)
	}
	if err := os.WriteFile(path, bytes.Replace(text, []byte(old), []byte(now), 1), 0o644); err != nil {
		t.Fatal(err)
	}
}

// createFreeze freezes a folder of frozenFolder.
func createFreeze(t *testing.T, dir string, more ...string) freezeDoc {
	t.Helper()
	args := append([]string{
		"freeze", "create", filepath.Join(dir, "qualify/campaign.yaml"), "--policy", filepath.Join(dir, "qualify/policy.yaml"),
		"--store", "sqlite:" + filepath.Join(dir, "q.db"), "--json",
	}, more...)
	code, out, talk := command(t, args...)
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, talk)
	}
	var doc freezeDoc
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// verifyFreeze verifies the newest freeze of a folder.
func verifyFreeze(t *testing.T, dir string, more ...string) (code int, doc freezeFindings) {
	t.Helper()
	args := append([]string{"freeze", "verify", "--root", dir, "--store", "sqlite:" + filepath.Join(dir, "q.db"), "--json"}, more...)
	code, out, talk := command(t, args...)
	if code != exitOK && code != exitFail {
		t.Fatalf("exit %d: %s", code, talk)
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	return code, doc
}

// TestQ4_OneChangedByteIsNamed changes one thing after another; verify names
// each with its old and new value, and nothing once it is put back.
func TestQ4_OneChangedByteIsNamed(t *testing.T) {
	t.Parallel()
	dir := frozenFolder(t)
	f := createFreeze(t, dir)
	if code, doc := verifyFreeze(t, dir); code != exitOK || !doc.OK || !doc.Whole || doc.Freeze != f.Freeze {
		t.Fatalf("unchanged: exit %d, %+v", code, doc)
	}
	for _, tc := range []struct {
		name, file, old, now string
		want                 []string // part and name of each difference
		values               [2]string
	}{
		{"file", "src/a.go", "package a", "package b", []string{"file src/a.go", "tree src"}, [2]string{"sha256:", "sha256:"}},
		{"module file", "go.mod", "example.org/a", "example.org/b", []string{"file go.mod", "tree go.mod"}, [2]string{"sha256:", "sha256:"}},
		{"price", "qualify/campaign.yaml", `output: "10.00"`, `output: "10.01"`, []string{"plan holdout", "price sim-1/rates/output"}, [2]string{"sha256:", "sha256:"}},
		{"model setting", "qualify/campaign.yaml", "skip_step: \"0.10\"", "skip_step: \"0.11\"", []string{"model simulated/skip_step", "plan holdout"}, [2]string{"0.10", "0.11"}},
		{"holdout case", "qualify/cases/ledger/ledger-cash-tin-02.yaml", "a wrong amount", "a wrong sum", []string{"case holdout/ledger-cash-tin-02", "plan holdout", "split holdout"}, [2]string{"sha256:", "sha256:"}},
		{"gold", "qualify/cases/gold/ledger/ledger-cash-tin-02.yaml", "cents: 580", "cents: 581", []string{"gold holdout/ledger-cash-tin-02"}, [2]string{"sha256:", "sha256:"}},
		{"split", "qualify/cases/ledger/ledger-two-books-01.yaml", "split: dev", "split: holdout", []string{
			"case dev/ledger-two-books-01", "case holdout/ledger-two-books-01", "gold dev/ledger-two-books-01", "gold holdout/ledger-two-books-01", "plan holdout", "split dev", "split holdout",
		}, [2]string{"sha256:", freeze.Absent}},
		{"policy", "qualify/policy.yaml", "margin: 0.", "margin: 0.1", []string{"policy digest"}, [2]string{"sha256:", "sha256:"}},
	} {
		path := filepath.Join(dir, filepath.FromSlash(tc.file))
		editFile(t, path, tc.old, tc.now)
		code, doc := verifyFreeze(t, dir)
		got := []string{}
		for _, d := range doc.Differences {
			got = append(got, d.Part+" "+d.Name)
			if d.Old == d.New || d.Old == "" || d.New == "" {
				t.Errorf("%s: %s: values %q and %q", tc.name, d.Name, d.Old, d.New)
			}
		}
		if diff := cmp.Diff(tc.want, got); diff != "" || code != exitFail {
			t.Errorf("%s: exit %d, (-want +got):\n%s", tc.name, code, diff)
		} else if d := doc.Differences[0]; !strings.HasPrefix(d.Old, tc.values[0]) || !strings.HasPrefix(d.New, tc.values[1]) {
			t.Errorf("%s: %v, want values %q", tc.name, d, tc.values)
		}
		editFile(t, path, tc.now, tc.old)
		if code, doc := verifyFreeze(t, dir); code != exitOK {
			t.Fatalf("%s, put back: %v", tc.name, doc.Differences)
		}
	}
	// What the freeze leaves out may change; what it covers may not go.
	editFile(t, filepath.Join(dir, "src/scratch.tmp"), "x", "y")
	if code, doc := verifyFreeze(t, dir); code != exitOK {
		t.Errorf("a file left out: %v", doc.Differences)
	}
	if err := os.RemoveAll(filepath.Join(dir, "src")); err != nil {
		t.Fatal(err)
	}
	code, doc := verifyFreeze(t, dir)
	gone := slices.ContainsFunc(doc.Differences, func(d freeze.Difference) bool { return d.Name == "src/a.go" && d.New == freeze.Absent })
	if code != exitFail || !gone {
		t.Errorf("a folder that is gone: exit %d, %v", code, doc.Differences)
	}
}

// anotherBuild is the command with one byte more: it does the same, and its digest
// is another. No revision is stamped into either, so their digests stand for their
// code.
func anotherBuild(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(qualifyBin(t))
	must(t, err)
	other := filepath.Join(t.TempDir(), "qualify")
	must(t, os.WriteFile(other, append(text, 0), 0o700)) //nolint:gosec // a program
	return other
}

// TestQ4_AnotherBinaryIsNamed lets a copy of the binary with one byte more, and
// the binary itself, verify one freeze.
func TestQ4_AnotherBinaryIsNamed(t *testing.T) {
	t.Parallel()
	dir := frozenFolder(t)
	bin, other := qualifyBin(t), anotherBuild(t)
	do := func(bin string, args ...string) (string, int) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), bin, args...)
		cmd.Dir = dir
		out, err := cmd.Output()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := do(bin, "freeze", "create", "qualify/campaign.yaml"); code != exitOK {
		t.Fatalf("exit %d: %s", code, out)
	}
	if out, code := do(bin, "freeze", "verify"); code != exitOK {
		t.Errorf("the frozen binary: exit %d: %s", code, out)
	}
	out, code := do(other, "freeze", "verify")
	if code != exitFail || !strings.HasPrefix(out, "binary ") || !strings.Contains(out, ": 1 difference,") {
		t.Errorf("another binary: exit %d: %s", code, out)
	}
	talk, code := ran(t, dir, nil, other, "run", "qualify/campaign.yaml", "--split", "holdout", "--freeze", "f_")
	if code != exitRefused || !strings.Contains(talk, ": binary ") {
		t.Errorf("a holdout run by another binary: exit %d: %s", code, talk)
	}
	if out, code := do(bin, "freeze", "create", "qualify/campaign.yaml", "--binary", other); code != exitOK || strings.Count(out, "\nbinary ") != 2 {
		t.Fatalf("with both allowed: exit %d: %s", code, out)
	}
	if out, code := do(other, "freeze", "verify"); code != exitOK {
		t.Errorf("another binary that is allowed: exit %d: %s", code, out)
	}
}

// TestQ4_TheFreezeDoesNotDependOnTheFolder: the same content frozen elsewhere
// has the same id.
func TestQ4_TheFreezeDoesNotDependOnTheFolder(t *testing.T) {
	t.Parallel()
	a, b := createFreeze(t, frozenFolder(t)), createFreeze(t, frozenFolder(t))
	if a.Freeze != b.Freeze {
		t.Errorf("ids %s and %s: %v", a.Freeze, b.Freeze, freeze.Diff(a.Manifest, b.Manifest))
	}
}

// TestQ4_ThePolicyOfTheCampaignIsFrozen: a campaign is judged by the policy it
// names, so that is what a freeze fixes, also when the campaign names another
// later.
func TestQ4_ThePolicyOfTheCampaignIsFrozen(t *testing.T) {
	t.Parallel()
	dir := frozenFolder(t)
	campaign := filepath.Join(dir, "qualify/campaign.yaml")
	editFile(t, campaign, "\nfreeze:", "\npolicy: builtin:simulation\nfreeze:")
	db := []string{"--store", "sqlite:" + filepath.Join(dir, "q.db"), "--json"}
	code, _, talk := command(t, append([]string{"freeze", "create", campaign, "--policy", filepath.Join(dir, "qualify/policy.yaml")}, db...)...)
	if code != exitUsage || !strings.Contains(talk, "names policy builtin:simulation and --policy") {
		t.Errorf("two policies: exit %d, %s", code, talk)
	}
	code, out, talk := command(t, append([]string{"freeze", "create", campaign}, db...)...)
	if code != exitOK || !strings.Contains(out, `"policy": "builtin:simulation"`) {
		t.Fatalf("exit %d: %s%s", code, talk, out)
	}
	if code, doc := verifyFreeze(t, dir); code != exitOK {
		t.Errorf("unchanged: %v", doc.Differences)
	}
	editFile(t, campaign, "policy: builtin:simulation", "policy: policy.yaml")
	code, doc := verifyFreeze(t, dir)
	if code != exitFail || len(doc.Differences) != 2 || doc.Differences[0].Part != "plan" || doc.Differences[1].Name != "digest" {
		t.Errorf("another policy: exit %d, %v", code, doc.Differences)
	}
}

// TestQ4_WhatGrowsIsLeftOut: store, log and manifest may lie inside the frozen
// folder; a file of such a name elsewhere is frozen.
func TestQ4_WhatGrowsIsLeftOut(t *testing.T) {
	t.Parallel()
	dir := frozenFolder(t)
	if err := os.WriteFile(filepath.Join(dir, "src", "seal.jsonl"), []byte("frozen"), 0o600); err != nil {
		t.Fatal(err)
	}
	campaign := filepath.Join(dir, "qualify/campaign.yaml")
	editFile(t, campaign, "include: [src, go.mod]", "include: [.]")
	seal := []string{"--seal-log", filepath.Join(dir, "seal.jsonl")}
	f := createFreeze(t, dir, append(seal, "-o", filepath.Join(dir, "manifest.json"))...)
	want := []string{"*.tmp", "/seal.jsonl", "/manifest.json", "/q.db*"}
	if diff := cmp.Diff(want, f.Manifest.Source.Exclude); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	for range 2 {
		if code, doc := verifyFreeze(t, dir, seal...); code != exitOK {
			t.Errorf("exit %d, %v", code, doc.Differences)
		}
	}
	editFile(t, filepath.Join(dir, "src", "seal.jsonl"), "frozen", "edited")
	if code, doc := verifyFreeze(t, dir, seal...); code != exitFail || doc.Differences[0].Name != "src/seal.jsonl" {
		t.Errorf("exit %d, %v", code, doc.Differences)
	}
}

// TestQ4_IncrementalFindsWhatChanged: with a cache the changes are found too,
// and the result says that not every byte was read.
func TestQ4_IncrementalFindsWhatChanged(t *testing.T) {
	t.Parallel()
	dir := frozenFolder(t)
	createFreeze(t, dir)
	cache := filepath.Join(t.TempDir(), "cache.json")
	if code, doc := verifyFreeze(t, dir, "--incremental", cache); code != exitOK || doc.Whole {
		t.Errorf("exit %d, %+v", code, doc)
	}
	editFile(t, filepath.Join(dir, "src/a.go"), "package a", "package b")
	if code, doc := verifyFreeze(t, dir, "--incremental", cache); code != exitFail || doc.Whole {
		t.Errorf("changed: exit %d, %+v", code, doc)
	}
	if err := os.WriteFile(cache, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, talk := command(t, "freeze", "verify", "--root", dir, "--store", "sqlite:"+filepath.Join(dir, "q.db"), "--incremental", cache)
	if code != exitUsage || !strings.Contains(talk, "delete it") {
		t.Errorf("a broken cache: exit %d, %s", code, talk)
	}
}

// TestQ4_ARewrittenLogIsFound rewrites the log of a store with a whole new
// chain: only what is kept elsewhere shows it, and each of those ways does.
func TestQ4_ARewrittenLogIsFound(t *testing.T) {
	t.Parallel()
	dir := frozenFolder(t)
	path := func(name string) string { return filepath.Join(dir, name) }
	seal := []string{"--seal-log", path("seal.jsonl")}
	first := createFreeze(t, dir, seal...)
	db := "sqlite:" + path("q.db")
	must := func(want int, args ...string) string {
		t.Helper()
		code, out, talk := command(t, append([]string{"freeze", "log"}, args...)...)
		if code != want {
			t.Fatalf("freeze log %v: exit %d, want %d: %s%s", args, code, want, out, talk)
		}
		return out
	}
	must(exitOK, "--new-key", path("release"))
	note := must(exitOK, slices.Concat([]string{"--sign", path("release"), "--store", db}, seal)...)
	if err := os.WriteFile(path("checkpoint"), []byte(note), 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path("release"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the private key has mode %v (%v)", info.Mode(), err)
	}
	ways := [][]string{
		{"--checkpoint", path("checkpoint"), "--key", path("release.pub")},
		{"--key", path("release.pub")},
		{"--head", first.Head},
		{"--compare", path("seal.jsonl")},
		{"--compare", db},
		slices.Concat([]string{"--verify"}, seal),
	}
	for _, w := range ways {
		must(exitOK, append([]string{"--store", db}, w...)...)
	}
	// Another history, whole in itself.
	forged := "sqlite:" + path("forged.db")
	editFile(t, path("src/a.go"), "package a", "package z")
	code, _, talk := command(t, "freeze", "create", path("qualify/campaign.yaml"), "--store", forged)
	if code != exitOK {
		t.Fatal(talk)
	}
	must(exitOK, "--verify", "--store", forged)
	for _, w := range ways {
		out := must(exitFail, append([]string{"--store", forged}, w...)...)
		if !strings.Contains(out, "1 fault\n") {
			t.Errorf("%v: %s", w, out)
		}
	}
	code, _, talk = command(t, slices.Concat([]string{"freeze", "create", path("qualify/campaign.yaml"), "--store", forged}, seal)...)
	if code != exitRefused || !strings.Contains(talk, "go on differently") {
		t.Errorf("a fork is written to: exit %d, %s", code, talk)
	}
	// A file that lost its last row, and one that lost part of it.
	text, err := os.ReadFile(path("seal.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	cut := bytes.LastIndexByte(text[:len(text)-1], '\n') + 1
	for _, n := range []int{cut, len(text) - 7} {
		if err := os.WriteFile(path("cut.jsonl"), text[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		must(exitFail, path("cut.jsonl"), "--compare", db)
		must(exitFail, path("cut.jsonl"), "--key", path("release.pub"))
	}
	// A new store takes the log of the file over.
	code, _, talk = command(t, slices.Concat([]string{"freeze", "create", path("qualify/campaign.yaml"), "--store", "sqlite:" + path("new.db")}, seal)...)
	if code != exitOK || !strings.Contains(talk, "the store took over 2 rows of the seal log") {
		t.Errorf("a new store: exit %d, %s", code, talk)
	}
	must(exitOK, "--store", db, "--compare", "sqlite:"+path("new.db"), seal[0], seal[1])
}

// TestQ4_RegistrationsOfCampaignsVerify: what a campaign seals is sound to the
// verifier of the log.
func TestQ4_RegistrationsOfCampaignsVerify(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "q.db")
	if code, _, talk := command(t, "run", "builtin:demo", "--trials", "1", "--case", "ledger-*", "--store", "sqlite:"+path, "--json"); code != exitOK {
		t.Fatal(talk)
	}
	a := newApp(nil, os.Stdout, os.Stderr)
	a.storeURL = "sqlite:" + path
	err := a.withStore(t.Context(), func(s store.Store) error {
		rows, err := storeLog{s}.SealLog(t.Context())
		if err != nil {
			return err
		}
		kinds := []string{}
		for _, r := range rows {
			kinds = append(kinds, r.Kind)
		}
		want := []string{campaigns.SealRegistration, freeze.KindCampaignStart, freeze.KindCampaignEnd}
		if v := freeze.VerifyLog(rows); len(v.Faults) > 0 || !slices.Equal(kinds, want) {
			t.Errorf("%+v of %v, want %v", v, kinds, want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestQ4_FreezeRefusesWhatItCannotVouchFor(t *testing.T) {
	t.Parallel()
	dir := frozenFolder(t)
	campaign := filepath.Join(dir, "qualify/campaign.yaml")
	db := "sqlite:" + filepath.Join(dir, "q.db")
	for _, tc := range []struct {
		name   string
		before func()
		args   []string
		want   int
		word   string
	}{
		{"include gone", nil, []string{"--include", "nowhere"}, exitUsage, "include nowhere: file does not exist"},
		{"include outside", nil, []string{"--include", "../x"}, exitUsage, "no path inside the root"},
		{"campaign outside the root", nil, []string{"--root", filepath.Join(dir, "src")}, exitUsage, "lies outside of the root"},
		{"policy outside the root", nil, []string{"--policy", writeTemp(t, dir)}, exitUsage, "lies outside of the root"},
		{"no binary", nil, []string{"--binary", campaign}, exitUsage, "--binary " + campaign + ": is no binary of the go command"},
		{"binary gone", nil, []string{"--binary", "nosuch"}, exitUsage, "--binary nosuch: no such file or directory; build it first"},
		{"binary of the file gone", func() {
			editFile(t, campaign, "include: [src, go.mod]", "include: [src, go.mod], binaries: [bin/other]")
		}, nil, exitUsage, campaign + ": freeze.binaries.0: " + filepath.Join(dir, "bin/other") + ": no such file or directory"},
		{"link", func() {
			editFile(t, campaign, ", binaries: [bin/other]", "")
			if err := os.Symlink("/etc/passwd", filepath.Join(dir, "src", "link")); err != nil {
				t.Fatal(err)
			}
		}, nil, exitUsage, "src/link: cannot be frozen"},
	} {
		if tc.before != nil {
			tc.before()
		}
		code, _, talk := command(t, append([]string{"freeze", "create", campaign, "--store", db}, tc.args...)...)
		if code != tc.want || !strings.Contains(talk, tc.word) || strings.Count(talk, "\n") != 1 {
			t.Errorf("%s: exit %d, %s", tc.name, code, talk)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "q.db")); !os.IsNotExist(err) {
		t.Errorf("a refused freeze made a store (%v)", err)
	}
}

// writeTemp is a copy of the policy of dir elsewhere.
func writeTemp(t *testing.T, dir string) string {
	t.Helper()
	text, err := fs.ReadFile(os.DirFS(dir), "qualify/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
