package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

// Differ runs the same random history of room and record operations on two
// stores, which must give equal answers and end in equal states. Both are
// shared by all histories, each under names of its own.
func Differ(t *testing.T, a, b store.Store) {
	t.Helper()
	var runs atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		h := &history{t: rt, ctx: t.Context(), a: a, b: b, prefix: fmt.Sprintf("h%d/", runs.Add(1))}
		h.start()
		for range rapid.IntRange(5, 30).Draw(rt, "steps") {
			h.step()
		}
		h.compare()
	})
}

var sentinels = []error{
	store.ErrNotFound, store.ErrExists, store.ErrConflict, store.ErrReceiptMismatch, store.ErrAlreadyDispatched, store.ErrHalted,
	store.ErrBelowSpent, store.ErrExhausted, store.ErrLeaseLost, store.ErrClosed, store.ErrInvalid,
}

func word(err error) string {
	if err == nil {
		return "ok"
	}
	for _, s := range sentinels {
		if errors.Is(err, s) {
			return s.Error()
		}
	}
	return "other error: " + err.Error()
}

type history struct {
	t      *rapid.T
	ctx    context.Context //nolint:containedctx // one history is one call of Differ
	a, b   store.Store
	prefix string
	ops    []store.Op
	ledger int64 // rows of the ledger before this history
	seals  int   // rows of the seal log before it
}

// both runs f on both stores and compares what it tells.
func both[T any](h *history, what string, f func(store.Store) (T, error)) T {
	x, errX := f(h.a)
	y, errY := f(h.b)
	if word(errX) != word(errY) {
		h.t.Fatalf("%s: %v against %v", what, errX, errY)
	}
	if diff := cmp.Diff(x, y, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(store.Lease{}, "ExpiresAt")); diff != "" {
		h.t.Fatalf("%s (-a +b):\n%s", what, diff)
	}
	return x
}

func only(f func(store.Store) error) func(store.Store) (struct{}, error) {
	return func(s store.Store) (struct{}, error) { return struct{}{}, f(s) }
}

func (h *history) name(kind string, n int) string {
	return h.prefix + kind + fmt.Sprint(rapid.IntRange(1, n).Draw(h.t, kind))
}

func (h *history) amount() int64 { return rapid.Int64Range(0, 60).Draw(h.t, "amount") }

func (h *history) start() {
	ledger, errLedger := h.a.Ledger(h.ctx, 0, 0)
	seals, errSeals := h.a.SealLog(h.ctx)
	if err := errors.Join(errLedger, errSeals); err != nil {
		h.t.Fatal(err)
	}
	h.ledger, h.seals = int64(len(ledger)), len(seals)
	for i := range 2 {
		r := NewRoom(fmt.Sprint(h.prefix, "room", i+1), 150)
		both(h, "create", only(func(s store.Store) error { return s.CreateRoom(h.ctx, r) }))
	}
	both(h, "ceiling", func(s store.Store) (store.Ceiling, error) { return s.EnsureCeiling(h.ctx, h.prefix, sim, 200) })
}

func (h *history) step() {
	steps := []func(){
		h.commit, h.commit, h.commit, h.dispatch, h.dispatch, h.receipt, h.receipt, h.reconcile, h.effect, h.snapshot, h.closeRoom,
		h.deliver, h.allot, h.allot, h.enqueue, h.dequeue, h.release, h.grant, h.campaign, h.trial, h.lease, h.seal,
	}
	steps[rapid.IntRange(0, len(steps)-1).Draw(h.t, "step")]()
}

// someOp is mostly an operation of the history, at times an unknown one.
func (h *history) someOp() store.Op {
	if len(h.ops) == 0 || rapid.IntRange(0, 19).Draw(h.t, "unknown op") == 0 {
		return Op(h.prefix+"room1", "none", 1)
	}
	return h.ops[rapid.IntRange(0, len(h.ops)-1).Draw(h.t, "op")]
}

func (h *history) outcome(op store.Op) store.Receipt {
	o := rapid.SampledFrom([]store.Outcome{store.OutcomeOK, store.OutcomeFailed, store.OutcomeUnknown}).Draw(h.t, "outcome")
	charged := int64(0)
	if o != store.OutcomeUnknown {
		charged = h.amount()
	}
	return Receipt(op, o, charged)
}

func (h *history) room() string { return h.name("room", 2) }

func (h *history) commit() {
	room := h.room()
	l := both(h, "load", func(s store.Store) (*store.Loaded, error) { return s.Load(h.ctx, room) })
	head := l.Head
	if rapid.IntRange(0, 9).Draw(h.t, "stale") == 0 && head.Rev >= 0 {
		head.Rev--
	}
	c := Next(head, rapid.StringMatching(`[a-z]{0,4}`).Draw(h.t, "note"))
	for range rapid.IntRange(0, 3).Draw(h.t, "ops") {
		op := Op(room, h.name("cause", 60), h.amount())
		c.Ops = append(c.Ops, op)
	}
	for range rapid.IntRange(0, 2).Draw(h.t, "receipts") {
		c.Receipts = append(c.Receipts, h.outcome(h.someOp()))
	}
	for range rapid.IntRange(0, 2).Draw(h.t, "others") {
		n := rapid.IntRange(1, 9).Draw(h.t, "n")
		c.Blobs = append(c.Blobs, Blob(fmt.Sprint("blob", n)))
		c.Outbox = append(c.Outbox, store.OutboxEntry{ID: fmt.Sprint("note", n), Body: []byte{byte('0' + h.amount()%2)}})
		c.Index = append(c.Index, store.IndexEntry{Space: "s", Key: fmt.Sprint("key", n), Value: fmt.Sprint(h.amount() % 2)})
	}
	done := both(h, "commit", func(s store.Store) (*store.Committed, error) { return s.Commit(h.ctx, c) })
	if done != nil {
		h.ops = append(h.ops, c.Ops...)
	}
}

func (h *history) dispatch() {
	room, op := h.room(), h.someOp()
	both(h, "dispatch", only(func(s store.Store) error { return s.MarkDispatched(h.ctx, room, op.ID) }))
}

func (h *history) receipt() {
	room, r := h.room(), h.outcome(h.someOp())
	both(h, "receipt", only(func(s store.Store) error { return s.PutReceipt(h.ctx, room, r, []store.Blob{Blob("of a receipt")}) }))
}

func (h *history) reconcile() {
	room, op := h.room(), h.someOp()
	r := store.Reconciliation{Executed: rapid.Bool().Draw(h.t, "executed"), Proof: "p"}
	if r.Executed {
		r.ChargedMicros, r.Usage = h.amount(), &engine.Usage{Output: 4}
	}
	both(h, "reconcile", only(func(s store.Store) error { return s.Reconcile(h.ctx, room, op.ID, r) }))
}

func (h *history) effect() {
	e := effect(h.room(), h.someOp().ID, rapid.IntRange(0, 1).Draw(h.t, "n"))
	e.State = rapid.SampledFrom([]store.EffectState{store.EffectIntent, store.EffectConfirmed}).Draw(h.t, "state")
	both(h, "effect", only(func(s store.Store) error { return s.PutEffect(h.ctx, e, []store.Blob{Blob("of an effect")}) }))
}

func (h *history) snapshot() {
	room := h.room()
	l := both(h, "load", func(s store.Store) (*store.Loaded, error) { return s.Load(h.ctx, room) })
	if len(l.Rows) == 0 {
		return
	}
	row := l.Rows[len(l.Rows)-1]
	var event struct{ ID string }
	if err := json.Unmarshal(row.Event, &event); err != nil {
		h.t.Fatalf("event: %v", err)
	}
	snap := store.Snapshot{Rev: row.Rev, Machine: "test@1", State: State(row.Rev, event.ID)}
	if rapid.Bool().Draw(h.t, "folds") {
		snap.Folds = []byte(event.ID)
	}
	both(h, "snapshot", only(func(s store.Store) error { return s.PutSnapshot(h.ctx, room, snap) }))
	both(h, "load tail", func(s store.Store) (*store.Loaded, error) { return s.LoadTail(h.ctx, room) })
	ids := []string{h.someOp().ID, h.someOp().ID, "unknown"}
	both(h, "load operations", func(s store.Store) (*store.Loaded, error) { return s.LoadOps(h.ctx, room, ids) })
}

func (h *history) closeRoom() {
	if rapid.IntRange(0, 4).Draw(h.t, "close") > 0 {
		return
	}
	room, word := h.room(), rapid.SampledFrom([]string{"completed", "gave_up"}).Draw(h.t, "word")
	both(h, "close", only(func(s store.Store) error { return s.CloseRoom(h.ctx, room, word, 99) }))
}

func (h *history) deliver() {
	room, id := h.room(), fmt.Sprint("note", rapid.IntRange(1, 9).Draw(h.t, "n"))
	both(h, "delivered", only(func(s store.Store) error { return s.Delivered(h.ctx, room, id) }))
}

func (h *history) allot() {
	a := store.Allotment{
		ID: h.name("allotment", 12), Ceiling: h.prefix, Funds: sim, Campaign: h.name("c", 2), Sum: h.amount(),
		CampaignCap: rapid.SampledFrom([]int64{0, 90}).Draw(h.t, "cap"),
	}
	both(h, "allot", func(s store.Store) (store.Allotment, error) { return s.Allot(h.ctx, a) })
}

// enqueue waits under a lease of the history, which it may hold or not.
func (h *history) enqueue() {
	a := store.Allotment{ID: h.name("allotment", 12), Ceiling: h.prefix, Funds: sim, Campaign: h.name("c", 2), Sum: h.amount()}
	ctx := store.WithFence(h.ctx, store.Fence{Name: h.name("lease", 2), Token: h.name("token", 2)})
	k := both(h, "enqueue", func(s store.Store) (store.Ticket, error) {
		k, err := s.Enqueue(ctx, a)
		k.N = min(k.N, 1) // of the store's own counting
		return k, err
	})
	if k.N == 0 {
		return
	}
	both(h, "queue", func(s store.Store) ([]string, error) { return queued(h.ctx, s, h.prefix) })
}

// queued are the allotments that are waited for on a ceiling, in order.
func queued(ctx context.Context, s store.Store, ceiling string) ([]string, error) {
	queue, err := s.Queue(ctx, ceiling, sim)
	var out []string
	for i := range queue {
		out = append(out, queue[i].Allotment)
	}
	return out, err
}

func (h *history) dequeue() {
	c := h.name("c", 2)
	both(h, "dequeue", only(func(s store.Store) error { return s.Dequeue(h.ctx, h.prefix, sim, c) }))
}

func (h *history) release() {
	id, charged, keep := h.name("allotment", 12), h.amount(), h.amount()/2
	both(h, "release", func(s store.Store) (store.Allotment, error) { return s.Release(h.ctx, id, charged, keep) })
}

func (h *history) grant() {
	total := rapid.Int64Range(0, 600).Draw(h.t, "total")
	var ack []string
	if rapid.Bool().Draw(h.t, "ack") {
		ack = []string{h.name("allotment", 12)}
	}
	both(h, "grant", func(s store.Store) (store.Ceiling, error) { return s.Grant(h.ctx, h.prefix, sim, total, ack) })
}

func (h *history) campaign() {
	c := campaign(h.name("c", 2), "n")
	c.Plan = []byte(rapid.SampledFrom([]string{"1", "1", "2"}).Draw(h.t, "plan"))
	both(h, "campaign", only(func(s store.Store) error { return s.PutCampaign(h.ctx, c) }))
	status := rapid.SampledFrom([]string{"running", "done"}).Draw(h.t, "status")
	id := h.name("c", 2)
	both(h, "status", only(func(s store.Store) error { return s.SetCampaignStatus(h.ctx, id, status, nil) }))
}

func (h *history) trial() {
	x := trial(h.name("trial", 3), rapid.IntRange(0, 2).Draw(h.t, "order"), "legacy")
	x.Campaign = h.name("c", 2)
	x.Status = rapid.SampledFrom([]string{store.TrialPlanned, store.TrialRunning, store.TrialClosed, store.TrialNotRun}).Draw(h.t, "status")
	both(h, "trial", only(func(s store.Store) error { return s.PutTrial(h.ctx, x) }))
	both(h, "trace", only(func(s store.Store) error { return s.PutTrace(h.ctx, x.Campaign, x.Key, x.Status, []byte("t")) }))
}

func (h *history) lease() {
	name, token := h.name("lease", 2), h.name("token", 2)
	switch rapid.IntRange(0, 3).Draw(h.t, "lease") {
	case 0:
		both(h, "renew", func(s store.Store) (store.Lease, error) { return s.RenewLease(h.ctx, name, token, time.Hour) })
	case 1:
		both(h, "release lease", only(func(s store.Store) error { return s.ReleaseLease(h.ctx, name, token) }))
	default:
		both(h, "acquire", func(s store.Store) (store.Lease, error) { return s.AcquireLease(h.ctx, name, token, "o", time.Hour) })
	}
}

func (h *history) seal() {
	switch rapid.IntRange(0, 2).Draw(h.t, "seal") {
	case 0:
		both(h, "seal", func(s store.Store) (store.SealRow, error) { return s.AppendSeal(h.ctx, "freeze", []byte(h.prefix)) })
	case 1:
		both(h, "seal after none", func(s store.Store) (store.SealRow, error) {
			return s.AppendSealAfter(h.ctx, "", "freeze", []byte(h.prefix))
		})
	default:
		log := both(h, "seal log", func(s store.Store) ([]store.SealRow, error) { return s.SealLog(h.ctx) })
		head := ""
		if len(log) > 0 {
			head = log[len(log)-1].Digest
		}
		both(h, "seal after", func(s store.Store) (store.SealRow, error) {
			return s.AppendSealAfter(h.ctx, head, "open", []byte(h.prefix))
		})
	}
}

// compare compares everything that can be read of the history, and the
// invariants I1 and of the ledger.
func (h *history) compare() {
	for _, head := range both(h, "rooms", func(s store.Store) ([]store.Head, error) { return s.ListRooms(h.ctx, h.prefix) }) {
		l := both(h, "load", func(s store.Store) (*store.Loaded, error) { return s.Load(h.ctx, head.Room) })
		h.sums(l)
		both(h, "rows", func(s store.Store) ([]store.Row, error) { return s.Rows(h.ctx, head.Room, -1, 0) })
		both(h, "outbox", func(s store.Store) ([]store.OutboxEntry, error) { return s.Outbox(h.ctx, head.Room) })
		var keys, digests []string
		for n := range 10 {
			keys, digests = append(keys, fmt.Sprint("key", n)), append(digests, Blob(fmt.Sprint("blob", n)).Digest)
		}
		digests = append(digests, Blob("of a receipt").Digest, Blob("of an effect").Digest)
		both(h, "lookup", func(s store.Store) (map[string]string, error) { return s.Lookup(h.ctx, head.Room, "s", keys) })
		both(h, "blobs", func(s store.Store) (map[string][]byte, error) { return s.Blobs(h.ctx, head.Room, digests) })
	}
	both(h, "queue", func(s store.Store) ([]string, error) { return queued(h.ctx, s, h.prefix) })
	both(h, "ceilings", func(s store.Store) ([]store.Ceiling, error) { return s.Ceilings(h.ctx) })
	for _, c := range []string{h.prefix + "c1", h.prefix + "c2"} {
		both(h, "campaign", func(s store.Store) (store.Campaign, error) { return s.Campaign(h.ctx, c) })
		both(h, "trials", func(s store.Store) ([]store.Trial, error) { return s.Trials(h.ctx, c) })
		as := both(h, "allotments", func(s store.Store) ([]store.Allotment, error) { return s.Allotments(h.ctx, c) })
		weight := both(h, "weight", func(s store.Store) (int64, error) { return s.CampaignWeight(h.ctx, c, sim) })
		for i := range as {
			weight -= as[i].Weight()
		}
		if weight != 0 {
			h.t.Fatalf("the running sum of %s is %d off", c, weight)
		}
	}
	both(h, "seal log", func(s store.Store) ([]store.SealRow, error) {
		log, err := s.SealLog(h.ctx)
		return log[min(h.seals, len(log)):], err
	})
	rows := both(h, "ledger", func(s store.Store) ([]store.LedgerRow, error) { return s.Ledger(h.ctx, h.ledger, 0) })
	if err := ledgerError(h.ledger, rows); err != nil {
		h.t.Fatal(err)
	}
}

// sums checks invariant I1: charged is the sum over operations, held the sum
// of open reservations, and no operation is in both.
func (h *history) sums(l *store.Loaded) {
	want := engine.Money{Limit: l.Head.Money.Limit}
	for _, op := range l.Ops {
		want.Charged += op.ChargedMicros
		if op.Status == store.OpReserved || op.Status == store.OpDispatched || op.Status == store.OpUncertain {
			want.Held += op.ReservedMicros
		}
		if op.Status == store.OpUncertain {
			want.Unknown += op.ReservedMicros
		}
	}
	if diff := cmp.Diff(want, l.Head.Money); diff != "" {
		h.t.Fatalf("I1 in %s (-sums +head):\n%s", l.Head.Room, diff)
	}
}
