package engine

import "encoding/json"

// Conventions between prompts and models. A prompt asks for one of these
// reply formats by name; every provider, real or simulated, is sent the same
// messages. Requests of format plan, review and route end with one user
// message that holds the JSON document named beside the format.
const (
	FormatTurn   = "turn/v1"   // reply: TurnReply, or tool calls
	FormatPlan   = "plan/v1"   // last user message: PlanRequest; reply: PlanEnvelope
	FormatReview = "review/v1" // last user message: ReviewRequest; reply: ReviewReply
	FormatRoute  = "route/v1"  // last user message: RouteRequest; reply: RouteReply
)

// Lines of the system prompt of a turn that carry facts. Prompts print them
// exactly so; each list entry is "- id: description".
const (
	PromptYouAre     = "You are: "    // followed by the participant id
	PromptCriteria   = "Criteria:"    // list of criteria follows
	PromptColleagues = "Colleagues:"  // list of participants that @id starts follows; absent when alone
	PromptTools      = "Your tools: " // comma-separated tool names
)

// Statuses that end a session's turn, parsed the same way in all modes.
const (
	StatusDone     = "done"     // a claim
	StatusBlocked  = "blocked"  // cannot go on
	StatusQuestion = "question" // waits for an answer
	StatusAnswer   = "answer"   // a message; a claim only while no objective is open
)

// TurnReply ends a session's turn: a JSON object and nothing else.
type TurnReply struct {
	Status   string        `json:"status"`
	Text     string        `json:"text"`
	Artifact *ArtifactText `json:"artifact,omitempty"`
}

// ArtifactText is a document that a turn delivers to the room.
type ArtifactText struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Texts the runtime and session put in place of a tool result; every mode
// shows them alike.
const (
	ToolErrorPrefix   = "Error: "
	ToolUnknownResult = "Outcome unknown: no reply came. The call may or may not have taken effect."
)

// Criterion is one thing the owner will judge, in words only.
type Criterion struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// Participant is an agent of the room as prompts show it.
type Participant struct {
	ID          string   `json:"id"`
	Agent       string   `json:"agent"` // agent identity; two participants may share one
	Role        string   `json:"role"`  // specialist or reviewer
	Description string   `json:"description"`
	Aliases     []string `json:"aliases,omitempty"`
	Tools       []string `json:"tools"`
}

// PlanRequest is what a coordinator is shown (R22).
type PlanRequest struct {
	Schema            string         `json:"schema"` // FormatPlan
	Goal              string         `json:"goal"`
	Criteria          []Criterion    `json:"criteria"`
	Participants      []Participant  `json:"participants"` // currently eligible
	ObjectiveID       string         `json:"objective_id,omitempty"`
	ObjectiveRevision int            `json:"objective_revision"`
	ControlRevision   int            `json:"control_revision"`
	PlanVersion       int            `json:"plan_version"` // current version, 0 when none
	Messages          []PlanMessage  `json:"messages"`     // owner messages, oldest first
	Progress          []TaskProgress `json:"progress"`     // engine-owned (R22)
	Review            *ReviewReply   `json:"review,omitempty"`
	Feedback          []PlanIssue    `json:"feedback,omitempty"` // bounded repair feedback (R27)
	Reason            string         `json:"reason"`             // message, task_failed, review_unmet, resumed, reconciled, repair
	// Objectives are the heads of all open objectives, when there are several or
	// one does not cover every criterion (R7). The fields above describe the one
	// that the event most likely is about.
	Objectives []ObjectiveHead `json:"objectives,omitempty"`
}

// ObjectiveHead is an open objective as a coordinator is shown it.
type ObjectiveHead struct {
	ID                string   `json:"id"`
	Title             string   `json:"title"`
	Status            string   `json:"status"`
	ObjectiveRevision int      `json:"objective_revision"`
	ControlRevision   int      `json:"control_revision"`
	PlanVersion       int      `json:"plan_version"`
	Criteria          []string `json:"criteria"` // ids
}

// PlanMessage is one message a coordinator is shown.
type PlanMessage struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	From string `json:"from"`
	Text string `json:"text"`
}

// TaskProgress is the engine's own account of one task.
type TaskProgress struct {
	Task        string         `json:"task"`
	Step        string         `json:"step"`
	Participant string         `json:"participant"`
	Instruction string         `json:"instruction"`
	Criteria    []string       `json:"criteria"`
	Status      string         `json:"status"` // waiting, running, completed, failed, cancelled
	Current     bool           `json:"current"`
	Result      string         `json:"result,omitempty"`
	Calls       []CallEvidence `json:"calls,omitempty"`

	// The rest of the step as admitted: a successor plan that keeps the task's
	// identity must repeat it unchanged (R29, R30).
	ExpectedOutput string   `json:"expected_output,omitempty"`
	ArtifactKind   string   `json:"artifact_kind,omitempty"`
	Deps           []string `json:"deps,omitempty"` // step keys
	ActionLevel    string   `json:"action_level,omitempty"`
	Tools          []string `json:"tools,omitempty"`
	Report         bool     `json:"report,omitempty"`
	Objective      string   `json:"objective,omitempty"` // set when several objectives are open
}

// CallEvidence is one tool call as evidence.
type CallEvidence struct {
	Tool    string          `json:"tool"`
	Args    json.RawMessage `json:"args"`
	Outcome string          `json:"outcome"` // ok, error, unknown
	Result  string          `json:"result,omitempty"`
}

// Decisions of a PlanEnvelope.
const (
	DecideAnswer     = "answer"
	DecideObjective  = "create_objective"
	DecideRevisePlan = "revise_plan"
	DecideAskUser    = "ask_user"
	DecideWait       = "wait"
	DecideChallenge  = "challenge"
	DecideExplain    = "explain"
	DecideNoop       = "noop"
)

// PlanEnvelope is a coordinator's proposal. It binds the exact revisions it
// was shown (R23) and is independent of any report format (R24).
type PlanEnvelope struct {
	Schema                 string        `json:"schema"` // FormatPlan
	BoundObjectiveRevision int           `json:"bound_objective_revision"`
	BoundControlRevision   int           `json:"bound_control_revision"`
	Decision               string        `json:"decision"`
	Title                  string        `json:"title,omitempty"`
	Plan                   []PlanStep    `json:"plan,omitempty"`
	Text                   string        `json:"text,omitempty"`
	Artifact               *ArtifactText `json:"artifact,omitempty"`
	Explanation            string        `json:"explanation"`
	// ObjectiveID addresses one of several open objectives; empty means the one
	// that the request describes (R7).
	ObjectiveID string `json:"objective_id,omitempty"`
	// Criteria are the ids of the room's criteria that a new objective is to
	// meet; empty means all of them.
	Criteria []string `json:"criteria,omitempty"`
}

// PlanStep is one step of a proposed plan (R8).
type PlanStep struct {
	Key            string   `json:"key"`
	TaskID         string   `json:"task_id,omitempty"` // set only to keep a completed task's identity (R29)
	Participant    string   `json:"participant"`
	Instruction    string   `json:"instruction"`
	ExpectedOutput string   `json:"expected_output"`
	ArtifactKind   string   `json:"artifact_kind,omitempty"`
	Deps           []string `json:"deps"`
	ActionLevel    string   `json:"action_level"` // read, draft, write
	Tools          []string `json:"tools"`
	Criteria       []string `json:"criteria"`
	Report         bool     `json:"report"`
}

// PlanIssue is one reason a proposal was refused (R27).
type PlanIssue struct {
	Code string `json:"code"`
	Step string `json:"step,omitempty"`
	Text string `json:"text"`
}

// ReviewRequest is what a reviewer is shown (R51).
type ReviewRequest struct {
	Schema            string         `json:"schema"` // FormatReview
	Report            ReportRef      `json:"report"`
	ReportText        string         `json:"report_text"`
	Criteria          []Criterion    `json:"criteria"`
	CriteriaRevision  int            `json:"criteria_revision"`
	ObjectiveRevision int            `json:"objective_revision"`
	ControlRevision   int            `json:"control_revision"`
	Messages          []PlanMessage  `json:"messages"` // what the owner asked for
	Evidence          []TaskProgress `json:"evidence"`
}

// ReportRef names the exact report under review.
type ReportRef struct {
	Ref       string `json:"ref"`
	Version   int    `json:"version"`
	SourceSet string `json:"source_set"` // digest of sorted (ref, version, digest)
}

// ReviewReply is a reviewer's verdict.
type ReviewReply struct {
	Schema   string             `json:"schema"` // FormatReview
	Report   ReportRef          `json:"report"`
	Verdicts []CriterionVerdict `json:"verdicts"`
}

// Verdicts of one criterion.
const (
	VerdictMet     = "met"
	VerdictUnmet   = "unmet"
	VerdictUnknown = "unknown"
)

// CriterionVerdict judges one criterion.
type CriterionVerdict struct {
	Criterion string `json:"criterion"`
	Verdict   string `json:"verdict"`
	Evidence  string `json:"evidence"`
}

// RouteRequest is what a router is shown (C6, C7).
type RouteRequest struct {
	Schema     string        `json:"schema"` // FormatRoute
	Goal       string        `json:"goal"`
	Message    PlanMessage   `json:"message"`
	Candidates []Participant `json:"candidates"`
}

// RouteReply selects one candidate, or none ("").
type RouteReply struct {
	Participant string `json:"participant"`
	Reason      string `json:"reason"`
}
