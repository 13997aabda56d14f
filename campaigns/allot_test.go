package campaigns

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentrooms/qualify/engine/store"
)

// sharedPlan is talkPlan on the shared ceiling "pool", with another seed so
// that it is another campaign.
func sharedPlan(t *testing.T, seed, ceiling string) *Plan {
	t.Helper()
	p := talkPlan(t, ceiling)
	return mustResolve(t, func(s string) string {
		for _, r := range [][2]string{
			{"  - {name: selective, mode: selective, idempotency: on}\n", "  - {name: second, mode: legacy, idempotency: on}\n"},
			{"  - {name: planner, mode: planner, idempotency: on, options: {reviewers: 1}}\n", ""},
			{`ceiling_usd: "50.00"`, `ceiling_usd: "` + ceiling + "\"\nceiling: pool"},
			{`include: ["*"]`, `include: ["ledger", "errand"]`},
			{"trials: 5", "trials: 2"},
			{"seed: 7", "seed: " + seed},
		} {
			s = strings.Replace(s, r[0], r[1], 1)
		}
		return s
	}, func(in *ResolveInput) { in.CodeVersion = p.PlanDigest })
}

// hold takes the whole of a shared ceiling for another campaign.
func hold(t *testing.T, st store.Store, limit, sum int64) store.Allotment {
	t.Helper()
	if _, err := st.EnsureCeiling(t.Context(), "pool", store.FundsSimulated, limit); err != nil {
		t.Fatal(err)
	}
	a, err := st.Allot(t.Context(), store.Allotment{ID: "c_other/x/0", Ceiling: "pool", Funds: store.FundsSimulated, Campaign: "c_other", Sum: sum})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// watched tells when the head of the queue looks whether money has come.
type watched struct {
	store.Store
	looks chan struct{}
}

func (w *watched) OpenAllotments(ctx context.Context, name string, funds store.Funds) (store.Ceiling, []store.Allotment, error) {
	select {
	case w.looks <- struct{}{}:
	default:
	}
	return w.Store.OpenAllotments(ctx, name, funds)
}

// The head of the queue waits for what another process that lives still holds,
// and goes on as soon as it is released.
func TestAllotmentWaitsForAnotherCampaign(t *testing.T) {
	t.Parallel()
	p := sharedPlan(t, "7", "50")
	st, _ := leaseStore(t)
	a := hold(t, st, 50_000_000, 49_950_000)
	if _, err := st.AcquireLease(t.Context(), LeaseName("c_other"), "x", "the other", time.Hour); err != nil {
		t.Fatal(err)
	}
	spy := &watched{Store: st, looks: make(chan struct{}, 100)}
	first := start(t.Context(), t, p, spy, func(r *Runner) { r.Owner = Owner{Token: "t1", Name: "me"} })
	for range 4 {
		select {
		case got := <-first:
			t.Fatalf("did not wait: %v", got.err)
		case <-spy.looks:
		}
	}
	if _, err := st.Release(t.Context(), a.ID, 1000, 0); err != nil {
		t.Fatal(err)
	}
	got := <-first
	if got.err != nil {
		t.Fatal(got.err)
	}
	if got.out.Waits.Count < 1 || got.out.Waits.Longest < 60*time.Millisecond {
		t.Errorf("waits %+v; want at least one of 20, 40 and 80 ms together", got.out.Waits)
	}
}

// What a campaign holds that nobody runs is not waited for: the run stops, and
// says who holds it and which grant lifts the limit.
func TestAllotmentsOfTheDeadAreNotWaitedFor(t *testing.T) {
	t.Parallel()
	p := sharedPlan(t, "7", "50")
	st, c := leaseStore(t)
	hold(t, st, 2_000_000, 1_900_000)
	if _, err := st.AcquireLease(t.Context(), LeaseName("c_other"), "x", "the other", time.Minute); err != nil {
		t.Fatal(err)
	}
	c.ahead.Add(int64(time.Hour))
	var calls atomic.Int64
	got := runTalk(t.Context(), t, p, st, &calls, func(r *Runner) { r.Owner = Owner{Token: "t1", Name: "me"} })
	var limit *LimitError
	if !errors.As(got.err, &limit) {
		t.Fatalf("error %v; want a LimitError", got.err)
	}
	for _, want := range []string{"stopped by ceiling pool", "0.10 of 2.00 USD is left", "1.90 is held by campaign c_other"} {
		if !strings.Contains(got.err.Error(), want) {
			t.Errorf("%q does not say %q", got.err, want)
		}
	}
	if limit.Grant == nil || limit.Grant.Ceiling != "pool" || limit.Grant.Funds != store.FundsSimulated {
		t.Fatalf("grant %+v", limit.Grant)
	}
	if _, err := st.Grant(t.Context(), "pool", store.FundsSimulated, limit.Grant.Total, nil); err != nil {
		t.Fatal(err)
	}
	if again := runTalk(t.Context(), t, p, st, &calls, func(r *Runner) { r.Owner = Owner{Token: "t1", Name: "me"} }); again.err != nil {
		t.Errorf("after the grant it names: %v", again.err)
	}
}

// Two campaigns at once on one ceiling that is too small for both: no ledger
// row passes the limit, what does not fit is stopped with a grant that lifts
// it, and after it both have the traces of a large ceiling.
func TestTwoCampaignsOnOneCeiling(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	plans := []*Plan{sharedPlan(t, "7", "50"), sharedPlan(t, "8", "50")}
	var want []string
	var spent int64
	for _, p := range plans {
		full := runTalk(t.Context(), t, p, memStore(t), &calls, nil)
		if full.err != nil {
			t.Fatal(full.err)
		}
		want = append(want, full.out.SetDigest)
		spent += full.out.Ceiling.Charged
	}
	st, _ := leaseStore(t)
	limit := plans[0].Schedule()[0].Sum() + spent/2
	if _, err := st.EnsureCeiling(t.Context(), "pool", store.FundsSimulated, limit); err != nil {
		t.Fatal(err)
	}
	owner := func(name string) func(*Runner) {
		return func(r *Runner) { r.Owner, r.Parallel = Owner{Token: name, Name: name}, 8 }
	}
	stopped := 0
	for round := 0; ; round++ {
		a, b := start(t.Context(), t, plans[0], st, owner("a")), start(t.Context(), t, plans[1], st, owner("b"))
		results := []ran{<-a, <-b}
		var lift *Grant
		for i, got := range results {
			var e *LimitError
			switch {
			case errors.As(got.err, &e):
				stopped++
				if e.Grant == nil {
					t.Fatalf("no grant lifts %v", got.err)
				}
				lift = e.Grant
			case got.err != nil:
				t.Fatal(got.err)
			case got.out.SetDigest != want[i]:
				t.Errorf("campaign %d: other traces than on a large ceiling", i)
			}
			if round == 0 && got.out.Waits.Count == 0 {
				t.Errorf("campaign %d never waited for an allotment", i)
			}
		}
		if lift == nil {
			break
		}
		c, _, err := st.OpenAllotments(t.Context(), "pool", store.FundsSimulated)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := st.Grant(t.Context(), "pool", store.FundsSimulated, max(lift.Total, c.Limit), nil); err != nil {
			t.Fatal(err)
		}
	}
	if stopped == 0 {
		t.Error("no run was stopped")
	}
	rows, err := st.Ledger(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Charged+r.Held > r.Limit {
			t.Errorf("ledger row %d: %d + %d above %d", r.N, r.Charged, r.Held, r.Limit)
		}
	}
}

// Allotments of a campaign are granted in schedule order, at any parallelism.
func TestAllotmentsAreGrantedInScheduleOrder(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	p := talkPlan(t, "50")
	got := runTalk(t.Context(), t, p, memStore(t), &calls, func(r *Runner) { r.Parallel = 16 })
	if got.err != nil {
		t.Fatal(got.err)
	}
	var want, have []string
	for _, tr := range p.Schedule() {
		want = append(want, p.ID+"/"+tr.ID())
	}
	for _, a := range got.out.Allotments {
		have = append(have, a.ID)
	}
	if !slices.Equal(want, have) {
		t.Errorf("granted %v", have)
	}
}

// An overrun halts the ceiling at once; the stop names it and the grant that
// acknowledges it, and after that the run goes on.
func TestR39_HaltedCeilingNamesItsOverruns(t *testing.T) {
	t.Parallel()
	p := sharedPlan(t, "7", "50")
	st, _ := leaseStore(t)
	a := hold(t, st, 60_000_000, 1000)
	if _, err := st.Release(t.Context(), a.ID, 1200, 0); err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int64
	got := runTalk(t.Context(), t, p, st, &calls, nil)
	var limit *LimitError
	if !errors.As(got.err, &limit) || !errors.Is(got.err, store.ErrHalted) || !strings.Contains(got.err.Error(), a.ID) {
		t.Fatalf("error %v; want one that names %s", got.err, a.ID)
	}
	g := limit.Grant
	if g == nil || !slices.Equal(g.Ack, []string{a.ID}) {
		t.Fatalf("grant %+v", g)
	}
	if _, err := st.Grant(t.Context(), g.Ceiling, g.Funds, g.Total, g.Ack); err != nil {
		t.Fatal(err)
	}
	if again := runTalk(t.Context(), t, p, st, &calls, nil); again.err != nil {
		t.Errorf("after the acknowledgement: %v", again.err)
	}
}
