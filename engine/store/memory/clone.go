package memory

import (
	"bytes"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

func cloneHead(h store.Head) store.Head {
	h.Salt = bytes.Clone(h.Salt)
	return h
}

func cloneRow(r store.Row) store.Row {
	r.Event, r.Commands = bytes.Clone(r.Event), bytes.Clone(r.Commands)
	return r
}

func cloneRows(rows []store.Row) []store.Row {
	out := make([]store.Row, 0, len(rows))
	for _, r := range rows {
		out = append(out, cloneRow(r))
	}
	return out
}

func cloneOp(o store.Op) store.Op {
	o.Request = bytes.Clone(o.Request)
	if o.Receipt != nil {
		o.Receipt = cloneReceipt(o.Receipt)
	}
	if o.Reconciled != nil {
		o.Reconciled = cloneReconciliation(o.Reconciled)
	}
	return o
}

func cloneReceipt(r *store.Receipt) *store.Receipt {
	c := *r
	c.Usage, c.Result = cloneUsage(r.Usage), bytes.Clone(r.Result)
	return &c
}

func cloneReconciliation(r *store.Reconciliation) *store.Reconciliation {
	c := *r
	c.Usage = cloneUsage(r.Usage)
	return &c
}

func cloneSnapshot(s store.Snapshot) *store.Snapshot {
	s.State, s.Folds = bytes.Clone(s.State), bytes.Clone(s.Folds)
	return &s
}

func cloneUsage(u *engine.Usage) *engine.Usage {
	if u == nil {
		return nil
	}
	c := *u
	return &c
}
