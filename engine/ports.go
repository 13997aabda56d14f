package engine

import (
	"context"
	"encoding/json"
)

// World is what tools act on: a fold of initial documents and effect records
// (DESIGN §2). The runtime calls it from one goroutine per room.
//
// The order for one operation is: Do computes the outcome; the runtime commits
// Outcome.Effect, when there is one; Apply folds it; the receipt is written;
// Called counts the call. On restart the runtime replays Apply and Called in
// the same order before anything else happens.
type World interface {
	// Tools lists the tools, sorted by name.
	Tools() []ToolSpec
	// Do computes the outcome of a call against the present fold, without
	// changing it. Bad arguments, unknown tools and failing operations are
	// outcomes (ToolError), not errors; an error means a harness fault.
	Do(ctx context.Context, r ToolRequest) (ToolOutcome, error)
	// Apply folds one committed effect record.
	Apply(e EffectRecord) error
	// Called counts one finished call on (tool, target), reads included; the
	// faults of a case are placed by that count.
	Called(tool, target string)
	// Recover answers for an operation that was dispatched and has no receipt:
	// the outcome that its committed effect record stands for.
	Recover(r ToolRequest, e EffectRecord) (ToolOutcome, error)
	// Documents returns the present documents as canonical JSON by name.
	Documents() (map[string]json.RawMessage, error)
	// Messages lists what tools have sent, oldest first.
	Messages() []SentMessage
}

// ToolRequest is one dispatched tool operation.
type ToolRequest struct {
	Room     string
	Op       string
	Tool     string
	Args     []byte // as the model wrote them
	Target   string // of the declared target fields, joined by "/"; "" when args are no object
	Identity string // EffectIdentity; "" when args are no object
	Key      string // idempotency key as sent; "" when the arm sends none
	Agent    string
	Task     string
	AtUS     int64
}

// Tool outcomes.
const (
	ToolOK      = "ok"
	ToolError   = "error"
	ToolUnknown = "unknown"
)

// ToolOutcome is what the caller sees, and the effect that took place, if any:
// with Outcome ToolUnknown both are possible.
type ToolOutcome struct {
	Outcome    string
	Result     []byte // JSON or text; the error text for ToolError
	DurationUS int64
	Effect     *EffectRecord // nil: nothing happened
	Fault      string        // id of the case fault that fired, "" for none
}

// EffectRecord is one record of the effect ledger.
type EffectRecord struct {
	Op         string
	AtUS       int64
	Identity   string
	Key        string
	Tool       string
	Target     string
	Agent      string
	Args       []byte // canonical JSON
	State      string // confirmed, refuted, intent
	Suppressed bool   // an earlier record with this key was returned instead; no change
	Ack        string // ok or lost
	Patch      []byte // JSON, what Apply needs to fold the change
	Result     []byte // what the tool answered or would have
}

// SentMessage is a message that a tool sent.
type SentMessage struct {
	AtUS int64
	Op   string
	From string // participant id
	To   string
	Via  string // tool
	Text string
}

// LogEntry is one committed revision as the owner and exporters read it.
type LogEntry struct {
	Rev      int64
	Event    Event
	Commands []Command
}

// Owner is a pure fold of the log: what the owner says next, and when. It
// sees what an owner could see (claims, messages, documents, time), never
// plan or mode.
type Owner interface {
	// Fold takes one committed entry, all texts loaded; the world stands as it
	// was when the entry was committed.
	Fold(e LogEntry)
	// Next is the earliest message still to come, with its trial time in
	// microseconds. It is not consumed until Fold has seen its event.
	Next() (OwnerSay, bool)
	// Exhausted reports that a correction was due and patience was used up.
	Exhausted() bool
}

// Snapshotter is implemented by worlds and owners whose fold can be stored with
// a room's snapshot, so that a restart need not fold the room's history again.
// Where either of the two lacks it, a restart folds every row.
type Snapshotter interface {
	// Snapshot is everything that calls have made of the fresh value, as JSON.
	// Equal folds give equal bytes.
	Snapshot() ([]byte, error)
	// Restore takes a fresh value to where Snapshot was taken; an owner's world
	// has been restored before. An error (another format, say) leaves a value
	// that must not be used; the rows are then folded instead.
	Restore(snapshot []byte) error
}

// OwnerSay is a message or a command to come. Its EventID is stable.
type OwnerSay struct {
	EventID string
	AtUS    int64
	Message OwnerMessage
	Command *OwnerCommand // a command instead of a message; nil for a message
}

// Target joins the values of the named argument fields by "/"; strings stand
// as they are, other values as canonical JSON. "" when args are no object.
func Target(args []byte, fields []string) string {
	var m map[string]json.RawMessage
	if json.Unmarshal(args, &m) != nil {
		return ""
	}
	out := ""
	for i, f := range fields {
		if i > 0 {
			out += "/"
		}
		raw, ok := m[f]
		if !ok {
			continue
		}
		var s string
		if json.Unmarshal(raw, &s) == nil {
			out += s
		} else if c, err := CanonicalJSON(raw); err == nil {
			out += string(c)
		}
	}
	return out
}
