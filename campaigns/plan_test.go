package campaigns

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/modes"
	"github.com/agentrooms/qualify/modes/legacy"
	"github.com/agentrooms/qualify/modes/planner"
	"github.com/agentrooms/qualify/modes/selective"
)

func testModes() map[string]modes.Mode {
	out := map[string]modes.Mode{}
	for _, m := range []modes.Mode{legacy.Mode{}, selective.Mode{}, planner.Mode{}, modes.DoNothing(), modes.ClaimOnly()} {
		out[m.Name()] = m
	}
	return out
}

// edit changes the demo's text before it is resolved.
func resolve(t *testing.T, edit func(string) string, change func(*ResolveInput)) (*Plan, error) {
	t.Helper()
	text := demoText(t)
	if edit != nil {
		text = edit(text)
	}
	f, err := ParseFile("c.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	c, err := corpus.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	in := ResolveInput{
		Path: "c.yaml", Corpus: c, Modes: testModes(), CodeVersion: "v1",
		Providers: map[string]model.Evidence{"simulated": model.Simulated},
	}
	if change != nil {
		change(&in)
	}
	return Resolve(f, in)
}

func mustResolve(t *testing.T, edit func(string) string, change func(*ResolveInput)) *Plan {
	t.Helper()
	p, err := resolve(t, edit, change)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// reopened is a plan as it comes back from the store.
func reopened(t *testing.T, p *Plan) *Plan {
	t.Helper()
	c, err := corpus.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Reopen(campaignOf(p), c, testModes())
	if err != nil {
		t.Fatal(err)
	}
	return again
}

func replace(old, now string) func(string) string {
	return func(s string) string { return strings.Replace(s, old, now, 1) }
}

// Q4: dev and holdout are pinned apart, so that a holdout that grows makes no
// other dev campaign; another dev case does.
func TestQ4_AGrowingHoldoutIsNoOtherDevCampaign(t *testing.T) {
	t.Parallel()
	base := mustResolve(t, nil, nil)
	without := func(split string, n int) func(*ResolveInput) {
		return func(in *ResolveInput) {
			var kept []*corpus.Case
			for _, k := range in.Corpus.Cases {
				if k.Split == split && n > 0 {
					n--
					continue
				}
				kept = append(kept, k)
			}
			if n > 0 {
				t.Fatalf("the corpus has too few cases of split %s", split)
			}
			in.Corpus = &corpus.Corpus{Cases: kept}
		}
	}
	if p := mustResolve(t, nil, without(corpus.SplitHoldout, 3)); p.ID != base.ID {
		t.Error("the holdout is part of a dev campaign's identity")
	}
	if p := mustResolve(t, nil, without(corpus.SplitDev, 1)); p.ID == base.ID || p.CorpusDigest == base.CorpusDigest {
		t.Error("a dev case less makes no other campaign")
	}
}

// The identity covers what decides a trial, and nothing else (DESIGN §7).
func TestCampaignIdentity(t *testing.T) {
	t.Parallel()
	base := mustResolve(t, nil, nil)
	for name, edit := range map[string]func(string) string{
		"parallel":    replace("parallel: 8", "parallel: 2"),
		"ceiling_usd": replace(`ceiling_usd: "50.00"`, `ceiling_usd: "3.00"`),
		"ceiling":     replace(`ceiling_usd:`, "ceiling: shared\nceiling_usd:"),
		"layout":      replace("trials: 5", "# a comment\ntrials:   5"),
	} {
		if p := mustResolve(t, edit, nil); p.ID != base.ID || p.PlanDigest != base.PlanDigest {
			t.Errorf("%s changed the identity", name)
		}
	}
	for name, edit := range map[string]func(string) string{
		"seed":        replace("seed: 7", "seed: 8"),
		"trials":      replace("trials: 5", "trials: 4"),
		"arm option":  replace("reviewers: 1", "reviewers: 2"),
		"idempotency": replace("name: selective, mode: selective, idempotency: on", "name: selective, mode: selective, idempotency: off"),
		"rate":        replace(`skip_step: "0.10"`, `skip_step: "0.11"`),
		"price":       replace(`input: "2.50"`, `input: "2.51"`),
		"cases":       replace(`include: ["*"]`, `include: ["ledger"]`),
	} {
		if p := mustResolve(t, edit, nil); p.PlanDigest == base.PlanDigest || p.ID == base.ID {
			t.Errorf("%s did not change the identity", name)
		}
	}
	other := mustResolve(t, nil, func(in *ResolveInput) { in.CodeVersion = "v2" })
	if other.ID == base.ID || other.PlanDigest != base.PlanDigest {
		t.Error("a new build must change the campaign's id and not the plan digest that traces carry")
	}
}

func TestResolveRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		edit   func(string) string
		change func(*ResolveInput)
		want   string
	}{
		{"unknown mode", replace("mode: selective", "mode: swarm"), nil, `arms.1.mode: "swarm" is unknown; this build has legacy, planner, selective`},
		{"a control as arm", replace("mode: selective", "mode: do-nothing"), nil, `"do-nothing" is unknown`},
		{"unknown provider", func(s string) string {
			before, rest, _ := strings.Cut(s, "  simulated:\n")
			_, after, _ := strings.Cut(rest, "prices:")
			return replace("provider: simulated", "provider: acme")(before + "prices:" + after)
		}, nil, `model.provider: "acme" is unknown`},
		{"difference not under test", replace("under_test: [mode, idempotency, options]", "under_test: [mode, options]"), nil, "arms legacy and selective differ in idempotency (off and on), which under_test does not name"},
		{"no split", nil, func(in *ResolveInput) { in.Override.Split = "foo" }, `cases: the corpus has no split "foo"; it has dev and holdout`},
		{"no case", replace(`include: ["*"]`, `include: ["nothing*"]`), nil, `case pattern "nothing*" matches no case`},
		{"unknown --mode", nil, func(in *ResolveInput) { in.Override.Modes = []string{"swarm"} }, `--mode: "swarm" is unknown`},
		{"unknown option", replace("reviewers: 1", "reviewer: 1"), nil, "reviewer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := resolve(t, tt.edit, tt.change)
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v\nwant one line with %q", err, tt.want)
			}
		})
	}
}

// Q4.3: holdout cases are refused unless the caller vouches for a freeze.
func TestQ4_HoldoutIsRefused(t *testing.T) {
	t.Parallel()
	_, err := resolve(t, nil, func(in *ResolveInput) {
		c := *in.Corpus.Cases[0]
		c.Split = corpus.SplitHoldout
		in.Corpus = &corpus.Corpus{Cases: []*corpus.Case{&c}}
		in.Override.Split = corpus.SplitHoldout
	})
	if !errors.Is(err, ErrHoldout) {
		t.Errorf("error %v; want ErrHoldout", err)
	}
}

// Q3: arms interleaved per case in a seeded, recorded order; a triple is whole.
func TestQ3_ScheduleInterleavesTriples(t *testing.T) {
	t.Parallel()
	p := mustResolve(t, nil, nil)
	sched := p.Schedule()
	if d := cmp.Diff(ids(sched), ids(p.Schedule())); d != "" {
		t.Errorf("the schedule is not a function of the plan:\n%s", d)
	}
	if cmp.Equal(ids(sched), ids(mustResolve(t, replace("seed: 7", "seed: 8"), nil).Schedule())) {
		t.Error("another seed gives the same order")
	}
	seen := map[string]int{}
	orders := map[string]bool{}
	for i, tr := range sched {
		seen[tr.ID()]++
		if tr.Order != i {
			t.Errorf("triple %s has order %d, stands at %d", tr.ID(), tr.Order, i)
		}
		if len(tr.Arms) == 1 {
			if tr.Arms[0].Name != "legacy-keyed" {
				t.Errorf("%s runs alone", tr.Arms[0].Name)
			}
			continue
		}
		names := ""
		for _, a := range tr.Arms {
			names += a.Name + " "
		}
		orders[names] = true
		if tr.Sum() != 3*int64(tr.Case.Room.Limits.Budget) {
			t.Errorf("triple %s holds %d micros", tr.ID(), tr.Sum())
		}
	}
	if want := 2 * len(p.Cases) * p.Trials; len(seen) != want || len(sched) != want {
		t.Errorf("%d triples, %d different; want %d", len(sched), len(seen), want)
	}
	if len(orders) < 6 {
		t.Errorf("arms come in %d orders of 6", len(orders))
	}
}

// Q3: with order families, a ceiling cuts whole families; the triples are the
// same ones.
func TestQ3_ScheduleByFamiliesEndsOneBeforeTheNext(t *testing.T) {
	t.Parallel()
	rounds := mustResolve(t, nil, nil)
	p := mustResolve(t, replace("trials: ", "order: families\ntrials: "), nil)
	if p.PlanDigest == rounds.PlanDigest {
		t.Error("the order is no part of the plan")
	}
	sched := p.Schedule()
	var families []string
	for _, tr := range sched {
		if n := len(families); n == 0 || families[n-1] != tr.Case.Family {
			families = append(families, tr.Case.Family)
		}
	}
	if len(families) < 2 || !slices.IsSorted(families) || len(slices.Compact(slices.Clone(families))) != len(families) {
		t.Errorf("families come in the order %v", families)
	}
	var a, b []string // without the order of the arms
	for i, tr := range rounds.Schedule() {
		a, b = append(a, sched[i].ID()), append(b, tr.ID())
	}
	slices.Sort(a)
	slices.Sort(b)
	if d := cmp.Diff(b, a); d != "" {
		t.Errorf("other triples:\n%s", d)
	}
	named := mustResolve(t, replace("trials: ", "order: rounds\ntrials: "), nil)
	if named.PlanDigest != rounds.PlanDigest {
		t.Error("naming the default makes another plan")
	}
}

func ids(ts []Triple) []string {
	out := make([]string, len(ts))
	for i, t := range ts {
		out[i] = t.ID()
		for _, a := range t.Arms {
			out[i] += " " + a.Name
		}
	}
	return out
}

// World seeds are the same in all arms and differ between cases and trials.
func TestWorldSeeds(t *testing.T) {
	t.Parallel()
	p := mustResolve(t, nil, nil)
	seeds := map[uint64]string{}
	for _, s := range p.Seats() {
		if s.Control() {
			continue
		}
		place := s.Case.ID + "/" + string(rune('0'+s.Index))
		if was, ok := seeds[p.worldSeed(s)]; ok && was != place {
			t.Errorf("%s and %s share a world seed", was, place)
		}
		seeds[p.worldSeed(s)] = place
	}
	if want := len(p.Cases) * p.Trials; len(seeds) != want {
		t.Errorf("%d world seeds, want %d", len(seeds), want)
	}
}

// DESIGN §4: only calls that cannot cost anything run on simulated funds, also
// when the campaign is opened again.
func TestFundsFollowTheProvider(t *testing.T) {
	t.Parallel()
	corp, err := corpus.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	for evidence, want := range map[model.Evidence]store.Funds{
		model.Simulated: store.FundsSimulated, model.Deterministic: store.FundsSimulated, model.Recorded: store.FundsSimulated,
		model.Measured: store.FundsReal, "something new": store.FundsReal,
	} {
		p := mustResolve(t, replace("clock: virtual", "clock: wall"), func(in *ResolveInput) {
			in.Providers = map[string]model.Evidence{"simulated": evidence}
		})
		again, err := Reopen(store.Campaign{ID: p.ID, PlanDigest: p.PlanDigest, Plan: p.Canonical}, corp, testModes())
		if err != nil {
			t.Fatal(err)
		}
		if p.Funds != want || again.Funds != want {
			t.Errorf("evidence %q: %s funds, opened again %s, want %s", evidence, p.Funds, again.Funds, want)
		}
		owner := p.CeilingName() == OwnerCeiling
		if owner != (want == store.FundsReal) {
			t.Errorf("evidence %q draws on ceiling %s", evidence, p.CeilingName())
		}
	}
}

func TestReopenChecksCases(t *testing.T) {
	t.Parallel()
	p := mustResolve(t, nil, nil)
	c := store.Campaign{ID: p.ID, PlanDigest: p.PlanDigest, Plan: p.Canonical}
	corp, err := corpus.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Reopen(c, corp, testModes())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(ids(p.Schedule()), ids(again.Schedule())); d != "" {
		t.Errorf("the reopened plan has another schedule:\n%s", d)
	}
	first := slices.IndexFunc(corp.Cases, func(c *corpus.Case) bool { return c.ID == p.Cases[0].ID })
	changed := *corp.Cases[first]
	changed.Title += "!"
	without := slices.Delete(slices.Clone(corp.Cases), first, first+1)
	for name, cases := range map[string][]*corpus.Case{
		"is not in this corpus":    without,
		"has changed since it ran": append([]*corpus.Case{&changed}, without...),
	} {
		if _, err := Reopen(c, &corpus.Corpus{Cases: cases}, testModes()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %v; want %q", err, name)
		}
	}
}
