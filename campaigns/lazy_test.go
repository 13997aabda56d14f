package campaigns

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/store"
)

// readingStore counts what a resume should not need before it goes on.
type readingStore struct {
	store.Store
	traces, releases atomic.Int64
}

func (s *readingStore) Trace(ctx context.Context, campaign, key string) (string, []byte, error) {
	s.traces.Add(1)
	return s.Store.Trace(ctx, campaign, key)
}

func (s *readingStore) Release(ctx context.Context, id string, charged, keep int64) (store.Allotment, error) {
	s.releases.Add(1)
	return s.Store.Release(ctx, id, charged, keep)
}

// A resume calls its model before it has read the trace of any finished trial
// or settled any finished triple again; all of them are reported in the end,
// and progress counts them from its first word on.
func TestResumeReadsNoTraceBeforeItGoesOn(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	p, inner := talkPlan(t, "50"), memStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const stop = 20
	var first int
	got := runTalk(ctx, t, p, inner, &calls, func(r *Runner) {
		r.Parallel = 1
		r.OnTrial = func(Done) error {
			if first++; first == stop {
				cancel()
			}
			return nil
		}
	})
	if !errors.Is(got.err, context.Canceled) || first != stop {
		t.Fatalf("%d trials, error %v; want a part of the campaign", first, got.err)
	}
	st := &readingStore{Store: inner}
	var traces, releases atomic.Int64
	traces.Store(-1)
	var told []Progress
	second := runTalk(t.Context(), t, p, st, &calls, func(r *Runner) {
		asked := r.Providers
		r.Providers = func(k ProviderKey) (model.Provider, error) {
			if traces.CompareAndSwap(-1, st.traces.Load()) {
				releases.Store(st.releases.Load())
			}
			return asked(k)
		}
		r.Progress = func(pr Progress) { told = append(told, pr) }
	})
	if second.err != nil || len(second.keys) != len(p.Seats()) {
		t.Fatalf("%d of %d trials reported, error %v", len(second.keys), len(p.Seats()), second.err)
	}
	// The triple that was interrupted may have been left between its last trial
	// and its release.
	if traces.Load() != 0 || releases.Load() > 1 {
		t.Errorf("%d traces read, %d allotments released before the first model was asked for; want 0, at most 1", traces.Load(), releases.Load())
	}
	controls := 0
	for _, s := range p.Seats() {
		if s.Control() {
			controls++
		}
	}
	if got, want := st.traces.Load(), int64(first); got != want {
		t.Errorf("%d stored traces read, want %d", got, want)
	}
	if want := first - controls; told[0].Done != want || told[0].Ran != 0 {
		t.Errorf("first progress %d done, %d ran; want %d stored trials", told[0].Done, told[0].Ran, want)
	}
}
