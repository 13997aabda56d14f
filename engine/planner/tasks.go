package planner

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/room"
	"github.com/agentrooms/qualify/engine/session"
)

// install makes plan the current version: retained tasks go over with their
// results, everything else of the old version loses authority (R34, R67).
func (m *Machine) install(t *turn, o *objective, plan *Plan) error {
	st := &m.st
	works := make([]*work, 0, len(plan.Steps))
	var kept *report
	for _, s := range plan.Steps {
		old := st.work(s.TaskID)
		if !s.Retained {
			a := m.spec.agent(s.Participant)
			works = append(works, &work{Step: s, Version: plan.Version, Agent: a.Agent})
			continue
		}
		if s.Report && o.Report != nil {
			kept = o.Report
			kept.rebind()
		}
		old.Step = s
		works = append(works, old)
	}
	for _, w := range st.Works {
		if !slices.Contains(works, w) {
			if err := m.supersede(t, w); err != nil {
				return err
			}
		}
	}
	st.Works = works
	o.Plan, o.Report = plan, kept
	return nil
}

// supersede takes a task's authority away. Its results stay as evidence; a
// call still in flight is waited for and then only recorded.
func (m *Machine) supersede(t *turn, w *work) error {
	st := &m.st
	id := w.Step.TaskID
	w.Status = st.taskStatus(id)
	if m.spec.Identity == IdentityObjective {
		m.rememberID(keptTask{ID: id, Digest: w.Step.Digest, Planned: w.Status == ""})
	}
	if w.Status == "" {
		return nil // never created
	}
	if !w.Status.Terminal() {
		if err := st.Tasks.Cancel(id, "a newer plan replaced it"); err != nil {
			return err
		}
		w.Status = room.TaskCancelled
		if err := t.note(NoteTask, map[string]any{"task": id, "status": w.Status, "why": "a newer plan replaced it"}); err != nil {
			return err
		}
	}
	if err := st.Tasks.Forget(id); err != nil {
		return err
	}
	if w.Session != nil && !w.Session.Idle() {
		st.Orphans = append(st.Orphans, w)
		return nil
	}
	m.keepEvidence(w)
	return nil
}

// rememberID keeps what an identity names for as long as the room lives (I5).
func (m *Machine) rememberID(k keptTask) {
	ids := m.st.TaskIDs
	if i := slices.IndexFunc(ids, func(x keptTask) bool { return x.ID == k.ID }); i >= 0 {
		ids[i] = k
		return
	}
	m.st.TaskIDs = append(m.st.TaskIDs, k)
}

// keepEvidence moves a superseded task to the history that reasoner and
// reviewers see.
func (m *Machine) keepEvidence(w *work) {
	st := &m.st
	w.Session = nil
	if len(w.Calls) == 0 && w.Result == "" && w.Reason == "" {
		return
	}
	st.History = append(st.History, w)
	if n := len(st.History); n > maxHistory {
		st.History = append([]*work(nil), st.History[n-maxHistory:]...)
	}
}

// keptTasks are the identities that rules of reuse know (R29): only completed
// tasks of the current version can be kept.
func (m *Machine) keptTasks() []keptTask {
	st := &m.st
	var out []keptTask
	for _, w := range st.Works {
		status := st.taskStatus(w.Step.TaskID)
		out = append(out, keptTask{ID: w.Step.TaskID, Digest: w.Step.Digest, Completed: status == room.TaskCompleted, Planned: status == ""})
	}
	for _, list := range [][]*work{st.Orphans, st.History} {
		for _, w := range list {
			out = append(out, keptTask{ID: w.Step.TaskID, Digest: w.Step.Digest})
		}
	}
	return append(out, st.TaskIDs...)
}

// startTasks starts every ready task that the room's concurrency allows
// (R33): all its dependencies are completed, the objective is active, and
// neither the owner nor a replan is about to change the plan.
func (m *Machine) startTasks(t *turn) error {
	st := &m.st
	o := st.open()
	if o == nil || o.Status != StatusActive {
		return nil
	}
	for _, w := range st.Works {
		if st.interpretable(OriginInternal) || st.interpretable(OriginOwner) || st.atWork() >= m.spec.Parallel {
			return nil
		}
		if st.taskStatus(w.Step.TaskID) != "" || !m.ready(w) {
			continue
		}
		if err := m.startTask(t, w); err != nil {
			return err
		}
	}
	return nil
}

func (m *Machine) ready(w *work) bool {
	for _, d := range w.Step.Deps {
		if dep := m.step(d); dep == nil || m.st.taskStatus(dep.Step.TaskID) != room.TaskCompleted {
			return false
		}
	}
	return true
}

// step finds a current task by its step key.
func (m *Machine) step(key string) *work {
	for _, w := range m.st.Works {
		if w.Step.Key == key {
			return w
		}
	}
	return nil
}

func (m *Machine) startTask(t *turn, w *work) error {
	s := w.Step
	tasks := &m.st.Tasks
	if err := tasks.Create(s.TaskID, s.Digest, s.Participant); err != nil {
		return err
	}
	if err := tasks.Start(s.TaskID); err != nil {
		return err
	}
	if !t.eligible(s.Participant) {
		// Authority is read again at each use (R12); its loss is a reason to
		// plan anew (R66).
		return m.failTask(t, w, engine.CodeForbidden, s.Participant+" is not authorized now")
	}
	agent := m.spec.agent(s.Participant)
	tools := slices.DeleteFunc(slices.Clone(s.Tools), func(name string) bool { return !slices.Contains(agent.Tools, name) })
	var criteria []engine.Criterion
	for _, c := range m.spec.Criteria {
		if slices.Contains(s.Criteria, c.ID) {
			criteria = append(criteria, c)
		}
	}
	w.Session = session.New(session.Config{
		Agent: s.Participant, Role: engine.RoleSpecialist, Kind: engine.OpSpecialist, Cause: s.TaskID, Task: s.TaskID,
		System: session.SystemPrompt(session.SystemData{
			ID: s.Participant, Description: agent.Description, Owner: m.spec.Owner,
			Goal: m.spec.Goal, Criteria: criteria, Tools: tools,
		}),
		Tools: tools,
	})
	w.Session.Say(m.spec.Coordinator, engine.Plain(m.instruction(w)))
	t.add(w.Session.Step()...)
	return nil
}

// instruction is the first message of a task: what to do, what to deliver, and
// what the tasks it depends on have delivered.
func (m *Machine) instruction(w *work) string {
	var b strings.Builder
	b.WriteString(w.Step.Instruction)
	if w.Step.ExpectedOutput != "" {
		fmt.Fprintf(&b, "\n\nExpected: %s", w.Step.ExpectedOutput)
	}
	if w.Step.ArtifactKind != "" {
		fmt.Fprintf(&b, "\nDeliver it as an artifact of kind %s.", w.Step.ArtifactKind)
	}
	if w.Step.Report {
		b.WriteString("\nYour reply is the report that a reviewer will judge against the criteria.")
	}
	if len(w.Step.Deps) > 0 {
		b.WriteString("\n\nResults of the work this builds on:")
		for _, d := range w.Step.Deps {
			dep := m.step(d)
			fmt.Fprintf(&b, "\n\n%s (by %s):\n%s", d, dep.Step.Participant, dep.Result)
		}
	}
	return b.String()
}

// onTask folds an outcome of a current task's session.
func (m *Machine) onTask(t *turn, w *work) error {
	w.record(t.ev)
	cmds, end, err := w.Session.Handle(t.ev)
	if err != nil {
		return err
	}
	t.add(cmds...)
	if end == nil {
		return nil
	}
	w.Session = nil
	if refusal, err := t.refusal(); err != nil {
		return err
	} else if refusal != nil && refusal.Code != engine.CodeForbidden {
		if err := m.block(t, "task "+w.Step.TaskID); err != nil {
			return err
		}
	}
	if end.Status == engine.StatusDone || end.Status == engine.StatusAnswer {
		return m.completeTask(t, w, end)
	}
	return m.failTask(t, w, end.Code, end.Text)
}

var toolOutcomes = map[engine.EventKind]string{
	engine.EvToolOK: engine.ToolOK, engine.EvToolError: engine.ToolError, engine.EvToolUnknown: engine.ToolUnknown,
}

// recorded is a finished tool call as evidence; false for any other event.
func recorded(ev engine.Event) (call, bool) {
	outcome, isTool := toolOutcomes[ev.Kind]
	if !isTool || ev.Tool == nil {
		return call{}, false
	}
	return call{Tool: ev.Tool.Tool, Args: ev.Tool.Args, Outcome: outcome, Result: ev.Tool.Result, Write: ev.Tool.Write}, true
}

// record keeps a finished tool call of the task.
func (w *work) record(ev engine.Event) {
	if c, ok := recorded(ev); ok {
		w.Calls = append(w.Calls, c)
	}
}

func (m *Machine) completeTask(t *turn, w *work, end *session.Turn) error {
	id := w.Step.TaskID
	w.Result = end.Text
	if w.Result == "" && end.Artifact != nil {
		w.Result = end.Artifact.Text
	}
	// The operation whose result was accepted proves the work (R2).
	op := t.ev.Op
	if op == "" {
		op = t.ev.ID
	}
	if err := m.st.Tasks.Complete(id, room.Receipt{Op: op, Result: engine.Digest([]byte(w.Result))}); err != nil {
		return err
	}
	// A task id completes for the first time: the cycle is not barren (R35).
	m.st.Objective.BarrenReplans = 0
	if err := t.note(NoteTask, map[string]any{"task": id, "status": room.TaskCompleted, "participant": w.Step.Participant}); err != nil {
		return err
	}
	if end.Artifact != nil {
		if err := m.publish(t, w.Step.Participant, id, *end.Artifact); err != nil {
			return err
		}
	}
	if w.Step.Report {
		return m.newReport(t, w, end)
	}
	return nil
}

func (m *Machine) failTask(t *turn, w *work, code, why string) error {
	id := w.Step.TaskID
	w.Reason = cutBytes(why, maxShownResult)
	if w.Reason == "" {
		w.Reason = "no reason given"
	}
	if err := m.st.Tasks.Fail(id, w.Reason); err != nil {
		return err
	}
	if err := t.note(NoteTask, map[string]any{"task": id, "status": room.TaskFailed, "participant": w.Step.Participant, "code": code, "why": w.Reason}); err != nil {
		return err
	}
	if code == engine.CodeUncertain {
		// Calls of unknown outcome are no reason to plan anew: the work may have
		// been done, so a person decides (R66). Other tasks go on.
		m.notify(t, "Calls for the task "+w.Step.Key+" gave no answer and may still have been made, so I do not order the work again. Please tell me how to go on.", "uncertain", id)
		return nil
	}
	return m.needReplan(t, "task_failed")
}

// onOrphan records the last outcome of a task that a newer plan replaced: it
// is evidence and moves nothing (R34).
func (m *Machine) onOrphan(t *turn, i int) error {
	w := m.st.Orphans[i]
	w.record(t.ev)
	if _, _, err := w.Session.Handle(t.ev); err != nil {
		return err
	}
	m.st.Orphans = slices.Delete(m.st.Orphans, i, i+1)
	m.keepEvidence(w)
	return t.note(NoteLate, map[string]any{"task": w.Step.TaskID, "op": t.ev.Op})
}

// progress is the engine's own account of the current tasks and, with history,
// of superseded ones and of conversations that called tools (R22).
func (m *Machine) progress(history bool) ([]engine.TaskProgress, error) {
	out := make([]engine.TaskProgress, 0, len(m.st.Works))
	for _, w := range m.st.Works {
		status := string(m.st.taskStatus(w.Step.TaskID))
		if status == "" || status == string(room.TaskCreated) {
			status = "waiting"
		}
		p, err := w.progress(status, true)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	if !history {
		return out, nil
	}
	for _, list := range [][]*work{m.st.History, m.st.Orphans} {
		for _, w := range list {
			p, err := w.progress(string(w.Status), false)
			if err != nil {
				return nil, err
			}
			out = append(out, p)
		}
	}
	for _, k := range m.st.Talks {
		if len(k.Calls) == 0 {
			continue
		}
		p, err := k.progress()
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

func (w *work) progress(status string, current bool) (engine.TaskProgress, error) {
	s := w.Step
	p := engine.TaskProgress{
		Task: s.TaskID, Step: s.Key, Participant: s.Participant, Instruction: s.Instruction, Criteria: s.Criteria,
		Status: status, Current: current, Result: w.Result,
		ExpectedOutput: s.ExpectedOutput, ArtifactKind: s.ArtifactKind, Deps: s.Deps, ActionLevel: s.ActionLevel, Tools: s.Tools, Report: s.Report,
	}
	if w.Reason != "" {
		p.Result = w.Reason
	}
	if !current {
		p.Result = cutBytes(p.Result, maxShownResult)
	}
	var err error
	p.Calls, err = shownCalls(w.Calls, s.TaskID)
	return p, err
}

// shownCalls are the calls of a task as prompts show them.
func shownCalls(calls []call, task string) ([]engine.CallEvidence, error) {
	var out []engine.CallEvidence
	for _, c := range calls {
		if !c.Args.Loaded() || !c.Result.Loaded() {
			return nil, fmt.Errorf("the texts of a call of task %s are not loaded", task)
		}
		args := json.RawMessage(c.Args.S)
		if !json.Valid(args) {
			// Only what the world accepted as arguments is JSON for certain.
			quoted, err := json.Marshal(cutBytes(c.Args.S, maxShownResult))
			if err != nil {
				return nil, fmt.Errorf("arguments of a call of task %s: %w", task, err)
			}
			args = quoted
		}
		out = append(out, engine.CallEvidence{Tool: c.Tool, Args: args, Outcome: c.Outcome, Result: cutBytes(c.Result.S, maxShownResult)})
	}
	return out, nil
}
