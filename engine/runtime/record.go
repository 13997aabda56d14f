package runtime

import (
	"github.com/agentrooms/qualify/engine/store"
)

// record follows what a run has the store write, by the store's own table of
// moves, so that the history of a room that one run made and closed is at hand
// without reading the room back. It believes itself only as long as it agrees
// with the head that the store answers; a nil record keeps nothing.
type record struct {
	head    store.Head
	ops     []store.Op
	index   map[string]int // place in ops by id
	effects []store.Effect
	broken  bool // the store did something else: no history
}

// newRecord begins the record of a room without rows.
func newRecord(h store.Head) *record {
	return &record{head: h, index: map[string]int{}}
}

// committed follows a commit that the store has answered.
func (c *record) committed(did *store.Commit, done *store.Committed) {
	if c == nil || c.broken {
		return
	}
	for i := range did.Receipts {
		c.settled(&did.Receipts[i])
	}
	for i, op := range did.Ops {
		op.Rev, op.Ordinal = did.Row.Rev, i
		got := store.Admit(&c.head, &op)
		c.check(i < len(done.Admissions) && got == done.Admissions[i])
		c.index[op.ID] = len(c.ops)
		c.ops = append(c.ops, op)
	}
	c.head.Advance(&did.Row)
	c.agree(&done.Head)
}

// op finds an operation by its id, nil when the record has lost track.
func (c *record) op(id string) *store.Op {
	if c == nil || c.broken {
		return nil
	}
	i, ok := c.index[id]
	c.check(ok)
	if !ok {
		return nil
	}
	return &c.ops[i]
}

func (c *record) dispatched(id string) {
	if op := c.op(id); op != nil {
		c.check(store.Dispatch(&c.head, op) == nil)
	}
}

func (c *record) settled(r *store.Receipt) {
	if op := c.op(r.Op); op != nil {
		_, err := store.Settle(&c.head, op, r)
		c.check(err == nil)
	}
}

func (c *record) reconciled(id string, r *store.Reconciliation) {
	if op := c.op(id); op != nil {
		_, err := store.Resolve(&c.head, op, r)
		c.check(err == nil)
	}
}

func (c *record) effect(e store.Effect) {
	if c != nil && !c.broken {
		e.Seq = int64(len(c.effects)) + 1
		c.effects = append(c.effects, e)
	}
}

func (c *record) closed(termination string, atUS int64) {
	if c != nil && !c.broken {
		_, err := store.CloseHead(&c.head, termination, atUS)
		c.check(err == nil)
	}
}

func (c *record) check(ok bool) { c.broken = c.broken || !ok }

// agree compares the record's head with the one that the store holds.
func (c *record) agree(h *store.Head) {
	a, b := c.head, *h
	c.check(a.Rev == b.Rev && a.Digest == b.Digest && a.StateDigest == b.StateDigest && a.Machine == b.Machine &&
		a.Money == b.Money && a.Funds == b.Funds && a.Halted == b.Halted &&
		a.Closed == b.Closed && a.Termination == b.Termination && a.ClosedAtUS == b.ClosedAtUS)
}

// history is the room's history as this run saw it; nil when the run does not
// know all of it. A fault may have left machine and world between two states,
// so a room closed by one has its history from a replay only.
func (r *run) history(head store.Head) (*History, error) {
	if r.record == nil {
		return nil, nil
	}
	if r.record.agree(&head); r.record.broken {
		return nil, nil
	}
	for i := range r.record.ops { // Settle has copied each receipt: the record's own
		if op := &r.record.ops[i]; op.Receipt != nil {
			op.Receipt.Fault = r.ops[op.ID].body.Fault
		}
	}
	return r.historyOf(head, r.record.ops, r.record.effects)
}
