package freeze

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/agentrooms/qualify/engine"
)

func rowsOf(t testing.TB, l Log) []Row {
	t.Helper()
	rows, err := l.SealLog(t.Context())
	ok(t, err)
	return rows
}

func TestQ4_AFileKeepsTheLog(t *testing.T) {
	t.Parallel()
	l := FileLog{filepath.Join(t.TempDir(), "seal.jsonl")}
	if rows := rowsOf(t, l); len(rows) != 0 {
		t.Errorf("no file: %v", rows)
	}
	for _, e := range story(t) {
		_, err := Append(t.Context(), l, e.kind, e.body)
		ok(t, err)
	}
	if diff := cmp.Diff(logOf(t, story(t)), rowsOf(t, l)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	data, err := os.ReadFile(l.Path)
	ok(t, err)
	if string(data) != string(exported(t, rowsOf(t, l))) {
		t.Error("the file is not what Export writes")
	}
}

// TestQ4_ABrokenFileIsLeftAsItIs: nothing is appended to a file that is cut off
// within a row, edited or no log.
func TestQ4_ABrokenFileIsLeftAsItIs(t *testing.T) {
	t.Parallel()
	whole := string(exported(t, logOf(t, story(t)[:2])))
	for name, text := range map[string]string{
		"torn": whole[:len(whole)-9], "edited": strings.Replace(whole, `"vcs:abc"`, `"vcs:abd"`, 1), "no log": "hello\n", "blank line": whole + "\n",
	} {
		l := FileLog{filepath.Join(t.TempDir(), "seal.jsonl")}
		ok(t, os.WriteFile(l.Path, []byte(text), 0o600))
		if _, err := l.AppendSeal(t.Context(), KindUse, []byte("{}")); !errors.Is(err, ErrLog) || !strings.Contains(err.Error(), l.Path) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := (Mirror{Store: new(listLog), File: l}).SealLog(t.Context()); !errors.Is(err, ErrLog) {
			t.Errorf("%s, mirrored: %v", name, err)
		}
		data, err := os.ReadFile(l.Path)
		ok(t, err)
		if string(data) != text {
			t.Errorf("%s: the file became %q", name, data)
		}
	}
	dir := t.TempDir()
	if _, err := (FileLog{dir}).SealLog(t.Context()); err == nil {
		t.Error("a folder is read as a log")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (FileLog{filepath.Join(dir, "x")}).AppendSeal(ctx, KindUse, []byte("{}")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := (FileLog{filepath.Join(dir, "gone", "x")}).AppendSeal(t.Context(), KindUse, []byte("{}")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	if _, err := (FileLog{filepath.Join(dir, "x")}).AppendSeal(t.Context(), KindUse, []byte("no JSON")); !errors.Is(err, ErrLog) {
		t.Errorf("a body that is no JSON: %v", err)
	}
}

// TestQ4_APipeIsNoLog: nobody writes to this one, and nobody waits for it.
func TestQ4_APipeIsNoLog(t *testing.T) {
	t.Parallel()
	l := FileLog{filepath.Join(t.TempDir(), "seal.jsonl")}
	mkfifo(t, l.Path)
	if _, err := l.SealLog(t.Context()); !errors.Is(err, ErrLog) || !strings.Contains(err.Error(), "is no regular file; name a file") {
		t.Errorf("a pipe is read as a log: %v", err)
	}
	if _, err := l.AppendSeal(t.Context(), KindUse, []byte("{}")); !errors.Is(err, ErrLog) {
		t.Errorf("a pipe is appended to as a log: %v", err)
	}
}

// TestQ4_AFileTakesOverWhatItLacks, and nothing of a log that is another one or
// no chain.
func TestQ4_AFileTakesOverWhatItLacks(t *testing.T) {
	t.Parallel()
	rows := logOf(t, story(t))
	l := FileLog{filepath.Join(t.TempDir(), "seal.jsonl")}
	for _, upTo := range []int{2, 2, len(rows), 1} {
		before := len(rowsOf(t, l))
		n, err := l.TakeOver(t.Context(), rows[:upTo])
		if want := max(0, upTo-before); err != nil || n != want {
			t.Errorf("up to row %d of a file of %d: %d, %v, want %d", upTo, before, n, err, want)
		}
		if diff := cmp.Diff(rows[:max(before, upTo)], rowsOf(t, l)); diff != "" {
			t.Errorf("up to row %d (-want +got):\n%s", upTo, diff)
		}
	}
	short := FileLog{filepath.Join(t.TempDir(), "seal.jsonl")}
	_, err := short.TakeOver(t.Context(), rows[:1])
	ok(t, err)
	other := append(slices.Clone(rows[:1]), chained(rows[0], KindUse, []byte(`{"campaign":"c_other"}`)))
	for name, wrong := range map[string][]Row{"moved": {rows[0], rows[2]}, "edited": {rows[0], {N: 2, Kind: rows[1].Kind, Prev: rows[1].Prev, Digest: rows[1].Digest, Body: []byte("{}")}}} {
		if n, err := short.TakeOver(t.Context(), wrong); n != 0 || !errors.Is(err, ErrLog) {
			t.Errorf("%s: %d, %v", name, n, err)
		}
	}
	if n, err := l.TakeOver(t.Context(), other); n != 0 || !errors.Is(err, ErrLog) || !strings.Contains(err.Error(), "1 rows in common") {
		t.Errorf("another log: %d, %v", n, err)
	}
	if diff := cmp.Diff(rows[:1], rowsOf(t, short)); diff != "" {
		t.Errorf("the file that was to take over what is wrong (-want +got):\n%s", diff)
	}
}

// fullDisk is a file on a disk that takes only some bytes of a write, or none
// of a flush.
type fullDisk struct {
	*os.File
	takes int
}

func (f fullDisk) Write(b []byte) (int, error) {
	if f.takes >= len(b) {
		return f.File.Write(b)
	}
	n, err := f.File.Write(b[:f.takes])
	return n, errors.Join(err, syscall.ENOSPC)
}

func (fullDisk) Sync() error { return syscall.ENOSPC }

func TestQ4_AFullDiskLeavesTheFileAsItWas(t *testing.T) {
	t.Parallel()
	whole := exported(t, logOf(t, story(t)[:2]))
	path := filepath.Join(t.TempDir(), "seal.jsonl")
	ok(t, os.WriteFile(path, whole, 0o600))
	f, err := os.OpenFile(path, os.O_RDWR|os.O_APPEND, 0)
	ok(t, err)
	for _, takes := range []int{0, 3, 1000} {
		if err := appendWhole(fullDisk{f, takes}, []byte("a new row\n")); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("takes %d: %v", takes, err)
		}
		got, err := os.ReadFile(path)
		ok(t, err)
		if string(got) != string(whole) {
			t.Errorf("takes %d: the file has %d bytes, had %d", takes, len(got), len(whole))
		}
	}
	ok(t, f.Close())
}

// TestQ4_WritersOfOneFileTakeTurns: every row of many writers is there once, in
// one chain.
func TestQ4_WritersOfOneFileTakeTurns(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "seal.jsonl")
	const writers, each = 8, 10
	var g errgroup.Group
	for w := range writers {
		g.Go(func() error {
			for i := range each {
				if _, err := Append(t.Context(), FileLog{path}, KindRegistration, registration(fmt.Sprint("c_", w, "_", i))); err != nil {
					return err
				}
			}
			return nil
		})
	}
	ok(t, g.Wait())
	rows := rowsOf(t, FileLog{path})
	if len(rows) != writers*each {
		t.Errorf("%d rows, want %d", len(rows), writers*each)
	}
	sound(t, rows)
}

func TestQ4_StoresShareTheLogOfAFile(t *testing.T) {
	t.Parallel()
	s := story(t)
	path := filepath.Join(t.TempDir(), "seal.jsonl")
	a, b := new(listLog), new(listLog)
	var notes []string
	mirror := func(l Log) Mirror {
		return Mirror{Store: l, File: FileLog{path}, Noted: func(n int, toStore bool) { notes = append(notes, fmt.Sprintf("%d %t", n, toStore)) }}
	}
	appendTo := func(l Log, es ...entry) {
		t.Helper()
		for _, e := range es {
			_, err := Append(t.Context(), l, e.kind, e.body)
			ok(t, err)
		}
	}
	appendTo(a, s[0])         // before there was a file
	appendTo(mirror(a), s[1]) // brings the file up
	appendTo(mirror(b), s[2]) // a new store takes the log over
	appendTo(b, s[3])         // without the file
	appendTo(mirror(a), s[4]) // a knows nothing of s[3], and the file neither
	if diff := cmp.Diff([]string{"1 false", "2 true", "1 true"}, notes); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(a.rows, rowsOf(t, FileLog{path})); diff != "" {
		t.Errorf("(-store +file):\n%s", diff)
	}
	if faults := checkChain(a.rows); len(faults) > 0 {
		t.Errorf("faults %v", faults)
	}
	// b went on by itself: two logs now, and neither is written to.
	before := slices.Clone(a.rows)
	if _, err := Append(t.Context(), mirror(b), s[5].kind, s[5].body); !errors.Is(err, ErrLog) || !strings.Contains(err.Error(), "3 rows in common") {
		t.Errorf("forked: %v", err)
	}
	if _, err := mirror(b).SealLog(t.Context()); !errors.Is(err, ErrLog) {
		t.Errorf("forked, read: %v", err)
	}
	if diff := cmp.Diff(before, rowsOf(t, FileLog{path})); diff != "" || len(b.rows) != 4 {
		t.Errorf("a fork was written to: %d rows in the store, file (-want +got):\n%s", len(b.rows), diff)
	}
	// A file that lost its end gets it back from the store.
	ok(t, os.WriteFile(path, exported(t, a.rows[:2]), 0o600))
	if diff := cmp.Diff(a.rows, rowsOf(t, mirror(a))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(a.rows, rowsOf(t, FileLog{path})); diff != "" {
		t.Errorf("(-store +file):\n%s", diff)
	}
}

// racing is a store to which another process appends just before each of our
// appends, as long as there is something to append; the zero entry is nothing.
type racing struct {
	listLog
	before []entry
}

func (l *racing) race(ctx context.Context) error {
	if len(l.before) == 0 {
		return nil
	}
	e := l.before[0]
	l.before = l.before[1:]
	if e.kind == "" {
		return nil
	}
	body, err := engine.Canonical(e.body)
	if err == nil {
		_, err = l.listLog.AppendSeal(ctx, e.kind, body)
	}
	return err
}

func bodyOf(t testing.TB, e entry) []byte {
	t.Helper()
	body, err := engine.Canonical(e.body)
	ok(t, err)
	return body
}

func (l *racing) AppendSeal(ctx context.Context, kind string, body []byte) (Row, error) {
	if err := l.race(ctx); err != nil {
		return Row{}, err
	}
	return l.listLog.AppendSeal(ctx, kind, body)
}

func (l *racing) AppendSealAfter(ctx context.Context, head, kind string, body []byte) (Row, error) {
	if err := l.race(ctx); err != nil {
		return Row{}, err
	}
	return l.listLog.AppendSealAfter(ctx, head, kind, body)
}

func TestQ4_ARowThatComesBetweenIsCopiedToo(t *testing.T) {
	t.Parallel()
	s := story(t)
	l := &racing{before: s[:1]}
	m := Mirror{Store: l, File: FileLog{filepath.Join(t.TempDir(), "seal.jsonl")}}
	r, err := Append(t.Context(), m, s[1].kind, s[1].body)
	ok(t, err)
	if r.N != 2 {
		t.Errorf("row %d, want 2", r.N)
	}
	if diff := cmp.Diff(l.rows, rowsOf(t, m.File)); diff != "" {
		t.Errorf("(-store +file):\n%s", diff)
	}
	// A row that comes between while a store takes a file over is a fork, and
	// nothing of the file gets behind it.
	other := &racing{before: []entry{{KindRegistration, registration("c_7")}}}
	if _, err := (Mirror{Store: other, File: m.File}).SealLog(t.Context()); !errors.Is(err, ErrLog) {
		t.Errorf("a row between: %v", err)
	}
	if len(other.rows) != 1 {
		t.Errorf("rows of another log were appended: %v", kinds(other.rows))
	}
	// Unless it is the very row: two processes take the file over at once.
	same := &racing{before: s[:2]}
	if diff := cmp.Diff(l.rows, rowsOf(t, Mirror{Store: same, File: m.File})); diff != "" {
		t.Errorf("taken over twice (-want +got):\n%s", diff)
	}
	sound(t, same.rows)
}

// TestQ4_AppendsBehindWhatWasRead: each log refuses a row behind any other than
// its last, and is then as it was; a mirror also when only one of its copies has
// gone on.
func TestQ4_AppendsBehindWhatWasRead(t *testing.T) {
	t.Parallel()
	s := story(t)
	dir := t.TempDir()
	shared := new(listLog)
	m := Mirror{Store: shared, File: FileLog{filepath.Join(dir, "mirrored.jsonl")}}
	for name, l := range map[string]Log{"file": FileLog{filepath.Join(dir, "seal.jsonl")}, "mirror": m} {
		after := func(head string, e entry) (Row, error) {
			return l.AppendSealAfter(t.Context(), head, e.kind, bodyOf(t, e))
		}
		if _, err := after("0", s[0]); !errors.Is(err, ErrConflict) || len(rowsOf(t, l)) != 0 {
			t.Errorf("%s: behind no row there is: %v", name, err)
		}
		one, err := after("", s[0])
		ok(t, err)
		_, err = after(one.Digest, s[1])
		ok(t, err)
		for _, head := range []string{"", one.Digest} {
			if r, err := after(head, s[2]); !errors.Is(err, ErrConflict) || r.N != 0 {
				t.Errorf("%s, behind %q: row %d, %v", name, head, r.N, err)
			}
		}
		if diff := cmp.Diff(logOf(t, s[:2]), rowsOf(t, l)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	read := Head(rowsOf(t, m))
	_, err := Append(t.Context(), shared, s[2].kind, s[2].body) // without the file
	ok(t, err)
	if _, err := m.AppendSealAfter(t.Context(), read, s[3].kind, bodyOf(t, s[3])); !errors.Is(err, ErrConflict) {
		t.Errorf("the store went on: %v", err)
	}
	_, err = Append(t.Context(), m.File, s[3].kind, s[3].body) // without the store
	ok(t, err)
	read = Head(shared.rows)
	if _, err := m.AppendSealAfter(t.Context(), read, s[4].kind, bodyOf(t, s[4])); !errors.Is(err, ErrConflict) {
		t.Errorf("the file went on: %v", err)
	}
	racer := &racing{before: s[:1]} // between the copies and the row
	r := Mirror{Store: racer, File: FileLog{filepath.Join(dir, "raced.jsonl")}}
	if _, err := r.AppendSealAfter(t.Context(), "", s[1].kind, bodyOf(t, s[1])); !errors.Is(err, ErrConflict) || len(racer.rows) != 1 {
		t.Errorf("the store went on in between: %v, %v", err, kinds(racer.rows))
	}
	if diff := cmp.Diff(logOf(t, s[:4]), rowsOf(t, m)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// failing is a store that cannot be written to.
type failing struct{ listLog }

func (*failing) AppendSeal(context.Context, string, []byte) (Row, error) {
	return Row{}, syscall.ENOSPC
}

func (*failing) AppendSealAfter(context.Context, string, string, []byte) (Row, error) {
	return Row{}, syscall.ENOSPC
}

func TestQ4_AFullStoreLeavesTheFile(t *testing.T) {
	t.Parallel()
	m := Mirror{Store: new(failing), File: FileLog{filepath.Join(t.TempDir(), "seal.jsonl")}}
	if _, err := Append(t.Context(), m, KindUse, struct{}{}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("error %v", err)
	}
	if rows := rowsOf(t, m.File); len(rows) != 0 {
		t.Errorf("the file has %v, the store nothing", rows)
	}
	broken := &listLog{rows: []Row{{N: 1, Kind: "x", Body: []byte("{}"), Digest: "wrong"}}}
	m.Store = broken
	if _, err := m.SealLog(t.Context()); !errors.Is(err, ErrLog) {
		t.Errorf("a broken store: %v", err)
	}
	if rows := rowsOf(t, m.File); len(rows) != 0 {
		t.Errorf("rows of a broken store were copied: %v", rows)
	}
}
