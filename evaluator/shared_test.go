package evaluator

import (
	"os"
	"path/filepath"
	"testing"
)

const (
	airlineFile = "data/tau-bench/gpt-4o-airline.trials-0-1.json"
	retailFile  = "data/tau-retail/tool-calling-none-0.1_range_0-100_user-none-llm_06232025.json"
)

// sharedFile finds a file of the shared folder beside the repository, or skips.
func sharedFile(t *testing.T, name string) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no go.mod above the test")
		}
		dir = up
	}
	p := filepath.Join(dir, "..", "shared", filepath.FromSlash(name))
	if _, err := os.Stat(p); err != nil {
		t.Skipf("shared data absent: %s", name)
	}
	return p
}
