package storetest

import (
	"testing"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

var moneyCases = []testCase{
	{"R36_EqualityIsAdmittedAndRefusalIsAResult", testReserve},
	{"R37_ReceiptsAreSettledBeforeReservations", testSettleFirst},
	{"R37_FailedCallsAreCharged", testFailedCharged},
	{"R39_OverrunIsChargedInFullAndHalts", testOverrun},
	{"R42_UncertainKeepsItsHold", testUncertain},
	{"R47_ReconcileSettlesOnce", testReconcile},
	{"FreeOperationsAreAlwaysAdmitted", testFree},
	{"UndispatchedFailureReleases", testUndispatched},
	{"SumsThatDoNotFitAreRefused", testHugeSums},
}

func testReserve(t *testing.T, s store.Store) {
	r := newRoom(t, s, "r", 100)
	a, b, c, d := Op("r", "a", 60), Op("r", "b", 50), Op("r", "c", 40), Op("r", "d", 1)
	done := r.commit("four", func(k *store.Commit) { k.Ops = []store.Op{a, b, c, d} })
	equal(t, "admissions", []store.Admission{
		{Op: a.ID, Reserved: true}, {Op: b.ID, Code: engine.CodeBudgetExhausted}, {Op: c.ID, Reserved: true}, {Op: d.ID, Code: engine.CodeBudgetExhausted},
	}, done.Admissions)
	r.money("held", 0, 100, 0)
	equal(t, "refused operation", store.OpRefused, r.op(b.ID).Status)
	wants(t, "dispatch of a refused operation", store.ErrAlreadyDispatched, s.MarkDispatched(t.Context(), "r", b.ID))
	wants(t, "receipt of a refused operation", store.ErrInvalid, s.PutReceipt(t.Context(), "r", Receipt(b, store.OutcomeFailed, 0), nil))
}

func testSettleFirst(t *testing.T, s store.Store) {
	r := newRoom(t, s, "r", 100)
	a := r.dispatch("a", 100)
	b, c := Op("r", "b", 70), Op("r", "c", 1)
	done := r.commit("both", func(k *store.Commit) {
		k.Receipts, k.Ops = []store.Receipt{Receipt(a, store.OutcomeOK, 30)}, []store.Op{b, c}
	})
	equal(t, "admissions", []store.Admission{{Op: b.ID, Reserved: true}, {Op: c.ID, Code: engine.CodeBudgetExhausted}}, done.Admissions)
	r.money("after", 30, 70, 0)
}

func testFailedCharged(t *testing.T, s store.Store) {
	r := newRoom(t, s, "r", 100)
	a := r.dispatch("a", 50)
	wants(t, "receipt", nil, s.PutReceipt(t.Context(), "r", Receipt(a, store.OutcomeFailed, 20), nil))
	r.money("after", 20, 0, 0)
	equal(t, "status", store.OpSettledFailed, r.op(a.ID).Status)
}

func testOverrun(t *testing.T, s store.Store) {
	r := newRoom(t, s, "r", 230)
	a, b := r.dispatch("a", 100), r.dispatch("b", 100)
	wants(t, "overrun", nil, s.PutReceipt(t.Context(), "r", Receipt(a, store.OutcomeOK, 140), nil))
	r.money("charged in full", 140, 100, 0)
	if l := r.load(); !l.Head.Halted || l.Head.Money.Limit-l.Head.Money.Charged-l.Head.Money.Held != -10 {
		t.Fatalf("head after an overrun: %+v", l.Head)
	}
	c, free := Op("r", "c", 1), Op("r", "free", 0)
	done := r.commit("more", func(k *store.Commit) { k.Ops = []store.Op{c, free} })
	equal(t, "halted", []store.Admission{{Op: c.ID, Code: engine.CodeBudgetHalted}, {Op: free.ID, Reserved: true}}, done.Admissions)
	wants(t, "a call already made settles", nil, s.PutReceipt(t.Context(), "r", Receipt(b, store.OutcomeOK, 90), nil))
	r.money("both charged", 230, 0, 0)
}

func testUncertain(t *testing.T, s store.Store) {
	r := newRoom(t, s, "r", 100)
	a := r.dispatch("a", 60)
	wants(t, "unknown", nil, s.PutReceipt(t.Context(), "r", Receipt(a, store.OutcomeUnknown, 0), nil))
	r.money("hold stays", 0, 60, 60)
	equal(t, "status", store.OpUncertain, r.op(a.ID).Status)
	b := Op("r", "b", 41)
	done := r.commit("more", func(c *store.Commit) { c.Ops = []store.Op{b} })
	equal(t, "not available", []store.Admission{{Op: b.ID, Code: engine.CodeBudgetExhausted}}, done.Admissions)
	wants(t, "no second call", store.ErrAlreadyDispatched, s.MarkDispatched(t.Context(), "r", a.ID))
	wants(t, "no later receipt", store.ErrReceiptMismatch, s.PutReceipt(t.Context(), "r", Receipt(a, store.OutcomeOK, 1), nil))
	wants(t, "close", nil, s.CloseRoom(t.Context(), "r", "gave_up", 1))
	r.money("hold stays after close", 0, 60, 60)
	bad := Receipt(a, store.OutcomeUnknown, 0)
	bad.ChargedMicros = 3
	wants(t, "unknown with a charge", store.ErrInvalid, s.PutReceipt(t.Context(), "r", bad, nil))
}

func testReconcile(t *testing.T, s store.Store) {
	ctx := t.Context()
	r := newRoom(t, s, "r", 300)
	a, b, c := r.dispatch("a", 100), r.dispatch("b", 100), r.dispatch("c", 100)
	yes := store.Reconciliation{Executed: true, ChargedMicros: 70, Usage: &engine.Usage{Input: 3}, UsageSource: "actual", Proof: "journal"}
	wants(t, "reconcile an open call", store.ErrInvalid, s.Reconcile(ctx, "r", a.ID, yes))
	for _, op := range []store.Op{a, b, c} {
		wants(t, "unknown", nil, s.PutReceipt(ctx, "r", Receipt(op, store.OutcomeUnknown, 0), nil))
	}
	before := r.load()
	wants(t, "charge without a call", store.ErrInvalid, s.Reconcile(ctx, "r", a.ID, store.Reconciliation{ChargedMicros: 1}))
	wants(t, "executed", nil, s.Reconcile(ctx, "r", a.ID, yes))
	wants(t, "executed again", nil, s.Reconcile(ctx, "r", a.ID, yes))
	other := yes
	other.ChargedMicros = 71
	wants(t, "executed otherwise", store.ErrReceiptMismatch, s.Reconcile(ctx, "r", a.ID, other))
	r.money("one executed", 70, 200, 200)
	wants(t, "not executed", nil, s.Reconcile(ctx, "r", b.ID, store.Reconciliation{Proof: "not in the journal"}))
	r.money("one released", 70, 100, 100)
	equal(t, "released", store.OpReleased, r.op(b.ID).Status)
	wants(t, "overrun", nil, s.Reconcile(ctx, "r", c.ID, store.Reconciliation{Executed: true, ChargedMicros: 150, Proof: "bill"}))
	r.money("charged in full", 220, 0, 0)
	got := r.op(a.ID)
	equal(t, "proof", &yes, got.Reconciled)
	equal(t, "status", store.OpSettledOK, got.Status)
	equal(t, "charge", int64(70), got.ChargedMicros)
	equal(t, "the receipt stays", int64(0), got.Receipt.ChargedMicros)
	after := r.load()
	equal(t, "halted", true, after.Head.Halted)
	equal(t, "rows", before.Rows, after.Rows)
	equal(t, "head", before.Head.Digest, after.Head.Digest)
}

func testFree(t *testing.T, s store.Store) {
	r := newRoom(t, s, "r", 0)
	tool := r.dispatch("tool", 0)
	r.money("nothing held", 0, 0, 0)
	wants(t, "receipt", nil, s.PutReceipt(t.Context(), "r", Receipt(tool, store.OutcomeUnknown, 0), nil))
	equal(t, "status", store.OpUncertain, r.op(tool.ID).Status)
	r.money("nothing held", 0, 0, 0)
	refused := Op("r", "unpriced", 0)
	refused.Status = store.OpRefused
	done := r.commit("refused before", func(c *store.Commit) { c.Ops = []store.Op{refused} })
	equal(t, "admission", []store.Admission{{Op: refused.ID}}, done.Admissions)
	equal(t, "status", store.OpRefused, r.op(refused.ID).Status)
}

func testUndispatched(t *testing.T, s store.Store) {
	r := newRoom(t, s, "r", 100)
	a := Op("r", "a", 60)
	r.commit("one", func(c *store.Commit) { c.Ops = []store.Op{a} })
	for _, bad := range []store.Receipt{Receipt(a, store.OutcomeOK, 0), Receipt(a, store.OutcomeFailed, 1), Receipt(a, store.OutcomeUnknown, 0)} {
		wants(t, "receipt of a call that was not made", store.ErrInvalid, s.PutReceipt(t.Context(), "r", bad, nil))
	}
	wants(t, "dispatch refused", nil, s.PutReceipt(t.Context(), "r", Receipt(a, store.OutcomeFailed, 0), nil))
	r.money("released", 0, 0, 0)
	equal(t, "status", store.OpReleased, r.op(a.ID).Status)
	wants(t, "dispatch", store.ErrAlreadyDispatched, s.MarkDispatched(t.Context(), "r", a.ID))
}

func testHugeSums(t *testing.T, s store.Store) {
	const most = int64(^uint64(0) >> 1)
	r := newRoom(t, s, "r", most)
	a, b := r.dispatch("a", most-1), r.dispatch("b", 1)
	wants(t, "charge", nil, s.PutReceipt(t.Context(), "r", Receipt(a, store.OutcomeOK, most-1), nil))
	wants(t, "charge that does not fit", store.ErrInvalid, s.PutReceipt(t.Context(), "r", Receipt(b, store.OutcomeOK, 2), nil))
	r.money("unchanged", most-1, 1, 0)
}
