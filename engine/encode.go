package engine

import (
	"encoding"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// This file writes Go values as canonical JSON in one pass: the fields of each
// type are sorted once, and nothing is marshalled first and sorted after. What
// it does not know (rare tags, text marshalers, cycles) and what is no JSON is
// left to encoding/json, which decides the form and words the error; a property
// test compares the two on all kinds of values.

// Appender is implemented by types whose MarshalJSON is on a hot path:
// AppendCanonical appends to dst exactly the canonical form of what MarshalJSON
// returns.
type Appender interface {
	AppendCanonical(dst []byte) ([]byte, error)
}

// errSlow sends a value to encoding/json.
var errSlow = errors.New("left to encoding/json")

// encodeFunc appends one value of one type. Depth is the number of pointers,
// lists and maps around it.
type encodeFunc func(dst []byte, v reflect.Value, depth int) ([]byte, error)

// maxDepth is where nesting may be a cycle.
const maxDepth = 500

var encoders sync.Map // reflect.Type → encodeFunc

var (
	appenderType      = reflect.TypeFor[Appender]()
	marshalerType     = reflect.TypeFor[json.Marshaler]()
	textMarshalerType = reflect.TypeFor[encoding.TextMarshaler]()
	rawType           = reflect.TypeFor[json.RawMessage]()
	numberType        = reflect.TypeFor[json.Number]()
)

// encoderOf returns the encoder of a type, made once.
func encoderOf(t reflect.Type) encodeFunc {
	if known, ok := encoders.Load(t); ok {
		if f, ok := known.(encodeFunc); ok {
			return f
		}
	}
	// A type that contains itself finds this while its encoder is being made.
	var made encodeFunc
	var ready sync.WaitGroup
	ready.Add(1)
	wait := encodeFunc(func(dst []byte, v reflect.Value, depth int) ([]byte, error) {
		ready.Wait()
		return made(dst, v, depth)
	})
	if known, loaded := encoders.LoadOrStore(t, wait); loaded {
		if f, ok := known.(encodeFunc); ok {
			return f
		}
	}
	made = newEncoder(t, true)
	ready.Done()
	encoders.Store(t, made)
	return made
}

// newEncoder makes the encoder of a type in the order in which encoding/json
// looks: a method of the type, one of its pointer where there is a place to
// point to, then the kind.
func newEncoder(t reflect.Type, addressable bool) encodeFunc {
	switch {
	case t == rawType:
		return encodeRaw
	case t == numberType:
		return encodeSlow
	case t.Kind() != reflect.Pointer && addressable && reflect.PointerTo(t).Implements(marshalerType) && !t.Implements(marshalerType):
		through, otherwise := encodeMarshaler(reflect.PointerTo(t)), newEncoder(t, false)
		return func(dst []byte, v reflect.Value, depth int) ([]byte, error) {
			if v.CanAddr() {
				return through(dst, v.Addr(), depth)
			}
			return otherwise(dst, v, depth)
		}
	case t.Implements(marshalerType):
		return encodeMarshaler(t)
	case t.Implements(textMarshalerType), t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(textMarshalerType):
		return encodeSlow
	}
	switch t.Kind() { //nolint:exhaustive // the rest by default
	case reflect.Bool:
		return func(dst []byte, v reflect.Value, _ int) ([]byte, error) {
			return strconv.AppendBool(dst, v.Bool()), nil
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return func(dst []byte, v reflect.Value, _ int) ([]byte, error) {
			return strconv.AppendInt(dst, v.Int(), 10), nil
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return encodeUint
	case reflect.Float64:
		return encodeFloat
	case reflect.String:
		return func(dst []byte, v reflect.Value, _ int) ([]byte, error) { return appendText(dst, v.String()), nil }
	case reflect.Interface:
		return encodeInterface
	case reflect.Pointer:
		return encodePointer(t)
	case reflect.Slice:
		return encodeSlice(t)
	case reflect.Array:
		return encodeList(encoderOf(t.Elem()))
	case reflect.Map:
		return encodeMap(t)
	case reflect.Struct:
		return encodeStruct(t)
	default: // float32, of which the shortest text is another one; what is no JSON
		return encodeSlow
	}
}

func encodeSlow([]byte, reflect.Value, int) ([]byte, error) { return nil, errSlow }

func encodeRaw(dst []byte, v reflect.Value, _ int) ([]byte, error) {
	if v.IsNil() {
		return append(dst, "null"...), nil
	}
	return appendDocument(dst, v.Bytes())
}

// appendDocument appends the canonical form of a JSON document.
func appendDocument(dst, src []byte) ([]byte, error) {
	if !json.Valid(src) {
		return nil, errSlow
	}
	return appendCanonicalized(dst, src)
}

func encodeMarshaler(t reflect.Type) encodeFunc {
	nilable := t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface
	appends := t.Implements(appenderType)
	return func(dst []byte, v reflect.Value, _ int) ([]byte, error) {
		if nilable && v.IsNil() {
			return append(dst, "null"...), nil
		}
		if !v.CanInterface() {
			return nil, errSlow
		}
		if appends {
			if v.CanAddr() && !nilable {
				v = v.Addr() // no copy
			}
			if a, ok := v.Interface().(Appender); ok {
				return a.AppendCanonical(dst)
			}
		}
		m, ok := v.Interface().(json.Marshaler)
		if !ok {
			return nil, errSlow
		}
		b, err := m.MarshalJSON()
		if err != nil {
			return nil, errSlow // which asks again and words the error
		}
		return appendDocument(dst, b)
	}
}

func encodeUint(dst []byte, v reflect.Value, _ int) ([]byte, error) {
	if u := v.Uint(); u > math.MaxInt64 {
		return appendES6(dst, float64(u)), nil
	}
	return strconv.AppendUint(dst, v.Uint(), 10), nil
}

func encodeFloat(dst []byte, v reflect.Value, _ int) ([]byte, error) {
	f := v.Float()
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, errSlow
	}
	return appendES6(dst, f), nil
}

func encodeInterface(dst []byte, v reflect.Value, depth int) ([]byte, error) {
	if v.IsNil() {
		return append(dst, "null"...), nil
	}
	e := v.Elem()
	return encoderOf(e.Type())(dst, e, depth)
}

func encodePointer(t reflect.Type) encodeFunc {
	elem := encoderOf(t.Elem())
	return func(dst []byte, v reflect.Value, depth int) ([]byte, error) {
		if v.IsNil() {
			return append(dst, "null"...), nil
		}
		if depth > maxDepth {
			return nil, errSlow
		}
		return elem(dst, v.Elem(), depth+1)
	}
}

func encodeSlice(t reflect.Type) encodeFunc {
	if e := t.Elem(); e.Kind() == reflect.Uint8 {
		if p := reflect.PointerTo(e); p.Implements(marshalerType) || p.Implements(textMarshalerType) {
			return encodeSlow
		}
		return func(dst []byte, v reflect.Value, _ int) ([]byte, error) {
			if v.IsNil() {
				return append(dst, "null"...), nil
			}
			dst = append(dst, '"')
			return append(base64.StdEncoding.AppendEncode(dst, v.Bytes()), '"'), nil
		}
	}
	list := encodeList(encoderOf(t.Elem()))
	return func(dst []byte, v reflect.Value, depth int) ([]byte, error) {
		if v.IsNil() {
			return append(dst, "null"...), nil
		}
		return list(dst, v, depth)
	}
}

func encodeList(elem encodeFunc) encodeFunc {
	return func(dst []byte, v reflect.Value, depth int) (_ []byte, err error) {
		if depth > maxDepth {
			return nil, errSlow
		}
		dst = append(dst, '[')
		for i := range v.Len() {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = elem(dst, v.Index(i), depth+1); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	}
}

// entry is a member of a map.
type entry struct {
	key string
	val reflect.Value
}

func encodeMap(t reflect.Type) encodeFunc {
	if t.Key().Kind() != reflect.String {
		return encodeSlow
	}
	elem := encoderOf(t.Elem())
	return func(dst []byte, v reflect.Value, depth int) (_ []byte, err error) {
		if v.IsNil() {
			return append(dst, "null"...), nil
		}
		if depth > maxDepth {
			return nil, errSlow
		}
		entries := make([]entry, 0, v.Len())
		for it := v.MapRange(); it.Next(); {
			key := it.Key().String()
			if !utf8.ValidString(key) {
				return nil, errSlow // it may become the equal of another
			}
			entries = append(entries, entry{key, it.Value()})
		}
		slices.SortFunc(entries, func(a, b entry) int { return compareUTF16(a.key, b.key) })
		dst = append(dst, '{')
		for i := range entries {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(appendText(dst, entries[i].key), ':')
			if dst, err = elem(dst, entries[i].val, depth+1); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	}
}

// field is one member of a struct.
type field struct {
	name   string
	prefix []byte // the name in quotes and the colon
	index  []int
	encode encodeFunc
	omit   func(reflect.Value) bool // nil: never
}

func encodeStruct(t reflect.Type) encodeFunc {
	fields, ok := fieldsOf(t)
	if !ok {
		return encodeSlow
	}
	slices.SortFunc(fields, func(a, b field) int { return compareUTF16(a.name, b.name) })
	return func(dst []byte, v reflect.Value, depth int) (_ []byte, err error) {
		dst = append(dst, '{')
		first := true
		for i := range fields {
			f := &fields[i]
			fv := v.Field(f.index[0])
			for _, n := range f.index[1:] {
				fv = fv.Field(n)
			}
			if f.omit != nil && f.omit(fv) {
				continue
			}
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = append(dst, f.prefix...)
			if dst, err = f.encode(dst, fv, depth); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	}
}

// fieldsOf lists the members of a struct, those of structs embedded by value
// included. It reports false where encoding/json has rules beyond a name and
// omitempty: option string or omitzero, odd names, embedded pointers,
// unexported or marked embedded structs, and names that stand twice at one
// depth.
func fieldsOf(t reflect.Type) ([]field, bool) {
	type found struct {
		field
		depth int
	}
	byName := map[string]found{}
	var walk func(t reflect.Type, index []int) bool
	walk = func(t reflect.Type, index []int) bool {
		for i := range t.NumField() {
			sf := t.Field(i)
			tag, has := sf.Tag.Lookup("json")
			if tag == "-" {
				continue
			}
			at := append(slices.Clone(index), i)
			if sf.Anonymous {
				if !sf.IsExported() || sf.Type.Kind() != reflect.Struct || has {
					return false
				}
				if !walk(sf.Type, at) {
					return false
				}
				continue
			}
			if !sf.IsExported() {
				continue
			}
			name, options, _ := strings.Cut(tag, ",")
			if name == "" {
				name = sf.Name
			}
			if !plainName(name) || options != "" && options != "omitempty" {
				return false
			}
			if have, twice := byName[name]; twice {
				if have.depth == len(at) {
					return false
				}
				if have.depth < len(at) {
					continue
				}
			}
			f := field{name: name, prefix: append(appendText(nil, name), ':'), index: at, encode: encoderOf(sf.Type)}
			if options == "omitempty" {
				f.omit = emptyOf(sf.Type)
			}
			byName[name] = found{f, len(at)}
		}
		return true
	}
	if !walk(t, nil) {
		return nil, false
	}
	fields := make([]field, 0, len(byName))
	for _, f := range byName { // sorted by the caller
		fields = append(fields, f.field)
	}
	return fields, true
}

// plainName reports whether encoding/json takes a name as it stands.
func plainName(name string) bool {
	for _, r := range name {
		if r != '_' && r != '-' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return false
		}
	}
	return name != ""
}

// emptyOf is what omitempty leaves out; nil where it leaves out nothing.
func emptyOf(t reflect.Type) func(reflect.Value) bool {
	switch t.Kind() { //nolint:exhaustive // the rest by default
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return func(v reflect.Value) bool { return v.Len() == 0 }
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8, reflect.Uint16,
		reflect.Uint32, reflect.Uint64, reflect.Uintptr, reflect.Float32, reflect.Float64, reflect.Interface, reflect.Pointer:
		return reflect.Value.IsZero
	default:
		return nil
	}
}

// appendText appends a Go string as a JSON string; bytes that are not UTF-8
// become U+FFFD, one each.
func appendText(dst []byte, s string) []byte {
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		b := s[i]
		if b >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(append(dst, s[from:i]...), "\uFFFD"...)
				from = i + 1
			}
			i += n
			continue
		}
		if b >= 0x20 && b != '"' && b != '\\' {
			i++
			continue
		}
		dst = append(dst, s[from:i]...)
		dst = appendEscape(dst, b)
		i++
		from = i
	}
	return append(append(dst, s[from:]...), '"')
}

// appendEscape writes a byte that cannot stand for itself in a string.
func appendEscape(dst []byte, b byte) []byte {
	const hex = "0123456789abcdef"
	switch b {
	case '"', '\\':
		return append(dst, '\\', b)
	case '\b':
		return append(dst, '\\', 'b')
	case '\t':
		return append(dst, '\\', 't')
	case '\n':
		return append(dst, '\\', 'n')
	case '\f':
		return append(dst, '\\', 'f')
	case '\r':
		return append(dst, '\\', 'r')
	default:
		return append(dst, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
	}
}
