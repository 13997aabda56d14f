package campaigns

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine/store"
)

// slowRelease lets time pass before an allotment is returned, so that whoever may
// draw in the meantime does.
type slowRelease struct{ store.Store }

// Release implements store.Records.
func (s slowRelease) Release(ctx context.Context, id string, charged, keep int64) (store.Allotment, error) {
	time.Sleep(2 * time.Millisecond)
	return s.Store.Release(ctx, id, charged, keep)
}

// TestR62_WithOnePlaceTheLedgerIsTheSameEachTime: a triple returns what it did not
// spend before the next one draws, whichever goroutine comes first.
func TestR62_WithOnePlaceTheLedgerIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	ledger := func(wrap func(store.Store) store.Store) []store.LedgerRow {
		t.Helper()
		var calls atomic.Int64
		st := memStore(t)
		got := runTalk(t.Context(), t, talkPlan(t, "50"), wrap(st), &calls, func(r *Runner) { r.Parallel = 1 })
		if got.err != nil {
			t.Fatal(got.err)
		}
		rows, err := st.Ledger(t.Context(), 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		return rows
	}
	want := ledger(func(st store.Store) store.Store { return st })
	for _, r := range want {
		if r.Kind == "allot" && r.Held != r.DeltaHeld {
			t.Errorf("row %d draws while another allotment is held: %+v", r.N, r)
		}
	}
	if diff := cmp.Diff(want, ledger(func(st store.Store) store.Store { return slowRelease{st} })); diff != "" {
		t.Errorf("with slow releases (-quick +slow):\n%s", diff)
	}
}
