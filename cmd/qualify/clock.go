package main

import (
	"slices"
	"strconv"
	"time"

	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/freeze"
)

// envEpoch sets the moments of records, in seconds since 1970 in UTC:
// https://reproducible-builds.org/specs/source-date-epoch/
const envEpoch = "SOURCE_DATE_EPOCH"

// lastEpoch is the last second of the year 9999: RFC 3339 has no later ones.
const lastEpoch = 253402300799

// recordClock gives the moments that stay in records: rows of the seal log and
// attestations. All of them come from one. What only this process sees, such as
// leases, progress and times that pass, never asks it.
type recordClock struct {
	set *time.Time // nil for the clock of the machine
}

// recordClock is the clock for records about evidence of a kind. SOURCE_DATE_EPOCH
// sets it, and says so on stderr once; it is refused where evidence is measured: a
// real log is not backdated.
func (a *app) recordClock(evidence model.Evidence) (recordClock, error) {
	text := a.env(envEpoch)
	if text == "" {
		return recordClock{}, nil
	}
	seconds, err := strconv.ParseUint(text, 10, 63)
	if err != nil || seconds > lastEpoch {
		return recordClock{}, usagef("%s=%q: want whole seconds since 1970-01-01T00:00:00Z, at most %d; correct it or unset it", envEpoch, text, int64(lastEpoch))
	}
	if !slices.Contains([]model.Evidence{model.Simulated, model.Deterministic, model.Recorded}, evidence) { // measured, or not known to cost nothing
		return recordClock{}, failf(exitRefused, "%s is set, and the evidence is measured: its seal log and attestations tell real times; unset it", envEpoch)
	}
	at := time.Unix(int64(seconds), 0).UTC()
	if !a.clockTold {
		a.clockTold = true
		a.talkf("note: %s sets the time of seal log and attestation to %s; rows of the log are marked as set", envEpoch, at.Format(time.RFC3339))
	}
	return recordClock{&at}, nil
}

// now is the moment for an attestation, in whole seconds.
func (c recordClock) now() time.Time {
	if c.set != nil {
		return *c.set
	}
	return time.Now().UTC().Truncate(time.Second)
}

// moment is the moment for a row of the seal log.
func (c recordClock) moment() freeze.Moment {
	if c.set != nil {
		return freeze.MomentOf(*c.set, freeze.ClockSet)
	}
	return freeze.MomentOf(c.now(), "")
}
