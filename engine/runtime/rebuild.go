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

// rebuilt is a room folded from its first row to its last.
type rebuilt struct {
	*state
	loaded *store.Loaded
	stored map[string]*store.Op
	told   int64 // charged by operations whose event is in the log
}

// rebuild folds every row of a loaded room through fresh folds and compares
// chain, commands, states and operations with what is stored; a difference is
// an error of code CONFLICT. visit, when not nil, sees each state.
func rebuild(ctx context.Context, f Folds, s store.Rooms, l *store.Loaded, visit func(rev int64, snapshot []byte)) (*rebuilt, error) {
	room := l.Head.Room
	if l.Snapshot != nil {
		rows, err := s.Rows(ctx, room, -1, 0)
		if err != nil {
			return nil, fmt.Errorf("rows of room %s: %w", room, err)
		}
		l.Rows = rows
	}
	if err := checkChain(l); err != nil {
		return nil, fmt.Errorf("room %s: %w", room, err)
	}
	st, err := newState(f, room, l.Head.Salt)
	if err != nil {
		return nil, fmt.Errorf("room %s: %w", room, err)
	}
	r := &rebuilt{state: st, loaded: l, stored: make(map[string]*store.Op, len(l.Ops))}
	for i := range l.Ops {
		r.stored[l.Ops[i].ID] = &l.Ops[i]
	}
	events, bodies, err := r.read(ctx, s)
	if err != nil {
		return nil, fmt.Errorf("room %s: %w", room, err)
	}
	effects := map[string][]engine.EffectRecord{}
	for i := range l.Effects {
		e := &l.Effects[i]
		effects[e.Op] = append(effects[e.Op], fromStore(e))
	}
	for i := range l.Rows {
		if err := r.refold(&l.Rows[i], events[i], bodies, effects, visit); err != nil {
			return nil, fmt.Errorf("room %s, revision %d: %w", room, l.Rows[i].Rev, err)
		}
	}
	if len(r.order) != len(l.Ops) {
		return nil, engine.Errorf(engine.CodeConflict, "room %s: %d operations are stored, the rows ask for %d", room, len(l.Ops), len(r.order))
	}
	r.texts.fresh = nil // all stored with the rows and receipts that brought them
	return r, nil
}

// checkChain verifies the rows against each other and the head, without any
// content.
func checkChain(l *store.Loaded) error {
	prev := ""
	for i := range l.Rows {
		row := &l.Rows[i]
		switch {
		case row.Rev != int64(i):
			return engine.Errorf(engine.CodeConflict, "revision %d stands at place %d", row.Rev, i)
		case row.Prev != prev:
			return engine.Errorf(engine.CodeConflict, "revision %d does not follow the row before it", row.Rev)
		case engine.Digest(row.Commands) != row.CommandsDigest:
			return engine.Errorf(engine.CodeConflict, "revision %d: commands digest differs", row.Rev)
		case store.RowDigest(*row) != row.Digest:
			return engine.Errorf(engine.CodeConflict, "revision %d: row digest differs", row.Rev)
		}
		prev = row.Digest
	}
	if n := int64(len(l.Rows)); l.Head.Rev != n-1 || l.Head.Digest != prev {
		return engine.Errorf(engine.CodeConflict, "head %d %s is not the newest row %d %s", l.Head.Rev, l.Head.Digest, n-1, prev)
	}
	if n := len(l.Rows); n > 0 && l.Rows[n-1].StateDigest != l.Head.StateDigest {
		return engine.Errorf(engine.CodeConflict, "state digest of the head differs from its row")
	}
	return nil
}

// read parses events and receipts and loads all their texts, and those of the
// effects.
func (r *rebuilt) read(ctx context.Context, s store.Rooms) ([]engine.Event, map[string]*body, error) {
	l := r.loaded
	events := make([]engine.Event, len(l.Rows))
	bodies := make(map[string]*body, len(l.Ops))
	var refs []*engine.Text
	for i := range l.Rows {
		if err := json.Unmarshal(l.Rows[i].Event, &events[i]); err != nil {
			return nil, nil, fmt.Errorf("event of revision %d: %w", i, err)
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
	if err := r.texts.fetch(ctx, s, l.Head.Room, refs); err != nil {
		return nil, nil, err
	}
	return events, bodies, nil
}

// fetch loads the texts from the store.
func (x *texts) fetch(ctx context.Context, s store.Rooms, room string, refs []*engine.Text) error {
	if names := x.missing(refs, map[string]bool{}); len(names) > 0 {
		blobs, err := s.Blobs(ctx, room, names)
		if err != nil {
			return fmt.Errorf("blobs of room %s: %w", room, err)
		}
		if err := x.add(blobs); err != nil {
			return err
		}
	}
	for _, t := range refs {
		if err := x.load(t); err != nil {
			return err
		}
	}
	return nil
}

func (r *rebuilt) refold(row *store.Row, ev engine.Event, bodies map[string]*body, effects map[string][]engine.EffectRecord, visit func(int64, []byte)) error {
	if row.Machine != r.version {
		return engine.Errorf(engine.CodeVersionMismatch, "folded by machine %s, this is %s", row.Machine, r.version)
	}
	if ev.AtUS < r.now {
		return engine.Errorf(engine.CodeConflict, "time goes backwards from %d to %d", r.now, ev.AtUS)
	}
	st, err := r.fold(ev)
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
	if err := r.checkMoney(&ev); err != nil {
		return err
	}
	if err := r.adopt(st); err != nil {
		return err
	}
	if visit != nil {
		visit(row.Rev, st.snapshot)
	}
	for _, o := range st.ops {
		if o.call.Tool != nil {
			if err := r.redo(o, effects[o.id]); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkMoney holds the charged sum an event states against the receipts: at
// least those of operations whose event is in the log, this one included, at
// most those of all operations so far. It runs before adopt.
func (r *rebuilt) checkMoney(ev *engine.Event) error {
	least, most := r.told, r.told
	for _, o := range r.open {
		if o.receipt == nil {
			continue
		}
		most += o.receipt.ChargedMicros
		if o.id == ev.Op {
			least += o.receipt.ChargedMicros
			r.told = least
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
		o.phase, o.body = returned, refusedReservation(o.reserved, r.refusalCode(o.rev))
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

// refusalCode is why the room refused a reservation at a revision: it was
// halted if an operation of an earlier revision had overrun.
func (s *state) refusalCode(rev int64) string {
	for _, o := range s.order {
		if o.rev < rev && o.receipt != nil && o.receipt.ChargedMicros > o.reserved {
			return engine.CodeBudgetHalted
		}
	}
	return engine.CodeBudgetExhausted
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
