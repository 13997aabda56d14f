package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
)

var errCrash = errors.New("the process died")

// golden is a room in which every kind of trouble occurs: a lost reply,
// missing usage, a failed call, a lost acknowledgement, a call lost before it
// took effect, two workers at once, a correction and several tools in one
// commit.
func golden() scene {
	return scene{
		script: map[string][]turn{
			"a": {"us=3000 add a 1;get a;add a 1", "lost", "nousage get a", "done", "add a 5", "finished"},
			"b": {"us=2500 add b 1", "fail", "add b 2;get b", "done too", "no claim"},
		},
		faults:   map[string]string{"add/2": "ack_lost", "add/3": "lost", "get/1": "slow", "get/2": "error"},
		want:     5,
		patience: 2,
		keys:     true,
		tick:     4000,
	}
}

// snapping is a scene whose room stores a snapshot wherever the rule of sizes
// lets it, however small the tail.
func snapping(s scene) scene {
	s.snaps = 1
	return s
}

// trail is everything stored, which must not depend on where a process died.
type trail struct {
	Head     store.Head
	Rows     []store.Row
	Ops      []store.Op
	Effects  []store.Effect
	Snapshot *store.Snapshot
	Calls    int
	Repeated []string
}

func trailOf(t testing.TB, cfg runtime.Config, j model.Journal) trail {
	t.Helper()
	rows, err := cfg.Store.Rows(t.Context(), cfg.Room, -1, 0)
	if err != nil {
		t.Fatal(err)
	}
	l, err := cfg.Store.Load(t.Context(), cfg.Room)
	if err != nil {
		t.Fatal(err)
	}
	return trail{
		Head: l.Head, Rows: rows, Ops: l.Ops, Effects: l.Effects, Snapshot: l.Snapshot,
		Calls: j.Total(), Repeated: j.Repeated(),
	}
}

// inRoom is the trail as if its room had another id in the store.
func inRoom(room string, tr trail) trail {
	tr.Head.Room = room
	for i := range tr.Effects {
		tr.Effects[i].Room = room
	}
	return tr
}

// differs is cmp.Diff, quick when there is nothing to say.
func differs(want, got trail) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return cmp.Diff(want, got)
}

// passages plays the scene once, counting how often it passes crash points.
func passages(t testing.TB, s scene) (trail, []runtime.Point) {
	t.Helper()
	var points []runtime.Point
	s.change = func(c *runtime.Config) {
		c.Crash = &runtime.Crash{Hook: func(p runtime.Point) error { points = append(points, p); return nil }}
	}
	j := &model.MemoryJournal{}
	cfg := s.config(t, memory.New(memory.Options{}), j)
	if _, err := runtime.Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	return trailOf(t, cfg, j), points
}

// crashing plays the scene, dying at the passages that die says, counted anew
// in each process.
func crashing(t testing.TB, s scene, die func(process, passage int) bool) (trail, int) {
	t.Helper()
	st, j := memory.New(memory.Options{}), &model.MemoryJournal{}
	for process := 0; ; process++ {
		if process > 500 {
			t.Fatal("the room makes no progress")
		}
		n := 0
		s.change = func(c *runtime.Config) {
			c.Crash = &runtime.Crash{Hook: func(runtime.Point) error {
				if n++; die(process, n) {
					return errCrash
				}
				return nil
			}}
		}
		cfg := s.config(t, st, j)
		_, err := runtime.Run(t.Context(), cfg)
		if err == nil {
			return trailOf(t, cfg, j), process
		}
		if !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
	}
}

// R45, R49: for lookup parties a process may die after every commit and at
// every named point without changing a row, a call or an amount; with
// snapshots on the way and without.
func TestR45_CrashAnywhereChangesNothing(t *testing.T) {
	t.Parallel()
	want, points := passages(t, golden())
	if want.Repeated != nil || want.Head.Money.Held != 0 || want.Head.Termination != runtime.Completed {
		t.Fatalf("the scene itself is wrong: %+v", want.Head)
	}
	for _, p := range []runtime.Point{
		runtime.AfterCommit, runtime.AfterMark, runtime.AfterCall, runtime.AfterEffect, runtime.AfterReceipt,
		runtime.AfterReconcile, runtime.BeforeClose, runtime.AfterClose,
	} {
		if !slices.Contains(points, p) {
			t.Errorf("the scene never passes %s", p)
		}
	}
	other, more := passages(t, snapping(golden()))
	if diff := differs(want, other); diff != "" {
		t.Errorf("snapshots on the way leave another trail:\n%s", diff)
	}
	if n := len(more) - len(points); n < 2 {
		t.Errorf("the scene stores %d snapshots on the way", n)
	}
	for _, s := range []struct {
		scene  scene
		points []runtime.Point
	}{{golden(), points}, {snapping(golden()), more}} {
		for i, p := range s.points {
			got, died := crashing(t, s.scene, func(process, passage int) bool { return process == 0 && passage == i+1 })
			if died != 1 {
				t.Errorf("passage %d (%s): died %d times", i+1, p, died)
			}
			if diff := differs(want, got); diff != "" {
				t.Errorf("snapshots from %d bytes, died at passage %d (%s):\n%s", s.scene.snaps, i+1, p, diff)
			}
		}
	}
}

// Dying at every first passage would never get past a tool call, whose
// repetition is itself the first passage; from the second on each process gets
// somewhere.
func TestR49_CrashAtEveryPassageInTurn(t *testing.T) {
	t.Parallel()
	want, points := passages(t, golden())
	for _, s := range []scene{golden(), snapping(golden())} {
		for _, every := range []int{2, 5} {
			got, died := crashing(t, s, func(_, passage int) bool { return passage == every })
			if died < len(points)/every/2 {
				t.Errorf("every %d: died only %d times over %d points", every, died, len(points))
			}
			if diff := differs(want, got); diff != "" {
				t.Errorf("snapshots from %d bytes, died at every passage %d:\n%s", s.snaps, every, diff)
			}
		}
	}
}

// Random rooms, random deaths, cancelled contexts in between: one trail.
func TestR45_RandomCrashesProperty(t *testing.T) {
	t.Parallel()
	word := rapid.SampledFrom([]string{"", "lost ", "nousage ", "fail ", "us=900 ", "us=2500 "})
	act := rapid.SampledFrom([]string{"get a", "add a 1", "add b 2;get b", "add a 1;add a 1", "get a;get b;add b 1", "done", "no claim"})
	fault := rapid.SampledFrom([]string{"", "", "ack_lost", "lost", "error", "slow"})
	rapid.Check(t, func(rt *rapid.T) {
		s := scene{script: map[string][]turn{}, faults: map[string]string{}, want: 3, patience: 1, keys: rapid.Bool().Draw(rt, "keys")}
		for _, w := range []string{"a", "b", "c"}[:rapid.IntRange(1, 3).Draw(rt, "workers")] {
			turns := []turn{}
			for range rapid.IntRange(0, 5).Draw(rt, "turns") {
				turns = append(turns, turn(word.Draw(rt, "word")+act.Draw(rt, "act")))
			}
			s.script[w] = turns
		}
		for i := 1; i <= 3; i++ {
			s.faults[fmt.Sprintf("add/%d", i)] = fault.Draw(rt, "add")
			s.faults[fmt.Sprintf("get/%d", i)] = fault.Draw(rt, "get")
		}
		if rapid.Bool().Draw(rt, "tight") {
			s.limits = runtime.Limits{
				BudgetMicros: rapid.Int64Range(1000, 20_000).Draw(rt, "budget"),
				ModelCalls:   rapid.IntRange(1, 6).Draw(rt, "calls"), ToolCalls: rapid.IntRange(1, 6).Draw(rt, "tools"),
			}
		}
		want, _ := passages(t, s)
		if want.Repeated != nil {
			rt.Fatalf("operations called twice without any crash: %v", want.Repeated)
		}
		s.snaps = rapid.SampledFrom([]int64{0, 1, 3000}).Draw(rt, "snapshots from bytes")
		got, _ := crashing(t, s, func(_, passage int) bool {
			return passage > 1 && rapid.IntRange(0, 4).Draw(rt, "die") == 0
		})
		if diff := differs(want, got); diff != "" {
			rt.Fatalf("another trail:\n%s", diff)
		}
		if m := want.Head.Money; m.Held != 0 || m.Charged > m.Limit {
			rt.Fatalf("money %+v", m)
		}
	})
}

// A context that ends stops the room between two events; what was called is
// paid and kept, and the next run goes on to the same trail.
func TestCancelledRoomResumes(t *testing.T) {
	t.Parallel()
	want, points := passages(t, golden())
	for i := 0; i < len(points); i += 3 {
		st, j := memory.New(memory.Options{}), &model.MemoryJournal{}
		ctx, cancel := context.WithCancel(t.Context())
		n := 0
		s := golden()
		s.change = func(c *runtime.Config) {
			c.Crash = &runtime.Crash{Hook: func(runtime.Point) error {
				if n++; n == i+1 {
					cancel()
				}
				return nil
			}}
		}
		cfg := s.config(t, st, j)
		_, err := runtime.Run(ctx, cfg)
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatalf("passage %d: %v", i+1, err)
		}
		l, err := st.Load(t.Context(), cfg.Room)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range l.Ops {
			if o.Status == store.OpDispatched {
				t.Errorf("passage %d: operation %s was left without receipt", i+1, o.ID)
			}
		}
		n = len(points) + 1
		if _, err := runtime.Run(t.Context(), cfg); err != nil {
			t.Fatalf("passage %d: %v", i+1, err)
		}
		if diff := differs(want, trailOf(t, cfg, j)); diff != "" {
			t.Errorf("cancelled at passage %d:\n%s", i+1, diff)
		}
	}
}

// R42, R45: an opaque provider cannot be asked. A call that may have happened
// keeps its hold and is never made again; everything else goes on.
func TestR42_OpaqueCallIsHeldAndNeverRepeated(t *testing.T) {
	t.Parallel()
	s := scene{script: map[string][]turn{"a": {"get a", "done", "done"}}, opaque: true}
	_, points := passages(t, s)
	for i, p := range points {
		got, _ := crashing(t, s, func(process, passage int) bool { return process == 0 && passage == i+1 })
		if got.Repeated != nil {
			t.Errorf("died at passage %d (%s): called twice: %v", i+1, p, got.Repeated)
		}
		held := int64(0)
		for _, o := range got.Ops {
			if o.Status == store.OpUncertain {
				held += o.ReservedMicros
			}
		}
		if m := got.Head.Money; m.Held != held || m.Unknown != held {
			t.Errorf("died at passage %d (%s): money %+v, uncertain operations hold %d", i+1, p, m, held)
		}
		if held > 0 && p != runtime.AfterMark && p != runtime.AfterCall {
			t.Errorf("died at passage %d (%s): the outcome was known, yet %d are held", i+1, p, held)
		}
	}
	held := func(point runtime.Point) int64 {
		got, _ := crashing(t, s, func(process, passage int) bool {
			return process == 0 && passage == slices.Index(points, point)+1
		})
		return got.Head.Money.Held
	}
	if held(runtime.AfterMark) == 0 || held(runtime.AfterCall) == 0 {
		t.Error("a call that may have happened holds nothing")
	}
	if held(runtime.AfterCommit) != 0 {
		t.Error("a call that was never dispatched holds money")
	}
}

// R57: the outbox delivers at least once, in order, and repeats an id after a
// crash between delivery and mark.
func TestR57_OutboxRepeatsUntilMarked(t *testing.T) {
	t.Parallel()
	var said []string
	died := false
	s := scene{script: map[string][]turn{"a": {"one"}, "b": {"us=2000 two"}}}
	s.change = func(c *runtime.Config) {
		c.Notifier = notify(func(say engine.Say) error { said = append(said, say.From+": "+say.Text.S); return nil })
		c.Crash = &runtime.Crash{Hook: func(p runtime.Point) error {
			if p == runtime.AfterDelivery && !died {
				died = true
				return errCrash
			}
			return nil
		}}
	}
	cfg := s.config(t, memory.New(memory.Options{}), &model.MemoryJournal{})
	if _, err := runtime.Run(t.Context(), cfg); !errors.Is(err, errCrash) {
		t.Fatalf("got %v", err)
	}
	if _, err := runtime.Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a: one", "a: one", "b: two"}, said); diff != "" {
		t.Error(diff)
	}
}

// A notifier that fails delays its messages, never the room.
func TestR57_FailedDeliveryIsTriedAgain(t *testing.T) {
	t.Parallel()
	var said []string
	fail := true
	s := scene{script: map[string][]turn{"a": {"one"}, "b": {"us=2000 two"}}}
	s.change = func(c *runtime.Config) {
		c.Notifier = notify(func(say engine.Say) error {
			if fail {
				fail = false
				return errors.New("nobody there")
			}
			said = append(said, say.Text.S)
			return nil
		})
	}
	cfg := s.config(t, memory.New(memory.Options{}), &model.MemoryJournal{})
	if _, err := runtime.Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"one", "two"}, said); diff != "" {
		t.Error(diff)
	}
}

type notify func(engine.Say) error

func (n notify) Notify(_ context.Context, _ string, say engine.Say) error { return n(say) }

func TestParseCrash(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in    string
		point runtime.Point
		at    int64
		bad   string
	}{
		{"17", runtime.AfterCommit, 17, ""},
		{"after_mark:3", runtime.AfterMark, 3, ""},
		{"any:5", runtime.AnyPoint, 5, ""},
		{"0", "", 0, "from 1"},
		{"after_mark:x", "", 0, "from 1"},
		{"nowhere:1", "", 0, "unknown"},
	} {
		got, err := runtime.ParseCrash(c.in)
		switch {
		case c.bad != "":
			if err == nil || !strings.Contains(err.Error(), c.bad) {
				t.Errorf("%q: %v, want %q", c.in, err, c.bad)
			}
		case err != nil || got.Point != c.point || got.At != c.at:
			t.Errorf("%q: %+v, %v", c.in, got, err)
		}
	}
	if got, err := runtime.ParseCrash(""); got != nil || err != nil {
		t.Errorf("empty: %v, %v", got, err)
	}
}

func TestTrailIsJSON(t *testing.T) {
	t.Parallel()
	want, _ := passages(t, golden())
	for _, r := range want.Rows {
		if !json.Valid(r.Event) || !json.Valid(r.Commands) {
			t.Errorf("revision %d is no JSON", r.Rev)
		}
		if strings.Contains(string(r.Commands), "You are") {
			t.Errorf("revision %d holds the text of a request", r.Rev)
		}
	}
}
