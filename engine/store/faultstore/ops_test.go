package faultstore

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
	"github.com/agentrooms/qualify/engine/store/sqlite"
)

// A method that is in no class, or a class that names no method, is found
// before anything runs.
func TestTaxonomyNamesEveryMethodOfThePort(t *testing.T) {
	t.Parallel()
	if err := checkTaxonomy(classes, storeType()); err != nil {
		t.Fatal(err)
	}
	less, more := maps.Clone(classes), maps.Clone(classes)
	delete(less, "Commit")
	more["Nothing"] = Read
	for want, table := range map[string]map[Op]Class{"method Commit": less, "methods are in a class": more} {
		if err := checkTaxonomy(table, storeType()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if n := len(Ops(Read)) + len(Ops(Write)) + len(Ops(Final)); n != storeType().NumMethod() {
		t.Errorf("%d methods are listed, the store has %d", n, storeType().NumMethod())
	}
}

// Two judgements of other packages: under a fence that is lost, the memory
// store refuses every write of rooms and records; a read-only SQLite file
// refuses writes of leases too. Neither refuses a read.
func TestTaxonomyAgreesWithTheStores(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	made, err := sqlite.Open(t.Context(), path, sqlite.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := made.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := sqlite.Open(t.Context(), path, sqlite.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	mem := memory.New(memory.Options{})
	fenced := store.WithFence(t.Context(), store.Fence{Name: "nobody's", Token: "t"})
	for _, class := range []Class{Read, Write} {
		for _, op := range Ops(class) {
			ro, lost := callZero(t.Context(), file, op), callZero(fenced, mem, op)
			if got := errors.Is(ro, store.ErrReadOnly) || errors.Is(lost, store.ErrLeaseLost); got != (class == Write) {
				t.Errorf("%s is in class %s; on a read-only store it gives: %v; under a lost fence: %v", op, class, ro, lost)
			}
		}
	}
}

// plausible are arguments that pass the checks a store makes before it looks at
// the file; other methods take zero values.
func plausible(op Op) []any {
	switch string(op) {
	case "CreateRoom":
		return []any{store.NewRoom{Room: "r", Funds: store.FundsSimulated}}
	case "Commit":
		row := store.Row{Commands: []byte("[]"), CommandsDigest: engine.Digest([]byte("[]"))}
		row.Digest = store.RowDigest(row)
		return []any{store.Commit{Room: "r", ExpectRev: -1, Row: row}}
	case "EnsureCeiling", "Grant":
		return []any{"c", store.FundsSimulated, int64(1)}
	case "Allot", "Enqueue":
		return []any{store.Allotment{ID: "a", Ceiling: "c", Funds: store.FundsSimulated, Sum: 1}}
	case "AcquireLease":
		return []any{"l", "t", "me", 1_000_000}
	case "RenewLease", "KeepLease":
		return []any{"l", "t", 1_000_000}
	}
	return nil
}

// callZero calls a method and returns its error.
func callZero(ctx context.Context, s store.Store, op Op) error {
	m := reflect.ValueOf(s).MethodByName(string(op))
	args, given := []reflect.Value{reflect.ValueOf(ctx)}, plausible(op)
	for i := 1; i < m.Type().NumIn(); i++ {
		arg := reflect.Zero(m.Type().In(i))
		if i <= len(given) {
			arg = reflect.ValueOf(given[i-1]).Convert(m.Type().In(i))
		}
		args = append(args, arg)
	}
	var out []reflect.Value
	if m.Type().IsVariadic() {
		out = m.CallSlice(args)
	} else {
		out = m.Call(args)
	}
	err, _ := out[len(out)-1].Interface().(error)
	return err
}
