package corpus

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"
)

// Money is an amount in USD micros, written in YAML as a quoted decimal
// string with at most six places ("0.08").
type Money int64

// UnmarshalYAML refuses anything but a quoted decimal string: an unquoted
// number would have passed through a float.
func (m *Money) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
		return typeErrorf(n.Line, "money must be a quoted decimal string, such as \"0.08\"")
	}
	v, err := ParseMoney(n.Value)
	if err != nil {
		return typeErrorf(n.Line, "%v", err)
	}
	*m = v
	return nil
}

// ParseMoney reads a non-negative decimal with at most six places, without
// sign, exponent or white space, into USD micros.
func ParseMoney(s string) (Money, error) {
	whole, frac, point := strings.Cut(s, ".")
	if whole == "" || point && frac == "" || !digits(whole) || !digits(frac) {
		return 0, fmt.Errorf("money %q is no decimal number", s)
	}
	if len(frac) > 6 {
		return 0, fmt.Errorf("money %q has more than six places", s)
	}
	if len(whole) > 12 {
		return 0, fmt.Errorf("money %q is too large", s)
	}
	var v int64
	for _, b := range []byte(whole + frac + strings.Repeat("0", 6-len(frac))) {
		v = v*10 + int64(b-'0')
	}
	return Money(v), nil
}

func digits(s string) bool {
	for _, b := range []byte(s) {
		if b < '0' || b > '9' {
			return false
		}
	}
	return true
}
