package host

import (
	_ "embed" // the prompt files
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/planner"
)

var (
	//go:embed prompts/coordinator.txt
	coordinatorPrompt string
	//go:embed prompts/reviewer.txt
	reviewerPrompt string
)

// Definition is what a room is: fixed when it is opened and kept in the store,
// so that any process rebuilds the same coordinator (R49).
type Definition struct {
	Goal        string               `json:"goal"`
	Owner       string               `json:"owner"`       // participant id of the owner
	Coordinator string               `json:"coordinator"` // participant id that the planner speaks under; default "coordinator"
	Agents      []engine.Participant `json:"agents"`
	Criteria    []engine.Criterion   `json:"criteria"` // 1 to 16
	Tools       []engine.ToolSpec    `json:"tools"`    // that plans may permit and executors use
	// AllowWrite names tools beyond read and draft that plans may use. None is
	// the rule (R11).
	AllowWrite []string `json:"allow_write"`
	Parallel   int      `json:"parallel"`  // most specialists at work at once, at least 1
	Reviewers  int      `json:"reviewers"` // who must agree; default 1
	// Identity is the form of task identities (R31): "plan" (default) or
	// "objective".
	Identity     string `json:"identity"`
	BudgetMicros int64  `json:"budget_micros"` // USD micros the room starts with
	// Prompts for reasoners and verifiers that are models. Empty takes the
	// built-in ones.
	CoordinatorPrompt string `json:"coordinator_prompt"`
	ReviewerPrompt    string `json:"reviewer_prompt"`
}

func (d Definition) withDefaults() Definition {
	if d.Coordinator == "" {
		d.Coordinator = "coordinator"
	}
	if d.CoordinatorPrompt == "" {
		d.CoordinatorPrompt = strings.TrimSpace(coordinatorPrompt)
	}
	if d.ReviewerPrompt == "" {
		d.ReviewerPrompt = strings.TrimSpace(reviewerPrompt)
	}
	return d
}

// machine makes the coordinator. Errors are of code VALIDATION_ERROR or
// CONFLICT and name what is wrong with the definition.
func (d Definition) machine() (engine.Machine, error) {
	m, err := planner.New(planner.Spec{
		RoomSpec: engine.RoomSpec{
			Goal: d.Goal, Owner: d.Owner, Agents: d.Agents, Criteria: d.Criteria, Tools: d.Tools, Parallel: d.Parallel,
		},
		Coordinator: d.Coordinator, Reviewers: d.Reviewers, Identity: planner.Identity(d.Identity), AllowWrite: d.AllowWrite,
		Once:              true, // an executor's call may have effects
		CoordinatorPrompt: d.CoordinatorPrompt, ReviewerPrompt: d.ReviewerPrompt,
	})
	if err != nil {
		return nil, err // not a nil *Machine in a non-nil interface
	}
	return m, nil
}

func (d Definition) validate() error {
	if d.BudgetMicros < 0 {
		return engine.Errorf(engine.CodeValidation, "budget of %d micros", d.BudgetMicros)
	}
	tools := map[string]bool{}
	for _, t := range d.Tools {
		if t.Name == "" || tools[t.Name] {
			return engine.Errorf(engine.CodeValidation, "tool name %q is empty or used twice", t.Name)
		}
		tools[t.Name] = true
	}
	_, err := d.machine()
	return err
}

// parseDefinition reads a definition from the store.
func parseDefinition(text string) (Definition, error) {
	var d Definition
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return d, fmt.Errorf("the room's definition in the store: %w", err)
	}
	return d, nil
}
