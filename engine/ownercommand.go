package engine

import "fmt"

// Kinds of owner commands (R69).
const (
	CommandPause     = "pause"     // Objective, Expected
	CommandResume    = "resume"    // Objective, Expected
	CommandCancel    = "cancel"    // Objective, Expected
	CommandGrant     = "grant"     // Total, Overruns
	CommandReadmit   = "readmit"   // Op, Expected
	CommandReconcile = "reconcile" // Op
)

// CommandRequest is what an owner orders. Each kind uses the fields named
// beside it and no others.
type CommandRequest struct {
	Kind      string `json:"kind"`
	Objective string `json:"objective,omitempty"`
	Op        string `json:"op,omitempty"` // operation id
	// Expected is the control revision of the objective as the owner saw it;
	// another one is STALE_REVISION (R44, R69).
	Expected int      `json:"expected_control_revision,omitempty"`
	Total    int64    `json:"total,omitempty"`    // the new total limit in USD micros
	Overruns []string `json:"overruns,omitempty"` // operations whose overruns the owner acknowledges
}

// Digest is the request digest: the same key with another digest is a
// CONFLICT (R69).
func (r CommandRequest) Digest() (string, error) {
	b, err := Canonical(r)
	if err != nil {
		return "", fmt.Errorf("digest of command %s: %w", r.Kind, err)
	}
	return Digest(b), nil
}

// OwnerCommand is a command as the runtime delivers it: the author resolved,
// and everything that a machine cannot know filled in just before the commit.
type OwnerCommand struct {
	CommandRequest

	Key  string `json:"key"`  // idempotency key, unique in the room for ever
	From string `json:"from"` // participant id of the resolved author
	// Earlier is the answer that Key was given before, from the store's index
	// SpaceCommand; nil for a new key.
	Earlier *Answer `json:"earlier,omitempty"`
	// Found is what the runtime did or found out for the command: for grant the
	// account's answer, for reconcile the evidence. Nil for the other kinds.
	Found *CommandFound `json:"found,omitempty"`
}

// CommandFound is the runtime's part of a command.
type CommandFound struct {
	Code    string `json:"code,omitempty"` // why the account refused; "" when done
	Reason  string `json:"reason,omitempty"`
	Outcome string `json:"outcome,omitempty"` // reconcile: ReconciledExecuted, ReconciledNotExecuted or "" without evidence
	// Reply is what an executed call returned, where the evidence has it.
	Reply *ModelReply `json:"reply,omitempty"`
}

// Evidence of a reconciliation (R47).
const (
	ReconciledExecuted    = "executed"     // settled at what it cost
	ReconciledNotExecuted = "not_executed" // proven; the hold is released
)

// Answer is what came of an owner's command. The store remembers it for ever
// under the command's key in SpaceCommand (canonical JSON), so that the same
// key with the same request always gets the same answer (R69).
type Answer struct {
	Key             string `json:"key"`
	Digest          string `json:"digest"` // CommandRequest.Digest
	Code            string `json:"code,omitempty"`
	Reason          string `json:"reason,omitempty"`
	Objective       string `json:"objective,omitempty"`
	Status          string `json:"status,omitempty"` // of the objective, after the command
	ControlRevision int    `json:"control_revision"`
	Admission       string `json:"admission,omitempty"` // readmit: readmitted or evidence_only
	// Repeated marks the answer to a key that had been answered before; it is
	// not remembered again.
	Repeated bool `json:"repeated,omitempty"`
}

// SpaceCommand is the index space of command keys (store.Rooms.Lookup).
const SpaceCommand = "command"

// Err is the answer as an error of its code; nil when the command was carried
// out.
func (a Answer) Err() error {
	if a.Code == "" {
		return nil
	}
	return Errorf(a.Code, "%s", a.Reason)
}

// CallGuard is implemented by machines that can take authority away from an
// operation in flight (R43, R67).
type CallGuard interface {
	// Lost says why the operation has lost its authority; "" while it has it.
	// An adapter that learns of a loss at its heartbeat aborts cooperatively;
	// the outcome is charged either way.
	Lost(key OpKey) string
}
