package corpus

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// ParsePointer splits a JSON Pointer (RFC 6901) into its decoded tokens. ""
// is the whole document.
func ParsePointer(p string) ([]string, error) {
	if p == "" {
		return nil, nil
	}
	if p[0] != '/' {
		return nil, fmt.Errorf("pointer %q does not start with /", p)
	}
	parts := strings.Split(p[1:], "/")
	for i, t := range parts {
		d, err := unescapeToken(t)
		if err != nil {
			return nil, fmt.Errorf("pointer %q: %w", p, err)
		}
		parts[i] = d
	}
	return parts, nil
}

// EscapeToken writes a token as it stands in a pointer (~ as ~0, / as ~1).
func EscapeToken(t string) string {
	return strings.ReplaceAll(strings.ReplaceAll(t, "~", "~0"), "/", "~1")
}

func unescapeToken(t string) (string, error) {
	for i := 0; i < len(t); i++ {
		if t[i] == '~' && (i+1 == len(t) || t[i+1] != '0' && t[i+1] != '1') {
			return "", fmt.Errorf("bad escape in %q", t)
		}
	}
	return strings.ReplaceAll(strings.ReplaceAll(t, "~1", "/"), "~0", "~"), nil
}

// Resolve returns the value at tokens below v.
func Resolve(v any, tokens []string) (any, bool) {
	for _, t := range tokens {
		if m, ok := v.(map[string]any); ok {
			if v, ok = m[t]; !ok {
				return nil, false
			}
			continue
		}
		a, ok := v.([]any)
		if !ok {
			return nil, false
		}
		i, ok := ArrayIndex(t, len(a))
		if !ok {
			return nil, false
		}
		v = a[i]
	}
	return v, true
}

// ArrayIndex reads an array index token: decimal, no leading zero, below n.
func ArrayIndex(t string, n int) (int, bool) {
	i, err := strconv.Atoi(t)
	if err != nil || i < 0 || i >= n || strconv.Itoa(i) != t {
		return 0, false
	}
	return i, true
}

// Placeholders lists the argument names that stand as {name} in a template,
// in order, with repeats. A brace that opens no name is an error.
func Placeholders(s string) ([]string, error) {
	var names []string
	for {
		i := strings.IndexAny(s, "{}")
		if i < 0 {
			return names, nil
		}
		j := strings.IndexByte(s[i:], '}')
		if s[i] == '}' || j < 2 {
			return nil, fmt.Errorf("bad placeholder in %q", s)
		}
		names = append(names, s[i+1:i+j])
		s = s[i+j+1:]
	}
}

// Expand replaces every {name} of a template by text(name). Templates are
// checked when a case is loaded; a brace without a partner stays as it is.
func Expand(s string, text func(name string) string) string {
	var out strings.Builder
	for {
		i := strings.IndexByte(s, '{')
		if i < 0 {
			break
		}
		j := strings.IndexByte(s[i:], '}')
		if j < 0 {
			break
		}
		out.WriteString(s[:i])
		out.WriteString(text(s[i+1 : i+j]))
		s = s[i+j+1:]
	}
	out.WriteString(s)
	return out.String()
}

// PlainText writes a JSON value as text: a string stands as it is, anything
// else as JSON.
func PlainText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
