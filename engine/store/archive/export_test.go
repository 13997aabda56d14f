package archive_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/archive"
	"github.com/agentrooms/qualify/engine/store/storetest"
)

func TestExportsThatAreRefused(t *testing.T) {
	t.Parallel()
	trial := func(key, room string) func(driver) {
		return func(d driver) {
			d.ok("trial", d.st.PutTrial(d.t.Context(), store.Trial{Campaign: sceneID, Key: key, Room: room, Status: store.TrialPlanned}))
		}
	}
	for name, c := range map[string]struct {
		make func(driver)
		want error
		text string
	}{
		"a key that leads out": {trial("../x", ""), store.ErrInvalid, "is no clean relative path"},
		"an empty key":         {trial("", ""), store.ErrInvalid, "is no clean relative path"},
		"a dot":                {trial(".", ""), store.ErrInvalid, "is no clean relative path"},
		"a rooted key":         {trial("/x", ""), store.ErrInvalid, "is no clean relative path"},
		"a backslash":          {trial(`a\b`, ""), store.ErrInvalid, "has a backslash"},
		"a line end":           {trial("a\nb", ""), store.ErrInvalid, "control character"},
		"the room of another":  {trial("a/b/0", "c_other/a/b/0"), store.ErrCorrupt, `its room is "c_other/a/b/0"`},
		"a room's name":        {func(d driver) { d.newRoom(d.t.Context(), "a//b", "", 1) }, store.ErrInvalid, "is no clean relative path"},
		"a seal that is no JSON": {func(d driver) {
			must(d.st.AppendSeal(d.t.Context(), "x", []byte("{ }")))(d.t, "seal")
		}, store.ErrCorrupt, "row 1 of the seal log: the body is no canonical JSON"},
		"a seal without a body": {func(d driver) { must(d.st.AppendSeal(d.t.Context(), "x", nil))(d.t, "seal") }, store.ErrCorrupt, "the body is empty"},
		"a trace without a digest": {func(d driver) {
			trial("a/b/0", "")(d)
			d.ok("trace", d.st.PutTrace(d.t.Context(), sceneID, "a/b/0", "", []byte("x")))
		}, store.ErrCorrupt, "stored without a digest"},
		"an event that is no JSON": {func(d driver) {
			c := storetest.Next(d.newRoom(d.t.Context(), "a/b/0", "", 1), "e")
			c.Row.Event = []byte("event")
			c.Row = storetest.Seal(c.Row)
			d.commit(d.t.Context(), c)
		}, store.ErrCorrupt, "revision 0"},
		"an event in another form": {func(d driver) {
			c := storetest.Next(d.newRoom(d.t.Context(), "a/b/0", "", 1), "e")
			c.Row.Event = []byte(`{"b":1,"a":1}`)
			c.Row = storetest.Seal(c.Row)
			d.commit(d.t.Context(), c)
		}, store.ErrCorrupt, "revision 0: the event is no canonical JSON"},
		"a content that was changed": {func(d driver) {
			c := event(d.t, d.newRoom(d.t.Context(), "a/b/0", "", 1), "e", "good")
			c.Blobs[0].Content = []byte("bad")
			d.commit(d.t.Context(), c)
		}, store.ErrCorrupt, "is not the one that was stored"},
		"a name that is not UTF-8": {func(d driver) {
			op := storetest.Op(sceneID+"/a/b/0", "x", 0)
			op.Agent = "\xff"
			c := storetest.Next(d.newRoom(d.t.Context(), "a/b/0", "", 1), "e")
			c.Ops = []store.Op{op}
			d.commit(d.t.Context(), c)
		}, store.ErrCorrupt, `"\xff" is not UTF-8`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := driver{t, both(t)["memory"]}
			d.ok("campaign", d.st.PutCampaign(t.Context(), campaign(sceneID, "demo")))
			mustExport(t, d.st, sceneID, archive.Options{})
			c.make(d)
			_, err := export(t, d.st, sceneID, archive.Options{})
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v; want %v with %q", err, c.want, c.text)
			}
		})
	}
}

func TestExportEndsWhereAFileIsRefused(t *testing.T) {
	t.Parallel()
	st := both(t)["memory"]
	scene(t, st)
	full := errors.New("no room left")
	for last := range mustExport(t, st, sceneID, archive.Options{}) {
		n := 0
		err := archive.Export(t.Context(), st, sceneID, archive.Options{}, func(name string, _ []byte) error {
			if n++; name == last {
				return full
			}
			if name > last {
				t.Errorf("%s is added behind the error", name)
			}
			return nil
		})
		if !errors.Is(err, full) || !strings.Contains(err.Error(), last) {
			t.Errorf("refused %s: %v", last, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := archive.Export(ended, st, sceneID, archive.Options{}, func(string, []byte) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
}

// moving is a store in which others do something when campaigns are listed,
// which is between the first and the last read of an account.
type moving struct {
	store.Store
	move func(n int64)
	n    atomic.Int64
}

func (m *moving) Campaigns(ctx context.Context, name string) ([]store.Campaign, error) {
	m.move(m.n.Add(1))
	return m.Store.Campaigns(ctx, name)
}

func TestTheAccountIsOneThatReallyWas(t *testing.T) {
	t.Parallel()
	for name, st := range both(t) {
		scene(t, st)
		d := driver{t, st}
		must(st.Grant(t.Context(), "shared", sim, 2000, []string{"a/1"}))(t, "grant")
		m := &moving{Store: st, move: func(n int64) {
			switch n {
			case 1: // the allotments of the campaign are read already
				must(st.Release(t.Context(), "s/2", 40, 20))(t, "release")
				must(st.Allot(t.Context(), store.Allotment{ID: "s/3", Ceiling: "shared", Funds: sim, Campaign: sceneID, Sum: 60}))(t, "allot")
			case 2:
				must(st.AppendSeal(t.Context(), "verdict", []byte(`{}`)))(t, "seal")
			case 3:
				d.ok("status", st.SetCampaignStatus(t.Context(), sceneID, "done", nil))
			}
		}}
		f := mustExport(t, m, sceneID, archive.Options{})
		if n := m.n.Load(); n != 4 {
			t.Errorf("%s: read %d times, want 4: three times something moved", name, n)
		}
		if diff := mustExport(t, st, sceneID, archive.Options{}).diff(f); diff != "" {
			t.Errorf("%s: exported (-when nothing moves +while it moved):\n%s", name, diff)
		}
		endless := &moving{Store: st, move: func(int64) { must(st.Grant(t.Context(), "aside", sim, 5000, nil))(t, "grant") }}
		_, err := export(t, endless, sceneID, archive.Options{})
		if err == nil || !strings.Contains(err.Error(), "try again when they have ended") {
			t.Errorf("%s: money that never rests: %v", name, err)
		}
	}
}

func TestAClosedRoomThatChangesMeanwhile(t *testing.T) {
	t.Parallel()
	for name, st := range both(t) {
		scene(t, st)
		room := sceneID + "/lamp/planner/0"
		op := storetest.Op(room, "two", 50)
		err := archive.Export(t.Context(), st, sceneID, archive.Options{}, func(file string, _ []byte) error {
			if file != "campaign.json" { // between bodies and rooms
				return nil
			}
			return st.Reconcile(t.Context(), room, op.ID, store.Reconciliation{Proof: "it never came"})
		})
		if !errors.Is(err, store.ErrConflict) || !strings.Contains(err.Error(), "export again") {
			t.Errorf("%s: %v", name, err)
		}
		mustExport(t, st, sceneID, archive.Options{})
	}
}

// An open room goes on while it is exported: what was read of it first is what
// is written, rows and contents alike.
func TestAnOpenRoomThatGoesOnMeanwhile(t *testing.T) {
	t.Parallel()
	for name, st := range both(t) {
		scene(t, st)
		want := mustExport(t, st, sceneID, archive.Options{})
		d, room := driver{t, st}, sceneID+"/lamp-2/planner/0"
		got := folder{}
		err := archive.Export(t.Context(), st, sceneID, archive.Options{}, func(file string, content []byte) error {
			if file == "account.json" {
				d.commit(t.Context(), event(t, must(st.Load(t.Context(), room))(t, "load").Head, "later", "said later"))
			}
			got[file] = append([]byte{}, content...)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if diff := want.diff(got); diff != "" {
			t.Errorf("%s (-before +while it went on):\n%s", name, diff)
		}
		// With a snapshot, rows are read apart from the head.
		head := must(st.Load(t.Context(), room))(t, "load").Head
		d.ok("snapshot", st.PutSnapshot(t.Context(), room, store.Snapshot{Rev: head.Rev, Machine: "test@1", State: storetest.State(head.Rev, "later")}))
		f := mustExport(t, &ahead{Store: st, d: d, room: room}, sceneID, archive.Options{})
		l := must(mustOpen(t, f).Load(t.Context(), room))(t, "load")
		if l.Head.Rev != head.Rev || int64(len(l.Rows)) != head.Rev+1 {
			t.Errorf("%s: head %d with %d rows, was %d", name, l.Head.Rev, len(l.Rows), head.Rev)
		}
	}
}

// ahead is a store in which a room goes on after it was loaded.
type ahead struct {
	store.Store
	d    driver
	room string
}

func (a *ahead) Load(ctx context.Context, room string) (*store.Loaded, error) {
	l, err := a.Store.Load(ctx, room)
	if err == nil && room == a.room {
		a.d.commit(ctx, event(a.d.t, l.Head, "even later", "said even later"))
	}
	return l, err
}
