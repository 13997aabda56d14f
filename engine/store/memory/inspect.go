package memory

import (
	"context"

	"github.com/agentrooms/qualify/engine/store"
)

var _ store.Inspector = (*Store)(nil)

// Counts implements store.Inspector.
func (s *Store) Counts(ctx context.Context) (store.Counts, error) {
	if err := s.enter(ctx); err != nil {
		return store.Counts{}, err
	}
	defer s.mu.Unlock()
	c := store.Counts{
		Rooms: int64(len(s.rooms)), Campaigns: int64(len(s.campaigns)), Trials: int64(len(s.trials)),
		Traces: int64(len(s.traces)), LedgerRows: int64(len(s.ledger)),
	}
	for _, r := range s.rooms {
		c.Revisions += int64(len(r.rows))
		c.Operations += int64(len(r.ops))
		c.Effects += int64(len(r.effects))
		c.Blobs += int64(len(r.blobs))
	}
	return c, nil
}
