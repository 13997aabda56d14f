package strictyaml

import (
	"reflect"
	"strings"

	"gopkg.in/yaml.v3"
)

// strict adds the faults that the YAML package lets pass: aliases and merge
// keys (a small file may stand for a huge one), explicit tags (they are not
// applied), fractions where a whole number belongs (they would be cut), and
// list entries without a value (they would be dropped). t is the type that n
// is decoded into; nil or a type with its own decoder leaves values alone.
func (s *Source) strict(n *yaml.Node, t reflect.Type) {
	for t != nil && t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t != nil && reflect.PointerTo(t).Implements(reflect.TypeFor[yaml.Unmarshaler]()) {
		t = nil
	}
	if n.Style&yaml.TaggedStyle != 0 {
		s.say(n.Line, Tag, "the tag "+clipped(n.Tag)+" is not read here; write the plain value", "")
		return
	}
	switch n.Kind {
	case yaml.AliasNode:
		s.Addf(n.Line, "aliases are not read here; write the value out")
	case yaml.DocumentNode: // never inside a document
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			if key.ShortTag() == "!!merge" {
				s.Addf(key.Line, "merge keys are not read here; write the fields out")
				continue
			}
			s.strict(key, nil)
			s.strict(n.Content[i+1], childType(t, key.Value))
		}
	case yaml.SequenceNode:
		elem := elemType(t)
		for _, c := range n.Content {
			if elem != nil && c.ShortTag() == "!!null" {
				s.say(c.Line, NoValue, "a list entry without a value", "")
				continue
			}
			s.strict(c, elem)
		}
	case yaml.ScalarNode:
		if t != nil && isWhole(t.Kind()) && n.ShortTag() == "!!float" {
			s.Addf(n.Line, "wrong type: %s is no whole number", clipped(n.Value))
		}
	}
}

// childType is the type of a mapping's value under key, nil when unknown.
func childType(t reflect.Type, key string) reflect.Type {
	switch {
	case t == nil:
		return nil
	case t.Kind() == reflect.Map:
		return t.Elem()
	case t.Kind() != reflect.Struct:
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case strings.Contains(options, "inline"):
			if inner := childType(f.Type, key); inner != nil {
				return inner
			}
		case f.IsExported() && (name == key || name == "" && strings.ToLower(f.Name) == key):
			return f.Type
		}
	}
	return nil
}

// elemType is the type of a list's entries, nil when unknown or free.
func elemType(t reflect.Type) reflect.Type {
	if t == nil || t.Kind() != reflect.Slice && t.Kind() != reflect.Array {
		return nil
	}
	if e := t.Elem(); e.Kind() != reflect.Interface && !reflect.PointerTo(e).Implements(reflect.TypeFor[yaml.Unmarshaler]()) {
		return e
	}
	return nil
}

func isWhole(k reflect.Kind) bool { return k >= reflect.Int && k <= reflect.Uintptr }

// clipped shortens a text of a file for a fault line.
func clipped(s string) string {
	if r := []rune(s); len(r) > 40 {
		return string(r[:40]) + "…"
	}
	return s
}
