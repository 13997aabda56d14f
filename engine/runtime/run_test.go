package runtime_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
)

func TestRoomRunsToACompletedClaim(t *testing.T) {
	t.Parallel()
	p := scene{script: map[string][]turn{"a": {"add a 2;get a", "all counted"}}, tick: 500}.play(t)
	want := []string{
		"started@0", "owner_message@0", "timer@500", "model_reply@1000", "tool_ok@1100", "tool_ok@1100", "model_reply@2100",
	}
	if diff := cmp.Diff(want, kinds(p.history)); diff != "" {
		t.Errorf("log:\n%s", diff)
	}
	// 40 input, 7 cached and 11 output tokens, then one more input token.
	charged := int64(100+9+110) + (103 + 9 + 110)
	wantMoney := engine.Money{Limit: 1_000_000, Charged: charged}
	if diff := cmp.Diff(wantMoney, p.res.Money); diff != "" {
		t.Errorf("money:\n%s", diff)
	}
	if p.res.Termination != runtime.Completed || p.res.AtUS != 2100 || p.res.ModelCalls != 2 || p.res.ToolCalls != 2 {
		t.Errorf("result %+v", p.res)
	}
	if diff := cmp.Diff(&runtime.Claim{AtUS: 2100, By: "bot", Text: "all counted"}, p.res.Claim); diff != "" {
		t.Errorf("claim:\n%s", diff)
	}
	if got := string(p.history.Documents["counters"]); got != `{"a":2}` {
		t.Errorf("documents %s", got)
	}
	if n := p.journal.Total(); n != 2 {
		t.Errorf("the provider was called %d times", n)
	}
	last := p.history.Entries[len(p.history.Entries)-1].Event
	if diff := cmp.Diff(wantMoney, last.Money); diff != "" {
		t.Errorf("the last event does not see its own reply settled:\n%s", diff)
	}
}

// One model call costs two writes: the commit that carries the last receipt
// and asks for the call, and its dispatch mark.
func TestTwoWritesPerModelCall(t *testing.T) {
	t.Parallel()
	script := []turn{}
	for range 20 {
		script = append(script, "get a")
	}
	writes := func(n int) int64 {
		p := scene{script: map[string][]turn{"a": append(script[:n:n], "done")}}.play(t)
		s, err := p.store.Stats(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return s.Writes
	}
	// Each turn more is one model and one tool operation: a commit and a mark each.
	if got := writes(20) - writes(10); got != 10*4 {
		t.Errorf("ten turns more cost %d writes, want 40", got)
	}
}

func TestTerminations(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		scene scene
		want  string
		at    int64
	}{
		{"claim stands", scene{script: map[string][]turn{"a": {"done"}}}, runtime.Completed, 1000},
		{"no claim", scene{script: map[string][]turn{"a": {"no claim"}}}, runtime.GaveUp, 1000},
		{"nobody asks", scene{script: map[string][]turn{"a": {}}, lines: []engine.OwnerSay{}}, runtime.GaveUp, 0},
		{"machine gives up", scene{script: map[string][]turn{"a": {"fail", "fail", "fail"}}}, runtime.GaveUp, 3000},
		{"patience", scene{script: map[string][]turn{"a": {"done", "done"}}, want: 1, patience: 1}, runtime.OwnerPatience, 20_002_000},
		{"corrected", scene{script: map[string][]turn{"a": {"done", "add a 1", "done"}}, want: 1, patience: 1}, runtime.Completed, 20_003_100},
		{"model calls", scene{script: map[string][]turn{"a": {"get a", "get a", "done"}}, limits: runtime.Limits{ModelCalls: 2}}, runtime.StepLimit, 2210},
		{"tool calls", scene{script: map[string][]turn{"a": {"get a", "get a", "done"}}, limits: runtime.Limits{ToolCalls: 1}}, runtime.StepLimit, 2100},
		{"budget", scene{script: map[string][]turn{"a": {"get a", "done"}}, limits: runtime.Limits{BudgetMicros: 1500}}, runtime.Budget, 0},
		{"time", scene{script: map[string][]turn{"a": {"us=60000001 done"}}, limits: runtime.Limits{Minutes: 1}}, runtime.TimeLimit, 60_000_000},
		{"just in time", scene{script: map[string][]turn{"a": {"us=60000000 done"}}, limits: runtime.Limits{Minutes: 1}}, runtime.Completed, 60_000_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := c.scene.play(t)
			if p.res.Termination != c.want || p.res.AtUS != c.at || p.history.Head.Termination != c.want {
				t.Errorf("%s at %d, want %s at %d; log %v", p.res.Termination, p.res.AtUS, c.want, c.at, kinds(p.history))
			}
			if p.res.Money.Held != 0 || p.res.Money.Unknown != 0 {
				t.Errorf("money is still held: %+v", p.res.Money)
			}
		})
	}
}

// A reply that comes after the time limit is charged, though no event tells it.
func TestTimeLimitStillCharges(t *testing.T) {
	t.Parallel()
	p := scene{script: map[string][]turn{"a": {"us=60000001 done"}}, limits: runtime.Limits{Minutes: 1}}.play(t)
	if diff := cmp.Diff([]string{"started@0", "owner_message@0"}, kinds(p.history)); diff != "" {
		t.Error(diff)
	}
	if p.res.Money.Charged != 219 {
		t.Errorf("money %+v", p.res.Money)
	}
}

func TestHarnessFaultsCloseTheRoomWithTheirText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		scene scene
		want  string
	}{
		{"machine errs", scene{script: map[string][]turn{"a": {}}, lines: []engine.OwnerSay{line("m1", "fail", 0)}}, "cannot go on"},
		{"machine panics", scene{script: map[string][]turn{"a": {}}, lines: []engine.OwnerSay{line("m1", "panic", 0)}}, "machine panicked: a bug"},
		{"world errs", scene{script: map[string][]turn{"a": {"add a 1;add a 2;add a 3"}}, faults: map[string]string{"add/2": "broken"}}, "the world is broken"},
		{"no model", scene{script: map[string][]turn{"a": {}}, change: func(c *runtime.Config) { c.Provider = nil }}, "the room has none"},
		{"no rest", scene{script: map[string][]turn{"a": {"get a", "get a", "get a"}}, limits: runtime.Limits{Revisions: 5}}, "come to rest"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p := c.scene.play(t)
			if p.res.Termination != runtime.HarnessError || !strings.Contains(p.res.Fault, c.want) || p.history.Fault != p.res.Fault {
				t.Errorf("%s %q, want the fault %q", p.res.Termination, p.res.Fault, c.want)
			}
			if p.res.Money.Held != 0 {
				t.Errorf("money is still held: %+v", p.res.Money)
			}
			for _, o := range p.history.Ops {
				if o.Receipt == nil {
					t.Errorf("operation %s was left without receipt in state %s", o.ID, o.Status)
				}
			}
		})
	}
}

func TestAClosedRoomIsLeftAlone(t *testing.T) {
	t.Parallel()
	p := scene{script: map[string][]turn{"a": {"done"}}}.play(t)
	cfg := scene{script: map[string][]turn{"a": {"done"}}}.config(t, p.store, p.journal)
	again, err := runtime.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p.res.Head, again.Head); diff != "" || again.Termination != runtime.Completed || p.journal.Total() != 1 {
		t.Errorf("termination %s, %d calls\n%s", again.Termination, p.journal.Total(), diff)
	}
}

func TestConfigIsRefused(t *testing.T) {
	t.Parallel()
	good := scene{script: map[string][]turn{"a": {"done"}}}
	p := good.play(t)
	for _, c := range []struct {
		name   string
		change func(*runtime.Config)
		want   string
	}{
		{"no store", func(c *runtime.Config) { c.Store = nil }, "no store"},
		{"no room", func(c *runtime.Config) { c.Room = "" }, "no room"},
		{"no machine", func(c *runtime.Config) { c.Machine = nil }, "no machine"},
		{"no funds", func(c *runtime.Config) { c.Funds = "" }, "funds"},
		{"other funds", func(c *runtime.Config) { c.Funds = store.FundsReal }, "holds simulated funds"},
		{"bad clock", func(c *runtime.Config) { c.Clock = 7 }, "clock"},
		{"negative limit", func(c *runtime.Config) { c.Limits.ToolCalls = -1 }, "negative"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := good
			s.change = c.change
			if _, err := runtime.Run(t.Context(), s.config(t, p.store, p.journal)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
