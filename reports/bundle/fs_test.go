package bundle

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestQ8_ABundleIsAFileSystem by the rules of package io/fs.
func TestQ8_ABundleIsAFileSystem(t *testing.T) {
	t.Parallel()
	c := odd()
	names := append(slices.Collect(maps.Keys(c)), IndexName)
	if err := fstest.TestFS(opened(t, pack(t, c)), names...); err != nil {
		t.Error(err)
	}
	if err := fstest.TestFS(opened(t, pack(t, contents{})), IndexName); err != nil {
		t.Error(err)
	}
}

func TestQ8_FilesAndFoldersOfABundle(t *testing.T) {
	t.Parallel()
	b := opened(t, pack(t, contents{"a.txt": []byte("hi"), "a/b": nil, "a/c/d": nil, "a0": nil}))
	for name, want := range map[string]string{
		".":     ". dr-xr-xr-x 0",
		"a":     "a dr-xr-xr-x 0",
		"a/c":   "c dr-xr-xr-x 0",
		"a.txt": "a.txt -rw-r--r-- 2",
		"a/c/d": "d -rw-r--r-- 0",
	} {
		info, err := b.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		got := info.Name() + " " + info.Mode().String() + " " + string(rune('0'+info.Size()))
		if got != want || !info.ModTime().Equal(time.Unix(0, 0)) {
			t.Errorf("%s: %s, %s; want %s", name, got, info.ModTime(), want)
		}
	}
	for folder, want := range map[string][]string{
		".":   {"a", "a.txt", "a0", "bundle.json"},
		"a":   {"b", "c"},
		"a/c": {"d"},
	} {
		list, err := b.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range list {
			got = append(got, e.Name())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", folder, diff)
		}
	}
	for _, tc := range []struct {
		name string
		want error
	}{
		{"b", fs.ErrNotExist}, {"a/", fs.ErrInvalid}, {"../a", fs.ErrInvalid}, {"/a", fs.ErrInvalid}, {"a.txt/b", fs.ErrNotExist}, {"A", fs.ErrNotExist},
	} {
		_, errRead := b.ReadFile(tc.name)
		_, errOpen := b.Open(tc.name)
		_, errStat := b.Stat(tc.name)
		_, errList := b.ReadDir(tc.name)
		for _, err := range []error{errRead, errOpen, errStat, errList} {
			if !errors.Is(err, tc.want) || errors.Is(err, ErrFormat) {
				t.Errorf("%s: %v; want %v", tc.name, err, tc.want)
			}
		}
	}
	if _, err := b.ReadFile("a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder is read: %v", err)
	}
	if _, err := b.ReadDir("a.txt"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("a part is listed: %v", err)
	}
}

// TestQ8_APartChangedAfterOpenIsFound: each bit of it, and a file cut off since.
func TestQ8_APartChangedAfterOpenIsFound(t *testing.T) {
	t.Parallel()
	data := pack(t, contents{"a": []byte("content"), "b": nil})
	b := opened(t, data) // it reads these bytes
	for i := blockSize; i < blockSize+len("content"); i++ {
		for bit := range 8 {
			data[i] ^= 1 << bit
			_, err := b.ReadFile("a")
			refused(t, err, "changed since")
			_, err = b.Open("a")
			refused(t, err, "a: ")
			data[i] ^= 1 << bit
		}
	}
	if got, err := b.ReadFile("a"); err != nil || string(got) != "content" {
		t.Errorf("%q, %v", got, err)
	}

	short := &cut{bytes.NewReader(data), int64(len(data))}
	b, err := Open(short, int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	short.size = blockSize + 3
	_, err = b.ReadFile("a")
	refused(t, err, "changed since")
}

// cut is a file that can become shorter.
type cut struct {
	io.ReaderAt
	size int64
}

func (c *cut) ReadAt(p []byte, off int64) (int, error) {
	return io.NewSectionReader(c.ReaderAt, 0, c.size).ReadAt(p, off)
}

// broken fails from a byte on.
type broken struct {
	io.ReaderAt
	from int64
	err  error
}

func (b *broken) ReadAt(p []byte, off int64) (int, error) {
	if left := b.from - off; left < int64(len(p)) {
		n, _ := b.ReaderAt.ReadAt(p[:max(left, 0)], off)
		return n, b.err
	}
	return b.ReaderAt.ReadAt(p, off)
}

// TestQ8_ADiskThatFailsIsNoFault of the bundle; one shorter than said is.
func TestQ8_ADiskThatFailsIsNoFault(t *testing.T) {
	t.Parallel()
	data := pack(t, contents{"a": bytes.Repeat([]byte("x"), 3*scanBuffer), "b": nil})
	size := int64(len(data))
	bad := errors.New("bad sector")
	for from := int64(0); from < size; from += 500 {
		if _, err := Open(&broken{bytes.NewReader(data), from, bad}, size); !errors.Is(err, bad) || errors.Is(err, ErrFormat) {
			t.Errorf("from %d on: %v", from, err)
		}
		_, err := Open(bytes.NewReader(data[:from]), size)
		refused(t, err, "in the middle")
	}
	b, err := Open(&broken{bytes.NewReader(data), size, bad}, size)
	if err != nil {
		t.Fatal(err)
	}
	b.r = &broken{bytes.NewReader(data), 600, bad}
	if _, err := b.ReadFile("a"); !errors.Is(err, bad) || errors.Is(err, ErrFormat) {
		t.Error(err)
	}
	_, err = Open(bytes.NewReader(nil), -blockSize)
	refused(t, err, "no multiple")
}

// TestQ8_ABundleIsReadByManyAtOnce.
func TestQ8_ABundleIsReadByManyAtOnce(t *testing.T) {
	t.Parallel()
	c := like(20)
	b := opened(t, pack(t, c))
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for _, name := range b.Names() {
				if got, err := b.ReadFile(name); err != nil || !bytes.Equal(got, c[name]) {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	wg.Wait()
}
