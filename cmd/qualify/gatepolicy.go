package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/evaluator/gate"
)

// policyFlag adds --policy to a command that judges a stored campaign.
func policyFlag(c *cobra.Command, name *string) {
	builtins := policyPrefix + strings.Join(gate.BuiltinNames(), ", "+policyPrefix)
	c.Flags().StringVar(name, "policy", policyPrefix+gate.PolicyDefault,
		"policy `FILE`, or "+builtins+" (the registered one, or "+policyPrefix+gate.PolicyDefault+")")
	c.Flags().Lookup("policy").DefValue = ""
}

// policyReader reads the policy that a campaign file in the folder base names,
// takes over what it asks, and plans its verdict.
func policyReader(base string) func(string, *campaigns.Plan) (*campaigns.RegisteredPolicy, error) {
	return func(name string, plan *campaigns.Plan) (*campaigns.RegisteredPolicy, error) {
		policy, err := readPolicy(policyPlace(name, base))
		if err != nil {
			return nil, usagef("%s", lineOf(err))
		}
		doc, err := gate.Plan(policy, designOf(plan))
		if err != nil {
			return nil, usagef("%s", lineOf(err))
		}
		return registeredOf(name, policy, doc), nil
	}
}

// registeredOf is what a campaign registers of a policy and its plan. The plan
// has the rules in the order of the policy.
func registeredOf(source string, p *gate.Policy, doc *gate.PlanDocument) *campaigns.RegisteredPolicy {
	out := &campaigns.RegisteredPolicy{
		Source: source, Name: p.Name, Kind: string(p.Kind), Digest: p.Digest(),
		Alpha: p.Alpha, Power: p.Power, Multiplicity: string(p.Multiplicity),
		Method: string(p.Sequential.Method), At: p.Sequential.At, Spending: string(p.Sequential.Spending),
		Fits: doc.Fits, Rules: []campaigns.RegisteredRule{},
	}
	for i := range p.Rules {
		r, needs := &p.Rules[i], &doc.Rules[i]
		out.Rules = append(out.Rules, campaigns.RegisteredRule{
			ID: r.ID, Step: string(r.Step), Severity: string(r.Severity), Metric: r.Metric, Arm: r.Arm, Comparison: r.Comparison,
			Limit: r.Limit, Margin: r.Margin, Bound: string(r.Bound), Scope: r.Scope, Why: r.Why,
			Families: needs.Families, Cases: needs.Cases, Trials: needs.Trials, Has: needs.Has, Fits: needs.Fits,
		})
	}
	return out
}

// policyPlace is where a policy that a campaign file in the folder base names
// is read.
func policyPlace(name, base string) string {
	if strings.HasPrefix(name, policyPrefix) || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(base, filepath.FromSlash(name))
}

// policyOfCampaign is the policy to judge a campaign by where the command names
// none: the one it registered, or other where it registered none. A registered
// file lies where nobody said, so its name has to be given.
func policyOfCampaign(ctx context.Context, s store.Records, which string, other *gate.Policy) (*gate.Policy, error) {
	if which == "" {
		return other, nil // refused with its own words, like any campaign without a name
	}
	c, err := findCampaign(ctx, s, which)
	if err != nil {
		return nil, err
	}
	var plan struct {
		Policy *campaigns.RegisteredPolicy `json:"policy"`
	}
	if err := json.Unmarshal(c.Plan, &plan); err != nil {
		return nil, fmt.Errorf("plan of campaign %s: %w", c.ID, err)
	}
	bundled, inBundle := s.(*bundleStore)
	switch p := plan.Policy; {
	case p == nil:
		return other, nil
	case inBundle:
		return bundled.registered(p)
	case !strings.HasPrefix(p.Source, policyPrefix):
		return nil, usagef("campaign %s registered policy %s, the file %s beside its campaign file: name it with --policy", which, p.Name, p.Source)
	default:
		return readPolicy(p.Source)
	}
}
