package modes

import (
	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/room"
)

// Names of the control modes.
const (
	NameDoNothing = "do-nothing"
	NameClaimOnly = "claim-only"
)

// DoNothing is the control that never acts and never claims: what it completes
// was complete from the start.
func DoNothing() Mode { return control{name: NameDoNothing} }

// ClaimOnly is the control that never acts and claims at once, on the first
// message and again whenever the owner reopens the work: what it completes,
// any mode can complete by talk.
func ClaimOnly() Mode { return control{name: NameClaimOnly, claims: true} }

type control struct {
	name   string
	claims bool
}

var _ Mode = control{}

// Name implements Mode.
func (c control) Name() string { return c.name }

// Prompts implements Mode: a control speaks to no model.
func (c control) Prompts() map[string]string { return map[string]string{} }

// New implements Mode.
func (c control) New(spec engine.RoomSpec) (engine.Machine, error) {
	if err := Check(spec); err != nil {
		return nil, err
	}
	return &controlMachine{control: c, authority: room.Authority{Owner: spec.Owner}}, nil
}

type controlMachine struct {
	control   control
	authority room.Authority
	state     struct {
		Claims Claims `json:"claims"`
	}
}

// Handle implements engine.Machine.
func (m *controlMachine) Handle(ev engine.Event) ([]engine.Command, error) {
	if ev.Kind != engine.EvOwnerMessage {
		return nil, nil
	}
	msg, err := Message(ev)
	if err != nil {
		return nil, err
	}
	cmds := m.state.Claims.Hear(m.authority, msg)
	if m.control.claims && m.authority.IsOwner(msg.From) && !m.state.Claims.Stands() {
		cmds = append(cmds, m.state.Claims.Claim(m.control.name, "Everything is done."))
	}
	return cmds, nil
}

// Snapshot implements engine.Machine.
func (m *controlMachine) Snapshot() ([]byte, error) { return engine.Canonical(m.state) }

// Restore implements engine.Machine.
func (m *controlMachine) Restore(snapshot []byte) error {
	fresh := m.state
	fresh.Claims = Claims{}
	if err := DecodeState(snapshot, &fresh); err != nil {
		return err
	}
	m.state = fresh
	return nil
}

// Version implements engine.Machine.
func (m *controlMachine) Version() string { return m.control.name + "@1" }
