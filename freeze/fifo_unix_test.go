//go:build unix

package freeze

import (
	"syscall"
	"testing"
)

func mkfifo(t testing.TB, path string) {
	t.Helper()
	ok(t, syscall.Mkfifo(path, 0o600))
}
