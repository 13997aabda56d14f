package memory

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/engine/store"
)

type room struct {
	head      store.Head
	rows      []store.Row
	snapshot  *store.Snapshot
	ops       []*store.Op // by (Rev, Ordinal)
	op        map[string]*store.Op
	effects   []store.Effect
	effect    map[effectKey]int
	blobs     map[string]store.Blob
	outbox    []outboxEntry
	outboxPos map[string]int
	index     map[indexKey]string
}

type effectKey struct {
	op string
	n  int
}

type indexKey struct{ space, key string }

type outboxEntry struct {
	store.OutboxEntry
	delivered bool
}

func (s *Store) room(id string) (*room, error) {
	r, ok := s.rooms[id]
	if !ok {
		return nil, fmt.Errorf("room %s: %w", id, store.ErrNotFound)
	}
	return r, nil
}

func (r *room) find(op string) (*store.Op, error) {
	o, ok := r.op[op]
	if !ok {
		return nil, fmt.Errorf("room %s, operation %s: %w", r.head.Room, op, store.ErrNotFound)
	}
	return o, nil
}

// CreateRoom implements store.Rooms.
func (s *Store) CreateRoom(ctx context.Context, n store.NewRoom) error {
	if err := store.CheckNewRoom(n); err != nil {
		return err
	}
	if err := s.enterWrite(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if _, ok := s.rooms[n.Room]; ok {
		return fmt.Errorf("room %s: %w", n.Room, store.ErrExists)
	}
	n.Salt = bytes.Clone(n.Salt)
	r := &room{
		head:      store.HeadOf(n),
		op:        map[string]*store.Op{},
		effect:    map[effectKey]int{},
		blobs:     map[string]store.Blob{},
		outboxPos: map[string]int{},
		index:     map[indexKey]string{},
	}
	s.rooms[n.Room] = r
	s.writes++
	return nil
}

// Load implements store.Rooms.
func (s *Store) Load(ctx context.Context, id string) (*store.Loaded, error) {
	return s.load(ctx, id, false)
}

// LoadTail implements store.Rooms.
func (s *Store) LoadTail(ctx context.Context, id string) (*store.Loaded, error) {
	return s.load(ctx, id, true)
}

// load reads a room; tail leaves out what a snapshot covers, but its own row.
func (s *Store) load(ctx context.Context, id string, tail bool) (*store.Loaded, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	r, err := s.room(id)
	if err != nil {
		return nil, err
	}
	l := &store.Loaded{Head: r.head.Clone()}
	from := int64(0)
	if r.snapshot != nil {
		l.Snapshot = r.snapshot.Clone()
		from = l.Snapshot.Rev + 1
		if tail {
			l.Rows = store.CloneRows(r.rows[l.Snapshot.Rev:])
			return l, nil
		}
	}
	l.Rows, l.Effects = store.CloneRows(r.rows[from:]), slices.Clone(r.effects)
	for _, op := range r.ops {
		l.Ops = append(l.Ops, op.Clone())
	}
	return l, nil
}

// LoadOps implements store.Rooms.
func (s *Store) LoadOps(ctx context.Context, id string, ids []string) (*store.Loaded, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	r, err := s.room(id)
	if err != nil {
		return nil, err
	}
	l := &store.Loaded{Head: r.head.Clone()}
	seen := map[string]bool{}
	for _, op := range ids {
		o, ok := r.op[op]
		if !ok || seen[op] {
			continue
		}
		seen[op] = true
		l.Ops = append(l.Ops, o.Clone())
	}
	for i := range r.effects { // of any number, also where one before it is not there
		if seen[r.effects[i].Op] {
			l.Effects = append(l.Effects, r.effects[i])
		}
	}
	store.SortLoaded(l)
	return l, nil
}

// Rows implements store.Rooms.
func (s *Store) Rows(ctx context.Context, id string, after int64, limit int) ([]store.Row, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	r, err := s.room(id)
	if err != nil {
		return nil, err
	}
	from := min(max(after, -1), r.head.Rev) + 1
	rows := r.rows[from:]
	if limit > 0 && limit < len(rows) {
		rows = rows[:limit]
	}
	return store.CloneRows(rows), nil
}

// Commit implements store.Rooms.
func (s *Store) Commit(ctx context.Context, c store.Commit) (*store.Committed, error) {
	if err := store.CheckCommit(&c); err != nil {
		return nil, err
	}
	if err := s.enterWrite(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	r, err := s.room(c.Room)
	if err != nil {
		return nil, err
	}
	if err := store.CheckHead(&r.head, &c); err != nil {
		return nil, err
	}
	head := r.head.Clone()
	settled, err := r.settle(&head, c.Receipts)
	if err != nil {
		return nil, err
	}
	ops, admissions, err := r.admit(&head, &c)
	if err != nil {
		return nil, err
	}
	entries, err := r.checkIndex(c.Index)
	if err != nil {
		return nil, err
	}
	outbox, err := r.checkOutbox(&c)
	if err != nil {
		return nil, err
	}

	head.Advance(&c.Row)
	r.head = head
	r.rows = append(r.rows, c.Row.Clone())
	for _, op := range settled {
		*r.op[op.ID] = *op
	}
	for _, op := range ops {
		r.ops = append(r.ops, op)
		r.op[op.ID] = op
	}
	for k, v := range entries {
		r.index[k] = v
	}
	for _, e := range outbox {
		r.outboxPos[e.ID] = len(r.outbox)
		r.outbox = append(r.outbox, outboxEntry{OutboxEntry: e})
	}
	r.putBlobs(c.Blobs)
	s.writes++
	return &store.Committed{Head: head.Clone(), Admissions: admissions}, nil
}

// settle applies receipts to head and to copies of their operations.
func (r *room) settle(head *store.Head, receipts []store.Receipt) ([]*store.Op, error) {
	var changed []*store.Op
	for i := range receipts {
		rec := receipts[i].Clone()
		op, err := r.find(rec.Op)
		if err != nil {
			return nil, err
		}
		if j := slices.IndexFunc(changed, func(o *store.Op) bool { return o.ID == rec.Op }); j >= 0 {
			op = changed[j]
		}
		next := *op
		ok, err := store.Settle(head, &next, rec)
		if err != nil {
			return nil, err
		}
		if ok {
			changed = append(changed, &next)
		}
	}
	return changed, nil
}

func (r *room) admit(head *store.Head, c *store.Commit) ([]*store.Op, []store.Admission, error) {
	ops := make([]*store.Op, 0, len(c.Ops))
	admissions := make([]store.Admission, 0, len(c.Ops))
	for i, o := range c.Ops {
		known := slices.ContainsFunc(ops, func(p *store.Op) bool { return p.ID == o.ID })
		if _, ok := r.op[o.ID]; ok || known {
			return nil, nil, fmt.Errorf("room %s, operation %s: %w", c.Room, o.ID, store.ErrExists)
		}
		op := o.Clone()
		op.Rev, op.Ordinal, op.ChargedMicros, op.DispatchedAtUS, op.Receipt, op.Reconciled = c.Row.Rev, i, 0, 0, nil, nil
		admissions = append(admissions, store.Admit(head, &op))
		ops = append(ops, &op)
	}
	return ops, admissions, nil
}

func (r *room) checkIndex(list []store.IndexEntry) (map[indexKey]string, error) {
	add := map[indexKey]string{}
	for _, e := range list {
		k := indexKey{e.Space, e.Key}
		v, ok := r.index[k]
		if !ok {
			v, ok = add[k]
		}
		if ok && v != e.Value {
			return nil, fmt.Errorf("room %s, index %s/%s: %w with another value", r.head.Room, e.Space, e.Key, store.ErrExists)
		}
		add[k] = e.Value
	}
	return add, nil
}

func (r *room) checkOutbox(c *store.Commit) ([]store.OutboxEntry, error) {
	var add []store.OutboxEntry
	for _, e := range c.Outbox {
		var have []byte
		known := false
		if i, ok := r.outboxPos[e.ID]; ok {
			have, known = r.outbox[i].Body, true
		} else if i := slices.IndexFunc(add, func(a store.OutboxEntry) bool { return a.ID == e.ID }); i >= 0 {
			have, known = add[i].Body, true
		}
		if !known {
			add = append(add, store.OutboxEntry{ID: e.ID, Rev: c.Row.Rev, Body: bytes.Clone(e.Body)})
		} else if !bytes.Equal(have, e.Body) {
			return nil, fmt.Errorf("room %s, notification %s: %w with another body", c.Room, e.ID, store.ErrExists)
		}
	}
	return add, nil
}

func (r *room) putBlobs(blobs []store.Blob) {
	for _, b := range blobs {
		if _, ok := r.blobs[b.Digest]; !ok {
			b.Content = bytes.Clone(b.Content)
			r.blobs[b.Digest] = b
		}
	}
}

// MarkDispatched implements store.Rooms.
func (s *Store) MarkDispatched(ctx context.Context, id, op string) error {
	return s.change(ctx, id, op, func(r *room, o *store.Op) (bool, error) {
		return true, store.Dispatch(&r.head, o)
	})
}

// PutReceipt implements store.Rooms.
func (s *Store) PutReceipt(ctx context.Context, id string, rec store.Receipt, blobs []store.Blob) error {
	return s.change(ctx, id, rec.Op, func(r *room, o *store.Op) (bool, error) {
		changed, err := store.Settle(&r.head, o, rec.Clone())
		if err == nil {
			r.putBlobs(blobs)
		}
		return changed, err
	})
}

// Reconcile implements store.Rooms.
func (s *Store) Reconcile(ctx context.Context, id, op string, rec store.Reconciliation) error {
	return s.change(ctx, id, op, func(r *room, o *store.Op) (bool, error) {
		return store.Resolve(&r.head, o, rec.Clone())
	})
}

// change runs one move of one operation; moves leave both untouched on error.
func (s *Store) change(ctx context.Context, id, op string, move func(*room, *store.Op) (bool, error)) error {
	if err := s.enterWrite(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	r, err := s.room(id)
	if err != nil {
		return err
	}
	o, err := r.find(op)
	if err != nil {
		return err
	}
	changed, err := move(r, o)
	if changed && err == nil {
		s.writes++
	}
	return err
}

// PutEffect implements store.Rooms.
func (s *Store) PutEffect(ctx context.Context, e store.Effect, blobs []store.Blob) error {
	return s.change(ctx, e.Room, e.Op, func(r *room, _ *store.Op) (bool, error) {
		key := effectKey{e.Op, e.N}
		if i, ok := r.effect[key]; ok {
			if store.EqualEffects(&r.effects[i], &e) {
				return false, nil
			}
			return false, fmt.Errorf("room %s, effect %s/%d: another one is stored: %w", e.Room, e.Op, e.N, store.ErrReceiptMismatch)
		}
		if r.head.Closed {
			return false, fmt.Errorf("room %s, effect %s/%d: room is closed: %w", e.Room, e.Op, e.N, store.ErrClosed)
		}
		r.effect[key] = len(r.effects)
		r.effects = append(r.effects, store.StoredEffect(e, int64(len(r.effects))+1))
		r.putBlobs(blobs)
		return true, nil
	})
}

// GrantRoom implements store.Rooms.
func (s *Store) GrantRoom(ctx context.Context, id string, total int64, ackOps []string) (store.Head, error) {
	if err := s.enterWrite(ctx); err != nil {
		return store.Head{}, err
	}
	defer s.mu.Unlock()
	r, err := s.room(id)
	if err != nil {
		return store.Head{}, err
	}
	var open []string
	for _, op := range r.ops {
		if op.Overran() && !op.Acknowledged {
			open = append(open, op.ID)
		}
	}
	h := r.head
	if err := h.Grant(total, open, ackOps); err != nil {
		return store.Head{}, err
	}
	for _, op := range ackOps {
		r.op[op].Acknowledged = true
	}
	r.head = h
	s.writes++
	return h.Clone(), nil
}

// PutSnapshot implements store.Rooms.
func (s *Store) PutSnapshot(ctx context.Context, id string, snap store.Snapshot) error {
	if err := s.enterWrite(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	r, err := s.room(id)
	if err != nil {
		return err
	}
	if err := store.CheckSnapshot(&r.head, &snap); err != nil {
		return err
	}
	r.snapshot = snap.Clone()
	s.writes++
	return nil
}

// CloseRoom implements store.Rooms.
func (s *Store) CloseRoom(ctx context.Context, id, termination string, atUS int64) error {
	if err := s.enterWrite(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	r, err := s.room(id)
	if err != nil {
		return err
	}
	changed, err := store.CloseHead(&r.head, termination, atUS)
	if changed {
		s.writes++
	}
	return err
}

// Blobs implements store.Rooms.
func (s *Store) Blobs(ctx context.Context, id string, digests []string) (map[string][]byte, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	r, err := s.room(id)
	if err != nil {
		return nil, err
	}
	out := map[string][]byte{}
	for _, d := range digests {
		if b, ok := r.blobs[d]; ok {
			out[d] = append([]byte{}, b.Content...)
		}
	}
	return out, nil
}

// Outbox implements store.Rooms.
func (s *Store) Outbox(ctx context.Context, id string) ([]store.OutboxEntry, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	r, err := s.room(id)
	if err != nil {
		return nil, err
	}
	var out []store.OutboxEntry
	for _, e := range r.outbox {
		if !e.delivered {
			out = append(out, store.OutboxEntry{ID: e.ID, Rev: e.Rev, Body: bytes.Clone(e.Body)})
		}
	}
	return out, nil
}

// Delivered implements store.Rooms.
func (s *Store) Delivered(ctx context.Context, id, entry string) error {
	if err := s.enterWrite(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	r, err := s.room(id)
	if err != nil {
		return err
	}
	i, ok := r.outboxPos[entry]
	if !ok {
		return fmt.Errorf("room %s, notification %s: %w", id, entry, store.ErrNotFound)
	}
	if !r.outbox[i].delivered {
		r.outbox[i].delivered = true
		s.writes++
	}
	return nil
}

// Lookup implements store.Rooms.
func (s *Store) Lookup(ctx context.Context, id, space string, keys []string) (map[string]string, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	r, err := s.room(id)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, k := range keys {
		if v, ok := r.index[indexKey{space, k}]; ok {
			out[k] = v
		}
	}
	return out, nil
}

// ListRooms implements store.Rooms.
func (s *Store) ListRooms(ctx context.Context, prefix string) ([]store.Head, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var out []store.Head
	for id, r := range s.rooms {
		if strings.HasPrefix(id, prefix) {
			out = append(out, r.head.Clone())
		}
	}
	slices.SortFunc(out, func(a, b store.Head) int { return strings.Compare(a.Room, b.Room) })
	return out, nil
}
