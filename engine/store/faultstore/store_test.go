package faultstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/faultstore"
	"github.com/agentrooms/qualify/engine/store/memory"
	"github.com/agentrooms/qualify/engine/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, plan faultstore.Plan, onFault func(faultstore.Fired)) *faultstore.Store {
	t.Helper()
	s, err := faultstore.New(memory.New(memory.Options{Now: time.Now}), plan, onFault)
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

// Without a plan, and with one whose faults never come, the decorator is a
// store like any other.
func TestConformance(t *testing.T) {
	t.Parallel()
	never := faultstore.Plan{
		Faults: []faultstore.Fault{{Op: faultstore.AnyWrite, Nth: 1_000_000, Kind: faultstore.FailAfter}},
		Random: &faultstore.Random{Kinds: []faultstore.Kind{faultstore.FailBefore}, Reads: true},
	}
	storetest.Run(t, func(t *testing.T) store.Store { return open(t, never, nil) }, storetest.Options{})
}

// What each kind does to a write, what the caller can test for, and what is
// stored.
func TestKindsOnAWrite(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind   faultstore.Kind
		is     error
		stored bool
	}{
		{faultstore.FailBefore, nil, false},
		{faultstore.FailAfter, nil, true},
		{faultstore.LoseReply, context.DeadlineExceeded, true},
		{faultstore.DiskFull, store.ErrFull, false},
	} {
		t.Run(string(c.kind), func(t *testing.T) {
			t.Parallel()
			var told []faultstore.Fired
			s := open(t, faultstore.Plan{Faults: []faultstore.Fault{{Op: "CreateRoom", Nth: 2, Kind: c.kind}}},
				func(f faultstore.Fired) { told = append(told, f) })
			for n := 1; n <= 3; n++ {
				err := s.CreateRoom(t.Context(), storetest.NewRoom(fmt.Sprintf("r%d", n), 5))
				switch {
				case n != 2 && err != nil:
					t.Errorf("call %d: %v", n, err)
				case n != 2:
				case !errors.Is(err, faultstore.ErrInjected) || c.is != nil && !errors.Is(err, c.is):
					t.Errorf("call 2: %v", err)
				case !strings.Contains(err.Error(), "CreateRoom, call 2"):
					t.Errorf("the error does not name the call: %v", err)
				}
			}
			heads, err := s.ListRooms(t.Context(), "r2")
			if err != nil {
				t.Fatal(err)
			}
			if got := len(heads) == 1; got != c.stored {
				t.Errorf("stored: %t, want %t", got, c.stored)
			}
			want := []faultstore.Fired{{Op: "CreateRoom", N: 2, Kind: c.kind}}
			if diff := cmp.Diff(want, s.Fired()); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(want, told); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A refusal of the store below comes through: nothing was stored that the
// caller could be left in doubt about.
func TestRefusalBelowIsToldAsItIs(t *testing.T) {
	t.Parallel()
	s := open(t, faultstore.Plan{Faults: []faultstore.Fault{{Op: "CreateRoom", Nth: 2, Kind: faultstore.FailAfter}}}, nil)
	if err := s.CreateRoom(t.Context(), storetest.NewRoom("r", 5)); err != nil {
		t.Fatal(err)
	}
	if err := s.CreateRoom(t.Context(), storetest.NewRoom("r", 5)); !errors.Is(err, store.ErrExists) || errors.Is(err, faultstore.ErrInjected) {
		t.Errorf("got %v", err)
	}
}

func TestAFullDiskStaysFullForReadsToGoOn(t *testing.T) {
	t.Parallel()
	s := open(t, faultstore.Plan{Faults: []faultstore.Fault{{Op: faultstore.AnyWrite, Nth: 2, Kind: faultstore.DiskFull, Forever: true}}}, nil)
	if err := s.CreateRoom(t.Context(), storetest.NewRoom("r1", 5)); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := s.CreateRoom(t.Context(), storetest.NewRoom("r2", 5)); !errors.Is(err, store.ErrFull) {
			t.Errorf("got %v", err)
		}
		if _, err := s.AppendSeal(t.Context(), "k", nil); !errors.Is(err, store.ErrFull) {
			t.Errorf("got %v", err)
		}
		if _, err := s.Load(t.Context(), "r1"); err != nil {
			t.Errorf("a read: %v", err)
		}
	}
	calls := s.Calls()
	if calls[faultstore.AnyWrite] != 7 || calls[faultstore.AnyRead] != 3 || calls["CreateRoom"] != 4 {
		t.Errorf("calls %v", calls)
	}
}

// A stalled call ends with its context, and nothing is stored; or it goes on
// after Unstall.
func TestStallEndsWithTheContextOrGoesOn(t *testing.T) {
	t.Parallel()
	plan := faultstore.Plan{Faults: []faultstore.Fault{{Op: "CreateRoom", Nth: 1, Kind: faultstore.Stall, Forever: true}}}
	ctx, cancel := context.WithCancel(t.Context())
	s := open(t, plan, func(f faultstore.Fired) {
		if f.N == 1 {
			cancel()
		}
	})
	err := s.CreateRoom(ctx, storetest.NewRoom("r", 5))
	if !errors.Is(err, context.Canceled) || !errors.Is(err, faultstore.ErrInjected) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Load(t.Context(), "r"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a call that was given up: %v", err)
	}
	stalled := make(chan error, 1)
	go func() { stalled <- s.CreateRoom(t.Context(), storetest.NewRoom("r", 5)) }()
	for len(s.Fired()) < 2 {
		select {
		case err := <-stalled:
			t.Fatalf("the call did not stall: %v", err)
		default:
		}
	}
	s.Unstall()
	s.Unstall()
	if err := <-stalled; err != nil {
		t.Error(err)
	}
	if _, err := s.Load(t.Context(), "r"); err != nil {
		t.Error(err)
	}
}

// Random faults depend on the seed, the method and its count alone, keep to
// their rate, and end after Max.
func TestRandomFaultsFollowTheirSeed(t *testing.T) {
	t.Parallel()
	play := func(r faultstore.Random, between int) []faultstore.Fired {
		s := open(t, faultstore.Plan{Random: &r}, nil)
		for n := range 1000 {
			_ = s.CreateRoom(t.Context(), storetest.NewRoom(fmt.Sprintf("r%d", n), 5))
			for range between {
				_, _ = s.Outbox(t.Context(), "nowhere")
			}
		}
		return s.Fired()
	}
	r := faultstore.Random{Seed: 7, PerMille: 200, Kinds: []faultstore.Kind{faultstore.FailBefore, faultstore.LoseReply}}
	got := play(r, 0)
	if len(got) < 150 || len(got) > 250 {
		t.Errorf("%d of 1000 calls were struck at 200 per mille", len(got))
	}
	if diff := cmp.Diff(got, play(r, 1)); diff != "" {
		t.Errorf("reads in between change the faults:\n%s", diff)
	}
	count := map[faultstore.Kind]int{}
	for _, f := range got {
		count[f.Kind]++
	}
	if len(count) != 2 || count[faultstore.FailBefore] < 50 || count[faultstore.LoseReply] < 50 {
		t.Errorf("kinds %v", count)
	}
	other := r
	other.Seed++
	if cmp.Equal(got, play(other, 0)) {
		t.Error("another seed gives the same faults")
	}
	most := r
	most.Max = 3
	if diff := cmp.Diff(got[:3], play(most, 0)); diff != "" {
		t.Error(diff)
	}
	r.Reads = true
	reads := 0
	for _, f := range play(r, 1) {
		if f.Op == "Outbox" {
			reads++
			if f.Kind != faultstore.FailBefore {
				t.Errorf("a read was struck by %s", f.Kind)
			}
		}
	}
	if reads < 150 || reads > 250 {
		t.Errorf("%d of 1000 reads were struck at 200 per mille", reads)
	}
}

func TestPlanThatCannotHappenIsRefused(t *testing.T) {
	t.Parallel()
	some := []faultstore.Kind{faultstore.FailBefore}
	for want, p := range map[string]faultstore.Plan{
		`"Comit" cannot`:    {Faults: []faultstore.Fault{{Op: "Comit", Nth: 1, Kind: faultstore.FailBefore}}},
		`"Close" cannot`:    {Faults: []faultstore.Fault{{Op: "Close", Nth: 1, Kind: faultstore.FailBefore}}},
		"the first is 1":    {Faults: []faultstore.Fault{{Op: "Commit", Kind: faultstore.FailBefore}}},
		`kind "" is`:        {Faults: []faultstore.Fault{{Op: "Commit", Nth: 1}}},
		"needs no disk":     {Faults: []faultstore.Fault{{Op: "Load", Nth: 1, Kind: faultstore.DiskFull}}},
		"1001 per mille":    {Random: &faultstore.Random{PerMille: 1001, Kinds: some}},
		"of no kind":        {Random: &faultstore.Random{PerMille: 1}},
		`of kind "stall"`:   {Random: &faultstore.Random{PerMille: 1, Kinds: []faultstore.Kind{faultstore.Stall}}},
		`of kind "unknown"`: {Random: &faultstore.Random{PerMille: 1, Kinds: []faultstore.Kind{"unknown"}}},
	} {
		if _, err := faultstore.New(memory.New(memory.Options{}), p, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
