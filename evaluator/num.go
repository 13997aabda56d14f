package evaluator

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Num is a statistic. It marshals as a JSON number rounded to 9 decimals
// without trailing zeros (DESIGN §7), so that equal results are equal bytes.
type Num float64

// Round is the number as it is printed: rounded to 9 decimals.
func (n Num) Round() float64 {
	f, err := strconv.ParseFloat(n.String(), 64)
	if err != nil {
		return math.NaN()
	}
	return f
}

// String is the decimal text of the rounded number.
func (n Num) String() string {
	s := strconv.FormatFloat(float64(n), 'f', 9, 64)
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
