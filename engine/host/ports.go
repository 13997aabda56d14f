package host

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
)

// Ref names a room of a tenant.
type Ref struct {
	Tenant string
	Room   string
}

// Ports are what the embedding program supplies (R1). All are called from any
// number of goroutines. Reconciler may be nil; the others are required.
type Ports struct {
	Reasoner   Reasoner   // proposes plans and answers
	Executor   Executor   // does the specialists' work
	Verifier   Verifier   // judges reports
	Authority  Authority  // who may act now
	Events     Events     // what was persisted
	Notifier   Notifier   // tells people
	Reconciler Reconciler // what is known of calls whose reply never came
}

// Call is one operation as a port receives it. Op is stable and unique: the
// service hands an operation to a port once, in one process, and again only
// after proof that the first time nothing happened. Use it as the idempotency
// key of whatever is behind the port.
type Call struct {
	Op          string
	Room        Ref
	Participant string // on whose authority the call is made
	Task        string // task, message or report it serves
	Format      string // of the reply: engine.FormatPlan, FormatTurn or FormatReview
	System      string // system prompt, as the engine states it
	Messages    []model.Message
	Tools       []model.Tool // that the step permits; the executor itself uses them
}

// Result is what a call came to. Text is the JSON document of the call's
// format; nonsense in it is an ordinary outcome, which the engine refuses.
type Result struct {
	Text string
	// Micros is what the call cost in USD micros. Nil means that it is not
	// known: the bound is charged, never zero (R38).
	Micros *int64
	Usage  *engine.Usage // tokens, for the record only; nil when not known
	// Failed, when set, says in one line why the call failed. It is charged
	// like any other (R37).
	Failed string
}

// Reply is a result whose text is v as JSON: an engine.PlanEnvelope,
// engine.TurnReply or engine.ReviewReply, which cost micros.
func Reply(v any, micros int64) (Result, error) {
	b, err := json.Marshal(v)
	return Result{Text: string(b), Micros: &micros}, err
}

// ErrNotMade is wrapped by a port's error to say that provably nothing was
// sent or done: the operation fails at no cost. Any other error, a time-out
// above all, leaves the outcome unknown: the hold stays, the operation is not
// repeated, and only proof settles it (R28, R42, R47).
var ErrNotMade = errors.New("the call was not made")

// Reasoner proposes. It may be asked several times about one event, each time
// in an operation of its own with its own reservation (R26). A proposal
// changes nothing by itself (R3).
//
// Its context ends with runtime.ErrAuthorityLost as its cause when the
// proposal would not be used any more (R43); stop then if you can, and return
// what was spent. The same holds for Executor and Verifier.
type Reasoner interface {
	// Bound is the most that the call can cost in USD micros: a true upper
	// bound, inputs, outputs and connectors included (R41). It does no I/O, and
	// the same call has the same bound. An error means that there is none: the
	// call is refused with UNBOUNDED_COST.
	Bound(c Call) (int64, error)
	// Propose returns an engine.PlanEnvelope. q is the engine's account of the
	// room; it holds what the reasoner may know and nothing else.
	Propose(ctx context.Context, c Call, q engine.PlanRequest) (Result, error)
}

// Executor does one piece of a specialist's work and returns an
// engine.TurnReply. Messages hold the conversation so far, oldest first. Tools
// that the plan permits are named in the call; the executor uses them itself
// and accounts for them in its bound and cost. It connects authority at every
// effect of its own: read and draft levels only, unless the definition
// allow-lists a tool (R11, R12).
type Executor interface {
	Bound(c Call) (int64, error) // as Reasoner.Bound
	Execute(ctx context.Context, c Call) (Result, error)
}

// Verifier judges one version of a report and returns an engine.ReviewReply
// that binds exactly the report it was given and covers every criterion once
// (R51). The engine sees to it that the reviewer's identity authored none of
// the work (R50). A verdict judges the evidence shown; it does not certify
// that a source is genuine (R56).
type Verifier interface {
	Bound(c Call) (int64, error) // as Reasoner.Bound
	Review(ctx context.Context, c Call, q engine.ReviewRequest) (Result, error)
}

// Authority says who may act now. It is asked before every commit and again
// before every dispatch and delivery, and nothing is cached (R12): answer from
// the present state. An error stops the work without changing anything.
type Authority interface {
	// Eligible lists the participants that may act in the room now. One that
	// is missing is not given work, its reserved calls are refused at no cost,
	// and its proposals are rejected.
	Eligible(ctx context.Context, room Ref) ([]string, error)
	// IsOwner reports whether the caller, as the program authenticated it,
	// holds the owner's authority in the room now.
	IsOwner(ctx context.Context, room Ref, caller string) (bool, error)
}

// Persisted is a message as the program has it on record.
type Persisted struct {
	ID     string
	Room   Ref    // where it was written; another room is FORBIDDEN
	Author string // participant id, or the owner's
	// Type is one of engine.Msg…: request, reply, correction, redirect,
	// interrupt, manual_edit, takeover. Empty is request. Contributions need
	// none.
	Type string
	// Objective is the objective the message is about; empty when it names
	// none.
	Objective string
	Text      string
}

// ErrUnknown is what Events return, wrapped or not, for an id that is not on
// record: NOT_FOUND.
var ErrUnknown = errors.New("not on record")

// Events read what was persisted, by identity (R13, R18). A record never
// changes; what a caller of the service says about it is not asked.
type Events interface {
	Event(ctx context.Context, room Ref, id string) (Persisted, error)
	Contribution(ctx context.Context, room Ref, id string) (Persisted, error)
}

// Notification is something said in a room.
type Notification struct {
	// ID is stable: the same words always come under the same id, and other
	// words never do.
	ID     string
	Room   Ref
	From   string   // participant id, or the coordinator's
	To     []string // participant ids
	Status string   // done, blocked, question, answer
	Text   string
	// Withheld is set, and Text empty, when the author lost its authority
	// before the delivery (R12).
	Withheld bool
}

// Notifier delivers notifications in the order in which they were said, at
// least once: a crash between delivery and its mark brings the same ID again,
// and the notifier must drop repeats by ID (R57). An error keeps this one and
// those after it in the outbox for the next Tick.
type Notifier interface {
	Notify(ctx context.Context, n Notification) error
}

// Operation is a call whose outcome is asked for.
type Operation struct {
	Op            string
	Room          Ref
	Format        string // engine.FormatPlan, FormatTurn, FormatReview; "" when asked by Reconcile
	Role          string // engine.Role…; "" when asked at a restart
	Participant   string
	Task          string
	BoundMicros   int64  // on hold for it; 0 when asked at a restart
	RequestDigest string // "" when asked at a restart
}

// Evidence is what is known of a call. The zero value is no evidence: a
// time-out, the passing of time or a row that was not found prove nothing
// (R47).
type Evidence struct {
	Outcome string        // engine.ReconciledExecuted, ReconciledNotExecuted, or "" for no evidence
	Micros  *int64        // executed: what it cost; nil charges the bound
	Usage   *engine.Usage // for the record
	Proof   string        // in words, for the record; required with an outcome
	// Result is the reply itself, where a log has it: after a restart, and of a
	// specialist also by Service.Reconcile, the room goes on as if it had come in
	// time. Without it the reply stays lost, and only the money is settled.
	Result *Result
}

// Reconciler tells what really happened, by durable receipts or confirmed
// outside state. It is asked in a Tick when a port returned an error that leaves
// the outcome open, when a Tick finds an operation that was dispatched by a
// process that is gone (R45), and by Service.Reconcile. It may be asked any
// number of times about one operation; evidence, once given, must not change.
type Reconciler interface {
	Evidence(ctx context.Context, op Operation) (Evidence, error)
}
