package campaigns

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
	"github.com/agentrooms/qualify/freeze"
)

// history is a store with campaigns that ran before.
type history struct {
	store.Store
	t *testing.T
}

// seals registers a plan, without storing the campaign: as another store that
// shares the log does, or a process that died in between.
func (h history) seals(p *Plan) {
	h.t.Helper()
	if err := (&Runner{Plan: p, Store: h}).seal(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

// stores stores the campaign of a plan.
func (h history) stores(p *Plan) {
	h.t.Helper()
	if err := h.PutCampaign(h.t.Context(), campaignOf(p)); err != nil {
		h.t.Fatal(err)
	}
}

// campaignOf is the campaign that a run of p stores first.
func campaignOf(p *Plan) store.Campaign {
	return store.Campaign{ID: p.ID, Name: p.Name, PlanDigest: p.PlanDigest, Registration: p.Registration, Plan: p.Canonical, Status: StatusRunning}
}

// ran registers and stores a campaign.
func (h history) ran(p *Plan) {
	h.t.Helper()
	h.seals(p)
	h.stores(p)
}

// log is the seal log; it must have no fault.
func (h history) log() []store.SealRow {
	h.t.Helper()
	log, err := h.SealLog(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	var rows []freeze.Row
	for _, r := range log {
		rows = append(rows, freeze.Row(r))
	}
	if v := freeze.VerifyLog(rows); len(v.Faults) > 0 {
		h.t.Errorf("faults %v", v.Faults)
	}
	return log
}

// TestQ4_ARegistrationNamesItsPredecessor: the closest older campaign of its name
// that the store holds and the log registers, else the newest of that name in the
// log; and in what the two differ, where that is known.
func TestQ4_ARegistrationNamesItsPredecessor(t *testing.T) {
	t.Parallel()
	plan := func(edits ...string) *Plan {
		return mustResolve(t, func(s string) string { return strings.NewReplacer(edits...).Replace(s) }, nil)
	}
	newer := func(p *ResolveInput) { p.CodeVersion = "v2" }
	first, seed, both := plan(), plan("seed: 7", "seed: 8"), plan("seed: 7", "seed: 8", "trials: 5", "trials: 6")
	trials, code, other := plan("trials: 5", "trials: 6"), mustResolve(t, nil, newer), plan("name: demo", "name: other")
	for name, tc := range map[string]struct {
		before  func(history)
		want    string
		differs []string
	}{
		"the first of its name":       {func(history) {}, "", nil},
		"another name":                {func(h history) { h.ran(other) }, "", nil},
		"one change":                  {func(h history) { h.ran(first) }, first.ID, []string{"seed", "trials"}},
		"the nearer of two":           {func(h history) { h.ran(seed); h.ran(first) }, seed.ID, []string{"trials"}},
		"the newer of two as near":    {func(h history) { h.ran(seed); h.ran(trials) }, trials.ID, []string{"seed"}},
		"one that was never sealed":   {func(h history) { h.stores(seed); h.ran(first) }, first.ID, []string{"seed", "trials"}},
		"only one never sealed":       {func(h history) { h.stores(seed) }, "", nil},
		"of another store, the newer": {func(h history) { h.seals(seed); h.seals(first); h.seals(other) }, first.ID, nil},
		"of this store, though older": {func(h history) { h.ran(first); h.seals(seed) }, first.ID, []string{"seed", "trials"}},
	} {
		h := history{memStore(t), t}
		tc.before(h)
		h.ran(both)
		log := h.log()
		predecessor, differs := PredecessorOf(log, both.ID)
		if diff := cmp.Diff([]any{tc.want, tc.differs}, []any{predecessor, differs}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if registeredBy(log, both.ID, both.Registration) == nil {
			t.Errorf("%s: the record depends on what was there before", name)
		}
	}
	h := history{memStore(t), t}
	h.ran(first)
	h.ran(code) // the same plan: differs in nothing but the code, which stands in both rows
	if predecessor, differs := PredecessorOf(h.log(), code.ID); predecessor != first.ID || differs != nil || code.PlanDigest != first.PlanDigest {
		t.Errorf("another code follows %q, differs in %v", predecessor, differs)
	}
	held := mustResolve(t, nil, func(in *ResolveInput) { in.Override.Split, in.Holdout = corpus.SplitHoldout, true })
	h.seals(held)
	if predecessor, differs := PredecessorOf(h.log(), held.ID); predecessor != code.ID || !cmp.Equal(differs, []string{"case_digests", "cases", "corpus"}) {
		t.Errorf("the holdout follows %q, differs in %v", predecessor, differs)
	}
	if predecessor, differs := PredecessorOf(h.log(), "c_none"); predecessor != "" || differs != nil {
		t.Errorf("a campaign that is not registered follows %q, %v", predecessor, differs)
	}
}

// TestQ4_ThePredecessorIsOfTheRowsThatWereRead: a registration of the name that
// comes between is taken into account before the row is appended.
func TestQ4_ThePredecessorIsOfTheRowsThatWereRead(t *testing.T) {
	t.Parallel()
	h := history{memStore(t), t}
	first, p := mustResolve(t, nil, nil), mustResolve(t, replace("seed: 7", "seed: 8"), nil)
	o := &overtaken{Store: h, times: 1, by: func(ctx context.Context) error {
		return errors.Join((&Runner{Plan: first, Store: h.Store}).seal(ctx), h.PutCampaign(ctx, campaignOf(first)))
	}}
	if err := (&Runner{Plan: p, Store: o}).seal(t.Context()); err != nil {
		t.Fatal(err)
	}
	if predecessor, differs := PredecessorOf(h.log(), p.ID); predecessor != first.ID || !cmp.Equal(differs, []string{"seed"}) {
		t.Errorf("%q, %v", predecessor, differs)
	}
}

// TestQ4_ADamagedPlanIsNoPredecessor: it is said, and nothing is sealed.
func TestQ4_ADamagedPlanIsNoPredecessor(t *testing.T) {
	t.Parallel()
	h := history{memStore(t), t}
	first, p := mustResolve(t, nil, nil), mustResolve(t, replace("seed: 7", "seed: 8"), nil)
	h.seals(first)
	first.Canonical = []byte("no plan")
	h.stores(first)
	if err := (&Runner{Plan: p, Store: h}).seal(t.Context()); err == nil || !strings.Contains(err.Error(), "plan of campaign "+first.ID) {
		t.Errorf("error %v", err)
	}
	if log := h.log(); len(log) != 1 || registeredBy(log, p.ID, p.Registration) != nil {
		t.Errorf("%d rows", len(log))
	}
}

// TestQ4_ARowWithoutPredecessorIsWhatItWas: the first of a name is sealed in the
// bytes of earlier builds.
func TestQ4_ARowWithoutPredecessorIsWhatItWas(t *testing.T) {
	t.Parallel()
	h := history{memStore(t), t}
	p := mustResolve(t, nil, nil)
	h.ran(p)
	want, err := engine.Canonical(map[string]any{"campaign": p.ID, "digest": p.Registration, "code": "v1", "record": json.RawMessage(p.registration)})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(h.log()[0].Body)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// ofTwo is a store whose seal log is that of another, as when a file keeps it.
type ofTwo struct {
	store.Store
	log store.Store
}

func (o ofTwo) SealLog(ctx context.Context) ([]store.SealRow, error) { return o.log.SealLog(ctx) }

func (o ofTwo) AppendSealAfter(ctx context.Context, head, kind string, body []byte) (store.SealRow, error) {
	return o.log.AppendSealAfter(ctx, head, kind, body)
}

// TestQ4_EveryLogOfRegistrationsVerifies: whatever is registered and stored in
// whatever order, in two stores that share a log, the log has no fault; a
// campaign names a predecessor just where one of its name is registered before,
// and differences only where the plans have them.
func TestQ4_EveryLogOfRegistrationsVerifies(t *testing.T) {
	t.Parallel()
	var plans []*Plan
	by := map[string]*Plan{}
	for _, name := range []string{"name: demo", "name: other"} {
		for _, seed := range []string{"seed: 7", "seed: 8"} {
			for _, trials := range []string{"trials: 5", "trials: 6"} {
				for _, code := range []string{"v1", "v2"} {
					p := mustResolve(t, func(s string) string {
						return strings.NewReplacer("name: demo", name, "seed: 7", seed, "trials: 5", trials).Replace(s)
					}, func(in *ResolveInput) { in.CodeVersion = code })
					plans, by[p.ID] = append(plans, p), p
				}
			}
		}
	}
	rapid.Check(t, func(r *rapid.T) {
		log := store.Store(memory.New(memory.Options{}))
		stores := []store.Store{ofTwo{memory.New(memory.Options{}), log}, ofTwo{memory.New(memory.Options{}), log}}
		for range rapid.IntRange(0, 12).Draw(r, "steps") {
			p, st := rapid.SampledFrom(plans).Draw(r, "plan"), rapid.SampledFrom(stores).Draw(r, "store")
			if rapid.Bool().Draw(r, "sealed") {
				if err := (&Runner{Plan: p, Store: st}).seal(t.Context()); err != nil {
					r.Fatal(err)
				}
			}
			if rapid.Bool().Draw(r, "stored") {
				if err := st.PutCampaign(t.Context(), campaignOf(p)); err != nil {
					r.Fatal(err)
				}
			}
		}
		rows, err := log.SealLog(t.Context())
		if err != nil {
			r.Fatal(err)
		}
		checked := make([]freeze.Row, 0, len(rows))
		last := map[string]string{} // by name
		for _, row := range rows {
			checked = append(checked, freeze.Row(row))
			var e freeze.RegistrationEntry
			if err := json.Unmarshal(row.Body, &e); err != nil {
				r.Fatal(err)
			}
			p := by[e.Campaign]
			if (e.Predecessor == "") != (last[p.Name] == "") {
				r.Fatalf("row %d follows %q, the last of its name is %q", row.N, e.Predecessor, last[p.Name])
			}
			last[p.Name] = p.ID
			if len(e.Differs) == 0 {
				continue
			}
			want, err := differingKeys(by[e.Predecessor].Canonical, p.Canonical)
			if err != nil || !cmp.Equal(want, e.Differs) {
				r.Fatalf("row %d differs in %v, want %v, %v", row.N, e.Differs, want, err)
			}
		}
		if v := freeze.VerifyLog(checked); len(v.Faults) > 0 {
			r.Fatalf("faults %v", v.Faults)
		}
		for _, st := range append(stores, log) {
			if o, ok := st.(ofTwo); ok {
				st = o.Store
			}
			if err := st.Close(); err != nil {
				r.Fatal(err)
			}
		}
	})
}
