package memory_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/agentrooms/qualify/engine/budget"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
)

// drawer is a process that draws allotments one after another, spends inside
// each, and releases it. What is durable outlives a crash, the rest does not.
type drawer struct {
	name string
	// Durable: the trial's account, and how far the process is.
	account budget.Account
	n       int   // of the allotment
	open    bool  // the draw was granted
	life    int   // how often it was started
	place   int64 // its ticket; 0: it does not wait
	// In memory: reservations of calls under way.
	flying []int64
}

func (d *drawer) lease() string { return "campaign/" + d.name }

// fenced is the context of what this life of the process writes.
func (d *drawer) fenced(ctx context.Context) context.Context {
	return store.WithFence(ctx, store.Fence{Name: d.lease(), Token: fmt.Sprint("life ", d.life)})
}

// start takes the lease for a new life; the place of the one before dies.
func (d *drawer) start(ctx context.Context, s *memory.Store) error {
	if d.life > 0 {
		if err := s.BreakLease(ctx, d.lease(), int64(d.life)); err != nil {
			return err
		}
	}
	d.life++
	d.place = 0
	_, err := s.AcquireLease(ctx, d.lease(), fmt.Sprint("life ", d.life), d.name, time.Hour)
	return err
}

func (d *drawer) id() string { return fmt.Sprintf("%s/%d", d.name, d.n) }

// interleaving is one random history of several drawers on one ceiling.
type interleaving struct {
	rng                          *rand.Rand
	s                            *memory.Store
	ds                           []*drawer
	rows                         int64 // checked ledger rows
	listed                       int64 // overruns so far
	last                         store.LedgerRow
	drew, over, crashed, refused int
	queued                       int
}

const theCeiling = "shared"

// step lets one drawer do one thing; a fault of the harness is an error.
func (x *interleaving) step(t *testing.T) error {
	d := x.ds[x.rng.IntN(len(x.ds))]
	ctx := t.Context()
	switch k := x.rng.IntN(12); {
	case k == 0: // the process dies: calls under way become uncertain, the draw or release may have happened
		x.crashed++
		for _, r := range d.flying {
			a, err := d.account.Hold(r)
			if err != nil {
				return err
			}
			d.account = a
		}
		d.flying = nil
		if x.rng.IntN(2) == 0 {
			if err := x.draw(t, d, true); err != nil {
				return err
			}
		}
		return d.start(ctx, x.s)
	case k == 1: // the owner acknowledges and grants
		c, _, err := x.s.OpenAllotments(ctx, theCeiling, store.FundsSimulated)
		if err != nil {
			return err
		}
		_, err = x.s.Grant(ctx, theCeiling, store.FundsSimulated, max(c.Limit, c.Charged+c.Held)+x.rng.Int64N(3), c.Overruns)
		return err
	case !d.open:
		return x.draw(t, d, false)
	case k < 6: // a call is reserved
		if a, err := d.account.Reserve(1 + x.rng.Int64N(30)); err == nil {
			d.flying = append(d.flying, a.Held-d.account.Held)
			d.account = a
		}
		return nil
	case k < 10 && len(d.flying) > 0: // a call returns; one in eight costs more than its bound
		r := d.flying[0]
		d.flying = d.flying[1:]
		actual := x.rng.Int64N(r + 1)
		if x.rng.IntN(8) == 0 {
			actual = r + 1 + x.rng.Int64N(60)
		}
		a, err := d.account.Settle("call", r, actual)
		d.account = a
		return err
	case len(d.flying) == 0:
		return x.release(t, d)
	}
	return nil
}

func (x *interleaving) draw(t *testing.T, d *drawer, lost bool) error {
	if d.open {
		return nil
	}
	sum := int64(20 + (len(d.name)*7+d.n*13)%80) // the same at every try: a draw is repeated after a crash
	ctx := d.fenced(t.Context())
	a := store.Allotment{ID: d.id(), Ceiling: theCeiling, Funds: store.FundsSimulated, Campaign: d.name, Sum: sum}
	before := slices.ContainsFunc(x.ds, func(o *drawer) bool { return o != d && o.place > 0 && (d.place == 0 || o.place < d.place) })
	as, err := x.s.Allotments(ctx, d.name)
	if err != nil {
		return err
	}
	granted := slices.ContainsFunc(as, func(o store.Allotment) bool { return o.ID == a.ID }) // before it died
	_, err = x.s.Allot(ctx, a)
	switch {
	case errors.Is(err, store.ErrQueued) != (before && !granted):
		return fmt.Errorf("draw of %s, others before it %t: %w", a.ID, before, err)
	case errors.Is(err, store.ErrHalted):
		x.refused++
		return nil
	case errors.Is(err, store.ErrExhausted), errors.Is(err, store.ErrQueued):
		x.refused++
		if lost || x.rng.IntN(2) == 0 {
			return nil
		}
		k, err := x.s.Enqueue(ctx, a)
		if d.place > 0 && k.N != d.place {
			return fmt.Errorf("%s had place %d and has %d", d.name, d.place, k.N)
		}
		d.place = k.N
		x.queued++
		return err
	case err != nil:
		return err
	case lost: // granted, but the process died before it knew
		d.place = 0
		return nil
	}
	d.place = 0
	x.drew++
	d.open, d.account = true, budget.Account{Limit: sum}
	return nil
}

// release closes the allotment; it may be repeated, as after a lost reply.
func (x *interleaving) release(t *testing.T, d *drawer) error {
	a := d.account
	for range 1 + x.rng.IntN(2) {
		if _, err := x.s.Release(t.Context(), d.id(), a.Charged, a.Held); err != nil {
			return err
		}
	}
	if len(a.Overruns) > 0 {
		x.over++
	}
	d.open, d.n = false, d.n+1
	return nil
}

// check proves the rows that have come since the last look.
func (x *interleaving) check(t *testing.T) error {
	rows, err := x.s.Ledger(t.Context(), x.rows, 0)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.Kind == "overrun" {
			x.listed += r.DeltaCharged
		}
		switch {
		case r.N != x.rows+1:
			return fmt.Errorf("row %d follows row %d", r.N, x.rows)
		case r.Charged != x.last.Charged+r.DeltaCharged || r.Held != x.last.Held+r.DeltaHeld || r.Charged < 0 || r.Held < 0:
			return fmt.Errorf("row %+v does not follow from %+v", r, x.last)
		case r.Charged+r.Held > r.Limit+x.listed:
			return fmt.Errorf("row %+v is above the limit by more than the listed overruns of %d", r, x.listed)
		case r.Kind == "allot" && r.Charged+r.Held > r.Limit:
			return fmt.Errorf("row %+v grants what is not there", r)
		}
		x.rows, x.last = r.N, r
	}
	return nil
}

// end compares the ceiling with the sum of its allotments.
func (x *interleaving) end(t *testing.T) error {
	c, open, err := x.s.OpenAllotments(t.Context(), theCeiling, store.FundsSimulated)
	if err != nil {
		return err
	}
	var charged, held int64
	for _, d := range x.ds {
		as, err := x.s.Allotments(t.Context(), d.name)
		if err != nil {
			return err
		}
		for _, a := range as {
			charged += a.Charged
			if held += a.Kept; !a.Released {
				held += a.Sum
			}
		}
	}
	if c.Charged != charged || c.Held != held || c.Halted != (len(c.Overruns) > 0) {
		return fmt.Errorf("ceiling %+v; its allotments make %d charged, %d held", c, charged, held)
	}
	for _, a := range open {
		if a.Released {
			return fmt.Errorf("allotment %+v is listed as open", a)
		}
	}
	return nil
}

func interleave(t *testing.T, seed, n uint64) (*interleaving, error) {
	t.Helper()
	x := &interleaving{rng: rand.New(rand.NewPCG(seed, n)), s: memory.New(memory.Options{})}
	c, err := x.s.EnsureCeiling(t.Context(), theCeiling, store.FundsSimulated, 60+x.rng.Int64N(140))
	if err != nil {
		return x, err
	}
	x.last = store.LedgerRow{Limit: c.Limit}
	for i := range 2 + x.rng.IntN(3) {
		d := &drawer{name: "process-" + "abcde"[:i+1]}
		if err := d.start(t.Context(), x.s); err != nil {
			return x, err
		}
		x.ds = append(x.ds, d)
	}
	for range 24 {
		if err := x.step(t); err != nil {
			return x, err
		}
		if err := x.check(t); err != nil {
			return x, err
		}
	}
	return x, x.end(t)
}

// Random interleavings of draws, settlements, overruns and crashes on one
// ceiling (field reports 1 and 3): no ledger row passes the limit but by the
// overruns that are listed, and nobody is granted before one that lives and has
// waited longer. 20,000 of them; 1,000,000 when QUALIFY_LONG is set.
func TestF1_F3_InterleavingsNeverPassTheLimit(t *testing.T) {
	t.Parallel()
	const workers = 4
	seed := rand.Uint64()
	each := uint64(20_000 / workers)
	if os.Getenv("QUALIFY_LONG") != "" {
		each = 1_000_000 / workers
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	total := map[string]int{}
	for w := range uint64(workers) {
		wg.Go(func() {
			sum := map[string]int{}
			for n := w * each; n < (w+1)*each; n++ {
				x, err := interleave(t, seed, n)
				if err != nil {
					t.Errorf("seed %d, interleaving %d: %v", seed, n, err)
					return
				}
				sum["draws"] += x.drew
				sum["overruns"] += x.over
				sum["crashes"] += x.crashed
				sum["refusals"] += x.refused
				sum["places"] += x.queued
			}
			mu.Lock()
			defer mu.Unlock()
			for k, v := range sum {
				total[k] += v
			}
		})
	}
	wg.Wait()
	t.Logf("seed %d, %d interleavings: %v", seed, each*workers, total)
	for _, k := range []string{"draws", "overruns", "crashes", "refusals", "places"} {
		if total[k] == 0 {
			t.Errorf("no %s in %d interleavings", k, each*workers)
		}
	}
}
