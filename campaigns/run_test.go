package campaigns

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/model/scripted"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
	"github.com/agentrooms/qualify/evaluator/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// talker is a model that answers every turn with a claim and nothing else, so
// that the runner is tested without an oracle.
func talker(t *testing.T, calls *atomic.Int64) func(ProviderKey) (model.Provider, error) {
	t.Helper()
	return func(ProviderKey) (model.Provider, error) {
		return scripted.New(scripted.Config{Func: func(model.Call) (scripted.Answer, error) {
			calls.Add(1)
			return scripted.Text(`{"status":"done","text":"It is done."}`, engine.Usage{Input: 100, Output: 10}, 1_000_000), nil
		}})
	}
}

// talkPlan is a small plan: two legacy arms and an ablation.
func talkPlan(t *testing.T, ceiling string) *Plan {
	t.Helper()
	return mustResolve(t, func(s string) string {
		for _, r := range [][2]string{
			{"  - {name: selective, mode: selective, idempotency: on}\n", "  - {name: second, mode: legacy, idempotency: on}\n"},
			{"  - {name: planner, mode: planner, idempotency: on, options: {reviewers: 1}}\n", ""},
			{`ceiling_usd: "50.00"`, `ceiling_usd: "` + ceiling + `"`},
			{`include: ["*"]`, `include: ["ledger", "errand"]`},
			{"trials: 5", "trials: 2"},
		} {
			if !strings.Contains(s, r[0]) {
				t.Fatalf("the demo has no %q", r[0])
			}
			s = strings.Replace(s, r[0], r[1], 1)
		}
		return s
	}, nil)
}

type ran struct {
	out   *Outcome
	err   error
	keys  []string
	bytes map[string][]byte
	read  map[string]*trace.Trace
}

func runTalk(ctx context.Context, t *testing.T, p *Plan, st store.Store, calls *atomic.Int64, change func(*Runner)) ran {
	t.Helper()
	res := ran{bytes: map[string][]byte{}, read: map[string]*trace.Trace{}}
	r := &Runner{
		Plan: p, Store: st, Providers: talker(t, calls), Clock: runtime.Virtual, Parallel: 3,
		OnTrial: func(d Done) error {
			res.keys = append(res.keys, d.Record.Key)
			res.bytes[d.Record.Key], res.read[d.Record.Key] = d.Trace, d.Read
			return nil
		},
	}
	if change != nil {
		change(r)
	}
	res.out, res.err = r.Run(ctx)
	return res
}

func memStore(t *testing.T) store.Store {
	t.Helper()
	st := memory.New(memory.Options{})
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

func TestRunReportsEveryTrialOnceAndSettles(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	p, st := talkPlan(t, "50"), memStore(t)
	var last Progress
	got := runTalk(t.Context(), t, p, st, &calls, func(r *Runner) { r.Progress = func(pr Progress) { last = pr } })
	if got.err != nil {
		t.Fatal(got.err)
	}
	if want := len(p.Seats()); len(got.keys) != want || len(got.bytes) != want {
		t.Fatalf("%d reports of %d trials, want %d", len(got.keys), len(got.bytes), want)
	}
	if last.Done != last.Planned || last.Planned != 3*len(p.Cases)*p.Trials || last.Ceiling.Limit != 50_000_000 {
		t.Errorf("last progress %+v", last)
	}
	if last.Ceiling.Held != 0 || last.Ceiling.Charged != got.out.Ceiling.Charged {
		t.Errorf("the last progress shows %+v, the settled account is %+v", last.Ceiling, got.out.Ceiling)
	}
	c := got.out.Ceiling
	if c.Held != 0 || c.Charged == 0 || c.Charged+c.Held > c.Limit {
		t.Errorf("ceiling after the run %+v", c)
	}
	var sum int64
	for _, b := range got.bytes {
		tr, err := trace.Read(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		sum += tr.End.Money.Charged
		if tr.Header.Campaign != p.PlanDigest || strings.Contains(string(b), p.ID) {
			t.Error("a trace names the campaign's id in place of its plan digest")
		}
	}
	if sum != c.Charged {
		t.Errorf("traces charge %d micros, the ceiling %d", sum, c.Charged)
	}
	before := calls.Load()
	again := runTalk(t.Context(), t, p, st, &calls, nil)
	if again.err != nil || calls.Load() != before || again.out.SetDigest != got.out.SetDigest || len(again.keys) != len(got.keys) {
		t.Errorf("a finished campaign run again: %v, %d new calls, digest equal %v", again.err, calls.Load()-before, again.out.SetDigest == got.out.SetDigest)
	}
}

// Interrupted at any trial, resumed at another parallelism: the same traces
// and totals, nothing called twice.
func TestResumeGivesTheSameTraces(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	p := talkPlan(t, "50")
	want := runTalk(t.Context(), t, p, memStore(t), &calls, func(r *Runner) { r.Parallel = 1 })
	if want.err != nil {
		t.Fatal(want.err)
	}
	for stopAfter := 1; stopAfter < len(p.Seats()); stopAfter += 13 {
		var n atomic.Int64
		st := memStore(t)
		ctx, cancel := context.WithCancel(t.Context())
		first := runTalk(ctx, t, p, st, &n, func(r *Runner) {
			seen := 0
			r.OnTrial = func(Done) error {
				if seen++; seen == stopAfter {
					cancel()
				}
				return nil
			}
		})
		cancel()
		if !errors.Is(first.err, context.Canceled) {
			t.Fatalf("stop after %d trials: %v", stopAfter, first.err)
		}
		got := runTalk(t.Context(), t, p, st, &n, func(r *Runner) { r.Parallel = 8 })
		if got.err != nil {
			t.Fatal(got.err)
		}
		if got.out.SetDigest != want.out.SetDigest || got.out.Ceiling.Charged != want.out.Ceiling.Charged || got.out.Ceiling.Held != 0 {
			t.Errorf("stop after %d: digest equal %v, charged %d and %d, held %d", stopAfter, got.out.SetDigest == want.out.SetDigest, got.out.Ceiling.Charged, want.out.Ceiling.Charged, got.out.Ceiling.Held)
		}
		if n.Load() != calls.Load() {
			t.Errorf("stop after %d: %d calls, uninterrupted %d", stopAfter, n.Load(), calls.Load())
		}
	}
}

// A ceiling never changes what a trial contains, only how many run: whole
// triples, and after it is raised the campaign goes on to the same traces.
func TestCeilingStopsWholeTriplesAndResumes(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	full := runTalk(t.Context(), t, talkPlan(t, "50"), memStore(t), &calls, nil)
	if full.err != nil {
		t.Fatal(full.err)
	}
	st := memStore(t)
	small := talkPlan(t, "0.61")
	got := runTalk(t.Context(), t, small, st, &calls, nil)
	var limit *LimitError
	if !errors.As(got.err, &limit) || !errors.Is(got.err, store.ErrExhausted) {
		t.Fatalf("error %v; want a LimitError", got.err)
	}
	for _, want := range []string{"ceiling_usd 0.61", "raise ceiling_usd"} {
		if !strings.Contains(got.err.Error(), want) {
			t.Errorf("%q does not say %q", got.err, want)
		}
	}
	ranSeats, dropped := 0, 0
	for _, k := range got.keys {
		if !strings.Contains(k, "/"+controlPrefix) {
			ranSeats++
		}
	}
	for _, tr := range got.out.Dropped {
		dropped += len(tr.Arms)
	}
	if want := 3 * len(small.Cases) * small.Trials; dropped == 0 || ranSeats+dropped != want {
		t.Errorf("%d trials ran and %d were dropped; want %d together", ranSeats, dropped, want)
	}
	rows, err := st.Ledger(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Charged+r.Held > r.Limit {
			t.Errorf("ledger row %d: %d + %d above %d", r.N, r.Charged, r.Held, r.Limit)
		}
	}
	triples := map[string]int{}
	for _, k := range got.keys {
		part := strings.Split(k, "/")
		if part[1] == "legacy" || part[1] == "second" {
			triples[part[0]+"/"+part[2]]++
		}
		if !bytes.Equal(got.bytes[k], full.bytes[k]) {
			t.Errorf("trial %s has another trace under a small ceiling", k)
		}
	}
	for k, n := range triples {
		if n != 2 {
			t.Errorf("triple %s ran in %d of 2 arms", k, n)
		}
	}
	rest := runTalk(t.Context(), t, talkPlan(t, "50"), st, &calls, nil)
	if rest.err != nil || len(rest.out.Dropped) != 0 || rest.out.SetDigest != full.out.SetDigest {
		t.Errorf("after the raise: %v, same traces %v", rest.err, rest.out != nil && rest.out.SetDigest == full.out.SetDigest)
	}
}

func TestMaxUSDStopsAndNamesItself(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	got := runTalk(t.Context(), t, talkPlan(t, "50"), memStore(t), &calls, func(r *Runner) { r.MaxMicros = 600_000 })
	var limit *LimitError
	if !errors.As(got.err, &limit) || !strings.HasPrefix(limit.Limit, "--max-usd 0.60") {
		t.Errorf("error %v; want one that names --max-usd", got.err)
	}
}

// --max-usd caps a campaign further: above ceiling_usd it raises nothing, also
// where a shared ceiling has room for more.
func TestMaxUSDNeverRaisesTheCapOfTheFile(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	st := memStore(t)
	p := sharedPlan(t, "7", "0.61")
	if _, err := st.EnsureCeiling(t.Context(), p.CeilingName(), store.FundsSimulated, 50_000_000); err != nil {
		t.Fatal(err)
	}
	got := runTalk(t.Context(), t, p, st, &calls, func(r *Runner) { r.MaxMicros = 40_000_000 })
	var limit *LimitError
	if !errors.As(got.err, &limit) || limit.Limit != "ceiling_usd 0.61" {
		t.Fatalf("error %v; want one that names ceiling_usd 0.61", got.err)
	}
	if c := got.out.Ceiling; c.MaxSum > 610_000 {
		t.Errorf("%d micros were charged and held at once; the campaign may spend 610000", c.MaxSum)
	}
}

// A fault of the harness stops the run and is not a score.
func TestProviderFaultStopsTheRun(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	boom := fmt.Errorf("no such model")
	got := runTalk(t.Context(), t, talkPlan(t, "50"), memStore(t), &calls, func(r *Runner) {
		r.Providers = func(ProviderKey) (model.Provider, error) { return nil, boom }
	})
	if !errors.Is(got.err, boom) {
		t.Errorf("error %v", got.err)
	}
}
