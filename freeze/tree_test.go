package freeze

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/mod/sumdb/dirhash"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// tmp is a folder with the given files: name to content. A name that ends in
// "*" is executable without it.
func tmp(t testing.TB, content map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range content {
		put(t, dir, name, text)
	}
	return dir
}

func put(t testing.TB, dir, name, text string) {
	t.Helper()
	mode := os.FileMode(0o644)
	if n, ok := strings.CutSuffix(name, "*"); ok {
		name, mode = n, 0o755
	}
	p := filepath.Join(dir, filepath.FromSlash(name))
	ok(t, os.MkdirAll(filepath.Dir(p), 0o755))
	ok(t, os.WriteFile(p, []byte(text), mode))
	ok(t, os.Chmod(p, mode))
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// hashed hashes the whole of a folder.
func hashed(t testing.TB, dir string, o HashOptions) []Tree {
	t.Helper()
	if o.Include == nil {
		o.Include = []string{"."}
	}
	trees, err := HashTrees(t.Context(), dir, o)
	ok(t, err)
	return trees
}

// refused hashes a folder and wants one of these errors, with all of these words.
func refused(t *testing.T, dir string, o HashOptions, target error, words ...string) {
	t.Helper()
	if o.Include == nil {
		o.Include = []string{"."}
	}
	trees, err := HashTrees(t.Context(), dir, o)
	if err == nil {
		t.Fatalf("hashed %v; want an error with %q", trees, words)
	}
	if target != nil && !errors.Is(err, target) {
		t.Errorf("error %q is not %q", err, target)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

// TestQ4_H1Vector is the vector of statistics.md §15.
func TestQ4_H1Vector(t *testing.T) {
	t.Parallel()
	dir := tmp(t, map[string]string{"prefix/abc": "data for abc", "prefix/xyz": "data for xyz"})
	got := hashed(t, dir, HashOptions{Include: []string{"prefix"}})
	const want = "h1:rLyfpGMAgqOnGE2aKOY5Xb6cOc0/YQhPjHBHBwkblhs="
	if len(got) != 1 || got[0].H1 != want {
		t.Errorf("trees %+v, want h1 %s", got, want)
	}
}

// TestQ4_H1IsThatOfDirhash compares with the library on random trees.
func TestQ4_H1IsThatOfDirhash(t *testing.T) {
	t.Parallel()
	base, n := t.TempDir(), 0
	rapid.Check(t, func(r *rapid.T) {
		content := rapid.MapOfN(rapid.StringMatching(`([a-c]/){0,2}[d-f]{1,3}\.?[g-i]?`), rapid.StringMatching(`[a\r\n\x00é]{0,9}`), 1, 9).Draw(r, "files")
		n++
		dir := filepath.Join(base, fmt.Sprint(n))
		var names []string
		for name, text := range content {
			put(t, dir, name, text)
			names = append(names, name)
		}
		got := hashed(t, dir, HashOptions{})
		want, err := dirhash.Hash1(names, func(name string) (io.ReadCloser, error) { return os.Open(filepath.Join(dir, name)) })
		ok(t, err)
		if got[0].H1 != want {
			r.Fatalf("h1 %s, dirhash %s for %q", got[0].H1, want, content)
		}
		if len(got[0].Files) != len(content) {
			r.Fatalf("%d files of %d", len(got[0].Files), len(content))
		}
	})
}

func TestQ4_TreesAreNamedAndPatternsLeaveOut(t *testing.T) {
	t.Parallel()
	dir := tmp(t, map[string]string{
		"go.mod": "m", "a/one.go": "1", "a/docs/x.md": "x", "a/deep/y.tmp": "y", ".git/HEAD": "h", "a/.qualify/q.db": "q", "docs/z.md": "z", "b/run.sh*": "r",
	})
	names := func(trees []Tree) map[string][]string {
		out := map[string][]string{}
		for _, x := range trees {
			out[x.Path] = []string{}
			for _, f := range x.Files {
				out[x.Path] = append(out[x.Path], f.Name)
			}
		}
		return out
	}
	for _, tc := range []struct {
		name string
		o    HashOptions
		want map[string][]string
	}{
		{"all", HashOptions{}, map[string][]string{".": {"a/deep/y.tmp", "a/docs/x.md", "a/one.go", "b/run.sh", "docs/z.md", "go.mod"}}},
		{"by base name", HashOptions{Exclude: []string{"docs", "*.tmp"}}, map[string][]string{".": {"a/one.go", "b/run.sh", "go.mod"}}},
		{"by path", HashOptions{Exclude: []string{"docs/*", "a/d*/"}}, map[string][]string{".": {"a/one.go", "b/run.sh", "go.mod"}}},
		{"at the root", HashOptions{Exclude: []string{"/docs", "/one.go", "/a/deep"}}, map[string][]string{".": {"a/docs/x.md", "a/one.go", "b/run.sh", "go.mod"}}},
		{"files and folders", HashOptions{Include: []string{"go.mod", "b/", "./a/deep"}}, map[string][]string{"go.mod": {"go.mod"}, "b": {"b/run.sh"}, "a/deep": {"a/deep/y.tmp"}}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, names(hashed(t, dir, tc.o))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for _, tc := range []struct {
		include, exclude []string
		word             string
	}{
		{[]string{"gone"}, nil, "include gone: file does not exist; make it first, or leave it out"},
		{[]string{"a", "a/deep"}, nil, "covered by include a already"},
		{[]string{".", "b"}, nil, "covered by include . already"},
		{[]string{"../x"}, nil, "no path inside the root"},
		{[]string{"/etc"}, nil, "no path inside the root"},
		{[]string{""}, nil, "no path inside the root"},
		{[]string{}, nil, "nothing to freeze"},
		{[]string{"docs"}, []string{"*.md"}, "include docs: holds no file"},
		{[]string{"."}, []string{"["}, "no pattern"},
	} {
		refused(t, dir, HashOptions{Include: append([]string{}, tc.include...), Exclude: tc.exclude}, nil, tc.word)
	}
}

func TestQ4_LinksAreHashedAsLinksOrRefused(t *testing.T) {
	t.Parallel()
	dir := tmp(t, map[string]string{"a/f": "content", "b/g": "other"})
	ok(t, os.Symlink("f", filepath.Join(dir, "a", "inside")))
	ok(t, os.Symlink("../b", filepath.Join(dir, "a", "folder")))
	one := hashed(t, dir, HashOptions{})
	want := File{Name: "a/inside", Size: 1, SHA256: digest([]byte("f")), Link: true, To: "f"}
	if diff := cmp.Diff(want, one[0].Files[2]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(one[0].Files) != 4 {
		t.Errorf("the link to a folder was followed: %+v", one[0].Files)
	}
	refused(t, dir, HashOptions{Include: []string{"a"}}, ErrUnfreezable, "a/folder: ", `link to "../b", which the freeze does not cover`)
	refused(t, dir, HashOptions{Include: []string{"a/folder/g"}}, ErrUnfreezable, "a/folder is a link")
	for _, to := range []string{"/etc/passwd", "../../up", "gone", "folder/g"} {
		link := filepath.Join(dir, "a", "bad")
		ok(t, os.Symlink(to, link))
		refused(t, dir, HashOptions{}, ErrUnfreezable, "a/bad: ", to)
		ok(t, os.Remove(link))
	}
	ok(t, os.Remove(filepath.Join(dir, "a", "inside")))
	put(t, dir, "a/inside", "f") // the same bytes, but no link
	ds := Diff(manifestOf(one), manifestOf(hashed(t, dir, HashOptions{})))
	if len(ds) != 1 || ds[0].Part != "file" || ds[0].Name != "a/inside" || !strings.Contains(ds[0].Note, "link") {
		t.Errorf("a link that became a file: %v", ds)
	}
}

func TestQ4_CollidingNamesAreRefused(t *testing.T) {
	t.Parallel()
	for _, names := range [][2]string{
		{"Readme.md", "readme.md"}, {"A/x", "a/y"}, {"stra\u00dfe", "STRASSE"}, {"caf\u00e9", "cafe\u0301"}, {"k", "\u212a"},
	} {
		dir := tmp(t, map[string]string{names[0]: "1", names[1]: "2"})
		refused(t, dir, HashOptions{}, ErrUnfreezable, "on some systems it is the same file as")
	}
	hashed(t, tmp(t, map[string]string{"a/x": "1", "b/x": "2", "ab": "3", "\u00e9": "4", "e": "5"}), HashOptions{})
}

func TestQ4_LineEndsAndPermissionsAreToldApart(t *testing.T) {
	t.Parallel()
	dir := tmp(t, map[string]string{"unix": "a\nb\n", "dos": "a\r\nb\r\n", "mixed": "a\r\nb\n", "tool": "x", "text": "y"})
	before := hashed(t, dir, HashOptions{})
	put(t, dir, "unix", "a\r\nb\r\n")
	put(t, dir, "dos", "a\nb\n")
	put(t, dir, "mixed", "a\nb\r\n")
	put(t, dir, "tool*", "x")
	put(t, dir, "text", "z\r\n")
	got := map[string]string{}
	for _, d := range Diff(manifestOf(before), manifestOf(hashed(t, dir, HashOptions{}))) {
		if d.Part == "file" {
			got[d.Name] = d.Note
			if d.Old == d.New {
				t.Errorf("%s: old and new are both %s", d.Name, d.Old)
			}
		}
	}
	const ends = "line ends only: check the eol settings of the checkout"
	want := map[string]string{"unix": ends, "dos": ends, "mixed": ends, "tool": "permission to execute only", "text": ""}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	ok(t, os.Chmod(filepath.Join(dir, "text"), 0o600))
	after := hashed(t, dir, HashOptions{})
	ok(t, os.Chmod(filepath.Join(dir, "text"), 0o444))
	if diff := cmp.Diff(after, hashed(t, dir, HashOptions{})); diff != "" {
		t.Errorf("permissions that a checkout does not keep are in the manifest (-before +after):\n%s", diff)
	}
}

func TestQ4_SpecialFilesAndBadNamesAreRefused(t *testing.T) {
	t.Parallel()
	dir := tmp(t, map[string]string{"a": "1"})
	mkfifo(t, filepath.Join(dir, "pipe"))
	refused(t, dir, HashOptions{}, ErrUnfreezable, "pipe: ", "neither file, folder nor link")
	hashed(t, dir, HashOptions{Exclude: []string{"pipe"}})
	for _, name := range []string{"two\nlines", "\xff"} {
		d := tmp(t, map[string]string{name: "1"})
		refused(t, d, HashOptions{}, ErrUnfreezable, "valid UTF-8 on one line")
	}
}

// TestQ4_WhatChangesWhileHashingIsFound changes a tree at each moment of the
// work; none may give a digest.
func TestQ4_WhatChangesWhileHashingIsFound(t *testing.T) {
	t.Parallel()
	path := func(dir, name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	for _, tc := range []struct {
		name, at, word string // at: operation and file
		change         func(t *testing.T, dir string)
	}{
		{"vanished before it is read", "open d/f", "d/f: vanished", func(t *testing.T, dir string) { ok(t, os.Remove(path(dir, "d/f"))) }},
		{"vanished after it was read", "read d/f", "d/f: ", func(t *testing.T, dir string) { ok(t, os.Remove(path(dir, "d/f"))) }},
		{"folder vanished", "listed ", "vanished", func(t *testing.T, dir string) { ok(t, os.RemoveAll(path(dir, "d"))) }},
		{"grew", "open d/f", "d/f: changed", func(t *testing.T, dir string) { put(t, dir, "d/f", "longer") }},
		{"shrank", "read d/f", "d/f: changed", func(t *testing.T, dir string) { put(t, dir, "d/f", "") }},
		{"same size", "read d/f", "d/f: changed", func(t *testing.T, dir string) { put(t, dir, "d/f", "two") }},
		{"replaced by another file", "open d/f", "d/f: changed", func(t *testing.T, dir string) {
			put(t, dir, "d/new", "one")
			ok(t, os.Rename(path(dir, "d/new"), path(dir, "d/f")))
		}},
		{"replaced by a link", "open d/f", "d/f: changed", func(t *testing.T, dir string) {
			ok(t, os.Remove(path(dir, "d/f")))
			ok(t, os.Symlink("../z", path(dir, "d/f")))
		}},
		{"replaced by a pipe", "open d/f", "d/f: changed", func(t *testing.T, dir string) {
			ok(t, os.Remove(path(dir, "d/f")))
			mkfifo(t, path(dir, "d/f"))
		}},
		{"folder replaced by a link", "listed ", "d/f: ", func(t *testing.T, dir string) {
			ok(t, os.Rename(path(dir, "d"), path(dir, "e")))
			ok(t, os.Symlink("e", path(dir, "d")))
		}},
		{"written to after it was hashed", "read z", "d/f: changed", func(t *testing.T, dir string) { put(t, dir, "d/f", "two") }},
		{"made executable", "read z", "d/f: changed", func(t *testing.T, dir string) { ok(t, os.Chmod(path(dir, "d/f"), 0o755)) }},
		{"appeared", "read z", "d/g: appeared", func(t *testing.T, dir string) { put(t, dir, "d/g", "new") }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			dir := tmp(t, map[string]string{"d/f": "one", "z": "last"})
			done := false
			refused(t, dir, HashOptions{probe: func(op, name string) error {
				if op+" "+name == tc.at && !done {
					done = true
					tc.change(t, dir)
				}
				return nil
			}}, ErrChanged, tc.word)
			if !done {
				t.Fatalf("nothing happened at %q", tc.at)
			}
		})
	}
}

// TestQ4_UnreadableFilesAreAllNamed lets reading fail as it does for users who
// may not read (root may read everything, so that permissions prove nothing).
func TestQ4_UnreadableFilesAreAllNamed(t *testing.T) {
	t.Parallel()
	dir := tmp(t, map[string]string{"a/1": "x", "a/2": "x", "b/3": "x", "b/4": "x"})
	for _, op := range []string{"open", "read"} {
		probe := func(at, name string) error {
			if at == op && name != "a/2" {
				return &os.PathError{Op: at, Path: "/secret/path", Err: syscall.EACCES}
			}
			return nil
		}
		refused(t, dir, HashOptions{probe: probe}, syscall.EACCES, "a/1: cannot be read: permission denied", "b/3: ", "b/4: ", "exclude it")
	}
	if os.Getuid() != 0 {
		ok(t, os.Chmod(filepath.Join(dir, "a/1"), 0))
		ok(t, os.Chmod(filepath.Join(dir, "b"), 0))
		refused(t, dir, HashOptions{}, syscall.EACCES, "b: cannot be read: permission denied")
		ok(t, os.Chmod(filepath.Join(dir, "b"), 0o755))
		refused(t, dir, HashOptions{}, syscall.EACCES, "a/1: cannot be read: permission denied")
	}
}

func TestQ4_ManyFaultsAreCounted(t *testing.T) {
	t.Parallel()
	content := map[string]string{}
	for i := range mostFaults + 7 {
		content[fmt.Sprintf("f%03d", i)] = ""
	}
	refused(t, tmp(t, content), HashOptions{probe: func(op, _ string) error {
		if op == "open" {
			return syscall.EIO
		}
		return nil
	}}, syscall.EIO, "f000: ", "and 7 more")
}

// TestQ4_HugeFilesAreStreamed hashes a file of 256 MiB in little memory, stops in
// its middle when asked to, and gives the digest of a plain SHA-256.
func TestQ4_HugeFilesAreStreamed(t *testing.T) { // not parallel: it counts what the process allocates
	dir := t.TempDir()
	const size = 256 << 20
	f, err := os.Create(filepath.Join(dir, "huge"))
	ok(t, err)
	ok(t, f.Truncate(size))
	_, err = f.WriteAt([]byte("end\r\n"), size-5)
	ok(t, err)
	ok(t, f.Close())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := hashed(t, dir, HashOptions{})[0]
	runtime.ReadMemStats(&after)
	want, err := dirhash.HashDir(dir, "", dirhash.Hash1)
	ok(t, err)
	if got.H1 != want || got.Files[0].Size != size || got.Files[0].LF != "" {
		t.Errorf("got %+v, want h1 %s", got, want)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > size/2 {
		t.Errorf("allocated %d bytes for a file of %d", used, size)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	_, err = HashTrees(ctx, dir, HashOptions{Include: []string{"."}, probe: func(op, _ string) error {
		if op == "open" {
			cancel()
		}
		return nil
	}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled while reading: %v", err)
	}
}

// TestQ4_OnlyACacheTakesFilesAsUnchanged: without a cache every byte is read,
// with one only what may have changed; a file written just before is not kept.
func TestQ4_OnlyACacheTakesFilesAsUnchanged(t *testing.T) {
	t.Parallel()
	dir := tmp(t, map[string]string{"a": "one", "b": "two\r\n", "c/d": "three"})
	reads := func(c *Cache) (int, []Tree) {
		var n atomic.Int64 // files are opened side by side
		trees := hashed(t, dir, HashOptions{Cache: c, probe: func(op, _ string) error {
			if op == "open" {
				n.Add(1)
			}
			return nil
		}})
		return int(n.Load()), trees
	}
	cache := func(data []byte, at time.Time) *Cache {
		c, err := NewCache(data, at)
		ok(t, err)
		return c
	}
	data := func(c *Cache) []byte {
		b, err := c.Bytes()
		ok(t, err)
		return b
	}
	now := time.Now()
	young := cache(nil, now)
	reads(young)
	if n, _ := reads(cache(data(young), now)); n != 3 {
		t.Errorf("files written just now: %d read, want 3", n)
	}
	later := now.Add(time.Hour)
	first := cache(nil, later)
	_, want := reads(first)
	second := cache(data(first), later)
	n, got := reads(second)
	if n != 0 {
		t.Errorf("nothing changed: %d read, want 0", n)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-without +with):\n%s", diff)
	}
	info, err := os.Stat(filepath.Join(dir, "a"))
	ok(t, err)
	put(t, dir, "a", "ONE") // same size, and the old time put back
	ok(t, os.Chtimes(filepath.Join(dir, "a"), info.ModTime(), info.ModTime()))
	if n, got = reads(cache(data(second), later)); n != 1 || got[0].H1 == want[0].H1 {
		t.Errorf("a changed file with its old size and time: %d read, want 1; h1 %s", n, got[0].H1)
	}
	if n, _ = reads(nil); n != 3 {
		t.Errorf("without a cache: %d read, want 3", n)
	}
	for _, bad := range []string{"", "[]", `{"schema":"x"}`, `{`} {
		if _, err := NewCache([]byte(bad), now); err == nil || !strings.Contains(err.Error(), "delete it") {
			t.Errorf("cache %q: %v", bad, err)
		}
	}
}

// manyFiles is a folder of 100,000 files of 2 KB in 1,000 folders.
func manyFiles(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for i := range 100_000 {
		if i%100 == 0 {
			ok(t, os.MkdirAll(filepath.Join(dir, fmt.Sprint(i/10_000), fmt.Sprint(i/100)), 0o755))
		}
		name := filepath.Join(dir, fmt.Sprint(i/10_000), fmt.Sprint(i/100), fmt.Sprint("file", i, ".go"))
		ok(t, os.WriteFile(name, fmt.Appendf(nil, "package x\n// %d\n%s", i, strings.Repeat("line\n", 400)), 0o644))
	}
	return dir
}

// TestQ4_AHundredThousandFiles are read whole in less than a minute, which is
// several times what it takes (BenchmarkTree), and none of them again with a cache
// when nothing has changed; the digests are the same.
func TestQ4_AHundredThousandFiles(t *testing.T) { // not parallel: it measures
	if os.Getenv("QUALIFY_LONG") == "" {
		t.Skip("it makes 100,000 files; set QUALIFY_LONG")
	}
	dir, at := manyFiles(t), time.Now().Add(time.Hour)
	var read atomic.Int64
	probe := func(op, _ string) error {
		if op == "open" {
			read.Add(1)
		}
		return nil
	}
	verified := func(data []byte) ([]Tree, []byte, time.Duration) {
		c, err := NewCache(data, at)
		ok(t, err)
		read.Store(0)
		began := time.Now()
		trees := hashed(t, dir, HashOptions{Cache: c, probe: probe})
		took := time.Since(began)
		kept, err := c.Bytes()
		ok(t, err)
		return trees, kept, took
	}
	whole, kept, first := verified(nil)
	if n := read.Load(); n != 100_000 || len(whole[0].Files) != 100_000 || first > time.Minute {
		t.Errorf("%d files read, %d listed, in %s", n, len(whole[0].Files), first)
	}
	again, _, second := verified(kept)
	if n := read.Load(); n != 0 || again[0].H1 != whole[0].H1 || second > time.Minute {
		t.Errorf("nothing changed: %d files read in %s, h1 %s and %s", n, second, again[0].H1, whole[0].H1)
	}
	t.Logf("whole %s, incremental %s", first, second)
}

// BenchmarkTree hashes 100,000 files in 1,000 folders, with every byte read and
// with a cache.
func BenchmarkTree(b *testing.B) {
	dir := manyFiles(b)
	b.Run("whole", func(b *testing.B) {
		for b.Loop() {
			hashed(b, dir, HashOptions{})
		}
	})
	b.Run("incremental", func(b *testing.B) {
		at := time.Now().Add(time.Hour)
		c, err := NewCache(nil, at)
		ok(b, err)
		hashed(b, dir, HashOptions{Cache: c})
		data, err := c.Bytes()
		ok(b, err)
		for b.Loop() {
			c, err := NewCache(data, at)
			ok(b, err)
			hashed(b, dir, HashOptions{Cache: c})
		}
	})
}
