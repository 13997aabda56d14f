package gate

// HypothesisVerdict is what a verdict says of a hypothesis that the campaign
// registered before its first trial (Q4.1).
type HypothesisVerdict struct {
	Text    string   `json:"text"`
	Rules   []string `json:"rules"` // of the registered policy, that decide it
	Primary bool     `json:"primary"`
	Outcome Outcome  `json:"outcome"`
}

// Hypothesis is a hypothesis with the outcome of its rules: the worst of them,
// FAIL before INCONCLUSIVE before PASS. Rules of another policy than the
// registered one decide nothing, whatever their ids, nor does a rule that is not
// there: INCONCLUSIVE.
func (v *Verdict) Hypothesis(text string, rules []string, primary bool) HypothesisVerdict {
	h := HypothesisVerdict{Text: text, Rules: append([]string{}, rules...), Primary: primary, Outcome: Inconclusive}
	if len(rules) == 0 || v.Registered != v.Policy.Digest {
		return h
	}
	h.Outcome = Pass
	for _, id := range rules {
		h.Outcome = worst(h.Outcome, v.outcome(id))
	}
	return h
}

// outcome is the verdict on the rule of an id, INCONCLUSIVE where there is none.
func (v *Verdict) outcome(id string) Outcome {
	for i := range v.Rules {
		if v.Rules[i].ID == id {
			return v.Rules[i].Verdict
		}
	}
	return Inconclusive
}

// worst is the worse of two outcomes.
func worst(a, b Outcome) Outcome {
	for _, o := range []Outcome{Fail, Inconclusive} {
		if a == o || b == o {
			return o
		}
	}
	return Pass
}
