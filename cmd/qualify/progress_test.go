package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/engine/store"
)

// terminal collects what is drawn on a pseudo-terminal.
type terminal struct {
	tty  *os.File
	done chan []byte
}

func openTerminal(t *testing.T, cols uint16) *terminal {
	t.Helper()
	ptmx, tty, err := pty.Open()
	if err != nil {
		t.Fatalf("open a pseudo-terminal: %v", err)
	}
	if err := pty.Setsize(ptmx, &pty.Winsize{Rows: 24, Cols: cols}); err != nil {
		t.Fatal(err)
	}
	x := &terminal{tty: tty, done: make(chan []byte, 1)}
	go func() {
		b, _ := io.ReadAll(ptmx) // ends with EIO once the last writer has closed
		x.done <- b
	}()
	t.Cleanup(func() { _ = ptmx.Close() })
	return x
}

// drawn ends the terminal and returns all that was written to it.
func (x *terminal) drawn(t *testing.T) string {
	t.Helper()
	if err := x.tty.Close(); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(<-x.done), "\r\n", "\n")
}

var (
	escapes   = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)
	cursorUps = regexp.MustCompile(`\x1b\[[0-9]+A\x1b\[J`)
)

// lastFrame is what stays on the screen: all after the last move of the cursor.
func lastFrame(s string) string {
	frames := cursorUps.Split(s, -1)
	return frames[len(frames)-1]
}

func progressRun(t *testing.T, dir string, stderr *os.File, env, args []string) (stdout []byte, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), qualifyBin(t), append([]string{"run"}, args...)...)
	cmd.Dir = dir
	cmd.Env = append([]string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}, env...)
	cmd.Stderr = stderr
	stdout, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return stdout, exit.ExitCode()
	}
	if err != nil {
		t.Fatal(err)
	}
	return stdout, 0
}

// On a terminal there is a bar for each arm, which ends complete, and nothing
// of it reaches stdout: the data is that of a run without a terminal.
func TestProgressOnAPseudoTerminal(t *testing.T) {
	t.Parallel()
	args := []string{"builtin:demo", "--trials", "1", "--parallel", "1"}
	screen := openTerminal(t, 100)
	onTerminal, code := progressRun(t, t.TempDir(), screen.tty, []string{"TERM=xterm-256color", "NO_COLOR=1"}, args)
	drawn := screen.drawn(t)
	if code != exitOK {
		t.Fatalf("exit %d:\n%s", code, drawn)
	}
	final := lastFrame(drawn)
	for _, want := range []string{
		`(?m)^legacy +(\d+)/\d+ \[#+\] *$`, `(?m)^selective +\d+/\d+ \[#+\] *$`, `(?m)^planner +\d+/\d+ \[#+\] *$`,
		`(?m)^legacy-keyed +\d+/\d+ \[#+\] *$`, `(?m)^(\d+)/\d+ trials  charged \d+\.\d+ held \d+\.\d+ of 50\.00 USD *$`,
	} {
		if !regexp.MustCompile(want).MatchString(final) {
			t.Errorf("the last frame has no %s:\n%s", want, final)
		}
	}
	if !strings.Contains(drawn, "ETA") {
		t.Errorf("no frame has an ETA:\n%q", drawn)
	}
	for _, e := range escapes.FindAllString(drawn, -1) {
		if !strings.HasSuffix(e, "A") && e != "\x1b[J" {
			t.Errorf("an escape sequence other than cursor up and erase: %q", e)
		}
	}
	if !strings.HasSuffix(drawn, "\n") {
		t.Errorf("the cursor is left inside a line: %q", final)
	}
	off := filepath.Join(t.TempDir(), "stderr")
	file, err := os.Create(off)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close() //nolint:errcheck // of a test
	plain, code := progressRun(t, t.TempDir(), file, []string{"TERM=xterm-256color"}, args)
	if code != exitOK {
		t.Fatalf("exit %d", code)
	}
	// Peaks and commits are those of the process and may differ between any two.
	own := regexp.MustCompile(`(?m)^this process: .*$`)
	if diff := cmp.Diff(own.ReplaceAllString(string(plain), ""), own.ReplaceAllString(string(onTerminal), "")); diff != "" {
		t.Errorf("stdout without (-) and with a terminal (+):\n%s", diff)
	}
}

// Through a pipe progress is plain lines, whatever TERM says.
func TestProgressThroughAPipe(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_, code := progressRun(t, t.TempDir(), w, []string{"TERM=xterm-256color"}, []string{"builtin:demo", "--trials", "1", "--case", "ledger-*"})
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err != nil || code != exitOK {
		t.Fatalf("exit %d (%v):\n%s", code, err, got)
	}
	lines := strings.Split(strings.TrimSuffix(string(got), "\n"), "\n")
	want := regexp.MustCompile(`^\d+/\d+ trials  legacy \d+/\d+  selective \d+/\d+  planner \d+/\d+  legacy-keyed \d+/\d+  charged \d+\.\d+ held \d+\.\d+ of 50\.00 USD$`)
	for _, l := range lines {
		if !want.MatchString(l) {
			t.Errorf("line %q does not match %s", l, want)
		}
	}
	if last := lines[len(lines)-1]; len(lines) < 2 || !regexp.MustCompile(`^(\d+)/(\d+) trials`).MatchString(last) {
		t.Errorf("%d lines, the last %q", len(lines), last)
	}
}

// An interrupt ends the bars: the line that says so begins at the left, below
// them, and nothing is drawn after it.
func TestProgressEndsOnInterrupt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	screen := openTerminal(t, 100)
	cmd := exec.CommandContext(t.Context(), qualifyBin(t), "run", "builtin:demo", "--trials", "10000", "--parallel", "2")
	cmd.Dir, cmd.Env, cmd.Stderr = dir, []string{"TERM=xterm"}, screen.tty
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); ; time.Sleep(20 * time.Millisecond) { // until the campaign is under way
		if info, err := os.Stat(filepath.Join(dir, ".qualify", "qualify.db-wal")); err == nil && info.Size() > 200_000 {
			break
		}
		if time.Since(start) > time.Minute {
			t.Fatal("the campaign did not start within a minute")
		}
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	err := cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
		t.Errorf("ended with %v, want exit %d", err, exitInterrupted)
	}
	drawn := screen.drawn(t)
	if !regexp.MustCompile(`\nqualify: interrupted: campaign c_[0-9a-f]+ is saved; run the same command to go on\n$`).MatchString(drawn) {
		t.Errorf("the last line is not below the bars:\n%q", lastFrame(drawn))
	}
	if !strings.Contains(drawn, "[") || !strings.Contains(drawn, "trials  charged") {
		t.Errorf("no bar was drawn: %q", drawn)
	}
}

func TestProgressDisplayIsChosenByTerminalAndEnvironment(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		env  map[string]string
		want bool
	}{
		{map[string]string{"TERM": "xterm"}, true},
		{map[string]string{"TERM": "xterm", "NO_COLOR": "1"}, true},
		{map[string]string{"TERM": "xterm", "CI": "false"}, true},
		{map[string]string{"TERM": "xterm", "CI": "true"}, false},
		{map[string]string{"TERM": "xterm", "CI": "1"}, false},
		{map[string]string{"TERM": "dumb"}, false},
		{map[string]string{}, false},
	} {
		if got := allowsBars(func(k string) string { return tc.env[k] }); got != tc.want {
			t.Errorf("allowsBars(%v) = %t", tc.env, got)
		}
	}
	env := func(string) string { return "xterm" }
	if p := newProgress(io.Discard, env, []campaigns.ArmProgress{{Name: "a", Planned: 1}}, time.Now); !isLines(p) {
		t.Errorf("a writer that is no terminal gets %T", p)
	}
}

func isLines(p progress) bool {
	_, ok := p.(*progressLines)
	return ok
}

// Ended half-way, on a terminal narrower than its lines, the bars leave no
// goroutine, no line wider than the terminal and no cursor inside a line.
func TestProgressLeavesNothingRunning(t *testing.T) { // not parallel: it looks at all goroutines
	ignore := goleak.IgnoreCurrent()
	const cols = 24
	screen := openTerminal(t, cols)
	arms := []campaigns.ArmProgress{{Name: "legacy", Planned: 3}, {Name: "an-arm-with-a-very-long-name", Planned: 3}}
	b := newBars(screen.tty, arms, time.Now)
	b.update(campaigns.Progress{
		Done: 4, Planned: 6, Ran: 4, Ceiling: store.Ceiling{Limit: 5_000_000, Charged: 1_000_000},
		Arms: []campaigns.ArmProgress{{Name: "legacy", Done: 3, Planned: 3}, {Name: "an-arm-with-a-very-long-name", Done: 1, Planned: 3}},
	})
	b.close()
	b.close() // again is allowed
	b.update(campaigns.Progress{Done: 5, Planned: 6})
	drawn := screen.drawn(t)
	if err := goleak.Find(ignore); err != nil {
		t.Error(err)
	}
	if !strings.HasSuffix(drawn, "\n") || !strings.Contains(drawn, "4/6 trials  charged 1.00") {
		t.Errorf("drawn: %q", drawn)
	}
	for _, l := range strings.Split(escapes.ReplaceAllString(drawn, ""), "\n") {
		if n := len([]rune(l)); n > cols {
			t.Errorf("a line of %d columns on a terminal of %d: %q", n, cols, l)
		}
	}
}

func TestProgressLinesAreAboutTwenty(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	p := newProgress(&buf, func(string) string { return "" }, nil, time.Now)
	for i := 1; i <= 400; i++ {
		p.update(campaigns.Progress{Done: i, Planned: 400, Ceiling: store.Ceiling{Limit: 2_000_000, Charged: 500_000, Held: 250_000}})
	}
	p.close()
	lines := strings.Split(strings.TrimSuffix(buf.String(), "\n"), "\n")
	if len(lines) != 21 || lines[20] != "400/400 trials  charged 0.50 held 0.25 of 2.00 USD" {
		t.Errorf("%d lines, the last %q", len(lines), lines[len(lines)-1])
	}
}

func TestPaceCountsOnlyWhatThisProcessRan(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_000_000, 0)
	var p pace
	p.add(start, 0)
	if got := p.text(start, 100); got != "-" {
		t.Errorf("before anything ran: %s", got)
	}
	for range 50 { // trials from the store come at once and run nothing
		p.add(start, 0)
	}
	if got := p.text(start.Add(time.Second), 100); got != "-" {
		t.Errorf("after stored trials: %s", got)
	}
	for i := 1; i <= 10; i++ {
		p.add(start.Add(time.Duration(i)*2*time.Second), i)
	}
	if got := p.text(start.Add(20*time.Second), 30); got != "1m0s" {
		t.Errorf("at two seconds a trial 30 take %s", got)
	}
	// An hour later at ten seconds a trial only the last minute counts.
	for i := 1; i <= 60; i++ {
		p.add(start.Add(time.Hour+time.Duration(i)*10*time.Second), 10+i)
	}
	if got := p.text(start.Add(time.Hour+600*time.Second), 6); got != "1m0s" {
		t.Errorf("at ten seconds a trial 6 take %s", got)
	}
	if n := len(p.samples); n > 10 {
		t.Errorf("%d samples are kept for one minute", n)
	}
}

// The time left comes from the trials that this process ran, however many the
// store held before.
func TestBarsTellNoTimeFromStoredTrials(t *testing.T) { // not parallel: TestProgressLeavesNothingRunning looks at all goroutines
	screen := openTerminal(t, 100)
	at := time.Unix(1_000_000, 0)
	b := newBars(screen.tty, []campaigns.ArmProgress{{Name: "legacy", Planned: 100}}, func() time.Time { return at })
	at = at.Add(10 * time.Second)
	b.update(campaigns.Progress{Done: 80, Planned: 100})
	if got := b.sumText(); !strings.HasSuffix(got, "  ETA -") {
		t.Errorf("80 stored trials: %q", got)
	}
	b.update(campaigns.Progress{Done: 85, Planned: 100, Ran: 5})
	if got := b.sumText(); !strings.HasSuffix(got, "  ETA 30s") {
		t.Errorf("5 trials in 10 s, 15 to go: %q", got)
	}
	b.close()
	screen.drawn(t)
}
