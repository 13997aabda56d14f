package lint

import (
	"slices"
	"strings"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/corpus/gold"
)

func checkCriteria(r *report, c *corpus.Case, g *gold.Gold) {
	if len(c.Room.Criteria) == 0 {
		r.addf(c.ID, RuleNoCriteria, c.File(), "the case has no criteria")
	}
	if !requires(g) {
		r.addf(c.ID, RuleNoCriteria, g.Where("criteria"), "no criterion is required")
	}
	for _, k := range c.Room.Criteria {
		if !slices.ContainsFunc(g.Criteria, func(x gold.Criterion) bool { return x.ID == k.ID }) {
			r.addf(c.ID, RuleReference, c.File(), "criterion %q has no check in %s", k.ID, g.Where("criteria"))
		}
	}
	for i, k := range g.Criteria {
		if !slices.ContainsFunc(c.Room.Criteria, func(x corpus.Criterion) bool { return x.ID == k.ID }) {
			r.addf(c.ID, RuleReference, g.Where("criteria", i, "id"), "unknown criterion %q", k.ID)
		}
	}
}

// requires reports whether any criterion is required.
func requires(g *gold.Gold) bool {
	return slices.ContainsFunc(g.Criteria, func(k gold.Criterion) bool { return k.Required })
}

func checkReferences(r *report, c *corpus.Case, g *gold.Gold) {
	for i := range g.Criteria {
		where := g.Where("criteria", i)
		g.Criteria[i].Check.Walk(func(k *gold.Check, _ bool) { checkRefsOf(r, c, where, k) })
	}
	for i, e := range g.Expected {
		checkExpected(r, c, g.Where("expected_effects", i), e)
	}
	for i, e := range g.Allowed {
		checkExpected(r, c, g.Where("allowed_effects", i), e)
	}
	for i, s := range g.Solution {
		where := g.Where("solution", i)
		a, ok := c.Agent(s.By)
		if !ok {
			r.addf(c.ID, RuleReference, where, "step %s is by unknown participant %q", s.ID, s.By)
		} else if a.Role != corpus.RoleSpecialist {
			r.addf(c.ID, RuleReference, where, "step %s is by %s, who is a %s", s.ID, s.By, a.Role)
		}
		for _, m := range []string{s.Since, s.Until} {
			if m != "" && !slices.ContainsFunc(c.Owner.Messages, func(x corpus.Say) bool { return x.ID == m }) {
				r.addf(c.ID, RuleReference, where, "step %s names unknown owner message %q", s.ID, m)
			}
		}
		if s.Final() {
			continue
		}
		t, ok := c.Tool(s.Call)
		if !ok {
			r.addf(c.ID, RuleReference, where, "step %s calls unknown tool %q", s.ID, s.Call)
			continue
		}
		if a != nil && !slices.Contains(a.Tools, s.Call) {
			r.addf(c.ID, RuleReference, where, "step %s: %s may not call %s", s.ID, s.By, s.Call)
		}
		if _, err := t.Args().Check(s.Args); err != nil {
			r.addf(c.ID, RuleReference, where, "step %s: %v", s.ID, err)
		}
	}
}

// checkRefsOf checks the tools and documents that one check names.
func checkRefsOf(r *report, c *corpus.Case, where string, k *gold.Check) {
	if k.Effect != nil {
		checkExpected(r, c, where, gold.Expected{Tool: k.Effect.Tool, Args: k.Effect.Args, Times: max(1, k.Effect.Times)})
	}
	if k.Message != nil && k.Message.Via != "" && k.Message.Via != gold.ViaRoom {
		t, ok := c.Tool(k.Message.Via)
		if !ok {
			r.addf(c.ID, RuleReference, where, "a check names unknown tool %q", k.Message.Via)
		} else if t.Op.Kind != corpus.OpSend {
			r.addf(c.ID, RuleReference, where, "a check waits for messages via %s, which sends none", k.Message.Via)
		}
	}
	if k.Document != "" {
		tokens, err := corpus.ParsePointer(k.Document)
		if err != nil || len(tokens) == 0 {
			return // the loader has refused it
		}
		if _, ok := c.World.Documents[tokens[0]]; !ok {
			r.addf(c.ID, RuleReference, where, "a check names unknown document %q", tokens[0])
		}
	}
}

// checkExpected finds effects that no tool can make: an unknown or reading
// tool, one that nobody holds, or arguments it does not take.
func checkExpected(r *report, c *corpus.Case, where string, e gold.Expected) {
	t, ok := c.Tool(e.Tool)
	if !ok {
		r.addf(c.ID, RuleExpectedEffect, where, "no tool %q can make the effect", e.Tool)
		return
	}
	if t.Op.Reads() {
		r.addf(c.ID, RuleExpectedEffect, where, "tool %s reads and makes no effect", e.Tool)
	}
	if !heldBy(c, e.Tool) {
		r.addf(c.ID, RuleExpectedEffect, where, "nobody may call %s", e.Tool)
	}
	tree, err := e.Args.Tree()
	args, ok := tree.(map[string]any)
	if err != nil || !ok {
		r.addf(c.ID, RuleExpectedEffect, where, "the arguments of %s are no mapping", e.Tool)
		return
	}
	for _, name := range slices.Concat(keys(args), e.Free) {
		if !t.Args().Has(name) {
			r.addf(c.ID, RuleExpectedEffect, where, "tool %s takes no argument %q", e.Tool, name)
		}
	}
}

func heldBy(c *corpus.Case, tool string) bool {
	return slices.ContainsFunc(c.Room.Agents, func(a corpus.Agent) bool { return slices.Contains(a.Tools, tool) })
}

// checkTools finds tools that nobody holds, and tools that the solution does
// not call in a case that does not watch for their effects either: there, a
// tool left alone is the point.
func checkTools(r *report, c *corpus.Case, g *gold.Gold) {
	for _, t := range c.Tools {
		called := slices.ContainsFunc(g.Solution, func(s gold.Step) bool { return s.Call == t.Name })
		switch {
		case !heldBy(c, t.Name):
			r.addf(c.ID, RuleUnusedTool, c.File(), "no agent holds tool %s", t.Name)
		case !called && !watched(g, t.Name):
			r.addf(c.ID, RuleUnusedTool, c.File(), "the solution never calls %s and no check watches for it", t.Name)
		}
	}
}

// watched reports whether a check forbids effects of a tool.
func watched(g *gold.Gold, tool string) bool {
	found := false
	for i := range g.Criteria {
		g.Criteria[i].Check.Walk(func(k *gold.Check, negated bool) {
			found = found || k.NoOtherEffects || negated && k.Effect != nil && k.Effect.Tool == tool
		})
	}
	return found
}

// checkPlan finds solutions from which no admissible plan can be made: before
// any change of mind and after all of them, every criterion must be met by a
// step, the last step in force must be the only report, and a reviewer must
// share no agent identity with an author.
func checkPlan(r *report, c *corpus.Case, g *gold.Gold) {
	for _, said := range phases(g) {
		steps := g.InForce(said)
		name := "at the start"
		if len(said) > 0 {
			name = "after " + strings.Join(keys(said), ", ")
		}
		if len(steps) == 0 {
			r.addf(c.ID, RulePlan, g.Where("solution"), "no step is in force %s", name)
			continue
		}
		for _, k := range c.Room.Criteria {
			if !slices.ContainsFunc(steps, func(s gold.Step) bool { return slices.Contains(s.Meets, k.ID) }) {
				r.addf(c.ID, RulePlan, g.Where("solution"), "no step in force %s meets criterion %q", name, k.ID)
			}
		}
		for i, s := range steps {
			if s.Report != (i == len(steps)-1) {
				r.addf(c.ID, RulePlan, g.Where("solution"), "%s, step %s: the last step in force must be the report and no other", name, s.ID)
			}
			for _, a := range s.After {
				if !slices.ContainsFunc(steps, func(x gold.Step) bool { return x.ID == a }) {
					r.addf(c.ID, RulePlan, g.Where("solution"), "%s, step %s comes after %s, which is not in force", name, s.ID, a)
				}
			}
		}
	}
	if !independentReviewer(c) {
		r.addf(c.ID, RuleReviewer, c.File(), "no reviewer has an agent identity of its own, apart from every specialist")
	}
}

func independentReviewer(c *corpus.Case) bool {
	authors := map[string]bool{}
	for _, a := range c.Room.Agents {
		if a.Role == corpus.RoleSpecialist {
			authors[a.Agent] = true
		}
	}
	return slices.ContainsFunc(c.Room.Agents, func(a corpus.Agent) bool {
		return a.Role == corpus.RoleReviewer && !authors[a.Agent]
	})
}

// phases are the sets of owner messages after which the solution changes, in
// the order of the messages: none, then one more at a time.
func phases(g *gold.Gold) []map[string]bool {
	var turning []string
	for _, s := range g.Solution {
		for _, m := range []string{s.Since, s.Until} {
			if m != "" && !slices.Contains(turning, m) {
				turning = append(turning, m)
			}
		}
	}
	slices.Sort(turning)
	out := []map[string]bool{{}}
	for i := range turning {
		said := map[string]bool{}
		for _, m := range turning[:i+1] {
			said[m] = true
		}
		out = append(out, said)
	}
	return out
}

func keys[V any](m map[string]V) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
