package campaigns

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/model/scripted"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
)

// R42, DESIGN §4: what operations of unknown outcome hold stays held on the
// ceiling when their triples close, and in every later process; nothing else
// does. A provider that cannot be asked loses the first reply of every trial.
func TestR42_UncertainHoldsStayOnTheCeiling(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	opaque := func(ProviderKey) (model.Provider, error) {
		var mu sync.Mutex
		lost := false
		return scripted.New(scripted.Config{Opaque: true, Func: func(model.Call) (scripted.Answer, error) {
			calls.Add(1)
			mu.Lock()
			defer mu.Unlock()
			a := scripted.Text(`{"status":"done","text":"It is done."}`, engine.Usage{Input: 100, Output: 10}, 1_000_000)
			a.Lost, lost = !lost, true
			return a, nil
		}})
	}
	p, st := talkPlan(t, "50"), memStore(t)
	got := runTalk(t.Context(), t, p, st, &calls, func(r *Runner) { r.Providers = opaque })
	if got.err != nil {
		t.Fatal(got.err)
	}
	trials, err := st.Trials(t.Context(), p.ID)
	if err != nil {
		t.Fatal(err)
	}
	var held, charged int64
	for _, tr := range trials {
		if tr.Money.Held != tr.Money.Unknown {
			t.Errorf("trial %s holds %d, unknown %d", tr.Key, tr.Money.Held, tr.Money.Unknown)
		}
		held += tr.Money.Held
		charged += tr.Money.Charged
	}
	want := store.Ceiling{Name: got.out.Ceiling.Name, Funds: store.FundsSimulated, Limit: 50_000_000, Charged: charged, Held: held, MaxSum: got.out.Ceiling.MaxSum}
	if diff := cmp.Diff(want, got.out.Ceiling); diff != "" || held == 0 || charged == 0 {
		t.Errorf("held %d, charged %d:\n%s", held, charged, diff)
	}
	before := calls.Load()
	again := runTalk(t.Context(), t, p, st, &calls, func(r *Runner) { r.Providers, r.Clock = opaque, runtime.Virtual })
	if again.err != nil || calls.Load() != before {
		t.Fatalf("run again: %v, %d new calls", again.err, calls.Load()-before)
	}
	if diff := cmp.Diff(got.out.Ceiling, again.out.Ceiling); diff != "" {
		t.Errorf("a later process changed the ceiling:\n%s", diff)
	}
}
