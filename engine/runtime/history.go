package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

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
}

// Replay rebuilds every revision of a room through fresh folds and verifies
// what the store holds: the chain of rows up to the head, the digest of
// commands and state at each revision, every operation's place and request,
// that each event says what its receipt says, and that each operation's state
// and amounts follow from its receipt and add up to the room's account (I1).
//
// Errors: code CONFLICT naming the first revision or operation that differs,
// code VERSION_MISMATCH when other folds made the rows, ErrWithheld when a
// text's content is absent (the chain has then been verified),
// store.ErrNotFound.
func Replay(ctx context.Context, s store.Rooms, room string, f Folds) (*History, error) {
	l, err := s.Load(ctx, room)
	if err != nil {
		return nil, fmt.Errorf("load room %s: %w", room, err)
	}
	r, err := rebuild(ctx, f, s, l, nil)
	if err != nil {
		return nil, err
	}
	if err := r.checkReceipts(); err != nil {
		return nil, fmt.Errorf("room %s: %w", room, err)
	}
	if err := r.checkAccount(); err != nil {
		return nil, fmt.Errorf("room %s: %w", room, err)
	}
	h := &History{
		Head: l.Head, Entries: r.log, Ops: l.Ops, Effects: l.Effects,
		Claim: r.claim, ModelCalls: r.modelCalls, ToolCalls: r.toolCalls,
	}
	h.Head.Termination, h.Fault = wordAndFault(l.Head.Termination)
	if r.world != nil {
		if h.Documents, err = r.world.Documents(); err != nil {
			return nil, fmt.Errorf("room %s: documents: %w", room, err)
		}
		h.Sent = r.world.Messages()
	}
	return h, nil
}

// StateAt rebuilds the complete state of one revision: the machine's snapshot
// after it, as canonical JSON. Errors as Replay; store.ErrNotFound when the
// room has no such revision.
func StateAt(ctx context.Context, s store.Rooms, room string, f Folds, rev int64) ([]byte, error) {
	l, err := s.Load(ctx, room)
	if err != nil {
		return nil, fmt.Errorf("load room %s: %w", room, err)
	}
	var state []byte
	_, err = rebuild(ctx, f, s, l, func(n int64, snapshot []byte) {
		if n == rev {
			state = bytes.Clone(snapshot)
		}
	})
	if err != nil {
		return nil, err
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
		said := *o.body
		said.Fault = ""
		want, err := engine.Canonical(&said)
		if err != nil {
			return err
		}
		got, err := engine.Canonical(&body{Kind: ev.Kind, Reply: ev.Reply, Tool: ev.Tool, Refusal: ev.Refusal})
		if err != nil {
			return err
		}
		if !bytes.Equal(want, got) || ev.AtUS < o.finishUS() {
			return engine.Errorf(engine.CodeConflict, "revision %d: the event differs from the receipt of %s", r.log[i].Rev, o.id)
		}
	}
	return nil
}
