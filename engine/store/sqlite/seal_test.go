package sqlite_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/sqlite"
)

// TestConnectionsAppendBehindWhatTheyRead: four connections to one file, as
// four processes have them, each append ten rows that count what they read;
// no row counts wrong.
func TestConnectionsAppendBehindWhatTheyRead(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "q.db")
	var g errgroup.Group
	for i := range 4 {
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{Create: i == 0})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		g.Go(func() error {
			for done := 0; done < 10; {
				log, err := s.SealLog(t.Context())
				if err != nil {
					return err
				}
				head := ""
				if n := len(log); n > 0 {
					head = log[n-1].Digest
				}
				_, err = s.AppendSealAfter(t.Context(), head, "count", fmt.Append(nil, len(log)+1))
				switch {
				case err == nil:
					done++
				case !errors.Is(err, store.ErrConflict):
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	log, err := s.SealLog(t.Context())
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	for i, r := range log {
		if r.N != int64(i)+1 || string(r.Body) != fmt.Sprint(i+1) {
			t.Errorf("row %d is numbered %d and says %s", i+1, r.N, r.Body)
		}
	}
	if len(log) != 40 {
		t.Errorf("%d rows, want 40", len(log))
	}
}
