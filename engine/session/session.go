// Package session is one agent's tool-calling conversation as a pure value,
// shared by all modes, so that model and tool handling match by construction.
package session

import "github.com/agentrooms/qualify/engine"

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
}

// Turn is how a session's turn ended.
type Turn struct {
	Status   string // engine.Status…
	Text     string
	Artifact *engine.ArtifactText
	Code     string                // why a turn is blocked without the model's word: engine.Code… or ""
	Calls    []engine.CallEvidence // with Config.Evidence
}
