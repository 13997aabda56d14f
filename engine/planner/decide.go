package planner

import (
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/engine"
)

// decide carries out a well-formed decision, or refuses it.
func (m *Machine) decide(t *turn, e *entry, in interpreting, env engine.PlanEnvelope) error {
	planned := env.Decision == engine.DecideObjective || env.Decision == engine.DecideRevisePlan
	o := m.st.open()
	if env.Decision == engine.DecideObjective && e.Origin != OriginOwner {
		// Only a user-origin event may open an objective (R17).
		if err := t.note(NoteRejected, map[string]any{"event": e.Event, "decision": env.Decision, "code": engine.CodeForbidden, "why": "only an owner's event opens an objective"}); err != nil {
			return err
		}
		m.st.dropEntry(e.Event)
		return nil
	}
	if !planned {
		return m.speak(t, e, in, env)
	}
	switch {
	case env.Decision == engine.DecideObjective && o != nil:
		return m.refuse(t, e, []engine.PlanIssue{{Code: IssueFormat, Text: "an objective is open: decide revise_plan"}})
	case env.Decision == engine.DecideRevisePlan && m.st.Objective == nil:
		return m.refuse(t, e, []engine.PlanIssue{{Code: IssueFormat, Text: "no objective is open: decide create_objective"}})
	case o == nil && e.Origin != OriginOwner:
		m.st.dropEntry(e.Event)
		return t.note(NoteRejected, map[string]any{"event": e.Event, "decision": env.Decision, "code": engine.CodeForbidden, "why": "only an owner's event takes up a completed objective"})
	case o != nil && e.Origin != OriginOwner && o.Status != StatusActive && o.Status != StatusVerifying:
		m.st.dropEntry(e.Event)
		return t.note(NoteRejected, map[string]any{"event": e.Event, "decision": env.Decision, "code": engine.CodeForbidden, "why": "the objective waits for the owner"})
	case o != nil && o.BarrenReplans >= MaxBarrenReplans:
		return m.bar(t, *e, in)
	}
	return m.adopt(t, e, in, env)
}

// bar refuses a fourth successor in a row without new completed work, whoever
// asked for it (R35, I8).
func (m *Machine) bar(t *turn, e entry, in interpreting) error {
	m.consume(e.Event, in, true)
	o := m.st.Objective
	if o.Status == StatusWaitingUser {
		if err := m.move(t, TriggerOwnerRead, e.Event); err != nil {
			return err
		}
	}
	if o.Status.stopped() {
		o.Says++
		m.notify(t, "I have stopped planning: the last plans brought no new result. A correction starts me again.", o.ID, "barren", itoa(o.Says))
		return nil
	}
	_, err := m.replanBarred(t)
	return err
}

// adopt admits the plan as a whole (R25) and makes it current, or refuses it.
func (m *Machine) adopt(t *turn, e *entry, in interpreting, env engine.PlanEnvelope) error {
	st := &m.st
	o := st.open()
	c := &candidate{
		spec: &m.spec, eligible: t.eligible, cause: e.Event, version: 1,
		bound: [2]int{in.ObjectiveRevision, in.ControlRevision}, tasks: m.keptTasks(),
	}
	c.objective = engine.StableID("obj_", e.Event)
	if o != nil {
		c.objective = o.ID
	}
	// The chain of plan versions goes on through the objective that continues a
	// completed one, so no version is planned twice in a room (I4).
	var head *Plan
	if prev := st.Objective; prev != nil {
		head, c.version = prev.Plan, prev.Plan.Version+1
		c.needsReport = prev.Report != nil && prev.Report.judged()
	}
	plan, issues, err := c.admit(env.Plan)
	if err != nil {
		return err
	}
	if len(issues) > 0 {
		return m.refuse(t, e, issues)
	}
	if _, err := succeed(head, *plan); err != nil {
		return err
	}
	cause := e.Event // e is gone once it is consumed
	m.consume(cause, in, true)
	if o == nil {
		o = m.create(cause, in, env)
		if err := t.note(NoteObjective, map[string]any{"objective": o.ID, "from": "", "to": o.Status, "trigger": "created", "cause": cause, "title": o.Title, "continues": o.Continues}); err != nil {
			return err
		}
	} else {
		if err := m.resume(t, cause); err != nil {
			return err
		}
		o.BarrenReplans++
	}
	if err := m.install(t, o, plan); err != nil {
		return err
	}
	return t.note(NotePlan, map[string]any{"plan": plan, "title": o.Title, "explanation": cutBytes(env.Explanation, maxShownResult)})
}

// create opens an objective (R63). One that follows a completed objective
// keeps the account of what was done, never the objective itself: a terminal
// objective stays terminal (I12).
func (m *Machine) create(cause string, in interpreting, env engine.PlanEnvelope) *objective {
	st := &m.st
	o := &objective{
		ID: engine.StableID("obj_", cause), Title: cutRunes(env.Title, maxIssueText), Status: StatusActive, Origin: cause,
		ObjectiveRevision: in.ObjectiveRevision, ControlRevision: in.ControlRevision, CriteriaRevision: 1,
	}
	if o.Title == "" {
		o.Title = cutRunes(m.spec.Goal, maxIssueText)
	}
	if prev := st.Objective; prev != nil {
		o.Continues = prev.ID
	}
	st.Objective = o
	return o
}

// resume moves an open objective to active for its successor plan. From the
// states that wait for the owner only a plan that answers the owner gets here.
func (m *Machine) resume(t *turn, cause string) error {
	o := m.st.Objective
	trigger := TriggerPlanAdmitted
	if o.Status == StatusWaitingUser {
		trigger = TriggerOwnerRead
	} else if o.Status.stopped() {
		// The owner starts the cycle of reviews again; what was reviewed stays
		// reviewed (R53).
		trigger = TriggerOwnerResume
		o.FailedReports = nil
	}
	return m.move(t, trigger, cause)
}

// speak carries out the decisions that bring no plan.
func (m *Machine) speak(t *turn, e *entry, in interpreting, env engine.PlanEnvelope) error {
	if err := t.note(NoteDecision, map[string]any{"event": e.Event, "decision": env.Decision, "explanation": cutBytes(env.Explanation, maxShownResult)}); err != nil {
		return err
	}
	holds := env.Decision == engine.DecideAskUser || env.Decision == engine.DecideWait
	id, attempt := e.Event, in.Key.Attempt
	userOrigin := m.consume(id, in, holds)
	o := m.st.open()
	if o != nil && o.Status == StatusWaitingUser && userOrigin {
		if err := m.move(t, TriggerOwnerRead, id); err != nil {
			return err
		}
	}
	coordinator := m.spec.Coordinator
	switch env.Decision {
	case engine.DecideAskUser:
		m.say(t, coordinator, engine.StatusQuestion, env.Text, "ask", id, itoa(attempt))
	case engine.DecideAnswer, engine.DecideChallenge, engine.DecideExplain:
		m.say(t, coordinator, engine.StatusAnswer, env.Text, env.Decision, id, itoa(attempt))
		if env.Artifact != nil {
			if err := m.publish(t, coordinator, "", *env.Artifact); err != nil {
				return err
			}
		}
	}
	if env.Decision == engine.DecideAnswer && o == nil && !m.st.ownerWaits() && !m.talking() {
		// An answer given while no objective is open is a claim (DESIGN §5),
		// unless the owner has said more that nobody has read yet.
		m.claim(t, coordinator, env.Text)
	}
	// A wait that answers an internal event holds nothing (R21).
	hold := env.Decision == engine.DecideAskUser || env.Decision == engine.DecideWait && userOrigin
	if o != nil && hold && (o.Status == StatusActive || o.Status == StatusVerifying) {
		return m.move(t, TriggerHold, id)
	}
	return nil
}

// consume takes out of the inbox what an accepted decision has answered: its
// own event, and every message it was shown, also those that interpretation
// had given up on. Internal needs go with them when the decision meets them.
// It reports whether an owner's event was among them.
func (m *Machine) consume(own string, in interpreting, meetsNeeds bool) (userOrigin bool) {
	m.st.Inbox = slices.DeleteFunc(m.st.Inbox, func(x entry) bool {
		done := x.Event == own || x.Origin != OriginInternal && x.Seq <= in.Seq || x.Origin == OriginInternal && meetsNeeds
		if done && x.Origin == OriginOwner {
			userOrigin = true
		}
		return done
	})
	m.st.Halt = "" // what was waiting for a person has been answered
	return userOrigin
}

func (m *Machine) claim(t *turn, by, text string) {
	m.st.Claim = by
	t.add(engine.Command{Kind: engine.CmdClaim, Claim: &engine.Claim{By: by, Text: engine.Plain(text)}})
}

func (m *Machine) publish(t *turn, by, task string, a engine.ArtifactText) error {
	art, err := m.st.Artifacts.Put(a.Name, by, task, a.Text)
	if err != nil {
		return fmt.Errorf("artifact %q: %w", a.Name, err)
	}
	t.add(engine.Command{Kind: engine.CmdArtifact, Artifact: &art})
	return nil
}
