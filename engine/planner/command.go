package planner

import (
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/room"
)

// onCommand carries out an owner's command and answers it (R43, R44, R69). A
// key that has been answered before changes nothing: the same request gets the
// same answer, another one CONFLICT.
func (m *Machine) onCommand(t *turn) error {
	c := t.ev.Command
	if c == nil {
		return fmt.Errorf("kind %s has no command", t.ev.Kind)
	}
	digest, err := c.Digest()
	if err != nil {
		return err
	}
	a := engine.Answer{Key: c.Key, Digest: digest, Objective: c.Objective}
	if e := c.Earlier; e != nil {
		if e.Digest == digest {
			a = *e
		} else {
			refuse(&a, engine.CodeConflict, "the key "+c.Key+" was used for another command")
		}
		a.Repeated = true
		t.add(engine.Command{Kind: engine.CmdAnswer, Answer: &a})
		return nil
	}
	if !m.authority.IsOwner(c.From) {
		refuse(&a, engine.CodeForbidden, c.From+" is not the owner")
	} else if err := m.order(t, c, &a); err != nil {
		return err
	}
	if a.Code == "" {
		m.st.Ended = false
	}
	if err := t.note(NoteCommand, map[string]any{"kind": c.Kind, "from": c.From, "key": c.Key, "objective": a.Objective, "op": c.Op, "code": a.Code, "why": a.Reason}); err != nil {
		return err
	}
	t.add(engine.Command{Kind: engine.CmdAnswer, Answer: &a})
	return nil
}

func refuse(a *engine.Answer, code, reason string) { a.Code, a.Reason = code, reason }

func (m *Machine) order(t *turn, c *engine.OwnerCommand, a *engine.Answer) error {
	switch c.Kind {
	case engine.CommandPause, engine.CommandResume, engine.CommandCancel:
		return m.control(t, c, a)
	case engine.CommandReadmit:
		o, _ := m.st.heldBy(c.Op)
		err := m.readmit(t, c, a)
		if o != nil {
			answerFor(a, o)
		}
		return err
	case engine.CommandGrant:
		return m.grant(t, c, a)
	case engine.CommandReconcile:
		return m.reconcile(t, c, a)
	default:
		refuse(a, engine.CodeValidation, fmt.Sprintf("there is no command %q", c.Kind))
		return nil
	}
}

func answerFor(a *engine.Answer, o *objective) {
	a.Objective, a.Status, a.ControlRevision = o.ID, string(o.Status), o.ControlRevision
}

// expects reports that the owner saw the control revision that the objective
// has; else the answer is STALE_REVISION.
func (m *Machine) expects(o *objective, c *engine.OwnerCommand, a *engine.Answer) bool {
	answerFor(a, o)
	if c.Expected == o.ControlRevision {
		return true
	}
	refuse(a, engine.CodeStaleRevision, fmt.Sprintf("control revision %d was expected, it is %d", c.Expected, o.ControlRevision))
	return false
}

// control pauses, resumes or cancels an objective. Each raises its control
// revision, so that no call bound to the older one has any effect without
// readmission (R6, R43, R44).
func (m *Machine) control(t *turn, c *engine.OwnerCommand, a *engine.Answer) error {
	o := m.st.find(c.Objective)
	if o == nil {
		i := slices.IndexFunc(m.st.Closed, func(x closed) bool { return x.ID == c.Objective })
		if i < 0 {
			refuse(a, engine.CodeNotFound, "there is no objective "+c.Objective)
			return nil
		}
		x := m.st.Closed[i]
		a.Status, a.ControlRevision = string(x.Status), x.Control
		refuse(a, engine.CodeInvalidTransition, "the objective is "+string(x.Status))
		return nil
	}
	if !m.expects(o, c, a) {
		return nil
	}
	trigger := map[string]Trigger{
		engine.CommandPause: TriggerOwnerPause, engine.CommandCancel: TriggerOwnerCancel, engine.CommandResume: TriggerOwnerUnpause,
	}[c.Kind]
	if c.Kind == engine.CommandResume && o.Status.stopped() {
		trigger = TriggerOwnerResume
	}
	if !o.Status.can(trigger) {
		refuse(a, engine.CodeInvalidTransition, fmt.Sprintf("%s is not possible while the objective is %s", c.Kind, o.Status))
		return nil
	}
	o.ControlRevision++
	if err := m.move(t, o, trigger, t.ev.ID); err != nil {
		return err
	}
	m.post(t, fmt.Sprintf("The owner's %s: objective %q is %s now.", c.Kind, o.Title, o.Status), "command", c.Key)
	answerFor(a, o)
	if trigger == TriggerOwnerUnpause {
		m.unpause(o)
	}
	if trigger == TriggerOwnerResume {
		return m.revive(t, o)
	}
	if trigger == TriggerOwnerCancel {
		return m.cancel(t, o)
	}
	return nil
}

// unpause lets the objective go on where it stood. What was admitted before
// the pause stands; calls that the pause overtook are bound to the older
// revision, each by itself.
func (m *Machine) unpause(o *objective) {
	m.st.Halt = ""
	if o.Report != nil {
		o.Report.ControlRevision = o.ControlRevision
	}
}

// revive takes an objective up again that waited for a person: the owner has
// attended to it, so both bounded cycles start again. What was reviewed stays
// reviewed: a judged report is replaced, one that nobody could judge is offered
// again (R35, R53, R54).
func (m *Machine) revive(t *turn, o *objective) error {
	m.st.Halt = ""
	o.BarrenReplans, o.FailedReports = 0, nil
	r := o.Report
	if r != nil && m.allComplete(o) && !r.judged() && !slices.ContainsFunc(r.Slots, func(s slot) bool { return s.Spent >= MaxReviewCalls || s.Invalid > 1 }) {
		r.rebind()
		return nil
	}
	return m.needReplan(t, o, "resumed")
}

// cancel ends an objective. Its tasks lose their authority; calls in flight go
// on to their abort or end, and are charged (R63).
func (m *Machine) cancel(t *turn, o *objective) error {
	st := &m.st
	if err := m.leave(t, o); err != nil {
		return err
	}
	for _, w := range o.Works {
		if err := m.supersede(t, o, w, "the owner cancelled the objective"); err != nil {
			return err
		}
	}
	st.Halt = ""
	if len(st.Open) == 0 && st.Past != nil && st.Claim == "" && !st.ownerWaits(nil) && len(st.Met) == len(m.spec.Criteria) {
		m.claim(t, m.spec.Coordinator, st.Past.Report.Text)
	}
	return nil
}

// grant takes note of a new limit: more money alone lets the loop go on (R40,
// R64).
func (m *Machine) grant(t *turn, c *engine.OwnerCommand, a *engine.Answer) error {
	if c.Total < 0 {
		refuse(a, engine.CodeValidation, "a total is not negative")
		return nil
	}
	if c.Found == nil {
		refuse(a, engine.CodeValidation, "the host has not carried the grant out")
		return nil
	}
	if c.Found.Code != "" {
		refuse(a, c.Found.Code, c.Found.Reason)
		return nil
	}
	if b := m.st.Blocked; b == engine.CodeBudgetExhausted || b == engine.CodeBudgetHalted {
		m.st.Blocked = ""
	}
	m.post(t, fmt.Sprintf("The owner's grant: the total is %d micros now.", c.Total), "command", c.Key)
	return nil
}

// reconcile folds what evidence says about an operation of unknown outcome
// (R47). Without evidence nothing changes. The money is the store's; here the
// event or task that waited for the proof goes on.
func (m *Machine) reconcile(t *turn, c *engine.OwnerCommand, a *engine.Answer) error {
	outcome := ""
	if c.Found != nil {
		outcome = c.Found.Outcome
		if c.Found.Code != "" {
			refuse(a, c.Found.Code, c.Found.Reason)
			return nil
		}
	}
	if outcome != engine.ReconciledExecuted && outcome != engine.ReconciledNotExecuted {
		refuse(a, engine.CodeUncertain, "there is no evidence of what became of operation "+c.Op)
		return nil
	}
	if err := t.note(NoteReconciled, map[string]any{"op": c.Op, "outcome": outcome}); err != nil {
		return err
	}
	for i := range m.st.Inbox {
		e := &m.st.Inbox[i]
		if e.Status != EntryAwaiting || e.Op != c.Op {
			continue
		}
		// The call is no longer ambiguous. One that was made is spent, its
		// proposal lost; one that was not made is not counted.
		e.Status, e.Op = EntryPending, ""
		m.st.Halt = ""
		if outcome == engine.ReconciledNotExecuted {
			e.Spent--
			return nil
		}
		return m.retry(t, e, nil)
	}
	for _, o := range m.st.Open {
		for _, w := range o.Works {
			i := slices.Index(w.Unknown, c.Op)
			if i < 0 {
				continue
			}
			answerFor(a, o)
			w.Unknown = slices.Delete(w.Unknown, i, i+1)
			if len(w.Unknown) > 0 {
				return nil
			}
			if m.spec.Once && m.st.taskStatus(w.Step.TaskID) == room.TaskRunning {
				m.st.Halt = ""
				return m.proven(t, o, w, c)
			}
			if m.st.taskStatus(w.Step.TaskID) != room.TaskFailed {
				return nil
			}
			m.st.Halt = ""
			return m.needReplan(t, o, "reconciled")
		}
	}
	return nil
}
