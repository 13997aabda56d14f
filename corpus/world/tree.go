package world

import (
	"fmt"
	"maps"
	"slices"

	"github.com/agentrooms/qualify/corpus"
)

// Trees are JSON values that are never changed in place: put and remove copy
// the path they touch and share the rest, so that the state before the last
// write stays at hand.

// appendToken stands for the place after the last element of an array.
const appendToken = "-"

// put returns a tree with value at tokens. Objects on the way must exist; an
// array takes an existing index or "-".
func put(v any, tokens []string, value any) (any, error) {
	if len(tokens) == 0 {
		return value, nil
	}
	t, rest := tokens[0], tokens[1:]
	switch node := v.(type) {
	case map[string]any:
		child, ok := node[t]
		if !ok && len(rest) > 0 {
			return nil, fmt.Errorf("%q does not exist", t)
		}
		next, err := put(child, rest, value)
		if err != nil {
			return nil, err
		}
		out := maps.Clone(node)
		out[t] = next
		return out, nil
	case []any:
		if t == appendToken && len(rest) == 0 {
			return append(slices.Clone(node), value), nil
		}
		i, ok := corpus.ArrayIndex(t, len(node))
		if !ok {
			return nil, fmt.Errorf("there is no element %q", t)
		}
		next, err := put(node[i], rest, value)
		if err != nil {
			return nil, err
		}
		out := slices.Clone(node)
		out[i] = next
		return out, nil
	}
	return nil, fmt.Errorf("there is nothing below %q", t)
}

// remove returns a tree without the value at tokens, which must exist.
func remove(v any, tokens []string) (any, error) {
	if len(tokens) == 0 {
		return nil, fmt.Errorf("a whole document cannot be removed")
	}
	t, rest := tokens[0], tokens[1:]
	child, ok := corpus.Resolve(v, []string{t})
	if !ok {
		return nil, fmt.Errorf("%q does not exist", t)
	}
	if len(rest) > 0 {
		next, err := remove(child, rest)
		if err != nil {
			return nil, err
		}
		return put(v, []string{t}, next)
	}
	if m, ok := v.(map[string]any); ok {
		out := maps.Clone(m)
		delete(out, t)
		return out, nil
	}
	a, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("there is nothing below %q", t)
	}
	i, ok := corpus.ArrayIndex(t, len(a))
	if !ok {
		return nil, fmt.Errorf("there is no element %q", t)
	}
	return slices.Delete(slices.Clone(a), i, i+1), nil
}
