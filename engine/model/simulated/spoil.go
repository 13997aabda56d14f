package simulated

import (
	"bytes"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
)

// spoil alters one argument of a call so that the tool's schema still holds:
// another value of its enum, an integer one off, a boolean turned round, a text
// cut to its first half. Which one is drawn among those that can be altered;
// when none can, the arguments come back as they were.
func spoil(d dice, use toolUse, tools []model.Tool) string {
	i := slices.IndexFunc(tools, func(t model.Tool) bool { return t.Name == use.tool })
	if i < 0 {
		return use.args
	}
	var schema struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	var args map[string]json.RawMessage
	if json.Unmarshal(tools[i].Schema, &schema) != nil || json.Unmarshal([]byte(use.args), &args) != nil {
		return use.args
	}
	altered := map[string]json.RawMessage{}
	for name, value := range args {
		if v, ok := alter(value, schema.Properties[name]); ok {
			altered[name] = v
		}
	}
	if len(altered) == 0 {
		return use.args
	}
	names := slices.Sorted(maps.Keys(altered))
	name := names[d.below(uint64(len(names)), "wrong_argument:which")]
	args[name] = altered[name]
	out, err := engine.Canonical(args)
	if err != nil {
		return use.args
	}
	return string(out)
}

// constraints are the parts of a parameter's schema that spoil reads. A
// parameter with further rules on its values is left alone.
type constraints struct {
	Type      string            `json:"type"`
	Enum      []json.RawMessage `json:"enum"`
	Minimum   *json.Number      `json:"minimum"`
	Maximum   *json.Number      `json:"maximum"`
	MinLength int               `json:"minLength"`

	Const      json.RawMessage `json:"const"`
	Pattern    json.RawMessage `json:"pattern"`
	Format     json.RawMessage `json:"format"`
	MultipleOf json.RawMessage `json:"multipleOf"`
	ExclMin    json.RawMessage `json:"exclusiveMinimum"`
	ExclMax    json.RawMessage `json:"exclusiveMaximum"`
	AllOf      json.RawMessage `json:"allOf"`
	AnyOf      json.RawMessage `json:"anyOf"`
	OneOf      json.RawMessage `json:"oneOf"`
	Not        json.RawMessage `json:"not"`
	Ref        json.RawMessage `json:"$ref"`
}

func (c *constraints) open() bool {
	for _, rule := range []json.RawMessage{c.Const, c.Pattern, c.Format, c.MultipleOf, c.ExclMin, c.ExclMax, c.AllOf, c.AnyOf, c.OneOf, c.Not, c.Ref} {
		if rule != nil {
			return false
		}
	}
	return true
}

func alter(value, schema json.RawMessage) (json.RawMessage, bool) {
	var c constraints
	if schema == nil || json.Unmarshal(schema, &c) != nil || !c.open() {
		return nil, false
	}
	if len(c.Enum) > 0 {
		return otherOf(c.Enum, value)
	}
	switch v := string(bytes.TrimSpace(value)); {
	case v == "true":
		return json.RawMessage("false"), true
	case v == "false":
		return json.RawMessage("true"), true
	case strings.HasPrefix(v, `"`):
		return shorten(value, c.MinLength)
	default:
		return shift(v, c)
	}
}

// otherOf is the value of the enum that follows the present one.
func otherOf(enum []json.RawMessage, value json.RawMessage) (json.RawMessage, bool) {
	have, err := engine.CanonicalJSON(value)
	if err != nil {
		return nil, false
	}
	at := -1
	for i, e := range enum {
		if canon, err := engine.CanonicalJSON(e); err == nil && bytes.Equal(canon, have) {
			at = i
		}
	}
	if at < 0 || len(enum) < 2 {
		return nil, false
	}
	return enum[(at+1)%len(enum)], true
}

// shorten keeps the first half of a text of at least two characters.
func shorten(value json.RawMessage, minLength int) (json.RawMessage, bool) {
	var s string
	if json.Unmarshal(value, &s) != nil {
		return nil, false
	}
	runes := []rune(s)
	n := max(len(runes)/2, minLength)
	if len(runes) < 2 || n >= len(runes) {
		return nil, false
	}
	out, err := engine.Canonical(string(runes[:n]))
	return out, err == nil
}

// shift moves an integer by one, upwards if its maximum allows.
func shift(v string, c constraints) (json.RawMessage, bool) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return nil, false
	}
	moved := n
	if n < math.MaxInt64 && within(n+1, c.Minimum, c.Maximum) {
		moved = n + 1
	} else if n > math.MinInt64 && within(n-1, c.Minimum, c.Maximum) {
		moved = n - 1
	}
	return json.RawMessage(strconv.FormatInt(moved, 10)), moved != n
}

// within reports whether m respects bounds given as integers; other bounds are
// never respected.
func within(m int64, low, high *json.Number) bool {
	if low != nil {
		if l, err := low.Int64(); err != nil || m < l {
			return false
		}
	}
	if high != nil {
		if h, err := high.Int64(); err != nil || m > h {
			return false
		}
	}
	return true
}
