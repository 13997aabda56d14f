package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/evaluator"
)

// buildFolder is where the command is built. It lasts as long as the process.
var buildFolder string

// buildQualify builds the command once, without the race detector, for tests
// that start many processes.
var buildQualify = sync.OnceValues(func() (string, error) {
	bin := filepath.Join(buildFolder, "qualify")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", bin, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return bin, nil
})

func qualifyBin(t *testing.T) string {
	t.Helper()
	bin, err := buildQualify()
	if err != nil {
		t.Fatal(err)
	}
	return bin
}

// ran runs a program in a folder to its end, with more variables in its
// environment, and returns all that it printed and its exit code.
func ran(t *testing.T, dir string, more []string, program string, args ...string) (out string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), more...)
	printed, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatalf("%s %v: %v", program, args, err)
	}
	return string(printed), cmd.ProcessState.ExitCode()
}

// goldenRates make a short campaign in which ack_lost, lost_reply and
// missing_usage all fire; the test checks that they did.
func goldenRates() map[string]string {
	return map[string]string{
		"skip_step": "0.10", "wrong_argument": "0.08", "early_claim": "0.10", "malformed_json": "0.05",
		"missing_usage": "0.12", "lost_reply": "0.08", "retry_after_unknown": "0.50", "plan_fault": "0.10",
		"passes_bad": "0.15", "fails_good": "0.05",
	}
}

// goldenRun is one campaign directory: a campaign file, a SQLite store and the
// provider's own journal.
type goldenRun struct {
	bin, dir, campaign string
}

func newGolden(t *testing.T, campaign string) goldenRun {
	t.Helper()
	g := goldenRun{bin: qualifyBin(t), dir: t.TempDir()}
	g.campaign = filepath.Join(g.dir, "golden.yaml")
	if err := os.WriteFile(g.campaign, []byte(campaign), 0o600); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g goldenRun) journal() string { return filepath.Join(g.dir, "calls") }

// run starts a process; killed reports that the crash point ended it.
func (g goldenRun) run(t *testing.T, crashAt string) (doc *evaluator.RunDocument, killed bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), g.bin, "run", g.campaign, "--json", "--parallel", "1", "--store", "sqlite:"+filepath.Join(g.dir, "q.db"))
	cmd.Env = append(os.Environ(), envCrashAt+"="+crashAt, envJournal+"="+g.journal())
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL {
			return nil, true
		}
	}
	if err != nil {
		t.Fatalf("crash at %q: %v\n%s", crashAt, err, stderr.String())
	}
	doc = new(evaluator.RunDocument)
	if err := json.Unmarshal(out, doc); err != nil {
		t.Fatalf("crash at %q: %v", crashAt, err)
	}
	return doc, false
}

// insideIdentity is the part of a run document that must be the same however
// often the campaign was interrupted.
func insideIdentity(t *testing.T, doc *evaluator.RunDocument) map[string]any {
	t.Helper()
	b, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]any{}
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	for _, path := range doc.Outside {
		at, keys := m, strings.Split(path, ".")
		for _, k := range keys[:len(keys)-1] {
			next, ok := at[k].(map[string]any)
			if !ok {
				t.Fatalf("outside_identity names %s, which is not there", path)
			}
			at = next
		}
		delete(at, keys[len(keys)-1])
	}
	return m
}

// check compares a finished run with the uninterrupted one and asks the
// provider's journal whether any operation was called twice.
func (g goldenRun) check(t *testing.T, where string, want, got *evaluator.RunDocument, calls int) {
	t.Helper()
	if d := cmp.Diff(insideIdentity(t, want), insideIdentity(t, got)); d != "" {
		t.Errorf("%s: another document (-uninterrupted +resumed):\n%s", where, d)
	}
	if got.Budget.Held != 0 || got.Budget.Unknown != 0 || !got.Budget.Holds {
		t.Errorf("%s: budget %+v; want nothing held", where, got.Budget)
	}
	total, repeated := g.calls(t)
	if len(repeated) > 0 || total != calls {
		t.Errorf("%s: %d calls, %d uninterrupted; called twice: %v", where, total, calls, repeated)
	}
}

func (g goldenRun) calls(t *testing.T) (total int, repeated []string) {
	t.Helper()
	j, err := model.OpenFileJournal(g.journal())
	if err != nil {
		t.Fatal(err)
	}
	total, repeated = j.Total(), j.Repeated()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	return total, repeated
}

// A golden scenario with ack_lost, lost_reply and missing_usage each fired,
// ended by SIGKILL at every store write (so at every commit) and at the named
// points between dispatch mark and call, call and receipt, effect and receipt:
// after a restart the traces, totals and money are those of the run that was
// never stopped, and no operation id is called twice (R45, R49).
func TestR45_CrashSweepOnSQLite(t *testing.T) {
	t.Parallel()
	seeds := []int{goldenSeed}
	if long() {
		seeds = append(seeds, 2, 3, 5, 8, 13, 21)
	}
	for _, seed := range seeds {
		sweep(t, seed)
	}
}

// goldenSeed is a seed at which every wanted fault fires in one trial an arm.
const goldenSeed = 1

func sweep(t *testing.T, seed int) {
	t.Helper()
	campaign := simulation{seed: seed, trials: 1, rates: goldenRates()}.yaml()
	campaign = strings.Replace(campaign, "corpus: builtin\n", "corpus: builtin\ncontrols: false\ncases: {include: [ledger-two-books-01]}\n", 1)
	base := newGolden(t, campaign)
	want, killed := base.run(t, "")
	if killed {
		t.Fatal("killed without a crash point")
	}
	calls, _ := base.calls(t)
	fired := map[string]int{}
	for _, a := range want.Arms {
		for k, n := range a.Faults {
			fired[k] += n
		}
	}
	if seed == goldenSeed {
		for _, k := range []string{"ack_lost_after_commit", evaluator.FaultLostReply, evaluator.FaultMissingUsage} {
			if fired[k] == 0 {
				t.Fatalf("seed %d: %s did not fire; fired %v", seed, k, fired)
			}
		}
	}
	// Every store write; between mark and call, and call and receipt, every
	// third passage in the short run (every one in the long run).
	stride := 3
	if long() {
		stride = 1
	}
	for _, s := range []struct {
		point       string
		first, step int
	}{
		{"after_write", 1, 2},
		{"after_write", 2, 2},
		{"after_mark", 1, stride},
		{"after_call", 1, stride},
		{"after_effect", 1, 1},
	} {
		point := s.point
		t.Run(fmt.Sprintf("seed %d %s from %d by %d", seed, point, s.first, s.step), func(t *testing.T) {
			t.Parallel()
			passed := 0
			for n := s.first; !t.Failed(); n += s.step {
				g := newGolden(t, campaign)
				at := point + ":" + strconv.Itoa(n)
				doc, killed := g.run(t, at)
				if !killed {
					g.check(t, "without reaching "+at, want, doc, calls)
					break
				}
				if doc, killed = g.run(t, ""); killed {
					t.Fatalf("killed without a crash point after %s", at)
				}
				g.check(t, at, want, doc, calls)
				passed++
			}
			t.Logf("ended and resumed at %d passages; faults fired in the scenario: %v", passed, fired)
			if passed == 0 {
				t.Error("the point was never passed")
			}
		})
	}

	// One store, a new process each time, each ended after one commit of a row.
	t.Run(fmt.Sprintf("seed %d one commit a process", seed), func(t *testing.T) {
		t.Parallel()
		g := newGolden(t, campaign)
		for processes := 1; processes < 1000; processes++ {
			if doc, killed := g.run(t, "1"); !killed {
				g.check(t, "ended after every commit", want, doc, calls)
				t.Logf("%d processes on one store", processes)
				return
			}
		}
		t.Error("a thousand processes did not finish the campaign")
	})
}
