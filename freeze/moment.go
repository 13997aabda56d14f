package freeze

import (
	"encoding/json"
	"fmt"
	"time"
)

// Moment is when a row was written. It is what the writer says: the order of
// rows comes from the chain, and that a row is as old as it says is shown by a
// checkpoint that somebody else kept.
type Moment struct {
	At    string `json:"at"`              // UTC, RFC 3339
	Clock Clock  `json:"clock,omitempty"` // which clock At was read from
}

// Clock is the clock of a Moment: "" for that of the machine.
type Clock string

// ClockSet marks a moment that was set for the sake of a log that comes out the
// same each time: it is not when the row was written. Only logs of evidence that
// is not measured hold such rows.
const ClockSet Clock = "set"

// UnmarshalJSON implements json.Unmarshaler: there is one word.
func (c *Clock) UnmarshalJSON(data []byte) error {
	var s string
	if err := json.Unmarshal(data, &s); err != nil {
		return err
	}
	if Clock(s) != ClockSet {
		return fmt.Errorf("clock %q is none that this version knows", s)
	}
	*c = ClockSet
	return nil
}

// MomentOf is a moment by a clock.
func MomentOf(t time.Time, c Clock) Moment { return Moment{t.UTC().Format(time.RFC3339), c} }

// check refuses a time that MomentOf does not give.
func (m Moment) check() error {
	if t, err := time.Parse(time.RFC3339, m.At); err != nil || MomentOf(t, m.Clock) != m {
		return fmt.Errorf("%q is no UTC time in RFC 3339", m.At)
	}
	return nil
}
