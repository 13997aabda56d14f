package planner

import (
	"slices"

	"github.com/agentrooms/qualify/engine"
)

// Status is the state of an objective (R6).
type Status string

// Objective states. Completed and cancelled are terminal.
const (
	StatusActive              Status = "active"
	StatusVerifying           Status = "verifying"
	StatusWaitingUser         Status = "waiting_user"
	StatusWaitingIntervention Status = "waiting_intervention"
	StatusNeedsAttention      Status = "needs_attention"
	StatusPaused              Status = "paused"
	StatusCompleted           Status = "completed"
	StatusCancelled           Status = "cancelled"
)

// Trigger is what moves an objective (R63).
type Trigger string

// Triggers.
const (
	TriggerTasksComplete  Trigger = "tasks_complete"      // every current task has an admitted result
	TriggerHold           Trigger = "hold"                // ask_user, or wait in answer to the owner
	TriggerOwnerRead      Trigger = "owner_interpreted"   // the next owner event was interpreted
	TriggerAllMet         Trigger = "all_met"             // valid verdict, nothing newer from the owner
	TriggerPlanAdmitted   Trigger = "plan_admitted"       // a successor version is current
	TriggerFailedReports  Trigger = "failed_reports"      // three report versions unmet
	TriggerBarren         Trigger = "barren_replans"      // a replan needed with the counter at its limit
	TriggerUnknown        Trigger = "unknown_verdict"     // a criterion could not be judged
	TriggerNoReviewer     Trigger = "no_reviewer"         // nobody eligible who wrote none of it
	TriggerReviewInvalid  Trigger = "no_valid_review"     // review calls spent without a valid verdict
	TriggerOwnerCorrected Trigger = "owner_correction"    // a correction by the owner
	TriggerOwnerAnswer    Trigger = "owner_resume_answer" // the owner's answer led to a new plan
	TriggerOwnerPause     Trigger = "owner_pause"
	TriggerOwnerUnpause   Trigger = "owner_unpause" // resume of a paused objective: to the remembered status
	TriggerOwnerResume    Trigger = "owner_resume"  // resume of one that waits for a person
	TriggerOwnerCancel    Trigger = "owner_cancel"
)

// running are the states that hold an objective's open work; the others are
// paused and the terminal ones.
var running = []Status{StatusActive, StatusVerifying, StatusWaitingUser, StatusWaitingIntervention, StatusNeedsAttention}

// objectiveMoves is the one table of legal moves (R63).
var objectiveMoves = map[Trigger]struct {
	from []Status
	to   Status
}{
	TriggerTasksComplete:  {[]Status{StatusActive}, StatusVerifying},
	TriggerHold:           {[]Status{StatusActive, StatusVerifying}, StatusWaitingUser},
	TriggerOwnerRead:      {[]Status{StatusWaitingUser}, StatusActive},
	TriggerAllMet:         {[]Status{StatusVerifying}, StatusCompleted},
	TriggerPlanAdmitted:   {[]Status{StatusActive, StatusVerifying}, StatusActive},
	TriggerFailedReports:  {[]Status{StatusVerifying}, StatusNeedsAttention},
	TriggerBarren:         {[]Status{StatusActive, StatusVerifying}, StatusNeedsAttention},
	TriggerUnknown:        {[]Status{StatusVerifying}, StatusWaitingIntervention},
	TriggerNoReviewer:     {[]Status{StatusVerifying}, StatusWaitingIntervention},
	TriggerReviewInvalid:  {[]Status{StatusVerifying}, StatusWaitingIntervention},
	TriggerOwnerCorrected: {[]Status{StatusWaitingIntervention, StatusNeedsAttention}, StatusActive},
	TriggerOwnerAnswer:    {[]Status{StatusWaitingIntervention, StatusNeedsAttention}, StatusActive},
	TriggerOwnerPause:     {running, StatusPaused},
	TriggerOwnerUnpause:   {[]Status{StatusPaused}, ""},
	TriggerOwnerResume:    {[]Status{StatusWaitingIntervention, StatusNeedsAttention}, StatusActive},
	TriggerOwnerCancel:    {append([]Status{StatusPaused}, running...), StatusCancelled},
}

// Next is the status that trigger leads to from a status, "" for the one that
// a pause remembered; INVALID_TRANSITION for every pair that R63 does not list.
func (s Status) Next(trigger Trigger) (Status, error) {
	move := objectiveMoves[trigger]
	if !s.can(trigger) {
		return s, engine.Errorf(engine.CodeInvalidTransition, "objective: %s from %s", trigger, s)
	}
	return move.to, nil
}

// can reports that a trigger moves the status.
func (s Status) can(trigger Trigger) bool { return slices.Contains(objectiveMoves[trigger].from, s) }

// Terminal reports that no trigger leaves the status.
func (s Status) Terminal() bool { return s == StatusCompleted || s == StatusCancelled }

// stopped reports a status that only the owner leaves.
func (s Status) stopped() bool { return s == StatusWaitingIntervention || s == StatusNeedsAttention }

// objective is one objective with its current plan and open work (R6, R7).
// Goal and the texts of criteria are the room's; older plan versions live in
// the rows only.
type objective struct {
	ID                string         `json:"id"`
	Title             string         `json:"title"`
	Status            Status         `json:"status"`
	Origin            string         `json:"origin"`              // owner event
	Continues         string         `json:"continues,omitempty"` // completed objective that a correction took up again
	ObjectiveRevision int            `json:"objective_revision"`
	ControlRevision   int            `json:"control_revision"`
	CriteriaRevision  int            `json:"criteria_revision"`
	Corrections       int            `json:"corrections"` // owner corrections (R19)
	BarrenReplans     int            `json:"barren_replans"`
	FailedReports     []int          `json:"failed_reports"` // versions found unmet (R54)
	Outputs           []judgedOutput `json:"failed_outputs"` // what must not be reviewed again (R53)
	Replans           int            `json:"replans"`        // needs raised, for stable ids
	Says              int            `json:"says"`
	Before            Status         `json:"before,omitempty"` // status that a pause interrupted
	Criteria          []string       `json:"criteria"`         // ids of the room's criteria it is to meet
	Plan              *Plan          `json:"plan"`             // current version
	Works             []*work        `json:"works"`            // its tasks, in plan order
	Held              []held         `json:"held"`             // results that wait for readmission
	// Other task ids seen, with IdentityObjective: they name the objective, and
	// are forgotten with it (I5).
	TaskIDs       []keptTask `json:"task_ids"`
	ReportVersion int        `json:"report_version"`
	Report        *report    `json:"report"` // newest version of the current plan
}

// judgedOutput is an output with the valid verdict that it has, or with the
// answers that it has so far.
type judgedOutput struct {
	Output  string              `json:"output"`          // outputDigest
	Verdict *engine.ReviewReply `json:"verdict"`         // nil while reviewers have still to answer
	Slots   []slot              `json:"slots,omitempty"` // without a verdict: of those who have answered
}

// work is a task of the current plan, nil when there is none.
func (o *objective) work(taskID string) *work {
	for _, w := range o.Works {
		if w.Step.TaskID == taskID {
			return w
		}
	}
	return nil
}

// step finds a current task by its step key.
func (o *objective) step(key string) *work {
	for _, w := range o.Works {
		if w.Step.Key == key {
			return w
		}
	}
	return nil
}

// head is what a proposal on the objective must be bound to now.
func (o *objective) head() head {
	return head{ID: o.ID, ObjectiveRevision: o.ObjectiveRevision, ControlRevision: o.ControlRevision, PlanVersion: o.Plan.Version}
}
