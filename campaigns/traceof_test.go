package campaigns

import (
	"bytes"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/evaluator/trace"
)

// The trace of every trial, made from the history that its run kept, is the
// one that the rows in the store fold to.
func TestTracesOfRunsAreThoseOfTheirRows(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	p, st := talkPlan(t, "50"), memStore(t)
	got := runTalk(t.Context(), t, p, st, &calls, nil)
	if got.err != nil {
		t.Fatal(got.err)
	}
	for _, s := range p.Seats() {
		again, err := p.Retrace(t.Context(), st, s)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again, got.bytes[s.Key()]) {
			t.Errorf("%s: the rows fold to another trace than the run had", s.Key())
		}
		read, err := trace.Read(bytes.NewReader(again))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(read, got.read[s.Key()]); d != "" {
			t.Errorf("%s: the trace that is scored is not the one that is stored (-stored +scored):\n%s", s.Key(), d)
		}
	}
}

// The first trial of each case and arm is rebuilt from its rows when it closes,
// and a run that saw something else is refused; the others are left to trace
// verify.
func TestTheFirstTrialIsHeldAgainstItsRows(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	p, st := talkPlan(t, "50"), memStore(t)
	if got := runTalk(t.Context(), t, p, st, &calls, nil); got.err != nil {
		t.Fatal(got.err)
	}
	for _, s := range p.Seats() {
		h, err := runtime.Replay(t.Context(), st, p.Room(s), p.Folds(s))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.traceOf(t.Context(), st, s, h); err != nil {
			t.Fatalf("%s: an equal history is refused: %v", s.Key(), err)
		}
		h.Head.Money.Charged++
		_, err = p.traceOf(t.Context(), st, s, h)
		if want := s.Index == 0; (engine.CodeOf(err) == engine.CodeConflict) != want {
			t.Errorf("%s: a history that differs from the rows: %v", s.Key(), err)
		}
	}
}
