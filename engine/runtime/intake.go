package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

// Intake is an event that comes to an open room from outside: a persisted
// message, a command of the owner, or the room's start.
type Intake struct {
	Event engine.Event // ID, Kind and body; time, money and facts are the runtime's
	// Digest of what was asked makes the intake idempotent, for ever (R14): the
	// room remembers it by the event's id, with the revision that answered. The
	// same id and digest get that revision's answer again, another digest is
	// CONFLICT.
	Digest string
	// Remember is kept in the room's index with the event.
	Remember []store.IndexEntry
}

// Answer is the revision that an intake made, now or when it first came.
type Answer struct {
	Rev   int64
	Again bool // it had come before; nothing was written
	Entry engine.LogEntry
}

// Append folds one event from outside into an open room and commits it.
// Nothing is dispatched or delivered: that is Tick's work. Any process may
// append at any time, also while another one ticks the room. The room is
// created when the event is its start (EvStarted).
//
// Errors: code NOT_FOUND (no room), CONFLICT (the event came with another
// digest before, ten compare-and-sets in a row were lost, or the room is closed),
// VERSION_MISMATCH, VALIDATION_ERROR (an event id that no outside event may
// have); those of Authority and of the store. A fault of the machine is an
// error and commits nothing.
func Append(ctx context.Context, l Live, in Intake) (Answer, error) {
	l, err := l.withDefaults()
	if err != nil {
		return Answer{}, err
	}
	if err := in.check(); err != nil {
		return Answer{}, fmt.Errorf("room %s: %w", l.Room, err)
	}
	l.Notifier = nil // who delivers must have the lease
	wait := NewBackoff()
	for lost := range maxConflicts {
		if lost > 2 { // whoever is so busy in the room gets time to finish
			if err := wait.Wait(ctx, nil); err != nil {
				return Answer{}, err
			}
		}
		a, known, err := Recall(ctx, l.Store, l.Room, in.Event.ID, in.Digest)
		fresh := errors.Is(err, store.ErrNotFound) && in.Event.Kind == engine.EvStarted
		if known || err != nil && !fresh {
			return a, err
		}
		a, done, err := l.append(ctx, in)
		if errors.Is(err, store.ErrExists) && !done {
			continue // the same event came in behind the look at the index: it is found now
		}
		if err == nil || !errors.Is(err, store.ErrConflict) {
			return a, err
		}
		if done { // only the snapshot that was due behind it came too late
			a, _, err := Recall(ctx, l.Store, l.Room, in.Event.ID, in.Digest)
			a.Again = false
			return a, err
		}
	}
	return Answer{}, engine.Errorf(engine.CodeConflict, "room %s: %d lost compare-and-sets in a row; try again", l.Room, maxConflicts)
}

// Inner reports an event id that is the runtime's own: no event from outside
// may have it.
func Inner(id string) bool {
	return id == "" || id == startID || strings.HasPrefix(id, opPrefix) || strings.HasPrefix(id, timerPrefix)
}

func (in *Intake) check() error {
	id := in.Event.ID
	inner := Inner(id)
	if inner != (in.Event.Kind == engine.EvStarted && id == startID) {
		return engine.Errorf(engine.CodeValidation, "%q is no id for an event of kind %s from outside", id, in.Event.Kind)
	}
	if in.Digest == "" || strings.Contains(in.Digest, " ") {
		return engine.Errorf(engine.CodeValidation, "event %s comes without a digest", id)
	}
	return nil
}

// Start is the intake that creates a room.
func Start(digest string, remember ...store.IndexEntry) Intake {
	return Intake{Event: engine.Event{ID: startID, Kind: engine.EvStarted}, Digest: digest, Remember: remember}
}

// spaceIntake is the index of events from outside: by their ids, the digest of
// what was asked and the revision that answered.
const spaceIntake = "intake"

// append makes one attempt. done reports that the event was committed.
func (l Live) append(ctx context.Context, in Intake) (a Answer, done bool, err error) {
	r, err := open(ctx, l.Config)
	if err != nil {
		return a, false, fmt.Errorf("room %s: %w", l.Room, err)
	}
	switch started := in.Event.Kind == engine.EvStarted; {
	case r.head.Closed:
		return a, false, engine.Errorf(engine.CodeConflict, "room %s is closed", l.Room)
	case !started && r.rev < 0:
		return a, false, engine.Errorf(engine.CodeNotFound, "room %s has not been started", l.Room)
	case started && r.rev >= 0:
		return a, false, engine.Errorf(engine.CodeConflict, "room %s was started by someone else", l.Room)
	}
	if limit := l.Limits.BudgetMicros; r.rev < 0 && r.head.Money.Limit != limit {
		// Somebody made the room for another budget and went no further.
		head, err := l.Store.GrantRoom(ctx, l.Room, limit, nil)
		if err != nil {
			return a, false, fmt.Errorf("room %s: budget: %w", l.Room, err)
		}
		r.head.Money = head.Money
	}
	r.watch.clock = microseconds(l.Now)
	if _, err := l.authorize(ctx, r); err != nil {
		return a, false, err
	}
	if err := r.catchUp(ctx); err != nil {
		return a, false, fmt.Errorf("room %s: %w", l.Room, err)
	}
	r.committed = false
	ev := in.Event
	ev.AtUS = max(r.watch.us(), r.now)
	// Copies: an attempt that is lost must not leave its seals behind.
	ev.Message, ev.Command = clonePtr(ev.Message), clonePtr(ev.Command)
	if ev.Command != nil {
		if ev.Command.Key != "" {
			if err := r.resolveCommand(ctx, ev.Command); err != nil {
				return a, false, fmt.Errorf("room %s: %w", l.Room, err)
			}
		}
	}
	known := store.IndexEntry{Space: spaceIntake, Key: ev.ID, Value: in.Digest + " " + strconv.FormatInt(r.rev+1, 10)}
	st, err := r.commit(ctx, ev, append([]store.IndexEntry{known}, in.Remember...))
	if err != nil {
		return a, r.committed, fmt.Errorf("room %s: %w", l.Room, err)
	}
	return Answer{Rev: st.row.Rev, Entry: engine.LogEntry{Rev: st.row.Rev, Event: st.event, Commands: st.commands}}, true, nil
}

// catchUp folds what has returned already, so that an event from outside comes
// after what happened before it: a grant, say, after the refusal that it
// answers.
func (r *run) catchUp(ctx context.Context) error {
	for range defaultEvents {
		i := slices.IndexFunc(r.open, func(o *operation) bool { return o.phase == returned })
		if i < 0 {
			return nil
		}
		if err := r.deliver(ctx, resultOf(r.open[i])); err != nil {
			return err
		}
	}
	return nil
}
