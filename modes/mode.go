// Package modes declares the mode port and the two control modes. A mode
// turns a room specification into a pure machine; legacy, selective and
// planner live in sub-packages.
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
