package archive

import (
	"context"

	"github.com/agentrooms/qualify/engine/store"
)

var _ store.Inspector = (*Store)(nil)

// Counts implements store.Inspector. It reads every room.
func (s *Store) Counts(ctx context.Context) (store.Counts, error) {
	c := store.Counts{
		Rooms: int64(len(s.rooms)), Campaigns: int64(len(s.campaigns)), Trials: int64(len(s.trials)), Traces: int64(len(s.traces)),
		LedgerRows: int64(len(s.ledger)),
	}
	for _, key := range s.rooms {
		r, err := s.load(ctx, roomID(s.campaign, key))
		if err != nil {
			return store.Counts{}, err
		}
		c.Revisions += int64(len(r.rows))
		c.Operations += int64(len(r.ops))
		c.Effects += int64(len(r.effects))
		c.Blobs += int64(r.bodies)
	}
	return c, enter(ctx)
}

// Check reads every file: rooms with their contents, and traces. It returns the
// first fault: store.ErrCorrupt, or what reading the file gave.
func (s *Store) Check(ctx context.Context) error {
	for _, key := range s.rooms {
		r, err := s.load(ctx, roomID(s.campaign, key))
		if err != nil {
			return err
		}
		if _, err := s.contentsOf(r); err != nil {
			return err
		}
	}
	for _, key := range sortedKeys(s.traces) {
		if _, _, err := s.Trace(ctx, s.campaign, key); err != nil {
			return err
		}
	}
	return enter(ctx)
}
