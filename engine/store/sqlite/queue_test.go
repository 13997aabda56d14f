package sqlite

import (
	"path/filepath"
	"testing"

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
