package campaigns

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/agentrooms/qualify/engine"
)

// Matched is the proof that the arms of a comparison differ in nothing but what
// is under test (Q3).
type Matched struct {
	Arms []string `json:"arms"` // compared, in plan order
	// Shared holds the digest of each thing that all of them are given; of what
	// differs by case, the digest over all cases. What is under test is left
	// out.
	Shared map[string]string `json:"shared"`
}

// graderNone is the grader of a campaign that asks none.
const graderNone = "none"

// fact is one thing that matched arms share or that is under test. Value is
// shown to people, digest decides.
type fact struct {
	what, key     string // key: the case, when there is one value per case
	value, digest string
}

// facts gathers what an arm is given, from the plan and from the rooms and
// worlds that its trials will be built with.
func (p *Plan) facts(a Arm) ([]fact, error) {
	var out []fact
	add := func(what, key string, v any) error {
		b, err := engine.Canonical(v)
		if err != nil {
			return fmt.Errorf("arm %s: %s: %w", a.Name, what, err)
		}
		out = append(out, fact{what, key, string(b), "sha256:" + engine.Digest(b)})
		return nil
	}
	for _, g := range []struct {
		what string
		v    any
	}{
		{"provider", p.Provider},
		{"model", p.Model},
		{"params", p.Params},
		{"simulated", p.Simulated},
		{"prices", p.PricesDigest},
		{"corpus", p.CorpusDigest},
		{"cases", p.Cases},
		{"trials", p.Trials},
		{"grader", graderNone},
		{"mode", a.Mode},
		{"idempotency", onOff(a.Idempotency)},
		{"options", optionText(a.Options)},
	} {
		if err := add(g.what, "", g.v); err != nil {
			return nil, err
		}
	}
	for _, c := range p.cases {
		seat := Seat{Case: c, Arm: a}
		w, err := p.world(seat)
		if err != nil {
			return nil, fmt.Errorf("arm %s, case %s: %w", a.Name, c.ID, err)
		}
		documents, err := w.Documents()
		if err != nil {
			return nil, fmt.Errorf("arm %s, case %s: %w", a.Name, c.ID, err)
		}
		seeds := make([]string, p.Trials)
		for i := range seeds {
			seeds[i] = strconv.FormatUint(p.worldSeed(Seat{Case: c, Arm: a, Index: i}), 16)
		}
		for _, g := range []struct {
			what string
			v    any
		}{
			{"tools", shownTools(w.Tools())},
			{"permissions", permissions(c.RoomSpec(a.Options))},
			{"limits", p.Header(seat, "").Limits},
			{"world_seeds", seeds},
			{"worlds", documents},
			{"faults", c.Faults},
			{"owner", c.Owner},
		} {
			if err := add(g.what, c.ID, g.v); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// shownTools are tools with readable schemas.
func shownTools(ts []engine.ToolSpec) []map[string]any {
	out := make([]map[string]any, 0, len(ts))
	for i := range ts {
		t := &ts[i]
		out = append(out, map[string]any{
			"name": t.Name, "description": t.Description, "action": t.Action, "schema": json.RawMessage(t.Schema),
			"target": t.Target, "volatile": t.Volatile,
		})
	}
	return out
}

// permissions is the union of the tools that a room's participants hold,
// sorted: what the agent of a single session holds alone.
func permissions(spec engine.RoomSpec) []string {
	var out []string
	for i := range spec.Agents {
		out = append(out, spec.Agents[i].Tools...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// prove compares every matched arm with the first. A difference that under_test
// does not name is an error that names both values.
func (p *Plan) prove() (Matched, error) {
	arms := p.matched()
	first, err := p.facts(arms[0])
	if err != nil {
		return Matched{}, err
	}
	m := Matched{Arms: []string{arms[0].Name}}
	for _, a := range arms[1:] {
		fs, err := p.facts(a)
		if err != nil {
			return Matched{}, err
		}
		if err := compareFacts(arms[0].Name, a.Name, first, fs, p.UnderTest); err != nil {
			return Matched{}, err
		}
		m.Arms = append(m.Arms, a.Name)
	}
	m.Shared, err = shared(first, p.UnderTest)
	return m, err
}

// shared is the digest of each thing that the arms share.
func shared(fs []fact, underTest []string) (map[string]string, error) {
	perCase := map[string][][2]string{}
	out := map[string]string{}
	for _, f := range fs {
		switch {
		case slices.Contains(underTest, f.what):
		case f.key == "":
			out[f.what] = f.digest
		default:
			perCase[f.what] = append(perCase[f.what], [2]string{f.key, f.digest})
		}
	}
	for what, list := range perCase {
		b, err := engine.Canonical(list)
		if err != nil {
			return nil, fmt.Errorf("digest of %s: %w", what, err)
		}
		out[what] = "sha256:" + engine.Digest(b)
	}
	return out, nil
}

// shownValue bounds a value in an error line.
const shownValue = 120

func compareFacts(nameA, nameB string, a, b []fact, underTest []string) error {
	if len(a) != len(b) {
		return fmt.Errorf("arms %s and %s: %d and %d things to compare", nameA, nameB, len(a), len(b))
	}
	for i := range a {
		x, y := a[i], b[i]
		if x.what == y.what && x.key == y.key && x.digest == y.digest || slices.Contains(underTest, x.what) {
			continue
		}
		where := x.what
		if x.key != "" {
			where += " of case " + x.key
		}
		return fmt.Errorf("arms %s and %s differ in %s (%s and %s), which under_test does not name", nameA, nameB, where, x.show(y), y.show(x))
	}
	return nil
}

// show is the value beside the one it differs from: whole when it is short,
// else the part around the first difference, with the digest.
func (f fact) show(other fact) string {
	if len(f.value) <= shownValue {
		return f.value
	}
	at := 0
	for at < len(f.value) && at < len(other.value) && f.value[at] == other.value[at] {
		at++
	}
	from := max(0, at-shownValue/2)
	return "…" + f.value[from:min(len(f.value), from+shownValue)] + "… " + f.digest
}
