package engine

// CommandKind names what a machine asks for.
type CommandKind string

// Command kinds. Each fills exactly the field of Command named beside it.
const (
	CmdModel    CommandKind = "model"    // Call with Request: an operation
	CmdTool     CommandKind = "tool"     // Call with Tool: an operation
	CmdSay      CommandKind = "say"      // Say: a message in the room, delivered through the outbox
	CmdClaim    CommandKind = "claim"    // Claim: the mode says the owner's work is complete
	CmdWithdraw CommandKind = "withdraw" // Claim: an earlier claim no longer stands
	CmdArtifact CommandKind = "artifact" // Artifact: a new version of a room artifact
	CmdTimer    CommandKind = "timer"    // Timer
	CmdNote     CommandKind = "note"     // Note: a recorded decision, acted on by nobody
	CmdEnd      CommandKind = "end"      // End: the mode stops asking for work until the owner speaks
	CmdPost     CommandKind = "post"     // Post: a message for the room's readers; the outbox does not deliver it
	CmdAnswer   CommandKind = "answer"   // Answer: what came of an owner's command
)

// Command is one wish of a machine. Commands are part of the committed row
// (requests by digest only).
type Command struct {
	Kind     CommandKind `json:"kind"`
	Call     *Call       `json:"call,omitempty"`
	Say      *Say        `json:"say,omitempty"`
	Claim    *Claim      `json:"claim,omitempty"`
	Artifact *Artifact   `json:"artifact,omitempty"`
	Timer    *Timer      `json:"timer,omitempty"`
	Note     *Note       `json:"note,omitempty"`
	End      *End        `json:"end,omitempty"`
	Post     *Say        `json:"post,omitempty"`
	Answer   *Answer     `json:"answer,omitempty"`
}

// Call is one operation to dispatch: a model call (Request) or a tool call
// (Tool).
type Call struct {
	Key     OpKey    `json:"key"`
	Agent   string   `json:"agent"`          // participant id on whose authority it runs
	Role    string   `json:"role"`           // cost role: agent, router, reasoner, specialist, reviewer, judge
	Task    string   `json:"task,omitempty"` // task or message the call serves; scope of the idempotency key
	Request *Request `json:"request,omitempty"`
	Tool    *ToolUse `json:"tool,omitempty"`
}

// Cost roles (qualification Q1, metric cost).
const (
	RoleAgent      = "agent"
	RoleRouter     = "router"
	RoleReasoner   = "reasoner"
	RoleSpecialist = "specialist"
	RoleReviewer   = "reviewer"
	RoleJudge      = "judge"
	RoleUser       = "user"
)

// ToolUse names a tool and its canonical JSON arguments.
type ToolUse struct {
	Tool string `json:"tool"`
	Args Text   `json:"args"`
}

// Request is what a model is asked. Tools are names; the runtime adds their
// schemas. Format names the reply format the prompt asks for (protocol.go).
type Request struct {
	Format   string    `json:"format"`
	System   Text      `json:"system"`
	Messages []Message `json:"messages"`
	Tools    []string  `json:"tools,omitempty"`
}

// Message roles.
const (
	MsgUser      = "user"
	MsgAssistant = "assistant"
	MsgTool      = "tool"
)

// Message is one entry of a conversation. From is the speaker of a user
// message ("ana (owner)"), rendered as a first line by the provider.
type Message struct {
	Role       string     `json:"role"`
	From       string     `json:"from,omitempty"`
	Text       Text       `json:"text"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// Texts lists every text of the request, for sealing and loading.
func (r *Request) Texts() []*Text {
	ts := []*Text{&r.System}
	for i := range r.Messages {
		m := &r.Messages[i]
		ts = append(ts, &m.Text)
		for j := range m.ToolCalls {
			ts = append(ts, &m.ToolCalls[j].Args)
		}
	}
	return ts
}

// Say is a message in the room. ID is stable (R57): the outbox delivers it at
// least once and the host drops repeats. Via is the tool for messages a tool
// sent, empty for a participant's own words.
type Say struct {
	ID     string   `json:"id"`
	From   string   `json:"from"`
	To     []string `json:"to,omitempty"`
	Status string   `json:"status,omitempty"` // turn status: done, blocked, question, answer
	Text   Text     `json:"text"`
}

// Claim says that By holds the owner's work for complete (DESIGN §5).
type Claim struct {
	By   string `json:"by"`
	Text Text   `json:"text"`
}

// Artifact is one version of a named room artifact. Versions of one name
// count from 1 without gaps.
type Artifact struct {
	Name    string `json:"name"`
	Version int    `json:"version"`
	By      string `json:"by"`
	Task    string `json:"task,omitempty"`
	Text    Text   `json:"text"`
}

// Timer asks for an EvTimer at trial time AtUS (microseconds).
type Timer struct {
	ID   string `json:"id"`
	AtUS int64  `json:"at_us"`
}

// Note records a decision (plan version, verdict, route, refusal) for people
// and traces. Body is canonical JSON; nothing parses it back as state.
type Note struct {
	Kind string `json:"kind"`
	Body Text   `json:"body"`
}

// End gives the reason why the mode has stopped asking for work: EndGaveUp,
// EndEscalated. A later owner message may start work again.
type End struct {
	Reason string `json:"reason"`
}

// Reasons a machine may give in End.
const (
	EndGaveUp    = "gave_up"
	EndEscalated = "escalated"
	EndBudget    = "budget"
	EndStepLimit = "step_limit"
)

// EndReason is the reason a mode gives when it stops after a turn was blocked
// with a code, the same in all modes. Money that is used up or halted is
// budget; a limit of the room or of the turn is step_limit; what only a person
// can settle (an outcome nobody knows, authority taken away, a cost without
// bound) is escalated; everything else, the agent's own word included (code
// ""), is gave_up.
func EndReason(code string) string {
	switch code {
	case CodeBudgetExhausted, CodeBudgetHalted:
		return EndBudget
	case CodeLimitReached:
		return EndStepLimit
	case CodeUncertain, CodeForbidden, CodeUnboundedCost:
		return EndEscalated
	default:
		return EndGaveUp
	}
}

// Texts lists every text of the command, requests included.
func (c *Command) Texts() []*Text {
	var ts []*Text
	if c.Call != nil {
		if c.Call.Request != nil {
			ts = append(ts, c.Call.Request.Texts()...)
		}
		if c.Call.Tool != nil {
			ts = append(ts, &c.Call.Tool.Args)
		}
	}
	if c.Say != nil {
		ts = append(ts, &c.Say.Text)
	}
	if c.Claim != nil {
		ts = append(ts, &c.Claim.Text)
	}
	if c.Artifact != nil {
		ts = append(ts, &c.Artifact.Text)
	}
	if c.Note != nil {
		ts = append(ts, &c.Note.Body)
	}
	if c.Post != nil {
		ts = append(ts, &c.Post.Text)
	}
	return ts
}
