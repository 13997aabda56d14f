package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/agentrooms/qualify/engine"
)

// counters is a world of numbers: add changes one, get reads one. Faults are
// placed by the count of calls of a tool.
type counters struct {
	values map[string]int64
	keys   map[string]engine.EffectRecord
	calls  map[string]int
	faults map[string]string // "add/2": ack_lost, lost, error, slow, broken, refuted, intent
	done   []string          // operations that Do was asked for, in this process
}

func newCounters(faults map[string]string) *counters {
	return &counters{values: map[string]int64{}, keys: map[string]engine.EffectRecord{}, calls: map[string]int{}, faults: faults}
}

type addArgs struct {
	ID string `json:"id"`
	N  int64  `json:"n"`
}

func (c *counters) Tools() []engine.ToolSpec {
	schema := []byte(`{"type":"object"}`)
	return []engine.ToolSpec{
		{Name: "add", Description: "adds n to a counter", Action: engine.ActionWrite, Schema: schema, Target: []string{"id"}},
		{Name: "get", Description: "reads a counter", Action: engine.ActionRead, Schema: schema, Target: []string{"id"}},
	}
}

func (c *counters) fault(tool string) string {
	return c.faults[fmt.Sprintf("%s/%d", tool, c.calls[tool]+1)]
}

func (c *counters) duration(tool string) int64 {
	d := int64(100 + 10*c.calls[tool])
	if c.fault(tool) == "slow" {
		d *= 50
	}
	return d
}

func (c *counters) Do(_ context.Context, r engine.ToolRequest) (engine.ToolOutcome, error) {
	c.done = append(c.done, r.Op)
	out := engine.ToolOutcome{Outcome: engine.ToolOK, DurationUS: c.duration(r.Tool), Fault: c.fault(r.Tool)}
	var args addArgs
	if bad := json.Unmarshal(r.Args, &args); bad != nil {
		out.Outcome, out.Result = engine.ToolError, []byte("arguments: "+bad.Error())
		return out, nil //nolint:nilerr // bad arguments are an outcome
	}
	switch out.Fault {
	case "broken":
		return out, errors.New("the world is broken")
	case "error":
		out.Outcome, out.Result = engine.ToolError, []byte("busy")
		return out, nil
	case "lost":
		out.Outcome = engine.ToolUnknown
		return out, nil
	}
	if r.Tool == "get" {
		out.Result = fmt.Appendf(nil, "%d", c.values[args.ID])
		return out, nil
	}
	rec := &engine.EffectRecord{
		Op: r.Op, AtUS: r.AtUS, Identity: r.Identity, Key: r.Key, Tool: r.Tool, Target: r.Target, Agent: r.Agent,
		Args: r.Args, State: "confirmed", Ack: "ok",
	}
	if first, ok := c.keys[r.Key]; ok && r.Key != "" {
		rec.Suppressed, rec.Result = true, first.Result
	} else {
		rec.Patch = fmt.Appendf(nil, `{"id":%q,"n":%d}`, args.ID, args.N)
		rec.Result = fmt.Appendf(nil, "%d", c.values[args.ID]+args.N)
	}
	out.Effect, out.Result = rec, rec.Result
	switch out.Fault {
	case "ack_lost":
		rec.Ack, out.Outcome, out.Result = "lost", engine.ToolUnknown, nil
	case "refuted", "intent":
		rec.State, rec.Ack, rec.Patch, rec.Result = out.Fault, "lost", nil, nil
		out.Outcome, out.Result = engine.ToolUnknown, nil
	}
	return out, nil
}

func (c *counters) Apply(e engine.EffectRecord) error {
	if e.Suppressed || e.State != "confirmed" {
		return nil
	}
	var p addArgs
	if err := json.Unmarshal(e.Patch, &p); err != nil {
		return err
	}
	c.values[p.ID] += p.N
	if e.Key != "" {
		c.keys[e.Key] = e
	}
	return nil
}

func (c *counters) Called(tool, _ string) { c.calls[tool]++ }

func (c *counters) Recover(r engine.ToolRequest, e engine.EffectRecord) (engine.ToolOutcome, error) {
	out := engine.ToolOutcome{Outcome: engine.ToolOK, Result: e.Result, DurationUS: c.duration(r.Tool), Effect: &e, Fault: c.fault(r.Tool)}
	if e.Ack == "lost" {
		out.Outcome, out.Result = engine.ToolUnknown, nil
	}
	return out, nil
}

type countersState struct {
	Values map[string]int64
	Keys   map[string]engine.EffectRecord
	Calls  map[string]int
}

func (c *counters) Snapshot() ([]byte, error) {
	return engine.Canonical(countersState{c.values, c.keys, c.calls})
}

func (c *counters) Restore(b []byte) error {
	var s countersState
	if err := json.Unmarshal(b, &s); err != nil {
		return err
	}
	c.values, c.keys, c.calls = s.Values, s.Keys, s.Calls
	return nil
}

func (c *counters) Documents() (map[string]json.RawMessage, error) {
	b, err := engine.Canonical(c.values)
	return map[string]json.RawMessage{"counters": b}, err
}

func (c *counters) Messages() []engine.SentMessage { return nil }

// boss says its lines at their times, then corrects each claim while counter
// "a" is below want, at most patience times.
type boss struct {
	w        *counters
	lines    []engine.OwnerSay
	want     int64
	patience int
	sent     int
	given    bool
}

func line(id, text string, atUS int64) engine.OwnerSay {
	return engine.OwnerSay{EventID: "owner/" + id, AtUS: atUS, Message: engine.OwnerMessage{ID: id, Type: engine.MsgRequest, From: "ana", Text: engine.Plain(text)}}
}

func (b *boss) Fold(e engine.LogEntry) {
	if len(b.lines) > 0 && e.Event.ID == b.lines[0].EventID {
		b.lines = b.lines[1:]
	}
	for _, c := range e.Commands {
		if c.Kind != engine.CmdClaim || b.w.values["a"] >= b.want {
			continue
		}
		if b.sent == b.patience {
			b.given = true
			return
		}
		b.sent++
		say := line(fmt.Sprintf("k%d", b.sent), "more", e.Event.AtUS+20_000_000)
		say.Message.Type = engine.MsgCorrection
		b.lines = append(b.lines, say)
	}
}

func (b *boss) Next() (engine.OwnerSay, bool) {
	if len(b.lines) == 0 {
		return engine.OwnerSay{}, false
	}
	return b.lines[0], true
}

func (b *boss) Exhausted() bool { return b.given }

type bossState struct {
	Lines []bossLine
	Sent  int
	Given bool
}

type bossLine struct {
	Say  engine.OwnerSay
	Text string
}

func (b *boss) Snapshot() ([]byte, error) {
	s := bossState{Lines: []bossLine{}, Sent: b.sent, Given: b.given}
	for _, l := range b.lines {
		s.Lines = append(s.Lines, bossLine{l, l.Message.Text.S})
	}
	return engine.Canonical(s)
}

func (b *boss) Restore(snapshot []byte) error {
	var s bossState
	if err := json.Unmarshal(snapshot, &s); err != nil {
		return err
	}
	b.lines, b.sent, b.given = nil, s.Sent, s.Given
	for _, l := range s.Lines {
		l.Say.Message.Text = engine.Plain(l.Text)
		b.lines = append(b.lines, l.Say)
	}
	return nil
}
