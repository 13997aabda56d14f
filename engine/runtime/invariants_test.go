package runtime_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
)

// watcher checks at every crash point what must hold of a room at any time.
type watcher struct {
	t       *testing.T
	store   store.Rooms
	room    string
	journal *model.MemoryJournal
	settled map[string]store.Op // as first seen settled
	seen    int
}

func (w *watcher) look(p runtime.Point) error {
	l, err := w.store.Load(context.Background(), w.room)
	if err != nil {
		return err
	}
	w.seen++
	rows, err := w.store.Rows(context.Background(), w.room, -1, 0)
	if err != nil {
		return err
	}
	// I7: one row per revision, none missing.
	if int64(len(rows)) != l.Head.Rev+1 {
		w.t.Errorf("%s: %d rows, head at %d", p, len(rows), l.Head.Rev)
	}
	sum := engine.Money{Limit: l.Head.Money.Limit}
	for i := range l.Ops {
		op := &l.Ops[i]
		open := op.Status == store.OpReserved || op.Status == store.OpDispatched || op.Status == store.OpUncertain
		// I1: an operation is charged or held, never both.
		if open {
			sum.Held += op.ReservedMicros
			if op.ChargedMicros != 0 {
				w.t.Errorf("%s: open operation %s is charged %d", p, op.ID, op.ChargedMicros)
			}
		}
		if op.Status == store.OpUncertain {
			sum.Unknown += op.ReservedMicros
		}
		sum.Charged += op.ChargedMicros
		// I2: no call before its dispatch mark, none twice.
		if n := w.journal.Count(op.ID); n > 1 || n > 0 && (op.Status == store.OpReserved || op.Status == store.OpRefused) {
			w.t.Errorf("%s: operation %s in state %s was called %d times", p, op.ID, op.Status, n)
		}
		// I6: the amounts of a settled operation stay as they are, unless reconciled.
		if first, ok := w.settled[op.ID]; ok && op.Reconciled == nil {
			if diff := cmp.Diff(first, *op); diff != "" {
				w.t.Errorf("%s: settled operation %s changed:\n%s", p, op.ID, diff)
			}
		}
		if !open {
			w.settled[op.ID] = *op
		}
	}
	if diff := cmp.Diff(sum, l.Head.Money); diff != "" {
		w.t.Errorf("%s: the account is not the sum of the operations:\n%s", p, diff)
	}
	return nil
}

// Invariants I1, I2, I6 and I7 hold at every point at which a process may die.
func TestI1_I2_I6_I7_HoldAtEveryPoint(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		scene scene
	}{
		{"every trouble", golden()},
		{"opaque", scene{script: map[string][]turn{"a": {"lost", "nousage get a", "done"}}, opaque: true}},
		{"overrun", scene{script: map[string][]turn{"a": {"dear get a", "done"}, "b": {"us=1500 get b", "done"}}}},
		{"limits", scene{script: map[string][]turn{"a": {"get a", "get a"}, "b": {"get b"}}, limits: runtime.Limits{ModelCalls: 3, ToolCalls: 1}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st, j := memory.New(memory.Options{}), &model.MemoryJournal{}
			cfg := c.scene.config(t, st, j)
			w := &watcher{t: t, store: st, room: cfg.Room, journal: j, settled: map[string]store.Op{}}
			cfg.Crash = &runtime.Crash{Hook: w.look}
			if _, err := runtime.Run(t.Context(), cfg); err != nil {
				t.Fatal(err)
			}
			if w.seen < 10 || j.Total() == 0 {
				t.Errorf("looked %d times at %d calls", w.seen, j.Total())
			}
		})
	}
}

// R14: an owner's event is folded once. An id that the room has heard, in this
// process or an earlier one, or that belongs to another kind of event, ends
// the room with the fault named; the machine never sees it.
func TestR14_AnOwnerEventIsFoldedOnce(t *testing.T) {
	t.Parallel()
	first := line("m1", "count", 0)
	say := func(id string) engine.OwnerSay {
		s := line("m2", "count again", 5_000_000)
		s.EventID = id
		return s
	}
	for _, c := range []struct{ name, id, want string }{
		{"repeated", first.EventID, "owner/m1 was delivered before"},
		{"of the start", "start", "is no id"},
		{"of an operation", "ev/op_1", "is no id"},
		{"of a timer", "timer/tick/0", "is no id"},
		{"empty", "", "is no id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := scene{script: map[string][]turn{"a": {"get a", "done", "never"}}, lines: []engine.OwnerSay{first, say(c.id)}}
			whole := s.play(t)
			st, j := memory.New(memory.Options{}), &model.MemoryJournal{}
			cfg := s.config(t, st, j)
			heard := 0
			cfg.Crash = &runtime.Crash{Hook: func(p runtime.Point) error {
				if heard++; p == runtime.AfterCommit && heard < 4 {
					return errCrash // the message is durable, its process is gone
				}
				return nil
			}}
			_, err := runtime.Run(t.Context(), cfg)
			for errors.Is(err, errCrash) {
				_, err = runtime.Run(t.Context(), cfg)
			}
			if err != nil {
				t.Fatal(err)
			}
			for name, h := range map[string]*runtime.History{"in one process": whole.history, "after restarts": replay(t, cfg)} {
				messages := 0
				for _, e := range h.Entries {
					if e.Event.Kind == engine.EvOwnerMessage {
						messages++
					}
				}
				if messages != 1 || h.Head.Termination != runtime.HarnessError || !strings.Contains(h.Fault, c.want) {
					t.Errorf("%s: %d messages, %s %q, want the fault %q", name, messages, h.Head.Termination, h.Fault, c.want)
				}
			}
		})
	}
}

// R41: a reservation is an upper bound at the moment of dispatch. When a room
// is resumed under other prices or limits, what was reserved before may not
// cover the call any more: it is refused, never made on too small a hold.
func TestR41_ReservationMustCoverTheCallAtDispatch(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		before runtime.Limits
		resume func(*runtime.Config)
	}{
		{"dearer", runtime.Limits{}, func(c *runtime.Config) {
			p := c.Prices["m"]
			p.Rates.Input *= 10
			c.Prices = model.Prices{"m": p}
		}},
		{"more calls allowed", runtime.Limits{ModelCalls: 1}, func(c *runtime.Config) { c.Limits.ModelCalls = 9 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := scene{script: map[string][]turn{"a": {"get a", "get a", "done"}}, limits: c.before}
			_, points := passages(t, s)
			refused := 0
			for i, p := range points {
				if p != runtime.AfterCommit {
					continue
				}
				st, j, n := memory.New(memory.Options{}), &model.MemoryJournal{}, 0
				cfg := s.config(t, st, j)
				cfg.Crash = &runtime.Crash{Hook: func(runtime.Point) error {
					if n++; n == i+1 {
						return errCrash
					}
					return nil
				}}
				if _, err := runtime.Run(t.Context(), cfg); !errors.Is(err, errCrash) {
					t.Fatal(err)
				}
				c.resume(&cfg)
				res, err := runtime.Run(t.Context(), cfg)
				if err != nil {
					t.Fatal(err)
				}
				for _, o := range replay(t, cfg).Ops {
					if o.ChargedMicros > o.ReservedMicros {
						t.Errorf("resumed at commit %d: %s reserved %d and was charged %d", i, o.Status, o.ReservedMicros, o.ChargedMicros)
					}
					if o.Status == store.OpReleased && strings.Contains(string(o.Receipt.Result), engine.CodeUnboundedCost) {
						refused++
					}
				}
				if res.Head.Halted {
					t.Errorf("resumed at commit %d: the room was halted", i)
				}
			}
			if refused == 0 {
				t.Error("nothing was ever refused")
			}
		})
	}
}

// I1: a replay adds the operations up and compares them with their receipts
// and with the account.
func TestI1_ReplayAddsUp(t *testing.T) {
	t.Parallel()
	p := golden().play(t)
	room := p.res.Head.Room
	find := func(l *store.Loaded, ok func(*store.Op) bool) *store.Op {
		for i := range l.Ops {
			if ok(&l.Ops[i]) {
				return &l.Ops[i]
			}
		}
		t.Error("the scene has no such operation")
		return &l.Ops[0]
	}
	paid := func(o *store.Op) bool {
		return o.Status == store.OpSettledOK && o.Reconciled == nil && o.ChargedMicros > 0
	}
	lost := func(o *store.Op) bool { return o.Reconciled != nil && o.Reconciled.ChargedMicros > 0 }
	for _, c := range []struct {
		name string
		load func(*store.Loaded)
		want string
	}{
		{"account charged", func(l *store.Loaded) { l.Head.Money.Charged-- }, "the account states"},
		{"account held", func(l *store.Loaded) { l.Head.Money.Held++ }, "the account states"},
		{"operation charged", func(l *store.Loaded) { find(l, paid).ChargedMicros-- }, "not the one of its receipt"},
		{"reconciliation charged", func(l *store.Loaded) { find(l, lost).Reconciled.ChargedMicros++ }, "not the one of its receipt"},
		{"receipt and operation charged", func(l *store.Loaded) {
			o := find(l, paid)
			o.ChargedMicros--
			o.Receipt.ChargedMicros--
			l.Head.Money.Charged--
		}, "charge"},
		{"usage", func(l *store.Loaded) { find(l, paid).Receipt.Usage.Output++ }, "charges something else"},
		{"usage dropped", func(l *store.Loaded) { find(l, paid).Receipt.Usage = nil }, "charges something else"},
		{"usage source", func(l *store.Loaded) { find(l, paid).Receipt.UsageSource = "bound" }, "charges something else"},
		{"state", func(l *store.Loaded) { find(l, paid).Status = store.OpSettledFailed }, "its state is"},
		{"known outcome reconciled", func(l *store.Loaded) { find(l, paid).Reconciled = &store.Reconciliation{} }, "outcome was known"},
		{"reconciliation dropped", func(l *store.Loaded) { find(l, lost).Reconciled = nil }, "its state is"},
		{"receipt dropped", func(l *store.Loaded) { l.Ops[len(l.Ops)-1].Receipt = nil }, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := runtime.Replay(t.Context(), bent{Rooms: p.store, load: c.load}, room, golden().folds())
			if err == nil || !strings.Contains(err.Error(), c.want) || engine.CodeOf(err) != engine.CodeConflict {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// DESIGN §2: the chain is verified first, so that a missing content never
// hides a changed row.
func TestWithheldContentDoesNotHideAChangedRow(t *testing.T) {
	t.Parallel()
	p := golden().play(t)
	changed := bent{
		Rooms: p.store,
		rows: func(r []store.Row) []store.Row {
			r[2].StateDigest = strings.Repeat("0", 64)
			return r
		},
		blobs: func(m map[string][]byte) { clear(m) },
	}
	if _, err := runtime.Replay(t.Context(), changed, p.res.Head.Room, golden().folds()); engine.CodeOf(err) != engine.CodeConflict {
		t.Errorf("got %v", err)
	}
}

// R47: the last effect record of an operation decides: confirmed is executed,
// refuted is not; an intent alone is no evidence, and the operation stays
// uncertain.
func TestR47_OnlyEvidenceReconcilesATool(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fault string
		want  *store.Reconciliation
		state store.OpStatus
	}{
		{"ack_lost", &store.Reconciliation{Executed: true, Proof: "effect record of the world"}, store.OpSettledOK},
		{"refuted", &store.Reconciliation{Proof: "the world's record says that the effect did not take place"}, store.OpReleased},
		{"intent", nil, store.OpUncertain},
	} {
		t.Run(c.fault, func(t *testing.T) {
			t.Parallel()
			p := scene{script: map[string][]turn{"a": {"add a 1", "done"}}, faults: map[string]string{"add/1": c.fault}}.play(t)
			o := op(t, p.history, engine.OpTool, 0)
			if diff := cmp.Diff(c.want, o.Reconciled); diff != "" || o.Status != c.state {
				t.Errorf("state %s:\n%s", o.Status, diff)
			}
		})
	}
}

// R12, R45: a refused dispatch is no call. A process that dies behind it
// counts neither a call nor a use of the tool, so limits and faults fall where
// they would have.
func TestR12_R45_RefusalsSurviveCrashes(t *testing.T) {
	t.Parallel()
	s := scene{
		script: map[string][]turn{"a": {"add a 1", "add a 1", "add a 1", "done"}, "b": {"add b 1", "done"}},
		faults: map[string]string{"add/3": "error"},
		limits: runtime.Limits{ModelCalls: 5, ToolCalls: 3},
	}
	// b loses its authority once both have been called: its tool is refused.
	start := func() (runtime.Config, *model.MemoryJournal) {
		j := &model.MemoryJournal{}
		cfg := s.config(t, memory.New(memory.Options{}), j)
		cfg.Authorized = func(agent string) bool { return agent != "b" || j.Total() < 2 }
		return cfg, j
	}
	cfg, j := start()
	var points []runtime.Point
	cfg.Crash = &runtime.Crash{Hook: func(p runtime.Point) error { points = append(points, p); return nil }}
	res, err := runtime.Run(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	want := trailOf(t, cfg, j)
	if res.ModelCalls != 5 || res.ToolCalls != 3 || len(want.Effects) != 2 {
		t.Fatalf("the scene itself is wrong: %d model calls, %d tool calls, %d effects", res.ModelCalls, res.ToolCalls, len(want.Effects))
	}
	for i, p := range points {
		cfg, j := start()
		n := 0
		cfg.Crash = &runtime.Crash{Hook: func(runtime.Point) error {
			if n++; n == i+1 {
				return errCrash
			}
			return nil
		}}
		if _, err := runtime.Run(t.Context(), cfg); !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		if _, err := runtime.Run(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		if diff := differs(want, trailOf(t, cfg, j)); diff != "" {
			t.Errorf("died at passage %d (%s):\n%s", i+1, p, diff)
		}
	}
}
