package archive_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/storetest"
)

const sim = store.FundsSimulated

// text is a sealed text whose content goes into a store as its blob.
func text(content string) (engine.Text, store.Blob) {
	b := storetest.Blob(content)
	return engine.Text{Blob: engine.Blob{Digest: b.Digest, Len: len(content), Media: b.Media}}, b
}

func canonical(t fatal, v any) []byte {
	t.Helper()
	return must(engine.Canonical(v))(t, "canonical JSON")
}

// event is a commit whose event is a message with the text.
func event(t fatal, head store.Head, id, content string) store.Commit {
	t.Helper()
	said, blob := text(content)
	c := storetest.Next(head, id)
	c.Row.Event = canonical(t, engine.Event{
		ID: id, Kind: engine.EvOwnerMessage, Message: &engine.OwnerMessage{ID: id, Type: engine.MsgRequest, From: "ana", Text: said},
	})
	c.Row = storetest.Seal(c.Row)
	c.Blobs = []store.Blob{blob}
	return c
}

// result is a receipt whose result holds a text, which goes into the blob.
func result(t fatal, op store.Op, outcome store.Outcome, charged int64, content string) (store.Receipt, store.Blob) {
	t.Helper()
	r := storetest.Receipt(op, outcome, charged)
	reply, blob := text(content)
	r.Result = canonical(t, map[string]any{"kind": engine.EvModelReply, "reply": engine.ModelReply{Text: reply, Charged: charged}})
	return r, blob
}

func effect(room, op string, n int, content string) (store.Effect, store.Blob) {
	args, blob := text(content)
	return store.Effect{
		Room: room, Op: op, N: n, AtUS: 5, Identity: "sha256:1", Key: "k_1", Tool: "fix", Target: "i-17", Agent: "keeper",
		Args: args, State: store.EffectConfirmed, Ack: "lost", Patch: engine.Text{}, Result: args,
	}, blob
}

func campaign(id, name string) store.Campaign {
	return store.Campaign{
		ID: id, Name: name, PlanDigest: "sha256:p-" + id, Registration: "sha256:r-" + id, Plan: []byte(`{"seed":7}`), Status: "running",
	}
}

// The campaign of the scene, and all the words that bodies hold.
const sceneID = "c_scene"

var sceneWords = []string{"please mend the lamp", "the lamp is mended", "with a \"new\" bulb\u2028", "nobody knows what came of it", "half a reply", "left at work"}

// driver builds a scene in one store.
type driver struct {
	t  *testing.T
	st store.Store
}

func (d driver) ok(what string, err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatalf("%s: %v", what, err)
	}
}

func (d driver) commit(ctx context.Context, c store.Commit) store.Head {
	d.t.Helper()
	return must(d.st.Commit(ctx, c))(d.t, "commit").Head
}

func (d driver) newRoom(ctx context.Context, key, allotment string, limit int64) store.Head {
	d.t.Helper()
	r := storetest.NewRoom(sceneID+"/"+key, limit)
	r.Allotment = allotment
	d.ok("create", d.st.CreateRoom(ctx, r))
	return store.HeadOf(r)
}

func (d driver) trial(ctx context.Context, t store.Trial) {
	d.t.Helper()
	head := must(d.st.Load(ctx, t.Room))(d.t, "load").Head
	t.Campaign, t.Money, t.Termination, t.Status = sceneID, head.Money, head.Termination, store.TrialClosed
	t.TraceDigest = engine.Digest([]byte(t.Key))
	d.ok("trace", d.st.PutTrace(ctx, sceneID, t.Key, t.TraceDigest, []byte("{\"trace\":\""+t.Key+"\"}\n")))
	d.ok("trial", d.st.PutTrial(ctx, t))
}

// scene fills an empty store: three campaigns of which two share a ceiling, an
// overrun that halted it, kept and open allotments, and rooms in every state.
func scene(t *testing.T, st store.Store) {
	t.Helper()
	ctx := t.Context()
	d := driver{t, st}
	for _, seal := range []string{`{"campaign":"c_scene","n":1}`, `{"ä":[true,null]}`} {
		must(st.AppendSeal(ctx, "registered", []byte(seal)))(t, "seal")
	}
	for _, c := range []store.Campaign{campaign("c_before", "demo"), campaign(sceneID, "demo"), campaign("c_apart", "apart"), campaign("c_after", "late")} {
		d.ok("campaign", st.PutCampaign(ctx, c))
	}
	d.ok("status", st.SetCampaignStatus(ctx, sceneID, "stopped", []byte(`{"n":1}`)))
	for _, c := range []string{"shared", "aside"} {
		must(st.EnsureCeiling(ctx, c, sim, 1000))(t, "ceiling")
	}
	must(st.EnsureCeiling(ctx, "shared", store.FundsReal, 5))(t, "ceiling")
	allot := func(id, ceiling, campaign string, sum int64) {
		t.Helper()
		must(st.Allot(ctx, store.Allotment{ID: id, Ceiling: ceiling, Funds: sim, Campaign: campaign, Sum: sum, CampaignCap: 900}))(t, "allot")
	}
	release := func(id string, charged, keep int64) {
		t.Helper()
		must(st.Release(ctx, id, charged, keep))(t, "release")
	}
	allot("b/1", "shared", "c_before", 100)
	allot("apart/1", "aside", "c_apart", 100)
	allot("s/1", "shared", sceneID, 200)
	release("b/1", 30, 10)
	allot("a/1", "shared", "c_after", 50)

	// A room whose call was settled, one overran, one is unknown, one refused.
	head := d.newRoom(ctx, "lamp/planner/0", "s/1", 150)
	first := event(t, head, "e1", sceneWords[0])
	settled, lost, refused, tool := storetest.Op(head.Room, "one", 60), storetest.Op(head.Room, "two", 50), storetest.Op(head.Room, "three", 999), storetest.Op(head.Room, "four", 0)
	tool.Key.Kind, tool.Tool = engine.OpTool, "fix"
	first.Ops = []store.Op{settled, lost, refused, tool}
	first.Outbox = []store.OutboxEntry{{ID: "n1", Body: []byte(`{"id":"n1"}`)}, {ID: "n2", Body: []byte(`{"id":"n2"}`)}}
	first.Index = []store.IndexEntry{{Space: "event", Key: "e1", Value: "0"}}
	head = d.commit(ctx, first)
	for _, op := range []store.Op{settled, lost, tool} {
		d.ok("dispatch", st.MarkDispatched(ctx, head.Room, op.ID))
	}
	mended, body := result(t, settled, store.OutcomeOK, 75, sceneWords[1])
	second := event(t, head, "e2", sceneWords[0])
	second.Receipts, second.Blobs = []store.Receipt{mended}, append(second.Blobs, body)
	head = d.commit(ctx, second)
	d.ok("acknowledge", func() error { _, err := st.GrantRoom(ctx, head.Room, 160, []string{settled.ID}); return err }())
	unknown, body := result(t, lost, store.OutcomeUnknown, 0, sceneWords[3])
	d.ok("receipt", st.PutReceipt(ctx, head.Room, unknown, []store.Blob{body}))
	e, body := effect(head.Room, tool.ID, 0, sceneWords[2])
	d.ok("effect", st.PutEffect(ctx, e, []store.Blob{body}))
	done, body := result(t, tool, store.OutcomeFailed, 0, string([]byte{0xff, 0, 'x'}))
	d.ok("receipt", st.PutReceipt(ctx, head.Room, done, []store.Blob{body}))
	d.ok("delivered", st.Delivered(ctx, head.Room, "n1"))
	d.ok("snapshot", st.PutSnapshot(ctx, head.Room, store.Snapshot{Rev: 1, Machine: "test@1", State: storetest.State(1, "e2"), Folds: []byte("secret folds")}))
	d.ok("close", st.CloseRoom(ctx, head.Room, "completed", 42))
	d.trial(ctx, store.Trial{Key: "lamp/planner/0", Order: 0, Arm: "planner", Case: "lamp", Room: head.Room, Allotment: "s/1"})

	// One whose uncertain call was reconciled after it closed; a text is erased.
	head = d.newRoom(ctx, "lamp/legacy/0", "s/1", 50)
	first = event(t, head, "e1", "erased")
	first.Blobs = nil
	first.Ops = []store.Op{storetest.Op(head.Room, "one", 20)}
	head = d.commit(ctx, first)
	d.ok("dispatch", st.MarkDispatched(ctx, head.Room, first.Ops[0].ID))
	unknown, body = result(t, first.Ops[0], store.OutcomeUnknown, 0, sceneWords[4])
	unknown.Result = nil
	d.ok("receipt", st.PutReceipt(ctx, head.Room, unknown, []store.Blob{body}))
	d.ok("close", st.CloseRoom(ctx, head.Room, "harness_error: it broke", 40))
	d.ok("reconcile", st.Reconcile(ctx, head.Room, first.Ops[0].ID, store.Reconciliation{
		Executed: true, ChargedMicros: 15, Usage: &engine.Usage{Input: 3, Output: 4}, UsageSource: "actual", Proof: "the provider's log",
	}))
	d.trial(ctx, store.Trial{Key: "lamp/legacy/0", Order: 0, Arm: "legacy", Case: "lamp", Room: head.Room, Allotment: "s/1"})
	release("s/1", 230, 20) // more than its sum: the ceiling is halted
	must(st.Grant(ctx, "shared", sim, 1200, []string{"s/1"}))(t, "grant")
	allot("s/2", "shared", sceneID, 120)
	release("a/1", 60, 0) // halted again, and stays so

	// One left at work, with a call under way; a key that sorts oddly by name.
	head = d.newRoom(ctx, "lamp-2/planner/0", "s/2", 60)
	first = event(t, head, "e1", sceneWords[5])
	inside, body := text(sceneWords[5] + " inside a request")
	op := storetest.Op(head.Room, "one", 20)
	op.Request = canonical(t, map[string]any{"system": inside})
	op.RequestDigest = engine.Digest(op.Request)
	first.Ops, first.Blobs = []store.Op{op, storetest.Op(head.Room, "two", 0)}, append(first.Blobs, body)
	head = d.commit(ctx, first)
	d.ok("dispatch", st.MarkDispatched(ctx, head.Room, op.ID))
	d.newRoom(ctx, "lamp-2/legacy/0", "s/2", 60) // without a row
	d.ok("not run", st.PutTrial(ctx, store.Trial{Campaign: sceneID, Key: "lamp-3/planner/0", Order: 2, Arm: "planner", Case: "lamp-3", Status: store.TrialNotRun}))
	d.ok("room of another", st.CreateRoom(ctx, storetest.NewRoom("c_before/lamp/planner/0", 5)))
	must(st.AppendSeal(ctx, "campaign_end", []byte(`{"campaign":"c_scene","set":"sha256:0"}`)))(t, "seal")
}

// shows reports the files that hold a text of the scene.
func shows(f folder, word string) []string {
	quoted := bytes.Trim(must(engine.Canonical(word))(panics{}, word), `"`)
	var out []string
	for _, name := range f.Names() {
		if bytes.Contains(f[name], []byte(word)) || bytes.Contains(f[name], quoted) {
			out = append(out, name)
		}
	}
	return out
}

type panics struct{}

func (panics) Helper()                           {}
func (panics) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
