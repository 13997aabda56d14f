package archive

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"unicode/utf8"

	"github.com/agentrooms/qualify/engine"
)

// appendDoc appends v as one line of canonical JSON. It refuses strings that are
// not UTF-8, which JSON would change.
func appendDoc(dst []byte, v any) ([]byte, error) {
	if err := checkStrings(reflect.ValueOf(v)); err != nil {
		return nil, err
	}
	dst, err := engine.AppendCanonical(dst, v)
	if err != nil {
		return nil, err
	}
	return append(dst, '\n'), nil
}

// appendLines appends each value as a line.
func appendLines[T any](dst []byte, vs []T) (_ []byte, err error) {
	for i := range vs {
		if dst, err = appendDoc(dst, &vs[i]); err != nil {
			return nil, fmt.Errorf("line %d: %w", i+1, err)
		}
	}
	return dst, nil
}

func checkStrings(v reflect.Value) error {
	switch v.Kind() { //nolint:exhaustive // the rest holds no strings
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return fmt.Errorf("%q is not UTF-8", v.String())
		}
	case reflect.Pointer:
		if !v.IsNil() {
			return checkStrings(v.Elem())
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return nil // bytes, or a document that rawJSON has checked
		}
		for i := range v.Len() {
			if err := checkStrings(v.Index(i)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if err := checkStrings(v.Field(i)); err != nil {
				return err
			}
		}
	}
	return nil
}

// rawJSON is a stored document as a part of another one. Empty stays empty.
func rawJSON(what string, b []byte) (json.RawMessage, error) {
	if len(b) == 0 {
		return nil, nil
	}
	c, err := engine.CanonicalJSON(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	if !bytes.Equal(c, b) {
		return nil, fmt.Errorf("%s is no canonical JSON", what)
	}
	return b, nil
}

// decodeDoc reads a file of one document into v.
func decodeDoc(name string, data []byte, v any) error {
	body, ok := bytes.CutSuffix(data, []byte("\n"))
	if !ok {
		return damaged(name, "does not end with a line end: it is cut off")
	}
	if err := engine.DecodeCanonical(body, v); err != nil {
		return damaged(name, "%v", err)
	}
	return nil
}

// decodeLines reads a file of want lines.
func decodeLines[T any](name string, data []byte, want int) ([]T, error) {
	var out []T
	for n := 1; len(data) > 0; n++ {
		line, rest, ok := bytes.Cut(data, []byte("\n"))
		if !ok {
			return nil, damaged(name, "line %d does not end with a line end: it is cut off", n)
		}
		var v T
		if err := engine.DecodeCanonical(line, &v); err != nil {
			return nil, damaged(name, "line %d: %v", n, err)
		}
		out, data = append(out, v), rest
	}
	if len(out) != want {
		return nil, damaged(name, "has %d lines, %d were written", len(out), want)
	}
	return out, nil
}
