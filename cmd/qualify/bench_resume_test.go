package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/sqlite"
	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/trace"
)

// resume measures how long a campaign with 200,000 finished trials takes from
// the start of the command to its first model call. The trials are written
// through the port of the store, all but those of the last triple; their traces
// are short.
func (m *bench) resume(b *testing.B) {
	s := simulation{name: "resume", seed: 1, trials: m.scaled(5000), arms: benchArms}
	file := m.file(b, s, tenCases)
	path := filepath.Join(m.dir, "resume.db")
	m.begin(b, file, path)
	fill, done := m.fill(b, file, path)
	m.add(fill)

	journal := filepath.Join(m.dir, "resume-calls")
	cmd := exec.CommandContext(b.Context(), m.bin, "run", file, "--json", "--parallel", "8", "--store", "sqlite:"+path)
	cmd.Env = append(os.Environ(), envJournal+"="+journal)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	start := time.Now()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for called := false; !called; {
		select {
		case err := <-ended:
			b.Fatalf("resume ended before it was seen to call: %v\n%s", err, stderr.String())
		case <-time.After(time.Millisecond):
			info, err := os.Stat(journal)
			called = err == nil && info.Size() > 0
		}
	}
	f := figure{What: fmt.Sprintf("resume with %d finished trials, to the first model call", done), WallSeconds: time.Since(start).Seconds()}
	if err := cmd.Process.Kill(); err != nil {
		b.Fatal(err)
	}
	var killed *exec.ExitError
	if err := <-ended; err != nil && !errors.As(err, &killed) {
		b.Fatal(err)
	}
	f.used(cmd.ProcessState)
	m.add(f)
}

// BenchmarkResume is the row of resume alone.
func BenchmarkResume(b *testing.B) {
	for range b.N {
		m := newBench(b)
		m.resume(b)
		if err := m.print(os.Stdout); err != nil {
			b.Fatal(err)
		}
	}
}

// begin runs the campaign until its first commit, so that the store has it
// under the plan of the binary.
func (m *bench) begin(b *testing.B, file, path string) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), m.bin, "run", file, "--json", "--parallel", "1", "--store", "sqlite:"+path)
	cmd.Env = append(os.Environ(), envCrashAt+"=1")
	if out, err := cmd.CombinedOutput(); err == nil {
		b.Fatalf("the campaign was not ended by its crash point\n%s", out)
	}
}

// fill writes the records of all trials but the last triple's.
func (m *bench) fill(b *testing.B, file, path string) (figure, int) {
	b.Helper()
	ctx := b.Context()
	plan, _, err := new(app).resolvePlan(file, campaigns.Override{})
	if err != nil {
		b.Fatal(err)
	}
	st, err := sqlite.Open(ctx, path, sqlite.Options{})
	if err != nil {
		b.Fatal(err)
	}
	start := time.Now()
	trials, err := m.fillStore(ctx, st, plan)
	f := figure{What: "  its trials written through the port", WallSeconds: time.Since(start).Seconds(), Trials: trials}
	stats, serr := st.Stats(ctx)
	if err = errors.Join(err, serr, st.Close()); err != nil {
		b.Fatal(err)
	}
	f.Commits, f.Writes = stats.Commits, stats.Writes
	return f, trials
}

func (m *bench) fillStore(ctx context.Context, st store.Store, plan *campaigns.Plan) (int, error) {
	all, err := st.Campaigns(ctx, plan.Name)
	if err != nil || len(all) != 1 {
		return 0, fmt.Errorf("%d campaigns: %w", len(all), err)
	}
	id := all[0].ID // not the plan's: the code that runs is another than this test
	triples := plan.Schedule()
	last := triples[len(triples)-1].Order
	if n := len(triples); len(triples[n-1].Arms) == 1 { // with its ablation
		last = triples[n-2].Order
	}
	sums := map[int]campaigns.Triple{}
	for _, t := range triples {
		sums[t.Order] = t
	}
	records := map[int][]store.Trial{}
	var n int
	for _, seat := range plan.Seats() {
		if seat.Order >= last {
			continue
		}
		n++
		records[seat.Order] = append(records[seat.Order], store.Trial{
			Campaign: id, Key: seat.Key(), Order: seat.Order, Arm: seat.Arm.Name, Case: seat.Case.ID, Index: seat.Index,
			Room: id + "/" + seat.Key(), Allotment: id + "/" + sums[seat.Order].ID(), Status: store.TrialClosed,
			Termination: evaluator.TermGaveUp, Money: engine.Money{Limit: int64(seat.Case.Room.Limits.Budget), Charged: 1},
		})
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(256)
	for order, rs := range records {
		t := sums[order]
		g.Go(func() error {
			a := store.Allotment{
				ID: id + "/" + t.ID(), Ceiling: campaigns.OwnCeiling(id), Funds: plan.Funds, Campaign: id, Sum: t.Sum(), CampaignCap: plan.CapMicros,
			}
			if _, err := st.Allot(gctx, a); err != nil {
				return err
			}
			for i := range rs {
				if err := putFinished(gctx, st, plan, &rs[i], t); err != nil {
					return err
				}
			}
			_, err := st.Release(gctx, a.ID, int64(len(rs)), 0)
			return err
		})
	}
	return n, g.Wait()
}

// putFinished stores a trial as its run would: first its trace.
func putFinished(ctx context.Context, st store.Records, plan *campaigns.Plan, rec *store.Trial, t campaigns.Triple) error {
	var content strings.Builder
	w := trace.NewWriter(&content)
	for _, arm := range t.Arms {
		if arm.Name != rec.Arm {
			continue
		}
		if err := w.Header(plan.Header(campaigns.Seat{Case: t.Case, Arm: arm, Index: t.Index, Order: t.Order}, "bench@1")); err != nil {
			return err
		}
	}
	digest, err := w.End(trace.End{Termination: rec.Termination, Money: trace.Money{Charged: rec.Money.Charged}})
	if err != nil {
		return err
	}
	if err := st.PutTrace(ctx, rec.Campaign, rec.Key, digest, []byte(content.String())); err != nil {
		return err
	}
	rec.TraceDigest = digest
	return st.PutTrial(ctx, *rec)
}
