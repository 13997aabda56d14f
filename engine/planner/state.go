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
	Revision  int            `json:"revision"`  // objectiveRevision of the room's objectives: only grows
	Objective *objective     `json:"objective"` // open or last completed
	Tasks     room.Tasks     `json:"tasks"`     // current and running ones
	Works     []*work        `json:"works"`     // current tasks, in plan order
	Orphans   []*work        `json:"orphans"`   // superseded, one operation still in flight
	History   []*work        `json:"history"`   // superseded with evidence, oldest first
	TaskIDs   []keptTask     `json:"task_ids"`  // other ids seen; IdentityObjective only
	Artifacts room.Artifacts `json:"artifacts"`
	Talks     []*talk        `json:"talks"` // conversations by explicit reference
	Handovers int            `json:"handovers"`
	Claim     string         `json:"claim"` // who claimed, "" when no claim stands
	Blocked   string         `json:"blocked"`
	Halt      string         `json:"halt"` // reason to End once nothing is in flight
	Ended     bool           `json:"ended"`
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
}

// interpreting is the one interpretation in flight, with the head it was shown
// (R23).
type interpreting struct {
	Event             string       `json:"event"`
	Key               engine.OpKey `json:"key"`
	Seq               int          `json:"seq"` // inbox sequence observed
	ObjectiveRevision int          `json:"objective_revision"`
	ControlRevision   int          `json:"control_revision"`
	PlanVersion       int          `json:"plan_version"`
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

// open is the objective that is not terminal, if any.
func (s *state) open() *objective {
	if s.Objective == nil || s.Objective.Status.Terminal() {
		return nil
	}
	return s.Objective
}

func (s *state) work(taskID string) *work {
	for _, w := range s.Works {
		if w.Step.TaskID == taskID {
			return w
		}
	}
	return nil
}

// taskStatus of a step: "" while its task does not exist yet (R33).
func (s *state) taskStatus(taskID string) room.TaskStatus { return s.Tasks[taskID].Status }

// ownerWaits reports an owner event that no accepted decision has consumed.
func (s *state) ownerWaits() bool {
	for i := range s.Inbox {
		if s.Inbox[i].Origin == OriginOwner {
			return true
		}
	}
	return false
}

// interpretable reports an entry of the origin that is pending or being
// interpreted.
func (s *state) interpretable(o Origin) bool {
	for i := range s.Inbox {
		e := &s.Inbox[i]
		if e.Origin == o && (e.Status == EntryPending || e.Status == EntryInterpreting) {
			return true
		}
	}
	return false
}

// atWork counts sessions with an operation in flight.
func (s *state) atWork() int {
	n := 0
	for _, w := range s.Works {
		if w.Session != nil && !w.Session.Idle() {
			n++
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
	if s.Objective != nil && s.Objective.Report != nil {
		for i := range s.Objective.Report.Slots {
			if s.Objective.Report.Slots[i].Key != nil {
				return false
			}
		}
	}
	return true
}
