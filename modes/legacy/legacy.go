// Package legacy is the mode that agent rooms started from: one agent with
// every tool of the room, one growing conversation, and its own word as the
// only proof of completion.
//
// Every message is said into the one session. A turn that ends with done is a
// claim; so is an answer, for this mode has no notion of an open objective. A
// claim is left out when the owner has spoken meanwhile: the agent has not
// read it yet and the next turn starts at once. A question only speaks. Blocked
// speaks and stops (modes.EndReason says why) until the owner speaks again.
//
// Idempotency keys are scoped by the last request of the owner, so that a
// retry after an unknown outcome repeats its key, also when a correction or a
// reply came in between.
//
// Stability: may change.
package legacy

import (
	"fmt"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/room"
	"github.com/agentrooms/qualify/engine/session"
	"github.com/agentrooms/qualify/modes"
)

const (
	// Name of the mode.
	Name = "legacy"
	// Agent is the participant id of the one agent. It is no participant of the
	// room specification; its authority is the union of all participants'.
	Agent = "agent"
	// Identity is its agent identity.
	Identity = "agent-legacy"

	version = "legacy@1"
	cause   = "main"
)

// Mode is the legacy mode. It knows no options.
type Mode struct{}

var _ modes.Mode = Mode{}

// Name implements modes.Mode.
func (Mode) Name() string { return Name }

// Prompts implements modes.Mode: the session's, the same as in every mode.
func (Mode) Prompts() map[string]string { return session.Prompts() }

// New implements modes.Mode.
func (Mode) New(spec engine.RoomSpec) (engine.Machine, error) {
	if err := modes.Check(spec); err != nil {
		return nil, fmt.Errorf("mode %s: %w", Name, err)
	}
	tools := modes.AllTools(spec.Agents)
	system := session.SystemPrompt(session.SystemData{
		ID: Agent, Description: "all work of this room, from reading to the last word to the owner",
		Owner: spec.Owner, Goal: spec.Goal, Criteria: spec.Criteria, Tools: tools,
	})
	return &machine{
		authority: room.Authority{Owner: spec.Owner},
		system:    system,
		state: state{Session: session.New(session.Config{
			Agent: Agent, Role: engine.RoleAgent, Kind: engine.OpAgent, Cause: cause, Tools: tools, System: system, Detached: true,
		})},
	}, nil
}

type machine struct {
	authority room.Authority
	system    string
	state     state
}

type state struct {
	Session   *session.Session `json:"session"`
	Scope     string           `json:"scope"` // id of the last request
	Claims    modes.Claims     `json:"claims"`
	Artifacts room.Artifacts   `json:"artifacts,omitempty"`
}

// Handle implements engine.Machine.
func (m *machine) Handle(ev engine.Event) ([]engine.Command, error) {
	if ev.Kind == engine.EvStarted || ev.Kind == engine.EvTimer {
		return nil, nil
	}
	if ev.Kind == engine.EvOwnerMessage {
		return m.hear(ev)
	}
	cmds, turn, err := m.state.Session.Handle(ev)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", version, err)
	}
	if turn == nil {
		return cmds, nil
	}
	if cmds, err = m.finish(ev, *turn); err != nil {
		return nil, fmt.Errorf("%s: %w", version, err)
	}
	return append(cmds, m.state.Session.Step()...), nil
}

func (m *machine) hear(ev engine.Event) ([]engine.Command, error) {
	msg, err := modes.Message(ev)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", version, err)
	}
	cmds := m.state.Claims.Hear(m.authority, msg)
	from := msg.From
	if m.authority.IsOwner(from) {
		from = session.FromOwner(from)
		if msg.Type == engine.MsgRequest || m.state.Scope == "" {
			m.state.Scope = msg.ID
		}
	}
	m.state.Session.SayFor(from, msg.Text, m.state.Scope)
	return append(cmds, m.state.Session.Step()...), nil
}

func (m *machine) finish(ev engine.Event, t session.Turn) ([]engine.Command, error) {
	var cmds []engine.Command
	if t.Artifact != nil {
		a, err := m.state.Artifacts.Put(t.Artifact.Name, Agent, m.state.Session.Task(), t.Artifact.Text)
		if err != nil {
			return nil, fmt.Errorf("artifact of event %s: %w", ev.ID, err)
		}
		cmds = append(cmds, engine.Command{Kind: engine.CmdArtifact, Artifact: &a})
	}
	cmds = append(cmds, engine.Command{Kind: engine.CmdSay, Say: &engine.Say{
		ID: engine.StableID("msg_", Name, ev.ID), From: Agent, To: []string{m.authority.Owner},
		Status: t.Status, Text: engine.Plain(t.Text),
	}})
	if m.state.Session.Unseen() {
		return cmds, nil
	}
	if t.Status == engine.StatusDone || t.Status == engine.StatusAnswer {
		cmds = append(cmds, m.state.Claims.Claim(Agent, t.Text))
	}
	if t.Status == engine.StatusBlocked {
		cmds = append(cmds, modes.End(t.Code))
	}
	return cmds, nil
}

// Snapshot implements engine.Machine.
func (m *machine) Snapshot() ([]byte, error) { return engine.Canonical(m.state) }

// Restore implements engine.Machine.
func (m *machine) Restore(snapshot []byte) error {
	var fresh state
	if err := modes.DecodeState(snapshot, &fresh); err != nil {
		return fmt.Errorf("%s: %w", version, err)
	}
	if fresh.Session == nil {
		return fmt.Errorf("%s: restore: no session in the snapshot", version)
	}
	if err := fresh.Session.Attach(m.system); err != nil {
		return fmt.Errorf("%s: restore: %w", version, err)
	}
	m.state = fresh
	return nil
}

// Version implements engine.Machine.
func (m *machine) Version() string { return version }
