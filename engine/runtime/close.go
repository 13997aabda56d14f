package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/store"
)

// close settles what is left, stores the snapshot and closes the room. Every
// step may be repeated after a crash.
func (r *run) close(ctx context.Context, word, fault string) (Result, error) {
	ctx, cancel := finishing(ctx)
	defer cancel()
	for _, res := range r.gather() {
		if err := r.settleCall(res); err != nil {
			return Result{}, err
		}
	}
	if err := r.abandonQueue(); err != nil {
		return Result{}, err
	}
	if err := r.storeReceipts(ctx); err != nil {
		return Result{}, err
	}
	for _, o := range r.order {
		if o.unknown() {
			if err := r.reconcile(ctx, o); err != nil {
				return Result{}, err
			}
		}
	}
	// A fault may have left the machine between two states. A room that was
	// upgraded and has no row since keeps the snapshot it was upgraded from.
	if word != HarnessError && r.head.Machine == r.version {
		state, err := r.machine.Snapshot()
		if err == nil {
			err = r.cfg.Store.PutSnapshot(ctx, r.cfg.Room, store.Snapshot{Rev: r.rev, Machine: r.version, State: state})
		}
		if err != nil {
			return Result{}, fmt.Errorf("snapshot: %w", err)
		}
	}
	if err := r.cfg.Crash.pass(BeforeClose); err != nil {
		return Result{}, err
	}
	atUS := r.now
	if word == TimeLimit {
		atUS = max(atUS, r.limitUS())
	}
	termination := word
	if fault != "" {
		termination += ": " + fault
	}
	if err := r.cfg.Store.CloseRoom(ctx, r.cfg.Room, termination, atUS); err != nil {
		return Result{}, fmt.Errorf("close: %w", err)
	}
	r.record.closed(termination, atUS)
	if err := r.cfg.Crash.pass(AfterClose); err != nil {
		return Result{}, err
	}
	head, err := headOf(ctx, r.cfg.Store, r.cfg.Room)
	if err != nil {
		return Result{}, err
	}
	res := closedResult(head)
	res.SnapshotUnused = r.unused
	res.Claim, res.ModelCalls, res.ToolCalls = r.claim, r.modelCalls, r.toolCalls
	if word != HarnessError {
		res.History, err = r.history(head)
	}
	return res, err
}

func closedResult(head store.Head) Result {
	res := Result{AtUS: head.ClosedAtUS, Money: head.Money, Head: head}
	res.Termination, res.Fault = wordAndFault(head.Termination)
	return res
}

func headOf(ctx context.Context, s store.Rooms, room string) (store.Head, error) {
	heads, err := s.ListRooms(ctx, room)
	if err != nil {
		return store.Head{}, fmt.Errorf("head: %w", err)
	}
	i := slices.IndexFunc(heads, func(h store.Head) bool { return h.Room == room })
	if i < 0 {
		return store.Head{}, fmt.Errorf("head: %w", store.ErrNotFound)
	}
	return heads[i], nil
}

// abandonQueue gives operations that a fault kept from being dispatched their
// receipts: released where no dispatch mark exists, unknown where one does.
func (r *run) abandonQueue() error {
	for _, o := range r.queue {
		var err error
		switch o.phase {
		case waiting:
			refusal := &engine.Refusal{Code: engine.CodeConflict, Reason: "the room was closed before dispatch"}
			err = r.returned(o, &body{Kind: engine.EvDispatchRefused, Refusal: refusal}, store.Receipt{Outcome: store.OutcomeFailed, FinishUS: o.startUS})
		case marked:
			kind := engine.EvModelUnknown
			if o.call.Tool != nil {
				kind = engine.EvToolUnknown
			}
			err = r.returned(o, &body{Kind: kind}, store.Receipt{Outcome: store.OutcomeUnknown, FinishUS: o.startUS})
		case calling, returned, delivered:
		}
		if err != nil {
			return err
		}
	}
	r.queue = nil
	return nil
}

// reconcile settles an operation of unknown outcome by what the party's own
// journal says (R47). An opaque party cannot be asked: the hold stays (R42).
func (r *run) reconcile(ctx context.Context, o *operation) error {
	rec := store.Reconciliation{Proof: "the world has no effect record of this operation"}
	if done := r.effects[o.id]; len(done) > 0 {
		switch store.EffectState(done[len(done)-1].State) {
		case store.EffectConfirmed:
			rec.Executed, rec.Proof = true, "effect record of the world"
		case store.EffectRefuted:
			rec.Proof = "the world's record says that the effect did not take place"
		case store.EffectIntent: // no evidence either way
			return nil
		}
	}
	if o.call.Tool == nil {
		finder, ok := r.cfg.Provider.(model.Finder)
		if r.cfg.Provider.Class() != model.Lookup || !ok {
			return nil
		}
		if err := r.ask(o); err != nil {
			return err
		}
		found, err := finder.Lookup(ctx, *o.asked)
		if err != nil {
			return fmt.Errorf("look up operation %s: %w", o.id, err)
		}
		rec = store.Reconciliation{Executed: found.Executed, Proof: oneLine(found.Proof)}
		if found.Executed {
			rec.ChargedMicros, rec.UsageSource = r.charge(o, &found.Reply)
			rec.Usage, rec.Proof = found.Reply.Usage, "the provider's own record of the call"
		}
	}
	if err := r.cfg.Store.Reconcile(ctx, r.cfg.Room, o.id, rec); err != nil {
		return fmt.Errorf("reconcile %s: %w", o.id, err)
	}
	r.record.reconciled(o.id, &rec)
	o.reconciled = true
	return r.cfg.Crash.pass(AfterReconcile)
}

// deliverOutbox hands undelivered messages to the notifier, oldest first. A
// delivery that fails leaves its entry and those after it for later.
func (r *run) deliverOutbox(ctx context.Context) error {
	if r.cfg.Notifier == nil {
		return nil
	}
	entries, err := r.cfg.Store.Outbox(ctx, r.cfg.Room)
	if err != nil {
		return fmt.Errorf("outbox: %w", err)
	}
	x := newTexts(r.cfg.Store, r.cfg.Room, r.head.Salt)
	if r.state != nil {
		x = r.texts
	}
	for _, e := range entries {
		var say engine.Say
		if err := json.Unmarshal(e.Body, &say); err != nil {
			return fmt.Errorf("outbox entry %s: %w", e.ID, err)
		}
		err := x.fetch(ctx, []*engine.Text{&say.Text})
		if err != nil && !errors.Is(err, ErrWithheld) {
			return fmt.Errorf("outbox entry %s: %w", e.ID, err)
		}
		if r.cfg.Notifier.Notify(ctx, r.cfg.Room, say) != nil {
			return nil //nolint:nilerr // at least once: the entry stays in the outbox
		}
		if err := r.cfg.Crash.pass(AfterDelivery); err != nil {
			return err
		}
		if err := r.cfg.Store.Delivered(ctx, r.cfg.Room, e.ID); err != nil {
			return fmt.Errorf("outbox entry %s: %w", e.ID, err)
		}
	}
	return nil
}
