package campaigns

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/evaluator/trace"
	"github.com/agentrooms/qualify/modes"
)

// Reopen rebuilds the plan of a stored campaign, so that its rooms can be
// replayed and its traces scored. The corpus must hold every case of the plan,
// unchanged; the error names the first that is missing or differs.
func Reopen(c store.Campaign, corp *corpus.Corpus, known map[string]modes.Mode) (*Plan, error) {
	p := &Plan{ID: c.ID, PlanDigest: c.PlanDigest, Registration: c.Registration, Canonical: c.Plan, modes: known}
	if err := json.Unmarshal(c.Plan, p); err != nil {
		return nil, fmt.Errorf("plan of campaign %s: %w", c.ID, err)
	}
	p.Funds = fundsOf(model.Evidence(p.Evidence))
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

// ErrPlanChanged means that the plan stored for a campaign is not the one it
// ran by.
var ErrPlanChanged = errors.New("the stored plan is not the one the campaign ran by")

// CheckPlan verifies the stored plan of a campaign against its digest and
// name: ErrPlanChanged.
func CheckPlan(c store.Campaign) error {
	var p Plan
	switch err := json.Unmarshal(c.Plan, &p); {
	case "sha256:"+engine.Digest(c.Plan) != c.PlanDigest:
		return fmt.Errorf("campaign %s: plan digest: %w", c.ID, ErrPlanChanged)
	case err != nil:
		return fmt.Errorf("campaign %s: %w: %w", c.ID, ErrPlanChanged, err)
	case p.Name != c.Name:
		return fmt.Errorf("campaign %s: name: %w", c.ID, ErrPlanChanged)
	}
	return nil
}

// CheckRecord compares the record of a closed trial with its seat and with
// what its trace says of its close. The error names the field that differs.
func (p *Plan) CheckRecord(t store.Trial, s Seat, info trace.Info) error {
	m := info.Money
	want := p.closed(s, p.allotmentOf(s), runtime.Result{
		Termination: info.Termination,
		Money: engine.Money{
			Limit: info.Header.Limits.BudgetMicros, Charged: m.Charged, Held: m.Held, Unknown: m.Unknown,
		},
	}, info.Digest)
	if t == want {
		return nil
	}
	for _, f := range []struct {
		name      string
		got, want any
	}{
		{"campaign", t.Campaign, want.Campaign},
		{"key", t.Key, want.Key},
		{"place in the schedule", t.Order, want.Order},
		{"arm", t.Arm, want.Arm},
		{"case", t.Case, want.Case},
		{"index", t.Index, want.Index},
		{"room", t.Room, want.Room},
		{"allotment", t.Allotment, want.Allotment},
		{"status", t.Status, want.Status},
		{"termination", t.Termination, want.Termination},
		{"money", t.Money, want.Money},
	} {
		if f.got != f.want {
			return fmt.Errorf("the trial record says %s %v, plan and trace say %v", f.name, f.got, f.want)
		}
	}
	return fmt.Errorf("the trial record says %+v, plan and trace say %+v", t, want)
}

// allotmentOf is the allotment that a seat's money comes from; controls have
// none.
func (p *Plan) allotmentOf(s Seat) string {
	if s.Control() {
		return ""
	}
	return p.ID + "/" + Triple{Case: s.Case, Index: s.Index, Arms: []Arm{s.Arm}}.ID()
}
