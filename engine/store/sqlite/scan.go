package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

// headFields are the destinations of headColumns.
func headFields(h *store.Head) []any {
	return []any{
		&h.Room, &h.Funds, &h.Salt, &h.Allotment, &h.Machine, &h.Rev, &h.Digest, &h.StateDigest,
		&h.Money.Limit, &h.Money.Charged, &h.Money.Held, &h.Money.Unknown, &h.Halted, &h.Closed, &h.Termination, &h.ClosedAtUS,
	}
}

func rowFields(r *store.Row) []any {
	return []any{&r.Rev, &r.Machine, &r.Event, &r.Commands, &r.CommandsDigest, &r.StateDigest, &r.Prev, &r.Digest}
}

// opRow collects opColumns.
type opRow struct {
	op                store.Op
	outcome           sql.NullString
	receipt           store.Receipt
	usage, reconciled sql.NullString
}

func (r *opRow) fields() []any {
	o, k, c := &r.op, &r.op.Key, &r.receipt
	return []any{
		&o.ID, &k.Kind, &k.Cause, &k.Attempt, &k.Ordinal, &o.Rev, &o.Ordinal, &o.Agent, &o.Role, &o.Task, &o.Tool, &o.RequestDigest,
		&o.ReservedMicros, &o.DeadlineUS, &o.Status, &o.ChargedMicros, &o.DispatchedAtUS,
		&r.outcome, &c.StartUS, &c.FinishUS, &c.ChargedMicros, &c.UsageSource, &r.usage, &c.Result, &r.reconciled, &o.Acknowledged,
	}
}

// finish puts the parts together after the scan.
func (r *opRow) finish() (store.Op, error) {
	if r.outcome.Valid {
		r.receipt.Op, r.receipt.RequestDigest, r.receipt.Outcome = r.op.ID, r.op.RequestDigest, store.Outcome(r.outcome.String)
		if r.usage.Valid {
			r.receipt.Usage = new(engine.Usage)
			if err := json.Unmarshal([]byte(r.usage.String), r.receipt.Usage); err != nil {
				return store.Op{}, fmt.Errorf("operation %s: usage: %w: %w", r.op.ID, store.ErrCorrupt, err)
			}
		}
		r.op.Receipt = &r.receipt
	}
	if r.reconciled.Valid {
		r.op.Reconciled = new(store.Reconciliation)
		if err := json.Unmarshal([]byte(r.reconciled.String), r.op.Reconciled); err != nil {
			return store.Op{}, fmt.Errorf("operation %s: reconciliation: %w: %w", r.op.ID, store.ErrCorrupt, err)
		}
	}
	return r.op, nil
}

func decodeEffect(seq int64, body string) (store.Effect, error) {
	var e store.Effect
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		return e, fmt.Errorf("effect %d: %w: %w", seq, store.ErrCorrupt, err)
	}
	e.Seq = seq
	return e, nil
}

// usageText is the JSON of a usage, or nil for NULL.
func usageText(u *engine.Usage) (any, error) {
	if u == nil {
		return nil, nil
	}
	b, err := json.Marshal(u)
	if err != nil {
		return nil, fmt.Errorf("encode usage: %w", err)
	}
	return string(b), nil
}

// bytesOf is b for a NOT NULL column: nil becomes empty.
func bytesOf(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
