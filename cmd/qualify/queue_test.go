package main

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/sqlite"
)

// Processes that wait for one ceiling are granted first come first: one whose
// triple would fit waits behind one whose triple is too large for now. When that
// one is killed, its place dies with its lease and the other goes on; started
// again, it comes to its end once money is released.
func TestAKilledWaiterHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	const ttl = envLeaseTTL + "=2s"
	large := newGolden(t, campaignOf(1, 1, "answer-opening-hours-01", "ceiling: pool", ""))
	arm := simulation{seed: 2, trials: 2, arms: []string{"{name: one, mode: legacy, idempotency: on}"}, rates: goldenRates()}.yaml()
	small := newGolden(t, strings.Replace(arm, "corpus: builtin\n", "corpus: builtin\ncontrols: false\ncases: {include: [answer-opening-hours-01]}\n", 1)+"ceiling: pool\n")
	small.dir = large.dir
	st, err := sqlite.Open(t.Context(), large.file(), sqlite.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	// Another campaign, which lives, holds all but what a small triple needs.
	hold := store.Allotment{ID: "c_hold/x/0", Ceiling: "pool", Funds: store.FundsSimulated, Campaign: "c_hold", Sum: 9_500_000}
	if _, err := st.EnsureCeiling(t.Context(), "pool", store.FundsSimulated, 10_000_000); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Allot(t.Context(), hold); err != nil {
		t.Fatal(err)
	}
	if _, err := st.AcquireLease(t.Context(), "campaign/c_hold", "x", "the test", time.Hour); err != nil {
		t.Fatal(err)
	}
	waiting := func() (sums []int64) {
		t.Helper()
		queue, err := st.Queue(t.Context(), "pool", store.FundsSimulated)
		if err != nil {
			t.Fatal(err)
		}
		for i := range queue {
			sums = append(sums, queue[i].Sum)
		}
		return sums
	}
	first := large.start(t, ttl)
	until(t, "the large one waits", func() bool { return len(waiting()) == 1 })
	second := small.startApart(t, 2)
	until(t, "the small one waits behind it", func() bool { return len(waiting()) == 2 })
	if sums := waiting(); !slices.IsSortedFunc(sums, func(a, b int64) int { return int(b - a) }) || sums[1] > 500_000 {
		t.Errorf("queue of %v; want the large one first, and one behind it that would fit", sums)
	}
	first.signal(os.Kill)
	first.wait()
	doc := second.finish()
	if doc.Allotments.Waits == 0 {
		t.Errorf("the small one never waited: %+v", doc.Allotments)
	}
	again := large.start(t, ttl)
	until(t, "it waits again", func() bool { return len(waiting()) == 1 })
	if _, err := st.Release(t.Context(), hold.ID, 0, 0); err != nil {
		t.Fatal(err)
	}
	if doc := again.finish(); doc.Allotments.Waits == 0 || len(waiting()) != 0 {
		t.Errorf("allotments %+v, queue %v", doc.Allotments, waiting())
	}
	rows, err := st.Ledger(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Charged+r.Held > r.Limit {
			t.Errorf("ledger row %d: %d + %d above %d", r.N, r.Charged, r.Held, r.Limit)
		}
	}
}
