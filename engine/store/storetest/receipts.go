package storetest

import (
	"testing"

	"github.com/agentrooms/qualify/engine/store"
)

var receiptCases = []testCase{
	{"R46_EqualReceiptIsANoOpAnotherAConflict", testReceiptRepeats},
	{"R45_ReceiptOfAnotherRequestIsAConflict", testRequestDigest},
	{"R45_DispatchMarkIsSetOnce", testDispatchTwice},
	{"EffectsAreAppendOnly", testEffects},
}

func testReceiptRepeats(t *testing.T, s store.Store) {
	ctx := t.Context()
	r := newRoom(t, s, "r", 100)
	a := r.dispatch("a", 50)
	rec := Receipt(a, store.OutcomeOK, 30)
	wants(t, "receipt", nil, s.PutReceipt(ctx, "r", rec, []store.Blob{Blob("reply")}))
	wants(t, "equal receipt", nil, s.PutReceipt(ctx, "r", rec, nil))
	r.commit("equal receipt in a commit", func(c *store.Commit) { c.Receipts = []store.Receipt{rec, rec} })
	r.money("charged once", 30, 0, 0)
	for name, change := range map[string]func(*store.Receipt){
		"charge":  func(x *store.Receipt) { x.ChargedMicros++ },
		"outcome": func(x *store.Receipt) { x.Outcome = store.OutcomeFailed },
		"result":  func(x *store.Receipt) { x.Result = []byte("{}") },
		"usage":   func(x *store.Receipt) { x.Usage = nil },
		"time":    func(x *store.Receipt) { x.FinishUS++ },
	} {
		other := rec
		change(&other)
		wants(t, "another "+name, store.ErrReceiptMismatch, s.PutReceipt(ctx, "r", other, nil))
		c := Next(r.head, "another "+name)
		c.Receipts = []store.Receipt{other}
		_, err := s.Commit(ctx, c)
		wants(t, "another "+name+" in a commit", store.ErrReceiptMismatch, err)
	}
	got := r.op(a.ID)
	equal(t, "receipt", &rec, got.Receipt)
	equal(t, "request is dropped", nil, got.Request)
	b := Blob("reply")
	equal(t, "blob", map[string][]byte{b.Digest: b.Content}, must[map[string][]byte](t, "blobs")(s.Blobs(ctx, "r", []string{b.Digest})))
}

func testRequestDigest(t *testing.T, s store.Store) {
	r := newRoom(t, s, "r", 100)
	a := r.dispatch("a", 50)
	rec := Receipt(a, store.OutcomeOK, 30)
	rec.RequestDigest = "another"
	wants(t, "receipt", store.ErrReceiptMismatch, s.PutReceipt(t.Context(), "r", rec, nil))
	r.money("hold stays", 0, 50, 0)
	rec.RequestDigest, rec.Outcome = a.RequestDigest, "perhaps"
	wants(t, "unknown word", store.ErrInvalid, s.PutReceipt(t.Context(), "r", rec, nil))
}

func testDispatchTwice(t *testing.T, s store.Store) {
	r := newRoom(t, s, "r", 100)
	a := r.dispatch("a", 50)
	wants(t, "again", store.ErrAlreadyDispatched, s.MarkDispatched(t.Context(), "r", a.ID))
	wants(t, "receipt", nil, s.PutReceipt(t.Context(), "r", Receipt(a, store.OutcomeOK, 1), nil))
	wants(t, "after the receipt", store.ErrAlreadyDispatched, s.MarkDispatched(t.Context(), "r", a.ID))
}

func testEffects(t *testing.T, s store.Store) {
	ctx := t.Context()
	r := newRoom(t, s, "r", 100)
	a, b := r.dispatch("a", 0), r.dispatch("b", 0)
	intent, done, other := effect("r", a.ID, 0), effect("r", a.ID, 1), effect("r", b.ID, 0)
	intent.State = store.EffectIntent
	for _, e := range []store.Effect{intent, other, done, intent, done} {
		wants(t, "effect", nil, s.PutEffect(ctx, e, []store.Blob{Blob("patch")}))
	}
	changed := done
	changed.State = store.EffectRefuted
	wants(t, "another record", store.ErrReceiptMismatch, s.PutEffect(ctx, changed, nil))
	var got []string
	for i, e := range r.load().Effects {
		equal(t, "seq", int64(i)+1, e.Seq)
		got = append(got, e.Op+string(e.State))
	}
	equal(t, "order of commit", []string{a.ID + "intent", b.ID + "confirmed", a.ID + "confirmed"}, got)
}
