package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/agentrooms/qualify/engine/store"
)

// A copy removes what killed copies to the same target left, which it knows by a
// lock that nobody holds. It leaves what another process is making, copies to
// other targets, and whatever only looks alike.
func TestACopySweepsUpAfterKilledOnes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, nil, 0o600))
		return path
	}
	for _, stale := range []string{".copy.db.7.lock", ".copy.db.7.part", ".copy.db.7.part-journal", ".copy.db.7.part-wal", ".copy.db.8.lock"} {
		file(stale)
	}
	want := map[string]bool{"copy.db": true}
	for _, keep := range []string{".copy.db.9.lock", ".copy.db.9.part", ".copy.db.10.part", ".copy.db.x.lock", ".copy.db..lock", ".copy.db.old.11.lock", "copy.db.12.lock"} {
		file(keep)
		want[keep] = true
	}
	must(t, os.Mkdir(filepath.Join(dir, ".copy.db.13.lock"), 0o700))
	want[".copy.db.13.lock"] = true
	live, err := os.OpenFile(filepath.Join(dir, ".copy.db.9.lock"), os.O_RDWR, 0)
	must(t, err)
	if locked, err := tryLock(live); !locked || err != nil {
		t.Skipf("no locks on this system: %v", err)
	}
	s := mustOpen(t, filepath.Join(t.TempDir(), "s.db"), Options{Create: true})
	must(t, s.CopyTo(t.Context(), filepath.Join(dir, "copy.db")))
	if diff := cmp.Diff(want, names(t, dir)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	must(t, live.Close()) // as the end of its process does
	must(t, os.Remove(filepath.Join(dir, "copy.db")))
	must(t, s.CopyTo(t.Context(), filepath.Join(dir, "copy.db")))
	delete(want, ".copy.db.9.lock")
	delete(want, ".copy.db.9.part")
	if diff := cmp.Diff(want, names(t, dir)); diff != "" {
		t.Errorf("once the other has ended (-want +got):\n%s", diff)
	}
}

func names(t *testing.T, dir string) map[string]bool {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	out := map[string]bool{}
	for _, e := range entries {
		out[e.Name()] = true
	}
	return out
}

// Copies to one target at the same time leave each other alone: one gets the
// name, and no file is left of the others.
func TestCopiesToOneTargetLeaveEachOtherAlone(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, filepath.Join(t.TempDir(), "s.db"), Options{Create: true})
	fill(t, s, "r")
	for range 3 {
		dir := t.TempDir()
		target := filepath.Join(dir, "copy.db")
		got := make([]error, 4)
		var g errgroup.Group
		for i := range got {
			g.Go(func() error {
				got[i] = aside(target, func(temp *os.File) error {
					if err := temp.Close(); err != nil {
						return err
					}
					if err := s.vacuumInto(t.Context(), temp.Name()); err != nil {
						return err
					}
					return place(temp.Name(), target)
				})
				return nil
			})
		}
		must(t, g.Wait())
		made := 0
		for _, err := range got {
			if err == nil {
				made++
			} else if !errors.Is(err, store.ErrExists) {
				t.Errorf("%v", err)
			}
		}
		if diff := cmp.Diff(map[string]bool{"copy.db": true}, names(t, dir)); made != 1 || diff != "" {
			t.Errorf("%d made; files (-want +got):\n%s", made, diff)
		}
	}
}
