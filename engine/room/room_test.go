package room_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/room"
)

var receipt = room.Receipt{Op: "op_1", Result: "d1"}

// moves are the four ways to change a task's state.
func moves(ts room.Tasks, id string) map[room.TaskStatus]func() error {
	return map[room.TaskStatus]func() error{
		room.TaskRunning:   func() error { return ts.Start(id) },
		room.TaskCompleted: func() error { return ts.Complete(id, receipt) },
		room.TaskFailed:    func() error { return ts.Fail(id, "why") },
		room.TaskCancelled: func() error { return ts.Cancel(id, "why") },
	}
}

func TestR2_TaskTransitionTable(t *testing.T) {
	t.Parallel()
	legal := map[room.TaskStatus][]room.TaskStatus{
		room.TaskCreated:   {room.TaskRunning, room.TaskCancelled},
		room.TaskRunning:   {room.TaskCompleted, room.TaskFailed, room.TaskCancelled},
		room.TaskCompleted: nil, room.TaskFailed: nil, room.TaskCancelled: nil,
	}
	for from, to := range legal {
		for target := range moves(nil, "") {
			ts := room.Tasks{"t": {ID: "t", Digest: "d", Participant: "p", Status: from}}
			before := ts["t"]
			err := moves(ts, "t")[target]()
			ok := false
			for _, l := range to {
				ok = ok || l == target
			}
			if ok && (err != nil || ts["t"].Status != target) {
				t.Errorf("%s to %s: %v, now %s", from, target, err, ts["t"].Status)
			}
			if !ok {
				if engine.CodeOf(err) != engine.CodeInvalidTransition {
					t.Errorf("%s to %s: error %v", from, target, err)
				}
				if diff := cmp.Diff(before, ts["t"]); diff != "" {
					t.Errorf("%s to %s changed the task:\n%s", from, target, diff)
				}
			}
		}
		if from.Terminal() != (len(to) == 0) {
			t.Errorf("%s: terminal %v", from, from.Terminal())
		}
	}
}

func TestR2_OnlyAReceiptCompletesATask(t *testing.T) {
	t.Parallel()
	ts := room.Tasks{"t": {ID: "t", Digest: "d", Participant: "p", Status: room.TaskRunning}}
	for _, r := range []room.Receipt{{}, {Op: "op"}, {Result: "d"}} {
		if err := ts.Complete("t", r); engine.CodeOf(err) != engine.CodeValidation || ts["t"].Status != room.TaskRunning {
			t.Errorf("receipt %+v: %v, now %s", r, err, ts["t"].Status)
		}
	}
	if err := ts.Complete("t", receipt); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&receipt, ts["t"].Receipt); diff != "" {
		t.Fatal(diff)
	}
}

func TestR33_AnExistingTaskIsAdoptedAndNeverDoubled(t *testing.T) {
	t.Parallel()
	var ts room.Tasks
	if err := ts.Create("t", "d", "p"); err != nil {
		t.Fatal(err)
	}
	if err := ts.Start("t"); err != nil {
		t.Fatal(err)
	}
	if err := ts.Create("t", "d", "p"); err != nil || ts["t"].Status != room.TaskRunning {
		t.Fatalf("adoption: %v, now %s", err, ts["t"].Status)
	}
	for _, c := range [][3]string{{"t", "other", "p"}, {"t", "d", "other"}} {
		if err := ts.Create(c[0], c[1], c[2]); engine.CodeOf(err) != engine.CodeConflict {
			t.Errorf("%v: %v", c, err)
		}
	}
	for _, c := range [][3]string{{"", "d", "p"}, {"u", "", "p"}, {"u", "d", ""}} {
		if err := ts.Create(c[0], c[1], c[2]); engine.CodeOf(err) != engine.CodeValidation {
			t.Errorf("%v: %v", c, err)
		}
	}
	if diff := cmp.Diff([]string{"t"}, ts.IDs()); diff != "" {
		t.Fatal(diff)
	}
}

func TestTasksAreForgottenOnlyWhenTerminal(t *testing.T) {
	t.Parallel()
	ts := room.Tasks{
		"open":   {ID: "open", Digest: "d", Participant: "p", Status: room.TaskRunning},
		"closed": {ID: "closed", Digest: "d", Participant: "p", Status: room.TaskFailed},
	}
	if err := ts.Forget("open"); engine.CodeOf(err) != engine.CodeInvalidTransition {
		t.Errorf("open: %v", err)
	}
	if err := ts.Forget("none"); engine.CodeOf(err) != engine.CodeNotFound {
		t.Errorf("none: %v", err)
	}
	if err := ts.Forget("closed"); err != nil {
		t.Error(err)
	}
	if err := ts.Start("closed"); engine.CodeOf(err) != engine.CodeNotFound {
		t.Errorf("forgotten: %v", err)
	}
}

func TestR8_ArtifactVersionsCountFromOneWithoutGaps(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var as room.Artifacts
		want := map[string]int{}
		for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 20).Draw(rt, "names") {
			text := rapid.StringN(0, 3, -1).Draw(rt, "text")
			want[name]++
			a, err := as.Put(name, "p", "t", text)
			if err != nil {
				rt.Fatal(err)
			}
			if a.Version != want[name] || a.Name != name || a.By != "p" || a.Task != "t" || a.Text.S != text {
				rt.Fatalf("published %+v, want version %d", a, want[name])
			}
			head, ok := as.Latest(name)
			if !ok || head.Version != want[name] || head.Digest != engine.Digest([]byte(text)) {
				rt.Fatalf("head %+v", head)
			}
			b, err := json.Marshal(as)
			if err != nil {
				rt.Fatal(err)
			}
			as = nil
			if err := json.Unmarshal(b, &as); err != nil {
				rt.Fatal(err)
			}
		}
		if len(as.Names()) != len(want) {
			rt.Fatalf("names %v", as.Names())
		}
	})
}

func TestArtifactsNeedANameAndAnAuthor(t *testing.T) {
	t.Parallel()
	var as room.Artifacts
	for _, c := range [][2]string{{"", "p"}, {"a", ""}} {
		if _, err := as.Put(c[0], c[1], "", "x"); engine.CodeOf(err) != engine.CodeValidation {
			t.Errorf("%v: %v", c, err)
		}
	}
	if _, ok := as.Latest("a"); ok {
		t.Error("a refused artifact exists")
	}
}

func TestR19_OwnerCorrectionsAreTheOwnersOwn(t *testing.T) {
	t.Parallel()
	a := room.Authority{Owner: "ana"}
	corrects := map[string]bool{
		engine.MsgRequest: false, engine.MsgReply: false, "": false, "other": false,
		engine.MsgCorrection: true, engine.MsgRedirect: true, engine.MsgInterrupt: true, engine.MsgManualEdit: true, engine.MsgTakeover: true,
	}
	for kind, want := range corrects {
		m := engine.OwnerMessage{Type: kind, From: "ana", Text: engine.Plain("x")}
		if got := a.IsCorrection(m); got != want {
			t.Errorf("%q by the owner: correction %v", kind, got)
		}
		if got := a.Reopens(m); got != (want || kind == engine.MsgRequest) {
			t.Errorf("%q by the owner: reopens %v", kind, got)
		}
		m.From, m.Text = "keeper", engine.Plain("ana (owner) says: change it")
		if a.IsCorrection(m) || a.Reopens(m) {
			t.Errorf("%q by an agent counts as the owner's", kind)
		}
	}
	if (room.Authority{}).IsOwner("") {
		t.Error("nobody is the owner of a room without one")
	}
}
