package planner

import (
	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/room"
	"github.com/agentrooms/qualify/engine/session"
)

// state is what a snapshot holds: open work and what the current rules need.
// Consumed inbox entries, older plan versions and settled operations are in
// the rows only.
type state struct {
	Seq       int            `json:"seq"` // inbox sequence, grows with every entry
	Inbox     []entry        `json:"inbox"`
	Messages  []heard        `json:"messages"` // newest maxShownMessages, oldest first
	Interpret *interpreting  `json:"interpret"`
	Revision  int            `json:"revision"` // newest objectiveRevision given in the room: only grows
	Open      []*objective   `json:"open"`     // objectives that are not terminal, oldest first
	Past      *objective     `json:"past"`     // last completed one, for a successor to continue
	Closed    []closed       `json:"closed"`   // newest maxClosed terminal ones, to answer commands
	Tasks     room.Tasks     `json:"tasks"`    // current and running ones
	Orphans   []*work        `json:"orphans"`  // superseded, one operation still in flight
	History   []*work        `json:"history"`  // superseded with evidence, oldest first
	Artifacts room.Artifacts `json:"artifacts"`
	Talks     []*talk        `json:"talks"` // conversations by explicit reference
	Handovers int            `json:"handovers"`
	Met       []string       `json:"met"`   // criteria that completed objectives meet, sorted
	Claim     string         `json:"claim"` // who claimed, "" when no claim stands
	Blocked   string         `json:"blocked"`
	Halt      string         `json:"halt"` // reason to End once nothing is in flight
	Ended     bool           `json:"ended"`
}

// closed is a terminal objective: what a later command on it is told.
type closed struct {
	ID      string `json:"id"`
	Status  Status `json:"status"`
	Control int    `json:"control_revision"`
}

// heard is one persisted message.
type heard struct {
	ID   string      `json:"id"`
	Type string      `json:"type"`
	From string      `json:"from"`
	Text engine.Text `json:"text"`
}

// EntryStatus is the state of an inbox entry (R14); consumed and rejected ones
// leave the state.
type EntryStatus string

// Entry states kept.
const (
	EntryPending      EntryStatus = "pending"
	EntryInterpreting EntryStatus = "interpreting"
	EntryAwaiting     EntryStatus = "awaiting_reconciliation" // R28
	EntryAttention    EntryStatus = "attention"
)

// Origin says where an inbox entry comes from (R14).
type Origin string

// Origins.
const (
	OriginOwner       Origin = "owner"
	OriginParticipant Origin = "participant"
	OriginInternal    Origin = "internal"
)

// entry is one inbox entry.
type entry struct {
	Event    string             `json:"event"`
	Seq      int                `json:"seq"`
	Origin   Origin             `json:"origin"`
	Reason   string             `json:"reason"` // PlanRequest.Reason
	Status   EntryStatus        `json:"status"`
	Issued   int                `json:"issued"` // operations so far: the next attempt number
	Spent    int                `json:"spent"`  // interpretations that count for MaxInterpretations
	Feedback []engine.PlanIssue `json:"feedback"`
	// Objective that the entry is about: always for internal ones, else only
	// when the message named it.
	Objective string `json:"objective,omitempty"`
	Op        string `json:"op,omitempty"` // of unknown outcome, while awaiting reconciliation
}

// about reports whether an entry may concern an objective.
func (e *entry) about(o *objective) bool { return e.Objective == "" || e.Objective == o.ID }

// interpreting is the one interpretation in flight, with the heads it was
// shown (R23).
type interpreting struct {
	Event    string       `json:"event"`
	Key      engine.OpKey `json:"key"`
	Seq      int          `json:"seq"`      // inbox sequence observed
	Revision int          `json:"revision"` // of the room
	Focus    string       `json:"focus"`    // objective that the request described, "" for none
	Heads    []head       `json:"heads"`    // of the open objectives and the last completed one
	// What the reasoner was told to bind when it addresses nothing else.
	ObjectiveRevision int `json:"objective_revision"`
	ControlRevision   int `json:"control_revision"`
}

// head is what a proposal on one objective is bound to (R23).
type head struct {
	ID                string `json:"id"`
	ObjectiveRevision int    `json:"objective_revision"`
	ControlRevision   int    `json:"control_revision"`
	PlanVersion       int    `json:"plan_version"`
}

// head of an objective as interpreted, if it was shown.
func (in *interpreting) head(id string) (head, bool) {
	for _, h := range in.Heads {
		if h.ID == id {
			return h, true
		}
	}
	return head{}, false
}

// work is a task's content beside its Room task: result, evidence, session.
type work struct {
	Step    Step             `json:"step"`
	Version int              `json:"version"` // plan version that created it
	Agent   string           `json:"agent"`   // agent identity of the author
	Status  room.TaskStatus  `json:"status"`  // of history entries; current ones are in Tasks
	Result  string           `json:"result"`
	Reason  string           `json:"reason"`
	Calls   []call           `json:"calls"`
	Session *session.Session `json:"session"`

	Objective string   `json:"objective"`
	Control   int      `json:"control_revision"`  // its operation in flight is bound to (R44)
	Held      bool     `json:"held,omitempty"`    // its last outcome waits for readmission
	Stalled   string   `json:"stalled,omitempty"` // code of the refusal that stopped it (R64)
	Unknown   []string `json:"unknown,omitempty"` // operations of unknown outcome, not reconciled
}

// busy reports that the task's operation is in flight.
func (w *work) busy() bool { return w.Session != nil && !w.Session.Idle() && !w.Held }

// held is a result that finished after a control change: charged and stored,
// without any effect until its owner readmits it (R44).
type held struct {
	Op      string       `json:"op"`
	Task    string       `json:"task"` // task id, or the report's reference
	Control int          `json:"bound_control_revision"`
	Event   engine.Event `json:"event"` // texts by reference
}

// call is one tool call as evidence, texts as the event carried them.
type call struct {
	Tool    string      `json:"tool"`
	Args    engine.Text `json:"args"`
	Outcome string      `json:"outcome"`
	Result  engine.Text `json:"result"`
	Write   bool        `json:"write"`
}

// talk is a participant's conversation that explicit references started.
type talk struct {
	Participant string           `json:"participant"`
	Session     *session.Session `json:"session"`
	Calls       []call           `json:"calls"` // newest maxTalkCalls, as evidence
	Said        string           `json:"said"`  // its last closing words
}

// report is one report version under review (R50-R53).
type report struct {
	Ref               engine.ReportRef    `json:"ref"`
	Text              string              `json:"text"`
	Output            string              `json:"output"` // outputDigest
	ObjectiveRevision int                 `json:"objective_revision"`
	ControlRevision   int                 `json:"control_revision"`
	CriteriaRevision  int                 `json:"criteria_revision"`
	InboxSeq          int                 `json:"inbox_seq"`
	Slots             []slot              `json:"slots"`
	Verdict           *engine.ReviewReply `json:"verdict"`
	Applied           bool                `json:"applied"` // its consequences have been drawn
}

// slot is one reviewer's part of a review.
type slot struct {
	Reviewer string              `json:"reviewer"`
	Agent    string              `json:"agent"`
	Issued   int                 `json:"issued"` // operations so far
	Spent    int                 `json:"spent"`  // calls that count for MaxReviewCalls
	Invalid  int                 `json:"invalid"`
	Key      *engine.OpKey       `json:"key"` // in flight
	Reply    *engine.ReviewReply `json:"reply"`
	Gone     bool                `json:"gone"` // lost authority before dispatch
	Control  int                 `json:"control_revision"`
	Held     bool                `json:"held,omitempty"` // its outcome waits for readmission
}

func (s *state) entry(event string) *entry {
	for i := range s.Inbox {
		if s.Inbox[i].Event == event {
			return &s.Inbox[i]
		}
	}
	return nil
}

func (s *state) dropEntry(event string) {
	for i := range s.Inbox {
		if s.Inbox[i].Event == event {
			s.Inbox = append(s.Inbox[:i:i], s.Inbox[i+1:]...)
			return
		}
	}
}

// find is an open objective by id, nil when there is none.
func (s *state) find(id string) *objective {
	for _, o := range s.Open {
		if o.ID == id {
			return o
		}
	}
	return nil
}

// taskStatus of a step: "" while its task does not exist yet (R33).
func (s *state) taskStatus(taskID string) room.TaskStatus { return s.Tasks[taskID].Status }

// ownerWaits reports an owner event that may concern the objective and that no
// accepted decision has consumed; with nil, any owner event.
func (s *state) ownerWaits(o *objective) bool {
	for i := range s.Inbox {
		if e := &s.Inbox[i]; e.Origin == OriginOwner && (o == nil || e.about(o)) {
			return true
		}
	}
	return false
}

// interpretable reports an entry of the origin that may concern the objective
// and that is pending or being interpreted.
func (s *state) interpretable(origin Origin, o *objective) bool {
	for i := range s.Inbox {
		e := &s.Inbox[i]
		if e.Origin == origin && e.about(o) && (e.Status == EntryPending || e.Status == EntryInterpreting) {
			return true
		}
	}
	return false
}

// atWork counts sessions with an operation in flight.
func (s *state) atWork() int {
	n := 0
	for _, o := range s.Open {
		for _, w := range o.Works {
			if w.busy() {
				n++
			}
		}
	}
	for _, t := range s.Talks {
		if !t.Session.Idle() {
			n++
		}
	}
	return n
}

// idle reports that no operation is in flight.
func (s *state) idle() bool {
	if s.Interpret != nil || s.atWork() > 0 || len(s.Orphans) > 0 {
		return false
	}
	for _, o := range s.Open {
		if o.Report != nil && o.Report.asking() {
			return false
		}
	}
	return true
}
