package gold

// Result is the judgement of one outcome.
type Result struct {
	Criteria []CriterionResult // in the order of the gold file
	Effects  Tally
	// EffectsError tells why effects could not be compared; Effects is then
	// empty and its figures are not evaluable.
	EffectsError string
}

// CriterionResult is the verdict on one criterion.
type CriterionResult struct {
	ID       string
	Required bool
	Judge    bool // rests on a model judgement: reported apart
	Verdict  Verdict
	Why      string
}

// Evaluate judges an outcome by the gold of its case. It never fails: what
// cannot be decided is VerdictError.
func Evaluate(g *Gold, out Outcome) Result {
	var r Result
	trees := map[string]any{}
	for i := range g.Criteria {
		c := &g.Criteria[i]
		j := judge{gold: g, out: &out, criterion: c.ID, trees: trees}
		f := j.eval(&c.Check)
		r.Criteria = append(r.Criteria, CriterionResult{c.ID, c.Required, c.Check.judged(), f.verdict, f.why})
	}
	t, err := tally(g, out.Effects)
	if err != nil {
		r.EffectsError = err.Error()
		return r
	}
	r.Effects = t
	return r
}

// Completion is met when every required criterion is met and there is at
// least one; unmet when one is unmet; an error when one could not be decided
// and none is unmet, or when nothing is required.
func (r Result) Completion() Verdict {
	required, failed := 0, false
	for _, c := range r.Criteria {
		if !c.Required {
			continue
		}
		required++
		switch c.Verdict {
		case VerdictUnmet:
			return VerdictUnmet
		case VerdictError:
			failed = true
		case VerdictMet:
		}
	}
	if failed || required == 0 {
		return VerdictError
	}
	return VerdictMet
}

// Share counts the required criteria that are met, and all required ones.
func (r Result) Share() (met, required int) {
	for _, c := range r.Criteria {
		if !c.Required {
			continue
		}
		required++
		if c.Verdict == VerdictMet {
			met++
		}
	}
	return met, required
}
