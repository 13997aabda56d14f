package lint

import (
	"slices"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/corpus/gold"
)

// Coverage finds tool operations, fault kinds and check kinds (but judge) that
// fewer than two families of a corpus use. It is held for the built-in corpus;
// a small private one need not cover everything.
func Coverage(c *corpus.Corpus, set *gold.Set) []Finding {
	used := map[string]map[string]bool{}
	mark := func(what, family string) {
		if used[what] == nil {
			used[what] = map[string]bool{}
		}
		used[what][family] = true
	}
	for _, k := range c.Cases {
		g, ok := set.Get(k.ID)
		if !ok {
			continue
		}
		for _, s := range g.Solution {
			if t, ok := k.Tool(s.Call); ok {
				mark("operation "+t.Op.Kind, k.Family)
			}
		}
		for _, f := range k.Faults {
			mark("fault "+f.Kind, k.Family)
		}
		for i := range g.Criteria {
			g.Criteria[i].Check.Walk(func(x *gold.Check, _ bool) {
				for _, kind := range x.Kinds() {
					mark("check "+kind, k.Family)
				}
			})
		}
	}
	var wanted []string
	for _, o := range corpus.OpKinds() {
		wanted = append(wanted, "operation "+o)
	}
	for _, f := range corpus.FaultKinds() {
		wanted = append(wanted, "fault "+f)
	}
	for _, k := range gold.CheckKinds() {
		if k != gold.KindJudge {
			wanted = append(wanted, "check "+k)
		}
	}
	slices.Sort(wanted)
	var r report
	for _, w := range wanted {
		if n := len(used[w]); n < 2 {
			r.addf("", RuleCoverage, "", "%s is used by %d families, at least 2 are wanted", w, n)
		}
	}
	return r.list
}
