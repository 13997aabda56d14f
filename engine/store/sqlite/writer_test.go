package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/storetest"
)

// block keeps the writer busy inside a transaction until the returned function
// is called, so that later writes share the next batch.
func block(t *testing.T, s *Store) (release func()) {
	t.Helper()
	entered, leave := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		err := s.write(context.WithoutCancel(t.Context()), "block", false, func(context.Context, *writer) error {
			close(entered)
			<-leave
			return nil
		})
		if err != nil {
			t.Errorf("block: %v", err)
		}
	})
	<-entered
	return sync.OnceFunc(func() {
		close(leave)
		wg.Wait()
	})
}

// waiting blocks until n writes are queued.
func waiting(t *testing.T, s *Store, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for len(s.queue) < n {
		if ctx.Err() != nil {
			t.Fatalf("%d writes are queued, want %d", len(s.queue), n)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestGroupCommitSharesOneTransaction(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, filepath.Join(t.TempDir(), "s.db"), Options{Create: true})
	release := block(t, s)
	var wg sync.WaitGroup
	const n = 20
	for i := range n {
		wg.Go(func() {
			if err := s.CreateRoom(t.Context(), storetest.NewRoom(fmt.Sprint(i), 1)); err != nil {
				t.Error(err)
			}
		})
	}
	waiting(t, s, n)
	commits, logical := s.commits.Load(), s.logical.Load()
	release()
	wg.Wait()
	// The blocked transaction and the batch.
	if c, l := s.commits.Load()-commits, s.logical.Load()-logical; c != 2 || l != n+1 {
		t.Fatalf("%d writes in %d transactions, want %d in 2", l, c, n+1)
	}
}

// TestFaultStrikesOnlyItsOwnWrite: one write of a batch breaks a constraint
// after it has already written; its neighbours before and behind are stored,
// it is not.
func TestFaultStrikesOnlyItsOwnWrite(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, filepath.Join(t.TempDir(), "s.db"), Options{Create: true})
	room := storetest.NewRoom("twice", 1)
	must(t, s.CreateRoom(t.Context(), room))
	release := block(t, s)
	var wg sync.WaitGroup
	var fault error
	for i := range 9 {
		wg.Go(func() {
			if i != 4 {
				if err := s.CreateRoom(t.Context(), storetest.NewRoom(fmt.Sprint("room", i), 1)); err != nil {
					t.Error(err)
				}
				return
			}
			fault = s.write(t.Context(), "fault", false, func(ctx context.Context, w *writer) error {
				if err := w.exec(ctx, sqlInsertRoom, "half", "simulated", []byte{}, "", "", 1); err != nil {
					return err
				}
				return w.exec(ctx, sqlInsertRoom, "twice", "simulated", []byte{}, "", "", 1)
			})
		})
		waiting(t, s, i+1)
	}
	release()
	wg.Wait()
	if !errors.Is(fault, store.ErrExists) {
		t.Errorf("fault: %v", fault)
	}
	rooms, err := s.ListRooms(t.Context(), "")
	must(t, err)
	if len(rooms) != 9 {
		t.Errorf("%d rooms, want the first and eight neighbours", len(rooms))
	}
	if _, err := s.Load(t.Context(), "half"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("half of the faulty write is stored: %v", err)
	}
}

// TestRefusalLeavesTheBatchAlone: a lost compare-and-set in a batch is judged
// against the writes before it in the same batch.
func TestRefusalLeavesTheBatchAlone(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, filepath.Join(t.TempDir(), "s.db"), Options{Create: true})
	must(t, s.CreateRoom(t.Context(), storetest.NewRoom("r", 100)))
	release := block(t, s)
	var wg sync.WaitGroup
	errs := make([]error, 3)
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = s.Commit(t.Context(), storetest.Next(store.Head{Room: "r", Rev: -1}, fmt.Sprint(i)))
		})
		waiting(t, s, i+1)
	}
	release()
	wg.Wait()
	if errs[0] != nil || !errors.Is(errs[1], store.ErrConflict) || !errors.Is(errs[2], store.ErrConflict) {
		t.Fatalf("results %v, want the first to win", errs)
	}
}

func TestCancelledCallerIsWithdrawn(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.db")
	s := mustOpen(t, path, Options{Create: true})
	must(t, s.CreateRoom(t.Context(), storetest.NewRoom("r", 100)))
	release := block(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := s.Commit(ctx, storetest.Next(store.Head{Room: "r", Rev: -1}, "x"))
		done <- err
	})
	waiting(t, s, 1)
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) { // while the writer is still blocked
		t.Errorf("cancelled commit: %v", err)
	}
	release()
	wg.Wait()
	l, err := s.Load(t.Context(), "r")
	must(t, err)
	if l.Head.Rev != -1 {
		t.Error("a withdrawn commit is stored")
	}
	fillMore(t, s, "r", 3)
}

func fillMore(t *testing.T, s *Store, id string, n int) {
	t.Helper()
	for range n {
		l, err := s.Load(t.Context(), id)
		must(t, err)
		if _, err := s.Commit(t.Context(), storetest.Next(l.Head, "more")); err != nil {
			t.Fatal(err)
		}
	}
}

// TestWaitsForAnotherProcess: a foreign connection holds the write lock; a
// caller with a deadline goes, one without gets through when the lock is free,
// and a timeout of the store is an error that leaves it usable.
func TestWaitsForAnotherProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.db")
	s := mustOpen(t, path, Options{Create: true})
	hasty := mustOpen(t, path, Options{BusyTimeout: 20 * time.Millisecond})
	db, err := sql.Open("sqlite", path)
	must(t, err)
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	_, err = db.Exec("BEGIN IMMEDIATE")
	must(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if err := s.CreateRoom(ctx, storetest.NewRoom("deadline", 1)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("with a deadline: %v", err)
	}
	if err := hasty.CreateRoom(t.Context(), storetest.NewRoom("hasty", 1)); !isBusy(err) {
		t.Errorf("past the busy timeout: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- s.CreateRoom(t.Context(), storetest.NewRoom("patient", 1)) }()
	waiting(t, s, 1)
	_, err = db.Exec("COMMIT")
	must(t, err)
	if err := <-done; err != nil {
		t.Errorf("patient: %v", err)
	}
	if err := hasty.CreateRoom(t.Context(), storetest.NewRoom("hasty", 1)); err != nil {
		t.Errorf("hasty, later: %v", err)
	}
}

// TestTwoStoresOnOneFile stands for two processes: commits on one room and
// draws on one ceiling interleave, and each store sees the other's writes.
func TestTwoStoresOnOneFile(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "s.db")
	stores := []*Store{mustOpen(t, path, Options{Create: true}), mustOpen(t, path, Options{Create: true})}
	must(t, stores[0].CreateRoom(ctx, storetest.NewRoom("r", 1000)))
	if err := stores[1].CreateRoom(ctx, storetest.NewRoom("r", 1000)); !errors.Is(err, store.ErrExists) {
		t.Errorf("the other store does not see the room: %v", err)
	}
	_, err := stores[0].EnsureCeiling(ctx, "owner", store.FundsSimulated, 15)
	must(t, err)

	const each = 15
	var wg sync.WaitGroup
	for i, s := range stores {
		wg.Go(func() {
			for n := 0; n < each; {
				l, err := s.Load(ctx, "r")
				if err != nil {
					t.Error(err)
					return
				}
				note := fmt.Sprint(i, "/", n)
				c := storetest.Next(l.Head, note)
				c.Ops = []store.Op{storetest.Op("r", note, 10)}
				if _, err := s.Commit(ctx, c); err == nil {
					n++
				} else if !errors.Is(err, store.ErrConflict) {
					t.Error(err)
					return
				}
				_, err = s.Allot(ctx, store.Allotment{ID: note, Ceiling: "owner", Funds: store.FundsSimulated, Sum: 2})
				if err != nil && !errors.Is(err, store.ErrExhausted) {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	for _, s := range stores {
		l, err := s.Load(ctx, "r")
		must(t, err)
		if l.Head.Rev != 2*each-1 || l.Head.Money.Held != 2*each*10 || len(l.Rows) != 2*each || len(l.Ops) != 2*each {
			t.Errorf("head %+v with %d rows and %d operations", l.Head, len(l.Rows), len(l.Ops))
		}
		cs, err := s.Ceilings(ctx)
		must(t, err)
		if cs[0].Held != 14 {
			t.Errorf("ceiling holds %d, want 14", cs[0].Held)
		}
	}
}

// DESIGN §2: between batches the writer yields while another process has shown
// itself, and only then.
func TestYieldsWhileAnotherProcessWrites(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "s.db")
	a, b := mustOpen(t, path, Options{Create: true}), mustOpen(t, path, Options{Create: true})
	room := func(s *Store, id string) int64 {
		must(t, s.CreateRoom(ctx, storetest.NewRoom(id, 1)))
		// The pause follows the answer; Close waits for the writer's last one.
		return s.yields.Load()
	}
	for i := range 5 {
		if n := room(a, fmt.Sprint("alone", i)); n != 0 {
			t.Fatalf("%d pauses while nobody else is about", n)
		}
	}
	must(t, b.CreateRoom(ctx, storetest.NewRoom("other", 1)))
	for i := range politeness + 5 {
		room(a, fmt.Sprint("together", i))
	}
	must(t, a.Close())
	if n := a.yields.Load(); n != politeness {
		t.Errorf("%d pauses after another process wrote, want %d", n, politeness)
	}
}

// Reading one room's head must not read the rooms behind it: the cost of a
// close would grow with the number of rooms.
func TestListRoomsEndsBehindItsPrefix(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, filepath.Join(t.TempDir(), "s.db"), Options{Create: true})
	rows, err := s.reads.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+sqlHeads, "campaign/case/arm/1")
	must(t, err)
	defer func() { _ = rows.Close() }()
	plan := ""
	for rows.Next() {
		var id, parent, unused int
		var detail string
		must(t, rows.Scan(&id, &parent, &unused, &detail))
		plan += detail + "\n"
	}
	must(t, rows.Err())
	if !strings.Contains(plan, "id>? AND id<?") {
		t.Errorf("the plan is not a closed range of the index:\n%s", plan)
	}
}

func TestCloseFinishesWhatIsQueued(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.db")
	s, err := Open(t.Context(), path, Options{Create: true})
	must(t, err)
	release := block(t, s)
	var wg sync.WaitGroup
	errs := make([]error, 5)
	for i := range errs {
		wg.Go(func() { errs[i] = s.CreateRoom(t.Context(), storetest.NewRoom(fmt.Sprint(i), 1)) })
	}
	waiting(t, s, len(errs))
	wg.Go(release)
	closeStore(t, s)
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Errorf("queued before Close: %v", err)
	}
	again := mustOpen(t, path, Options{})
	rooms, err := again.ListRooms(t.Context(), "")
	must(t, err)
	if len(rooms) != len(errs) {
		t.Errorf("%d rooms after reopening, want %d", len(rooms), len(errs))
	}
}

// TestManyCreateTheFileAtOnce: processes that start together on a fresh path
// all get the one store.
// TestOpenWaitsForAnotherThatMakesTheFile: the switch to a write-ahead log waits
// for a write of another connection like every write does.
func TestOpenWaitsForAnotherThatMakesTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.db")
	db, err := sql.Open("sqlite", path)
	must(t, err)
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	_, err = db.Exec("BEGIN IMMEDIATE")
	must(t, err)
	if _, err := Open(t.Context(), path, Options{Create: true, BusyTimeout: 20 * time.Millisecond}); !isBusy(err) {
		t.Errorf("past the busy timeout: %v", err)
	}
	done := make(chan error, 1)
	go func() {
		s, err := Open(t.Context(), path, Options{Create: true})
		if err == nil {
			err = s.Close()
		}
		done <- err
	}()
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	_, err = db.Exec("COMMIT")
	must(t, err)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestManyCreateTheFileAtOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "new folder", "s.db")
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			s, err := Open(t.Context(), path, Options{Create: true})
			if err != nil {
				t.Error(err)
				return
			}
			defer closeStore(t, s)
			if err := s.CreateRoom(t.Context(), storetest.NewRoom(fmt.Sprint(i), 1)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	rooms, err := mustOpen(t, path, Options{}).ListRooms(t.Context(), "")
	must(t, err)
	if len(rooms) != 6 {
		t.Errorf("%d rooms, want 6", len(rooms))
	}
}
