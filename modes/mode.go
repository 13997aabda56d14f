// Package modes declares the mode port, the two control modes, and the rules
// that every mode keeps alike: what a usable room is (check.go), when a claim
// stands (claims.go), why a mode stops asking for work (ending.go). A mode
// turns a room specification into a pure machine; legacy, selective and
// planner live in sub-packages.
//
// Stability: may change.
package modes

import "github.com/agentrooms/qualify/engine"

// Mode builds machines for rooms.
type Mode interface {
	// Name as written in campaign files.
	Name() string
	// Prompts are the embedded prompt files by name; their digest is part of
	// the campaign plan.
	Prompts() map[string]string
	// New builds the machine. Errors name the offending option or participant.
	New(spec engine.RoomSpec) (engine.Machine, error)
}
