package stats

import "errors"

// Refusals. A statistic that is undefined is an error, never a number.
var (
	ErrNoData      = errors.New("no observations")
	ErrOneCluster  = errors.New("one cluster: its standard error is undefined")
	ErrOneValue    = errors.New("one observation: its standard error is undefined")
	ErrNotFinite   = errors.New("observation is not a finite number")
	ErrLength      = errors.New("values and clusters differ in length")
	ErrRange       = errors.New("argument out of range")
	ErrKBeyondN    = errors.New("k is greater than the number of trials")
	ErrNoVariation = errors.New("standard error is zero: the ratio is undefined")
)
