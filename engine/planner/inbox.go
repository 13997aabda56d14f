package planner

import (
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/session"
)

// onMessage takes one persisted message: the author is who the runtime
// resolved, whatever the text says (R13, R19).
func (m *Machine) onMessage(t *turn) error {
	msg := t.ev.Message
	if msg == nil {
		return fmt.Errorf("kind %s has no message", t.ev.Kind)
	}
	if !msg.Text.Loaded() {
		return fmt.Errorf("the text of message %s is not loaded", msg.ID)
	}
	st := &m.st
	owner := m.authority.IsOwner(msg.From)
	if !owner && (m.spec.agent(msg.From) == nil || !t.eligible(msg.From)) {
		return t.note(NoteRejected, map[string]any{"event": t.ev.ID, "from": msg.From, "code": engine.CodeForbidden, "why": "the author is not authorized now"})
	}
	if !owner && m.flooded() {
		return t.note(NoteRejected, map[string]any{"event": t.ev.ID, "from": msg.From, "code": engine.CodeLimitReached, "why": "as many messages of participants wait as may"})
	}
	st.Ended = false
	if owner {
		st.Blocked, st.Halt, st.Handovers = "", "", 0
	}
	st.Messages = append(st.Messages, heard{ID: msg.ID, Type: msg.Type, From: msg.From, Text: msg.Text})
	if n := len(st.Messages); n > maxShownMessages {
		st.Messages = append([]heard(nil), st.Messages[n-maxShownMessages:]...)
	}
	if m.authority.Reopens(*msg) && st.Claim != "" {
		t.add(engine.Command{Kind: engine.CmdWithdraw, Claim: &engine.Claim{By: st.Claim, Text: engine.Plain("reopened by " + msg.Type + " " + msg.ID)}})
		st.Claim = ""
	}
	if m.authority.IsCorrection(*msg) {
		if err := m.correct(t); err != nil {
			return err
		}
	}
	st.Seq++
	refs := m.aliases.Explicit(msg.Text.S, m.eligibleAgents(t))
	if len(refs) > 0 && msg.Type != engine.MsgProposal {
		// Explicit references bypass the reasoner (R15). A proposal is material
		// for it, whoever it names (R18).
		if err := t.note(NoteRoute, map[string]any{"message": msg.ID, "basis": "explicit_reference", "participants": refs}); err != nil {
			return err
		}
		from := msg.From
		if owner {
			from = session.FromOwner(msg.From)
		}
		for _, id := range refs {
			m.talkTo(id).Session.SayFor(from, msg.Text, msg.ID)
		}
		return nil
	}
	origin := OriginParticipant
	if owner {
		origin = OriginOwner
	}
	e := entry{Event: t.ev.ID, Seq: st.Seq, Origin: origin, Reason: "message", Status: EntryPending}
	if st.find(msg.Objective) != nil {
		e.Objective = msg.Objective
	}
	st.Inbox = append(st.Inbox, e)
	return nil
}

// flooded reports that as many entries of participants wait as may: what the
// owner has not asked for must not grow the state.
func (m *Machine) flooded() bool {
	n := 0
	for i := range m.st.Inbox {
		if m.st.Inbox[i].Origin == OriginParticipant {
			n++
		}
	}
	return n >= MaxProposals
}

// correct draws the consequences of an owner correction before anybody reads
// it: revisions move, bounded counters start again (R6, R35, R54, A8). It
// reaches the objective that the message names, else every open one.
func (m *Machine) correct(t *turn) error {
	m.st.Revision++
	named := m.st.find(t.ev.Message.Objective)
	for _, o := range m.st.Open {
		if named != nil && named != o {
			continue
		}
		o.ObjectiveRevision = m.st.Revision
		o.Corrections++
		o.BarrenReplans = 0
		o.FailedReports, o.Outputs = nil, nil
		if err := t.note(NoteCorrection, map[string]any{"objective": o.ID, "event": t.ev.ID, "objective_revision": o.ObjectiveRevision, "corrections": o.Corrections}); err != nil {
			return err
		}
		switch {
		case o.Status.stopped():
			if err := m.move(t, o, TriggerOwnerCorrected, t.ev.ID); err != nil {
				return err
			}
		case o.Before.stopped():
			o.Before = StatusActive // the correction is found when the pause ends
		}
	}
	return nil
}

func (m *Machine) eligibleAgents(t *turn) []string {
	ids := make([]string, 0, len(m.spec.Agents))
	for _, a := range m.spec.Agents {
		if t.eligible(a.ID) {
			ids = append(ids, a.ID)
		}
	}
	return ids
}

// needReplan raises the need of a successor plan (R66) as an internal inbox
// entry. One need of an objective at a time: further causes join it, and its
// interpretation sees them all.
func (m *Machine) needReplan(t *turn, o *objective, reason string) error {
	if m.st.interpretable(OriginInternal, o) {
		return nil
	}
	o.Replans++
	m.st.Seq++
	id := fmt.Sprintf("replan:%s:%d", o.ID, o.Replans)
	m.st.Inbox = append(m.st.Inbox, entry{Event: id, Seq: m.st.Seq, Origin: OriginInternal, Objective: o.ID, Reason: reason, Status: EntryPending})
	return t.note(NoteReplan, map[string]any{"objective": o.ID, "reason": reason, "event": id, "barren_replans": o.BarrenReplans})
}

// replanBarred reports that the barren counter is at its limit; the objective
// then needs attention, before any reasoner call or reservation (R35).
func (m *Machine) replanBarred(t *turn, o *objective) (bool, error) {
	if o.BarrenReplans < MaxBarrenReplans {
		return false, nil
	}
	if err := m.move(t, o, TriggerBarren, t.ev.ID); err != nil {
		return true, err
	}
	m.dropNeeds(o)
	o.Says++
	m.notify(t, fmt.Sprintf("%d plans in a row brought no new result, so I have stopped planning. Please look at it.", MaxBarrenReplans), o.ID, "barren", itoa(o.Says))
	return true, nil
}

// dropNeeds consumes the internal entries of an objective: their need is met,
// or has become the owner's.
func (m *Machine) dropNeeds(o *objective) {
	m.st.Inbox = slices.DeleteFunc(m.st.Inbox, func(e entry) bool { return e.Origin == OriginInternal && e.Objective == o.ID })
}
