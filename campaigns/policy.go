package campaigns

import "errors"

// RegisteredPolicy is the release policy that a campaign is to be judged by, as
// it is registered before the first trial, with the plan of its verdict: what
// each rule needs to be able to pass (Q5). A margin chosen after the data is
// another policy, and so has another digest.
type RegisteredPolicy struct {
	Source string           `json:"source"` // as the campaign file names it
	Name   string           `json:"name"`
	Digest string           `json:"digest"` // sha256:… of the policy file
	Fits   bool             `json:"fits"`   // the campaign is large enough for every required rule
	Rules  []RegisteredRule `json:"rules"`
}

// RegisteredRule is what one rule of a policy needs. A nil number cannot be told
// before there is data.
type RegisteredRule struct {
	ID       string `json:"id"`
	Families *int   `json:"families"`
	Cases    *int   `json:"cases"`
	Trials   *int   `json:"trials"` // in each arm
	Has      int    `json:"has"`    // families of the campaign in the rule's scope
	Fits     bool   `json:"fits"`
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
