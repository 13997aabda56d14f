package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A backup is taken while another process runs a campaign: it is a whole store,
// whose traces and sums hold and whose campaign can be taken over.
func TestBackupWhileAnotherProcessWrites(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	url := "sqlite:" + filepath.Join(dir, "q.db")
	cmd := exec.CommandContext(t.Context(), qualifyBin(t), "run", "builtin:demo", "--trials", "2000", "--parallel", "1", "--store", url)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	traces := func(store string) int {
		t.Helper()
		code, stdout, _ := cli(t, "store", "status", "--json", "--store", store)
		if code != exitOK {
			return 0 // while the store is being made
		}
		var d storeDoc
		if err := json.Unmarshal([]byte(stdout), &d); err != nil {
			t.Fatal(err)
		}
		return int(d.Counts.Traces)
	}
	for start := time.Now(); traces(url) < 40; time.Sleep(20 * time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatal("no 40 traces within a minute")
		}
	}
	last := 0
	for i := range 3 {
		before := traces(url)
		path := filepath.Join(dir, fmt.Sprintf("copy%d.db", i))
		if code, _, stderr := cli(t, "store", "backup", path, "--store", url); code != exitOK {
			t.Fatalf("backup: exit %d: %s", code, stderr)
		}
		after := traces(url)
		n := traces("sqlite:" + path)
		if n < before || n > after || n < last {
			t.Errorf("copy %d has %d traces; the store had %d before and %d after", i, n, before, after)
		}
		last = n
		t.Logf("copy %d: %d traces", i, n)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != exitInterrupted {
		t.Errorf("the campaign ended with %v, want exit %d: a backup must not disturb it", err, exitInterrupted)
	}
	copied := "sqlite:" + filepath.Join(dir, "copy2.db")
	for _, check := range [][]string{{"trace", "verify"}, {"budget", "show"}, {"budget", "verify"}} {
		if out, err := exec.CommandContext(t.Context(), qualifyBin(t), append(check, "--store", copied)...).CombinedOutput(); err != nil {
			t.Errorf("the last copy: %v: %v\n%s", check, err, out)
		}
	}
	// The lease in the copy is that of a process that is gone: it keeps nobody out.
	code, stdout, stderr := cli(t, "campaign", "cancel", "demo", "--store", copied)
	if code != exitOK {
		t.Errorf("cancel in the copy: exit %d: %s%s", code, stdout, stderr)
	}
}
