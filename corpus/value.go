package corpus

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"gopkg.in/yaml.v3"

	"github.com/agentrooms/qualify/engine"
)

// Value is a JSON value written in YAML, in canonical form. Empty means that
// the field was not given.
type Value json.RawMessage

// MarshalJSON returns the value; a value not given is null.
func (v Value) MarshalJSON() ([]byte, error) {
	if len(v) == 0 {
		return []byte("null"), nil
	}
	return v, nil
}

// Given reports whether the field was there.
func (v Value) Given() bool { return len(v) > 0 }

// String is the canonical JSON.
func (v Value) String() string { return string(v) }

// Tree decodes the value with numbers as json.Number.
func (v Value) Tree() (any, error) { return DecodeTree(v) }

// UnmarshalYAML accepts what JSON can express: no aliases, no repeated or
// non-string keys, no binary; an unquoted date is a string.
func (v *Value) UnmarshalYAML(n *yaml.Node) error {
	var buf bytes.Buffer
	if err := writeJSON(&buf, n); err != nil {
		return err
	}
	c, err := engine.CanonicalJSON(buf.Bytes())
	if err != nil {
		return typeErrorf(n.Line, "%v", err)
	}
	*v = c
	return nil
}

func typeErrorf(line int, format string, args ...any) error {
	return &yaml.TypeError{Errors: []string{fmt.Sprintf("line %d: ", line) + fmt.Sprintf(format, args...)}}
}

func writeJSON(buf *bytes.Buffer, n *yaml.Node) error {
	if n.Anchor != "" {
		return typeErrorf(n.Line, "anchors are not allowed")
	}
	if n.Kind == yaml.MappingNode {
		seen := map[string]int{}
		buf.WriteByte('{')
		for i := 0; i+1 < len(n.Content); i += 2 {
			k := n.Content[i]
			if k.Kind != yaml.ScalarNode {
				return typeErrorf(k.Line, "a key must be a plain string")
			}
			if first, ok := seen[k.Value]; ok {
				return typeErrorf(k.Line, "key %q already defined at line %d", k.Value, first)
			}
			seen[k.Value] = k.Line
			if i > 0 {
				buf.WriteByte(',')
			}
			if err := writeString(buf, k.Value); err != nil {
				return err
			}
			buf.WriteByte(':')
			if err := writeJSON(buf, n.Content[i+1]); err != nil {
				return err
			}
		}
		buf.WriteByte('}')
		return nil
	}
	if n.Kind == yaml.SequenceNode {
		buf.WriteByte('[')
		for i, e := range n.Content {
			if i > 0 {
				buf.WriteByte(',')
			}
			if err := writeJSON(buf, e); err != nil {
				return err
			}
		}
		buf.WriteByte(']')
		return nil
	}
	if n.Kind == yaml.ScalarNode {
		return writeScalar(buf, n)
	}
	return typeErrorf(n.Line, "aliases are not allowed")
}

func writeScalar(buf *bytes.Buffer, n *yaml.Node) error {
	switch n.ShortTag() {
	case "!!null":
		buf.WriteString("null")
	case "!!bool":
		var b bool
		if err := n.Decode(&b); err != nil {
			return typeErrorf(n.Line, "%q is no boolean", n.Value)
		}
		buf.WriteString(strconv.FormatBool(b))
	case "!!int", "!!float":
		if !json.Valid([]byte(n.Value)) {
			return typeErrorf(n.Line, "%q is no JSON number", n.Value)
		}
		buf.WriteString(n.Value)
	case "!!str", "!!timestamp":
		return writeString(buf, n.Value)
	default:
		return typeErrorf(n.Line, "tag %s is not allowed", n.ShortTag())
	}
	return nil
}

func writeString(buf *bytes.Buffer, s string) error {
	b, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("string %q: %w", s, err)
	}
	buf.Write(b)
	return nil
}

// DecodeTree decodes one JSON document into maps, slices, strings, booleans,
// nil and json.Number, so that no number loses precision.
func DecodeTree(raw []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, fmt.Errorf("JSON: %w", err)
	}
	if dec.More() {
		return nil, fmt.Errorf("JSON: data after the document")
	}
	return v, nil
}

// EqualTrees compares two JSON trees by value: key order does not matter, and
// 25 equals 25.0.
func EqualTrees(a, b any) bool {
	x, err := engine.Canonical(a)
	if err != nil {
		return false
	}
	y, err := engine.Canonical(b)
	return err == nil && bytes.Equal(x, y)
}
