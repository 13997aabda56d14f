package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gopkg.in/yaml.v3"
)

const examples = "../../docs/examples"

// workflow is a GitHub workflow as far as the example uses the format: a key
// that is not here is a mistake.
type workflow struct {
	Name        string                 `yaml:"name"`
	On          map[string]any         `yaml:"on"`
	Permissions map[string]string      `yaml:"permissions"`
	Env         map[string]string      `yaml:"env"`
	Jobs        map[string]workflowJob `yaml:"jobs"`
}

type workflowJob struct {
	Needs       string            `yaml:"needs"`
	RunsOn      string            `yaml:"runs-on"`
	Timeout     int               `yaml:"timeout-minutes"`
	Environment string            `yaml:"environment"`
	Permissions map[string]string `yaml:"permissions"`
	Outputs     map[string]string `yaml:"outputs"`
	Steps       []workflowStep    `yaml:"steps"`
}

type workflowStep struct {
	Name string            `yaml:"name"`
	ID   string            `yaml:"id"`
	If   string            `yaml:"if"`
	Uses string            `yaml:"uses"`
	Run  string            `yaml:"run"`
	With map[string]any    `yaml:"with"`
	Env  map[string]string `yaml:"env"`
}

func readWorkflow(t *testing.T) *workflow {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(examples, "release.yml"))
	if err != nil {
		t.Fatal(err)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	w := new(workflow)
	if err := dec.Decode(w); err != nil {
		t.Fatal(err)
	}
	return w
}

// jobs are the names of the jobs, each after the one that it needs.
func (w *workflow) jobs() []string {
	var out []string
	for len(out) < len(w.Jobs) {
		before := len(out)
		for _, name := range slices.Sorted(maps.Keys(w.Jobs)) {
			if need := w.Jobs[name].Needs; !slices.Contains(out, name) && (need == "" || slices.Contains(out, need)) {
				out = append(out, name)
			}
		}
		if len(out) == before {
			return nil // a job that waits for itself or for none
		}
	}
	return out
}

// TestReleaseWorkflow_GivesNoMoreThanItNeeds: publishing waits for the gate, no
// job may write but the one that publishes, each action is pinned by a commit,
// and no expression is pasted into a script.
func TestReleaseWorkflow_GivesNoMoreThanItNeeds(t *testing.T) {
	t.Parallel()
	w := readWorkflow(t)
	if diff := cmp.Diff([]string{"build", "qualify", "publish"}, w.jobs()); diff != "" {
		t.Fatalf("order of jobs (-want +got):\n%s", diff)
	}
	if w.Permissions == nil || len(w.Permissions) != 0 {
		t.Errorf("permissions of the whole: %v, want {}", w.Permissions)
	}
	if _, ok := w.On["push"]; !ok || len(w.On) != 1 {
		t.Errorf("on %v, want tags alone", w.On)
	}
	pinned := regexp.MustCompile(`^actions/[a-z-]+@[0-9a-f]{40}$`)
	for name, job := range w.Jobs {
		want := "read"
		if name == "publish" {
			want = "write"
		}
		if diff := cmp.Diff(map[string]string{"contents": want}, job.Permissions); diff != "" {
			t.Errorf("%s: permissions (-want +got):\n%s", name, diff)
		}
		if (job.Environment == "release") != (name == "publish") || job.Timeout == 0 {
			t.Errorf("%s: environment %q, timeout %d", name, job.Environment, job.Timeout)
		}
		for i, s := range job.Steps {
			switch {
			case (s.Uses == "") == (s.Run == ""):
				t.Errorf("%s, step %d: want one of uses and run", name, i+1)
			case s.Uses != "" && !pinned.MatchString(s.Uses):
				t.Errorf("%s: %s is not pinned by a commit", name, s.Uses)
			case strings.HasPrefix(s.Uses, "actions/checkout@") && s.With["persist-credentials"] != false:
				t.Errorf("%s: checkout leaves its token behind", name)
			case strings.Contains(s.Run, "${{"):
				t.Errorf("%s: an expression in the script %q", name, s.Run)
			case s.If != "" && s.If != "always()" || s.If != "" && s.Run != "":
				t.Errorf("%s: step %d runs if %s", name, i+1, s.If)
			}
		}
	}
}

// releaseRepo is a repository with a qualified campaign, its bundle, signed by
// two, and what the examples publish, as the pages say.
type releaseRepo struct{ signing }

func (r releaseRepo) run(t *testing.T, exit int, name string, args ...string) string {
	t.Helper()
	out, code := ran(t, r.dir, nil, name, args...)
	if code != exit {
		t.Fatalf("%s %v: exit %d, want %d\n%s", name, args, code, exit, out)
	}
	return out
}

func newReleaseRepo(t *testing.T) releaseRepo {
	t.Helper()
	for _, tool := range []string{"bash", "make", "sha256sum"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the examples need %s", tool)
		}
	}
	r := releaseRepo{signing{t.TempDir()}}
	for _, dir := range []string{"qualify/keys", "secret", "tools"} {
		must(t, os.MkdirAll(r.path(dir), 0o700))
	}
	r.write(t, "Makefile", "dist:\n\tmkdir -p dist && cp app.txt dist/app.tar.gz\n.PHONY: dist\n")
	r.write(t, "app.txt", "what is released")
	r.write(t, "qualify/policy.yaml", `schema: qualify/policy/v1
name: release
kind: simulation
alpha: 0.05
rules:
  - {id: some, step: safety, severity: required, metric: completion, arm: planner, comparison: absolute, limit: 0, bound: point, why: to see a PASS}
`)
	sim := simulation{seed: 4, trials: 1, rates: goldenRates()}
	r.write(t, "qualify/campaign.yaml", strings.Replace(sim.yaml(), "name: test", "name: app\npolicy: policy.yaml", 1)+"\ncases: {split: dev, include: [\"*-01\"], exclude: []}\n")
	r.run(t, exitOK, "make", "dist")
	r.run(t, exitOK, "qualify", "run", "qualify/campaign.yaml", "--seal-log", "qualify/seal-log.jsonl")
	for _, who := range []string{"alice", "bob"} {
		r.run(t, exitOK, "qualify", "attest", "keygen", "-o", "secret/"+who)
		must(t, os.Rename(r.path("secret/"+who+".pub"), r.path("qualify/keys/"+who+".pub")))
	}
	sign := func(args ...string) {
		r.run(t, exitOK, "qualify", append([]string{"attest", "sign", "app", "--policy", "qualify/policy.yaml"}, args...)...)
	}
	sign("--seal-log", "qualify/seal-log.jsonl", "--key", "secret/alice", "--artifact", "dist/app.tar.gz", "--simulation", "-o", "one.jsonl")
	r.run(t, exitOK, "qualify", "report", "bundle", "app", "--policy", "qualify/policy.yaml", "-o", "qualify/qualification.tar.zst")
	r.run(t, exitOK, "qualify", "freeze", "log", "--verify", "--seal-log", "qualify/seal-log.jsonl")
	must(t, os.RemoveAll(r.path(".qualify"))) // from here on everything comes from the bundle
	sign("--store", "bundle:qualify/qualification.tar.zst", "--key", "secret/bob", "--add-to", "one.jsonl", "-o", "qualify/attestation.jsonl")

	// What runs in place of qualify says that simulated evidence may pass, which
	// the examples do not; gh publishes into a folder.
	r.tool(t, "simulated", `if [ "$1" = gate ]; then exec qualify "$@" --allow-simulation; fi; exec qualify "$@"`)
	r.tool(t, "gh", `mkdir -p published; for f; do if [ -f "$f" ]; then cp "$f" published/; fi; done; echo "$@" > published/arguments`)
	return r
}

func (r releaseRepo) tool(t *testing.T, name, script string) {
	t.Helper()
	must(t, os.WriteFile(r.path("tools/"+name), []byte("#!/bin/sh\n"+script+"\n"), 0o700)) //nolint:gosec // it is run
}

// copied is the repository once more, to be changed.
func (r releaseRepo) copied(t *testing.T) releaseRepo {
	t.Helper()
	out := releaseRepo{signing{t.TempDir()}}
	must(t, os.CopyFS(out.dir, os.DirFS(r.dir)))
	return out
}

// published are the names of what went out.
func (r releaseRepo) published(t *testing.T) []string {
	t.Helper()
	files, err := os.ReadDir(r.path("published"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var out []string
	for _, f := range files {
		out = append(out, f.Name())
	}
	return out
}

// environment is what a step or make has besides that of the tests.
func (r releaseRepo) environment(vars ...map[string]string) []string {
	env := []string{
		"PATH=" + r.path("tools") + string(os.PathListSeparator) + os.Getenv("PATH"), "GITHUB_REF_NAME=v1.2.0",
		"GITHUB_STEP_SUMMARY=" + r.path("summary.md"), "GITHUB_OUTPUT=" + r.path("output"),
	}
	for _, m := range vars {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			env = append(env, k+"="+m[k])
		}
	}
	return env
}

// runWorkflow runs the scripts of the example as a runner would: job by job, in
// the order of their needs, none after one that failed, each from the files of
// the repository and the artifact of the job before. It tells which failed.
func (r releaseRepo) runWorkflow(t *testing.T, w *workflow, after func(job string, outputs map[string]string)) (failed, talk string) {
	t.Helper()
	outputs := map[string]string{"github.token": "token"}
	for _, name := range w.jobs() {
		if talk, ok := r.runJob(t, w, name, outputs); !ok {
			return name, talk
		}
		if after != nil {
			after(name, outputs)
		}
	}
	return "", ""
}

// runJob runs the steps of a job, and adds what it puts out to outputs.
func (r releaseRepo) runJob(t *testing.T, w *workflow, name string, outputs map[string]string) (talk string, ok bool) {
	t.Helper()
	value := func(text string) string {
		for k, v := range outputs {
			text = strings.ReplaceAll(text, "${{ "+k+" }}", v)
		}
		if strings.Contains(text, "${{") {
			t.Fatalf("no value for %s", text)
		}
		return text
	}
	job := w.Jobs[name]
	must(t, os.RemoveAll(r.path("dist"))) // a checkout has none
	for _, s := range job.Steps {
		if s.Uses != "" {
			r.action(t, s)
			continue
		}
		env := map[string]string{}
		for k, v := range s.Env {
			env[k] = value(v)
		}
		must(t, os.WriteFile(r.path("output"), nil, 0o600))
		if out, code := ran(t, r.dir, r.environment(w.Env, env), "bash", "-e", "-c", s.Run); code != exitOK {
			return out, false
		}
		lines, err := os.ReadFile(r.path("output"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(lines)) {
			k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
			outputs["steps."+s.ID+".outputs."+k] = v
		}
	}
	for k, v := range job.Outputs {
		outputs["needs."+name+".outputs."+k] = value(v)
	}
	return "", true
}

// action does what an action of the example does.
func (r releaseRepo) action(t *testing.T, s workflowStep) {
	t.Helper()
	name, _, _ := strings.Cut(s.Uses, "@")
	kept := r.path(".artifact-" + fmt.Sprint(s.With["name"]))
	path := r.path(fmt.Sprint(s.With["path"]))
	switch name {
	case "actions/checkout", "actions/setup-go":
	case "actions/upload-artifact":
		must(t, os.RemoveAll(kept))
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			must(t, os.CopyFS(kept, os.DirFS(path)))
		}
	case "actions/download-artifact":
		must(t, os.CopyFS(path, os.DirFS(kept)))
	default:
		t.Fatalf("no action %s here", name)
	}
}

// wrongRelease is a release with one thing wrong, and the words that say so.
type wrongRelease struct {
	name, words string
	change      func(t *testing.T, r releaseRepo)
}

// wrongReleasesFor are those to try: a few of them unless the long tests run,
// since each costs several processes, and the gate's own tests have them all.
func wrongReleasesFor(some ...string) []wrongRelease {
	if long() {
		return wrongReleases
	}
	return slices.DeleteFunc(slices.Clone(wrongReleases), func(w wrongRelease) bool { return !slices.Contains(some, w.name) })
}

var wrongReleases = []wrongRelease{
	{"another artifact", "app.tar.gz sha256:[0-9a-f]{64} is none of the subjects", func(t *testing.T, r releaseRepo) {
		r.write(t, "app.txt", "what was built afterwards")
	}},
	{"one signature of two", "1 of the given keys signed, 2 must", func(t *testing.T, r releaseRepo) {
		must(t, os.Rename(r.path("one.jsonl"), r.path("qualify/attestation.jsonl")))
	}},
	{"another key", "which is none of those given", func(t *testing.T, r releaseRepo) {
		r.run(t, exitOK, "qualify", "attest", "keygen", "-o", "secret/eve")
		must(t, os.Rename(r.path("secret/eve.pub"), r.path("qualify/keys/alice.pub")))
	}},
	{"no attestation", "qualify/attestation.jsonl: .*no such file", func(t *testing.T, r releaseRepo) {
		must(t, os.Remove(r.path("qualify/attestation.jsonl")))
	}},
	{"a stricter policy", "by policy release", func(t *testing.T, r releaseRepo) {
		data, err := os.ReadFile(r.path("qualify/policy.yaml"))
		must(t, err)
		r.write(t, "qualify/policy.yaml", strings.Replace(string(data), "limit: 0", "limit: 0.01", 1))
	}},
	{"a byte of the bundle", "bundle|zstd|checksum|magic|canonical", func(t *testing.T, r releaseRepo) {
		data, err := os.ReadFile(r.path("qualify/qualification.tar.zst"))
		must(t, err)
		data[len(data)/2] ^= 1
		r.write(t, "qualify/qualification.tar.zst", string(data))
	}},
	{"a seal log that was cut off", "this log was cut off, or is an older copy", func(t *testing.T, r releaseRepo) {
		data, err := os.ReadFile(r.path("qualify/seal-log.jsonl"))
		must(t, err)
		first, _, _ := strings.Cut(string(data), "\n")
		r.write(t, "qualify/seal-log.jsonl", first+"\n")
	}},
}

// TestQ8_TheExamplesPublishOnlyWhatTheGateLetsThrough runs them for real, with a
// campaign, its bundle and two signatures: as they are, and with one thing wrong
// at a time.
func TestQ8_TheExamplesPublishOnlyWhatTheGateLetsThrough(t *testing.T) {
	t.Parallel()
	repo := newReleaseRepo(t)
	for name, test := range map[string]func(*testing.T, releaseRepo){"workflow": publishByWorkflow, "Makefile": publishByMake} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, repo.copied(t))
		})
	}
}

func publishByWorkflow(t *testing.T, good releaseRepo) {
	t.Helper()
	w := readWorkflow(t)
	w.Env["QUALIFY"] = "simulated"
	for _, tc := range wrongReleasesFor("one signature of two", "a byte of the bundle", "a seal log that was cut off") {
		r := good.copied(t)
		tc.change(t, r)
		failed, talk := r.runWorkflow(t, w, nil)
		if failed != "qualify" || !regexp.MustCompile(tc.words).MatchString(talk) || r.published(t) != nil {
			t.Errorf("%s: job %q failed, %v is out\n%s", tc.name, failed, r.published(t), talk)
		}
	}
	exchanged := good.copied(t)
	failed, talk := good.runWorkflow(t, w, func(job string, outputs map[string]string) {
		if job != "qualify" {
			return
		}
		// The artifact is another when the job that publishes fetches it.
		must(t, os.CopyFS(exchanged.path(".artifact-dist"), os.DirFS(good.path(".artifact-dist"))))
		exchanged.write(t, ".artifact-dist/app.tar.gz", "exchanged after the gate")
		if talk, ok := exchanged.runJob(t, w, "publish", maps.Clone(outputs)); ok || !strings.Contains(talk, "FAILED") || exchanged.published(t) != nil {
			t.Errorf("%v is out\n%s", exchanged.published(t), talk)
		}
	})
	if failed != "" {
		t.Fatalf("job %s failed\n%s", failed, talk)
	}
	if diff := cmp.Diff([]string{"app.tar.gz", "arguments", "attestation.jsonl", "qualification.tar.zst"}, good.published(t)); diff != "" {
		t.Errorf("published (-want +got):\n%s", diff)
	}
	summary, err := os.ReadFile(good.path("summary.md"))
	if err != nil || !strings.HasPrefix(string(summary), "**Release:** not blocked, by simulated evidence only") {
		t.Errorf("%v, summary %.100q", err, summary)
	}
	if _, err := os.Stat(good.path("gate.xml")); err != nil {
		t.Error(err)
	}
}

// publishByMake also gives flags of make that skip targets and pass over errors,
// with evidence that does not suffice: nobody allowed a simulation.
func publishByMake(t *testing.T, good releaseRepo) {
	t.Helper()
	for _, tc := range wrongReleasesFor() {
		r := good.copied(t)
		tc.change(t, r)
		failed, talk := r.make(t, "QUALIFY=simulated")
		if !failed || !regexp.MustCompile(tc.words).MatchString(talk) || r.published(t) != nil {
			t.Errorf("%s: failed %v, %v is out\n%s", tc.name, failed, r.published(t), talk)
		}
	}
	for _, flag := range []string{"-i", "-t", "-n"} {
		_, talk := good.make(t, flag)
		if good.published(t) != nil || flag == "-i" && !strings.Contains(talk, "it is the result of a simulation") {
			t.Fatalf("make %s: %v is out\n%s", flag, good.published(t), talk)
		}
	}
	if failed, talk := good.make(t, "QUALIFY=simulated"); failed || len(good.published(t)) != 4 {
		t.Errorf("failed %v, %v is out\n%s", failed, good.published(t), talk)
	}
}

// make builds the artifact and makes the target release of the example.
func (r releaseRepo) make(t *testing.T, flags ...string) (failed bool, talk string) {
	t.Helper()
	file, err := filepath.Abs(filepath.Join(examples, "release.mk"))
	if err != nil {
		t.Fatal(err)
	}
	r.run(t, exitOK, "make", "dist")
	talk, code := ran(t, r.dir, r.environment(), "make", append([]string{"-f", file, "release", "TAG=v1.2.0"}, flags...)...)
	return code != exitOK, talk
}

// TestReleaseManagers_RunTheCommandsOfTheExamples: the three of the page are
// what the Makefile runs before it publishes, and what the workflow runs.
func TestReleaseManagers_RunTheCommandsOfTheExamples(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("the Makefile is asked by make")
	}
	page, err := os.ReadFile("../../docs/release-managers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, ok := strings.Cut(string(page), "\n## Three commands\n\n```sh\n")
	block, _, ok2 := strings.Cut(block, "\n```\n")
	words := func(text string) string {
		return strings.Join(strings.Fields(strings.ReplaceAll(text, "\\\n", " ")), " ")
	}
	var commands []string
	for line := range strings.Lines(strings.ReplaceAll(block, "\\\n", " ")) {
		commands = append(commands, words(line))
	}
	if !ok || !ok2 || len(commands) != 3 {
		t.Fatalf("the page has no three commands: %q", commands)
	}
	out, err := exec.CommandContext(t.Context(), "make", "-n", "-f", filepath.Join(examples, "release.mk"), "release", "TAG=v1").Output()
	if want := strings.Join(commands, " && ") + " && gh release create "; err != nil || !strings.HasPrefix(words(string(out)), want) {
		t.Errorf("%v, make runs\n%s\nnot\n%s", err, words(string(out)), want)
	}
	w := readWorkflow(t)
	ci := "" // the job, with the values of its variables
	for _, s := range w.Jobs["qualify"].Steps {
		ci += s.Run + "\n"
	}
	for k, v := range w.Env {
		ci = strings.NewReplacer(`"$`+k+`"`, v, "$"+k+`"`, v+`"`).Replace(ci)
	}
	ci = strings.ReplaceAll(words(ci), `"`, "")
	for _, c := range commands {
		if !strings.Contains(ci, c+" ") {
			t.Errorf("the workflow does not run %s but\n%s", c, ci)
		}
	}
}

// TestReleaseWorkflow_PassesActionlint asks the linter of GitHub workflows, in
// the long tests only: it is fetched.
func TestReleaseWorkflow_PassesActionlint(t *testing.T) {
	t.Parallel()
	if !long() {
		t.Skip("QUALIFY_LONG=1 fetches actionlint and runs it")
	}
	c := exec.CommandContext(t.Context(), "go", "run", "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12",
		"-shellcheck=", "-pyflakes=", filepath.Join(examples, "release.yml"))
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
