package campaigns

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
)

// heldPlan is a plan of dev cases that are marked as holdout for the test.
func heldPlan(t *testing.T) *Plan {
	t.Helper()
	p := talkPlan(t, "50.00")
	p.Filter.Split = corpus.SplitHoldout
	return p
}

// ledger is a SealedRun that writes down its calls and checks that nothing runs
// while it is called.
type ledger struct {
	mu    sync.Mutex
	calls []string
	gauge *runtime.Gauge
	busy  bool            // a trial ran during a call that must see none
	fail  map[string]bool // calls that fail
}

func (l *ledger) note(call string, quiet bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls = append(l.calls, call)
	l.busy = l.busy || quiet && l.gauge.Read().Trials > 0
	if l.fail[call] {
		return errors.New("stopped at " + call)
	}
	return nil
}

func sizes(closed [][]string) []int {
	out := []int{}
	for _, c := range closed {
		out = append(out, len(c))
	}
	return out
}

func (l *ledger) Enter(_ context.Context, closed [][]string) error {
	return l.note(fmt.Sprint("enter ", sizes(closed)), true)
}

func (l *ledger) Begin(_ context.Context, complete bool, n int) error {
	return l.note(fmt.Sprint("begin ", complete, " ", n), true)
}

func (l *ledger) Batch(_ context.Context, b, n int, closed [][]string) error {
	return l.note(fmt.Sprint("batch ", b, "/", n, " ", sizes(closed)), true)
}

func (l *ledger) After(_ context.Context, complete bool, n int, closed [][]string) error {
	return l.note(fmt.Sprint("after ", complete, " ", n, " ", sizes(closed)), true)
}

func (l *ledger) End(_ context.Context, status, traces string) error {
	return l.note(fmt.Sprint("end ", status, " ", traces != ""), true)
}

func runSealed(t *testing.T, p *Plan, s store.Store, l *ledger) error {
	t.Helper()
	var calls atomic.Int64
	l.gauge = new(runtime.Gauge)
	r := &Runner{Plan: p, Store: s, Providers: talker(t, &calls), Clock: runtime.Virtual, Gauge: l.gauge, Parallel: 4, Log: l}
	_, err := r.Run(t.Context())
	if l.busy {
		t.Error("a trial ran while the log was asked")
	}
	return err
}

// TestQ4_AHoldoutRunsInBatches: the log is asked before the first trial, between
// batches when nothing runs, and after the last; a resume goes on where the run
// stopped.
func TestQ4_AHoldoutRunsInBatches(t *testing.T) {
	t.Parallel()
	p := heldPlan(t)
	first := len(p.controlSeats()) + len(p.cases)*len(p.Arms)
	second := len(p.cases) * len(p.Arms)
	s := memory.New(memory.Options{})
	stop := fmt.Sprintf("batch 1/2 [%d 0]", first)
	l := &ledger{fail: map[string]bool{stop: true}}
	if err := runSealed(t, p, s, l); err == nil || err.Error() != "stopped at "+stop {
		t.Errorf("error %v", err)
	}
	if diff := cmp.Diff([]string{"enter [0 0]", "begin false 2", stop}, l.calls); diff != "" {
		t.Errorf("stopped (-want +got):\n%s", diff)
	}
	c, err := s.Campaign(t.Context(), p.ID)
	if err != nil || c.Status != StatusStopped {
		t.Errorf("status %q, error %v; want %s", c.Status, err, StatusStopped)
	}
	l = &ledger{}
	if err := runSealed(t, p, s, l); err != nil {
		t.Fatal(err)
	}
	want := []string{
		fmt.Sprintf("enter [%d 0]", first), "begin false 2", stop, fmt.Sprintf("after true 2 [%d %d]", first, second), "end done true",
	}
	if diff := cmp.Diff(want, l.calls); diff != "" {
		t.Errorf("resumed (-want +got):\n%s", diff)
	}
	l = &ledger{}
	if err := runSealed(t, p, s, l); err != nil || l.calls[1] != "begin true 2" {
		t.Errorf("run again: %v, %v", err, l.calls)
	}
}

// TestQ4_AChangeBehindTheLastTrialEndsNothing: when the log refuses what it finds
// behind the last trial, the campaign is stopped and not done, and logs no end.
func TestQ4_AChangeBehindTheLastTrialEndsNothing(t *testing.T) {
	t.Parallel()
	p := heldPlan(t)
	second := len(p.cases) * len(p.Arms)
	last := fmt.Sprintf("after true 2 [%d %d]", len(p.controlSeats())+second, second)
	s := memory.New(memory.Options{})
	l := &ledger{fail: map[string]bool{last: true}}
	if err := runSealed(t, p, s, l); err == nil || err.Error() != "stopped at "+last {
		t.Errorf("error %v", err)
	}
	if l.calls[len(l.calls)-1] != last {
		t.Errorf("calls %v", l.calls)
	}
	if c, err := s.Campaign(t.Context(), p.ID); err != nil || c.Status != StatusStopped {
		t.Errorf("status %q, error %v; want %s", c.Status, err, StatusStopped)
	}
}

// TestQ4_NothingIsStoredBeforeTheLogAgrees: a run that is refused leaves no row.
func TestQ4_NothingIsStoredBeforeTheLogAgrees(t *testing.T) {
	t.Parallel()
	p := heldPlan(t)
	s := memory.New(memory.Options{})
	l := &ledger{fail: map[string]bool{"enter [0 0]": true}}
	if err := runSealed(t, p, s, l); err == nil {
		t.Error("no error")
	}
	log, err := s.SealLog(t.Context())
	if err != nil || len(log) > 0 {
		t.Errorf("%d rows in the seal log, error %v", len(log), err)
	}
	if _, err := s.Campaign(t.Context(), p.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the campaign is stored: %v", err)
	}
	r := &Runner{Plan: p, Store: s}
	if _, err := r.Run(t.Context()); !errors.Is(err, ErrHoldout) {
		t.Errorf("a run without a log: %v, want ErrHoldout", err)
	}
}

// TestQ4_ADevRunHasNoBatches: only a holdout pauses between rounds.
func TestQ4_ADevRunHasNoBatches(t *testing.T) {
	t.Parallel()
	l := &ledger{}
	if err := runSealed(t, talkPlan(t, "50.00"), memory.New(memory.Options{}), l); err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(l.calls, func(c string) bool { return c[:5] == "batch" }) || len(l.calls) != 4 {
		t.Errorf("%v", l.calls)
	}
}

// TestQ4_EveryTrialIsInOneBatch: each seat stands in one batch, whatever the
// order.
func TestQ4_EveryTrialIsInOneBatch(t *testing.T) {
	t.Parallel()
	for _, order := range []string{"", OrderFamilies} {
		p := talkPlan(t, "50.00")
		p.Order = order
		b := p.batches()
		seen := map[string]int{}
		for _, keys := range b.seats {
			for _, k := range keys {
				seen[k]++
			}
		}
		for _, s := range p.Seats() {
			if seen[s.Key()] != 1 {
				t.Errorf("order %q: trial %s is in %d batches", order, s.Key(), seen[s.Key()])
			}
			delete(seen, s.Key())
		}
		if len(seen) > 0 || len(b.orders) != len(p.Schedule()) {
			t.Errorf("order %q: %d keys more, %d of %d triples", order, len(seen), len(b.orders), len(p.Schedule()))
		}
		if want := map[string]int{"": 2, OrderFamilies: 4}[order]; len(b.seats) != want {
			t.Errorf("order %q: %d batches, want %d", order, len(b.seats), want)
		}
	}
}
