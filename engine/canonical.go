package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

// Canonical returns the canonical JSON (see CanonicalJSON) of what
// encoding/json makes of v.
func Canonical(v any) ([]byte, error) {
	kept, ok := documents.Get().(*[]byte)
	if !ok {
		kept = new([]byte)
	}
	b, err := AppendCanonical((*kept)[:0], v)
	if err != nil {
		return nil, err
	}
	out := bytes.Clone(b)
	if cap(b) <= keptBytes {
		*kept = b
		documents.Put(kept)
	}
	return out, nil
}

// AppendCanonical is Canonical that appends to dst.
func AppendCanonical(dst []byte, v any) ([]byte, error) {
	if v == nil {
		return append(dst, "null"...), nil
	}
	rv := reflect.ValueOf(v)
	out, err := encoderOf(rv.Type())(dst, rv, 0)
	if errors.Is(err, errSlow) {
		return appendMarshalled(dst, v)
	}
	return out, err
}

// appendMarshalled goes through encoding/json.
func appendMarshalled(dst []byte, v any) ([]byte, error) {
	buf, ok := encodings.Get().(*bytes.Buffer)
	if !ok {
		buf = new(bytes.Buffer)
	}
	defer func() {
		if buf.Cap() <= keptBytes {
			encodings.Put(buf)
		}
	}()
	buf.Reset()
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("canonical JSON: %w", err)
	}
	return appendCanonicalized(dst, buf.Bytes()) // valid: the encoder checks also what MarshalJSON gives
}

// Buffers for the next document: documents holds *[]byte, encodings
// *bytes.Buffer, canonicalizers *canonicalizer. Larger ones than keptBytes are
// let go.
var documents, encodings, canonicalizers sync.Pool

const keptBytes = 1 << 20

// CanonicalJSON rewrites one JSON document in the form of RFC 8785: no white
// space, object keys sorted by UTF-16 code units, shortest string escapes, and
// numbers in ECMAScript form (25.0, 25 and 2.5e1 are one number). One
// deliberate difference: an integer that fits int64 is written exactly, also
// beyond 2^53, so that no two different amounts become one.
//
// Errors: invalid JSON, a repeated key in one object, a number outside the
// range of float64, data after the document.
func CanonicalJSON(src []byte) ([]byte, error) {
	if !json.Valid(src) {
		var v any
		if err := json.Unmarshal(src, &v); err != nil {
			return nil, fmt.Errorf("canonical JSON: %w", err)
		}
		return nil, errors.New("canonical JSON: invalid document")
	}
	return appendCanonicalized(make([]byte, 0, len(src)), src)
}

// appendCanonicalized appends a document that is valid JSON, rewritten.
func appendCanonicalized(dst, src []byte) ([]byte, error) {
	c, ok := canonicalizers.Get().(*canonicalizer)
	if !ok {
		c = new(canonicalizer)
	}
	c.src, c.pos, c.members = src, 0, c.members[:0]
	defer func() {
		c.src = nil
		if cap(c.scratch) <= keptBytes {
			canonicalizers.Put(c)
		}
	}()
	out, err := c.value(dst)
	if err != nil {
		return nil, fmt.Errorf("canonical JSON: %w", err)
	}
	return out, nil
}

// canonicalizer walks a document already known to be valid JSON.
type canonicalizer struct {
	src     []byte
	pos     int
	members []member // of the open objects, outermost first
	scratch []byte
}

func (c *canonicalizer) space() {
	for c.pos < len(c.src) {
		switch c.src[c.pos] {
		case ' ', '\t', '\n', '\r':
			c.pos++
		default:
			return
		}
	}
}

func (c *canonicalizer) value(dst []byte) ([]byte, error) {
	c.space()
	switch c.src[c.pos] {
	case '{':
		return c.object(dst)
	case '[':
		return c.array(dst)
	case '"':
		return appendString(dst, c.stringToken())
	case 't':
		c.pos += 4
		return append(dst, "true"...), nil
	case 'f':
		c.pos += 5
		return append(dst, "false"...), nil
	case 'n':
		c.pos += 4
		return append(dst, "null"...), nil
	default:
		return c.number(dst)
	}
}

type member struct {
	key      []byte // decoded
	from, to int    // the member's bytes in the output
}

func (c *canonicalizer) object(dst []byte) ([]byte, error) {
	c.pos++
	start := len(dst) + 1
	dst = append(dst, '{')
	base := len(c.members)
	sorted := true
	for {
		c.space()
		switch c.src[c.pos] {
		case '}':
			c.pos++
			members := c.members[base:]
			if !sorted {
				dst = c.reorder(dst, start, members)
			}
			for i := 1; i < len(members); i++ {
				if bytes.Equal(members[i].key, members[i-1].key) {
					return nil, fmt.Errorf("key %q twice in one object", members[i].key)
				}
			}
			c.members = c.members[:base]
			return append(dst, '}'), nil
		case ',':
			c.pos++
			continue
		}
		if len(c.members) > base {
			dst = append(dst, ',')
		}
		from := len(dst)
		raw := c.stringToken()
		key, err := unquote(raw)
		if err != nil {
			return nil, err
		}
		if dst, err = appendString(dst, raw); err != nil {
			return nil, err
		}
		dst = append(dst, ':')
		c.space()
		c.pos++ // colon
		if dst, err = c.value(dst); err != nil {
			return nil, err
		}
		if n := len(c.members); n > base && compareUTF16(c.members[n-1].key, key) > 0 {
			sorted = false
		}
		c.members = append(c.members, member{key, from, len(dst)})
	}
}

// reorder sorts the members that stand in dst[start:] and leaves members sorted.
func (c *canonicalizer) reorder(dst []byte, start int, members []member) []byte {
	slices.SortStableFunc(members, func(a, b member) int { return compareUTF16(a.key, b.key) })
	scratch := slices.Grow(c.scratch[:0], len(dst)-start)
	for i, m := range members {
		if i > 0 {
			scratch = append(scratch, ',')
		}
		scratch = append(scratch, dst[m.from:m.to]...)
	}
	c.scratch = scratch
	return append(dst[:start], scratch...)
}

func (c *canonicalizer) array(dst []byte) ([]byte, error) {
	c.pos++
	dst = append(dst, '[')
	first := true
	for {
		c.space()
		switch c.src[c.pos] {
		case ']':
			c.pos++
			return append(dst, ']'), nil
		case ',':
			c.pos++
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		var err error
		if dst, err = c.value(dst); err != nil {
			return nil, err
		}
	}
}

// stringToken returns the raw token, quotes included, and moves past it.
func (c *canonicalizer) stringToken() []byte {
	start := c.pos
	c.pos++
	for c.src[c.pos] != '"' {
		if c.src[c.pos] == '\\' {
			c.pos++
		}
		c.pos++
	}
	c.pos++
	return c.src[start:c.pos]
}

// unquote decodes a string token; the result may alias it.
func unquote(raw []byte) ([]byte, error) {
	body := raw[1 : len(raw)-1]
	if bytes.IndexByte(body, '\\') < 0 && utf8.Valid(body) {
		return body, nil
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		return nil, fmt.Errorf("string: %w", err)
	}
	return []byte(s), nil
}

// shortEscapes reports whether every escape in the body of a string token is
// one that the canonical form has too.
func shortEscapes(body []byte) bool {
	for {
		i := bytes.IndexByte(body, '\\')
		if i < 0 {
			return true
		}
		switch body[i+1] {
		case '"', '\\', 'b', 'f', 'n', 'r', 't':
			body = body[i+2:]
		default:
			return false
		}
	}
}

func appendString(dst, raw []byte) ([]byte, error) {
	body := raw[1 : len(raw)-1]
	if shortEscapes(body) && utf8.Valid(body) {
		return append(dst, raw...), nil
	}
	s, err := unquote(raw)
	if err != nil {
		return nil, err
	}
	return appendText(dst, string(s)), nil
}

func (c *canonicalizer) number(dst []byte) ([]byte, error) {
	start := c.pos
	for c.pos < len(c.src) && isNumberByte(c.src[c.pos]) {
		c.pos++
	}
	tok := string(c.src[start:c.pos])
	if n, err := strconv.ParseInt(tok, 10, 64); err == nil {
		return strconv.AppendInt(dst, n, 10), nil
	}
	f, err := strconv.ParseFloat(tok, 64)
	if err != nil {
		return nil, fmt.Errorf("number %s is out of range", tok)
	}
	return appendES6(dst, f), nil
}

func isNumberByte(b byte) bool {
	return b >= '0' && b <= '9' || b == '-' || b == '+' || b == '.' || b == 'e' || b == 'E'
}

// appendES6 writes f as ECMAScript's Number::toString does.
func appendES6(dst []byte, f float64) []byte {
	if f == 0 {
		return append(dst, '0')
	}
	if a := math.Abs(f); a >= 1e-6 && a < 1e21 {
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	// Go writes at least two exponent digits, ECMAScript the fewest.
	if n := len(dst); dst[n-2] == '0' && (dst[n-3] == '-' || dst[n-3] == '+') {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

// compareUTF16 orders names as RFC 8785 does, by UTF-16 code units.
func compareUTF16[T string | []byte](a, b T) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		if a[i] >= utf8.RuneSelf || b[i] >= utf8.RuneSelf {
			return slices.Compare(utf16.Encode([]rune(string(a))), utf16.Encode([]rune(string(b))))
		}
		if a[i] != b[i] {
			return int(a[i]) - int(b[i])
		}
	}
	return len(a) - len(b)
}
