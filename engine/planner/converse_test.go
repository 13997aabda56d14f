package planner

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
)

// A correction that names its participants bypasses the reasoner, and the plan
// follows it afterwards however their conversations end.
func TestR66_ACorrectionByReferenceIsPlannedHoweverItsConversationEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(d *driver){
		"done":     func(d *driver) { d.finish("writer", engine.StatusDone, "noted") },
		"question": func(d *driver) { d.finish("writer", engine.StatusQuestion, "which?") },
		"blocked":  func(d *driver) { d.finish("writer", engine.StatusBlocked, "cannot") },
		"revoked":  func(d *driver) { d.refuse("writer", engine.EvDispatchRefused, engine.CodeForbidden) },
		"no money": func(d *driver) {
			d.refuse("writer", engine.EvReservationRefused, engine.CodeBudgetExhausted)
			d.owner(engine.MsgReply, "there is more now")
			d.plan(engine.PlanEnvelope{Decision: engine.DecideNoop})
		},
	} {
		d := planned(t, testSpec(), fixStep(), reportStep("fix"))
		d.owner(engine.MsgCorrection, "@writer only i-17")
		end(d)
		d.finish("keeper", engine.StatusDone, "fixed")
		req := d.shown()
		if req.Reason != "message" || req.ObjectiveRevision != 1 || req.Messages[1].Text != "@writer only i-17" {
			t.Errorf("%s: %+v", name, req)
		}
		if d.count(engine.OpReview) > 0 || d.status() != StatusActive {
			t.Errorf("%s: the work of the older revision went on: %v", name, d.lines())
		}
	}
	// Nor does it matter that the objective was waiting with a question, paused
	// meanwhile or not: the correction is planned.
	for _, paused := range []bool{false, true} {
		d := planned(t, testSpec(), fixStep(), reportStep("fix"))
		d.finish("keeper", engine.StatusBlocked, "no")
		d.plan(engine.PlanEnvelope{Decision: engine.DecideAskUser, Text: "which?"})
		if paused {
			d.control(engine.CommandPause)
		}
		d.owner(engine.MsgCorrection, "@writer only i-17")
		d.finish("writer", engine.StatusDone, "noted")
		if paused {
			d.control(engine.CommandResume)
		}
		if d.shown().Reason != "message" || d.status() != StatusActive {
			t.Errorf("paused %v: %s %v", paused, d.status(), d.lines())
		}
	}
	// No review is bought of a plan that has to change.
	d := planned(t, testSpec(), fixStep(), reportStep("fix"))
	d.finish("keeper", engine.StatusDone, "fixed")
	d.owner(engine.MsgCorrection, "@keeper only i-17")
	d.finish("writer", engine.StatusDone, "fixed")
	d.finish("keeper", engine.StatusAnswer, "noted")
	if diff := cmp.Diff([]string{"model coordinator plan/v1"}, d.acts()); diff != "" {
		t.Fatal(diff)
	}
	// With several conversations the plan waits for the last.
	d = planned(t, testSpec(), fixStep(), reportStep("fix"))
	d.finish("keeper", engine.StatusBlocked, "no")
	d.plan(engine.PlanEnvelope{Decision: engine.DecideNoop})
	d.owner(engine.MsgCorrection, "@keeper and @writer: only i-17")
	d.finish("keeper", engine.StatusBlocked, "cannot")
	if d.count(engine.OpInterpret) != 2 {
		t.Fatal("planned while a conversation went on", d.lines())
	}
	d.finish("writer", engine.StatusAnswer, "noted")
	if d.shown().Reason != "message" {
		t.Fatal(d.lines())
	}
}

// What a conversation did stands in the room, whether or not a plan ordered it:
// reasoner and reviewer see it, so that nobody orders it again.
func TestR22_WhatAConversationDidIsShown(t *testing.T) {
	t.Parallel()
	d := planned(t, testSpec(), fixStep(), reportStep("fix"))
	d.finish("keeper", engine.StatusDone, "fixed")
	d.owner(engine.MsgReply, "@keeper and i-18")
	talked := func(progress []engine.TaskProgress) engine.TaskProgress {
		t.Helper()
		i := slices.IndexFunc(progress, func(p engine.TaskProgress) bool { return p.Task == "talk:keeper" })
		if i < 0 {
			t.Fatalf("no conversation in %+v", progress)
		}
		return progress[i]
	}
	d.work("keeper", "fix", `{"id":"i-18"}`, "ok")
	d.finish("writer", engine.StatusDone, "i-17 was fixed")
	if d.count(engine.OpReview) != 0 {
		t.Fatal("reviewed while a conversation went on")
	}
	d.finish("keeper", engine.StatusAnswer, "i-18 is fixed too")
	want := engine.TaskProgress{
		Task: "talk:keeper", Participant: "keeper", Instruction: "messages that named keeper; outside the plan", Criteria: []string{},
		Status: "completed", Result: "i-18 is fixed too",
		Calls: []engine.CallEvidence{{Tool: "fix", Args: []byte(`{"id":"i-18"}`), Outcome: engine.ToolOK, Result: "ok"}},
	}
	if diff := cmp.Diff(want, talked(d.judged("auditor").Evidence)); diff != "" {
		t.Fatal(diff)
	}
	d.verdict("auditor", "unmet", "met")
	if diff := cmp.Diff(want, talked(d.shown().Progress)); diff != "" {
		t.Fatal(diff)
	}
	// It is no task: a plan cannot keep it.
	d.plan(revise(with(fixStep(), func(s *engine.PlanStep) { s.TaskID = "talk:keeper" }), reportStep("fix")))
	if got := d.shown().Feedback; len(got) != 1 || got[0].Code != IssueReuse {
		t.Fatal(got)
	}
	d.plan(engine.PlanEnvelope{Decision: engine.DecideNoop})
	// Evidence is bounded: the newest calls stay.
	k := d.m.st.Talks[0]
	for len(k.Calls) < maxTalkCalls {
		k.Calls = append(k.Calls, k.Calls[0])
	}
	d.state = d.snapshot(d.m)
	d.owner(engine.MsgReply, "@keeper and i-19")
	d.work("keeper", "fix", `{"id":"i-19"}`, "ok")
	d.finish("keeper", engine.StatusAnswer, "all")
	d.owner(engine.MsgRequest, "how far?")
	calls := talked(d.shown().Progress).Calls
	if len(calls) != maxTalkCalls || string(calls[maxTalkCalls-1].Args) != `{"id":"i-19"}` {
		t.Fatalf("%d calls, the last %s", len(calls), calls[len(calls)-1].Args)
	}
}

// A hand-over within one owner message is bounded.
func TestHandOversAreBounded(t *testing.T) {
	t.Parallel()
	d := start(t, testSpec())
	d.owner(engine.MsgRequest, "@keeper hello")
	for i := range MaxHandovers {
		d.finish([]string{"keeper", "writer"}[i%2], engine.StatusAnswer, []string{"@writer go on", "@keeper go on"}[i%2])
	}
	d.finish("keeper", engine.StatusAnswer, "@writer go on")
	if len(d.open) != 0 || !strings.Contains(d.note(NoteRejected), engine.CodeLimitReached) {
		t.Fatal(d.lines())
	}
	d.owner(engine.MsgRequest, "@keeper again")
	d.finish("keeper", engine.StatusAnswer, "@writer go on")
	if d.call("writer").Request == nil {
		t.Fatal("the count does not start again with the owner's word")
	}
}
