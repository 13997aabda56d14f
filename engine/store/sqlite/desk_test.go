package sqlite

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/storetest"
)

// checkDesk compares what the writer knows of a room with what the file says.
func checkDesk(t *testing.T, s *Store, room string) {
	t.Helper()
	l, err := s.Load(t.Context(), room)
	must(t, err)
	err = s.writeRoom(t.Context(), "look", room, func(_ context.Context, w *writer, n int64) error {
		r, ok := w.desk[n]
		if !ok {
			return nil
		}
		if d := cmp.Diff(l.Head, r.head); d != "" {
			t.Errorf("head on the desk (-file +desk):\n%s", d)
		}
		if r.whole && r.seq != int64(len(l.Effects)) {
			t.Errorf("%d effects on the desk, %d in the file", r.seq, len(l.Effects))
		}
		filed := map[string]store.Op{}
		for _, op := range l.Ops {
			filed[op.ID] = op
			if _, known := r.known[roomKey{kind: keyOp, a: op.ID}]; r.whole && !known {
				t.Errorf("operation %s is not known", op.ID)
			}
		}
		for id, op := range r.open {
			if d := cmp.Diff(filed[id], op, cmpopts.IgnoreFields(store.Op{}, "Request")); d != "" {
				t.Errorf("operation on the desk (-file +desk):\n%s", d)
			}
		}
		return nil
	})
	must(t, err)
}

// The desk says what the file says after every kind of write, for a room that
// was made at it and for one that was not.
func TestDeskAgreesWithTheFile(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "s.db")
	made := mustOpen(t, path, Options{Create: true})
	must(t, made.CreateRoom(ctx, storetest.NewRoom("r", 100)))
	found := mustOpen(t, path, Options{})
	for round, s := range []*Store{made, found, made, made, found, found} {
		name := func(kind string) string { return fmt.Sprint(kind, round) }
		l, err := s.Load(ctx, "r")
		must(t, err)
		c := storetest.Next(l.Head, name("row"))
		var ops []store.Op
		for _, kind := range []string{"called", "lost", "late", "tool", "dear"} {
			amount := map[string]int64{"tool": 0, "dear": 1000}[kind]
			if kind != "tool" && kind != "dear" {
				amount = 3
			}
			ops = append(ops, storetest.Op("r", name(kind), amount))
		}
		c.Ops = ops
		c.Outbox = []store.OutboxEntry{{ID: name("say"), Body: []byte("{}")}}
		c.Index = []store.IndexEntry{{Space: "event", Key: name("row"), Value: "v"}}
		done, err := s.Commit(ctx, c)
		must(t, err)
		checkDesk(t, s, "r")
		for _, op := range ops[:4] {
			must(t, s.MarkDispatched(ctx, "r", op.ID))
		}
		checkDesk(t, s, "r")
		for _, op := range []store.Op{ops[0], ops[4]} {
			if err := s.MarkDispatched(ctx, "r", op.ID); !errors.Is(err, store.ErrAlreadyDispatched) {
				t.Errorf("a second mark, or one of a refused operation: %v", err)
			}
		}
		must(t, s.PutReceipt(ctx, "r", storetest.Receipt(ops[0], store.OutcomeOK, 2), nil))
		must(t, s.PutReceipt(ctx, "r", storetest.Receipt(ops[0], store.OutcomeOK, 2), nil)) // an equal one
		checkDesk(t, s, "r")
		lost := storetest.Receipt(ops[1], store.OutcomeUnknown, 0)
		e := store.Effect{Room: "r", Op: ops[3].ID, Identity: "i", Tool: "add", State: store.EffectConfirmed}
		must(t, s.PutEffect(ctx, e, nil))
		must(t, s.PutEffect(ctx, e, nil))
		e.Tool = "other"
		if err := s.PutEffect(ctx, e, nil); !errors.Is(err, store.ErrReceiptMismatch) {
			t.Errorf("another effect under the same key: %v", err)
		}
		again := storetest.Next(done.Head, name("again"))
		again.Ops = []store.Op{ops[0]}
		if _, err := s.Commit(ctx, again); !errors.Is(err, store.ErrExists) {
			t.Errorf("an operation made twice: %v", err)
		}
		checkDesk(t, s, "r")
		next := storetest.Next(done.Head, name("next"))
		next.Receipts = []store.Receipt{lost, storetest.Receipt(ops[3], store.OutcomeFailed, 0)}
		next.Outbox, next.Index = c.Outbox, c.Index // equal repeats
		_, err = s.Commit(ctx, next)
		must(t, err)
		checkDesk(t, s, "r")
		must(t, s.Reconcile(ctx, "r", ops[1].ID, store.Reconciliation{Executed: true, ChargedMicros: 1}))
		must(t, s.Delivered(ctx, "r", name("say")))
		checkDesk(t, s, "r")
		if _, err := s.GrantRoom(ctx, "r", 200, nil); err != nil {
			t.Error(err)
		}
		checkDesk(t, s, "r")
	}
	must(t, found.CloseRoom(ctx, "r", "completed", 5))
	if err := made.PutEffect(ctx, store.Effect{Room: "r", Op: storetest.Op("r", "tool0", 0).ID, N: 7}, nil); !errors.Is(err, store.ErrClosed) {
		t.Errorf("an effect in a room that the other process has closed: %v", err)
	}
	checkDesk(t, made, "r")
	checkDesk(t, found, "r")
}

// A rollback clears the desk: what a write of the lost batch laid on it is not
// believed.
func TestDeskForgetsARollback(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, filepath.Join(t.TempDir(), "s.db"), Options{Create: true})
	must(t, s.CreateRoom(t.Context(), storetest.NewRoom("r", 100)))
	err := s.writeRoom(t.Context(), "break", "r", func(ctx context.Context, w *writer, n int64) error {
		r, err := w.room(ctx, n)
		if err != nil {
			return err
		}
		r.head.Rev, r.head.Money.Charged = 7, 7
		return w.exec(ctx, sqlInsertRoom, "r", "simulated", []byte{}, "", "", 1) // is there already
	})
	if !errors.Is(err, store.ErrExists) {
		t.Fatalf("the write that breaks: %v", err)
	}
	checkDesk(t, s, "r")
	_, err = s.Commit(t.Context(), storetest.Next(store.Head{Room: "r", Rev: -1}, "first"))
	must(t, err)
}

// A desk that is wrong is found by the first update that has nothing to change,
// and the write fails as one that has lost its compare-and-set.
func TestWrongDeskIsFound(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, filepath.Join(t.TempDir(), "s.db"), Options{Create: true})
	must(t, s.CreateRoom(t.Context(), storetest.NewRoom("r", 100)))
	first := storetest.Next(store.Head{Room: "r", Rev: -1}, "first")
	_, err := s.Commit(t.Context(), first)
	must(t, err)
	err = s.writeRoom(t.Context(), "spoil", "r", func(ctx context.Context, w *writer, n int64) error {
		r, err := w.room(ctx, n)
		if err != nil {
			return err
		}
		r.head.Rev, r.head.Digest = -1, ""
		return nil
	})
	must(t, err)
	if _, err := s.Commit(t.Context(), first); !errors.Is(err, store.ErrConflict) {
		t.Fatalf("a commit that the desk allows and the file does not: %v", err)
	}
	checkDesk(t, s, "r")
}

// A room with very many records, and very many rooms, do not fill the memory.
func TestDeskIsBounded(t *testing.T) {
	t.Parallel()
	w := &writer{}
	for n := range int64(2 * maxRooms) {
		w.lay(n, &openRoom{known: map[roomKey]struct{}{}})
	}
	if len(w.desk) > maxRooms {
		t.Errorf("%d rooms on the desk", len(w.desk))
	}
	r := &openRoom{known: map[roomKey]struct{}{}, whole: true}
	w.lay(1, r)
	for n := range maxKeys + 1 {
		w.learn(1, r, roomKey{kind: keyEffect, n: n})
	}
	if _, there := w.desk[1]; there {
		t.Error("a room of too many records is still on the desk")
	}
}
