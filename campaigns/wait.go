package campaigns

import (
	"context"
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
)

// waiter is the head of the schedule while its allotment does not fit. Where the
// ceiling is what it waits for, it has a place in the ceiling's queue: whoever
// came first, in whatever process, is granted first, so that a large triple is
// not overtaken for ever by small ones. Where the campaign's own cap is, only
// this campaign's triples can help, and it stands in nobody's way.
type waiter struct {
	*running
	a      store.Allotment
	pace   *runtime.Backoff
	queued bool      // it has taken a place and not given it up
	last   prospects // at the look before
}

// prospects are what a look at the ceiling shows of an allotment.
type prospects struct {
	now     bool // it fits
	later   bool // it could, once all allotments that are alive have been released whole
	capped  bool // the campaign's cap has no room for it now
	left    int64
	ahead   int             // live tickets before its own
	queued  bool            // its own ticket is there
	changed <-chan struct{} // closed when one of the campaign's own triples ends
}

// wait returns true when the allotment may fit and it is its turn, false when
// it never will fit by itself.
func (w *waiter) wait(ctx context.Context) (hope bool, err error) {
	for again := false; ; {
		p, err := w.look(ctx)
		if err != nil || !p.later {
			return false, err
		}
		moved, err := w.stand(ctx, p)
		switch {
		case err != nil:
			return false, err
		case moved && !again: // the place in the queue is another now
			again = true
			continue
		case p.now && p.ahead == 0:
			return true, nil
		}
		again = false
		if p.left != w.last.left || p.ahead != w.last.ahead {
			w.pace.Quicken()
		}
		w.last = p
		if err := w.pace.Wait(ctx, p.changed); err != nil {
			return false, err
		}
	}
}

// look reads where the allotment stands. Whatever moves between the reads makes
// the answer too hopeful, never too dark.
func (w *waiter) look(ctx context.Context) (prospects, error) {
	a := &w.a
	used, running, changed := w.purse.look()
	alive := map[string]bool{}
	if err := w.alive(ctx, alive); err != nil {
		return prospects{}, err
	}
	c, open, err := w.Store.OpenAllotments(ctx, a.Ceiling, a.Funds)
	if err != nil {
		return prospects{}, fmt.Errorf("open allotments: %w", err)
	}
	if err := w.alive(ctx, alive); err != nil { // those that came between
		return prospects{}, err
	}
	live := running
	for i := range open {
		if o := &open[i]; o.Campaign != a.Campaign && alive[o.Campaign] {
			live += o.Sum
		}
	}
	queue, err := w.Store.Queue(ctx, a.Ceiling, a.Funds)
	if err != nil {
		return prospects{}, fmt.Errorf("queue of ceiling %s: %w", a.Ceiling, err)
	}
	p := prospects{
		capped: a.CampaignCap > 0 && a.Sum > a.CampaignCap-used,
		left:   c.Available(), ahead: len(queue), changed: changed,
	}
	if i := slices.IndexFunc(queue, func(t store.Ticket) bool { return t.Campaign == a.Campaign }); i >= 0 {
		p.ahead, p.queued = i, true
	}
	p.now = a.Sum <= c.Available() && !p.capped
	p.later = a.Sum <= c.Available()+live && (a.CampaignCap == 0 || a.Sum <= a.CampaignCap-used+running) && !c.Halted
	return p, nil
}

// stand takes a place in the queue, or gives it up when the campaign's own cap
// has come between; it reports whether it did either. Without a lease, as in a
// store that no other process opens, there is no place to take: such a run comes
// after all that stand in the queue.
func (w *waiter) stand(ctx context.Context, p prospects) (moved bool, err error) {
	_, owned := store.FenceOf(ctx)
	switch {
	case !p.queued && !p.capped && owned && (!p.now || p.ahead > 0):
		// Also when its ticket has died while the machine slept.
		if _, err := w.Store.Enqueue(ctx, w.a); err != nil {
			return false, fmt.Errorf("queue of ceiling %s: %w", w.a.Ceiling, err)
		}
		w.queued = true
		return true, nil
	case p.queued && p.capped:
		return true, w.dequeue(ctx)
	}
	return false, nil
}

func (w *waiter) dequeue(ctx context.Context) error {
	if err := w.Store.Dequeue(ctx, w.a.Ceiling, w.a.Funds, w.a.Campaign); err != nil {
		return fmt.Errorf("queue of ceiling %s: %w", w.a.Ceiling, err)
	}
	w.queued = false
	return nil
}

// leave gives the place up of one that has waited in vain; a grant has taken it.
// What is left behind by a run that ends at once dies with its lease.
func (w *waiter) leave(ctx context.Context, err error) error {
	if err == nil || !w.queued || ctx.Err() != nil {
		return err
	}
	if derr := w.dequeue(ctx); derr != nil {
		return derr
	}
	return err
}
