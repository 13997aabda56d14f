package planner

import (
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/engine"
)

// Admission is what may be done with a result (R9, R44).
type Admission string

// Admissions of results that finished after a control change.
const (
	AdmissionPending    Admission = "pending_readmission"
	AdmissionReadmitted Admission = "readmitted"
	AdmissionEvidence   Admission = "evidence_only"
)

// hold stores a result that finished after a control change (R44): it is
// charged and kept, completes nothing, unlocks nothing and feeds no review. It
// waits for Readmit, one by one; a resume alone readmits nothing.
func (m *Machine) hold(t *turn, o *objective, task string, control int) error {
	ev := t.ev
	ev.Facts, ev.Money = nil, engine.Money{}
	o.Held = append(o.Held, held{Op: ev.Op, Task: task, Control: control, Event: ev})
	if err := t.note(NoteHeld, map[string]any{
		"objective": o.ID, "op": ev.Op, "task": task, "bound_control_revision": control, "control_revision": o.ControlRevision,
	}); err != nil {
		return err
	}
	m.notify(t, "A result came after you had stopped the work. It is paid for and kept, and not used. Readmit operation "+ev.Op+" to use it.", o.ID, "held", ev.Op)
	return nil
}

// dropHeld leaves what waits for readmission as evidence only: the work it
// belongs to has no authority any more.
func (m *Machine) dropHeld(t *turn, o *objective, why string) error {
	for _, h := range o.Held {
		if err := t.note(NoteLate, map[string]any{"task": h.Task, "op": h.Op, "why": why}); err != nil {
			return err
		}
	}
	o.Held = nil
	return nil
}

// heldBy finds a result that waits for readmission.
func (s *state) heldBy(op string) (*objective, int) {
	for _, o := range s.Open {
		if i := slices.IndexFunc(o.Held, func(h held) bool { return h.Op == op }); i >= 0 {
			return o, i
		}
	}
	return nil, -1
}

// readmit gives a held result its effect, if its task is still a task of the
// current plan, or its report still the newest; else it stays evidence (R44).
func (m *Machine) readmit(t *turn, c *engine.OwnerCommand, a *engine.Answer) error {
	o, i := m.st.heldBy(c.Op)
	if o == nil {
		refuse(a, engine.CodeNotFound, "no result of operation "+c.Op+" waits for readmission")
		return nil
	}
	if !m.expects(o, c, a) {
		return nil
	}
	if o.Status == StatusPaused || o.Status.stopped() {
		// Its work would go on, and spend, while the objective does not.
		refuse(a, engine.CodeInvalidTransition, fmt.Sprintf("the objective is %s; resume it before a result is readmitted", o.Status))
		return nil
	}
	h := o.Held[i]
	o.Held = slices.Delete(o.Held, i, i+1)
	// The result is folded as it came, with what is true now.
	sub := &turn{ev: h.Event}
	sub.ev.AtUS, sub.ev.Facts, sub.ev.Money = t.ev.AtUS, t.ev.Facts, t.ev.Money
	var use func() error
	if w := o.work(h.Task); w != nil && w.Held && w.Session.Owns(*h.Event.Key) {
		use = func() error {
			w.Held, w.Control = false, o.ControlRevision
			return m.foldTask(sub, o, w)
		}
	} else if s := o.slot(*h.Event.Key); s != nil && s.Held {
		use = func() error {
			s.Held, s.Control = false, o.ControlRevision
			return m.onReview(sub, o, s)
		}
	}
	if use == nil {
		a.Admission = string(AdmissionEvidence)
		return t.note(NoteLate, map[string]any{"task": h.Task, "op": h.Op, "why": "its work is no longer current"})
	}
	a.Admission = string(AdmissionReadmitted)
	if err := t.note(NoteReadmitted, map[string]any{"objective": o.ID, "op": h.Op, "task": h.Task, "control_revision": o.ControlRevision}); err != nil {
		return err
	}
	err := use()
	t.add(sub.cmds...)
	return err
}

// TaskUncertain is how notes and the reasoner's account name a task that waits
// for proof of what became of its call (Spec.Once).
const TaskUncertain = "uncertain"

// Lost implements engine.CallGuard (R43, R67).
func (m *Machine) Lost(key engine.OpKey) string {
	if in := m.st.Interpret; in != nil && in.Key == key {
		if m.overtaken(*in) {
			return engine.CodeStaleRevision
		}
		return ""
	}
	for _, o := range m.st.Open {
		if s := o.slot(key); s != nil {
			return lostUnless(s.Control == o.ControlRevision)
		}
		for _, w := range o.Works {
			if w.busy() && w.Session.Owns(key) {
				return lostUnless(w.Control == o.ControlRevision)
			}
		}
	}
	for _, k := range m.st.Talks {
		if !k.Session.Idle() && k.Session.Owns(key) {
			return ""
		}
	}
	return engine.CodeStaleRevision // superseded, or of an objective that has ended
}

func lostUnless(ok bool) string {
	if ok {
		return ""
	}
	return engine.CodeStaleRevision
}
