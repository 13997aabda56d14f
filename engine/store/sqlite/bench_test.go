package sqlite_test

import (
	"bytes"
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
	"github.com/agentrooms/qualify/engine/store/sqlite"
	"github.com/agentrooms/qualify/engine/store/storetest"
)

// BenchmarkCommit measures the store's part of a model call: one commit with a
// receipt, a new operation and two texts, and one dispatch mark. The figures
// are calls/s, with that many rooms at work at once.
func BenchmarkCommit(b *testing.B) {
	stores := map[string]func(b *testing.B) store.Store{
		"memory": func(*testing.B) store.Store { return memory.New(memory.Options{}) },
		"sqlite": func(b *testing.B) store.Store {
			return openAt(b, filepath.Join(b.TempDir(), "s.db"), sqlite.Options{Create: true})
		},
		"sqlite-durable": func(b *testing.B) store.Store {
			return openAt(b, filepath.Join(b.TempDir(), "s.db"), sqlite.Options{Create: true, Durable: true})
		},
	}
	for _, name := range []string{"memory", "sqlite", "sqlite-durable"} {
		for _, rooms := range []int{1, 8, 64} {
			b.Run(fmt.Sprintf("%s/rooms=%d", name, rooms), func(b *testing.B) {
				benchmarkCommit(b, stores[name](b), rooms)
			})
		}
	}
}

func benchmarkCommit(b *testing.B, s store.Store, rooms int) {
	benchmarkWrites(b, s, rooms, func(int) context.Context { return b.Context() })
}

// benchmarkWrites repeats the writes of model calls in so many rooms, each under
// the context that under gives it.
func benchmarkWrites(b *testing.B, s store.Store, rooms int, under func(room int) context.Context) {
	b.Helper()
	b.ReportAllocs()
	heads := make([]store.Head, rooms)
	for i := range heads {
		r := storetest.NewRoom(fmt.Sprint("room", i), 1<<40)
		if err := s.CreateRoom(b.Context(), r); err != nil {
			b.Fatal(err)
		}
		heads[i] = store.Head{Room: r.Room, Rev: -1}
	}
	before, err := s.Stats(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ResetTimer()
	for i := range heads {
		ctx := under(i)
		wg.Go(func() {
			if err := call(ctx, s, heads[i], &left); err != nil {
				b.Error(err)
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	after, err := s.Stats(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	b.ReportMetric(float64(after.Writes-before.Writes)/float64(after.Commits-before.Commits), "writes/tx")
}

// call repeats the writes of one model call until left is used up.
func call(ctx context.Context, s store.Store, head store.Head, left *atomic.Int64) error {
	var open *store.Op
	for n := 0; left.Add(-1) >= 0; n++ {
		note := fmt.Sprint(head.Room, "/", n)
		op := storetest.Op(head.Room, note, 1000)
		op.Request = append(op.Request, bytes.Repeat([]byte(" "), 1500)...)
		c := storetest.Next(head, note)
		c.Row.Event = append(c.Row.Event, bytes.Repeat([]byte(" "), 600)...)
		c.Row = storetest.Seal(c.Row)
		c.Ops = []store.Op{op}
		c.Blobs = []store.Blob{storetest.Blob(note + "reply" + string(bytes.Repeat([]byte("x"), 300))), storetest.Blob(note + "args")}
		if open != nil {
			c.Receipts = []store.Receipt{storetest.Receipt(*open, store.OutcomeOK, 500)}
		}
		done, err := s.Commit(ctx, c)
		if err != nil {
			return err
		}
		if err := s.MarkDispatched(ctx, head.Room, op.ID); err != nil {
			return err
		}
		head, open = done.Head, &op
	}
	return nil
}

// BenchmarkRawTransaction is the baseline: the smallest transaction that
// writes, on one connection with the same pragmas.
func BenchmarkRawTransaction(b *testing.B) {
	for _, mode := range []string{"NORMAL", "FULL"} {
		b.Run(mode, func(b *testing.B) {
			db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "raw.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous("+mode+")")
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = db.Close() }()
			db.SetMaxOpenConns(1)
			if _, err := db.Exec("CREATE TABLE t (n INTEGER PRIMARY KEY, body TEXT)"); err != nil {
				b.Fatal(err)
			}
			st, err := db.Prepare("INSERT INTO t (body) VALUES (?)")
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = st.Close() }()
			for b.Loop() {
				if _, err := st.Exec("x"); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "tx/s")
		})
	}
}
