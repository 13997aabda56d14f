package memory

import (
	"context"
	"slices"

	"github.com/agentrooms/qualify/engine/store"
)

// CampaignWeight implements store.Records.
func (s *Store) CampaignWeight(ctx context.Context, campaign string, funds store.Funds) (int64, error) {
	if err := s.enter(ctx); err != nil {
		return 0, err
	}
	defer s.mu.Unlock()
	return s.weights[purseKey{campaign, funds}], nil
}

// queue is the live tickets of a ceiling, in order; the caller holds mu.
func (s *Store) queue(ceiling string, funds store.Funds) []store.Ticket {
	now := store.LeaseTime(s.now())
	var out []store.Ticket
	for i := range s.tickets {
		if t := &s.tickets[i]; t.Ceiling == ceiling && t.Funds == funds && t.Live(s.leases[t.Fence.Name], now) {
			out = append(out, *t)
		}
	}
	return out
}

// dequeue removes a campaign's ticket and reports whether there was one; the
// caller holds mu.
func (s *Store) dequeue(ceiling string, funds store.Funds, campaign string) bool {
	n := len(s.tickets)
	s.tickets = slices.DeleteFunc(s.tickets, func(t store.Ticket) bool {
		return t.Ceiling == ceiling && t.Funds == funds && t.Campaign == campaign
	})
	return len(s.tickets) < n
}

// Enqueue implements store.Records.
func (s *Store) Enqueue(ctx context.Context, a store.Allotment) (store.Ticket, error) {
	t, err := store.NewTicket(ctx, &a)
	if err != nil {
		return store.Ticket{}, err
	}
	if err := s.enterWrite(ctx); err != nil {
		return store.Ticket{}, err
	}
	defer s.mu.Unlock()
	if _, err := s.ceiling(a.Ceiling, a.Funds); err != nil {
		return store.Ticket{}, err
	}
	live := s.queue(a.Ceiling, a.Funds)
	s.tickets = slices.DeleteFunc(s.tickets, func(o store.Ticket) bool {
		return o.Ceiling == a.Ceiling && o.Funds == a.Funds && !slices.Contains(live, o)
	})
	s.writes++
	for i := range s.tickets {
		if o := &s.tickets[i]; o.Ceiling == a.Ceiling && o.Funds == a.Funds && o.Campaign == a.Campaign && o.Fence == t.Fence {
			t.N = o.N
			*o = t
			return t, nil
		}
	}
	s.dequeue(a.Ceiling, a.Funds, a.Campaign) // of a fence that is not this one
	s.arrivals++
	t.N = s.arrivals
	s.tickets = append(s.tickets, t)
	return t, nil
}

// Dequeue implements store.Records.
func (s *Store) Dequeue(ctx context.Context, ceiling string, funds store.Funds, campaign string) error {
	if err := s.enterWrite(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if s.dequeue(ceiling, funds, campaign) {
		s.writes++
	}
	return nil
}

// Queue implements store.Records.
func (s *Store) Queue(ctx context.Context, ceiling string, funds store.Funds) ([]store.Ticket, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	return s.queue(ceiling, funds), nil
}
