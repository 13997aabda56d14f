package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

// History is a room rebuilt from the store, all texts loaded.
type History struct {
	Head    store.Head        // Termination is the word alone
	Fault   string            // text of a harness error
	Entries []engine.LogEntry // one per revision; calls without their requests
	Ops     []store.Op        // by commit; Receipt.Fault filled
	Effects []store.Effect    // by Seq

	// The folds at the newest revision, open tool operations' effects included.
	Documents  map[string]json.RawMessage // nil without a world
	Sent       []engine.SentMessage       // what tools sent
	Claim      *Claim                     // the claim that stands
	ModelCalls int                        // dispatched
	ToolCalls  int

	// Unfolded lists the rows that could not be recomputed, because the machine
	// that folded them is not at hand: of these only chain, digests, receipts and
	// account are verified, and the folds above come from the commands they hold.
	// Empty when everything is verified.
	Unfolded []Unfolded
}

// Replay rebuilds every revision of a room through fresh folds and verifies
// what the store holds: the chain of rows up to the head, the digest of
// commands and state at each revision, every operation's place and request,
// that each event says what its receipt says, and that each operation's state
// and amounts follow from its receipt and add up to the room's account (I1), and
// that the stored snapshot is the state of its row.
//
// In a room that was upgraded each row is folded by the machine of its own
// version, from Folds.Machine or Folds.Machines, and the way from one to the next
// by Upgrade. Rows without a machine are listed in History.Unfolded.
//
// Errors: code CONFLICT naming the first revision or operation that differs,
// code VERSION_MISMATCH when no row is of a machine at hand, ErrWithheld when a
// text's content is absent (the chain has then been verified),
// store.ErrNotFound.
func Replay(ctx context.Context, s store.Rooms, room string, f Folds) (*History, error) {
	r, err := replay(ctx, s, room, f, (*rebuilt).checkFolds)
	if err != nil {
		return nil, err
	}
	l := r.loaded
	if err := r.checkReceipts(); err != nil {
		return nil, fmt.Errorf("room %s: %w", room, err)
	}
	if err := r.checkAccount(); err != nil {
		return nil, fmt.Errorf("room %s: %w", room, err)
	}
	h, err := r.historyOf(l.Head, l.Ops, l.Effects)
	if err != nil {
		return nil, fmt.Errorf("room %s: %w", room, err)
	}
	h.Unfolded = r.unfolded
	return h, nil
}

// historyOf is the history of a room that stands at s, with what the store holds
// of it.
func (s *state) historyOf(head store.Head, ops []store.Op, effects []store.Effect) (*History, error) {
	h := &History{
		Head: head, Entries: s.log, Ops: ops, Effects: effects,
		Claim: s.claim, ModelCalls: s.modelCalls, ToolCalls: s.toolCalls,
	}
	h.Head.Termination, h.Fault = wordAndFault(head.Termination)
	if s.world != nil {
		var err error
		if h.Documents, err = s.world.Documents(); err != nil {
			return nil, fmt.Errorf("documents: %w", err)
		}
		h.Sent = s.world.Messages()
	}
	return h, nil
}

// replay folds every row of a room, from the first on.
func replay(ctx context.Context, s store.Rooms, room string, f Folds, visit func(*rebuilt, []byte) error) (*rebuilt, error) {
	l, err := loadWhole(ctx, s, room)
	if err != nil {
		return nil, err
	}
	r, err := rebuild(ctx, f, s, l, visit)
	if err != nil {
		return nil, fmt.Errorf("room %s: %w", room, err)
	}
	if snap := l.Snapshot; snap != nil {
		if snap.Rev < 0 || snap.Rev >= int64(len(l.Rows)) {
			return nil, engine.Errorf(engine.CodeConflict, "room %s: snapshot of revision %d, which the room does not have", room, snap.Rev)
		}
		if err := checkSnapshot(snap, &l.Rows[snap.Rev]); err != nil {
			return nil, engine.Errorf(engine.CodeConflict, "room %s: %v", room, err)
		}
	}
	return r, r.checkVersions(room)
}

// loadWhole loads a room with every row of it.
func loadWhole(ctx context.Context, s store.Rooms, room string) (*store.Loaded, error) {
	l, err := s.Load(ctx, room)
	if err != nil {
		return nil, fmt.Errorf("load room %s: %w", room, err)
	}
	if l.Snapshot != nil {
		if l.Rows, err = s.Rows(ctx, room, -1, 0); err != nil {
			return nil, fmt.Errorf("rows of room %s: %w", room, err)
		}
	}
	return l, nil
}

// checkVersions refuses a room none of whose rows is of a machine at hand.
func (r *rebuilt) checkVersions(room string) error {
	if len(r.unfolded) == 0 {
		return nil
	}
	for i := range r.loaded.Rows {
		if m, err := r.folds.machineOf(r.loaded.Rows[i].Machine); err != nil || m != nil {
			return err
		}
	}
	version, err := r.folds.current()
	if err != nil {
		return err
	}
	return engine.Errorf(engine.CodeVersionMismatch, "room %s: folded by machine %s, this is %s", room, r.unfolded[0].Machine, version)
}

// checkFolds compares the folds in the stored snapshot with those of its
// revision, where everything up to there was folded.
func (r *rebuilt) checkFolds(_ []byte) error {
	snap := r.loaded.Snapshot
	if snap == nil || snap.Rev != r.rev || len(snap.Folds) == 0 || len(r.unfolded) > 0 || !r.storable() {
		return nil
	}
	if len(r.open) > 0 {
		return engine.Errorf(engine.CodeConflict, "a snapshot while %d operations were open", len(r.open))
	}
	want, err := r.encodeFolds()
	if err != nil {
		return err
	}
	if !bytes.Equal(want, snap.Folds) {
		return engine.Errorf(engine.CodeConflict, "the folds of the snapshot are not what the rows fold to")
	}
	return nil
}

// StateAt rebuilds the complete state of one revision: the machine's snapshot
// after it, as canonical JSON. Errors as Replay; store.ErrNotFound when the
// room has no such revision, code VERSION_MISMATCH when the machine that folded
// it is not at hand.
func StateAt(ctx context.Context, s store.Rooms, room string, f Folds, rev int64) ([]byte, error) {
	var state []byte
	r, err := replay(ctx, s, room, f, func(r *rebuilt, snapshot []byte) error {
		if r.rev == rev {
			state = bytes.Clone(snapshot)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, u := range r.unfolded {
		if u.First <= rev && rev <= u.Last {
			return nil, engine.Errorf(engine.CodeVersionMismatch, "room %s, revision %d: folded by machine %s, which is not at hand", room, rev, u.Machine)
		}
	}
	if state == nil {
		return nil, fmt.Errorf("room %s, revision %d: %w", room, rev, store.ErrNotFound)
	}
	return state, nil
}

// checkReceipts compares each event with the receipt it came from.
func (r *rebuilt) checkReceipts() error {
	for i := range r.log {
		ev := &r.log[i].Event
		o, ok := r.ops[ev.Op]
		if !ok {
			continue
		}
		if o.receipt == nil && o.body.Refusal.Code == engine.CodeBudgetHalted && !r.overranBefore(r.log[i].Rev) {
			return engine.Errorf(engine.CodeConflict, "revision %d: the room is said to be halted, and no operation has overrun", r.log[i].Rev)
		}
		same, err := o.body.saidBy(ev)
		if err != nil {
			return err
		}
		if !same || ev.AtUS < o.finishUS() {
			return engine.Errorf(engine.CodeConflict, "revision %d: the event differs from the receipt of %s", r.log[i].Rev, o.id)
		}
	}
	return nil
}

// overranBefore reports whether an operation of an earlier revision was charged
// more than it had reserved.
func (r *rebuilt) overranBefore(rev int64) bool {
	return slices.ContainsFunc(r.order, func(o *operation) bool { return o.rev < rev && o.overran() })
}
