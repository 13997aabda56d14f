package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestQ8_AbsentContentsAreCounted: a content that was erased from a store, and
// that no state needs, is counted and breaks no trace. A bundle of that store
// has to say that bodies are withheld.
func TestQ8_AbsentContentsAreCounted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := stage{dir}
	db := "sqlite:" + filepath.Join(dir, "q.db")
	s.want(t, exitOK, "run", "builtin:demo", "--case", "ledger-two-books-01", "--trials", "1", "--store", db)
	if out := s.want(t, exitOK, "trace", "verify", "--store", db); strings.Contains(out, "absent") {
		t.Fatalf("whole: %s", out)
	}
	const replies = `DELETE FROM blob WHERE CAST(content AS TEXT) LIKE '{"explanation"%' AND room = (SELECT n FROM room WHERE id LIKE '%/planner/0')`
	if n := edit(t, filepath.Join(dir, "q.db"), replies); n == 0 {
		t.Fatal("nothing was erased")
	}
	if out := s.want(t, exitOK, "trace", "verify", "--store", db); strings.Count(out, " absent, which no state needs\n") != 1 {
		t.Errorf("erased: %s", out)
	}
	code, _, talk := command(t, "report", "bundle", "demo", "--store", db, "-o", filepath.Join(dir, "b.tar.zst"))
	if code != exitRefused || !strings.Contains(talk, "contents of 1 room are missing, and the bundle does not say that bodies are withheld") {
		t.Errorf("bundle: exit %d, %s", code, talk)
	}
	s.want(t, exitOK, "report", "bundle", "demo", "--store", db, "-o", filepath.Join(dir, "b.tar.zst"), "--withhold", withheldBodies)
}
