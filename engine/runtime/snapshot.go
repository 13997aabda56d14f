package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

// foldState is the runtime's own part of a snapshot: everything in state that
// is not the machine, at a revision after which no operation is open. It is a
// function of the rows, receipts and effects up to there.
type foldState struct {
	Format     int                  `json:"format"`
	NowUS      int64                `json:"now_us"`
	Timers     map[string]foldTimer `json:"timers,omitempty"`
	Claim      *Claim               `json:"claim,omitempty"`
	End        string               `json:"end,omitempty"`
	Stopped    string               `json:"stopped,omitempty"`
	Confirmed  map[string]int       `json:"confirmed,omitempty"`
	ModelCalls int                  `json:"model_calls"`
	ToolCalls  int                  `json:"tool_calls"`
	Told       int64                `json:"told_micros"`
	Lost       []foldOp             `json:"lost,omitempty"` // by commit
	World      json.RawMessage      `json:"world,omitempty"`
	Owner      json.RawMessage      `json:"owner,omitempty"`
}

type foldTimer struct {
	AtUS int64 `json:"at_us"`
	Rev  int64 `json:"rev"`
}

// foldOp is an operation whose outcome was unknown: the close, or a person,
// settles it, and for that its request is needed, which the store has dropped.
type foldOp struct {
	ID      string          `json:"id"`
	Rev     int64           `json:"rev"`
	Ordinal int             `json:"ordinal"`
	StartUS int64           `json:"start_us"`
	Request json.RawMessage `json:"request"`
}

const foldFormat = 1

// storable reports whether all of the state can be part of a snapshot: world
// and owner, and the requests of operations whose outcome was unknown.
func (s *state) storable() bool {
	_, world := s.world.(engine.Snapshotter)
	_, owner := s.owner.(engine.Snapshotter)
	return (s.world == nil || world) && (s.owner == nil || owner) &&
		!slices.ContainsFunc(s.order, func(o *operation) bool { return o.lost() && o.request == nil })
}

// encodeFolds is the state, but for the machine, as a snapshot keeps it: one
// line with a digest over it and the row it belongs to, then canonical JSON.
func (s *state) encodeFolds() ([]byte, error) {
	f := foldState{
		Format: foldFormat, NowUS: s.now, Timers: map[string]foldTimer{}, Claim: s.claim, End: s.end, Stopped: s.stopped,
		Confirmed: s.confirmed, ModelCalls: s.modelCalls, ToolCalls: s.toolCalls, Told: s.told,
	}
	for id, t := range s.timers {
		f.Timers[id] = foldTimer{t.atUS, t.rev}
	}
	for _, o := range s.order {
		if !o.lost() {
			continue
		}
		f.Lost = append(f.Lost, foldOp{ID: o.id, Rev: o.rev, Ordinal: o.ordinal, StartUS: o.startUS, Request: o.request})
	}
	var err error
	if w, ok := s.world.(engine.Snapshotter); ok {
		if f.World, err = guarded("world", w.Snapshot); err != nil {
			return nil, fmt.Errorf("snapshot of the world: %w", err)
		}
	}
	if o, ok := s.owner.(engine.Snapshotter); ok {
		if f.Owner, err = guarded("owner", o.Snapshot); err != nil {
			return nil, fmt.Errorf("snapshot of the owner: %w", err)
		}
	}
	b, err := engine.Canonical(&f)
	if err != nil {
		return nil, fmt.Errorf("encode folds: %w", err)
	}
	return append([]byte(foldsDigest(s.digest, b)+"\n"), b...), nil
}

func foldsDigest(row string, body []byte) string {
	return engine.DigestOf([]byte("qualify/folds/v1\n"+row+"\n"), body)
}

// decodeFolds reads what encodeFolds has written for the row of a digest.
func decodeFolds(row string, b []byte) (*foldState, error) {
	digest, body, _ := bytes.Cut(b, []byte("\n"))
	if foldsDigest(row, body) != string(digest) {
		return nil, errors.New("its folds have another digest")
	}
	var f foldState
	if err := json.Unmarshal(body, &f); err != nil {
		return nil, fmt.Errorf("its folds: %w", err)
	}
	if f.Format != foldFormat {
		return nil, fmt.Errorf("its folds are of format %d, this version reads %d", f.Format, foldFormat)
	}
	return &f, nil
}

// adoptFolds takes a fresh state to where encodeFolds was called. Lost
// operations come with recall.
func (s *state) adoptFolds(f *foldState) error {
	for id, t := range f.Timers {
		s.timers[id] = timer{t.AtUS, t.Rev}
	}
	maps.Copy(s.confirmed, f.Confirmed)
	s.now, s.claim, s.end, s.stopped = f.NowUS, f.Claim, f.End, f.Stopped
	s.modelCalls, s.toolCalls, s.told = f.ModelCalls, f.ToolCalls, f.Told
	for _, p := range []struct {
		what string
		part any
		b    []byte
	}{{"world", s.world, f.World}, {"owner", s.owner, f.Owner}} {
		keeper, ok := p.part.(engine.Snapshotter)
		if ok != (len(p.b) > 0) {
			return fmt.Errorf("its %s is there and the room's is not, or the other way round", p.what)
		}
		if !ok {
			continue
		}
		_, err := guarded(p.what, func() (struct{}, error) { return struct{}{}, keeper.Restore(p.b) })
		if err != nil {
			return fmt.Errorf("its %s: %w", p.what, err)
		}
	}
	return nil
}

// checkSnapshot compares a snapshot with the row of its revision.
func checkSnapshot(s *store.Snapshot, row *store.Row) error {
	switch {
	case s.Rev != row.Rev:
		return fmt.Errorf("snapshot of revision %d: its row is missing", s.Rev)
	case engine.Digest(s.State) != row.StateDigest:
		return fmt.Errorf("snapshot of revision %d: it is not the state that its row states", s.Rev)
	case s.Machine != row.Machine:
		return fmt.Errorf("snapshot of revision %d: it is said to be of machine %s, its row of %s", s.Rev, s.Machine, row.Machine)
	}
	return nil
}

// tail is what has been committed since the newest snapshot.
type tail struct {
	bytes int64 // of rows
	last  int64 // bytes of the newest snapshot
}

// tail is what a room that was just loaded has behind its snapshot.
func (r *rebuilt) tail() tail {
	var t tail
	for i := range r.loaded.Rows {
		t.bytes += rowBytes(&r.loaded.Rows[i])
	}
	if s := r.loaded.Snapshot; s != nil && r.resumed {
		t.last = int64(len(s.State) + len(s.Folds))
	}
	return t
}

func rowBytes(r *store.Row) int64 { return int64(len(r.Event) + len(r.Commands)) }

// snapshot stores a snapshot of a room that goes on, when the room is at rest between two operations
// and the tail is worth it. From there on the run knows of the room what a
// restart would, so its memory does not grow with the room's history either.
func (r *run) snapshot(ctx context.Context) error {
	switch {
	case r.tail.bytes < max(r.tail.last, r.cfg.SnapshotBytes), len(r.open)+len(r.pending)+r.inFlight > 0:
		return nil
	case r.head.Machine != r.version, !r.storable():
		return nil
	}
	snap := store.Snapshot{Rev: r.rev, Machine: r.version}
	var err error
	if snap.State, err = guarded("machine", r.machine.Snapshot); err == nil {
		snap.Folds, err = r.encodeFolds()
	}
	if err != nil {
		return faultf("snapshot of revision %d: %w", r.rev, err)
	}
	err = r.cfg.Store.PutSnapshot(context.WithoutCancel(ctx), r.cfg.Room, snap)
	switch {
	case errors.Is(err, store.ErrConflict):
		return nil // another process has moved the room on; it is no longer at rest here
	case err != nil:
		return fmt.Errorf("snapshot: %w", err)
	}
	r.tail = tail{last: int64(len(snap.State) + len(snap.Folds))}
	if r.forget {
		r.trim()
	}
	return r.cfg.Crash.pass(AfterSnapshot)
}

// trim forgets what the rows and the store hold: delivered operations, their
// effects, the contents of texts.
func (s *state) trim() {
	kept := s.order[:0]
	for _, o := range s.order {
		if o.lost() || o.phase != delivered {
			kept = append(kept, o)
			continue
		}
		delete(s.ops, o.id)
		delete(s.effects, o.id)
	}
	clear(s.order[len(kept):])
	s.order = kept
	s.texts.drop()
}
