package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// brokenFile is a real file whose named step fails; a write stores half of what
// it was given first.
type brokenFile struct {
	*os.File
	step string
}

var errBroken = errors.New("broken by the test")

func (f brokenFile) Write(b []byte) (int, error) {
	if f.step == "write" {
		n, _ := f.File.Write(b[:len(b)/2])
		return n, errBroken
	}
	return f.File.Write(b)
}

func (f brokenFile) Sync() error {
	if f.step == "flush" {
		return errBroken
	}
	return f.File.Sync()
}

func (f brokenFile) Close() error {
	err := f.File.Close()
	if f.step == "close" {
		return errBroken
	}
	return err
}

// Field report 16: reports and exported traces replace a file only once they are
// whole. Whatever step of it fails, the file that was there is there still, byte
// by byte, nothing is left beside it, and the error names it.
func TestF16_AFailedReplacementKeepsTheOldFile(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"create", "write", "flush", "close", "rename", "nothing"} {
		for _, old := range []string{"the old report\n", ""} {
			t.Run(step+map[bool]string{true: " of a new file"}[old == ""], func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				path := filepath.Join(dir, "report.md")
				if old != "" {
					if err := os.WriteFile(path, []byte(old), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				d := realDisk
				d.create = func(path string) (diskFile, error) {
					if step == "create" {
						return nil, errBroken
					}
					f, err := createBeside(path)
					return brokenFile{f, step}, err
				}
				d.rename = func(from, to string) error {
					if now, err := os.ReadFile(to); old != "" && (err != nil || string(now) != old) {
						t.Errorf("the old file is gone before the new one has its name: %v", err)
					}
					if step == "rename" {
						return errBroken
					}
					return os.Rename(from, to)
				}
				err := replaceFile(d, path, []byte("the new report, which is longer\n"))
				want := map[string]string{"report.md": old}
				switch {
				case step == "nothing":
					want["report.md"] = "the new report, which is longer\n"
				case old == "":
					delete(want, "report.md")
				}
				if (step == "nothing") != (err == nil) || err != nil && (!errors.Is(err, errBroken) || !strings.Contains(err.Error(), path)) {
					t.Errorf("error %v", err)
				}
				if diff := cmp.Diff(want, folder(t, dir)); diff != "" {
					t.Errorf("files (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// folder is what the files of a folder hold.
func folder(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[e.Name()] = string(b)
	}
	return out
}

// A report that cannot get its place, and an export that fails half way, leave
// what earlier ones wrote.
func TestF16_CommandsKeepWhatTheyCannotReplace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	store := "sqlite:" + filepath.Join(dir, "q.db")
	if code, _, stderr := cli(t, "run", "builtin:demo", "--case", "answer-opening-hours-01", "--trials", "1", "--store", store); code != exitOK {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	out := filepath.Join(dir, "traces")
	if code, _, stderr := cli(t, "trace", "export", "-o", out, "--store", store); code != exitOK {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	files, err := filepath.Glob(filepath.Join(out, "*", "*", "*.jsonl"))
	if err != nil || len(files) < 3 {
		t.Fatalf("%d traces: %v", len(files), err)
	}
	before := map[string]string{}
	for _, f := range files[:len(files)-1] {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		before[f] = string(b)
	}
	// The last trace cannot get its name: something else has it.
	last := files[len(files)-1]
	if err := errors.Join(os.Remove(last), os.MkdirAll(filepath.Join(last, "kept"), 0o750)); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := cli(t, "trace", "export", "-o", out, "--store", store)
	if code == exitOK || !strings.Contains(stderr, last) || strings.Count(stderr, "\n") != 1 {
		t.Errorf("export: exit %d, stderr %q", code, stderr)
	}
	for f, want := range before {
		if b, err := os.ReadFile(f); err != nil || string(b) != want {
			t.Errorf("%s has changed: %v", f, err)
		}
	}
	if _, err := os.Stat(filepath.Join(last, "kept")); err != nil {
		t.Errorf("what had the name is gone: %v", err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(last), ".qualify-*")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	for _, verify := range [][]string{{"trace", "verify", "--store", store}, append([]string{"trace", "verify"}, files[:len(files)-1]...)} {
		if code, stdout, stderr := cli(t, verify...); code != exitOK {
			t.Errorf("%v: exit %d\n%s%s", verify, code, stdout, stderr)
		}
	}
}
