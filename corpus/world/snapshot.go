package world

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/engine"
)

var (
	_ engine.Snapshotter = (*World)(nil)
	_ engine.Snapshotter = (*Owner)(nil)
)

// snapshotFormat grows when World or Owner would read an older snapshot
// otherwise than it was meant.
const snapshotFormat = 1

// worldState is what effects and calls have made of a fresh world.
type worldState struct {
	Format int                  `json:"format"`
	Docs   json.RawMessage      `json:"docs"`
	Before json.RawMessage      `json:"before"`
	Keys   map[string]string    `json:"keys,omitempty"` // results by idempotency key
	Calls  []countState         `json:"calls,omitempty"`
	Sent   []engine.SentMessage `json:"sent,omitempty"`
}

type countState struct {
	Tool      string `json:"tool"`
	Target    string `json:"target,omitempty"`
	PerTarget bool   `json:"per_target,omitempty"`
	N         int    `json:"n"`
}

// Snapshot implements engine.Snapshotter.
func (w *World) Snapshot() ([]byte, error) {
	s := worldState{Format: snapshotFormat, Keys: map[string]string{}, Sent: w.sent}
	var err error
	if s.Docs, err = engine.Canonical(w.docs); err != nil {
		return nil, fmt.Errorf("documents: %w", err)
	}
	if s.Before, err = engine.Canonical(w.before); err != nil {
		return nil, fmt.Errorf("documents before the last change: %w", err)
	}
	for key, e := range w.keys {
		s.Keys[key] = string(e.Result)
	}
	for c, n := range w.calls {
		s.Calls = append(s.Calls, countState{c.tool, c.target, c.perTarget, n})
	}
	slices.SortFunc(s.Calls, func(a, b countState) int {
		if a.PerTarget != b.PerTarget {
			if b.PerTarget {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(a.Tool, b.Tool), cmp.Compare(a.Target, b.Target))
	})
	return engine.Canonical(s)
}

// Restore implements engine.Snapshotter.
func (w *World) Restore(snapshot []byte) error {
	var s worldState
	if err := decodeSnapshot(snapshot, &s, &s.Format); err != nil {
		return fmt.Errorf("world of case %s: %w", w.c.ID, err)
	}
	docs, err := corpus.DecodeTree(s.Docs)
	if err != nil {
		return fmt.Errorf("world of case %s: documents: %w", w.c.ID, err)
	}
	before, err := corpus.DecodeTree(s.Before)
	if err != nil {
		return fmt.Errorf("world of case %s: documents before the last change: %w", w.c.ID, err)
	}
	fresh, err := New(w.c, w.seed)
	if err != nil {
		return err
	}
	fresh.docs, fresh.before, fresh.sent = docs, before, s.Sent
	for key, result := range s.Keys {
		fresh.keys[key] = engine.EffectRecord{Key: key, Result: []byte(result)}
	}
	for _, c := range s.Calls {
		fresh.calls[call{c.Tool, c.Target, c.PerTarget}] = c.N
	}
	*w = *fresh
	return nil
}

// ownerState is what the log has made of a fresh owner.
type ownerState struct {
	Format    int            `json:"format"`
	Pending   []pendingState `json:"pending,omitempty"`
	Sent      map[string]int `json:"sent,omitempty"`
	Corrected int            `json:"corrected,omitempty"`
	Seen      int            `json:"seen,omitempty"`
	Exhausted bool           `json:"exhausted,omitempty"`
}

type pendingState struct {
	ID    string `json:"id"`
	Event string `json:"event"`
	AtUS  int64  `json:"at_us"`
	Order int    `json:"order"`
}

// Snapshot implements engine.Snapshotter.
func (o *Owner) Snapshot() ([]byte, error) {
	s := ownerState{Format: snapshotFormat, Sent: o.sent, Corrected: o.corrected, Seen: o.seen, Exhausted: o.exhausted}
	for _, p := range o.pending {
		s.Pending = append(s.Pending, pendingState{p.line.id, p.line.event, p.atUS, p.order})
	}
	return engine.Canonical(s)
}

// Restore implements engine.Snapshotter.
func (o *Owner) Restore(snapshot []byte) error {
	var s ownerState
	if err := decodeSnapshot(snapshot, &s, &s.Format); err != nil {
		return fmt.Errorf("owner of case %s: %w", o.c.ID, err)
	}
	fresh := &Owner{c: o.c, w: o.w, sent: map[string]int{}, corrected: s.Corrected, seen: s.Seen, exhausted: s.Exhausted}
	for id, n := range s.Sent {
		fresh.sent[id] = n
	}
	script := fresh.script()
	for _, p := range s.Pending {
		i := slices.IndexFunc(script, func(l line) bool { return l.id == p.ID && l.event == p.Event })
		if i < 0 {
			return fmt.Errorf("owner of case %s: message %s is not in the script", o.c.ID, p.Event)
		}
		fresh.pending = append(fresh.pending, pending{script[i], p.AtUS, p.Order})
	}
	*o = *fresh
	return nil
}

func decodeSnapshot(b []byte, into any, format *int) error {
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	if *format != snapshotFormat {
		return fmt.Errorf("snapshot of format %d, this version reads %d", *format, snapshotFormat)
	}
	return nil
}
