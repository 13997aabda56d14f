package main

import (
	"bytes"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/sqlite"
)

// sqliteStore makes a store file with one ceiling and returns its path.
func sqliteStore(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "new", "q.db")
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.EnsureCeiling(t.Context(), "owner", store.FundsReal, 5_000_000); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadingChangesNoStore(t *testing.T) {
	t.Parallel()
	path := sqliteStore(t)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"budget", "show"}, {"budget", "ledger"}} {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), append(args, "--store", "sqlite:"+path), strings.NewReader(""), &stdout, &stderr)
		if code != exitOK || !strings.Contains(stdout.String(), "owner") {
			t.Errorf("%v: exit %d, stderr %q:\n%s", args, code, stderr.String(), stdout.String())
		}
	}
	after, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(before, after) {
		t.Errorf("the file changed (%v)", err)
	}
}

func TestNewerStoreIsRefused(t *testing.T) {
	t.Parallel()
	path := sqliteStore(t)
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "PRAGMA user_version = 999"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), []string{"budget", "show", "--store", "sqlite:" + path}, strings.NewReader(""), &stdout, &stderr)
	if code != exitRefused || !strings.Contains(stderr.String(), "made by a newer version") || strings.Count(stderr.String(), "\n") != 1 {
		t.Errorf("exit %d, stderr %q", code, stderr.String())
	}
}
