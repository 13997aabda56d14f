package stats

import (
	"errors"
	"fmt"
)

// Refusals. A statistic that is undefined is an error, never a number.
var (
	ErrNoData         = errors.New("no observations")
	ErrOneCluster     = errors.New("one cluster: its standard error is undefined")
	ErrOneValue       = errors.New("one observation: its standard error is undefined")
	ErrNotFinite      = errors.New("observation is not a finite number")
	ErrLength         = errors.New("values and clusters differ in length")
	ErrRange          = errors.New("argument out of range")
	ErrKBeyondN       = errors.New("k is greater than the number of trials")
	ErrNoVariation    = errors.New("standard error is zero: the ratio is undefined")
	ErrTooFewFamilies = errors.New("fewer than 6 families: nothing can be significant at 0.05")
	ErrNotInteger     = errors.New("the exact method needs whole counts, not effective ones")
	ErrOrder          = errors.New("looks are not in increasing order of information")
	ErrUnreached      = errors.New("no sum that can occur reaches the boundary")
	ErrSpent          = errors.New("no alpha is left to spend at this look")
	ErrUneven         = errors.New("cases have different numbers of trials")
	ErrNotPositive    = errors.New("a ratio needs values above zero")
	ErrNoSuccess      = errors.New("no success: cost per success is undefined")
	ErrHoldoutSpent   = errors.New("the holdout has answered all that it may")
	ErrUnbounded      = errors.New("the denominator is not told apart from zero: the interval is unbounded")
)

// MinFamilies is the least number of families from which the package tests a
// hypothesis: with C families the smallest two-sided sign-flip p is 2/2^C, and
// only from C = 6 on is it under 0.05 (statistics §6).
const MinFamilies = 6

// Refusal is the error of a method that does not apply to the data it was
// given. It wraps one of the sentinels above: errors.Is finds the rule,
// errors.As the method and the figures.
type Refusal struct {
	Method string // the method that refuses, as it is named in docs/statistics.md
	Rule   error  // the sentinel
	Detail string // the figures that break the rule; may be empty
}

// Error is one line: method, rule, figures.
func (r *Refusal) Error() string {
	if r.Detail == "" {
		return r.Method + ": " + r.Rule.Error()
	}
	return r.Method + ": " + r.Rule.Error() + ": " + r.Detail
}

// Unwrap gives the sentinel.
func (r *Refusal) Unwrap() error { return r.Rule }

func refuse(method string, rule error, format string, args ...any) error {
	return &Refusal{Method: method, Rule: rule, Detail: fmt.Sprintf(format, args...)}
}

// checkFamilies refuses fewer than MinFamilies.
func checkFamilies(method string, families int) error {
	if families < MinFamilies {
		return refuse(method, ErrTooFewFamilies, "%d families", families)
	}
	return nil
}
