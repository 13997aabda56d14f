package trace

import (
	"encoding/json"
	"fmt"
)

// Recorded is one trial of a foreign tool-calling trace in neutral form. What
// a format does not record is nil or empty; nothing is filled in.
type Recorded struct {
	Record   int // position in its file, from 1
	Task     string
	Trial    int
	Reward   float64 // 0…1
	Met      bool    // the format's own success test
	Messages []RecordedMessage
	Calls    []RecordedCall // in order, results joined by position
	// Expected are the recorded ground-truth actions; nil when the record has
	// none, empty when it records that there are none.
	Expected []RecordedAction
	Error    string   // exception that ended the trial; "" for none
	UserCost *float64 // of the simulated user, in the format's own unit
	// Orphans counts tool results that no call before them is waiting for.
	Orphans int
}

// RecordedMessage is one message without its tool calls.
type RecordedMessage struct {
	Role string // system, user, assistant, tool
	Tool string // name as a tool message states it; "" otherwise
	Text string // "" also for null content
}

// RecordedCall is one tool call of the agent.
type RecordedCall struct {
	ID       string
	Tool     string
	Args     json.RawMessage // canonical JSON object; nil when ArgsText is no object
	ArgsText string          // as recorded
	// Answered tells that a result is recorded; Result is its text ("" for
	// null).
	Answered bool
	Result   string
}

// RecordedAction is one ground-truth action.
type RecordedAction struct {
	Tool string
	Args json.RawMessage // canonical JSON object
}

// Formats of imported files.
const (
	FormatAuto     = "auto"
	FormatTauBench = "tau-bench"
)

// File is one imported file.
type File struct {
	Path    string
	SHA256  string // hex, of the bytes
	Format  string
	Records []Recorded
	// Lacks are the metrics that the format itself cannot support.
	Lacks []Lack
}

// Lack names a metric that a format does not record, and the missing input.
type Lack struct {
	Metric string
	Reason string
}

// InputError is bad input: one line that names the file and, where there is
// one, the record (from 1) or the byte offset (from 0).
type InputError struct {
	Path string
	Err  error
}

func (e *InputError) Error() string { return fmt.Sprintf("%s: %v", e.Path, e.Err) }

// Unwrap returns the fault.
func (e *InputError) Unwrap() error { return e.Err }
