package sqlite

import (
	"context"
	"fmt"

	"github.com/agentrooms/qualify/engine/store"
)

// desk is what the writer knows of the rooms it works on, so that a commit does
// not read back what the one before it has written. It holds exactly as long as
// SQLite's own page cache does: no other connection has committed since
// (data_version, read inside each transaction), and no transaction was rolled
// back. An update that finds nothing to change shows a desk that is wrong: the
// batch is rolled back, the desk is cleared, and the write fails as one that has
// lost its compare-and-set, or, if it was not alone, is judged again by the file.
type desk map[int64]*openRoom

// openRoom is one room on the desk.
type openRoom struct {
	head store.Head
	// whole says that the room was made at this desk, so that known has every
	// key of it: what is not there does not exist.
	whole bool
	known map[roomKey]struct{}
	open  map[string]store.Op // operations without receipt, without requests
	seq   int64               // of the newest effect, when whole
}

func newOpenRoom() *openRoom {
	return &openRoom{known: map[roomKey]struct{}{}, open: map[string]store.Op{}}
}

// roomKey is the key of one record of a room.
type roomKey struct {
	kind byte
	a, b string
	n    int
}

// Kinds of records.
const (
	keyOp byte = iota
	keyEffect
	keyOutbox
	keyIndex
)

// Bounds of a desk: rooms on it, and keys of one room. What is more is put
// away and read from the file again.
const (
	maxRooms = 4096
	maxKeys  = 20_000
)

// room returns a room, from the desk or from the file.
func (w *writer) room(ctx context.Context, n int64) (*openRoom, error) {
	if r, ok := w.desk[n]; ok {
		return r, nil
	}
	r := newOpenRoom()
	found, err := w.row(ctx, sqlHead, []any{n}, headFields(&r.head)...)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("room %d: %w", n, store.ErrNotFound)
	}
	w.lay(n, r)
	return r, nil
}

// lay puts a room on the desk.
func (w *writer) lay(n int64, r *openRoom) {
	if w.desk == nil {
		w.desk = desk{}
	}
	if len(w.desk) >= maxRooms {
		clear(w.desk)
	}
	w.desk[n] = r
}

// away takes a room from the desk, because something is written that the desk
// does not follow, or because it is closed.
func (w *writer) away(n int64) { delete(w.desk, n) }

// has tells whether a record exists; sure is false when the file must say.
func (r *openRoom) has(k roomKey) (exists, sure bool) {
	_, exists = r.known[k]
	return exists, exists || r.whole
}

// stored reports whether a record exists and scans it into dest; the file is
// asked only when the record may be there.
func (w *writer) stored(ctx context.Context, r *openRoom, k roomKey, query string, args []any, dest ...any) (bool, error) {
	if exists, sure := r.has(k); sure && !exists {
		return false, nil
	}
	return w.row(ctx, query, args, dest...)
}

// learn notes a record that was written.
func (w *writer) learn(n int64, r *openRoom, k roomKey) {
	r.known[k] = struct{}{}
	if len(r.known) > maxKeys {
		w.away(n)
	}
}

// opKnown reports whether the room has an operation.
func (w *writer) opKnown(ctx context.Context, n int64, id string) (bool, error) {
	r, err := w.room(ctx, n)
	if err != nil {
		return false, err
	}
	if exists, sure := r.has(roomKey{kind: keyOp, a: id}); sure {
		return exists, nil
	}
	var one int
	return w.row(ctx, sqlOpExists, []any{n, id}, &one)
}

// change runs a statement that must change one row. If there is none to
// change, the desk was wrong.
func (w *writer) change(ctx context.Context, query string, args ...any) error {
	p, err := w.stmt(ctx, query)
	if err != nil {
		return err
	}
	res, err := p.st.ExecContext(ctx, args...)
	if err != nil {
		return driverError(firstWords(query), err)
	}
	n, err := res.RowsAffected()
	if err == nil && n != 1 {
		err = fmt.Errorf("%d rows changed, want 1: %w", n, store.ErrConflict)
	}
	if err != nil {
		return driverError(firstWords(query), err)
	}
	return nil
}
