package modetest

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/modes"
)

// maxSteps bounds one random history.
const maxSteps = 30

// Random drives the mode through arbitrary histories: owner messages of every
// type, replies of every quality, failures, lost replies, tool results,
// refusals and reloads, in any order. Nothing may return an error, and every
// check of Driver holds throughout.
func Random(t *testing.T, mode modes.Mode, spec engine.RoomSpec) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) {
		d := Start(rt, mode, spec)
		steps := rapid.IntRange(1, maxSteps).Draw(rt, "steps")
		for i := range steps {
			d.randomStep(rt, i)
		}
	})
}

func (d *Driver) randomStep(rt *rapid.T, i int) {
	move := rapid.IntRange(0, 9).Draw(rt, "move")
	if move == 9 {
		d.Reload()
		return
	}
	if len(d.open) == 0 || move == 8 {
		kind := rapid.SampledFrom([]string{
			engine.MsgRequest, engine.MsgReply, engine.MsgCorrection, engine.MsgRedirect,
			engine.MsgInterrupt, engine.MsgManualEdit, engine.MsgTakeover, "other",
		}).Draw(rt, "type")
		from := rapid.SampledFrom([]string{d.spec.Owner, d.spec.Owner, d.spec.Owner, "stranger"}).Draw(rt, "from")
		d.Message(from, kind, fmt.Sprintf("m%d", i), d.words(rt))
		return
	}
	c := d.open[rapid.IntRange(0, len(d.open)-1).Draw(rt, "call")]
	refused := rapid.IntRange(0, 19).Draw(rt, "refused")
	if refused < 2 {
		kind := []engine.EventKind{engine.EvReservationRefused, engine.EvDispatchRefused}[refused]
		code := rapid.SampledFrom([]string{
			engine.CodeBudgetExhausted, engine.CodeBudgetHalted, engine.CodeUnboundedCost, engine.CodeForbidden, engine.CodeLimitReached,
		}).Draw(rt, "code")
		d.outcome(c, engine.Event{Kind: kind, Refusal: &engine.Refusal{Code: code, Reason: d.words(rt)}})
		return
	}
	if c.Tool != nil {
		kind := rapid.SampledFrom([]engine.EventKind{engine.EvToolOK, engine.EvToolError, engine.EvToolUnknown}).Draw(rt, "tool outcome")
		result := ""
		if kind != engine.EvToolUnknown {
			result = d.words(rt)
		}
		d.outcome(c, engine.Event{Kind: kind, Tool: &engine.ToolResult{Tool: c.Tool.Tool, Args: c.Tool.Args, Result: engine.Plain(result)}})
		return
	}
	kind := rapid.SampledFrom([]engine.EventKind{
		engine.EvModelReply, engine.EvModelReply, engine.EvModelReply, engine.EvModelReply, engine.EvModelFailed, engine.EvModelUnknown,
	}).Draw(rt, "model outcome")
	ev := engine.Event{Kind: kind}
	if kind == engine.EvModelFailed {
		ev.Reply = &engine.ModelReply{Error: d.words(rt), Code: rapid.SampledFrom([]string{"", "OTHER"}).Draw(rt, "failure")}
	}
	if kind == engine.EvModelReply {
		ev.Reply = d.randomReply(rt)
	}
	d.outcome(c, ev)
}

func (d *Driver) randomReply(rt *rapid.T) *engine.ModelReply {
	r := &engine.ModelReply{}
	if rapid.IntRange(0, 2).Draw(rt, "calls tools") == 0 {
		for range rapid.IntRange(1, 3).Draw(rt, "tool calls") {
			names := []string{"no_such_tool", ""}
			for _, t := range d.spec.Tools {
				names = append(names, t.Name, t.Name)
			}
			r.ToolCalls = append(r.ToolCalls, engine.ToolCall{
				Tool: rapid.SampledFrom(names).Draw(rt, "tool"),
				Args: engine.Plain(rapid.SampledFrom([]string{
					`{}`, `{"id":"a"}`, ` {"n": 1.50, "z": [1, null]}`, ``, `[]`, `null`, `{"a":1,"a":2}`, `{"a":1e999}`, `{`, "\xff",
				}).Draw(rt, "args")),
			})
		}
	}
	ids := []string{"", "nobody"}
	for _, p := range d.spec.Agents {
		ids = append(ids, p.ID)
	}
	r.Text = engine.Plain(rapid.SampledFrom([]string{
		fmt.Sprintf(`{"status":%q,"text":%q}`, rapid.SampledFrom([]string{
			engine.StatusDone, engine.StatusBlocked, engine.StatusQuestion, engine.StatusAnswer, "finished",
		}).Draw(rt, "status"), d.words(rt)),
		fmt.Sprintf("```json\n{\"status\":\"done\",\"text\":%q,\"artifact\":{\"name\":\"report\",\"text\":\"body\"}}\n```", d.words(rt)),
		fmt.Sprintf(`{"participant":%q,"reason":"because"}`, rapid.SampledFrom(ids).Draw(rt, "participant")),
		`{"status":"done","text":5}`, `{"status":"done"}{"status":"done"}`, `{"status":"done","status":"blocked"}`,
		`{"participant":7}`, `{"participant":null}`, `{}`, `[]`, `null`, ``, ` `, "plain words", "\xff\xfe", `{"status":"done","artifact":[]}`,
	}).Draw(rt, "reply"))
	return r
}

func (d *Driver) words(rt *rapid.T) string {
	texts := []string{"", "do it", "@nobody and a@b.c", "line\nline", "ümläut @", "{\"status\":\"done\"}", "\xff"}
	for _, p := range d.spec.Agents {
		texts = append(texts, "@"+p.ID+" please", "first @"+p.ID+". Then", "@"+d.spec.Agents[0].ID+" @"+p.ID)
	}
	return rapid.SampledFrom(texts).Draw(rt, "words")
}
