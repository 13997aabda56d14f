package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/agentrooms/qualify/engine/store/sqlite"
)

// ordinary runs the binary as a user whom permissions bind, which root is not,
// in a folder of that user's.
type ordinary struct{ bin, dir string }

func newOrdinary(t *testing.T) ordinary {
	t.Helper()
	src, err := os.ReadFile(qualifyBin(t))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	u := ordinary{filepath.Join(dir, "qualify"), dir}
	err = errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o777), os.WriteFile(u.bin, src, 0o755), os.Chmod(u.bin, 0o755))
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func (u ordinary) run(t *testing.T, args ...string) (code int, stderr string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), u.bin, args...)
	cmd.Dir = u.dir
	if os.Getuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	var buf bytes.Buffer
	cmd.Stderr = &buf
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), buf.String()
	}
	if err != nil {
		t.Fatal(err)
	}
	return exitOK, buf.String()
}

// A store that may be read and not written can be copied; one that may not be
// read is an input that the line names, not a fault of the program.
func TestStoresThatPermissionsClose(t *testing.T) {
	t.Parallel()
	u := newOrdinary(t)
	path := filepath.Join(u.dir, "q.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), os.Chmod(path, 0o444)); err != nil {
		t.Fatal(err)
	}
	if code, stderr := u.run(t, "store", "backup", "copy.db", "--store", "sqlite:q.db"); code != exitOK {
		t.Errorf("backup: exit %d, %s", code, stderr)
	}
	if code, stderr := u.run(t, "budget", "verify", "--store", "sqlite:copy.db"); code != exitOK {
		t.Errorf("the copy: exit %d, %s", code, stderr)
	}
	if info, err := os.Stat(filepath.Join(u.dir, "copy.db")); err != nil || info.Mode().Perm() != 0o444 {
		t.Errorf("the copy: %v, %v", info, err)
	}
	if code, stderr := u.run(t, "budget", "grant", "7", "--store", "sqlite:q.db"); code != exitRefused || !strings.Contains(stderr, "store is read-only") {
		t.Errorf("grant: exit %d, %s", code, stderr)
	}
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	code, stderr := u.run(t, "store", "status", "--store", "sqlite:q.db")
	if code != exitUsage || !strings.Contains(stderr, "permission denied; name another with --store") {
		t.Errorf("status of an unreadable store: exit %d, %s", code, stderr)
	}
}
