package campaigns

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/faultstore"
	"github.com/agentrooms/qualify/engine/store/memory"
	"github.com/agentrooms/qualify/engine/store/storetest"
)

// interrupted is a store with a campaign that a kill left behind: one triple
// settled, one under way in two rooms, of which one has charged 300, has a call
// of 500 under way and one of 700 that was never dispatched.
func interrupted(t *testing.T) *memory.Store {
	t.Helper()
	ctx := t.Context()
	st := memory.New(memory.Options{Now: time.Now})
	try := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	try("campaign", st.PutCampaign(ctx, store.Campaign{ID: "c_1", Name: "demo", Plan: []byte("{}"), Status: StatusRunning}))
	_, err := st.EnsureCeiling(ctx, "shared", store.FundsSimulated, 100_000)
	try("ceiling", err)
	for _, id := range []string{"c_1/done/0", "c_1/open/0"} {
		_, err := st.Allot(ctx, store.Allotment{ID: id, Ceiling: "shared", Funds: store.FundsSimulated, Campaign: "c_1", Sum: 10_000})
		try("allot", err)
	}
	_, err = st.Release(ctx, "c_1/done/0", 1000, 0)
	try("release", err)
	for _, id := range []string{"c_1/open/legacy/0", "c_1/open/planner/0"} {
		r := storetest.NewRoom(id, 5000)
		r.Allotment = "c_1/open/0"
		try("room", st.CreateRoom(ctx, r))
	}
	l, err := st.Load(ctx, "c_1/open/legacy/0")
	try("load", err)
	c := storetest.Next(l.Head, "work")
	paid, called, never := storetest.Op(c.Room, "paid", 400), storetest.Op(c.Room, "called", 500), storetest.Op(c.Room, "never", 700)
	c.Ops = []store.Op{paid, called, never}
	for i := range c.Ops {
		c.Ops[i].Ordinal = i
	}
	_, err = st.Commit(ctx, c)
	try("commit", err)
	try("mark", st.MarkDispatched(ctx, c.Room, paid.ID))
	try("receipt", st.PutReceipt(ctx, c.Room, storetest.Receipt(paid, store.OutcomeOK, 300), nil))
	try("mark", st.MarkDispatched(ctx, c.Room, called.ID))
	return st
}

// Cancelling settles what a campaign holds and deletes nothing: what was
// charged is charged, a call of unknown outcome keeps its money, the rest
// returns (F3: reservations that never became calls do not leak).
func TestF3_CancelReturnsWhatWasNeverCalled(t *testing.T) {
	t.Parallel()
	st, ctx := interrupted(t), t.Context()
	owner := Owner{Token: "me", Name: "pid 1"}
	got, err := Cancel(ctx, st, "c_1", owner)
	if err != nil {
		t.Fatal(err)
	}
	want := Cancelled{Freed: 10_000 - 300 - 500, Charged: 300, Kept: 500}
	ignore := cmpopts.IgnoreFields(Cancelled{}, "Campaign")
	if diff := cmp.Diff(want, got, ignore); diff != "" || got.Campaign.Status != StatusRunning {
		t.Errorf("status before %s (-want +got):\n%s", got.Campaign.Status, diff)
	}
	all, err := st.Ceilings(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if c := all[0]; c.Charged != 1300 || c.Held != 500 {
		t.Errorf("ceiling: charged %d, held %d; want 1300, 500", c.Charged, c.Held)
	}
	c, err := st.Campaign(ctx, "c_1")
	if err != nil || c.Status != StatusCancelled {
		t.Errorf("status %q (%v)", c.Status, err)
	}
	rooms, err := st.ListRooms(ctx, "c_1/")
	if err != nil || len(rooms) != 2 || rooms[0].Rev != 0 {
		t.Errorf("rooms %v (%v): want both, with their rows", rooms, err)
	}
	again, err := Cancel(ctx, st, "c_1", owner)
	if diff := cmp.Diff(Cancelled{}, again, ignore); diff != "" || err != nil || again.Campaign.Status != StatusCancelled {
		t.Errorf("again: %v (-want +got):\n%s", err, diff)
	}
	if leases, err := st.Leases(ctx); err != nil || len(leases) != 0 {
		t.Errorf("leases left: %v (%v)", leases, err)
	}
}

func TestCancelRefusals(t *testing.T) {
	t.Parallel()
	st, ctx := interrupted(t), t.Context()
	owner := Owner{Token: "me", Name: "pid 1"}
	if _, err := Cancel(ctx, st, "c_2", owner); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("absent: %v", err)
	}
	if _, err := st.AcquireLease(ctx, LeaseName("c_1"), "other", "pid 2", time.Hour); err != nil {
		t.Fatal(err)
	}
	_, err := Cancel(ctx, st, "c_1", owner)
	var owned *OwnedError
	if !errors.As(err, &owned) || owned.Owner != "pid 2" {
		t.Errorf("owned by another: %v", err)
	}
	if c, err := st.Campaign(ctx, "c_1"); err != nil || c.Status != StatusRunning {
		t.Errorf("status %q (%v): want it untouched", c.Status, err)
	}
	// The holder is gone: its lease is broken.
	owner.Gone = func(name string) bool { return name == "pid 2" }
	if err := st.SetCampaignStatus(ctx, "c_1", StatusDone, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := Cancel(ctx, st, "c_1", owner); !errors.Is(err, ErrFinished) {
		t.Errorf("finished: %v", err)
	}
}

// A campaign whose cancelling is cut off between its status and its money is
// cancelled all the same: it never runs on money that may have returned, and
// cancelling again returns the rest.
func TestACutCancelIsFinishedByTheNext(t *testing.T) {
	t.Parallel()
	inner, ctx := interrupted(t), t.Context()
	owner := Owner{Token: "me", Name: "pid 1"}
	st, err := faultstore.New(inner, faultstore.Plan{Faults: []faultstore.Fault{{Op: "Release", Nth: 1, Kind: faultstore.FailBefore}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Cancel(ctx, st, "c_1", owner); !errors.Is(err, faultstore.ErrInjected) {
		t.Fatalf("error %v; want the one that was injected", err)
	}
	if c, err := inner.Campaign(ctx, "c_1"); err != nil || c.Status != StatusCancelled {
		t.Errorf("cut off: status %q (%v), want it cancelled", c.Status, err)
	}
	got, err := Cancel(ctx, inner, "c_1", owner)
	want := Cancelled{Freed: 10_000 - 300 - 500, Charged: 300, Kept: 500}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Cancelled{}, "Campaign")); diff != "" || err != nil {
		t.Errorf("again: %v (-want +got):\n%s", err, diff)
	}
}

// A cancelled campaign does not run, and nothing of it changes.
func TestCancelledCampaignDoesNotRun(t *testing.T) {
	t.Parallel()
	p := mustResolve(t, nil, nil)
	st, ctx := memory.New(memory.Options{Now: time.Now}), t.Context()
	for _, c := range []store.Campaign{{ID: p.ID, Name: p.Name, PlanDigest: p.PlanDigest, Registration: p.Registration, Plan: p.Canonical, Status: StatusCancelled}} {
		if err := st.PutCampaign(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	for _, token := range []string{"", "mine"} {
		r := &Runner{Plan: p, Store: st, Owner: Owner{Token: token}}
		if _, err := r.Run(ctx); !errors.Is(err, ErrCancelled) {
			t.Errorf("token %q: %v", token, err)
		}
	}
	if n, err := st.Counts(ctx); err != nil || n != (store.Counts{Campaigns: 1}) {
		t.Errorf("the store holds %+v (%v)", n, err)
	}
}
