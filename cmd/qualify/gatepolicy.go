package main

import (
	"path/filepath"
	"strings"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/evaluator/gate"
)

// policyReader reads the policy that a campaign file in the folder base names,
// and plans its verdict.
func policyReader(base string) func(string, *campaigns.Plan) (*campaigns.RegisteredPolicy, error) {
	return func(name string, plan *campaigns.Plan) (*campaigns.RegisteredPolicy, error) {
		policy, err := readPolicy(policyPlace(name, base))
		if err != nil {
			return nil, err
		}
		doc, err := gate.Plan(policy, designOf(plan))
		if err != nil {
			return nil, err
		}
		out := &campaigns.RegisteredPolicy{Source: name, Name: doc.Policy.Name, Digest: doc.Policy.Digest, Fits: doc.Fits, Rules: []campaigns.RegisteredRule{}}
		for _, r := range doc.Rules {
			out.Rules = append(out.Rules, campaigns.RegisteredRule{ID: r.ID, Families: r.Families, Cases: r.Cases, Trials: r.Trials, Has: r.Has, Fits: r.Fits})
		}
		return out, nil
	}
}

// policyPlace is where a policy that a campaign file in the folder base names
// is read.
func policyPlace(name, base string) string {
	if strings.HasPrefix(name, policyPrefix) || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(base, filepath.FromSlash(name))
}
