package campaigns

import (
	"bytes"
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/agentrooms/qualify/engine/store"
)

// frail is a store in which the n-th trace or trial record is not written, as
// if the process had ended before it.
type frail struct {
	store.Store
	traces, trials atomic.Int32 // writes still to come before the fault; 0 for none
}

var errFrail = errors.New("the process ended")

func (f *frail) PutTrace(ctx context.Context, campaign, key, digest string, content []byte) error {
	if f.traces.Add(-1) == 0 {
		return errFrail
	}
	return f.Store.PutTrace(ctx, campaign, key, digest, content)
}

func (f *frail) PutTrial(ctx context.Context, t store.Trial) error {
	if t.Terminal() && f.trials.Add(-1) == 0 {
		return errFrail
	}
	return f.Store.PutTrial(ctx, t)
}

// A trial's record says that it is closed only when its trace is stored; a
// process that ends between the two leaves a trial that is exported again, to
// equal bytes.
func TestTraceIsStoredBeforeItsRecord(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	p := talkPlan(t, "50")
	want := runTalk(t.Context(), t, p, memStore(t), &calls, nil)
	if want.err != nil {
		t.Fatal(want.err)
	}
	for name, set := range map[string]func(*frail){
		"before the trace":  func(f *frail) { f.traces.Store(4) },
		"before the record": func(f *frail) { f.trials.Store(4) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			f := &frail{Store: memStore(t)}
			set(f)
			if got := runTalk(t.Context(), t, p, f, &calls, nil); !errors.Is(got.err, errFrail) {
				t.Fatalf("got %v", got.err)
			}
			trials, err := f.Trials(t.Context(), p.ID)
			if err != nil {
				t.Fatal(err)
			}
			for _, tr := range trials {
				if !tr.Terminal() {
					continue
				}
				if digest, _, err := f.Trace(t.Context(), p.ID, tr.Key); err != nil || digest != tr.TraceDigest {
					t.Errorf("trial %s is closed, its trace: %s, %v", tr.Key, digest, err)
				}
			}
			got := runTalk(t.Context(), t, p, f, &calls, nil)
			if got.err != nil || got.out.SetDigest != want.out.SetDigest {
				t.Errorf("resumed: %v", got.err)
			}
		})
	}
}

// DESIGN §2: one salt per room, seeded under simulation: rooms of one campaign
// differ, the same room of two runs does not, another seed gives other salts.
func TestSaltsAreSeededPerRoom(t *testing.T) {
	t.Parallel()
	p, again := talkPlan(t, "50"), talkPlan(t, "50")
	seen := map[string]string{}
	for i, s := range p.Seats() {
		salt := p.salt(s)
		if other, ok := seen[string(salt)]; ok || len(salt) < 16 {
			t.Errorf("rooms %s and %s have one salt, %d bytes", s.Key(), other, len(salt))
		}
		seen[string(salt)] = s.Key()
		if !bytes.Equal(salt, again.salt(again.Seats()[i])) {
			t.Errorf("room %s has another salt in another run", s.Key())
		}
	}
	again.Seed++
	if s := p.Seats()[0]; bytes.Equal(p.salt(s), again.salt(s)) {
		t.Error("another seed gives the same salt")
	}
}
