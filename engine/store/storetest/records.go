package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

var recordCases = []testCase{
	{"Campaigns", testCampaigns},
	{"TrialsEndOnce", testTrials},
	{"TracesAreStoredOnce", testTraces},
	{"R48_LeaseIsExclusive", testLease},
	{"R48_ExpiredLeaseIsTakenWithTheNextGeneration", testLeaseExpiry},
	{"LeaseHasOneHolder", testLeaseRace},
	{"SealLogIsAChain", testSealLog},
	{"SealIsAppendedOnlyBehindTheRowThatWasRead", testSealAfter},
	{"OneOfManyAppendsBehindARow", testSealAfterRace},
	{"StatsCountWrites", testStats},
}

func campaign(id, name string) store.Campaign {
	return store.Campaign{
		ID: id, Name: name, PlanDigest: "sha256:p", Registration: "sha256:r", Plan: []byte(`{"seed":7}`), Status: "running",
	}
}

func testCampaigns(t *testing.T, s store.Store) {
	ctx := t.Context()
	_, err := s.Campaign(ctx, "c_1")
	wants(t, "absent", store.ErrNotFound, err)
	wants(t, "status of an absent one", store.ErrNotFound, s.SetCampaignStatus(ctx, "c_1", "done", nil))
	one, two := campaign("c_2", "demo"), campaign("c_1", "other")
	wants(t, "put", nil, s.PutCampaign(ctx, one))
	wants(t, "put", nil, s.PutCampaign(ctx, two))
	wants(t, "equal", nil, s.PutCampaign(ctx, one))
	changed := one
	changed.Plan = []byte(`{"seed":8}`)
	wants(t, "different", store.ErrExists, s.PutCampaign(ctx, changed))
	one.CreatedSeq, two.CreatedSeq = 1, 2
	equal(t, "campaign", one, must[store.Campaign](t, "campaign")(s.Campaign(ctx, "c_2")))
	equal(t, "all, oldest first", []store.Campaign{one, two}, must[[]store.Campaign](t, "list")(s.Campaigns(ctx, "")))
	equal(t, "by name", []store.Campaign{two}, must[[]store.Campaign](t, "list")(s.Campaigns(ctx, "other")))
	wants(t, "status", nil, s.SetCampaignStatus(ctx, "c_2", "stopped", []byte(`{"n":1}`)))
	wants(t, "status without totals", nil, s.SetCampaignStatus(ctx, "c_2", "done", nil))
	one.Status, one.Totals = "done", []byte(`{"n":1}`)
	equal(t, "totals stay", one, must[store.Campaign](t, "campaign")(s.Campaign(ctx, "c_2")))
	wants(t, "a put on resume keeps the status", nil, s.PutCampaign(ctx, campaign("c_2", "demo")))
	equal(t, "campaign", one, must[store.Campaign](t, "campaign")(s.Campaign(ctx, "c_2")))
}

func trial(key string, order int, arm string) store.Trial {
	return store.Trial{
		Campaign: "c", Key: key, Order: order, Arm: arm, Case: "case", Index: 2, Room: "room/" + key, Allotment: "a", Status: store.TrialPlanned,
		Money: engine.Money{Limit: 80_000},
	}
}

func testTrials(t *testing.T, s store.Store) {
	ctx := t.Context()
	a, b, c := trial("k/planner/0", 1, "planner"), trial("k/legacy/0", 1, "legacy"), trial("z/planner/0", 0, "planner")
	wants(t, "without a campaign", store.ErrNotFound, s.PutTrial(ctx, a))
	wants(t, "campaign", nil, s.PutCampaign(ctx, campaign("c", "demo")))
	for _, x := range []store.Trial{a, b, c, a} {
		wants(t, "put", nil, s.PutTrial(ctx, x))
	}
	equal(t, "by order and arm", []store.Trial{c, b, a}, must[[]store.Trial](t, "trials")(s.Trials(ctx, "c")))
	a.Status = store.TrialRunning
	wants(t, "running", nil, s.PutTrial(ctx, a))
	a.Status, a.Termination, a.TraceDigest, a.Money.Charged, a.Money.Held, a.Money.Unknown = store.TrialClosed, "completed", "d", 5, 3, 2
	wants(t, "closed", nil, s.PutTrial(ctx, a))
	wants(t, "closed again", nil, s.PutTrial(ctx, a))
	changed := a
	changed.Termination = "gave_up"
	wants(t, "changed after the end", store.ErrConflict, s.PutTrial(ctx, changed))
	c.Status = store.TrialNotRun
	wants(t, "not run", nil, s.PutTrial(ctx, c))
	changed = c
	changed.Status = store.TrialRunning
	wants(t, "running after not run", store.ErrConflict, s.PutTrial(ctx, changed))
	equal(t, "trials", []store.Trial{c, b, a}, must[[]store.Trial](t, "trials")(s.Trials(ctx, "c")))
	equal(t, "of another campaign", nil, must[[]store.Trial](t, "trials")(s.Trials(ctx, "d")))
}

func testTraces(t *testing.T, s store.Store) {
	ctx := t.Context()
	_, _, err := s.Trace(ctx, "c", "k")
	wants(t, "absent", store.ErrNotFound, err)
	wants(t, "without a campaign", store.ErrNotFound, s.PutTrace(ctx, "c", "k", "d", []byte("x")))
	wants(t, "campaign", nil, s.PutCampaign(ctx, campaign("c", "demo")))
	content := []byte("line\n")
	wants(t, "put", nil, s.PutTrace(ctx, "c", "k", "d", content))
	wants(t, "equal", nil, s.PutTrace(ctx, "c", "k", "d", content))
	wants(t, "different digest", store.ErrExists, s.PutTrace(ctx, "c", "k", "e", content))
	wants(t, "different content", store.ErrExists, s.PutTrace(ctx, "c", "k", "d", []byte("other")))
	content[0] = 'X'
	digest, got, err := s.Trace(ctx, "c", "k")
	wants(t, "trace", nil, err)
	equal(t, "trace", "d line\n", digest+" "+string(got))
}

func testLease(t *testing.T, s store.Store) {
	ctx := t.Context()
	const long = time.Hour
	l := must[store.Lease](t, "acquire")(s.AcquireLease(ctx, "c", "t1", "me", long))
	if l.Name != "c" || l.Token != "t1" || l.Owner != "me" || l.Generation != 1 {
		t.Fatalf("lease: %+v", l)
	}
	again := must[store.Lease](t, "acquire again")(s.AcquireLease(ctx, "c", "t1", "me", long))
	equal(t, "same generation", int64(1), again.Generation)
	if again.ExpiresAt.Before(l.ExpiresAt) {
		t.Fatalf("renewal shortened the lease from %s to %s", l.ExpiresAt, again.ExpiresAt)
	}
	holder, err := s.AcquireLease(ctx, "c", "t2", "you", long)
	wants(t, "held", store.ErrExists, err)
	equal(t, "who holds it", again, holder)
	_, err = s.RenewLease(ctx, "c", "t2", long)
	wants(t, "renew with another token", store.ErrLeaseLost, err)
	wants(t, "release with another token", store.ErrLeaseLost, s.ReleaseLease(ctx, "c", "t2"))
	equal(t, "renew", int64(1), must[store.Lease](t, "renew")(s.RenewLease(ctx, "c", "t1", long)).Generation)
	wants(t, "release", nil, s.ReleaseLease(ctx, "c", "t1"))
	wants(t, "release again", store.ErrLeaseLost, s.ReleaseLease(ctx, "c", "t1"))
	_, err = s.RenewLease(ctx, "c", "t1", long)
	wants(t, "renew after release", store.ErrLeaseLost, err)
	equal(t, "next generation", int64(2), must[store.Lease](t, "acquire")(s.AcquireLease(ctx, "c", "t2", "you", long)).Generation)
	equal(t, "another name", int64(1), must[store.Lease](t, "acquire")(s.AcquireLease(ctx, "d", "t3", "me", long)).Generation)
	_, err = s.AcquireLease(ctx, "c", "", "me", long)
	wants(t, "no token", store.ErrInvalid, err)
	_, err = s.AcquireLease(ctx, "c", "t", "me", 0)
	wants(t, "no time", store.ErrInvalid, err)
}

func testLeaseExpiry(t *testing.T, s store.Store) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	must[store.Lease](t, "acquire")(s.AcquireLease(ctx, "c", "t1", "me", time.Millisecond))
	for {
		l, err := s.AcquireLease(ctx, "c", "t2", "you", time.Hour)
		if err == nil {
			equal(t, "generation", int64(2), l.Generation)
			break
		}
		wants(t, "before it expires", store.ErrExists, err)
	}
	_, err := s.RenewLease(ctx, "c", "t1", time.Hour)
	wants(t, "the old token is fenced off", store.ErrLeaseLost, err)
	wants(t, "the old token is fenced off", store.ErrLeaseLost, s.ReleaseLease(ctx, "c", "t1"))
}

func testLeaseRace(t *testing.T, s store.Store) {
	won := 0
	for _, err := range together(5, func(i int) error {
		_, err := s.AcquireLease(t.Context(), "c", fmt.Sprint("t", i), "me", time.Hour)
		return err
	}) {
		if err == nil {
			won++
		} else if !errors.Is(err, store.ErrExists) {
			t.Fatal(err)
		}
	}
	equal(t, "holders", 1, won)
}

func testSealLog(t *testing.T, s store.Store) {
	ctx := t.Context()
	errs := together(5, func(i int) error {
		_, err := s.AppendSeal(ctx, "freeze", fmt.Appendf(nil, `{"n":%d}`, i))
		return err
	})
	for _, err := range errs {
		wants(t, "append", nil, err)
	}
	last := must[store.SealRow](t, "append")(s.AppendSeal(ctx, "open", nil))
	log := must[[]store.SealRow](t, "log")(s.SealLog(ctx))
	equal(t, "length", 6, len(log))
	equal(t, "last", last, log[5])
	prev := ""
	for i, r := range log {
		if r.N != int64(i)+1 || r.Prev != prev || store.SealDigest(r) != r.Digest {
			t.Fatalf("seal log breaks at row %d: %+v", i+1, r)
		}
		prev = r.Digest
	}
	log[0].Body[0] = 'X'
	equal(t, "copies", byte('{'), must[[]store.SealRow](t, "log")(s.SealLog(ctx))[0].Body[0])
}

func testSealAfter(t *testing.T, s store.Store) {
	ctx := t.Context()
	_, err := s.AppendSealAfter(ctx, "0", "open", nil)
	wants(t, "behind a row that is not there", store.ErrConflict, err)
	one := must[store.SealRow](t, "first")(s.AppendSealAfter(ctx, "", "open", []byte("{}")))
	two := must[store.SealRow](t, "second")(s.AppendSealAfter(ctx, one.Digest, "open", []byte("{}")))
	three := must[store.SealRow](t, "plain")(s.AppendSeal(ctx, "use", nil))
	for what, head := range map[string]string{"no row": "", "the first": one.Digest, "the second": two.Digest, "none of them": "0"} {
		r, err := s.AppendSealAfter(ctx, head, "open", []byte("{}"))
		wants(t, "behind "+what, store.ErrConflict, err)
		equal(t, "row of a refusal", store.SealRow{}, r)
	}
	body := []byte("{}")
	four := must[store.SealRow](t, "fourth")(s.AppendSealAfter(ctx, three.Digest, "open", body))
	body[0] = 'X'
	four.Body[1] = 'X'
	want := store.SealRow{N: 4, Kind: "open", Body: []byte("{}"), Prev: three.Digest, Digest: four.Digest}
	equal(t, "chain", store.SealDigest(want), four.Digest)
	equal(t, "log", []store.SealRow{one, two, three, want}, must[[]store.SealRow](t, "log")(s.SealLog(ctx)))
}

// testSealAfterRace: of many that read the same log and append behind it one
// does, though others append to it without a condition.
func testSealAfterRace(t *testing.T, s store.Store) {
	ctx := t.Context()
	rows, head := 0, ""
	for round := range 10 {
		won := 0
		for _, err := range together(6, func(i int) error {
			if i == 5 && round%2 == 1 {
				_, err := s.AppendSeal(ctx, "use", nil)
				return err
			}
			_, err := s.AppendSealAfter(ctx, head, "open", fmt.Appendf(nil, "[%d,%d]", round, i))
			return err
		}) {
			if err == nil {
				won++
			} else if !errors.Is(err, store.ErrConflict) {
				t.Fatal(err)
			}
		}
		if won != 1 && (round%2 == 0 || won != 2) {
			t.Fatalf("round %d: %d appended", round, won)
		}
		rows += won
		log := must[[]store.SealRow](t, "log")(s.SealLog(ctx))
		equal(t, "rows", rows, len(log))
		head = log[rows-1].Digest
	}
}

func testStats(t *testing.T, s store.Store) {
	before := must[store.Stats](t, "stats")(s.Stats(t.Context()))
	r := newRoom(t, s, "r", 1)
	r.commit("one", nil)
	after := must[store.Stats](t, "stats")(s.Stats(t.Context()))
	equal(t, "writes", before.Writes+2, after.Writes)
	if n := after.Commits - before.Commits; n < 1 || n > 2 {
		t.Fatalf("%d commits for two writes", n)
	}
	if after.Detail["driver"] == "" {
		t.Fatal("no driver named")
	}
}
