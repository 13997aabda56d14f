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
	works := make([]*work, 0, len(plan.Steps))
	var kept *report
	for _, s := range plan.Steps {
		old := o.work(s.TaskID)
		if !s.Retained {
			a := m.spec.agent(s.Participant)
			works = append(works, &work{Step: s, Version: plan.Version, Agent: a.Agent, Objective: o.ID})
			continue
		}
		if s.Report && o.Report != nil {
			kept = o.Report
			kept.rebind()
		}
		old.Step, old.Objective = s, o.ID
		works = append(works, old)
	}
	for _, w := range o.Works {
		if !slices.Contains(works, w) {
			if err := m.supersede(t, o, w, "a newer plan replaced it"); err != nil {
				return err
			}
		}
	}
	if err := m.dropHeld(t, o, "a newer plan replaced the work"); err != nil {
		return err
	}
	o.Works, o.Plan, o.Report = works, plan, kept
	return nil
}

// supersede takes a task's authority away. Its results stay as evidence; a
// call still in flight is waited for and then only recorded.
func (m *Machine) supersede(t *turn, o *objective, w *work, why string) error {
	st := &m.st
	id := w.Step.TaskID
	w.Status = st.taskStatus(id)
	if m.spec.Identity == IdentityObjective {
		o.rememberID(keptTask{ID: id, Digest: w.Step.Digest, Planned: w.Status == ""})
	}
	if w.Status == "" {
		return nil // never created
	}
	if !w.Status.Terminal() {
		if err := st.Tasks.Cancel(id, why); err != nil {
			return err
		}
		w.Status = room.TaskCancelled
		if err := t.note(NoteTask, map[string]any{"task": id, "status": w.Status, "why": why}); err != nil {
			return err
		}
	}
	if err := st.Tasks.Forget(id); err != nil {
		return err
	}
	if w.busy() {
		st.Orphans = append(st.Orphans, w)
		return nil
	}
	m.keepEvidence(w)
	return nil
}

// rememberID keeps what an identity names for as long as its objective is open
// (I5).
func (o *objective) rememberID(k keptTask) {
	ids := o.TaskIDs
	if i := slices.IndexFunc(ids, func(x keptTask) bool { return x.ID == k.ID }); i >= 0 {
		ids[i] = k
		return
	}
	o.TaskIDs = append(o.TaskIDs, k)
}

// keepEvidence moves a superseded task to the history that reasoner and
// reviewers see.
func (m *Machine) keepEvidence(w *work) {
	st := &m.st
	w.Session, w.Held, w.Stalled, w.Unknown = nil, false, "", nil
	if len(w.Calls) == 0 && w.Result == "" && w.Reason == "" {
		return
	}
	st.History = append(st.History, w)
	past := 0
	for i := len(st.History) - 1; i >= 0; i-- {
		if st.find(st.History[i].Objective) != nil {
			continue
		}
		if past++; past > maxPastHistory {
			st.History = slices.Delete(st.History, i, i+1)
		}
	}
	if n := len(st.History); n > maxHistory {
		st.History = append([]*work(nil), st.History[n-maxHistory:]...)
	}
}

// keptTasks are the identities that rules of reuse know (R29): only completed
// tasks of the version that the plan follows can be kept.
func (m *Machine) keptTasks(o, prev *objective) []keptTask {
	st := &m.st
	var out []keptTask
	if prev != nil {
		for _, w := range prev.Works {
			status := st.taskStatus(w.Step.TaskID)
			out = append(out, keptTask{ID: w.Step.TaskID, Digest: w.Step.Digest, Completed: status == room.TaskCompleted, Planned: status == ""})
		}
	}
	for _, list := range [][]*work{st.Orphans, st.History} {
		for _, w := range list {
			out = append(out, keptTask{ID: w.Step.TaskID, Digest: w.Step.Digest})
		}
	}
	if o != nil {
		out = append(out, o.TaskIDs...)
	}
	return out
}

// startTasks starts every ready task that the room's concurrency allows
// (R33): all its dependencies are completed, its objective is active, and
// neither the owner nor a replan is about to change the plan.
func (m *Machine) startTasks(t *turn) error {
	st := &m.st
	for _, o := range st.Open {
		for _, w := range o.Works {
			if o.Status != StatusActive || st.interpretable(OriginInternal, o) || st.interpretable(OriginOwner, o) || st.atWork() >= m.spec.Parallel {
				break
			}
			if w.Stalled != "" {
				m.goOn(t, o, w)
				continue
			}
			if st.taskStatus(w.Step.TaskID) != "" || !m.ready(o, w) {
				continue
			}
			if err := m.startTask(t, o, w); err != nil {
				return err
			}
		}
	}
	return nil
}

// goOn takes up a task whose call was refused, now that calls can be made
// again (R64). The conversation is whole, so no work is repeated.
func (m *Machine) goOn(t *turn, o *objective, w *work) {
	w.Stalled = ""
	w.Control = o.ControlRevision
	w.Session.Say(m.spec.Coordinator, engine.Plain("Calls can be made again. Please go on with the task."))
	t.add(w.Session.Step()...)
}

func (m *Machine) ready(o *objective, w *work) bool {
	for _, d := range w.Step.Deps {
		if dep := o.step(d); dep == nil || m.st.taskStatus(dep.Step.TaskID) != room.TaskCompleted {
			return false
		}
	}
	return true
}

func (m *Machine) startTask(t *turn, o *objective, w *work) error {
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
		return m.failTask(t, o, w, engine.CodeForbidden, s.Participant+" is not authorized now")
	}
	agent := m.spec.agent(s.Participant)
	tools := slices.DeleteFunc(slices.Clone(s.Tools), func(name string) bool { return !slices.Contains(agent.Tools, name) })
	w.Session = session.New(session.Config{
		Agent: s.Participant, Role: engine.RoleSpecialist, Kind: engine.OpSpecialist, Cause: s.TaskID, Task: s.TaskID,
		System: session.SystemPrompt(session.SystemData{
			ID: s.Participant, Description: agent.Description, Owner: m.spec.Owner,
			Goal: m.spec.Goal, Criteria: m.spec.criteria(s.Criteria), Tools: tools,
		}),
		Tools: tools, Once: m.spec.Once,
	})
	w.Control = o.ControlRevision
	w.Session.Say(m.spec.Coordinator, engine.Plain(instruction(o, w)))
	t.add(w.Session.Step()...)
	return nil
}

// instruction is the first message of a task: what to do, what to deliver, and
// what the tasks it depends on have delivered.
func instruction(o *objective, w *work) string {
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
			dep := o.step(d)
			fmt.Fprintf(&b, "\n\n%s (by %s):\n%s", d, dep.Step.Participant, dep.Result)
		}
	}
	return b.String()
}

// onTask folds an outcome of a current task's session.
func (m *Machine) onTask(t *turn, o *objective, w *work) error {
	refusal, err := t.refusal()
	if err != nil {
		return err
	}
	w.record(t.ev) // evidence at once, whatever becomes of it (R34)
	if w.Control != o.ControlRevision && refusal == nil {
		w.Held = true
		return m.hold(t, o, w.Step.TaskID, w.Control)
	}
	return m.foldTask(t, o, w)
}

// foldTask gives an outcome its effect on the task.
func (m *Machine) foldTask(t *turn, o *objective, w *work) error {
	refusal, err := t.refusal()
	if err != nil {
		return err
	}
	if t.ev.Kind == engine.EvModelUnknown {
		w.Unknown = append(w.Unknown, t.ev.Op)
	}
	cmds, end, err := w.Session.Handle(t.ev)
	if err != nil {
		return err
	}
	t.add(cmds...)
	if end == nil {
		return nil
	}
	if refusal != nil && refusal.Code != engine.CodeForbidden {
		return m.stall(t, o, w)
	}
	if m.spec.Once && t.ev.Kind == engine.EvModelUnknown {
		return m.doubt(t, w)
	}
	w.Session = nil
	return m.ended(t, o, w, end)
}

// ended gives the end of a task's session its effect on the task.
func (m *Machine) ended(t *turn, o *objective, w *work, end *session.Turn) error {
	if !t.eligible(w.Step.Participant) {
		// Authority is read again where a result becomes work of the room (R12):
		// what came is charged and stays evidence.
		w.Result = end.Text
		return m.failTask(t, o, w, engine.CodeForbidden, w.Step.Participant+" is not authorized now")
	}
	if end.Status == engine.StatusDone || end.Status == engine.StatusAnswer {
		return m.completeTask(t, o, w, end)
	}
	return m.failTask(t, o, w, end.Code, end.Text)
}

// stall keeps a task whose call was refused for a reason that is not the
// task's: it goes on when calls can be made again, and a limit increase alone
// is enough (R64). A call that a control change overtook before it was made
// stalls nothing but its task.
func (m *Machine) stall(t *turn, o *objective, w *work) error {
	w.Stalled = t.ev.Refusal.Code
	if err := t.note(NoteStalled, map[string]any{"task": w.Step.TaskID, "objective": o.ID, "code": w.Stalled}); err != nil {
		return err
	}
	if w.Control != o.ControlRevision {
		return nil
	}
	return m.block(t, "task "+w.Step.TaskID)
}

// doubt keeps a task whose call may have been made (R45, R66): it neither
// fails nor is asked for again until proof or its owner decides. Its
// conversation stays, so that after proof that the call was never made the
// same task goes on.
func (m *Machine) doubt(t *turn, w *work) error {
	id := w.Step.TaskID
	w.Reason = "A call gave no answer; whether it was made is unknown."
	if err := t.note(NoteTask, map[string]any{"task": id, "status": TaskUncertain, "participant": w.Step.Participant, "code": engine.CodeUncertain, "why": w.Reason}); err != nil {
		return err
	}
	m.notify(t, "A call for the task "+w.Step.Key+" gave no answer and may still have been made, so I do not make it again. Reconcile operation "+t.ev.Op+", or tell me how to go on.", "uncertain", id, t.ev.Op)
	return nil
}

// proven takes a task in doubt up again once none of its calls is of unknown
// outcome (R47). A call that was never made is asked for in the same task, as
// soon as its objective lets tasks run. One that was made is not made again:
// the reply that the evidence has is used as if it had come in time, by the
// owner's order, which is a readmission too (R44). Without a readable one it is
// lost, and what follows from that is planned.
func (m *Machine) proven(t *turn, o *objective, w *work, c *engine.OwnerCommand) error {
	if c.Found.Outcome == engine.ReconciledNotExecuted {
		w.Reason, w.Stalled = "", engine.CodeUncertain
		return nil
	}
	w.Session, w.Reason = nil, ""
	if r := c.Found.Reply; r != nil {
		if !r.Text.Loaded() {
			return fmt.Errorf("the reply of operation %s is not loaded", c.Op)
		}
		if parsed, problem := session.ParseTurn(r.Text.S); problem == "" {
			// What completes the task is the operation, not the owner's order.
			sub := &turn{ev: t.ev}
			sub.ev.Op = c.Op
			err := m.ended(sub, o, w, &session.Turn{Status: parsed.Status, Text: parsed.Text, Artifact: parsed.Artifact})
			t.add(sub.cmds...)
			return err
		}
	}
	return m.failTask(t, o, w, engine.CodeAdapter, "The call was made, by proof; its reply is lost.")
}

// doubted reports that a current task waits for proof or its owner.
func (m *Machine) doubted(w *work) bool {
	return m.spec.Once && len(w.Unknown) > 0 && w.Session != nil
}

// inDoubt reports that nobody but the owner may have an objective planned
// anew: the reasoner could order work again that has been done (R66). Once the
// owner has corrected it, the plan follows him.
func (m *Machine) inDoubt(o *objective) bool {
	return o.Plan.BoundObjectiveRevision == o.ObjectiveRevision && slices.ContainsFunc(o.Works, m.doubted)
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

func (m *Machine) completeTask(t *turn, o *objective, w *work, end *session.Turn) error {
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
	o.BarrenReplans = 0
	w.Unknown = nil
	if err := t.note(NoteTask, map[string]any{"task": id, "status": room.TaskCompleted, "participant": w.Step.Participant}); err != nil {
		return err
	}
	if end.Artifact != nil {
		if err := m.publish(t, w.Step.Participant, id, *end.Artifact); err != nil {
			return err
		}
	}
	if w.Step.Report {
		return m.newReport(t, o, w, end)
	}
	return nil
}

func (m *Machine) failTask(t *turn, o *objective, w *work, code, why string) error {
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
	return m.needReplan(t, o, "task_failed")
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

// progress is the engine's own account of the current tasks of an objective,
// if any, then of the other open objectives, of superseded tasks and of
// conversations that called tools (R22).
func (m *Machine) progress(o *objective) ([]engine.TaskProgress, error) {
	out := []engine.TaskProgress{}
	several := len(m.st.Open) > 1
	add := func(w *work, status string, current bool) error {
		p, err := w.progress(status, current)
		if err != nil {
			return err
		}
		if several {
			p.Objective = w.Objective
		}
		out = append(out, p)
		return nil
	}
	current := func(x *objective) error {
		for _, w := range x.Works {
			status := string(m.st.taskStatus(w.Step.TaskID))
			if status == "" || status == string(room.TaskCreated) {
				status = "waiting"
			}
			if w.Held {
				status = string(AdmissionPending)
			}
			if m.doubted(w) {
				status = TaskUncertain
			}
			if err := add(w, status, true); err != nil {
				return err
			}
		}
		return nil
	}
	if o != nil {
		if err := current(o); err != nil {
			return nil, err
		}
	}
	for _, other := range m.st.Open {
		if other == o {
			continue
		}
		if err := current(other); err != nil {
			return nil, err
		}
	}
	for _, list := range [][]*work{m.st.History, m.st.Orphans} {
		for _, w := range list {
			if err := add(w, string(w.Status), false); err != nil {
				return nil, err
			}
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
