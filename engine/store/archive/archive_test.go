package archive_test

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/archive"
	"github.com/agentrooms/qualify/engine/store/faultstore"
	"github.com/agentrooms/qualify/engine/store/storetest"
	"github.com/agentrooms/qualify/freeze"
)

func TestAnArchiveAnswersWhatItsStoreAnswers(t *testing.T) {
	t.Parallel()
	var all []folder
	for name, st := range both(t) {
		scene(t, st)
		for _, withheld := range []bool{false, true} {
			f := mustExport(t, st, sceneID, archive.Options{WithholdBodies: withheld})
			all = append(all, f)
			a := mustOpen(t, f)
			r := reader{t: t, ctx: t.Context(), st: st, a: a, withheld: withheld}
			r.compare(sceneID, "c_before", "c_after", "c_apart")
			if a.ID() != sceneID || a.BodiesWithheld() != withheld {
				t.Errorf("%s: opened as %s, bodies withheld %t", name, a.ID(), a.BodiesWithheld())
			}
			if diff := f.diff(mustExport(t, a, sceneID, archive.Options{})); diff != "" {
				t.Errorf("%s: an archive of the archive differs (-first +second):\n%s", name, diff)
			}
		}
	}
	if diff := cmp.Diff(all[:2], all[2:]); diff != "" {
		t.Errorf("the stores give other archives (-one +other):\n%s", diff)
	}
	stripped := mustExport(t, mustOpen(t, all[0]), sceneID, archive.Options{WithholdBodies: true})
	if diff := all[1].diff(stripped); diff != "" {
		t.Errorf("bodies withheld from an archive (-from the store +from the archive):\n%s", diff)
	}
}

func TestQ8_WithheldBodiesAreInNoFile(t *testing.T) {
	t.Parallel()
	st := both(t)["memory"]
	scene(t, st)
	whole, bare := mustExport(t, st, sceneID, archive.Options{}), mustExport(t, st, sceneID, archive.Options{WithholdBodies: true})
	salt := "c2FsdA==" // of every room, base64
	for i, word := range append(slices.Clone(sceneWords), salt) {
		found := shows(whole, word)
		if i == 4 { // nothing in the room names it: its receipt has no result
			if len(found) != 0 {
				t.Errorf("%q is in %q, and no record names it", word, found)
			}
			continue
		}
		if len(found) == 0 {
			t.Errorf("%q is not in the whole archive", word)
		}
		if found := shows(bare, word); len(found) != 0 {
			t.Errorf("%q is withheld, and stands in %q", word, found)
		}
	}
	for _, name := range bare.Names() {
		if strings.HasPrefix(name, "bodies/") {
			t.Errorf("%s is there", name)
		}
	}
	for _, f := range []folder{whole, bare} {
		if found := shows(f, "secret folds"); len(found) != 0 {
			t.Errorf("the folds of a snapshot stand in %q", found)
		}
	}
}

func TestQ8_ATextByValueCannotBeWithheld(t *testing.T) {
	t.Parallel()
	for name, put := range map[string]func(*testing.T, store.Store, store.Head){
		"event": func(t *testing.T, st store.Store, head store.Head) {
			c := storetest.Next(head, "e")
			c.Row.Event = canonical(t, engine.Event{ID: "e", Message: &engine.OwnerMessage{Text: engine.Plain("by value")}})
			c.Row = storetest.Seal(c.Row)
			must(st.Commit(t.Context(), c))(t, "commit")
		},
		"commands": func(t *testing.T, st store.Store, head store.Head) {
			c := storetest.Next(head, "e")
			c.Row.Commands = canonical(t, []engine.Command{{Say: &engine.Say{Text: engine.Plain("by value")}}})
			c.Row = storetest.Seal(c.Row)
			must(st.Commit(t.Context(), c))(t, "commit")
		},
		"request": func(t *testing.T, st store.Store, head store.Head) {
			op := storetest.Op(head.Room, "x", 1)
			op.Request = canonical(t, map[string]any{"system": engine.Plain("by value")})
			c := storetest.Next(head, "e")
			c.Ops = []store.Op{op}
			must(st.Commit(t.Context(), c))(t, "commit")
		},
		"receipt": func(t *testing.T, st store.Store, head store.Head) {
			op := storetest.Op(head.Room, "x", 0)
			c := storetest.Next(head, "e")
			c.Ops = []store.Op{op}
			must(st.Commit(t.Context(), c))(t, "commit")
			r := storetest.Receipt(op, store.OutcomeFailed, 0)
			r.Result = canonical(t, engine.ModelReply{Text: engine.Plain("by value")})
			driver{t, st}.ok("receipt", st.PutReceipt(t.Context(), head.Room, r, nil))
		},
		"effect": func(t *testing.T, st store.Store, head store.Head) {
			op := storetest.Op(head.Room, "x", 0)
			c := storetest.Next(head, "e")
			c.Ops = []store.Op{op}
			must(st.Commit(t.Context(), c))(t, "commit")
			e, _ := effect(head.Room, op.ID, 0, "x")
			e.Patch = engine.Plain("by value")
			driver{t, st}.ok("effect", st.PutEffect(t.Context(), e, nil))
		},
		"outbox": func(t *testing.T, st store.Store, head store.Head) {
			c := storetest.Next(head, "e")
			c.Outbox = []store.OutboxEntry{{ID: "n", Body: canonical(t, engine.Say{Text: engine.Plain("by value")})}}
			must(st.Commit(t.Context(), c))(t, "commit")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := both(t)["memory"]
			d := driver{t, st}
			d.ok("campaign", st.PutCampaign(t.Context(), campaign(sceneID, "demo")))
			put(t, st, d.newRoom(t.Context(), "a/b/0", "", 100))
			_, err := export(t, st, sceneID, archive.Options{WithholdBodies: true})
			if !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "by value") {
				t.Errorf("export without bodies: %v", err)
			}
			f := mustExport(t, st, sceneID, archive.Options{})
			mustOpen(t, f)
			// Whoever says that bodies are withheld must have withheld them.
			lie := f.with("campaign.json", bytes.Replace(f["campaign.json"], []byte(`"bodies_withheld":false`), []byte(`"bodies_withheld":true`), 1))
			lie = lie.with("bodies/a/b/0.jsonl", nil)
			lie = lie.with("rooms/a/b/0.json", bytes.Replace(lie["rooms/a/b/0.json"], []byte(`"salt":"c2FsdA==",`), nil, 1))
			a := must(archive.Open(lie))(t, "open")
			if err := a.Check(t.Context()); !errors.Is(err, store.ErrCorrupt) || !strings.Contains(err.Error(), "by value") {
				t.Errorf("check of bodies said to be withheld: %v", err)
			}
		})
	}
}

func TestQ8_TheSealLogIsTheOneThatFreezeExports(t *testing.T) {
	t.Parallel()
	st := both(t)["memory"]
	scene(t, st)
	f := mustExport(t, st, sceneID, archive.Options{})
	var rows []freeze.Row
	for _, r := range must(st.SealLog(t.Context()))(t, "seal log") {
		rows = append(rows, freeze.Row(r))
	}
	var want bytes.Buffer
	if err := freeze.Export(&want, rows); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.String(), string(f["seal-log.jsonl"])); diff != "" {
		t.Errorf("seal log (-freeze +archive):\n%s", diff)
	}
	if diff := cmp.Diff(rows, must(freeze.ParseRows(f["seal-log.jsonl"]))(t, "parse")); diff != "" {
		t.Errorf("read by freeze (-written +read):\n%s", diff)
	}
}

// calls calls a method of a store by name, with zero values behind the context,
// and returns its error.
func calls(ctx context.Context, st store.Store, method string) error {
	m := reflect.ValueOf(st).MethodByName(method)
	args := []reflect.Value{}
	for i := range m.Type().NumIn() {
		args = append(args, reflect.Zero(m.Type().In(i)))
	}
	args[0] = reflect.ValueOf(ctx)
	out := m.Call(args)
	err, _ := out[len(out)-1].Interface().(error)
	return err
}

func TestAnArchiveIsNeverWrittenTo(t *testing.T) {
	t.Parallel()
	st := both(t)["memory"]
	scene(t, st)
	f := mustExport(t, st, sceneID, archive.Options{})
	a := mustOpen(t, f)
	for _, op := range faultstore.Ops(faultstore.Write) {
		err := calls(t.Context(), a, string(op))
		if !errors.Is(err, store.ErrReadOnly) || !strings.Contains(err.Error(), "a bundle is never written to") {
			t.Errorf("%s: %v", op, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, op := range faultstore.Ops(faultstore.Read) {
		if err := calls(ended, a, string(op)); !errors.Is(err, context.Canceled) {
			t.Errorf("%s with an ended context: %v", op, err)
		}
	}
	if err := errors.Join(a.Close(), a.Close()); err != nil {
		t.Errorf("close: %v", err)
	}
	if _, err := a.Campaign(t.Context(), sceneID); err != nil {
		t.Errorf("the files are open still: %v", err)
	}
}

func TestCopiesOfAnArchive(t *testing.T) {
	t.Parallel()
	st := both(t)["memory"]
	scene(t, st)
	a := mustOpen(t, mustExport(t, st, sceneID, archive.Options{}))
	ctx := t.Context()
	room := sceneID + "/lamp/planner/0"
	spoil := func(bs ...[]byte) {
		for _, b := range bs {
			for i := range b {
				b[i] = 'X'
			}
		}
	}
	for range 2 { // the second time all must be as it was
		l := must(a.Load(ctx, room))(t, "load")
		r := reader{t: t, ctx: ctx, st: st, a: a}
		r.compare(sceneID, "c_before", "c_after", "c_apart")
		spoil(l.Head.Salt, l.Rows[0].Event, l.Rows[0].Commands, l.Ops[0].Receipt.Result)
		l.Ops[0].Receipt.Usage.Input, l.Effects[0].Tool = -1, "spoiled"
		for _, b := range must(a.Blobs(ctx, room, r.digests(l)))(t, "blobs") {
			spoil(b)
		}
		spoil(must(a.Outbox(ctx, room))(t, "outbox")[0].Body, must(a.SealLog(ctx))(t, "seal log")[0].Body, must(a.Campaign(ctx, sceneID))(t, "campaign").Plan)
		must(a.Ceilings(ctx))(t, "ceilings")[0].Overruns[0] = "spoiled"
		_, content, err := a.Trace(ctx, sceneID, "lamp/planner/0")
		if err != nil {
			t.Fatal(err)
		}
		spoil(content)
	}
}

func TestManyReadersOfOneArchive(t *testing.T) {
	t.Parallel()
	st := both(t)["memory"]
	scene(t, st)
	a := mustOpen(t, mustExport(t, st, sceneID, archive.Options{}))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			defer func() { _ = recover() }() // Fatalf of panics: told by the error below
			r := reader{t: tell{t}, ctx: t.Context(), st: st, a: a}
			r.compare(sceneID, "c_before", "c_after")
		})
	}
	wg.Wait()
}

// tell reports from a goroutine that is not the test's.
type tell struct{ t *testing.T }

func (x tell) Helper() {}
func (x tell) Fatalf(format string, args ...any) {
	x.t.Errorf(format, args...)
	panic("ended")
}

func TestCountsOfAnArchive(t *testing.T) {
	t.Parallel()
	st := both(t)["memory"]
	scene(t, st)
	a := mustOpen(t, mustExport(t, st, sceneID, archive.Options{}))
	want := store.Counts{Rooms: 4, Revisions: 4, Operations: 7, Effects: 1, Blobs: 7, Campaigns: 3, Trials: 3, Traces: 2, LedgerRows: 12}
	if diff := cmp.Diff(want, must(a.Counts(t.Context()))(t, "counts")); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	stats := must(a.Stats(t.Context()))(t, "stats")
	if diff := cmp.Diff(map[string]string{"driver": "bundle", "campaign": sceneID, "bodies": "included"}, stats.Detail); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
}

// What has not drawn money yet has the ceiling that the plan names.
func TestACampaignThatHasDrawnNothing(t *testing.T) {
	t.Parallel()
	st := both(t)["memory"]
	ctx := t.Context()
	if err := st.PutCampaign(ctx, campaign(sceneID, "demo")); err != nil {
		t.Fatal(err)
	}
	want := must(st.EnsureCeiling(ctx, "shared", sim, 70))(t, "ceiling")
	must(st.EnsureCeiling(ctx, "shared", store.FundsReal, 70))(t, "ceiling")
	a := mustOpen(t, mustExport(t, st, sceneID, archive.Options{}))
	if cs := must(a.Ceilings(ctx))(t, "ceilings"); len(cs) != 0 {
		t.Errorf("nobody named a ceiling: %+v", cs)
	}
	a = mustOpen(t, mustExport(t, st, sceneID, archive.Options{Ceiling: "shared", Funds: sim}))
	if diff := cmp.Diff([]store.Ceiling{want}, must(a.Ceilings(ctx))(t, "ceilings")); diff != "" {
		t.Errorf("ceilings (-want +got):\n%s", diff)
	}
	if rows := must(a.Ledger(ctx, 0, 0))(t, "ledger"); len(rows) != 1 || rows[0].N != 1 {
		t.Errorf("ledger: %+v", rows)
	}
	_, err := export(t, st, "c_none", archive.Options{})
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unknown campaign: %v", err)
	}
}

func TestLeasesAreNotTold(t *testing.T) {
	t.Parallel()
	st := both(t)["memory"]
	scene(t, st)
	must(st.AcquireLease(t.Context(), "campaign/"+sceneID, "token", "host pid 7", time.Hour))(t, "lease")
	f := mustExport(t, st, sceneID, archive.Options{})
	if found := append(shows(f, "host pid"), shows(f, "token")...); len(found) != 0 {
		t.Errorf("the lease stands in %q", found)
	}
	if ls := must(mustOpen(t, f).Leases(t.Context()))(t, "leases"); len(ls) != 0 {
		t.Errorf("leases: %+v", ls)
	}
}
