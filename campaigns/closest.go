package campaigns

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/engine/store"
)

// Closest finds, among stored campaigns, the one whose plan differs from p in
// the fewest top-level keys, the newest of equals, and names these keys in
// order. No key differs when only the code is another. ok is false when there
// is none but p itself.
func (p *Plan) Closest(stored []store.Campaign) (closest store.Campaign, differs []string, ok bool, err error) {
	for i := range stored {
		c := stored[i]
		if c.ID == p.ID {
			continue
		}
		d, err := differingKeys(c.Plan, p.Canonical)
		if err != nil {
			return closest, nil, false, fmt.Errorf("plan of campaign %s: %w", c.ID, err)
		}
		if !ok || len(d) < len(differs) || len(d) == len(differs) && c.CreatedSeq > closest.CreatedSeq {
			closest, differs, ok = c, d, true
		}
	}
	return closest, differs, ok, nil
}

// predecessor is the campaign that p changes: of the stored ones of its name
// that log registers, the closest; where the store holds none, as when several
// stores share a log, the newest of that name that log registers. differs names
// the keys of the plan that are other. It is empty where only the code is, and
// where the store does not hold the predecessor: there the digests of the two
// plans, which stand in the records, tell whether they differ.
func (p *Plan) predecessor(log []store.SealRow, stored []store.Campaign) (id string, differs []string, err error) {
	registered := map[string]bool{}
	for i := range log {
		var row struct {
			Campaign string `json:"campaign"`
			Record   struct {
				Name string `json:"name"`
			} `json:"record"`
		}
		if log[i].Kind != SealRegistration || json.Unmarshal(log[i].Body, &row) != nil || row.Record.Name != p.Name || row.Campaign == p.ID {
			continue
		}
		id, registered[row.Campaign] = row.Campaign, true
	}
	stored = slices.DeleteFunc(slices.Clone(stored), func(c store.Campaign) bool { return !registered[c.ID] })
	closest, differs, ok, err := p.Closest(stored)
	if err != nil || !ok {
		return id, nil, err
	}
	return closest.ID, differs, nil
}

// differingKeys are the top-level keys in which two canonical JSON objects
// differ, those that only one of them has included.
func differingKeys(a, b []byte) ([]string, error) {
	var x, y map[string]json.RawMessage
	if err := json.Unmarshal(a, &x); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &y); err != nil {
		return nil, err
	}
	var out []string
	for k, v := range x {
		if w, ok := y[k]; !ok || !bytes.Equal(v, w) {
			out = append(out, k)
		}
	}
	for k := range y {
		if _, ok := x[k]; !ok {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out, nil
}
