package storetest

import (
	"errors"
	"fmt"
	"testing"

	"github.com/agentrooms/qualify/engine/store"
)

var ceilingCases = []testCase{
	{"R40_GrantSetsTheTotal", testGrant},
	{"FundsDoNotMix", testFundsDoNotMix},
	{"AllotAndRelease", testAllot},
	{"F1_FourConcurrentDraws", testFieldReport1},
	{"F3_CancelledReservationsDoNotPileUp", testFieldReport3},
	{"R39_OverrunOfAnAllotmentHaltsTheCeiling", testCeilingOverrun},
	{"CampaignCap", testCampaignCap},
	{"LedgerHoldsAtEveryRow", testLedger},
}

const sim = store.FundsSimulated

func allotment(id string, sum int64) store.Allotment {
	return store.Allotment{ID: id, Ceiling: "main", Funds: sim, Campaign: "c", Sum: sum}
}

func ceiling(t *testing.T, s store.Store, limit int64) {
	t.Helper()
	must[store.Ceiling](t, "ceiling")(s.EnsureCeiling(t.Context(), "main", sim, limit))
}

func theCeiling(t *testing.T, s store.Store) store.Ceiling {
	t.Helper()
	for _, c := range must[[]store.Ceiling](t, "ceilings")(s.Ceilings(t.Context())) {
		if c.Name == "main" && c.Funds == sim {
			return c
		}
	}
	t.Fatal("no ceiling")
	return store.Ceiling{}
}

func testGrant(t *testing.T, s store.Store) {
	ctx := t.Context()
	_, err := s.Grant(ctx, "main", sim, 5, nil)
	wants(t, "grant without a ceiling", store.ErrNotFound, err)
	ceiling(t, s, 1000)
	equal(t, "an existing ceiling keeps its limit", int64(1000), must[store.Ceiling](t, "ensure")(s.EnsureCeiling(ctx, "main", sim, 5)).Limit)
	must[store.Allotment](t, "allot")(s.Allot(ctx, allotment("a", 700)))
	must[store.Allotment](t, "release")(s.Release(ctx, "a", 700, 0))
	must[store.Allotment](t, "allot")(s.Allot(ctx, allotment("b", 200)))
	c := must[store.Ceiling](t, "grant")(s.Grant(ctx, "main", sim, 1500, nil))
	equal(t, "after the grant", store.Ceiling{Name: "main", Funds: sim, Limit: 1500, Charged: 700, Held: 200, MaxSum: 900}, c)
	equal(t, "available", int64(600), c.Available())
	_, err = s.Grant(ctx, "main", sim, 899, nil)
	wants(t, "below spent", store.ErrBelowSpent, err)
	equal(t, "equal to spent", int64(0), must[store.Ceiling](t, "grant")(s.Grant(ctx, "main", sim, 900, nil)).Available())
	_, err = s.Grant(ctx, "main", sim, 900, []string{"a"})
	wants(t, "acknowledge what did not happen", store.ErrNotFound, err)
}

func testFundsDoNotMix(t *testing.T, s store.Store) {
	ctx := t.Context()
	ceiling(t, s, 1000)
	must[store.Ceiling](t, "ceiling")(s.EnsureCeiling(ctx, "main", store.FundsReal, 50))
	a := allotment("a", 60)
	a.Funds = store.FundsReal
	_, err := s.Allot(ctx, a)
	wants(t, "real money is not there", store.ErrExhausted, err)
	a.Sum = 50
	must[store.Allotment](t, "allot")(s.Allot(ctx, a))
	list := must[[]store.Ceiling](t, "ceilings")(s.Ceilings(ctx))
	equal(t, "ceilings", []store.Ceiling{
		{Name: "main", Funds: store.FundsReal, Limit: 50, Held: 50, MaxSum: 50}, {Name: "main", Funds: sim, Limit: 1000},
	}, list)
	_, err = s.EnsureCeiling(ctx, "x", "play", 5)
	wants(t, "unknown funds", store.ErrInvalid, err)
	a.ID, a.Ceiling = "b", "none"
	_, err = s.Allot(ctx, a)
	wants(t, "no ceiling", store.ErrNotFound, err)
}

func testAllot(t *testing.T, s store.Store) {
	ctx := t.Context()
	ceiling(t, s, 100)
	a := allotment("a", 100) // equality is admitted
	equal(t, "allotment", a, must[store.Allotment](t, "allot")(s.Allot(ctx, a)))
	equal(t, "equal repeat", a, must[store.Allotment](t, "allot")(s.Allot(ctx, a)))
	b := a
	b.Sum = 99
	_, err := s.Allot(ctx, b)
	wants(t, "different repeat", store.ErrExists, err)
	_, err = s.Allot(ctx, allotment("b", 1))
	wants(t, "exhausted", store.ErrExhausted, err)
	_, err = s.Allot(ctx, allotment("z", 0))
	wants(t, "no sum", store.ErrInvalid, err)
	_, err = s.Release(ctx, "none", 0, 0)
	wants(t, "release", store.ErrNotFound, err)
	for _, bad := range [][2]int64{{-1, 0}, {0, -1}, {0, 101}} {
		_, err = s.Release(ctx, "a", bad[0], bad[1])
		wants(t, fmt.Sprint("release ", bad), store.ErrInvalid, err)
	}
	a.Released, a.Charged, a.Kept = true, 40, 25
	for range 2 {
		equal(t, "released", a, must[store.Allotment](t, "release")(s.Release(ctx, "a", 40, 25)))
		equal(t, "ceiling", store.Ceiling{Name: "main", Funds: sim, Limit: 100, Charged: 40, Held: 25, MaxSum: 100}, theCeiling(t, s))
	}
	_, err = s.Release(ctx, "a", 41, 25)
	wants(t, "release otherwise", store.ErrConflict, err)
	equal(t, "equal repeat after release", a, must[store.Allotment](t, "allot")(s.Allot(ctx, allotment("a", 100))))
	b = allotment("b", 35)
	b.Campaign = "d"
	must[store.Allotment](t, "the rest")(s.Allot(ctx, b))
	equal(t, "allotments of c", []store.Allotment{a}, must[[]store.Allotment](t, "list")(s.Allotments(ctx, "c")))
}

func testFieldReport1(t *testing.T, s store.Store) {
	ctx := t.Context()
	ceiling(t, s, 5_000_000)
	must[store.Allotment](t, "allot")(s.Allot(ctx, allotment("before", 4_752_720)))
	must[store.Allotment](t, "release")(s.Release(ctx, "before", 4_752_720, 0))
	admitted := 0
	for _, err := range together(4, func(i int) error {
		_, err := s.Allot(ctx, allotment(fmt.Sprint("a", i), 88_400))
		return err
	}) {
		if err == nil {
			admitted++
		} else {
			wants(t, "draw", store.ErrExhausted, err)
		}
	}
	equal(t, "admitted", 2, admitted)
	equal(t, "charged and held", int64(4_929_520), theCeiling(t, s).Charged+theCeiling(t, s).Held)
	checkLedger(t, s)
}

func testFieldReport3(t *testing.T, s store.Store) {
	ctx := t.Context()
	ceiling(t, s, 25_000_000)
	for i := range 10 {
		must[store.Allotment](t, "allot")(s.Allot(ctx, allotment(fmt.Sprint(i), 2_500_000)))
	}
	_, err := s.Allot(ctx, allotment("11", 2_500_000))
	wants(t, "while all are held", store.ErrExhausted, err)
	for i := range 10 {
		must[store.Allotment](t, "release")(s.Release(ctx, fmt.Sprint(i), 0, 0))
	}
	must[store.Allotment](t, "after all were cancelled")(s.Allot(ctx, allotment("11", 2_500_000)))
	checkLedger(t, s)
}

func testCeilingOverrun(t *testing.T, s store.Store) {
	ctx := t.Context()
	ceiling(t, s, 100)
	must[store.Allotment](t, "allot")(s.Allot(ctx, allotment("a", 100)))
	must[store.Allotment](t, "release")(s.Release(ctx, "a", 110, 20))
	c := theCeiling(t, s)
	equal(t, "ceiling", store.Ceiling{
		Name: "main", Funds: sim, Limit: 100, Charged: 110, Held: 20, MaxSum: 130, Halted: true, Overruns: []string{"a"},
	}, c)
	checkLedger(t, s)
	_, err := s.Allot(ctx, allotment("b", 1))
	wants(t, "halted", store.ErrHalted, err)
	equal(t, "more money alone", true, must[store.Ceiling](t, "grant")(s.Grant(ctx, "main", sim, 500, nil)).Halted)
	_, err = s.Allot(ctx, allotment("b", 1))
	wants(t, "still halted", store.ErrHalted, err)
	c = must[store.Ceiling](t, "grant")(s.Grant(ctx, "main", sim, 500, []string{"a"}))
	equal(t, "acknowledged", store.Ceiling{Name: "main", Funds: sim, Limit: 500, Charged: 110, Held: 20, MaxSum: 130}, c)
	must[store.Allotment](t, "allot")(s.Allot(ctx, allotment("b", 1)))
	var kinds []string
	for _, r := range must[[]store.LedgerRow](t, "ledger")(s.Ledger(ctx, 0, 0)) {
		kinds = append(kinds, r.Kind+" "+r.Ref)
	}
	equal(t, "ledger", []string{"ceiling ", "allot a", "release a", "overrun a", "grant ", "grant ", "ack a", "allot b"}, kinds)
}

func testCampaignCap(t *testing.T, s store.Store) {
	ctx := t.Context()
	ceiling(t, s, 1000)
	capped := func(id string, sum int64) store.Allotment {
		a := allotment(id, sum)
		a.CampaignCap = 100
		return a
	}
	must[store.Allotment](t, "a")(s.Allot(ctx, capped("a", 60)))
	_, err := s.Allot(ctx, capped("b", 41))
	wants(t, "past the cap", store.ErrExhausted, err)
	other := capped("other", 100)
	other.Campaign = "d"
	must[store.Allotment](t, "another campaign")(s.Allot(ctx, other))
	must[store.Allotment](t, "release")(s.Release(ctx, "a", 10, 5))
	_, err = s.Allot(ctx, capped("b", 86))
	wants(t, "past charged and kept", store.ErrExhausted, err)
	must[store.Allotment](t, "up to the cap")(s.Allot(ctx, capped("b", 85)))
	must[store.Allotment](t, "no cap")(s.Allot(ctx, allotment("c", 500)))
}

func testLedger(t *testing.T, s store.Store) {
	ctx := t.Context()
	ceiling(t, s, 1000)
	for i := range 12 {
		id := fmt.Sprint(i)
		if _, err := s.Allot(ctx, allotment(id, int64(100+i*30))); errors.Is(err, store.ErrExhausted) {
			must[store.Ceiling](t, "grant")(s.Grant(ctx, "main", sim, 5000, nil))
			must[store.Allotment](t, "allot")(s.Allot(ctx, allotment(id, int64(100+i*30))))
		} else if err != nil {
			t.Fatal(err)
		}
		if i%2 == 1 {
			must[store.Allotment](t, "release")(s.Release(ctx, id, int64(40+i), int64(i)))
		}
	}
	checkLedger(t, s)
	all := must[[]store.LedgerRow](t, "ledger")(s.Ledger(ctx, 0, 0))
	equal(t, "page", all[3:7], must[[]store.LedgerRow](t, "ledger")(s.Ledger(ctx, 3, 4)))
	equal(t, "tail", all[5:], must[[]store.LedgerRow](t, "ledger")(s.Ledger(ctx, 5, 0)))
	equal(t, "past the end", nil, must[[]store.LedgerRow](t, "ledger")(s.Ledger(ctx, int64(len(all)), 0)))
}

// checkLedger recomputes the accounts from the rows: numbers have no gap, each
// row follows from the one before, and charged+held passes the limit by no
// more than the overruns so far.
func checkLedger(t *testing.T, s store.Store) {
	t.Helper()
	rows := must[[]store.LedgerRow](t, "ledger")(s.Ledger(t.Context(), 0, 0))
	if err := ledgerError(0, rows); err != nil {
		t.Fatal(err)
	}
	last := map[string]store.LedgerRow{}
	for _, r := range rows {
		last[r.Ceiling+"/"+string(r.Funds)] = r
	}
	for _, c := range must[[]store.Ceiling](t, "ceilings")(s.Ceilings(t.Context())) {
		r := last[c.Name+"/"+string(c.Funds)]
		equal(t, "ceiling "+c.Name, []int64{r.Limit, r.Charged, r.Held}, []int64{c.Limit, c.Charged, c.Held})
	}
}

// ledgerError checks the rows after row n, which begin their ceilings.
func ledgerError(n int64, rows []store.LedgerRow) error {
	type account struct{ charged, held, over int64 }
	at := map[string]account{}
	for i, r := range rows {
		k := r.Ceiling + "/" + string(r.Funds)
		a := at[k]
		a.charged += r.DeltaCharged
		a.held += r.DeltaHeld
		if r.Kind == "overrun" {
			a.over += r.DeltaCharged
		}
		at[k] = a
		switch {
		case r.N != n+int64(i)+1:
			return fmt.Errorf("ledger row %d has number %d", i+1, r.N)
		case a.charged != r.Charged || a.held != r.Held || a.held < 0 || a.charged < 0:
			return fmt.Errorf("ledger row %d does not follow: %+v, recomputed %+v", i+1, r, a)
		case r.Charged+r.Held > r.Limit+a.over:
			return fmt.Errorf("ledger row %d passes the limit by more than overruns of %d: %+v", i+1, a.over, r)
		}
	}
	return nil
}
