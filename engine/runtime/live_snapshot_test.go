package runtime_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/faultstore"
	"github.com/agentrooms/qualify/engine/store/memory"
)

// openRoom is chat as a room that stays open; its clock is set by the minute.
func openRoom(t *testing.T, st store.Store, j model.Journal, minute *int64) runtime.Live {
	t.Helper()
	s := chat(8)
	s.opaque = true
	cfg := s.config(t, st, j)
	cfg.Owner, cfg.Clock = nil, runtime.Wall
	return runtime.Live{
		Config: cfg, Leases: st, Holder: "test",
		Now: func() time.Time { return time.UnixMicro(*minute * 60_000_000) },
	}
}

// asks appends a message of the owner and works the room to rest; each process
// dies at its n-th passage, when n is positive.
func asks(t *testing.T, l runtime.Live, st store.Store, i, n int) {
	t.Helper()
	in := runtime.Start("start")
	if i > 0 {
		m := line(fmt.Sprintf("m%d", i), fmt.Sprintf("question %d", i), 0).Message
		in = runtime.Intake{Event: engine.Event{ID: "owner/" + m.ID, Kind: engine.EvOwnerMessage, Message: &m}, Digest: m.ID}
	}
	for _, step := range []func() error{
		func() error { _, err := runtime.Append(t.Context(), l, in); return err },
		func() error { _, err := runtime.Tick(t.Context(), l); return err },
	} {
		l.Crash = dieAfter(n)
		for {
			err := step()
			if err == nil {
				break
			}
			if !errors.Is(err, errCrash) {
				t.Fatalf("message %d: %v", i, err)
			}
			l.Crash = nil
			leases, err := st.Leases(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, lease := range leases { // a dead process has it
				if err := st.BreakLease(t.Context(), lease.Name, lease.Generation); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// A room that stays open leaves the same rows whether it stores snapshots or
// not, wherever its processes die, and reads no history for its next event.
func TestR45_OpenRoomGoesOnFromItsSnapshots(t *testing.T) {
	t.Parallel()
	play := func(snaps int64, dies int) ([]store.Row, *model.MemoryJournal, *memory.Store, runtime.Live) {
		minute := int64(0)
		st, j := memory.New(memory.Options{}), &model.MemoryJournal{}
		l := openRoom(t, st, j, &minute)
		l.SnapshotBytes = snaps
		for i := range 9 {
			minute = int64(i)
			asks(t, l, st, i, dies)
		}
		rows, err := st.Rows(t.Context(), l.Room, -1, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := runtime.Replay(t.Context(), st, l.Room, l.Folds); err != nil {
			t.Error(err)
		}
		return rows, j, st, l
	}
	want, _, _, _ := play(1<<40, 0)
	for _, dies := range []int{0, 1, 2, 3, 4, 5, 6, 7} {
		got, j, st, l := play(1, dies)
		if j.Repeated() != nil {
			t.Errorf("dies at passage %d: called twice: %v", dies, j.Repeated())
		}
		if dies != 0 { // an opaque call that a process died in leaves another room
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		f, err := faultstore.New(st, faultstore.Plan{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		l.Store, l.Leases, l.SnapshotBytes = f, f, 1<<40
		asks(t, l, f, 9, 0)
		if c := f.Calls(); c["Load"] != 0 || c["LoadTail"] == 0 || c["LoadOps"] != c["LoadTail"] {
			t.Errorf("calls of the store for one more event: %v", c)
		}
	}
}

// A damaged snapshot of an open room is told by the Tick that meets it; the next
// snapshot makes it good.
func TestR45_OpenRoomTellsOfADamagedSnapshot(t *testing.T) {
	t.Parallel()
	minute := int64(0)
	st, j := memory.New(memory.Options{}), &model.MemoryJournal{}
	l := openRoom(t, st, j, &minute)
	l.SnapshotBytes = 1
	for i := range 4 {
		minute = int64(i)
		asks(t, l, st, i, 0)
	}
	good := l.Store
	l.Store = bent{Rooms: good, load: func(l *store.Loaded) { l.Snapshot.State = nil }}
	done, err := runtime.Tick(t.Context(), l)
	if err != nil || !strings.Contains(done.SnapshotUnused, "not the state that its row states") {
		t.Errorf("%+v, %v", done, err)
	}
	l.Store = good
	if done, err := runtime.Tick(t.Context(), l); err != nil || done.SnapshotUnused != "" {
		t.Errorf("%+v, %v", done, err)
	}
}

// R47: what a person has settled from proof between two events is charged, and
// neither the next events nor a replay take it for a mistake.
func TestR47_ReconciliationBetweenEventsOfAnOpenRoom(t *testing.T) {
	t.Parallel()
	for _, snaps := range []int64{1, 1 << 40} {
		minute := int64(0)
		st, j := memory.New(memory.Options{}), &model.MemoryJournal{}
		l := openRoom(t, st, j, &minute)
		l.SnapshotBytes = snaps
		settled := ""
		for i := range 9 {
			minute = int64(i)
			asks(t, l, st, i, 0)
			loaded, err := st.Load(t.Context(), l.Room)
			if err != nil {
				t.Fatal(err)
			}
			for k := range loaded.Ops {
				op := &loaded.Ops[k]
				if op.Status != store.OpUncertain || op.Tool != "" || settled != "" {
					continue
				}
				settled = op.ID
				err := st.Reconcile(t.Context(), l.Room, op.ID, store.Reconciliation{Executed: true, ChargedMicros: 77, Proof: "the bill"})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if settled == "" {
			t.Fatal("no call was uncertain")
		}
		h, err := runtime.Replay(t.Context(), st, l.Room, l.Folds)
		if err != nil {
			t.Fatal(err)
		}
		before, after := int64(0), int64(0)
		for _, o := range h.Ops {
			after += o.ChargedMicros
			if o.Receipt != nil {
				before += o.Receipt.ChargedMicros
			}
		}
		last := h.Entries[len(h.Entries)-1].Event.Money.Charged
		if after-before != 77 || h.Head.Money.Charged != after || last < 77 {
			t.Errorf("charged %d, receipts %d, newest event %d", h.Head.Money.Charged, before, last)
		}
	}
}
