package main

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
)

// R45: the three modes, the simulated world and the owners of the built-in cases
// go on from their snapshots as if nothing had happened: rooms that store a
// snapshot wherever they can, and whose process dies at each of them, leave the
// rows, operations and effects of rooms that did neither.
func TestR45_EveryModeGoesOnFromItsSnapshots(t *testing.T) {
	t.Parallel()
	sim := simulation{
		seed: 11, cases: []string{"*-01"},
		rates: map[string]string{
			"skip_step": "0.15", "wrong_argument": "0.1", "early_claim": "0.2", "malformed_json": "0.05", "missing_usage": "0.05",
			"lost_reply": "0.06", "plan_fault": "0.1", "passes_bad": "0.2", "fails_good": "0.1",
		},
	}
	plan := sim.run(t).plan
	cs, err := new(app).loadCases(builtinName, ".")
	if err != nil {
		t.Fatal(err)
	}
	died := errors.New("the process died")
	snapshots, restarts := 0, 0
	// play runs a seat's room to its close, process after process.
	play := func(s campaigns.Seat, snaps int64, die bool) *store.Loaded {
		providers, err := simulatedProviders(plan, cs, &model.MemoryJournal{})
		if err != nil {
			t.Fatal(err)
		}
		provider, err := providers(campaigns.ProviderKey{Seed: plan.Seed, Case: s.Case.ID, Trial: s.Index, Salt: s.Arm.Name})
		if err != nil {
			t.Fatal(err)
		}
		l := s.Case.Room.Limits
		cfg := runtime.Config{
			Folds: plan.Folds(s), Store: memory.New(memory.Options{}), Room: plan.Room(s), Salt: []byte("salt"), Funds: plan.Funds,
			Provider: provider, Prices: plan.Prices, Model: plan.Model, Params: plan.Params, MaxOutputTokens: plan.MaxOutput,
			Limits:   runtime.Limits{BudgetMicros: int64(l.Budget), ModelCalls: l.ModelCalls, ToolCalls: l.ToolCalls, Minutes: l.Minutes},
			SendKeys: s.Arm.Idempotency, SnapshotBytes: snaps,
			Crash: &runtime.Crash{Hook: func(p runtime.Point) error {
				if p != runtime.AfterSnapshot {
					return nil
				}
				snapshots++
				if die {
					return died
				}
				return nil
			}},
		}
		for {
			res, err := runtime.Run(t.Context(), cfg)
			if errors.Is(err, died) {
				restarts++
				continue
			}
			if err != nil || res.SnapshotUnused != "" {
				t.Fatalf("%s: %v, unused: %s", s.Key(), err, res.SnapshotUnused)
			}
			break
		}
		if _, err := runtime.Replay(t.Context(), cfg.Store, cfg.Room, cfg.Folds); err != nil {
			t.Errorf("%s: %v", s.Key(), err)
		}
		loaded, err := cfg.Store.Load(t.Context(), cfg.Room)
		if err != nil {
			t.Fatal(err)
		}
		if loaded.Rows, err = cfg.Store.Rows(t.Context(), cfg.Room, -1, 0); err != nil {
			t.Fatal(err)
		}
		return loaded
	}
	for _, s := range plan.Seats() {
		if s.Control() {
			continue
		}
		if diff := cmp.Diff(play(s, 1<<40, false), play(s, 1, true)); diff != "" {
			t.Errorf("%s (-undisturbed +from snapshots):\n%s", s.Key(), diff)
		}
	}
	t.Logf("%d snapshots, %d restarts", snapshots, restarts)
	if snapshots < 30 || restarts != snapshots {
		t.Errorf("%d snapshots, %d restarts", snapshots, restarts)
	}
}
