// Package session is one agent's tool-calling conversation as a pure value,
// shared by all modes, so that model and tool handling match by construction.
//
// A mode queues messages with Say, starts a turn with Step when Ready, hands
// every event of an operation that the session Owns to Handle, and issues the
// commands it gets back. At most one operation is in flight: a model call, or
// one tool call of the last reply. A turn ends with exactly one Turn.
//
//	Say* ─▶ Step ─▶ model ─▶ tool ─▶ … ─▶ tool ─▶ model ─▶ Turn
//	                  └─ failed or lost: a new call, MaxRetries in a row
//	                  └─ unreadable: feedback, MaxRepairs a turn
//
// The session never repeats a tool call by itself: an unknown outcome is shown
// to the agent, and the agent alone decides (DESIGN §2).
//
// Stability: internal to the modes; may change.
package session

import (
	"encoding/json"

	"github.com/agentrooms/qualify/engine"
)

// Config fixes one session.
type Config struct {
	Agent   string        `json:"agent"`   // participant id
	Role    string        `json:"role"`    // cost role
	Kind    engine.OpKind `json:"kind"`    // agent or specialist
	Cause   string        `json:"cause"`   // stable id: conversation, task or message
	Attempt int           `json:"attempt"` //
	Task    string        `json:"task"`    // scope of idempotency keys
	System  string        `json:"system"`  // system prompt
	Tools   []string      `json:"tools"`
	// Evidence keeps the tool calls of the turn as texts for a reviewer.
	Evidence bool `json:"evidence,omitempty"`
	// Once ends a turn, with UNCERTAIN, at the first model call of unknown
	// outcome instead of asking again: for calls that have effects of their own.
	Once bool `json:"once,omitempty"`
	// Detached leaves the system prompt out of the session's JSON, which then
	// holds its digest only: a mode that can build the prompt again keeps it out
	// of every snapshot, and calls Attach after a restore.
	Detached bool `json:"detached,omitempty"`
}

// Turn is how a session's turn ended.
type Turn struct {
	Status   string // engine.Status…
	Text     string
	Artifact *engine.ArtifactText
	Code     string                // why a turn is blocked without the model's word: engine.Code… or ""
	Calls    []engine.CallEvidence // with Config.Evidence
}

// Session is one conversation. It is a value of plain data: MarshalJSON and
// UnmarshalJSON carry all of it, sealed texts by reference. It is not safe for
// concurrent use.
type Session struct {
	s state
	// encoded holds the JSON of the first n messages, comma-separated. The
	// conversation only grows, so a snapshot encodes each message once.
	encoded []byte
	n       int
}

type state struct {
	Config   Config                `json:"config"`
	Prompt   string                `json:"prompt,omitempty"`   // with Detached: digest of the system prompt
	Scope    string                `json:"scope"`              // present scope of idempotency keys
	Unseen   []unseen              `json:"unseen,omitempty"`   // said, not yet part of a request
	Pending  []pending             `json:"pending,omitempty"`  // unanswered calls of the last reply, in order
	Flight   *engine.OpKey         `json:"flight,omitempty"`   // the one operation in flight
	Models   int                   `json:"models"`             // model calls made, ever: the next ordinal
	Tools    int                   `json:"tools"`              // tool calls made, ever: the next ordinal
	Asked    int                   `json:"asked"`              // tool calls the model wrote, ever
	Calls    int                   `json:"calls"`              // model calls of this turn
	Repairs  int                   `json:"repairs"`            // of this turn
	Failures int                   `json:"failures"`           // model calls failed or lost in a row
	Evidence []engine.CallEvidence `json:"evidence,omitempty"` // of this turn
	Messages []engine.Message      `json:"-"`
}

type unseen struct {
	From string      `json:"from"`
	Text engine.Text `json:"text"`
	Task string      `json:"task,omitempty"` // "" keeps the scope
}

// pending is a tool call that the model wrote. It is checked when the reply is
// folded: later only a reference to its arguments may be at hand.
type pending struct {
	ID      string          `json:"id"`
	Tool    string          `json:"tool"`
	Args    engine.Text     `json:"args"`
	Problem string          `json:"problem,omitempty"` // why it is not dispatched
	Canon   json.RawMessage `json:"canon,omitempty"`   // canonical arguments, for evidence
}

// New starts an empty conversation.
func New(cfg Config) *Session {
	cfg.System = valid(cfg.System)
	s := &Session{s: state{Config: cfg, Scope: cfg.Task}}
	if cfg.Detached {
		s.s.Prompt = engine.Digest([]byte(cfg.System))
	}
	return s
}

// Attach gives a restored Detached session its system prompt. It must be the
// one the session was made with: VERSION_MISMATCH otherwise.
func (s *Session) Attach(system string) error {
	system = valid(system)
	if got := engine.Digest([]byte(system)); !s.s.Config.Detached || got != s.s.Prompt {
		return engine.Errorf(engine.CodeVersionMismatch, "session %s was made with another system prompt", s.s.Config.Cause)
	}
	s.s.Config.System = system
	return nil
}

// Config returns what the session was made with.
func (s *Session) Config() Config { return s.s.Config }

// Task is the present scope of idempotency keys.
func (s *Session) Task() string { return s.s.Scope }

// Say queues a user message. It becomes part of the next model call, after the
// results of tool calls that are still to come.
func (s *Session) Say(from string, text engine.Text) { s.SayFor(from, text, "") }

// SayFor is Say for a message that opens other work: from the first model call
// that shows it, task is the scope of idempotency keys ("" keeps the present
// one).
func (s *Session) SayFor(from string, text engine.Text, task string) {
	s.s.Unseen = append(s.s.Unseen, unseen{From: from, Text: text, Task: task})
}

// Idle reports that no operation is in flight and no turn is under way.
func (s *Session) Idle() bool { return s.s.Flight == nil }

// Unseen reports that messages wait which no request has shown yet.
func (s *Session) Unseen() bool { return len(s.s.Unseen) > 0 }

// Ready reports that Step would start a turn.
func (s *Session) Ready() bool { return s.Idle() && s.Unseen() }

// Owns reports whether an operation key belongs to this session. Two sessions
// of one room must differ in cause or attempt.
func (s *Session) Owns(key engine.OpKey) bool {
	c := &s.s.Config
	return key.Cause == c.Cause && key.Attempt == c.Attempt && (key.Kind == c.Kind || key.Kind == engine.OpTool)
}

// Step starts a turn when Ready; otherwise it returns nothing.
func (s *Session) Step() []engine.Command {
	if !s.Ready() {
		return nil
	}
	return s.call()
}

// Len is the number of messages of the conversation, which every model call
// sends whole.
func (s *Session) Len() int { return len(s.s.Messages) }
