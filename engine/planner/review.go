package planner

import (
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/room"
)

// verify starts, continues or ends the review of the current report (R50-R55).
func (m *Machine) verify(t *turn) error {
	st := &m.st
	o := st.open()
	if o == nil {
		return nil
	}
	if o.Status == StatusActive {
		if o.Report == nil || !m.allComplete() || st.ownerWaits() || st.interpretable(OriginInternal) || m.talking() {
			return nil
		}
		if err := m.move(t, TriggerTasksComplete, t.ev.ID); err != nil {
			return err
		}
	}
	if o.Status != StatusVerifying {
		return nil
	}
	if o.Report.Verdict != nil {
		return m.conclude(t)
	}
	if st.ownerWaits() || st.interpretable(OriginInternal) {
		return nil
	}
	return m.review(t)
}

func (m *Machine) allComplete() bool {
	for _, w := range m.st.Works {
		if m.st.taskStatus(w.Step.TaskID) != room.TaskCompleted {
			return false
		}
	}
	return len(m.st.Works) > 0
}

// review binds the report to the head, refuses to sample the same output
// again, and asks every reviewer who has neither answered nor is being asked.
func (m *Machine) review(t *turn) error {
	o := m.st.Objective
	r := o.Report
	if r.Ref.SourceSet == "" {
		if err := m.bind(r); err != nil {
			return err
		}
		for i := range o.FailedOutputs {
			if o.FailedOutputs[i].Output == r.Output {
				// The same unchanged output is never sent for review again: the
				// verdict it has stands for this version too (R53).
				v := o.FailedOutputs[i].Verdict
				v.Report = r.Ref
				r.Verdict = &v
				return t.note(NoteVerdict, m.verdictBody("the unchanged output keeps its verdict", nil))
			}
		}
	}
	if err := m.fillSlots(t); err != nil || o.Status != StatusVerifying {
		return err
	}
	for i := range r.Slots {
		s := &r.Slots[i]
		if s.Gone || s.Reply != nil || s.Key != nil {
			continue
		}
		if s.Spent >= MaxReviewCalls || s.Invalid > 1 {
			if err := m.move(t, TriggerReviewInvalid, t.ev.ID); err != nil {
				return err
			}
			o.Says++ // the owner's correction may bring the same version here again
			m.notify(t, "No valid review of the report came. Please look at it.", o.ID, "review", itoa(o.Says))
			return nil
		}
		if err := m.ask(t, s); err != nil {
			return err
		}
	}
	return nil
}

// bind fixes what this report version is reviewed against.
func (m *Machine) bind(r *report) error {
	o := m.st.Objective
	var err error
	if r.Ref.SourceSet, err = m.sourceSet(); err != nil {
		return err
	}
	if r.Output, err = m.outputDigest(r.Text); err != nil {
		return err
	}
	r.ObjectiveRevision, r.ControlRevision, r.CriteriaRevision = o.ObjectiveRevision, o.ControlRevision, o.CriteriaRevision
	r.InboxSeq = m.st.Seq
	return nil
}

// fillSlots chooses reviewers: eligible, of role reviewer, and of an agent
// identity that neither wrote any of the work nor reviews it already (R50).
func (m *Machine) fillSlots(t *turn) error {
	o := m.st.Objective
	r := o.Report
	authors := m.authors()
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
		if err := m.move(t, TriggerNoReviewer, t.ev.ID); err != nil {
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
func (m *Machine) ask(t *turn, s *slot) error {
	o := m.st.Objective
	r := o.Report
	req := engine.ReviewRequest{
		Schema: engine.FormatReview, Report: r.Ref, ReportText: r.Text, Criteria: m.spec.Criteria,
		CriteriaRevision: r.CriteriaRevision, ObjectiveRevision: r.ObjectiveRevision, ControlRevision: r.ControlRevision,
	}
	var err error
	if req.Messages, err = m.shownMessages(); err != nil {
		return err
	}
	if req.Evidence, err = m.progress(true); err != nil {
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
	s.Key = &key
	t.add(engine.Command{Kind: engine.CmdModel, Call: &engine.Call{
		Key: key, Agent: s.Reviewer, Role: engine.RoleReviewer, Task: r.Ref.Ref,
		Request: &engine.Request{
			Format: engine.FormatReview, System: engine.Plain(m.spec.reviewerSystem(s.Reviewer)),
			Messages: []engine.Message{{Role: engine.MsgUser, Text: engine.JSONText(body)}},
		},
	}})
	return nil
}

// slot finds the review call in flight under a key.
func (m *Machine) slot(key engine.OpKey) *slot {
	o := m.st.Objective
	if o == nil || o.Report == nil {
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
func (m *Machine) onReview(t *turn, s *slot) error {
	o := m.st.Objective
	r := o.Report
	s.Key = nil
	refusal, err := t.refusal()
	if err != nil {
		return err
	}
	if refusal != nil {
		s.Spent--
		if refusal.Code == engine.CodeForbidden {
			s.Gone = true
			return t.note(NoteRejected, map[string]any{"reviewer": s.Reviewer, "code": refusal.Code, "why": "not authorized at dispatch"})
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
	reply, err := ParseVerdict(t.ev.Reply.Text.S, r.Ref, m.spec.Criteria)
	if err != nil {
		s.Invalid++
		return t.note(NoteInvalid, map[string]any{"report": r.Ref, "reviewer": s.Reviewer, "why": cutRunes(err.Error(), maxIssueText), "calls": s.Spent})
	}
	s.Reply = &reply
	var replies []engine.ReviewReply
	var reviewers []string
	for i := range r.Slots {
		if r.Slots[i].Gone {
			continue
		}
		if r.Slots[i].Reply == nil {
			return nil
		}
		replies = append(replies, *r.Slots[i].Reply)
		reviewers = append(reviewers, r.Slots[i].Reviewer)
	}
	v := combine(replies)
	r.Verdict = &v
	return t.note(NoteVerdict, m.verdictBody("", reviewers))
}

// verdictBody is the stored verdict. A review judges the evidence supplied; it
// does not certify that a source is genuine (R56).
func (m *Machine) verdictBody(why string, reviewers []string) map[string]any {
	r := m.st.Objective.Report
	return map[string]any{
		"objective": m.st.Objective.ID, "report": r.Ref, "overall": overall(*r.Verdict), "verdicts": r.Verdict.Verdicts,
		"reviewers": sorted(reviewers), "current": m.boundNow(r), "why": why, "sourceAuthenticity": "not_assessed",
	}
}

// boundNow reports that the report's review is bound to the present revisions.
func (m *Machine) boundNow(r *report) bool {
	o := m.st.Objective
	return r.ObjectiveRevision == o.ObjectiveRevision && r.ControlRevision == o.ControlRevision && r.CriteriaRevision == o.CriteriaRevision
}

// conclude draws the consequences of the verdict on the current report, once.
func (m *Machine) conclude(t *turn) error {
	o := m.st.Objective
	r := o.Report
	if r.Applied || !m.boundNow(r) {
		// Of a verdict on an earlier objective revision only the evidence
		// counts: the correction is interpreted next (R55).
		return nil
	}
	worst := overall(*r.Verdict)
	if worst == engine.VerdictMet {
		return m.complete(t)
	}
	r.Applied = true
	if worst == engine.VerdictUnknown {
		if err := m.move(t, TriggerUnknown, t.ev.ID); err != nil {
			return err
		}
		m.notify(t, "The reviewer could not judge every criterion: "+unjudged(*r.Verdict)+". Please look at it.", o.ID, "unknown", itoa(r.Ref.Version))
		return nil
	}
	o.FailedReports = append(o.FailedReports, r.Ref.Version)
	o.FailedOutputs = append(o.FailedOutputs, failed{Output: r.Output, Verdict: *r.Verdict})
	if len(o.FailedReports) >= MaxFailedReports {
		if err := m.move(t, TriggerFailedReports, t.ev.ID); err != nil {
			return err
		}
		m.dropNeeds()
		m.notify(t, fmt.Sprintf("%d versions of the report were found wanting, so I have stopped. Please look at it.", MaxFailedReports), o.ID, "failed_reports", itoa(r.Ref.Version))
		return nil
	}
	return m.needReplan(t, "review_unmet")
}

// complete ends the objective: every criterion is met on the newest report and
// nothing of the owner waits unread (R52, I3).
func (m *Machine) complete(t *turn) error {
	o := m.st.Objective
	r := o.Report
	if m.st.ownerWaits() || m.st.interpretable(OriginInternal) {
		return nil
	}
	r.Applied = true
	if err := m.move(t, TriggerAllMet, t.ev.ID); err != nil {
		return err
	}
	m.dropNeeds()
	m.say(t, m.spec.Coordinator, engine.StatusDone, r.Text, o.ID, "completed", itoa(r.Ref.Version))
	m.claim(t, m.spec.Coordinator, r.Text)
	return nil
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
