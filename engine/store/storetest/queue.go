package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/agentrooms/qualify/engine/store"
)

var queueCases = []testCase{
	{"CampaignWeightIsTheSumOfItsAllotments", testWeight},
	{"QueueIsServedInOrderOfArrival", testQueue},
	{"QueueTicketsDieWithTheirLease", testQueueLease},
	{"QueuePlaceIsKeptUnderOneFence", testQueuePlace},
	{"QueuesOfCeilingsAreApart", testQueuesApart},
	{"QueueOfManyCampaignsIsFair", testQueueFair},
}

// checkWeights compares the running sum of each campaign with the one that its
// allotments make.
func checkWeights(t *testing.T, s store.Store, campaigns ...string) {
	t.Helper()
	for _, c := range campaigns {
		want := map[store.Funds]int64{}
		for _, a := range must[[]store.Allotment](t, "allotments")(s.Allotments(t.Context(), c)) {
			want[a.Funds] += a.Weight()
		}
		for _, f := range []store.Funds{sim, store.FundsReal} {
			equal(t, "weight of "+c+" in "+string(f), want[f], must[int64](t, "weight")(s.CampaignWeight(t.Context(), c, f)))
		}
	}
}

func testWeight(t *testing.T, s store.Store) {
	ctx := t.Context()
	checkWeights(t, s, "nobody")
	rng := rand.New(rand.NewPCG(1, 0))
	for _, c := range []string{"main", "other"} {
		for _, f := range []store.Funds{sim, store.FundsReal} {
			must[store.Ceiling](t, "ceiling")(s.EnsureCeiling(ctx, c, f, 3000))
		}
	}
	var open []store.Allotment
	for n := range 150 {
		if len(open) > 0 && rng.IntN(2) == 0 {
			i := rng.IntN(len(open))
			a := open[i]
			open = slices.Delete(open, i, i+1)
			keep := rng.Int64N(a.Sum + 1)
			charged := rng.Int64N(a.Sum + 20) // overruns too
			for range 1 + rng.IntN(2) {
				must[store.Allotment](t, "release")(s.Release(ctx, a.ID, charged, keep))
			}
		} else {
			a := store.Allotment{
				ID: fmt.Sprint(n), Ceiling: []string{"main", "other"}[rng.IntN(2)], Funds: []store.Funds{sim, store.FundsReal}[rng.IntN(2)],
				Campaign: []string{"c", "d", "e"}[rng.IntN(3)], Sum: 1 + rng.Int64N(100), CampaignCap: []int64{0, 400}[rng.IntN(2)],
			}
			if _, err := s.Allot(ctx, a); err == nil {
				open = append(open, a)
			}
		}
		if n%10 == 0 {
			checkWeights(t, s, "c", "d", "e")
		}
	}
	checkWeights(t, s, "c", "d", "e")
}

// waiter is a campaign that owns itself by a lease.
func waiter(t *testing.T, s store.Store, campaign string, ttl time.Duration) context.Context {
	t.Helper()
	name := "campaign/" + campaign
	must[store.Lease](t, "lease")(s.AcquireLease(t.Context(), name, "t-"+campaign, campaign, ttl))
	return store.WithFence(t.Context(), store.Fence{Name: name, Token: "t-" + campaign})
}

func of(campaign string, n int, sum int64) store.Allotment {
	a := allotment(fmt.Sprint(campaign, "/", n), sum)
	a.Campaign = campaign
	return a
}

func waiting(t *testing.T, s store.Store) []string {
	t.Helper()
	var out []string
	for _, k := range must[[]store.Ticket](t, "queue")(s.Queue(t.Context(), "main", sim)) {
		out = append(out, k.Allotment)
	}
	return out
}

func testQueue(t *testing.T, s store.Store) {
	a, b, c := waiter(t, s, "a", time.Hour), waiter(t, s, "b", time.Hour), waiter(t, s, "c", time.Hour)
	_, err := s.Enqueue(a, of("a", 1, 80))
	wants(t, "no ceiling", store.ErrNotFound, err)
	ceiling(t, s, 100)
	_, err = s.Enqueue(t.Context(), of("a", 1, 80))
	wants(t, "without a fence", store.ErrInvalid, err)
	_, err = s.Enqueue(a, of("a", 1, 0))
	wants(t, "no sum", store.ErrInvalid, err)
	must[store.Allotment](t, "allot")(s.Allot(c, of("c", 0, 60)))
	for _, ctx := range []context.Context{a, t.Context()} {
		_, err = s.Allot(ctx, of("a", 1, 80))
		wants(t, "a large one", store.ErrExhausted, err)
	}
	first := must[store.Ticket](t, "enqueue")(s.Enqueue(a, of("a", 1, 80)))
	equal(t, "ticket", store.Ticket{
		N: first.N, Ceiling: "main", Funds: sim, Campaign: "a", Allotment: "a/1", Sum: 80, Fence: store.Fence{Name: "campaign/a", Token: "t-a"},
	}, first)
	equal(t, "again", first, must[store.Ticket](t, "enqueue")(s.Enqueue(a, of("a", 1, 80))))
	_, err = s.Allot(b, of("b", 1, 10))
	wants(t, "a small one out of turn", store.ErrQueued, err)
	_, err = s.Allot(t.Context(), of("d", 1, 10))
	wants(t, "one that does not wait", store.ErrQueued, err)
	equal(t, "an equal repeat is no new draw", of("c", 0, 60), must[store.Allotment](t, "allot")(s.Allot(c, of("c", 0, 60))))
	second := must[store.Ticket](t, "enqueue")(s.Enqueue(b, of("b", 1, 10)))
	if second.N <= first.N {
		t.Fatalf("ticket %d after ticket %d", second.N, first.N)
	}
	equal(t, "queue", []store.Ticket{first, second}, must[[]store.Ticket](t, "queue")(s.Queue(t.Context(), "main", sim)))
	_, err = s.Allot(a, of("a", 1, 80))
	wants(t, "the head, while it does not fit", store.ErrExhausted, err)
	must[store.Allotment](t, "release")(s.Release(c, "c/0", 20, 0))
	_, err = s.Allot(b, of("b", 1, 10))
	wants(t, "the second, when the first fits", store.ErrQueued, err)
	must[store.Allotment](t, "the head")(s.Allot(a, of("a", 1, 80)))
	equal(t, "a grant takes the ticket", []string{"b/1"}, waiting(t, s))
	_, err = s.Allot(b, of("b", 1, 10))
	wants(t, "its turn, but nothing left", store.ErrExhausted, err)
	must[store.Ticket](t, "enqueue")(s.Enqueue(c, of("c", 1, 5)))
	wants(t, "give up", nil, s.Dequeue(b, "main", sim, "b"))
	wants(t, "give up again", nil, s.Dequeue(b, "main", sim, "b"))
	equal(t, "who gave up is gone", []string{"c/1"}, waiting(t, s))
	must[store.Allotment](t, "release")(s.Release(a, "a/1", 10, 0))
	must[store.Allotment](t, "next")(s.Allot(c, of("c", 1, 5)))
	must[store.Allotment](t, "nobody waits")(s.Allot(t.Context(), of("d", 1, 5)))
	checkLedger(t, s)
	checkWeights(t, s, "a", "b", "c", "d")
}

func testQueueLease(t *testing.T, s store.Store) {
	ceiling(t, s, 100)
	a, b := waiter(t, s, "a", time.Hour), waiter(t, s, "b", time.Hour)
	must[store.Allotment](t, "allot")(s.Allot(b, of("b", 0, 60)))
	must[store.Ticket](t, "enqueue")(s.Enqueue(a, of("a", 1, 80)))
	_, err := s.Allot(b, of("b", 1, 10))
	wants(t, "out of turn", store.ErrQueued, err)
	// The lease goes to another process: the ticket was of the one before.
	wants(t, "break", nil, s.BreakLease(t.Context(), "campaign/a", 1))
	equal(t, "queue without the dead", nil, waiting(t, s))
	must[store.Lease](t, "take over")(s.AcquireLease(t.Context(), "campaign/a", "t2", "a", time.Hour))
	equal(t, "nor does it come to life under another token", nil, waiting(t, s))
	must[store.Allotment](t, "nothing hinders it")(s.Allot(b, of("b", 1, 10)))
	must[store.Ticket](t, "enqueue")(s.Enqueue(b, of("b", 2, 50)))
	a2 := store.WithFence(t.Context(), store.Fence{Name: "campaign/a", Token: "t2"})
	must[store.Ticket](t, "the new owner comes last")(s.Enqueue(a2, of("a", 1, 80)))
	equal(t, "queue", []string{"b/2", "a/1"}, waiting(t, s))
	_, err = s.Enqueue(a, of("a", 1, 80))
	wants(t, "the old owner", store.ErrLeaseLost, err)

	// A lease that runs out takes its ticket with it.
	c := waiter(t, s, "c", time.Millisecond)
	if _, err := s.Enqueue(c, of("c", 1, 1)); err != nil {
		t.Fatal(err)
	}
	soon, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for slices.Contains(waiting(t, s), "c/1") {
		if soon.Err() != nil {
			t.Fatal("the ticket outlives its lease")
		}
	}
	must[store.Lease](t, "keep")(s.KeepLease(t.Context(), "campaign/c", "t-c", time.Hour))
	equal(t, "kept by its owner, it is alive again", []string{"b/2", "a/1", "c/1"}, waiting(t, s))
}

func testQueuePlace(t *testing.T, s store.Store) {
	ceiling(t, s, 100)
	a, b := waiter(t, s, "a", time.Hour), waiter(t, s, "b", time.Hour)
	first := must[store.Ticket](t, "enqueue")(s.Enqueue(a, of("a", 1, 80)))
	must[store.Ticket](t, "enqueue")(s.Enqueue(b, of("b", 1, 80)))
	first.Allotment, first.Sum = "a/2", 90
	equal(t, "another allotment, the same place", first, must[store.Ticket](t, "enqueue")(s.Enqueue(a, of("a", 2, 90))))
	equal(t, "queue", []string{"a/2", "b/1"}, waiting(t, s))
	wants(t, "dequeue", nil, s.Dequeue(a, "main", sim, "a"))
	must[store.Ticket](t, "enqueue")(s.Enqueue(a, of("a", 2, 90)))
	equal(t, "who left comes last", []string{"b/1", "a/2"}, waiting(t, s))
}

func testQueuesApart(t *testing.T, s store.Store) {
	ctx := t.Context()
	ceiling(t, s, 100)
	must[store.Ceiling](t, "ceiling")(s.EnsureCeiling(ctx, "main", store.FundsReal, 100))
	must[store.Ceiling](t, "ceiling")(s.EnsureCeiling(ctx, "side", sim, 100))
	a := waiter(t, s, "a", time.Hour)
	must[store.Ticket](t, "enqueue")(s.Enqueue(a, of("a", 1, 80)))
	for _, other := range []store.Allotment{
		{ID: "r", Ceiling: "main", Funds: store.FundsReal, Campaign: "b", Sum: 10}, {ID: "s", Ceiling: "side", Funds: sim, Campaign: "b", Sum: 10},
	} {
		must[store.Allotment](t, "another ceiling")(s.Allot(ctx, other))
		equal(t, "its queue", nil, must[[]store.Ticket](t, "queue")(s.Queue(ctx, other.Ceiling, other.Funds)))
	}
	wants(t, "dequeue elsewhere", nil, s.Dequeue(a, "side", sim, "a"))
	equal(t, "queue", []string{"a/1"}, waiting(t, s))
}

func testQueueFair(t *testing.T, s store.Store) { QueueHistory(t, s, 1) }

// contender is a campaign that draws one allotment after another, each of one
// sum, and waits in the queue while it is refused.
type contender struct {
	name  string
	token string // of its lease
	sum   int64
	n     int // of its allotment
	open  bool
	place int64 // its ticket; 0: it does not wait
}

// QueueHistory plays a random history of campaigns with very unequal needs on
// one ceiling of a store, which must have none named main; some die while they
// wait and are started again. Whoever waits is granted before whoever came
// after it; once nobody dies any more, each is granted within as many rounds as
// there are campaigns, twice.
func QueueHistory(t *testing.T, s store.Store, seed uint64) {
	t.Helper()
	const campaigns, steps = 12, 600
	ceiling(t, s, 1000)
	h := &queueHistory{t: t, s: s, rng: rand.New(rand.NewPCG(seed, 0)), granted: map[string]int{}}
	var names []string
	for i := range campaigns {
		x := &contender{name: fmt.Sprint("c", i), token: "0", sum: []int64{30, 120, 700, 1000}[i%4]}
		must[store.Lease](t, "lease")(s.AcquireLease(t.Context(), "campaign/"+x.name, x.token, x.name, time.Hour))
		h.all, names = append(h.all, x), append(names, x.name)
	}
	for range steps {
		h.step(h.all[h.rng.IntN(campaigns)], h.rng.IntN(40) == 0)
	}
	clear(h.granted)
	for range 2 * campaigns {
		for _, x := range h.all {
			h.step(x, false)
		}
	}
	for _, x := range h.all {
		if h.granted[x.name] == 0 {
			t.Fatalf("seed %d: %s, which needs %d, was never granted: %v", seed, x.name, x.sum, h.granted)
		}
	}
	checkLedger(t, s)
	checkWeights(t, s, names...)
}

type queueHistory struct {
	t       *testing.T
	s       store.Store
	rng     *rand.Rand
	all     []*contender
	granted map[string]int
}

// step lets a campaign do what comes next, or lets it die.
func (h *queueHistory) step(x *contender, dies bool) {
	t, s := h.t, h.s
	t.Helper()
	lease := "campaign/" + x.name
	ctx := store.WithFence(t.Context(), store.Fence{Name: lease, Token: x.token})
	switch {
	case x.open:
		must[store.Allotment](t, "release")(s.Release(ctx, of(x.name, x.n, x.sum).ID, 0, 0))
		x.open, x.n = false, x.n+1
		return
	case dies: // and another process goes on
		wants(t, "the end", nil, s.ReleaseLease(ctx, lease, x.token))
		x.token, x.place = x.token+"0", 0
		must[store.Lease](t, "again")(s.AcquireLease(t.Context(), lease, x.token, x.name, time.Hour))
		return
	}
	first := !slices.ContainsFunc(h.all, func(o *contender) bool { return o != x && o.place > 0 && (x.place == 0 || o.place < x.place) })
	_, err := s.Allot(ctx, of(x.name, x.n, x.sum))
	switch {
	case err == nil && !first:
		t.Fatalf("%s was granted before one that has waited longer", x.name)
	case err == nil:
		x.open, x.place = true, 0
		h.granted[x.name]++
		return
	case first:
		wants(t, "allot at the head", store.ErrExhausted, err)
	default:
		wants(t, "allot out of turn", store.ErrQueued, err)
	}
	k := must[store.Ticket](t, "enqueue")(s.Enqueue(ctx, of(x.name, x.n, x.sum)))
	if x.place != 0 && k.N != x.place {
		t.Fatalf("%s lost its place %d for %d", x.name, x.place, k.N)
	}
	x.place = k.N
}
