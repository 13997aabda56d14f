package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/model/scripted"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
)

func sorted(in []string) []string {
	out := slices.Clone(in)
	slices.Sort(out)
	return out
}

// story lists who did what when: "a model_reply@1000".
func story(h *runtime.History) []string {
	var out []string
	for _, e := range h.Entries {
		who := ""
		if e.Event.Key != nil {
			who = e.Event.Key.Cause + " "
		}
		out = append(out, fmt.Sprintf("%s%s@%d", who, e.Event.Kind, e.Event.AtUS))
	}
	return out
}

// Three workers at once: events come in the order of virtual time, also when a
// call that starts later returns earlier than one already under way.
func TestVirtualTimeOrdersConcurrentOperations(t *testing.T) {
	t.Parallel()
	p := scene{script: map[string][]turn{
		"a": {"us=9000 done"},
		"b": {"us=2000 get b", "us=500 done"},
		"c": {"us=4000 get c", "us=500 done"},
	}}.play(t)
	want := []string{
		"started@0", "owner_message@0", "b model_reply@2000", "b tool_ok@2100", "b model_reply@2600",
		"c model_reply@4000", "c tool_ok@4110", "c model_reply@4610", "a model_reply@9000",
	}
	if diff := cmp.Diff(want, story(p.history)); diff != "" {
		t.Error(diff)
	}
}

// At one time: timer, then owner, then operations by id.
func TestVirtualTimeBreaksTies(t *testing.T) {
	t.Parallel()
	s := scene{
		script: map[string][]turn{"a": {"get a", "done"}, "b": {"done"}, "c": {"done"}},
		lines:  []engine.OwnerSay{line("m1", "go", 0), line("m2", "and go on", 1000)}, tick: 1000,
	}
	p := s.play(t)
	got := story(p.history)[2:7]
	ids := map[string]string{}
	for _, w := range []string{"a", "b", "c"} {
		ids[engine.OperationID("case/arm/0", engine.OpKey{Kind: engine.OpAgent, Cause: w, Ordinal: 1})] = w
	}
	var keys []string
	for id := range ids {
		keys = append(keys, id)
	}
	want := []string{"timer@1000", "owner_message@1000"}
	for _, id := range sorted(keys) {
		want = append(want, ids[id]+" model_reply@1000")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The order of real returns has no influence: a provider that answers in any
// order of real time gives the same rows.
func TestParallelCallsAreDeterministic(t *testing.T) {
	t.Parallel()
	want, _ := passages(t, golden())
	for seed := range 4 {
		synctest.Test(t, func(t *testing.T) {
			s := golden()
			s.change = func(c *runtime.Config) { c.Provider = &jittery{Provider: c.Provider, seed: seed} }
			j := &model.MemoryJournal{}
			cfg := s.config(t, memory.New(memory.Options{}), j)
			cfg.Gauge = &runtime.Gauge{}
			if _, err := runtime.Run(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			if diff := differs(want, trailOf(t, cfg, j)); diff != "" {
				t.Errorf("seed %d:\n%s", seed, diff)
			}
			g := cfg.Gauge.Read()
			if g.PeakCalls != 2 || g.Calls != 0 || g.TotalCalls != int64(want.Calls) || g.PeakTrials != 1 || g.Trials != 0 {
				t.Errorf("gauge %+v", g)
			}
		})
	}
}

// jittery answers after a delay that depends on the operation and a seed.
type jittery struct {
	model.Provider
	seed int
}

func (j *jittery) Call(ctx context.Context, c model.Call) (model.Reply, error) {
	time.Sleep(time.Duration(int(c.Op[len(c.Op)-1])*(7+j.seed)%13) * time.Millisecond)
	return j.Provider.Call(ctx, c)
}

func (j *jittery) Lookup(ctx context.Context, c model.Call) (model.Found, error) {
	f, ok := j.Provider.(model.Finder)
	if !ok {
		return model.Found{}, errors.New("cannot be asked")
	}
	return f.Lookup(ctx, c)
}

// Under wall time events come as they really happen, owner messages and timers
// when they are due, and the time limit cuts what is under way.
func TestWallTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		script map[string][]turn
		limits runtime.Limits
		want   []string
		word   string
		at     int64
	}{
		{
			"to the end",
			map[string][]turn{"a": {"get a", "done"}, "b": {"done"}},
			runtime.Limits{},
			[]string{
				"started@0", "owner_message@0", "timer@500000", "b model_reply@1000000", "a model_reply@2000000", "a tool_ok@2000000",
				"a model_reply@4000000",
			},
			runtime.Completed, 4_000_000,
		},
		{
			"cut",
			map[string][]turn{"a": {"get a", "done"}, "b": {"slow"}},
			runtime.Limits{Minutes: 1},
			[]string{"started@0", "owner_message@0", "timer@500000", "a model_reply@2000000", "a tool_ok@2000000", "a model_reply@4000000"},
			runtime.TimeLimit, 60_000_000,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := scene{script: c.script, limits: c.limits, tick: 500_000}
				s.change = func(c *runtime.Config) { c.Clock, c.Provider = runtime.Wall, sleepy{c.Provider} }
				cfg := s.config(t, memory.New(memory.Options{}), &model.MemoryJournal{})
				res, err := runtime.Run(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				h := replay(t, cfg)
				if diff := cmp.Diff(c.want, story(h)); diff != "" {
					t.Error(diff)
				}
				if res.Termination != c.word || res.AtUS != c.at || res.Money.Held != 0 {
					t.Errorf("%s at %d, money %+v", res.Termination, res.AtUS, res.Money)
				}
			})
		})
	}
}

// sleepy takes one second for worker b, two for a, two minutes for the word
// slow.
type sleepy struct{ model.Provider }

func (s sleepy) Call(ctx context.Context, c model.Call) (model.Reply, error) {
	r, err := s.Provider.Call(ctx, c)
	switch {
	case r.Text == "slow":
		time.Sleep(2 * time.Minute)
	case strings.HasSuffix(c.System, "b"):
		time.Sleep(time.Second)
	default:
		time.Sleep(2 * time.Second)
	}
	return r, err
}

// R72: an event that is due before the newest row is stamped with the row's
// time, on both clocks.
func TestR72_WhatIsDueEarlierIsStampedNow(t *testing.T) {
	t.Parallel()
	late := line("m2", "I said so before", 1_000_000)
	want := []string{"started@0", "owner_message@5000000", "owner_message@5000000"}
	for _, clock := range []runtime.Clock{runtime.Virtual, runtime.Wall} {
		synctest.Test(t, func(t *testing.T) {
			p := scene{
				script: map[string][]turn{}, lines: []engine.OwnerSay{line("m1", "count", 5_000_000), late},
				change: func(c *runtime.Config) { c.Clock = clock },
			}.play(t)
			if diff := cmp.Diff(want, kinds(p.history)); diff != "" {
				t.Errorf("clock %d:\n%s", clock, diff)
			}
		})
	}
}

// R72: a wall-time room that is resumed goes on from its newest row.
func TestR72_ResumedWallTimeNeverGoesBackwards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := scene{script: map[string][]turn{"a": {"get a", "get a", "done"}}}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		s.change = func(c *runtime.Config) { c.Clock, c.Provider = runtime.Wall, sleepy{c.Provider} }
		cfg := s.config(t, memory.New(memory.Options{}), &model.MemoryJournal{})
		if _, err := runtime.Run(ctx, cfg); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("got %v", err)
		}
		time.Sleep(time.Hour)
		cfg.Provider = lookupSleepy{sleepy{s.inner(t, cfg)}}
		res, err := runtime.Run(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		last := int64(0)
		for _, e := range replay(t, cfg).Entries {
			if e.Event.AtUS < last {
				t.Errorf("revision %d: time goes back from %d to %d", e.Rev, last, e.Event.AtUS)
			}
			last = e.Event.AtUS
		}
		if res.Termination != runtime.Completed || last > 60_000_000 {
			t.Errorf("%s at %d", res.Termination, last)
		}
	})
}

func (s scene) inner(t *testing.T, _ runtime.Config) model.Provider {
	t.Helper()
	p, err := scripted.New(scripted.Config{Func: play(s.script)})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

type lookupSleepy struct{ sleepy }

func (l lookupSleepy) Lookup(ctx context.Context, c model.Call) (model.Found, error) {
	f, ok := l.Provider.(model.Finder)
	if !ok {
		return model.Found{}, errors.New("cannot be asked")
	}
	return f.Lookup(ctx, c)
}

// racing loses every n-th compare-and-set.
type racing struct {
	*memory.Store
	mu   sync.Mutex
	n    int
	lose func(n int) bool
}

func (r *racing) Commit(ctx context.Context, c store.Commit) (*store.Committed, error) {
	r.mu.Lock()
	r.n++
	lost := r.lose(r.n)
	r.mu.Unlock()
	if lost {
		return nil, fmt.Errorf("commit: %w", store.ErrConflict)
	}
	return r.Store.Commit(ctx, c)
}

// R71: after a lost compare-and-set the machine is dropped and the room
// reloaded; the result is the same and nothing is called twice.
func TestR71_LostCompareAndSetIsDerivedAgain(t *testing.T) {
	t.Parallel()
	want, _ := passages(t, golden())
	j := &model.MemoryJournal{}
	cfg := golden().config(t, &racing{Store: memory.New(memory.Options{}), lose: func(n int) bool { return n%3 == 0 }}, j)
	if _, err := runtime.Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	if diff := differs(want, trailOf(t, cfg, j)); diff != "" {
		t.Error(diff)
	}
}

func TestR71_TenLostInARowReturnWithReceiptsKept(t *testing.T) {
	t.Parallel()
	st := &racing{Store: memory.New(memory.Options{}), lose: func(n int) bool { return n > 2 }}
	j := &model.MemoryJournal{}
	s := scene{script: map[string][]turn{"a": {"done"}}}
	cfg := s.config(t, st, j)
	if _, err := runtime.Run(t.Context(), cfg); !errors.Is(err, store.ErrConflict) {
		t.Fatalf("got %v", err)
	}
	if st.n != 2+10 {
		t.Errorf("%d commits were tried, want 12", st.n)
	}
	l, err := st.Load(t.Context(), cfg.Room)
	if err != nil {
		t.Fatal(err)
	}
	if len(l.Ops) != 1 || l.Ops[0].Receipt == nil || j.Total() != 1 {
		t.Errorf("operations %+v, %d calls", l.Ops, j.Total())
	}
	st.lose = func(int) bool { return false }
	res, err := runtime.Run(t.Context(), cfg)
	if err != nil || res.Termination != runtime.Completed || j.Total() != 1 {
		t.Errorf("%s, %d calls, %v", res.Termination, j.Total(), err)
	}
}
