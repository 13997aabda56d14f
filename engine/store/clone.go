package store

import (
	"bytes"
	"slices"

	"github.com/agentrooms/qualify/engine"
)

// Clone is a copy that shares no memory with h, as are those of the other
// records here: what a store in memory keeps and what it gives away.
func (h *Head) Clone() Head {
	c := *h
	c.Salt = bytes.Clone(h.Salt)
	return c
}

// Clone is a copy that shares no memory with r.
func (r *Row) Clone() Row {
	c := *r
	c.Event, c.Commands = bytes.Clone(r.Event), bytes.Clone(r.Commands)
	return c
}

// CloneRows clones each row.
func CloneRows(rows []Row) []Row {
	out := make([]Row, 0, len(rows))
	for i := range rows {
		out = append(out, rows[i].Clone())
	}
	return out
}

// Clone is a copy that shares no memory with o.
func (o *Op) Clone() Op {
	c := *o
	c.Request, c.Receipt, c.Reconciled = bytes.Clone(o.Request), o.Receipt.Clone(), o.Reconciled.Clone()
	return c
}

// Clone is a copy that shares no memory with r; nil of nil.
func (r *Receipt) Clone() *Receipt {
	if r == nil {
		return nil
	}
	c := *r
	c.Usage, c.Result = cloneUsage(r.Usage), bytes.Clone(r.Result)
	return &c
}

// Clone is a copy that shares no memory with r; nil of nil.
func (r *Reconciliation) Clone() *Reconciliation {
	if r == nil {
		return nil
	}
	c := *r
	c.Usage = cloneUsage(r.Usage)
	return &c
}

func cloneUsage(u *engine.Usage) *engine.Usage {
	if u == nil {
		return nil
	}
	c := *u
	return &c
}

// Clone is a copy that shares no memory with s.
func (s *Snapshot) Clone() *Snapshot {
	c := *s
	c.State, c.Folds = bytes.Clone(s.State), bytes.Clone(s.Folds)
	return &c
}

// Clone is a copy that shares no memory with c.
func (c *Ceiling) Clone() Ceiling {
	out := *c
	out.Overruns = slices.Clone(c.Overruns)
	return out
}

// Clone is a copy that shares no memory with c.
func (c *Campaign) Clone() Campaign {
	out := *c
	out.Plan, out.Totals = bytes.Clone(c.Plan), bytes.Clone(c.Totals)
	return out
}
