package sqlite

import (
	"context"
	"time"

	"github.com/agentrooms/qualify/engine/store"
)

// CampaignWeight implements store.Records.
func (s *Store) CampaignWeight(ctx context.Context, campaign string, funds store.Funds) (int64, error) {
	var weight int64
	err := s.read(ctx, "campaign weight", false, func(v view) error {
		_, err := v.row(ctx, sqlPurse, []any{campaign, string(funds)}, &weight)
		return err
	})
	return weight, err
}

// weigh brings the running sum of a campaign up to an allotment that has moved
// from before (nil: it was not there) to after.
func (w *writer) weigh(ctx context.Context, before, after *store.Allotment) error {
	delta := store.Weigh(0, before, after)
	if before == nil {
		return w.exec(ctx, sqlAddToPurse, after.Campaign, string(after.Funds), delta)
	}
	return w.exec(ctx, sqlMovePurse, delta, after.Campaign, string(after.Funds))
}

// ticketRow is a ticket with the lease of its fence as it stands.
type ticketRow struct {
	t  store.Ticket
	l  store.Lease
	us int64
}

func (q *ticketRow) fields() []any {
	t := &q.t
	return []any{&t.N, &t.Ceiling, &t.Funds, &t.Campaign, &t.Allotment, &t.Sum, &t.Fence.Name, &t.Fence.Token, &q.l.Token, &q.us}
}

func (q *ticketRow) live(now time.Time) bool {
	q.l.ExpiresAt = time.UnixMicro(q.us).UTC()
	return q.t.Live(q.l, now)
}

// queue is the tickets of a ceiling in order, the dead ones apart.
func (w *writer) queue(ctx context.Context, ceiling string, funds store.Funds) (live, dead []store.Ticket, err error) {
	var all []ticketRow
	err = w.each(ctx, sqlTickets, []any{ceiling, string(funds)}, func(scan func(...any) error) error {
		var q ticketRow
		err := scan(q.fields()...)
		all = append(all, q)
		return err
	})
	if err != nil || len(all) == 0 {
		return nil, nil, err
	}
	now, err := w.now(ctx)
	if err != nil {
		return nil, nil, err
	}
	for i := range all {
		if all[i].live(now) {
			live = append(live, all[i].t)
		} else {
			dead = append(dead, all[i].t)
		}
	}
	return live, dead, nil
}

// each calls f for every row of the query.
func (w *writer) each(ctx context.Context, query string, args []any, f func(scan func(...any) error) error) error {
	p, err := w.stmt(ctx, query)
	if err != nil {
		return err
	}
	return p.each(ctx, query, args, f)
}

// Enqueue implements store.Records.
func (s *Store) Enqueue(ctx context.Context, a store.Allotment) (store.Ticket, error) {
	t, err := store.NewTicket(ctx, &a)
	if err != nil {
		return store.Ticket{}, err
	}
	var out store.Ticket
	err = s.write(ctx, "enqueue", false, func(ctx context.Context, w *writer) (err error) {
		out, err = w.enqueue(ctx, t)
		return err
	})
	if err != nil {
		return store.Ticket{}, err
	}
	return out, nil
}

func (w *writer) enqueue(ctx context.Context, t store.Ticket) (store.Ticket, error) {
	if _, found, err := w.ceiling(ctx, t.Ceiling, t.Funds); err != nil {
		return t, err
	} else if !found {
		return t, noCeiling(t.Ceiling, t.Funds)
	}
	live, dead, err := w.queue(ctx, t.Ceiling, t.Funds)
	if err != nil {
		return t, err
	}
	for i := range live {
		switch o := &live[i]; {
		case o.Campaign != t.Campaign:
		case o.Fence == t.Fence:
			t.N = o.N
			return t, w.exec(ctx, sqlSetTicket, t.Allotment, t.Sum, t.N)
		default: // of a fence that is not this one
			dead = append(dead, *o)
		}
	}
	for i := range dead {
		if err := w.exec(ctx, sqlDropTicket, t.Ceiling, string(t.Funds), dead[i].Campaign); err != nil {
			return t, err
		}
	}
	_, err = w.row(ctx, sqlInsertTicket, []any{t.Ceiling, string(t.Funds), t.Campaign, t.Allotment, t.Sum, t.Fence.Name, t.Fence.Token}, &t.N)
	return t, err
}

// Dequeue implements store.Records.
func (s *Store) Dequeue(ctx context.Context, ceiling string, funds store.Funds, campaign string) error {
	return s.write(ctx, "dequeue", false, func(ctx context.Context, w *writer) error {
		return w.exec(ctx, sqlDropTicket, ceiling, string(funds), campaign)
	})
}

// Queue implements store.Records.
func (s *Store) Queue(ctx context.Context, ceiling string, funds store.Funds) ([]store.Ticket, error) {
	var out []store.Ticket
	err := s.read(ctx, "queue", true, func(v view) error {
		now, err := v.now(ctx)
		if err != nil {
			return err
		}
		return v.each(ctx, sqlTickets, []any{ceiling, string(funds)}, func(scan func(...any) error) error {
			var q ticketRow
			if err := scan(q.fields()...); err != nil {
				return err
			}
			if q.live(now) {
				out = append(out, q.t)
			}
			return nil
		})
	})
	return out, err
}
