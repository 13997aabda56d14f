package room

import (
	"maps"
	"slices"

	"github.com/agentrooms/qualify/engine"
)

// TaskStatus is the state of a task.
type TaskStatus string

// Task states. The last three are terminal.
const (
	TaskCreated   TaskStatus = "created"
	TaskRunning   TaskStatus = "running"
	TaskCompleted TaskStatus = "completed"
	TaskFailed    TaskStatus = "failed"
	TaskCancelled TaskStatus = "cancelled"
)

// Terminal reports whether no transition leaves the state.
func (s TaskStatus) Terminal() bool { return len(transitions[s]) == 0 }

// transitions is the one table of legal moves.
var transitions = map[TaskStatus][]TaskStatus{
	TaskCreated: {TaskRunning, TaskCancelled},
	TaskRunning: {TaskCompleted, TaskFailed, TaskCancelled},
}

// Receipt proves accepted work: the operation whose result was accepted and
// the digest of that result. Both are required.
type Receipt struct {
	Op     string `json:"op"`
	Result string `json:"result"`
}

// Task is one piece of work of the room. Digest covers what the task is (R30)
// and never changes under one id.
type Task struct {
	ID          string     `json:"id"`
	Digest      string     `json:"digest"`
	Participant string     `json:"participant"`
	Status      TaskStatus `json:"status"`
	Reason      string     `json:"reason,omitempty"`  // why it failed or was cancelled
	Receipt     *Receipt   `json:"receipt,omitempty"` // of completed tasks only
}

// Tasks are the tasks of a room by id. The zero value is ready for reading;
// Create makes the map.
type Tasks map[string]Task

// Create adds a task. The same id with the same digest and participant is
// adopted unchanged, in whatever state it is (R33); with others it is CONFLICT:
// an id means one piece of work for ever (I5). VALIDATION_ERROR when a part is
// empty.
func (ts *Tasks) Create(id, digest, participant string) error {
	if id == "" || digest == "" || participant == "" {
		return engine.Errorf(engine.CodeValidation, "a task needs id, digest and participant")
	}
	if t, ok := (*ts)[id]; ok {
		if t.Digest != digest || t.Participant != participant {
			return engine.Errorf(engine.CodeConflict, "task %s exists with other content", id)
		}
		return nil
	}
	if *ts == nil {
		*ts = Tasks{}
	}
	(*ts)[id] = Task{ID: id, Digest: digest, Participant: participant, Status: TaskCreated}
	return nil
}

// Start moves a created task to running.
func (ts Tasks) Start(id string) error {
	return ts.move(id, TaskRunning, func(*Task) {})
}

// Complete moves a running task to completed. Only a receipt of accepted work
// completes a task (R2): VALIDATION_ERROR when it is empty.
func (ts Tasks) Complete(id string, r Receipt) error {
	if r.Op == "" || r.Result == "" {
		return engine.Errorf(engine.CodeValidation, "task %s cannot complete without a receipt", id)
	}
	return ts.move(id, TaskCompleted, func(t *Task) { t.Receipt = &r })
}

// Fail moves a running task to failed.
func (ts Tasks) Fail(id, reason string) error {
	return ts.move(id, TaskFailed, func(t *Task) { t.Reason = reason })
}

// Cancel moves a created or running task to cancelled.
func (ts Tasks) Cancel(id, reason string) error {
	return ts.move(id, TaskCancelled, func(t *Task) { t.Reason = reason })
}

// Forget drops a terminal task that no rule needs any more; the store's index
// remembers its id and digest. INVALID_TRANSITION while it is open.
func (ts Tasks) Forget(id string) error {
	t, ok := ts[id]
	if !ok {
		return engine.Errorf(engine.CodeNotFound, "no task %s", id)
	}
	if !t.Status.Terminal() {
		return engine.Errorf(engine.CodeInvalidTransition, "task %s is %s and cannot be forgotten", id, t.Status)
	}
	delete(ts, id)
	return nil
}

// IDs lists the tasks in ascending order.
func (ts Tasks) IDs() []string { return slices.Sorted(maps.Keys(ts)) }

// move applies one row of the transition table: NOT_FOUND, INVALID_TRANSITION.
// An illegal move changes nothing.
func (ts Tasks) move(id string, to TaskStatus, with func(*Task)) error {
	t, ok := ts[id]
	if !ok {
		return engine.Errorf(engine.CodeNotFound, "no task %s", id)
	}
	if !slices.Contains(transitions[t.Status], to) {
		return engine.Errorf(engine.CodeInvalidTransition, "task %s: %s to %s", id, t.Status, to)
	}
	t.Status = to
	with(&t)
	ts[id] = t
	return nil
}
