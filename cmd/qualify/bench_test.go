package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/agentrooms/qualify/engine/store/sqlite"
	"github.com/agentrooms/qualify/evaluator"
)

// Environment of make bench: the size of the campaigns in percent, and the
// file for the figures as JSON ("" writes none).
const (
	envBenchScale = "QUALIFY_BENCH_SCALE"
	envBenchJSON  = "QUALIFY_BENCH_JSON"
)

// BenchmarkQualify measures whole commands of the real binary and, in the same
// run, what the machine itself can do, and prints one table. It asserts nothing
// about time. Run it by make bench; one iteration takes minutes.
func BenchmarkQualify(b *testing.B) {
	for range b.N {
		m := newBench(b)
		m.campaigns(b)
		m.oneCall(b)
		m.resume(b)
		m.scoring(b)
		m.limits(b)
		m.million(b)
		if err := m.print(os.Stdout); err != nil {
			b.Fatal(err)
		}
		if path := os.Getenv(envBenchJSON); path != "" {
			m.save(b, path)
		}
	}
}

// bench gathers the figures of one run.
type bench struct {
	Schema  string          `json:"schema"`
	Machine string          `json:"machine"`
	Store   string          `json:"store"`   // URL of the store of the last campaign
	Pragmas []sqlite.Pragma `json:"pragmas"` // of its connections, and its size
	Scale   int             `json:"scale_percent"`
	Figures []figure        `json:"figures"`
	bin     string          // the command under measure
	dir     string          // of campaigns and stores
	batch   int             // logical writes a transaction at the greatest parallelism
	traces  tracesOnDisk    // of the last campaign
}

// figure is one row of the table. What was not measured is 0 and left out.
type figure struct {
	What           string  `json:"what"`
	WallSeconds    float64 `json:"wall_s,omitempty"`
	CPUSeconds     float64 `json:"cpu_s,omitempty"` // user and system
	Trials         int     `json:"trials,omitempty"`
	Calls          int     `json:"model_calls,omitempty"`
	Commits        int64   `json:"commits,omitempty"`    // transactions, counted by the store
	Writes         int64   `json:"writes,omitempty"`     // logical writes that shared them
	Revisions      int64   `json:"revisions,omitempty"`  // committed events, counted in the database after the run
	Operations     int64   `json:"operations,omitempty"` // model and tool calls, counted there too
	Bytes          int64   `json:"bytes,omitempty"`      // input read, rows written, or the store's file after a campaign
	PeakBytes      int64   `json:"peak_rss_bytes,omitempty"`
	TraceSetDigest string  `json:"trace_set_digest,omitempty"`
}

func newBench(b *testing.B) *bench {
	b.Helper()
	bin, err := buildQualify()
	if err != nil {
		b.Fatal(err)
	}
	m := &bench{
		Schema: "qualify.bench/1", Scale: 100, bin: bin, dir: b.TempDir(), batch: 1,
		Machine: fmt.Sprintf("%s/%s, %d CPUs, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version()),
	}
	if v := os.Getenv(envBenchScale); v != "" {
		if m.Scale, err = strconv.Atoi(v); err != nil || m.Scale < 1 {
			b.Fatalf("%s=%q: want a percentage", envBenchScale, v)
		}
	}
	return m
}

// scaled is n trials at the scale of the run, at least one.
func (m *bench) scaled(n int) int { return max(1, n*m.Scale/100) }

func (m *bench) add(f figure) { m.Figures = append(m.Figures, f) }

// benchArms are four arms, so that ten cases make round numbers of trials.
var benchArms = []string{
	"{name: legacy, mode: legacy, idempotency: off}",
	"{name: selective, mode: selective, idempotency: on}",
	"{name: planner, mode: planner, idempotency: on}",
	"{name: keys, mode: legacy, idempotency: on, role: ablation}",
}

// file writes a campaign over the cases that match the globs.
func (m *bench) file(b *testing.B, s simulation, globs string) string {
	b.Helper()
	if s.rates == nil {
		s.rates = goldenRates()
	}
	text := strings.Replace(s.yaml(), "corpus: builtin\n", "corpus: builtin\ncontrols: false\ncases: {include: ["+globs+"]}\n", 1)
	path := filepath.Join(m.dir, s.name+".yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	return path
}

// tenCases are one case of each family and three more.
const tenCases = "'*-01', ledger-cash-tin-02, brief-bicycles-02, errand-vouchers-02"

// command runs the binary to its end and returns what it printed.
func (m *bench) command(b *testing.B, what string, args ...string) (figure, []byte) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), m.bin, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	start := time.Now()
	out, err := cmd.Output()
	f := figure{What: what, WallSeconds: time.Since(start).Seconds()}
	if err != nil {
		b.Fatalf("%s: %v\n%s", what, err, stderr.String())
	}
	f.used(cmd.ProcessState)
	return f, out
}

// used takes processor time and peak memory from an ended process.
func (f *figure) used(p *os.ProcessState) {
	f.CPUSeconds = (p.UserTime() + p.SystemTime()).Seconds()
	if u, ok := p.SysUsage().(*syscall.Rusage); ok {
		f.PeakBytes = u.Maxrss
		if runtime.GOOS != "darwin" { // which counts bytes
			f.PeakBytes *= 1024
		}
	}
}

// run runs a campaign as a command, in a store of its own, and returns its row
// and the store's file.
func (m *bench) run(b *testing.B, what, campaign string, parallel int, flags ...string) (figure, string) {
	b.Helper()
	path := filepath.Join(m.dir, fmt.Sprintf("%d.db", len(m.Figures)))
	args := append([]string{"run", campaign, "--json", "--parallel", strconv.Itoa(parallel), "--store", "sqlite:" + path}, flags...)
	f, out := m.command(b, what, args...)
	var doc evaluator.RunDocument
	if err := json.Unmarshal(out, &doc); err != nil {
		b.Fatal(err)
	}
	for _, a := range append(doc.Arms, doc.Ablations...) {
		f.Trials += a.Denominators.Planned
		for kind, n := range a.Calls {
			if kind != "tool" {
				f.Calls += n
			}
		}
	}
	f.Commits, f.Writes, f.TraceSetDigest = doc.Store.Commits, doc.Store.Writes, doc.TraceSetDigest
	if info, err := os.Stat(path); err == nil {
		f.Bytes = info.Size()
	}
	f.count(b, path)
	m.add(f)
	return f, path
}

// count counts what a campaign has left in its store.
func (f *figure) count(b *testing.B, path string) {
	b.Helper()
	s, err := sqlite.Open(b.Context(), path, sqlite.Options{ReadOnly: true})
	if err != nil {
		b.Fatal(err)
	}
	n, err := s.Counts(b.Context())
	if err = errors.Join(err, s.Close()); err != nil {
		b.Fatal(err)
	}
	f.Revisions, f.Operations = n.Revisions, n.Operations
	if n.Trials != int64(f.Trials) || n.Operations < int64(f.Calls) {
		b.Fatalf("%s: the database holds %d trials and %d operations, the document says %d and %d model calls", f.What, n.Trials, n.Operations, f.Trials, f.Calls)
	}
}

// campaigns runs a simulated campaign of 1,000 trials at several degrees of
// parallelism, with both durabilities.
func (m *bench) campaigns(b *testing.B) {
	file := m.file(b, simulation{name: "campaign", seed: 1, trials: m.scaled(25), arms: benchArms}, tenCases)
	for _, d := range []struct {
		name  string
		flags []string
	}{{"FULL", []string{"--durable"}}, {"NORMAL", nil}} {
		for _, parallel := range []int{1, 2, 8} {
			f, path := m.run(b, fmt.Sprintf("campaign, synchronous %s, parallel %d", d.name, parallel), file, parallel, d.flags...)
			m.batch = max(1, int((f.Writes+f.Commits/2)/max(f.Commits, 1)))
			m.describe(b, path)
			m.traces = tracesOnDisk{campaign: file, store: path}
		}
	}
}

// describe takes URL and pragmas from a store.
func (m *bench) describe(b *testing.B, path string) {
	b.Helper()
	s, err := sqlite.Open(b.Context(), path, sqlite.Options{ReadOnly: true})
	if err != nil {
		b.Fatal(err)
	}
	m.Store = "sqlite:" + path
	m.Pragmas, err = s.Pragmas(b.Context())
	if err = errors.Join(err, s.Close()); err != nil {
		b.Fatal(err)
	}
}

// oneCall runs 1,000 trials of a single model call each.
func (m *bench) oneCall(b *testing.B) {
	s := simulation{name: "one-call", seed: 1, trials: m.scaled(1000), arms: benchArms[:1], rates: map[string]string{"early_claim": "1"}}
	f, _ := m.run(b, "one-call trials, NORMAL, parallel 8", m.file(b, s, "answer-opening-hours-01"), 8)
	if f.Calls != f.Trials {
		b.Fatalf("%d calls in %d trials; want one each", f.Calls, f.Trials)
	}
}

// print writes the table.
func (m *bench) print(w io.Writer) error {
	pragmas := make([]string, len(m.Pragmas))
	for i, p := range m.Pragmas {
		pragmas[i] = p.Name + "=" + p.Value
	}
	_, err := fmt.Fprintf(w, "\n%s; sizes %d%%\nstore %s\npragmas %s, synchronous as named\n"+
		"commits and writes are transactions and logical writes of the process, revisions and operations are counted in its database\n\n", m.Machine, m.Scale, m.Store, strings.Join(pragmas, " "))
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(t, "wall s\tcpu s\ttrials/s\tcalls/s\tcalls/cpu s\tcommits\tcommits/s\twrites/s\twrites/commit\trevisions\toperations\tMB/s\tpeak MB\t  what") // Flush reports
	for _, f := range m.Figures {
		cells := []string{
			cell(f.WallSeconds, 1), cell(f.CPUSeconds, 1), rate(f.Trials, f.WallSeconds), rate(f.Calls, f.WallSeconds), rate(f.Calls, f.CPUSeconds),
			cell(f.Commits, 1), rate(f.Commits, f.WallSeconds), rate(f.Writes, f.WallSeconds), rate(f.Writes, float64(f.Commits)), cell(f.Revisions, 1), cell(f.Operations, 1),
			rate(float64(f.Bytes)/1e6, f.WallSeconds), cell(f.PeakBytes, 1e6), "  " + f.What,
		}
		_, _ = fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	return t.Flush()
}

// rate is n by per, or nothing.
func rate[N int | int64 | float64](n N, per float64) string {
	if per == 0 {
		return ""
	}
	return cell(float64(n), per)
}

func cell[N int | int64 | float64](n N, unit float64) string {
	v := float64(n) / unit
	switch {
	case v == 0:
		return ""
	case v < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
}

// save writes the figures as JSON.
func (m *bench) save(b *testing.B, path string) {
	b.Helper()
	out, err := json.MarshalIndent(m, "", "  ")
	if err == nil {
		err = os.WriteFile(path, append(out, '\n'), 0o600)
	}
	if err != nil {
		b.Fatal(err)
	}
}
