package planner

import (
	"fmt"
	"regexp"
	"slices"

	"github.com/agentrooms/qualify/engine"
)

// candidate is a proposed plan with all that its admission depends on.
type candidate struct {
	spec      *Spec
	eligible  func(participant string) bool // authorized now (R12)
	objective string
	version   int // the version it would get
	bound     [2]int
	cause     string
	tasks     []keptTask // every task id known for identity rules
	criteria  []engine.Criterion
	full      bool // the objective has used as many task ids as may be remembered
	// needsReport is set when the newest report version has a valid verdict:
	// the successor must make a new one (R53).
	needsReport bool
}

func (c *candidate) kept(id string) *keptTask {
	for i := range c.tasks {
		if c.tasks[i].ID == id {
			return &c.tasks[i]
		}
	}
	return nil
}

var keyForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]*$`)

// admit checks a proposed plan as a whole (R25): with any issue nothing of it
// is admitted, and all issues are reported together. On success the plan's
// steps stand in dependency order with their identities.
func (c *candidate) admit(proposed []engine.PlanStep) (*Plan, []engine.PlanIssue, error) {
	var issues []engine.PlanIssue
	if n := len(proposed); n < 1 || n > MaxSteps {
		issues = append(issues, engine.PlanIssue{Code: IssueFormat, Text: fmt.Sprintf("a plan has 1 to %d steps, not %d", MaxSteps, n)})
	}
	keys := map[string]int{}
	reports := 0
	for i, p := range proposed {
		if len(p.Key) > maxKeyLen || !keyForm.MatchString(p.Key) {
			issues = append(issues, engine.PlanIssue{Code: IssueFormat, Step: p.Key, Text: fmt.Sprintf("key of step %d must be letters, digits, '_', '.' or '-', at most %d", i+1, maxKeyLen)})
		}
		if _, twice := keys[p.Key]; twice {
			issues = append(issues, engine.PlanIssue{Code: IssueIDConflict, Step: p.Key, Text: "step key used twice"})
			continue
		}
		keys[p.Key] = i
		if p.Report {
			reports++
		}
	}
	if c.full && c.spec.Identity == IdentityObjective {
		issues = append(issues, engine.PlanIssue{Code: IssueIDConflict, Text: "the objective has used all the task identities it may have; open a new one"})
	}
	if reports != 1 {
		issues = append(issues, engine.PlanIssue{Code: IssueFormat, Text: fmt.Sprintf("exactly one step must be the report, not %d", reports)})
	}
	for _, p := range proposed {
		issues = append(issues, c.checkStep(p, keys)...)
	}
	for _, cr := range c.criteria {
		if !slices.ContainsFunc(proposed, func(p engine.PlanStep) bool { return slices.Contains(p.Criteria, cr.ID) }) {
			issues = append(issues, engine.PlanIssue{Code: IssueUncovered, Text: fmt.Sprintf("no step covers criterion %q", cr.ID)})
		}
	}
	steps, cyclic := order(proposed, keys)
	if len(cyclic) > 0 {
		issues = append(issues, engine.PlanIssue{Code: IssueCycle, Step: cyclic[0], Text: fmt.Sprintf("steps depend on each other in a circle: %q", cyclic)})
	}
	if len(issues) > 0 && len(cyclic) > 0 {
		return nil, issues, nil
	}
	conflicts, err := identify(c, steps)
	if err != nil {
		return nil, nil, err
	}
	issues = append(issues, conflicts...)
	issues = append(issues, c.checkCorrective(steps)...)
	if len(issues) > 0 {
		return nil, issues, nil
	}
	return &Plan{
		Objective: c.objective, Version: c.version, Predecessor: c.version - 1,
		BoundObjectiveRevision: c.bound[0], BoundControlRevision: c.bound[1],
		Cause: c.cause, Steps: steps,
	}, nil, nil
}

func (c *candidate) checkStep(p engine.PlanStep, keys map[string]int) []engine.PlanIssue {
	var issues []engine.PlanIssue
	add := func(code, format string, args ...any) {
		issues = append(issues, engine.PlanIssue{Code: code, Step: p.Key, Text: fmt.Sprintf(format, args...)})
	}
	if p.Instruction == "" {
		add(IssueFormat, "the instruction is empty")
	}
	for _, d := range p.Deps {
		if _, ok := keys[d]; !ok {
			add(IssueFormat, "dependency %q is not a step of this plan", d)
		}
	}
	for _, cr := range p.Criteria {
		if !slices.ContainsFunc(c.criteria, func(x engine.Criterion) bool { return x.ID == cr }) {
			add(IssueFormat, "there is no criterion %q", cr)
		}
	}
	agent := c.spec.agent(p.Participant)
	switch {
	case agent == nil:
		add(IssueParticipant, "there is no participant %q", p.Participant)
	case !c.eligible(p.Participant):
		add(IssueParticipant, "participant %q is not authorized now", p.Participant)
	}
	level := actionRank(p.ActionLevel)
	if level < 0 {
		add(IssueActionLevel, "action level %q is none of read, draft, write", p.ActionLevel)
	}
	for _, name := range sorted(p.Tools) {
		tool := c.spec.tool(name)
		switch {
		case tool == nil:
			add(IssueActionLevel, "there is no tool %q", name)
		case agent != nil && !slices.Contains(agent.Tools, name):
			add(IssueActionLevel, "tool %q is not one of %s", name, p.Participant)
		case actionRank(tool.Action) > actionRank(engine.ActionDraft) && !slices.Contains(c.spec.AllowWrite, name),
			actionRank(tool.Action) < 0:
			add(IssueActionLevel, "tool %q (%s) is not allow-listed", name, tool.Action)
		case level >= 0 && actionRank(tool.Action) > level:
			add(IssueActionLevel, "tool %q needs action level %s, the step has %s", name, tool.Action, p.ActionLevel)
		}
	}
	if level > actionRank(engine.ActionDraft) && len(c.spec.AllowWrite) == 0 {
		add(IssueActionLevel, "action level %s is not allowed in this room", p.ActionLevel)
	}
	return issues
}

// actionRank orders action levels; -1 for anything else, such as execute or
// external_write (R11).
func actionRank(level string) int {
	return slices.Index([]string{engine.ActionRead, engine.ActionDraft, engine.ActionWrite}, level)
}

// checkCorrective is the rule of R53: once the newest report has a valid
// verdict, a plan that keeps it, or only keeps and reorders tasks, would send
// the same output to a reviewer again.
func (c *candidate) checkCorrective(steps []Step) []engine.PlanIssue {
	if !c.needsReport {
		return nil
	}
	for _, s := range steps {
		if s.Report && !s.Retained {
			return nil
		}
	}
	return []engine.PlanIssue{{Code: IssueUncovered, Text: "the reviewed report cannot be reviewed again: the plan needs new work and a new report step"}}
}

// order sorts the steps so that each stands after its dependencies, otherwise
// in the order proposed, with deps, tools and criteria sorted. cyclic lists the
// keys left over.
func order(proposed []engine.PlanStep, keys map[string]int) (steps []Step, cyclic []string) {
	placed := map[string]bool{}
	left := make([]int, 0, len(proposed))
	for i, p := range proposed {
		if keys[p.Key] == i {
			left = append(left, i)
		}
	}
	for len(left) > 0 {
		var rest []int
		for _, i := range left {
			p := proposed[i]
			ready := true
			for _, d := range p.Deps {
				if _, known := keys[d]; known && !placed[d] {
					ready = false
				}
			}
			if !ready {
				rest = append(rest, i)
				continue
			}
			placed[p.Key] = true
			steps = append(steps, Step{
				Key: p.Key, TaskID: p.TaskID, Participant: p.Participant, Instruction: p.Instruction,
				ExpectedOutput: p.ExpectedOutput, ArtifactKind: p.ArtifactKind, Deps: sorted(p.Deps),
				ActionLevel: p.ActionLevel, Tools: sorted(p.Tools), Criteria: sorted(p.Criteria), Report: p.Report,
			})
		}
		if len(rest) == len(left) {
			for _, i := range rest {
				cyclic = append(cyclic, proposed[i].Key)
			}
			return steps, cyclic
		}
		left = rest
	}
	return steps, nil
}
