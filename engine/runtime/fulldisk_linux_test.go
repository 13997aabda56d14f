package runtime_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/sqlite"
)

// A disk that is really full: a SQLite file on a tmpfs of 2 MB. Rooms run until
// one is stopped by store.ErrFull; after the disk has grown that room goes on to
// the trail of a room that never met the fault.
func TestR45_ADiskThatIsReallyFull(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root and the right to mount a tmpfs")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("needs root and the right to mount a tmpfs: %v", err)
	}
	defer func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	want, _ := undisturbed(t, golden())
	st, err := sqlite.Open(t.Context(), filepath.Join(dir, "store.db"), sqlite.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}()
	var cfg runtime.Config
	var j *model.MemoryJournal
	for n := 0; ; n++ {
		if n == 200 {
			t.Fatal("the disk does not fill up")
		}
		s := snapping(golden())
		s.change = func(c *runtime.Config) { c.Name, c.Room = "case/arm/0", fmt.Sprintf("room/%03d", n) }
		j = &model.MemoryJournal{}
		cfg = s.config(t, st, j)
		if _, err = runtime.Run(t.Context(), cfg); err != nil {
			break
		}
	}
	for range 2 {
		if !errors.Is(err, store.ErrFull) {
			t.Fatalf("on a full disk: %v", err)
		}
		_, err = runtime.Run(t.Context(), cfg)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=32m"); err != nil {
		t.Fatal(err)
	}
	if _, err := runtime.Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	got := inRoom(want.Head.Room, trailOf(t, cfg, j))
	if diff := differs(want, got); diff != "" {
		t.Error(diff)
	}
	replay(t, cfg)
}
