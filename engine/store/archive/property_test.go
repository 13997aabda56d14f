package archive_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/archive"
	"github.com/agentrooms/qualify/engine/store/memory"
	"github.com/agentrooms/qualify/engine/store/sqlite"
	"github.com/agentrooms/qualify/engine/store/storetest"
)

// history does the same random things to all its stores.
type history struct {
	t      *rapid.T
	ctx    context.Context //nolint:containedctx // one history is one check
	stores []store.Store
	count  func(string)
	ops    []roomOp
	rooms  []string
}

// roomOp is an operation that was dispatched.
type roomOp struct {
	room string
	op   store.Op
}

// each does it in all stores, which agree on whether it may be done.
func (h *history) each(what string, f func(store.Store) error) bool {
	h.t.Helper()
	var first string
	for i, st := range h.stores {
		got := word(f(st))
		if i == 0 {
			first = got
		}
		if got != first {
			h.t.Fatalf("%s: one store says %s, the other %s", what, first, got)
		}
	}
	if first == "ok" {
		h.count(what)
	}
	return first == "ok"
}

func (h *history) one(name string, of ...string) string {
	return rapid.SampledFrom(of).Draw(h.t, name)
}

func (h *history) amount() int64 { return rapid.Int64Range(0, 60).Draw(h.t, "amount") }

func (h *history) campaign() string { return h.one("campaign", "c1", "c1", "c2", "c3") }

func (h *history) key() string {
	return h.one("case", "lamp", "lamp-2", "door") + "/" + h.one("arm", "planner", "legacy") + "/" + h.one("index", "0", "1", "10")
}

func (h *history) words() string {
	return h.one("words", "", "a text", "\"quoted\" <é> \u2028", "\xff\x00", string(make([]byte, 300)))
}

func (h *history) head(room string) store.Head {
	return must(h.stores[0].Load(h.ctx, room))(h.t, "load").Head
}

func (h *history) room() string {
	if len(h.rooms) == 0 {
		h.create()
	}
	return rapid.SampledFrom(h.rooms).Draw(h.t, "room")
}

// op is an operation with its room, at times an unknown one.
func (h *history) op() (string, store.Op) {
	if len(h.ops) == 0 {
		return h.room(), storetest.Op("none", "none", 1)
	}
	o := rapid.SampledFrom(h.ops).Draw(h.t, "op")
	return o.room, o.op
}

// opThat is an operation with its room: one that fits, if the room that op draws
// has any.
func (h *history) opThat(fits func(*store.Op) bool) (room, id string) {
	room, op := h.op()
	for _, o := range must(h.stores[0].Load(h.ctx, room))(h.t, "load").Ops {
		if fits(&o) {
			return room, o.ID
		}
	}
	return room, op.ID
}

func (h *history) create() {
	r := storetest.NewRoom("c1/"+h.key(), 150)
	r.Allotment = h.one("allotment", "a1", "a2")
	if h.each("room", func(s store.Store) error { return s.CreateRoom(h.ctx, r) }) {
		h.rooms = append(h.rooms, r.Room)
	}
}

func (h *history) commit() {
	room := h.room()
	head := h.head(room)
	c := event(h.t, head, fmt.Sprint("e", head.Rev+1), h.words())
	if rapid.Bool().Draw(h.t, "withheld") {
		c.Blobs = nil
	}
	said, blob := text(h.words() + " in a command")
	c.Row.Commands = canonical(h.t, []engine.Command{{Kind: engine.CmdSay, Say: &engine.Say{ID: "m", From: "ana", Text: said}}})
	c.Row = storetest.Seal(c.Row)
	c.Blobs = append(c.Blobs, blob)
	for i := range rapid.IntRange(0, 3).Draw(h.t, "ops") {
		c.Ops = append(c.Ops, storetest.Op(room, fmt.Sprint(head.Rev+1, i), h.amount()))
	}
	for _, o := range h.ops {
		if o.room == room && rapid.IntRange(0, 3).Draw(h.t, "settle") == 0 {
			r, b := h.outcome(o.op)
			c.Receipts, c.Blobs = []store.Receipt{r}, append(c.Blobs, b)
		}
	}
	if rapid.Bool().Draw(h.t, "say") {
		c.Outbox = []store.OutboxEntry{{ID: h.one("note", "n1", "n2", "n3"), Body: canonical(h.t, h.amount()%3)}}
	}
	if !h.each("commit", func(s store.Store) error { _, err := s.Commit(h.ctx, c); return err }) {
		return
	}
	for _, op := range c.Ops {
		h.ops = append(h.ops, roomOp{room, op})
		if rapid.IntRange(0, 3).Draw(h.t, "dispatch") > 0 {
			h.each("dispatch", func(s store.Store) error { return s.MarkDispatched(h.ctx, room, op.ID) })
		}
	}
}

func (h *history) outcome(op store.Op) (store.Receipt, store.Blob) {
	o := rapid.SampledFrom([]store.Outcome{store.OutcomeOK, store.OutcomeFailed, store.OutcomeUnknown}).Draw(h.t, "outcome")
	charged := int64(0)
	if o != store.OutcomeUnknown {
		charged = h.amount()
	}
	return result(h.t, op, o, charged, h.words())
}

func (h *history) receipt() {
	room, op := h.op()
	r, b := h.outcome(op)
	h.each("receipt "+string(r.Outcome), func(s store.Store) error { return s.PutReceipt(h.ctx, room, r, []store.Blob{b}) })
}

func (h *history) reconcile() {
	room, op := h.opThat(func(o *store.Op) bool { return o.Status == store.OpUncertain })
	r := store.Reconciliation{Executed: rapid.Bool().Draw(h.t, "executed"), Proof: "p"}
	if r.Executed {
		r.ChargedMicros, r.Usage = h.amount(), &engine.Usage{Output: 4}
	}
	h.each("reconcile", func(s store.Store) error { return s.Reconcile(h.ctx, room, op, r) })
}

func (h *history) effect() {
	room, op := h.op()
	e, b := effect(room, op.ID, rapid.IntRange(0, 1).Draw(h.t, "n"), h.words())
	h.each("effect", func(s store.Store) error { return s.PutEffect(h.ctx, e, []store.Blob{b}) })
}

func (h *history) snapshot() {
	room := h.room()
	head := h.head(room)
	snap := store.Snapshot{Rev: head.Rev, Machine: "test@1", State: storetest.State(head.Rev, fmt.Sprint("e", head.Rev)), Folds: []byte("folds")}
	h.each("snapshot", func(s store.Store) error { return s.PutSnapshot(h.ctx, room, snap) })
}

func (h *history) close() {
	room, word := h.room(), h.one("word", "completed", "gave_up")
	h.each("close", func(s store.Store) error { return s.CloseRoom(h.ctx, room, word, 99) })
}

// grantRoom acknowledges an operation that overran, where there is one.
func (h *history) grantRoom() {
	room, op := h.opThat(func(o *store.Op) bool { return o.Overran() && !o.Acknowledged })
	h.each("grant to a room", func(s store.Store) error {
		_, err := s.GrantRoom(h.ctx, room, 400, []string{op})
		return err
	})
}

func (h *history) deliver() {
	room := h.room()
	ids := []string{"n1"} // there or not
	for _, e := range must(h.stores[0].Outbox(h.ctx, room))(h.t, "outbox") {
		ids = append(ids, e.ID)
	}
	id := h.one("note", ids...)
	h.each("deliver", func(s store.Store) error { return s.Delivered(h.ctx, room, id) })
}

func (h *history) allot() {
	a := store.Allotment{
		ID: h.one("allotment", "a1", "a2", "a3", "a4", "a5", "a6", "a7"), Ceiling: h.one("ceiling", "main", "main", "main", "side"),
		Funds: sim, Campaign: h.campaign(), Sum: h.amount(), CampaignCap: rapid.SampledFrom([]int64{0, 90}).Draw(h.t, "cap"),
	}
	h.each("allot", func(s store.Store) error { _, err := s.Allot(h.ctx, a); return err })
}

func (h *history) release() {
	ids := []string{"a1", "a7"} // open or not
	for _, campaign := range []string{"c1", "c2", "c3"} {
		for _, a := range must(h.stores[0].Allotments(h.ctx, campaign))(h.t, "allotments") {
			if !a.Released {
				ids = append(ids, a.ID)
			}
		}
	}
	id, charged, keep := h.one("allotment", ids...), h.amount(), h.amount()/2
	h.each("release", func(s store.Store) error { _, err := s.Release(h.ctx, id, charged, keep); return err })
}

func (h *history) grant() {
	ack := []string{}
	for _, c := range must(h.stores[0].Ceilings(h.ctx))(h.t, "ceilings") {
		if c.Name == "main" {
			ack = c.Overruns
		}
	}
	total := rapid.Int64Range(100, 600).Draw(h.t, "total")
	h.each("grant", func(s store.Store) error { _, err := s.Grant(h.ctx, "main", sim, total, ack); return err })
}

func (h *history) put() {
	c := campaign(h.campaign(), h.one("name", "demo", "other"))
	status := h.one("status", "running", "done", "cancelled")
	h.each("campaign", func(s store.Store) error { return s.PutCampaign(h.ctx, c) })
	h.each("status", func(s store.Store) error { return s.SetCampaignStatus(h.ctx, c.ID, status, []byte("1")) })
}

func (h *history) trial() {
	key := h.key()
	x := store.Trial{
		Campaign: "c1", Key: key, Order: rapid.IntRange(0, 2).Draw(h.t, "order"), Arm: h.one("arm", "planner", "legacy"), Case: "lamp", Index: 1,
		Allotment: "a1", Status: h.one("status", store.TrialPlanned, store.TrialRunning, store.TrialClosed, store.TrialNotRun),
		Termination: "completed", TraceDigest: h.one("digest", "", "d"), Money: engine.Money{Limit: 150, Charged: h.amount()},
	}
	if rapid.Bool().Draw(h.t, "has a room") {
		x.Room = "c1/" + key
	}
	h.each("trial", func(s store.Store) error { return s.PutTrial(h.ctx, x) })
	if content := h.words(); rapid.Bool().Draw(h.t, "trace") {
		h.each("trace", func(s store.Store) error { return s.PutTrace(h.ctx, x.Campaign, x.Key, "d", []byte(content)) })
	}
}

func (h *history) seal() {
	body := canonical(h.t, map[string]any{"campaign": "c1", "n": h.amount()})
	h.each("seal", func(s store.Store) error { _, err := s.AppendSeal(h.ctx, "freeze", body); return err })
}

func (h *history) run() {
	for _, c := range []string{"main", "side"} {
		h.each("ceiling", func(s store.Store) error { _, err := s.EnsureCeiling(h.ctx, c, sim, 200); return err })
	}
	order := rapid.Permutation([]string{"c1", "c2", "c3"}).Draw(h.t, "campaigns")
	for _, c := range order[:rapid.IntRange(slices.Index(order, "c1")+1, 3).Draw(h.t, "made")] {
		h.each("campaign", func(s store.Store) error { return s.PutCampaign(h.ctx, campaign(c, "demo")) })
	}
	steps := []func(){
		h.create, h.commit, h.commit, h.commit, h.receipt, h.receipt, h.receipt, h.reconcile, h.reconcile, h.effect, h.effect, h.snapshot, h.close,
		h.grantRoom, h.deliver, h.allot, h.allot, h.allot, h.release, h.release, h.grant, h.put, h.trial, h.trial, h.seal,
	}
	for range rapid.IntRange(5, 60).Draw(h.t, "steps") {
		rapid.SampledFrom(steps).Draw(h.t, "step")()
	}
}

// sqliteEach says how many histories are done in memory for one that is done in
// SQLite too, which takes far longer.
const sqliteEach = 8

func TestAnyStoreComesBackFromItsArchive(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var runs atomic.Int64
	done := map[string]int{}
	rapid.Check(t, func(rt *rapid.T) {
		h := &history{t: rt, ctx: t.Context(), stores: []store.Store{memory.New(memory.Options{})}, count: func(what string) { done[what]++ }}
		if n := runs.Add(1); n%sqliteEach == 1 {
			file := must(sqlite.Open(t.Context(), filepath.Join(dir, fmt.Sprint(n, ".db")), sqlite.Options{Create: true}))(rt, "open SQLite")
			defer func() {
				if err := file.Close(); err != nil {
					rt.Fatalf("close: %v", err)
				}
			}()
			h.stores = append(h.stores, file)
		}
		h.run()
		id, others := "c1", []string{"c2", "c3"}
		o := archive.Options{WithholdBodies: rapid.Bool().Draw(rt, "bodies withheld")}
		var first folder
		for _, st := range h.stores {
			f := mustExport(t, st, id, o)
			if first == nil {
				first = f
			}
			if diff := first.diff(f); diff != "" {
				rt.Fatalf("the stores give other archives (-memory +sqlite):\n%s", diff)
			}
			a := mustOpen(t, f)
			r := reader{t: rt, ctx: t.Context(), st: st, a: a, withheld: o.WithholdBodies}
			r.compare(id, others...)
			if diff := f.diff(mustExport(t, a, id, archive.Options{})); diff != "" {
				rt.Fatalf("an archive of the archive differs (-first +second):\n%s", diff)
			}
		}
	})
	t.Logf("%d histories: %v", runs.Load(), done)
	for _, what := range []string{
		"room", "commit", "dispatch", "receipt ok", "receipt failed", "receipt unknown", "reconcile", "effect", "snapshot", "close", "grant to a room",
		"deliver", "allot", "release", "grant", "trial", "trace", "seal", "status",
	} {
		if done[what] == 0 {
			t.Errorf("no %s in %d histories", what, runs.Load())
		}
	}
}
