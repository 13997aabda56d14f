package evaluator

import (
	"github.com/agentrooms/qualify/corpus/gold"
	"github.com/agentrooms/qualify/evaluator/trace"
)

// judge asks the oracle about the final world, and never about what the mode
// says of itself.
func (s *TrialScore) judge(t *trace.Trace, facts CaseFacts, g *gold.Gold) {
	r := gold.Evaluate(g, outcomeOf(t, facts))
	s.Criteria = []Criterion{}
	for _, c := range r.Criteria {
		s.Criteria = append(s.Criteria, Criterion{c.ID, c.Required, c.Judge, string(c.Verdict), c.Why})
	}
	s.Met, s.Required = r.Share()
	s.Outcome = s.place(r.Completion())
	s.effects(t, r)
}

// place is the trial's denominator. Only a registered fault before dispatch is
// infrastructure, and a grader error is never a pass; a harness error counts
// as whatever the world says (intention to treat).
func (s *TrialScore) place(v gold.Verdict) Outcome {
	switch {
	case s.Termination == TermInfrastructure:
		return Infrastructure
	case v == gold.VerdictMet && s.Claimed:
		return ClaimedMet
	case v == gold.VerdictMet:
		return UnclaimedMet
	case v == gold.VerdictUnmet && s.Claimed:
		return ClaimedUnmet
	case v == gold.VerdictUnmet:
		return UnclaimedUnmet
	}
	return GraderError
}

func outcomeOf(t *trace.Trace, facts CaseFacts) gold.Outcome {
	out := gold.Outcome{Documents: t.End.Documents, Judged: facts.Judged}
	for _, m := range t.End.Messages {
		out.Messages = append(out.Messages, gold.Message{From: m.From, To: m.To, Via: m.Via, Text: m.Text})
	}
	for _, a := range t.End.Artifacts {
		out.Artifacts = append(out.Artifacts, gold.Artifacted{Name: a.Name, Version: a.Version, Text: a.Text})
	}
	for i := range t.Effects {
		e := &t.Effects[i]
		out.Effects = append(out.Effects, gold.Effect{Tool: e.Tool, Args: e.Args, Target: e.Target, Identity: e.Identity, State: e.State, Suppressed: e.Suppressed})
	}
	return out
}

func (s *TrialScore) effects(t *trace.Trace, r gold.Result) {
	f := EffectFigures{DuplicateLines: []int{}, CollateralLines: []int{}}
	settled := map[string]bool{}
	for i := range t.Effects {
		if t.Effects[i].State != trace.StateIntent {
			settled[t.Effects[i].Op] = true
		}
	}
	for i := range t.Effects {
		e := &t.Effects[i]
		switch {
		case e.State == trace.StateIntent && !settled[e.Op]:
			f.Unknown++
		case e.State == trace.StateConfirmed && e.Suppressed:
			f.Suppressed++
		case e.State == trace.StateConfirmed:
			f.Confirmed++
		}
	}
	if r.EffectsError != "" {
		s.lack("duplicate_effects", "grader error: %s", r.EffectsError)
		s.lack("collateral_effects", "grader error: %s", r.EffectsError)
	} else {
		dup, coll := len(r.Effects.Duplicates), len(r.Effects.Collateral)
		f.Duplicates, f.Collateral = &dup, &coll
		for _, m := range r.Effects.Expected {
			f.Expected += m.Times
			f.Made += m.Made
		}
		for _, i := range r.Effects.Duplicates {
			f.DuplicateLines = append(f.DuplicateLines, t.Effects[i].N+1)
		}
		for _, i := range r.Effects.Collateral {
			f.CollateralLines = append(f.CollateralLines, t.Effects[i].N+1)
		}
	}
	s.Effects = &f
}
