package campaigns

import (
	"context"
	"errors"
	"fmt"

	"github.com/agentrooms/qualify/engine/store"
)

// Refusals of a campaign that has ended.
var (
	ErrCancelled = errors.New("campaign was cancelled")
	ErrFinished  = errors.New("campaign has finished")
)

// Cancelled is what cancelling did to the money of a campaign, USD micros.
type Cancelled struct {
	Campaign store.Campaign // as it was before
	Freed    int64          // returned to the ceiling
	Charged  int64          // of allotments that were open
	Kept     int64          // stays held for calls of unknown outcome
}

// Cancel ends a campaign for good: Run refuses it from then on. Nothing is
// deleted. What its open allotments hold is settled: calls that were never
// dispatched are released, what rooms were charged is charged, and calls whose
// outcome is unknown keep their money on hold. Cancelling again is allowed and
// finishes what a crash left. Errors: *OwnedError while another process runs the
// campaign, ErrFinished, store.ErrNotFound, and those of the store.
func Cancel(ctx context.Context, st store.Store, id string, owner Owner) (out Cancelled, err error) {
	if _, err := st.Campaign(ctx, id); err != nil {
		return out, err
	}
	t := &tenure{store: st, owner: owner, campaign: id, stop: func() {}}
	if t.owner.TTL <= 0 {
		t.owner.TTL = leaseTTL
	}
	if err := t.acquire(ctx); err != nil {
		return out, err
	}
	defer func() { err = errors.Join(err, t.end(ctx)) }()
	ctx = store.WithFence(ctx, store.Fence{Name: LeaseName(id), Token: owner.Token})
	if out.Campaign, err = st.Campaign(ctx, id); err != nil {
		return out, err
	}
	if out.Campaign.Status == StatusDone {
		return out, fmt.Errorf("campaign %s: %w", id, ErrFinished)
	}
	// The status first: a campaign that has returned its money must never run on.
	if err := st.SetCampaignStatus(ctx, id, StatusCancelled, nil); err != nil {
		return out, fmt.Errorf("campaign %s: %w", id, err)
	}
	return out, out.settle(ctx, st)
}

// settle releases the open allotments of the campaign with what their rooms
// were charged and still hold.
func (c *Cancelled) settle(ctx context.Context, st store.Store) error {
	id := c.Campaign.ID
	allotments, err := st.Allotments(ctx, id)
	if err != nil {
		return fmt.Errorf("allotments of %s: %w", id, err)
	}
	heads, err := st.ListRooms(ctx, id+"/")
	if err != nil {
		return fmt.Errorf("rooms of %s: %w", id, err)
	}
	for _, a := range allotments {
		if a.Released {
			continue
		}
		var charged, keep int64
		for i := range heads {
			if heads[i].Allotment != a.ID {
				continue
			}
			held, err := releaseUndispatched(ctx, st, heads[i].Room)
			if err != nil {
				return err
			}
			charged += heads[i].Money.Charged
			keep += held
		}
		if _, err := st.Release(ctx, a.ID, charged, keep); err != nil {
			return fmt.Errorf("release of %s: %w", a.ID, err)
		}
		c.Freed += max(a.Sum-charged-keep, 0)
		c.Charged += charged
		c.Kept += keep
	}
	return nil
}

// releaseUndispatched gives back what operations without a dispatch mark have
// reserved: they were provably never called. It returns what the room still
// holds.
func releaseUndispatched(ctx context.Context, st store.Store, room string) (held int64, err error) {
	l, err := st.Load(ctx, room)
	if err != nil {
		return 0, fmt.Errorf("room %s: %w", room, err)
	}
	held = l.Head.Money.Held
	for i := range l.Ops {
		op := &l.Ops[i]
		if op.Status != store.OpReserved {
			continue
		}
		r := store.Receipt{Op: op.ID, RequestDigest: op.RequestDigest, Outcome: store.OutcomeFailed}
		if err := st.PutReceipt(ctx, room, r, nil); err != nil {
			return 0, fmt.Errorf("room %s: %w", room, err)
		}
		held -= op.ReservedMicros
	}
	return held, nil
}
