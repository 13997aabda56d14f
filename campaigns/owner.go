package campaigns

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
)

// Owner is the process that runs a campaign. One process owns a campaign at a
// time, by a lease that every write of the run is fenced with (DESIGN §7).
type Owner struct {
	// Token is random and known to this process alone. Empty: no lease is
	// taken, for stores that no other process can open.
	Token string
	// Name tells people, and Gone, who holds the lease.
	Name string
	// Gone reports that the process of this name provably runs no more, so that
	// its lease may be broken before it expires. Nil: nothing can be proved.
	Gone func(name string) bool
	// TTL of the lease; zero means 15 s. It is renewed every third of it.
	TTL time.Duration
}

const (
	leaseTTL       = 15 * time.Second
	releaseTimeout = 10 * time.Second
	breakTries     = 16 // takers that may come between, one after another
)

// LeaseName is the lease of a campaign.
func LeaseName(id string) string { return "campaign/" + id }

// OwnedError says that another process runs the campaign.
type OwnedError struct {
	Campaign string
	Owner    string    // its name
	Until    time.Time // when its lease runs out unless it is renewed; store time
}

func (e *OwnedError) Error() string {
	return fmt.Sprintf("campaign %s is run by %s; its lease runs until %s unless it is renewed", e.Campaign, e.Owner, e.Until.Format(time.RFC3339))
}

// tenure is the time during which this process owns the campaign.
type tenure struct {
	store    store.Records
	owner    Owner
	campaign string
	stop     context.CancelFunc
	renewing sync.WaitGroup
}

// take acquires the lease and keeps it renewed. The context it returns carries
// the fence, and ends with store.ErrLeaseLost as its cause when the lease goes
// to another. Errors: *OwnedError and those of the store.
func (r *Runner) take(ctx context.Context) (context.Context, *tenure, error) {
	t := &tenure{store: r.Store, owner: r.Owner, campaign: r.Plan.ID}
	if t.owner.TTL <= 0 {
		t.owner.TTL = leaseTTL
	}
	if err := t.acquire(ctx); err != nil {
		return nil, nil, err
	}
	keep, stop := context.WithCancel(context.WithoutCancel(ctx)) // an interrupted run still owns what it saves
	t.stop = stop
	ctx, lost := context.WithCancelCause(store.WithFence(ctx, store.Fence{Name: LeaseName(t.campaign), Token: t.owner.Token}))
	t.renewing.Go(func() { lost(runtime.Every(keep, t.owner.TTL/3, t.renew)) })
	return ctx, t, nil
}

func (t *tenure) acquire(ctx context.Context) error {
	name := LeaseName(t.campaign)
	var held store.Lease
	for range breakTries {
		l, err := t.store.AcquireLease(ctx, name, t.owner.Token, t.owner.Name, t.owner.TTL)
		if err == nil {
			return nil
		}
		if !errors.Is(err, store.ErrExists) {
			return fmt.Errorf("lease of campaign %s: %w", t.campaign, err)
		}
		if held = l; t.owner.Gone == nil || !t.owner.Gone(l.Owner) {
			break
		}
		// Under its generation, so that only the lease of the one that is gone
		// is broken and never that of a process that was quicker.
		if err := t.store.BreakLease(ctx, name, l.Generation); err != nil && !errors.Is(err, store.ErrLeaseLost) {
			return fmt.Errorf("lease of campaign %s: %w", t.campaign, err)
		}
	}
	return &OwnedError{Campaign: t.campaign, Owner: held.Owner, Until: held.ExpiresAt}
}

// renew keeps the lease, also one that ran out while nobody else took it, as
// when the machine slept. Faults of the store are tried again with the next
// renewal; the fence protects what is stored meanwhile.
func (t *tenure) renew(ctx context.Context) error {
	_, err := t.store.KeepLease(ctx, LeaseName(t.campaign), t.owner.Token, t.owner.TTL)
	if errors.Is(err, store.ErrLeaseLost) {
		return fmt.Errorf("campaign %s: %w", t.campaign, err)
	}
	return nil
}

// end stops the renewals and frees the lease, unless it is lost.
func (t *tenure) end(ctx context.Context) error {
	t.stop()
	t.renewing.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	err := t.store.ReleaseLease(ctx, LeaseName(t.campaign), t.owner.Token)
	if err != nil && !errors.Is(err, store.ErrLeaseLost) {
		return fmt.Errorf("lease of campaign %s: %w", t.campaign, err)
	}
	return nil
}
