package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/agentrooms/qualify/engine/store"
)

// A file of schema 2 gets the running sums of the allotments it holds, and goes
// on from them.
func TestMigrationFillsTheRunningSums(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.db")
	steps, err := builtinMigrations()
	must(t, err)
	old, err := open(t.Context(), path, Options{Create: true}, steps[:2])
	must(t, err)
	closeStore(t, old)
	raw(t, path, `INSERT INTO ceiling VALUES ('main', 'simulated', 1000, 30, 75, 105, 0, '[]'), ('main', 'real', 1000, 0, 9, 9, 0, '[]')`)
	raw(t, path, `INSERT INTO allotment (id, ceiling, funds, campaign, amount, campaign_cap, released, charged, kept) VALUES
  ('c/0', 'main', 'simulated', 'c', 100, 0, 1, 30, 5), ('c/1', 'main', 'simulated', 'c', 50, 0, 0, 0, 0),
  ('d/0', 'main', 'simulated', 'd', 20, 0, 0, 0, 0), ('c/r', 'main', 'real', 'c', 9, 0, 0, 0, 0)`)
	s, err := open(t.Context(), path, Options{Migrate: true}, steps[:3])
	must(t, err)
	defer closeStore(t, s)
	weights := func() [4]int64 {
		t.Helper()
		var out [4]int64
		for i, k := range []struct {
			campaign string
			funds    store.Funds
		}{{"c", store.FundsSimulated}, {"c", store.FundsReal}, {"d", store.FundsSimulated}, {"e", store.FundsSimulated}} {
			out[i], err = s.CampaignWeight(t.Context(), k.campaign, k.funds)
			must(t, err)
		}
		return out
	}
	if got, want := weights(), [4]int64{85, 9, 20, 0}; got != want {
		t.Errorf("after the migration %v, want %v", got, want)
	}
	_, err = s.Release(t.Context(), "c/1", 7, 1)
	must(t, err)
	_, err = s.Allot(t.Context(), store.Allotment{ID: "e/0", Ceiling: "main", Funds: store.FundsSimulated, Campaign: "e", Sum: 4})
	must(t, err)
	if got, want := weights(), [4]int64{43, 9, 20, 4}; got != want {
		t.Errorf("afterwards %v, want %v", got, want)
	}
}

// What one process has found out about its lease does not outlast the moment at
// which another takes it over, nor a batch that was undone.
func TestAFenceIsJudgedAgainWhenAnotherProcessWrites(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.db")
	mine, yours := mustOpen(t, path, Options{Create: true}), mustOpen(t, path, Options{})
	const name = "campaign/c"
	fenced := func(token string) context.Context {
		return store.WithFence(t.Context(), store.Fence{Name: name, Token: token})
	}
	seal := func(s *Store, token string) error {
		_, err := s.AppendSeal(fenced(token), token, nil)
		return err
	}
	for round := range 5 {
		a, b := fmt.Sprint("a", round), fmt.Sprint("b", round)
		_, err := mine.AcquireLease(t.Context(), name, a, "me", time.Hour)
		must(t, err)
		for range 3 {
			must(t, seal(mine, a))
		}
		if err := seal(yours, b); !errors.Is(err, store.ErrLeaseLost) {
			t.Fatalf("round %d: before the take-over: %v", round, err)
		}
		must(t, mine.ReleaseLease(t.Context(), name, a))
		_, err = yours.AcquireLease(t.Context(), name, b, "you", time.Hour)
		must(t, err)
		for range 2 {
			if err := seal(mine, a); !errors.Is(err, store.ErrLeaseLost) {
				t.Fatalf("round %d: after the take-over: %v", round, err)
			}
			must(t, seal(yours, b))
		}
		must(t, yours.ReleaseLease(t.Context(), name, b))
	}
	// A lease that a batch took before it was undone counts for nothing.
	undone := errors.New("undone")
	err := mine.write(t.Context(), "undone", false, func(ctx context.Context, w *writer) error {
		if err := w.putLease(ctx, store.Lease{Name: name, Token: "x", Owner: "x", Generation: 99, ExpiresAt: time.Now().Add(time.Hour)}); err != nil {
			return err
		}
		if err := w.judge(ctx, &request{what: "x", fenced: true, fence: store.Fence{Name: name, Token: "x"}}); err != nil {
			return err
		}
		return &fault{undone}
	})
	if !errors.Is(err, undone) {
		t.Fatal(err)
	}
	if err := seal(mine, "x"); !errors.Is(err, store.ErrLeaseLost) {
		t.Errorf("under a lease that was undone: %v", err)
	}
}
