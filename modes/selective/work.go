package selective

import (
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/routing"
	"github.com/agentrooms/qualify/engine/session"
	"github.com/agentrooms/qualify/modes"
)

// deliver says a message to a participant and puts it in line for a place.
func (m *machine) deliver(id, from string, text engine.Text, scope string) error {
	s, ok := m.state.Members[id]
	if !ok {
		var err error
		if s, err = m.open(id, scope); err != nil {
			return err
		}
		m.state.Members[id] = s
	}
	s.SayFor(from, text, scope)
	if !slices.Contains(m.state.Waiting, id) {
		m.state.Waiting = append(m.state.Waiting, id)
	}
	return nil
}

// open makes the session of a participant.
func (m *machine) open(id, scope string) (*session.Session, error) {
	i := slices.IndexFunc(m.spec.Agents, func(p engine.Participant) bool { return p.ID == id })
	if i < 0 {
		return nil, fmt.Errorf("no participant %q", id)
	}
	return session.New(session.Config{
		Agent: id, Role: engine.RoleSpecialist, Kind: engine.OpSpecialist, Cause: "session:" + id, Task: scope,
		Tools: slices.Clone(m.spec.Agents[i].Tools), System: m.system(i), Detached: true,
	}), nil
}

// system is the prompt of the i-th agent: its own part and tools, and
// everybody else as colleagues.
func (m *machine) system(i int) string {
	p := m.spec.Agents[i]
	return session.SystemPrompt(session.SystemData{
		ID: p.ID, Description: p.Description, Owner: m.spec.Owner, Goal: m.spec.Goal,
		Criteria: m.spec.Criteria, Tools: p.Tools, Colleagues: slices.Delete(slices.Clone(m.spec.Agents), i, i+1),
	})
}

// startWaiting starts turns of waiting participants while places are free, in
// the order in which they were addressed.
func (m *machine) startWaiting() []engine.Command {
	var cmds []engine.Command
	var left []string
	free := m.parallel - m.atWork("")
	for _, id := range m.state.Waiting {
		s := m.state.Members[id]
		if s == nil || !s.Unseen() {
			continue // its messages joined a turn under way
		}
		if !s.Idle() || free <= 0 {
			left = append(left, id)
			continue
		}
		cmds = append(cmds, s.Step()...)
		free--
	}
	m.state.Waiting = left
	return cmds
}

// atWork counts sessions with an operation in flight, except one.
func (m *machine) atWork(except string) int {
	n := 0
	for _, p := range m.spec.Agents {
		if s := m.state.Members[p.ID]; s != nil && p.ID != except && !s.Idle() {
			n++
		}
	}
	return n
}

// busy reports that somebody other than one participant is at work or about to
// be, or that a message waits for its route.
func (m *machine) busy(except string) bool {
	if len(m.state.Inbox) > 0 || m.atWork(except) > 0 {
		return true
	}
	for _, p := range m.spec.Agents {
		if s := m.state.Members[p.ID]; s != nil && p.ID != except && s.Unseen() {
			return true
		}
	}
	return false
}

// finish folds the end of a participant's turn: what it delivers, whom its
// message starts, and whether it is a claim or an end.
func (m *machine) finish(ev engine.Event, id string, t session.Turn) ([]engine.Command, error) {
	s := m.state.Members[id]
	var cmds []engine.Command
	if t.Artifact != nil {
		a, err := m.state.Artifacts.Put(t.Artifact.Name, id, s.Task(), t.Artifact.Text)
		if err != nil {
			return nil, fmt.Errorf("artifact of event %s: %w", ev.ID, err)
		}
		cmds = append(cmds, engine.Command{Kind: engine.CmdArtifact, Artifact: &a})
	}
	say := &engine.Say{
		ID: engine.StableID("msg_", Name, ev.ID), From: id, Status: t.Status, Text: engine.Plain(t.Text),
	}
	cmds = append(cmds, engine.Command{Kind: engine.CmdSay, Say: say})

	var started []string
	if t.Code == "" { // with a code the text is the session's, not the participant's
		others := slices.DeleteFunc(m.everybody(), func(o string) bool { return o == id })
		started = m.table.Explicit(t.Text, m.eligible(ev, others))
	}
	busy := m.busy(id)
	unread := s.Unseen() || len(m.state.Inbox) > 0
	say.To = append(say.To, started...)
	if len(started) == 0 || t.Status != engine.StatusAnswer {
		say.To = append([]string{m.spec.Owner}, started...)
	}
	if len(started) > 0 {
		note, err := routeNote(say.ID, routing.Selection{Basis: routing.BasisExplicit, Participants: started})
		if err != nil {
			return nil, err
		}
		cmds = append(cmds, note)
		for _, to := range started {
			if err := m.deliver(to, id, handover(t), s.Task()); err != nil {
				return nil, err
			}
		}
	}
	alone := !busy && len(started) == 0
	if !unread && (t.Status == engine.StatusDone || t.Status == engine.StatusAnswer && alone) {
		cmds = append(cmds, m.state.Claims.Claim(id, t.Text))
	}
	if !unread && t.Status == engine.StatusBlocked && alone {
		cmds = append(cmds, modes.End(t.Code))
	}
	return cmds, nil
}

// handover is what a colleague reads: the message, and the document delivered
// with it, which the colleague could not see otherwise.
func handover(t session.Turn) engine.Text {
	if t.Artifact == nil {
		return engine.Plain(t.Text)
	}
	return engine.Plain(t.Text + "\n\nDelivered with this message, " + t.Artifact.Name + ":\n" + t.Artifact.Text)
}
