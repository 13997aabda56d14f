package planner

import (
	"encoding/json"
	"fmt"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/room"
	"github.com/agentrooms/qualify/engine/routing"
)

// Version of the machine; see engine.Machine.
const Version = "planner@2"

// Machine is the Room planner of one room. See the package comment.
type Machine struct {
	spec      Spec
	authority room.Authority
	aliases   *routing.Table
	st        state
}

var (
	_ engine.Machine    = (*Machine)(nil)
	_ engine.TextHolder = (*Machine)(nil)
	_ engine.CallGuard  = (*Machine)(nil)
)

// New builds a planner. Errors are of code VALIDATION_ERROR or, for aliases
// that two participants share, CONFLICT, and name what is wrong.
func New(spec Spec) (*Machine, error) {
	spec = spec.withDefaults()
	if err := spec.validate(); err != nil {
		return nil, err
	}
	aliases, err := routing.NewTable(routing.Entries(spec.Agents))
	if err != nil {
		return nil, fmt.Errorf("planner: %w", err)
	}
	return &Machine{spec: spec, authority: room.Authority{Owner: spec.Owner}, aliases: aliases}, nil
}

// Version implements engine.Machine.
func (*Machine) Version() string { return Version }

// Snapshot implements engine.Machine.
func (m *Machine) Snapshot() ([]byte, error) { return engine.Canonical(&m.st) }

// Restore implements engine.Machine. Texts kept by reference must be loaded
// (see Texts) before the next Handle.
func (m *Machine) Restore(snapshot []byte) error {
	var st state
	if err := json.Unmarshal(snapshot, &st); err != nil {
		return fmt.Errorf("planner: restore: %w", err)
	}
	m.st = st
	return nil
}

// Texts implements engine.TextHolder: the messages and the tool calls that
// prompts show, and results that wait for readmission.
func (m *Machine) Texts() []*engine.Text {
	var ts []*engine.Text
	for i := range m.st.Messages {
		ts = append(ts, &m.st.Messages[i].Text)
	}
	add := func(calls []call) {
		for i := range calls {
			ts = append(ts, &calls[i].Args, &calls[i].Result)
		}
	}
	ofObjective := func(o *objective) {
		for _, w := range o.Works {
			add(w.Calls)
		}
		for i := range o.Held {
			ts = append(ts, o.Held[i].Event.Texts()...)
		}
	}
	for _, o := range m.st.Open {
		ofObjective(o)
	}
	if m.st.Past != nil {
		ofObjective(m.st.Past)
	}
	for _, list := range [][]*work{m.st.Orphans, m.st.History} {
		for _, w := range list {
			add(w.Calls)
		}
	}
	for _, k := range m.st.Talks {
		add(k.Calls)
	}
	return ts
}

// Handle implements engine.Machine. One event is folded; then the planner asks
// for all work that the new state allows (R65), in this order: one
// interpretation, ready tasks, conversations, verification.
func (m *Machine) Handle(ev engine.Event) ([]engine.Command, error) {
	t := &turn{ev: ev}
	if err := m.fold(t); err != nil {
		return nil, fmt.Errorf("planner: event %s: %w", ev.ID, err)
	}
	if err := m.advance(t); err != nil {
		return nil, fmt.Errorf("planner: after event %s: %w", ev.ID, err)
	}
	return t.cmds, nil
}

func (m *Machine) fold(t *turn) error {
	ev := t.ev
	if ev.Kind == engine.EvStarted || ev.Kind == engine.EvTimer {
		return nil
	}
	if ev.Kind == engine.EvOwnerMessage {
		return m.onMessage(t)
	}
	if ev.Kind == engine.EvOwnerCommand {
		return m.onCommand(t)
	}
	if ev.Key == nil {
		return fmt.Errorf("kind %s names no operation", ev.Kind)
	}
	return m.onOutcome(t, *ev.Key)
}

// onOutcome folds what became of an operation.
func (m *Machine) onOutcome(t *turn, key engine.OpKey) error {
	if i := m.st.Interpret; i != nil && i.Key == key {
		return m.onInterpretation(t)
	}
	for _, o := range m.st.Open {
		if s := o.slot(key); s != nil {
			return m.onReview(t, o, s)
		}
		for _, w := range o.Works {
			if w.busy() && w.Session.Owns(key) {
				return m.onTask(t, o, w)
			}
		}
	}
	for i, w := range m.st.Orphans {
		if w.Session.Owns(key) {
			return m.onOrphan(t, i)
		}
	}
	for _, k := range m.st.Talks {
		if !k.Session.Idle() && k.Session.Owns(key) {
			return m.onTalk(t, k)
		}
	}
	// A verdict on a report that has been replaced, or an outcome for an
	// objective that has ended: kept as evidence in the row, without authority
	// (R20, R34).
	return t.note(NoteStray, map[string]any{"op": t.ev.Op, "kind": t.ev.Kind, "cause": key.Cause})
}

// advance asks for everything that may start now.
func (m *Machine) advance(t *turn) error {
	// Each round may enable another; what they enable is bounded by open work,
	// so the number of rounds is too.
	for {
		before := len(t.cmds)
		if m.st.Blocked == "" {
			if err := m.startInterpretation(t); err != nil {
				return err
			}
			if err := m.startTasks(t); err != nil {
				return err
			}
			if err := m.startTalks(t); err != nil {
				return err
			}
			// A verified objective leaves the list of open ones.
			for _, o := range append([]*objective(nil), m.st.Open...) {
				if err := m.verify(t, o); err != nil {
					return err
				}
			}
		}
		if len(t.cmds) == before {
			break
		}
	}
	return m.rest(t)
}

// rest ends asking for work when nothing is in flight and only the owner can
// go on.
func (m *Machine) rest(t *turn) error {
	st := &m.st
	if st.Ended || !st.idle() {
		return nil
	}
	reason := st.Halt
	if st.Blocked != "" {
		reason = engine.EndReason(st.Blocked)
	}
	for _, o := range st.Open {
		if reason != "" {
			break
		}
		switch {
		case o.Status.stopped(), o.Status == StatusPaused, len(o.Held) > 0:
			reason = engine.EndEscalated
		case o.Status != StatusWaitingUser:
			o.Says++
			m.notify(t, "The work stands still: nothing is under way and the plan is not complete. Please tell me how to go on.", o.ID, "still", itoa(o.Says))
			reason = st.Halt
		}
	}
	if reason == "" {
		return nil
	}
	st.Ended = true
	t.add(engine.Command{Kind: engine.CmdEnd, End: &engine.End{Reason: reason}})
	return nil
}

// block stops new work after a refusal that asking again would meet again
// (R64). It lasts until the owner speaks.
func (m *Machine) block(t *turn, what string) error {
	r := t.ev.Refusal
	m.st.Blocked = r.Code
	return t.note(NoteBlocked, map[string]any{"code": r.Code, "reason": r.Reason, "what": what})
}

// refusal returns the event's refusal if it is one.
func (t *turn) refusal() (*engine.Refusal, error) {
	if t.ev.Kind != engine.EvReservationRefused && t.ev.Kind != engine.EvDispatchRefused {
		return nil, nil
	}
	if t.ev.Refusal == nil {
		return nil, fmt.Errorf("kind %s has no refusal", t.ev.Kind)
	}
	return t.ev.Refusal, nil
}
