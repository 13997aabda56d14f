//go:build unix

package trace

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What is no regular file is refused without reading or opening it: a pipe
// without a writer would block, a device need not end.
func TestOpen_RefusesPipesAndDevices(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		pipe:        "is no regular file",
		"/dev/zero": "is no regular file",
		"":          "the file name is empty",
	} {
		if f, err := Open(path); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, %v, want an error %q", path, f, err, want)
		}
		if _, err := ImportFile(path, FormatAuto); err == nil {
			t.Errorf("%s: imported", path)
		}
	}
}
