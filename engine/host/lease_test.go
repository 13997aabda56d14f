package host_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/host"
	"github.com/agentrooms/qualify/engine/planner"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
)

// stalled is a store whose leases cannot be renewed: a process that hangs.
type stalled struct{ host.Store }

var errNoAnswer = errors.New("no answer")

func (stalled) KeepLease(context.Context, string, string, time.Duration) (store.Lease, error) {
	return store.Lease{}, errNoAnswer
}

// A process that hangs over its lease loses the room. Its call's outcome is
// unknown to the one that takes over; when the reply comes after all it is
// proof, and the hold is settled by it (R43, R47, R48).
func TestR48_ALateReplyIsProof(t *testing.T) {
	t.Parallel()
	x := begin(t)
	g := newGate("turn")
	var turns atomic.Int64
	x.h.during = func(ctx context.Context, c host.Call) (*host.Result, error) {
		if c.Format != engine.FormatTurn || turns.Add(1) > 1 {
			return nil, nil
		}
		return g.during(context.WithoutCancel(ctx), c) // and cannot be stopped
	}
	whole := x.store
	x.store = stalled{whole}
	hung := x.service(func(c *host.Config) { c.Process = "hung" })
	x.store = whole
	x.accept("m1")
	wait := x.ticking(t.Context(), hung)
	op := within(t, g.entered)
	if done := x.tick(); !done.Busy || done.Holder != "hung" {
		t.Fatalf("%+v", done)
	}
	x.clock.pass(time.Minute)
	x.tick() // the specialist is not asked again, in no operation (R66)
	if v := x.look(); len(v.Operations) != 1 || v.Operations[0].Op != op || v.Operations[0].Status != store.OpUncertain || v.Money.Unknown != 2_000 || v.Money.Charged != 1_000 {
		t.Fatalf("%+v %+v", v.Operations, v.Money)
	}
	close(g.open)
	if done, err := wait(); err != nil || !done.Busy {
		t.Errorf("%+v %v", done, err)
	}
	v := x.look()
	if diff := cmp.Diff(engine.Money{Limit: 1_000_000, Charged: 1_100}, v.Money); diff != "" || len(v.Operations) != 0 {
		t.Errorf("%+v\n%s", v.Operations, diff)
	}
	// The owner's order finds it settled and has the room go on.
	a, err := x.s.Reconcile(t.Context(), tenant, room, order("k"), op)
	if err != nil || len(x.h.asked) != 2 { // at the take-over, and now for the reply
		t.Errorf("%+v %v, asked %d times", a, err, len(x.h.asked))
	}
	if turns.Load() != 1 {
		t.Errorf("the specialist was asked %d times before the doubt ended", turns.Load())
	}
	x.tick()
	x.h.once(t)
	if o := x.objective(); o.Status != planner.StatusCompleted {
		t.Errorf("status %s", o.Status)
	}
}

// While the lease is live nobody else acts, and nobody is woken in vain; the
// heartbeat keeps it through calls longer than the lease.
func TestR43_HeartbeatsKeepTheLeaseDuringLongCalls(t *testing.T) {
	t.Parallel()
	x := begin(t)
	g := newGate("plan")
	x.h.during = g.during
	kept := make(chan struct{}, 1_000)
	x.store = &keeping{Store: x.store, kept: kept}
	holder := x.service(func(c *host.Config) { c.Lease, c.Process = 60*time.Millisecond, "holder" })
	x.accept("m1")
	wait := x.ticking(t.Context(), holder)
	within(t, g.entered)
	for range 10 { // ten heartbeats, each followed by more than half a lease of store time
		for len(kept) > 0 {
			<-kept
		}
		<-kept
		x.clock.pass(40 * time.Millisecond)
		if done := x.tick(); !done.Busy || done.Holder != "holder" {
			t.Fatalf("%+v", done)
		}
	}
	close(g.open)
	if done, err := wait(); err != nil || done.Busy {
		t.Fatal(done, err)
	}
	if diff := cmp.Diff(wholeRun, x.h.calls()); diff != "" {
		t.Error(diff)
	}
	x.h.once(t)
}

type keeping struct {
	host.Store
	kept chan struct{}
}

func (k *keeping) KeepLease(ctx context.Context, name, token string, ttl time.Duration) (store.Lease, error) {
	l, err := k.Store.KeepLease(ctx, name, token, ttl)
	select {
	case k.kept <- struct{}{}:
	default:
	}
	return l, err
}

// contested is a store in which somebody else is always quicker.
type contested struct {
	host.Store
	from int64 // first revision that is lost
}

func (c contested) Commit(ctx context.Context, w store.Commit) (*store.Committed, error) {
	if w.Row.Rev >= c.from {
		return nil, store.ErrConflict
	}
	return c.Store.Commit(ctx, w)
}

// Ten lost compare-and-sets in a row: the receipts are kept, the Tick returns,
// and the next one applies them (R71).
func TestR71_TenLostRacesLeaveTheReceipt(t *testing.T) {
	t.Parallel()
	x := begin(t)
	x.accept("m1")
	whole, at := x.store, x.look().Rev
	x.store = contested{whole, at + 1}
	losing := x.service(nil)
	x.store = whole
	done, err := losing.Tick(t.Context(), tenant, room)
	if err != nil || !done.More || done.Calls != 1 || done.Busy {
		t.Fatalf("%+v %v", done, err)
	}
	if v := x.look(); v.Rev != at || v.Money.Charged != 1_000 || v.Money.Held != 0 {
		t.Errorf("the receipt was not kept: %+v", v.Money)
	}
	x.h.post("m2", "ana", engine.MsgRequest, "and?")
	_, err = losing.AcceptEvent(t.Context(), tenant, room, "m2")
	want(t, err, engine.CodeConflict)
	x.tick()
	if diff := cmp.Diff(wholeRun, x.h.calls()); diff != "" {
		t.Error(diff)
	}
	x.h.once(t)
}

// What others append while calls are under way is not lost and loses nothing:
// the calls' results are applied to the newer state (R5, R71).
func TestR71_AppendsDuringACallAreRederived(t *testing.T) {
	t.Parallel()
	x := begin(t)
	g := newGate("turn")
	x.h.during = func(ctx context.Context, c host.Call) (*host.Result, error) {
		if c.Participant != "clerk" {
			return nil, nil
		}
		return g.during(ctx, c)
	}
	propose := x.h.propose
	x.h.propose = func(q engine.PlanRequest) engine.PlanEnvelope {
		if len(q.Messages) > 1 {
			return decide(q, engine.DecideExplain, "still at it")
		}
		return propose(q)
	}
	x.accept("m1")
	wait := x.ticking(t.Context(), x.s)
	within(t, g.entered)
	x.h.post("m2", "ana", engine.MsgRequest, "how is it going?")
	x.accept("m2")
	for !slices.Contains(x.h.calls()[1:], "plan coordinator") { // served while the clerk is at work
		time.Sleep(time.Millisecond)
	}
	close(g.open)
	done, err := wait()
	if err != nil || done.More || done.Calls != 5 || done.Aborted != 0 {
		t.Errorf("%+v %v", done, err)
	}
	if o := x.objective(); o.Status != planner.StatusCompleted {
		t.Errorf("status %s", o.Status)
	}
	x.h.once(t)
}

// A room that was dispatched by a process that is gone: evidence decides, and
// without it the outcome is unknown (R45).
func TestR45_EvidenceDecidesAfterARestart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		evidence func(op host.Operation) (host.Evidence, error)
		calls    []string // after the restart
		money    engine.Money
	}{
		"no evidence": {nil, nil, engine.Money{Held: 2_000, Unknown: 2_000}},
		"not executed": {func(host.Operation) (host.Evidence, error) {
			return host.Evidence{Outcome: engine.ReconciledNotExecuted, Proof: "never arrived"}, nil
		}, wholeRun, engine.Money{Charged: 1_210}},
		"executed, reply known": {func(op host.Operation) (host.Evidence, error) {
			r, err := host.Reply(decide(engine.PlanRequest{}, engine.DecideAnswer, "from the log"), 400)
			return host.Evidence{Outcome: engine.ReconciledExecuted, Proof: "log", Result: &r}, err
		}, nil, engine.Money{Charged: 400}},
		"executed, reply lost": {func(op host.Operation) (host.Evidence, error) {
			return host.Evidence{Outcome: engine.ReconciledExecuted, Proof: "invoice"}, nil
		}, nil, engine.Money{Held: 2_000, Unknown: 2_000}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := begin(t)
			x.accept("m1")
			dying := x.service(func(cfg *host.Config) {
				cfg.Crash = &runtime.Crash{Hook: func(p runtime.Point) error {
					if p == runtime.AfterMark {
						return errors.New("power cut")
					}
					return nil
				}}
			})
			if _, err := dying.Tick(t.Context(), tenant, room); err == nil {
				t.Fatal("nothing happened")
			}
			x.clock.pass(time.Minute)
			x.h.evidence = c.evidence
			x.tick()
			if diff := cmp.Diff(c.calls, x.h.calls()); diff != "" {
				t.Error(diff)
			}
			c.money.Limit = 1_000_000
			if diff := cmp.Diff(c.money, x.look().Money); diff != "" {
				t.Error(diff)
			}
			if len(x.h.asked) != 1 || x.h.asked[0].Format != engine.FormatPlan || x.h.asked[0].Participant != "coordinator" {
				t.Errorf("asked %+v", x.h.asked)
			}
			x.h.once(t)
		})
	}
}

// Stopped at every passage of every point and restarted, a host that keeps a
// log of its calls comes to the same end with the same calls and money; one
// that keeps none calls no operation twice and keeps every hold (R49, R65).
func TestR65_ADeathAtAnyPointLosesNothing(t *testing.T) {
	t.Parallel()
	for _, logged := range []bool{true, false} {
		var points []runtime.Point
		play := func(at int) *scene {
			x := begin(t)
			results := map[string]host.Result{}
			x.h.during = func(_ context.Context, c host.Call) (*host.Result, error) {
				if logged {
					results[c.Op] = host.Result{}
				}
				return nil, nil
			}
			if logged {
				x.h.evidence = func(op host.Operation) (host.Evidence, error) {
					if _, ok := results[op.Op]; !ok {
						return host.Evidence{Outcome: engine.ReconciledNotExecuted, Proof: "not in the log"}, nil
					}
					return host.Evidence{}, nil // arrived, outcome not in the log: never made again
				}
			}
			passed := 0
			s := x.service(func(c *host.Config) {
				c.Crash = &runtime.Crash{Hook: func(p runtime.Point) error {
					if at < 0 {
						points = append(points, p)
					}
					if passed++; passed == at+1 {
						return errors.New("power cut")
					}
					return nil
				}}
			})
			_, err := s.AcceptEvent(t.Context(), tenant, room, "m1")
			if err == nil {
				_, err = s.Tick(t.Context(), tenant, room)
			}
			if (err == nil) != (at < 0) {
				t.Fatalf("passage %d: %v", at, err)
			}
			x.clock.pass(time.Minute)
			x.accept("m1")
			x.tick()
			x.h.once(t)
			return x
		}
		straight := play(-1).look()
		if len(points) < 12 {
			t.Fatalf("only %d passages", len(points))
		}
		for at, p := range points {
			v := play(at).look()
			if len(v.Operations) == 0 {
				if v.StateDigest == "" || v.Money != straight.Money || v.Planner.Claim != straight.Planner.Claim {
					t.Errorf("death at %s (passage %d): %+v, want %+v", p, at, v.Money, straight.Money)
				}
				continue
			}
			if p != runtime.AfterCall && logged || p != runtime.AfterCall && p != runtime.AfterMark {
				t.Errorf("death at %s (passage %d) left %+v", p, at, v.Operations)
			}
			if o := v.Operations[0]; o.Status != store.OpUncertain || v.Money.Held != 2_000 || v.Money.Unknown != 2_000 {
				t.Errorf("death at %s (passage %d): %+v %+v", p, at, o, v.Money)
			}
		}
	}
}
