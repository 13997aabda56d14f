package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store/memory"
	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/trace"
)

// demoRun is the shipped demo on the memory store: the trace of every trial.
type demoRun struct {
	plan   *campaigns.Plan
	cases  *cases
	traces map[string][]byte // by trial key
	arms   []string          // without controls
}

// runDemo runs builtin:demo with its own seed, rates and arms; trials 0 is its
// own number of them.
func runDemo(t *testing.T, trials int, globs ...string) demoRun {
	t.Helper()
	data, ok := campaigns.Builtin("demo")
	if !ok {
		t.Fatal("no built-in demo")
	}
	file, err := campaigns.ParseFile("builtin:demo", data)
	if err != nil {
		t.Fatal(err)
	}
	cs, err := new(app).loadCases(file.Corpus, ".")
	if err != nil {
		t.Fatal(err)
	}
	plan, err := campaigns.Resolve(file, campaigns.ResolveInput{
		Path: "builtin:demo", Corpus: cs.corpus, Modes: knownModes(), Providers: knownProviders(), CodeVersion: "test",
		Override: campaigns.Override{Trials: trials, Cases: globs},
	})
	if err != nil {
		t.Fatal(err)
	}
	providers, err := simulatedProviders(plan, cs, nil)
	if err != nil {
		t.Fatal(err)
	}
	st := memory.New(memory.Options{Now: time.Now})
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	d := demoRun{plan: plan, cases: cs, traces: map[string][]byte{}}
	r := &campaigns.Runner{
		Plan: plan, Store: st, Providers: providers, Clock: runtime.Virtual, Gauge: new(runtime.Gauge),
		OnTrial: func(done campaigns.Done) error {
			d.traces[done.Record.Key] = done.Trace
			return nil
		},
	}
	if _, err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, a := range plan.Arms {
		d.arms = append(d.arms, a.Name)
	}
	return d
}

// score scores traces and sums them up by arm.
func (d demoRun) score(t *testing.T, traces map[string][]byte) (map[string]evaluator.TrialScore, map[string]evaluator.ArmSummary) {
	t.Helper()
	scores := map[string]evaluator.TrialScore{}
	byArm := map[string][]evaluator.TrialScore{}
	planned := map[string][]evaluator.Planned{}
	for key, content := range traces {
		tr, err := trace.Read(bytes.NewReader(content))
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		c, g, err := d.cases.of(tr.Header.Case)
		if err != nil {
			t.Fatal(err)
		}
		s, err := evaluator.ScoreTrial(tr, evaluator.CaseFacts{Faults: c.FaultKindsByID()}, g)
		if err != nil {
			t.Fatal(err)
		}
		scores[key] = s
		byArm[s.Arm] = append(byArm[s.Arm], s)
		planned[s.Arm] = append(planned[s.Arm], evaluator.Planned{Key: key, Case: s.Case, Family: s.Family, Trial: s.Trial})
	}
	sums := map[string]evaluator.ArmSummary{}
	for arm, list := range byArm {
		sum, err := evaluator.Aggregate(evaluator.Arm{Name: arm, Mode: list[0].Mode}, list, planned[arm])
		if err != nil {
			t.Fatal(err)
		}
		sums[arm] = sum
	}
	return scores, sums
}

// flipClaim writes a trace again with the claim that stands at its end taken
// away, or with one where there was none, and a sound chain.
func flipClaim(t *testing.T, content []byte) []byte {
	t.Helper()
	r := trace.NewReader(bytes.NewReader(content))
	var out bytes.Buffer
	w := trace.NewWriter(&out)
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out.Bytes()
		}
		switch {
		case err != nil:
		case rec.Header != nil:
			err = w.Header(*rec.Header)
		case rec.Event != nil:
			err = w.Event(*rec.Event)
		case rec.Op != nil:
			err = w.Op(*rec.Op)
		case rec.Effect != nil:
			err = w.Effect(*rec.Effect)
		case rec.Owner != nil:
			err = w.Owner(*rec.Owner)
		default:
			if rec.End.Claim == nil {
				rec.End.Claim = &trace.Claim{AtUS: rec.End.AtUS, By: "somebody"}
			} else {
				rec.End.Claim = nil
			}
			_, err = w.End(*rec.End)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestQ1_AFlippedClaimChangesOnlyClaimFiguresOfTheDemo: with every claim of the
// demo's traces flipped, completion, effects, corrections, repeats, latency and
// money stand as they were, for each trial and for each arm.
func TestQ1_AFlippedClaimChangesOnlyClaimFiguresOfTheDemo(t *testing.T) {
	t.Parallel()
	var globs []string
	if !long() {
		globs = []string{"answer-*", "brief-*", "ledger-*"}
	}
	d := runDemo(t, 1, globs...)
	flipped := map[string][]byte{}
	for key, content := range d.traces {
		flipped[key] = flipClaim(t, content)
	}
	before, armsBefore := d.score(t, d.traces)
	after, armsAfter := d.score(t, flipped)
	turned := map[evaluator.Outcome]evaluator.Outcome{
		evaluator.ClaimedMet: evaluator.UnclaimedMet, evaluator.UnclaimedMet: evaluator.ClaimedMet,
		evaluator.ClaimedUnmet: evaluator.UnclaimedUnmet, evaluator.UnclaimedUnmet: evaluator.ClaimedUnmet,
	}
	for key, b := range before {
		a := after[key]
		if a.Claimed == b.Claimed || a.Outcome != turned[b.Outcome] || a.Digest == b.Digest {
			t.Errorf("%s: claim %v to %v, outcome %s to %s", key, b.Claimed, a.Claimed, b.Outcome, a.Outcome)
		}
		a.Claimed, a.Outcome, a.Digest = b.Claimed, b.Outcome, b.Digest
		if diff := cmp.Diff(b, a); diff != "" {
			t.Errorf("%s:\n%s", key, diff)
		}
	}
	for arm, b := range armsBefore {
		a := armsAfter[arm]
		want := b.Denominators
		want.ClaimedMet, want.UnclaimedMet = want.UnclaimedMet, want.ClaimedMet
		want.ClaimedUnmet, want.UnclaimedUnmet = want.UnclaimedUnmet, want.ClaimedUnmet
		if a.Denominators != want || a.False.Count != b.Denominators.UnclaimedUnmet || a.Silent.Count != b.Denominators.ClaimedMet {
			t.Errorf("%s: %+v, want %+v; false %d, silent %d", arm, a.Denominators, want, a.False.Count, a.Silent.Count)
		}
		for i := range a.Families {
			a.Families[i].False = b.Families[i].False
		}
		delete(a.Links, evaluator.LinkFalseCompletion)
		delete(b.Links, evaluator.LinkFalseCompletion)
		a.Denominators, a.False, a.Silent, a.Honest, a.NotEvaluable = b.Denominators, b.False, b.Silent, b.Honest, b.NotEvaluable
		if diff := cmp.Diff(b, a); diff != "" {
			t.Errorf("arm %s:\n%s", arm, diff)
		}
	}
	if n := len(d.plan.SelectedCases()); len(before) != n*(len(d.arms)+2) {
		t.Errorf("%d traces of %d cases, %d arms and two controls", len(before), n, len(d.arms))
	}
}

// TestF30_FaultsOfTheDemoFireAndKeysAbsorbRepeats: each kind of fault that a case file
// plants strikes in each arm of the shipped demo, and so do the simulated
// model's lost replies and missing usage. Legacy without keys repeats effects
// whose acknowledgement was lost; with keys the world absorbs them. One trial is
// enough; the long run takes the demo's own number.
func TestF30_FaultsOfTheDemoFireAndKeysAbsorbRepeats(t *testing.T) {
	t.Parallel()
	trials := 1
	if long() {
		trials = 0
	}
	d := runDemo(t, trials)
	_, arms := d.score(t, d.traces)
	kinds := []string{evaluator.FaultLostReply, evaluator.FaultMissingUsage}
	for _, c := range d.plan.SelectedCases() {
		for _, f := range c.Faults {
			kinds = append(kinds, f.Kind)
		}
	}
	slices.Sort(kinds)
	if kinds = slices.Compact(kinds); len(kinds) < 6 {
		t.Errorf("the case files plant only %v", kinds)
	}
	for _, arm := range d.arms {
		for _, k := range kinds {
			if arms[arm].Faults[k] == 0 {
				t.Errorf("%s never fired in arm %s: %v", k, arm, arms[arm].Faults)
			}
		}
		if n := arms[arm].Faults[evaluator.FaultUnnamed]; n != 0 {
			t.Errorf("arm %s: %d faults without a kind", arm, n)
		}
		if l := arms[arm].Latency; l == nil || l.QueueUS == nil {
			t.Errorf("arm %s: queue time is not evaluable", arm)
		}
	}
	bare, keyed := arms["legacy"].Duplicates, arms["legacy-keyed"].Duplicates
	if bare.Confirmed == 0 || bare.Suppressed != 0 || keyed.Confirmed != 0 || keyed.Suppressed == 0 {
		t.Errorf("without keys %+v, with keys %+v", bare, keyed)
	}
	for key, content := range d.traces {
		claimStands(t, key, content)
	}
}

// claimStands requires that a trace ends with a claim exactly when the last one
// made was not withdrawn.
func claimStands(t *testing.T, key string, content []byte) {
	t.Helper()
	tr, err := trace.Read(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	stands := false
	for i := range tr.Events {
		switch tr.Events[i].Kind {
		case "claim":
			stands = true
		case "withdraw":
			stands = false
		}
	}
	if stands != (tr.End.Claim != nil) {
		t.Errorf("%s: by its events a claim stands: %v, by its end: %v", key, stands, tr.End.Claim != nil)
	}
}

// TestIssue2_EveryFlippedBitOfATraceFailsVerify flips every bit of a trace of
// the demo in turn and gives the files to the command, many at once: each of
// them must be found. The short run takes every sixteenth byte; package trace
// flips every bit in every run.
func TestIssue2_EveryFlippedBitOfATraceFailsVerify(t *testing.T) {
	t.Parallel()
	d := runDemo(t, 1, "answer-house-rule-02")
	var content []byte
	for _, c := range d.traces {
		if content == nil || len(c) < len(content) {
			content = c
		}
	}
	dir := t.TempDir()
	verify := func(files ...[]byte) (int, string) {
		args := []string{"trace", "verify"}
		for i, b := range files {
			path := filepath.Join(dir, fmt.Sprint(i, ".jsonl"))
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
			args = append(args, path)
		}
		var stdout, stderr strings.Builder
		code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr)
		return code, stdout.String() + stderr.String()
	}
	if code, out := verify(content); code != exitOK || !strings.Contains(out, "1 traces, 0 wrong") {
		t.Fatalf("the sound trace: exit %d:\n%s", code, out)
	}
	stride := 16
	if long() {
		stride = 1
	}
	const bytesAtOnce = 128
	for from := 0; from < len(content); from += bytesAtOnce * stride {
		var files [][]byte
		for i := from; i < min(from+bytesAtOnce*stride, len(content)); i += stride {
			for bit := range 8 {
				b := slices.Clone(content)
				b[i] ^= 1 << bit
				files = append(files, b)
			}
		}
		want := fmt.Sprintf("%d traces, %d wrong", len(files), len(files))
		if code, out := verify(files...); code != exitFail || !strings.Contains(out, want) {
			t.Fatalf("bits from byte %d on: exit %d, want %q:\n%s", from, code, want, out)
		}
	}
}
