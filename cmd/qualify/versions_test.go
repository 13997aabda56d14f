package main

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
)

// cutShort is a store that stops a run in the middle of a room.
type cutShort struct {
	store.Store
	left *atomic.Int32 // commits
}

func (s cutShort) Commit(ctx context.Context, c store.Commit) (*store.Committed, error) {
	if s.left.Add(-1) < 0 {
		return nil, errors.New("cut short")
	}
	return s.Store.Commit(ctx, c)
}

// otherBuild is a store whose rooms were made by another build: the rows say
// that an earlier machine has folded them.
type otherBuild struct{ store.Store }

func (s otherBuild) LoadTail(ctx context.Context, room string) (*store.Loaded, error) {
	l, err := s.Store.LoadTail(ctx, room)
	if err != nil {
		return nil, err
	}
	prev := ""
	for i := range l.Rows {
		r := &l.Rows[i]
		name, _, _ := strings.Cut(r.Machine, "@")
		r.Machine, r.Prev = name+"@0", prev
		r.Digest = store.RowDigest(*r)
		prev = r.Digest
		l.Head.Machine, l.Head.Digest = r.Machine, r.Digest
	}
	return l, nil
}

// R70, DESIGN §2: a room whose rows another machine has folded is refused with
// exit 5 and one line that names both versions and says what still works; the
// build that made it goes on.
func TestR70_RoomOfAnotherMachineVersionIsRefused(t *testing.T) {
	t.Parallel()
	st := memory.New(memory.Options{})
	play := func(s store.Store) (int, string) {
		var stdout, stderr strings.Builder
		code := guard(&stderr, func() error {
			a := newApp(strings.NewReader(""), &stdout, &stderr)
			a.open = func(context.Context, string, storeAccess) (store.Store, error) { return keepOpen{s}, nil }
			return a.execute(t.Context(), []string{"run", "builtin:demo", "--case", "ledger-two-books-01", "--trials", "1", "--parallel", "1"})
		})
		return code, stderr.String()
	}
	left := new(atomic.Int32)
	left.Store(5)
	if code, out := play(cutShort{st, left}); code == exitOK || !strings.Contains(out, "cut short") {
		t.Fatalf("exit %d: %s", code, out)
	}
	code, out := play(otherBuild{st})
	lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	last := lines[len(lines)-1]
	if code != exitRefused || !strings.HasPrefix(last, "qualify: ") || strings.Count(out, "VERSION_MISMATCH") != 1 {
		t.Errorf("exit %d:\n%s", code, out)
	}
	for _, want := range []string{"VERSION_MISMATCH: revision ", "was folded by machine ", "@0, this is ", "the build that made the room can still run and read it"} {
		if !strings.Contains(last, want) {
			t.Errorf("the last line lacks %q: %s", want, last)
		}
	}
	if code, out := play(st); code != exitOK {
		t.Errorf("the build that made it: exit %d:\n%s", code, out)
	}
}
