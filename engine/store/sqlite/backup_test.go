package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Field report 16: a backup that fails at any step, before it is done or after,
// leaves the store and the backups before it as they were, and at its own name a
// whole store or nothing.
func TestF16_AFailedBackupLeavesNothingHalf(t *testing.T) {
	t.Parallel()
	errStep := errors.New("failed by the test")
	steps := []string{"close", "copy", "check", "permissions", "flush", "place", "flush names"}
	s := mustOpen(t, filepath.Join(t.TempDir(), "s.db"), Options{Create: true})
	room := fill(t, s, "r")
	for i, step := range steps {
		for _, done := range []bool{false, true} {
			dir := t.TempDir()
			earlier, target := filepath.Join(dir, "earlier.db"), filepath.Join(dir, "copy.db")
			must(t, s.CopyTo(t.Context(), earlier))
			before, err := os.ReadFile(earlier)
			must(t, err)
			var seen []string
			err = s.copyTo(t.Context(), target, func(name string, f func() error) error {
				seen = append(seen, name)
				switch {
				case name != step:
					return f()
				case done:
					return errors.Join(f(), errStep)
				}
				return errStep
			})
			if !errors.Is(err, errStep) || cmp.Diff(steps[:i+1], seen) != "" {
				t.Errorf("%s: error %v after steps %q", step, err, seen)
			}
			want := []string{"earlier.db"}
			if step == "flush names" || step == "place" && done { // it has its name, so it must be whole
				want = []string{"copy.db", "earlier.db"}
				c := mustOpen(t, target, Options{ReadOnly: true})
				got, err := c.Load(t.Context(), "r")
				must(t, err)
				if diff := cmp.Diff(room, got); diff != "" {
					t.Errorf("%s: the copy differs:\n%s", step, diff)
				}
				must(t, c.Check(t.Context()))
			}
			entries, err := filepath.Glob(filepath.Join(dir, "*.db"))
			must(t, err)
			hidden, err := filepath.Glob(filepath.Join(dir, ".*.part"))
			must(t, err)
			var have []string
			for _, e := range append(entries, hidden...) {
				have = append(have, filepath.Base(e))
			}
			if diff := cmp.Diff(want, have); diff != "" {
				t.Errorf("%s, done %t: files (-want +got):\n%s", step, done, diff)
			}
			after, err := os.ReadFile(earlier)
			must(t, err)
			if string(before) != string(after) {
				t.Errorf("%s: the earlier backup has changed", step)
			}
		}
	}
	must(t, s.Check(t.Context()))
	again, err := s.Load(t.Context(), "r")
	must(t, err)
	if diff := cmp.Diff(room, again); diff != "" {
		t.Errorf("the store has changed:\n%s", diff)
	}
}
