package campaigns

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/model/scripted"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/faultstore"
	"github.com/agentrooms/qualify/engine/store/memory"
	"github.com/agentrooms/qualify/engine/store/sqlite"
)

// faultOwner runs the campaigns under faults, so that they take, keep and give
// back a lease.
var faultOwner = Owner{Name: "here", Token: "token"}

// runFaulty is runTalk of a lookup provider that keeps a journal.
func runFaulty(ctx context.Context, t *testing.T, p *Plan, st store.Store, j model.Journal) ran {
	t.Helper()
	return runTalk(ctx, t, p, st, nil, func(r *Runner) {
		r.Parallel, r.Owner = 2, faultOwner
		r.Providers = func(ProviderKey) (model.Provider, error) {
			return scripted.New(scripted.Config{Journal: j, Func: func(model.Call) (scripted.Answer, error) {
				return scripted.Text(`{"status":"done","text":"It is done."}`, engine.Usage{Input: 100, Output: 10}, 1_000_000), nil
			}})
		}
	})
}

// faultPlan is a campaign of few trials.
func faultPlan(t *testing.T) *Plan {
	t.Helper()
	return mustResolve(t, func(s string) string {
		for _, r := range [][2]string{
			{"  - {name: selective, mode: selective, idempotency: on}\n", ""},
			{"  - {name: planner, mode: planner, idempotency: on, options: {reviewers: 1}}\n", ""},
			{`include: ["*"]`, `include: ["ledger"]`},
			{"trials: 5", "trials: 1"},
		} {
			if !strings.Contains(s, r[0]) {
				t.Fatalf("the demo has no %q", r[0])
			}
			s = strings.Replace(s, r[0], r[1], 1)
		}
		return s
	}, nil)
}

// atFault runs a campaign under one fault, then again without.
func atFault(t *testing.T, p *Plan, st store.Store, fault faultstore.Fault, want ran, calls int) {
	t.Helper()
	what := fmt.Sprintf("%s at %s %d", fault.Kind, fault.Op, fault.Nth)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var f *faultstore.Store
	f, err := faultstore.New(st, faultstore.Plan{Faults: []faultstore.Fault{fault}}, func(hit faultstore.Fired) {
		if hit.Kind == faultstore.Stall {
			cancel()
			f.Unstall()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	j := &model.MemoryJournal{}
	got := runFaulty(ctx, t, p, f, j)
	switch {
	case len(f.Fired()) == 0:
		t.Errorf("%s never came", what)
	case got.err == nil:
	case fault.Kind == faultstore.Stall && errors.Is(got.err, context.Canceled):
	case !errors.Is(got.err, faultstore.ErrInjected) || !slices.ContainsFunc(f.Fired(), func(hit faultstore.Fired) bool {
		return strings.Contains(got.err.Error(), fmt.Sprintf(": %s, call %d:", hit.Op, hit.N))
	}):
		t.Errorf("%s: %v", what, got.err)
	}
	again := runFaulty(t.Context(), t, p, st, j)
	if again.err != nil {
		t.Errorf("%s: run again: %v", what, again.err)
		return
	}
	if c := again.out.Ceiling; again.out.SetDigest != want.out.SetDigest || c.Charged != want.out.Ceiling.Charged || c.Held != 0 {
		t.Errorf("%s: equal traces: %t, charged %d of %d, held %d", what, again.out.SetDigest == want.out.SetDigest, c.Charged, want.out.Ceiling.Charged, c.Held)
	}
	if j.Total() != calls || j.Repeated() != nil {
		t.Errorf("%s: %d calls, without it %d; called twice: %v", what, j.Total(), calls, j.Repeated())
	}
}

// plannedFaults are faults of every kind at the first and at a middle call of
// every method that a campaign uses.
func plannedFaults(calls map[faultstore.Op]int64) []faultstore.Fault {
	var out []faultstore.Fault
	for _, kind := range faultstore.Kinds() {
		ops := faultstore.Ops(faultstore.Write)
		if kind == faultstore.FailBefore || kind == faultstore.Stall {
			ops = append(ops, faultstore.Ops(faultstore.Read)...)
		}
		for _, op := range ops {
			switch n := calls[op]; {
			case n == 0:
			case n < 3:
				out = append(out, faultstore.Fault{Op: op, Nth: 1, Kind: kind})
			default:
				out = append(out, faultstore.Fault{Op: op, Nth: 1, Kind: kind}, faultstore.Fault{Op: op, Nth: n/2 + 1, Kind: kind})
			}
		}
	}
	return out
}

// measured runs the campaign without faults.
func measured(t *testing.T, p *Plan) (ran, map[faultstore.Op]int64, int) {
	t.Helper()
	f, err := faultstore.New(memStore(t), faultstore.Plan{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	j := &model.MemoryJournal{}
	want := runFaulty(t.Context(), t, p, f, j)
	if want.err != nil {
		t.Fatal(want.err)
	}
	return want, f.Calls(), j.Total()
}

// R45: a campaign under any fault of its store finishes, or stops with an error
// that names the call, and run again comes to the same traces and money;
// nothing is called twice. Every fifth fault; all of them when QUALIFY_LONG is
// set.
func TestR45_StoreFaultsLeaveTheCampaignAsItWas(t *testing.T) {
	t.Parallel()
	p := faultPlan(t)
	want, calls, total := measured(t, p)
	every := 5
	if os.Getenv("QUALIFY_LONG") != "" {
		every = 1
	}
	for i, f := range plannedFaults(calls) {
		if i%every != 0 {
			continue
		}
		st := memory.New(memory.Options{})
		atFault(t, p, st, f, want, total)
	}
}

func TestR45_StoreFaultsLeaveTheCampaignAsItWasInSQLite(t *testing.T) {
	t.Parallel()
	p := faultPlan(t)
	want, _, total := measured(t, p)
	for i, f := range []faultstore.Fault{
		{Op: "Commit", Nth: 9, Kind: faultstore.FailAfter},
		{Op: "PutTrace", Nth: 2, Kind: faultstore.LoseReply},
		{Op: "Release", Nth: 1, Kind: faultstore.FailAfter},
		{Op: faultstore.AnyWrite, Nth: 25, Kind: faultstore.DiskFull, Forever: true},
	} {
		st, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), fmt.Sprintf("%d.db", i)), sqlite.Options{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		atFault(t, p, st, f, want, total)
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
}
