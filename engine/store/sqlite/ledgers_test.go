package sqlite

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/storetest"
)

// schemaOf lists the schema of a file.
func schemaOf(t *testing.T, path string) []string {
	t.Helper()
	s := mustOpen(t, path, Options{ReadOnly: true})
	var out []string
	err := s.read(t.Context(), "schema", false, func(v view) error {
		return v.each(t.Context(), `SELECT type || ' ' || name || ' ' || coalesce(sql, '') FROM sqlite_schema ORDER BY type, name`, nil, func(scan func(...any) error) error {
			var line string
			if err := scan(&line); err != nil {
				return err
			}
			out = append(out, line)
			return nil
		})
	})
	must(t, err)
	return out
}

func versions(t *testing.T, path string) map[Ledger]int {
	t.Helper()
	states, err := State(t.Context(), path)
	must(t, err)
	out := map[Ledger]int{}
	for _, s := range states {
		out[s.Ledger] = s.Version
		if s.Version > s.Newest {
			t.Errorf("ledger %s is at %d of %d", s.Ledger, s.Version, s.Newest)
		}
	}
	return out
}

func TestR59_LedgersHaveVersionsOfTheirOwn(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "s.db")
	steps, err := builtinMigrations()
	must(t, err)

	if _, err := Migrate(ctx, path, Calls); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("calls without rooms: %v", err)
	}
	if _, err := Migrate(ctx, path, "rum"); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("unknown ledger: %v", err)
	}
	if _, err := Migrate(ctx, path, Rooms); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[Ledger]int{Rooms: len(steps), Calls: 0}, versions(t, path)); diff != "" {
		t.Error(diff)
	}
	before := schemaOf(t, path)
	if _, err := Migrate(ctx, path); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[Ledger]int{Rooms: len(steps), Calls: 1}, versions(t, path)); diff != "" {
		t.Error(diff)
	}
	after := schemaOf(t, path)
	if slices.Equal(before, after) {
		t.Error("the ledger of calls changed nothing")
	}
	if _, err := Migrate(ctx, path); err != nil || !slices.Equal(after, schemaOf(t, path)) {
		t.Errorf("migrating again: %v", err)
	}

	// The way of programs that own their file comes to the same rooms.
	own := filepath.Join(t.TempDir(), "own.db")
	closeStore(t, mustOpen(t, own, Options{Create: true}))
	if diff := cmp.Diff(before, schemaOf(t, own)); diff != "" {
		t.Errorf("Options.Create and Migrate differ:\n%s", diff)
	}
}

func TestR59_OpeningNeverMigrates(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, prepare := range map[string]func(path string) error{
		"absent": func(string) error { return nil },
		"empty":  func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"rooms only": func(path string) error {
			_, err := Migrate(ctx, path, Rooms)
			return err
		},
	} {
		path := filepath.Join(t.TempDir(), "s.db")
		must(t, prepare(path))
		before, errBefore := os.ReadFile(path)
		for _, opts := range []Options{{Ledgers: Ledgers()}, {Ledgers: Ledgers(), ReadOnly: true}} {
			s, err := Open(ctx, path, opts)
			if err == nil {
				closeStore(t, s)
				t.Fatalf("%s: opened", name)
			}
			want := store.ErrSchemaOlder
			if name == "absent" {
				want = store.ErrNotFound
			}
			if !errors.Is(err, want) || errors.Is(want, store.ErrSchemaOlder) && !strings.Contains(err.Error(), "sqlite.Migrate") {
				t.Errorf("%s: %v", name, err)
			}
		}
		after, errAfter := os.ReadFile(path)
		if (errBefore == nil) != (errAfter == nil) || string(before) != string(after) {
			t.Errorf("%s: opening changed the file", name)
		}
	}
	path := filepath.Join(t.TempDir(), "s.db")
	if _, err := Migrate(ctx, path); err != nil {
		t.Fatal(err)
	}
	raw(t, path, "UPDATE ledger_step SET sha256 = 'x'")
	if _, err := Open(ctx, path, Options{Ledgers: Ledgers()}); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("a changed step: %v", err)
	}
	raw(t, path, "INSERT INTO ledger_step (ledger, version, name, sha256) VALUES ('calls', 99, 'x', 'x')")
	if _, err := State(ctx, path); !errors.Is(err, store.ErrSchemaNewer) {
		t.Errorf("a newer ledger: %v", err)
	}
}

func TestR59_RollbackNeedsTheWordsForThisStore(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "keep.db")
	if _, err := Migrate(ctx, path); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, path, Options{Ledgers: Ledgers()})
	want := fill(t, s, "r")
	if _, err := s.AcquireLease(ctx, "room/r", "tok", "me", time.Hour); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	calls, err := Confirmation(ctx, path, Calls)
	must(t, err)
	rooms, err := Confirmation(ctx, path, Rooms)
	must(t, err)
	twin := filepath.Join(t.TempDir(), "keep.db") // of the same name, elsewhere
	if _, err := Migrate(ctx, twin); err != nil {
		t.Fatal(err)
	}
	twins, err := Confirmation(ctx, twin, Calls)
	must(t, err)
	for _, part := range []string{"destroy", "514c4659", "rooms", "keep.db"} {
		if !strings.Contains(rooms, part) {
			t.Errorf("confirmation %q does not name %q", rooms, part)
		}
	}
	for name, c := range map[string]struct {
		ledger  Ledger
		confirm string
		err     error
	}{
		"no words":            {Calls, "", store.ErrInvalid},
		"words for another":   {Calls, rooms, store.ErrInvalid},
		"stood on":            {Rooms, rooms, store.ErrInvalid},
		"an unknown ledger":   {"rum", rooms, store.ErrInvalid},
		"its twin's":          {Calls, twins, store.ErrInvalid},
		"another store's":     {Rooms, strings.ReplaceAll(rooms, "keep.db", "drop.db"), store.ErrInvalid},
		"another version's":   {Calls, strings.ReplaceAll(calls, "/1 ", "/2 "), store.ErrInvalid},
		"another application": {Calls, strings.ReplaceAll(calls, "514c4659", "00000000"), store.ErrInvalid},
	} {
		if err := Rollback(ctx, path, c.ledger, c.confirm); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	must(t, Rollback(ctx, path, Calls, calls))
	if err := Rollback(ctx, path, Rooms, rooms); !errors.Is(err, store.ErrExists) {
		t.Errorf("with a live lease: %v", err)
	}
	s = mustOpen(t, path, Options{})
	must(t, s.ReleaseLease(ctx, "room/r", "tok"))
	got, err := s.Load(ctx, "r")
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("refused rollbacks, and that of the calls, changed a room:\n%s", diff)
	}
	must(t, s.PutCampaign(ctx, store.Campaign{ID: "c_1", Name: "x", Status: "running"}))
	closeStore(t, s)
	if err := Rollback(ctx, path, Rooms, rooms); !errors.Is(err, store.ErrInvalid) {
		t.Errorf("with a campaign: %v", err)
	}
	raw(t, path, "DELETE FROM campaign")
	must(t, Rollback(ctx, path, Rooms, rooms))
	if diff := cmp.Diff(map[Ledger]int{Rooms: 0, Calls: 0}, versions(t, path)); diff != "" {
		t.Error(diff)
	}
	if _, err := Open(ctx, path, Options{}); !errors.Is(err, store.ErrSchemaOlder) {
		t.Errorf("after the rollback: %v", err)
	}
	if _, err := Migrate(ctx, path); err != nil {
		t.Fatalf("migrate again: %v", err)
	}
	s = mustOpen(t, path, Options{Ledgers: Ledgers()})
	if _, err := s.Load(ctx, "r"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("the room came back: %v", err)
	}
	fill(t, s, "r")
}

// A file of every earlier schema goes to the newest, with its rooms.
func TestR59_EarlierFilesAreMigrated(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	steps, err := builtinMigrations()
	must(t, err)
	for n := 1; n < len(steps); n++ {
		path := filepath.Join(t.TempDir(), "old.db")
		s, err := open(ctx, path, Options{Create: true}, steps[:n])
		must(t, err)
		must(t, s.CreateRoom(ctx, storetest.NewRoom("r", 100)))
		closeStore(t, s)
		if _, err := Open(ctx, path, Options{}); !errors.Is(err, store.ErrSchemaOlder) {
			t.Errorf("schema %d was opened: %v", n, err)
		}
		if _, err := Migrate(ctx, path); err != nil {
			t.Fatalf("schema %d: %v", n, err)
		}
		s = mustOpen(t, path, Options{Ledgers: Ledgers()})
		if l, err := s.Load(ctx, "r"); err != nil || l.Head.Money.Limit != 100 {
			t.Errorf("schema %d: %v", n, err)
		}
	}
}

// The view in the database and the projection in Go say the same of calls in
// every state (R48).
func TestR48_RunsAreAProjectionOfOperations(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "s.db")
	if _, err := Migrate(ctx, path); err != nil {
		t.Fatal(err)
	}
	s := mustOpen(t, path, Options{Ledgers: Ledgers()})
	must(t, s.CreateRoom(ctx, storetest.NewRoom("r", 1000)))
	c := storetest.Next(store.Head{Room: "r", Rev: -1}, "one")
	states := []store.OpStatus{
		store.OpReserved, store.OpDispatched, store.OpSettledOK, store.OpSettledFailed, store.OpUncertain, store.OpReleased, store.OpRefused,
	}
	for _, st := range states {
		op := storetest.Op("r", string(st), 10)
		if st == store.OpRefused {
			op = storetest.Op("r", string(st), 5000)
		}
		c.Ops = append(c.Ops, op)
	}
	_, err := s.Commit(ctx, c)
	must(t, err)
	for i, st := range states {
		op := c.Ops[i]
		rec := store.Receipt{Op: op.ID, RequestDigest: op.RequestDigest, StartUS: 5, FinishUS: 25, Result: []byte("{}")}
		switch st {
		case store.OpSettledOK:
			rec.Outcome, rec.ChargedMicros, rec.Usage = store.OutcomeOK, 7, &engine.Usage{Input: 3}
		case store.OpSettledFailed:
			rec.Outcome, rec.ChargedMicros = store.OutcomeFailed, 2
		case store.OpUncertain:
			rec.Outcome = store.OutcomeUnknown
		case store.OpReleased:
			rec.Outcome = store.OutcomeFailed
		case store.OpReserved, store.OpDispatched, store.OpRefused:
		}
		if st == store.OpDispatched || rec.Outcome != "" && st != store.OpReleased {
			must(t, s.MarkDispatched(ctx, "r", op.ID))
		}
		if rec.Outcome != "" {
			must(t, s.PutReceipt(ctx, "r", rec, nil))
		}
	}
	for _, held := range []bool{false, true} {
		lease := store.Lease{}
		if held {
			lease, err = s.AcquireLease(ctx, "room/r", "tok", "a process", time.Hour)
			must(t, err)
		}
		l, err := s.Load(ctx, "r")
		must(t, err)
		var want []store.CallRun
		for i := range l.Ops {
			if l.Ops[i].Status != states[i] {
				t.Fatalf("operation %d is %s, want %s", i, l.Ops[i].Status, states[i])
			}
			want = append(want, store.RunOf("r", &l.Ops[i], lease))
		}
		got, err := s.Runs(ctx, "r")
		must(t, err)
		if diff := cmp.Diff(want, got, cmpopts.SortSlices(func(a, b store.CallRun) bool { return a.IdempotencyKey < b.IdempotencyKey })); diff != "" {
			t.Errorf("held %t:\n%s", held, diff)
		}
	}
	plain := mustOpen(t, path, Options{})
	if _, err := plain.Runs(ctx, "r"); !errors.Is(err, store.ErrSchemaOlder) {
		t.Errorf("without the ledger: %v", err)
	}
}
