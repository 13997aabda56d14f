package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A file of just the bound is read whole; one byte more is refused, and never
// cut to what fits.
func TestAFileOverItsBoundIsRefused(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	for size, fits := range map[int]bool{1: true, 8: true, 9: false, 4096: false} {
		want := bytes.Repeat([]byte("x"), size)
		if err := os.WriteFile(path, want, 0o600); err != nil {
			t.Fatal(err)
		}
		got, mode, err := readAtMost(path, 8)
		switch {
		case fits && (err != nil || !bytes.Equal(got, want) || mode.Perm() != 0o600):
			t.Errorf("%d bytes: %q, mode %v, %v", size, got, mode, err)
		case !fits && (err == nil || !strings.Contains(err.Error(), path+": is over 8 bytes")):
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	big := filepath.Join(t.TempDir(), "big.pub")
	if err := os.WriteFile(big, bytes.Repeat([]byte("x"), mostKeyFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	url := "sqlite:" + filepath.Join(t.TempDir(), "q.db")
	if code, _, talk := command(t, "init", "--store", url, filepath.Join(t.TempDir(), "c.yaml")); code != exitOK {
		t.Fatalf("init: exit %d: %s", code, talk)
	}
	code, _, talk := command(t, "freeze", "log", "--verify", "--key", big, "--store", url)
	if code != exitUsage || !strings.Contains(talk, big+": is over") {
		t.Errorf("exit %d: %s", code, talk)
	}
}
