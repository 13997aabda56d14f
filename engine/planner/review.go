package planner

import (
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/room"
)

// verify starts, continues or ends the review of an objective's current report
// (R50-R55).
func (m *Machine) verify(t *turn, o *objective) error {
	st := &m.st
	if o.Status == StatusActive {
		if o.Report == nil || !m.allComplete(o) || st.ownerWaits(o) || st.interpretable(OriginInternal, o) || m.talking() {
			return nil
		}
		if err := m.move(t, o, TriggerTasksComplete, t.ev.ID); err != nil {
			return err
		}
	}
	if o.Status != StatusVerifying {
		return nil
	}
	if o.Report.Verdict != nil {
		return m.conclude(t, o)
	}
	if st.ownerWaits(o) || st.interpretable(OriginInternal, o) {
		return nil
	}
	return m.review(t, o)
}

func (m *Machine) allComplete(o *objective) bool {
	for _, w := range o.Works {
		if m.st.taskStatus(w.Step.TaskID) != room.TaskCompleted {
			return false
		}
	}
	return len(o.Works) > 0
}

// review binds the report to the head, refuses to sample the same output
// again, and asks every reviewer who has neither answered nor is being asked.
func (m *Machine) review(t *turn, o *objective) error {
	r := o.Report
	if r.Ref.SourceSet == "" {
		if err := m.bind(o, r); err != nil {
			return err
		}
		if m.recall(o, r); r.Verdict != nil {
			return t.note(NoteVerdict, m.verdictBody(o, "the unchanged output keeps its verdict"))
		}
	}
	if err := m.fillSlots(t, o); err != nil || o.Status != StatusVerifying {
		return err
	}
	for i := range r.Slots {
		s := &r.Slots[i]
		if s.Gone || s.Reply != nil || s.Key != nil {
			continue
		}
		if s.Spent >= MaxReviewCalls || s.Invalid > 1 {
			if err := m.move(t, o, TriggerReviewInvalid, t.ev.ID); err != nil {
				return err
			}
			o.Says++ // the owner's correction may bring the same version here again
			m.notify(t, "No valid review of the report came. Please look at it.", o.ID, "review", itoa(o.Says))
			return nil
		}
		if err := m.ask(t, o, s); err != nil {
			return err
		}
	}
	return nil
}

// bind fixes what this report version is reviewed against.
func (m *Machine) bind(o *objective, r *report) error {
	var err error
	if r.Ref.SourceSet, err = m.sourceSet(o); err != nil {
		return err
	}
	if r.Output, err = o.outputDigest(r.Text); err != nil {
		return err
	}
	r.ObjectiveRevision, r.ControlRevision, r.CriteriaRevision = o.ObjectiveRevision, o.ControlRevision, o.CriteriaRevision
	r.InboxSeq = m.st.Seq
	return nil
}

// fillSlots chooses reviewers: eligible, of role reviewer, and of an agent
// identity that neither wrote any of the work nor reviews it already (R50).
func (m *Machine) fillSlots(t *turn, o *objective) error {
	r := o.Report
	authors := o.authors()
	have := 0
	for _, s := range r.Slots {
		if !s.Gone {
			have++
		}
	}
	var asked []string
	for _, a := range m.spec.Agents {
		if have >= m.spec.Reviewers {
			break
		}
		taken := slices.ContainsFunc(r.Slots, func(s slot) bool { return s.Agent == a.Agent })
		if a.Role != engine.RoleReviewer || taken || slices.Contains(authors, a.Agent) || !t.eligible(a.ID) {
			continue
		}
		r.Slots = append(r.Slots, slot{Reviewer: a.ID, Agent: a.Agent})
		asked = append(asked, a.ID)
		have++
	}
	if have < m.spec.Reviewers {
		if err := m.move(t, o, TriggerNoReviewer, t.ev.ID); err != nil {
			return err
		}
		o.Says++
		m.notify(t, "Nobody is left who may review this: every reviewer took part in the work or is not authorized.", o.ID, "no_reviewer", itoa(o.Says))
		return nil
	}
	if len(asked) == 0 {
		return nil
	}
	return t.note(NoteReview, map[string]any{"objective": o.ID, "report": r.Ref, "reviewers": asked, "authors": authors})
}

// ask issues one review call.
func (m *Machine) ask(t *turn, o *objective, s *slot) error {
	r := o.Report
	req := engine.ReviewRequest{
		Schema: engine.FormatReview, Report: r.Ref, ReportText: r.Text, Criteria: m.spec.criteria(o.Criteria),
		CriteriaRevision: r.CriteriaRevision, ObjectiveRevision: r.ObjectiveRevision, ControlRevision: r.ControlRevision,
	}
	var err error
	if req.Messages, err = m.shownMessages(); err != nil {
		return err
	}
	if req.Evidence, err = m.evidence(o); err != nil {
		return err
	}
	body, err := engine.Canonical(req)
	if err != nil {
		return fmt.Errorf("review request: %w", err)
	}
	cause := engine.StableID("rev_", o.ID, r.Ref.Ref, itoa(r.Ref.Version), r.Ref.SourceSet, itoa(r.CriteriaRevision), s.Reviewer)
	key := engine.OpKey{Kind: engine.OpReview, Cause: cause, Attempt: s.Issued}
	s.Issued++
	s.Spent++
	s.Key, s.Control = &key, o.ControlRevision
	t.add(engine.Command{Kind: engine.CmdModel, Call: &engine.Call{
		Key: key, Agent: s.Reviewer, Role: engine.RoleReviewer, Task: r.Ref.Ref,
		Request: &engine.Request{
			Format: engine.FormatReview, System: engine.Plain(m.spec.reviewerSystem(s.Reviewer)),
			Messages: []engine.Message{{Role: engine.MsgUser, Text: engine.JSONText(body)}},
		},
	}})
	return nil
}

// evidence is the account that a reviewer is shown: of the objective's tasks,
// of superseded ones and of conversations; not of other objectives.
func (m *Machine) evidence(o *objective) ([]engine.TaskProgress, error) {
	all, err := m.progress(o)
	if err != nil || len(m.st.Open) < 2 {
		return all, err
	}
	return slices.DeleteFunc(all, func(p engine.TaskProgress) bool { return p.Objective != "" && p.Objective != o.ID }), nil
}

// slot finds the review call in flight under a key.
func (o *objective) slot(key engine.OpKey) *slot {
	if o.Report == nil {
		return nil
	}
	for i := range o.Report.Slots {
		if s := &o.Report.Slots[i]; s.Key != nil && *s.Key == key {
			return s
		}
	}
	return nil
}

// onReview folds the outcome of one review call.
func (m *Machine) onReview(t *turn, o *objective, s *slot) error {
	r := o.Report
	refusal, err := t.refusal()
	if err != nil {
		return err
	}
	if refusal == nil && s.Control != o.ControlRevision {
		s.Held = true
		return m.hold(t, o, r.Ref.Ref, s.Control)
	}
	s.Key = nil
	if refusal != nil {
		s.Spent--
		if refusal.Code == engine.CodeForbidden {
			s.Gone = true
			return t.note(NoteRejected, map[string]any{"reviewer": s.Reviewer, "code": refusal.Code, "why": "not authorized at dispatch"})
		}
		if s.Control != o.ControlRevision {
			return nil // a control change overtook the call before it was made
		}
		return m.block(t, "review by "+s.Reviewer)
	}
	if t.ev.Kind == engine.EvModelFailed || t.ev.Kind == engine.EvModelUnknown {
		// No verdict was seen, so a further call samples nothing twice; the
		// unknown operation itself is never repeated.
		return t.note(NoteInvalid, map[string]any{"report": r.Ref, "reviewer": s.Reviewer, "why": string(t.ev.Kind), "calls": s.Spent})
	}
	if t.ev.Kind != engine.EvModelReply || t.ev.Reply == nil {
		return fmt.Errorf("kind %s does not fit a review", t.ev.Kind)
	}
	if !t.ev.Reply.Text.Loaded() {
		return fmt.Errorf("the reply is not loaded")
	}
	if !t.eligible(s.Reviewer) {
		s.Gone = true
		return t.note(NoteRejected, map[string]any{"reviewer": s.Reviewer, "code": engine.CodeForbidden, "why": "not authorized when the verdict came"})
	}
	reply, err := ParseVerdict(t.ev.Reply.Text.S, r.Ref, m.spec.criteria(o.Criteria))
	if err != nil {
		s.Invalid++
		return t.note(NoteInvalid, map[string]any{"report": r.Ref, "reviewer": s.Reviewer, "code": engine.CodeReviewInvalid, "why": cutRunes(err.Error(), maxIssueText), "calls": s.Spent})
	}
	s.Reply = &reply
	r.Verdict = m.joint(r)
	o.remember(r)
	if r.Verdict == nil {
		return nil
	}
	return t.note(NoteVerdict, m.verdictBody(o, ""))
}

// joint is the verdict of all reviewers together, nil while one of them or one
// of those who must agree has still to answer.
func (m *Machine) joint(r *report) *engine.ReviewReply {
	var replies []engine.ReviewReply
	for i := range r.Slots {
		switch s := &r.Slots[i]; {
		case s.Gone:
		case s.Reply == nil:
			return nil
		default:
			replies = append(replies, *s.Reply)
		}
	}
	if len(replies) < m.spec.Reviewers {
		return nil
	}
	v := combine(replies)
	return &v
}

// verdictBody is the stored verdict. A review judges the evidence supplied; it
// does not certify that a source is genuine (R56).
func (m *Machine) verdictBody(o *objective, why string) map[string]any {
	r := o.Report
	var reviewers []string
	for i := range r.Slots {
		if r.Slots[i].Reply != nil {
			reviewers = append(reviewers, r.Slots[i].Reviewer)
		}
	}
	return map[string]any{
		"objective": o.ID, "report": r.Ref, "overall": overall(*r.Verdict), "verdicts": r.Verdict.Verdicts,
		"reviewers": sorted(reviewers), "current": o.boundNow(r), "why": why, "sourceAuthenticity": "not_assessed",
	}
}

// boundNow reports that the report's review is bound to the present revisions.
func (o *objective) boundNow(r *report) bool {
	return r.ObjectiveRevision == o.ObjectiveRevision && r.ControlRevision == o.ControlRevision && r.CriteriaRevision == o.CriteriaRevision
}

// conclude draws the consequences of the verdict on the current report, once.
func (m *Machine) conclude(t *turn, o *objective) error {
	r := o.Report
	if r.Applied || !o.boundNow(r) {
		// Of a verdict on an earlier objective revision only the evidence
		// counts: the correction is interpreted next (R55).
		return nil
	}
	worst := overall(*r.Verdict)
	if worst == engine.VerdictMet {
		return m.complete(t, o)
	}
	r.Applied = true
	if worst == engine.VerdictUnknown {
		if err := m.move(t, o, TriggerUnknown, t.ev.ID); err != nil {
			return err
		}
		m.notify(t, "The reviewer could not judge every criterion: "+unjudged(*r.Verdict)+". Please look at it.", o.ID, "unknown", itoa(r.Ref.Version))
		return nil
	}
	o.FailedReports = append(o.FailedReports, r.Ref.Version)
	if len(o.FailedReports) >= MaxFailedReports {
		if err := m.move(t, o, TriggerFailedReports, t.ev.ID); err != nil {
			return err
		}
		m.dropNeeds(o)
		m.notify(t, fmt.Sprintf("%d versions of the report were found wanting, so I have stopped. Please look at it.", MaxFailedReports), o.ID, "failed_reports", itoa(r.Ref.Version))
		return nil
	}
	return m.needReplan(t, o, "review_unmet")
}

// remember keeps what has been said of an output, so that no reviewer is sent it
// again: another sample of the same judgement is nobody's to buy (R53). What was
// said of what the owner has corrected meanwhile is nothing on what he wants now.
func (o *objective) remember(r *report) {
	if r.ObjectiveRevision != o.ObjectiveRevision {
		return
	}
	i := o.judgedOutput(r)
	if i < 0 {
		i = len(o.Outputs)
		o.Outputs = append(o.Outputs, judgedOutput{Output: r.Output})
	}
	j := &o.Outputs[i]
	if j.Verdict != nil {
		return
	}
	if j.Verdict = r.Verdict; j.Verdict != nil {
		j.Slots = nil
		return
	}
	for _, s := range r.Slots {
		if s.Reply != nil && !slices.ContainsFunc(j.Slots, s.same) {
			j.Slots = append(j.Slots, s)
		}
	}
}

// recall gives a version of the report what has been said of its output before:
// the verdict, or the answers of single reviewers, except of those who wrote
// some of the present work (R50, R53).
func (m *Machine) recall(o *objective, r *report) {
	i := o.judgedOutput(r)
	if i < 0 {
		return
	}
	j := &o.Outputs[i]
	if j.Verdict != nil {
		v := *j.Verdict
		v.Report = r.Ref
		r.Verdict = &v
		return
	}
	authors := o.authors()
	for _, s := range j.Slots {
		if slices.Contains(authors, s.Agent) {
			continue
		}
		reply := *s.Reply
		reply.Report = r.Ref
		r.Slots = append(slices.DeleteFunc(r.Slots, s.same), slot{Reviewer: s.Reviewer, Agent: s.Agent, Reply: &reply})
	}
	r.Verdict = m.joint(r)
	o.remember(r)
}

// judgedOutput finds what is remembered of a version's output, -1 for nothing.
func (o *objective) judgedOutput(r *report) int {
	return slices.IndexFunc(o.Outputs, func(j judgedOutput) bool { return j.Output == r.Output })
}

// same reports that two slots are of one agent identity.
func (s slot) same(other slot) bool { return s.Agent == other.Agent }

// complete ends the objective: every criterion is met on the newest report and
// nothing of the owner waits unread (R52, I3). The room's work is claimed once
// no objective is open and the completed ones together meet every criterion.
func (m *Machine) complete(t *turn, o *objective) error {
	st := &m.st
	r := o.Report
	if st.ownerWaits(o) || st.interpretable(OriginInternal, o) {
		return nil
	}
	r.Applied = true
	if err := m.move(t, o, TriggerAllMet, t.ev.ID); err != nil {
		return err
	}
	if err := m.leave(t, o); err != nil {
		return err
	}
	if st.Past != nil {
		// Only the newest completed objective can be taken up again.
		for _, w := range st.Past.Works {
			if err := m.supersede(t, st.Past, w, "its objective is completed"); err != nil {
				return err
			}
		}
	}
	st.Past = o
	o.TaskIDs, o.Outputs = nil, nil
	st.Met = sorted(append(st.Met, o.Criteria...))
	m.say(t, m.spec.Coordinator, engine.StatusDone, r.Text, o.ID, "completed", itoa(r.Ref.Version))
	if len(st.Open) > 0 || st.ownerWaits(nil) {
		return nil
	}
	if len(st.Met) < len(m.spec.Criteria) {
		m.notify(t, "The objective is completed, and no objective is open for the remaining criteria. Please tell me how to go on.", o.ID, "remaining")
		return nil
	}
	m.claim(t, m.spec.Coordinator, r.Text)
	return nil
}

// leave takes a terminal objective out of the open ones.
func (m *Machine) leave(t *turn, o *objective) error {
	st := &m.st
	m.dropNeeds(o)
	st.Open = slices.DeleteFunc(st.Open, func(x *objective) bool { return x == o })
	st.Closed = append(st.Closed, closed{ID: o.ID, Status: o.Status, Control: o.ControlRevision})
	if n := len(st.Closed); n > maxClosed {
		st.Closed = append([]closed(nil), st.Closed[n-maxClosed:]...)
	}
	for i := range st.Inbox {
		if st.Inbox[i].Objective == o.ID {
			st.Inbox[i].Objective = "" // what was said about it concerns the room now
		}
	}
	return m.dropHeld(t, o, "the objective is "+string(o.Status))
}

func unjudged(r engine.ReviewReply) string {
	out := ""
	for _, v := range r.Verdicts {
		if v.Verdict == engine.VerdictUnknown {
			if out != "" {
				out += ", "
			}
			out += v.Criterion
		}
	}
	return out
}
