package campaigns

import (
	"context"
	"fmt"
)

// SealedRun keeps a run to a seal log: start, end and, on a holdout, opening,
// uses and verifications of the freeze. The calls come from one goroutine, in
// this order. Batches are numbered from 0; closed[b] are the keys of the trials
// of batch b that have ended, controls in batch 0. While Batch or After is
// called no trial runs. An error stops the run.
type SealedRun interface {
	// Enter comes before anything of this run is stored.
	Enter(ctx context.Context, closed [][]string) error
	// Begin comes before the first trial is dispatched; complete says that every
	// trial had ended before this run.
	Begin(ctx context.Context, complete bool, batches int) error
	// Batch comes before the first trial of a batch.
	Batch(ctx context.Context, batch, batches int, closed [][]string) error
	// After comes behind the last trial, also of a run that a limit stopped;
	// complete says that every trial has ended.
	After(ctx context.Context, complete bool, batches int, closed [][]string) error
	// End comes last, with the status and the digest of the trace set.
	End(ctx context.Context, status, traces string) error
}

// batches are the batches of a plan: a round of one trial in every case, or of
// one family's cases where families follow each other.
type batches struct {
	orders []int // batch of each triple, by its place in the schedule
	seats  [][]string
}

func (p *Plan) batches() batches {
	b := batches{seats: [][]string{{}}}
	for _, s := range p.controlSeats() {
		b.seats[0] = append(b.seats[0], s.Key())
	}
	last := 0
	for i, t := range p.Schedule() {
		if i > 0 && t.Index != last {
			b.seats = append(b.seats, []string{})
		}
		last = t.Index
		n := len(b.seats) - 1
		b.orders = append(b.orders, n)
		for _, s := range t.seats() {
			b.seats[n] = append(b.seats[n], s.Key())
		}
	}
	return b
}

// Batches is the number of batches that a run of the plan has.
func (p *Plan) Batches() int { return len(p.batches().seats) }

func (b *batches) of(t Triple) int { return b.orders[t.Order] }

// closed lists the trials of each batch that ended, and reports whether all
// did.
func (b *batches) closed(ended func(key string) bool) (keys [][]string, complete bool) {
	keys, complete = make([][]string, len(b.seats)), true
	for i, seats := range b.seats {
		for _, key := range seats {
			if ended(key) {
				keys[i] = append(keys[i], key)
			} else {
				complete = false
			}
		}
	}
	return keys, complete
}

// enter asks the log whether this run may be.
func (r *Runner) enter(ctx context.Context) error {
	if r.Log == nil {
		return nil
	}
	trials, err := r.Store.Trials(ctx, r.Plan.ID)
	if err != nil {
		return fmt.Errorf("trials of %s: %w", r.Plan.ID, err)
	}
	ended := map[string]bool{}
	for i := range trials {
		if trials[i].Status == TrialClosed {
			ended[trials[i].Key] = true
		}
	}
	b := r.Plan.batches()
	closed, _ := b.closed(func(key string) bool { return ended[key] })
	return r.Log.Enter(ctx, closed)
}

// closed are the trials that have ended, by batch.
func (r *running) closed() (keys [][]string, complete bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.batches.closed(func(key string) bool { _, ok := r.records[key]; return ok })
}

func (r *running) begin(ctx context.Context) error {
	if r.Log == nil {
		return nil
	}
	_, complete := r.closed()
	return r.Log.Begin(ctx, complete, len(r.batches.seats))
}

// between stands between two batches of a holdout: it waits until nothing runs.
// Other campaigns go on without a pause.
func (r *running) between(ctx context.Context, batch int, at places) error {
	if r.Log == nil || !r.Plan.Holdout() || batch == 0 {
		return nil
	}
	if err := at.empty(ctx); err != nil {
		return err
	}
	closed, _ := r.closed()
	return r.halt(ctx, r.Log.Batch(ctx, batch, len(r.batches.seats), closed))
}

func (r *running) after(ctx context.Context) error {
	if r.Log == nil {
		return nil
	}
	closed, complete := r.closed()
	return r.halt(ctx, r.Log.After(ctx, complete, len(r.batches.seats), closed))
}

// halt marks the campaign stopped where the log stops it.
func (r *running) halt(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return err
	}
	if serr := r.Store.SetCampaignStatus(ctx, r.Plan.ID, StatusStopped, nil); serr != nil {
		return fmt.Errorf("campaign %s: %w", r.Plan.ID, serr)
	}
	return err
}
