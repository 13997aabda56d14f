package modetest

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/agentrooms/qualify/engine"
)

// Open lists the calls without outcome, oldest first.
func (d *Driver) Open() []engine.Call { return d.open }

// Claimed reports whether a claim stands.
func (d *Driver) Claimed() bool { return d.claimed }

// Call returns the one open call of an agent.
func (d *Driver) Call(agent string) engine.Call {
	d.t.Helper()
	var found []engine.Call
	for _, c := range d.open {
		if c.Agent == agent {
			found = append(found, c)
		}
	}
	if len(found) != 1 {
		d.t.Fatalf("%s has %d open calls, want 1", agent, len(found))
	}
	return found[0]
}

// Owner delivers a message of the room's owner.
func (d *Driver) Owner(kind, id, text string) []engine.Command {
	d.t.Helper()
	return d.Message(d.spec.Owner, kind, id, text)
}

// Message delivers a message whose author was resolved as from.
func (d *Driver) Message(from, kind, id, text string) []engine.Command {
	d.t.Helper()
	return d.Send(engine.Event{Kind: engine.EvOwnerMessage, Message: &engine.OwnerMessage{
		ID: id, Type: kind, From: from, Text: engine.Plain(text),
	}})
}

// Reply answers the open model call of an agent.
func (d *Driver) Reply(agent, text string, calls ...engine.ToolCall) []engine.Command {
	d.t.Helper()
	return d.outcome(d.Call(agent), engine.Event{Kind: engine.EvModelReply, Reply: &engine.ModelReply{
		Text: engine.Plain(text), ToolCalls: calls, Finish: "stop",
	}})
}

// Turn answers the open model call of an agent with a reply that ends the turn.
func (d *Driver) Turn(agent, status, text string, artifact ...engine.ArtifactText) []engine.Command {
	d.t.Helper()
	r := engine.TurnReply{Status: status, Text: text}
	if len(artifact) > 0 {
		r.Artifact = &artifact[0]
	}
	b, err := json.Marshal(r)
	if err != nil {
		d.t.Fatalf("turn reply: %v", err)
	}
	return d.Reply(agent, string(b))
}

// Model ends the open model call of an agent without a reply: EvModelFailed or
// EvModelUnknown.
func (d *Driver) Model(agent string, kind engine.EventKind) []engine.Command {
	d.t.Helper()
	ev := engine.Event{Kind: kind}
	if kind == engine.EvModelFailed {
		ev.Reply = &engine.ModelReply{Error: "it failed"}
	}
	return d.outcome(d.Call(agent), ev)
}

// Tool ends the open tool call of an agent: EvToolOK, EvToolError or
// EvToolUnknown.
func (d *Driver) Tool(agent string, kind engine.EventKind, result string) []engine.Command {
	d.t.Helper()
	c := d.Call(agent)
	if c.Tool == nil {
		d.t.Fatalf("the open call of %s is no tool call", agent)
	}
	return d.outcome(c, engine.Event{Kind: kind, Tool: &engine.ToolResult{
		Tool: c.Tool.Tool, Args: c.Tool.Args, Result: engine.Plain(result), Agent: c.Agent, Task: c.Task,
	}})
}

// Refuse refuses the open call of an agent.
func (d *Driver) Refuse(agent string, kind engine.EventKind, code string) []engine.Command {
	d.t.Helper()
	return d.outcome(d.Call(agent), engine.Event{Kind: kind, Refusal: &engine.Refusal{Code: code, Reason: "because"}})
}

func (d *Driver) outcome(c engine.Call, ev engine.Event) []engine.Command {
	d.t.Helper()
	ev.Key, ev.Op = &c.Key, engine.OperationID("room", c.Key)
	ev.ID = fmt.Sprintf("ev-%d-%s", d.n, ev.Op)
	return d.Send(ev)
}

// ToolCall is a model's wish to call a tool.
func ToolCall(tool, args string) engine.ToolCall {
	return engine.ToolCall{ID: "x", Tool: tool, Args: engine.JSONText([]byte(args))}
}

// Lines describes commands, one line each, for comparison.
func Lines(cmds []engine.Command) []string {
	out := []string{}
	for _, c := range cmds {
		out = append(out, line(c))
	}
	return out
}

func line(c engine.Command) string {
	if c.Kind == engine.CmdModel {
		return fmt.Sprintf("model %s %s task=%s", c.Call.Agent, c.Call.Request.Format, c.Call.Task)
	}
	if c.Kind == engine.CmdTool {
		return fmt.Sprintf("tool %s %s%s task=%s", c.Call.Agent, c.Call.Tool.Tool, c.Call.Tool.Args.S, c.Call.Task)
	}
	if c.Say != nil {
		return fmt.Sprintf("say %s>%s %s: %s", c.Say.From, strings.Join(c.Say.To, ","), c.Say.Status, c.Say.Text.S)
	}
	if c.Claim != nil {
		return fmt.Sprintf("%s %s: %s", c.Kind, c.Claim.By, c.Claim.Text.S)
	}
	if c.Artifact != nil {
		return fmt.Sprintf("artifact %s v%d by %s: %s", c.Artifact.Name, c.Artifact.Version, c.Artifact.By, c.Artifact.Text.S)
	}
	if c.Note != nil {
		return fmt.Sprintf("note %s %s", c.Note.Kind, c.Note.Body.S)
	}
	if c.End != nil {
		return "end " + c.End.Reason
	}
	return string(c.Kind)
}

// Talk describes the messages of a request, one line each.
func Talk(c engine.Call) []string {
	out := []string{}
	if c.Request == nil {
		return out
	}
	for _, m := range c.Request.Messages {
		l := m.Role
		if m.From != "" {
			l += " " + m.From
		}
		if m.ToolCallID != "" {
			l += " " + m.ToolCallID
		}
		l += ": " + m.Text.S
		for _, tc := range m.ToolCalls {
			l += " [" + tc.ID + " " + tc.Tool + tc.Args.S + "]"
		}
		out = append(out, l)
	}
	return out
}
