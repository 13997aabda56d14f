package gold

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/corpus"
)

// Tally compares confirmed effects with what the case expects. Indices are
// positions in the list of effects.
type Tally struct {
	Expected   []Made // one per entry of expected_effects
	Duplicates []int  // beyond the multiplicity expected of their identity
	Collateral []int  // allowed by no entry and no criterion
}

// Made tells how often an expected effect took place.
type Made struct {
	Expected
	Made int // at most Times
}

// Share is the part of the expected effects that took place: sum of made over
// sum of times. ok is false when none is expected.
func (t Tally) Share() (share float64, ok bool) {
	made, want := 0, 0
	for _, m := range t.Expected {
		made += m.Made
		want += m.Times
	}
	if want == 0 {
		return 0, false
	}
	return float64(made) / float64(want), true
}

type entry struct {
	Expected
	left    int
	keys    int
	pos     int
	allowed bool // of allowed_effects
}

// tally matches effects with entries as the package comment says.
func tally(g *Gold, effects []Effect) (Tally, error) {
	entries := make([]*entry, 0, len(g.Expected)+len(g.Allowed))
	for i, e := range append(slices.Clone(g.Expected), g.Allowed...) {
		var args map[string]json.RawMessage
		if err := json.Unmarshal(e.Args, &args); err != nil {
			return Tally{}, fmt.Errorf("expected effect %s: arguments: %w", e.Tool, err)
		}
		entries = append(entries, &entry{Expected: e, left: e.Times, keys: len(args), pos: i, allowed: i >= len(g.Expected)})
	}
	bySpecific := slices.Clone(entries)
	slices.SortStableFunc(bySpecific, func(a, b *entry) int { return cmp.Compare(b.keys, a.keys) })

	var t Tally
	for _, i := range inRounds(effects) {
		repeat := slices.ContainsFunc(effects[:i], func(e Effect) bool { return e.took() && e.Identity == effects[i].Identity })
		found, err := take(bySpecific, effects[i], repeat)
		if err != nil {
			return Tally{}, err
		}
		if found {
			continue
		}
		if repeat {
			t.Duplicates = append(t.Duplicates, i)
			continue
		}
		allowed, err := criterionAllows(g, effects[i])
		if err != nil {
			return Tally{}, err
		}
		if !allowed {
			t.Collateral = append(t.Collateral, i)
		}
	}
	slices.Sort(t.Duplicates)
	slices.Sort(t.Collateral)
	for i, e := range g.Expected {
		t.Expected = append(t.Expected, Made{e, e.Times - entries[i].left})
	}
	return t, nil
}

// inRounds orders the effects that took place: the first of each identity,
// then the second ones, and so on, so that a repeat never takes the place of
// another expected effect.
func inRounds(effects []Effect) []int {
	type ranked struct{ i, round int }
	seen := map[string]int{}
	var list []ranked
	for i, e := range effects {
		if e.took() {
			list = append(list, ranked{i, seen[e.Identity]})
			seen[e.Identity]++
		}
	}
	slices.SortStableFunc(list, func(a, b ranked) int { return cmp.Compare(a.round, b.round) })
	out := make([]int, len(list))
	for k, r := range list {
		out[k] = r.i
	}
	return out
}

// take finds the entry of an effect. A repeat is looked for among the expected
// ones only: what may happen need not happen twice.
func take(entries []*entry, e Effect, repeat bool) (bool, error) {
	for _, n := range entries {
		if n.left == 0 || n.Tool != e.Tool || repeat && n.allowed {
			continue
		}
		ok, err := includes(e.Args, n.Args)
		if err != nil {
			return false, err
		}
		if ok {
			n.left--
			return true, nil
		}
	}
	return false, nil
}

func criterionAllows(g *Gold, e Effect) (bool, error) {
	var failed error
	allowed := false
	for i := range g.Criteria {
		g.Criteria[i].Check.Walk(func(k *Check, negated bool) {
			if k.Effect == nil || negated || k.Effect.Tool != e.Tool {
				return
			}
			ok, err := includes(e.Args, k.Effect.Args)
			if err != nil {
				failed = err
			}
			allowed = allowed || ok
		})
	}
	return allowed, failed
}

// includes reports whether args have every field of part, equal by value.
func includes(args json.RawMessage, part corpus.Value) (bool, error) {
	want := map[string]any{}
	if part.Given() {
		tree, err := part.Tree()
		if err != nil {
			return false, err
		}
		m, ok := tree.(map[string]any)
		if !ok {
			return false, fmt.Errorf("expected arguments %s are no object", part)
		}
		want = m
	}
	tree, err := corpus.DecodeTree(args)
	if err != nil {
		return false, fmt.Errorf("arguments of an effect: %w", err)
	}
	got, ok := tree.(map[string]any)
	if !ok {
		return false, fmt.Errorf("arguments of an effect are no object: %s", short(string(args)))
	}
	for k, w := range want {
		if v, ok := got[k]; !ok || !corpus.EqualTrees(v, w) {
			return false, nil
		}
	}
	return true, nil
}
