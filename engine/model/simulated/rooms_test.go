package simulated_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
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

	room    string // "" for one of its own
	instant bool   // every call takes no time
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
	latency := simulated.Latency{MedianMS: 1800, P95MS: 6000}
	if tr.instant {
		latency = simulated.Latency{}
	}
	p, err := simulated.New(simulated.Config{
		Key:    simulated.Key{Seed: tr.seed, Case: c.ID, Salt: tr.salt},
		Oracle: oracleOf(&c, tr.g), Rates: tr.rates, Latency: latency, Journal: &model.MemoryJournal{},
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
	room := tr.room
	if room == "" {
		room = fmt.Sprintf("%s/%s/%d", c.ID, tr.salt, tr.seed)
	}
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

// demo is the noise of the built-in campaign.
func demo(change func(*simulated.Rates)) simulated.Rates {
	r := simulated.Rates{
		SkipStep: 100_000, WrongArgument: 80_000, EarlyClaim: 150_000, MalformedJSON: 30_000, MissingUsage: 20_000, LostReply: 10_000,
		RetryAfterUnknown: 500_000, PlanFault: 80_000, PassesBad: 150_000, FailsGood: 50_000,
	}
	change(&r)
	return r
}

const always simulated.Rate = 1_000_000

// With all rates 0 and the world's faults off, every arm completes every case,
// without an effect too many; legacy is the cheapest.
func TestFairness_AllRightScoresOneInEveryArm(t *testing.T) {
	t.Parallel()
	cost := map[string]int64{}
	for _, k := range builtin(t) {
		for _, m := range arms {
			f := trial{c: k.c, g: k.g, mode: m, salt: m.Name()}.run(t)
			if f.score.Outcome != evaluator.ClaimedMet || f.score.Termination != runtime.Completed {
				t.Errorf("%s, %s: %s, %s %s; %+v", k.c.ID, m.Name(), f.score.Outcome, f.score.Termination, f.fault, f.score.Criteria)
			}
			if e := f.score.Effects; *e.Duplicates+*e.Collateral > 0 {
				t.Errorf("%s, %s: %d duplicate and %d collateral effects", k.c.ID, m.Name(), *e.Duplicates, *e.Collateral)
			}
			cost[m.Name()] += f.score.Cost.Charged
		}
	}
	if cost["legacy"] >= cost["selective"] || cost["legacy"] >= cost["planner"] {
		t.Errorf("nothing went wrong, and legacy is not the cheapest: %v", cost)
	}
}

// Renaming an arm changes nothing but the draws: with nothing to draw, the
// traces of one room under two salts are equal to the last byte.
func TestFairness_RenamingAnArmChangesOnlyDraws(t *testing.T) {
	t.Parallel()
	for _, k := range builtin(t)[:4] {
		for _, m := range arms {
			tr := trial{c: k.c, g: k.g, mode: m, salt: "a", room: "one-room", instant: true, faults: true}
			a := tr.run(t)
			tr.salt = "b"
			if b := tr.run(t); a.trace.Digest() != b.trace.Digest() {
				t.Errorf("%s, %s: two names, two traces", k.c.ID, m.Name())
			}
			tr.rates, tr.seed = demo(func(r *simulated.Rates) { r.EarlyClaim = always / 2 }), 5
			b := tr.run(t)
			tr.salt = "a"
			if a = tr.run(t); a.trace.Digest() == b.trace.Digest() && len(a.trace.Ops) > 4 {
				t.Errorf("%s, %s: two names draw the same", k.c.ID, m.Name())
			}
		}
	}
}

// With a reviewer that rejects everything the planner claims nothing that was
// planned. An ordinary question is answered without a plan, hence without a
// review.
func TestFairness_RejectingReviewerLetsNothingPass(t *testing.T) {
	t.Parallel()
	for _, k := range builtin(t) {
		f := trial{
			c: k.c, g: k.g, mode: planner.Mode{}, salt: "planner", faults: true, keys: true,
			rates: simulated.Rates{FailsGood: always},
		}.run(t)
		planned := f.score.Calls[string(engine.OpReview)] > 0
		if planned == f.score.Claimed || planned != (f.score.Claims == 0) {
			t.Errorf("%s: planned %v, %d claims, %s", k.c.ID, planned, f.score.Claims, f.score.Termination)
		}
		if k.g.NeedsPlan && !planned {
			t.Errorf("%s needs a plan and was never reviewed", k.c.ID)
		}
	}
}

// With a reviewer that passes everything, and without early claims, the planner
// has no edge over selective: at most 0.05 apart (2,000 trials an arm with
// QUALIFY_LONG, where chance adds little; fewer otherwise, with the width of
// three standard errors granted). What early claims add is named in
// docs/decisions/2026-11-30-planner-edge-without-review.md and logged here.
func TestFairness_NoReviewNoEdge(t *testing.T) {
	t.Parallel()
	seeds, long := 2, os.Getenv("QUALIFY_LONG") != ""
	if long {
		seeds = 143 // times 14 cases
	}
	passes := func(r *simulated.Rates) { r.PassesBad, r.FailsGood, r.EarlyClaim, r.PlanFault = always, 0, 0, 0 }
	rate, n := completion(t, seeds, demo(passes))
	gap := rate["planner"] - rate["selective"]
	allowed := 0.05
	if !long {
		allowed += 3 * math.Sqrt(2*0.25/float64(n))
	}
	t.Logf("without early claims, %d trials an arm: %v", n, rate)
	if math.Abs(gap) > allowed {
		t.Errorf("planner and selective are %.3f apart in %d trials, allowed %.3f", gap, n, allowed)
	}
	if long {
		rate, n = completion(t, seeds, demo(func(r *simulated.Rates) { r.PassesBad, r.FailsGood = always, 0 }))
		t.Logf("with early claims, %d trials an arm: %v", n, rate)
	}
}

// completion is the share of trials in which the world is as it should be.
func completion(t *testing.T, seeds int, rates simulated.Rates) (map[string]float64, int) {
	t.Helper()
	out, n := map[string]float64{}, 0
	for _, m := range []modes.Mode{selective.Mode{}, planner.Mode{}} {
		met := 0
		n = 0
		for _, k := range builtin(t) {
			for seed := range seeds {
				f := trial{c: k.c, g: k.g, mode: m, salt: m.Name(), rates: rates, seed: uint64(seed), faults: true, keys: true}.run(t)
				if f.fault != "" {
					t.Fatalf("%s, %s, seed %d: %s", k.c.ID, m.Name(), seed, f.fault)
				}
				n++
				if f.score.Outcome == evaluator.ClaimedMet || f.score.Outcome == evaluator.UnclaimedMet {
					met++
				}
			}
		}
		out[m.Name()] = float64(met) / float64(n)
	}
	return out, n
}
