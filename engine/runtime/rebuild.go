package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

// ErrWithheld means that the content of a text is not in the store. The chain
// verifies without it, a machine cannot be rebuilt.
var ErrWithheld = errors.New("content is withheld")

// rebuilt is a room folded from its rows: from the first one, or from those
// behind a snapshot.
type rebuilt struct {
	*state
	folds    Folds
	loaded   *store.Loaded
	stored   map[string]*store.Op
	parked   *store.Snapshot // the stored machine state, nil when it is not the one of its row
	unfolded []Unfolded
	resolved int64 // micros that reconciliations charged, whenever that was

	resumed    bool     // from a snapshot
	remembered []foldOp // operations of unknown outcome that a snapshot covers
}

// rebuild folds every row of a room, all of them in l, through fresh folds and
// compares chain, commands, states and operations with what is stored; a
// difference is an error of code CONFLICT. visit, when not nil, is called after
// each row, with the machine's snapshot where the row was folded by its machine.
func rebuild(ctx context.Context, f Folds, s store.Rooms, l *store.Loaded, visit func(r *rebuilt, snapshot []byte) error) (*rebuilt, error) {
	if err := checkChain(l, nil); err != nil {
		return nil, err
	}
	var parked *store.Snapshot
	if snap := l.Snapshot; snap != nil && snap.Rev >= 0 && snap.Rev < int64(len(l.Rows)) && checkSnapshot(snap, &l.Rows[snap.Rev]) == nil {
		parked = snap
	}
	r, err := begin(f, s, l, parked)
	if err != nil {
		return nil, err
	}
	for i := range l.Ops {
		if rec := l.Ops[i].Reconciled; rec != nil {
			r.resolved += rec.ChargedMicros
		}
	}
	if err := r.refoldAll(ctx, visit); err != nil {
		return nil, err
	}
	return r, nil
}

// begin is a room before its first row, knowing what l says of operations.
func begin(f Folds, s store.Rooms, l *store.Loaded, parked *store.Snapshot) (*rebuilt, error) {
	st, err := newState(f, s, l.Head.Room, l.Head.Salt)
	if err != nil {
		return nil, err
	}
	r := &rebuilt{state: st, folds: f, loaded: l, parked: parked, stored: make(map[string]*store.Op, len(l.Ops))}
	for i := range l.Ops {
		r.stored[l.Ops[i].ID] = &l.Ops[i]
	}
	return r, nil
}

// refoldAll folds the rows of l, which follow the row that the state stands at.
func (r *rebuilt) refoldAll(ctx context.Context, visit func(*rebuilt, []byte) error) error {
	l := r.loaded
	events, bodies, err := r.read(ctx)
	if err != nil {
		return err
	}
	effects := map[string][]engine.EffectRecord{}
	for i := range l.Effects {
		e := &l.Effects[i]
		effects[e.Op] = append(effects[e.Op], fromStore(e))
	}
	if err := r.recall(ctx, bodies, effects); err != nil {
		return err
	}
	for i := range l.Rows {
		if err := r.refold(ctx, &l.Rows[i], events[i], bodies, effects, visit); err != nil {
			return fmt.Errorf("revision %d: %w", l.Rows[i].Rev, err)
		}
	}
	if len(r.order) != len(l.Ops) {
		return engine.Errorf(engine.CodeConflict, "%d operations are stored, the rows ask for %d", len(l.Ops), len(r.order))
	}
	r.texts.fresh = nil // all stored with the rows and receipts that brought them
	return nil
}

// checkChain verifies rows against each other and the head, without any
// content. They follow base, or are all rows of the room.
func checkChain(l *store.Loaded, base *store.Row) error {
	first, prev, state := int64(0), "", ""
	if base != nil {
		if store.RowDigest(*base) != base.Digest {
			return engine.Errorf(engine.CodeConflict, "revision %d: row digest differs", base.Rev)
		}
		first, prev, state = base.Rev+1, base.Digest, base.StateDigest
	}
	for i := range l.Rows {
		row := &l.Rows[i]
		switch {
		case row.Rev != first+int64(i):
			return engine.Errorf(engine.CodeConflict, "revision %d stands at place %d", row.Rev, first+int64(i))
		case row.Prev != prev:
			return engine.Errorf(engine.CodeConflict, "revision %d does not follow the row before it", row.Rev)
		case engine.Digest(row.Commands) != row.CommandsDigest:
			return engine.Errorf(engine.CodeConflict, "revision %d: commands digest differs", row.Rev)
		case store.RowDigest(*row) != row.Digest:
			return engine.Errorf(engine.CodeConflict, "revision %d: row digest differs", row.Rev)
		}
		prev, state = row.Digest, row.StateDigest
	}
	newest := first + int64(len(l.Rows)) - 1
	if l.Head.Rev != newest || l.Head.Digest != prev {
		return engine.Errorf(engine.CodeConflict, "head %d %s is not the newest row %d %s", l.Head.Rev, l.Head.Digest, newest, prev)
	}
	if newest >= 0 && state != l.Head.StateDigest {
		return engine.Errorf(engine.CodeConflict, "state digest of the head differs from its row")
	}
	return nil
}

// read parses events and receipts and loads all their texts, and those of the
// effects.
func (r *rebuilt) read(ctx context.Context) ([]engine.Event, map[string]*body, error) {
	l := r.loaded
	events := make([]engine.Event, len(l.Rows))
	bodies := make(map[string]*body, len(l.Ops))
	var refs []*engine.Text
	for i := range l.Rows {
		if err := json.Unmarshal(l.Rows[i].Event, &events[i]); err != nil {
			return nil, nil, fmt.Errorf("event of revision %d: %w", l.Rows[i].Rev, err)
		}
		refs = append(refs, events[i].Texts()...)
	}
	for i := range l.Ops {
		op := &l.Ops[i]
		if op.Receipt == nil {
			continue
		}
		b, err := parseBody(op.Receipt)
		if err != nil {
			return nil, nil, err
		}
		bodies[op.ID] = b
		op.Receipt.Fault = b.Fault
		refs = append(refs, b.texts()...)
	}
	for i := range l.Effects {
		e := &l.Effects[i]
		refs = append(refs, &e.Args, &e.Patch, &e.Result)
	}
	if err := r.texts.fetch(ctx, refs); err != nil {
		return nil, nil, err
	}
	return events, bodies, nil
}

func (r *rebuilt) refold(
	ctx context.Context, row *store.Row, ev engine.Event, bodies map[string]*body, effects map[string][]engine.EffectRecord,
	visit func(*rebuilt, []byte) error,
) error {
	if ev.AtUS < r.now {
		return engine.Errorf(engine.CodeConflict, "time goes backwards from %d to %d", r.now, ev.AtUS)
	}
	st, err := r.stepOf(ctx, row, ev)
	if err != nil {
		return err
	}
	switch {
	case !bytes.Equal(st.row.Event, row.Event):
		return engine.Errorf(engine.CodeConflict, "the event is not in canonical form")
	case st.row.CommandsDigest != row.CommandsDigest:
		return engine.Errorf(engine.CodeConflict, "the machine gives other commands than the row holds")
	case st.row.StateDigest != row.StateDigest:
		return engine.Errorf(engine.CodeConflict, "the machine comes to another state than the row holds")
	}
	for _, o := range st.ops {
		if err := r.attach(o, bodies[o.id]); err != nil {
			return err
		}
	}
	if o, ok := r.ops[ev.Op]; ev.Op != "" && (!ok || o.phase != returned) {
		return engine.Errorf(engine.CodeConflict, "the event reports on operation %s, which has not returned", ev.Op)
	}
	r.refused(&ev)
	if err := r.checkMoney(&ev); err != nil {
		return err
	}
	if err := r.adopt(st); err != nil {
		return err
	}
	for _, o := range st.ops {
		if o.call.Tool != nil {
			if err := r.redo(o, effects[o.id]); err != nil {
				return err
			}
		}
	}
	if visit != nil {
		return visit(r, st.snapshot)
	}
	return nil
}

// checkMoney holds the charged sum an event states against the receipts: at
// least those of operations whose event is in the log, this one included, at
// most those of all operations so far and what was charged by reconciliation,
// which the rows do not date. It runs before adopt.
func (r *rebuilt) checkMoney(ev *engine.Event) error {
	least, most := r.told, r.told+r.resolved
	for _, o := range r.open {
		if o.receipt == nil {
			continue
		}
		most += o.receipt.ChargedMicros
		if o.id == ev.Op {
			least += o.receipt.ChargedMicros
		}
	}
	if c := ev.Money.Charged; c < least || c > most {
		return engine.Errorf(engine.CodeConflict, "the event states %d micros charged, the receipts say %d to %d", c, least, most)
	}
	return nil
}

// attach gives a planned operation what the store knows about it.
func (r *rebuilt) attach(o *operation, b *body) error {
	op, ok := r.stored[o.id]
	if !ok {
		return engine.Errorf(engine.CodeConflict, "operation %s is not stored", o.id)
	}
	if op.Rev != o.rev || op.Ordinal != o.ordinal || op.RequestDigest != o.digest || op.Key != o.call.Key {
		return engine.Errorf(engine.CodeConflict, "operation %s is stored with another place or request", o.id)
	}
	o.reserved, o.receipt, o.body, o.reconciled = op.ReservedMicros, op.Receipt, b, op.Reconciled != nil
	switch {
	case o.receipt != nil:
		o.phase = returned
	case op.Status == store.OpRefused:
		o.phase, o.body = returned, refusedReservation(o.reserved, r.refusalCode())
	case op.Status == store.OpDispatched:
		o.phase = marked
	default:
		o.phase = waiting
	}
	if o.phase == marked || o.phase == returned && o.receipt != nil && o.body.Kind != engine.EvDispatchRefused {
		r.count(o)
	}
	return nil
}

// count counts a dispatched call.
func (s *state) count(o *operation) {
	if o.call.Tool != nil {
		s.toolCalls++
	} else {
		s.modelCalls++
	}
}

// refusalCode is why the room refused a reservation whose refusal is not in the
// log yet: the room has not moved since.
func (r *rebuilt) refusalCode() string {
	if r.loaded.Head.Halted {
		return engine.CodeBudgetHalted
	}
	return engine.CodeBudgetExhausted
}

// refused takes the reason of a refused reservation from its event: whether the
// room was halted at the time, no receipt tells.
func (r *rebuilt) refused(ev *engine.Event) {
	o, ok := r.ops[ev.Op]
	if !ok || o.receipt != nil || o.phase != returned || ev.Refusal == nil {
		return
	}
	if c := ev.Refusal.Code; c == engine.CodeBudgetHalted || c == engine.CodeBudgetExhausted {
		o.body = refusedReservation(o.reserved, c)
	}
}

func refusedReservation(micros int64, code string) *body {
	reason := fmt.Sprintf("the bound of %d micros is more than the room has left", micros)
	if code == engine.CodeBudgetHalted {
		reason = "the room is halted by an overrun"
	}
	return &body{Kind: engine.EvReservationRefused, Refusal: &engine.Refusal{Code: code, Reason: reason}}
}

// redo replays a tool operation on the world: its effects, then its count.
func (r *rebuilt) redo(o *operation, effects []engine.EffectRecord) error {
	if r.world == nil {
		return nil
	}
	t, err := r.resolveTool(o, false)
	if err != nil {
		return err
	}
	for _, e := range effects {
		if err := r.apply(e); err != nil {
			return err
		}
	}
	if o.receipt != nil && o.body.Kind != engine.EvDispatchRefused {
		r.called(o, &t)
	}
	return nil
}
