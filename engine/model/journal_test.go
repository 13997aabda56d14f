package model_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine/model"
)

func TestFileJournalSurvivesItsProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "calls")
	for i, op := range []string{"op_a", "op_b", "op_a", "op_a"} {
		j, err := model.OpenFileJournal(path) // a new process each time
		if err != nil {
			t.Fatal(err)
		}
		if got := j.Total(); got != i {
			t.Errorf("record %d: journal starts with %d calls", i, got)
		}
		if err := j.Record(op, "d"); err != nil {
			t.Fatal(err)
		}
		if i == 3 {
			if diff := cmp.Diff([]string{"op_a"}, j.Repeated()); diff != "" {
				t.Error(diff)
			}
			if j.Count("op_a") != 3 || j.Has("op_c") || !j.Has("op_b") {
				t.Errorf("counts: a %d, b %v, c %v", j.Count("op_a"), j.Has("op_b"), j.Has("op_c"))
			}
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A record cut short was never acknowledged, so its call was not made.
func TestFileJournalDropsATornRecord(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "calls")
	if err := os.WriteFile(path, []byte("op_a d\nop_b"), 0o600); err != nil {
		t.Fatal(err)
	}
	j, err := model.OpenFileJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	if j.Has("op_b") || j.Total() != 1 {
		t.Errorf("torn record counted: total %d", j.Total())
	}
	if err := j.Record("op_c", "d"); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("op_a d\nop_c d\n", string(b)); diff != "" {
		t.Error(diff)
	}
}

func TestFileJournalRefusesWhatIsNoRecord(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "calls")
	if err := os.WriteFile(path, []byte("op_a d\nnonsense\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := model.OpenFileJournal(path); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("got %v, want line 2 named", err)
	}
	j, err := model.OpenFileJournal(filepath.Join(t.TempDir(), "other"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	for _, op := range []string{"", "a b", "a\nb"} {
		if j.Record(op, "d") == nil {
			t.Errorf("operation id %q was recorded", op)
		}
	}
}
