package budget

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// MicrosPerUSD is the number of micros in one US dollar.
const MicrosPerUSD = 1_000_000

// places is the number of decimal places that micros can hold.
const places = 6

// Reasons why ParseUSD refuses a string.
var (
	ErrNegative  = errors.New("the amount is negative")
	ErrSyntax    = errors.New(`not a decimal amount such as "0.08"`)
	ErrPrecision = errors.New("more than six decimal places")
	ErrOverflow  = errors.New("amount out of range")
)

// ParseUSD reads a decimal string of US dollars with at most six places and
// returns micros: digits, then optionally a point and one to six digits.
// Signs, exponents, spaces, separators and a bare point are refused. The error
// is one line that quotes s and wraps ErrNegative, ErrSyntax, ErrPrecision or
// ErrOverflow.
func ParseUSD(s string) (int64, error) {
	n, err := parseUSD(s)
	if err != nil {
		return 0, fmt.Errorf("USD amount %q: %w", s, err)
	}
	return n, nil
}

func parseUSD(s string) (int64, error) {
	if rest, ok := strings.CutPrefix(s, "-"); ok {
		if _, err := parseUSD(rest); err == nil || errors.Is(err, ErrOverflow) || errors.Is(err, ErrPrecision) {
			return 0, ErrNegative
		}
		return 0, ErrSyntax
	}
	whole, frac, point := strings.Cut(s, ".")
	if !digits(whole) || point && !digits(frac) {
		return 0, ErrSyntax
	}
	if len(frac) > places {
		return 0, ErrPrecision
	}
	frac += strings.Repeat("0", places-len(frac))
	w, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || w > math.MaxInt64/MicrosPerUSD {
		return 0, ErrOverflow
	}
	f, err := strconv.ParseInt(frac, 10, 64)
	if err != nil {
		return 0, ErrSyntax
	}
	return add(w*MicrosPerUSD, f)
}

func digits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// FormatUSD writes micros as dollars, exactly: at least two decimal places, at
// most six, no trailing zeros beyond the second. ParseUSD reads it back when
// it is not negative.
func FormatUSD(micros int64) string {
	sign, u := "", uint64(micros)
	if micros < 0 {
		sign, u = "-", -u
	}
	frac := fmt.Sprintf("%06d", u%MicrosPerUSD)
	for len(frac) > 2 && frac[len(frac)-1] == '0' {
		frac = frac[:len(frac)-1]
	}
	return sign + strconv.FormatUint(u/MicrosPerUSD, 10) + "." + frac
}

// add is a+b for amounts that are not negative.
func add(a, b int64) (int64, error) {
	if a > math.MaxInt64-b {
		return 0, ErrOverflow
	}
	return a + b, nil
}
