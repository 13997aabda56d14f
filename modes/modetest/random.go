package modetest

import (
	"fmt"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/modes"
)

// maxSteps bounds one random history.
const maxSteps = 20

// Draw draws a number in [0, n). Tests give one that a property-testing
// library backs, so that a failing history is printed and shrunk.
type Draw func(n int, label string) int

// Random drives the mode through one arbitrary history: owner messages of
// every type, replies of every quality, failures, lost replies, tool results,
// refusals and reloads, in any order. Nothing may return an error, and every
// check of Driver holds throughout.
func Random(t TB, mode modes.Mode, spec engine.RoomSpec, draw Draw) {
	t.Helper()
	d := Start(t, mode, spec)
	for i := range 1 + draw(maxSteps, "steps") {
		d.randomStep(draw, i)
	}
}

func pick[T any](draw Draw, label string, from ...T) T { return from[draw(len(from), label)] }

func (d *Driver) randomStep(draw Draw, i int) {
	move := draw(10, "move")
	if move == 9 {
		d.Reload()
		return
	}
	if len(d.open) == 0 || move == 8 {
		kind := pick(draw, "type", []string{
			engine.MsgRequest, engine.MsgReply, engine.MsgCorrection, engine.MsgRedirect,
			engine.MsgInterrupt, engine.MsgManualEdit, engine.MsgTakeover, "other",
		}...)
		from := pick(draw, "from", []string{d.spec.Owner, d.spec.Owner, d.spec.Owner, "stranger"}...)
		d.Message(from, kind, fmt.Sprintf("m%d", i), d.words(draw))
		return
	}
	c := d.open[draw(len(d.open), "call")]
	refused := draw(20, "refused")
	if refused < 2 {
		kind := []engine.EventKind{engine.EvReservationRefused, engine.EvDispatchRefused}[refused]
		code := pick(draw, "code", []string{
			engine.CodeBudgetExhausted, engine.CodeBudgetHalted, engine.CodeUnboundedCost, engine.CodeForbidden, engine.CodeLimitReached,
		}...)
		d.outcome(c, engine.Event{Kind: kind, Refusal: &engine.Refusal{Code: code, Reason: d.words(draw)}})
		return
	}
	if c.Tool != nil {
		kind := pick(draw, "tool outcome", []engine.EventKind{engine.EvToolOK, engine.EvToolError, engine.EvToolUnknown}...)
		result := ""
		if kind != engine.EvToolUnknown {
			result = d.words(draw)
		}
		d.outcome(c, engine.Event{Kind: kind, Tool: &engine.ToolResult{Tool: c.Tool.Tool, Args: c.Tool.Args, Result: engine.Plain(result)}})
		return
	}
	kind := pick(draw, "model outcome", []engine.EventKind{
		engine.EvModelReply, engine.EvModelReply, engine.EvModelReply, engine.EvModelReply, engine.EvModelFailed, engine.EvModelUnknown,
	}...)
	ev := engine.Event{Kind: kind}
	if kind == engine.EvModelFailed {
		ev.Reply = &engine.ModelReply{Error: d.words(draw), Code: pick(draw, "failure", []string{"", "OTHER"}...)}
	}
	if kind == engine.EvModelReply {
		ev.Reply = d.randomReply(draw)
	}
	d.outcome(c, ev)
}

func (d *Driver) randomReply(draw Draw) *engine.ModelReply {
	r := &engine.ModelReply{}
	if draw(3, "calls tools") == 0 {
		for range 1 + draw(3, "tool calls") {
			names := []string{"no_such_tool", ""}
			for _, t := range d.spec.Tools {
				names = append(names, t.Name, t.Name)
			}
			r.ToolCalls = append(r.ToolCalls, engine.ToolCall{
				Tool: pick(draw, "tool", names...),
				Args: engine.Plain(pick(draw, "args", []string{
					`{}`, `{"id":"a"}`, ` {"n": 1.50, "z": [1, null]}`, ``, `[]`, `null`, `{"a":1,"a":2}`, `{"a":1e999}`, `{`, "\xff",
				}...)),
			})
		}
	}
	ids := []string{"", "nobody"}
	for _, p := range d.spec.Agents {
		ids = append(ids, p.ID)
	}
	r.Text = engine.Plain(pick(draw, "reply", []string{
		fmt.Sprintf(`{"status":%q,"text":%q}`, pick(draw, "status", []string{
			engine.StatusDone, engine.StatusBlocked, engine.StatusQuestion, engine.StatusAnswer, "finished",
		}...), d.words(draw)),
		fmt.Sprintf("```json\n{\"status\":\"done\",\"text\":%q,\"artifact\":{\"name\":\"report\",\"text\":\"body\"}}\n```", d.words(draw)),
		fmt.Sprintf(`{"participant":%q,"reason":"because"}`, pick(draw, "participant", ids...)),
		`{"status":"done","text":5}`, `{"status":"done"}{"status":"done"}`, `{"status":"done","status":"blocked"}`,
		`{"participant":7}`, `{"participant":null}`, `{}`, `[]`, `null`, ``, ` `, "plain words", "\xff\xfe", `{"status":"done","artifact":[]}`,
	}...))
	return r
}

func (d *Driver) words(draw Draw) string {
	texts := []string{"", "do it", "@nobody and a@b.c", "line\nline", "ümläut @", "{\"status\":\"done\"}", "\xff"}
	for _, p := range d.spec.Agents {
		texts = append(texts, "@"+p.ID+" please", "first @"+p.ID+". Then", "@"+d.spec.Agents[0].ID+" @"+p.ID)
	}
	return pick(draw, "words", texts...)
}
