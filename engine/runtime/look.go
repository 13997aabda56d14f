package runtime

import (
	"context"
	"fmt"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

// View is an open room as it stands.
type View struct {
	Head    store.Head
	AtUS    int64          // of the newest row, microseconds since 1970
	State   []byte         // the machine's snapshot, canonical JSON
	Machine engine.Machine // in that state; the caller's own
	Ops     []store.Op     // by commit
	Outbox  int            // messages not delivered yet
}

// Look rebuilds an open room and shows it. It writes nothing. Errors as
// Append.
func Look(ctx context.Context, l Live) (View, error) {
	l, err := l.withDefaults()
	if err != nil {
		return View{}, err
	}
	loaded, err := l.Store.LoadTail(ctx, l.Room)
	if err != nil {
		return View{}, fmt.Errorf("room %s: %w", l.Room, err)
	}
	ops := loaded.Ops
	r, err := opened(ctx, l.Config, loaded)
	if err != nil {
		return View{}, fmt.Errorf("room %s: %w", l.Room, err)
	}
	if loaded.Snapshot != nil { // then the operations were left out
		whole, err := l.Store.Load(ctx, l.Room)
		if err != nil {
			return View{}, fmt.Errorf("room %s: %w", l.Room, err)
		}
		ops = whole.Ops
	}
	waiting, err := l.Store.Outbox(ctx, l.Room)
	if err != nil {
		return View{}, fmt.Errorf("room %s: %w", l.Room, err)
	}
	v := View{Head: r.head, Ops: ops, Outbox: len(waiting)}
	if r.state == nil {
		return v, nil
	}
	v.AtUS, v.Machine = r.now, r.machine
	if v.State, err = r.machine.Snapshot(); err != nil {
		return View{}, fmt.Errorf("room %s: snapshot: %w", l.Room, err)
	}
	return v, nil
}
