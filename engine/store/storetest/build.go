package storetest

import (
	"fmt"
	"testing"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

// Salt is the salt of every room the suite makes.
var salt = []byte("salt")

// NewRoom describes a room of simulated funds.
func NewRoom(id string, limit int64) store.NewRoom {
	return store.NewRoom{
		Room: id, Salt: salt, Money: engine.Money{Limit: limit}, Funds: store.FundsSimulated, Machine: "test@1", Allotment: "a-" + id,
	}
}

// Seal fills the digests of a row.
func Seal(r store.Row) store.Row {
	r.CommandsDigest = engine.Digest(r.Commands)
	r.Digest = store.RowDigest(r)
	return r
}

// State is the state that the row of Next leads to.
func State(rev int64, note string) []byte {
	return fmt.Appendf(nil, `{"note":%q,"rev":%d}`, note, rev)
}

// Next is a valid commit on head without operations.
func Next(head store.Head, note string) store.Commit {
	rev := head.Rev + 1
	return store.Commit{
		Room: head.Room, ExpectRev: head.Rev, ExpectHead: head.Digest,
		Row: Seal(store.Row{
			Rev: rev, Machine: "test@1", Event: fmt.Appendf(nil, `{"id":%q}`, note), Commands: []byte("[]"),
			StateDigest: engine.Digest(State(rev, note)), Prev: head.Digest,
		}),
	}
}

// Blob is content named by its digest.
func Blob(content string) store.Blob {
	return store.Blob{Digest: engine.BlobDigest(salt, []byte(content)), Media: engine.MediaText, Content: []byte(content)}
}

// Op is a model operation that reserves the given micros.
func Op(room, cause string, reserved int64) store.Op {
	key := engine.OpKey{Kind: engine.OpAgent, Cause: cause, Attempt: 1, Ordinal: 2}
	request := fmt.Appendf(nil, `{"cause":%q}`, cause)
	return store.Op{
		ID: engine.OperationID(room, key), Key: key, Agent: "keeper", Role: engine.RoleAgent, Task: "t1",
		Request: request, RequestDigest: engine.Digest(request), ReservedMicros: reserved, Status: store.OpReserved,
	}
}

// Receipt is a receipt for op.
func Receipt(op store.Op, outcome store.Outcome, charged int64) store.Receipt {
	r := store.Receipt{
		Op: op.ID, RequestDigest: op.RequestDigest, Outcome: outcome, StartUS: 1000, FinishUS: 2500, ChargedMicros: charged,
		Result: []byte(`{"text":"ok"}`),
	}
	if outcome != store.OutcomeUnknown {
		r.Usage, r.UsageSource = &engine.Usage{Input: 7, Output: 3}, "actual"
	}
	return r
}

// room drives one room through its store.
type room struct {
	t    *testing.T
	s    store.Store
	head store.Head
}

func newRoom(t *testing.T, s store.Store, id string, limit int64) *room {
	t.Helper()
	wants(t, "create room", nil, s.CreateRoom(t.Context(), NewRoom(id, limit)))
	return &room{t: t, s: s, head: must[*store.Loaded](t, "load")(s.Load(t.Context(), id)).Head}
}

// commit commits a row with the changes that edit makes, which must succeed.
func (r *room) commit(note string, edit func(*store.Commit)) *store.Committed {
	r.t.Helper()
	c := Next(r.head, note)
	if edit != nil {
		edit(&c)
	}
	done := must[*store.Committed](r.t, "commit "+note)(r.s.Commit(r.t.Context(), c))
	r.head = done.Head
	return done
}

// reserve commits one operation and marks it dispatched.
func (r *room) dispatch(cause string, reserved int64) store.Op {
	r.t.Helper()
	op := Op(r.head.Room, cause, reserved)
	done := r.commit("reserve "+cause, func(c *store.Commit) { c.Ops = []store.Op{op} })
	equal(r.t, "admission", []store.Admission{{Op: op.ID, Reserved: true}}, done.Admissions)
	wants(r.t, "dispatch", nil, r.s.MarkDispatched(r.t.Context(), r.head.Room, op.ID))
	return op
}

func (r *room) load() *store.Loaded {
	r.t.Helper()
	return must[*store.Loaded](r.t, "load")(r.s.Load(r.t.Context(), r.head.Room))
}

func (r *room) money(what string, charged, held, unknown int64) {
	r.t.Helper()
	h := r.load().Head
	equal(r.t, what, engine.Money{Limit: h.Money.Limit, Charged: charged, Held: held, Unknown: unknown}, h.Money)
}

func (r *room) op(id string) store.Op {
	r.t.Helper()
	for _, op := range r.load().Ops {
		if op.ID == id {
			return op
		}
	}
	r.t.Fatalf("operation %s is not in the room", id)
	return store.Op{}
}
