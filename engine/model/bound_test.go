package model_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
)

func fullCall() model.Call {
	return model.Call{
		Op: "op_1", Format: engine.FormatTurn, System: "be brief", Model: "m", MaxOutputTokens: 9,
		Messages: []model.Message{
			{Role: engine.MsgUser, From: "ana (owner)", Text: "hé"},
			{Role: engine.MsgAssistant, ToolCalls: []model.ToolCall{{ID: "c1", Tool: "get", Args: `{"a":1}`}}},
			{Role: engine.MsgTool, ToolCallID: "c1", Text: "1"},
		},
		Tools: []model.Tool{{Name: "get", Description: "gets", Schema: json.RawMessage(`{"type":"object"}`)}},
	}
}

// Every byte that is sent, wherever it stands, raises the bound.
func TestR41_BoundCountsEveryByte(t *testing.T) {
	t.Parallel()
	base, err := model.BoundTokens(fullCall())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		more int64
		grow func(*model.Call)
	}{
		{"system", 3, func(c *model.Call) { c.System += "abc" }},
		{"two-byte letter", 2, func(c *model.Call) { c.Messages[0].Text += "é" }},
		{"speaker", 1, func(c *model.Call) { c.Messages[0].From += "x" }},
		{"arguments", 2, func(c *model.Call) { c.Messages[1].ToolCalls[0].Args += "  " }},
		{"tool call id", 1, func(c *model.Call) { c.Messages[2].ToolCallID += "x" }},
		{"schema", 1, func(c *model.Call) { c.Tools[0].Schema = append(c.Tools[0].Schema, ' ') }},
		{"description", 1, func(c *model.Call) { c.Tools[0].Description += "x" }},
	} {
		call := fullCall()
		c.grow(&call)
		got, err := model.BoundTokens(call)
		if err != nil {
			t.Fatal(err)
		}
		if got.Input-base.Input != c.more || got.Output != 9 {
			t.Errorf("%s: %+v against %+v, want %d more", c.name, got, base, c.more)
		}
	}
	call := fullCall()
	call.Messages = append(call.Messages, model.Message{Role: engine.MsgUser})
	if got, err := model.BoundTokens(call); err != nil || got.Input <= base.Input+int64(len(engine.MsgUser)) {
		t.Errorf("an empty message adds no overhead: %+v, %v", got, err)
	}
}

func TestR41_NoOutputLimitIsUnbounded(t *testing.T) {
	t.Parallel()
	call := fullCall()
	call.MaxOutputTokens = 0
	if _, err := model.BoundTokens(call); !errors.Is(err, model.ErrUnbounded) {
		t.Errorf("got %v", err)
	}
}

func TestCallDigestIgnoresTheOperation(t *testing.T) {
	t.Parallel()
	a, b, c := fullCall(), fullCall(), fullCall()
	b.Op = "op_2"
	c.System += "!"
	digests := make([]string, 0, 3)
	for _, call := range []model.Call{a, b, c} {
		d, err := call.Digest()
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, d)
	}
	if digests[0] != digests[1] || digests[0] == digests[2] {
		t.Errorf("digests %v", digests)
	}
}
