package main

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"runtime/debug"
	"syscall"
	"testing"
	"time"

	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/gate"
)

// million summarises and compares a million scored trials in this process: rows
// of three arms, then every metric of every arm, all metrics of each pair of
// arms with 10,000 bootstrap draws and sign flips, and the verdict by the
// default policy.
func (m *bench) million(b *testing.B) {
	b.Helper()
	const families, perFamily = 100, 20
	trials := (m.scaled(1_000_000) + 3*families*perFamily - 1) / (3 * families * perFamily)
	debug.FreeOSMemory() // what came before is not this row's
	start := time.Now()
	var before, after syscall.Rusage
	must := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &before))
	table := manyScores(b, families, perFamily, trials)
	v, err := gate.Evaluate(defaultPolicy(b), gate.Evidence{Table: table})
	must(err)
	for a := range table.Arms {
		_, err := table.Summaries(a)
		must(err)
		for other := range a {
			_, err := table.Differences(other, a)
			must(err)
		}
	}
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &after))
	f := figure{
		What: fmt.Sprintf("scored trials gated, summarised, compared (in process; %s)", v.Verdict), Trials: len(table.Arms) * len(table.Cases) * trials,
		WallSeconds: time.Since(start).Seconds(), CPUSeconds: cpuSeconds(after.Utime) + cpuSeconds(after.Stime) - cpuSeconds(before.Utime) - cpuSeconds(before.Stime),
		PeakBytes: after.Maxrss,
	}
	if runtime.GOOS != "darwin" { // which counts bytes
		f.PeakBytes *= 1024
	}
	if f.PeakBytes > 1<<30 {
		b.Errorf("%d bytes at the peak, want under 1 GiB", f.PeakBytes)
	}
	m.add(f)
}

func cpuSeconds(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }

func defaultPolicy(b *testing.B) *gate.Policy {
	b.Helper()
	p, ok, err := gate.Builtin(gate.PolicyDefault)
	if err != nil || !ok {
		b.Fatal(ok, err)
	}
	return p
}

// manyScores streams scored trials into a table, one score at a time.
func manyScores(b *testing.B, families, perFamily, trials int) *evaluator.Table {
	b.Helper()
	var cases []evaluator.TableCase
	for i := range families * perFamily {
		cases = append(cases, evaluator.TableCase{ID: fmt.Sprintf("c%05d", i), Family: fmt.Sprintf("f%03d", i/perFamily)})
	}
	arms := []string{"legacy", "selective", "planner"}
	table, err := evaluator.NewTable(arms, cases, trials)
	if err != nil {
		b.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	outcomes := []evaluator.Outcome{evaluator.ClaimedMet, evaluator.ClaimedMet, evaluator.ClaimedMet, evaluator.UnclaimedUnmet, evaluator.ClaimedUnmet}
	for _, c := range cases {
		for i := range trials {
			for _, arm := range arms {
				zero, dup := 0, rng.IntN(50)/49
				s := evaluator.TrialScore{
					Key: c.ID, Arm: arm, Case: c.ID, Family: c.Family, Trial: i, Evidence: evaluator.EvidenceMeasured,
					Outcome: outcomes[rng.IntN(len(outcomes))], Claimed: true, Met: rng.IntN(3), Required: 2,
					Corrections:  &evaluator.Corrections{Count: rng.IntN(3), AfterClaim: rng.IntN(2)},
					RepeatedWork: &evaluator.RepeatedWork{Count: rng.IntN(2)},
					Effects:      &evaluator.EffectFigures{Confirmed: 2, Duplicates: &dup, Collateral: &zero},
					Latency:      &evaluator.Latency{US: 1_000_000 + rng.Int64N(90_000_000)},
					Cost:         evaluator.Cost{Charged: 10_000 + rng.Int64N(50_000)},
				}
				if err := table.Add(&s); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	return table
}

// BenchmarkMillion is the row of make bench by itself.
func BenchmarkMillion(b *testing.B) {
	for range b.N {
		m := &bench{Scale: 100}
		m.million(b)
		f := m.Figures[0]
		b.ReportMetric(f.WallSeconds, "wall-s")
		b.ReportMetric(float64(f.PeakBytes)/1e6, "peak-MB")
	}
}
