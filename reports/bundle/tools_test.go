package bundle

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// documented returns the commands of the package comment under "Without this
// package": each run of lines that are indented by a tab.
func documented(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ = bytes.Cut(text, []byte("# Without this package"))
	text, _, _ = bytes.Cut(text, []byte("# Compression"))
	var out []string
	inside := false
	for line := range strings.Lines(string(text)) {
		code, ok := strings.CutPrefix(line, "//\t")
		switch {
		case ok && inside:
			out[len(out)-1] += code
		case ok:
			out = append(out, code)
		}
		inside = ok
	}
	if len(out) != 2 {
		t.Fatalf("%d commands in the package comment", len(out))
	}
	return out
}

// tool skips the test where a program is missing; want is in its --version.
func tool(t *testing.T, name, want string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, "--version").CombinedOutput()
	if err != nil || !strings.Contains(string(out), want) {
		t.Skipf("no %s here (%s)", name, want)
	}
}

// shell runs a script in a folder.
func shell(t *testing.T, folder, script string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// odd has what a packer could get wrong: order around the slash, long paths,
// letters beyond ASCII, a dash in front, sizes around a block.
func odd() contents {
	c := like(4)
	c["a"] = nil
	c["a.b"] = bytes.Repeat([]byte{1}, 511)
	c["a-b/c"] = bytes.Repeat([]byte{2}, 512)
	c["a0/d"] = bytes.Repeat([]byte{3}, 513)
	c["-rf"] = []byte("x")
	c["zz"] = nil
	c["Übung/日本.md"] = []byte("x")
	c[strings.Repeat("n", 100)] = []byte("x")
	c[strings.Repeat("m", 155)+"/"+strings.Repeat("n", 100)] = []byte("x")
	c[strings.Repeat("m", 100)+"/"+strings.Repeat("n", 54)+"/"+strings.Repeat("o", 54)] = []byte("x")
	c["o/"+strings.Repeat("m", 100)+"/"+strings.Repeat("n", 54)+"/p"] = []byte("x")
	return c
}

// TestQ8_GNUTarMakesTheSameBytes unpacks a bundle, changes what an unpacker is
// free to change, and packs it by the command in the package comment.
func TestQ8_GNUTarMakesTheSameBytes(t *testing.T) {
	t.Parallel()
	tool(t, "tar", "GNU tar")
	tool(t, "find", "GNU findutils")
	for _, withheld := range [][]string{nil, {Bodies}} {
		good := pack(t, odd(), withheld...)
		top := t.TempDir()
		folder := filepath.Join(top, "unpacked")
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(top, "in.tar"), good, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := shell(t, folder, "umask 077; tar --extract --file=../in.tar && rm report.md && ln policy.yaml report.md"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if err := os.Remove(filepath.Join(folder, "report.md")); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "report.md"), odd()["report.md"], 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := shell(t, folder, documented(t)[0]); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		again, err := os.ReadFile(filepath.Join(top, "bundle.tar"))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again, good) {
			t.Fatalf("GNU tar packs %d bytes, %d here; they differ from byte %d on", len(again), len(good), differ(again, good))
		}
		if got, want := opened(t, again).Digest(), opened(t, good).Digest(); got != want {
			t.Errorf("digest %s; want %s", got, want)
		}
	}
}

func differ(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return i
		}
	}
	return min(len(a), len(b))
}

// TestQ8_OtherTarsOfTheSameFilesAreRefused: what GNU tar writes unasked is no
// bundle, though it unpacks to the same files.
func TestQ8_OtherTarsOfTheSameFilesAreRefused(t *testing.T) {
	t.Parallel()
	tool(t, "tar", "GNU tar")
	tool(t, "find", "GNU findutils")
	command := documented(t)[0]
	for _, tc := range []struct{ name, old, new, words string }{
		{"GNU format", "--format=ustar", "--format=gnu", `magic "ustar  `},
		{"PAX format", "--format=ustar", "--format=posix", "PAX record"},
		{"old format", "--format=ustar", "--format=v7", "no ustar header"},
		{"padded", "--blocking-factor=1 ", "", "bytes follow bundle.json"},
		{"modes", "--mode=0644", "--mode=0600", `its mode is "0000600`},
		{"times", "--mtime=@0", "--mtime=@1", `its time is "00000000001`},
		{"owner", "--owner=0", "--owner=1000", `its owner is "0001750`},
		{"names", "--owner=0 --group=0 --numeric-owner", "--owner=root:0 --group=root:0", `its owner name is "root`},
		{"links", "--hard-dereference", "", "it is a hard link"},
		{"order", "LC_ALL=C sort", "LC_ALL=C sort -r", "it comes after"},
		{"index in its place", "! -path ./bundle.json", "", `names "c", which is not there`},
		{"no index", "; echo bundle.json", "", "no bundle.json"},
		{"dots", "%P", "%p", `"."`},
		{"folders", "-type f", "-mindepth 1", "it is a folder"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if strings.Count(command, tc.old) != 1 {
				t.Fatalf("the command has no %q", tc.old)
			}
			folder := filepath.Join(t.TempDir(), "unpacked")
			unpack(t, folder, pack(t, contents{"a/b": []byte("x"), "b": []byte("y"), "c": []byte("y")}))
			if tc.name == "links" {
				if out, err := shell(t, folder, "rm c && ln b c"); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
			}
			if out, err := shell(t, folder, strings.Replace(command, tc.old, tc.new, 1)); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			data, err := os.ReadFile(filepath.Join(folder, "..", "bundle.tar"))
			if err != nil {
				t.Fatal(err)
			}
			_, err = open(data)
			refused(t, err, tc.words)
		})
	}
}

// unpack writes a bundle to a new folder by package io/fs.
func unpack(t *testing.T, folder string, data []byte) {
	t.Helper()
	if err := os.CopyFS(folder, opened(t, data)); err != nil {
		t.Fatal(err)
	}
}

// TestQ8_TheIndexIsCheckedWithoutThisPackage by jq and sha256sum, as the package
// comment says.
func TestQ8_TheIndexIsCheckedWithoutThisPackage(t *testing.T) {
	t.Parallel()
	tool(t, "jq", "jq")
	tool(t, "sha256sum", "coreutils")
	command := documented(t)[1]
	folder := filepath.Join(t.TempDir(), "unpacked")
	c := odd()
	unpack(t, folder, pack(t, c))
	out, err := shell(t, folder, command)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got := strings.Count(out, ": OK\n"); got != len(c) {
		t.Errorf("%d of %d are good: %s", got, len(c), out)
	}
	if err := os.Chmod(filepath.Join(folder, "policy.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "policy.yaml"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := shell(t, folder, command); err == nil {
		t.Errorf("a changed part is good: %s", out)
	}
}

// TestQ8_AnUnpackedBundleIsWhatWasPacked: os.CopyFS gives the files, and nothing
// but them.
func TestQ8_AnUnpackedBundleIsWhatWasPacked(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "unpacked")
	c := odd()
	unpack(t, folder, pack(t, c))
	var names []string
	err := fs.WalkDir(os.DirFS(folder), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		names = append(names, path)
		data, err := os.ReadFile(filepath.Join(folder, path))
		if err == nil && path != IndexName && !bytes.Equal(data, c[path]) {
			t.Errorf("%s has other content", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(names) != len(c)+1 || !slices.Contains(names, IndexName) {
		t.Errorf("%d files of %d: %v", len(names), len(c)+1, names)
	}
}
