package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/engine"
)

// decide carries out a well-formed decision, or refuses it.
func (m *Machine) decide(t *turn, e *entry, in interpreting, env engine.PlanEnvelope) error {
	st := &m.st
	id := env.ObjectiveID
	if id == "" {
		id = in.Focus
	}
	o := st.find(id)
	switch {
	case env.Decision == engine.DecideObjective && e.Origin != OriginOwner:
		// Only a user-origin event may open an objective (R17).
		return m.reject(t, e, env, "only an owner's event opens an objective")
	case env.Decision == engine.DecideObjective:
		return m.open(t, e, in, env)
	case e.Origin == OriginInternal && id != e.Objective:
		return m.reject(t, e, env, "a need of one objective moves no other")
	case env.Decision == engine.DecideRevisePlan:
		return m.revise(t, e, in, env, o)
	default:
		return m.speak(t, e, in, env, o)
	}
}

// reject records a decision that its event has no authority for, and consumes
// the event.
func (m *Machine) reject(t *turn, e *entry, env engine.PlanEnvelope, why string) error {
	body := map[string]any{"event": e.Event, "decision": env.Decision, "code": engine.CodeForbidden, "why": why}
	m.st.dropEntry(e.Event)
	return t.note(NoteRejected, body)
}

// open admits the plan of a new objective. It is independent of those that are
// open (R7); when none is, it continues the last completed one.
func (m *Machine) open(t *turn, e *entry, in interpreting, env engine.PlanEnvelope) error {
	if n := len(m.st.Open); n >= m.spec.Objectives {
		return m.refuse(t, e, []engine.PlanIssue{{Code: IssueFormat, Text: fmt.Sprintf("%d objectives are open, as many as may be: decide revise_plan", n)}})
	}
	if len(m.st.Open) == 0 {
		return m.adopt(t, e, in, env, nil, m.st.Past)
	}
	return m.adopt(t, e, in, env, nil, nil)
}

// revise admits a successor plan for an open objective, or takes the last
// completed one up again in a successor objective.
func (m *Machine) revise(t *turn, e *entry, in interpreting, env engine.PlanEnvelope, o *objective) error {
	switch {
	case o == nil && m.st.Past == nil:
		return m.refuse(t, e, []engine.PlanIssue{{Code: IssueFormat, Text: "no objective is open: decide create_objective"}})
	case o == nil && e.Origin != OriginOwner:
		return m.reject(t, e, env, "only an owner's event takes up a completed objective")
	case o == nil && len(m.st.Open) >= m.spec.Objectives:
		return m.refuse(t, e, []engine.PlanIssue{{Code: IssueFormat, Text: "as many objectives are open as may be"}})
	case o == nil:
		return m.adopt(t, e, in, env, nil, m.st.Past)
	case o.Status == StatusPaused:
		return m.refuse(t, e, []engine.PlanIssue{{Code: IssueFormat, Text: fmt.Sprintf("objective %q is paused; its plan stays until the owner resumes it", o.ID)}})
	case e.Origin != OriginOwner && o.Status != StatusActive && o.Status != StatusVerifying:
		return m.reject(t, e, env, "the objective waits for the owner")
	case o.BarrenReplans >= MaxBarrenReplans:
		return m.bar(t, o, *e, in)
	}
	return m.adopt(t, e, in, env, o, o)
}

// bar refuses a fourth successor in a row without new completed work, whoever
// asked for it (R35, I8).
func (m *Machine) bar(t *turn, o *objective, e entry, in interpreting) error {
	m.consume(e.Event, in, o)
	if o.Status == StatusWaitingUser {
		if err := m.move(t, o, TriggerOwnerRead, e.Event); err != nil {
			return err
		}
	}
	if o.Status.stopped() {
		o.Says++
		m.notify(t, "I have stopped planning: the last plans brought no new result. A correction starts me again.", o.ID, "barren", itoa(o.Says))
		return nil
	}
	_, err := m.replanBarred(t, o)
	return err
}

// adopt admits the plan as a whole (R25) and makes it current, or refuses it.
// o is the open objective it is for, nil for a new one; prev, when not nil, is
// whose plan it follows: o itself, or the completed objective that a new one
// continues.
func (m *Machine) adopt(t *turn, e *entry, in interpreting, env engine.PlanEnvelope, o, prev *objective) error {
	c := &candidate{
		spec: &m.spec, eligible: t.eligible, cause: e.Event, version: 1, criteria: m.spec.Criteria,
		bound: [2]int{env.BoundObjectiveRevision, env.BoundControlRevision}, tasks: m.keptTasks(o, prev),
	}
	c.objective = engine.StableID("obj_", e.Event)
	if o != nil {
		c.objective, c.criteria = o.ID, m.spec.criteria(o.Criteria)
		c.full = len(o.TaskIDs)+MaxSteps > maxTaskIDs
	} else {
		criteria, issues := m.chosen(env.Criteria)
		if len(issues) > 0 {
			return m.refuse(t, e, issues)
		}
		c.criteria = criteria
	}
	if o == nil && prev == nil {
		c.bound = [2]int{in.Revision, 0}
	}
	// The chain of plan versions goes on through the objective that continues a
	// completed one, so no version is planned twice in it (I4).
	var headPlan *Plan
	if prev != nil {
		headPlan, c.version = prev.Plan, prev.Plan.Version+1
		c.needsReport = prev.Report != nil && prev.Report.judged()
	}
	plan, issues, err := c.admit(env.Plan)
	if err != nil {
		return err
	}
	if len(issues) > 0 {
		return m.refuse(t, e, issues)
	}
	if _, err := succeed(headPlan, *plan); err != nil {
		return err
	}
	cause := e.Event // e is gone once it is consumed
	m.consume(cause, in, o)
	if o == nil {
		o = m.create(cause, env, plan, prev, c.criteria)
		if err := t.note(NoteObjective, map[string]any{"objective": o.ID, "from": "", "to": o.Status, "trigger": "created", "cause": cause, "title": o.Title, "continues": o.Continues}); err != nil {
			return err
		}
	} else {
		if err := m.resume(t, o, cause); err != nil {
			return err
		}
		o.BarrenReplans++
	}
	if err := m.install(t, o, plan); err != nil {
		return err
	}
	m.post(t, planPost(o, env.Explanation), o.ID, "plan", itoa(plan.Version))
	return t.note(NotePlan, map[string]any{"plan": plan, "title": o.Title, "explanation": cutBytes(env.Explanation, maxShownResult)})
}

// chosen are the room's criteria that a new objective names, all without names.
func (m *Machine) chosen(ids []string) ([]engine.Criterion, []engine.PlanIssue) {
	if len(ids) == 0 {
		return m.spec.Criteria, nil
	}
	var issues []engine.PlanIssue
	var out []engine.Criterion
	for _, id := range sorted(ids) {
		c := m.spec.criterion(id)
		if c == nil {
			issues = append(issues, engine.PlanIssue{Code: IssueFormat, Text: fmt.Sprintf("there is no criterion %q", cutBytes(id, maxKeyLen))})
			continue
		}
		out = append(out, *c)
	}
	return out, issues
}

// planPost is a plan version for readers of the room (R68).
func planPost(o *objective, explanation string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Plan version %d of %q:", o.Plan.Version, o.Title)
	for _, s := range o.Plan.Steps {
		kept := ""
		if s.Retained {
			kept = ", kept"
		}
		fmt.Fprintf(&b, "\n- %s (%s%s): %s", s.Key, s.Participant, kept, s.Instruction)
	}
	if explanation != "" {
		b.WriteString("\n" + explanation)
	}
	return b.String()
}

// create opens an objective (R63). One that follows a completed objective
// keeps the account of what was done, never the objective itself: a terminal
// objective stays terminal (I12).
func (m *Machine) create(cause string, env engine.PlanEnvelope, plan *Plan, prev *objective, criteria []engine.Criterion) *objective {
	st := &m.st
	o := &objective{
		ID: plan.Objective, Title: cutRunes(env.Title, maxIssueText), Status: StatusActive, Origin: cause,
		ObjectiveRevision: plan.BoundObjectiveRevision, ControlRevision: plan.BoundControlRevision, CriteriaRevision: 1,
	}
	if o.Title == "" {
		o.Title = cutRunes(m.spec.Goal, maxIssueText)
	}
	for _, c := range criteria {
		o.Criteria = append(o.Criteria, c.ID)
	}
	if prev != nil {
		o.Continues, o.Works = prev.ID, prev.Works
		prev.Works, st.Past = nil, nil
		st.Met = slices.DeleteFunc(st.Met, func(c string) bool { return slices.Contains(prev.Criteria, c) })
	}
	st.Open = append(st.Open, o)
	return o
}

// resume moves an open objective to active for its successor plan. From the
// states that wait for the owner only a plan that answers the owner gets here.
func (m *Machine) resume(t *turn, o *objective, cause string) error {
	trigger := TriggerPlanAdmitted
	if o.Status == StatusWaitingUser {
		trigger = TriggerOwnerRead
	} else if o.Status.stopped() {
		// The owner starts the cycle of reviews again; what was reviewed stays
		// reviewed (R53).
		trigger = TriggerOwnerAnswer
		o.FailedReports = nil
	}
	return m.move(t, o, trigger, cause)
}

// speak carries out the decisions that bring no plan. o is the open objective
// they are about, if any.
func (m *Machine) speak(t *turn, e *entry, in interpreting, env engine.PlanEnvelope, o *objective) error {
	if err := t.note(NoteDecision, map[string]any{"event": e.Event, "decision": env.Decision, "explanation": cutBytes(env.Explanation, maxShownResult)}); err != nil {
		return err
	}
	id, attempt := e.Event, in.Key.Attempt
	words := "Decided: " + env.Decision + "."
	if env.Explanation != "" {
		words += " " + env.Explanation
	}
	m.post(t, words, id, "decision", itoa(attempt))
	var meets *objective
	if env.Decision == engine.DecideAskUser || env.Decision == engine.DecideWait {
		meets = o
	}
	userOrigin := m.consume(id, in, meets)
	if o != nil && o.Status == StatusWaitingUser && userOrigin {
		if err := m.move(t, o, TriggerOwnerRead, id); err != nil {
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
	if env.Decision == engine.DecideAnswer && userOrigin && len(m.st.Open) == 0 && !m.st.ownerWaits(nil) && !m.talking() {
		// An answer to the owner while no objective is open is a claim (DESIGN §5),
		// unless the owner has said more that nobody has read yet.
		m.claim(t, coordinator, env.Text)
	}
	// A wait that answers an internal event holds nothing (R21).
	hold := env.Decision == engine.DecideAskUser || env.Decision == engine.DecideWait && userOrigin
	if o != nil && hold && (o.Status == StatusActive || o.Status == StatusVerifying) {
		return m.move(t, o, TriggerHold, id)
	}
	return nil
}

// consume takes out of the inbox what an accepted decision has answered: its
// own event, and every message it was shown, also those that interpretation
// had given up on. The needs of the objective that the decision meets, if any,
// go with them. It reports whether an owner's event was among them.
//
// A participant's event answers only itself: what the owner said and nobody
// has decided on goes on waiting for him or for proof (R17, R28).
func (m *Machine) consume(own string, in interpreting, meets *objective) (userOrigin bool) {
	e := m.st.entry(own)
	byParticipant := e != nil && e.Origin == OriginParticipant
	m.st.Inbox = slices.DeleteFunc(m.st.Inbox, func(x entry) bool {
		done := x.Event == own
		switch {
		case x.Origin == OriginOwner && byParticipant:
		case x.Origin == OriginInternal:
			done = done || meets != nil && x.Objective == meets.ID
		case x.Objective == "" || x.Objective == in.Focus:
			done = done || x.Seq <= in.Seq
		}
		if done && x.Origin == OriginOwner {
			userOrigin = true
		}
		return done
	})
	if !byParticipant {
		m.st.Halt = "" // what was waiting for a person has been answered
	}
	return userOrigin
}

func (m *Machine) claim(t *turn, by, text string) {
	m.st.Claim = by
	t.add(engine.Command{Kind: engine.CmdClaim, Claim: &engine.Claim{By: by, Text: engine.Plain(text)}})
}

func (m *Machine) publish(t *turn, by, task string, a engine.ArtifactText) error {
	if _, known := m.st.Artifacts.Latest(a.Name); !known && len(m.st.Artifacts) >= maxArtifacts {
		return t.note(NoteRejected, map[string]any{"artifact": cutBytes(a.Name, maxKeyLen), "by": by, "code": engine.CodeLimitReached, "why": "the room has as many artifacts as it may have"})
	}
	art, err := m.st.Artifacts.Put(a.Name, by, task, a.Text)
	if err != nil {
		return fmt.Errorf("artifact %q: %w", a.Name, err)
	}
	t.add(engine.Command{Kind: engine.CmdArtifact, Artifact: &art})
	return nil
}
