package campaigns

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentrooms/qualify/engine/store"
)

// turns is a store that keeps the order in which campaigns begin to wait and are
// granted.
type turns struct {
	store.Store
	mu    sync.Mutex
	log   []string          // of faults
	place map[string]int64  // tickets of those that wait
	count map[string][2]int // by campaign: waited, granted
}

func newTurns(st store.Store) *turns {
	return &turns{Store: st, place: map[string]int64{}, count: map[string][2]int{}}
}

func (s *turns) note(campaign string, waited, granted int) {
	n := s.count[campaign]
	s.count[campaign] = [2]int{n[0] + waited, n[1] + granted}
}

func (s *turns) Enqueue(ctx context.Context, a store.Allotment) (store.Ticket, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.Store.Enqueue(ctx, a)
	if err == nil {
		s.place[a.Campaign] = t.N
		s.note(a.Campaign, 1, 0)
	}
	return t, err
}

func (s *turns) Dequeue(ctx context.Context, name string, funds store.Funds, campaign string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.Store.Dequeue(ctx, name, funds, campaign)
	if err == nil {
		delete(s.place, campaign)
	}
	return err
}

func (s *turns) Allot(ctx context.Context, a store.Allotment) (store.Allotment, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	got, err := s.Store.Allot(ctx, a)
	if err != nil {
		return got, err
	}
	mine, waited := s.place[a.Campaign]
	for _, c := range sortedKeys(s.place) {
		if n := s.place[c]; c != a.Campaign && (!waited || n < mine) {
			s.log = append(s.log, fmt.Sprintf("%s was granted before %s, which had waited longer", a.ID, c))
		}
	}
	delete(s.place, a.Campaign)
	s.note(a.Campaign, 0, 1)
	return got, nil
}

// oneArm is a campaign of small triples: those of sharedPlan with one arm.
func oneArm(t *testing.T, seed string) *Plan {
	t.Helper()
	return mustResolve(t, func(s string) string {
		for _, r := range [][2]string{
			{"  - {name: selective, mode: selective, idempotency: on}\n", ""},
			{"  - {name: planner, mode: planner, idempotency: on, options: {reviewers: 1}}\n", ""},
			{"  - {name: legacy-keys, mode: legacy, idempotency: on, role: ablation}\n", ""},
			{`ceiling_usd: "50.00"`, "ceiling_usd: \"50.00\"\nceiling: pool"},
			{`include: ["*"]`, `include: ["ledger", "errand"]`},
			{"trials: 5", "trials: 1"},
			{"seed: 7", "seed: " + seed},
		} {
			s = strings.Replace(s, r[0], r[1], 1)
		}
		return s
	}, nil)
}

// Many campaigns of unequal needs on one ceiling that has room for little more
// than the largest triple: nobody is granted before one that has waited longer,
// and each comes to its end with the traces it has alone.
func TestCampaignsThatWaitAreServedInOrder(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	plans := []*Plan{sharedPlan(t, "7", "50"), oneArm(t, "1"), oneArm(t, "2"), oneArm(t, "3")}
	var want []string
	var spent, largest int64
	for _, p := range plans {
		full := runTalk(t.Context(), t, p, memStore(t), &calls, nil)
		if full.err != nil {
			t.Fatal(full.err)
		}
		want = append(want, full.out.SetDigest)
		spent += full.out.Ceiling.Charged
		for _, tr := range p.Schedule() {
			largest = max(largest, tr.Sum())
		}
	}
	inner, _ := leaseStore(t)
	if _, err := inner.EnsureCeiling(t.Context(), "pool", store.FundsSimulated, spent+largest); err != nil {
		t.Fatal(err)
	}
	st := newTurns(inner)
	var runs []<-chan ran
	for i, p := range plans {
		name := fmt.Sprint("owner ", i)
		runs = append(runs, start(t.Context(), t, p, st, func(r *Runner) { r.Owner, r.Parallel = Owner{Token: name, Name: name}, 8 }))
	}
	for i, c := range runs {
		got := <-c
		if got.err != nil {
			t.Fatal(got.err)
		}
		if got.out.SetDigest != want[i] {
			t.Errorf("campaign %d: other traces than alone", i)
		}
		t.Logf("campaign %d, %d triples: %+v", i, len(plans[i].Schedule()), got.out.Waits)
	}
	if len(st.log) > 0 {
		t.Errorf("out of turn:\n%s", strings.Join(st.log, "\n"))
	}
	waits := 0
	for i, p := range plans {
		n := st.count[p.ID]
		waits += n[0]
		if n[1] < len(p.Schedule()) {
			t.Errorf("campaign %d: %d grants of %d", i, n[1], len(p.Schedule()))
		}
	}
	if waits < len(plans) {
		t.Errorf("%d waits; the ceiling was not short", waits)
	}
}

// eventually waits until f holds.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

func queueOf(ctx context.Context, t *testing.T, st store.Store) []string {
	t.Helper()
	queue, err := st.Queue(ctx, "pool", store.FundsSimulated)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for i := range queue {
		out = append(out, queue[i].Campaign)
	}
	return out
}

// A campaign whose next triple would fit waits behind one that has waited
// longer, and goes on when that one gives up, or when its lease ends.
func TestATicketOfAnotherGoesFirst(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*testing.T, store.Store, *clock, context.Context){
		"given up": func(t *testing.T, st store.Store, _ *clock, other context.Context) {
			t.Helper()
			if err := st.Dequeue(other, "pool", store.FundsSimulated, "c_other"); err != nil {
				t.Fatal(err)
			}
		},
		"its process is dead": func(t *testing.T, st store.Store, _ *clock, other context.Context) {
			t.Helper()
			if err := st.BreakLease(context.WithoutCancel(other), LeaseName("c_other"), 1); err != nil {
				t.Fatal(err)
			}
		},
		"its lease has run out": func(_ *testing.T, _ store.Store, c *clock, _ context.Context) { c.ahead.Add(int64(10 * time.Second)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := sharedPlan(t, "7", "50")
			st, c := leaseStore(t)
			hold(t, st, 50_000_000, 1_000_000)
			if _, err := st.AcquireLease(t.Context(), LeaseName("c_other"), "x", "the other", 5*time.Second); err != nil {
				t.Fatal(err)
			}
			other := store.WithFence(t.Context(), store.Fence{Name: LeaseName("c_other"), Token: "x"})
			if _, err := st.Enqueue(other, store.Allotment{ID: "c_other/x/1", Ceiling: "pool", Funds: store.FundsSimulated, Campaign: "c_other", Sum: 49_500_000}); err != nil {
				t.Fatal(err)
			}
			run := start(t.Context(), t, p, st, func(r *Runner) { r.Owner = Owner{Token: "t1", Name: "me", TTL: time.Hour} })
			eventually(t, "it stands in the queue", func() bool { return slices.Equal(queueOf(t.Context(), t, st), []string{"c_other", p.ID}) })
			select {
			case got := <-run:
				t.Fatalf("did not wait: %v", got.err)
			case <-time.After(60 * time.Millisecond):
			}
			if as, err := st.Allotments(t.Context(), p.ID); err != nil || len(as) != 0 {
				t.Fatalf("%d allotments granted out of turn, %v", len(as), err)
			}
			end(t, st, c, other)
			got := <-run
			if got.err != nil {
				t.Fatal(got.err)
			}
			if got.out.Waits.Count != 1 || len(queueOf(t.Context(), t, st)) != 0 {
				t.Errorf("waits %+v, queue %v", got.out.Waits, queueOf(t.Context(), t, st))
			}
		})
	}
}

// A run that nothing can help stops, whoever waits before it, and says what
// stopped it and not that it was not its turn.
func TestAHopelessRunDoesNotWaitItsTurn(t *testing.T) {
	t.Parallel()
	for _, halted := range []bool{false, true} {
		p := sharedPlan(t, "7", "50")
		st, _ := leaseStore(t)
		a := hold(t, st, 2_000_000, 1_900_000) // of a campaign that nobody runs
		want := store.ErrExhausted
		if halted {
			want = store.ErrHalted
			if _, err := st.Release(t.Context(), a.ID, 1_950_000, 0); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := st.AcquireLease(t.Context(), LeaseName("c_third"), "x", "the third", time.Hour); err != nil {
			t.Fatal(err)
		}
		third := store.WithFence(t.Context(), store.Fence{Name: LeaseName("c_third"), Token: "x"})
		if _, err := st.Enqueue(third, store.Allotment{ID: "c_third/x/0", Ceiling: "pool", Funds: store.FundsSimulated, Campaign: "c_third", Sum: 1}); err != nil {
			t.Fatal(err)
		}
		var calls atomic.Int64
		got := runTalk(t.Context(), t, p, st, &calls, func(r *Runner) { r.Owner = Owner{Token: "t1", Name: "me"} })
		var limit *LimitError
		if !errors.As(got.err, &limit) || !errors.Is(got.err, want) || errors.Is(got.err, store.ErrQueued) {
			t.Errorf("halted %t: error %v; want a stop by %v", halted, got.err, want)
		}
		if q := queueOf(t.Context(), t, st); !slices.Equal(q, []string{"c_third"}) {
			t.Errorf("queue %v afterwards", q)
		}
	}
}

// A run that stops leaves the queue before it does anything else, so that
// nobody waits for it while it writes its documents.
func TestAStoppedRunLeavesTheQueue(t *testing.T) {
	t.Parallel()
	p := sharedPlan(t, "7", "50")
	inner, _ := leaseStore(t)
	hold(t, inner, 2_000_000, 1_900_000)
	st := newTurns(inner)
	if _, err := st.AcquireLease(t.Context(), LeaseName("c_other"), "x", "the other", time.Hour); err != nil {
		t.Fatal(err)
	}
	told := false
	run := start(t.Context(), t, p, st, func(r *Runner) {
		r.Owner = Owner{Token: "t1", Name: "me"}
		r.Document = func(ctx context.Context, _ *Outcome) ([]byte, error) {
			told = true
			if q := queueOf(ctx, t, inner); len(q) != 0 {
				t.Errorf("queue %v when the run document is made", q)
			}
			return nil, nil
		}
	})
	eventually(t, "it waits", func() bool { return slices.Equal(queueOf(t.Context(), t, inner), []string{p.ID}) })
	if err := st.ReleaseLease(t.Context(), LeaseName("c_other"), "x"); err != nil { // what it holds nobody will release
		t.Fatal(err)
	}
	got := <-run
	var limit *LimitError
	if !errors.As(got.err, &limit) || limit.Limit != "ceiling pool" || !told {
		t.Errorf("error %v, document %t; want a stop by the ceiling", got.err, told)
	}
}

// A campaign that waits for its own triples, because of its own cap, stands in
// nobody's way.
func TestACappedCampaignTakesNoPlace(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	p := sharedPlan(t, "7", "50")
	full := runTalk(t.Context(), t, p, memStore(t), &calls, nil)
	inner, _ := leaseStore(t)
	if _, err := inner.EnsureCeiling(t.Context(), "pool", store.FundsSimulated, 50_000_000); err != nil {
		t.Fatal(err)
	}
	st := newTurns(inner)
	var largest int64
	for _, tr := range p.Schedule() {
		largest = max(largest, tr.Sum())
	}
	got := runTalk(t.Context(), t, p, st, &calls, func(r *Runner) {
		r.Owner, r.Parallel, r.MaxMicros = Owner{Token: "t1", Name: "me"}, 16, largest+full.out.Ceiling.Charged
	})
	if got.err != nil || got.out.Waits.Count == 0 || st.count[p.ID][0] != 0 {
		t.Errorf("error %v, waits %+v, places taken %d", got.err, got.out.Waits, st.count[p.ID][0])
	}
}

// Interrupted at random moments and gone on at another parallelism each time, a
// campaign still has its allotments in schedule order.
func TestAllotmentsStayInScheduleOrderOverRuns(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	p, st := oneArm(t, "5"), memStore(t)
	var want, have []string
	for _, tr := range p.Schedule() {
		want = append(want, p.ID+"/"+tr.ID())
	}
	for runs := 1; ; runs++ {
		ctx, cancel := context.WithCancel(t.Context())
		left := 1 + rng.IntN(12)
		got := runTalk(ctx, t, p, st, &calls, func(r *Runner) {
			r.Owner, r.Parallel = Owner{Token: fmt.Sprint(runs), Name: "me"}, 1+rng.IntN(8)
			r.OnTrial = func(d Done) error {
				if d.Read == nil {
					return nil // was closed before this run
				}
				if left--; left == 0 {
					cancel()
				}
				return nil
			}
		})
		cancel()
		if got.err == nil {
			for _, a := range got.out.Allotments {
				have = append(have, a.ID)
			}
			t.Logf("seed %d: %d runs", seed, runs)
			break
		}
		if !errors.Is(got.err, context.Canceled) {
			t.Fatalf("seed %d: %v", seed, got.err)
		}
	}
	if !slices.Equal(want, have) {
		t.Errorf("seed %d: granted %v", seed, have)
	}
}
