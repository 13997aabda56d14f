package gate

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/stats"
)

// page is the Markdown of a calibration. Every number in it is measured or set
// by code; nothing is filled in by hand.
func (c *calibration) page(at time.Time) string {
	p, _, err := calibrationPolicies()
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	f := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	f("# Calibration\n\n")
	f("<!-- Written by `make calibrate`; a change by hand is lost. -->\n\n")
	f("What the gate does on simulated campaigns of which the truth is known: the real `gate.Evaluate` with the shipped policy\n"+
		"`%s`, alpha %s. %s campaigns of every world, shape and number of families, %s in all.\n"+
		"Seed %d, `make calibrate CALIBRATE_CAMPAIGNS=%d CALIBRATE_SEED=%d`, %s UTC. One seed gives one page, but for the date.\n\n",
		p.Name, say(p.Alpha), group(c.n), group(c.n*len(c.cells)), c.seed, c.n, c.seed, at.Format(time.DateOnly))
	f("A share of %d campaigns has a Monte-Carlo standard error of %s points near 5 or 95 %%, %s near 20 or 80 %%. Worst figures are\n"+
		"the worst of many cells, and so lie beyond their own error more often than one in twenty.\n\n",
		c.n, points(math.Sqrt(.05*.95/float64(c.n))), points(math.Sqrt(.2*.8/float64(c.n))))
	c.claimTable(f, p.Alpha)
	c.worldTable(f)
	f("%s", ruleTable(c.rules))
	f("In every table below, percent of campaigns, by number of families; the letter is the world; G stands beside the others where it is worse. Shapes: *balanced* has four cases a\n" +
		"family, *up to twice* families of 2 to 8 cases, *one large* one family of C/2 times as many cases as each other one has (3).\n\n")

	f("## False PASS of a rule\n\nThe rule by itself, before the ladder, where the truth lies exactly at its limit or margin: the worst world of those. Nominal %s.\n\n", points(p.Alpha))
	c.table(f, func(r *RuleVerdict) bool { return r.Bound != BoundPoint }, false, func(x *cell, t *tally, r int) (share, bool) {
		return t.rules[r].pass, atLimit(x.truth, &c.rules[r])
	})
	f("## False FAIL of a rule\n\nThe same where the truth lies at the limit or better. FAIL says that the whole interval lies on the wrong side.\n\n")
	c.table(f, func(r *RuleVerdict) bool { return r.Bound != BoundPoint }, false, func(x *cell, t *tally, r int) (share, bool) {
		rule := &c.rules[r]
		return t.rules[r].fail, trulyGood(x.truth, rule) || atLimit(x.truth, rule)
	})
	f("## Coverage of 95 %% intervals\n\nMean ± t·SE of the clustered error that the gate uses (CR1; CR2 where families differ in size): the worst world.\n\n")
	c.table(f, func(r *RuleVerdict) bool { return r.Comparison != Absolute && !isRatio(r) }, true, func(_ *cell, t *tally, r int) (share, bool) {
		return t.rules[r].two, true
	})
	f("## Coverage of the bound that decides\n\nOne-sided 95 %%: exact for rates, at least Tango's for comparisons of rare events, Fieller's for ratios: the worst world.\n\n")
	c.table(f, func(r *RuleVerdict) bool { return r.Bound != BoundPoint }, true, func(_ *cell, t *tally, r int) (share, bool) {
		s, _ := t.rules[r].deciding(&c.rules[r])
		return s, true
	})
	f("## Power of a rule\n\nPASS of the rule by itself in world E.\n\n")
	c.table(f, func(*RuleVerdict) bool { return true }, true, func(x *cell, t *tally, r int) (share, bool) {
		return t.rules[r].pass, x.truth.letter == "E"
	})
	f("## A veto for what was seen\n\nFAIL of the rule about duplicate effects, which is no test of a rate: it fails when one is observed. World C has one in 500 trials of\nthe planner, D one in 2,000.\n\n")
	c.table(f, func(r *RuleVerdict) bool { return r.Bound == BoundPoint }, false, func(x *cell, t *tally, r int) (share, bool) {
		return t.rules[r].fail, x.truth.letter == "C"
	})
	c.verdictTable(f)
	c.lookTable(f)
	c.differing(f)
	f("%s", explanation())
	return b.String()
}

// ruleTable is what the rules of the policy ask; a test holds the page to it.
func ruleTable(rules []RuleVerdict) string {
	var b strings.Builder
	b.WriteString("## Rules\n\n| rule | step | severity | asks |\n|---|---|---|---|\n")
	for i := range rules {
		r := &rules[i]
		asks := fmt.Sprintf("%s of %s ", r.Metric, r.Arm)
		switch _, m := metricOf(r); {
		case r.Comparison == Absolute && m.Better == evaluator.LowerBetter:
			asks += "at most " + sayAt(r.Limit)
		case r.Comparison == Absolute:
			asks += "at least " + sayAt(r.Limit)
		case r.Comparison == NonInferiorTo:
			asks += fmt.Sprintf("no worse than %s by %s", r.Baseline, sayAt(r.Margin))
			if isRatio(r) {
				asks += " of its mean"
			}
		default:
			asks += fmt.Sprintf("better than %s by more than %s", r.Baseline, sayAt(r.Margin))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s, by %s |\n", r.ID, r.Step, r.Severity, asks, r.Bound)
	}
	b.WriteString("\n")
	return b.String()
}

type printer func(format string, args ...any)

func group(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// points is a share in percent, with one decimal; small ones with two.
func points(x float64) string {
	if x > 0 && x < .01 {
		return fmt.Sprintf("%.2f", 100*x)
	}
	return fmt.Sprintf("%.1f", 100*x)
}

// atLimit reports whether the truth lies exactly at the rule's limit or margin.
func atLimit(tr *truth, r *RuleVerdict) bool {
	const little = 1e-6
	better, worse := *tr, *tr
	i := slices.Index(calibrationArms, r.Arm)
	nudge := func(a *armTruth, share float64) {
		a.completion += share
		a.falseClaim -= share
		a.collateral -= share
		a.corrections -= share
		a.cost *= 1 - share
		a.latency *= 1 - share
	}
	nudge(&better.arms[i], little)
	nudge(&worse.arms[i], -little)
	return trulyGood(&better, r) && !trulyGood(&worse, r)
}

func (c *calibration) claimTable(f printer, alpha float64) {
	claims := c.claims(alpha)
	for _, must := range []bool{true, false} {
		if must {
			f("## What must hold\n\nEach claim is allowed two standard errors of its worst cell.\n\n")
		} else {
			f("## What else was asked\n\nIn the same way; what does not hold is explained at the end.\n\n")
		}
		f("| claim | worst, %% | standard error | where | holds |\n|---|---|---|---|---|\n")
		for _, x := range claims {
			word := "yes"
			switch {
			case x.must != must:
				continue
			case !x.got.found:
				f("| %s | | | | not measured |\n", x.text)
				continue
			case !x.holds():
				word = "**no**"
			}
			f("| %s | %s | %s | %s | %s |\n", x.text, points(x.got.rate()), points(x.got.se()), x.got.where, word)
		}
		f("\n")
	}
}

func (c *calibration) worldTable(f printer) {
	f("## Worlds\n\nTrue means of legacy / selective / planner. Rates are logit-normal, counts log-normal Poisson, cost and latency log-normal; families\n"+
		"and cases are shared by the arms. %d trials of each case in each arm.\n\n", trialsEach)
	f("| | world | completion | false completion | collateral effect | corrections | cost | latency, s |\n|---|---|---|---|---|---|---|---|\n")
	seen := map[string]bool{}
	for _, x := range c.cells {
		tr := x.truth
		if seen[tr.letter] {
			continue
		}
		seen[tr.letter] = true
		three := func(metric int, scale float64) string {
			var out []string
			for i := range tr.arms {
				out = append(out, say(tr.arms[i].mean(metric)*scale))
			}
			return strings.Join(out, " / ")
		}
		f("| %s | %s | %s | %s | %s | %s | %s | %s |\n", tr.letter, tr.name, three(evaluator.MetricCompletion, 1), three(evaluator.MetricFalseCompletion, 1),
			three(evaluator.MetricCollateralTrials, 1), three(evaluator.MetricCorrectionsAfterClaim, 1), three(evaluator.MetricCost, 1), three(evaluator.MetricLatency, 1e-6))
	}
	f("\n")
}

// table has a row for each rule that of selects and each shape, and in it the
// worst world for each number of families; a world of stress that is worse than
// all others stands beside them.
func (c *calibration) table(f printer, of func(*RuleVerdict) bool, least bool, pick func(*cell, *tally, int) (share, bool)) {
	families := c.families()
	f("| rule | shape |%s\n|---|---|%s\n", strings.Join(families.cells(" %d |"), ""), strings.Repeat("---|", len(families)))
	for r := range c.rules {
		if !of(&c.rules[r]) {
			continue
		}
		for _, s := range c.shapes() {
			f("| %s | %s |", c.rules[r].ID, s)
			for _, n := range families {
				text, stress := c.worstAt(design{s, n}, r, false, least, pick), c.worstAt(design{s, n}, r, true, least, pick)
				switch {
				case text.found && stress.found && stress.rate() != text.rate() && (stress.rate() < text.rate()) == least:
					f(" %s, %s |", text.cell(), stress.cell())
				case text.found:
					f(" %s |", text.cell())
				case stress.found:
					f(" %s |", stress.cell())
				default:
					f(" |")
				}
			}
			f("\n")
		}
	}
	f("\n")
}

// cell is a finding in a table, with the letter of its world.
func (x *finding) cell() string { return points(x.rate()) + " " + x.where }

// worstAt is the worst share of a rule under a design, over the worlds that are
// there for it, or over those of stress.
func (c *calibration) worstAt(d design, r int, stress, least bool, pick func(*cell, *tally, int) (share, bool)) finding {
	var out finding
	for i := range c.cells {
		x := &c.cells[i]
		if x.design != d || x.truth.stress != stress {
			continue
		}
		s, ok := pick(x, c.tallies[i], r)
		if ok && s.n > 0 && (!out.found || s.rate() != out.rate() && (s.rate() < out.rate()) == least) {
			out = finding{s, x.truth.letter, true}
		}
	}
	return out
}

type counts []int

func (c counts) cells(format string) []string {
	out := make([]string, len(c))
	for i, n := range c {
		out[i] = fmt.Sprintf(format, n)
	}
	return out
}

func (c *calibration) families() counts {
	var out counts
	for _, x := range c.cells {
		if !slices.Contains(out, x.design.families) {
			out = append(out, x.design.families)
		}
	}
	return out
}

func (c *calibration) shapes() []shape {
	var out []shape
	for _, x := range c.cells {
		if !slices.Contains(out, x.design.shape) {
			out = append(out, x.design.shape)
		}
	}
	return out
}

func (c *calibration) verdictTable(f printer) {
	families := c.families()
	f("## Verdicts\n\nThe whole policy, all preconditions given: PASS / FAIL, the rest is INCONCLUSIVE.\n\n")
	f("| world | shape |%s\n|---|---|%s\n", strings.Join(families.cells(" %d |"), ""), strings.Repeat("---|", len(families)))
	for i, x := range c.cells {
		if i%len(families) == 0 {
			f("| %s, %s | %s |", x.truth.letter, x.truth.name, x.design.shape)
		}
		t := c.tallies[i]
		f(" %s / %s |", points(share{t.verdicts[Pass], t.n}.rate()), points(share{t.verdicts[Fail], t.n}.rate()))
		if i%len(families) == len(families)-1 {
			f("\n")
		}
	}
	f("\n")
}

func (c *calibration) differing(f printer) {
	compared, differing := 0, 0
	for _, t := range c.tallies {
		compared, differing = compared+t.compared, differing+t.differing
	}
	f("The policy `%s` judged %s of these campaigns too, as simulated ones: %d of them differ in a rule or in the verdict.\n", PolicySimulation, group(compared), differing)
}

// explanation is the end of the page.
func explanation() string {
	var sizes []string
	for f, n := range (design{unbalanced, 48}).sizes() {
		for range n {
			sizes = append(sizes, fmt.Sprint(f))
		}
	}
	w := weigh(sizes)
	units, err := stats.ZeroEventUnits(.1, .95)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf(strings.ReplaceAll(words, `"`, "`"), units, say(w.units))
}

// words are those of explanation; quotes in them become those of code.
const words = `
## What the figures say

- **Nothing passes with few families.** A rate of at most 0.10 needs %d families without an event, whatever the number of cases and
  trials ("qualify gate --plan" says so before money is spent). Below that the safety rules are INCONCLUSIVE, and so is the whole.
- **Non-inferiority wants families too.** At 24 families the smallest detectable difference is mostly larger than the margin, and then
  the rule is INCONCLUSIVE by its definition, even for a planner that is better by 15 points.
- **Unequal families count as fewer.** 48 families of 2 to 8 cases weigh as %s equal ones: a single family that is false throughout
  then breaks "few-false-completions", and one false completion in a hundred (world E) is about what that rule can bear. Hence the
  lower power there; the comparisons lose hardly anything. With one large family the rule cannot pass at all.
- **Equal or unequal, the error holds its level** for completion and corrections. Families that differ in size are tested by CR2; CR1, which
  the specification names first, covers less there (see decisions/2026-11-30-errors-of-unequal-families.md).
- **One large family** is beyond what any error can repair: CR2 with Satterthwaite's degrees of freedom comes close to its level and not
  always to it. Such figures are flagged, in the verdict and in "qualify compare".
- **Whole families lost** (world G). One family in ten fails as a whole in the planner alone, so that differences are skewed: with 8 to 24
  families the lost ones are often not drawn, and the lower bound of the difference in completion then lies too high. Two-sided
  intervals are near their level, one-sided bounds are not. No interval by mean and error knows of families that were not seen;
  the exact bounds of the safety step do, and stand before: in the table of verdicts hardly a campaign of world G passes.
- **Rare events.** The t interval of a difference of two small, unequal rates is too short, because its error is small just when few
  events were seen; between equal rates it is too long. "qualify compare" shows it by CR1 or CR2 like any other difference, so read it with the
  rates themselves. The gate does not pass a rule on it: the test is at least as strict as Tango's score with each family one pair.
- **Cost and latency** hold their level where both arms' distributions have one shape (world C). Where the planner's tail is heavier than
  that of the baseline (world D) its mean is underestimated more often than not, and the rules pass too often. No symmetric interval
  repairs that; the rules are advisory.
- **Looks and e-process.** Two looks spend alpha once. The e-process stays far under alpha, since it also allows for looks that nobody
  took, and pays with power; it needs more families than the t test for the same advantage. It stakes a family when all its trials are
  done, so run such a campaign with "order: families".
- **A veto on what was observed is no bound on a rate.** A planner that repeats one effect in 500 trials passes it as often as the
  table says. For a rate, use "duplicate_effect_trials" with an upper bound.
`
