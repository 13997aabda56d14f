package runtime_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
	"github.com/agentrooms/qualify/engine/store/sqlite"
)

// forgetful begins a new conversation with every message of the owner, so that
// its state does not grow with the room's history.
type forgetful struct{ *bot }

func (f forgetful) Handle(ev engine.Event) ([]engine.Command, error) {
	if c := f.Convs["a"]; ev.Message != nil && c != nil {
		c.Messages = nil
	}
	return f.bot.Handle(ev)
}

// metronome is an owner who asks the same every minute, for ever.
type metronome struct{ Said int64 }

func (m *metronome) Fold(e engine.LogEntry) {
	if e.Event.Message != nil {
		m.Said++
	}
}

func (m *metronome) Next() (engine.OwnerSay, bool) {
	return line(fmt.Sprintf("m%d", m.Said+1), fmt.Sprintf("question %d", m.Said+1), m.Said*60_000_000), true
}

func (m *metronome) Exhausted() bool           { return false }
func (m *metronome) Snapshot() ([]byte, error) { return fmt.Appendf(nil, "%d", m.Said), nil }
func (m *metronome) Restore(b []byte) error {
	_, err := fmt.Sscan(string(b), &m.Said)
	return err
}

// long is a room without end, four events a minute, that stops after a number
// of events.
func long(t testing.TB, st store.Store, snaps int64, events int) runtime.Config {
	t.Helper()
	s := scene{script: map[string][]turn{"a": {"add a 1", "answer"}}, limits: runtime.Limits{BudgetMicros: 1 << 50}, snaps: snaps}
	cfg := s.config(t, st, &model.MemoryJournal{})
	cfg.Machine = func() (engine.Machine, error) { return forgetful{newBot("a")}, nil }
	cfg.Owner = func(engine.World) (engine.Owner, error) { return &metronome{}, nil }
	n := 0
	cfg.Crash = &runtime.Crash{Hook: func(p runtime.Point) error {
		if p == runtime.AfterCommit {
			if n++; n == events {
				return errCrash
			}
		}
		return nil
	}}
	if _, err := runtime.Run(t.Context(), cfg); !errors.Is(err, errCrash) {
		t.Fatal(err)
	}
	cfg.Crash = nil
	return cfg
}

// R4: how many rows a restart folds does not depend on how many the room has.
func TestR4_RestartDoesNotDependOnHistory(t *testing.T) {
	t.Parallel()
	for _, n := range []int{100, 1000, 10_000}[:oftener(2, 3)] {
		cfg := long(t, memory.New(memory.Options{}), 1, n)
		rows, err := runtime.Restart(t.Context(), cfg)
		if err != nil || rows > 8 { // two rounds
			t.Errorf("%d events: %d rows folded, %v", n, rows, err)
		}
		l, err := cfg.Store.LoadTail(t.Context(), cfg.Room)
		if err != nil || len(l.Snapshot.State)+len(l.Snapshot.Folds) > 3000 {
			t.Errorf("%d events: a snapshot of %d and %d bytes, %v", n, len(l.Snapshot.State), len(l.Snapshot.Folds), err)
		}
	}
}

// BenchmarkRestart measures how long a process needs to have a room of n events
// at hand: by the rule of sizes as it is, with the smallest tail that the rule
// can leave, and without any snapshot.
func BenchmarkRestart(b *testing.B) {
	for _, store := range []struct {
		name string
		open func(b *testing.B) store.Store
	}{
		{"memory", func(*testing.B) store.Store { return memory.New(memory.Options{}) }},
		{"sqlite", func(b *testing.B) store.Store {
			b.Helper()
			st, err := sqlite.Open(b.Context(), filepath.Join(b.TempDir(), "store.db"), sqlite.Options{Create: true})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() {
				if err := st.Close(); err != nil {
					b.Error(err)
				}
			})
			return st
		}},
	} {
		for _, snaps := range []struct {
			name  string
			bytes int64
		}{{"usual", 0}, {"smallest", 1}, {"none", 1 << 40}} {
			for _, n := range []int{100, 1000, 10_000} {
				b.Run(fmt.Sprintf("%s/snapshots=%s/events=%d", store.name, snaps.name, n), func(b *testing.B) {
					cfg := long(b, store.open(b), snaps.bytes, n)
					rows := 0
					for b.Loop() {
						var err error
						if rows, err = runtime.Restart(b.Context(), cfg); err != nil {
							b.Fatal(err)
						}
					}
					b.ReportMetric(float64(rows), "rows")
					b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/1000, "ms/restart")
				})
			}
		}
	}
}
