package runtime_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/faultstore"
	"github.com/agentrooms/qualify/engine/store/memory"
)

// counted counts what a machine is asked for.
type counted struct {
	engine.Machine
	handled  *int
	restored *int
}

func (c counted) Handle(ev engine.Event) ([]engine.Command, error) {
	*c.handled++
	return c.Machine.Handle(ev)
}

func (c counted) Restore(b []byte) error {
	*c.restored++
	return c.Machine.Restore(b)
}

// chat is a room of many rounds: the owner asks every minute.
func chat(rounds int) scene {
	s := scene{script: map[string][]turn{"a": {}}, faults: map[string]string{"add/2": "ack_lost"}, keys: true, snaps: 1}
	for i := range rounds {
		s.lines = append(s.lines, line(fmt.Sprintf("m%d", i+1), fmt.Sprintf("question %d", i+1), int64(i)*60_000_000))
		s.script["a"] = append(s.script["a"], turn(fmt.Sprintf("add a %d", i+1)), "answer")
		if i == 1 {
			s.script["a"] = append(s.script["a"], "lost")
		}
	}
	return s
}

// stoppedAt plays a scene until it passes a point for the n-th time, and dies
// there; with n = 0 it dies at the last passage that the scene has.
func stoppedAt(t testing.TB, s scene, st store.Store, j model.Journal, p runtime.Point, n int) runtime.Config {
	t.Helper()
	if n == 0 {
		_, points := passages(t, s)
		for _, q := range points {
			if q == p {
				n++
			}
		}
	}
	cfg := s.config(t, st, j)
	cfg.Crash = &runtime.Crash{Hook: func(q runtime.Point) error {
		if q == p {
			if n--; n == 0 {
				return errCrash
			}
		}
		return nil
	}}
	if _, err := runtime.Run(t.Context(), cfg); !errors.Is(err, errCrash) {
		t.Fatalf("the scene does not die at %s: %v", p, err)
	}
	cfg.Crash = nil
	return cfg
}

// R4, R45: a restart asks the machine for the rows behind the newest snapshot
// only, and the store for no row and no operation before it.
func TestR45_RestartCostsTheTailOnly(t *testing.T) {
	t.Parallel()
	s := chat(12)
	want, _ := passages(t, s)
	if len(want.Rows) < 50 || want.Repeated != nil || want.Head.Termination != runtime.Completed {
		t.Fatalf("the scene itself is wrong: %d rows, %+v", len(want.Rows), want.Head)
	}
	for n := 1; n <= 5; n++ {
		st, j := memory.New(memory.Options{}), &model.MemoryJournal{}
		stoppedAt(t, s, st, j, runtime.AfterSnapshot, n)
		at, err := st.LoadTail(t.Context(), want.Head.Room)
		if err != nil {
			t.Fatal(err)
		}
		if len(at.Rows) != 1 || len(at.Snapshot.Folds) == 0 {
			t.Fatalf("snapshot %d: %d rows behind it, %d bytes of folds", n, len(at.Rows)-1, len(at.Snapshot.Folds))
		}
		counting, err := faultstore.New(st, faultstore.Plan{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		handled, restored := 0, 0
		cfg := s.config(t, counting, j)
		machine := cfg.Machine
		cfg.Machine = func() (engine.Machine, error) {
			m, err := machine()
			return counted{m, &handled, &restored}, err
		}
		res, err := runtime.Run(t.Context(), cfg)
		if err != nil || res.SnapshotUnused != "" {
			t.Fatalf("snapshot %d: %v, unused: %s", n, err, res.SnapshotUnused)
		}
		if rest := int(want.Head.Rev - at.Snapshot.Rev); handled != rest || restored != 1 {
			t.Errorf("snapshot %d: %d events handled for the %d behind it, %d restores", n, handled, rest, restored)
		}
		if c := counting.Calls(); c["Load"] != 0 || c["Rows"] != 0 || c["LoadTail"] != 1 || c["LoadOps"] != 1 {
			t.Errorf("snapshot %d: calls of the store: %v", n, c)
		}
		cfg.Store = st
		if diff := differs(want, trailOf(t, cfg, j)); diff != "" {
			t.Errorf("snapshot %d:\n%s", n, diff)
		}
		replay(t, cfg)
	}
}

// What a restart takes from a snapshot is all that was put into it: stored again
// it is the same, byte for byte.
func TestR4_FoldsComeBackWhole(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for name, s := range map[string]scene{"golden": snapping(golden()), "chat": chat(12), "late timer": {script: map[string][]turn{"a": {"add a 1", "ok"}}, tick: 90_000_000, snaps: 1}} {
		_, points := passages(t, s)
		n := 0
		for _, p := range points {
			if p != runtime.AfterSnapshot {
				continue
			}
			n++
			st, j := memory.New(memory.Options{}), &model.MemoryJournal{}
			cfg := stoppedAt(t, s, st, j, runtime.AfterSnapshot, n)
			l, err := st.LoadTail(t.Context(), cfg.Room)
			if err != nil {
				t.Fatal(err)
			}
			got, err := runtime.FoldsOf(t.Context(), cfg)
			if diff := cmp.Diff(string(l.Snapshot.Folds), string(got)); err != nil || diff != "" {
				t.Errorf("%s, snapshot %d: %v\n%s", name, n, err, diff)
			}
			for _, part := range []string{`"claim":`, `"timers":`, `"confirmed":`, `"lost":`, `"world":`, `"owner":`} {
				seen[part] = seen[part] || strings.Contains(string(got), part)
			}
		}
	}
	if len(seen) != 6 {
		t.Errorf("parts seen: %v", seen)
	}
	for part, ok := range seen {
		if !ok {
			t.Errorf("no snapshot had %s", part)
		}
	}
}

// Snapshots follow the rule of sizes: none while the tail is smaller than the
// last snapshot or than the least size, none while an operation is open.
func TestR4_SnapshotsFollowTheSizeOfTheTail(t *testing.T) {
	t.Parallel()
	taken := func(s scene) (revs []int64, size int) {
		st := memory.New(memory.Options{})
		last := 0
		s.change = func(c *runtime.Config) {
			c.Crash = &runtime.Crash{Hook: func(p runtime.Point) error {
				if p != runtime.AfterSnapshot {
					return nil
				}
				l, err := st.Load(t.Context(), c.Room)
				if err != nil {
					return err
				}
				from := int64(-1)
				if len(revs) > 0 {
					from = revs[len(revs)-1]
				}
				rows, err := st.Rows(t.Context(), c.Room, from, 0)
				if err != nil {
					return err
				}
				tail := 0
				for _, r := range rows {
					tail += len(r.Event) + len(r.Commands)
				}
				if tail < last || int64(tail) < s.snaps {
					t.Errorf("snapshot of revision %d for a tail of %d bytes, the last had %d", l.Head.Rev, tail, last)
				}
				for i := range l.Ops {
					if l.Ops[i].Receipt == nil {
						t.Errorf("snapshot of revision %d while operation %s is open", l.Head.Rev, l.Ops[i].ID)
					}
				}
				last = len(l.Snapshot.State) + len(l.Snapshot.Folds)
				revs, size = append(revs, l.Snapshot.Rev), size+last
				return nil
			}}
		}
		if _, err := runtime.Run(t.Context(), s.config(t, st, &model.MemoryJournal{})); err != nil {
			t.Fatal(err)
		}
		return revs, size
	}
	revs, size := taken(chat(40))
	want, _ := passages(t, chat(40))
	rows := 0
	for _, r := range want.Rows {
		rows += len(r.Event) + len(r.Commands)
	}
	if len(revs) < 5 || size > 2*rows {
		t.Errorf("%d snapshots of together %d bytes over %d bytes of rows", len(revs), size, rows)
	}
	coarse := chat(40)
	coarse.snaps = int64(rows) / 3
	if revs, _ := taken(coarse); len(revs) == 0 || len(revs) > 3 {
		t.Errorf("snapshots from a third of the rows on: %d", len(revs))
	}
	usual := chat(10)
	usual.snaps = 0
	if revs, _ := taken(usual); len(revs) != 0 {
		t.Errorf("an ordinary trial stores %d snapshots before its close", len(revs))
	}
}

// plainWorld hides the ability to be stored.
type plainWorld struct{ engine.World }

// A world that cannot be stored costs the snapshots on the way, nothing else.
func TestR45_AWorldThatCannotBeStoredIsFolded(t *testing.T) {
	t.Parallel()
	s := golden()
	want, _ := passages(t, s)
	s.snaps = 1
	_, points := passages(t, s)
	for i := 0; i < len(points); i += int(oftener(4, 1)) {
		st, j := memory.New(memory.Options{}), &model.MemoryJournal{}
		cfg := s.config(t, st, j)
		cfg.World = func() (engine.World, error) { return plainWorld{newCounters(s.faults)}, nil }
		cfg.Owner = ownerOf(s)
		n := 0
		cfg.Crash = &runtime.Crash{Hook: func(p runtime.Point) error {
			if p == runtime.AfterSnapshot {
				t.Error("a snapshot of a world that cannot be stored")
			}
			if n++; n == i+1 {
				return errCrash
			}
			return nil
		}}
		if _, err := runtime.Run(t.Context(), cfg); err != nil && !errors.Is(err, errCrash) {
			t.Fatal(err)
		}
		cfg.Crash = nil
		if _, err := runtime.Run(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		if diff := differs(want, trailOf(t, cfg, j)); diff != "" {
			t.Errorf("died at passage %d:\n%s", i+1, diff)
		}
	}
}

// A snapshot that is damaged in any way is not used, the rows are folded
// instead, to the same trail, and the result says why; a verification says so
// too.
func TestR45_DamagedSnapshotLosesNothing(t *testing.T) {
	t.Parallel()
	s := chat(8)
	want, _ := passages(t, s)
	flip := func(b []byte) []byte {
		b = append([]byte(nil), b...)
		b[len(b)/2] ^= 1
		return b
	}
	other := func(v any) []byte {
		b, err := engine.Canonical(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, c := range []struct {
		name   string
		damage func(*store.Loaded)
		want   string
		replay string // "" where a verification cannot know
	}{
		{"state", func(l *store.Loaded) { l.Snapshot.State = flip(l.Snapshot.State) }, "not the state that its row states", "not the state that its row states"},
		{"state of another room", func(l *store.Loaded) { l.Snapshot.State = other(newBot("z")) }, "not the state", "not the state"},
		{"no state", func(l *store.Loaded) { l.Snapshot.State = nil }, "not the state", "not the state"},
		{"folds", func(l *store.Loaded) { l.Snapshot.Folds = flip(l.Snapshot.Folds) }, "another digest", "not what the rows fold to"},
		{"folds cut off", func(l *store.Loaded) { l.Snapshot.Folds = l.Snapshot.Folds[:70] }, "another digest", "not what the rows fold to"},
		{"machine", func(l *store.Loaded) { l.Snapshot.Machine = "cat@1" }, "said to be of machine cat@1", "said to be of machine cat@1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st, j := memory.New(memory.Options{}), &model.MemoryJournal{}
			cfg := stoppedAt(t, s, st, j, runtime.AfterSnapshot, 4)
			damaged := bent{Rooms: st, load: c.damage}
			if _, err := runtime.Replay(t.Context(), damaged, cfg.Room, cfg.Folds); engine.CodeOf(err) != engine.CodeConflict || !strings.Contains(err.Error(), c.replay) {
				t.Errorf("replay: %v, want %q", err, c.replay)
			}
			cfg.Store = damaged
			res, err := runtime.Run(t.Context(), cfg)
			if err != nil || !strings.Contains(res.SnapshotUnused, c.want) || !strings.Contains(res.SnapshotUnused, "snapshot of revision") {
				t.Errorf("run: %v, unused: %q, want %q", err, res.SnapshotUnused, c.want)
			}
			cfg.Store = st
			if diff := differs(want, trailOf(t, cfg, j)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// stubborn refuses a snapshot, or restores another state.
type stubborn struct {
	engine.Machine
	restore func(engine.Machine, []byte) error
}

func (m stubborn) Restore(b []byte) error { return m.restore(m.Machine, b) }

// A snapshot that machine, world or owner do not take back is of no use; the
// rows are.
func TestR45_SnapshotThatIsNotTakenBack(t *testing.T) {
	t.Parallel()
	s := chat(8)
	want, _ := passages(t, s)
	no := errors.New("I do not know this")
	machine := func(restore func(engine.Machine, []byte) error) func(*runtime.Config) {
		return func(c *runtime.Config) {
			inner := c.Machine
			c.Machine = func() (engine.Machine, error) {
				m, err := inner()
				return stubborn{m, restore}, err
			}
		}
	}
	for name, c := range map[string]struct {
		change func(*runtime.Config)
		want   string
	}{
		"machine":        {machine(func(engine.Machine, []byte) error { return no }), no.Error()},
		"machine panics": {machine(func(engine.Machine, []byte) error { panic(no) }), no.Error()},
		"another state":  {machine(func(engine.Machine, []byte) error { return nil }), "in another state"},
		"world": {func(c *runtime.Config) {
			c.World = func() (engine.World, error) { return stubbornWorld{newCounters(s.faults), no}, nil }
			c.Owner = ownerOf(s)
		}, no.Error()},
		"owner": {func(c *runtime.Config) {
			owner := c.Owner
			c.Owner = func(w engine.World) (engine.Owner, error) {
				o, err := owner(w)
				return stubbornOwner{o, no}, err
			}
		}, no.Error()},
		"world that cannot be stored": {func(c *runtime.Config) {
			c.World = func() (engine.World, error) { return plainWorld{newCounters(s.faults)}, nil }
			c.Owner = ownerOf(s)
		}, "the other way round"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, j := memory.New(memory.Options{}), &model.MemoryJournal{}
			cfg := stoppedAt(t, s, st, j, runtime.AfterSnapshot, 4)
			good := cfg.Folds
			c.change(&cfg)
			res, err := runtime.Run(t.Context(), cfg)
			if err != nil || !strings.Contains(res.SnapshotUnused, c.want) {
				t.Errorf("%v, unused: %q, want %q", err, res.SnapshotUnused, c.want)
			}
			cfg.Folds = good
			if diff := differs(want, trailOf(t, cfg, j)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

type stubbornWorld struct {
	*counters
	err error
}

func (w stubbornWorld) Restore([]byte) error { return w.err }

type stubbornOwner struct {
	engine.Owner
	err error
}

func (stubbornOwner) Snapshot() ([]byte, error) { return []byte("0"), nil }
func (o stubbornOwner) Restore([]byte) error    { return o.err }

// ownerOf makes the scene's owner for a world that is wrapped.
func ownerOf(s scene) func(engine.World) (engine.Owner, error) {
	owner := s.folds().Owner
	return func(w engine.World) (engine.Owner, error) {
		switch x := w.(type) {
		case plainWorld:
			w = x.World
		case stubbornWorld:
			w = x.counters
		}
		return owner(w)
	}
}

// Damage to rows is never hidden by a snapshot, nor by a damaged one.
func TestR14_DamagedTailIsRefused(t *testing.T) {
	t.Parallel()
	s := chat(8)
	st, j := memory.New(memory.Options{}), &model.MemoryJournal{}
	cfg := stoppedAt(t, s, st, j, runtime.AfterSnapshot, 4)
	cfg.Crash = dieAfter(12)
	if _, err := runtime.Run(t.Context(), cfg); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	cfg.Crash = nil
	edit := func(l *store.Loaded) { l.Rows[len(l.Rows)-1].Event = []byte(`{}`) }
	for name, c := range map[string]struct {
		bent bent
		want []string
	}{
		"row":          {bent{load: edit}, []string{"row digest differs"}},
		"row dropped":  {bent{load: func(l *store.Loaded) { l.Rows = l.Rows[:len(l.Rows)-1] }}, []string{"not the newest row"}},
		"first row":    {bent{load: func(l *store.Loaded) { l.Rows[0].Event = []byte(`{}`) }}, []string{"row digest differs"}},
		"snapshot too": {bent{load: func(l *store.Loaded) { l.Snapshot.Folds[3] ^= 1 }, rows: func(r []store.Row) []store.Row { r[2].Event = []byte(`{}`); return r }}, []string{"row digest differs", "all rows were folded", "another digest"}},
	} {
		c.bent.Rooms = st
		cfg.Store = c.bent
		_, err := runtime.Run(t.Context(), cfg)
		for _, want := range c.want {
			if engine.CodeOf(err) != engine.CodeConflict || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		}
	}
	l, err := st.Load(t.Context(), cfg.Room)
	if err != nil || l.Head.Closed {
		t.Errorf("%v; the room was closed", err)
	}
}

func dieAfter(passages int) *runtime.Crash {
	return &runtime.Crash{Hook: func(runtime.Point) error {
		if passages--; passages == 0 {
			return errCrash
		}
		return nil
	}}
}

// holder is a machine that reads the texts of its conversations.
type holder struct{ *bot }

func (h holder) Texts() []*engine.Text {
	var ts []*engine.Text
	for _, w := range h.Workers {
		if c := h.Convs[w]; c != nil {
			for i := range c.Messages {
				ts = append(ts, &c.Messages[i].Text)
			}
		}
	}
	return ts
}

// Texts that a snapshot refers to are loaded before the machine goes on, or
// when a request shows them; while one is missing the room stays as it is, and
// goes on when it is back.
func TestR45_MissingTextsOfASnapshotStopTheRoom(t *testing.T) {
	t.Parallel()
	s := chat(8)
	want, _ := passages(t, s)
	for name, machine := range map[string]func() (engine.Machine, error){
		"text holder": func() (engine.Machine, error) { return holder{newBot("a")}, nil },
		"no holder":   s.folds().Machine,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st, j := memory.New(memory.Options{}), &model.MemoryJournal{}
			cfg := stoppedAt(t, s, st, j, runtime.AfterSnapshot, 4)
			calls := j.Total()
			cfg.Machine = machine
			cfg.Store = bent{Rooms: st, blobs: func(m map[string][]byte) { clear(m) }}
			if _, err := runtime.Run(t.Context(), cfg); !errors.Is(err, runtime.ErrWithheld) || !strings.Contains(err.Error(), "text ") {
				t.Errorf("without texts: %v", err)
			}
			if j.Total() != calls {
				t.Errorf("%d calls were made", j.Total()-calls)
			}
			cfg.Store = st
			if res, err := runtime.Run(t.Context(), cfg); err != nil || res.SnapshotUnused != "" {
				t.Fatalf("%v, unused: %s", err, res.SnapshotUnused)
			}
			if diff := differs(want, trailOf(t, cfg, j)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// R47: an operation of unknown outcome that lies behind a snapshot is
// reconciled at the close all the same, from the request that the snapshot
// keeps.
func TestR47_UnknownOutcomeBehindASnapshotIsReconciled(t *testing.T) {
	t.Parallel()
	s := chat(8)
	st, j := memory.New(memory.Options{}), &model.MemoryJournal{}
	cfg := stoppedAt(t, s, st, j, runtime.AfterSnapshot, 0)
	before, err := st.Load(t.Context(), cfg.Room)
	if err != nil {
		t.Fatal(err)
	}
	uncertain := map[string]bool{}
	for i := range before.Ops {
		if op := &before.Ops[i]; op.Status == store.OpUncertain && op.Rev <= before.Snapshot.Rev {
			uncertain[op.ID] = true
		}
	}
	if len(uncertain) != 2 { // a lost reply of the model, a lost acknowledgement of a tool
		t.Fatalf("%d operations are uncertain behind the snapshot", len(uncertain))
	}
	if _, err := runtime.Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	h := replay(t, cfg)
	for i := range h.Ops {
		if op := &h.Ops[i]; uncertain[op.ID] && (op.Reconciled == nil || !op.Reconciled.Executed) {
			t.Errorf("operation %s is left %s", op.ID, op.Status)
		}
	}
	if m := h.Head.Money; m.Held != 0 || m.Unknown != 0 {
		t.Errorf("money %+v", m)
	}
}

// again is a machine that issues its first call once more, later.
type again struct{ *bot }

func (a again) Handle(ev engine.Event) ([]engine.Command, error) {
	if ev.Message != nil && ev.Message.Text.S == "question 7" {
		a.Convs["a"].Attempt, a.Convs["a"].Ordinal = 0, 0
	}
	return a.bot.Handle(ev)
}

// An operation that a machine issues twice is a fault, in the same words
// whether the room remembers the first one or only the store does.
func TestR8_OperationIssuedTwiceAcrossASnapshot(t *testing.T) {
	t.Parallel()
	s := chat(8)
	machine := func() (engine.Machine, error) { return again{newBot("a")}, nil }
	run := func(snaps int64, die int) runtime.Result {
		st, j := memory.New(memory.Options{}), &model.MemoryJournal{}
		cfg := s.config(t, st, j)
		cfg.Machine, cfg.SnapshotBytes, cfg.Crash = machine, snaps, dieAfter(die)
		res, err := runtime.Run(t.Context(), cfg)
		if errors.Is(err, errCrash) {
			cfg.Crash = nil
			res, err = runtime.Run(t.Context(), cfg)
		}
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	want := run(0, 0)
	if want.Termination != runtime.HarnessError || !strings.Contains(want.Fault, "was issued before") {
		t.Fatalf("%s: %s", want.Termination, want.Fault)
	}
	for _, die := range []int{0, 60, 120} {
		if got := run(1, die); got.Fault != want.Fault || got.Head.Digest != want.Head.Digest {
			t.Errorf("died at passage %d: %s, want %s", die, got.Fault, want.Fault)
		}
	}
}

// A restart that cannot read what it needs says what, changes nothing, and is
// made good by the next one; over both stores.
func TestR45_AnyFaultOfARestartLeavesOneTrail(t *testing.T) {
	t.Parallel()
	s := chat(6)
	s.change = func(c *runtime.Config) { c.Name, c.Room = "case/arm/0", "room/one" }
	want, points := passages(t, s)
	sql := openSQLite(t)
	said := map[faultstore.Op]string{
		"LoadTail": "load", "LoadOps": "load operations", "Blobs": "blobs", "Load": "load", "Rows": "rows",
	}
	struck := map[faultstore.Op]int{}
	for _, memoryStore := range []bool{true, false} {
		for i := 30; i < len(points); i += int(oftener(70, 3)) {
			for op, words := range said {
				for _, kind := range []faultstore.Kind{faultstore.FailBefore, faultstore.LoseReply}[:oftener(1, 2)] {
					st := sql
					if memoryStore {
						st = memory.New(memory.Options{})
					}
					j := &model.MemoryJournal{}
					cfg := s.config(t, st, j)
					cfg.Room = fmt.Sprintf("room/%d/%s/%s", i, op, kind)
					cfg.Crash = dieAfter(i)
					if _, err := runtime.Run(t.Context(), cfg); !errors.Is(err, errCrash) {
						t.Fatal(err)
					}
					cfg.Crash = nil
					f, err := faultstore.New(st, faultstore.Plan{Faults: []faultstore.Fault{{Op: op, Nth: 1, Kind: kind}}}, nil)
					if err != nil {
						t.Fatal(err)
					}
					cfg.Store = f
					if op == "Load" || op == "Rows" { // read only where a snapshot is of no use
						cfg.Store = bent{Rooms: f, load: func(l *store.Loaded) {
							if l.Snapshot != nil && len(l.Snapshot.Folds) > 0 {
								l.Snapshot.Folds[0] ^= 1
							}
						}}
					}
					_, err = runtime.Run(t.Context(), cfg)
					if len(f.Fired()) > 0 {
						struck[op]++
						if !errors.Is(err, faultstore.ErrInjected) || !strings.Contains(err.Error(), words) {
							t.Errorf("%s of %s: %v, want %q", kind, op, err, words)
						}
					}
					cfg.Store = st
					if _, err := runtime.Run(t.Context(), cfg); err != nil {
						t.Fatal(err)
					}
					got := inRoom(want.Head.Room, trailOf(t, cfg, j))
					if diff := differs(want, got); diff != "" {
						t.Errorf("%s of %s, died at %d:\n%s", kind, op, i, diff)
					}
				}
			}
		}
	}
	for op := range said {
		if struck[op] == 0 {
			t.Errorf("%s was never struck: %v", op, struck)
		}
	}
}

// The state of every revision is the same whether snapshots were stored on the
// way or not.
func TestR4_SnapshotsLeaveNoMarkInTheRows(t *testing.T) {
	t.Parallel()
	s := chat(5)
	with, _ := passages(t, s)
	s.snaps = 0
	without, _ := passages(t, s)
	if diff := cmp.Diff(without, with); diff != "" {
		t.Error(diff)
	}
	if with.Snapshot == nil || len(with.Snapshot.Folds) != 0 {
		t.Errorf("the snapshot of a closed room: %+v", with.Snapshot)
	}
}
