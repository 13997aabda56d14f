package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

func TestMain(m *testing.M) {
	testscript.Main(plainCommand{m}, map[string]func(){"qualify": main})
}

// plainCommand runs the tests with a command qualify that is built without the
// race detector, which makes hundreds of processes several times slower and finds
// little that the same code does not show inside this one. QUALIFY_LONG=1 keeps
// it. What was built is removed at the end.
type plainCommand struct{ tests *testing.M }

// Run implements testscript.TestingM.
func (p plainCommand) Run() int {
	var err error
	if buildFolder, err = os.MkdirTemp("", "qualify-bin-"); err == nil {
		defer func() { _ = os.RemoveAll(buildFolder) }()
		if underRace && !long() {
			if _, err = buildQualify(); err == nil {
				err = os.Setenv("PATH", buildFolder+string(os.PathListSeparator)+os.Getenv("PATH"))
			}
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return p.tests.Run()
}

// TestScripts runs the command as its users do. The script command
// "exits N qualify ARGS…" requires that exit code; "spoil FILE" changes one bit
// of a file, and the second time changes it back; "holdout FOLDER CASES…" adds
// built-in dev cases to a corpus, as holdout cases. They are no secret, so they
// may be run in a test as often as one likes.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "spoil": spoil, "holdout": addHoldout},
	})
}

// exits runs a command and fails unless its exit code is the first argument;
// for a code other than 0 it also requires one line on stderr that begins with
// "qualify: ", the promise made to scripts.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit interface{ ExitCode() int }
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("run %v: %v", args[1:], err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
	stderr := ts.ReadFile("stderr")
	if want >= exitUsage && (!strings.HasPrefix(stderr, "qualify: ") || strings.Count(stderr, "\n") != 1) {
		ts.Fatalf("want one line on stderr that begins with \"qualify: \", got %q", stderr)
	}
}

// spoil flips the lowest bit of the byte in the middle of a file.
func spoil(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: spoil FILE")
	}
	path := ts.MkAbs(args[0])
	data, err := os.ReadFile(path)
	ts.Check(err)
	if len(data) == 0 {
		ts.Fatalf("%s is empty", args[0])
	}
	data[len(data)/2] ^= 1
	ts.Check(os.WriteFile(path, data, 0o600))
}

// addHoldout adds built-in dev cases to a corpus, as holdout cases.
func addHoldout(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: holdout FOLDER CASES...")
	}
	ts.Check(copyCases(ts.MkAbs(args[0]), "holdout", args[1:]...))
}

// copyCases copies built-in dev cases and their gold into the corpus in dir, as
// cases of a split.
func copyCases(dir, split string, cases ...string) error {
	for _, id := range cases {
		family, _, _ := strings.Cut(id, "-")
		for _, from := range []string{family, "gold/" + family} {
			name := filepath.FromSlash(from + "/" + id + ".yaml")
			text, err := os.ReadFile(filepath.Join("..", "..", "corpus", name))
			if err != nil {
				return err
			}
			if from == family && !bytes.Contains(text, []byte("\nsplit: dev\n")) {
				return fmt.Errorf("%s is no dev case: leave the built-in holdout closed", id)
			}
			to := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
				return err
			}
			if err := os.WriteFile(to, bytes.Replace(text, []byte("\nsplit: dev"), []byte("\nsplit: "+split), 1), 0o600); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		err  error
		want int
	}{
		{usagef("x"), exitUsage},
		{fmt.Errorf("wrapped: %w", failf(exitLimit, "x")), exitLimit},
		{verdict(exitFail), exitFail},
		{fmt.Errorf("open: %w", store.ErrSchemaNewer), exitRefused},
		{fmt.Errorf("room: %w", store.ErrNotFound), exitUsage},
		{fmt.Errorf("allot: %w", store.ErrExhausted), exitLimit},
		{&fs.PathError{Op: "open", Path: "x", Err: fs.ErrNotExist}, exitUsage},
		{fmt.Errorf("commit: %w", store.ErrFull), exitLimit},
		{&fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, exitLimit},
		{&fs.PathError{Op: "write", Path: "x", Err: syscall.EFBIG}, exitLimit},
		{&fs.PathError{Op: "write", Path: "x", Err: syscall.EDQUOT}, exitLimit},
		{fmt.Errorf("room r: %w", engine.Errorf(engine.CodeVersionMismatch, "made by a@1, this is a@2")), exitRefused},
		{engine.Errorf(engine.CodeConflict, "rows differ"), exitInternal},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EROFS}, exitUsage},
		{&fs.PathError{Op: "lstat", Path: "x", Err: syscall.ENAMETOOLONG}, exitUsage},
		{fmt.Errorf("insert: %w", store.ErrReadOnly), exitRefused},
		{fmt.Errorf("run: %w", context.Canceled), exitInterrupted},
		{errors.New("anything else"), exitInternal},
	} {
		if got := exitCode(tc.err); got != tc.want {
			t.Errorf("exitCode(%v) = %d, want %d", tc.err, got, tc.want)
		}
	}
}

func TestReportIsOneLine(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"a\nb\r\tc":            `a\nb\r\tc`,
		"\x1b[31mred":          `\x1b[31mred`,
		"bad \xff byte":        `bad \xff byte`,
		"rtl \u202e sep\u2028": `rtl \u202e sep\u2028`,
		"Zürich 東京":            "Zürich 東京",
	} {
		var buf bytes.Buffer
		code := report(&buf, usagef("%s", in))
		if diff := cmp.Diff("qualify: "+want+"\n", buf.String()); diff != "" || code != exitUsage {
			t.Errorf("report(%q) = %d (-want +got):\n%s", in, code, diff)
		}
	}
}

// Several faults, and texts of any size, still make one line that a person can
// read.
func TestReportOfManyFaultsAndLongNamesIsOneReadableLine(t *testing.T) {
	t.Parallel()
	fault := func(n int) error { return &corpus.FileError{File: "c.yaml", Line: n, Text: "x"} }
	long := strings.Repeat("é", 1_000_000)
	for _, tc := range []struct {
		err  error
		want string
	}{
		{usagef("corpus d: %w", errors.Join(fault(1), fault(2))), "corpus d: c.yaml:1: x; c.yaml:2: x"},
		{usagef("%w", errors.Join(fault(1), fault(2), fault(3), fault(4), fault(5))), "c.yaml:1: x; c.yaml:2: x; c.yaml:3: x; and 2 more"},
		{usagef("a: %w", corpus.Errors{{File: "f", Text: "y\nz"}, {File: "g", Text: "w"}}), `a: f: y\nz; g: w`},
		{usagef("%w: %w", fault(1), fault(2)), "c.yaml:1: x: c.yaml:2: x"},
		{
			fmt.Errorf("room r: %w", engine.Errorf(engine.CodeVersionMismatch, "made by a@1, this is a@2")),
			"room r: VERSION_MISMATCH: made by a@1, this is a@2; the build that made the room can still run and read it",
		},
		{
			fmt.Errorf("insert: %w", store.ErrReadOnly),
			"insert: store is read-only; run as a user who may write to it, or name another with --store",
		},
		{usagef("name %q is long", long), `name "` + strings.Repeat("é", 372) + " … " + strings.Repeat("é", 95) + `" is long`},
	} {
		var buf bytes.Buffer
		report(&buf, tc.err)
		if diff := cmp.Diff("qualify: "+tc.want+"\n", buf.String()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

func TestVerdictPrintsNothing(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	if code := report(&buf, verdict(exitInconclusive)); code != exitInconclusive || buf.Len() != 0 {
		t.Errorf("report = %d, printed %q", code, buf.String())
	}
}

func TestPanicIsOneLineAndExit4(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	code := guard(&buf, func() error { panic("boom\nin two lines") })
	got := buf.String()
	if code != exitInternal || strings.Count(got, "\n") != 1 || !strings.Contains(got, `boom\nin two lines at main_test.go:`) {
		t.Errorf("exit %d, stderr %q", code, got)
	}
}

func TestArgumentsCannotDriveTheTerminal(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"a\x1b[31m\n"}, {"version", "--\x1b[31m\n"}, {"version", "\x1b[31m\n"}} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr)
		if code != exitUsage || strings.Contains(stderr.String(), "\x1b") || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("run(%q) = %d, stderr %q", args, code, stderr.String())
		}
	}
}

// fullDisk refuses every write.
type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestLostOutputIsAnError(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	code := run(t.Context(), []string{"version"}, strings.NewReader(""), fullDisk{}, &stderr)
	if code != exitInternal || !strings.Contains(stderr.String(), "no space left") {
		t.Errorf("exit %d, stderr %q", code, stderr.String())
	}
}
