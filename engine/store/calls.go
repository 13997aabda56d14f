package store

import "time"

// RunStatus is the state of a call in the words of a workflow's ledger (R48).
type RunStatus string

// States of a run. claimed → running | canceled; running → completed | failed
// | indeterminate; indeterminate → completed | canceled by reconciliation only.
const (
	RunClaimed       RunStatus = "claimed"       // reserved, not dispatched
	RunRunning       RunStatus = "running"       // dispatched
	RunCompleted     RunStatus = "completed"     //
	RunFailed        RunStatus = "failed"        //
	RunCanceled      RunStatus = "canceled"      // refused or released: it did not happen
	RunIndeterminate RunStatus = "indeterminate" // nobody knows
)

// CallRun is a call as the run of a single-task process (R48): a projection of
// its operation and of the lease under which its room is worked. The operation
// stays the only record.
type CallRun struct {
	Room            string
	IdempotencyKey  string // operation id
	InputDigest     string // request digest; never changes
	Kind            string
	Agent           string
	Role            string
	Task            string
	Attempt         int
	Status          RunStatus
	LeaseOwner      string    // while claimed or running, of the process that has the room
	LeaseGeneration int64     //
	LeaseExpiresAt  time.Time // zero without a lease
	Duration        time.Duration
	CostMicros      int64 // USD
}

// RunOf is the run that an operation of a room stands for. lease is the room's,
// zero when nobody has it.
func RunOf(room string, op *Op, lease Lease) CallRun {
	r := CallRun{
		Room: room, IdempotencyKey: op.ID, InputDigest: op.RequestDigest, Kind: string(op.Key.Kind),
		Agent: op.Agent, Role: op.Role, Task: op.Task, Attempt: op.Key.Attempt, Status: runStatus(op.Status), CostMicros: op.ChargedMicros,
	}
	if op.Receipt != nil {
		r.Duration = time.Duration(op.Receipt.FinishUS-op.Receipt.StartUS) * time.Microsecond
	}
	if open := r.Status == RunClaimed || r.Status == RunRunning; open && lease.Token != "" {
		r.LeaseOwner, r.LeaseGeneration, r.LeaseExpiresAt = lease.Owner, lease.Generation, LeaseTime(lease.ExpiresAt)
	}
	return r
}

func runStatus(s OpStatus) RunStatus {
	switch s {
	case OpReserved:
		return RunClaimed
	case OpDispatched:
		return RunRunning
	case OpSettledOK:
		return RunCompleted
	case OpSettledFailed:
		return RunFailed
	case OpUncertain:
		return RunIndeterminate
	case OpRefused, OpReleased:
		return RunCanceled
	}
	return RunCanceled
}
