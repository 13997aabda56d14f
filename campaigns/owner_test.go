package campaigns

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/model/scripted"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
)

// gate lets a run proceed until a call is made, and holds that call.
type gate struct {
	reached chan struct{} // closed at the first call
	open    chan struct{} // closed to let calls go
	once    sync.Once
}

func newGate() *gate { return &gate{reached: make(chan struct{}), open: make(chan struct{})} }

func (g *gate) providers(ProviderKey) (model.Provider, error) {
	return scripted.New(scripted.Config{Func: func(model.Call) (scripted.Answer, error) {
		g.once.Do(func() { close(g.reached) })
		<-g.open
		return scripted.Text(`{"status":"done","text":"It is done."}`, engine.Usage{Input: 100, Output: 10}, 1_000_000), nil
	}})
}

// clock is a store clock that tests move.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

func leaseStore(t *testing.T) (store.Store, *clock) {
	t.Helper()
	c := new(clock)
	st := memory.New(memory.Options{Now: c.now})
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st, c
}

func start(ctx context.Context, t *testing.T, p *Plan, st store.Store, change func(*Runner)) <-chan ran {
	t.Helper()
	done := make(chan ran, 1)
	go func() {
		var calls atomic.Int64
		done <- runTalk(ctx, t, p, st, &calls, change)
	}()
	return done
}

func TestACampaignHasOneOwner(t *testing.T) {
	t.Parallel()
	p := talkPlan(t, "50")
	st, _ := leaseStore(t)
	g := newGate()
	first := start(t.Context(), t, p, st, func(r *Runner) {
		r.Providers, r.Owner = g.providers, Owner{Token: "t1", Name: "the first"}
	})
	<-g.reached
	var calls atomic.Int64
	asked := ""
	second := runTalk(t.Context(), t, p, st, &calls, func(r *Runner) {
		r.Owner = Owner{Token: "t2", Name: "the second", Gone: func(name string) bool { asked = name; return false }}
	})
	var owned *OwnedError
	if !errors.As(second.err, &owned) || owned.Owner != "the first" || !strings.Contains(second.err.Error(), "is run by the first") {
		t.Errorf("second run: %v; want one that names the owner", second.err)
	}
	if calls.Load() != 0 || asked != "the first" {
		t.Errorf("the second run made %d calls, asked after %q", calls.Load(), asked)
	}
	close(g.open)
	if got := <-first; got.err != nil {
		t.Fatal(got.err)
	}
	if got := runTalk(t.Context(), t, p, st, &calls, func(r *Runner) { r.Owner = Owner{Token: "t2", Name: "the second"} }); got.err != nil {
		t.Errorf("after the first has ended: %v", got.err)
	}
	if leases, err := st.Leases(t.Context()); err != nil || len(leases) != 0 {
		t.Errorf("leases left: %v, %v", leases, err)
	}
}

func TestTheLeaseOfADeadOwnerIsBroken(t *testing.T) {
	t.Parallel()
	p := talkPlan(t, "50")
	st, _ := leaseStore(t)
	if _, err := st.AcquireLease(t.Context(), LeaseName(p.ID), "t0", "the dead", time.Hour); err != nil {
		t.Fatal(err)
	}
	var calls atomic.Int64
	got := runTalk(t.Context(), t, p, st, &calls, func(r *Runner) {
		r.Owner = Owner{Token: "t1", Name: "me", Gone: func(name string) bool { return name == "the dead" }}
	})
	if got.err != nil {
		t.Fatal(got.err)
	}
}

// A run whose lease is taken over stops, says so, and writes nothing more: not
// even the receipts of its calls in flight.
func TestLostLeaseStopsTheRun(t *testing.T) {
	t.Parallel()
	p, st, g := talkPlan(t, "50"), memStore(t), newGate()
	first := start(t.Context(), t, p, st, func(r *Runner) { r.Providers, r.Owner = g.providers, Owner{Token: "t1", Name: "the first"} })
	<-g.reached
	leases, err := st.Leases(t.Context())
	if err != nil || len(leases) != 1 {
		t.Fatalf("leases %v, %v", leases, err)
	}
	if err := st.BreakLease(t.Context(), LeaseName(p.ID), leases[0].Generation); err != nil {
		t.Fatal(err)
	}
	if _, err := st.AcquireLease(t.Context(), LeaseName(p.ID), "t2", "the second", time.Hour); err != nil {
		t.Fatal(err)
	}
	before, err := st.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	close(g.open)
	got := <-first
	if !errors.Is(got.err, store.ErrLeaseLost) || got.out != nil {
		t.Errorf("error %v, outcome %v; want a lost lease", got.err, got.out)
	}
	after, err := st.Stats(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if after.Writes != before.Writes {
		t.Errorf("%d writes after the lease was lost", after.Writes-before.Writes)
	}
	if l, err := st.Leases(t.Context()); err != nil || len(l) != 1 || l[0].Owner != "the second" {
		t.Errorf("leases %v, %v; want the second's untouched", l, err)
	}
	var calls atomic.Int64
	if got := runTalk(t.Context(), t, p, st, &calls, func(r *Runner) { r.Owner = Owner{Token: "t2", Name: "the second"} }); got.err != nil {
		t.Errorf("the second goes on: %v", got.err)
	}
}

// The renewal, too, finds out that the lease has gone to another, and ends the
// run's context with that cause.
func TestRenewalEndsTheRunOfALostLease(t *testing.T) {
	t.Parallel()
	p, st := talkPlan(t, "50"), memStore(t)
	r := &Runner{Plan: p, Store: st, Owner: Owner{Token: "t1", Name: "the first", TTL: 30 * time.Millisecond}}
	ctx, tenure, err := r.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := st.BreakLease(t.Context(), LeaseName(p.ID), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := st.AcquireLease(t.Context(), LeaseName(p.ID), "t2", "the second", time.Hour); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, store.ErrLeaseLost) {
		t.Errorf("cause %v", cause)
	}
	if err := tenure.end(t.Context()); err != nil {
		t.Errorf("end: %v", err)
	}
}

// A lease that ran out while nobody took it, as when the machine slept, is
// kept and the run goes on.
func TestAnExpiredLeaseThatNobodyTookIsKept(t *testing.T) {
	t.Parallel()
	p := talkPlan(t, "50")
	st, c := leaseStore(t)
	g := newGate()
	first := start(t.Context(), t, p, st, func(r *Runner) {
		r.Providers, r.Owner = g.providers, Owner{Token: "t1", Name: "the first", TTL: 300 * time.Millisecond}
	})
	<-g.reached
	c.ahead.Add(int64(time.Hour))
	for {
		leases, err := st.Leases(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(leases) == 1 && leases[0].Generation == 1 {
			break
		}
		if t.Context().Err() != nil {
			t.Fatal("the lease is not renewed")
		}
	}
	close(g.open)
	if got := <-first; got.err != nil {
		t.Fatal(got.err)
	}
}

// An interrupted run keeps its lease until it has saved, and frees it then.
func TestInterruptedRunFreesItsLease(t *testing.T) {
	t.Parallel()
	p := talkPlan(t, "50")
	st, _ := leaseStore(t)
	g := newGate()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	first := start(ctx, t, p, st, func(r *Runner) {
		r.Providers, r.Owner = g.providers, Owner{Token: "t1", Name: "the first", TTL: 3 * time.Second}
	})
	<-g.reached
	cancel()
	if leases, err := st.Leases(t.Context()); err != nil || len(leases) != 1 {
		t.Errorf("leases with calls in flight: %v, %v", leases, err)
	}
	close(g.open)
	if got := <-first; !errors.Is(got.err, context.Canceled) {
		t.Errorf("error %v", got.err)
	}
	if leases, err := st.Leases(t.Context()); err != nil || len(leases) != 0 {
		t.Errorf("leases left: %v, %v", leases, err)
	}
}
