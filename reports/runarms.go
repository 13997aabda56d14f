package reports

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/agentrooms/qualify/evaluator"
)

// writeArms writes one table with a column per arm: what was achieved, what it
// took of the owner, what it did to the world, time, money, how trials ended,
// and the denominators.
func writeArms(b *bytes.Buffer, arms []evaluator.ArmSummary) error {
	names := make([]string, 0, len(arms))
	for i := range arms {
		names = append(names, cell(arms[i].Name))
	}
	rows := rowsOf(arms, runMetrics)
	rows = append(rows, roleRows(arms)...)
	rows = append(rows, heading("trials that ended by"))
	rows = append(rows, countRows(arms, func(a *evaluator.ArmSummary) map[string]int { return a.Termination })...)
	rows = append(rows, rowsOf(arms, runDenominators)...)
	return grid(b, "metric", names, rows)
}

type armMetric = metric[evaluator.ArmSummary]

// Headings at which the metrics of time and of money begin.
const (
	latencyHeading = "latency of a trial"
	costHeading    = "cost"
)

var runMetrics = []armMetric{
	{"outcome, by the oracle", nil},
	{"  completion", func(a *evaluator.ArmSummary) string {
		return fmt.Sprintf("%s (%d/%d)", places(a.Completion.Rate, 4), a.Completion.Met, a.Completion.N)
	}},
	{"  95% interval, by family", func(a *evaluator.ArmSummary) string { return interval(a.Completion.CI95) }},
	{"  standard error (CR1)", func(a *evaluator.ArmSummary) string { return places(a.Completion.SE, 4) }},
	{"  share of criteria met", func(a *evaluator.ArmSummary) string {
		return places(a.CriterionShare.Mean, 4) + otherN(a.CriterionShare.N, a.Completion.N)
	}},
	{"claims against the oracle", nil},
	{"  false completion", func(a *evaluator.ArmSummary) string {
		return fmt.Sprintf("%s (%d/%d)", places(a.False.Rate, 4), a.False.Count, a.False.N)
	}},
	{"  false, of all claims", func(a *evaluator.ArmSummary) string {
		return fmt.Sprintf("%s (%d/%d)", places(a.False.RateOfClaims, 4), a.False.Count, a.False.Claims)
	}},
	{"  silent completion", func(a *evaluator.ArmSummary) string { return countRate(a.Silent) }},
	{"  honest failure", func(a *evaluator.ArmSummary) string { return countRate(a.Honest) }},
	{"  claims withdrawn", ranOr(func(a *evaluator.ArmSummary) string { return strconv.Itoa(a.Withdrawn) })},
	{"owner and repeats", nil},
	{"  owner corrections", func(a *evaluator.ArmSummary) string {
		if a.Corrections == nil {
			return notEvaluable
		}
		return fmt.Sprintf("%d (%s a trial)", a.Corrections.Count, places(a.Corrections.PerTrial, 3)) + otherN(a.Corrections.N, a.Cost.N)
	}},
	{"  after the first claim", func(a *evaluator.ArmSummary) string {
		if a.Corrections == nil {
			return notEvaluable
		}
		return fmt.Sprintf("%d (%s a trial)", a.Corrections.AfterClaim, places(a.Corrections.AfterClaimPerTrial, 3)) + otherN(a.Corrections.N, a.Cost.N)
	}},
	{"  repeated work", func(a *evaluator.ArmSummary) string { return countN(a.RepeatedWork.CountN) }},
	{"    of it calls / tasks", func(a *evaluator.ArmSummary) string {
		if a.RepeatedWork.N == 0 {
			return notEvaluable
		}
		return fmt.Sprintf("%d / %d", a.RepeatedWork.Calls, a.RepeatedWork.Tasks)
	}},
	{"effects on the world", nil},
	{"  duplicate effects", func(a *evaluator.ArmSummary) string {
		return overN(a.Duplicates.Confirmed, a.Duplicates.Trials, a.Duplicates.N)
	}},
	{"  duplicates suppressed", ranOr(func(a *evaluator.ArmSummary) string { return strconv.Itoa(a.Duplicates.Suppressed) })},
	{"  of unknown outcome", ranOr(func(a *evaluator.ArmSummary) string { return strconv.Itoa(a.Duplicates.Unknown) })},
	{"  collateral effects", func(a *evaluator.ArmSummary) string { return countN(a.Collateral) }},
	{latencyHeading, nil},
	{"  p50", func(a *evaluator.ArmSummary) string {
		if a.Latency == nil {
			return notEvaluable
		}
		return quantile(a.Latency.P50, a.Latency.P50AtLeast)
	}},
	{"  p95", func(a *evaluator.ArmSummary) string {
		if a.Latency == nil {
			return notEvaluable
		}
		return quantile(a.Latency.P95, a.Latency.P95AtLeast)
	}},
	{"  95% interval of p95", func(a *evaluator.ArmSummary) string {
		if a.Latency == nil {
			return notEvaluable
		}
		return latencyBounds(a.Latency.P95CI95)
	}},
	{"  n, cut off by a limit", func(a *evaluator.ArmSummary) string {
		if a.Latency == nil {
			return notEvaluable
		}
		return fmt.Sprintf("%d, %d", a.Latency.N, a.Latency.Censored)
	}},
	{costHeading, nil},
	{"  charged", ranOr(func(a *evaluator.ArmSummary) string { return usd(a.Cost.Charged) })},
	{"  held", ranOr(func(a *evaluator.ArmSummary) string { return usd(a.Cost.Held) })},
	{"  held, outcome unknown", ranOr(func(a *evaluator.ArmSummary) string { return usd(a.Cost.Unknown) })},
}

var runDenominators = []armMetric{
	{"denominators", nil},
	{"  planned, the sum of", func(a *evaluator.ArmSummary) string { return strconv.Itoa(a.Denominators.Planned) }},
	{"    claimed met", func(a *evaluator.ArmSummary) string { return strconv.Itoa(a.Denominators.ClaimedMet) }},
	{"    claimed unmet", func(a *evaluator.ArmSummary) string { return strconv.Itoa(a.Denominators.ClaimedUnmet) }},
	{"    unclaimed met", func(a *evaluator.ArmSummary) string { return strconv.Itoa(a.Denominators.UnclaimedMet) }},
	{"    unclaimed unmet", func(a *evaluator.ArmSummary) string {
		if m := a.Denominators.Missing; m > 0 {
			return fmt.Sprintf("%d (%d no trace)", a.Denominators.UnclaimedUnmet, m)
		}
		return strconv.Itoa(a.Denominators.UnclaimedUnmet)
	}},
	{"    infrastructure", func(a *evaluator.ArmSummary) string { return strconv.Itoa(a.Denominators.Infrastructure) }},
	{"    grader error", func(a *evaluator.ArmSummary) string { return strconv.Itoa(a.Denominators.GraderError) }},
	{"    not run", func(a *evaluator.ArmSummary) string { return strconv.Itoa(a.Denominators.NotRun) }},
}

// legend explains the words of the table to a first reader.
const legend = `completion: every required criterion holds in the final world, checked without asking a model
false completion: the arm claims to be done and is not; silent: done and unclaimed; honest: neither
repeated work: a call or task dispatched again after it was known to have succeeded
duplicate effect: one write confirmed more often than the case expects; suppressed: an
  idempotency key absorbed the repeat; collateral: a write that nothing in the case asks for
"x in y of n": x in all, in y of the n trials that can tell
`

// ranOr is cell where at least one trial ran: 0 of no trials is no zero.
func ranOr(cell func(*evaluator.ArmSummary) string) func(*evaluator.ArmSummary) string {
	return func(a *evaluator.ArmSummary) string {
		if a.Cost.N == 0 {
			return notEvaluable
		}
		return cell(a)
	}
}

// roleRows splits the cost by role, a row for each role of any arm.
func roleRows(arms []evaluator.ArmSummary) []row {
	var roles []string
	for i := range arms {
		for k := range arms[i].Cost.ByRole {
			roles = append(roles, k)
		}
	}
	slices.Sort(roles)
	var rows []row
	for _, role := range slices.Compact(roles) {
		r := row{name: "    " + cell(role)}
		for i := range arms {
			v, has := arms[i].Cost.ByRole[role]
			switch {
			case arms[i].Cost.ByRole == nil:
				r.cells = append(r.cells, notEvaluable)
			case has:
				r.cells = append(r.cells, usd(v))
			default:
				r.cells = append(r.cells, "-")
			}
		}
		rows = append(rows, r)
	}
	return rows
}

// countRows writes counts by name, a row for each name of any arm.
func countRows(arms []evaluator.ArmSummary, of func(*evaluator.ArmSummary) map[string]int) []row {
	var names []string
	for i := range arms {
		for k := range of(&arms[i]) {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	var rows []row
	for _, name := range slices.Compact(names) {
		r := row{name: "  " + cell(name)}
		for i := range arms {
			if arms[i].Cost.N == 0 {
				r.cells = append(r.cells, notEvaluable)
				continue
			}
			r.cells = append(r.cells, strconv.Itoa(of(&arms[i])[name]))
		}
		rows = append(rows, r)
	}
	return rows
}

func interval(i *evaluator.Interval) string {
	if i == nil {
		return notEvaluable
	}
	return places(&i.Lo, 4) + " to " + places(&i.Hi, 4)
}

// otherN tells n where it is not the one of the column.
func otherN(n, column int) string {
	if n == column {
		return ""
	}
	return fmt.Sprintf(", n %d", n)
}

func countRate(c evaluator.CountRate) string {
	return fmt.Sprintf("%s (%d/%d)", places(c.Rate, 4), c.Count, c.N)
}

func countN(c evaluator.CountN) string { return overN(c.Count, c.Trials, c.N) }

func overN(count, trials, n int) string {
	if n == 0 {
		return notEvaluable
	}
	return fmt.Sprintf("%d in %d of %d", count, trials, n)
}

func quantile(us int64, atLeast bool) string {
	if atLeast {
		return "at least " + seconds(us)
	}
	return seconds(us)
}

// latencyBounds are those of a quantile.
func latencyBounds(b *evaluator.LatencyBounds) string {
	if b == nil {
		return "too few families"
	}
	lo, hi := "0", "unbounded"
	if b.Lo != nil {
		lo = seconds(*b.Lo)
	}
	if b.Hi != nil {
		hi = seconds(*b.Hi)
	}
	return lo + " to " + hi
}
