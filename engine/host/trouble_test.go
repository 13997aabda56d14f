package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/host"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
)

// Trouble of any port or of the store during a call stops the work, and never
// costs the call its receipt (R46).
func TestR46_TroubleDuringACallKeepsItsReceipt(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(x *scene, on bool){
		"the directory is down": func(x *scene, on bool) {
			x.h.mu.Lock()
			defer x.h.mu.Unlock()
			x.h.authErr = nil
			if on {
				x.h.authErr = errors.New("down")
			}
		},
		"the store takes no rows": func(x *scene, on bool) {
			if f, ok := x.store.(*faulty); ok {
				f.on.Store(on)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			x := begin(t)
			x.store = &faulty{Store: x.store}
			x.s = x.service(func(c *host.Config) { c.Lease = 30 * time.Millisecond })
			g := newGate("turn")
			x.h.during = g.during
			x.accept("m1")
			wait := x.ticking(t.Context(), x.s)
			within(t, g.entered)
			spoil(x, true)
			time.Sleep(25 * time.Millisecond) // some heartbeats
			close(g.open)
			done, err := wait()
			want(t, err, engine.CodeAdapter)
			if done.Calls != 2 || done.Aborted != 0 {
				t.Errorf("%+v", done)
			}
			spoil(x, false)
			if m := x.look().Money; m.Charged != 1_100 || m.Held != 0 {
				t.Errorf("%+v", m)
			}
			x.tick()
			if diff := cmp.Diff(wholeRun, x.h.calls()); diff != "" {
				t.Error(diff)
			}
			x.h.once(t)
		})
	}
}

// faulty is a store that takes no rows while it is on.
type faulty struct {
	host.Store
	on atomic.Bool
}

func (f *faulty) Commit(ctx context.Context, c store.Commit) (*store.Committed, error) {
	if f.on.Load() {
		return nil, store.ErrFull
	}
	return f.Store.Commit(ctx, c)
}

// hanging is a store that a process cannot reach for a while to renew.
type hanging struct {
	host.Store
	back  atomic.Bool
	tried chan struct{} // a renewal was tried in vain; nil is not told
}

func (h *hanging) KeepLease(ctx context.Context, name, token string, ttl time.Duration) (store.Lease, error) {
	if !h.back.Load() {
		select {
		case h.tried <- struct{}{}:
		default:
		}
		return store.Lease{}, errNoAnswer
	}
	return h.Store.KeepLease(ctx, name, token, ttl)
}

// A process that finds at its heartbeat that another generation has the lease
// asks its calls to stop, and what they spent is kept (R43).
func TestR43_ALostLeaseAbortsTheCallUnderWay(t *testing.T) {
	t.Parallel()
	x := begin(t)
	g := newGate("turn")
	var turns atomic.Int64
	x.h.during = func(ctx context.Context, c host.Call) (*host.Result, error) {
		if c.Format != engine.FormatTurn || turns.Add(1) > 1 {
			return nil, nil
		}
		return g.during(ctx, c)
	}
	whole := x.store
	away := &hanging{Store: whole}
	x.store = away
	hung := x.service(func(c *host.Config) { c.Lease = 30 * time.Millisecond })
	x.store = whole
	x.accept("m1")
	wait := x.ticking(t.Context(), hung)
	within(t, g.entered)
	x.clock.pass(time.Minute)
	if done := x.tick(); done.Busy {
		t.Fatalf("%+v", done)
	}
	away.back.Store(true)
	if cause := within(t, g.causes); !errors.Is(cause, runtime.ErrAuthorityLost) {
		t.Errorf("cause %v", cause)
	}
	if done, err := wait(); err != nil || !done.Busy || done.Aborted != 1 {
		t.Errorf("%+v %v", done, err)
	}
	if diff := cmp.Diff(engine.Money{Limit: 1_000_000, Charged: 1_000 + 77}, x.look().Money); diff != "" {
		t.Error(diff)
	}
	if turns.Load() != 1 { // what became of it was unknown to the one that took over (R66)
		t.Errorf("the specialist was asked %d times", turns.Load())
	}
	x.h.once(t)
}

// A process that lost the room without knowing decides nothing about the calls
// of the one that has it: they are not lost, and no work is ordered again
// (R45, R48).
func TestR48_WhoLostTheRoomJudgesNoCallOfOthers(t *testing.T) {
	t.Parallel()
	x := begin(t)
	gates := []*gate{newGate("turn"), newGate("plan")} // of the one that hangs, and of the other
	var plans atomic.Int64
	x.h.during = func(ctx context.Context, c host.Call) (*host.Result, error) {
		switch {
		case c.Format == engine.FormatTurn:
			return gates[0].during(ctx, c)
		case c.Format == engine.FormatPlan && plans.Add(1) == 2:
			return gates[1].during(ctx, c)
		default:
			return nil, nil
		}
	}
	propose := x.h.propose
	x.h.propose = func(q engine.PlanRequest) engine.PlanEnvelope {
		if len(q.Messages) > 1 {
			return decide(q, engine.DecideExplain, "one call is in doubt")
		}
		return propose(q)
	}
	whole := x.store
	away := &hanging{Store: whole, tried: make(chan struct{})}
	x.store = away
	hung := x.service(func(c *host.Config) { c.Lease = 30 * time.Millisecond })
	x.store = whole
	x.accept("m1")
	hungEnds := x.ticking(t.Context(), hung)
	within(t, gates[0].entered)
	x.clock.pass(time.Minute)
	x.h.post("m2", "ana", engine.MsgRequest, "how is it going?")
	x.accept("m2")
	ends := x.ticking(t.Context(), x.s)
	op := within(t, gates[1].entered)
	for range 3 {
		select { // so that the hung one has looked around after the second call began
		case <-away.tried:
		case <-time.After(10 * time.Second):
			t.Error("the hung process has stopped trying")
		}
	}
	away.back.Store(true)
	if done, err := hungEnds(); err != nil || !done.Busy {
		t.Errorf("%+v %v", done, err)
	}
	for _, o := range x.look().Operations {
		if o.Op == op && o.Status != store.OpDispatched {
			t.Errorf("the call under way is %s", o.Status)
		}
	}
	close(gates[1].open)
	if done, err := ends(); err != nil || done.Busy {
		t.Errorf("%+v %v", done, err)
	}
	if diff := cmp.Diff(engine.Money{Limit: 1_000_000, Charged: 2*1_000 + 77}, x.look().Money); diff != "" {
		t.Error(diff)
	}
	if n := len(gates[0].entered); n != 0 {
		t.Errorf("the specialist's call was made %d times more", n)
	}
	x.h.once(t)
}

// A clock that is set back never takes a room back (R72).
func TestR72_TimeNeverGoesBack(t *testing.T) {
	t.Parallel()
	x := begin(t)
	x.accept("m1")
	before := x.look().AtUS
	x.clock.pass(-48 * time.Hour)
	x.s = x.service(func(c *host.Config) { c.Process = "after the clock was set" })
	x.tick()
	v := x.look()
	if v.AtUS < before || v.Planner.Claim != "coordinator" {
		t.Errorf("at %d after %d: %+v", v.AtUS, before, v.Planner)
	}
	x.h.post("m2", "ana", engine.MsgRequest, "and?")
	x.accept("m2")
	if x.look().AtUS < v.AtUS {
		t.Error("time went back")
	}
}

// older is the machine of an earlier version of the planner.
type older struct{}

func (older) Handle(engine.Event) ([]engine.Command, error) { return nil, nil }
func (older) Snapshot() ([]byte, error)                     { return []byte("{}"), nil }
func (older) Restore([]byte) error                          { return nil }
func (older) Version() string                               { return "planner@0" }

// A room of another machine version is refused, by every call, and changed by
// none (R70).
func TestR70_AnotherVersionIsRefused(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	x := begin(t)
	d, err := json.Marshal(definition())
	x.must(err)
	_, err = runtime.Append(ctx, runtime.Live{Config: runtime.Config{
		Folds: runtime.Folds{Machine: func() (engine.Machine, error) { return older{}, nil }},
		Store: x.store, Room: "planner/acme/old", Funds: store.FundsReal, Clock: runtime.Wall,
	}, Now: x.clock.Now}, runtime.Start("digest", store.IndexEntry{Space: "definition", Key: "host", Value: string(d)}))
	x.must(err)
	x.h.mail["m9"] = host.Persisted{ID: "m9", Room: host.Ref{Tenant: tenant, Room: "old"}, Author: "ana", Text: "x"}
	_, err = x.s.AcceptEvent(ctx, tenant, "old", "m9")
	want(t, err, engine.CodeVersionMismatch)
	_, err = x.s.Tick(ctx, tenant, "old")
	want(t, err, engine.CodeVersionMismatch)
	_, err = x.s.Snapshot(ctx, tenant, "old")
	want(t, err, engine.CodeVersionMismatch)
	want(t, x.s.Verify(ctx, tenant, "old"), engine.CodeVersionMismatch)
	_, err = x.s.Pause(ctx, tenant, "old", order("k"), "o", 0)
	want(t, err, engine.CodeVersionMismatch)
	want(t, x.s.Open(ctx, tenant, "old", definition()), engine.CodeConflict)
}

// unsaid is a store that takes leases without saying so.
type unsaid struct {
	host.Store
	on atomic.Bool
}

func (u *unsaid) AcquireLease(ctx context.Context, name, token, owner string, ttl time.Duration) (store.Lease, error) {
	l, err := u.Store.AcquireLease(ctx, name, token, owner, ttl)
	if u.on.Load() {
		return store.Lease{}, context.DeadlineExceeded
	}
	return l, err
}

// A lease that was taken unheard, or by a caller who is gone, keeps nobody out.
func TestR48_ALeaseTakenUnheardIsFreed(t *testing.T) {
	t.Parallel()
	x := begin(t)
	u := &unsaid{Store: x.store}
	x.store = u
	x.s = x.service(nil)
	x.accept("m1")
	u.on.Store(true)
	if _, err := x.s.Tick(t.Context(), tenant, room); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	u.on.Store(false)
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := x.s.Tick(gone, tenant, room); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if done := x.tick(); done.Busy {
		t.Errorf("%+v", done)
	}
	if diff := cmp.Diff(wholeRun, x.h.calls()); diff != "" {
		t.Error(diff)
	}
}
