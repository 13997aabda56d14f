package runtime_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/engine"
)

// bot is a small machine: every owner message starts one conversation for
// each worker. A worker calls its model, then the tools the reply asks for
// one commit at once, and so on until a reply without tool calls. When all
// have spoken it claims. It asks again after an unknown outcome, at most
// twice, and ends with the code of a refusal.
type bot struct {
	Workers []string                 `json:"workers"`
	Convs   map[string]*conversation `json:"convs"`
	Round   int                      `json:"round"`
	Tick    int64                    `json:"tick,omitempty"` // a timer after the start, 0 for none
	panics  string                   // text of an owner message that panics
	version string
}

type conversation struct {
	Messages []engine.Message `json:"messages"`
	Attempt  int              `json:"attempt"`
	Ordinal  int              `json:"ordinal"`
	Open     int              `json:"open"` // operations in flight
	Unknown  int              `json:"unknown"`
	Done     bool             `json:"done"`
}

func newBot(workers ...string) *bot {
	return &bot{Workers: workers, Convs: map[string]*conversation{}, version: "bot@1"}
}

func (b *bot) Version() string { return b.version }

func (b *bot) Snapshot() ([]byte, error) { return engine.Canonical(b) }

func (b *bot) Restore(s []byte) error { return json.Unmarshal(s, b) }

var errNonsense = errors.New("the machine cannot go on")

func (b *bot) Handle(ev engine.Event) ([]engine.Command, error) {
	switch ev.Kind {
	case engine.EvStarted:
		if b.Tick > 0 {
			return []engine.Command{{Kind: engine.CmdTimer, Timer: &engine.Timer{ID: "tick", AtUS: b.Tick}}}, nil
		}
		return nil, nil
	case engine.EvTimer:
		return []engine.Command{{Kind: engine.CmdNote, Note: &engine.Note{Kind: "tick", Body: engine.Plain("tick")}}}, nil
	case engine.EvOwnerMessage:
		return b.heard(ev)
	case engine.EvModelReply, engine.EvModelFailed, engine.EvModelUnknown, engine.EvToolOK, engine.EvToolError,
		engine.EvToolUnknown, engine.EvReservationRefused, engine.EvDispatchRefused:
		return b.result(ev)
	case engine.EvOwnerCommand:
	}
	return nil, errNonsense
}

func (b *bot) heard(ev engine.Event) ([]engine.Command, error) {
	switch ev.Message.Text.S {
	case "fail":
		return nil, errNonsense
	case b.panics:
		panic("a bug")
	}
	b.Round++
	cmds := []engine.Command{{Kind: engine.CmdWithdraw, Claim: &engine.Claim{By: "bot"}}}
	for _, w := range b.Workers {
		c := b.Convs[w]
		if c == nil {
			c = &conversation{}
			b.Convs[w] = c
		}
		c.Messages = append(c.Messages, engine.Message{Role: engine.MsgUser, From: ev.Message.From, Text: ev.Message.Text})
		c.Done = false
		if c.Open == 0 {
			cmds = append(cmds, b.call(w, c))
		}
	}
	return cmds, nil
}

func (b *bot) call(w string, c *conversation) engine.Command {
	c.Ordinal++
	c.Open++
	return engine.Command{Kind: engine.CmdModel, Call: &engine.Call{
		Key:   engine.OpKey{Kind: engine.OpAgent, Cause: w, Attempt: c.Attempt, Ordinal: c.Ordinal},
		Agent: w, Role: engine.RoleAgent, Task: w,
		Request: &engine.Request{Format: engine.FormatTurn, System: engine.Plain("You are: " + w), Messages: c.Messages, Tools: []string{"add", "get"}},
	}}
}

// result folds the outcome of one operation; its cause names the worker.
func (b *bot) result(ev engine.Event) ([]engine.Command, error) {
	w := ev.Key.Cause
	c := b.Convs[w]
	c.Open--
	switch ev.Kind {
	case engine.EvModelReply:
		if ev.Reply.ToolCalls == nil {
			return b.spoke(w, c, ev.Reply.Text)
		}
		c.Messages = append(c.Messages, engine.Message{Role: engine.MsgAssistant, Text: ev.Reply.Text, ToolCalls: ev.Reply.ToolCalls})
		var cmds []engine.Command
		for _, t := range ev.Reply.ToolCalls {
			c.Ordinal++
			c.Open++
			cmds = append(cmds, engine.Command{Kind: engine.CmdTool, Call: &engine.Call{
				Key:   engine.OpKey{Kind: engine.OpTool, Cause: w, Attempt: c.Attempt, Ordinal: c.Ordinal},
				Agent: w, Role: engine.RoleAgent, Task: w, Tool: &engine.ToolUse{Tool: t.Tool, Args: t.Args},
			}})
		}
		return cmds, nil
	case engine.EvToolOK, engine.EvToolError:
		c.Messages = append(c.Messages, engine.Message{Role: engine.MsgTool, Text: ev.Tool.Result})
	case engine.EvToolUnknown:
		c.Messages = append(c.Messages, engine.Message{Role: engine.MsgTool, Text: engine.Plain(engine.ToolUnknownResult)})
	case engine.EvModelUnknown, engine.EvModelFailed:
		if c.Unknown++; c.Unknown > 2 {
			return []engine.Command{{Kind: engine.CmdEnd, End: &engine.End{Reason: engine.EndGaveUp}}}, nil
		}
		c.Attempt++
		c.Messages = append(c.Messages, engine.Message{Role: engine.MsgUser, Text: engine.Plain("again")})
	case engine.EvReservationRefused:
		return []engine.Command{{Kind: engine.CmdEnd, End: &engine.End{Reason: engine.EndBudget}}}, nil
	case engine.EvDispatchRefused:
		reason := engine.EndStepLimit
		if ev.Refusal.Code != engine.CodeLimitReached {
			reason = engine.EndEscalated
		}
		return []engine.Command{{Kind: engine.CmdEnd, End: &engine.End{Reason: reason}}}, nil
	case engine.EvStarted, engine.EvOwnerMessage, engine.EvOwnerCommand, engine.EvTimer:
		return nil, errNonsense
	}
	if c.Open > 0 {
		return nil, nil
	}
	return []engine.Command{b.call(w, c)}, nil
}

func (b *bot) spoke(w string, c *conversation, text engine.Text) ([]engine.Command, error) {
	c.Messages = append(c.Messages, engine.Message{Role: engine.MsgAssistant, Text: text})
	c.Done = true
	cmds := []engine.Command{
		{Kind: engine.CmdSay, Say: &engine.Say{ID: engine.StableID("say_", w, string(rune('0'+b.Round))), From: w, Text: text}},
		{Kind: engine.CmdArtifact, Artifact: &engine.Artifact{Name: w, Version: b.Round, By: w, Text: text}},
	}
	all := !slices.ContainsFunc(b.Workers, func(w string) bool { return !b.Convs[w].Done })
	if all && !strings.HasPrefix(text.S, "no claim") {
		cmds = append(cmds, engine.Command{Kind: engine.CmdClaim, Claim: &engine.Claim{By: "bot", Text: text}})
	}
	return cmds, nil
}
