package runtime_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/model/scripted"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
	"github.com/agentrooms/qualify/engine/store/sqlite"
)

// TestMain runs fewer random histories than rapid's default; -rapid.checks
// runs more.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		if err := child(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if err := flag.Set("rapid.checks", "25"); err != nil {
		panic(err)
	}
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// turn is one reply of a worker's model: text, or tool calls written
// "add a 3" and "get a". Marks before it: lost, nousage, fail, dear (usage
// beyond the bound), and "us=N" for the duration.
type turn string

// play answers the n-th call of a worker with its n-th turn, n being the
// number of replies and lost replies in the conversation: a pure function of
// the call.
func play(script map[string][]turn) func(model.Call) (scripted.Answer, error) {
	return func(c model.Call) (scripted.Answer, error) {
		worker := strings.TrimPrefix(c.System, "You are: ")
		n := 0
		for _, m := range c.Messages {
			if m.Role == engine.MsgAssistant || m.Text == "again" {
				n++
			}
		}
		turns := script[worker]
		if n >= len(turns) {
			return scripted.Text("nothing more to do", engine.Usage{Input: 10, Output: 5}, 1000), nil
		}
		return turns[n].answer(n), nil
	}
}

func (t turn) answer(n int) scripted.Answer {
	a := scripted.Text("", engine.Usage{Input: int64(40 + n), CachedRead: 7, Output: 11}, 1000)
	words := strings.Fields(string(t))
	for len(words) > 0 {
		switch w := words[0]; {
		case w == "lost":
			a.Lost = true
		case w == "nousage":
			a.Reply.Usage = nil
		case w == "fail":
			a.Reply.Outcome, a.Reply.Error, a.Reply.Code = model.Failed, "busy\nnow, api_key=sk-123", "overloaded"
		case w == "dear":
			a.Reply.Usage = &engine.Usage{Input: 1_000_000}
		case strings.HasPrefix(w, "us="):
			if _, err := fmt.Sscanf(w, "us=%d", &a.Reply.DurationUS); err != nil {
				panic(err)
			}
		default:
			a.Reply.Text = strings.Join(words, " ")
			words = words[:1]
		}
		words = words[1:]
	}
	for i, call := range strings.Split(a.Reply.Text, ";") {
		f := strings.Fields(call)
		if len(f) < 2 || f[0] != "add" && f[0] != "get" {
			return a
		}
		args := fmt.Sprintf(`{"id":%q}`, f[1])
		if f[0] == "add" {
			args = fmt.Sprintf(`{"id":%q,"n":%s}`, f[1], f[2])
		}
		a.Reply.ToolCalls = append(a.Reply.ToolCalls, model.ToolCall{ID: fmt.Sprintf("c%d", i), Tool: f[0], Args: args})
	}
	a.Reply.Text, a.Reply.Finish = "", "tool_calls"
	return a
}

// scene is one room to play.
type scene struct {
	script   map[string][]turn
	faults   map[string]string
	lines    []engine.OwnerSay
	want     int64
	patience int
	opaque   bool
	limits   runtime.Limits
	keys     bool
	tick     int64
	room     string // id in the store, "" for the usual one
	snaps    int64  // bytes of a tail worth a snapshot, 0 for the default
	change   func(*runtime.Config)
	provider func(scripted.Config) scripted.Config
}

func prices() model.Prices {
	return model.Prices{"m": {Rates: model.Rates{
		Input: 2_500_000, CachedRead: 1_250_000, CacheWrite5m: 3_125_000, CacheWrite1h: 5_000_000, Output: 10_000_000, Reasoning: 10_000_000,
	}}}
}

func (s scene) workers() []string {
	var ws []string
	for _, w := range []string{"a", "b", "c"} {
		if _, ok := s.script[w]; ok {
			ws = append(ws, w)
		}
	}
	return ws
}

func (s scene) folds() runtime.Folds {
	return runtime.Folds{
		Name: "case/arm/0",
		Machine: func() (engine.Machine, error) {
			b := newBot(s.workers()...)
			b.Tick = s.tick
			b.panics = "panic"
			return b, nil
		},
		World: func() (engine.World, error) { return newCounters(s.faults), nil },
		Owner: func(w engine.World) (engine.Owner, error) {
			c, ok := w.(*counters)
			if !ok {
				return nil, fmt.Errorf("world is %T", w)
			}
			lines := s.lines
			if lines == nil {
				lines = []engine.OwnerSay{line("m1", "please count", 0)}
			}
			return &boss{w: c, lines: append([]engine.OwnerSay(nil), lines...), want: s.want, patience: s.patience}, nil
		},
	}
}

// config plays the scene on a store, with a provider that keeps the journal.
func (s scene) config(t testing.TB, st store.Rooms, j model.Journal) runtime.Config {
	t.Helper()
	pc := scripted.Config{Func: play(s.script), Journal: j, Opaque: s.opaque}
	if s.provider != nil {
		pc = s.provider(pc)
	}
	p, err := scripted.New(pc)
	if err != nil {
		t.Fatal(err)
	}
	limits := s.limits
	if limits.BudgetMicros == 0 {
		limits.BudgetMicros = 1_000_000
	}
	cfg := runtime.Config{
		Folds: s.folds(), Store: st, Room: "campaign/case/arm/0", Salt: []byte("salt"), Funds: store.FundsSimulated,
		Provider: p, Prices: prices(), Model: "m", MaxOutputTokens: 100, Limits: limits, SendKeys: s.keys, SnapshotBytes: s.snaps,
	}
	if s.room != "" {
		cfg.Room = s.room
	}
	if s.change != nil {
		s.change(&cfg)
	}
	return cfg
}

// played is a scene run to its end.
type played struct {
	res     runtime.Result
	history *runtime.History
	store   *memory.Store
	journal *model.MemoryJournal
}

func (s scene) play(t testing.TB) played {
	t.Helper()
	p := played{store: memory.New(memory.Options{}), journal: &model.MemoryJournal{}}
	cfg := s.config(t, p.store, p.journal)
	cfg.Keep = true
	var err error
	if p.res, err = runtime.Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	p.history = replay(t, cfg)
	sameHistory(t, p.history, &p.res)
	return p
}

// sameHistory compares the history that a run kept, which a fault alone may
// deny, with the one that the store's rows fold to, and forgets it.
func sameHistory(t testing.TB, replayed *runtime.History, res *runtime.Result) {
	t.Helper()
	if kept := res.History; kept != nil {
		if d := cmp.Diff(replayed, kept, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(store.Op{}, "Request")); d != "" {
			t.Errorf("the history that the run kept is not the one of its rows (-rows +kept):\n%s", d)
		}
	} else if res.Termination != runtime.HarnessError {
		t.Errorf("a run that ended by %s kept no history", res.Termination)
	}
	res.History = nil
}

func replay(t testing.TB, cfg runtime.Config) *runtime.History {
	t.Helper()
	h, err := runtime.Replay(t.Context(), cfg.Store, cfg.Room, cfg.Folds)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// kinds lists the log as "kind@time".
func kinds(h *runtime.History) []string {
	out := make([]string, 0, len(h.Entries))
	for _, e := range h.Entries {
		out = append(out, fmt.Sprintf("%s@%d", e.Event.Kind, e.Event.AtUS))
	}
	return out
}

// op finds the n-th operation of a kind by commit order.
func op(t testing.TB, h *runtime.History, kind engine.OpKind, n int) store.Op {
	t.Helper()
	for _, o := range h.Ops {
		if o.Key.Kind == kind {
			if n == 0 {
				return o
			}
			n--
		}
	}
	t.Fatalf("no such operation of kind %s", kind)
	return store.Op{}
}

// openSQLite makes a store in a file, which is closed with the test.
func openSQLite(t *testing.T) store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "store.db"), sqlite.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}
