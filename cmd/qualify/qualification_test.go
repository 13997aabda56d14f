package main

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/evaluator/gate"
)

// qualification is the folder of this project's own qualification.
const qualification = "../../docs/qualification"

// TestQ8_TheQualificationIsReproducedByItsScript runs the script of this project's
// own qualification on the starter corpus, and once more elsewhere with the
// files of the first run: all files, the page among them, are the same bytes.
// The built-in holdout stays closed.
func TestQ8_TheQualificationIsReproducedByItsScript(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("the script needs a POSIX shell")
	}
	bin := qualifyBin(t)
	dir := t.TempDir()
	shell := func(want int, script string) {
		t.Helper()
		if out, code := ran(t, dir, []string{"BIN=" + bin, "TZ=Asia/Tokyo"}, "sh", "-c", script); code != want {
			t.Fatalf("%s: exit %d, want %d:\n%s", script, code, want, out)
		}
	}
	// A copy, so that both runs freeze the same files while somebody works on them.
	if err := os.Symlink(root(t), filepath.Join(dir, "here")); err != nil {
		t.Fatal(err)
	}
	shell(0, `mkdir copy && cd here/ && tar -cf - --exclude=./.git --exclude=./bin --exclude=./.qualify . | tar -xf - -C "$OLDPWD/copy"`)
	shell(0, `"$BIN" init start --corpus cases --store sqlite:unused.db`)
	shell(3, `sh copy/docs/qualification/qualify.sh --dry start/cases --qualify "$BIN" --again none`)
	shell(3, `sh copy/docs/qualification/qualify.sh --qualify "$BIN"`)
	shell(0, `sh copy/docs/qualification/qualify.sh --dry start/cases --qualify "$BIN" --out one`)
	shell(0, `cp -R one published && rm published/*.tar.zst && mkdir elsewhere && cd elsewhere &&
		sh ../copy/docs/qualification/qualify.sh --dry ../start/cases --qualify "$BIN" --keep kept --out ../other --again ../published`)
	// A seal log that is not the one that comes out is found.
	shell(0, `cp -R published forged && sed 's/"reopen":""/"reopen":"x"/' published/2026-11-30.seal.jsonl > forged/2026-11-30.seal.jsonl`)
	shell(1, `sh copy/docs/qualification/qualify.sh --dry start/cases --qualify "$BIN" --out third --again forged`)
	one, other := folder(t, filepath.Join(dir, "one")), folder(t, filepath.Join(dir, "other"))
	if diff := cmp.Diff(one, other); diff != "" {
		t.Errorf("(-first +again):\n%s", diff)
	}
	page := one["2026-11-30.md"]
	for _, want := range []string{
		"# Dry run of the qualification", "### Iteration 1: dev-1-one-reviewer", "### Iteration 4: dev-4-stable-tasks", "## Verdict\n\n### ",
		"; holdout openings: 1 in log of ", " dev-3-two-reviewers ", "computed again", "2026-11-30.tar.zst",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not hold %q", want)
		}
	}
	want := []string{"2026-11-30.intoto.jsonl", "2026-11-30.md", "2026-11-30.pub", "2026-11-30.seal.jsonl", "2026-11-30.tar.zst"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(one))); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// root is the folder of this module.
func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestQ4_TheQualificationFreezesAllCode: the list of what the project's own freeze
// covers names every folder with code, and leaves the pages of docs out.
func TestQ4_TheQualificationFreezesAllCode(t *testing.T) {
	t.Parallel()
	file := qualificationCampaign(t, "holdout.yaml")
	want := []string{"Makefile", "docs/qualification/campaigns", "docs/qualification/policy.yaml", "docs/qualification/qualify.sh", "go.mod", "go.sum"}
	entries, err := os.ReadDir(root(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if code, err := filepath.Glob(filepath.Join(root(t), e.Name(), "*", "*.go")); e.IsDir() && e.Name() != "docs" && e.Name()[0] != '.' {
			direct, derr := filepath.Glob(filepath.Join(root(t), e.Name(), "*.go"))
			if err = errors.Join(err, derr); err != nil {
				t.Fatal(err)
			}
			if len(code)+len(direct) > 0 {
				want = append(want, e.Name())
			}
		}
	}
	got := slices.Sorted(slices.Values(file.Freeze.Include))
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestQ5_TheQualificationChangesNoRule: the project judges itself by the rules that
// ship, with the preconditions of a holdout besides, and all its campaigns run one
// model, one price list and one shared ceiling.
func TestQ5_TheQualificationChangesNoRule(t *testing.T) {
	t.Parallel()
	own, err := readPolicy(qualification + "/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	shipped, err := readPolicy(policyPrefix + "simulation")
	if err != nil {
		t.Fatal(err)
	}
	strict, err := readPolicy(policyPrefix + gate.PolicyDefault)
	if err != nil {
		t.Fatal(err)
	}
	type judged struct {
		Kind          gate.Kind
		Alpha, Power  float64
		Multiplicity  gate.Multiplicity
		Preconditions []gate.Precondition
		Rules         []gate.Rule
	}
	want := judged{shipped.Kind, shipped.Alpha, shipped.Power, shipped.Multiplicity, strict.Preconditions, shipped.Rules}
	if diff := cmp.Diff(want, judged{own.Kind, own.Alpha, own.Power, own.Multiplicity, own.Preconditions, own.Rules}, cmpopts.IgnoreUnexported(gate.Rule{}, gate.Precondition{})); diff != "" {
		t.Errorf("the policy (-shipped +own):\n%s", diff)
	}
	held := qualificationCampaign(t, "holdout.yaml")
	demo, _, err := readCampaign(builtinPrefix + "demo")
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(qualification + "/campaigns/[0-9]*.yaml")
	if err != nil || len(names) < 3 {
		t.Fatalf("%v: %v", names, err)
	}
	for _, name := range names {
		dev := qualificationCampaign(t, filepath.Base(name))
		if dev.Cases.Split != "dev" || held.Cases.Split != "holdout" || dev.Seed == held.Seed {
			t.Errorf("%s: split %s and seed %d, holdout %s and %d", name, dev.Cases.Split, dev.Seed, held.Cases.Split, held.Seed)
		}
		for _, f := range []*campaigns.File{dev, held} {
			if diff := cmp.Diff(demo.Model, f.Model) + cmp.Diff(demo.Prices, f.Prices); diff != "" || f.Ceiling != held.Ceiling || f.Ceiling == "" || f.Parallel != 1 || f.Corpus != builtinName {
				t.Errorf("%s: ceiling %q, parallel %d, corpus %s, (-demo +it):\n%s", f.Name, f.Ceiling, f.Parallel, f.Corpus, diff)
			}
		}
	}
}

func qualificationCampaign(t *testing.T, name string) *campaigns.File {
	t.Helper()
	f, _, err := readCampaign(qualification + "/campaigns/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
