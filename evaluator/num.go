package evaluator

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Num is a statistic. It marshals as a JSON number rounded to 9 decimals, and
// to 10 significant digits where that is fewer, without trailing zeros (DESIGN
// §7), so that equal results are equal bytes: the last bits of a float differ
// between machines that multiply and add in one step and those that do not
// (docs/decisions, digits of statistics).
type Num float64

const (
	numDecimals = 9
	numDigits   = 10
)

// Round is the number as it is printed.
func (n Num) Round() float64 {
	f, err := strconv.ParseFloat(n.String(), 64)
	if err != nil {
		return math.NaN()
	}
	return f
}

// String is the decimal text of the rounded number.
func (n Num) String() string {
	f, decimals := float64(n), numDecimals
	// In d.ddde±xx the exponent is that of the rounded number.
	scientific := strconv.FormatFloat(f, 'e', numDigits-1, 64)
	if _, exponent, ok := strings.Cut(scientific, "e+"); ok {
		e, err := strconv.Atoi(exponent)
		if err != nil {
			return scientific
		}
		if decimals = min(decimals, numDigits-1-e); decimals < 0 {
			decimals = 0
			if rounded, err := strconv.ParseFloat(scientific, 64); err == nil { // else it would pass the greatest float
				f = rounded
			}
		}
	}
	s := strconv.FormatFloat(f, 'f', decimals, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	if s == "-0" {
		return "0"
	}
	return s
}

// MarshalJSON writes String. A number that is not finite is an error: an
// undefined statistic must be left out, never written.
func (n Num) MarshalJSON() ([]byte, error) {
	if math.IsNaN(float64(n)) || math.IsInf(float64(n), 0) {
		return nil, fmt.Errorf("statistic %v is not finite", float64(n))
	}
	return []byte(n.String()), nil
}

func numPtr(f float64) *Num {
	n := Num(f)
	return &n
}

// ratio is part/whole, nil when the whole is zero.
func ratio(part, whole int) *Num {
	if whole == 0 {
		return nil
	}
	return numPtr(float64(part) / float64(whole))
}
