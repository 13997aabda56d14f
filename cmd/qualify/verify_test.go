package main

import (
	"context"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/sqlite"
)

// runSmall runs the built-in campaign on one case into a new store and opens
// that store again.
func runSmall(t *testing.T) store.Store {
	t.Helper()
	path := filepath.Join(t.TempDir(), "q.db")
	var stdout, stderr strings.Builder
	args := []string{"run", "builtin:demo", "--case", "ledger-two-books-01", "--trials", "1", "--store", "sqlite:" + path}
	if code := run(t.Context(), args, strings.NewReader(""), &stdout, &stderr); code != exitOK {
		t.Fatalf("exit %d: %s", code, stderr.String())
	}
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// verifyReal runs trace verify with the rebuilder of the build.
func verifyReal(t *testing.T, s store.Store) (int, string) {
	t.Helper()
	var stdout, stderr strings.Builder
	code := guard(&stderr, func() error {
		a := newApp(strings.NewReader(""), &stdout, &stderr)
		a.open = func(context.Context, string, storeAccess) (store.Store, error) { return keepOpen{s}, nil }
		err := a.execute(t.Context(), []string{"trace", "verify"})
		if ferr := a.out.Flush(); ferr != nil {
			return ferr
		}
		return err
	})
	return code, stdout.String() + stderr.String()
}

// rechained is a store in which one room's rows were altered consistently:
// every digest of the chain is right again, so only rebuilding the states can
// tell. The walk over the chain (the first read of a room's rows) is shown the
// original.
type rechained struct {
	store.Store
	room  string
	reads *atomic.Int32
	alter func(*store.Row)
}

func (s rechained) Rows(ctx context.Context, room string, after int64, limit int) ([]store.Row, error) {
	rows, err := s.Store.Rows(ctx, room, after, limit)
	if err != nil || room != s.room || s.reads.Add(1) == 1 {
		return rows, err
	}
	return s.chain(rows), nil
}

func (s rechained) chain(rows []store.Row) []store.Row {
	for i := range rows {
		if i == 1 {
			s.alter(&rows[i])
		}
		if i > 0 {
			rows[i].Prev = rows[i-1].Digest
		}
		rows[i].Digest = store.RowDigest(rows[i])
	}
	return rows
}

func (s rechained) Load(ctx context.Context, room string) (*store.Loaded, error) {
	l, err := s.Store.Load(ctx, room)
	if err != nil || room != s.room {
		return l, err
	}
	rows, err := s.Store.Rows(ctx, room, -1, 0)
	if err != nil {
		return nil, err
	}
	rows = s.chain(rows)
	l.Head.Digest = rows[len(rows)-1].Digest
	return l, nil
}

func TestRunIsVerifiable(t *testing.T) {
	t.Parallel()
	s := runSmall(t)
	code, out := verifyReal(t, s)
	if code != exitOK || !strings.Contains(out, ", 0 wrong\ntrace set sha256:") {
		t.Fatalf("exit %d:\n%s", code, out)
	}
	trials := closedTrials(t, s)
	for name, alter := range map[string]func(*store.Row){
		"state":   func(r *store.Row) { r.StateDigest = strings.Repeat("0", 64) },
		"event":   func(r *store.Row) { r.Event = []byte(strings.Replace(string(r.Event), `"at_us":0`, `"at_us":1`, 1)) },
		"machine": func(r *store.Row) { r.Machine = "legacy@999" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			room := trials["ledger-two-books-01/planner/0"].Room
			code, out := verifyReal(t, rechained{s, room, new(atomic.Int32), alter})
			if code != exitFail || !strings.Contains(out, "FAIL  ledger-two-books-01/planner/0: ") || !strings.Contains(out, " 1 wrong") {
				t.Errorf("exit %d:\n%s", code, out)
			}
		})
	}
}

// erased is a store from which the contents of one room are gone.
type erased struct {
	store.Store
	room string
}

func (s erased) Blobs(ctx context.Context, room string, digests []string) (map[string][]byte, error) {
	if room == s.room {
		return map[string][]byte{}, nil
	}
	return s.Store.Blobs(ctx, room, digests)
}

// DESIGN §2: the chain verifies with any content withheld, and a changed row is
// found without it.
func TestWithheldContentLeavesTheChainVerifiable(t *testing.T) {
	t.Parallel()
	s := runSmall(t)
	room := closedTrials(t, s)["ledger-two-books-01/planner/0"].Room
	code, out := verifyReal(t, erased{s, room})
	if code != exitOK || !strings.Contains(out, "chain ledger-two-books-01/planner/0") || !strings.Contains(out, ", 0 wrong") ||
		strings.Count(out, "states not rebuilt") != 1 {
		t.Errorf("exit %d:\n%s", code, out)
	}
	changed := alteredRows{erased{s, room}, func(r []store.Row) []store.Row {
		r[1].StateDigest = strings.Repeat("0", 64)
		return r
	}}
	if code, out := verifyReal(t, changed); code != exitFail || !strings.Contains(out, "FAIL  ledger-two-books-01/planner/0") {
		t.Errorf("with a changed row: exit %d:\n%s", code, out)
	}
}

func closedTrials(t *testing.T, s store.Store) map[string]store.Trial {
	t.Helper()
	camp, err := findCampaign(t.Context(), s, "demo")
	if err != nil {
		t.Fatal(err)
	}
	all, err := s.Trials(t.Context(), camp.ID)
	if err != nil {
		t.Fatal(err)
	}
	byKey := map[string]store.Trial{}
	for i := range all {
		byKey[all[i].Key] = all[i]
	}
	return byKey
}
