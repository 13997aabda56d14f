package planner

import (
	"slices"

	"github.com/agentrooms/qualify/engine"
)

// Status is the state of an objective (R6).
type Status string

// Objective states. Completed is terminal. (paused and cancelled come with the
// owner's controls.)
const (
	StatusActive              Status = "active"
	StatusVerifying           Status = "verifying"
	StatusWaitingUser         Status = "waiting_user"
	StatusWaitingIntervention Status = "waiting_intervention"
	StatusNeedsAttention      Status = "needs_attention"
	StatusCompleted           Status = "completed"
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
	TriggerOwnerResume    Trigger = "owner_resume_answer" // the owner's answer led to a new plan
)

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
	TriggerOwnerResume:    {[]Status{StatusWaitingIntervention, StatusNeedsAttention}, StatusActive},
}

// Next is the status that trigger leads to from a status; INVALID_TRANSITION
// for every pair that R63 does not list.
func (s Status) Next(trigger Trigger) (Status, error) {
	move, ok := objectiveMoves[trigger]
	if !ok || !slices.Contains(move.from, s) {
		return s, engine.Errorf(engine.CodeInvalidTransition, "objective: %s from %s", trigger, s)
	}
	return move.to, nil
}

// Terminal reports that no trigger leaves the status.
func (s Status) Terminal() bool { return s == StatusCompleted }

// stopped reports a status that only the owner leaves.
func (s Status) stopped() bool { return s == StatusWaitingIntervention || s == StatusNeedsAttention }

// objective is the head of an objective (R6). Goal and criteria are the
// room's; older plan versions live in the rows only.
type objective struct {
	ID                string   `json:"id"`
	Title             string   `json:"title"`
	Status            Status   `json:"status"`
	Origin            string   `json:"origin"`              // owner event
	Continues         string   `json:"continues,omitempty"` // completed objective that a correction took up again
	ObjectiveRevision int      `json:"objective_revision"`
	ControlRevision   int      `json:"control_revision"`
	CriteriaRevision  int      `json:"criteria_revision"`
	Corrections       int      `json:"corrections"` // owner corrections (R19)
	BarrenReplans     int      `json:"barren_replans"`
	FailedReports     []int    `json:"failed_reports"` // versions found unmet (R54)
	FailedOutputs     []failed `json:"failed_outputs"` // what must not be reviewed again (R53)
	Replans           int      `json:"replans"`        // needs raised, for stable ids
	Says              int      `json:"says"`
	Plan              *Plan    `json:"plan"` // current version
	ReportVersion     int      `json:"report_version"`
	Report            *report  `json:"report"` // newest version of the current plan
}

// failed is an output that a reviewer found unmet, with that verdict.
type failed struct {
	Output  string             `json:"output"` // outputDigest
	Verdict engine.ReviewReply `json:"verdict"`
}
