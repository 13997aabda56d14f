package runtime_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
)

// bent is a store whose answers are changed on the way out.
type bent struct {
	store.Rooms
	load  func(*store.Loaded)
	rows  func([]store.Row) []store.Row
	blobs func(map[string][]byte)
}

func (b bent) Load(ctx context.Context, room string) (*store.Loaded, error) {
	l, err := b.Rooms.Load(ctx, room)
	if err == nil && b.load != nil {
		b.load(l)
	}
	return l, err
}

func (b bent) LoadTail(ctx context.Context, room string) (*store.Loaded, error) {
	l, err := b.Rooms.LoadTail(ctx, room)
	if err == nil && b.load != nil {
		b.load(l)
	}
	return l, err
}

func (b bent) Rows(ctx context.Context, room string, after int64, limit int) ([]store.Row, error) {
	rows, err := b.Rooms.Rows(ctx, room, after, limit)
	if err == nil && b.rows != nil {
		rows = b.rows(rows)
	}
	return rows, err
}

func (b bent) Blobs(ctx context.Context, room string, ds []string) (map[string][]byte, error) {
	m, err := b.Rooms.Blobs(ctx, room, ds)
	if err == nil && b.blobs != nil {
		b.blobs(m)
	}
	return m, err
}

// rechain makes rows consistent again after a change, as a forger would.
func rechain(rows []store.Row) []store.Row {
	for i := range rows {
		rows[i].CommandsDigest = engine.Digest(rows[i].Commands)
		if i > 0 {
			rows[i].Prev = rows[i-1].Digest
		}
		rows[i].Digest = store.RowDigest(rows[i])
	}
	return rows
}

// Replay finds every change of what is stored, also where the forger has
// recomputed the chain.
func TestR14_ReplayFindsWhatDiffers(t *testing.T) {
	t.Parallel()
	p := golden().play(t)
	room := p.res.Head.Room
	edit := func(rev int, from, to string) func([]store.Row) []store.Row {
		return func(rows []store.Row) []store.Row {
			rows[rev].Event = []byte(strings.Replace(string(rows[rev].Event), from, to, 1))
			return rows
		}
	}
	head := func(rows []store.Row) func(*store.Loaded) {
		return func(l *store.Loaded) { l.Head.Digest = rows[len(rows)-1].Digest }
	}
	forged, err := p.store.Rows(t.Context(), room, -1, 0)
	if err != nil {
		t.Fatal(err)
	}
	forged = rechain(edit(3, `"charged":`, `"charged":9`)(forged))
	claimless, err := p.store.Rows(t.Context(), room, -1, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range claimless {
		claimless[i].Commands = []byte(strings.ReplaceAll(string(claimless[i].Commands), `"by":"bot"`, `"by":"bat"`))
	}
	claimless = rechain(claimless)
	// forge changes one row and makes the chain consistent again, head included.
	forge := func(change func(*store.Row)) bent {
		rows, err := p.store.Rows(t.Context(), room, -1, 0)
		if err != nil {
			t.Fatal(err)
		}
		change(&rows[len(rows)-2])
		rows = rechain(rows)
		return bent{rows: func([]store.Row) []store.Row { return rows }, load: head(rows)}
	}
	for _, c := range []struct {
		name string
		bent bent
		want string
	}{
		{"event edited", bent{rows: edit(2, `"kind"`, `"kynd"`)}, "row digest differs"},
		{"row dropped", bent{rows: func(r []store.Row) []store.Row { return append(r[:4:4], r[5:]...) }}, "stands at place"},
		{"tail dropped", bent{rows: func(r []store.Row) []store.Row { return r[:len(r)-1] }}, "not the newest row"},
		{"commands edited", bent{rows: func(r []store.Row) []store.Row { r[1].Commands = []byte("[]"); return r }}, "commands digest differs"},
		{"event forged", bent{rows: func([]store.Row) []store.Row { return forged }, load: head(forged)}, "revision 3"},
		{"commands forged", bent{rows: func([]store.Row) []store.Row { return claimless }, load: head(claimless)}, "other commands"},
		{"blob edited", bent{blobs: func(m map[string][]byte) {
			for d := range m {
				m[d] = append([]byte("x"), m[d]...)
				return
			}
		}}, "another content"},
		{"receipt edited", bent{load: func(l *store.Loaded) {
			for i := range l.Ops {
				if r := l.Ops[i].Receipt; r != nil && strings.Contains(string(r.Result), "actual") {
					r.Result = []byte(strings.Replace(string(r.Result), "actual", "bound", 1))
					return
				}
			}
		}}, "differs from the receipt"},
		{"operation dropped", bent{load: func(l *store.Loaded) { l.Ops = l.Ops[1:] }}, "is not stored"},
		{"operation added", bent{load: func(l *store.Loaded) { l.Ops = append(l.Ops, store.Op{ID: "op_x"}) }}, "operations are stored"},
		{"request edited", bent{load: func(l *store.Loaded) { l.Ops[0].RequestDigest = "0" }}, "another place or request"},
		{"state forged", forge(func(r *store.Row) { r.StateDigest = engine.Digest(nil) }), "another state"},
		{"time forged", forge(func(r *store.Row) {
			r.Event = regexp.MustCompile(`"at_us":\d+`).ReplaceAll(r.Event, []byte(`"at_us":1`))
		}), "time goes backwards"},
		{"length of a text", forge(func(r *store.Row) {
			r.Event = regexp.MustCompile(`"len":\d+`).ReplaceAll(r.Event, []byte(`"len":1`))
		}), "its reference says"},
		{"event of no operation", forge(func(r *store.Row) {
			r.Event = regexp.MustCompile(`"op":"op_.`).ReplaceAll(r.Event, []byte(`"op":"op_x`))
		}), "which has not returned"},
		{"event not canonical", forge(func(r *store.Row) { r.Event = append([]byte(" "), r.Event...) }), "not in canonical form"},
		{"one row forged", bent{rows: func(r []store.Row) []store.Row {
			r[2].StateDigest = engine.Digest(nil)
			r[2].Digest = store.RowDigest(r[2])
			return r
		}}, "does not follow"},
		{"key of an operation", bent{load: func(l *store.Loaded) { l.Ops[1].Key.Attempt++ }}, "another place or request"},
		{"place of an operation", bent{load: func(l *store.Loaded) { l.Ops[1].Ordinal++ }}, "another place or request"},
		{"revision of an operation", bent{load: func(l *store.Loaded) { l.Ops[1].Rev++ }}, "another place or request"},
		{"state of the head", bent{load: func(l *store.Loaded) { l.Head.StateDigest = "0" }}, "state digest"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.bent.Rooms = p.store
			_, err := runtime.Replay(t.Context(), c.bent, room, golden().folds())
			if err == nil || !strings.Contains(err.Error(), c.want) || engine.CodeOf(err) != engine.CodeConflict {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// The chain verifies with any content withheld; the machine does not.
func TestReplayNamesWithheldContent(t *testing.T) {
	t.Parallel()
	p := golden().play(t)
	withheld := bent{Rooms: p.store, blobs: func(m map[string][]byte) {
		for d := range m {
			delete(m, d)
			return
		}
	}}
	if _, err := runtime.Replay(t.Context(), withheld, p.res.Head.Room, golden().folds()); !errors.Is(err, runtime.ErrWithheld) {
		t.Errorf("got %v", err)
	}
}

func TestAnotherMachineVersionIsRefused(t *testing.T) {
	t.Parallel()
	s := golden()
	st, j := memory.New(memory.Options{}), &model.MemoryJournal{}
	n := 0
	s.change = func(c *runtime.Config) {
		c.Crash = &runtime.Crash{Hook: func(runtime.Point) error {
			if n++; n == 5 {
				return errCrash
			}
			return nil
		}}
	}
	cfg := s.config(t, st, j)
	if _, err := runtime.Run(t.Context(), cfg); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	cfg.Machine = func() (engine.Machine, error) {
		b := newBot("a", "b")
		b.version = "bot@2"
		return b, nil
	}
	if _, err := runtime.Run(t.Context(), cfg); engine.CodeOf(err) != engine.CodeVersionMismatch {
		t.Errorf("run: %v", err)
	}
	if _, err := runtime.Replay(t.Context(), st, cfg.Room, cfg.Folds); engine.CodeOf(err) != engine.CodeVersionMismatch {
		t.Errorf("replay: %v", err)
	}
}

// R4, R14: the complete state of every revision can be rebuilt.
func TestR14_EveryRevisionIsRebuilt(t *testing.T) {
	t.Parallel()
	p := golden().play(t)
	room := p.res.Head.Room
	rows, err := p.store.Rows(t.Context(), room, -1, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		state, err := runtime.StateAt(t.Context(), p.store, room, golden().folds(), r.Rev)
		if err != nil {
			t.Fatal(err)
		}
		if engine.Digest(state) != r.StateDigest {
			t.Errorf("revision %d: another state", r.Rev)
		}
	}
	if _, err := runtime.StateAt(t.Context(), p.store, room, golden().folds(), int64(len(rows))); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("beyond the head: %v", err)
	}
}
