package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/faultstore"
	"github.com/agentrooms/qualify/engine/store/memory"
)

// named is how Run's errors name each call of the store.
var named = map[faultstore.Op]string{
	"CreateRoom": "create", "LoadTail": "load", "Commit": "commit of revision", "MarkDispatched": "dispatch op", "PutReceipt": "receipt of op",
	"PutEffect": "effect of op", "Reconcile": "reconcile op", "PutSnapshot": "snapshot", "CloseRoom": "close", "Outbox": "outbox",
	"Delivered": "outbox entry", "Lookup": "look up event", "ListRooms": "head",
}

// told is golden with somebody who listens, and with snapshots on the way.
func told() scene {
	s := snapping(golden())
	s.change = func(c *runtime.Config) { c.Notifier = notify(func(engine.Say) error { return nil }) }
	return s
}

// undisturbed plays a scene without faults and counts the calls of the store.
func undisturbed(t testing.TB, s scene) (trail, map[faultstore.Op]int64) {
	t.Helper()
	f, err := faultstore.New(memory.New(memory.Options{}), faultstore.Plan{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	j := &model.MemoryJournal{}
	cfg := s.config(t, f, j)
	if _, err := runtime.Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	calls := f.Calls()
	return trailOf(t, cfg, j), calls
}

// struck plays a scene with one fault, then to its end without.
func struck(t *testing.T, s scene, st store.Store, fault faultstore.Fault) trail {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var f *faultstore.Store
	f, err := faultstore.New(st, faultstore.Plan{Faults: []faultstore.Fault{fault}}, func(hit faultstore.Fired) {
		if hit.Kind == faultstore.Stall {
			cancel()
			// A write, and the last look at a room that is closed, are waited for,
			// whatever becomes of the context.
			if c, _ := faultstore.ClassOf(hit.Op); c == faultstore.Write || hit.Op == "ListRooms" {
				f.Unstall()
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	j := &model.MemoryJournal{}
	_, err = runtime.Run(ctx, s.config(t, f, j))
	what := fmt.Sprintf("%s at %s %d", fault.Kind, fault.Op, fault.Nth)
	switch {
	case len(f.Fired()) == 0:
		t.Errorf("%s never came", what)
	case fault.Kind == faultstore.Stall && errors.Is(err, context.Canceled):
	case fault.Kind == faultstore.Stall && err == nil: // it was the last write
	case !errors.Is(err, faultstore.ErrInjected) || !strings.Contains(err.Error(), named[fault.Op]):
		t.Errorf("%s: Run says %v, want %q", what, err, named[fault.Op])
	}
	cfg := s.config(t, st, j)
	if _, err := runtime.Run(t.Context(), cfg); err != nil {
		t.Errorf("%s: resumed: %v", what, err)
	}
	return trailOf(t, cfg, j)
}

// oftener is the second figure when QUALIFY_LONG is set.
func oftener(short, long int64) int64 {
	if os.Getenv("QUALIFY_LONG") != "" {
		return long
	}
	return short
}

// faultsOf lists every fault of one kind that can strike a run which makes
// these calls, every so many of each method.
func faultsOf(kind faultstore.Kind, calls map[faultstore.Op]int64, every int64) []faultstore.Fault {
	ops := faultstore.Ops(faultstore.Write)
	if kind == faultstore.FailBefore || kind == faultstore.Stall {
		ops = append(ops, faultstore.Ops(faultstore.Read)...)
	}
	var out []faultstore.Fault
	for _, op := range ops {
		for n := int64(1); n <= calls[op]; n += every {
			out = append(out, faultstore.Fault{Op: op, Nth: n, Kind: kind})
		}
	}
	return out
}

// R45, R71: whatever goes wrong with a call of the store (every third of each
// method, all of them when QUALIFY_LONG is set), the room stops with
// an error that names what it was doing, and resumes to the same rows, calls
// and money.
func TestR45_AnyStoreFaultLeavesOneTrail(t *testing.T) {
	t.Parallel()
	want, calls := undisturbed(t, told())
	for op := range named {
		if calls[op] == 0 {
			t.Errorf("the scene never calls %s", op)
		}
	}
	for _, kind := range faultstore.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			for _, f := range faultsOf(kind, calls, oftener(3, 1)) {
				if diff := differs(want, struck(t, told(), memory.New(memory.Options{}), f)); diff != "" {
					t.Errorf("%s at %s %d:\n%s", kind, f.Op, f.Nth, diff)
				}
			}
		})
	}
}

// The same over SQLite, one file for all rooms.
func TestR45_AnyStoreFaultLeavesOneTrailInSQLite(t *testing.T) {
	t.Parallel()
	want, calls := undisturbed(t, told())
	st := openSQLite(t)
	for _, kind := range faultstore.Kinds() {
		for _, f := range faultsOf(kind, calls, oftener(80, 10)) {
			room := fmt.Sprintf("%s/%s/%d", kind, f.Op, f.Nth)
			s := told()
			change := s.change
			s.change = func(c *runtime.Config) { change(c); c.Name, c.Room = "case/arm/0", room }
			got := inRoom(want.Head.Room, struck(t, s, st, f))
			if diff := differs(want, got); diff != "" {
				t.Errorf("%s at %s %d:\n%s", kind, f.Op, f.Nth, diff)
			}
		}
	}
}

// A disk that stays full stops the room without losing or repeating a call;
// with room on it again the room goes on.
func TestR45_AFullDiskStopsTheRoomUntilThereIsRoom(t *testing.T) {
	t.Parallel()
	want, calls := undisturbed(t, snapping(golden()))
	for n := int64(1); n <= calls[faultstore.AnyWrite]; n += oftener(3, 1) {
		fault := faultstore.Fault{Op: faultstore.AnyWrite, Nth: n, Kind: faultstore.DiskFull, Forever: true}
		st := memory.New(memory.Options{})
		f, err := faultstore.New(st, faultstore.Plan{Faults: []faultstore.Fault{fault}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		j := &model.MemoryJournal{}
		s := snapping(golden())
		for range 2 { // a second attempt changes nothing
			if _, err := runtime.Run(t.Context(), s.config(t, f, j)); !errors.Is(err, store.ErrFull) {
				t.Errorf("full from write %d: %v", n, err)
			}
		}
		cfg := s.config(t, st, j)
		if _, err := runtime.Run(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		if diff := differs(want, trailOf(t, cfg, j)); diff != "" {
			t.Errorf("full from write %d:\n%s", n, diff)
		}
	}
}

// R42: the reply of a write that was lost may cost an opaque call its outcome,
// never a second call; every other fault over SQLite.
func TestR42_NoStoreFaultRepeatsAnOpaqueCall(t *testing.T) {
	t.Parallel()
	s := scene{script: map[string][]turn{"a": {"get a", "done", "done"}}, opaque: true}
	s.snaps = 1
	_, calls := undisturbed(t, s)
	sql := openSQLite(t)
	for _, kind := range []faultstore.Kind{faultstore.FailBefore, faultstore.FailAfter, faultstore.LoseReply, faultstore.DiskFull} {
		for i, f := range faultsOf(kind, calls, 1) {
			var st store.Store = memory.New(memory.Options{})
			if i%2 == 0 {
				st = sql
			}
			s.room = fmt.Sprintf("%s/%s/%d", kind, f.Op, f.Nth)
			got := struck(t, s, st, f)
			held := int64(0)
			for _, o := range got.Ops {
				if o.Status == store.OpUncertain {
					held += o.ReservedMicros
				}
			}
			if m := got.Head.Money; got.Repeated != nil || m.Held != held || m.Unknown != held {
				t.Errorf("%s at %s %d: money %+v, %d held by uncertain operations, called twice: %v", kind, f.Op, f.Nth, m, held, got.Repeated)
			}
		}
	}
}

// R45, R49: random fault plans and random deaths in one history, process after
// process: one trail. 50 histories; 2,000 when QUALIFY_LONG is set. rapid prints
// the seed of a failure.
func TestR49_RandomFaultsAndCrashesProperty(t *testing.T) {
	t.Parallel()
	want, calls := undisturbed(t, snapping(golden()))
	rounds := oftener(2, 80) // of TestMain's 25 histories each
	for i := range rounds {
		t.Run(fmt.Sprintf("round %d", i+1), rapid.MakeCheck(func(rt *rapid.T) {
			randomHistory(t, rt, memory.New(memory.Options{}), golden(), want, calls)
		}))
	}
}

// The same over SQLite, every history in a room of its own in one file: 25
// histories; 500 when QUALIFY_LONG is set.
func TestR49_RandomFaultsAndCrashesPropertyInSQLite(t *testing.T) {
	t.Parallel()
	want, calls := undisturbed(t, snapping(golden()))
	st := openSQLite(t)
	n := 0
	for i := range oftener(1, 20) {
		t.Run(fmt.Sprintf("round %d", i+1), rapid.MakeCheck(func(rt *rapid.T) {
			n++
			s := golden()
			s.room = fmt.Sprintf("room/%d", n)
			randomHistory(t, rt, kept{st}, s, want, calls)
		}))
	}
}

// kept is a store that its decorators do not close.
type kept struct{ store.Store }

func (kept) Close() error { return nil }

// randomPlan draws up to three faults, or faults by chance.
func randomPlan(rt *rapid.T, calls map[faultstore.Op]int64) faultstore.Plan {
	kinds := []faultstore.Kind{faultstore.FailBefore, faultstore.FailAfter, faultstore.LoseReply, faultstore.DiskFull}
	if rapid.Bool().Draw(rt, "by chance") {
		return faultstore.Plan{Random: &faultstore.Random{
			Seed: rapid.Uint64().Draw(rt, "seed"), PerMille: rapid.IntRange(1, 100).Draw(rt, "per mille"), Kinds: kinds, Reads: true,
		}}
	}
	var p faultstore.Plan
	for range rapid.IntRange(1, 3).Draw(rt, "faults") {
		p.Faults = append(p.Faults, faultstore.Fault{
			Op: faultstore.AnyWrite, Nth: rapid.Int64Range(1, calls[faultstore.AnyWrite]).Draw(rt, "nth"),
			Kind: rapid.SampledFrom(kinds).Draw(rt, "kind"), Forever: rapid.IntRange(0, 3).Draw(rt, "forever") == 0,
		})
	}
	return p
}

func randomHistory(t *testing.T, rt *rapid.T, st store.Store, s scene, want trail, calls map[faultstore.Op]int64) {
	j := &model.MemoryJournal{}
	s.snaps = rapid.SampledFrom([]int64{1, 3000}).Draw(rt, "snapshots from bytes")
	// After these processes the store is sound and nobody dies, so that the
	// room comes to an end.
	for range rapid.IntRange(1, 8).Draw(rt, "processes") {
		f, err := faultstore.New(st, randomPlan(rt, calls), nil)
		if err != nil {
			rt.Fatal(err)
		}
		die, passed := rapid.IntRange(1, 120).Draw(rt, "dies at passage"), 0
		s.change = func(c *runtime.Config) {
			c.Crash = &runtime.Crash{Hook: func(runtime.Point) error {
				if passed++; passed == die {
					return errCrash
				}
				return nil
			}}
		}
		_, err = runtime.Run(t.Context(), s.config(t, f, j))
		if err != nil && !errors.Is(err, faultstore.ErrInjected) && !errors.Is(err, errCrash) {
			rt.Fatalf("%v", err)
		}
	}
	s.change = nil
	cfg := s.config(t, st, j)
	if _, err := runtime.Run(t.Context(), cfg); err != nil {
		rt.Fatal(err)
	}
	if diff := differs(want, inRoom(want.Head.Room, trailOf(t, cfg, j))); diff != "" {
		rt.Fatalf("another trail:\n%s", diff)
	}
}
