package engine

// EventKind names what an event reports.
type EventKind string

// Event kinds. Each fills exactly the fields of Event named beside it.
const (
	EvStarted            EventKind = "started"             // first event of a room
	EvOwnerMessage       EventKind = "owner_message"       // Message
	EvModelReply         EventKind = "model_reply"         // Reply: outcome known, content usable or not
	EvModelFailed        EventKind = "model_failed"        // Reply.Error: the provider refused or failed
	EvModelUnknown       EventKind = "model_unknown"       // the call may have happened; no reply will come
	EvToolOK             EventKind = "tool_ok"             // Tool
	EvToolError          EventKind = "tool_error"          // Tool: the world answered with an error
	EvToolUnknown        EventKind = "tool_unknown"        // Tool without result: outcome unknown
	EvReservationRefused EventKind = "reservation_refused" // Refusal: the room's money does not cover the bound
	EvDispatchRefused    EventKind = "dispatch_refused"    // Refusal: authority gone, cost unbounded, or limit reached
	EvTimer              EventKind = "timer"               // Timer
	EvOwnerCommand       EventKind = "owner_command"       // Command: pause, resume, cancel, grant, readmit, reconcile
)

// Event is one fact folded by a Machine: one room revision. The runtime
// resolves authors, eligibility and prices just before the commit and puts
// them into the event, so that a machine needs no look-up.
type Event struct {
	ID      string        `json:"id"`                // stable, unique in the room
	Kind    EventKind     `json:"kind"`              //
	AtUS    int64         `json:"at_us"`             // trial time, microseconds from the trial's start
	Op      string        `json:"op,omitempty"`      // operation the event reports on
	Key     *OpKey        `json:"key,omitempty"`     // the same operation as the machine named it
	Message *OwnerMessage `json:"message,omitempty"` //
	Reply   *ModelReply   `json:"reply,omitempty"`   //
	Tool    *ToolResult   `json:"tool,omitempty"`    //
	Refusal *Refusal      `json:"refusal,omitempty"` //
	Timer   string        `json:"timer,omitempty"`   // id given in the Timer command
	Command *OwnerCommand `json:"command,omitempty"` //
	Facts   *Facts        `json:"facts,omitempty"`   //
	Money   Money         `json:"money"`             // the room's money just before this commit
}

// OwnerMessage is a persisted message whose author the runtime resolved.
type OwnerMessage struct {
	ID   string `json:"id"`
	Type string `json:"type"` // MsgRequest, MsgCorrection, …
	From string `json:"from"` // participant id of the resolved author
	Text Text   `json:"text"`
	// Objective names the objective the message is about; empty when the
	// message says nothing of the kind.
	Objective string `json:"objective,omitempty"`
}

// Types of owner messages. Correction, redirect, interrupt, manual edit and
// takeover count as owner corrections (qualification Q1).
const (
	MsgRequest    = "request"
	MsgReply      = "reply" // answer to a question
	MsgCorrection = "correction"
	MsgRedirect   = "redirect"
	MsgInterrupt  = "interrupt"
	MsgManualEdit = "manual_edit"
	MsgTakeover   = "takeover"
	// MsgProposal is a specialist's persisted proposal (R18): material for
	// interpretation, whoever it names.
	MsgProposal = "proposal"
)

// ModelReply is the outcome of one model call.
type ModelReply struct {
	Text      Text       `json:"text"`
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
	Finish    string     `json:"finish,omitempty"` // stop, length, tool_calls
	Usage     *Usage     `json:"usage,omitempty"`  // nil: the provider omitted it; never read as zero
	Charged   int64      `json:"charged"`          // USD micros settled for this call
	Source    string     `json:"source,omitempty"` // usage source: actual or bound
	Error     string     `json:"error,omitempty"`  // one line, redacted
	Code      string     `json:"code,omitempty"`
}

// ToolCall is a model's wish to call a tool. Args are the raw bytes it wrote,
// valid JSON or not.
type ToolCall struct {
	ID   string `json:"id"`
	Tool string `json:"tool"`
	Args Text   `json:"args"`
}

// ToolResult reports one tool operation.
type ToolResult struct {
	Tool   string `json:"tool"`
	Args   Text   `json:"args"`
	Result Text   `json:"result"`           // error text for EvToolError; empty for EvToolUnknown
	Target string `json:"target,omitempty"` // declared target of the call, joined by "/"
	IdemID string `json:"key,omitempty"`    // idempotency key as computed; sent only if the arm says so
	Agent  string `json:"agent,omitempty"`  // participant id
	Task   string `json:"task,omitempty"`
	Write  bool   `json:"write,omitempty"` // the tool's action is write or draft
}

// Refusal says why an operation was not dispatched. Code is one of the codes
// of errors.go (BUDGET_EXHAUSTED, BUDGET_HALTED, UNBOUNDED_COST, FORBIDDEN,
// LIMIT_REACHED).
type Refusal struct {
	Code   string `json:"code"`
	Reason string `json:"reason"`
}

// Facts are answers the runtime resolved just before the commit.
type Facts struct {
	Eligible []string `json:"eligible,omitempty"` // participant ids authorized now, sorted
}

// Money is the room's account in USD micros. Unknown is the part of Held that
// belongs to operations of unknown outcome.
type Money struct {
	Limit   int64 `json:"limit"`
	Charged int64 `json:"charged"`
	Held    int64 `json:"held"`
	Unknown int64 `json:"unknown"`
}

// Usage counts tokens of one call. Input excludes cached tokens; Output
// excludes Reasoning.
type Usage struct {
	Input        int64 `json:"input"`
	CachedRead   int64 `json:"cached_read,omitempty"`
	CacheWrite5m int64 `json:"cache_write_5m,omitempty"`
	CacheWrite1h int64 `json:"cache_write_1h,omitempty"`
	Output       int64 `json:"output"`
	Reasoning    int64 `json:"reasoning,omitempty"`
}

// Texts lists every text of the event, for sealing and loading.
func (e *Event) Texts() []*Text {
	var ts []*Text
	if e.Message != nil {
		ts = append(ts, &e.Message.Text)
	}
	if e.Reply != nil {
		ts = append(ts, &e.Reply.Text)
		for i := range e.Reply.ToolCalls {
			ts = append(ts, &e.Reply.ToolCalls[i].Args)
		}
	}
	if e.Tool != nil {
		ts = append(ts, &e.Tool.Args, &e.Tool.Result)
	}
	if e.Command != nil && e.Command.Found != nil && e.Command.Found.Reply != nil {
		ts = append(ts, &e.Command.Found.Reply.Text)
	}
	return ts
}
