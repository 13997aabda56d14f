package corpus

import (
	"maps"
	"slices"

	"github.com/agentrooms/qualify/engine"
)

// ToolSpecs declares the case's tools, sorted by name.
func (c *Case) ToolSpecs() []engine.ToolSpec {
	out := make([]engine.ToolSpec, 0, len(c.Tools))
	for _, t := range c.Tools {
		out = append(out, engine.ToolSpec{
			Name:        t.Name,
			Description: t.Description,
			Action:      t.Action,
			Schema:      slices.Clone(t.Params),
			Target:      slices.Clone(t.Identity.Target),
			Volatile:    slices.Clone(t.Identity.Volatile),
		})
	}
	slices.SortFunc(out, func(a, b engine.ToolSpec) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return out
}

// RoomSpec is what a mode is given: no case id, no seed, no gold. options are
// the arm's; the result shares nothing with the case.
func (c *Case) RoomSpec(options map[string]string) engine.RoomSpec {
	spec := engine.RoomSpec{
		Goal:     c.Room.Goal,
		Owner:    c.Room.Owner.ID,
		Tools:    c.ToolSpecs(),
		Parallel: c.Room.Limits.Parallel,
		Options:  maps.Clone(options),
	}
	for _, a := range c.Room.Agents {
		spec.Agents = append(spec.Agents, engine.Participant{
			ID:          a.ID,
			Agent:       a.Agent,
			Role:        a.Role,
			Description: a.Description,
			Aliases:     slices.Clone(a.Aliases),
			Tools:       slices.Clone(a.Tools),
		})
	}
	for _, k := range c.Room.Criteria {
		spec.Criteria = append(spec.Criteria, engine.Criterion{ID: k.ID, Text: k.Text})
	}
	return spec
}
