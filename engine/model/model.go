// Package model declares the provider port: calls, replies, usage, prices and
// bounds. Providers live in sub-packages and all run modeltest.
package model

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/agentrooms/qualify/engine"
)

// Class is a party's recovery class (DESIGN §2).
type Class string

// Recovery classes. A lookup party can be asked for an outcome by operation
// id; every real API is opaque.
const (
	Lookup Class = "lookup"
	Opaque Class = "opaque"
)

// Evidence is the word that figures made with a provider carry (DESIGN §9).
type Evidence string

// Evidence words.
const (
	Measured      Evidence = "measured"
	Simulated     Evidence = "simulated"
	Deterministic Evidence = "deterministic check"
	Recorded      Evidence = "recorded"
)

// Provider answers model calls. Implementations are safe for concurrent use.
type Provider interface {
	// Name of the provider: simulated, scripted, …
	Name() string
	Evidence() Evidence
	Class() Class
	// Bound is the largest usage the call can have: no actual usage has more
	// tokens on the input side, or more on the output side. A category that is
	// zero in the bound does not occur, cached reads excepted (see
	// Prices.Bound). ErrUnbounded when there is no bound: the call is then
	// refused before dispatch (R41).
	Bound(call Call) (engine.Usage, error)
	// Call makes one call. Errors that Reply.Outcome can express are not
	// returned as errors; an error means that the outcome is unknown.
	Call(ctx context.Context, call Call) (Reply, error)
}

// Finder is implemented by providers of class Lookup.
type Finder interface {
	// Lookup tells what became of an operation, without calling: executed with
	// its reply, or not executed with a proof in words.
	Lookup(ctx context.Context, call Call) (Found, error)
}

// Found is a provider's answer about an operation. It holds two readings of an
// executed call, because they serve two moments: on restart the run goes on
// with Seen, exactly as if it had never stopped; when the trial closes, Reply
// settles what was held for operations of unknown outcome.
type Found struct {
	Executed bool
	// Seen is what the caller was sent, or would have been sent had it lived to
	// hear it. Its outcome is Unknown when the reply was lost on the way, and
	// its usage nil when the provider omits it.
	Seen Reply
	// Reply is what really happened; never of outcome Unknown. Its usage is the
	// provider's own record, nil only when even that has none (the operation is
	// then charged at its bound).
	Reply Reply
	Proof string // when not Executed
}

// ErrUnbounded means that no finite bound exists for a call.
var ErrUnbounded = errors.New("no bound on the cost of this call")

// Call is one request, all texts loaded.
type Call struct {
	Op              string // operation id; a provider's idempotency key where it has one
	Format          string // engine.Format…
	System          string
	Messages        []Message
	Tools           []Tool
	Model           string
	Params          map[string]string // decimal strings: temperature, top_p
	MaxOutputTokens int

	// Agent and Task say on whose authority and for which task or message the
	// call is made. They serve parties that route calls to others; they are no
	// part of a call's digest, and no model is told them.
	Agent string `json:"-"`
	Task  string `json:"-"`
}

// Message is one entry of the conversation. A user message with From is
// rendered with the first line "From <From>:".
type Message struct {
	Role       string
	From       string
	Text       string
	ToolCalls  []ToolCall
	ToolCallID string
}

// Rendered is the text a provider sends: the From line, then the text.
func (m Message) Rendered() string {
	if m.From == "" {
		return m.Text
	}
	return "From " + m.From + ":\n" + m.Text
}

// ToolCall is a call the model asked for. Args are the bytes it wrote.
type ToolCall struct {
	ID   string
	Tool string
	Args string
}

// Tool is a tool offered to the model.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage // JSON Schema of the arguments
}

// Outcome of a call.
type Outcome string

// Outcomes of a call as the caller sees them.
const (
	OK      Outcome = "ok"
	Failed  Outcome = "failed"  // refused or failed; usage may still be due
	Unknown Outcome = "unknown" // the reply was lost; the call may have happened
)

// Reply is the result of a call. Usage nil means that the provider omitted
// it; it is then charged at the bound (R38).
type Reply struct {
	Outcome    Outcome
	Text       string
	ToolCalls  []ToolCall
	Finish     string
	Usage      *engine.Usage
	DurationUS int64 // virtual duration for providers on virtual time, else measured
	Error      string
	Code       string
	// Micros is the cost in USD micros, given by a Pricer only; nil means that
	// it is not known, which is never zero (R38).
	Micros *int64
}

// Pricer is implemented by providers that state costs themselves, in USD
// micros; the price table is not asked then.
type Pricer interface {
	// BoundMicros is the most the call can cost (R41); it must be a true upper
	// bound and may not be negative. ErrUnbounded when there is none.
	BoundMicros(call Call) (int64, error)
}
