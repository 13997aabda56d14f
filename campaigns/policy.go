package campaigns

import "errors"

// RegisteredPolicy is the release policy that a campaign is to be judged by, as
// it is registered before the first trial: what it asks, in its own words and
// figures (Q4.1), and the plan of its verdict, what each rule needs to be able to
// pass (Q5). A margin chosen after the data is another policy, and so has another
// digest. Plans of earlier builds hold the digest and the plan of the verdict
// only; what they do not have is left out, so that their digests stay.
type RegisteredPolicy struct {
	Source string `json:"source"` // as the campaign file names it
	Name   string `json:"name"`
	Kind   string `json:"kind,omitempty"` // the evidence that it can pass: measured or simulation
	Digest string `json:"digest"`         // sha256:… of the policy file

	Alpha        float64 `json:"alpha,omitempty"` // one-sided, of every step
	Power        float64 `json:"power,omitempty"`
	Multiplicity string  `json:"multiplicity,omitempty"` // over the arms that one arm is compared with
	// Method says when a verdict may be asked for: fixed, looks or e_process. At are
	// the looks, shares of the planned trials, and Spending how they share alpha.
	Method   string    `json:"method,omitempty"`
	At       []float64 `json:"at,omitempty"`
	Spending string    `json:"spending,omitempty"`

	Fits  bool             `json:"fits"` // the campaign is large enough for every required rule
	Rules []RegisteredRule `json:"rules"`
}

// RegisteredRule is one rule of a policy: what it asks, and what it needs. A nil
// number of what it needs cannot be told before there is data.
type RegisteredRule struct {
	ID         string `json:"id"`
	Step       string `json:"step,omitempty"`
	Severity   string `json:"severity,omitempty"`
	Metric     string `json:"metric,omitempty"`
	Arm        string `json:"arm,omitempty"`
	Comparison string `json:"comparison,omitempty"` // absolute, "noninferior_to ARM", "superior_to ARM"
	// Limit of an absolute rule and Margin of any other, in the unit of the metric or
	// as a share of the other arm's mean; Why says why it is that.
	Limit  *float64 `json:"limit,omitempty"`
	Margin *float64 `json:"margin,omitempty"`
	Bound  string   `json:"bound,omitempty"`
	Scope  string   `json:"scope,omitempty"`
	Why    string   `json:"why,omitempty"`

	Families *int `json:"families"`
	Cases    *int `json:"cases"`
	Trials   *int `json:"trials"` // in each arm
	Has      int  `json:"has"`    // families of the campaign in the rule's scope
	Fits     bool `json:"fits"`
}

// rule is the rule of an id, nil where there is none.
func (p *RegisteredPolicy) rule(id string) *RegisteredRule {
	for i := range p.Rules {
		if p.Rules[i].ID == id {
			return &p.Rules[i]
		}
	}
	return nil
}

// ids are those of the rules, in the order of the policy.
func (p *RegisteredPolicy) ids() []string {
	out := make([]string, len(p.Rules))
	for i := range p.Rules {
		out[i] = p.Rules[i].ID
	}
	return out
}

// resolvePolicy registers the policy that the file names, if it names one.
func (p *Plan) resolvePolicy(name string, in ResolveInput) error {
	if name == "" {
		return nil
	}
	if in.Policy == nil {
		return errors.New("this program reads no policies")
	}
	registered, err := in.Policy(name, p)
	if err != nil {
		return err
	}
	p.Policy = registered
	return nil
}

// PolicyDigest is the digest of the policy that the campaign registers, "" for
// none.
func (p *Plan) PolicyDigest() string {
	if p.Policy == nil {
		return ""
	}
	return p.Policy.Digest
}
