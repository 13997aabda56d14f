package gate

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/agentrooms/qualify/evaluator"
)

// lookCell is a world judged by a policy that may be asked before the end.
type lookCell struct {
	method   string // name, of lookMethods
	line     string
	truth    *truth
	families int
}

// lookTally counts over campaigns that were judged once at a half or at a share
// that chance chose, and once more at the end.
type lookTally struct {
	early, ever share // PASS of the rule by itself, at the first of them and at either
}

// lookMethods are the lines that take the place of the policy's own.
var lookMethods = []struct{ name, line string }{
	{"looks at 50 and 100 % by O'Brien-Fleming", "sequential: {method: looks, at: [0.5, 1]}"},
	{"e-process, stopped by chance and at the end", "sequential: {method: e_process}"},
}

func lookPolicy(line string) (*Policy, error) {
	p, ok, err := Builtin(PolicyDefault)
	if err != nil || !ok {
		return nil, fmt.Errorf("policy %s: %w", PolicyDefault, err)
	}
	const fixed = "sequential: {method: fixed}"
	text := bytes.Replace(p.Text(), []byte(fixed), []byte(line), 1)
	if bytes.Equal(text, p.Text()) {
		return nil, fmt.Errorf("policy %s has no line %q", PolicyDefault, fixed)
	}
	return Parse("calibration", text)
}

// lookCells are the worlds in which a rule about completion is at its margin
// (B: superiority, C: non-inferiority) and beyond it (E: both).
func lookCells(worlds []truth, families []int) []lookCell {
	var out []lookCell
	for _, m := range lookMethods {
		for i := range worlds {
			switch worlds[i].letter {
			case "B", "C", "E":
				for _, f := range families {
					out = append(out, lookCell{m.name, m.line, &worlds[i], f})
				}
			}
		}
	}
	return out
}

// campaignsOf judges n campaigns twice each. What is not done at the first look
// is not run in all arms; results have no part in which it is. The tallies are by
// rule, in the order of the verdict.
func (c lookCell) campaignsOf(n int, seed, index uint64) ([]lookTally, error) {
	w, err := newWorld(c.truth, design{balanced, c.families})
	if err != nil {
		return nil, err
	}
	p, err := lookPolicy(c.line)
	if err != nil {
		return nil, err
	}
	e := Evidence{Table: w.table, Word: evaluator.EvidenceMeasured, Checks: map[string]Check{}}
	for _, id := range Preconditions() {
		e.Checks[id] = Check{State: CheckHolds}
	}
	root := rand.New(rand.NewPCG(seed, index))
	var out []lookTally
	planned := len(w.table.Cases) * trialsEach
	for i := range n {
		rng := rand.New(rand.NewPCG(root.Uint64(), root.Uint64()))
		w.draw(rng)
		undone := rng.Perm(planned)
		done := planned / 2
		if p.Sequential.Method == MethodEProcess {
			slices.Sort(undone) // family after family, as such a campaign is run
			done = planned/4 + rng.IntN(planned/2)
		}
		undone = undone[done:]
		var kept []evaluator.Row
		for _, k := range undone {
			for a := range calibrationArms {
				r := w.table.Row(a, k/trialsEach, k%trialsEach)
				kept = append(kept, *r)
				*r = evaluator.Row{State: evaluator.TrialNotRun}
			}
		}
		e.Status = StatusStopped
		early, err := Evaluate(p, e)
		if err != nil {
			return nil, fmt.Errorf("campaign %d: %w", i, err)
		}
		for j, k := range undone {
			for a := range calibrationArms {
				*w.table.Row(a, k/trialsEach, k%trialsEach) = kept[j*len(calibrationArms)+a]
			}
		}
		e.Status = StatusDone
		whole, err := Evaluate(p, e)
		if err != nil {
			return nil, fmt.Errorf("campaign %d: %w", i, err)
		}
		if out == nil {
			out = make([]lookTally, len(whole.Rules))
		}
		for r := range whole.Rules {
			first := passesAlone(&early.Rules[r])
			out[r].early.add(first)
			out[r].ever.add(first || passesAlone(&whole.Rules[r]))
		}
	}
	return out, nil
}

// runLooks judges as many campaigns of every cell of lookCells as of the others.
func (c *calibration) runLooks(worlds []truth, families []int) error {
	c.lookCells = lookCells(worlds, families)
	c.lookTallies = make([][]lookTally, len(c.lookCells))
	return each(len(c.lookCells), func(i int) error {
		x := c.lookCells[i]
		var err error
		if c.lookTallies[i], err = x.campaignsOf(c.n, c.seed, uint64(1000+i)); err != nil {
			return fmt.Errorf("%s, truth %s, %d families: %w", x.method, x.truth.letter, x.families, err)
		}
		return nil
	})
}

// lookWorst is the greatest share of campaigns in which a rule at its margin
// passed at either look.
func (c *calibration) lookWorst() finding {
	var out finding
	for i, x := range c.lookCells {
		for r := range c.rules {
			rule := &c.rules[r]
			if rule.Metric != "completion" || !atLimit(x.truth, rule) {
				continue
			}
			if s := c.lookTallies[i][r].ever; !out.found || s.rate() > out.rate() {
				out = finding{s, fmt.Sprintf("%s; %s, balanced, %d families, %s", rule.ID, x.truth.letter, x.families, x.method), true}
			}
		}
	}
	return out
}

func (c *calibration) lookTable(f printer) {
	if len(c.lookCells) == 0 {
		return
	}
	f("## Before the end\n\nThe default policy with other lines `sequential`, balanced families: PASS of the rule by itself, at the first look / at either look. In B and C\n" +
		"the rule is at its margin, in E the planner is better by 15 points. The e-process runs family after family and is\n" +
		"stopped at a share between 25 and 75 %% that does not depend on results.\n\n| method | world | families | completion-than-legacy | better-than-legacy |\n|---|---|---|---|---|\n")
	for i, x := range c.lookCells {
		f("| %s | %s | %d |", x.method, x.truth.letter, x.families)
		for _, id := range []string{"completion-than-legacy", "better-than-legacy"} {
			for r := range c.rules {
				if c.rules[r].ID != id {
					continue
				}
				if t := c.lookTallies[i][r]; atLimit(x.truth, &c.rules[r]) || x.truth.letter == "E" {
					f(" %s / %s |", points(t.early.rate()), points(t.ever.rate()))
				} else {
					f(" |")
				}
			}
		}
		f("\n")
	}
	f("\n")
}
