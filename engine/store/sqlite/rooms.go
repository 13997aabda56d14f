package sqlite

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/engine/store"
)

// info returns what never changes about a room.
func (s *Store) info(ctx context.Context, room string) (roomInfo, error) {
	if v, ok := s.rooms.Load(room); ok {
		if info, ok := v.(roomInfo); ok {
			return info, nil
		}
	}
	var info roomInfo
	found := false
	err := s.read(ctx, "room "+room, false, func(v view) (err error) {
		found, err = v.row(ctx, sqlRoomInfo, []any{room}, &info.n, &info.funds)
		return err
	})
	if err != nil {
		return info, err
	}
	if !found {
		return info, fmt.Errorf("room %s: %w", room, store.ErrNotFound)
	}
	s.rooms.Store(room, info)
	return info, nil
}

// writeRoom queues a write to one room.
func (s *Store) writeRoom(ctx context.Context, what, room string, run func(context.Context, *writer, int64) error) error {
	info, err := s.info(ctx, room)
	if err != nil {
		return err
	}
	return s.write(ctx, what+" room="+room, info.funds == store.FundsReal, func(ctx context.Context, w *writer) error {
		return run(ctx, w, info.n)
	})
}

// readRoom reads one room.
func (s *Store) readRoom(ctx context.Context, what, room string, snapshot bool, f func(view, int64) error) error {
	info, err := s.info(ctx, room)
	if err != nil {
		return err
	}
	return s.read(ctx, what+" room="+room, snapshot, func(v view) error { return f(v, info.n) })
}

// CreateRoom implements store.Rooms.
func (s *Store) CreateRoom(ctx context.Context, r store.NewRoom) error {
	if err := store.CheckNewRoom(r); err != nil {
		return err
	}
	r.Salt = bytes.Clone(bytesOf(r.Salt))
	made := roomInfo{funds: r.Funds}
	err := s.write(ctx, "create room="+r.Room, r.Funds == store.FundsReal, func(ctx context.Context, w *writer) error {
		var info roomInfo
		exists, err := w.row(ctx, sqlRoomInfo, []any{r.Room}, &info.n, &info.funds)
		if err != nil {
			return err
		}
		if exists {
			return fmt.Errorf("room %s: %w", r.Room, store.ErrExists)
		}
		if _, err := w.row(ctx, sqlInsertRoom, []any{r.Room, string(r.Funds), r.Salt, r.Allotment, r.Machine, r.Money.Limit}, &made.n); err != nil {
			return err
		}
		room := newOpenRoom()
		room.head, room.whole = store.HeadOf(r), true
		w.lay(made.n, room)
		return nil
	})
	if err == nil {
		s.rooms.Store(r.Room, made)
	}
	return err
}

// Load implements store.Rooms.
func (s *Store) Load(ctx context.Context, room string) (*store.Loaded, error) {
	return s.load(ctx, "load", room, false)
}

// LoadTail implements store.Rooms.
func (s *Store) LoadTail(ctx context.Context, room string) (*store.Loaded, error) {
	return s.load(ctx, "load tail", room, true)
}

// load reads a room; tail leaves out what a snapshot covers, but its own row.
func (s *Store) load(ctx context.Context, what, room string, tail bool) (*store.Loaded, error) {
	l := &store.Loaded{}
	err := s.readRoom(ctx, what, room, true, func(v view, n int64) error {
		if err := v.head(ctx, n, room, &l.Head); err != nil {
			return err
		}
		var snap store.Snapshot
		found, err := v.snapshot(ctx, n, &snap)
		if err != nil {
			return err
		}
		after := int64(-1)
		if found {
			l.Snapshot, after = &snap, snap.Rev
		}
		if found && tail {
			l.Rows, err = v.rows(ctx, n, after-1, -1)
			return err
		}
		if l.Rows, err = v.rows(ctx, n, after, -1); err != nil {
			return err
		}
		if l.Ops, err = v.ops(ctx, n); err != nil {
			return err
		}
		l.Effects, err = v.effects(ctx, sqlEffects, n)
		return err
	})
	if err != nil {
		return nil, err
	}
	return l, nil
}

// LoadOps implements store.Rooms.
func (s *Store) LoadOps(ctx context.Context, room string, ids []string) (*store.Loaded, error) {
	l := &store.Loaded{}
	err := s.readRoom(ctx, "load operations", room, true, func(v view, n int64) error {
		if err := v.head(ctx, n, room, &l.Head); err != nil {
			return err
		}
		seen := map[string]bool{}
		for _, id := range ids {
			if seen[id] {
				continue
			}
			seen[id] = true
			var r opRow
			found, err := v.row(ctx, sqlOpWhole, []any{n, id}, append(r.fields(), &r.op.Request)...)
			if err != nil {
				return err
			}
			if !found {
				continue
			}
			op, err := r.finish()
			if err != nil {
				return err
			}
			effects, err := v.effects(ctx, sqlOpEffects, n, id)
			if err != nil {
				return err
			}
			l.Ops, l.Effects = append(l.Ops, op), append(l.Effects, effects...)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	store.SortLoaded(l)
	return l, nil
}

func (v view) head(ctx context.Context, n int64, room string, h *store.Head) error {
	found, err := v.row(ctx, sqlHead, []any{n}, headFields(h)...)
	if err == nil && !found {
		err = fmt.Errorf("room %s: %w", room, store.ErrNotFound)
	}
	return err
}

func (v view) snapshot(ctx context.Context, n int64, s *store.Snapshot) (bool, error) {
	return v.row(ctx, sqlSnapshot, []any{n}, &s.Rev, &s.Machine, &s.State, &s.Folds)
}

func (v view) rows(ctx context.Context, n, after int64, limit int) ([]store.Row, error) {
	var out []store.Row
	err := v.each(ctx, sqlRows, []any{n, after, limit}, func(scan func(...any) error) error {
		var r store.Row
		if err := scan(rowFields(&r)...); err != nil {
			return err
		}
		out = append(out, r)
		return nil
	})
	return out, err
}

func (v view) ops(ctx context.Context, n int64) ([]store.Op, error) {
	var out []store.Op
	err := v.each(ctx, sqlOps, []any{n}, func(scan func(...any) error) error {
		var r opRow
		if err := scan(append(r.fields(), &r.op.Request)...); err != nil {
			return err
		}
		op, err := r.finish()
		out = append(out, op)
		return err
	})
	return out, err
}

func (v view) effects(ctx context.Context, query string, args ...any) ([]store.Effect, error) {
	var out []store.Effect
	err := v.each(ctx, query, args, func(scan func(...any) error) error {
		var seq int64
		var body string
		if err := scan(&seq, &body); err != nil {
			return err
		}
		e, err := decodeEffect(seq, body)
		out = append(out, e)
		return err
	})
	return out, err
}

// Rows implements store.Rooms.
func (s *Store) Rows(ctx context.Context, room string, after int64, limit int) ([]store.Row, error) {
	if limit <= 0 {
		limit = -1
	}
	var out []store.Row
	err := s.readRoom(ctx, "rows", room, false, func(v view, n int64) (err error) {
		out, err = v.rows(ctx, n, after, limit)
		return err
	})
	return out, err
}

func (w *writer) head(ctx context.Context, n int64) (store.Head, error) {
	r, err := w.room(ctx, n)
	if err != nil {
		return store.Head{}, err
	}
	return r.head, nil
}

// op reads an operation without its request.
func (w *writer) op(ctx context.Context, n int64, room, id string) (store.Op, error) {
	if laid, ok := w.desk[n]; ok {
		if op, ok := laid.open[id]; ok {
			return op, nil
		}
	}
	var r opRow
	found, err := w.row(ctx, sqlOp, []any{n, id}, r.fields()...)
	if err != nil {
		return store.Op{}, err
	}
	if !found {
		return store.Op{}, fmt.Errorf("room %s, operation %s: %w", room, id, store.ErrNotFound)
	}
	return r.finish()
}

func (w *writer) money(ctx context.Context, n int64, h *store.Head) error {
	r, err := w.room(ctx, n)
	if err != nil {
		return err
	}
	r.head = *h
	return w.change(ctx, sqlUpdateMoney, h.Money.Charged, h.Money.Held, h.Money.Unknown, h.Halted, n)
}

func (w *writer) settle(ctx context.Context, n int64, laid *openRoom, op *store.Op) error {
	r := op.Receipt
	usage, err := usageText(r.Usage)
	if err != nil {
		return err
	}
	delete(laid.open, op.ID)
	return w.change(ctx, sqlSettleOp, string(op.Status), op.ChargedMicros, op.DispatchedAtUS,
		string(r.Outcome), r.StartUS, r.FinishUS, r.ChargedMicros, r.UsageSource, usage, r.Result, n, op.ID)
}

func (w *writer) blobs(ctx context.Context, n int64, blobs []store.Blob) error {
	for i := range blobs {
		b := &blobs[i]
		if err := w.exec(ctx, sqlInsertBlob, n, b.Digest, b.Media, bytesOf(b.Content)); err != nil {
			return err
		}
	}
	return nil
}

// MarkDispatched implements store.Rooms.
func (s *Store) MarkDispatched(ctx context.Context, room, op string) error {
	return s.writeRoom(ctx, "dispatch op="+op, room, func(ctx context.Context, w *writer, n int64) error {
		r, err := w.room(ctx, n)
		if err != nil {
			return err
		}
		o, err := w.op(ctx, n, room, op)
		if err != nil {
			return err
		}
		if err := store.Dispatch(&r.head, &o); err != nil {
			return err
		}
		r.open[op] = o
		return w.change(ctx, sqlDispatchOp, n, op)
	})
}

// PutReceipt implements store.Rooms.
func (s *Store) PutReceipt(ctx context.Context, room string, r store.Receipt, blobs []store.Blob) error {
	if mayLeave(ctx) {
		r, blobs = *r.Clone(), cloneBlobs(blobs)
	}
	return s.writeRoom(ctx, "receipt op="+r.Op, room, func(ctx context.Context, w *writer, n int64) error {
		h, err := w.head(ctx, n)
		if err != nil {
			return err
		}
		op, err := w.op(ctx, n, room, r.Op)
		if err != nil {
			return err
		}
		changed, err := store.Settle(&h, &op, &r)
		if err != nil {
			return err
		}
		if changed {
			laid, err := w.room(ctx, n)
			if err != nil {
				return err
			}
			if err := w.settle(ctx, n, laid, &op); err != nil {
				return err
			}
			if err := w.money(ctx, n, &h); err != nil {
				return err
			}
		}
		return w.blobs(ctx, n, blobs)
	})
}

// Reconcile implements store.Rooms.
func (s *Store) Reconcile(ctx context.Context, room, op string, r store.Reconciliation) error {
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode reconciliation: %w", err)
	}
	return s.writeRoom(ctx, "reconcile op="+op, room, func(ctx context.Context, w *writer, n int64) error {
		h, err := w.head(ctx, n)
		if err != nil {
			return err
		}
		o, err := w.op(ctx, n, room, op)
		if err != nil {
			return err
		}
		changed, err := store.Resolve(&h, &o, &r)
		if err != nil || !changed {
			return err
		}
		if err := w.change(ctx, sqlReconcileOp, string(o.Status), o.ChargedMicros, string(text), n, op); err != nil {
			return err
		}
		return w.money(ctx, n, &h)
	})
}

// GrantRoom implements store.Rooms.
func (s *Store) GrantRoom(ctx context.Context, room string, total int64, ackOps []string) (store.Head, error) {
	ack := slices.Clone(ackOps)
	var out store.Head
	err := s.writeRoom(ctx, "grant", room, func(ctx context.Context, w *writer, n int64) error {
		h, err := w.head(ctx, n)
		if err != nil {
			return err
		}
		open, err := w.overruns(ctx, n)
		if err != nil {
			return err
		}
		if err := h.Grant(total, open, ack); err != nil {
			return err
		}
		for _, op := range ack {
			if err := w.exec(ctx, sqlAcknowledgeOp, n, op); err != nil {
				return err
			}
		}
		out = h
		out.Salt = bytes.Clone(h.Salt)
		w.away(n)
		return w.change(ctx, sqlGrantRoom, h.Money.Limit, h.Halted, n)
	})
	if err != nil {
		return store.Head{}, err
	}
	return out, nil
}

// overruns lists the operations of a room that were charged more than they
// reserved and are not acknowledged.
func (w *writer) overruns(ctx context.Context, n int64) ([]string, error) {
	var out []string
	for rev, ordinal := int64(-1), 0; ; {
		var id string
		found, err := w.row(ctx, sqlOverrun, []any{n, rev, ordinal}, &id, &rev, &ordinal)
		if err != nil || !found {
			return out, err
		}
		out = append(out, id)
	}
}

// PutEffect implements store.Rooms.
func (s *Store) PutEffect(ctx context.Context, e store.Effect, blobs []store.Blob) error {
	e, blobs = store.StoredEffect(e, 0), cloneBlobs(blobs)
	body, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode effect: %w", err)
	}
	return s.writeRoom(ctx, "effect op="+e.Op, e.Room, func(ctx context.Context, w *writer, n int64) error {
		done, err := w.checkEffect(ctx, n, &e)
		if err != nil || done {
			return err
		}
		r, err := w.room(ctx, n)
		if err != nil {
			return err
		}
		seq := r.seq + 1
		if !r.whole {
			if _, err := w.row(ctx, sqlEffectSeq, []any{n}, &seq); err != nil {
				return err
			}
		}
		if err := w.exec(ctx, sqlInsertEffect, n, e.Op, e.N, seq, string(body)); err != nil {
			return err
		}
		r.seq = seq
		w.learn(n, r, roomKey{kind: keyEffect, a: e.Op, n: e.N})
		return w.blobs(ctx, n, blobs)
	})
}

// checkEffect reports whether an equal record is stored already.
func (w *writer) checkEffect(ctx context.Context, n int64, e *store.Effect) (done bool, err error) {
	if found, err := w.opKnown(ctx, n, e.Op); err != nil {
		return false, err
	} else if !found {
		return false, fmt.Errorf("room %s, operation %s: %w", e.Room, e.Op, store.ErrNotFound)
	}
	r, err := w.room(ctx, n)
	if err != nil {
		return false, err
	}
	var seq int64
	var text string
	found, err := w.stored(ctx, r, roomKey{kind: keyEffect, a: e.Op, n: e.N}, sqlEffect, []any{n, e.Op, e.N}, &seq, &text)
	if err != nil {
		return false, err
	}
	if found {
		have, err := decodeEffect(seq, text)
		if err != nil {
			return false, err
		}
		if store.EqualEffects(&have, e) {
			return true, nil
		}
		return false, fmt.Errorf("room %s, effect %s/%d: another one is stored: %w", e.Room, e.Op, e.N, store.ErrReceiptMismatch)
	}
	if r.head.Closed {
		err = fmt.Errorf("room %s, effect %s/%d: room is closed: %w", e.Room, e.Op, e.N, store.ErrClosed)
	}
	return false, err
}

// PutSnapshot implements store.Rooms.
func (s *Store) PutSnapshot(ctx context.Context, room string, snap store.Snapshot) error {
	snap.State, snap.Folds = bytes.Clone(bytesOf(snap.State)), bytes.Clone(snap.Folds)
	return s.writeRoom(ctx, "snapshot", room, func(ctx context.Context, w *writer, n int64) error {
		h, err := w.head(ctx, n)
		if err != nil {
			return err
		}
		if err := store.CheckSnapshot(&h, &snap); err != nil {
			return err
		}
		return w.exec(ctx, sqlPutSnapshot, n, snap.Rev, snap.Machine, snap.State, snap.Folds)
	})
}

// CloseRoom implements store.Rooms.
func (s *Store) CloseRoom(ctx context.Context, room, termination string, atUS int64) error {
	return s.writeRoom(ctx, "close", room, func(ctx context.Context, w *writer, n int64) error {
		h, err := w.head(ctx, n)
		if err != nil {
			return err
		}
		changed, err := store.CloseHead(&h, termination, atUS)
		if err != nil || !changed {
			return err
		}
		w.away(n)
		return w.change(ctx, sqlCloseRoom, termination, atUS, n)
	})
}

// Blobs implements store.Rooms.
func (s *Store) Blobs(ctx context.Context, room string, digests []string) (map[string][]byte, error) {
	out := map[string][]byte{}
	err := s.readRoom(ctx, "blobs", room, len(digests) > 1, func(v view, n int64) error {
		for _, d := range digests {
			var content []byte
			found, err := v.row(ctx, sqlBlob, []any{n, d}, &content)
			if err != nil {
				return err
			}
			if found {
				out[d] = bytesOf(content)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Outbox implements store.Rooms.
func (s *Store) Outbox(ctx context.Context, room string) ([]store.OutboxEntry, error) {
	var out []store.OutboxEntry
	err := s.readRoom(ctx, "outbox", room, false, func(v view, n int64) error {
		return v.each(ctx, sqlOutbox, []any{n}, func(scan func(...any) error) error {
			var e store.OutboxEntry
			if err := scan(&e.ID, &e.Rev, &e.Body); err != nil {
				return err
			}
			out = append(out, e)
			return nil
		})
	})
	return out, err
}

// Delivered implements store.Rooms.
func (s *Store) Delivered(ctx context.Context, room, id string) error {
	return s.writeRoom(ctx, "delivered", room, func(ctx context.Context, w *writer, n int64) error {
		var body []byte
		found, err := w.row(ctx, sqlOutboxBody, []any{n, id}, &body)
		if err != nil {
			return err
		}
		if !found {
			return fmt.Errorf("room %s, notification %s: %w", room, id, store.ErrNotFound)
		}
		return w.exec(ctx, sqlDelivered, n, id)
	})
}

// Lookup implements store.Rooms.
func (s *Store) Lookup(ctx context.Context, room, space string, keys []string) (map[string]string, error) {
	out := map[string]string{}
	err := s.readRoom(ctx, "lookup", room, len(keys) > 1, func(v view, n int64) error {
		for _, k := range keys {
			var value string
			found, err := v.row(ctx, sqlRemembered, []any{n, space, k}, &value)
			if err != nil {
				return err
			}
			if found {
				out[k] = value
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// ListRooms implements store.Rooms.
func (s *Store) ListRooms(ctx context.Context, prefix string) ([]store.Head, error) {
	var out []store.Head
	err := s.read(ctx, "list rooms", false, func(v view) error {
		return v.each(ctx, sqlHeads, []any{prefix}, func(scan func(...any) error) error {
			var h store.Head
			if err := scan(headFields(&h)...); err != nil {
				return err
			}
			out = append(out, h)
			return nil
		})
	})
	return out, err
}
