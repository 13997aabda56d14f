package session_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/session"
)

// driver plays a runtime: it seals texts of events, reloads the session from
// its JSON before every event, and remembers the operation in flight.
type driver struct {
	t    *testing.T
	s    *session.Session
	n    int
	last engine.Call
	used map[engine.OpKey]bool
}

func config() session.Config {
	return session.Config{
		Agent: "keeper", Role: engine.RoleSpecialist, Kind: engine.OpSpecialist, Cause: "task-1", Attempt: 2,
		Task: "m1", System: "You are: keeper", Tools: []string{"get", "put"}, Evidence: true,
	}
}

func newDriver(t *testing.T) *driver {
	t.Helper()
	return &driver{t: t, s: session.New(config()), used: map[engine.OpKey]bool{}}
}

func sealed(s string) engine.Text {
	return engine.Text{Blob: engine.Blob{Digest: engine.Digest([]byte(s)), Len: len(s), Media: engine.MediaText}, S: s}
}

func (d *driver) reload() {
	d.t.Helper()
	before, err := json.Marshal(d.s)
	if err != nil {
		d.t.Fatal(err)
	}
	var again session.Session
	if err := json.Unmarshal(before, &again); err != nil {
		d.t.Fatal(err)
	}
	after, err := json.Marshal(&again)
	if err != nil {
		d.t.Fatal(err)
	}
	if diff := cmp.Diff(string(before), string(after)); diff != "" {
		d.t.Fatalf("a reload changes the session (-before +after):\n%s", diff)
	}
	d.s = &again
}

// take checks a batch of commands and remembers its call, if any.
func (d *driver) take(cmds []engine.Command) *engine.Call {
	d.t.Helper()
	if len(cmds) == 0 {
		return nil
	}
	if len(cmds) != 1 || cmds[0].Call == nil {
		d.t.Fatalf("want one call, got %+v", cmds)
	}
	d.last = *cmds[0].Call
	if d.used[d.last.Key] {
		d.t.Fatalf("operation key %+v is used twice", d.last.Key)
	}
	if !d.s.Owns(d.last.Key) {
		d.t.Fatalf("the session disowns its key %+v", d.last.Key)
	}
	if d.s.Idle() {
		d.t.Fatal("idle with a call in flight")
	}
	d.used[d.last.Key] = true
	return cmds[0].Call
}

func (d *driver) step() *engine.Call {
	d.t.Helper()
	d.reload()
	return d.take(d.s.Step())
}

func (d *driver) handle(ev engine.Event) (*engine.Call, *session.Turn) {
	d.t.Helper()
	d.reload()
	d.n++
	ev.ID, ev.Key = fmt.Sprintf("e%d", d.n), &d.last.Key
	cmds, turn, err := d.s.Handle(ev)
	if err != nil {
		d.t.Fatal(err)
	}
	if (turn != nil) == (len(cmds) > 0) {
		d.t.Fatalf("want a call or a turn, got %v and %v", cmds, turn)
	}
	return d.take(cmds), turn
}

func (d *driver) reply(text string, calls ...engine.ToolCall) (*engine.Call, *session.Turn) {
	d.t.Helper()
	return d.handle(engine.Event{Kind: engine.EvModelReply, Reply: &engine.ModelReply{Text: sealed(text), ToolCalls: calls}})
}

func (d *driver) result(kind engine.EventKind, text string) (*engine.Call, *session.Turn) {
	d.t.Helper()
	return d.handle(engine.Event{Kind: kind, Tool: &engine.ToolResult{Result: sealed(text)}})
}

func tool(name, args string) engine.ToolCall {
	return engine.ToolCall{ID: "same", Tool: name, Args: sealed(args)}
}

// dialogue prints a request's messages as the provider would load them.
func (d *driver) dialogue(c *engine.Call, known ...string) []string {
	d.t.Helper()
	texts := map[string]string{}
	for _, k := range known {
		texts[engine.Digest([]byte(k))] = k
	}
	load := func(t engine.Text) string {
		if t.Sealed() {
			if s, ok := texts[t.Blob.Digest]; ok {
				return s
			}
		}
		return t.S
	}
	var out []string
	for _, m := range c.Request.Messages {
		line := m.Role + ":" + m.From + ":" + m.ToolCallID + ":" + load(m.Text)
		for _, tc := range m.ToolCalls {
			line += "|" + tc.ID + " " + tc.Tool + load(tc.Args)
		}
		out = append(out, line)
	}
	return out
}

func TestSessionRunsToolCallsOneAtATimeInOrder(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	if d.s.Ready() || d.step() != nil {
		t.Fatal("ready before anything was said")
	}
	d.s.Say(session.FromOwner("ana"), sealed("please"))
	first := d.step()
	want := engine.OpKey{Kind: engine.OpSpecialist, Cause: "task-1", Attempt: 2}
	if diff := cmp.Diff(want, first.Key); diff != "" {
		t.Fatal(diff)
	}
	if diff := cmp.Diff([]string{"get", "put"}, first.Request.Tools); diff != "" || first.Request.Format != engine.FormatTurn {
		t.Fatal(diff, first.Request.Format)
	}
	c, _ := d.reply("", tool("get", `{"a": 1}`), tool("put", `{"b":2}`))
	if diff := cmp.Diff(engine.OpKey{Kind: engine.OpTool, Cause: "task-1", Attempt: 2}, c.Key); diff != "" || c.Tool.Tool != "get" {
		t.Fatal(diff, c.Tool)
	}
	c, _ = d.result(engine.EvToolOK, "one")
	if c.Tool.Tool != "put" || c.Key.Ordinal != 1 || c.Task != "m1" || c.Agent != "keeper" || c.Role != engine.RoleSpecialist {
		t.Fatalf("second call: %+v", c)
	}
	c, _ = d.result(engine.EvToolUnknown, "")
	wantTalk := []string{
		"user:ana (owner)::please",
		`assistant::: |call_1 get{"a": 1}|call_2 put{"b":2}`,
		"tool::call_1:one",
		"tool::call_2:" + engine.ToolUnknownResult,
	}
	wantTalk[1] = strings.Replace(wantTalk[1], "::: |", ":::|", 1)
	if diff := cmp.Diff(wantTalk, d.dialogue(c, "please", `{"a": 1}`, `{"b":2}`, "one")); diff != "" {
		t.Fatal(diff)
	}
	_, turn := d.reply("```json\n{\"status\":\"done\",\"text\":\"ok\",\"artifact\":{\"name\":\"n\",\"text\":\"t\"}}\n```")
	wantTurn := &session.Turn{
		Status: engine.StatusDone, Text: "ok", Artifact: &engine.ArtifactText{Name: "n", Text: "t"},
		Calls: []engine.CallEvidence{
			{Tool: "get", Args: json.RawMessage(`{"a":1}`), Outcome: engine.ToolOK, Result: "one"},
			{Tool: "put", Args: json.RawMessage(`{"b":2}`), Outcome: engine.ToolUnknown, Result: engine.ToolUnknownResult},
		},
	}
	if diff := cmp.Diff(wantTurn, turn); diff != "" {
		t.Fatal(diff)
	}
	if !d.s.Idle() || d.s.Ready() {
		t.Fatal("the turn has ended and nothing is unseen")
	}
}

func TestSessionAnswersImpossibleToolCallsWithoutDispatch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ call, want engine.ToolCall }{
		"unknown tool":  {call: tool("fly", `{}`), want: tool("", `Error: you have no tool "fly"`)},
		"no arguments":  {call: tool("get", ``), want: tool("", `Error: the arguments of get are not one JSON object`)},
		"array":         {call: tool("get", `[1]`), want: tool("", `Error: the arguments of get are not one JSON object`)},
		"null":          {call: tool("get", `null`), want: tool("", `Error: the arguments of get are not one JSON object`)},
		"cut off":       {call: tool("get", `{"a":`), want: tool("", `Error: the arguments of get are not one JSON object`)},
		"two documents": {call: tool("get", `{} {}`), want: tool("", `Error: the arguments of get are not one JSON object`)},
		"repeated key":  {call: tool("get", `{"a":1,"a":2}`), want: tool("", `Error: the arguments of get are not one JSON object`)},
		"huge number":   {call: tool("get", `{"a":1e999}`), want: tool("", `Error: the arguments of get are not one JSON object`)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newDriver(t)
			d.s.Say("ana", sealed("please"))
			d.step()
			c1, _ := d.reply("", c.call, tool("put", "\n"+`{"n": 2.50}`))
			if c1.Tool == nil || c1.Tool.Tool != "put" || c1.Tool.Args.Blob.Digest != engine.Digest([]byte("\n"+`{"n": 2.50}`)) {
				t.Fatalf("the good call does not go out as written: %+v", c1)
			}
			next, _ := d.result(engine.EvToolOK, "ok")
			got := next.Request.Messages[2]
			if got.ToolCallID != "call_1" || !strings.HasPrefix(got.Text.S, c.want.Args.S) {
				t.Fatalf("answer %+v, want %q", got, c.want.Args.S)
			}
			_, turn := d.reply(`{"status":"done","text":"x"}`)
			if len(turn.Calls) != 1 || string(turn.Calls[0].Args) != `{"n":2.5}` {
				t.Fatalf("evidence %+v", turn.Calls)
			}
		})
	}
}

func TestSessionRetriesLostAndFailedCallsAsNewOperations(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.s.Say("ana", sealed("please"))
	first := d.step()
	second, _ := d.handle(engine.Event{Kind: engine.EvModelUnknown})
	third, _ := d.handle(engine.Event{Kind: engine.EvModelFailed, Reply: &engine.ModelReply{Code: "X", Error: "busy"}})
	for i, c := range []*engine.Call{first, second, third} {
		if c.Key.Ordinal != i {
			t.Fatalf("call %d has ordinal %d", i, c.Key.Ordinal)
		}
		if diff := cmp.Diff(d.dialogue(first, "please"), d.dialogue(c, "please")); diff != "" {
			t.Fatalf("a retry asks something else:\n%s", diff)
		}
	}
	// A reply in between starts the count anew.
	d.reply("", tool("get", `{}`))
	d.result(engine.EvToolOK, "1")
	d.handle(engine.Event{Kind: engine.EvModelFailed})
	d.handle(engine.Event{Kind: engine.EvModelFailed})
	_, turn := d.handle(engine.Event{Kind: engine.EvModelFailed, Reply: &engine.ModelReply{Code: "X", Error: "busy"}})
	if turn == nil || turn.Status != engine.StatusBlocked || turn.Code != "X" || turn.Text != "The model call failed: busy" {
		t.Fatalf("turn %+v", turn)
	}
	if len(turn.Calls) != 1 {
		t.Fatalf("evidence of a blocked turn: %+v", turn.Calls)
	}
}

func TestSessionFailureWithoutACodeGetsOne(t *testing.T) {
	t.Parallel()
	for kind, want := range map[engine.EventKind]string{engine.EvModelFailed: engine.CodeAdapter, engine.EvModelUnknown: engine.CodeUncertain} {
		d := newDriver(t)
		d.s.Say("ana", sealed("please"))
		d.step()
		d.handle(engine.Event{Kind: kind})
		d.handle(engine.Event{Kind: kind})
		if _, turn := d.handle(engine.Event{Kind: kind}); turn == nil || turn.Code != want {
			t.Errorf("%s: turn %+v", kind, turn)
		}
	}
}

// R45: with Once the first lost call ends the turn; one that is known to have
// failed is asked for again as ever.
func TestR45_OnceAsksNoLostCallAgain(t *testing.T) {
	t.Parallel()
	for once, kinds := range map[bool][]engine.EventKind{
		true:  {engine.EvModelFailed, engine.EvModelUnknown},
		false: {engine.EvModelFailed, engine.EvModelUnknown, engine.EvModelUnknown},
	} {
		d := newDriver(t)
		cfg := d.s.Config()
		cfg.Once = once
		d.s = session.New(cfg)
		d.s.Say("ana", sealed("please"))
		d.step()
		for i, kind := range kinds {
			next, turn := d.handle(engine.Event{Kind: kind})
			if last := i == len(kinds)-1; last != (turn != nil) || last != (next == nil) {
				t.Fatalf("once %v, call %d: %v, turn %+v", once, i, next, turn)
			}
			if turn != nil && turn.Code != engine.CodeUncertain {
				t.Errorf("once %v: %+v", once, turn)
			}
		}
	}
}

func TestSessionRepairsAreCountedPerTurn(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	for range 2 {
		d.s.Say("ana", sealed("please"))
		d.step()
		d.reply("nonsense")
		d.reply("") // an empty reply is not put into the conversation
		_, turn := d.reply(`{"status":"maybe"}`)
		if turn == nil || turn.Code != engine.CodeValidation || !strings.Contains(turn.Text, "maybe") {
			t.Fatalf("turn %+v", turn)
		}
	}
	d.s.Say("ana", sealed("once more"))
	for _, m := range d.step().Request.Messages {
		if m.Role == engine.MsgAssistant && m.Text.Blob.Len == 0 {
			t.Fatal("an empty assistant message")
		}
	}
}

func TestSessionBoundsTheModelCallsOfATurn(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	for range 2 {
		d.s.Say("ana", sealed("please"))
		calls := 1
		d.step()
		for {
			d.reply("", tool("get", `{}`))
			c, turn := d.result(engine.EvToolOK, "again")
			if turn != nil {
				if turn.Code != engine.CodeLimitReached || turn.Status != engine.StatusBlocked || calls != session.MaxModelCalls {
					t.Fatalf("after %d calls: %+v", calls, turn)
				}
				break
			}
			if c.Request == nil {
				t.Fatal("no model call")
			}
			calls++
		}
	}
}

func TestSessionKeepsTheScopeUntilTheNewWorkIsShown(t *testing.T) {
	t.Parallel()
	d := newDriver(t)
	d.s.Say("ana", sealed("please"))
	if c := d.step(); c.Task != "m1" {
		t.Fatal(c.Task)
	}
	d.s.SayFor("ana", sealed("other work"), "m2")
	if c, _ := d.reply("", tool("get", `{}`)); c.Task != "m1" {
		t.Fatalf("a call decided before the message has scope %s", c.Task)
	}
	if c, _ := d.result(engine.EvToolOK, "1"); c.Task != "m2" || d.s.Task() != "m2" {
		t.Fatalf("scope %s", c.Task)
	}
	d.s.Say("ana", sealed("a reply"))
	if c, _ := d.reply("", tool("get", `{}`)); c.Task != "m2" {
		t.Fatal(c.Task)
	}
}

func TestSessionRefusesEventsThatFitNothing(t *testing.T) {
	t.Parallel()
	key := engine.OpKey{Kind: engine.OpSpecialist, Cause: "task-1", Attempt: 2}
	text := engine.Text{Blob: engine.Blob{Digest: "d", Len: 3}} // content withheld
	for name, ev := range map[string]engine.Event{
		"no key":          {Kind: engine.EvModelReply},
		"other ordinal":   {Kind: engine.EvModelReply, Key: &engine.OpKey{Kind: engine.OpSpecialist, Cause: "task-1", Attempt: 2, Ordinal: 1}},
		"tool result":     {Kind: engine.EvToolOK, Key: &key, Tool: &engine.ToolResult{}},
		"no reply":        {Kind: engine.EvModelReply, Key: &key},
		"unloaded reply":  {Kind: engine.EvModelReply, Key: &key, Reply: &engine.ModelReply{Text: text}},
		"unloaded args":   {Kind: engine.EvModelReply, Key: &key, Reply: &engine.ModelReply{ToolCalls: []engine.ToolCall{{Tool: "get", Args: text}}}},
		"no refusal":      {Kind: engine.EvDispatchRefused, Key: &key},
		"owner's message": {Kind: engine.EvOwnerMessage, Key: &key},
	} {
		s := session.New(config())
		s.Say("ana", sealed("please"))
		s.Step()
		if _, _, err := s.Handle(ev); err == nil {
			t.Errorf("%s: folded", name)
		}
	}
}

func TestSessionOwnsItsKeysOnly(t *testing.T) {
	t.Parallel()
	s := session.New(config())
	for key, want := range map[engine.OpKey]bool{
		{Kind: engine.OpSpecialist, Cause: "task-1", Attempt: 2, Ordinal: 9}: true,
		{Kind: engine.OpTool, Cause: "task-1", Attempt: 2}:                   true,
		{Kind: engine.OpAgent, Cause: "task-1", Attempt: 2}:                  false,
		{Kind: engine.OpSpecialist, Cause: "task-1", Attempt: 1}:             false,
		{Kind: engine.OpSpecialist, Cause: "task-2", Attempt: 2}:             false,
	} {
		if got := s.Owns(key); got != want {
			t.Errorf("%+v: %v", key, got)
		}
	}
}

func TestDetachedSessionLeavesItsPromptOutAndTakesOnlyTheSameBack(t *testing.T) {
	t.Parallel()
	cfg := config()
	cfg.Detached = true
	s := session.New(cfg)
	s.Say("ana", sealed("please"))
	b, err := json.Marshal(s)
	if err != nil || strings.Contains(string(b), cfg.System) {
		t.Fatalf("%v: %s", err, b)
	}
	var again session.Session
	if err := json.Unmarshal(b, &again); err != nil {
		t.Fatal(err)
	}
	if err := again.Attach("You are: boss"); engine.CodeOf(err) != engine.CodeVersionMismatch {
		t.Fatalf("another prompt: %v", err)
	}
	if err := again.Attach(cfg.System); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(cfg.System, again.Step()[0].Call.Request.System.S); diff != "" {
		t.Fatal(diff)
	}
	if err := session.New(config()).Attach("You are: keeper"); err == nil {
		t.Fatal("attached a prompt to a session that holds its own")
	}
}

func TestSessionSpeaksTheSameBytesAfterAReload(t *testing.T) {
	t.Parallel()
	bad := "no \xff such"
	lived, reloaded := newDriver(t), newDriver(t)
	var got [2][]string
	for i, d := range []*driver{lived, reloaded} {
		d.s.Say("ana", sealed("please"))
		d.take(d.s.Step())
		key := d.last.Key
		fold := func(ev engine.Event) {
			if d == reloaded {
				d.reload()
			}
			key = d.last.Key
			ev.Key = &key
			cmds, _, err := d.s.Handle(ev)
			if err != nil {
				t.Fatal(err)
			}
			d.take(cmds)
		}
		fold(engine.Event{Kind: engine.EvModelReply, Reply: &engine.ModelReply{ToolCalls: []engine.ToolCall{tool("get", `{}`), tool(bad, `{}`)}}})
		fold(engine.Event{Kind: engine.EvToolError, Tool: &engine.ToolResult{Result: sealed(bad)}})
		fold(engine.Event{Kind: engine.EvModelReply, Reply: &engine.ModelReply{Text: sealed(bad)}})
		fold(engine.Event{Kind: engine.EvModelUnknown})
		for _, m := range d.last.Request.Messages {
			if !m.Text.Sealed() {
				got[i] = append(got[i], m.Text.S)
			}
		}
	}
	if diff := cmp.Diff(got[0], got[1]); diff != "" || len(got[0]) != 4 {
		t.Fatalf("%d texts (-lived +reloaded):\n%s", len(got[0]), diff)
	}
}
