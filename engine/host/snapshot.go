package host

import (
	"context"
	"encoding/json"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/planner"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
)

// Snapshot is a room as it stands.
type Snapshot struct {
	Rev         int64           `json:"rev"` // revisions count from 0
	Digest      string          `json:"digest"`
	StateDigest string          `json:"state_digest"`
	AtUS        int64           `json:"at_us"` // of the newest revision, microseconds since 1970
	Money       engine.Money    `json:"money"`
	Halted      bool            `json:"halted"` // by an overrun; see GrantBudget
	Planner     planner.View    `json:"planner"`
	State       json.RawMessage `json:"state"` // of the coordinator, canonical JSON
	Operations  []OperationView `json:"operations"`
	Undelivered int             `json:"undelivered"` // notifications in the outbox
}

// OperationView is an operation that is not settled for good: reserved,
// dispatched, of unknown outcome, or an overrun nobody has acknowledged.
type OperationView struct {
	Op             string         `json:"op"`
	Kind           engine.OpKind  `json:"kind"`
	Participant    string         `json:"participant"`
	Task           string         `json:"task"`
	Status         store.OpStatus `json:"status"`
	ReservedMicros int64          `json:"reserved_micros"`
	ChargedMicros  int64          `json:"charged_micros"`
	Overrun        bool           `json:"overrun"`
}

// Snapshot shows a room. It changes nothing and waits for nobody. Errors:
// NOT_FOUND, VERSION_MISMATCH, and those of the store.
func (s *Service) Snapshot(ctx context.Context, tenant, room string) (Snapshot, error) {
	_, l, _, err := s.room(ctx, tenant, room)
	if err != nil {
		return Snapshot{}, err
	}
	v, err := runtime.Look(ctx, l)
	if err != nil {
		return Snapshot{}, coded(err)
	}
	out := Snapshot{
		Rev: v.Head.Rev, Digest: v.Head.Digest, StateDigest: v.Head.StateDigest, AtUS: v.AtUS, Money: v.Head.Money, Halted: v.Head.Halted,
		State: v.State, Operations: []OperationView{}, Undelivered: v.Outbox,
	}
	if m, ok := v.Machine.(*planner.Machine); ok {
		out.Planner = m.View()
	}
	for i := range v.Ops {
		o := &v.Ops[i]
		overrun := o.Overran() && !o.Acknowledged
		open := o.Status == store.OpReserved || o.Status == store.OpDispatched || o.Status == store.OpUncertain
		if open || overrun {
			out.Operations = append(out.Operations, OperationView{
				Op: o.ID, Kind: o.Key.Kind, Participant: o.Agent, Task: o.Task, Status: o.Status,
				ReservedMicros: o.ReservedMicros, ChargedMicros: o.ChargedMicros, Overrun: overrun,
			})
		}
	}
	return out, nil
}

// Verify folds a room's whole history again through a fresh coordinator and
// compares every revision, operation and amount with what the store holds.
// Errors: CONFLICT names the first difference; NOT_FOUND; VERSION_MISMATCH
// when an earlier machine folded some of it.
func (s *Service) Verify(ctx context.Context, tenant, room string) error {
	_, l, _, err := s.room(ctx, tenant, room)
	if err != nil {
		return err
	}
	_, err = runtime.Replay(ctx, l.Store, l.Room, l.Folds)
	return coded(err)
}
