package reports

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/agentrooms/qualify/evaluator"
)

// notEvaluable stands where a figure has no input; its reason is listed below
// the table.
const notEvaluable = "not evaluable"

// places writes a statistic with at most d decimals, or notEvaluable.
func places(n *evaluator.Num, d int) string {
	if n == nil {
		return notEvaluable
	}
	return strconv.FormatFloat(n.Round(), 'f', d, 64)
}

// usd writes micros as dollars, exactly.
func usd(micros int64) string {
	sign, u := "", uint64(micros)
	if micros < 0 {
		sign, u = "-", -uint64(micros)
	}
	return fmt.Sprintf("%s$%d.%06d", sign, u/1_000_000, u%1_000_000)
}

// seconds writes microseconds as seconds with one decimal, rounded half up.
func seconds(us int64) string {
	sign, u := "", uint64(us)
	if us < 0 {
		sign, u = "-", -uint64(us)
	}
	tenths := (u + 50_000) / 100_000
	return fmt.Sprintf("%s%d.%d s", sign, tenths/10, tenths%10)
}

// counts writes a map of counts as "a 3, b 1", sorted by name; "none" when
// empty.
func counts(m map[string]int) string {
	if len(m) == 0 {
		return "none"
	}
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	parts := make([]string, 0, len(m))
	for _, k := range keys {
		parts = append(parts, Clean(k)+" "+strconv.Itoa(m[k]))
	}
	return strings.Join(parts, ", ")
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
