package storetest

import (
	"testing"

	"github.com/agentrooms/qualify/engine/store"
)

// Counts checks store.Inspector on an empty store: every kind of record is
// counted, once.
func Counts[S interface {
	store.Store
	store.Inspector
}](t *testing.T, s S) {
	t.Helper()
	ctx := t.Context()
	count := func(what string, want store.Counts) {
		t.Helper()
		equal(t, what, want, must[store.Counts](t, "counts")(s.Counts(ctx)))
	}
	count("empty", store.Counts{})
	r := newRoom(t, s, "r1", 100_000)
	newRoom(t, s, "r2", 100_000)
	count("rooms", store.Counts{Rooms: 2})
	op := r.dispatch("one", 1000)
	r.commit("two", func(c *store.Commit) { c.Blobs = []store.Blob{Blob("a text")} })
	r.commit("three", func(c *store.Commit) { c.Blobs = []store.Blob{Blob("a text")} })
	e := store.Effect{Room: "r1", Op: op.ID, Identity: "i", State: store.EffectIntent}
	wants(t, "effect", nil, s.PutEffect(ctx, e, nil))
	want := store.Counts{Rooms: 2, Revisions: 3, Operations: 1, Effects: 1, Blobs: 1}
	count("content of a room; equal blobs are one", want)
	wants(t, "campaign", nil, s.PutCampaign(ctx, campaign("c", "demo")))
	wants(t, "trial", nil, s.PutTrial(ctx, trial("k/planner/0", 1, "planner")))
	wants(t, "trial", nil, s.PutTrial(ctx, trial("k/legacy/0", 1, "legacy")))
	wants(t, "trace", nil, s.PutTrace(ctx, "c", "k/planner/0", "d", []byte("{}\n")))
	must[store.Ceiling](t, "ceiling")(s.EnsureCeiling(ctx, "owner", store.FundsReal, 5))
	want.Campaigns, want.Trials, want.Traces, want.LedgerRows = 1, 2, 1, 1
	count("records", want)
}
