// Package planner is the planner mode: engine/planner with its prompts and the
// harness's permissions. Every write tool of the room is allow-listed, so that
// all arms share one permission set (DESIGN §5); seed 000's read/draft rule
// stays the default of the embedded engine.
//
// Options: reviewers (how many must agree, default 1), coordinator (its
// participant id, default "coordinator"), task_identity (plan or objective),
// objectives (how many may be open at once, default 8).
//
// Stability: internal to the harness; may change.
package planner

import (
	_ "embed" // the prompt files
	"slices"
	"strings"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/planner"
	"github.com/agentrooms/qualify/engine/session"
	"github.com/agentrooms/qualify/modes"
)

// Name of the mode in campaign files.
const Name = "planner"

var (
	//go:embed prompts/coordinator.txt
	coordinatorPrompt string
	//go:embed prompts/reviewer.txt
	reviewerPrompt string
)

// Mode is the planner mode.
type Mode struct{}

var _ modes.Mode = Mode{}

// Name implements modes.Mode.
func (Mode) Name() string { return Name }

// Prompts implements modes.Mode.
func (Mode) Prompts() map[string]string {
	return modes.MergePrompts(session.Prompts(), map[string]string{
		"planner/coordinator.txt": coordinatorPrompt,
		"planner/reviewer.txt":    reviewerPrompt,
	})
}

// New implements modes.Mode. Errors are of code VALIDATION_ERROR, or CONFLICT
// for a shared alias.
func (Mode) New(spec engine.RoomSpec) (engine.Machine, error) {
	if err := modes.Check(spec, planner.OptionReviewers, planner.OptionCoordinator, planner.OptionIdentity, planner.OptionObjectives); err != nil {
		return nil, err
	}
	s, err := planner.Spec{
		RoomSpec: spec, AllowWrite: writeTools(spec.Tools),
		CoordinatorPrompt: strings.TrimSpace(coordinatorPrompt), ReviewerPrompt: strings.TrimSpace(reviewerPrompt),
	}.WithOptions()
	if err != nil {
		return nil, err
	}
	m, err := planner.New(s)
	if err != nil {
		return nil, err // not a nil *Machine in a non-nil interface
	}
	return m, nil
}

func writeTools(tools []engine.ToolSpec) []string {
	var out []string
	for _, t := range tools {
		if t.Action == engine.ActionWrite {
			out = append(out, t.Name)
		}
	}
	slices.Sort(out)
	return out
}
