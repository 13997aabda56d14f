package planner

import (
	"slices"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/room"
	"github.com/agentrooms/qualify/engine/session"
)

// talkTo is the conversation of a participant, made at first use. It lives as
// long as the room, within the bound of its length.
func (m *Machine) talkTo(id string) *talk {
	i := slices.IndexFunc(m.st.Talks, func(k *talk) bool { return k.Participant == id })
	attempt := 0
	if i >= 0 {
		k := m.st.Talks[i]
		if k.Session.Len() < maxTalkMessages || !k.Session.Idle() || k.Session.Unseen() {
			return k
		}
		// A conversation is sent whole with every call: beyond the bound a new
		// one starts, and the old one stays in the rows.
		attempt = k.Session.Config().Attempt + 1
	}
	a := m.spec.agent(id)
	others := slices.DeleteFunc(slices.Clone(m.spec.Agents), func(p engine.Participant) bool { return p.ID == id })
	k := &talk{Participant: id, Session: session.New(session.Config{
		Agent: id, Role: engine.RoleSpecialist, Kind: engine.OpSpecialist, Cause: "talk:" + id, Attempt: attempt, Task: "talk:" + id,
		System: session.SystemPrompt(session.SystemData{
			ID: id, Description: a.Description, Owner: m.spec.Owner, Goal: m.spec.Goal,
			Criteria: m.spec.Criteria, Tools: a.Tools, Colleagues: others,
		}),
		Tools: slices.Clone(a.Tools), Once: m.spec.Once,
	})}
	if i >= 0 {
		k.Calls, k.Said = m.st.Talks[i].Calls, m.st.Talks[i].Said
		m.st.Talks[i] = k
		return k
	}
	m.st.Talks = append(m.st.Talks, k)
	return k
}

// startTalks starts waiting conversations within the room's concurrency.
func (m *Machine) startTalks(t *turn) error {
	for _, k := range m.st.Talks {
		if k.Session.Ready() && m.st.atWork() < m.spec.Parallel {
			t.add(k.Session.Step()...)
		}
	}
	return nil
}

// onTalk folds an outcome of a conversation. Its end is said to the owner; a
// reference in it starts the participant it names (DESIGN §5). Done, or an
// answer that hands nothing over, is a claim only while no objective is open.
func (m *Machine) onTalk(t *turn, k *talk) error {
	if c, ok := recorded(t.ev); ok {
		k.Calls = append(k.Calls, c)
		if n := len(k.Calls); n > maxTalkCalls {
			k.Calls = append([]call(nil), k.Calls[n-maxTalkCalls:]...)
		}
	}
	cmds, end, err := k.Session.Handle(t.ev)
	if err != nil {
		return err
	}
	t.add(cmds...)
	if end == nil {
		return nil
	}
	k.Said = cutBytes(end.Text, maxShownResult)
	if !t.eligible(k.Participant) {
		// Authority is read again before words and artifacts reach the room
		// (R12).
		if err := t.note(NoteRejected, map[string]any{"from": k.Participant, "code": engine.CodeForbidden, "why": "not authorized when the reply came"}); err != nil {
			return err
		}
		return m.followCorrection(t)
	}
	m.say(t, k.Participant, end.Status, end.Text, "talk", t.ev.ID)
	if end.Artifact != nil {
		if err := m.publish(t, k.Participant, "", *end.Artifact); err != nil {
			return err
		}
	}
	refusal, err := t.refusal()
	if err != nil {
		return err
	}
	if refusal != nil && refusal.Code != engine.CodeForbidden {
		if err := m.block(t, "conversation with "+k.Participant); err != nil {
			return err
		}
		return m.followCorrection(t)
	}
	if end.Status == engine.StatusBlocked {
		if len(m.st.Open) == 0 && m.st.Halt == "" {
			m.st.Halt = engine.EndReason(end.Code)
		}
		return m.followCorrection(t)
	}
	handed, err := m.handOver(t, k.Participant, end.Text)
	if err != nil {
		return err
	}
	if len(m.st.Open) > 0 {
		return m.followCorrection(t)
	}
	claims := end.Status == engine.StatusDone || end.Status == engine.StatusAnswer
	if claims && !handed && !m.talking() && !m.st.ownerWaits(nil) {
		m.claim(t, k.Participant, end.Text)
	}
	return nil
}

// followCorrection raises the replan that a correction owes when it named its
// participants and so bypassed the reasoner: however the last of their
// conversations ended, the plan still has to follow it (R66).
func (m *Machine) followCorrection(t *turn) error {
	if m.talking() {
		return nil
	}
	for _, o := range m.st.Open {
		if o.Plan.BoundObjectiveRevision >= o.ObjectiveRevision || m.st.ownerWaits(o) {
			continue
		}
		// Its participants have read what the owner said: a question that the
		// objective waited with is not left to hold the plan up (R63).
		if o.Before == StatusWaitingUser {
			o.Before = StatusActive
		}
		if o.Status == StatusWaitingUser {
			if err := m.move(t, o, TriggerOwnerRead, t.ev.ID); err != nil {
				return err
			}
		}
		if err := m.needReplan(t, o, "message"); err != nil {
			return err
		}
	}
	return nil
}

// progress shows what a conversation did as work outside the plan: its effects
// stand in the room whether or not a plan ordered them (R22).
func (k *talk) progress() (engine.TaskProgress, error) {
	status := string(room.TaskCompleted)
	if !k.Session.Idle() {
		status = string(room.TaskRunning)
	}
	p := engine.TaskProgress{
		Task: k.Session.Config().Cause, Participant: k.Participant, Criteria: []string{}, Status: status, Result: k.Said,
		Instruction: "messages that named " + k.Participant + "; outside the plan",
	}
	var err error
	p.Calls, err = shownCalls(k.Calls, p.Task)
	return p, err
}

// talking reports a conversation at work or about to start.
func (m *Machine) talking() bool {
	return slices.ContainsFunc(m.st.Talks, func(k *talk) bool { return !k.Session.Idle() || k.Session.Ready() })
}

// handOver starts the participants that a closing text references, within the
// bound of one owner message.
func (m *Machine) handOver(t *turn, from, text string) (bool, error) {
	handed := false
	for _, id := range m.aliases.Explicit(text, m.eligibleAgents(t)) {
		if id == from {
			continue
		}
		if m.st.Handovers >= MaxHandovers {
			return handed, t.note(NoteRejected, map[string]any{"from": from, "to": id, "code": engine.CodeLimitReached, "why": "too many hand-overs after one owner message"})
		}
		m.st.Handovers++
		m.talkTo(id).Session.Say(from, engine.Plain(text))
		handed = true
		if err := t.note(NoteRoute, map[string]any{"message": t.ev.ID, "basis": "explicit_reference", "participants": []string{id}}); err != nil {
			return handed, err
		}
	}
	return handed, nil
}
