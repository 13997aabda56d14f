package simulated

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
)

func TestHandOverChains(t *testing.T) {
	t.Parallel()
	for _, first := range []string{"keeper", "writer", "auditor"} {
		tm := newTeam(t, provider(t, relay()), "keeper", "writer", "auditor")
		got := tm.run(t, first, owner, "Make the books agree.")
		want := []string{"keeper: " + list1, "keeper: " + fix, "keeper: " + add, "writer: " + note, "keeper: " + list2}
		if diff := cmp.Diff(want, tm.made); diff != "" {
			t.Errorf("started with %s: %s", first, diff)
		}
		if got.Status != engine.StatusDone || got.Text != "The books agree." || got.Artifact == nil {
			t.Errorf("started with %s: closing %+v", first, got)
		}
	}
}

// A correction that meets nothing wrong of one's own goes round: colleagues
// look again at theirs, and do only what is missing.
func TestCorrectionIsPassedOnWhenNothingOfMineIsWrong(t *testing.T) {
	t.Parallel()
	p := provider(t, ledger())
	tm := newTeam(t, p, "keeper", "writer")
	tm.run(t, "keeper", owner, "Make the books agree.")
	w := tm.members["writer"]
	for i := range w.messages { // the writer had written something else
		if len(w.messages[i].ToolCalls) > 0 {
			w.messages[i].ToolCalls[0].Args = `{"to":"ana","text":"changed"}`
		}
	}
	tm.made, tm.order = nil, nil
	got := tm.run(t, "keeper", owner, "The note is not what I asked for.")
	if diff := cmp.Diff([]string{"writer: " + note}, tm.made); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"keeper", "writer"}, tm.order); diff != "" {
		t.Error(diff)
	}
	if got.Status != engine.StatusDone {
		t.Errorf("%+v", got)
	}
	// And with everything right, nothing is done twice.
	tm.made = nil
	if got = tm.run(t, "keeper", owner, "Really?"); got.Status != engine.StatusDone || len(tm.made) > 0 {
		t.Errorf("everything right: %+v after %v", got, tm.made)
	}
}

// Who finds a fault of his own repairs it and claims; colleagues who have
// finished are not started again.
func TestCorrectionOfMyOwnFaultStaysWithMe(t *testing.T) {
	t.Parallel()
	tm := newTeam(t, provider(t, ledger()), "keeper", "writer")
	tm.run(t, "keeper", owner, "Make the books agree.")
	k := tm.members["keeper"]
	for i := range k.messages {
		if len(k.messages[i].ToolCalls) > 0 && k.messages[i].ToolCalls[0].Tool == "fix" {
			k.messages[i].ToolCalls[0].Args = `{"id":"i-17","cents":4701}`
		}
	}
	tm.made, tm.order = nil, nil
	got := tm.run(t, "keeper", owner, "17 still has the old amount.")
	if diff := cmp.Diff([]string{"keeper: " + fix}, tm.made); diff != "" {
		t.Error(diff)
	}
	if got.Status != engine.StatusDone || len(tm.order) != 1 {
		t.Errorf("%+v, ran %v", got, tm.order)
	}
}

func TestHandOverTellsWhatIsDoneAndWhatComesAfter(t *testing.T) {
	t.Parallel()
	k := newTalk(t, provider(t, relay()), "keeper", "writer", "auditor")
	k.say(owner, "Make the books agree.")
	got := k.turn()
	want := marks{todo: []string{"s4"}, done: []string{"s1", "s2", "s3"}, later: []string{"s5", "s6"}}
	if diff := cmp.Diff(want, provider(t, relay()).gold.readMarks(got.Text), cmp.AllowUnexported(marks{})); diff != "" {
		t.Error(diff)
	}
	if got.Status != engine.StatusAnswer {
		t.Errorf("a hand-over is no claim: %s", got.Status)
	}
}

// What a colleague is asked for ends where somebody else comes between.
func TestHandOverStopsAtTheNextOwnStep(t *testing.T) {
	t.Parallel()
	o := relay()
	o.Steps = append(o.Steps, Step{ID: "s7", By: "writer", Tool: "note", Args: raw(`{"to":"bob"}`), After: []string{"s5"}})
	o.Steps[5], o.Steps[6] = o.Steps[6], o.Steps[5]
	p := provider(t, o)
	k := newTalk(t, p, "keeper", "writer", "auditor")
	k.say(owner, "Make the books agree.")
	want := marks{todo: []string{"s4"}, done: []string{"s1", "s2", "s3"}, later: []string{"s5", "s7", "s6"}}
	if diff := cmp.Diff(want, p.gold.readMarks(k.turn().Text), cmp.AllowUnexported(marks{})); diff != "" {
		t.Error(diff)
	}
}

// Work of a colleague that the owner has just asked for comes before doubts
// about one's own.
func TestNewWorkElsewhereComesBeforeDoubts(t *testing.T) {
	t.Parallel()
	o := ledger()
	o.Messages["m2"] = "Tell Bob as well."
	o.Steps = append(o.Steps, Step{ID: "s5", By: "writer", Tool: "note", Args: raw(`{"to":"bob"}`), Since: "m2"})
	tm := newTeam(t, provider(t, o), "keeper", "writer")
	tm.members["keeper"].result = func(u toolUse) string {
		if u.tool == "add" {
			return engine.ToolUnknownResult
		}
		return "ok"
	}
	tm.run(t, "keeper", owner, "Make the books agree.")
	tm.made = nil
	tm.run(t, "keeper", owner, o.Messages["m2"])
	if diff := cmp.Diff([]string{`writer: note {"to":"bob"}`}, tm.made); diff != "" {
		t.Error(diff)
	}
}

// Who did not hear the owner change the order learns of it with the hand-over,
// and still knows when the owner comes back.
func TestHandOverPassesOnWhatTheOwnerChanged(t *testing.T) {
	t.Parallel()
	o := ledger()
	o.Messages["m2"] = "Write to Ana only; and look at the shop book first."
	o.Steps[2].Until = "m2"
	o.Steps = append(o.Steps, Step{ID: "s5", By: "keeper", Tool: "list", Args: raw(`{"book":"shop"}`), Since: "m2"})
	tm := newTeam(t, provider(t, o), "keeper", "writer")
	tm.run(t, "keeper", owner, "Make the books agree.")
	tm.made = nil
	tm.run(t, "writer", owner, o.Messages["m2"])
	if diff := cmp.Diff([]string{"keeper: " + list2}, tm.made); diff != "" {
		t.Errorf("the change: %s", diff)
	}
	k := tm.members["keeper"] // its answer to the change was lost on the way
	for i := range k.messages {
		if len(k.messages[i].ToolCalls) > 0 && k.messages[i].ToolCalls[0].Args == `{"book":"shop"}` {
			k.messages[i].ToolCalls[0].Args = `{"book":"bank"}`
		}
	}
	tm.made = nil
	tm.run(t, "keeper", owner, "You have not looked at the shop.")
	if diff := cmp.Diff([]string{"keeper: " + list2}, tm.made); diff != "" {
		t.Errorf("the owner came back: %s", diff)
	}
}
