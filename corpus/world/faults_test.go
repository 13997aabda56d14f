package world_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/corpus/world"
	"github.com/agentrooms/qualify/engine"
)

func TestWorld_Faults(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, fault string
		outcomes    string // of three calls set{plain,5}
		effects     int
	}{
		{"error before commit", "  - {id: f, tool: set, target: plain, call: 1, kind: error_before_commit}", "error ok ok", 2},
		{"lost before commit", "  - {id: f, tool: set, target: plain, call: 2, kind: lost_before_commit}", "ok unknown ok", 2},
		{"acknowledgement lost", "  - {id: f, tool: set, target: plain, call: 1, kind: ack_lost_after_commit}", "unknown ok ok", 3},
		{"any target", "  - {id: f, tool: set, call: 3, kind: error_before_commit}", "ok ok error", 2},
		{"another target", "  - {id: f, tool: set, target: a/b, call: 1, kind: error_before_commit}", "ok ok ok", 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, load(t, quietOwner, tt.fault))
			var got []string
			for range 3 {
				out := b.do("set", `{"id":"plain","n":5}`, "")
				got = append(got, out.Outcome)
				if (out.Outcome != "ok") != (out.Fault == "f") {
					t.Errorf("outcome %s names fault %q", out.Outcome, out.Fault)
				}
				if out.Outcome == "unknown" && (len(out.Result) > 0 || out.DurationUS < 10_000_000) {
					t.Errorf("an unknown outcome tells %q after %d us", out.Result, out.DurationUS)
				}
			}
			if diff := cmp.Diff(tt.outcomes, strings.Join(got, " ")); diff != "" {
				t.Error(diff)
			}
			if b.confirmed() != tt.effects {
				t.Errorf("%d effects, want %d", b.confirmed(), tt.effects)
			}
		})
	}
}

func TestWorld_SlowMultipliesTheDuration(t *testing.T) {
	t.Parallel()
	plain := newBench(t, load(t, quietOwner, ""))
	slow := newBench(t, load(t, quietOwner, "  - {id: f, tool: get, target: plain, call: 1, kind: slow, factor: 7}"))
	a, b := plain.do("get", `{"id":"plain"}`, ""), slow.do("get", `{"id":"plain"}`, "")
	if b.DurationUS != 7*a.DurationUS || b.Fault != "f" || b.Outcome != "ok" {
		t.Errorf("slow call: %+v, plain call takes %d us", b, a.DurationUS)
	}
}

func TestWorld_StaleReadAnswersFromBeforeTheLastWrite(t *testing.T) {
	t.Parallel()
	b := newBench(t, load(t, quietOwner, "  - {id: f, tool: get, target: plain, call: 2, kind: stale_read}"))
	b.do("set", `{"id":"plain","n":5}`, "")
	b.do("set", `{"id":"plain","n":6}`, "")
	var got []string
	for range 3 {
		got = append(got, string(b.do("get", `{"id":"plain"}`, "").Result))
	}
	want := []string{`{"kind":"box","n":6}`, `{"kind":"box","n":5}`, `{"kind":"box","n":6}`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Field report 30: the effect is committed, the acknowledgement lost, the call
// repeated.
func TestF30_RetryAfterLostAcknowledgement(t *testing.T) {
	t.Parallel()
	fault := "  - {id: f, tool: log, call: 1, kind: ack_lost_after_commit}"
	for _, tt := range []struct {
		name, key, docs string
		effects         int
	}{
		{"same key", "k1", `"log":["refund"]`, 1},
		{"no key", "", `"log":["refund","refund"]`, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, load(t, quietOwner, fault))
			first := b.do("log", `{"line":"refund"}`, tt.key)
			if first.Outcome != engine.ToolUnknown || first.Effect == nil || first.Effect.Ack != "lost" {
				t.Fatalf("first call: %+v", first)
			}
			second := b.do("log", `{"line":"refund"}`, tt.key)
			if second.Outcome != engine.ToolOK || string(second.Result) != `"refund"` {
				t.Errorf("second call: %s %s", second.Outcome, second.Result)
			}
			if second.Effect == nil || second.Effect.Suppressed != (tt.key != "") {
				t.Errorf("second effect: %+v", second.Effect)
			}
			if b.confirmed() != tt.effects || !strings.Contains(b.docs(), tt.docs) {
				t.Errorf("%d effects, documents %s", b.confirmed(), b.docs())
			}
		})
	}
}

func TestWorld_AnotherKeyIsAnotherEffect(t *testing.T) {
	t.Parallel()
	b := newBench(t, load(t, quietOwner, ""))
	b.do("log", `{"line":"x"}`, "k1")
	b.do("log", `{"line":"x"}`, "k2")
	b.do("log", `{"line":"x"}`, "k1")
	if b.confirmed() != 2 {
		t.Errorf("%d effects, want 2", b.confirmed())
	}
}

// A world rebuilt from effect records and counts goes on as the first one.
func TestWorld_ReplayGivesTheSameWorld(t *testing.T) {
	t.Parallel()
	c := load(t, quietOwner, indent(
		"  - {id: f1, tool: set, call: 2, kind: ack_lost_after_commit}",
		"  - {id: f2, tool: log, call: 2, kind: lost_before_commit}",
		"  - {id: f3, tool: get, target: plain, call: 1, kind: stale_read}",
		"  - {id: f4, tool: drop, target: plain, call: 1, kind: error_before_commit}",
		"  - {id: f5, tool: mail, call: 1, kind: slow}",
	))
	calls := [][2]string{
		{"set", `{"id":"plain","n":%N}`},
		{"log", `{"line":"l%N"}`},
		{"get", `{"id":"plain"}`},
		{"drop", `{"id":"plain"}`},
		{"mail", `{"to":"ana","text":"%N"}`},
		{"make", `{"id":"plain","n":%N}`},
		{"list", `{}`},
		{"set", `{"id":`},
		{"add", `{"id":"i%N","n":%N.5}`},
		{"toss", `{"id":"i%N"}`},
	}
	rapid.Check(t, func(rt *rapid.T) {
		b := newBench(t, c)
		n := rapid.IntRange(1, 12).Draw(rt, "calls")
		cut := rapid.IntRange(0, n-1).Draw(rt, "cut")
		var replayed *world.World
		var err error
		for i := range n {
			if i == cut {
				replayed, err = world.New(c, 7)
				if err != nil {
					rt.Fatal(err)
				}
				for _, s := range b.log {
					if s.out.Effect != nil {
						if err := replayed.Apply(*s.out.Effect); err != nil {
							rt.Fatal(err)
						}
					}
					replayed.Called(s.req.Tool, s.req.Target)
				}
			}
			k := calls[rapid.IntRange(0, len(calls)-1).Draw(rt, "call")]
			key := rapid.SampledFrom([]string{"", "k1", "k2"}).Draw(rt, "key")
			args := strings.ReplaceAll(k[1], "%N", string(rune('0'+rapid.IntRange(0, 3).Draw(rt, "n"))))
			if replayed == nil {
				b.do(k[0], args, key)
				continue
			}
			// The second world sees the same request before the first one runs it.
			req := b.request(k[0], args, key)
			b.n--
			got, err := replayed.Do(context.Background(), req)
			if err != nil {
				rt.Fatal(err)
			}
			want := b.do(k[0], args, key)
			if diff := cmp.Diff(want, got); diff != "" {
				rt.Fatal(diff)
			}
			if got.Effect != nil {
				if err := replayed.Apply(*got.Effect); err != nil {
					rt.Fatal(err)
				}
				back, err := replayed.Recover(req, *got.Effect)
				if err != nil {
					rt.Fatal(err)
				}
				if diff := cmp.Diff(want, back); diff != "" {
					rt.Fatal("recovered outcome:", diff)
				}
			}
			replayed.Called(req.Tool, req.Target)
		}
		docs, err := replayed.Documents()
		if err != nil {
			rt.Fatal(err)
		}
		text, err := engine.Canonical(docs)
		if err != nil {
			rt.Fatal(err)
		}
		if string(text) != b.docs() {
			rt.Fatalf("documents differ:\n%s\n%s", text, b.docs())
		}
		if diff := cmp.Diff(b.w.Messages(), replayed.Messages()); diff != "" {
			rt.Fatal(diff)
		}
	})
}

func TestWorld_DoChangesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, load(t, quietOwner, ""))
	before := b.docs()
	for range 3 {
		if _, err := b.w.Do(context.Background(), b.request("set", `{"id":"plain","n":9}`, "k")); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(before, b.docs()); diff != "" {
		t.Error(diff)
	}
}

func TestWorld_RecordsThatAreNotConfirmedChangeNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, load(t, quietOwner, ""))
	out, err := b.w.Do(context.Background(), b.request("set", `{"id":"plain","n":9}`, "k"))
	if err != nil {
		t.Fatal(err)
	}
	before := b.docs()
	for _, state := range []string{"intent", "refuted"} {
		e := *out.Effect
		e.State = state
		if err := b.w.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(before, b.docs()); diff != "" {
		t.Error(diff)
	}
	bad := *out.Effect
	bad.Patch = []byte(`[{"put":["nowhere","x","y"],"value":1}]`)
	if err := b.w.Apply(bad); err == nil {
		t.Error("a patch that fits no document was applied")
	}
}

func TestWorld_DurationsDependOnSeedToolAndCountOnly(t *testing.T) {
	t.Parallel()
	c := load(t, quietOwner, "")
	durations := func(seed uint64, c *corpus.Case) []int64 {
		w, err := world.New(c, seed)
		if err != nil {
			t.Fatal(err)
		}
		var out []int64
		for range 3 {
			o, err := w.Do(context.Background(), engine.ToolRequest{Tool: "get", Args: []byte(`{"id":"plain"}`), Target: "plain"})
			if err != nil {
				t.Fatal(err)
			}
			w.Called("get", "plain")
			out = append(out, o.DurationUS)
		}
		return out
	}
	if diff := cmp.Diff(durations(7, c), durations(7, c)); diff != "" {
		t.Error(diff)
	}
	if cmp.Equal(durations(7, c), durations(8, c)) {
		t.Error("the seed does not move durations")
	}
	for _, d := range durations(7, c) {
		if d < 60_000 || d >= 400_000 {
			t.Errorf("a read takes %d us", d)
		}
	}
}
