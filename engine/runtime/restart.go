package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

// restart rebuilds an open room that LoadTail has read: from its newest snapshot
// and the rows behind it, or, where there is none or it is of no use, from all
// rows. The second result says why a snapshot was of no use.
//
// The machine that comes back is the current one. A room whose newest row
// another version folded is taken over only where that row has a snapshot and
// the current machine an upgrade for it: code VERSION_MISMATCH otherwise.
// store.ErrConflict means that another process has moved the room meanwhile.
func restart(ctx context.Context, f Folds, s store.Rooms, l *store.Loaded) (*rebuilt, string, error) {
	room := l.Head.Room
	version, err := f.current()
	if err != nil {
		return nil, "", err
	}
	if l.Head.Rev < 0 && l.Head.Machine != version {
		return nil, "", engine.Errorf(engine.CodeVersionMismatch, "the room was made for machine %s, this is %s", l.Head.Machine, version)
	}
	unused := ""
	if l.Snapshot != nil && len(l.Snapshot.Folds) > 0 {
		r, err := resume(ctx, f, s, l, version)
		var bad *unusableError
		if !errors.As(err, &bad) {
			return r, "", err
		}
		unused = oneLine(bad.Error())
	}
	if l.Snapshot != nil {
		if l, err = s.Load(ctx, room); err != nil {
			return nil, unused, fmt.Errorf("load: %w", err)
		}
		// No row behind the head that was read with the operations.
		if l.Rows, err = s.Rows(ctx, room, -1, int(l.Head.Rev+1)); err != nil {
			return nil, unused, fmt.Errorf("rows: %w", err)
		}
	}
	r, err := refoldTo(ctx, f, s, l, version)
	if err != nil && unused != "" {
		err = fmt.Errorf("%w (%s, so that all rows were folded)", err, unused)
	}
	return r, unused, err
}

// refoldTo folds all rows and brings the machine to a version.
func refoldTo(ctx context.Context, f Folds, s store.Rooms, l *store.Loaded, version string) (*rebuilt, error) {
	if n := len(l.Rows); n > 0 {
		newest := &l.Rows[n-1]
		if newest.Machine != version && (l.Snapshot == nil || checkSnapshot(l.Snapshot, newest) != nil) {
			return nil, mismatch(newest, version, "it has no snapshot to upgrade from")
		}
	}
	r, err := rebuild(ctx, f, s, l, nil)
	if err != nil {
		return nil, err
	}
	ok, err := r.turnTo(ctx, version)
	if err == nil && !ok {
		err = mismatch(&l.Rows[len(l.Rows)-1], version, "there is no upgrade")
	}
	return r, err
}

func mismatch(row *store.Row, version, why string) error {
	return engine.Errorf(engine.CodeVersionMismatch, "revision %d was folded by machine %s, this is %s, and %s", row.Rev, row.Machine, version, why)
}

// unusableError says why a snapshot is of no use. Nothing is lost with it: the
// rows are the truth and fold to the same state.
type unusableError struct{ err error }

func (e *unusableError) Error() string { return e.err.Error() }
func (e *unusableError) Unwrap() error { return e.err }

func unusable(rev int64, err error) error {
	return &unusableError{fmt.Errorf("the snapshot of revision %d cannot be used: %w", rev, err)}
}

// resume rebuilds a room from a snapshot with folds and the rows behind it. Its
// cost follows these, not the room's history.
func resume(ctx context.Context, f Folds, s store.Rooms, l *store.Loaded, version string) (*rebuilt, error) {
	snap := l.Snapshot
	if len(l.Rows) == 0 {
		return nil, unusable(snap.Rev, errors.New("its row is missing"))
	}
	base := l.Rows[0]
	l.Rows = l.Rows[1:]
	if err := checkChain(l, &base); err != nil {
		return nil, err
	}
	if err := checkSnapshot(snap, &base); err != nil {
		return nil, unusable(snap.Rev, err)
	}
	folds, err := decodeFolds(base.Digest, snap.Folds)
	if err != nil {
		return nil, unusable(snap.Rev, err)
	}
	for i := range l.Rows {
		if row := &l.Rows[i]; row.Machine != version {
			return nil, mismatch(row, version, "it is not the row of a snapshot")
		}
	}
	l, err = withOps(ctx, f, s, l, folds)
	if err != nil {
		return nil, err
	}
	r, err := begin(f, s, l, snap)
	if err != nil {
		return nil, err
	}
	if err := r.adoptFolds(folds); err != nil {
		return nil, unusable(snap.Rev, err)
	}
	r.rev, r.digest, r.resumed, r.remembered = base.Rev, base.Digest, true, folds.Lost
	if err := r.turnFromSnapshot(ctx, &base, version); err != nil {
		return nil, err
	}
	// What reconciliations have charged is the account without all receipts.
	r.resolved = l.Head.Money.Charged - r.told
	for i := range l.Ops {
		if rec := l.Ops[i].Receipt; rec != nil {
			r.resolved -= rec.ChargedMicros
		}
	}
	if r.resolved < 0 {
		return nil, unusable(snap.Rev, fmt.Errorf("its receipts charge %d micros more than the account", -r.resolved))
	}
	if err := r.refoldAll(ctx, nil); err != nil {
		return nil, err
	}
	return r, nil
}

// withOps is l with the operations that a restart needs, all read in one
// consistent state with the head.
func withOps(ctx context.Context, f Folds, s store.Rooms, l *store.Loaded, folds *foldState) (*store.Loaded, error) {
	name := f.nameOf(l.Head.Room)
	var ids []string
	for _, o := range folds.Lost {
		ids = append(ids, o.ID)
	}
	for i := range l.Rows {
		var commands []struct {
			Call *struct {
				Key engine.OpKey `json:"key"`
			} `json:"call"`
		}
		if err := json.Unmarshal(l.Rows[i].Commands, &commands); err != nil {
			return nil, engine.Errorf(engine.CodeConflict, "revision %d: the commands cannot be read: %v", l.Rows[i].Rev, err)
		}
		for _, c := range commands {
			if c.Call != nil {
				ids = append(ids, engine.OperationID(name, c.Call.Key))
			}
		}
	}
	got, err := s.LoadOps(ctx, l.Head.Room, ids)
	if err != nil {
		return nil, fmt.Errorf("load operations: %w", err)
	}
	if got.Head.Rev != l.Head.Rev || got.Head.Digest != l.Head.Digest || got.Head.Closed != l.Head.Closed {
		return nil, fmt.Errorf("the room has moved from revision %d to %d while it was read: %w", l.Head.Rev, got.Head.Rev, store.ErrConflict)
	}
	got.Snapshot, got.Rows = l.Snapshot, l.Rows
	return got, nil
}

// turnFromSnapshot restores the machine, or upgrades it, and compares what came
// of it with the snapshot.
func (r *rebuilt) turnFromSnapshot(ctx context.Context, base *store.Row, version string) error {
	ok, err := r.turnTo(ctx, version)
	switch {
	case errors.As(err, new(*unusableError)):
		return unusable(base.Rev, err)
	case err != nil:
		return err
	case !ok:
		return mismatch(base, version, "there is no upgrade")
	case base.Machine != version:
		return nil
	}
	again, err := guarded("machine", r.machine.Snapshot)
	if err == nil && engine.Digest(again) != base.StateDigest {
		err = errors.New("the restored machine is in another state")
	}
	if err != nil {
		return unusable(base.Rev, err)
	}
	return nil
}

// recall makes the operations of unknown outcome that a snapshot remembers.
func (r *rebuilt) recall(ctx context.Context, bodies map[string]*body, effects map[string][]engine.EffectRecord) error {
	for _, f := range r.remembered {
		op := r.stored[f.ID]
		if op == nil || op.Receipt == nil || op.Rev != f.Rev || op.Ordinal != f.Ordinal {
			return engine.Errorf(engine.CodeConflict, "operation %s of the snapshot is stored otherwise or not at all", f.ID)
		}
		call, err := parseCall(f.Request, op.RequestDigest)
		if err != nil {
			return fmt.Errorf("operation %s: %w", f.ID, err)
		}
		if op.Reconciled == nil { // the close asks for it again
			if err := r.texts.fetch(ctx, callTexts(call)); err != nil {
				return fmt.Errorf("operation %s: %w", f.ID, err)
			}
		}
		o := &operation{
			id: f.ID, rev: f.Rev, ordinal: f.Ordinal, call: call, request: f.Request, digest: op.RequestDigest, startUS: f.StartUS,
			reserved: op.ReservedMicros, phase: delivered, body: bodies[f.ID], receipt: op.Receipt, reconciled: op.Reconciled != nil,
		}
		r.ops[o.id] = o
		r.order = append(r.order, o)
		if done := effects[o.id]; len(done) > 0 {
			r.effects[o.id] = done
		}
	}
	return nil
}
