package store

import (
	"context"
	"fmt"
	"time"

	"github.com/agentrooms/qualify/engine/budget"
)

// Ticket is a campaign's place in the queue of a ceiling: whoever came first is
// granted first, however much it needs. A ticket is alive as long as the lease
// it was taken under is; a dead one hinders nobody.
type Ticket struct {
	N         int64 // order of arrival
	Ceiling   string
	Funds     Funds
	Campaign  string
	Allotment string // that it waits for
	Sum       int64
	Fence     Fence // the lease of whoever waits
}

// Live reports whether who holds the ticket can still be waiting at store time
// now; l is the lease of its fence as it stands.
func (t *Ticket) Live(l Lease, now time.Time) bool { return l.HeldBy(t.Fence.Token, now) }

// NewTicket is the ticket of an allotment that waits under the fence of ctx,
// without its number. ErrInvalid: no store could grant it, or there is no fence,
// so that nobody could tell when the ticket is dead.
func NewTicket(ctx context.Context, a *Allotment) (Ticket, error) {
	if err := CheckAllotment(a); err != nil {
		return Ticket{}, err
	}
	f, ok := FenceOf(ctx)
	if !ok { // one without a token is refused by the write
		return Ticket{}, fmt.Errorf("allotment %s: a place in the queue needs a lease: %w", a.ID, ErrInvalid)
	}
	return Ticket{Ceiling: a.Ceiling, Funds: a.Funds, Campaign: a.Campaign, Allotment: a.ID, Sum: a.Sum, Fence: f}, nil
}

// CheckTurn is ErrQueued when a ticket of another campaign stands before a.
// queue are the live tickets of a's ceiling, in order.
func CheckTurn(a *Allotment, queue []Ticket) error {
	if len(queue) == 0 || queue[0].Campaign == a.Campaign {
		return nil
	}
	t := &queue[0]
	return fmt.Errorf("allotment %s: ceiling %s: %s has waited longer, for %s: %w",
		a.ID, a.Ceiling, t.Allotment, budget.FormatUSD(t.Sum), ErrQueued)
}

// Weigh is the weight of a campaign's allotments after one of them has moved
// from before (nil: it was not there) to after.
func Weigh(weight int64, before, after *Allotment) int64 {
	if before != nil {
		weight -= before.Weight()
	}
	return weight + after.Weight()
}
