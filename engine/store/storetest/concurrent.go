package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/agentrooms/qualify/engine/store"
)

var concurrentCases = []testCase{
	{"ExactlyOneOfManyCommitsWins", testOneWins},
	{"R36_TheLastSumIsReservedOnce", testLastSum},
	{"ManyRoomsAtOnce", testManyRooms},
	{"ManyFirstLoadsAtOnce", testFirstLoads},
	{"ACancelledCallerStopsWaiting", testCancelled},
}

// together runs f n times at once and returns the errors by index.
func together(n int, f func(i int) error) []error {
	errs := make([]error, n)
	start := make(chan struct{})
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-start
			errs[i] = f(i)
		})
	}
	close(start)
	wg.Wait()
	return errs
}

func testOneWins(t *testing.T, s store.Store) {
	r := newRoom(t, s, "r", 100)
	for round := range 5 {
		errs := together(6, func(i int) error {
			c := Next(r.head, fmt.Sprint(round, i))
			c.Ops = []store.Op{Op("r", fmt.Sprint(round, i), 10)}
			_, err := s.Commit(t.Context(), c)
			return err
		})
		won := 0
		for _, err := range errs {
			if err == nil {
				won++
			} else {
				wants(t, "loser", store.ErrConflict, err)
			}
		}
		equal(t, "winners", 1, won)
		r.head = r.load().Head
		equal(t, "revision", int64(round), r.head.Rev)
		equal(t, "held", int64(round+1)*10, r.head.Money.Held)
	}
}

// testLastSum: two that reserve the same last sum, each retrying a lost
// compare-and-set; exactly one may call.
func testLastSum(t *testing.T, s store.Store) {
	newRoom(t, s, "r", 100)
	admitted := make([]bool, 2)
	errs := together(2, func(i int) error {
		for {
			l, err := s.Load(t.Context(), "r")
			if err != nil {
				return err
			}
			c := Next(l.Head, fmt.Sprint("by", i))
			c.Ops = []store.Op{Op("r", fmt.Sprint("by", i), 100)}
			done, err := s.Commit(t.Context(), c)
			if errors.Is(err, store.ErrConflict) {
				continue
			}
			if err == nil {
				admitted[i] = done.Admissions[0].Reserved
			}
			return err
		}
	})
	for _, err := range errs {
		wants(t, "commit", nil, err)
	}
	if admitted[0] == admitted[1] {
		t.Fatalf("admitted: %v, want exactly one", admitted)
	}
	l := must[*store.Loaded](t, "load")(s.Load(t.Context(), "r"))
	equal(t, "held", int64(100), l.Head.Money.Held)
	equal(t, "both events are there", int64(1), l.Head.Rev)
}

func testManyRooms(t *testing.T, s store.Store) {
	const rooms, rows = 8, 12
	errs := together(rooms, func(i int) error {
		id := fmt.Sprint("room", i)
		if err := s.CreateRoom(t.Context(), NewRoom(id, 10_000)); err != nil {
			return err
		}
		head := store.Head{Room: id, Rev: -1}
		var open *store.Op
		for n := range rows {
			c := Next(head, fmt.Sprint(n))
			op := Op(id, fmt.Sprint(n), 100)
			c.Ops, c.Blobs = []store.Op{op}, []store.Blob{Blob(fmt.Sprint(i, n))}
			if open != nil {
				c.Receipts = []store.Receipt{Receipt(*open, store.OutcomeOK, 50)}
			}
			done, err := s.Commit(t.Context(), c)
			if err != nil {
				return err
			}
			if err := s.MarkDispatched(t.Context(), id, op.ID); err != nil {
				return err
			}
			head, open = done.Head, &op
		}
		return nil
	})
	for _, err := range errs {
		wants(t, "room", nil, err)
	}
	for _, h := range must[[]store.Head](t, "list")(s.ListRooms(t.Context(), "room")) {
		r := &room{t: t, s: s, head: h}
		r.money(h.Room, 50*(rows-1), 100, 0)
		prev := ""
		for i, row := range must[[]store.Row](t, "rows")(s.Rows(t.Context(), h.Room, -1, 0)) {
			if row.Rev != int64(i) || row.Prev != prev || store.RowDigest(row) != row.Digest {
				t.Fatalf("chain of %s breaks at %d", h.Room, i)
			}
			prev = row.Digest
		}
		equal(t, "head", h.Digest, prev)
	}
}

// testFirstLoads: the first thing that happens to a store just opened is that
// many load at once, among them some that read something else.
func testFirstLoads(t *testing.T, s store.Store) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	wants(t, "create room", nil, s.CreateRoom(ctx, NewRoom("r", 100)))
	for _, err := range together(40, func(i int) error {
		switch i % 5 {
		case 0:
			_, err := s.Rows(ctx, "r", -1, 0)
			return err
		case 1:
			_, err := s.ListRooms(ctx, "")
			return err
		}
		_, err := s.Load(ctx, "r")
		return err
	}) {
		wants(t, "read", nil, err)
	}
}

func testCancelled(t *testing.T, s store.Store) {
	r := newRoom(t, s, "r", 100)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Commit(ctx, Next(r.head, "x"))
	wants(t, "commit", context.Canceled, err)
	_, err = s.Load(ctx, "r")
	wants(t, "load", context.Canceled, err)
	equal(t, "nothing is written", int64(-1), r.load().Head.Rev)

	// Cancelled while waiting: the write is there whole or not at all, and the
	// store goes on.
	for i := range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		c := Next(r.head, fmt.Sprint(i))
		c.Ops = []store.Op{Op("r", fmt.Sprint(i), 1)}
		errs := together(2, func(k int) error {
			if k == 0 {
				cancel()
				return nil
			}
			_, err := s.Commit(ctx, c)
			return err
		})
		if errs[1] != nil {
			wants(t, "commit", context.Canceled, errs[1])
		}
		cancel()
		// A later write of the same store comes after it.
		wants(t, "barrier", nil, s.CreateRoom(t.Context(), NewRoom(fmt.Sprint("barrier", i), 1)))
		l := r.load()
		if errs[1] == nil && l.Head.Rev != r.head.Rev+1 {
			t.Fatalf("commit %d was answered but is not stored", i)
		}
		if l.Head.Rev != r.head.Rev && l.Head.Digest != c.Row.Digest {
			t.Fatalf("head %+v is neither before nor after commit %d", l.Head, i)
		}
		equal(t, "held", int64(len(l.Ops)), l.Head.Money.Held)
		equal(t, "operations", l.Head.Rev+1, int64(len(l.Ops)))
		r.head = l.Head
	}
}
