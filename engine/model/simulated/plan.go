package simulated

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
)

// Statuses of engine.TaskProgress that plans depend on.
const (
	taskWaiting   = "waiting"
	taskRunning   = "running"
	taskCompleted = "completed"
	taskFailed    = "failed"
)

// plan answers a plan/v1 call.
//
// Without a plan so far: an answer for an ordinary question, else an objective
// with a plan of everything in force. With one: a successor plan that keeps the
// completed tasks whose work is proved and orders what is missing, or no
// decision when a plain message changes nothing.
func (p *Provider) plan(d dice, call model.Call) answer {
	var req engine.PlanRequest
	if err := json.Unmarshal([]byte(lastRequest(call)), &req); err != nil {
		return document(map[string]string{"error": "the request holds no plan request"})
	}
	inForce := p.gold.inForce(ownerTexts(req.Messages))
	env := engine.PlanEnvelope{
		Schema:                 engine.FormatPlan,
		BoundObjectiveRevision: req.ObjectiveRevision,
		BoundControlRevision:   req.ControlRevision,
	}
	if req.PlanVersion == 0 && !p.gold.plan && !slices.ContainsFunc(inForce, func(s *step) bool { return !s.words() }) {
		return p.plainAnswer(d, env, inForce)
	}
	b := &planner{g: p.gold, req: &req, inForce: inForce}
	if req.PlanVersion == 0 {
		b.missing = inForce
		env.Decision, env.Title = engine.DecideObjective, cut(req.Goal, 80)
		env.Explanation = "The work needs these steps."
	} else {
		b.lookBack()
		if b.idle() {
			env.Decision, env.Explanation = engine.DecideNoop, "The plan already holds everything asked for."
			return document(env)
		}
		b.keep()
		env.Decision = engine.DecideRevisePlan
		env.Explanation = "What is proved stays; what is missing is ordered anew."
	}
	b.group()
	if len(b.steps) == 0 {
		env.Decision, env.Explanation = engine.DecideNoop, "There is nothing to do."
		return document(env)
	}
	b.finish()
	if len(req.Feedback) == 0 && d.hit(p.rates.PlanFault, "plan_fault") {
		if kind := b.fault(d); kind == faultJSON {
			env.Plan = b.envelopeSteps()
			a := document(env)
			a.text = cut(a.text, len(a.text)/2)
			return a
		}
	}
	env.Plan = b.envelopeSteps()
	return document(env)
}

// plainAnswer gives the words in force, each skipped as a turn would skip it.
func (p *Provider) plainAnswer(d dice, env engine.PlanEnvelope, inForce []*step) answer {
	w := &work{conversation: &conversation{}, g: p.gold, asked: inForce, settled: set{}}
	says, artifact := p.final(d, w, false)
	if len(says) == 0 {
		says = []string{w.summary()}
	}
	env.Decision, env.Text, env.Artifact = engine.DecideAnswer, strings.Join(says, "\n"), artifact
	env.Explanation = "An ordinary question; no plan is needed."
	return document(env)
}

// planner builds one plan.
type planner struct {
	g       *gold
	req     *engine.PlanRequest
	inForce []*step
	proved  map[string]proof
	missing []*step
	again   *step // to report on once more, without doing it again
	kept    []engine.PlanStep
	steps   []engine.PlanStep // new ones
	orders  [][]*step         // what each new one does
}

// lookBack finds what is missing by the evidence. Calls of unknown outcome are
// missing when no call is, and when they are doubted. The words of the report
// are always ordered again: a successor plan owes a new report.
func (b *planner) lookBack() {
	b.proved = judge(b.inForce, b.req.Progress)
	doubtful := !slices.ContainsFunc(b.inForce, func(s *step) bool { return !s.words() && b.proved[s.ID] == proofMissing })
	report := b.report()
	for _, s := range b.inForce {
		if b.proved[s.ID] == proofMissing || s == report && s.words() ||
			b.proved[s.ID] == proofUnknown && (doubtful || b.doubted(s)) {
			b.missing = append(b.missing, s)
		}
	}
}

// doubted reports that a call of unknown outcome must be taken for missing
// beside other faults: a reviewer did not accept its criterion, or the owner's
// newest word is a correction that speaks of it.
func (b *planner) doubted(s *step) bool {
	if r := b.req.Review; r != nil {
		for _, v := range r.Verdicts {
			if v.Verdict != engine.VerdictMet && slices.Contains(s.Meets, v.Criterion) {
				return true
			}
		}
	}
	n := len(b.req.Messages)
	return n > 0 && corrects(b.req.Messages[n-1].Type) && s.spokenOf(b.req.Messages[n-1].Text) > 0
}

// report is the step that holds the report: the one marked so, else the last.
func (b *planner) report() *step {
	for _, s := range b.inForce {
		if s.Report {
			return s
		}
	}
	if len(b.inForce) == 0 {
		return nil
	}
	return b.inForce[len(b.inForce)-1]
}

// idle reports that a message which corrects nothing finds all that is missing
// already ordered, and nothing ordered that is no longer wanted.
func (b *planner) idle() bool {
	if b.req.Reason != "message" && (b.req.Reason != "repair" || b.req.Review != nil) {
		return false
	}
	if n := len(b.req.Messages); n > 0 && corrects(b.req.Messages[n-1].Type) {
		return false
	}
	open := set{}
	for _, t := range b.req.Progress {
		if !t.Current {
			continue
		}
		if t.Status == taskFailed {
			return false
		}
		if t.Status == taskWaiting || t.Status == taskRunning {
			open.add(b.g.readMarks(t.Instruction).todo...)
		}
	}
	wanted := set{}
	for _, s := range b.inForce {
		wanted.add(s.ID)
		if b.proved[s.ID] == proofMissing && !open[s.ID] && !b.orderedAndDone(s) {
			return false
		}
	}
	for id := range open {
		if !wanted[id] {
			return false
		}
	}
	return true
}

// orderedAndDone reports that a current task which has completed was to do the
// step: whether it did is for the reviewer to say.
func (b *planner) orderedAndDone(s *step) bool {
	return slices.ContainsFunc(b.req.Progress, func(t engine.TaskProgress) bool {
		return t.Current && t.Status == taskCompleted && slices.Contains(b.g.readMarks(t.Instruction).todo, s.ID)
	})
}

// keep retains completed tasks of the current plan: those that report nothing,
// whose every step is in force, proved and not ordered again, and whose
// predecessors are all retained (R29: content unchanged).
func (b *planner) keep() {
	kept := set{}
	for _, t := range b.req.Progress {
		ids := b.g.readMarks(t.Instruction).todo
		if !t.Current || t.Status != taskCompleted || t.Report || len(ids) == 0 || kept[t.Step] {
			continue
		}
		if slices.ContainsFunc(ids, func(id string) bool { return !b.standing(id) }) ||
			slices.ContainsFunc(t.Deps, func(dep string) bool { return !kept[dep] }) {
			continue
		}
		kept.add(t.Step)
		b.kept = append(b.kept, engine.PlanStep{
			Key: t.Step, TaskID: t.Task, Participant: t.Participant, Instruction: t.Instruction,
			ExpectedOutput: t.ExpectedOutput, ArtifactKind: t.ArtifactKind, Deps: list(t.Deps),
			ActionLevel: t.ActionLevel, Tools: list(t.Tools), Criteria: list(t.Criteria),
		})
	}
	b.redeliver()
}

// redeliver adds the words that no retained task delivers, and turns to a bare
// report when nothing at all is left to do.
func (b *planner) redeliver() {
	delivered := set{}
	for _, k := range b.kept {
		delivered.add(b.g.readMarks(k.Instruction).todo...)
	}
	var missing []*step
	for _, s := range b.inForce {
		if slices.Contains(b.missing, s) || s.words() && !delivered[s.ID] {
			missing = append(missing, s)
		}
	}
	b.missing = missing
	if len(b.missing) == 0 {
		b.again = b.report()
	}
}

func (b *planner) standing(id string) bool {
	s := b.g.at(id)
	return s != nil && slices.Contains(b.inForce, s) && b.proved[id] == proofDone && !slices.Contains(b.missing, s)
}

// group makes one plan step of each run of missing steps of one participant.
func (b *planner) group() {
	for _, s := range b.missing {
		n := len(b.orders)
		if n > 0 && b.orders[n-1][0].By == s.By {
			b.orders[n-1] = append(b.orders[n-1], s)
		} else {
			b.orders = append(b.orders, []*step{s})
		}
	}
	if b.again != nil {
		b.orders = append(b.orders, []*step{b.again})
	}
	b.reportLast()
	for i := range b.orders {
		b.steps = append(b.steps, b.planStep(i))
	}
}

// reportLast moves the run that holds the report to the end when nothing
// depends on it; otherwise the last run reports.
func (b *planner) reportLast() {
	at := slices.IndexFunc(b.orders, func(run []*step) bool {
		return slices.ContainsFunc(run, func(s *step) bool { return s.Report })
	})
	if at < 0 || at == len(b.orders)-1 {
		return
	}
	for _, later := range b.orders[at+1:] {
		if dependsOn(later, b.orders[at]) {
			return
		}
	}
	run := b.orders[at]
	b.orders = append(slices.Delete(b.orders, at, at+1), run)
}

func dependsOn(run, on []*step) bool {
	return slices.ContainsFunc(run, func(s *step) bool {
		return slices.ContainsFunc(on, func(o *step) bool { return slices.Contains(s.After, o.ID) })
	})
}

func (b *planner) key(i int) string { return fmt.Sprintf("v%ds%d", b.req.PlanVersion+1, i+1) }

func (b *planner) planStep(i int) engine.PlanStep {
	run := b.orders[i]
	last := i == len(b.orders)-1
	out := engine.PlanStep{
		Key: b.key(i), Participant: run[0].By, Deps: []string{}, Tools: []string{}, Criteria: []string{},
		ActionLevel: engine.ActionRead, ExpectedOutput: "what was done, with the outcome of every call", Report: last,
	}
	for j := range i {
		if last || dependsOn(run, b.orders[j]) {
			out.Deps = append(out.Deps, b.key(j))
		}
	}
	for _, k := range b.kept {
		if last || b.keptBefore(run, k) {
			out.Deps = append(out.Deps, k.Key)
		}
	}
	for _, s := range run {
		if s.words() {
			out.ExpectedOutput = "the words to deliver"
			out.ActionLevel = higher(out.ActionLevel, engine.ActionDraft)
			if s.Artifact != nil {
				out.ArtifactKind = s.Artifact.Name
			}
		} else if b.again == nil {
			out.ActionLevel = higher(out.ActionLevel, b.g.tools[s.Tool])
			if !slices.Contains(out.Tools, s.Tool) {
				out.Tools = append(out.Tools, s.Tool)
			}
		}
		for _, c := range s.Meets {
			if b.asks(c) && !slices.Contains(out.Criteria, c) {
				out.Criteria = append(out.Criteria, c)
			}
		}
	}
	slices.Sort(out.Tools)
	out.Instruction = b.instruction(run)
	return out
}

func (b *planner) keptBefore(run []*step, k engine.PlanStep) bool {
	ids := b.g.readMarks(k.Instruction).todo
	return slices.ContainsFunc(run, func(s *step) bool {
		return slices.ContainsFunc(s.After, func(id string) bool { return slices.Contains(ids, id) })
	})
}

func (b *planner) asks(criterion string) bool {
	return slices.ContainsFunc(b.req.Criteria, func(c engine.Criterion) bool { return c.ID == criterion })
}

// longestArgs bounds the arguments quoted in an instruction, in bytes.
const longestArgs = 100

// instruction says in words what a run does, and names its steps by marks.
func (b *planner) instruction(run []*step) string {
	var ids, parts []string
	for _, s := range run {
		ids = append(ids, s.ID)
		if s.words() {
			parts = append(parts, "deliver "+s.name())
		} else {
			parts = append(parts, strings.TrimSpace(s.Tool+" "+cut(s.canon, longestArgs)))
		}
	}
	text := "Do in this order: " + strings.Join(parts, "; ") + ". " + mark("todo", ids)
	if b.again != nil {
		text = "Report on the work as it stands; do nothing again. " + mark("report", ids)
	}
	if b.req.PlanVersion > 0 {
		text += " " + mark("round", []string{fmt.Sprint(b.req.PlanVersion + 1)})
	}
	return text
}

// finish gives the report every criterion that no step covers.
func (b *planner) finish() {
	report := &b.steps[len(b.steps)-1]
	for _, c := range b.req.Criteria {
		if !b.covered(c.ID) {
			report.Criteria = append(report.Criteria, c.ID)
		}
	}
}

func (b *planner) covered(criterion string) bool {
	return slices.ContainsFunc(b.envelopeSteps(), func(s engine.PlanStep) bool { return slices.Contains(s.Criteria, criterion) })
}

func (b *planner) envelopeSteps() []engine.PlanStep { return slices.Concat(b.kept, b.steps) }

// higher is the stronger of two action levels; an unknown one is a write.
func higher(a, b string) string {
	order := []string{engine.ActionRead, engine.ActionDraft, engine.ActionWrite}
	ia, ib := slices.Index(order, a), slices.Index(order, b)
	if ib < 0 {
		return engine.ActionWrite
	}
	return order[max(ia, ib)]
}

// list is never nil, so that JSON shows an empty list.
func list(s []string) []string {
	if s == nil {
		return []string{}
	}
	return s
}
