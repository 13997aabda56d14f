package planner

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/engine"
)

// next picks the entry to interpret: the oldest pending one of the owner, then
// of a participant, then an internal one once the running tasks of its
// objective have ended, so that a successor plan can keep their results.
func (m *Machine) next() *entry {
	for _, origin := range []Origin{OriginOwner, OriginParticipant, OriginInternal} {
		for i := range m.st.Inbox {
			if e := &m.st.Inbox[i]; e.Origin == origin && e.Status == EntryPending && m.mayInterpret(e) {
				return e
			}
		}
	}
	return nil
}

// mayInterpret reports that an entry may reach the reasoner now. What concerns
// only paused objectives waits for the end of the pause: an owner's pause
// holds progress (R21). While a task is in doubt only its owner is heard (R66).
func (m *Machine) mayInterpret(e *entry) bool {
	if e.Origin != OriginInternal {
		o := m.focus(e)
		if o != nil && e.Origin == OriginParticipant && m.inDoubt(o) {
			return false
		}
		return o == nil || o.Status != StatusPaused
	}
	o := m.st.find(e.Objective)
	if o == nil || (o.Status != StatusActive && o.Status != StatusVerifying) {
		return false
	}
	return !m.inDoubt(o) && !slices.ContainsFunc(o.Works, (*work).busy)
}

// focus is the objective that an entry most likely is about: the one it names,
// else the newest that asked the owner, the newest that is not paused, the
// newest. Nil when no open objective can be meant.
func (m *Machine) focus(e *entry) *objective {
	if o := m.st.find(e.Objective); o != nil {
		return o
	}
	var best *objective
	for _, o := range m.st.Open {
		if best == nil || readiness[o.Status] >= readiness[best.Status] {
			best = o
		}
	}
	return best
}

// readiness ranks the states of objectives that a message may be about.
var readiness = map[Status]int{
	StatusWaitingUser: 2, StatusActive: 1, StatusVerifying: 1, StatusWaitingIntervention: 1, StatusNeedsAttention: 1, StatusPaused: 0,
}

// startInterpretation asks the reasoner about one entry; one interpretation is
// in flight per room at most (R65).
func (m *Machine) startInterpretation(t *turn) error {
	st := &m.st
	if st.Interpret != nil {
		return nil
	}
	e := m.next()
	if e == nil {
		return nil
	}
	if e.Origin == OriginInternal {
		if barred, err := m.replanBarred(t, st.find(e.Objective)); barred || err != nil {
			return err
		}
	}
	req, err := m.planRequest(t, e)
	if err != nil {
		return err
	}
	body, err := engine.Canonical(req)
	if err != nil {
		return fmt.Errorf("plan request: %w", err)
	}
	key := engine.OpKey{Kind: engine.OpInterpret, Cause: e.Event, Attempt: e.Issued}
	e.Issued++
	e.Spent++
	e.Status = EntryInterpreting
	in := &interpreting{
		Event: e.Event, Key: key, Seq: st.Seq, Revision: st.Revision, Focus: req.ObjectiveID,
		ObjectiveRevision: req.ObjectiveRevision, ControlRevision: req.ControlRevision,
	}
	for _, o := range st.Open {
		in.Heads = append(in.Heads, o.head())
	}
	if st.Past != nil {
		in.Heads = append(in.Heads, st.Past.head())
	}
	st.Interpret = in
	t.add(engine.Command{Kind: engine.CmdModel, Call: &engine.Call{
		Key: key, Agent: m.spec.Coordinator, Role: engine.RoleReasoner, Task: e.Event,
		Request: &engine.Request{
			Format: engine.FormatPlan, System: engine.Plain(m.spec.coordinatorSystem()),
			Messages: []engine.Message{{Role: engine.MsgUser, Text: engine.JSONText(body)}},
		},
	}})
	return nil
}

// planRequest is what the reasoner is shown: the room as authorized now, the
// engine's own account of progress, and bounded feedback (R22, R27).
func (m *Machine) planRequest(t *turn, e *entry) (*engine.PlanRequest, error) {
	st := &m.st
	req := &engine.PlanRequest{
		Schema: engine.FormatPlan, Goal: m.spec.Goal, Criteria: m.spec.Criteria,
		ObjectiveRevision: st.Revision, Reason: e.Reason, Feedback: m.feedback(e),
	}
	for _, a := range m.spec.Agents {
		if t.eligible(a.ID) {
			req.Participants = append(req.Participants, a)
		}
	}
	o := m.focus(e)
	if o == nil {
		o = st.Past
	} else {
		req.ObjectiveRevision = o.ObjectiveRevision
	}
	if o != nil {
		req.ObjectiveID, req.ControlRevision, req.PlanVersion = o.ID, o.ControlRevision, o.Plan.Version
		if r := o.Report; r != nil && r.Verdict != nil {
			req.Review = r.Verdict
		}
		if len(st.Open) > 1 || len(o.Criteria) < len(m.spec.Criteria) {
			req.Objectives = m.heads()
		}
	}
	if len(req.Feedback) > 0 && e.Spent > 0 {
		req.Reason = "repair"
	}
	var err error
	if req.Messages, err = m.shownMessages(); err != nil {
		return nil, err
	}
	if req.Progress, err = m.progress(o); err != nil {
		return nil, err
	}
	return req, nil
}

// heads are the open objectives as a reasoner is shown them.
func (m *Machine) heads() []engine.ObjectiveHead {
	out := make([]engine.ObjectiveHead, 0, len(m.st.Open))
	for _, o := range m.st.Open {
		out = append(out, engine.ObjectiveHead{
			ID: o.ID, Title: o.Title, Status: string(o.Status), ObjectiveRevision: o.ObjectiveRevision, ControlRevision: o.ControlRevision,
			PlanVersion: o.Plan.Version, Criteria: o.Criteria,
		})
	}
	return out
}

// feedback of the entry's own last refusal, else of an earlier event that
// interpretation gave up on: the owner's next word is read with it.
func (m *Machine) feedback(e *entry) []engine.PlanIssue {
	if len(e.Feedback) > 0 {
		return e.Feedback
	}
	for i := range m.st.Inbox {
		if o := &m.st.Inbox[i]; o.Status == EntryAttention && len(o.Feedback) > 0 {
			return o.Feedback
		}
	}
	return nil
}

func (m *Machine) shownMessages() ([]engine.PlanMessage, error) {
	out := make([]engine.PlanMessage, 0, len(m.st.Messages))
	for _, h := range m.st.Messages {
		if !h.Text.Loaded() {
			return nil, fmt.Errorf("the text of message %s is not loaded", h.ID)
		}
		out = append(out, engine.PlanMessage{ID: h.ID, Type: h.Type, From: h.From, Text: h.Text.S})
	}
	return out, nil
}

// onInterpretation folds the outcome of the interpretation in flight.
func (m *Machine) onInterpretation(t *turn) error {
	in := *m.st.Interpret
	m.st.Interpret = nil
	e := m.st.entry(in.Event)
	if e == nil {
		// The need ended with its objective while the reasoner thought (R20).
		return t.note(NoteStray, map[string]any{"op": t.ev.Op, "kind": t.ev.Kind, "cause": in.Event})
	}
	e.Status = EntryPending
	refusal, err := t.refusal()
	if err != nil {
		return err
	}
	if refusal != nil {
		// No call was made: it does not count for the cap. The entry waits
		// until the owner speaks again (R64).
		if m.overtaken(in) {
			return m.stale(t, e, in, in.Focus) // a control change overtook the call before it was made
		}
		e.Spent--
		return m.block(t, "interpretation of "+e.Event)
	}
	if t.ev.Kind == engine.EvModelUnknown {
		// Never replayed (R28): the reply may exist, and with it its decision.
		e.Status, e.Op = EntryAwaiting, t.ev.Op
		if err := t.note(NoteUnknown, map[string]any{"event": e.Event, "attempt": in.Key.Attempt, "code": engine.CodeUncertain}); err != nil {
			return err
		}
		m.notify(t, "A planning call gave no answer and may still have been made, so I do not repeat it. Please tell me how to go on.", "uncertain", e.Event, itoa(in.Key.Attempt))
		return nil
	}
	if t.ev.Reply == nil {
		return fmt.Errorf("kind %s has no reply", t.ev.Kind)
	}
	if t.ev.Kind == engine.EvModelFailed {
		if err := t.note(NoteFailed, map[string]any{"event": e.Event, "attempt": in.Key.Attempt, "error": cutBytes(t.ev.Reply.Error, maxIssueText)}); err != nil {
			return err
		}
		return m.retry(t, e, nil)
	}
	if t.ev.Kind != engine.EvModelReply {
		return fmt.Errorf("kind %s does not fit an interpretation", t.ev.Kind)
	}
	return m.onProposal(t, e, in)
}

// onProposal judges a reply: it is a proposal only (R3), bound to the
// revisions it was shown (R23).
func (m *Machine) onProposal(t *turn, e *entry, in interpreting) error {
	reply := t.ev.Reply
	if !reply.Text.Loaded() {
		return fmt.Errorf("the reply is not loaded")
	}
	if m.overtaken(in) {
		return m.stale(t, e, in, in.Focus)
	}
	env, issues := ParseEnvelope(reply.Text.S)
	if len(reply.ToolCalls) > 0 {
		issues = append(issues, engine.PlanIssue{Code: IssueFormat, Text: "a proposal calls no tools"})
	}
	if len(issues) > 0 {
		return m.refuse(t, e, issues)
	}
	objective, control := in.ObjectiveRevision, in.ControlRevision
	if id := env.ObjectiveID; id != "" && id != in.Focus {
		h, shown := in.head(id)
		if !shown {
			return m.refuse(t, e, []engine.PlanIssue{{Code: IssueFormat, Text: fmt.Sprintf("there is no objective %q", cutBytes(id, maxKeyLen))}})
		}
		if !m.unmoved(in, id) {
			return m.stale(t, e, in, id)
		}
		objective, control = h.ObjectiveRevision, h.ControlRevision
	}
	if env.BoundObjectiveRevision != objective || env.BoundControlRevision != control {
		issues = append(issues, engine.PlanIssue{Code: IssueFormat, Text: fmt.Sprintf(
			"bound_objective_revision and bound_control_revision must be %d and %d, as shown", objective, control)})
	}
	if len(issues) > 0 {
		return m.refuse(t, e, issues)
	}
	return m.decide(t, e, in, env)
}

// overtaken reports that the owner has corrected something since the reasoner
// was asked, or that the objective it was asked about has moved (R23).
func (m *Machine) overtaken(in interpreting) bool {
	return in.Revision != m.st.Revision || !m.unmoved(in, in.Focus)
}

// unmoved reports that an objective is where it was when the reasoner was
// asked.
func (m *Machine) unmoved(in interpreting, id string) bool {
	if id == "" {
		return true
	}
	h, _ := in.head(id)
	if o := m.st.find(id); o != nil {
		return o.head() == h
	}
	return m.st.Past != nil && m.st.Past.head() == h
}

// stale records a proposal whose objective moved while the reasoner thought.
// That is nobody's fault: the event is read again, and the cap is not touched.
func (m *Machine) stale(t *turn, e *entry, in interpreting, id string) error {
	e.Spent--
	h, _ := in.head(id)
	return t.note(NoteStale, map[string]any{
		"event": e.Event, "attempt": in.Key.Attempt, "code": engine.CodeStaleRevision, "objective": id,
		"bound_objective_revision": in.ObjectiveRevision, "objective_revision": m.st.Revision, "bound_control_revision": h.ControlRevision,
	})
}

// refuse records a refused proposal. Only repairable issues may be tried again
// (R26); nothing of the proposal exists.
func (m *Machine) refuse(t *turn, e *entry, issues []engine.PlanIssue) error {
	e.Feedback = bounded(issues)
	body := map[string]any{"event": e.Event, "interpretation": e.Spent, "code": engine.CodeInvalidPlan, "issues": e.Feedback}
	if n := len(issues) - len(e.Feedback); n > 0 {
		body["left_out"] = n
	}
	if err := t.note(NoteRefused, body); err != nil {
		return err
	}
	m.post(t, "A proposed plan was not admitted:"+issueLines(e.Feedback), "refused", t.ev.ID)
	if !repairable(issues) {
		return m.attention(t, e)
	}
	return m.retry(t, e, e.Feedback)
}

// retry lets the entry be interpreted again within the cap of R26.
func (m *Machine) retry(t *turn, e *entry, feedback []engine.PlanIssue) error {
	if feedback != nil {
		e.Feedback = feedback
	}
	if e.Spent >= MaxInterpretations {
		return m.attention(t, e)
	}
	return nil
}

// attention gives an event up: one notification, the objective unchanged
// (R28).
func (m *Machine) attention(t *turn, e *entry) error {
	e.Status = EntryAttention
	if err := t.note(NoteAttention, map[string]any{"event": e.Event, "interpretations": e.Spent}); err != nil {
		return err
	}
	why := "no usable plan came"
	if len(e.Feedback) > 0 {
		if b, err := json.Marshal(e.Feedback[0].Text); err == nil {
			why = string(b)
		}
	}
	m.notify(t, "I could not turn this into a plan that may be carried out ("+why+"). Please tell me how to go on.", "attention", e.Event)
	return nil
}

func issueLines(issues []engine.PlanIssue) string {
	var b strings.Builder
	for _, i := range issues {
		b.WriteString("\n- " + i.Code)
		if i.Step != "" {
			b.WriteString(", step " + i.Step)
		}
		b.WriteString(": " + i.Text)
	}
	return b.String()
}
