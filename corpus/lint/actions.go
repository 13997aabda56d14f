package lint

import (
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/corpus/gold"
)

// checkActions is the mutation check of the oracle: the gold run with one
// action left out, doubled or changed must fail something (qualification Q6).
// What passes all the same is something that the case asks for and nobody
// judges.
//
// An action is a call of a tool that does not read, or final words. Reads have
// no effect. Words are not doubled: to say a thing twice harms nothing. Words
// that a later message of the owner makes obsolete are nobody's concern at the
// end, and neither are arguments that the gold file calls free.
func checkActions(r *report, c *corpus.Case, g *gold.Gold, ran gold.Outcome) {
	if !requires(g) {
		return // nothing is judged, which is a finding by itself
	}
	for i, s := range g.Solution {
		where := g.Where("solution", i)
		t, _ := c.Tool(s.Call)
		switch {
		case s.Final() && s.Until != "" || t != nil && t.Op.Reads():
			continue
		case passes(c, g, without(g, s.ID)):
			r.addf(c.ID, RuleUnproven, where, "the gold run without step %s fails nothing", s.ID)
		}
		if t != nil && doubledPasses(c, g, s, ran) {
			r.addf(c.ID, RuleUnproven, where, "the gold run that does step %s twice fails nothing", s.ID)
		}
		found := map[string]bool{} // one value that passes is enough to say so
		for _, x := range changes(c, g, s) {
			if !found[x.what] && passes(c, g, with(g, s.ID, x.step)) {
				found[x.what] = true
				r.addf(c.ID, RuleUnproven, where, "the gold run with another %s in step %s (%s) fails nothing%s", x.what, s.ID, x.value, x.hint)
			}
		}
	}
}

// outcomeOf is what a solution leaves behind. The error is a call that the
// world refuses.
func outcomeOf(c *corpus.Case, solution *gold.Gold) (gold.Outcome, error) {
	k, err := walk(c, solution)
	if err != nil {
		return gold.Outcome{}, err
	}
	return k.outcome()
}

// passes reports whether a mutated solution goes through and is judged as the
// gold run is.
func passes(c *corpus.Case, g, mutated *gold.Gold) bool {
	out, err := outcomeOf(c, mutated)
	return err == nil && !fails(g, out)
}

// doubledPasses reports whether a step done twice goes through and makes a
// further effect that nothing holds against it. A repeat that changes nothing
// in the world is none.
func doubledPasses(c *corpus.Case, g *gold.Gold, s gold.Step, ran gold.Outcome) bool {
	again := s
	again.ID += "/again"
	out, err := outcomeOf(c, with(g, s.ID, s, again))
	return err == nil && len(out.Effects) > len(ran.Effects) && !fails(g, out)
}

// fails reports whether anything is held against an outcome: a criterion not
// met, an expected effect missing, a duplicate or a collateral effect.
func fails(g *gold.Gold, out gold.Outcome) bool {
	res := gold.Evaluate(g, out)
	return res.EffectsError != "" ||
		slices.ContainsFunc(res.Criteria, func(x gold.CriterionResult) bool { return x.Verdict == gold.VerdictUnmet }) ||
		slices.ContainsFunc(res.Effects.Expected, func(m gold.Made) bool { return m.Made < m.Times }) ||
		len(res.Effects.Duplicates)+len(res.Effects.Collateral) > 0
}

func without(g *gold.Gold, id string) *gold.Gold { return with(g, id) }

// with is the gold with a step replaced by others.
func with(g *gold.Gold, id string, steps ...gold.Step) *gold.Gold {
	m := *g
	i := slices.IndexFunc(g.Solution, func(s gold.Step) bool { return s.ID == id })
	m.Solution = slices.Concat(g.Solution[:i], steps, g.Solution[i+1:])
	return &m
}

// changed is a step with one thing in it changed.
type changed struct {
	what, value, hint string
	step              gold.Step
}

// otherWords stand in for words that somebody reads.
const otherWords = "Nothing of the kind."

// changes lists a step with each thing in it changed by itself: each argument
// to every other value at hand, what is said, the name and the text of the
// artifact.
func changes(c *corpus.Case, g *gold.Gold, s gold.Step) []changed {
	var out []changed
	add := func(what, value string, edit func(*gold.Step)) {
		m := s
		edit(&m)
		out = append(out, changed{what: what, value: value, step: m})
	}
	if s.Say != "" {
		add("text", fmt.Sprintf("%q", otherWords), func(m *gold.Step) { m.Say = otherWords })
	}
	if a := s.Artifact; a != nil {
		add("artifact name", fmt.Sprintf("%q", "other-"+a.Name), func(m *gold.Step) { m.Artifact = &gold.Artifact{Name: "other-" + a.Name, Text: a.Text} })
		add("artifact text", fmt.Sprintf("%q", otherWords), func(m *gold.Step) { m.Artifact = &gold.Artifact{Name: a.Name, Text: otherWords} })
	}
	if t, ok := c.Tool(s.Call); ok {
		for _, x := range otherArgs(t, s.Args) {
			if !free(g, s, x.name) {
				out = append(out, changed{
					what: x.name, value: x.value, step: withArgs(s, x.args),
					hint: "; if its value does not matter, name it in free of the effect",
				})
			}
		}
	}
	return out
}

func withArgs(s gold.Step, args corpus.Value) gold.Step {
	s.Args = args
	return s
}

// free reports whether the gold file leaves an argument of a step to the
// agent, in an entry whose own arguments the step has.
func free(g *gold.Gold, s gold.Step, name string) bool {
	return slices.ContainsFunc(slices.Concat(g.Expected, g.Allowed), func(e gold.Expected) bool {
		return e.Tool == s.Call && slices.Contains(e.Free, name) && hasArgs(s.Args, e.Args)
	})
}

// hasArgs reports whether args hold every field of part.
func hasArgs(args, part corpus.Value) bool {
	a, p := object(args), object(part)
	for name, want := range p {
		if got, ok := a[name]; !ok || !corpus.EqualTrees(got, want) {
			return false
		}
	}
	return true
}

func object(v corpus.Value) map[string]any {
	tree, err := v.Tree()
	m, ok := tree.(map[string]any)
	if err != nil || !ok {
		return nil // the loader has refused it
	}
	return m
}
