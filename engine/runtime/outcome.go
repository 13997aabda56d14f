package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/store"
)

// drain is await for a Tick that has stopped: what cannot be looked at now is
// looked at with the next heartbeat, and never costs a call its receipt.
func (t *ticker) drain(ctx context.Context) error {
	select {
	case res := <-t.results:
		return t.returned(ctx, res)
	case <-t.lost:
		return store.ErrLeaseLost
	case <-t.beat:
	case <-t.live.Wake:
	}
	err := t.lookAround(ctx)
	if errors.Is(err, errMoved) {
		err = t.reload(ctx)
	}
	if errors.Is(err, store.ErrLeaseLost) || errors.As(err, new(*dropError)) {
		return err
	}
	return nil
}

// returned takes the result of a call. One whose operation was settled by
// others meanwhile goes to the store at once: its receipt is evidence.
func (t *ticker) returned(ctx context.Context, res callResult) error {
	r := t.r
	r.inFlight--
	t.calls.end(res.o.id)
	if err := r.cfg.Crash.pass(AfterCall); err != nil {
		return err
	}
	res = t.asked(ctx, res)
	if o, ok := r.ops[res.o.id]; ok && o.phase == calling {
		res.o = o
		return r.settleCall(res)
	}
	if err := r.settleCall(res); err != nil {
		return err
	}
	if err := t.saveReceipts(ctx); err != nil {
		return err
	}
	return errMoved
}

// asked puts the answer of a party that can be asked in place of an error:
// what a call came to that was cut short (DESIGN §2).
func (t *ticker) asked(ctx context.Context, res callResult) callResult {
	finder, ok := t.live.Provider.(model.Finder)
	if res.err == nil || !ok || t.live.Provider.Class() != model.Lookup || res.o.asked == nil {
		return res
	}
	found, err := finder.Lookup(context.WithoutCancel(ctx), *res.o.asked)
	switch {
	case err != nil:
		return res // still unknown
	case found.Executed:
		return callResult{o: res.o, reply: found.Seen}
	}
	free := int64(0)
	return callResult{o: res.o, reply: model.Reply{
		Outcome: model.Failed, Code: engine.CodeAdapter, Error: "the call did not take place: " + found.Proof, Usage: &engine.Usage{}, Micros: &free,
	}}
}

// saveReceipts stores the receipts at hand. Where the store has another one,
// written by a process that took this one for dead, the outcome that is known
// now settles what was held as uncertain: it is proof (R47). errMoved tells
// that this happened.
func (t *ticker) saveReceipts(ctx context.Context) error {
	r := t.r
	ctx = context.WithoutCancel(ctx)
	moved := false
	for {
		err := r.storeReceipts(ctx)
		if err == nil {
			break
		}
		if !errors.Is(err, store.ErrReceiptMismatch) {
			return err
		}
		o := r.pending[0]
		r.pending, moved = r.pending[1:], true
		if err := t.late(ctx, o); err != nil {
			return err
		}
	}
	if moved {
		return errMoved
	}
	return nil
}

func (t *ticker) late(ctx context.Context, o *operation) error {
	if o.receipt.Outcome == store.OutcomeUnknown || o.body.Kind == engine.EvDispatchRefused {
		return nil
	}
	err := t.live.Store.Reconcile(ctx, t.live.Room, o.id, store.Reconciliation{
		Executed: true, ChargedMicros: o.receipt.ChargedMicros, Usage: o.receipt.Usage, UsageSource: o.receipt.UsageSource,
		Proof: "the process that made the call had its reply after another had the room",
	})
	if errors.Is(err, store.ErrInvalid) || errors.Is(err, store.ErrReceiptMismatch) {
		return nil // settled by other proof
	}
	if err != nil {
		return fmt.Errorf("late reply of %s: %w", o.id, err)
	}
	return nil
}

// yield ends the work of a process whose room another has: its calls are asked
// to stop, waited for, and what they came to is kept. What it took for lost or
// refused of others' operations is dropped: they may be under way in the
// process that has the room, which alone decides on them (R45, R48).
func (t *ticker) yield(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	if t.r == nil {
		return nil
	}
	for _, id := range t.calls.open() {
		t.abort(id)
	}
	for ; t.r.inFlight > 0; t.r.inFlight-- {
		res := <-t.results
		t.calls.end(res.o.id)
		errs = append(errs, t.r.settleCall(res))
	}
	t.r.pending = slices.DeleteFunc(t.r.pending, func(o *operation) bool { return !t.calls.own(o.id) })
	if err := t.saveReceipts(ctx); !errors.Is(err, errMoved) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// abandon waits for the calls under way and writes nothing more.
func (t *ticker) abandon() {
	for _, id := range t.calls.open() {
		t.abort(id)
	}
	for ; t.r != nil && t.r.inFlight > 0; t.r.inFlight-- {
		res := <-t.results
		t.calls.end(res.o.id)
	}
}
