package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

// maxConflicts is how often in a row a lost compare-and-set is retried (R71).
const maxConflicts = 10

// Run creates the room, or resumes it where it stands, runs it to rest and
// closes it. A room that is closed already is left alone and its result
// returned. One process at a time may run a room; leases see to that.
//
// Errors: ctx's error when it ends (no further call is made, calls in flight
// are waited for and their receipts stored, the room can be resumed);
// store.ErrConflict after ten lost compare-and-sets in a row, receipts kept
// (R71); store.ErrReceiptMismatch and store.ErrAlreadyDispatched when another
// process runs the room; code VERSION_MISMATCH when the room's machine is
// another one; code CONFLICT when its rows do not fold to what they state;
// ErrWithheld when a text that is needed has no content in the store (the room
// stays as it is); errors of the store and of look-ups. A fault of machine, world or owner is
// no error but termination harness_error.
func Run(ctx context.Context, cfg Config) (Result, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return Result{}, err
	}
	defer cfg.Gauge.trial()()
	lost := 0
	for {
		res := Result{}
		r, err := open(ctx, cfg)
		if err == nil {
			res, err = r.run(ctx)
		}
		if err == nil {
			return res, nil
		}
		var drop *dropError
		if !errors.Is(err, store.ErrConflict) || errors.As(err, &drop) {
			return Result{}, fmt.Errorf("room %s: %w", cfg.Room, err)
		}
		if r != nil && r.committed {
			lost = 0
		}
		if lost++; lost >= maxConflicts {
			return Result{}, fmt.Errorf("room %s: %d lost compare-and-sets in a row: %w", cfg.Room, lost, err)
		}
	}
}

// run is one room in this process, from a load to its close or to the first
// error.
type run struct {
	cfg Config
	*state
	head      store.Head
	record    *record // of a room that this run made, with Config.Keep
	committed bool    // a row was committed since the load
	tail      tail
	unused    string // why the stored snapshot was of no use at the load
	queue     []*operation
	pending   []*operation // returned, receipt not stored
	results   chan callResult
	inFlight  int
	watch     stopwatch
	calls     *calls // of a room that stays open: calls that can be cut short; nil in a trial
}

// open loads or creates the room and rebuilds its state.
func open(ctx context.Context, cfg Config) (*run, error) {
	l, err := cfg.Store.LoadTail(ctx, cfg.Room)
	if errors.Is(err, store.ErrNotFound) {
		l, err = create(ctx, cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	return opened(ctx, cfg, l)
}

// opened rebuilds the state of a room that LoadTail has read.
func opened(ctx context.Context, cfg Config, l *store.Loaded) (*run, error) {
	r := &run{cfg: cfg, head: l.Head, results: make(chan callResult)}
	if l.Head.Funds != cfg.Funds {
		return nil, fmt.Errorf("the room holds %s funds, not %s", l.Head.Funds, cfg.Funds)
	}
	if l.Head.Closed {
		return r, nil
	}
	built, unused, err := restart(ctx, cfg.Folds, cfg.Store, l)
	if err != nil {
		return nil, err
	}
	r.state, r.head, r.unused, r.tail = built.state, built.loaded.Head, unused, built.tail()
	if cfg.Keep && r.head.Rev < 0 && len(built.loaded.Effects) == 0 {
		r.record = newRecord(r.head)
	}
	r.forget, r.log = r.record == nil, nil
	for _, o := range r.order {
		if o.phase == waiting || o.phase == marked {
			r.queue = append(r.queue, o)
		}
	}
	return r, nil
}

// create makes the room and returns it as a load would find it; another process
// may have made it first.
func create(ctx context.Context, cfg Config) (*store.Loaded, error) {
	m, err := cfg.Machine()
	if err != nil {
		return nil, fmt.Errorf("make machine: %w", err)
	}
	room := store.NewRoom{
		Room: cfg.Room, Salt: cfg.Salt, Money: engine.Money{Limit: cfg.Limits.BudgetMicros},
		Funds: cfg.Funds, Machine: m.Version(), Allotment: cfg.Allotment,
	}
	err = cfg.Store.CreateRoom(ctx, room)
	switch {
	case errors.Is(err, store.ErrExists):
		return cfg.Store.LoadTail(ctx, cfg.Room)
	case err != nil:
		return nil, fmt.Errorf("create: %w", err)
	}
	room.Salt = slices.Clone(room.Salt)
	return &store.Loaded{Head: store.HeadOf(room)}, nil
}

func (r *run) run(ctx context.Context) (Result, error) {
	if err := r.deliverOutbox(ctx); err != nil {
		return Result{}, err
	}
	if r.head.Closed {
		return closedResult(r.head), nil
	}
	r.watch = startWatch(r.now)
	word, err := r.loop(ctx)
	var drop *dropError
	var fault *faultError
	switch {
	case err == nil:
		return r.close(ctx, word, "")
	case errors.As(err, &drop):
		for ; r.inFlight > 0; r.inFlight-- {
			<-r.results
		}
		return Result{}, err
	case errors.As(err, &fault) && !errors.Is(err, ErrWithheld): // what is withheld may come back
		return r.close(ctx, HarnessError, oneLine(fault.Error()))
	default:
		return Result{}, r.suspend(ctx, err)
	}
}

// loop delivers events until nothing is left to come, and returns the
// termination word.
func (r *run) loop(ctx context.Context) (string, error) {
	// A process may have died between a commit and the snapshot that was due.
	if err := r.snapshot(ctx); err != nil {
		return "", err
	}
	for {
		if err := ctx.Err(); err != nil {
			return "", err
		}
		if err := r.dispatch(ctx); err != nil {
			return "", err
		}
		d, ok, err := r.next(ctx)
		switch {
		case err != nil:
			return "", err
		case !ok:
			return r.termination(), nil
		case r.late(d.atUS):
			return TimeLimit, nil
		case r.rev+1 >= int64(r.cfg.Limits.Revisions):
			return "", faultf("the room does not come to rest: %d revisions", r.rev+1)
		}
		if err := r.deliver(ctx, d); err != nil {
			return "", err
		}
	}
}

func (r *run) limitUS() int64 { return int64(r.cfg.Limits.Minutes) * 60_000_000 }

func (r *run) late(atUS int64) bool { return r.cfg.Limits.Minutes > 0 && atUS > r.limitUS() }

// suspend waits for the calls in flight and stores every receipt, so that
// nothing that was paid for is lost. It returns cause, joined with what failed
// on the way.
func (r *run) suspend(ctx context.Context, cause error) error {
	ctx, cancel := finishing(ctx)
	defer cancel()
	for _, res := range r.gather() {
		if err := r.settleCall(res); err != nil {
			cause = errors.Join(cause, err)
		}
	}
	if err := r.storeReceipts(ctx); err != nil {
		return errors.Join(cause, err)
	}
	return cause
}

// delivery is an event that can be delivered.
type delivery struct {
	atUS  int64
	class int
	id    string
	make  func() engine.Event
}

// Classes order deliveries of equal times.
const (
	classTimer = iota
	classOwner
	classOperation
)

// earliest is the first of the events at hand, in the documented order.
func (r *run) earliest() (delivery, bool) {
	var best delivery
	found := false
	offer := func(d delivery) {
		d.atUS = max(d.atUS, r.now)
		if !found || cmp.Or(cmp.Compare(d.atUS, best.atUS), cmp.Compare(d.class, best.class), cmp.Compare(d.id, best.id)) < 0 {
			best, found = d, true
		}
	}
	if r.rev < 0 {
		return delivery{id: startID, make: func() engine.Event { return engine.Event{ID: startID, Kind: engine.EvStarted} }}, true
	}
	for id, t := range r.timers {
		offer(delivery{t.atUS, classTimer, id, func() engine.Event {
			return engine.Event{ID: fmt.Sprintf("%s%s/%d", timerPrefix, id, t.rev), Kind: engine.EvTimer, Timer: id}
		}})
	}
	if say, ok := r.say(); ok {
		offer(delivery{say.AtUS, classOwner, say.EventID, func() engine.Event { return ownerEvent(say) }})
	}
	for _, o := range r.open {
		if o.phase != returned {
			continue
		}
		offer(resultOf(o))
	}
	return best, found
}

// resultOf is the event of an operation that has returned.
func resultOf(o *operation) delivery {
	return delivery{o.finishUS(), classOperation, o.id, func() engine.Event {
		ev := o.body.event()
		key := o.call.Key
		ev.ID, ev.Op, ev.Key = eventOfOp(o.id), o.id, &key
		return ev
	}}
}

// next waits for the next event: under virtual time until nothing is in
// flight, under wall time until it is due. False means that nothing is to
// come.
func (r *run) next(ctx context.Context) (delivery, bool, error) {
	if r.cfg.Clock == Virtual {
		if err := r.settle(r.gather()); err != nil {
			return delivery{}, false, err
		}
		d, ok := r.earliest()
		return d, ok, nil
	}
	for {
		d, ok := r.earliest()
		now := r.watch.us()
		switch {
		case ok && d.atUS <= now:
			return d, true, nil
		case !ok && r.inFlight == 0:
			return d, false, nil
		case r.late(now):
			return delivery{atUS: now}, true, r.settle(r.gather())
		}
		until := int64(-1)
		if ok {
			until = d.atUS - now
		}
		if left := r.limitUS() - now + 1; r.cfg.Limits.Minutes > 0 && (until < 0 || left < until) {
			until = left
		}
		res, got := wait(ctx, until, r.results)
		if got {
			r.inFlight--
			if err := r.settle([]callResult{res}); err != nil {
				return delivery{}, false, err
			}
		} else if err := ctx.Err(); err != nil {
			return delivery{}, false, err
		}
	}
}

// deliver folds one event and commits it with every receipt at hand.
func (r *run) deliver(ctx context.Context, d delivery) error {
	ev := d.make()
	if ev.Message != nil || ev.Command != nil {
		if err := r.checkNew(ctx, ev.ID); err != nil {
			return err
		}
	}
	if ev.Command != nil {
		if err := r.resolveCommand(ctx, ev.Command); err != nil {
			return err
		}
	}
	ev.AtUS = max(d.atUS, r.now)
	st, err := r.commit(ctx, ev, nil)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(st.commands, func(c engine.Command) bool { return c.Say != nil }) {
		return r.deliverOutbox(ctx)
	}
	return nil
}

// commit folds one event and commits it with every receipt at hand and with
// what the room is to remember for ever because of it.
func (r *run) commit(ctx context.Context, ev engine.Event, remember []store.IndexEntry) (*step, error) {
	ev.Money = r.money()
	if r.cfg.Eligible != nil {
		eligible := slices.Clone(r.cfg.Eligible())
		slices.Sort(eligible)
		facts := engine.Facts{}
		if ev.Facts != nil {
			facts = *ev.Facts
		}
		facts.Eligible, ev.Facts = eligible, &facts
	}
	st, err := r.fold(ctx, ev)
	if err != nil {
		return nil, err
	}
	c, err := r.commitOf(st)
	if err != nil {
		return nil, err
	}
	c.Index = append(c.Index, remember...)
	done, err := r.cfg.Store.Commit(context.WithoutCancel(ctx), c)
	switch {
	case errors.Is(err, store.ErrExists), errors.Is(err, store.ErrInvalid):
		if err := r.checkIssued(ctx, st); err != nil {
			return nil, err
		}
		return nil, faultf("commit of revision %d: %w", c.Row.Rev, err)
	case err != nil:
		return nil, fmt.Errorf("commit of revision %d: %w", c.Row.Rev, err)
	}
	r.committed, r.head, r.pending, r.texts.fresh = true, done.Head, nil, nil
	r.record.committed(&c, done)
	r.tail.bytes += rowBytes(&c.Row)
	if len(done.Admissions) != len(st.ops) {
		return nil, fmt.Errorf("commit of revision %d: %d admissions for %d operations", c.Row.Rev, len(done.Admissions), len(st.ops))
	}
	if err := r.adopt(st); err != nil {
		return nil, err
	}
	for i, o := range st.ops {
		if a := done.Admissions[i]; a.Reserved {
			r.queue = append(r.queue, o)
		} else {
			o.phase, o.body = returned, refusedReservation(o.reserved, a.Code)
		}
	}
	if err := r.cfg.Crash.pass(AfterCommit); err != nil {
		return nil, err
	}
	return st, r.snapshot(ctx)
}

// checkIssued finds an operation of a refused commit that the room has had, also
// where a snapshot covers it: a fault of the machine, in the words of fold.
func (r *run) checkIssued(ctx context.Context, st *step) error {
	if len(st.ops) == 0 {
		return nil
	}
	ids := make([]string, len(st.ops))
	for i, o := range st.ops {
		ids[i] = o.id
	}
	l, err := r.cfg.Store.LoadOps(context.WithoutCancel(ctx), r.cfg.Room, ids)
	if err != nil {
		return fmt.Errorf("load operations: %w", err)
	}
	for _, o := range st.ops {
		if slices.ContainsFunc(l.Ops, func(op store.Op) bool { return op.ID == o.id }) {
			return r.commandFault(st.event.ID, o.command, issuedBefore(o.call.Key))
		}
	}
	return nil
}

// spaceEvent is the index of the ids of owner messages' events. The ids of all
// other events are unique by the revision or the operation they name.
const spaceEvent = "event"

// checkNew sees to it that no owner message is folded twice (R14): an event id
// that the room has heard, or that another kind of event may have, is a fault
// of the owner.
func (r *run) checkNew(ctx context.Context, id string) error {
	if id == "" || id == startID || strings.HasPrefix(id, opPrefix) || strings.HasPrefix(id, timerPrefix) {
		return faultf("owner: %q is no id for an owner message's event", id)
	}
	known, err := r.cfg.Store.Lookup(ctx, r.cfg.Room, spaceEvent, []string{id})
	if err != nil {
		return fmt.Errorf("look up event %s: %w", id, err)
	}
	if _, heard := known[id]; heard {
		return faultf("owner: event %s was delivered before", id)
	}
	return nil
}

// money is the room's account with every returned call settled.
func (r *run) money() engine.Money {
	m := r.head.Money
	for _, o := range r.pending {
		m = settled(m, o)
	}
	return m
}

func (r *run) commitOf(st *step) (store.Commit, error) {
	c := store.Commit{Room: r.cfg.Room, ExpectRev: r.rev, ExpectHead: r.digest, Row: st.row}
	for _, o := range st.ops {
		if o.call.Request != nil {
			if err := r.ask(o); err != nil {
				return c, err
			}
			o.reserved = r.reservation(o)
		}
		op := store.Op{
			ID: o.id, Key: o.call.Key, Rev: o.rev, Ordinal: o.ordinal, Agent: o.call.Agent, Role: o.call.Role, Task: o.call.Task,
			Request: o.request, RequestDigest: o.digest, ReservedMicros: o.reserved, Status: store.OpReserved,
		}
		if o.call.Tool != nil {
			op.Tool = o.call.Tool.Tool
		}
		c.Ops = append(c.Ops, op)
	}
	for i := range st.commands {
		say := st.commands[i].Say
		if say == nil {
			continue
		}
		b, err := engine.Canonical(say)
		if err != nil {
			return c, faultf("message %s: %w", say.ID, err)
		}
		c.Outbox = append(c.Outbox, store.OutboxEntry{ID: say.ID, Rev: st.row.Rev, Body: b})
	}
	var err error
	if c.Index, err = indexOf(st); err != nil {
		return c, err
	}
	slices.SortFunc(r.pending, byCommit)
	for _, o := range r.pending {
		c.Receipts = append(c.Receipts, *o.receipt)
	}
	c.Blobs = r.texts.fresh
	return c, nil
}
