package simulated_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/corpus/gold"
	"github.com/agentrooms/qualify/corpus/world"
	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/model/simulated"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/trace"
	"github.com/agentrooms/qualify/modes"
	"github.com/agentrooms/qualify/modes/legacy"
	"github.com/agentrooms/qualify/modes/planner"
	"github.com/agentrooms/qualify/modes/selective"
)

var arms = []modes.Mode{legacy.Mode{}, selective.Mode{}, planner.Mode{}}

// oracleOf adapts gold as cmd does.
func oracleOf(c *corpus.Case, g *gold.Gold) simulated.Oracle {
	o := simulated.Oracle{NeedsPlan: g.NeedsPlan, Messages: map[string]string{}, Tools: map[string]string{}}
	for _, k := range c.Room.Criteria {
		o.Criteria = append(o.Criteria, k.ID)
	}
	for _, t := range c.Tools {
		o.Tools[t.Name] = t.Action
	}
	for _, m := range c.Owner.Messages {
		o.Messages[m.ID] = m.Text
	}
	for _, m := range c.Owner.Corrections {
		o.Messages[m.ID] = m.Text
	}
	for _, s := range g.Solution {
		st := simulated.Step{
			ID: s.ID, By: s.By, Tool: s.Call, Say: s.Say, After: s.After, Meets: s.Meets, Report: s.Report, Since: s.Since, Until: s.Until,
		}
		if !s.Final() {
			st.Args = []byte(s.Args)
		}
		if s.Artifact != nil {
			st.Artifact = &engine.ArtifactText{Name: s.Artifact.Name, Text: s.Artifact.Text}
		}
		o.Steps = append(o.Steps, st)
	}
	return o
}

// trial is one room to run.
type trial struct {
	c      *corpus.Case
	g      *gold.Gold
	mode   modes.Mode
	rates  simulated.Rates
	seed   uint64
	keys   bool
	faults bool
	salt   string
}

type finished struct {
	score evaluator.TrialScore
	trace *trace.Trace
	fault string
}

func (tr trial) run(t *testing.T) finished {
	t.Helper()
	c := *tr.c
	if !tr.faults {
		c.Faults = nil
	}
	p, err := simulated.New(simulated.Config{
		Key:    simulated.Key{Seed: tr.seed, Case: c.ID, Salt: tr.salt},
		Oracle: oracleOf(&c, tr.g), Rates: tr.rates, Latency: simulated.Latency{MedianMS: 1800, P95MS: 6000}, Journal: &model.MemoryJournal{},
	})
	if err != nil {
		t.Fatal(err)
	}
	prices, err := model.ParsePrices(map[string]model.PriceText{"sim-1": {RatesText: model.RatesText{Input: "2.50", CachedRead: "1.25", CacheWrite5m: "3.125", CacheWrite1h: "5.00", Output: "10.00", Reasoning: "10.00"}}})
	if err != nil {
		t.Fatal(err)
	}
	l := c.Room.Limits
	st := memory.New(memory.Options{})
	room := fmt.Sprintf("%s/%s/%d", c.ID, tr.salt, tr.seed)
	cfg := runtime.Config{
		Folds: runtime.Folds{
			Name:    room,
			Machine: func() (engine.Machine, error) { return tr.mode.New(c.RoomSpec(nil)) },
			World:   func() (engine.World, error) { return world.New(&c, tr.seed) },
			Owner: func(w engine.World) (engine.Owner, error) {
				ww, ok := w.(*world.World)
				if !ok {
					return nil, fmt.Errorf("world is a %T", w)
				}
				return world.NewOwner(&c, ww)
			},
		},
		Store: st, Room: room, Salt: []byte("salt"), Funds: store.FundsSimulated, Provider: p, Prices: prices, Model: "sim-1", MaxOutputTokens: 800,
		Limits:   runtime.Limits{BudgetMicros: int64(l.Budget), ModelCalls: l.ModelCalls, ToolCalls: l.ToolCalls, Minutes: l.Minutes},
		SendKeys: tr.keys, Clock: runtime.Virtual,
	}
	res, err := runtime.Run(t.Context(), cfg)
	if err != nil {
		t.Fatalf("%s: %v", room, err)
	}
	log, err := runtime.Replay(t.Context(), st, room, cfg.Folds)
	if err != nil {
		t.Fatalf("%s: %v", room, err)
	}
	kinds := map[string]string{}
	for _, f := range c.Faults {
		kinds[f.ID] = f.Kind
	}
	b, err := campaigns.Export(trace.Header{
		Schema: trace.Schema, Campaign: "sha256:x", Arm: tr.mode.Name(), Mode: tr.mode.Name(), Case: c.ID, Family: c.Family, Split: c.Split,
		Evidence: "simulated", Clock: "virtual", Model: "sim-1",
	}, log, kinds)
	if err != nil {
		t.Fatalf("%s: %v", room, err)
	}
	tc, err := trace.Read(bytes.NewReader(b))
	if err != nil {
		t.Fatalf("%s: %v", room, err)
	}
	score, err := evaluator.ScoreTrial(tc, evaluator.CaseFacts{Faults: kinds}, tr.g)
	if err != nil {
		t.Fatalf("%s: %v", room, err)
	}
	return finished{score: score, trace: tc, fault: res.Fault}
}

type pair struct {
	c *corpus.Case
	g *gold.Gold
}

func builtin(t *testing.T) []pair {
	t.Helper()
	c, err := corpus.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	gs, err := gold.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	var out []pair
	for _, k := range c.Cases {
		g, ok := gs.Get(k.ID)
		if !ok {
			t.Fatalf("case %s has no gold", k.ID)
		}
		out = append(out, pair{k, g})
	}
	return out
}

// With all rates 0 and the world's faults off, every arm completes every case,
// without a correction, a duplicate or an effect that nobody wanted.
func TestFairness_AllRightScoresOneEverywhere(t *testing.T) {
	t.Parallel()
	for _, k := range builtin(t) {
		for _, m := range arms {
			f := trial{c: k.c, g: k.g, mode: m, salt: m.Name()}.run(t)
			t.Logf("%s %s: %s %s calls=%d tools", k.c.ID, m.Name(), f.score.Termination, f.score.Outcome, len(f.trace.Ops))
			if f.score.Outcome != evaluator.ClaimedMet || f.fault != "" {
				t.Errorf("%s, %s: %s, %s %s; %+v", k.c.ID, m.Name(), f.score.Outcome, f.score.Termination, f.fault, f.score.Criteria)
			}
		}
	}
}
