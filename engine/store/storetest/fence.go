package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/agentrooms/qualify/engine/store"
)

var fenceCases = []testCase{
	{"FencedWritesEndWithTheLease", testFence},
	{"AnExpiredLeaseThatNobodyTookStillFences", testFenceExpired},
	{"FenceIsJudgedInsideTheTransaction", testFenceRace},
	{"BrokenLeaseIsFreeUnderItsGeneration", testBreak},
	{"LeasesListsWhatIsLive", testLeases},
	{"OpenAllotmentsOfOneCeiling", testOpenAllotments},
	{"R39_GrantRoomAcknowledgesOverruns", testGrantRoom},
	{"R40_GrantRoomSetsTheTotal", testGrantRoomTotal},
}

// fencedWrites are one write of each kind, each legal when the ones before it
// were made, with the state that they need.
func fencedWrites(t *testing.T, s store.Store) map[string]func(context.Context) error {
	t.Helper()
	ctx := t.Context()
	r := newRoom(t, s, "r", 1000)
	a, b, c := r.dispatch("a", 100), r.dispatch("b", 100), Op("r", "c", 100)
	wants(t, "unknown", nil, s.PutReceipt(ctx, "r", Receipt(b, store.OutcomeUnknown, 0), nil))
	r.commit("c", func(k *store.Commit) {
		k.Ops = []store.Op{c}
		k.Outbox = []store.OutboxEntry{{ID: "m", Body: []byte("{}")}}
	})
	other := newRoom(t, s, "closing", 10)
	ceiling(t, s, 1000)
	must[store.Allotment](t, "allot")(s.Allot(ctx, allotment("held", 10)))
	wants(t, "campaign", nil, s.PutCampaign(ctx, campaign("c", "demo")))
	must[store.Lease](t, "lease")(s.AcquireLease(ctx, "breakable", "x", "me", time.Hour))
	must[store.Lease](t, "lease")(s.AcquireLease(ctx, "kept", "x", "me", time.Hour))
	next := Next(r.head, "next")
	ignore := func(_ any, err error) error { return err }
	return map[string]func(context.Context) error{
		"CreateRoom":     func(ctx context.Context) error { return s.CreateRoom(ctx, NewRoom("new", 1)) },
		"MarkDispatched": func(ctx context.Context) error { return s.MarkDispatched(ctx, "r", c.ID) },
		"PutReceipt": func(ctx context.Context) error {
			return s.PutReceipt(ctx, "r", Receipt(a, store.OutcomeOK, 1), nil)
		},
		"PutEffect": func(ctx context.Context) error {
			return s.PutEffect(ctx, store.Effect{Room: "r", Op: a.ID, State: store.EffectConfirmed}, nil)
		},
		"Reconcile": func(ctx context.Context) error {
			return s.Reconcile(ctx, "r", b.ID, store.Reconciliation{Executed: true, ChargedMicros: 5, Proof: "p"})
		},
		"PutSnapshot": func(ctx context.Context) error {
			return s.PutSnapshot(ctx, "closing", store.Snapshot{Rev: other.head.Rev, Machine: "test@1", State: State(0, "one")})
		},
		"CloseRoom":         func(ctx context.Context) error { return s.CloseRoom(ctx, "closing", "completed", 1) },
		"Delivered":         func(ctx context.Context) error { return s.Delivered(ctx, "r", "m") },
		"GrantRoom":         func(ctx context.Context) error { return ignore(s.GrantRoom(ctx, "r", 2000, nil)) },
		"Commit":            func(ctx context.Context) error { return ignore(s.Commit(ctx, next)) },
		"EnsureCeiling":     func(ctx context.Context) error { return ignore(s.EnsureCeiling(ctx, "other", sim, 5)) },
		"Grant":             func(ctx context.Context) error { return ignore(s.Grant(ctx, "main", sim, 2000, nil)) },
		"Allot":             func(ctx context.Context) error { return ignore(s.Allot(ctx, allotment("one", 10))) },
		"Enqueue":           func(ctx context.Context) error { return ignore(s.Enqueue(ctx, allotment("later", 10))) },
		"Dequeue":           func(ctx context.Context) error { return s.Dequeue(ctx, "main", sim, "c") },
		"Release":           func(ctx context.Context) error { return ignore(s.Release(ctx, "held", 5, 0)) },
		"PutCampaign":       func(ctx context.Context) error { return s.PutCampaign(ctx, campaign("d", "demo")) },
		"SetCampaignStatus": func(ctx context.Context) error { return s.SetCampaignStatus(ctx, "c", "done", nil) },
		"PutTrial":          func(ctx context.Context) error { return s.PutTrial(ctx, trial("k/a/0", 0, "a")) },
		"PutTrace":          func(ctx context.Context) error { return s.PutTrace(ctx, "c", "k", "d", []byte("x")) },
		"AcquireLease": func(ctx context.Context) error {
			return ignore(s.AcquireLease(ctx, "fresh", "x", "me", time.Hour))
		},
		"RenewLease":   func(ctx context.Context) error { return ignore(s.RenewLease(ctx, "kept", "x", time.Hour)) },
		"KeepLease":    func(ctx context.Context) error { return ignore(s.KeepLease(ctx, "kept", "x", time.Hour)) },
		"ReleaseLease": func(ctx context.Context) error { return s.ReleaseLease(ctx, "kept", "x") },
		"BreakLease":   func(ctx context.Context) error { return s.BreakLease(ctx, "breakable", 1) },
		"AppendSealAfter": func(ctx context.Context) error {
			return ignore(s.AppendSealAfter(ctx, "", "freeze", []byte("{}")))
		},
		"AppendSeal": func(ctx context.Context) error { return ignore(s.AppendSeal(ctx, "freeze", []byte("{}"))) },
	}
}

// inOrder lists the writes so that none hinders a later one.
var inOrder = []string{
	"CreateRoom", "MarkDispatched", "PutReceipt", "PutEffect", "Reconcile", "Delivered", "GrantRoom", "Commit", "CloseRoom",
	"EnsureCeiling", "Grant", "Allot", "Enqueue", "Dequeue", "Release", "PutCampaign", "SetCampaignStatus", "PutTrial", "PutTrace",
	"AcquireLease", "RenewLease", "KeepLease", "ReleaseLease", "BreakLease", "AppendSealAfter", "AppendSeal",
}

func testFence(t *testing.T, s store.Store) {
	ctx := t.Context()
	writes := fencedWrites(t, s)
	equal(t, "every kind of write is here", len(inOrder)+1, len(writes)) // a snapshot needs a row of its own
	mine := store.WithFence(ctx, store.Fence{Name: "campaign/c", Token: "t1"})
	before := must[store.Stats](t, "stats")(s.Stats(ctx)).Writes
	for _, name := range append(inOrder, "PutSnapshot") {
		wants(t, name+" under a lease that nobody has", store.ErrLeaseLost, writes[name](mine))
	}
	l := must[store.Lease](t, "acquire")(s.AcquireLease(ctx, "campaign/c", "t1", "me", time.Hour))
	for _, f := range []store.Fence{{Name: "campaign/c", Token: "t2"}, {Name: "campaign/c"}, {Name: "campaign/d", Token: "t1"}} {
		for _, name := range inOrder {
			wants(t, name+" under another fence", store.ErrLeaseLost, writes[name](store.WithFence(ctx, f)))
		}
	}
	equal(t, "refused writes", before+1, must[store.Stats](t, "stats")(s.Stats(ctx)).Writes)
	for _, name := range inOrder {
		wants(t, name+" under its own lease", nil, writes[name](mine))
	}
	wants(t, "break", nil, s.BreakLease(ctx, "campaign/c", l.Generation))
	wants(t, "after the lease was broken", store.ErrLeaseLost, s.SetCampaignStatus(mine, "c", "stopped", nil))
	must[store.Lease](t, "take over")(s.AcquireLease(ctx, "campaign/c", "t2", "you", time.Hour))
	wants(t, "after another took over", store.ErrLeaseLost, s.SetCampaignStatus(mine, "c", "stopped", nil))
	equal(t, "status", "done", must[store.Campaign](t, "campaign")(s.Campaign(ctx, "c")).Status)
	wants(t, "the new owner", nil, s.SetCampaignStatus(store.WithFence(ctx, store.Fence{Name: "campaign/c", Token: "t2"}), "c", "stopped", nil))
	must[store.Campaign](t, "reads are not fenced")(s.Campaign(mine, "c"))
}

func testFenceExpired(t *testing.T, s store.Store) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	must[store.Lease](t, "acquire")(s.AcquireLease(ctx, "campaign/c", "t1", "me", time.Millisecond))
	for len(must[[]store.Lease](t, "leases")(s.Leases(ctx))) > 0 {
		if ctx.Err() != nil {
			t.Fatal("the lease does not expire")
		}
	}
	mine := store.WithFence(ctx, store.Fence{Name: "campaign/c", Token: "t1"})
	wants(t, "write", nil, s.PutCampaign(mine, campaign("c", "demo")))
	_, err := s.RenewLease(ctx, "campaign/c", "t1", time.Hour)
	wants(t, "renew what ran out", store.ErrLeaseLost, err)
	l := must[store.Lease](t, "keep what ran out")(s.KeepLease(ctx, "campaign/c", "t1", time.Hour))
	equal(t, "kept", []store.Lease{l}, must[[]store.Lease](t, "leases")(s.Leases(ctx)))
	equal(t, "generation", int64(1), l.Generation)
	_, err = s.KeepLease(ctx, "campaign/c", "t2", time.Hour)
	wants(t, "keep with another token", store.ErrLeaseLost, err)
	wants(t, "release", nil, s.ReleaseLease(ctx, "campaign/c", "t1"))
	_, err = s.KeepLease(ctx, "campaign/c", "t1", time.Hour)
	wants(t, "keep what was released", store.ErrLeaseLost, err)
	must[store.Lease](t, "take over")(s.AcquireLease(ctx, "campaign/c", "t2", "you", time.Hour))
	_, err = s.KeepLease(ctx, "campaign/c", "t1", time.Hour)
	wants(t, "keep what another took", store.ErrLeaseLost, err)
	wants(t, "write after the take-over", store.ErrLeaseLost, s.PutCampaign(mine, campaign("d", "demo")))
}

// One of many writers takes the lease over while the others write under it: in
// the seal log, which is in order of commit, nothing of theirs comes after it.
func testFenceRace(t *testing.T, s store.Store) {
	ctx := t.Context()
	must[store.Lease](t, "acquire")(s.AcquireLease(ctx, "campaign/c", "t1", "me", time.Hour))
	mine := store.WithFence(ctx, store.Fence{Name: "campaign/c", Token: "t1"})
	yours := store.WithFence(ctx, store.Fence{Name: "campaign/c", Token: "t2"})
	refused := together(9, func(i int) error {
		if i == 4 {
			if err := s.ReleaseLease(ctx, "campaign/c", "t1"); err != nil {
				return err
			}
			if _, err := s.AcquireLease(ctx, "campaign/c", "t2", "you", time.Hour); err != nil {
				return err
			}
			_, err := s.AppendSeal(yours, "yours", nil)
			return err
		}
		for range 40 {
			if _, err := s.AppendSeal(mine, "mine", nil); err != nil {
				return err
			}
		}
		return nil
	})
	for i, err := range refused {
		if i == 4 {
			wants(t, "take over", nil, err)
		} else if err != nil {
			wants(t, "write of the old owner", store.ErrLeaseLost, err)
		}
	}
	wants(t, "afterwards", store.ErrLeaseLost, func() error { _, err := s.AppendSeal(mine, "mine", nil); return err }())
	taken := false
	for _, r := range must[[]store.SealRow](t, "log")(s.SealLog(ctx)) {
		if taken && r.Kind == "mine" {
			t.Fatalf("row %d of the old owner stands after the take-over", r.N)
		}
		taken = taken || r.Kind == "yours"
	}
	equal(t, "taken over", true, taken)
}

func testBreak(t *testing.T, s store.Store) {
	ctx := t.Context()
	wants(t, "a lease that never was", store.ErrLeaseLost, s.BreakLease(ctx, "c", 1))
	l := must[store.Lease](t, "acquire")(s.AcquireLease(ctx, "c", "t1", "me", time.Hour))
	wants(t, "another generation", store.ErrLeaseLost, s.BreakLease(ctx, "c", l.Generation+1))
	must[store.Lease](t, "still held")(s.RenewLease(ctx, "c", "t1", time.Hour))
	wants(t, "break", nil, s.BreakLease(ctx, "c", l.Generation))
	wants(t, "break again", nil, s.BreakLease(ctx, "c", l.Generation))
	_, err := s.RenewLease(ctx, "c", "t1", time.Hour)
	wants(t, "renew a broken lease", store.ErrLeaseLost, err)
	next := must[store.Lease](t, "acquire")(s.AcquireLease(ctx, "c", "t2", "you", time.Hour))
	equal(t, "generation", l.Generation+1, next.Generation)
	wants(t, "break the one before", store.ErrLeaseLost, s.BreakLease(ctx, "c", l.Generation))
	must[store.Lease](t, "the next holder keeps it")(s.RenewLease(ctx, "c", "t2", time.Hour))
}

func testLeases(t *testing.T, s store.Store) {
	ctx := t.Context()
	equal(t, "none", nil, must[[]store.Lease](t, "leases")(s.Leases(ctx)))
	b := must[store.Lease](t, "acquire")(s.AcquireLease(ctx, "b", "t1", "me", time.Hour))
	a := must[store.Lease](t, "acquire")(s.AcquireLease(ctx, "a", "t2", "you", time.Hour))
	must[store.Lease](t, "acquire")(s.AcquireLease(ctx, "c", "t3", "me", time.Hour))
	wants(t, "release", nil, s.ReleaseLease(ctx, "c", "t3"))
	equal(t, "by name", []store.Lease{a, b}, must[[]store.Lease](t, "leases")(s.Leases(ctx)))
	wants(t, "break", nil, s.BreakLease(ctx, "a", a.Generation))
	equal(t, "without the broken one", []store.Lease{b}, must[[]store.Lease](t, "leases")(s.Leases(ctx)))
}

func testOpenAllotments(t *testing.T, s store.Store) {
	ctx := t.Context()
	_, _, err := s.OpenAllotments(ctx, "main", sim)
	wants(t, "no ceiling", store.ErrNotFound, err)
	ceiling(t, s, 100)
	a, b := allotment("b", 30), allotment("a", 20)
	b.Campaign = "d"
	for _, x := range []store.Allotment{a, b, allotment("closed", 10)} {
		must[store.Allotment](t, "allot")(s.Allot(ctx, x))
	}
	must[store.Allotment](t, "release")(s.Release(ctx, "closed", 4, 1))
	c, open, err := s.OpenAllotments(ctx, "main", sim)
	wants(t, "open", nil, err)
	equal(t, "ceiling", store.Ceiling{Name: "main", Funds: sim, Limit: 100, Charged: 4, Held: 51, MaxSum: 60}, c)
	equal(t, "in order of grant", []store.Allotment{a, b}, open)
	_, _, err = s.OpenAllotments(ctx, "main", store.FundsReal)
	wants(t, "funds do not mix", store.ErrNotFound, err)
}

func testGrantRoom(t *testing.T, s store.Store) {
	ctx := t.Context()
	_, err := s.GrantRoom(ctx, "r", 10, nil)
	wants(t, "no room", store.ErrNotFound, err)
	r := newRoom(t, s, "r", 300)
	a, b := r.dispatch("a", 100), r.dispatch("b", 100)
	for _, op := range []store.Op{a, b} {
		wants(t, "overrun", nil, s.PutReceipt(ctx, "r", Receipt(op, store.OutcomeOK, 140), nil))
	}
	_, err = s.GrantRoom(ctx, "r", 300, []string{"op_none"})
	wants(t, "what did not happen", store.ErrNotFound, err)
	h := must[store.Head](t, "one of two")(s.GrantRoom(ctx, "r", 300, []string{a.ID}))
	equal(t, "still halted", true, h.Halted)
	equal(t, "acknowledged", true, r.op(a.ID).Acknowledged)
	_, err = s.GrantRoom(ctx, "r", 300, []string{a.ID})
	wants(t, "twice", store.ErrNotFound, err)
	equal(t, "other one", false, r.op(b.ID).Acknowledged)
	h = must[store.Head](t, "the other")(s.GrantRoom(ctx, "r", 300, []string{b.ID}))
	equal(t, "goes on", false, h.Halted)
	equal(t, "head", h, r.load().Head)
	c := Op("r", "c", 20)
	done := r.commit("c", func(k *store.Commit) { k.Ops = []store.Op{c} })
	equal(t, "admission", []store.Admission{{Op: c.ID, Reserved: true}}, done.Admissions)
}

func testGrantRoomTotal(t *testing.T, s store.Store) {
	ctx := t.Context()
	r := newRoom(t, s, "r", 1000)
	a := r.dispatch("a", 700)
	r.dispatch("b", 200)
	wants(t, "settle", nil, s.PutReceipt(ctx, "r", Receipt(a, store.OutcomeOK, 700), nil))
	_, err := s.GrantRoom(ctx, "r", 899, nil)
	wants(t, "below charged and held", store.ErrBelowSpent, err)
	_, err = s.GrantRoom(ctx, "r", -1, nil)
	wants(t, "negative", store.ErrInvalid, err)
	digest := r.load().Head.Digest
	h := must[store.Head](t, "grant")(s.GrantRoom(ctx, "r", 1500, nil))
	equal(t, "limit", int64(1500), h.Money.Limit)
	r.money("charged and held stay", 700, 200, 0)
	equal(t, "the chain is untouched", digest, r.load().Head.Digest)
}
