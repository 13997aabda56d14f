package planner

import (
	"github.com/agentrooms/qualify/engine"
)

// View is the planner's state as a host shows it (R69 Snapshot): copies, in
// stable order.
type View struct {
	Objectives []ObjectiveView `json:"objectives"` // open ones, oldest first, then the last completed one
	Inbox      []EntryView     `json:"inbox"`      // entries that no accepted decision has consumed
	Blocked    string          `json:"blocked,omitempty"`
	Claim      string          `json:"claim,omitempty"` // who claims the owner's work for complete
}

// ObjectiveView is one objective.
type ObjectiveView struct {
	ID                string       `json:"id"`
	Title             string       `json:"title"`
	Status            Status       `json:"status"`
	Before            Status       `json:"before,omitempty"` // status that a pause interrupted
	Continues         string       `json:"continues,omitempty"`
	ObjectiveRevision int          `json:"objective_revision"`
	ControlRevision   int          `json:"control_revision"`
	Criteria          []string     `json:"criteria"`
	Plan              Plan         `json:"plan"`
	Tasks             []TaskView   `json:"tasks"`
	Pending           []ResultView `json:"pending"` // results that wait for readmission
	BarrenReplans     int          `json:"barren_replans"`
	FailedReports     []int        `json:"failed_reports"`
	ReportVersion     int          `json:"report_version"`
	BlockedBy         []string     `json:"blocked_by"`
}

// TaskView is one task of the current plan.
type TaskView struct {
	ID          string   `json:"id"`
	Step        string   `json:"step"`
	Participant string   `json:"participant"`
	Status      string   `json:"status"` // "" while it does not exist yet
	Stalled     string   `json:"stalled,omitempty"`
	Unknown     []string `json:"unknown,omitempty"` // operations of unknown outcome
}

// ResultView is a result that waits for readmission.
type ResultView struct {
	Op                   string `json:"op"`
	Task                 string `json:"task"`
	BoundControlRevision int    `json:"bound_control_revision"`
}

// EntryView is one inbox entry.
type EntryView struct {
	Event           string      `json:"event"`
	Origin          Origin      `json:"origin"`
	Status          EntryStatus `json:"status"`
	Interpretations int         `json:"interpretations"`
	Op              string      `json:"op,omitempty"` // of unknown outcome, while awaiting reconciliation
}

// What an objective can be blocked by beside its status (R64).
const (
	BlockedByBudget        = "budget"
	BlockedByUncertain     = "uncertain_op"
	BlockedByAuthorization = "authorization"
	BlockedByReadmission   = "readmission"
	BlockedByLimit         = "limit"
)

// View is the present state.
func (m *Machine) View() View {
	v := View{Objectives: []ObjectiveView{}, Inbox: []EntryView{}, Blocked: m.st.Blocked, Claim: m.st.Claim}
	for _, o := range m.st.Open {
		v.Objectives = append(v.Objectives, m.viewOf(o))
	}
	if m.st.Past != nil {
		v.Objectives = append(v.Objectives, m.viewOf(m.st.Past))
	}
	for i := range m.st.Inbox {
		e := &m.st.Inbox[i]
		v.Inbox = append(v.Inbox, EntryView{Event: e.Event, Origin: e.Origin, Status: e.Status, Interpretations: e.Spent, Op: e.Op})
	}
	return v
}

func (m *Machine) viewOf(o *objective) ObjectiveView {
	v := ObjectiveView{
		ID: o.ID, Title: o.Title, Status: o.Status, Before: o.Before, Continues: o.Continues,
		ObjectiveRevision: o.ObjectiveRevision, ControlRevision: o.ControlRevision, Criteria: append([]string{}, o.Criteria...),
		Plan: *o.Plan, BarrenReplans: o.BarrenReplans, FailedReports: append([]int{}, o.FailedReports...), ReportVersion: o.ReportVersion,
		Tasks: []TaskView{}, Pending: []ResultView{}, BlockedBy: m.blockedBy(o),
	}
	v.Plan.Steps = append([]Step{}, o.Plan.Steps...)
	for _, w := range o.Works {
		v.Tasks = append(v.Tasks, TaskView{
			ID: w.Step.TaskID, Step: w.Step.Key, Participant: w.Step.Participant, Status: string(m.st.taskStatus(w.Step.TaskID)),
			Stalled: w.Stalled, Unknown: append([]string(nil), w.Unknown...),
		})
	}
	for _, h := range o.Held {
		v.Pending = append(v.Pending, ResultView{Op: h.Op, Task: h.Task, BoundControlRevision: h.Control})
	}
	return v
}

// blockedBy tells what keeps an open objective from going on although its
// status would let it (R64).
func (m *Machine) blockedBy(o *objective) []string {
	out := []string{}
	if o.Status.Terminal() {
		return out
	}
	switch m.st.Blocked {
	case "":
	case engine.CodeBudgetExhausted, engine.CodeBudgetHalted:
		out = append(out, BlockedByBudget)
	case engine.CodeForbidden:
		out = append(out, BlockedByAuthorization)
	default:
		out = append(out, BlockedByLimit)
	}
	uncertain := false
	for i := range m.st.Inbox {
		e := &m.st.Inbox[i]
		uncertain = uncertain || e.Status == EntryAwaiting && e.about(o)
	}
	for _, w := range o.Works {
		uncertain = uncertain || len(w.Unknown) > 0
	}
	if uncertain {
		out = append(out, BlockedByUncertain)
	}
	if len(o.Held) > 0 {
		out = append(out, BlockedByReadmission)
	}
	return out
}
