package modes

import (
	"fmt"
	"maps"
	"slices"

	"github.com/agentrooms/qualify/engine"
)

// Participant roles.
const (
	RoleSpecialist = "specialist"
	RoleReviewer   = "reviewer"
)

// Check reports the first thing that makes a room unusable: no owner, no
// agent, an id given twice, an unknown role, a tool nobody declared, or an
// option that is not among allowed. The error is VALIDATION_ERROR and names
// the offender.
func Check(spec engine.RoomSpec, allowed ...string) error {
	if spec.Owner == "" {
		return engine.Errorf(engine.CodeValidation, "the room has no owner")
	}
	if len(spec.Agents) == 0 {
		return engine.Errorf(engine.CodeValidation, "the room has no agents")
	}
	declared := map[string]bool{}
	for _, t := range spec.Tools {
		declared[t.Name] = true
	}
	seen := map[string]bool{spec.Owner: true}
	for _, p := range spec.Agents {
		if p.ID == "" || seen[p.ID] {
			return engine.Errorf(engine.CodeValidation, "participant id %q is empty or given twice", p.ID)
		}
		seen[p.ID] = true
		if p.Role != RoleSpecialist && p.Role != RoleReviewer {
			return engine.Errorf(engine.CodeValidation, "participant %s: unknown role %q", p.ID, p.Role)
		}
		for _, tool := range p.Tools {
			if !declared[tool] {
				return engine.Errorf(engine.CodeValidation, "participant %s: unknown tool %q", p.ID, tool)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Options)) {
		if !slices.Contains(allowed, name) {
			return engine.Errorf(engine.CodeValidation, "unknown option %q", name)
		}
	}
	return nil
}

// AllTools is the union of the agents' tools, sorted: what legacy's agent may
// do, and what the matched-arm check compares (DESIGN §5).
func AllTools(agents []engine.Participant) []string {
	var out []string
	for _, p := range agents {
		out = append(out, p.Tools...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// MergePrompts joins prompt files of several packages. Names carry their
// package as a prefix, so none collide.
func MergePrompts(sets ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, set := range sets {
		maps.Copy(out, set)
	}
	return out
}

// Message checks that an event carries an owner message.
func Message(ev engine.Event) (engine.OwnerMessage, error) {
	if ev.Message == nil {
		return engine.OwnerMessage{}, fmt.Errorf("event %s: no message in an %s event", ev.ID, ev.Kind)
	}
	return *ev.Message, nil
}
