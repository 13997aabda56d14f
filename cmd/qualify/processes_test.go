package main

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/engine/budget"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/sqlite"
	"github.com/agentrooms/qualify/evaluator"
)

// child is a running qualify.
type child struct {
	t        *testing.T
	cmd      *exec.Cmd
	out, err bytes.Buffer
}

// start runs `qualify run` on the campaign, with further words and environment
// entries (those with an equals sign).
func (g goldenRun) start(t *testing.T, words ...string) *child {
	t.Helper()
	args := []string{"run", g.campaign, "--json", "--store", g.store()}
	env := append(os.Environ(), envJournal+"="+g.journal())
	for _, w := range words {
		if strings.Contains(w, "=") {
			env = append(env, w)
		} else {
			args = append(args, w)
		}
	}
	c := &child{t: t, cmd: exec.Command(g.bin, args...)}
	c.cmd.Env, c.cmd.Stdout, c.cmd.Stderr = env, &c.out, &c.err
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if c.cmd.ProcessState == nil {
			_ = c.cmd.Process.Kill()
			_ = c.cmd.Wait()
		}
	})
	return c
}

func (g goldenRun) file() string  { return filepath.Join(g.dir, "q.db") }
func (g goldenRun) store() string { return "sqlite:" + g.file() }

func (c *child) signal(s os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// wait returns the exit code, or the signal that ended the process.
func (c *child) wait() (code int, sig syscall.Signal) {
	c.t.Helper()
	err := c.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	if ws, ok := c.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return -1, ws.Signal()
	}
	return c.cmd.ProcessState.ExitCode(), 0
}

func (c *child) document() *evaluator.RunDocument {
	c.t.Helper()
	doc := new(evaluator.RunDocument)
	if err := json.Unmarshal(c.out.Bytes(), doc); err != nil {
		c.t.Fatalf("%v\n%s", err, c.err.String())
	}
	return doc
}

// finish waits for a run that must end well.
func (c *child) finish() *evaluator.RunDocument {
	c.t.Helper()
	if code, sig := c.wait(); code != exitOK || sig != 0 {
		c.t.Fatalf("exit %d, signal %v\n%s", code, sig, c.err.String())
	}
	return c.document()
}

// line is the one line of a command that failed.
func (c *child) line() string {
	c.t.Helper()
	var found []string
	for sc := bufio.NewScanner(bytes.NewReader(c.err.Bytes())); sc.Scan(); {
		if strings.HasPrefix(sc.Text(), "qualify: ") {
			found = append(found, sc.Text())
		}
	}
	if len(found) != 1 {
		c.t.Fatalf("%d lines of failure; want one:\n%s", len(found), c.err.String())
	}
	return found[0]
}

// until polls for something that another process does.
func until(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited two minutes for: %s", what)
		}
	}
}

// called waits until the provider has been called n times.
func (g goldenRun) called(t *testing.T, n int) {
	t.Helper()
	until(t, fmt.Sprintf("%d calls", n), func() bool {
		b, err := os.ReadFile(g.journal())
		return err == nil && bytes.Count(b, []byte("\n")) >= n
	})
}

func (g goldenRun) open(t *testing.T, opts sqlite.Options) store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), g.file(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// campaignOf is a campaign of the three modes over a few cases.
func campaignOf(seed, trials int, cases string, more ...string) string {
	s := simulation{seed: seed, trials: trials, rates: goldenRates()}.yaml()
	s = strings.Replace(s, "corpus: builtin\n", "corpus: builtin\ncontrols: false\ncases: {include: ['"+strings.ReplaceAll(cases, ", ", "', '")+"']}\n", 1)
	return s + strings.Join(more, "\n")
}

// A second run of a campaign is refused and names the owner; the lease of an
// owner that was killed does not have to be waited for.
func TestSecondRunNamesTheOwner(t *testing.T) {
	t.Parallel()
	g := newGolden(t, campaignOf(1, 400, "*"))
	first := g.start(t)
	g.called(t, 5)
	second := g.start(t)
	if code, _ := second.wait(); code != exitRefused {
		t.Fatalf("exit %d\n%s", code, second.err.String())
	}
	want := regexp.MustCompile(fmt.Sprintf(`^qualify: campaign c_\w+ is run by pid %d on \S+ since \S+; its lease runs until \S+ unless it is renewed$`, first.cmd.Process.Pid))
	if line := second.line(); !want.MatchString(line) || second.out.Len() != 0 {
		t.Errorf("stderr %q, %d bytes on stdout", line, second.out.Len())
	}
	first.signal(os.Kill)
	first.wait()
	before, _ := g.calls(t)
	third := g.start(t)
	g.called(t, before+5) // it goes on, well within the 15 s of the lease
	third.signal(os.Interrupt)
	if code, _ := third.wait(); code != exitInterrupted {
		t.Errorf("interrupted: exit %d\n%s", code, third.err.String())
	}
	if line := third.line(); !strings.Contains(line, "is saved; run the same command to go on") {
		t.Errorf("stderr %q", line)
	}
	if leases, err := g.open(t, sqlite.Options{}).Leases(t.Context()); err != nil || len(leases) != 0 {
		t.Errorf("leases after an interrupt: %v, %v", leases, err)
	}
}

// A process that is stopped for longer than its lease is taken over. When it
// wakes up it writes nothing more, and says who has the campaign.
func TestStoppedOwnerIsFencedOff(t *testing.T) {
	t.Parallel()
	campaign := campaignOf(3, 6, "*-01")
	base := newGolden(t, campaign)
	want := base.start(t).finish()

	g := newGolden(t, campaign)
	const ttl = envLeaseTTL + "=4s"
	first := g.start(t, ttl, "--parallel", "2")
	g.called(t, 10)
	probe := g.open(t, sqlite.Options{BusyTimeout: 20 * time.Millisecond})
	until(t, "a stop between two transactions", func() bool {
		first.signal(syscall.SIGSTOP)
		if _, err := probe.AcquireLease(t.Context(), "probe", "x", "probe", time.Hour); err == nil {
			return true
		}
		first.signal(syscall.SIGCONT) // it was stopped inside one, and holds the file
		return false
	})
	refused := 0
	var second *child
	until(t, "the take-over", func() bool {
		second = g.start(t, ttl)
		code, _ := second.wait()
		if code == exitRefused {
			refused++
			return false
		}
		if code != exitOK {
			t.Fatalf("exit %d\n%s", code, second.err.String())
		}
		return true
	})
	if refused == 0 {
		t.Error("the lease of a stopped process was taken before it ran out")
	}
	got := second.document()
	if want.TraceSetDigest != got.TraceSetDigest || want.Budget.Charged != got.Budget.Charged {
		t.Errorf("after the take-over: traces equal %t, charged %d and %d", want.TraceSetDigest == got.TraceSetDigest, want.Budget.Charged, got.Budget.Charged)
	}

	db, err := sql.Open("sqlite", "file:"+g.file()+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	db.SetMaxOpenConns(1)
	version := func() (v int64) {
		t.Helper()
		if err := db.QueryRow("PRAGMA data_version").Scan(&v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	before := version()
	first.signal(syscall.SIGCONT)
	if code, sig := first.wait(); code != exitRefused || sig != 0 {
		t.Errorf("the first: exit %d, signal %v\n%s", code, sig, first.err.String())
	}
	if line := first.line(); !strings.Contains(line, "lost to another process") && !strings.Contains(line, "taken over") || first.out.Len() != 0 {
		t.Errorf("the first says %q, %d bytes on stdout", line, first.out.Len())
	}
	if after := version(); after != before {
		t.Error("the first wrote after it was taken over")
	}
	if again := g.start(t).finish(); again.TraceSetDigest != want.TraceSetDigest {
		t.Error("the traces changed afterwards")
	}
}

// The second interrupt ends the process at once, even while the first is still
// waiting to save.
func TestSecondInterruptEndsAtOnce(t *testing.T) {
	t.Parallel()
	g := newGolden(t, campaignOf(1, 400, "*"))
	run := g.start(t)
	g.called(t, 5)
	db, err := sql.Open("sqlite", "file:"+g.file()+"?_pragma=busy_timeout(60000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil { // now nothing can be saved
		t.Fatal(err)
	}
	run.signal(os.Interrupt)
	ended := make(chan syscall.Signal, 1)
	go func() { _, sig := run.wait(); ended <- sig }()
	select {
	case sig := <-ended:
		t.Fatalf("ended, signal %v, with calls to save", sig)
	case <-time.After(300 * time.Millisecond):
	}
	until(t, "the end", func() bool {
		_ = run.cmd.Process.Signal(os.Interrupt) // it may just have ended
		select {
		case sig := <-ended:
			if sig != syscall.SIGINT {
				t.Errorf("ended by signal %v", sig)
			}
			return true
		default:
			return false
		}
	})
	if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	before, _ := g.calls(t)
	next := g.start(t)
	g.called(t, before+5)
	next.signal(os.Interrupt)
	if code, _ := next.wait(); code != exitInterrupted {
		t.Errorf("after it: exit %d\n%s", code, next.err.String())
	}
}

// Two processes with different campaigns on one shared ceiling too small for
// both: no ledger row passes the limit, each waits for an allotment, at least
// one stops and names the command that lifts the limit; that command lifts it,
// and both come to the traces they have on a large ceiling (field report 1).
func TestR62_F1_TwoProcessesOnOneCeiling(t *testing.T) {
	t.Parallel()
	const cases = "*-01"
	var want []*evaluator.RunDocument
	var spent int64
	for seed := range 2 {
		doc := newGolden(t, campaignOf(seed+1, 4, cases)).start(t).finish()
		want = append(want, doc)
		spent += doc.Budget.Charged
	}
	a := newGolden(t, campaignOf(1, 4, cases, "ceiling: pool", ""))
	b := newGolden(t, campaignOf(2, 4, cases, "ceiling: pool", ""))
	b.dir = a.dir
	func() {
		s, err := sqlite.Open(t.Context(), a.file(), sqlite.Options{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = s.Close() }()
		if _, err := s.EnsureCeiling(t.Context(), "pool", store.FundsSimulated, 500_000+spent/2); err != nil {
			t.Fatal(err)
		}
	}()
	stops := 0
	for round := 0; round < 10; round++ {
		runs := []*child{a.start(t, "--parallel", "16"), b.start(t, "--parallel", "16")}
		lift, most := "", int64(0)
		for i, r := range runs {
			switch code, _ := r.wait(); code {
			case exitOK:
				if got := r.document(); got.TraceSetDigest != want[i].TraceSetDigest {
					t.Errorf("campaign %d: other traces than on a large ceiling", i)
				}
			case exitLimit:
				stops++
				line := r.line()
				m := regexp.MustCompile("^qualify: campaign c_\\w+ stopped by ceiling pool: .*; lift it with `qualify (budget grant ([0-9.]+) --ceiling pool --store \\S+)`, then run the same command again$").FindStringSubmatch(line)
				if m == nil {
					t.Fatalf("the stop says %q", line)
				}
				t.Logf("round %d: %s", round, line)
				// Both stops name what lifts them alone; the larger one serves both.
				if v, err := budget.ParseUSD(m[2]); err != nil {
					t.Fatal(err)
				} else if v > most {
					lift, most = m[1], v
				}
			default:
				t.Fatalf("exit %d\n%s", code, r.err.String())
			}
			if doc := r.document(); round == 0 && doc.Allotments.Waits == 0 {
				t.Errorf("campaign %d never waited: %+v", i, doc.Allotments)
			}
		}
		if lift == "" {
			break
		}
		if out, err := exec.Command(a.bin, strings.Fields(lift)...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", lift, err, out)
		}
	}
	if stops == 0 {
		t.Error("no run was stopped")
	}
	s := a.open(t, sqlite.Options{ReadOnly: true})
	rows, err := s.Ledger(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		if r.Charged+r.Held > r.Limit {
			t.Errorf("ledger row %d: %d + %d above %d", r.N, r.Charged, r.Held, r.Limit)
		}
	}
	if out, err := exec.Command(a.bin, "budget", "verify", "--store", a.store()).CombinedOutput(); err != nil {
		t.Errorf("budget verify: %v\n%s", err, out)
	}
	t.Logf("%d stops, %d ledger rows, spent %d", stops, len(rows), spent)
}

// A campaign at parallel 8, killed at random moments and started again: trace
// set, totals and money of the run that was never stopped, and nothing called
// twice. 60 trials and 5 kills; 300 trials and 20 kills when QUALIFY_LONG is
// set.
func TestR49_KilledAtRandomMoments(t *testing.T) {
	t.Parallel()
	trials, kills := 10, 5
	if long() {
		trials, kills = 50, 20
	}
	campaign := campaignOf(5, trials, "ledger-two-books-01, errand-meter-01")
	base := newGolden(t, campaign)
	began := time.Now()
	want := base.start(t, "--parallel", "8").finish()
	took := time.Since(began)
	calls, _ := base.calls(t)

	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	g := newGolden(t, campaign)
	killed := 0
	for killed < kills {
		before, _ := g.calls(t)
		if before >= calls {
			break // all calls are made: none is left to wait for
		}
		run := g.start(t, "--parallel", "8")
		// The moments are drawn over what one kill's share of the run takes,
		// beginning with its first calls.
		g.called(t, before+1)
		time.Sleep(time.Duration(rng.Int64N(int64(took)/int64(kills) + 1)))
		_ = run.cmd.Process.Kill() // it may have finished
		if _, sig := run.wait(); sig != syscall.SIGKILL {
			break
		}
		killed++
	}
	got := g.start(t, "--parallel", "8").finish()
	t.Logf("seed %d: %d trials, %d kills, %d calls", seed, got.Arms[0].Denominators.Planned*len(got.Arms), killed, calls)
	if killed < kills/2 {
		t.Errorf("%d of %d kills came before the end", killed, kills)
	}
	g.check(t, fmt.Sprintf("seed %d, killed %d times", seed, killed), want, got, calls)
	if out, err := exec.Command(g.bin, "budget", "verify", "--store", g.store()).CombinedOutput(); err != nil {
		t.Errorf("budget verify: %v\n%s", err, out)
	}
}

// Eight processes on one store: none waits long for the file, and when the
// first has finished, the others have done a fair share. 30 s when QUALIFY_LONG
// is set, with the bounds of the requirement; the short run has wider ones.
func TestEightProcessesShareOneStore(t *testing.T) {
	t.Parallel()
	trials, longest, share := 4, 20*time.Second, 4.0
	if long() {
		trials, longest, share = 25, 5*time.Second, 2.0
	}
	dir := newGolden(t, "").dir
	var runs []*child
	var gs []goldenRun
	began := time.Now()
	for i := range 8 {
		g := newGolden(t, campaignOf(100+i, trials, "ledger-*, errand-*"))
		g.campaign, g.dir = filepath.Join(g.dir, "golden.yaml"), dir
		gs = append(gs, g)
		runs = append(runs, g.startApart(t, i))
	}
	first := make(chan int, len(runs))
	codes := make([]int, len(runs))
	for i, r := range runs {
		go func() { codes[i], _ = r.wait(); first <- i }()
	}
	<-first
	took := time.Since(began)
	s := gs[0].open(t, sqlite.Options{ReadOnly: true})
	all, err := s.Campaigns(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	least, most := 1<<30, 0
	for _, c := range all {
		n := countClosed(t.Context(), t, s, c)
		least, most = min(least, n), max(most, n)
	}
	for range len(runs) - 1 {
		<-first
	}
	var waits []time.Duration
	var commits []int64
	for i, r := range runs {
		if codes[i] != exitOK {
			t.Fatalf("process %d: exit %d\n%s", i, codes[i], r.err.String())
		}
		doc := r.document()
		w := time.Duration(doc.Store.LongestWaitMS) * time.Millisecond
		waits, commits = append(waits, w), append(commits, doc.Store.Commits)
		if w > longest {
			t.Errorf("process %d waited %s for one write", i, w)
		}
	}
	t.Logf("first finished after %s; trials then %d to %d; commits %v; longest waits %v", took.Round(time.Millisecond), least, most, commits, waits)
	if len(all) != len(runs) || float64(most) > share*float64(least) {
		t.Errorf("%d campaigns; when the first finished, they had %d to %d trials", len(all), least, most)
	}
}

// startApart starts a run with a journal of its own.
func (g goldenRun) startApart(t *testing.T, i int) *child {
	t.Helper()
	return g.start(t, fmt.Sprintf("%s=%s.%d", envJournal, g.journal(), i))
}

func countClosed(ctx context.Context, t *testing.T, s store.Store, c store.Campaign) int {
	t.Helper()
	trials, err := s.Trials(ctx, c.ID)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, tr := range trials {
		if tr.Status == campaigns.TrialClosed {
			n++
		}
	}
	return n
}
