package storetest

import (
	"testing"
	"time"

	"github.com/agentrooms/qualify/engine/store"
)

var closeCases = []testCase{{"ClosedStoreRefusesEverything", testClosedStore}}

func testClosedStore(t *testing.T, s store.Store) {
	ctx := t.Context()
	r := newRoom(t, s, "r", 10)
	wants(t, "close", nil, s.Close())
	wants(t, "close again", nil, s.Close())
	_, commit := s.Commit(ctx, Next(r.head, "late"))
	_, load := s.Load(ctx, "r")
	_, list := s.ListRooms(ctx, "")
	_, ceilings := s.Ceilings(ctx)
	_, ensure := s.EnsureCeiling(ctx, "x", sim, 1)
	_, lease := s.AcquireLease(ctx, "l", "t", "o", time.Second)
	_, seal := s.AppendSeal(ctx, "k", nil)
	_, sealAfter := s.AppendSealAfter(ctx, "", "k", nil)
	for name, err := range map[string]error{
		"commit": commit, "load": load, "list": list, "ceilings": ceilings, "ensure": ensure, "lease": lease, "seal": seal, "seal after": sealAfter,
		"create": s.CreateRoom(ctx, NewRoom("q", 1)), "campaign": s.PutCampaign(ctx, campaign("c", "n")),
	} {
		wants(t, name, store.ErrClosed, err)
	}
}

func reopenCases(reopen func(*testing.T, store.Store) store.Store) []testCase {
	return []testCase{
		{"R42_F3_TheHoldSurvivesReopening", func(t *testing.T, s store.Store) { testHoldSurvives(t, s, reopen) }},
		{"RecordsSurviveReopening", func(t *testing.T, s store.Store) { testRecordsSurvive(t, s, reopen) }},
	}
}

func testHoldSurvives(t *testing.T, s store.Store, reopen func(*testing.T, store.Store) store.Store) {
	ctx := t.Context()
	r := newRoom(t, s, "r", 100)
	lost := r.dispatch("lost", 60)
	open := r.dispatch("open", 20)
	r.commit("lost", func(c *store.Commit) { c.Receipts = []store.Receipt{Receipt(lost, store.OutcomeUnknown, 0)} })
	before := r.load()
	for range 2 {
		s = reopen(t, s)
		r.s = s
		equal(t, "room", before, r.load())
		wants(t, "no second call", store.ErrAlreadyDispatched, s.MarkDispatched(ctx, "r", lost.ID))
		wants(t, "no second call", store.ErrAlreadyDispatched, s.MarkDispatched(ctx, "r", open.ID))
	}
	r.money("held", 0, 80, 60)
	r.commit("on it goes", nil)
	wants(t, "receipt", nil, s.PutReceipt(ctx, "r", Receipt(open, store.OutcomeOK, 20), nil))
	wants(t, "reconcile", nil, s.Reconcile(ctx, "r", lost.ID, store.Reconciliation{Executed: true, ChargedMicros: 60, Proof: "bill"}))
	r.money("settled", 80, 0, 0)
}

func testRecordsSurvive(t *testing.T, s store.Store, reopen func(*testing.T, store.Store) store.Store) {
	ctx := t.Context()
	ceiling(t, s, 100)
	must[store.Allotment](t, "allot")(s.Allot(ctx, allotment("a", 60)))
	wants(t, "campaign", nil, s.PutCampaign(ctx, campaign("c", "demo")))
	wants(t, "trial", nil, s.PutTrial(ctx, trial("k", 0, "legacy")))
	lease := must[store.Lease](t, "lease")(s.AcquireLease(ctx, "l", "t", "me", time.Hour))
	seal := must[store.SealRow](t, "seal")(s.AppendSeal(ctx, "freeze", []byte("{}")))
	ticket := must[store.Ticket](t, "enqueue")(s.Enqueue(store.WithFence(ctx, store.Fence{Name: "l", Token: "t"}), of("d", 1, 50)))
	s = reopen(t, s)
	equal(t, "weight", int64(60), must[int64](t, "weight")(s.CampaignWeight(ctx, "c", sim)))
	equal(t, "queue", []store.Ticket{ticket}, must[[]store.Ticket](t, "queue")(s.Queue(ctx, "main", sim)))
	equal(t, "held", int64(60), theCeiling(t, s).Held)
	equal(t, "allotments", []store.Allotment{allotment("a", 60)}, must[[]store.Allotment](t, "list")(s.Allotments(ctx, "c")))
	equal(t, "trials", []store.Trial{trial("k", 0, "legacy")}, must[[]store.Trial](t, "list")(s.Trials(ctx, "c")))
	equal(t, "seal log", []store.SealRow{seal}, must[[]store.SealRow](t, "log")(s.SealLog(ctx)))
	holder, err := s.AcquireLease(ctx, "l", "other", "you", time.Hour)
	wants(t, "lease", store.ErrExists, err)
	equal(t, "holder", lease, holder)
	must[store.SealRow](t, "seal")(s.AppendSeal(ctx, "open", nil))
	checkLedger(t, s)
}
