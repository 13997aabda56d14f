package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestQ8_NoOutputDestroysWhatIsNeeded: an output is never the store, a file that
// SQLite keeps beside it, a case or a sealed file of the corpus that is read, or
// a key of sealed corpora; nor does it take the place of a link. Each is refused
// before anything is computed, and stays as it was.
func TestQ8_NoOutputDestroysWhatIsNeeded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, filepath.FromSlash(name)) }
	files := map[string]string{
		"s.db": "store", "s.db-wal": "log", "cases/shed/a.yaml": "case", "cases.sealed": "{}", "corpus.key": "key", "other.txt": "other", "b.tar.zst": "bundle",
	}
	for name, content := range files {
		if err := os.MkdirAll(filepath.Dir(at(name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at(name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("other.txt", at("link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", at("dangling")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("cases", at("folder")); err != nil {
		t.Fatal(err)
	}
	store := "sqlite:" + at("s.db")
	code, recipient, talk := command(t, "corpus", "keygen", "-o", at("new.key"))
	if code != exitOK {
		t.Fatal(talk)
	}
	commands := map[string][]string{
		"report":        {"report", "c", "--corpus", at("cases"), "--store", store, "-o"},
		"report bundle": {"report", "bundle", "c", "--corpus", at("cases"), "--store", store, "-o"},
		"gate --junit":  {"gate", "c", "--corpus", at("cases"), "--store", store, "--junit"},
		"attest sign":   {"attest", "sign", "c", "--corpus", at("cases"), "--key", at("none"), "--store", store, "-o"},
		"freeze create": {"freeze", "create", at("none.yaml"), "--store", store, "-o"},
		"freeze log":    {"freeze", "log", "--store", store, "--export"},
		"corpus seal":   {"corpus", "seal", at("cases"), "--to", strings.TrimSpace(recipient), "--store", store, "-o"},
	}
	for _, args := range commands {
		for _, out := range []string{"s.db", "s.db-wal", "s.db-shm", "s.db-journal"} {
			refused(t, exitRefused, "is a file of the store", append(args, at(out))...)
		}
		refused(t, exitUsage, "is a link", append(args, at("link"))...)
		refused(t, exitUsage, "is a link", append(args, at("dangling"))...)
		if strings.Contains(strings.Join(args, " "), "--corpus ") {
			refused(t, exitRefused, "this command reads that file", append(args, at("cases/shed/a.yaml"))...)
			refused(t, exitRefused, "this command reads that file", append(args, at("folder/shed/a.yaml"))...)
		}
		refused(t, exitRefused, "this command reads that file", append([]string{"--corpus-key", at("corpus.key")}, append(args, at("corpus.key"))...)...)
	}
	refused(t, exitRefused, "this command reads that file", "report", "bundle", "c", "--corpus", at("cases.sealed"), "--store", store, "-o", at("cases.sealed"))
	refused(t, exitRefused, "this command reads that file", "report", "bundle", "c", "--store", "bundle:"+at("b.tar.zst"), "-o", at("b.tar.zst"))
	for name, want := range files {
		if got, err := os.ReadFile(at(name)); err != nil || string(got) != want {
			t.Errorf("%s is %q, %v", name, got, err)
		}
	}
	if left, err := filepath.Glob(at(".qualify*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// refused runs a command that must end with a code and one line with these words.
func refused(t *testing.T, exit int, words string, args ...string) {
	t.Helper()
	code, _, talk := command(t, args...)
	if code != exit || !strings.Contains(talk, words) || strings.Count(talk, "\n") != 1 {
		t.Errorf("%v: exit %d, %s; want exit %d, one line with %q", args, code, talk, exit, words)
	}
}
