package reports

import (
	"fmt"
	"strconv"

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

// digits is a number for people: four that tell something. The document has it
// in full.
func digits(n *evaluator.Num) string {
	f, err := strconv.ParseFloat(strconv.FormatFloat(n.Round(), 'g', 4, 64), 64)
	if err != nil {
		return n.String()
	}
	return evaluator.Num(f).String()
}

// probability is a p value for people. None is shown as zero.
func probability(n *evaluator.Num) string {
	if n.Round() < 0.0001 {
		return "below 0.0001"
	}
	return digits(n)
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}
