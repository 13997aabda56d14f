package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/sqlite"
	"github.com/agentrooms/qualify/engine/store/storetest"
)

func TestCounts(t *testing.T) {
	t.Parallel()
	storetest.Counts(t, openAt(t, filepath.Join(t.TempDir(), "q.db"), sqlite.Options{Create: true}))
}

func TestPragmas(t *testing.T) {
	t.Parallel()
	s := openAt(t, filepath.Join(t.TempDir(), "q.db"), sqlite.Options{Create: true})
	all, err := s.Pragmas(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, p := range all {
		got[p.Name] = p.Value
	}
	for name, want := range map[string]string{"journal_mode": "wal", "foreign_keys": "1", "busy_timeout": "60000", "application_id": strconv.Itoa(0x514c4659)} {
		if got[name] != want {
			t.Errorf("pragma %s is %q, want %q", name, got[name], want)
		}
	}
}

// fill stores n campaigns.
func fill(ctx context.Context, s *sqlite.Store, from, n int) error {
	for i := range n {
		c := store.Campaign{ID: "c_" + strconv.Itoa(from+i), Name: "demo", Plan: bytes.Repeat([]byte("x"), 2000), Status: "running"}
		if err := s.PutCampaign(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func TestCheckFindsADamagedPage(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "q.db")
	s := openAt(t, path, sqlite.Options{Create: true})
	if err := fill(t.Context(), s, 0, 300); err != nil {
		t.Fatal(err)
	}
	if err := s.Check(t.Context()); err != nil {
		t.Fatalf("sound store: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	junk := bytes.Repeat([]byte{0xa5}, 200_000) // past the pages that opening reads
	if _, err := f.WriteAt(junk, info.Size()-int64(len(junk))); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, path, sqlite.Options{ReadOnly: true})
	if err := s.Check(t.Context()); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("damaged store: %v, want %v", err, store.ErrCorrupt)
	}
}

// names are the files in a folder.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := []string{}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// A copy is one state of the store while writers go on: campaigns are stored
// one after the other, so a copy holds the first n of them, without a gap, and
// at least those that were stored before it began.
func TestCopyIsOneStateWhileOthersWrite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "q.db")
	s := openAt(t, path, sqlite.Options{Create: true})
	const before, more = 50, 400
	if err := fill(t.Context(), s, 0, before); err != nil {
		t.Fatal(err)
	}
	reader := openAt(t, path, sqlite.Options{ReadOnly: true})
	dir := t.TempDir()
	var g errgroup.Group
	g.Go(func() error { return fill(t.Context(), s, before, more) })
	g.Go(func() error { return reader.CopyTo(t.Context(), filepath.Join(dir, "of-reader.db")) })
	g.Go(func() error { return s.CopyTo(t.Context(), filepath.Join(dir, "of-writer.db")) })
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"of-reader.db", "of-writer.db"}, names(t, dir)); diff != "" {
		t.Errorf("files beside the copies (-want +got):\n%s", diff)
	}
	for _, name := range []string{"of-reader.db", "of-writer.db"} {
		c := openAt(t, filepath.Join(dir, name), sqlite.Options{})
		all, err := c.Campaigns(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if len(all) < before {
			t.Errorf("%s: %d campaigns, %d were stored before it began", name, len(all), before)
		}
		for i := range all {
			if want := "c_" + strconv.Itoa(i); all[i].ID != want {
				t.Fatalf("%s: campaign %d is %s, want %s", name, i, all[i].ID, want)
			}
		}
		// The copy is a store like any other.
		if err := fill(t.Context(), c, 10_000, 1); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCopyOverwritesNothing(t *testing.T) {
	t.Parallel()
	s := openAt(t, filepath.Join(t.TempDir(), "q.db"), sqlite.Options{Create: true})
	dir := t.TempDir()
	taken := filepath.Join(dir, "taken")
	if err := os.WriteFile(taken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.CopyTo(t.Context(), taken); !errors.Is(err, store.ErrExists) {
		t.Errorf("over an empty file: %v, want %v", err, store.ErrExists)
	}
	if err := s.CopyTo(t.Context(), dir); !errors.Is(err, store.ErrExists) {
		t.Errorf("over a folder: %v, want %v", err, store.ErrExists)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.CopyTo(ctx, filepath.Join(dir, "cancelled")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if diff := cmp.Diff([]string{"taken"}, names(t, dir)); diff != "" {
		t.Errorf("files afterwards (-want +got):\n%s", diff)
	}
	if b, err := os.ReadFile(taken); err != nil || len(b) != 0 {
		t.Errorf("the file holds %d bytes (%v)", len(b), err)
	}
}
