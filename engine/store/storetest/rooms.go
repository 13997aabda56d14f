package storetest

import (
	"fmt"
	"testing"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

var roomCases = []testCase{
	{"CreateTwice", testCreateTwice},
	{"InvalidRooms", testInvalidRooms},
	{"UnknownRoomAndOperation", testUnknown},
	{"EverythingComesBack", testEverythingComesBack},
	{"RowsAreListedAlsoUnderASnapshot", testRows},
	{"LostCompareAndSetWritesNothing", testLostCAS},
	{"BrokenChainIsRefused", testBrokenChain},
	{"ValuesAreCopies", testCopies},
	{"BlobsAreStoredOnceAndMayBeAbsent", testBlobs},
	{"R57_OutboxDeliversAtLeastOnceInOrder", testOutbox},
	{"OutboxAndIndexAreUnique", testUnique},
	{"SnapshotIsOfTheHead", testSnapshot},
	{"TailBeginsAtTheSnapshot", testTail},
	{"CloseRoom", testCloseRoom},
	{"ListRoomsByPrefix", testListRooms},
}

func testCreateTwice(t *testing.T, s store.Store) {
	newRoom(t, s, "r", 10)
	wants(t, "create again", store.ErrExists, s.CreateRoom(t.Context(), NewRoom("r", 10)))
}

func testInvalidRooms(t *testing.T, s store.Store) {
	for _, change := range []func(*store.NewRoom){
		func(r *store.NewRoom) { r.Room = "" },
		func(r *store.NewRoom) { r.Money.Limit = -1 },
		func(r *store.NewRoom) { r.Funds = "play" },
	} {
		r := NewRoom("r", 1)
		change(&r)
		wants(t, fmt.Sprintf("create %+v", r), store.ErrInvalid, s.CreateRoom(t.Context(), r))
	}
	equal(t, "rooms", nil, must[[]store.Head](t, "list")(s.ListRooms(t.Context(), "")))
}

func testUnknown(t *testing.T, s store.Store) {
	ctx := t.Context()
	op := Op("none", "x", 1)
	calls := func(room string) map[string]error {
		_, load := s.Load(ctx, room)
		_, tail := s.LoadTail(ctx, room)
		_, ops := s.LoadOps(ctx, room, []string{"x"})
		_, rows := s.Rows(ctx, room, -1, 0)
		_, commit := s.Commit(ctx, Next(store.Head{Room: room, Rev: -1}, "x"))
		_, blobs := s.Blobs(ctx, room, []string{"d"})
		_, outbox := s.Outbox(ctx, room)
		_, lookup := s.Lookup(ctx, room, "s", []string{"k"})
		return map[string]error{
			"load": load, "load tail": tail, "load operations": ops, "rows": rows, "commit": commit, "blobs": blobs, "outbox": outbox, "lookup": lookup,
			"snapshot": s.PutSnapshot(ctx, room, store.Snapshot{}), "close": s.CloseRoom(ctx, room, "x", 0),
		}
	}
	for name, err := range calls("none") {
		wants(t, name+" of an unknown room", store.ErrNotFound, err)
	}
	newRoom(t, s, "r", 10)
	for _, room := range []string{"none", "r"} {
		wants(t, "dispatch", store.ErrNotFound, s.MarkDispatched(ctx, room, op.ID))
		wants(t, "receipt", store.ErrNotFound, s.PutReceipt(ctx, room, Receipt(op, store.OutcomeOK, 1), nil))
		wants(t, "reconcile", store.ErrNotFound, s.Reconcile(ctx, room, op.ID, store.Reconciliation{}))
		wants(t, "effect", store.ErrNotFound, s.PutEffect(ctx, effect(room, op.ID, 0), nil))
		wants(t, "delivered", store.ErrNotFound, s.Delivered(ctx, room, "n1"))
	}
}

func effect(room, op string, n int) store.Effect {
	return store.Effect{
		Room: room, Op: op, N: n, AtUS: 5, Identity: "sha256:1", Key: "k_1", Tool: "fix", Target: "i-17", Agent: "keeper",
		Args:  engine.Text{Blob: engine.Blob{Digest: "d1", Len: 2, Media: engine.MediaJSON}, S: "{}"},
		State: store.EffectConfirmed, Ack: "lost",
		Patch: engine.Text{Blob: engine.Blob{Digest: "d2", Len: 2, Media: engine.MediaJSON}},
	}
}

// testEverythingComesBack checks each field by a round trip.
func testEverythingComesBack(t *testing.T, s store.Store) {
	ctx := t.Context()
	r := newRoom(t, s, "r", 1000)
	want := store.Head{
		Room: "r", Rev: -1, Money: engine.Money{Limit: 1000}, Funds: store.FundsSimulated, Salt: salt, Machine: "test@1", Allotment: "a-r",
	}
	equal(t, "new room", &store.Loaded{Head: want}, r.load())

	model, tool := Op("r", "m1", 300), Op("r", "t1", 0)
	model.DeadlineUS = 77
	tool.Key.Kind, tool.Tool = engine.OpTool, "fix"
	first := Next(r.head, "one")
	first.Ops = []store.Op{model, tool}
	first.Blobs = []store.Blob{Blob("hello")}
	first.Outbox = []store.OutboxEntry{{ID: "n1", Body: []byte(`{"say":1}`)}}
	first.Index = []store.IndexEntry{{Space: "events", Key: "e1", Value: "0"}}
	done := must[*store.Committed](t, "commit")(s.Commit(ctx, first))
	want.Rev, want.Digest, want.StateDigest, want.Money.Held = 0, first.Row.Digest, first.Row.StateDigest, 300
	equal(t, "committed", &store.Committed{
		Head: want, Admissions: []store.Admission{{Op: model.ID, Reserved: true}, {Op: tool.ID, Reserved: true}},
	}, done)
	wants(t, "dispatch model", nil, s.MarkDispatched(ctx, "r", model.ID))
	wants(t, "dispatch tool", nil, s.MarkDispatched(ctx, "r", tool.ID))
	e := effect("r", tool.ID, 0)
	wants(t, "effect", nil, s.PutEffect(ctx, e, []store.Blob{Blob("args")}))

	r.head = done.Head
	rec := Receipt(model, store.OutcomeOK, 120)
	last := r.commit("two", func(c *store.Commit) { c.Receipts = []store.Receipt{rec} })
	want.Rev, want.Digest, want.StateDigest = 1, last.Head.Digest, last.Head.StateDigest
	want.Money.Charged, want.Money.Held = 120, 0

	model.Status, model.ChargedMicros, model.Request, model.Receipt, model.DispatchedAtUS = store.OpSettledOK, 120, nil, &rec, rec.StartUS
	tool.Status, tool.Ordinal = store.OpDispatched, 1
	e.Seq, e.Args.S = 1, ""
	second := Next(done.Head, "two").Row
	equal(t, "loaded", &store.Loaded{
		Head: want, Rows: []store.Row{first.Row, second}, Ops: []store.Op{model, tool}, Effects: []store.Effect{e},
	}, r.load())
	equal(t, "outbox", []store.OutboxEntry{{ID: "n1", Rev: 0, Body: []byte(`{"say":1}`)}}, must[[]store.OutboxEntry](t, "outbox")(s.Outbox(ctx, "r")))
	equal(t, "lookup", map[string]string{"e1": "0"}, must[map[string]string](t, "lookup")(s.Lookup(ctx, "r", "events", []string{"e1", "e2"})))
	equal(t, "other space", nil, must[map[string]string](t, "lookup")(s.Lookup(ctx, "r", "tasks", []string{"e1"})))
}

func testRows(t *testing.T, s store.Store) {
	r := newRoom(t, s, "r", 10)
	var want []store.Row
	for i := range 5 {
		note := fmt.Sprint(i)
		want = append(want, Next(r.head, note).Row)
		r.commit(note, nil)
		if i == 2 {
			wants(t, "snapshot", nil, s.PutSnapshot(t.Context(), "r", store.Snapshot{Rev: 2, Machine: "test@1", State: State(2, note)}))
		}
	}
	for _, c := range []struct {
		after int64
		limit int
		want  []store.Row
	}{{-1, 0, want}, {-9, 0, want}, {1, 0, want[2:]}, {1, 2, want[2:4]}, {4, 0, nil}, {9, 3, nil}} {
		got := must[[]store.Row](t, "rows")(s.Rows(t.Context(), "r", c.after, c.limit))
		equal(t, fmt.Sprintf("rows after %d, limit %d", c.after, c.limit), c.want, got)
	}
	equal(t, "rows after the snapshot", want[3:], r.load().Rows)
}

func testLostCAS(t *testing.T, s store.Store) {
	r := newRoom(t, s, "r", 1000)
	r.commit("one", nil)
	stale := store.Head{Room: "r", Rev: -1}
	wrongHead := r.head
	wrongHead.Digest = engine.Digest([]byte("another"))
	ahead := r.head
	ahead.Rev = 7
	before := r.load()
	for name, head := range map[string]store.Head{"stale revision": stale, "another head": wrongHead, "revision jump": ahead} {
		c := Next(head, "lost")
		c.Ops = []store.Op{Op("r", "lost", 10)}
		c.Blobs = []store.Blob{Blob("lost")}
		c.Outbox = []store.OutboxEntry{{ID: "lost", Body: []byte("{}")}}
		c.Index = []store.IndexEntry{{Space: "s", Key: "lost", Value: "1"}}
		_, err := s.Commit(t.Context(), c)
		wants(t, name, store.ErrConflict, err)
		equal(t, name+": room", before, r.load())
		equal(t, name+": blobs", nil, must[map[string][]byte](t, "blobs")(s.Blobs(t.Context(), "r", []string{c.Blobs[0].Digest})))
		equal(t, name+": outbox", nil, must[[]store.OutboxEntry](t, "outbox")(s.Outbox(t.Context(), "r")))
		equal(t, name+": index", nil, must[map[string]string](t, "lookup")(s.Lookup(t.Context(), "r", "s", []string{"lost"})))
	}
}

func testBrokenChain(t *testing.T, s store.Store) {
	r := newRoom(t, s, "r", 1000)
	r.commit("one", nil)
	before := r.load()
	for name, change := range map[string]func(*store.Commit){
		"revision jump": func(c *store.Commit) { c.Row.Rev++; c.Row = Seal(c.Row) },
		"wrong prev":    func(c *store.Commit) { c.Row.Prev = engine.Digest(nil); c.Row = Seal(c.Row) },
		"changed event": func(c *store.Commit) { c.Row.Event = []byte("{}") },
		"wrong digest":  func(c *store.Commit) { c.Row.Digest = engine.Digest(nil) },
		"commands digest": func(c *store.Commit) {
			c.Row.CommandsDigest = engine.Digest(nil)
			c.Row.Digest = store.RowDigest(c.Row)
		},
		"negative sum": func(c *store.Commit) { c.Ops = []store.Op{Op("r", "x", -1)} },
	} {
		c := Next(r.head, "two")
		change(&c)
		_, err := s.Commit(t.Context(), c)
		wants(t, name, store.ErrInvalid, err)
	}
	equal(t, "room", before, r.load())
}

func testCopies(t *testing.T, s store.Store) {
	r := newRoom(t, s, "r", 1000)
	c := Next(r.head, "one")
	c.Ops = []store.Op{Op("r", "x", 10)}
	c.Blobs = []store.Blob{Blob("content")}
	c.Outbox = []store.OutboxEntry{{ID: "n", Body: []byte("{}")}}
	r.head = must[*store.Committed](t, "commit")(s.Commit(t.Context(), c)).Head
	before := r.load()
	c.Row.Event[0], c.Ops[0].Request[0], c.Blobs[0].Content[0], c.Outbox[0].Body[0] = 'X', 'X', 'X', 'X'
	changed := r.load()
	changed.Rows[0].Event[0], changed.Ops[0].Request[0], changed.Head.Salt[0] = 'Y', 'Y', 'Y'
	blobs := must[map[string][]byte](t, "blobs")(s.Blobs(t.Context(), "r", []string{c.Blobs[0].Digest}))
	equal(t, "blob", "content", string(blobs[c.Blobs[0].Digest]))
	blobs[c.Blobs[0].Digest][0] = 'Z'
	again := must[map[string][]byte](t, "blobs")(s.Blobs(t.Context(), "r", []string{c.Blobs[0].Digest}))
	equal(t, "blob again", "content", string(again[c.Blobs[0].Digest]))
	equal(t, "outbox", "{}", string(must[[]store.OutboxEntry](t, "outbox")(s.Outbox(t.Context(), "r"))[0].Body))
	equal(t, "room", before, r.load())
}

func testBlobs(t *testing.T, s store.Store) {
	r := newRoom(t, s, "r", 10)
	newRoom(t, s, "other", 10)
	a, empty := Blob("a"), Blob("")
	r.commit("one", func(c *store.Commit) { c.Blobs = []store.Blob{a, empty, a} })
	again := a
	again.Content = []byte("not a")
	r.commit("two", func(c *store.Commit) { c.Blobs = []store.Blob{again} })
	got := must[map[string][]byte](t, "blobs")(s.Blobs(t.Context(), "r", []string{a.Digest, empty.Digest, "absent"}))
	equal(t, "blobs", map[string][]byte{a.Digest: []byte("a"), empty.Digest: {}}, got)
	if _, ok := got["absent"]; ok {
		t.Fatal("a missing blob is in the answer")
	}
	if b, ok := got[empty.Digest]; !ok || b == nil {
		t.Fatal("an empty blob is told as absent")
	}
	equal(t, "blobs of another room", nil, must[map[string][]byte](t, "blobs")(s.Blobs(t.Context(), "other", []string{a.Digest})))
}

func testOutbox(t *testing.T, s store.Store) {
	ctx := t.Context()
	r := newRoom(t, s, "r", 10)
	r.commit("one", func(c *store.Commit) {
		c.Outbox = []store.OutboxEntry{{ID: "z", Body: []byte("1")}, {ID: "a", Body: []byte("2")}}
	})
	r.commit("two", func(c *store.Commit) { c.Outbox = []store.OutboxEntry{{ID: "m", Body: []byte("3")}} })
	all := []store.OutboxEntry{{ID: "z", Rev: 0, Body: []byte("1")}, {ID: "a", Rev: 0, Body: []byte("2")}, {ID: "m", Rev: 1, Body: []byte("3")}}
	for range 2 { // not delivered: listed again
		equal(t, "outbox", all, must[[]store.OutboxEntry](t, "outbox")(s.Outbox(ctx, "r")))
	}
	wants(t, "delivered", nil, s.Delivered(ctx, "r", "a"))
	wants(t, "delivered twice", nil, s.Delivered(ctx, "r", "a"))
	equal(t, "outbox", []store.OutboxEntry{all[0], all[2]}, must[[]store.OutboxEntry](t, "outbox")(s.Outbox(ctx, "r")))
	r.commit("three", func(c *store.Commit) { c.Outbox = []store.OutboxEntry{{ID: "a", Body: []byte("2")}} })
	equal(t, "a delivered entry does not come back", []store.OutboxEntry{all[0], all[2]}, must[[]store.OutboxEntry](t, "outbox")(s.Outbox(ctx, "r")))
}

func testUnique(t *testing.T, s store.Store) {
	r := newRoom(t, s, "r", 100)
	entry := store.IndexEntry{Space: "tasks", Key: "t1", Value: "d1"}
	note := store.OutboxEntry{ID: "n1", Body: []byte("1")}
	op := Op("r", "x", 1)
	r.commit("one", func(c *store.Commit) {
		c.Index, c.Outbox, c.Ops = []store.IndexEntry{entry, entry}, []store.OutboxEntry{note, note}, []store.Op{op}
	})
	r.commit("equal entries", func(c *store.Commit) {
		c.Index = []store.IndexEntry{entry, {Space: "events", Key: "t1", Value: "d2"}}
		c.Outbox = []store.OutboxEntry{note}
	})
	before := r.load()
	otherOp := Op("r", "y", 1)
	for name, change := range map[string]func(*store.Commit){
		"index":             func(c *store.Commit) { c.Index = []store.IndexEntry{{Space: "tasks", Key: "t1", Value: "d9"}} },
		"index in commit":   func(c *store.Commit) { c.Index = []store.IndexEntry{{Key: "n", Value: "1"}, {Key: "n", Value: "2"}} },
		"outbox":            func(c *store.Commit) { c.Outbox = []store.OutboxEntry{{ID: "n1", Body: []byte("9")}} },
		"outbox in commit":  func(c *store.Commit) { c.Outbox = []store.OutboxEntry{{ID: "n2", Body: []byte("1")}, {ID: "n2"}} },
		"operation":         func(c *store.Commit) { c.Ops = []store.Op{op} },
		"operation doubled": func(c *store.Commit) { c.Ops = []store.Op{otherOp, otherOp} },
	} {
		c := Next(r.head, name)
		change(&c)
		_, err := s.Commit(t.Context(), c)
		wants(t, name, store.ErrExists, err)
		equal(t, name, before, r.load())
	}
}

func testSnapshot(t *testing.T, s store.Store) {
	ctx := t.Context()
	r := newRoom(t, s, "r", 10)
	wants(t, "snapshot before the first row", store.ErrConflict, s.PutSnapshot(ctx, "r", store.Snapshot{Rev: -1}))
	r.commit("one", nil)
	one := store.Snapshot{Rev: 0, Machine: "test@1", State: State(0, "one")}
	wants(t, "another state", store.ErrConflict, s.PutSnapshot(ctx, "r", store.Snapshot{Rev: 0, Machine: "test@1", State: State(0, "two")}))
	wants(t, "snapshot", nil, s.PutSnapshot(ctx, "r", one))
	equal(t, "snapshot", &one, r.load().Snapshot)
	r.commit("two", nil)
	wants(t, "stale revision", store.ErrConflict, s.PutSnapshot(ctx, "r", one))
	two := store.Snapshot{Rev: 1, Machine: "test@1", State: State(1, "two"), Folds: []byte("folds")}
	wants(t, "newer snapshot", nil, s.PutSnapshot(ctx, "r", two))
	l := r.load()
	equal(t, "newest snapshot", &two, l.Snapshot)
	equal(t, "rows after it", nil, l.Rows)
}

// What a restart reads does not contain what the snapshot covers; single
// operations and their effects are found by id.
func testTail(t *testing.T, s store.Store) {
	ctx := t.Context()
	r := newRoom(t, s, "r", 1000)
	tail := func() *store.Loaded { return must[*store.Loaded](t, "load tail")(s.LoadTail(ctx, "r")) }
	equal(t, "tail of an empty room", r.load(), tail())
	a := r.dispatch("a", 100)
	wants(t, "effect", nil, s.PutEffect(ctx, effect("r", a.ID, 0), nil))
	equal(t, "tail without a snapshot", r.load(), tail())
	r.commit("settled", func(c *store.Commit) { c.Receipts = []store.Receipt{Receipt(a, store.OutcomeOK, 60)} })
	snap := store.Snapshot{Rev: r.head.Rev, Machine: "test@1", State: State(r.head.Rev, "settled"), Folds: []byte{0, 1, 2}}
	wants(t, "snapshot", nil, s.PutSnapshot(ctx, "r", snap))
	all := must[[]store.Row](t, "rows")(s.Rows(ctx, "r", -1, 0))
	equal(t, "tail at the snapshot", &store.Loaded{Head: r.head, Snapshot: &snap, Rows: all[snap.Rev:]}, tail())
	b, c := r.dispatch("b", 20), r.dispatch("c", 30)
	wants(t, "effect", nil, s.PutEffect(ctx, effect("r", c.ID, 0), nil))
	wants(t, "effect", nil, s.PutEffect(ctx, effect("r", b.ID, 3), nil)) // of any number
	wants(t, "effect", nil, s.PutEffect(ctx, effect("r", c.ID, 1), nil))
	all = must[[]store.Row](t, "rows")(s.Rows(ctx, "r", -1, 0))
	equal(t, "tail behind the snapshot", &store.Loaded{Head: r.head, Snapshot: &snap, Rows: all[snap.Rev:]}, tail())

	l := r.load()
	some := func(ids ...string) *store.Loaded { return must[*store.Loaded](t, "load ops")(s.LoadOps(ctx, "r", ids)) }
	equal(t, "no operations", &store.Loaded{Head: l.Head}, some())
	equal(t, "all operations", &store.Loaded{Head: l.Head, Ops: l.Ops, Effects: l.Effects}, some(c.ID, "unknown", a.ID, c.ID, b.ID))
	equal(t, "one operation", &store.Loaded{Head: l.Head, Ops: l.Ops[1:2], Effects: l.Effects[2:3]}, some(b.ID))

	// A snapshot without folds takes the place of the one with them.
	bare := store.Snapshot{Rev: r.head.Rev, Machine: "test@1", State: State(r.head.Rev, "reserve c")}
	wants(t, "bare snapshot", nil, s.PutSnapshot(ctx, "r", bare))
	equal(t, "bare snapshot", &bare, tail().Snapshot)
}

func testCloseRoom(t *testing.T, s store.Store) {
	ctx := t.Context()
	r := newRoom(t, s, "r", 1000)
	op, late := r.dispatch("a", 100), Op("r", "b", 100)
	r.commit("more", func(c *store.Commit) { c.Ops = []store.Op{late} })
	wants(t, "close", nil, s.CloseRoom(ctx, "r", "completed", 42))
	wants(t, "close again", nil, s.CloseRoom(ctx, "r", "completed", 43))
	wants(t, "close otherwise", store.ErrConflict, s.CloseRoom(ctx, "r", "gave_up", 42))
	h := r.load().Head
	if !h.Closed || h.Termination != "completed" || h.ClosedAtUS != 42 {
		t.Fatalf("closed head: %+v", h)
	}
	_, err := s.Commit(ctx, Next(r.head, "late"))
	wants(t, "commit", store.ErrClosed, err)
	wants(t, "dispatch", store.ErrClosed, s.MarkDispatched(ctx, "r", late.ID))
	wants(t, "effect", store.ErrClosed, s.PutEffect(ctx, effect("r", op.ID, 0), nil))
	wants(t, "a late receipt is settled", nil, s.PutReceipt(ctx, "r", Receipt(op, store.OutcomeOK, 60), nil))
	r.money("after the late receipt", 60, 100, 0)
}

func testListRooms(t *testing.T, s store.Store) {
	for _, id := range []string{"b/2", "a/1", "b/10", "B/1", "b%", "bé", "b"} {
		newRoom(t, s, id, 1)
	}
	for prefix, want := range map[string][]string{
		"": {"B/1", "a/1", "b", "b%", "b/10", "b/2", "bé"}, "b": {"b", "b%", "b/10", "b/2", "bé"}, "b/": {"b/10", "b/2"}, "b%": {"b%"},
		"bé": {"bé"}, "c": nil,
	} {
		var got []string
		for _, h := range must[[]store.Head](t, "list")(s.ListRooms(t.Context(), prefix)) {
			got = append(got, h.Room)
		}
		equal(t, "rooms with prefix "+prefix, want, got)
	}
}
