package gate

import (
	"github.com/agentrooms/qualify/evaluator"
)

// Evidence is all that a verdict depends on beside the policy. It is plain
// data; Evaluate changes nothing of it.
type Evidence struct {
	// Table holds every planned trial of every arm, ablations too.
	Table *evaluator.Table
	// Order is the schedule of the cells of the table, registered before the first
	// trial: a declared look rests on the first of them, however many more are done.
	// Without it, it is that of the table, cells that were run before the others.
	Order []evaluator.Cell
	// Word is the evidence word of the campaign (DESIGN §9); "" takes that of
	// the table's rows.
	Word string
	// Status of the campaign; the zero value is StatusDone.
	Status string
	// Registered is the digest of the policy that was registered before the first
	// trial, "" for none. By another one no rule passes: its limits may have been
	// chosen after the data.
	Registered string
	// Void counts the trials that are void, since what a freeze covers was changed
	// while they ran. They are not run in Table, and with any of them nothing
	// passes.
	Void int
	// Checks are the outcomes of preconditions by the names in Preconditions; one
	// that is missing is not tested.
	Checks map[string]Check
}

// Statuses of a campaign.
const (
	StatusDone      = "done"
	StatusRunning   = "running"   // or interrupted
	StatusStopped   = "stopped"   // by a ceiling
	StatusCancelled = "cancelled" // by hand
)

// CheckState is the outcome of a deterministic check.
type CheckState string

// Outcomes of checks.
const (
	CheckHolds     CheckState = "holds"
	CheckBroken    CheckState = "broken"
	CheckNotTested CheckState = "not tested"
)

// Check is the outcome of a precondition.
type Check struct {
	State  CheckState
	Detail string // one line: what was checked, or what broke
}

// Names of preconditions.
const (
	CheckFreeze       = "freeze_verified"
	CheckLog          = "log_intact"
	CheckHoldout      = "holdout_opened_once"
	CheckBudget       = "budget_proof"
	CheckDenominators = "denominators_closed"
	CheckOracle       = "oracle_audit_clean"
	CheckControls     = "controls_behaved"
	CheckTraces       = "traces_verified"
	CheckMatched      = "arms_matched"
)

// Preconditions lists the preconditions that a policy may require.
func Preconditions() []string {
	return []string{
		CheckFreeze, CheckLog, CheckHoldout, CheckBudget, CheckDenominators, CheckOracle, CheckControls, CheckTraces, CheckMatched,
	}
}
