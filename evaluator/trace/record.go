package trace

import (
	"encoding/json"

	"github.com/agentrooms/qualify/engine"
)

// Schema is the name of this format.
const Schema = "qualify/trace/v1"

// Record kinds (field rec).
const (
	RecHeader = "header"
	RecEvent  = "event"
	RecOp     = "op"
	RecEffect = "effect"
	RecOwner  = "owner"
	RecEnd    = "end"
)

// Header opens a trace.
type Header struct {
	Rec          string `json:"rec"`
	Schema       string `json:"schema"`
	Campaign     string `json:"campaign"`     // plan digest: identity without code version
	Registration string `json:"registration"` // "" when none
	Arm          string `json:"arm"`
	Mode         string `json:"mode"`
	Case         string `json:"case"`
	Family       string `json:"family"`
	Split        string `json:"split"`
	Trial        int    `json:"trial"`
	Evidence     string `json:"evidence"`
	Clock        string `json:"clock"`
	WorldSeed    string `json:"world_seed"`
	Model        string `json:"model"`
	Prices       string `json:"prices"`
	Limits       Limits `json:"limits"`
	Machine      string `json:"machine"`
	Prev         string `json:"prev"`
	Digest       string `json:"digest,omitempty"` // omitted only while it is computed
}

// Limits of a trial.
type Limits struct {
	BudgetMicros int64 `json:"budget_micros"`
	ModelCalls   int   `json:"model_calls"`
	ToolCalls    int   `json:"tool_calls"`
	Minutes      int   `json:"minutes"`
}

// Money is an account in USD micros.
type Money struct {
	Charged int64 `json:"charged"`
	Held    int64 `json:"held"`
	Unknown int64 `json:"unknown"`
}

// Event is one room revision, or something a revision decided (kinds say,
// claim, withdraw, artifact, note, end), in the order of the log.
type Event struct {
	Rec    string          `json:"rec"`
	N      int             `json:"n"`
	AtUS   int64           `json:"at_us"`
	Kind   string          `json:"kind"`
	Op     string          `json:"op,omitempty"`
	Cause  string          `json:"cause,omitempty"`
	Body   json.RawMessage `json:"body"`
	Money  *Money          `json:"money,omitempty"`
	Prev   string          `json:"prev"`
	Digest string          `json:"digest,omitempty"` // omitted only while it is computed
}

// Op is one operation with its outcome.
type Op struct {
	Rec      string        `json:"rec"`
	N        int           `json:"n"`
	AtUS     int64         `json:"at_us"` // finish
	Op       string        `json:"op"`
	Kind     string        `json:"kind"` // interpret, route, agent, specialist, review, judge, user, tool
	Role     string        `json:"role"`
	Agent    string        `json:"agent,omitempty"`
	Task     string        `json:"task,omitempty"`
	Cause    string        `json:"cause"`
	Attempt  int           `json:"attempt"`
	Ordinal  int           `json:"ordinal"`
	Tool     string        `json:"tool,omitempty"`
	Outcome  string        `json:"outcome"` // ok, failed, unknown; refused or released when it was never dispatched
	StartUS  int64         `json:"start_us"`
	Reserved int64         `json:"reserved"`
	Charged  int64         `json:"charged"`
	Held     int64         `json:"held"`
	Source   string        `json:"source,omitempty"` // usage source: actual, bound, reconciled
	Usage    *engine.Usage `json:"usage,omitempty"`
	Request  string        `json:"request"` // request digest
	// ReadyUS is the trial time at which the operation was committed; StartUS −
	// ReadyUS is its queue time. Nil: not recorded, queue time not evaluable.
	ReadyUS *int64 `json:"ready_us,omitempty"`
	// Fault and FaultKind name the planted fault that fired on this operation:
	// a fault of the case (id and kind) or one of the simulated model (kind
	// only). Empty: none fired.
	Fault     string `json:"fault,omitempty"`
	FaultKind string `json:"fault_kind,omitempty"`
	// Reconciled is set when the outcome was unknown and has been settled by
	// proof; Charged and Held are the figures after it.
	Reconciled *Reconciled `json:"reconciled,omitempty"`
	Prev       string      `json:"prev"`
	Digest     string      `json:"digest,omitempty"` // omitted only while it is computed
}

// Reconciled is the settlement of an operation of unknown outcome (R47).
type Reconciled struct {
	Executed bool   `json:"executed"`
	Charged  int64  `json:"charged"` // USD micros
	Source   string `json:"source,omitempty"`
	Proof    string `json:"proof,omitempty"`
}

// Effect states as recorded.
const (
	StateIntent    = "intent"
	StateConfirmed = "confirmed"
	StateRefuted   = "refuted"
)

// Effect is one effect record of the world.
type Effect struct {
	Rec        string          `json:"rec"`
	N          int             `json:"n"`
	AtUS       int64           `json:"at_us"`
	Op         string          `json:"op"`
	Identity   string          `json:"identity"`
	Tool       string          `json:"tool"`
	Target     string          `json:"target"`
	Args       json.RawMessage `json:"args"`
	Agent      string          `json:"agent,omitempty"`
	State      string          `json:"state"`
	Key        string          `json:"key,omitempty"`
	Suppressed bool            `json:"suppressed"`
	Ack        string          `json:"ack,omitempty"`
	Fault      string          `json:"fault,omitempty"` // id of the case fault that fired
	FaultKind  string          `json:"fault_kind,omitempty"`
	Prev       string          `json:"prev"`
	Digest     string          `json:"digest,omitempty"` // omitted only while it is computed
}

// Owner is one owner message.
type Owner struct {
	Rec    string `json:"rec"`
	N      int    `json:"n"`
	AtUS   int64  `json:"at_us"`
	ID     string `json:"id"`
	Type   string `json:"type"`
	From   string `json:"from"`
	Text   string `json:"text"`
	Prev   string `json:"prev"`
	Digest string `json:"digest,omitempty"` // omitted only while it is computed
}

// End closes a trace with everything that is judged.
type End struct {
	Rec         string                     `json:"rec"`
	N           int                        `json:"n"`
	AtUS        int64                      `json:"at_us"`
	Termination string                     `json:"termination"`
	Claim       *Claim                     `json:"claim,omitempty"` // the claim that stands at the end
	Documents   map[string]json.RawMessage `json:"documents"`
	Messages    []Message                  `json:"messages"`
	Artifacts   []Artifact                 `json:"artifacts"`
	Money       Money                      `json:"money"`
	RoomDigest  string                     `json:"room_digest"`
	Prev        string                     `json:"prev"`
	Digest      string                     `json:"digest,omitempty"` // omitted only while it is computed
}

// Claim that the work is complete.
type Claim struct {
	AtUS       int64  `json:"at_us"`
	By         string `json:"by"`
	TextSHA256 string `json:"text_sha256"`
}

// Message said in the room or sent by a tool.
type Message struct {
	AtUS int64  `json:"at_us"`
	ID   string `json:"id"`
	From string `json:"from"`
	To   string `json:"to,omitempty"`
	Via  string `json:"via,omitempty"` // tool that sent it; "" for words in the room
	Text string `json:"text"`
}

// Artifact is the newest version of a named artifact.
type Artifact struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	By      string `json:"by"`
	Text    string `json:"text"`
}
