package evaluator

import (
	"encoding/json"
	"slices"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/evaluator/trace"
)

// Kinds of events that report a tool operation.
const (
	eventToolOK      = string(engine.EvToolOK)
	eventToolError   = string(engine.EvToolError)
	eventToolUnknown = string(engine.EvToolUnknown)
)

// repeatedWork is the metric of Q1: dispatches of a tool call or of a task that
// had already succeeded, its success known before the repeat started. The two
// are summed; what a repeated task calls again counts as calls besides.
func (s *TrialScore) repeatedWork(t *trace.Trace) {
	calls, ok := s.repeatedCalls(t)
	if !ok {
		return
	}
	tasks, ok := s.repeatedTasks(t)
	if !ok {
		return
	}
	slices.Sort(s.RepeatedLines)
	s.RepeatedWork = &RepeatedWork{Count: calls + tasks, Calls: calls, Tasks: tasks}
}

// repeatedCalls counts tool calls that were dispatched although the same call
// (tool and canonical arguments) had already succeeded. An outcome that the
// caller never learned is no known success.
func (s *TrialScore) repeatedCalls(t *trace.Trace) (count int, ok bool) {
	start := map[string]int64{}
	for i := range t.Ops {
		start[t.Ops[i].Op] = t.Ops[i].StartUS
	}
	succeeded := map[string]int64{} // call → earliest time its success was known
	for i := range t.Events {
		e := &t.Events[i]
		if e.Kind != eventToolOK && e.Kind != eventToolError && e.Kind != eventToolUnknown {
			continue
		}
		var body struct {
			Tool string          `json:"tool"`
			Args json.RawMessage `json:"args"`
		}
		if err := json.Unmarshal(e.Body, &body); err != nil || body.Tool == "" || body.Args == nil {
			s.lack("repeated_work", "line %d: the tool event has no tool or no arguments", e.N+1)
			return 0, false
		}
		begun, known := start[e.Op]
		if !known {
			s.lack("repeated_work", "line %d: the operation of the tool event is not recorded", e.N+1)
			return 0, false
		}
		key := body.Tool + "\x00" + string(body.Args) // canonical: the reader made sure
		at, done := succeeded[key]
		if done && at <= begun {
			count++
			s.RepeatedLines = append(s.RepeatedLines, e.N+1)
		}
		if e.Kind == eventToolOK && !done {
			succeeded[key] = e.AtUS
		}
	}
	return count, true
}

// Notes by which a mode records its tasks: a plan names each step's task and
// the digest of its content, a task note that one has completed.
const (
	eventNote     = string(engine.CmdNote)
	notePlan      = "plan"
	noteTask      = "task"
	taskCompleted = "completed"
)

// taskLog is what the notes of a trace say about tasks.
type taskLog struct {
	digest    map[string]string // task id → digest of its content
	completed map[string]int64  // digest → earliest completion
}

// repeatedTasks counts tasks that were dispatched although a task of equal
// digest had already completed. A task that a later plan version keeps is not
// dispatched again, and a mode that records no tasks has none to repeat.
func (s *TrialScore) repeatedTasks(t *trace.Trace) (count int, ok bool) {
	log := taskLog{map[string]string{}, map[string]int64{}}
	for i := range t.Events {
		e := &t.Events[i]
		if e.Kind == eventNote && !log.read(e) {
			s.lack("repeated_work", "line %d: the note names no task or no digest", e.N+1)
			return 0, false
		}
	}
	start := map[string]int64{} // task id → first dispatch
	line := map[string]int{}    // and its record's line
	for i := range t.Ops {
		o := &t.Ops[i]
		if log.digest[o.Task] == "" || notDispatched(o) {
			continue
		}
		if at, seen := start[o.Task]; !seen || o.StartUS < at {
			start[o.Task], line[o.Task] = o.StartUS, o.N+1
		}
	}
	for task, begun := range start {
		if at, done := log.completed[log.digest[task]]; done && at <= begun {
			count++
			s.RepeatedLines = append(s.RepeatedLines, line[task])
		}
	}
	return count, true
}

// read takes one note; false when a plan or task note lacks what it must name.
func (l *taskLog) read(e *trace.Event) bool {
	var note struct {
		Note string `json:"note"`
		Body struct {
			Plan *struct {
				Steps []struct {
					Task   string `json:"task_id"`
					Digest string `json:"digest"`
				} `json:"steps"`
			} `json:"plan"`
			Task   string `json:"task"`
			Status string `json:"status"`
		} `json:"body"`
	}
	var kind struct {
		Note string `json:"note"`
	}
	if err := json.Unmarshal(e.Body, &kind); err != nil || kind.Note != notePlan && kind.Note != noteTask {
		return true // another kind of note, whatever its body
	}
	if err := json.Unmarshal(e.Body, &note); err != nil {
		return false
	}
	if note.Note == notePlan {
		if note.Body.Plan == nil {
			return false
		}
		for _, st := range note.Body.Plan.Steps {
			if st.Task == "" || st.Digest == "" {
				return false
			}
			l.digest[st.Task] = st.Digest
		}
		return true
	}
	if note.Body.Task == "" {
		return false
	}
	d, known := l.digest[note.Body.Task]
	if note.Body.Status != taskCompleted || !known {
		return note.Body.Status != taskCompleted
	}
	if _, seen := l.completed[d]; !seen {
		l.completed[d] = e.AtUS
	}
	return true
}
