package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/sqlite"
)

// Field report 16: a backup that is killed leaves parts beside its target; the
// next backup to the same target removes them and is whole.
func TestF16_TheNextBackupSweepsUpAfterAKilledOne(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target, url := filepath.Join(dir, "copy.db"), "sqlite:"+filepath.Join(t.TempDir(), "q.db")
	large(t, strings.TrimPrefix(url, "sqlite:"))
	parts := func() []string {
		found, err := filepath.Glob(filepath.Join(dir, ".copy.db.*"))
		must(t, err)
		return found
	}
	for try := 0; len(parts()) == 0; try++ {
		if try == 10 {
			t.Fatal("ten backups ended before they could be killed")
		}
		must(t, os.RemoveAll(target))
		cmd := exec.Command(qualifyBin(t), "store", "backup", target, "--store", url)
		must(t, cmd.Start())
		until(t, "a part, or the end", func() bool { return len(parts()) > 1 || fileExists(target) })
		time.Sleep(time.Millisecond)
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	}
	t.Logf("left by a killed backup: %q", parts())
	must(t, os.RemoveAll(target)) // whole, if it had its name already
	code, out, talk := command(t, "store", "backup", target, "--store", url)
	if code != exitOK || !strings.Contains(out, "checked") {
		t.Fatalf("exit %d: %s", code, talk)
	}
	if left := parts(); len(left) > 0 {
		t.Errorf("still there: %q", left)
	}
}

// large makes a store of about 30 MB.
func large(t *testing.T, path string) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), path, sqlite.Options{Create: true})
	must(t, err)
	must(t, s.PutCampaign(t.Context(), store.Campaign{ID: "c_1", Name: "large", Plan: []byte("{}"), Status: "running"}))
	for i := range 30 {
		key := fmt.Sprint(i)
		must(t, s.PutTrace(t.Context(), "c_1", key, key, bytes.Repeat([]byte(key), 1<<19)))
	}
	must(t, s.Close())
}
