package runtime

import (
	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

// checkAccount holds every stored operation against its receipt, and the
// room's account against its operations: charged is the sum of what they were
// charged, held the sum of what the open ones reserved, unknown the part of
// the uncertain ones (I1).
func (r *rebuilt) checkAccount() error {
	want := engine.Money{Limit: r.loaded.Head.Money.Limit}
	for i := range r.loaded.Ops {
		op := &r.loaded.Ops[i]
		if why := differs(op, r.ops[op.ID].body); why != "" {
			return engine.Errorf(engine.CodeConflict, "operation %s: %s", op.ID, why)
		}
		want.Charged += op.ChargedMicros
		switch op.Status {
		case store.OpReserved, store.OpDispatched:
			want.Held += op.ReservedMicros
		case store.OpUncertain:
			want.Held += op.ReservedMicros
			want.Unknown += op.ReservedMicros
		case store.OpRefused, store.OpSettledOK, store.OpSettledFailed, store.OpReleased:
		}
	}
	if got := r.loaded.Head.Money; got != want {
		return engine.Errorf(engine.CodeConflict, "the account states %+v, the operations add up to %+v", got, want)
	}
	return nil
}

// differs says how an operation's state or amounts differ from what its
// receipt and reconciliation make of it; "" when they agree.
func differs(op *store.Op, b *body) string {
	status, charged := op.Status, int64(0)
	switch {
	case op.Receipt == nil:
		if op.Reconciled != nil || status != store.OpReserved && status != store.OpDispatched && status != store.OpRefused {
			return "settled without a receipt"
		}
	case op.Reconciled != nil:
		if op.Receipt.Outcome != store.OutcomeUnknown {
			return "reconciled although its outcome was known"
		}
		charged, status = op.Reconciled.ChargedMicros, store.OpReleased
		if op.Reconciled.Executed {
			status = store.OpSettledOK
		}
	default:
		charged, status = op.Receipt.ChargedMicros, statusOf(op.Receipt.Outcome, b.Kind)
	}
	switch {
	case op.Status != status:
		return "its state is " + string(op.Status) + ", its receipt makes it " + string(status)
	case op.ChargedMicros != charged:
		return "its charge is not the one of its receipt"
	case op.Receipt == nil || b.Reply == nil:
		return ""
	case b.Reply.Charged != op.Receipt.ChargedMicros || b.Reply.Source != op.Receipt.UsageSource || !sameUsage(b.Reply.Usage, op.Receipt.Usage):
		return "its receipt charges something else than its event says"
	}
	return ""
}

func statusOf(outcome store.Outcome, kind engine.EventKind) store.OpStatus {
	switch {
	case outcome == store.OutcomeUnknown:
		return store.OpUncertain
	case kind == engine.EvDispatchRefused:
		return store.OpReleased
	case outcome == store.OutcomeFailed:
		return store.OpSettledFailed
	default:
		return store.OpSettledOK
	}
}

func sameUsage(a, b *engine.Usage) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}
