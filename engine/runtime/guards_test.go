package runtime_test

import (
	goruntime "runtime"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/model/scripted"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
)

// costly is a provider that passes for a real one.
type costly struct{ model.Provider }

func (costly) Evidence() model.Evidence { return model.Measured }
func (costly) Class() model.Class       { return model.Opaque }

// DESIGN §4: a real provider is never dispatched on simulated funds, nor on
// virtual time; nothing is called and no room is made. On real funds it runs.
func TestRealProviderNeverRunsOnSimulatedFunds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			funds store.Funds
			clock runtime.Clock
			want  string
		}{
			{store.FundsSimulated, runtime.Wall, "cannot be dispatched on simulated funds"},
			{store.FundsSimulated, runtime.Virtual, "cannot be dispatched on simulated funds"},
			{store.FundsReal, runtime.Virtual, "cannot run on virtual time"},
			{store.FundsReal, runtime.Wall, ""},
		} {
			st, j := memory.New(memory.Options{}), &model.MemoryJournal{}
			s := scene{script: map[string][]turn{"a": {"done"}}}
			cfg := s.config(t, st, j)
			cfg.Provider, cfg.Funds, cfg.Clock = costly{cfg.Provider}, c.funds, c.clock
			_, err := runtime.Run(t.Context(), cfg)
			rooms, lerr := st.ListRooms(t.Context(), "")
			if lerr != nil {
				t.Fatal(lerr)
			}
			if c.want == "" {
				if err != nil || j.Total() != 1 || rooms[0].Funds != store.FundsReal {
					t.Errorf("%s funds, clock %d: %v, %d calls", c.funds, c.clock, err, j.Total())
				}
				continue
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || j.Total() != 0 || len(rooms) != 0 {
				t.Errorf("%s funds, clock %d: %v, want %q; %d calls, rooms %v", c.funds, c.clock, err, c.want, j.Total(), rooms)
			}
		}
	})
}

// A room that was made for another machine and has no row yet is refused too.
func TestAnEmptyRoomOfAnotherMachineVersionIsRefused(t *testing.T) {
	t.Parallel()
	st, j := memory.New(memory.Options{}), &model.MemoryJournal{}
	cfg := scene{script: map[string][]turn{"a": {"done"}}}.config(t, st, j)
	err := st.CreateRoom(t.Context(), store.NewRoom{
		Room: cfg.Room, Salt: cfg.Salt, Money: engine.Money{Limit: cfg.Limits.BudgetMicros}, Funds: cfg.Funds, Machine: "bot@0",
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := runtime.Run(t.Context(), cfg); engine.CodeOf(err) != engine.CodeVersionMismatch || j.Total() != 0 {
		t.Errorf("got %v, %d calls", err, j.Total())
	}
}

// R38: usage in a category without price is charged at the bound, never at
// the priced part of it.
func TestR38_UnpricedUsageIsChargedAtBound(t *testing.T) {
	t.Parallel()
	p := scene{
		script: map[string][]turn{"a": {}},
		change: func(c *runtime.Config) {
			price := c.Prices["m"]
			price.Rates.Reasoning = model.Unpriced
			c.Prices = model.Prices{"m": price}
		},
		provider: func(c scripted.Config) scripted.Config {
			c.Func = func(model.Call) (scripted.Answer, error) {
				return scripted.Text("done", engine.Usage{Input: 1, Output: 1, Reasoning: 1}, 1000), nil
			}
			return c
		},
	}.play(t)
	o := op(t, p.history, engine.OpAgent, 0)
	if o.ChargedMicros != o.ReservedMicros || o.ReservedMicros == 0 || o.Receipt.UsageSource != "bound" || p.res.Head.Halted {
		t.Errorf("operation %+v, receipt %+v", o, o.Receipt)
	}
}

// DESIGN §2: n counts the confirmed calls of the same task. What another task
// does meanwhile with equal arguments leaves the key of a retry as it was.
func TestIdempotencyKeyCountsWithinItsTask(t *testing.T) {
	t.Parallel()
	// Worker b's call is lost after it took effect; before b tries again,
	// worker a has made an equal call.
	p := scene{
		script: map[string][]turn{"a": {"us=1500 add x 1", "done"}, "b": {"us=1000 add x 1", "us=5000 add x 1", "done"}},
		faults: map[string]string{"add/1": "ack_lost"},
		keys:   true,
	}.play(t)
	var got []string
	keys := map[string]string{}
	for _, e := range p.history.Entries {
		tool := e.Event.Tool
		if tool == nil {
			continue
		}
		if keys[tool.IdemID] == "" {
			keys[tool.IdemID] = string(rune('A' + len(keys)))
		}
		got = append(got, tool.Task+" "+keys[tool.IdemID]+" "+string(e.Event.Kind))
	}
	if diff := cmp.Diff([]string{"b A tool_unknown", "a B tool_ok", "b A tool_ok"}, got); diff != "" {
		t.Error(diff)
	}
	if d := string(p.history.Documents["counters"]); d != `{"x":2}` {
		t.Errorf("documents %s", d)
	}
}

// DESIGN §2: the cost of an event does not grow with the history behind it.
// Allocations stand for cost: unlike time, they do not depend on the machine.
// This test runs alone, because they are counted for the whole process.
//
//nolint:paralleltest // see above
func TestCostPerEventDoesNotGrow(t *testing.T) {
	const calls, window = 3000, 250
	var bytes, allocs []uint64 // per window
	var last goruntime.MemStats
	cfg := scene{script: map[string][]turn{"a": {}}, limits: runtime.Limits{BudgetMicros: 1 << 50}}.
		config(t, memory.New(memory.Options{}), &model.MemoryJournal{})
	cfg.Machine = func() (engine.Machine, error) {
		return &metered{pulse: pulse{Left: calls}, at: func(n int) {
			if n%window != 0 {
				return
			}
			var now goruntime.MemStats
			goruntime.ReadMemStats(&now)
			bytes, allocs, last = append(bytes, now.TotalAlloc-last.TotalAlloc), append(allocs, now.Mallocs-last.Mallocs), now
		}}, nil
	}
	if _, err := runtime.Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	end := len(allocs) - 1
	if end != calls/window {
		t.Fatalf("%d windows", end)
	}
	// A slice that is doubled shows in the bytes of one window, so those are
	// compared over halves; window 0 is what was before the room.
	sum := func(v []uint64) (s uint64) {
		for _, x := range v {
			s += x
		}
		return s
	}
	if first, now := allocs[2], allocs[end]; now > first+first/20 {
		t.Errorf("allocations of %d calls grow from %d to %d", window, first, now)
	}
	if first, now := sum(bytes[1:end/2+1]), sum(bytes[end/2+1:]); now > first+first/10 {
		t.Errorf("bytes of %d calls grow from %d to %d", calls/2, first, now)
	}
}

// metered tells the number of calls before each event.
type metered struct {
	pulse
	at func(n int)
}

func (m *metered) Handle(ev engine.Event) ([]engine.Command, error) {
	if ev.Kind != engine.EvStarted {
		m.at(m.N)
	}
	return m.pulse.Handle(ev)
}
