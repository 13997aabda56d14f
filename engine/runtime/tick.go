package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

// Ticked is what one Tick did.
type Ticked struct {
	Rev     int64  // newest revision it saw
	Events  int    // folded
	Calls   int    // made
	Aborted int    // calls asked to stop because their authority was lost
	Busy    bool   // another process has the room, at the start or by now
	Holder  string // its name, when Busy
	More    bool   // stopped by the bound on events or by ten lost compare-and-sets: tick again
	DueUS   int64  // next timer, microseconds since 1970; 0 for none

	// SnapshotUnused is what it is in Result: why the stored snapshot was of no
	// use when the room was last loaded.
	SnapshotUnused string
}

// Tick works an open room until it is at rest (R65): it delivers what is in
// the outbox, dispatches what is reserved, waits for the calls, applies their
// receipts, and goes on with what these lead to. Every step is a commit of its
// own, and a process may die between any two.
//
// One process at a time ticks a room: it holds the room's lease, renews it
// every third of its length, and fences every write with it. While calls are
// under way each renewal also looks for what others have appended, and a call
// whose authority is gone is asked to stop (R43): its context ends with
// ErrAuthorityLost. Calls go on when ctx ends: they are waited for and their
// receipts stored, and ctx's error is returned.
//
// A room that another process has is no error but Busy. After ten lost
// compare-and-sets in a row the receipts are stored and More is set (R71).
// Errors: code NOT_FOUND, CONFLICT (closed), VERSION_MISMATCH; those of
// Authority, of a provider's look-up and of the store; a fault of the machine,
// which leaves the room as it was.
func Tick(ctx context.Context, l Live) (Ticked, error) {
	l, err := l.withDefaults()
	if err != nil {
		return Ticked{}, err
	}
	if l.Leases == nil {
		return Ticked{}, errors.New("runtime: no leases")
	}
	t := &ticker{live: l, token: FreshToken(), calls: newCalls(), results: make(chan callResult), done: Ticked{Rev: -1}}
	for {
		again, err := t.hold(ctx)
		if err != nil {
			return t.done, fmt.Errorf("room %s: %w", l.Room, err)
		}
		if !again {
			return t.done, nil
		}
	}
}

// ticker is one Tick.
type ticker struct {
	live    Live
	token   string
	r       *run
	calls   *calls
	results chan callResult
	done    Ticked

	beat chan struct{} // the lease was renewed
	lost chan struct{} // closed when the lease is another's
}

// hold works the room under its lease. It reports true when the room moved on
// behind its back at the very end.
func (t *ticker) hold(ctx context.Context) (again bool, err error) {
	l := &t.live
	name := RoomLease(l.Room)
	lease, err := l.Leases.AcquireLease(ctx, name, t.token, l.Holder, l.Lease)
	if errors.Is(err, store.ErrExists) {
		t.done.Busy, t.done.Holder = true, lease.Owner
		return false, nil
	}
	if err != nil {
		// Whether it was taken nobody said: a lease that nobody uses would keep
		// the room from everybody.
		return false, errors.Join(fmt.Errorf("lease: %w", err), t.release(ctx, name))
	}
	t.beat, t.lost = make(chan struct{}, 1), make(chan struct{})
	keep, stop := context.WithCancel(context.WithoutCancel(ctx))
	var renewing sync.WaitGroup
	renewing.Go(func() { t.renew(keep, name) })
	err = t.work(ctx, store.WithFence(ctx, store.Fence{Name: name, Token: t.token}))
	stop()
	renewing.Wait()
	if errors.As(err, new(*dropError)) {
		return false, err // as if the process had died: nothing is written any more
	}
	err = errors.Join(err, t.release(ctx, name))
	if err != nil || t.done.Busy || t.done.More {
		return false, err
	}
	// Whoever appended while this process had the lease, and found it busy, is
	// served by it.
	return t.newer(context.WithoutCancel(ctx))
}

// release frees the lease unless another process has it.
func (t *ticker) release(ctx context.Context, name string) error {
	ctx, cancel := finishing(ctx)
	defer cancel()
	err := t.live.Leases.ReleaseLease(ctx, name, t.token)
	if err != nil && !errors.Is(err, store.ErrLeaseLost) {
		return fmt.Errorf("lease: %w", err)
	}
	return nil
}

// renew keeps the lease until ctx ends or another process has taken it. Faults
// of the store are tried again with the next renewal; the fence protects what
// is stored meanwhile.
func (t *ticker) renew(ctx context.Context, name string) {
	err := Every(ctx, t.live.Lease/3, func(ctx context.Context) error {
		_, err := t.live.Leases.KeepLease(ctx, name, t.token, t.live.Lease)
		if errors.Is(err, store.ErrLeaseLost) {
			return err
		}
		select {
		case t.beat <- struct{}{}:
		default:
		}
		return nil
	})
	if err != nil {
		close(t.lost)
	}
}

// newer reports rows that this process has not seen.
func (t *ticker) newer(ctx context.Context) (bool, error) {
	rows, err := t.live.Store.Rows(ctx, t.live.Room, t.done.Rev, 1)
	if err != nil {
		return false, fmt.Errorf("newer rows: %w", err)
	}
	return len(rows) > 0, nil
}

// errMoved means that the state in memory is behind the store's.
var errMoved = errors.New("the room has moved on")

// work ticks until rest. fenced is ctx with the fence of the lease.
func (t *ticker) work(ctx, fenced context.Context) error {
	lost := 0
	var stop error // why no further call is made; those under way go on
	err := t.reload(fenced)
	if err == nil {
		err = t.r.deliverOutbox(fenced)
	}
	for {
		if err == nil {
			rev := t.r.rev
			var rest bool
			rest, err = t.step(fenced, stop != nil)
			if t.r.rev > rev {
				lost = 0
			}
			if rest && err == nil {
				return t.leave(stop)
			}
		}
		switch {
		case err == nil:
		case errors.As(err, new(*dropError)):
			t.abandon()
			return err
		case errors.Is(err, store.ErrLeaseLost):
			t.done.Busy = true
			return t.yield(ctx)
		case errors.Is(err, errMoved):
			err = t.reload(fenced)
		case errors.Is(err, store.ErrConflict), errors.Is(err, store.ErrReceiptMismatch), errors.Is(err, store.ErrAlreadyDispatched):
			if lost++; lost >= maxConflicts && stop == nil {
				stop, fenced = errBound, context.WithoutCancel(fenced)
			}
			err = t.reload(fenced)
		case stop == nil && t.r != nil:
			// What stops the work does not stop the calls under way (R43).
			stop, fenced, err = err, context.WithoutCancel(fenced), nil
		default:
			t.abandon()
			return errors.Join(stop, err)
		}
	}
}

// leave is what a Tick that stopped for a reason returns.
func (t *ticker) leave(stop error) error {
	if errors.Is(stop, errBound) {
		t.done.More = true
		return nil
	}
	return stop
}

// reload takes the room's state from the store, after the receipts at hand are
// stored. Calls under way go on: they belong to the operations they were made
// for. The lease is confirmed first, since operations that others have
// dispatched are taken for those of a dead process.
func (t *ticker) reload(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	if t.r != nil {
		if err := t.saveReceipts(ctx); err != nil && !errors.Is(err, errMoved) {
			return err
		}
		if _, err := t.live.Leases.KeepLease(ctx, RoomLease(t.live.Room), t.token, t.live.Lease); err != nil {
			return fmt.Errorf("lease: %w", err)
		}
	}
	r, err := open(ctx, t.live.Config)
	switch {
	case err != nil:
		return err
	case r.head.Closed:
		return engine.Errorf(engine.CodeConflict, "the room is closed")
	case r.rev < 0:
		return engine.Errorf(engine.CodeNotFound, "the room has not been started")
	}
	clock := microseconds(t.live.Now)
	r.watch.clock = func() int64 { return max(clock(), r.now) }
	r.calls, r.results = t.calls, t.results
	for _, id := range t.calls.open() {
		r.inFlight++
		if o, ok := r.ops[id]; ok && o.phase == marked {
			o.phase = calling
			r.queue = slices.DeleteFunc(r.queue, func(p *operation) bool { return p == o })
		}
	}
	t.r, t.done.Rev, t.done.SnapshotUnused = r, r.rev, r.unused
	return t.check(ctx, true)
}

// step does the next thing there is to do. It reports rest when there is
// nothing, or, draining, when no call is under way and every receipt is
// stored.
func (t *ticker) step(ctx context.Context, draining bool) (rest bool, err error) {
	r := t.r
	if draining {
		if r.inFlight == 0 {
			return true, t.saveReceipts(ctx)
		}
		return false, t.drain(ctx)
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	for len(r.queue) > 0 {
		if err := t.check(ctx, true); err != nil {
			return false, err
		}
		before := r.inFlight
		if err := r.dispatchNext(ctx); err != nil {
			return false, err
		}
		t.done.Calls += r.inFlight - before
	}
	d, ok := r.earliest()
	if ok && (d.class == classOperation || d.atUS <= r.watch.us()) {
		if t.done.Events >= t.live.Events {
			return false, errBound
		}
		if err := t.check(ctx, false); err != nil {
			return false, err
		}
		if err := r.deliver(ctx, d); err != nil {
			return false, err
		}
		t.done.Rev = r.rev
		t.done.Events++
		t.abortLost()
		return false, nil
	}
	t.done.DueUS = 0
	if ok {
		t.done.DueUS = d.atUS
	}
	if r.inFlight == 0 {
		if err := t.saveReceipts(ctx); err != nil {
			return false, err
		}
		return true, r.deliverOutbox(ctx)
	}
	until := int64(-1)
	if ok {
		until = d.atUS - r.watch.us()
	}
	return false, t.await(ctx, until)
}

// errBound ends a Tick that has done as much as one may.
var errBound = errors.New("the bound of one tick is reached")

// await waits for a call to return, for us microseconds to pass (negative: for
// ever), or for a reason to look at the room again.
func (t *ticker) await(ctx context.Context, us int64) error {
	due, stop := pause(us)
	defer stop()
	select {
	case res := <-t.results:
		return t.returned(ctx, res)
	case <-due:
		return nil
	case <-t.lost:
		return store.ErrLeaseLost
	case <-t.beat:
	case <-t.live.Wake:
	case <-ctx.Done():
		return ctx.Err()
	}
	return t.lookAround(ctx)
}

// lookAround sees what others have done meanwhile.
func (t *ticker) lookAround(ctx context.Context) error {
	newer, err := t.newer(ctx)
	if err != nil {
		return err
	}
	if newer {
		return errMoved
	}
	return t.check(ctx, true)
}

// check reads who is authorized now, and asks the calls to stop that have lost
// their authority, when told to.
func (t *ticker) check(ctx context.Context, abort bool) error {
	ids, err := t.live.authorize(ctx, t.r)
	if err != nil {
		return err
	}
	if !abort {
		return nil
	}
	for _, id := range t.calls.open() {
		o, ok := t.r.ops[id]
		if ok && o.phase == calling && !t.live.allows(ids, o.call.Agent) {
			t.abort(id)
		}
	}
	t.abortLost()
	return nil
}

// abortLost asks the calls to stop that the machine takes no result from with
// authority (R43, R67).
func (t *ticker) abortLost() {
	guard, ok := t.r.machine.(engine.CallGuard)
	for _, id := range t.calls.open() {
		o, known := t.r.ops[id]
		if !known || o.phase != calling || ok && guard.Lost(o.call.Key) != "" {
			t.abort(id)
		}
	}
}

func (t *ticker) abort(id string) {
	if t.calls.abort(id) {
		t.done.Aborted++
	}
}
