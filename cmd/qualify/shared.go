package main

import (
	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/engine/store"
)

// noteShared says in one line which of two limits rules what, where a shared
// ceiling stands at another one than the campaign's file says.
func (a *app) noteShared(p *campaigns.Plan, c store.Ceiling) {
	grant := a.grantCommand(campaigns.Grant{Ceiling: c.Name, Funds: c.Funds, Total: p.CapMicros})
	if p.CapMicros < c.Limit {
		a.talkf("note: ceiling %s stands at %s USD for all campaigns that share it; ceiling_usd %s caps this one inside it", c.Name, usd(c.Limit), usd(p.CapMicros))
		return
	}
	a.talkf("note: ceiling %s stands at %s USD for all campaigns that share it, and ceiling_usd %s does not raise it; `%s` does", c.Name, usd(c.Limit), usd(p.CapMicros), grant)
}
