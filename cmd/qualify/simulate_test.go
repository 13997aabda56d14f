package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
	"github.com/agentrooms/qualify/evaluator"
)

// simulation is a simulated campaign over the built-in corpus for tests of the
// whole harness in one process, on the memory store.
type simulation struct {
	rates    map[string]string // by field; those left out are 0, retry_after_unknown 1
	arms     []string          // YAML flow mappings; nil: the three modes and nothing else
	seed     int
	trials   int
	parallel int
	cases    []string // globs; nil: all
	noFaults bool     // strip the world faults of the cases
	holdout  bool     // the holdout cases in place of the dev ones, see holdoutCases
	instant  bool     // the model takes no more than a millisecond
	journal  model.Journal
	name     string      // of the campaign; "" is test
	into     store.Store // where it runs, left open; nil: a store of its own
}

type simResult struct {
	plan   *campaigns.Plan
	store  store.Store
	doc    *evaluator.RunDocument
	traces map[string][]byte
}

func (s simulation) yaml() string {
	rate := func(name, otherwise string) string {
		if v, ok := s.rates[name]; ok {
			return v
		}
		return otherwise
	}
	arms := s.arms
	if arms == nil {
		arms = []string{
			"{name: legacy, mode: legacy, idempotency: off}",
			"{name: selective, mode: selective, idempotency: on}",
			"{name: planner, mode: planner, idempotency: on}",
		}
	}
	latency := "{median: 1800, p95: 6000}"
	if s.instant {
		latency = "{median: 1, p95: 1}"
	}
	return fmt.Sprintf(`schema: qualify/campaign/v1
name: %s
seed: %d
corpus: builtin
trials: %d
arms: [%s]
under_test: [mode, idempotency, options]
model:
  provider: simulated
  name: sim-1
  params: {max_output_tokens: 800}
  simulated:
    skip_step: "%s"
    wrong_argument: "%s"
    early_claim: "%s"
    malformed_json: "%s"
    missing_usage: "%s"
    lost_reply: "%s"
    retry_after_unknown: "%s"
    plan_fault: "%s"
    review: {passes_bad: "%s", fails_good: "%s"}
    latency_ms: %s
prices: {sim-1: {input: "2.50", cached_read: "1.25", output: "10.00", reasoning: "10.00"}}
ceiling_usd: "100000"
parallel: 4
`, cmp.Or(s.name, "test"), s.seed, max(s.trials, 1), strings.Join(arms, ", "), rate("skip_step", "0"), rate("wrong_argument", "0"),
		rate("early_claim", "0"), rate("malformed_json", "0"), rate("missing_usage", "0"), rate("lost_reply", "0"),
		rate("retry_after_unknown", "1"), rate("plan_fault", "0"), rate("passes_bad", "0"), rate("fails_good", "0"), latency)
}

func (s simulation) run(t *testing.T) simResult {
	t.Helper()
	file, err := campaigns.ParseFile("test.yaml", []byte(s.yaml()))
	if err != nil {
		t.Fatal(err)
	}
	cs, err := new(app).loadCases(builtinName, ".")
	if err != nil {
		t.Fatal(err)
	}
	if s.holdout {
		cs = holdoutCases(cs)
	}
	if s.noFaults {
		cs = withoutFaults(cs)
	}
	plan, err := campaigns.Resolve(file, campaigns.ResolveInput{
		Path: "test.yaml", Corpus: cs.corpus, Modes: knownModes(), Providers: knownProviders(), CodeVersion: "test",
		Override: campaigns.Override{Cases: s.cases},
	})
	if err != nil {
		t.Fatal(err)
	}
	providers, err := simulatedProviders(plan, cs, s.journal)
	if err != nil {
		t.Fatal(err)
	}
	st := s.into
	if st == nil {
		st = memory.New(memory.Options{Now: time.Now})
		t.Cleanup(func() {
			if err := st.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	out := simResult{plan: plan, store: st, traces: map[string][]byte{}}
	scorer := newScorer(plan, cs)
	gauge := new(runtime.Gauge)
	r := &campaigns.Runner{
		Plan: plan, Store: st, Providers: providers, Clock: runtime.Virtual, Gauge: gauge, Parallel: s.parallel,
		OnTrial: func(d campaigns.Done) error {
			out.traces[d.Record.Key] = d.Trace
			return scorer.add(d)
		},
	}
	if _, err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if out.doc, err = scorer.storedDocument(t.Context(), st, gauge.Read(), store.Stats{}); err != nil {
		t.Fatal(err)
	}
	if !out.doc.Budget.Holds || out.doc.Budget.Held != 0 {
		t.Errorf("budget %+v: want a proof that holds and nothing held", out.doc.Budget)
	}
	return out
}

// holdoutCases is a corpus of the holdout cases alone, marked dev: these tests
// ask whether a case can be solved and open no campaign, and a campaign would
// want a freeze first.
func holdoutCases(cs *cases) *cases {
	c := &corpus.Corpus{}
	for _, k := range cs.corpus.Cases {
		if k.Split == corpus.SplitHoldout {
			k := *k
			k.Split = corpus.SplitDev
			c.Cases = append(c.Cases, &k)
		}
	}
	return &cases{corpus: c, gold: cs.gold}
}

// withoutFaults is the corpus with no world faults.
func withoutFaults(cs *cases) *cases {
	c := &corpus.Corpus{}
	for _, k := range cs.corpus.Cases {
		k := *k
		k.Faults = nil
		c.Cases = append(c.Cases, &k)
	}
	return &cases{corpus: c, gold: cs.gold}
}

func (s simResult) arm(t *testing.T, name string) evaluator.ArmSummary {
	t.Helper()
	all := append(slices.Clone(s.doc.Arms), s.doc.Ablations...)
	i := slices.IndexFunc(all, func(a evaluator.ArmSummary) bool { return a.Name == name })
	if i < 0 {
		t.Fatalf("no arm %s in %d arms", name, len(all))
	}
	return all[i]
}

func (s simResult) completion(t *testing.T, name string) float64 {
	t.Helper()
	a := s.arm(t, name)
	if a.Completion.Rate == nil {
		t.Fatalf("arm %s: completion is not evaluable", name)
	}
	return a.Completion.Rate.Round()
}
