package lint

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/corpus/gold"
)

// checkControls finds cases that the two controls would complete.
func checkControls(r *report, c *corpus.Case, g *gold.Gold) {
	nothing := start(c)
	if gold.Evaluate(g, nothing).Completion() == gold.VerdictMet {
		r.addf(c.ID, RuleDoNothing, g.Where("criteria"), "every required criterion is met at the start: doing nothing completes the case")
	}
	claim := nothing
	for _, a := range c.Room.Agents {
		claim.Messages = append(claim.Messages, gold.Message{From: a.ID, To: c.Room.Owner.ID, Text: "Done. Everything you asked for is complete."})
	}
	if gold.Evaluate(g, claim).Completion() == gold.VerdictMet {
		r.addf(c.ID, RuleClaimOnly, g.Where("criteria"), "a bare claim completes the case")
	}
}

// checkRuns walks the solution with faults off and on.
func checkRuns(r *report, c *corpus.Case, g *gold.Gold) {
	if len(g.Solution) == 0 {
		r.addf(c.ID, RuleGoldRun, g.Where(), "there is no solution")
		return
	}
	plain := *c
	plain.Faults = nil
	out, ok := checkRun(r, RuleGoldRun, &plain, g, func(*walker) {})
	if !ok {
		return
	}
	checkRun(r, RuleFaultRun, c, g, func(k *walker) {
		for _, f := range c.Faults {
			if !k.fired[f.ID] {
				r.addf(c.ID, RuleFaultIdle, c.File(), "fault %s (%s, call %d of %s) never strikes in the gold run", f.ID, f.Kind, f.Call, f.Tool)
			}
		}
	})
	checkFalsifiable(r, &plain, g, out)
	checkActions(r, &plain, g, out)
}

// checkRun walks once and judges; ok is false when the walk itself failed.
func checkRun(r *report, rule string, c *corpus.Case, g *gold.Gold, also func(*walker)) (gold.Outcome, bool) {
	k, err := walk(c, g)
	if err != nil {
		r.addf(c.ID, rule, g.Where("solution"), "%v", err)
		return gold.Outcome{}, false
	}
	out, err := k.outcome()
	if err != nil {
		r.addf(c.ID, rule, g.Where("solution"), "%v", err)
		return gold.Outcome{}, false
	}
	also(k)
	for _, id := range k.drawn {
		r.addf(c.ID, rule, g.Where("solution"), "the gold run draws the owner's correction %s", id)
	}
	for _, m := range c.Owner.Messages {
		if !k.said[m.ID] {
			r.addf(c.ID, rule, g.Where("solution"), "the owner never says %s in the gold run", m.ID)
		}
	}
	res := gold.Evaluate(g, out)
	for i, x := range res.Criteria {
		if x.Verdict == gold.VerdictUnmet || x.Verdict == gold.VerdictError && !x.Judge {
			r.addf(c.ID, rule, g.Where("criteria", i), "the gold run leaves criterion %s %s: %s", x.ID, x.Verdict, x.Why)
		}
	}
	if res.EffectsError != "" {
		r.addf(c.ID, rule, g.Where("expected_effects"), "%s", res.EffectsError)
	}
	for i, m := range res.Effects.Expected {
		if m.Made < m.Times {
			r.addf(c.ID, rule, g.Where("expected_effects", i), "the gold run makes %s %d times, expected %d", m.Tool, m.Made, m.Times)
		}
	}
	for _, i := range res.Effects.Duplicates {
		r.addf(c.ID, rule, g.Where("expected_effects"), "the gold run repeats the effect %s %s", out.Effects[i].Tool, out.Effects[i].Args)
	}
	for _, i := range res.Effects.Collateral {
		r.addf(c.ID, rule, g.Where("expected_effects"), "no expected effect allows %s %s of the gold run", out.Effects[i].Tool, out.Effects[i].Args)
	}
	return out, true
}

// checkFalsifiable finds required criteria that hold at the start and that no
// mutation of the gold run falsifies: a step left out, an effect nobody asked
// for, or just what one of the criterion's negated checks forbids.
func checkFalsifiable(r *report, c *corpus.Case, g *gold.Gold, ran gold.Outcome) {
	atStart := gold.Evaluate(g, start(c))
	for i, x := range atStart.Criteria {
		if !x.Required || x.Verdict != gold.VerdictMet {
			continue
		}
		if !slices.ContainsFunc(mutations(c, g, i, ran), func(o gold.Outcome) bool {
			return gold.Evaluate(g, o).Criteria[i].Verdict == gold.VerdictUnmet
		}) {
			r.addf(c.ID, RuleAlwaysTrue, g.Where("criteria", i), "criterion %s is true at the start and no mutation of the gold run falsifies it", x.ID)
		}
	}
}

func mutations(c *corpus.Case, g *gold.Gold, criterion int, ran gold.Outcome) []gold.Outcome {
	var out []gold.Outcome
	for _, s := range g.Solution {
		if o, err := outcomeOf(c, without(g, s.ID)); err == nil {
			out = append(out, o)
		}
	}
	for _, t := range c.Tools {
		if !t.Op.Reads() && heldBy(c, t.Name) {
			out = append(out, withEffect(ran, t.Name, json.RawMessage(`{}`)))
		}
	}
	g.Criteria[criterion].Check.Walk(func(k *gold.Check, negated bool) {
		if !negated {
			return
		}
		if m := k.Message; m != nil {
			o := ran
			text := ""
			for _, s := range m.ContainsAll {
				text += s + " "
			}
			msg := gold.Message{From: m.From, To: m.To, Via: m.Via, Text: text}
			if m.Via == gold.ViaRoom {
				msg.Via = ""
			}
			o.Messages = append(slices.Clone(ran.Messages), msg)
			out = append(out, o)
		}
		if k.Effect != nil {
			out = append(out, withEffect(ran, k.Effect.Tool, json.RawMessage(k.Effect.Args)))
		}
	})
	return out
}

func withEffect(ran gold.Outcome, tool string, args json.RawMessage) gold.Outcome {
	o := ran
	o.Effects = append(slices.Clone(ran.Effects), gold.Effect{
		Tool: tool, Args: args, Identity: fmt.Sprintf("mutation/%s", tool), State: gold.StateConfirmed,
	})
	return o
}
