package planner

import (
	"strconv"

	"github.com/agentrooms/qualify/engine"
)

// Kinds of the notes a planner records (R68).
const (
	NoteObjective  = "objective" // a move of the status table, with its trigger
	NotePlan       = "plan"      // a new plan version, whole
	NoteRefused    = "plan_refused"
	NoteDecision   = "decision"  // an accepted decision with its explanation
	NoteStale      = "stale"     // a proposal bound to revisions that have moved (R23)
	NoteAttention  = "attention" // an event that interpretation gave up on
	NoteUnknown    = "interpretation_unknown"
	NoteFailed     = "interpretation_failed"
	NoteRejected   = "rejected" // an event that may not do what it asked (R12, R17, R18)
	NoteTask       = "task"     // a task completed, failed or was cancelled
	NoteLate       = "evidence_only"
	NoteReplan     = "replan" // a replan is needed, with its reason
	NoteReview     = "review" // reviewers asked
	NoteInvalid    = "review_invalid"
	NoteVerdict    = "verdict"
	NoteRoute      = "route" // explicit references
	NoteCorrection = "owner_correction"
	NoteBlocked    = "blocked" // a refusal that stops new work (R64)
	NoteStray      = "stray"   // an outcome of an operation that nothing waits for
	NoteCommand    = "command" // an owner's command and its answer (R69)
	NoteHeld       = "pending_readmission"
	NoteReadmitted = "readmitted"
	NoteReconciled = "reconciled"
	NoteStalled    = "stalled" // a task whose call was refused; it goes on when calls can be made (R64)
)

// turn is the work of folding one event: the commands so far and the facts
// that came with it.
type turn struct {
	ev   engine.Event
	cmds []engine.Command
}

func (t *turn) add(cmds ...engine.Command) { t.cmds = append(t.cmds, cmds...) }

// note records a decision. body is a struct or map of JSON values.
func (t *turn) note(kind string, body any) error {
	b, err := engine.Canonical(body)
	if err != nil {
		return err
	}
	t.add(engine.Command{Kind: engine.CmdNote, Note: &engine.Note{Kind: kind, Body: engine.JSONText(b)}})
	return nil
}

// eligible reports whether a participant is authorized now, as the runtime
// resolved it for this event (R12). Without facts everybody is.
func (t *turn) eligible(id string) bool {
	if t.ev.Facts == nil {
		return true
	}
	for _, e := range t.ev.Facts.Eligible {
		if e == id {
			return true
		}
	}
	return false
}

// say tells the owner something. The id is stable: it is a digest of the cause
// (R10, R57).
func (m *Machine) say(t *turn, from, status, text string, cause ...string) {
	t.add(engine.Command{Kind: engine.CmdSay, Say: &engine.Say{
		ID:   engine.StableID("msg_", append([]string{from}, cause...)...),
		From: from, To: []string{m.spec.Owner}, Status: status, Text: engine.Plain(text),
	}})
}

// post writes what the planner does and why as a message of the coordinator
// that everybody in the room can read (R68). It is information: nothing reads
// it back. The id is a digest of the cause.
func (m *Machine) post(t *turn, text string, cause ...string) {
	from := m.spec.Coordinator
	t.add(engine.Command{Kind: engine.CmdPost, Post: &engine.Say{
		ID: engine.StableID("post_", append([]string{from}, cause...)...), From: from, Text: engine.Plain(cutBytes(text, maxPost)),
	}})
}

// notify tells the owner that the planner needs a person, and ends asking for
// work once nothing is in flight.
func (m *Machine) notify(t *turn, text string, cause ...string) {
	m.say(t, m.spec.Coordinator, engine.StatusBlocked, text, cause...)
	m.st.Halt = engine.EndEscalated
}

// move applies one row of the status table and records it with its cause
// (R63).
func (m *Machine) move(t *turn, o *objective, trigger Trigger, cause string) error {
	from := o.Status
	to, err := from.Next(trigger)
	if err != nil {
		return err
	}
	if to == "" {
		to = o.Before
	}
	o.Before = ""
	if to == StatusPaused {
		o.Before = from
	}
	o.Status = to
	return t.note(NoteObjective, map[string]any{"objective": o.ID, "from": from, "to": to, "trigger": trigger, "cause": cause})
}

func itoa(n int) string { return strconv.Itoa(n) }
