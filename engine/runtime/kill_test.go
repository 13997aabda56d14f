package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store/sqlite"
)

// Environment of a child process: where it works and where it dies.
const (
	childDir   = "QUALIFY_RUNTIME_TEST_DIR"
	childCrash = "QUALIFY_RUNTIME_TEST_CRASH"
)

// nobody is a testing.TB for the child process, which has no test: only
// Helper, Fatal and Context are called.
type nobody struct{ testing.TB }

func (nobody) Helper()                  {}
func (nobody) Fatal(args ...any)        { panic(fmt.Sprint(args...)) }
func (nobody) Context() context.Context { return context.Background() }

// child plays the golden scene, with snapshots on the way, on SQLite, in a process of its own.
func child(dir string) error {
	ctx := context.Background()
	st, err := sqlite.Open(ctx, filepath.Join(dir, "store.db"), sqlite.Options{Create: true})
	if err != nil {
		return err
	}
	j, err := model.OpenFileJournal(filepath.Join(dir, "calls"))
	if err != nil {
		return err
	}
	crash, err := runtime.ParseCrash(os.Getenv(childCrash))
	if err != nil {
		return err
	}
	cfg := snapping(golden()).config(nobody{}, st, j)
	cfg.Crash = crash
	_, err = runtime.Run(ctx, cfg)
	return errors.Join(err, st.Close(), j.Close())
}

// spawn runs one child and reports whether it was killed.
func spawn(t *testing.T, dir, crash string) bool {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir, childCrash+"="+crash)
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL {
			return true
		}
	}
	t.Fatalf("child with crash %q: %v\n%s", crash, err, out)
	return false
}

// checkDir compares what the children left with the undisturbed trail.
func checkDir(t *testing.T, dir, what string, want trail) {
	t.Helper()
	st, err := sqlite.Open(t.Context(), filepath.Join(dir, "store.db"), sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = st.Close() }()
	j, err := model.OpenFileJournal(filepath.Join(dir, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	cfg := golden().config(t, st, j)
	if diff := differs(want, trailOf(t, cfg, j)); diff != "" {
		t.Errorf("%s:\n%s", what, diff)
	}
	replay(t, cfg)
}

// R45 on SQLite with real processes that really die: the memory store's
// undisturbed trail, byte for byte, and no operation called twice.
func TestR45_KilledProcessesLeaveOneTrail(t *testing.T) {
	t.Parallel()
	want, points := passages(t, snapping(golden()))
	t.Run("at every fifth passage", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		killed := 0
		for spawn(t, dir, "any:5") {
			if killed++; killed > len(points) {
				t.Fatal("no progress")
			}
		}
		if killed < len(points)/6 {
			t.Errorf("killed only %d times over %d passages", killed, len(points))
		}
		checkDir(t, dir, "killed at every fifth passage", want)
	})
	t.Run("at each point", func(t *testing.T) {
		t.Parallel()
		for _, p := range runtime.Points() {
			if p == runtime.AfterDelivery || p == runtime.AfterWrite {
				continue // the scene has no notifier, and its store passes no point
			}
			dir := t.TempDir()
			if !spawn(t, dir, string(p)+":1") {
				t.Errorf("%s: the child was not killed", p)
			}
			if spawn(t, dir, "") {
				t.Errorf("%s: killed without a crash point", p)
			}
			checkDir(t, dir, "killed at "+string(p), want)
		}
	})
}
