package campaigns

import (
	"encoding/json"
	"fmt"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/modes"
)

// Reopen rebuilds the plan of a stored campaign, so that its rooms can be
// replayed and its traces scored. The corpus must hold every case of the plan,
// unchanged; the error names the first that is missing or differs.
func Reopen(c store.Campaign, corp *corpus.Corpus, known map[string]modes.Mode) (*Plan, error) {
	p := &Plan{ID: c.ID, PlanDigest: c.PlanDigest, Registration: c.Registration, Canonical: c.Plan, modes: known, Funds: store.FundsReal}
	if err := json.Unmarshal(c.Plan, p); err != nil {
		return nil, fmt.Errorf("plan of campaign %s: %w", c.ID, err)
	}
	if p.Evidence == string(model.Simulated) || p.Evidence == string(model.Deterministic) {
		p.Funds = store.FundsSimulated
	}
	for _, pc := range p.Cases {
		cs, ok := corp.Case(pc.ID)
		if !ok {
			return nil, fmt.Errorf("campaign %s: case %s is not in this corpus", c.ID, pc.ID)
		}
		d, err := cs.Digest()
		if err != nil {
			return nil, fmt.Errorf("case %s: %w", pc.ID, err)
		}
		if d != pc.Digest {
			return nil, fmt.Errorf("campaign %s: case %s has changed since it ran", c.ID, pc.ID)
		}
		p.cases = append(p.cases, cs)
	}
	return p, nil
}

// SeatOf finds the seat of a trial record.
func (p *Plan) SeatOf(t store.Trial) (Seat, bool) {
	for _, s := range p.Seats() {
		if s.Key() == t.Key {
			return s, true
		}
	}
	return Seat{}, false
}
