package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/storetest"
)

func mustOpen(t *testing.T, path string, opts Options) *Store {
	t.Helper()
	s, err := Open(t.Context(), path, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

func closeStore(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
}

// raw runs one statement on the file, outside the store.
func raw(t *testing.T, path, query string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if _, err := db.Exec(query); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	write := func(content []byte) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			t.Helper()
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	made := func(change string) func(t *testing.T, path string) {
		return func(t *testing.T, path string) {
			t.Helper()
			s, err := Open(t.Context(), path, Options{Create: true})
			if err != nil {
				t.Fatal(err)
			}
			closeStore(t, s)
			raw(t, path, change)
		}
	}
	for name, c := range map[string]struct {
		prepare func(t *testing.T, path string)
		opts    Options
		want    error
	}{
		"absent":                {func(*testing.T, string) {}, Options{}, store.ErrNotFound},
		"absent, read only":     {func(*testing.T, string) {}, Options{ReadOnly: true}, store.ErrNotFound},
		"empty without create":  {write(nil), Options{}, store.ErrSchemaOlder},
		"no database":           {write(bytes.Repeat([]byte("not a database\n"), 500)), Options{Create: true, Migrate: true}, store.ErrCorrupt},
		"another application":   {func(t *testing.T, path string) { t.Helper(); raw(t, path, "CREATE TABLE x (y)") }, Options{Create: true, Migrate: true}, store.ErrCorrupt},
		"newer schema":          {made("PRAGMA user_version = 999"), Options{Create: true, Migrate: true}, store.ErrSchemaNewer},
		"changed step":          {made("UPDATE schema_step SET sha256 = 'x'"), Options{}, store.ErrCorrupt},
		"missing step":          {made("DELETE FROM schema_step"), Options{}, store.ErrCorrupt},
		"directory":             {func(t *testing.T, path string) { t.Helper(); must(t, os.Mkdir(path, 0o700)) }, Options{Create: true}, store.ErrCorrupt},
		"read only and create":  {write(nil), Options{ReadOnly: true, Create: true}, store.ErrInvalid},
		"negative busy timeout": {write(nil), Options{BusyTimeout: -1}, store.ErrInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "s.db")
			c.prepare(t, path)
			before, errBefore := os.ReadFile(path)
			s, err := Open(t.Context(), path, c.opts)
			if err == nil {
				closeStore(t, s)
			}
			if !errors.Is(err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), path) {
				t.Errorf("message %q is not one line that names the file", err)
			}
			after, errAfter := os.ReadFile(path)
			if (errBefore == nil) != (errAfter == nil) || !bytes.Equal(before, after) {
				t.Error("a refused opening changed the file")
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// fill puts one room with one row into the store.
func fill(t *testing.T, s *Store, id string) *store.Loaded {
	t.Helper()
	must(t, s.CreateRoom(t.Context(), storetest.NewRoom(id, 100)))
	c := storetest.Next(store.Head{Room: id, Rev: -1}, "one")
	c.Ops = []store.Op{storetest.Op(id, "x", 10)}
	if _, err := s.Commit(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	l, err := s.Load(t.Context(), id)
	must(t, err)
	return l
}

func TestDamagedPageIsOneClearLine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.db")
	s, err := Open(t.Context(), path, Options{Create: true})
	must(t, err)
	fill(t, s, "r")
	closeStore(t, s)
	content, err := os.ReadFile(path)
	must(t, err)
	for i := 4096; i < len(content); i++ { // all pages but the first
		content[i] = 0xa5
	}
	must(t, os.WriteFile(path, content, 0o600))
	s, err = Open(t.Context(), path, Options{})
	if err == nil {
		_, err = s.Load(t.Context(), "r")
		closeStore(t, s)
	}
	if !errors.Is(err, store.ErrCorrupt) || strings.Contains(err.Error(), "\n") {
		t.Fatalf("error %v, want one line that wraps %v", err, store.ErrCorrupt)
	}
}

func TestMigrationKeepsACopy(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "s.db")
	s, err := Open(ctx, path, Options{Create: true})
	must(t, err)
	before := fill(t, s, "r")
	if s.Backup() != "" {
		t.Errorf("a new store was backed up to %s", s.Backup())
	}
	closeStore(t, s)
	must(t, os.Chmod(path, 0o600))
	steps, err := builtinMigrations()
	must(t, err)
	newer := slices.Concat(steps, []migration{{name: "next.sql", text: "ALTER TABLE room ADD COLUMN extra TEXT; CREATE TABLE more (n INTEGER PRIMARY KEY) STRICT"}})

	if _, err := open(ctx, path, Options{Create: true}, newer); !errors.Is(err, store.ErrSchemaOlder) {
		t.Fatalf("opened an older file without Migrate: %v", err)
	}
	broken := slices.Concat(steps, []migration{{name: "broken.sql", text: "CREATE TABLE more (n INTEGER PRIMARY KEY); SELECT no_such_column FROM room"}})
	if _, err := open(ctx, path, Options{Migrate: true}, broken); err == nil {
		t.Fatal("a broken step passed")
	}
	m, err := open(ctx, path, Options{Migrate: true}, newer)
	if err != nil {
		t.Fatalf("migrate after a broken step: %v", err)
	}
	after, err := m.Load(ctx, "r")
	closeStore(t, m)
	must(t, err)
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("the migration changed the room:\n%s", diff)
	}
	if _, err := Open(ctx, path, Options{}); !errors.Is(err, store.ErrSchemaNewer) {
		t.Errorf("the older program opened the newer file: %v", err)
	}
	if info, err := os.Stat(m.Backup()); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the copy of a private file: %v, %v", info.Mode(), err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); err != nil || len(left) > 0 {
		t.Errorf("left beside it: %q, %v", left, err)
	}
	old := mustOpen(t, m.Backup(), Options{})
	kept, err := old.Load(ctx, "r")
	must(t, err)
	if diff := cmp.Diff(before, kept); diff != "" {
		t.Errorf("the copy differs:\n%s", diff)
	}
}

func TestReadOnlyRefusesWrites(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.db")
	w := mustOpen(t, path, Options{Create: true})
	want := fill(t, w, "r")
	s := mustOpen(t, path, Options{ReadOnly: true})
	got, err := s.Load(t.Context(), "r")
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if _, err := s.Commit(t.Context(), storetest.Next(got.Head, "two")); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("commit: %v", err)
	}
	if err := s.CreateRoom(t.Context(), storetest.NewRoom("q", 1)); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("create: %v", err)
	}
	// The connections for reads could not write even if the code tried.
	if _, err := w.reads.ExecContext(t.Context(), "DELETE FROM operation"); !errors.Is(driverError("write", err), store.ErrReadOnly) {
		t.Errorf("write on a read connection: %v", err)
	}
}

func TestDurabilityFollowsMoney(t *testing.T) {
	t.Parallel()
	const normal, full = 1, 2
	mode := func(s *Store, durable bool) int {
		t.Helper()
		var got int
		must(t, s.write(t.Context(), "probe", durable, func(ctx context.Context, w *writer) error {
			_, err := w.row(ctx, "PRAGMA synchronous", nil, &got)
			return err
		}))
		return got
	}
	s := mustOpen(t, filepath.Join(t.TempDir(), "s.db"), Options{Create: true})
	for _, c := range []struct {
		durable bool
		want    int
	}{{false, normal}, {true, full}, {true, full}, {false, normal}} {
		if got := mode(s, c.durable); got != c.want {
			t.Errorf("durable %t: synchronous %d, want %d", c.durable, got, c.want)
		}
	}
	d := mustOpen(t, filepath.Join(t.TempDir(), "d.db"), Options{Create: true, Durable: true})
	if got := mode(d, false); got != full {
		t.Errorf("option Durable: synchronous %d, want %d", got, full)
	}

	// Which writes ask for it.
	asks := func(s *Store, f func() error) bool {
		t.Helper()
		before := s.flushed.Load()
		must(t, f())
		return s.flushed.Load() > before
	}
	ctx := t.Context()
	realRoom := storetest.NewRoom("real", 10)
	realRoom.Funds = store.FundsReal
	for _, c := range []struct {
		name string
		want bool
		f    func() error
	}{
		{"simulated room", false, func() error { return s.CreateRoom(ctx, storetest.NewRoom("sim", 10)) }},
		{"real room", true, func() error { return s.CreateRoom(ctx, realRoom) }},
		{"commit, simulated", false, func() error {
			_, err := s.Commit(ctx, storetest.Next(store.Head{Room: "sim", Rev: -1}, "x"))
			return err
		}},
		{"commit, real", true, func() error {
			_, err := s.Commit(ctx, storetest.Next(store.Head{Room: "real", Rev: -1}, "x"))
			return err
		}},
		{"ceiling, real", true, func() error { _, err := s.EnsureCeiling(ctx, "o", store.FundsReal, 5); return err }},
		{"allot, real", true, func() error {
			_, err := s.Allot(ctx, store.Allotment{ID: "a", Ceiling: "o", Funds: store.FundsReal, Sum: 5})
			return err
		}},
		{"release, real", true, func() error { _, err := s.Release(ctx, "a", 1, 0); return err }},
		{"seal", true, func() error { _, err := s.AppendSeal(ctx, "k", nil); return err }},
	} {
		if got := asks(s, c.f); got != c.want {
			t.Errorf("%s: flushed %t, want %t", c.name, got, c.want)
		}
	}
}

// A store on an archive can be read: nothing can be written beside it, and
// there is no log whose content would be missed.
func TestReadOnlyWithoutAnythingBesideTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "q.db")
	s := mustOpen(t, path, Options{Create: true, Migrate: true})
	if _, err := s.EnsureCeiling(t.Context(), "own", store.FundsSimulated, 7); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	if err := os.Mkdir(path+"-shm", 0o700); err != nil { // where SQLite would make its file
		t.Fatal(err)
	}
	r := mustOpen(t, path, Options{ReadOnly: true})
	all, err := r.Ceilings(t.Context())
	if err != nil || len(all) != 1 || all[0].Limit != 7 {
		t.Errorf("ceilings %+v, %v", all, err)
	}
	if err := os.WriteFile(path+"-wal", []byte("a log whose content cannot be read"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s, err := Open(t.Context(), path, Options{ReadOnly: true}); err == nil {
		t.Error("opened past a log with content")
		closeStore(t, s)
	}
}

// A full disk is named as such, undoes its batch, and ends when there is room.
func TestFullDiskIsNamedAndPasses(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, filepath.Join(t.TempDir(), "q.db"), Options{Create: true, Migrate: true})
	pages := func(n string) {
		t.Helper()
		err := s.write(t.Context(), "bound the file", false, func(ctx context.Context, w *writer) error {
			return w.exec(ctx, "PRAGMA max_page_count = "+n)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	camp := store.Campaign{ID: "c", Name: "c", Status: "running"}
	if err := s.PutCampaign(t.Context(), camp); err != nil {
		t.Fatal(err)
	}
	pages("1") // no page more than there are
	content := bytes.Repeat([]byte("x"), 1<<20)
	err := s.PutTrace(t.Context(), "c", "k", "d", content)
	if !errors.Is(err, store.ErrFull) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "ROLLBACK") {
		t.Errorf("got %v, want one line of %v", err, store.ErrFull)
	}
	pages("1000000")
	if err := s.PutTrace(t.Context(), "c", "k", "d", content); err != nil {
		t.Errorf("with room again: %v", err)
	}
}
