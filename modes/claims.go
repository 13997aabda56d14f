package modes

import (
	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/room"
)

// Claims keeps the rule about claims that all modes share: a claim stands
// until the owner's next word that reopens the work (room.Authority.Reopens),
// and is then withdrawn before anything else happens. It is part of a
// machine's state.
type Claims struct {
	By string `json:"by,omitempty"` // who made the standing claim; "" when none stands
}

// Stands reports whether a claim stands.
func (c *Claims) Stands() bool { return c.By != "" }

// Claim makes a claim, or repeats it in other words.
func (c *Claims) Claim(by, text string) engine.Command {
	c.By = by
	return engine.Command{Kind: engine.CmdClaim, Claim: &engine.Claim{By: by, Text: engine.Plain(text)}}
}

// Hear withdraws the standing claim when m reopens the work. Call it first on
// every owner message.
func (c *Claims) Hear(a room.Authority, m engine.OwnerMessage) []engine.Command {
	if !c.Stands() || !a.Reopens(m) {
		return nil
	}
	by := c.By
	c.By = ""
	return []engine.Command{{Kind: engine.CmdWithdraw, Claim: &engine.Claim{
		By: by, Text: engine.Plain("reopened by " + m.Type + " " + m.ID),
	}}}
}
