package planner

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/room"
)

// tb is the part of testing.TB and rapid.T that a driver needs.
type tb interface {
	Helper()
	Fatalf(format string, args ...any)
}

// driver plays one room for the public Machine with hand-written replies. It
// seals and loads texts as the runtime does; at every event a machine restored
// from the snapshot just before must answer with the same commands and reach
// the same snapshot. After every event it checks the invariants I3, I4, I5, I8,
// I9, I11 and I12, and that no output is judged twice (R53).
type driver struct {
	t     tb
	spec  Spec
	m     *Machine
	state string // its snapshot
	blobs map[string]string
	open  []engine.Call
	calls []engine.Call // all, ever
	cmds  []engine.Command
	log   []engine.Command // all, ever
	n     int
	facts *engine.Facts

	used     map[engine.OpKey]bool
	said     map[string]bool
	digests  map[string]string // task id to digest (I5)
	versions map[string]int    // of the newest plan of each objective (I4)
	controls map[string]int    // newest control revision of each objective (R6)
	done     map[string]bool   // terminal objectives (I12)
	answers  map[string]engine.Answer
	outputs  map[string]int // report version on which an output got its valid verdict, and each reviewer's (R53)
}

func testSpec() Spec {
	return Spec{
		RoomSpec: engine.RoomSpec{
			Goal: "Make the books agree", Owner: "ana", Parallel: 2,
			Agents: []engine.Participant{
				{ID: "keeper", Agent: "agent-k", Role: "specialist", Description: "edits", Tools: []string{"list", "fix"}},
				{ID: "writer", Agent: "agent-w", Role: "specialist", Description: "writes", Tools: []string{"list", "note"}},
				{ID: "double", Agent: "agent-w", Role: engine.RoleReviewer, Description: "the writer's other self", Tools: []string{"list"}},
				{ID: "auditor", Agent: "agent-a", Role: engine.RoleReviewer, Description: "checks", Tools: []string{"list"}},
				{ID: "second", Agent: "agent-s", Role: engine.RoleReviewer, Description: "checks too", Tools: []string{"list"}},
			},
			Criteria: []engine.Criterion{{ID: "c1", Text: "amounts agree"}, {ID: "c2", Text: "a note is written"}},
			Tools: []engine.ToolSpec{
				{Name: "list", Action: engine.ActionRead},
				{Name: "fix", Action: engine.ActionWrite},
				{Name: "note", Action: engine.ActionDraft},
				{Name: "pay", Action: engine.ActionWrite},
			},
		},
		AllowWrite: []string{"fix"}, CoordinatorPrompt: "plan", ReviewerPrompt: "review",
	}
}

func start(t tb, spec Spec) *driver {
	t.Helper()
	d := &driver{
		t: t, spec: spec, blobs: map[string]string{}, used: map[engine.OpKey]bool{}, said: map[string]bool{},
		digests: map[string]string{}, versions: map[string]int{}, controls: map[string]int{}, done: map[string]bool{}, answers: map[string]engine.Answer{}, outputs: map[string]int{},
	}
	d.m = d.fresh()
	d.state = d.snapshot(d.m)
	d.send(engine.Event{Kind: engine.EvStarted})
	return d
}

func (d *driver) fresh() *Machine {
	d.t.Helper()
	m, err := New(d.spec)
	if err != nil {
		d.t.Fatalf("new: %v", err)
	}
	return m
}

func (d *driver) seal(t *engine.Text) {
	if !t.Sealed() && !t.IsZero() {
		t.Blob.Digest, t.Blob.Len = engine.Digest([]byte(t.S)), len(t.S)
		d.blobs[t.Blob.Digest] = t.S
	}
}

func (d *driver) snapshot(m *Machine) string {
	d.t.Helper()
	b, err := m.Snapshot()
	if err != nil {
		d.t.Fatalf("snapshot: %v", err)
	}
	return string(b)
}

func (d *driver) handle(m *Machine, ev engine.Event) []engine.Command {
	d.t.Helper()
	cmds, err := m.Handle(ev)
	if err != nil {
		d.t.Fatalf("event %s (%s): %v", ev.ID, ev.Kind, err)
	}
	return cmds
}

func (d *driver) sealAll(cmds []engine.Command) []engine.Command {
	for i := range cmds {
		for _, t := range cmds[i].Texts() {
			d.seal(t)
		}
	}
	return cmds
}

func (d *driver) send(ev engine.Event) []engine.Command {
	d.t.Helper()
	d.n++
	if ev.ID == "" {
		ev.ID = fmt.Sprintf("ev-%d", d.n)
	}
	ev.Facts = d.facts
	for _, t := range ev.Texts() {
		d.seal(t)
	}
	before := d.state
	again := d.fresh()
	if err := again.Restore([]byte(before)); err != nil {
		d.t.Fatalf("restore: %v", err)
	}
	for _, t := range again.Texts() {
		if t.Sealed() {
			t.S = d.blobs[t.Blob.Digest]
		}
	}
	d.cmds = d.sealAll(d.handle(d.m, ev))
	other := d.handle(again, ev)
	folded := d.snapshot(again)
	d.sealAll(other)
	a, errA := engine.Canonical(d.cmds)
	b, errB := engine.Canonical(other)
	if errA != nil || errB != nil || string(a) != string(b) {
		d.t.Fatalf("a restored machine answers otherwise: %v %v\n%s", errA, errB, cmp.Diff(string(a), string(b)))
	}
	// One snapshot is taken after sealing and the other before: what is sealed
	// in a command must not reach into the machine.
	if d.state = d.snapshot(d.m); d.state != folded {
		d.t.Fatalf("a restored machine folds otherwise, or a sealed command reached the state:\n%s", cmp.Diff(d.state, folded))
	}
	if ev.Key != nil {
		d.open = slices.DeleteFunc(d.open, func(c engine.Call) bool { return c.Key == *ev.Key })
	}
	for _, c := range d.cmds {
		d.check(c)
	}
	d.log = append(d.log, d.cmds...)
	d.invariants()
	return d.cmds
}

func (d *driver) check(c engine.Command) {
	d.t.Helper()
	if c.Call != nil {
		if d.used[c.Call.Key] {
			d.t.Fatalf("operation key %+v twice", c.Call.Key)
		}
		d.used[c.Call.Key] = true
		call := *c.Call
		if call.Request != nil {
			for _, t := range call.Request.Texts() {
				if t.Sealed() {
					t.S = d.blobs[t.Blob.Digest]
				}
			}
		}
		d.open = append(d.open, call)
		d.calls = append(d.calls, call)
	}
	if c.Note != nil {
		knownCodes(d.t, c.Note)
	}
	if p := c.Post; p != nil {
		if d.said[p.ID] || p.From != d.m.spec.Coordinator {
			d.t.Fatalf("post %s twice, or by %s (R68)", p.ID, p.From)
		}
		d.said[p.ID] = true
	}
	if c.Say != nil {
		if d.said[c.Say.ID] {
			d.t.Fatalf("message id %s twice (R57): %s", c.Say.ID, c.Say.Text.S)
		}
		d.said[c.Say.ID] = true
	}
}

func (d *driver) invariants() {
	d.t.Helper()
	st := &d.m.st
	for _, e := range st.Inbox {
		if e.Spent > MaxInterpretations {
			d.t.Fatalf("I8: %d interpretations of %s", e.Spent, e.Event)
		}
	}
	for _, c := range d.cmds {
		if c.Call != nil {
			d.notForTheEnded(c.Call)
		}
	}
	for _, o := range st.Open {
		d.holds(o)
		if o.Status.Terminal() {
			d.t.Fatalf("%s is %s and open", o.ID, o.Status)
		}
	}
	for _, x := range st.Closed {
		if x.Status == StatusCancelled {
			d.done[x.ID] = true
		}
	}
	if o := st.Past; o != nil && !d.done[o.ID] {
		d.holds(o)
		if o.Report == nil || o.Report.Verdict == nil || overall(*o.Report.Verdict) != engine.VerdictMet || o.Report.Ref.Version != o.ReportVersion || st.ownerWaits(o) {
			d.t.Fatalf("I3: completed without an all-met verdict on the newest report, or over an unread owner event")
		}
		for _, w := range o.Works {
			if st.taskStatus(w.Step.TaskID) != room.TaskCompleted {
				d.t.Fatalf("completed with task %s %s", w.Step.TaskID, st.taskStatus(w.Step.TaskID))
			}
		}
		d.done[o.ID] = true
	}
}

// notForTheEnded: a terminal objective gets no new operation (I12).
func (d *driver) notForTheEnded(c *engine.Call) {
	d.t.Helper()
	for id := range d.done {
		if c.Key.Kind != engine.OpInterpret && !strings.HasPrefix(c.Key.Cause, "talk:") && strings.Contains(c.Task, id) {
			if o := d.m.st.holder(c.Task); o == nil || d.done[o.ID] {
				d.t.Fatalf("I12: %+v for %s, which has ended", c.Key, id)
			}
		}
	}
}

// holder is the open objective whose current plan has a task.
func (s *state) holder(task string) *objective {
	for _, o := range s.Open {
		if o.work(task) != nil {
			return o
		}
	}
	return nil
}

// holds checks one objective.
func (d *driver) holds(o *objective) {
	d.t.Helper()
	for _, w := range o.Works {
		if old, ok := d.digests[w.Step.TaskID]; ok && old != w.Step.Digest {
			d.t.Fatalf("I5: task %s has another digest", w.Step.TaskID)
		}
		d.digests[w.Step.TaskID] = w.Step.Digest
	}
	if o.BarrenReplans > MaxBarrenReplans || len(o.FailedReports) > MaxFailedReports {
		d.t.Fatalf("I8: barren %d, failed %v", o.BarrenReplans, o.FailedReports)
	}
	v, known := d.versions[o.ID]
	if !known {
		v = d.versions[o.Continues] // 0 for an objective that continues none
	}
	if o.Plan.Version != v && o.Plan.Version != v+1 || o.Plan.Predecessor != o.Plan.Version-1 {
		d.t.Fatalf("I4: version %d after %d, predecessor %d", o.Plan.Version, v, o.Plan.Predecessor)
	}
	d.versions[o.ID] = o.Plan.Version
	if control := d.controls[o.ID]; o.ControlRevision < control {
		d.t.Fatalf("R6: control revision %d after %d", o.ControlRevision, control)
	}
	d.controls[o.ID] = o.ControlRevision
	if r := o.Report; r != nil {
		for _, s := range r.Slots {
			if s.Agent == "" || s.Key != nil && slices.Contains(o.authors(), s.Agent) {
				d.t.Fatalf("I9: reviewer %s is of an author's identity", s.Reviewer)
			}
		}
		d.sampledOnce(o, r)
	}
	for _, h := range o.Held {
		if h.Control >= o.ControlRevision {
			d.t.Fatalf("I11: %s is held under the present control revision", h.Op)
		}
	}
}

// sampledOnce: an output that has a valid verdict under an objective revision is
// with no reviewer under a later version of the report, and one that a reviewer
// has answered for is not with him again (R53).
func (d *driver) sampledOnce(o *objective, r *report) {
	d.t.Helper()
	key := fmt.Sprint(o.ID, r.ObjectiveRevision, r.Output)
	switch v, known := d.outputs[key]; {
	case r.Verdict != nil && r.Output != "" && !known:
		d.outputs[key] = r.Ref.Version
	case known && v != r.Ref.Version && r.asking():
		d.t.Fatalf("R53: version %d of the report is the judged output of version %d and is reviewed again", r.Ref.Version, v)
	}
	for _, s := range r.Slots {
		own := fmt.Sprint(key, " ", s.Agent)
		switch v, known := d.outputs[own]; {
		case s.Reply != nil && !known:
			d.outputs[own] = r.Ref.Version
		case known && s.Key != nil:
			d.t.Fatalf("R53: version %d of the report is with %s again, who has judged its output in version %d", r.Ref.Version, s.Agent, v)
		}
	}
}

// message delivers a persisted message.
func (d *driver) message(from, kind, text string) []engine.Command {
	d.t.Helper()
	return d.send(engine.Event{Kind: engine.EvOwnerMessage, Message: &engine.OwnerMessage{
		ID: fmt.Sprintf("m%d", d.n), Type: kind, From: from, Text: engine.Plain(text),
	}})
}

// owner delivers a message of the owner.
func (d *driver) owner(kind, text string) []engine.Command {
	d.t.Helper()
	return d.message("ana", kind, text)
}

// call is the one open call of an agent.
func (d *driver) call(agent string) engine.Call {
	d.t.Helper()
	var found []engine.Call
	for _, c := range d.open {
		if c.Agent == agent {
			found = append(found, c)
		}
	}
	if len(found) != 1 {
		d.t.Fatalf("%s has %d open calls, want 1; last commands:\n%s", agent, len(found), strings.Join(d.lines(), "\n"))
	}
	return found[0]
}

func (d *driver) outcome(c engine.Call, ev engine.Event) []engine.Command {
	d.t.Helper()
	ev.Key, ev.Op = &c.Key, engine.OperationID("room", c.Key)
	return d.send(ev)
}

// reply answers the open model call of an agent.
func (d *driver) reply(agent, text string, calls ...engine.ToolCall) []engine.Command {
	d.t.Helper()
	return d.outcome(d.call(agent), engine.Event{Kind: engine.EvModelReply, Reply: &engine.ModelReply{Text: engine.Plain(text), ToolCalls: calls}})
}

// end ends the open model call of an agent without reply.
func (d *driver) end(agent string, kind engine.EventKind) []engine.Command {
	d.t.Helper()
	ev := engine.Event{Kind: kind}
	if kind == engine.EvModelFailed {
		ev.Reply = &engine.ModelReply{Error: "overloaded"}
	}
	return d.outcome(d.call(agent), ev)
}

func (d *driver) refuse(agent string, kind engine.EventKind, code string) []engine.Command {
	d.t.Helper()
	return d.outcome(d.call(agent), engine.Event{Kind: kind, Refusal: &engine.Refusal{Code: code, Reason: "because"}})
}

// work makes an agent call a tool with an ok result.
func (d *driver) work(agent, tool, args, result string) {
	d.t.Helper()
	d.reply(agent, "", engine.ToolCall{ID: "x", Tool: tool, Args: engine.JSONText([]byte(args))})
	c := d.call(agent)
	if c.Tool == nil {
		d.t.Fatalf("%s does not call %s", agent, tool)
	}
	write := false
	for _, s := range d.spec.Tools {
		write = write || s.Name == tool && s.Action != engine.ActionRead
	}
	d.outcome(c, engine.Event{Kind: engine.EvToolOK, Tool: &engine.ToolResult{Tool: tool, Args: c.Tool.Args, Result: engine.Plain(result), Write: write}})
}

// finish ends an agent's turn.
func (d *driver) finish(agent, status, text string) []engine.Command {
	d.t.Helper()
	b, err := json.Marshal(engine.TurnReply{Status: status, Text: text})
	if err != nil {
		d.t.Fatalf("turn: %v", err)
	}
	return d.reply(agent, string(b))
}

// plan answers the interpretation in flight with env, bound to what was shown.
func (d *driver) plan(env engine.PlanEnvelope) []engine.Command {
	d.t.Helper()
	req := d.shown()
	env.Schema, env.BoundObjectiveRevision, env.BoundControlRevision = engine.FormatPlan, req.ObjectiveRevision, req.ControlRevision
	b, err := json.Marshal(env)
	if err != nil {
		d.t.Fatalf("envelope: %v", err)
	}
	return d.reply("coordinator", string(b))
}

// shown is the plan request of the interpretation in flight.
func (d *driver) shown() engine.PlanRequest {
	d.t.Helper()
	c := d.call("coordinator")
	var req engine.PlanRequest
	if err := json.Unmarshal([]byte(c.Request.Messages[0].Text.S), &req); err != nil {
		d.t.Fatalf("plan request: %v", err)
	}
	return req
}

// judged is the review request in flight at a reviewer.
func (d *driver) judged(reviewer string) engine.ReviewRequest {
	d.t.Helper()
	var req engine.ReviewRequest
	if err := json.Unmarshal([]byte(d.call(reviewer).Request.Messages[0].Text.S), &req); err != nil {
		d.t.Fatalf("review request: %v", err)
	}
	return req
}

// verdict answers the review in flight with one verdict per criterion.
func (d *driver) verdict(reviewer string, verdicts ...string) []engine.Command {
	d.t.Helper()
	req := d.judged(reviewer)
	r := engine.ReviewReply{Schema: engine.FormatReview, Report: req.Report}
	for i, v := range verdicts {
		r.Verdicts = append(r.Verdicts, engine.CriterionVerdict{Criterion: req.Criteria[i].ID, Verdict: v, Evidence: "seen"})
	}
	b, err := json.Marshal(r)
	if err != nil {
		d.t.Fatalf("verdict: %v", err)
	}
	return d.reply(reviewer, string(b))
}

// lines describes the last commands.
func (d *driver) lines() []string { return describe(d.cmds) }

func describe(cmds []engine.Command) []string {
	var out []string
	for _, c := range cmds {
		switch {
		case c.Call != nil && c.Call.Request != nil:
			out = append(out, fmt.Sprintf("model %s %s", c.Call.Agent, c.Call.Request.Format))
		case c.Call != nil:
			out = append(out, fmt.Sprintf("tool %s %s", c.Call.Agent, c.Call.Tool.Tool))
		case c.Say != nil:
			out = append(out, fmt.Sprintf("say %s %s: %s", c.Say.From, c.Say.Status, c.Say.Text.S))
		case c.Claim != nil:
			out = append(out, fmt.Sprintf("%s %s", c.Kind, c.Claim.By))
		case c.Artifact != nil:
			out = append(out, fmt.Sprintf("artifact %s v%d", c.Artifact.Name, c.Artifact.Version))
		case c.Note != nil:
			out = append(out, "note "+c.Note.Kind)
		case c.Post != nil:
			out = append(out, "post "+c.Post.From)
		case c.Answer != nil:
			out = append(out, "answer "+c.Answer.Code)
		case c.End != nil:
			out = append(out, "end "+c.End.Reason)
		}
	}
	return out
}

// acts are the last commands without notes and messages.
func (d *driver) acts() []string {
	return slices.DeleteFunc(d.lines(), func(l string) bool {
		return strings.HasPrefix(l, "note ") || strings.HasPrefix(l, "say ") || strings.HasPrefix(l, "post ")
	})
}

// note is the body of the last note of a kind.
func (d *driver) note(kind string) string {
	d.t.Helper()
	for _, c := range slices.Backward(d.log) {
		if c.Note != nil && c.Note.Kind == kind {
			return c.Note.Body.S
		}
	}
	d.t.Fatalf("no note %s", kind)
	return ""
}

func (d *driver) notes(kind string) int {
	n := 0
	for _, c := range d.log {
		if c.Note != nil && c.Note.Kind == kind {
			n++
		}
	}
	return n
}

// count is how many calls of a kind were ever asked for.
func (d *driver) count(kind engine.OpKind) int {
	n := 0
	for _, c := range d.calls {
		if c.Key.Kind == kind {
			n++
		}
	}
	return n
}

// objective is the newest open objective, else the last completed one.
func (d *driver) objective() *objective {
	if n := len(d.m.st.Open); n > 0 {
		return d.m.st.Open[n-1]
	}
	return d.m.st.Past
}

func (d *driver) status() Status {
	if o := d.objective(); o != nil {
		return o.Status
	}
	return ""
}

func (d *driver) tasks() []*work {
	if o := d.objective(); o != nil {
		return o.Works
	}
	return nil
}

// command delivers an owner's command as the runtime does, with what its key
// was answered before, and gives its answer.
func (d *driver) command(key string, r engine.CommandRequest, found *engine.CommandFound) engine.Answer {
	d.t.Helper()
	c := &engine.OwnerCommand{CommandRequest: r, Key: key, From: "ana", Found: found}
	return d.commanded(c)
}

func (d *driver) commanded(c *engine.OwnerCommand) engine.Answer {
	d.t.Helper()
	if a, ok := d.answers[c.Key]; ok {
		c.Earlier = &a
	}
	cmds := d.send(engine.Event{Kind: engine.EvOwnerCommand, Command: c})
	var got *engine.Answer
	for _, x := range cmds {
		if x.Answer != nil {
			if got != nil {
				d.t.Fatalf("two answers to %s", c.Key)
			}
			got = x.Answer
		}
	}
	if got == nil || got.Key != c.Key {
		d.t.Fatalf("no answer to %s", c.Key)
	}
	if !got.Repeated {
		d.answers[c.Key] = *got
	}
	return *got
}

// control pauses, resumes or cancels the newest objective as it stands.
func (d *driver) control(kind string) engine.Answer {
	d.t.Helper()
	o := d.objective()
	return d.command(fmt.Sprintf("key-%d", d.n), engine.CommandRequest{Kind: kind, Objective: o.ID, Expected: o.ControlRevision}, nil)
}

// Steps and envelopes.

func fixStep() engine.PlanStep {
	return engine.PlanStep{
		Key: "fix", Participant: "keeper", Instruction: "fix the amounts", ExpectedOutput: "a list of changes",
		ActionLevel: engine.ActionWrite, Tools: []string{"list", "fix"}, Criteria: []string{"c1"},
	}
}

func reportStep(deps ...string) engine.PlanStep {
	return engine.PlanStep{
		Key: "report", Participant: "writer", Instruction: "write the note", Deps: deps,
		ActionLevel: engine.ActionDraft, Tools: []string{"note"}, Criteria: []string{"c2"}, Report: true,
	}
}

func create(steps ...engine.PlanStep) engine.PlanEnvelope {
	return engine.PlanEnvelope{Decision: engine.DecideObjective, Title: "May", Plan: steps, Explanation: "so"}
}

func revise(steps ...engine.PlanStep) engine.PlanEnvelope {
	return engine.PlanEnvelope{Decision: engine.DecideRevisePlan, Plan: steps, Explanation: "anew"}
}

// keep repeats an admitted step so that its task is kept.
func (d *driver) keep(key string) engine.PlanStep {
	d.t.Helper()
	for _, p := range d.shown().Progress {
		if p.Step == key && p.Current {
			return engine.PlanStep{
				Key: p.Step, TaskID: p.Task, Participant: p.Participant, Instruction: p.Instruction, ExpectedOutput: p.ExpectedOutput,
				ArtifactKind: p.ArtifactKind, Deps: p.Deps, ActionLevel: p.ActionLevel, Tools: p.Tools, Criteria: p.Criteria, Report: p.Report,
			}
		}
	}
	d.t.Fatalf("no current step %s", key)
	return engine.PlanStep{}
}

// planned is a room whose owner asked and whose first plan is admitted.
func planned(t tb, spec Spec, steps ...engine.PlanStep) *driver {
	t.Helper()
	d := start(t, spec)
	d.owner(engine.MsgRequest, "please fix the books")
	d.plan(create(steps...))
	return d
}

// reviewing is a room whose first report is with the auditor.
func reviewing(t tb, spec Spec) *driver {
	t.Helper()
	d := planned(t, spec, fixStep(), reportStep("fix"))
	d.work("keeper", "fix", `{"id":"i-17"}`, "ok")
	d.finish("keeper", engine.StatusDone, "fixed i-17")
	d.finish("writer", engine.StatusDone, "i-17 was fixed")
	return d
}

// planAs is plan for a coordinator of another name.
func (d *driver) planAs(coordinator string, env engine.PlanEnvelope) []engine.Command {
	d.t.Helper()
	var req engine.PlanRequest
	if err := json.Unmarshal([]byte(d.call(coordinator).Request.Messages[0].Text.S), &req); err != nil {
		d.t.Fatalf("plan request: %v", err)
	}
	env.Schema, env.BoundObjectiveRevision, env.BoundControlRevision = engine.FormatPlan, req.ObjectiveRevision, req.ControlRevision
	return d.reply(coordinator, mustJSON(d.t, env))
}

func mustJSON(t tb, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("json: %v", err)
	}
	return string(b)
}
