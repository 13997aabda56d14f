package host_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// repository is the root of this module.
func repository(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above")
		}
		dir = filepath.Dir(dir)
	}
}

// A module of its own that requires this one, built without network and run
// without credentials: it applies both ledgers in a store of its own, checks
// them, and rebuilds its coordinator without repeating a call (R60).
func TestR60_AConsumerModuleUsesThePublicAPIOnly(t *testing.T) {
	t.Parallel()
	root := repository(t)
	dir := t.TempDir()
	content, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	const path = "github.com/agentrooms/qualify"
	text := strings.Replace(string(content), "module "+path, "module example.com/consumer", 1)
	if text == string(content) {
		t.Fatalf("go.mod of %s does not begin with module %s", root, path)
	}
	text += fmt.Sprintf("\nrequire %s v0.0.0\n\nreplace %s => %q\n", path, path, root)
	for name, from := range map[string]string{"go.mod": "", "go.sum": filepath.Join(root, "go.sum"), "main.go": "testdata/consumer/main.go"} {
		b := []byte(text)
		if from != "" {
			if b, err = os.ReadFile(from); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "go", "run", ".", t.TempDir())
	cmd.Dir = dir
	for _, v := range os.Environ() { // what any program has, and nothing that could be a credential
		name, _, _ := strings.Cut(v, "=")
		switch name {
		case "PATH", "HOME", "TMPDIR", "TEMP", "GOCACHE", "GOMODCACHE", "GOPATH", "GOROOT", "GOTOOLCHAIN", "LOCALAPPDATA", "USERPROFILE", "SYSTEMROOT":
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, "GOPROXY=off", "GOFLAGS=-mod=mod", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	want := []string{
		"ledger rooms: true",
		"ledger calls: true",
		`m1: 4 calls now, 4 runs completed, 8000 micros, claim "coordinator"`,
		`m2: 4 calls now, 8 runs completed, 16000 micros, claim "coordinator"`,
		`m1: 0 calls now, 8 runs completed, 16000 micros, claim "coordinator"`,
		`m2: 0 calls now, 8 runs completed, 16000 micros, claim "coordinator"`,
		"8 operations, at most 1 call each; 4 tasks, 0 doubled",
		"reviewers: auditor, controller, distinct true",
		"after the rollback: rooms 0, calls 0",
	}
	if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(string(out)), "\n")); diff != "" {
		t.Error(diff)
	}
}
