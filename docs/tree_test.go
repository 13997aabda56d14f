package docs_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// mostTracked bounds a file of the repository, in bytes: larger ones are data or
// builds, which everybody who clones would carry for ever.
const mostTracked = 1 << 20

// builds are how the files begin that compilers make.
var builds = map[string][]byte{
	"ELF": []byte("\x7fELF"), "PE": []byte("MZ"), "Mach-O": []byte("\xcf\xfa\xed\xfe"), "archive": []byte("!<arch>\n"), "SQLite": []byte("SQLite format 3\x00"),
}

func TestTheRepositoryHoldsSourceOnly(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat(filepath.Join(repoRoot, ".git")); err != nil {
		t.Skip("not a git clone: what is tracked cannot be listed")
	}
	out, err := exec.CommandContext(t.Context(), "git", "-C", repoRoot, "ls-files", "-z").Output()
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(out), "\x00"), "\x00") {
		f, err := os.Open(filepath.Join(repoRoot, name))
		if errors.Is(err, os.ErrNotExist) {
			continue // removed, and not committed yet
		}
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		head := make([]byte, 16)
		n, readErr := io.ReadFull(f, head)
		if errors.Is(readErr, io.EOF) || errors.Is(readErr, io.ErrUnexpectedEOF) {
			readErr = nil
		}
		if err := errors.Join(err, readErr, f.Close()); err != nil {
			t.Fatal(err)
		}
		if info.Size() > mostTracked {
			t.Errorf("%s has %d bytes", name, info.Size())
		}
		for kind, magic := range builds {
			if bytes.HasPrefix(head[:n], magic) {
				t.Errorf("%s is a built file (%s)", name, kind)
			}
		}
	}
}
