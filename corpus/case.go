package corpus

// Schema of a case file.
const Schema = "qualify/case/v1"

// Splits of a corpus.
const (
	SplitDev     = "dev"
	SplitHoldout = "holdout"
)

// Case is one parsed and checked case file. It is immutable after loading and
// safe to share between goroutines.
type Case struct {
	Schema string   `yaml:"schema" json:"schema"`
	ID     string   `yaml:"id" json:"id"`
	Family string   `yaml:"family" json:"family"`
	Split  string   `yaml:"split" json:"split"`
	Title  string   `yaml:"title" json:"title"`
	Tags   []string `yaml:"tags" json:"tags,omitempty"`
	Room   Room     `yaml:"room" json:"room"`
	World  World    `yaml:"world" json:"world"`
	Tools  []Tool   `yaml:"tools" json:"tools"`
	Owner  Owner    `yaml:"owner" json:"owner"`
	Faults []Fault  `yaml:"faults" json:"faults,omitempty"`

	file string
}

// Room is what the participants are told.
type Room struct {
	Goal     string      `yaml:"goal" json:"goal"`
	Owner    Person      `yaml:"owner" json:"owner"`
	Agents   []Agent     `yaml:"agents" json:"agents"`
	Criteria []Criterion `yaml:"criteria" json:"criteria"`
	Limits   Limits      `yaml:"limits" json:"limits"`
}

// Person is the owner of the room.
type Person struct {
	ID   string `yaml:"id" json:"id"`
	Name string `yaml:"name" json:"name"`
}

// Roles of agents.
const (
	RoleSpecialist = "specialist"
	RoleReviewer   = "reviewer"
)

// Agent is one participant. Two participants may share one agent identity.
type Agent struct {
	ID          string   `yaml:"id" json:"id"`
	Agent       string   `yaml:"agent" json:"agent"`
	Role        string   `yaml:"role" json:"role"`
	Description string   `yaml:"description" json:"description"`
	Aliases     []string `yaml:"aliases" json:"aliases,omitempty"`
	Tools       []string `yaml:"tools" json:"tools"`
}

// Criterion is one thing the owner judges, in words only.
type Criterion struct {
	ID   string `yaml:"id" json:"id"`
	Text string `yaml:"text" json:"text"`
}

// Limits of one trial, the same in every arm.
type Limits struct {
	Budget     Money `yaml:"budget_usd" json:"budget_micros"`
	ModelCalls int   `yaml:"model_calls" json:"model_calls"`
	ToolCalls  int   `yaml:"tool_calls" json:"tool_calls"`
	Minutes    int   `yaml:"minutes" json:"minutes"`
	Parallel   int   `yaml:"parallel" json:"parallel"`
}

// World holds the documents at the start of a trial.
type World struct {
	Documents map[string]Value `yaml:"documents" json:"documents"`
}

// Tool is one declarative tool.
type Tool struct {
	Name        string   `yaml:"name" json:"name"`
	Action      string   `yaml:"action" json:"action"` // engine.ActionRead, ActionDraft, ActionWrite
	Description string   `yaml:"description" json:"description"`
	Params      Value    `yaml:"params" json:"params"` // JSON Schema of the arguments
	Op          Op       `yaml:"op" json:"op"`
	Identity    Identity `yaml:"identity" json:"identity"`

	args *ArgSchema
}

// Args checks the tool's arguments; compiled once, when the case is loaded.
func (t *Tool) Args() *ArgSchema { return t.args }

// Identity says what makes two calls of a tool the same effect: the values of
// the target fields name the thing acted on, volatile fields do not count.
type Identity struct {
	Target   []string `yaml:"target" json:"target,omitempty"`
	Volatile []string `yaml:"volatile" json:"volatile,omitempty"`
}

// Kinds of operations.
const (
	OpQuery  = "query"
	OpGet    = "get"
	OpInsert = "insert"
	OpUpdate = "update"
	OpDelete = "delete"
	OpSend   = "send"
)

// OpKinds lists the kinds of operations.
func OpKinds() []string { return []string{OpQuery, OpGet, OpInsert, OpUpdate, OpDelete, OpSend} }

// Reactions of an operation to a value that is missing or already there.
const (
	OnError   = "error"
	OnKeep    = "keep"
	OnReplace = "replace"
	OnCreate  = "create"
	OnIgnore  = "ignore"
)

// Op is the operation of a tool; the package comment tells which fields go
// with which kind.
type Op struct {
	Kind    string           `yaml:"kind" json:"kind"`
	From    string           `yaml:"from" json:"from,omitempty"`
	At      string           `yaml:"at" json:"at,omitempty"`
	Where   map[string]Value `yaml:"where" json:"where,omitempty"`
	Fields  []string         `yaml:"fields" json:"fields,omitempty"`
	Value   Value            `yaml:"value" json:"value,omitempty"`
	Exists  string           `yaml:"exists" json:"exists,omitempty"`
	Set     map[string]Value `yaml:"set" json:"set,omitempty"`
	Missing string           `yaml:"missing" json:"missing,omitempty"`
	To      string           `yaml:"to" json:"to,omitempty"`
	Text    string           `yaml:"text" json:"text,omitempty"`
}

// Reads reports whether the operation never has an effect.
func (o Op) Reads() bool { return o.Kind == OpQuery || o.Kind == OpGet }

// Owner is the script of the room's owner.
type Owner struct {
	ThinkSeconds int          `yaml:"think_seconds" json:"think_seconds"`
	Messages     []Say        `yaml:"messages" json:"messages"`
	Corrections  []Correction `yaml:"corrections" json:"corrections,omitempty"`
	Patience     int          `yaml:"patience" json:"patience"`
}

// Say is one message of the owner. Without When it is said at the start.
type Say struct {
	ID   string `yaml:"id" json:"id"`
	Type string `yaml:"type" json:"type,omitempty"` // engine.Msg…; request when empty
	Text string `yaml:"text" json:"text"`
	When *When  `yaml:"when" json:"when,omitempty"`
}

// Correction is a message of the owner that counts against patience, said at
// most Max times.
type Correction struct {
	ID   string `yaml:"id" json:"id"`
	Type string `yaml:"type" json:"type"` // engine.Msg…, not request or reply
	Text string `yaml:"text" json:"text"`
	When *When  `yaml:"when" json:"when"`
	Max  int    `yaml:"max" json:"max"`
}

// Triggers of owner messages.
const (
	AfterClaim   = "claim"
	AfterMessage = "message"
	AfterTime    = "time"
)

// Words that stand for the state of a document path in place of a value.
const (
	Absent  = "absent"
	Present = "present"
)

// When is a condition on what an owner can see. It never reads plan or mode.
type When struct {
	After    string `yaml:"after" json:"after"`
	Seconds  int    `yaml:"seconds" json:"seconds,omitempty"` // after: time
	Document string `yaml:"document" json:"document,omitempty"`
	Is       Value  `yaml:"is" json:"is,omitempty"`
	IsNot    Value  `yaml:"is_not" json:"is_not,omitempty"`
	Contains string `yaml:"contains" json:"contains,omitempty"` // after: message; compared without regard to case
}

// Kinds of faults.
const (
	FaultErrorBeforeCommit  = "error_before_commit"
	FaultLostBeforeCommit   = "lost_before_commit"
	FaultAckLostAfterCommit = "ack_lost_after_commit"
	FaultSlow               = "slow"
	FaultStaleRead          = "stale_read"
)

// FaultKinds lists the kinds of faults.
func FaultKinds() []string {
	return []string{FaultErrorBeforeCommit, FaultLostBeforeCommit, FaultAckLostAfterCommit, FaultSlow, FaultStaleRead}
}

// Fault strikes the nth call (Call, from 1) on a tool, or on one target of it.
type Fault struct {
	ID     string  `yaml:"id" json:"id"`
	Tool   string  `yaml:"tool" json:"tool"`
	Target *string `yaml:"target" json:"target,omitempty"`
	Call   int     `yaml:"call" json:"call"`
	Kind   string  `yaml:"kind" json:"kind"`
	Factor int     `yaml:"factor" json:"factor,omitempty"` // slow only
}

// File is the path the case was read from, relative to the corpus.
func (c *Case) File() string { return c.file }

// Tool returns the named tool.
func (c *Case) Tool(name string) (*Tool, bool) {
	for i := range c.Tools {
		if c.Tools[i].Name == name {
			return &c.Tools[i], true
		}
	}
	return nil, false
}

// Agent returns the named participant.
func (c *Case) Agent(id string) (*Agent, bool) {
	for i := range c.Room.Agents {
		if c.Room.Agents[i].ID == id {
			return &c.Room.Agents[i], true
		}
	}
	return nil, false
}
