// Package selective is the mode in which every message is routed and every
// participant is a specialist with a session of its own.
//
// An owner message goes to the participants it references; without a reference
// the router chooses one specialist, else the default takes it (C7). Messages
// are routed one after another in the order they came. A participant's own
// message is routed too, but only by the explicit references in it: an agent
// knows its colleagues and can name one, whereas asking the router about every
// closing word would spend money to hear "none", and could start work that
// nobody asked for.
//
// A session is made at first use and lives as long as the room. At most
// RoomSpec.Parallel sessions are at work; others wait in the order in which
// they were addressed. Messages for a session at work join its next model
// call.
//
// Claims: done is a claim. An answer is one only when nobody else is at work or
// started by this very message: a hand-over is no claim. Neither is a claim
// while a message waits that its speaker has not read, or that is not routed
// yet. Blocked stops the mode when nobody else is at work.
//
// Idempotency keys are scoped by the owner's last request at the time the
// chain of messages began; a hand-over keeps the scope of who hands over.
//
// Stability: may change.
package selective

import (
	_ "embed" // the prompt files
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/room"
	"github.com/agentrooms/qualify/engine/routing"
	"github.com/agentrooms/qualify/engine/session"
	"github.com/agentrooms/qualify/modes"
)

const (
	// Name of the mode.
	Name = "selective"
	// Router is the participant id that router calls run as, and the speaker of
	// what the room itself has to say. It is no participant of the room
	// specification and holds no tool.
	Router = "router"
	// OptionDefault names the participant who takes what the router assigns to
	// nobody; a specialist, the first one when absent (D9).
	OptionDefault = "default"

	version = "selective@1"
)

var (
	//go:embed prompts/router.txt
	routerPrompt string
	//go:embed prompts/repair.txt
	repairPrompt string
)

// Mode is the selective mode.
type Mode struct{}

var _ modes.Mode = Mode{}

// Name implements modes.Mode.
func (Mode) Name() string { return Name }

// Prompts implements modes.Mode.
func (Mode) Prompts() map[string]string {
	return modes.MergePrompts(session.Prompts(), map[string]string{
		"selective/router.txt": routerPrompt,
		"selective/repair.txt": repairPrompt,
	})
}

// New implements modes.Mode. Errors: VALIDATION_ERROR for an unusable room or
// option, CONFLICT for an alias of two participants.
func (Mode) New(spec engine.RoomSpec) (engine.Machine, error) {
	if err := modes.Check(spec, OptionDefault); err != nil {
		return nil, fmt.Errorf("mode %s: %w", Name, err)
	}
	table, err := routing.NewTable(routing.Entries(spec.Agents))
	if err != nil {
		return nil, fmt.Errorf("mode %s: %w", Name, err)
	}
	m := &machine{
		spec: spec, table: table, authority: room.Authority{Owner: spec.Owner}, parallel: max(spec.Parallel, 1),
		state: state{Members: map[string]*session.Session{}},
	}
	for _, p := range spec.Agents {
		if p.Role == modes.RoleSpecialist {
			m.specialists = append(m.specialists, p.ID)
		}
	}
	if id := spec.Options[OptionDefault]; id != "" {
		if !slices.Contains(m.specialists, id) {
			return nil, fmt.Errorf("mode %s: %w", Name, engine.Errorf(engine.CodeValidation, "option %s: %q is no specialist of the room", OptionDefault, id))
		}
		m.fallback = id
	} else if len(m.specialists) > 0 {
		m.fallback = m.specialists[0]
	}
	return m, nil
}

type machine struct {
	spec        engine.RoomSpec
	table       *routing.Table
	authority   room.Authority
	parallel    int
	specialists []string // ids in the order of the room
	fallback    string   // default participant
	state       state
}

type state struct {
	Members   map[string]*session.Session `json:"members"`         // by participant id, made at first use
	Waiting   []string                    `json:"waiting"`         // addressed, in order; not yet at work with it
	Inbox     []incoming                  `json:"inbox"`           // not routed yet, oldest first
	Route     *routeCall                  `json:"route,omitempty"` // the router is at work on the first of Inbox
	Scope     string                      `json:"scope"`           // id of the last request
	Claims    modes.Claims                `json:"claims"`
	Artifacts room.Artifacts              `json:"artifacts,omitempty"`
}

// incoming is a message that waits for its route. Body repeats the content by
// value: the router is sent a document that quotes it, and after a restore only
// a reference to Text is at hand. It leaves the state once routed.
type incoming struct {
	Event string      `json:"event"` // id of the event that brought it
	ID    string      `json:"id"`
	Type  string      `json:"type"`
	From  string      `json:"from"`
	Scope string      `json:"scope"`
	Text  engine.Text `json:"text"`
	Body  string      `json:"body"`
}

// Handle implements engine.Machine.
func (m *machine) Handle(ev engine.Event) ([]engine.Command, error) {
	if ev.Kind == engine.EvStarted || ev.Kind == engine.EvTimer {
		return nil, nil
	}
	cmds, err := m.fold(ev)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", version, err)
	}
	more, err := m.pump(ev)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", version, err)
	}
	return append(cmds, more...), nil
}

func (m *machine) fold(ev engine.Event) ([]engine.Command, error) {
	if ev.Kind == engine.EvOwnerMessage {
		return m.hear(ev)
	}
	if ev.Key == nil {
		return nil, fmt.Errorf("event %s (%s) names no operation", ev.ID, ev.Kind)
	}
	if r := m.state.Route; r != nil && r.Key == *ev.Key {
		return m.routed(ev)
	}
	for _, p := range m.spec.Agents {
		s, ok := m.state.Members[p.ID]
		if !ok || !s.Owns(*ev.Key) {
			continue
		}
		cmds, turn, err := s.Handle(ev)
		if err != nil || turn == nil {
			return cmds, err
		}
		return m.finish(ev, p.ID, *turn)
	}
	return nil, fmt.Errorf("event %s (%s) is for no operation of this room", ev.ID, ev.Kind)
}

func (m *machine) hear(ev engine.Event) ([]engine.Command, error) {
	msg, err := modes.Message(ev)
	if err != nil {
		return nil, err
	}
	if !msg.Text.Loaded() {
		return nil, fmt.Errorf("event %s lacks the content of message %s", ev.ID, msg.ID)
	}
	cmds := m.state.Claims.Hear(m.authority, msg)
	if m.authority.IsOwner(msg.From) && (msg.Type == engine.MsgRequest || m.state.Scope == "") {
		m.state.Scope = msg.ID
	}
	m.state.Inbox = append(m.state.Inbox, incoming{
		Event: ev.ID, ID: msg.ID, Type: msg.Type, From: msg.From, Scope: m.state.Scope, Text: msg.Text, Body: strings.ToValidUTF8(msg.Text.S, "\uFFFD"),
	})
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
	if fresh.Members == nil {
		fresh.Members = map[string]*session.Session{}
	}
	for _, id := range slices.Sorted(maps.Keys(fresh.Members)) {
		i := slices.IndexFunc(m.spec.Agents, func(p engine.Participant) bool { return p.ID == id })
		if i < 0 || fresh.Members[id] == nil {
			return fmt.Errorf("%s: restore: member %q does not belong to this room", version, id)
		}
		if err := fresh.Members[id].Attach(m.system(i)); err != nil {
			return fmt.Errorf("%s: restore: %w", version, err)
		}
	}
	m.state = fresh
	return nil
}

// Version implements engine.Machine.
func (m *machine) Version() string { return version }
