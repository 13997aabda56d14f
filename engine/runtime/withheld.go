package runtime

import (
	"context"
	"fmt"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

// ReadWithheld is the history of a room whose contents are withheld, as far as it
// stands in its rows, operations and effects: texts are not loaded and nothing is
// folded, so it has no documents, messages, claim and counts. States and amounts
// of operations are held against their receipts and reconciliations, and each
// event against its receipt, as Replay does; each command must hold what its kind
// is about.
//
// The error names the first that differs, or what cannot be read.
func ReadWithheld(ctx context.Context, s store.Rooms, room string) (*History, error) {
	l, err := loadWhole(ctx, s, room)
	if err != nil {
		return nil, err
	}
	h := &History{Head: l.Head, Ops: l.Ops, Effects: l.Effects}
	h.Head.Termination, h.Fault = wordAndFault(l.Head.Termination)
	bodies, err := checkedBodies(h.Ops)
	if err != nil {
		return nil, fmt.Errorf("room %s: %w", room, err)
	}
	h.Entries = make([]engine.LogEntry, len(l.Rows))
	for i := range l.Rows {
		if err := readWithheldRow(&l.Rows[i], bodies, &h.Entries[i]); err != nil {
			return nil, fmt.Errorf("room %s: revision %d: %w", room, l.Rows[i].Rev, err)
		}
	}
	return h, nil
}

// checkedBodies are the receipts of operations, by id.
func checkedBodies(ops []store.Op) (map[string]*body, error) {
	bodies := make(map[string]*body, len(ops))
	for i := range ops {
		op := &ops[i]
		b := new(body)
		if r := op.Receipt; r != nil {
			var err error
			if b, err = parseBody(r); err != nil {
				return nil, err
			}
			r.Fault = b.Fault
			bodies[op.ID] = b
		}
		if why := differs(op, b); why != "" {
			return nil, engine.Errorf(engine.CodeConflict, "operation %s: %s", op.ID, why)
		}
	}
	return bodies, nil
}

func readWithheldRow(row *store.Row, bodies map[string]*body, entry *engine.LogEntry) error {
	if err := parseRow(row, entry); err != nil {
		return err
	}
	for i := range entry.Commands {
		if c := &entry.Commands[i]; checkContent(c) != nil {
			return fmt.Errorf("command %d holds nothing of its kind %q", i+1, c.Kind)
		}
	}
	ev := &entry.Event
	b, ok := bodies[ev.Op]
	if !ok || ev.Op == "" {
		return nil
	}
	if same, err := b.saidBy(ev); err != nil || !same {
		return fmt.Errorf("the event differs from the receipt of %s", ev.Op)
	}
	return nil
}
