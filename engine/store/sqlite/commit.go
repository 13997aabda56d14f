package sqlite

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/engine/store"
)

// Commit implements store.Rooms.
func (s *Store) Commit(ctx context.Context, c store.Commit) (*store.Committed, error) {
	if err := store.CheckCommit(&c); err != nil {
		return nil, err
	}
	own := &c
	if mayLeave(ctx) {
		own = cloneCommit(c)
	}
	var out *store.Committed
	err := s.writeRoom(ctx, "commit", c.Room, func(ctx context.Context, w *writer, n int64) error {
		p := pending{c: own, n: n}
		if err := p.check(ctx, w); err != nil {
			return err
		}
		if err := p.store(ctx, w); err != nil {
			return err
		}
		out = &store.Committed{Head: p.head, Admissions: p.admissions}
		out.Head.Salt = bytes.Clone(p.head.Salt)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// pending is a commit between its checks, which only read, and its writes.
type pending struct {
	c          *store.Commit
	n          int64
	room       *openRoom
	head       store.Head
	settled    []store.Op
	ops        []store.Op
	admissions []store.Admission
	index      []store.IndexEntry
	outbox     []store.OutboxEntry
}

func (p *pending) check(ctx context.Context, w *writer) (err error) {
	if p.room, err = w.room(ctx, p.n); err != nil {
		return err
	}
	p.head = p.room.head
	if err := store.CheckHead(&p.head, p.c); err != nil {
		return err
	}
	if err := p.checkReceipts(ctx, w); err != nil {
		return err
	}
	if err := p.checkOps(ctx, w); err != nil {
		return err
	}
	if err := p.checkIndex(ctx, w); err != nil {
		return err
	}
	return p.checkOutbox(ctx, w)
}

func (p *pending) checkReceipts(ctx context.Context, w *writer) error {
	for i := range p.c.Receipts {
		r := &p.c.Receipts[i]
		var op store.Op
		if j := slices.IndexFunc(p.settled, func(o store.Op) bool { return o.ID == r.Op }); j >= 0 {
			op = p.settled[j]
		} else {
			var err error
			if op, err = w.op(ctx, p.n, p.c.Room, r.Op); err != nil {
				return err
			}
		}
		changed, err := store.Settle(&p.head, &op, r)
		if err != nil {
			return err
		}
		if changed {
			p.settled = append(p.settled, op)
		}
	}
	return nil
}

func (p *pending) checkOps(ctx context.Context, w *writer) error {
	p.admissions = make([]store.Admission, 0, len(p.c.Ops))
	p.ops = make([]store.Op, 0, len(p.c.Ops))
	for i, op := range p.c.Ops {
		known, err := w.opKnown(ctx, p.n, op.ID)
		if err != nil {
			return err
		}
		if known || slices.ContainsFunc(p.ops, func(o store.Op) bool { return o.ID == op.ID }) {
			return fmt.Errorf("room %s, operation %s: %w", p.c.Room, op.ID, store.ErrExists)
		}
		op.Rev, op.Ordinal = p.c.Row.Rev, i
		p.admissions = append(p.admissions, store.Admit(&p.head, &op))
		p.ops = append(p.ops, op)
	}
	return nil
}

func (p *pending) checkIndex(ctx context.Context, w *writer) error {
	for _, e := range p.c.Index {
		var have string
		known, err := w.stored(ctx, p.room, roomKey{kind: keyIndex, a: e.Space, b: e.Key}, sqlRemembered, []any{p.n, e.Space, e.Key}, &have)
		if err != nil {
			return err
		}
		stored := known
		if !known {
			if j := slices.IndexFunc(p.index, func(o store.IndexEntry) bool { return o.Space == e.Space && o.Key == e.Key }); j >= 0 {
				have, stored = p.index[j].Value, true
			}
		}
		switch {
		case !stored:
			p.index = append(p.index, e)
		case have != e.Value:
			return fmt.Errorf("room %s, index %s/%s: %w with another value", p.c.Room, e.Space, e.Key, store.ErrExists)
		}
	}
	return nil
}

func (p *pending) checkOutbox(ctx context.Context, w *writer) error {
	for _, e := range p.c.Outbox {
		var have []byte
		known, err := w.stored(ctx, p.room, roomKey{kind: keyOutbox, a: e.ID}, sqlOutboxBody, []any{p.n, e.ID}, &have)
		if err != nil {
			return err
		}
		if !known {
			if j := slices.IndexFunc(p.outbox, func(o store.OutboxEntry) bool { return o.ID == e.ID }); j >= 0 {
				have, known = p.outbox[j].Body, true
			}
		}
		switch {
		case !known:
			p.outbox = append(p.outbox, e)
		case !bytes.Equal(have, e.Body):
			return fmt.Errorf("room %s, notification %s: %w with another body", p.c.Room, e.ID, store.ErrExists)
		}
	}
	return nil
}

func (p *pending) store(ctx context.Context, w *writer) error {
	prev, h, r := p.c, &p.head, &p.c.Row
	h.Advance(r)
	if err := w.change(ctx, sqlAdvanceHead, h.Machine, h.Rev, h.Digest, h.StateDigest,
		h.Money.Charged, h.Money.Held, h.Money.Unknown, h.Halted, p.n, prev.ExpectRev, prev.ExpectHead); err != nil {
		return err
	}
	if err := w.exec(ctx, sqlInsertRow, p.n, r.Rev, r.Machine, bytesOf(r.Event), bytesOf(r.Commands),
		r.CommandsDigest, r.StateDigest, r.Prev, r.Digest); err != nil {
		return err
	}
	p.room.head = p.head
	for i := range p.settled {
		if err := w.settle(ctx, p.n, p.room, &p.settled[i]); err != nil {
			return err
		}
	}
	for i := range p.ops {
		if err := w.insertOp(ctx, p.n, p.room, &p.ops[i]); err != nil {
			return err
		}
	}
	for _, e := range p.index {
		if err := w.exec(ctx, sqlRemember, p.n, e.Space, e.Key, e.Value); err != nil {
			return err
		}
		w.learn(p.n, p.room, roomKey{kind: keyIndex, a: e.Space, b: e.Key})
	}
	for _, e := range p.outbox {
		if err := w.exec(ctx, sqlInsertOutbox, p.n, e.ID, r.Rev, bytesOf(e.Body)); err != nil {
			return err
		}
		w.learn(p.n, p.room, roomKey{kind: keyOutbox, a: e.ID})
	}
	return w.blobs(ctx, p.n, p.c.Blobs)
}

func (w *writer) insertOp(ctx context.Context, n int64, r *openRoom, o *store.Op) error {
	err := w.exec(ctx, sqlInsertOp, n, o.ID, string(o.Key.Kind), o.Key.Cause, o.Key.Attempt, o.Key.Ordinal, o.Rev, o.Ordinal,
		o.Agent, o.Role, o.Task, o.Tool, o.Request, o.RequestDigest, o.ReservedMicros, o.DeadlineUS, string(o.Status))
	if err != nil {
		return err
	}
	if o.Status == store.OpReserved { // as the file has it: nothing has come of it yet
		r.open[o.ID] = store.Op{
			ID: o.ID, Key: o.Key, Rev: o.Rev, Ordinal: o.Ordinal, Agent: o.Agent, Role: o.Role, Task: o.Task, Tool: o.Tool,
			RequestDigest: o.RequestDigest, ReservedMicros: o.ReservedMicros, DeadlineUS: o.DeadlineUS, Status: o.Status,
		}
	}
	w.learn(n, r, roomKey{kind: keyOp, a: o.ID})
	return nil
}

// mayLeave reports that a caller may give up waiting: what it handed in is then
// copied, because the writer may read it later. Who waits to the end does not
// touch it meanwhile.
func mayLeave(ctx context.Context) bool { return ctx.Done() != nil }

// cloneCommit copies what the writer may still read after the caller has given
// up waiting.
func cloneCommit(c store.Commit) *store.Commit {
	c.Row = c.Row.Clone()
	c.Ops = slices.Clone(c.Ops)
	for i := range c.Ops {
		c.Ops[i].Request = bytes.Clone(c.Ops[i].Request)
	}
	c.Receipts = slices.Clone(c.Receipts)
	for i := range c.Receipts {
		c.Receipts[i] = *c.Receipts[i].Clone()
	}
	c.Blobs = cloneBlobs(c.Blobs)
	c.Outbox = slices.Clone(c.Outbox)
	for i := range c.Outbox {
		c.Outbox[i].Body = bytes.Clone(c.Outbox[i].Body)
	}
	c.Index = slices.Clone(c.Index)
	return &c
}

func cloneBlobs(blobs []store.Blob) []store.Blob {
	out := slices.Clone(blobs)
	for i := range out {
		out[i].Content = bytes.Clone(out[i].Content)
	}
	return out
}
