package simulated

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
)

// ledger is a small case of its own: two agents, a read, two writes, a note.
func ledger() Oracle {
	return Oracle{
		Steps: []Step{
			{ID: "s1", By: "keeper", Tool: "list", Args: raw(`{"book":"bank"}`)},
			{ID: "s2", By: "keeper", Tool: "fix", Args: raw(`{"id":"i-17","cents":4700}`), After: []string{"s1"}, Meets: []string{"c-amount"}},
			{ID: "s3", By: "keeper", Tool: "add", Args: raw(`{"id":"i-19","cents":250}`), After: []string{"s1"}, Meets: []string{"c-amount"}},
			{ID: "s4", By: "writer", Tool: "note", Args: raw(`{"to":"ana","text":"changed i-17, added i-19"}`), After: []string{"s2", "s3"}, Meets: []string{"c-note"}, Report: true},
		},
		Criteria: []string{"c-amount", "c-note"}, NeedsPlan: true,
		Messages: map[string]string{"m1": "Make the books agree."},
		Tools:    map[string]string{"list": engine.ActionRead, "fix": engine.ActionWrite, "add": engine.ActionWrite, "note": engine.ActionDraft},
	}
}

// relay needs three hand-overs: writer and keeper wait for each other, and the
// last word is the auditor's.
func relay() Oracle {
	o := ledger()
	o.Steps = append(o.Steps,
		Step{ID: "s5", By: "keeper", Tool: "list", Args: raw(`{"book":"shop"}`), After: []string{"s4"}},
		Step{ID: "s6", By: "auditor", Say: "The books agree.", Artifact: &engine.ArtifactText{Name: "report", Text: "i-17 and i-19 are right"}, After: []string{"s5"}, Meets: []string{"c-note"}, Report: true})
	o.Steps[3].Report = false
	return o
}

var schemas = map[string]string{
	"list": `{"type":"object","properties":{"book":{"enum":["shop","bank"]}}}`,
	"fix":  `{"type":"object","properties":{"id":{"type":"string"},"cents":{"type":"integer"}}}`,
	"add":  `{"type":"object","properties":{"id":{"type":"string"},"cents":{"type":"integer"}}}`,
	"note": `{"type":"object","properties":{"to":{"enum":["ana"]},"text":{"type":"string"}}}`,
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

func tools(names ...string) []model.Tool {
	var out []model.Tool
	for _, n := range names {
		out = append(out, model.Tool{Name: n, Description: n, Schema: raw(schemas[n])})
	}
	return out
}

var allTools = []string{"list", "fix", "add", "note"}

func provider(t testing.TB, o Oracle, change ...func(*Config)) *Provider {
	t.Helper()
	cfg := Config{Key: Key{Seed: 7, Case: "ledger", Trial: 0, Salt: "arm"}, Oracle: o}
	for _, f := range change {
		f(&cfg)
	}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func rates(r Rates) func(*Config) { return func(c *Config) { c.Rates = r } }
func salt(s string) func(*Config) { return func(c *Config) { c.Key.Salt = s } }

// talk drives one agent's conversation as a session does.
type talk struct {
	t          testing.TB
	p          *Provider
	me         string
	colleagues []string
	tools      []string
	messages   []model.Message
	n          int
	// result answers a tool call; nil answers "ok".
	result func(use toolUse) string
	made   []toolUse
}

func newTalk(t testing.TB, p *Provider, me string, colleagues ...string) *talk {
	return &talk{t: t, p: p, me: me, colleagues: colleagues, tools: allTools}
}

func (k *talk) call() model.Call {
	system := "Some rules.\n" + engine.PromptYouAre + k.me + "\n" + engine.PromptCriteria + "\n- c-amount: amounts\n- c-note: a note\n"
	if len(k.colleagues) > 0 {
		system += engine.PromptColleagues + "\n"
		for _, c := range k.colleagues {
			system += "- " + c + ": helps\n"
		}
		system += "\n- not: a colleague\n"
	}
	return model.Call{
		Op: fmt.Sprintf("op_%s_%d", k.me, k.n), Format: engine.FormatTurn, System: system,
		Messages: append([]model.Message(nil), k.messages...), Tools: tools(k.tools...), MaxOutputTokens: 800,
	}
}

func (k *talk) say(from, text string) {
	k.messages = append(k.messages, model.Message{Role: engine.MsgUser, From: from, Text: text})
}

// step makes one model call and answers its tool call, if any.
func (k *talk) step() (engine.TurnReply, bool) {
	k.t.Helper()
	r, err := k.p.Call(k.t.Context(), k.call())
	if err != nil {
		k.t.Fatal(err)
	}
	k.n++
	m := model.Message{Role: engine.MsgAssistant, Text: r.Text}
	for _, c := range r.ToolCalls {
		c.ID = fmt.Sprintf("call_%d", len(k.made)+1) // as sessions do
		m.ToolCalls = append(m.ToolCalls, c)
	}
	k.messages = append(k.messages, m)
	if len(r.ToolCalls) == 0 {
		var reply engine.TurnReply
		if err := json.Unmarshal([]byte(r.Text), &reply); err != nil {
			k.say(room, "not readable: "+err.Error())
			return reply, false
		}
		return reply, true
	}
	use := toolUse{tool: r.ToolCalls[0].Tool, args: r.ToolCalls[0].Args}
	k.made = append(k.made, use)
	result := "ok"
	if k.result != nil {
		result = k.result(use)
	}
	k.messages = append(k.messages, model.Message{Role: engine.MsgTool, ToolCallID: fmt.Sprintf("call_%d", len(k.made)), Text: result})
	return engine.TurnReply{}, false
}

// turn runs to the end of a turn.
func (k *talk) turn() engine.TurnReply {
	k.t.Helper()
	for range 60 {
		if reply, ended := k.step(); ended {
			return reply
		}
	}
	k.t.Fatalf("no end of the turn after 60 calls; made %v", k.made)
	return engine.TurnReply{}
}

// uses renders the tool calls made, in order.
func (k *talk) uses() []string {
	out := []string{}
	for _, u := range k.made {
		out = append(out, u.tool+" "+u.args)
	}
	return out
}

const (
	owner = "ana (owner)"
	list1 = `list {"book":"bank"}`
	fix   = `fix {"cents":4700,"id":"i-17"}`
	add   = `add {"cents":250,"id":"i-19"}`
	note  = `note {"text":"changed i-17, added i-19","to":"ana"}`
	list2 = `list {"book":"shop"}`
)

// team plays a room in which each participant has a conversation and an @
// reference starts one, as selective routing does.
type team struct {
	members map[string]*talk
	order   []string // who ran
	made    []string // by whom, what
}

func newTeam(t testing.TB, p *Provider, names ...string) *team {
	tm := &team{members: map[string]*talk{}}
	for _, n := range names {
		var others []string
		for _, o := range names {
			if o != n {
				others = append(others, o)
			}
		}
		tm.members[n] = newTalk(t, p, n, others...)
	}
	return tm
}

// run gives a message to one member and follows references to the end.
func (tm *team) run(t testing.TB, to, from, text string) engine.TurnReply {
	t.Helper()
	for range 20 {
		k := tm.members[to]
		before := len(k.made)
		k.say(from, text)
		reply := k.turn()
		tm.order = append(tm.order, to)
		for _, u := range k.uses()[before:] {
			tm.made = append(tm.made, to+": "+u)
		}
		next := ""
		for name := range tm.members {
			if strings.Contains(reply.Text, "@"+name+" ") {
				next = name
			}
		}
		if next == "" {
			return reply
		}
		to, from, text = next, to, reply.Text
	}
	t.Fatalf("the hand-overs do not end: %v", tm.order)
	return engine.TurnReply{}
}

func assistantCall(id, tool, args string) model.Message {
	return model.Message{Role: engine.MsgAssistant, ToolCalls: []model.ToolCall{{ID: id, Tool: tool, Args: args}}}
}

func toolResult(id, text string) model.Message {
	return model.Message{Role: engine.MsgTool, ToolCallID: id, Text: text}
}
