package routing

import (
	"slices"
	"strings"

	"github.com/agentrooms/qualify/engine"
)

// Entry names one participant: its id, its display name and further aliases.
type Entry struct {
	ID      string
	Name    string
	Aliases []string
}

// Entries turns the agents of a room into entries.
func Entries(agents []engine.Participant) []Entry {
	out := make([]Entry, 0, len(agents))
	for _, p := range agents {
		out = append(out, Entry{ID: p.ID, Aliases: p.Aliases})
	}
	return out
}

// Table finds participants by alias. It is immutable.
type Table struct {
	byAlias map[string]string // folded alias → id
	ids     []string          // in the order given
}

// NewTable builds the alias table of C6: id, display name and aliases of each
// participant, trimmed and case-folded; empty ones are skipped.
//
// Errors: CONFLICT when two participants share an alias; VALIDATION_ERROR when
// a participant has no id, or no alias that an @reference can capture whole
// (D10: a name with a space cannot be written after an @).
func NewTable(entries []Entry) (*Table, error) {
	t := &Table{byAlias: map[string]string{}}
	for _, e := range entries {
		if strings.TrimSpace(e.ID) == "" {
			return nil, engine.Errorf(engine.CodeValidation, "a participant has no id")
		}
		if slices.Contains(t.ids, e.ID) {
			return nil, engine.Errorf(engine.CodeConflict, "participant id %q is given twice", e.ID)
		}
		t.ids = append(t.ids, e.ID)
		reachable := false
		for _, name := range append([]string{e.ID, e.Name}, e.Aliases...) {
			name = strings.TrimSpace(name)
			if name == "" {
				continue
			}
			key := fold(name)
			if other, ok := t.byAlias[key]; ok && other != e.ID {
				return nil, engine.Errorf(engine.CodeConflict, "alias %q belongs to %s and to %s", name, other, e.ID)
			}
			t.byAlias[key] = e.ID
			reachable = reachable || IsReference(name)
		}
		if !reachable {
			return nil, engine.Errorf(engine.CodeValidation, "participant %q has no alias that can follow an @", e.ID)
		}
	}
	return t, nil
}

// Find returns the participant an alias names.
func (t *Table) Find(alias string) (id string, ok bool) {
	id, ok = t.byAlias[fold(strings.TrimSpace(alias))]
	return id, ok
}

// Explicit lists the candidates that a text references, distinct and in message
// order (C7 step 1). Unknown references and participants that are no
// candidates are skipped.
func (t *Table) Explicit(text string, candidates []string) []string {
	var out []string
	for _, ref := range References(text) {
		id, ok := t.Find(ref)
		if ok && slices.Contains(candidates, id) && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}
