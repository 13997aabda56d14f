package campaigns

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/agentrooms/qualify/engine/budget"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
)

// Waits tells how the head of the queue waited for allotments, in this process.
type Waits struct {
	Count   int           // allotments that were not granted at once
	Longest time.Duration // wall time
}

// LimitError says that money ended the run: state is saved, and the same
// command goes on once the limit is lifted.
type LimitError struct {
	Limit  string // what stopped: ceiling_usd, --max-usd, ceiling NAME
	Text   string
	Lift   string // the command or edit that lifts it
	Reason error
	// Grant is the grant that lifts the limit; nil when none can.
	Grant *Grant
}

// Grant is a new total of a ceiling, with the overruns it acknowledges.
type Grant struct {
	Ceiling string
	Funds   store.Funds
	Total   int64 // USD micros
	Ack     []string
}

func (e *LimitError) Error() string { return "stopped by " + e.Limit + ": " + e.Text + "; " + e.Lift }

// Unwrap gives the store's sentinel.
func (e *LimitError) Unwrap() error { return e.Reason }

// purse is the campaign's own share of the ceiling: what its allotments weigh
// against its cap, and the sums of those whose trials run in this process. The
// owner of a campaign is the only one who moves it.
type purse struct {
	mu      sync.Mutex
	weights map[string]int64 // by allotment
	used    int64            // their sum
	running int64            // sums of triples under way
	changed chan struct{}    // closed when the next one ends
}

func newPurse(as []store.Allotment) *purse {
	p := &purse{weights: map[string]int64{}, changed: make(chan struct{})}
	for i := range as {
		p.weigh(as[i])
	}
	return p
}

func (p *purse) weigh(a store.Allotment) {
	p.used += a.Weight() - p.weights[a.ID]
	p.weights[a.ID] = a.Weight()
}

// begin notes a triple under way.
func (p *purse) begin(a store.Allotment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.weigh(a)
	p.running += a.Sum
}

// settle notes a released allotment.
func (p *purse) settle(a store.Allotment) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.weigh(a)
}

// end notes that a triple is no longer under way and wakes who waits for it.
func (p *purse) end(sum int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running -= sum
	close(p.changed)
	p.changed = make(chan struct{})
}

// look returns the campaign's use, the sum of its running triples, and a
// channel that is closed when one of these ends.
func (p *purse) look() (used, running int64, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used, p.running, p.changed
}

// allot draws the triple's sum. Allotments are granted in schedule order: the
// head of the schedule waits as long as live allotments on the ceiling, of
// whatever process, could still release enough. Campaigns that wait for one
// ceiling are granted in the order in which they began to. Error: *LimitError
// when too little could be released.
func (r *running) allot(ctx context.Context, t Triple) (id string, err error) {
	limit := r.Plan.CapMicros
	if r.MaxMicros > 0 {
		limit = min(limit, r.MaxMicros)
	}
	a := store.Allotment{
		ID: r.allotmentID(t), Ceiling: r.Plan.CeilingName(), Funds: r.Plan.Funds, Campaign: r.Plan.ID,
		Sum: t.Sum(), CampaignCap: limit,
	}
	var w *waiter
	defer func() {
		if w != nil {
			r.waits.Longest = max(r.waits.Longest, w.pace.Waited())
			err = w.leave(ctx, err)
		}
	}()
	for {
		got, err := r.Store.Allot(ctx, a)
		switch {
		case err == nil:
			r.purse.begin(got)
			return a.ID, nil
		case errors.Is(err, store.ErrHalted):
			return "", r.limitError(ctx, t, a, err)
		case !errors.Is(err, store.ErrExhausted) && !errors.Is(err, store.ErrQueued):
			return "", fmt.Errorf("allotment of %s: %w", t.ID(), err)
		case w == nil:
			w = &waiter{running: r, a: a, pace: runtime.NewBackoff()}
			r.waits.Count++
		default: // money has moved since the look
			if err := w.pace.Wait(ctx, nil); err != nil {
				return "", err
			}
		}
		switch hope, werr := w.wait(ctx); {
		case werr != nil:
			return "", werr
		case !hope:
			return "", r.limitError(ctx, t, a, err)
		}
	}
}

// alive adds the campaigns that a process runs now.
func (r *running) alive(ctx context.Context, to map[string]bool) error {
	leases, err := r.Store.Leases(ctx)
	if err != nil {
		return fmt.Errorf("leases: %w", err)
	}
	for _, l := range leases {
		if id, ok := strings.CutPrefix(l.Name, LeaseName("")); ok {
			to[id] = true
		}
	}
	return nil
}

// release settles the triple's allotment with what its rooms really cost.
func (r *running) release(ctx context.Context, t Triple, id string) error {
	charged, keep := r.cost(t)
	a, err := r.Store.Release(ctx, id, charged, keep)
	if err != nil {
		return fmt.Errorf("release of %s: %w", t.ID(), err)
	}
	r.purse.settle(a)
	return nil
}

// cost is what the triple's rooms were charged and still hold.
func (r *running) cost(t Triple) (charged, keep int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range t.seats() {
		if rec := r.records[s.Key()]; rec != nil {
			charged += rec.Money.Charged
			keep += rec.Money.Held
		}
	}
	return charged, keep
}

// limitError names the limit that stopped and how to lift it.
func (r *running) limitError(ctx context.Context, t Triple, a store.Allotment, cause error) error {
	c, open, err := r.Store.OpenAllotments(ctx, a.Ceiling, a.Funds)
	if err != nil {
		return fmt.Errorf("ceiling %s: %w", a.Ceiling, err)
	}
	if errors.Is(cause, store.ErrQueued) { // it was not its turn, but that is not why it stops
		reason := store.ErrExhausted
		if c.Halted {
			reason = store.ErrHalted
		}
		cause = fmt.Errorf("allotment %s: ceiling %s: %w", a.ID, c.Name, reason)
	}
	used, _, _ := r.purse.look()
	own := r.Plan.Ceiling == "" && r.Plan.Funds == store.FundsSimulated
	e := &LimitError{Reason: cause}
	if errors.Is(cause, store.ErrHalted) || c.Halted {
		e.Limit = "an overrun on ceiling " + c.Name
		e.Text = "charged more than reserved: " + strings.Join(c.Overruns, ", ")
		e.Lift = "acknowledge it with a grant, then run the same command again"
		e.Grant = &Grant{Ceiling: c.Name, Funds: c.Funds, Total: max(c.Limit, c.Charged+c.Held), Ack: c.Overruns}
		return e
	}
	if left := a.CampaignCap - used; a.CampaignCap > 0 && a.Sum > left || own {
		e.Text = fmt.Sprintf("the next %d trials (%s) need %s USD, %s USD is left", len(t.Arms), t.ID(), budget.FormatUSD(a.Sum), budget.FormatUSD(max(left, 0)))
		if r.MaxMicros > 0 && r.MaxMicros < r.Plan.CapMicros {
			e.Limit = "--max-usd " + budget.FormatUSD(r.MaxMicros)
			e.Lift = "run the same command with a larger --max-usd"
			return e
		}
		e.Limit = "ceiling_usd " + budget.FormatUSD(r.Plan.CapMicros)
		e.Lift = "raise ceiling_usd in the campaign file and run the same command again"
		return e
	}
	e.Limit = "ceiling " + c.Name
	e.Text = fmt.Sprintf("the next %d trials (%s) need %s USD, %s of %s USD is left", len(t.Arms), t.ID(),
		budget.FormatUSD(a.Sum), budget.FormatUSD(c.Available()), budget.FormatUSD(c.Limit))
	if idle := idleSums(open, a.Campaign); idle != "" {
		e.Text += ", " + idle
	}
	e.Lift = "raise the ceiling, then run the same command again"
	e.Grant = &Grant{Ceiling: c.Name, Funds: c.Funds, Total: roundUp(c.Charged + c.Held + r.rest(t, a.CampaignCap-used))}
	return e
}

// rest is what the triples from t on may still draw: their sums, within what
// the campaign's cap leaves.
func (r *running) rest(from Triple, left int64) int64 {
	var sum int64
	for _, t := range r.Plan.Schedule()[from.Order:] {
		sum += t.Sum()
	}
	return max(min(sum, left), from.Sum())
}

// roundUp rounds micros up to whole cents.
func roundUp(micros int64) int64 {
	const cent = 10_000
	return (micros + cent - 1) / cent * cent
}

// idleSums names the sums that other campaigns hold for triples they have not
// finished; "" when there are none.
func idleSums(open []store.Allotment, except string) string {
	sums := map[string]int64{}
	for i := range open {
		if o := &open[i]; o.Campaign != except {
			sums[o.Campaign] += o.Sum
		}
	}
	parts := make([]string, 0, len(sums))
	for _, id := range sortedKeys(sums) {
		parts = append(parts, fmt.Sprintf("%s is held by campaign %s", budget.FormatUSD(sums[id]), id))
	}
	return strings.Join(parts, ", ")
}
