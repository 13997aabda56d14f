package sqlite

import (
	"context"
	"fmt"
	"time"

	"github.com/agentrooms/qualify/engine/store"
)

// Runs lists the calls of a room as runs (R48), by idempotency key. The
// store must have been opened with the ledger Calls; store.ErrSchemaOlder
// otherwise.
func (s *Store) Runs(ctx context.Context, room string) ([]store.CallRun, error) {
	if !s.has(Calls) {
		return nil, fmt.Errorf("runs of room %s: open the store with ledger %s: %w", room, Calls, store.ErrSchemaOlder)
	}
	var out []store.CallRun
	err := s.read(ctx, "runs room="+room, false, func(v view) error {
		return v.each(ctx, sqlRuns, []any{room}, func(scan func(...any) error) error {
			var r store.CallRun
			var expires, duration int64
			if err := scan(&r.Room, &r.IdempotencyKey, &r.InputDigest, &r.Kind, &r.Agent, &r.Role, &r.Task, &r.Attempt, &r.Status,
				&r.LeaseOwner, &r.LeaseGeneration, &expires, &duration, &r.CostMicros); err != nil {
				return err
			}
			if expires > 0 {
				r.LeaseExpiresAt = time.UnixMicro(expires).UTC()
			}
			r.Duration = time.Duration(duration) * time.Microsecond
			out = append(out, r)
			return nil
		})
	})
	return out, err
}

const sqlRuns = `SELECT room, idempotency_key, input_digest, kind, agent, role, task, attempt, status,
  lease_owner, lease_generation, lease_expires_us, duration_us, cost_micros
  FROM call_run WHERE room = ? ORDER BY idempotency_key`
