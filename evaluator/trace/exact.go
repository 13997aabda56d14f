package trace

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

// shape is what exactKeys knows of a JSON value: the fields of an object, or
// the shape of the elements of an array. Nil is a value that is left alone.
type shape struct {
	fields map[string]*shape
	elem   *shape
}

// shapeOf is the shape that encoding/json decodes into t.
func shapeOf(t reflect.Type) *shape {
	if t == reflect.TypeFor[json.RawMessage]() {
		return nil
	}
	if t.Kind() == reflect.Pointer {
		return shapeOf(t.Elem())
	}
	if t.Kind() == reflect.Slice {
		return &shape{elem: shapeOf(t.Elem())}
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	s := &shape{fields: map[string]*shape{}}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		s.fields[name] = shapeOf(t.Field(i).Type)
	}
	return s
}

// exactKeys refuses an object in which a known key stands twice, or a key
// differs from a known one by case only: encoding/json would let the last of
// them win, whatever it means. raw is valid JSON.
func exactKeys(raw []byte, s *shape) error {
	w := keyWalker{b: raw}
	w.value(s)
	return w.err
}

// keyWalker walks valid JSON.
type keyWalker struct {
	b   []byte
	i   int
	err error
}

func (w *keyWalker) space() byte {
	for w.i < len(w.b) && strings.IndexByte(" \t\r\n", w.b[w.i]) >= 0 {
		w.i++
	}
	if w.i == len(w.b) {
		return 0
	}
	return w.b[w.i]
}

func (w *keyWalker) value(s *shape) {
	switch c := w.space(); {
	case c == '{' && s != nil && s.fields != nil:
		w.object(s)
	case c == '[' && s != nil && s.elem != nil:
		w.array(s.elem)
	default:
		w.skip()
	}
}

func (w *keyWalker) object(s *shape) {
	seen := map[string]bool{}
	for w.i++; w.err == nil && w.i < len(w.b) && w.space() == '"'; {
		key := w.key()
		known := s.known(key)
		switch {
		case known != "" && known != key:
			w.err = fmt.Errorf("the key %q differs from %q by case only", clip(json.RawMessage(key)), known)
		case seen[key]:
			w.err = fmt.Errorf("the key %q stands twice in one object", key)
		case known != "":
			seen[key] = true
		}
		w.space()
		w.i++ // the colon
		w.value(s.fields[key])
		if w.space() == ',' {
			w.i++
		}
	}
	w.i++
}

// known is the field that encoding/json would put key into, "" for none.
func (s *shape) known(key string) string {
	if _, ok := s.fields[key]; ok {
		return key
	}
	for name := range s.fields {
		if len(key) < 2*len(name)+2 && strings.EqualFold(name, key) {
			return name
		}
	}
	return ""
}

func (w *keyWalker) array(elem *shape) {
	for w.i++; w.err == nil && w.i < len(w.b) && w.space() != ']'; {
		w.value(elem)
		if w.space() == ',' {
			w.i++
		}
	}
	w.i++
}

// key reads a string; what does not decode stands as it is.
func (w *keyWalker) key() string {
	start := w.i
	w.str()
	raw := w.b[start:min(w.i, len(w.b))]
	var key string
	if json.Unmarshal(raw, &key) != nil {
		return string(raw)
	}
	return key
}

// str skips a string.
func (w *keyWalker) str() {
	for w.i++; w.i < len(w.b) && w.b[w.i] != '"'; w.i++ {
		if w.b[w.i] == '\\' {
			w.i++
		}
	}
	w.i++
}

// skip passes over a value.
func (w *keyWalker) skip() {
	depth := 0
	for w.i < len(w.b) {
		switch w.b[w.i] {
		case '"':
			w.str()
			if depth == 0 {
				return
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 {
				return // the end of the object or array around a number or word
			}
			if depth == 0 {
				w.i++
				return
			}
		case ',':
			if depth == 0 {
				return
			}
		}
		w.i++
	}
}
