package simulated

import (
	"fmt"

	"github.com/agentrooms/qualify/engine/budget"
)

// Rate is a probability in parts per million: 0 never, 1,000,000 always.
type Rate int64

const always Rate = 1_000_000

// ParseRate reads a decimal string from 0 to 1 with at most six places.
func ParseRate(s string) (Rate, error) {
	n, err := budget.ParseUSD(s) // the same decimal form, in millionths
	if err != nil || n < 0 || n > int64(always) {
		return 0, fmt.Errorf("rate %q is not a decimal from 0 to 1 with at most six places", s)
	}
	return Rate(n), nil
}

// Rates says how often each kind of spoiling happens. The zero value never
// spoils anything. The name a draw carries stands behind each rate.
type Rates struct {
	// SkipStep: the next step is passed over as if it were done; drawn for
	// each step that comes up, final words included. "skip_step:<step>"
	SkipStep Rate
	// WrongArgument: one argument of the call is altered, valid by the tool's
	// schema. A call with no argument that can be altered so stays right.
	// "wrong_argument"
	WrongArgument Rate
	// EarlyClaim: the turn ends with "done" although work is left, with the
	// final words that were due at the end. "early_claim"
	EarlyClaim Rate
	// MalformedJSON: a reply that should be JSON is cut in half. Tool calls are
	// not affected. "malformed_json"
	MalformedJSON Rate
	// MissingUsage: the reply comes without its usage. "missing_usage"
	MissingUsage Rate
	// LostReply: the call was made and its reply lost. "lost_reply"
	LostReply Rate
	// RetryAfterUnknown: a tool call of unknown outcome is made again, at most
	// twice in a row; otherwise it is believed to be done.
	// "retry_after_unknown"
	RetryAfterUnknown Rate
	// PlanFault: a plan has one of the faults of planFaults. Never drawn when
	// the request carries feedback on a refused plan. "plan_fault",
	// "plan_fault:kind"
	PlanFault Rate
	// PassesBad and FailsGood: a reviewer's verdict on one criterion is turned
	// round. "passes_bad:<criterion>", "fails_good:<criterion>"
	PassesBad, FailsGood Rate
}

func (r Rates) validate() error {
	for _, f := range []struct {
		name string
		rate Rate
	}{
		{"skip_step", r.SkipStep},
		{"wrong_argument", r.WrongArgument},
		{"early_claim", r.EarlyClaim},
		{"malformed_json", r.MalformedJSON},
		{"missing_usage", r.MissingUsage},
		{"lost_reply", r.LostReply},
		{"retry_after_unknown", r.RetryAfterUnknown},
		{"plan_fault", r.PlanFault},
		{"review.passes_bad", r.PassesBad},
		{"review.fails_good", r.FailsGood},
	} {
		if f.rate < 0 || f.rate > always {
			return fmt.Errorf("rate %s is %d parts per million; it must lie between 0 and %d", f.name, f.rate, always)
		}
	}
	return nil
}
