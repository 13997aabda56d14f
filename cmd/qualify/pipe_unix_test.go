//go:build unix

package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// gone is the writing end of a pipe whose reader has gone.
func gone(t *testing.T) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

// inFolder is the command as a process of its own, in an empty folder.
func inFolder(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	c := exec.CommandContext(t.Context(), qualifyBin(t), args...)
	c.Dir = t.TempDir()
	return c
}

// TestAReaderThatHasGone: a closed stderr does not end a campaign, a closed
// stdout ends the command quietly with the code that a shell gives it.
func TestAReaderThatHasGone(t *testing.T) {
	t.Parallel()
	var stdout bytes.Buffer
	c := inFolder(t, "run", "builtin:demo", "--case", "answer-opening-hours-01", "--trials", "2")
	c.Stdout, c.Stderr = &stdout, gone(t)
	if err := c.Run(); err != nil || !strings.Contains(stdout.String(), "verdict:") {
		t.Errorf("without a reader of stderr: %v\n%s", err, stdout.String())
	}
	var stderr bytes.Buffer
	c = inFolder(t, "corpus", "list")
	c.Stdout, c.Stderr = gone(t), &stderr
	err := c.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitPipe || stderr.Len() > 0 {
		t.Errorf("without a reader of stdout: %v, stderr %q", err, stderr.String())
	}
}

// TestFilesHaveThePermissionsOfTheUmask: what is written for a user who keeps
// files private is private.
func TestFilesHaveThePermissionsOfTheUmask(t *testing.T) {
	t.Parallel()
	for umask, want := range map[string]os.FileMode{"077": 0o600, "022": 0o644} {
		dir := t.TempDir()
		shell := exec.CommandContext(t.Context(), "sh", "-c", `umask "$1" && shift && exec "$@"`, "sh", umask, //nolint:gosec // words of the test's own
			qualifyBin(t), "trace", "export", "-o", "out", "--store", "sqlite:q.db")
		shell.Dir = dir
		if code, _, stderr := command(t, "run", "builtin:demo", "--case", "answer-opening-hours-01", "--trials", "1", "--mode", "legacy",
			"--store", "sqlite:"+filepath.Join(dir, "q.db")); code != exitOK {
			t.Fatalf("exit %d: %s", code, stderr)
		}
		if out, err := shell.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		info, err := os.Stat(filepath.Join(dir, "out", "answer-opening-hours-01", "legacy", "0.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("umask %s: permissions %o, want %o", umask, got, want)
		}
	}
}
