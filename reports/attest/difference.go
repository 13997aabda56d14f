package attest

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
)

// mostValue bounds a value in an error line, in bytes.
const mostValue = 120

// firstDifference names the first place, in key order, at which two JSON
// documents differ, such as "rules[2].verdict", with both values.
func firstDifference(a, b []byte) (path, was, is string) {
	x, errX := decodeAny(a)
	y, errY := decodeAny(b)
	if errX != nil || errY != nil {
		return "the whole", brief(a), brief(b)
	}
	return walkDifference("", x, y)
}

func decodeAny(data []byte) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	err = dec.Decode(&v)
	return v, err
}

func walkDifference(path string, a, b any) (where, was, is string) {
	switch x := a.(type) {
	case map[string]any:
		y, ok := b.(map[string]any)
		if !ok {
			break
		}
		all := maps.Clone(x)
		maps.Copy(all, y)
		for _, k := range slices.Sorted(maps.Keys(all)) {
			if !equalJSON(x[k], y[k]) {
				return walkDifference(join(path, k), x[k], y[k])
			}
		}
	case []any:
		y, ok := b.([]any)
		if !ok {
			break
		}
		for i := range min(len(x), len(y)) {
			if !equalJSON(x[i], y[i]) {
				return walkDifference(path+"["+strconv.Itoa(i)+"]", x[i], y[i])
			}
		}
		return path, strconv.Itoa(len(x)) + " entries", strconv.Itoa(len(y)) + " entries"
	}
	return path, briefJSON(a), briefJSON(b)
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func equalJSON(a, b any) bool { return briefless(a) == briefless(b) }

// briefless is a value as JSON with sorted keys.
func briefless(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(b)
}

func briefJSON(v any) string { return brief([]byte(briefless(v))) }

func brief(b []byte) string {
	if len(b) <= mostValue {
		return string(b)
	}
	return string(bytes.ToValidUTF8(b[:mostValue], nil)) + "…"
}
