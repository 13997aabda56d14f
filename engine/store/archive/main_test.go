package archive_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/archive"
	"github.com/agentrooms/qualify/engine/store/memory"
	"github.com/agentrooms/qualify/engine/store/sqlite"
)

// folder is an archive in memory.
type folder map[string][]byte

func (f folder) Names() []string { return slices.Sorted(maps.Keys(f)) }

func (f folder) ReadFile(name string) ([]byte, error) {
	b, ok := f[name]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return b, nil
}

// with is the folder with one file changed; nil removes it.
func (f folder) with(name string, content []byte) folder {
	c := maps.Clone(f)
	if c[name] = content; content == nil {
		delete(c, name)
	}
	return c
}

// diff is the difference of two folders, "" when they are equal.
func (f folder) diff(other folder) string {
	if maps.EqualFunc(f, other, bytes.Equal) {
		return "" // quicker than cmp
	}
	return cmp.Diff(f, other)
}

// fatal is what *testing.T and *rapid.T have in common.
type fatal interface {
	Helper()
	Fatalf(format string, args ...any)
}

// export exports a campaign; the order of the files is checked.
func export(t *testing.T, st store.Store, campaign string, o archive.Options) (folder, error) {
	t.Helper()
	out, last := folder{}, ""
	err := archive.Export(t.Context(), st, campaign, o, func(name string, content []byte) error {
		if name <= last {
			return fmt.Errorf("%s is added behind %s", name, last)
		}
		out[name], last = bytes.Clone(content), name
		if out[name] == nil {
			out[name] = []byte{}
		}
		return nil
	})
	return out, err
}

func mustExport(t *testing.T, st store.Store, campaign string, o archive.Options) folder {
	t.Helper()
	return must(export(t, st, campaign, o))(t, "export")
}

func mustOpen(t *testing.T, f folder) *archive.Store {
	t.Helper()
	s := must(archive.Open(f))(t, "open")
	if err := s.Check(t.Context()); err != nil {
		t.Fatalf("check: %v", err)
	}
	return s
}

func must[T any](v T, err error) func(t fatal, what string) T {
	return func(t fatal, what string) T {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return v
	}
}

// both are the stores that archives come from.
func both(t *testing.T) map[string]store.Store {
	t.Helper()
	file := must(sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "q.db"), sqlite.Options{Create: true}))(t, "open SQLite")
	t.Cleanup(func() {
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
	return map[string]store.Store{"memory": memory.New(memory.Options{}), "sqlite": file}
}

// word is the sentinel of an error.
func word(err error) string {
	if err == nil {
		return "ok"
	}
	for _, s := range []error{
		store.ErrNotFound, store.ErrExists, store.ErrConflict, store.ErrReceiptMismatch, store.ErrAlreadyDispatched, store.ErrHalted,
		store.ErrBelowSpent, store.ErrExhausted, store.ErrClosed, store.ErrInvalid, store.ErrCorrupt, store.ErrReadOnly,
	} {
		if errors.Is(err, s) {
			return s.Error()
		}
	}
	return "other: " + err.Error()
}
