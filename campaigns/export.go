package campaigns

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/evaluator/trace"
)

// Export writes a closed trial as a trace: a pure function of the store's rows
// (DESIGN §6). Equal rows give equal bytes. faults names the kinds of the case's
// faults by id.
func Export(h trace.Header, log *runtime.History, faults map[string]string) ([]byte, error) {
	b, _, err := export(h, log, faults)
	return b, err
}

// export is Export that also returns the trace as trace.Read would from these
// bytes.
func export(h trace.Header, log *runtime.History, faults map[string]string) ([]byte, *trace.Trace, error) {
	buf, ok := traces.Get().(*bytes.Buffer)
	if !ok {
		buf = new(bytes.Buffer)
	}
	defer func() {
		if buf.Cap() <= keptTrace {
			traces.Put(buf)
		}
	}()
	buf.Reset()
	w := trace.NewWriter(buf)
	w.Keep()
	if err := w.Header(h); err != nil {
		return nil, nil, fmt.Errorf("export: %w", err)
	}
	if err := newExporter(w, log, faults).run(); err != nil {
		return nil, nil, fmt.Errorf("export: %w", err)
	}
	return bytes.Clone(buf.Bytes()), w.Trace(), nil
}

// traces holds buffers (*bytes.Buffer) for traces to be written; larger ones than
// keptTrace are let go.
var traces sync.Pool

const keptTrace = 1 << 20

type exporter struct {
	w         *trace.Writer
	log       *runtime.History
	faults    map[string]string
	ready     map[int64]int64 // trial time of each revision
	effects   int             // how many effects are written
	claim     *trace.Claim
	messages  []trace.Message
	artifacts map[string]trace.Artifact
}

// newExporter exports behind a header that w has.
func newExporter(w *trace.Writer, log *runtime.History, faults map[string]string) *exporter {
	return &exporter{w: w, log: log, faults: faults, ready: map[int64]int64{}, artifacts: map[string]trace.Artifact{}}
}

func (x *exporter) run() error {
	if err := x.records(); err != nil {
		return err
	}
	return x.end()
}

// records writes, for each revision in order: the effects of operations that
// earlier revisions created, then the operation the event reports on, the
// event itself, and what the machine decided.
func (x *exporter) records() error {
	ops := make(map[string]store.Op, len(x.log.Ops))
	for _, op := range x.log.Ops {
		ops[op.ID] = op
	}
	for _, e := range x.log.Entries {
		x.ready[e.Rev] = e.Event.AtUS
	}
	for _, e := range x.log.Entries {
		if err := x.effectsBefore(e.Rev, ops); err != nil {
			return err
		}
		if op, ok := ops[e.Event.Op]; ok {
			if err := x.op(op, e.Event.AtUS); err != nil {
				return err
			}
			delete(ops, op.ID)
		}
		if err := x.event(e.Event); err != nil {
			return err
		}
		for i := range e.Commands {
			if err := x.command(e.Event, &e.Commands[i]); err != nil {
				return err
			}
		}
	}
	if err := x.effectsBefore(x.log.Head.Rev+1, ops); err != nil {
		return err
	}
	// Operations whose result never became an event: cut off by a limit.
	for _, op := range x.log.Ops {
		if _, left := ops[op.ID]; left {
			if err := x.op(op, x.log.Head.ClosedAtUS); err != nil {
				return err
			}
		}
	}
	return nil
}

func (x *exporter) effectsBefore(rev int64, ops map[string]store.Op) error {
	for x.effects < len(x.log.Effects) {
		e := x.log.Effects[x.effects]
		if op, ok := ops[e.Op]; ok && op.Rev >= rev {
			return nil
		}
		x.effects++
		err := x.w.Effect(trace.Effect{
			AtUS: e.AtUS, Op: e.Op, Identity: e.Identity, Tool: e.Tool, Target: e.Target,
			Args: json.RawMessage(e.Args.S), Agent: e.Agent, State: string(e.State), Key: e.Key,
			Suppressed: e.Suppressed, Ack: e.Ack,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (x *exporter) op(op store.Op, atUS int64) error {
	r := trace.Op{
		AtUS: atUS, Op: op.ID, Kind: string(op.Key.Kind), Role: op.Role, Agent: op.Agent, Task: op.Task,
		Cause: op.Key.Cause, Attempt: op.Key.Attempt, Ordinal: op.Key.Ordinal, Tool: op.Tool,
		Reserved: op.ReservedMicros, Charged: op.ChargedMicros, Request: op.RequestDigest, StartUS: atUS,
	}
	if at, ok := x.ready[op.Rev]; ok {
		r.ReadyUS = &at
	}
	switch {
	case op.Receipt != nil:
		r.Outcome, r.StartUS, r.AtUS = string(op.Receipt.Outcome), op.Receipt.StartUS, op.Receipt.FinishUS
		r.Source, r.Usage = op.Receipt.UsageSource, op.Receipt.Usage
		r.Fault, r.FaultKind = op.Receipt.Fault, x.faults[op.Receipt.Fault]
	case op.Status == store.OpRefused:
		r.Outcome = "refused"
	case op.Status == store.OpReserved || op.Status == store.OpReleased:
		r.Outcome = "released" // never dispatched
	default:
		r.Outcome = "unknown"
	}
	if rec := op.Reconciled; rec != nil {
		r.Source = "reconciled"
		r.Reconciled = &trace.Reconciled{Executed: rec.Executed, Charged: rec.ChargedMicros, Source: rec.UsageSource, Proof: rec.Proof}
		if rec.Usage != nil {
			r.Usage = rec.Usage
		}
	}
	if op.Receipt != nil && op.Status == store.OpReleased && op.Reconciled == nil {
		r.Outcome = "released"
	}
	if op.Status == store.OpUncertain || op.Status == store.OpDispatched || op.Status == store.OpReserved {
		r.Held = op.ReservedMicros
	}
	return x.w.Op(r)
}

// eventBody is the body of an event's record that is no tool's.
type eventBody struct {
	ID      string               `json:"id"`
	Message *string              `json:"message,omitempty"`
	Reply   *engine.ModelReply   `json:"reply,omitempty"`
	Refusal *engine.Refusal      `json:"refusal,omitempty"`
	Timer   string               `json:"timer,omitempty"`
	Command *engine.OwnerCommand `json:"command,omitempty"`
}

// toolBody is the body of a tool event's record.
type toolBody struct {
	ID     string       `json:"id"`
	Tool   string       `json:"tool"`
	Agent  string       `json:"agent"`
	Task   string       `json:"task"`
	Args   any          `json:"args"`
	Key    string       `json:"key"`
	Target string       `json:"target"`
	Write  bool         `json:"write"`
	Result *engine.Text `json:"result,omitempty"`
}

// noteBody is the body of a note's record.
type noteBody struct {
	Note string `json:"note"`
	Body any    `json:"body"`
}

func (x *exporter) event(ev engine.Event) error {
	body := &eventBody{ID: ev.ID}
	switch {
	case ev.Message != nil:
		if err := x.w.Owner(trace.Owner{AtUS: ev.AtUS, ID: ev.Message.ID, Type: ev.Message.Type, From: ev.Message.From, Text: ev.Message.Text.S}); err != nil {
			return err
		}
		body.Message = &ev.Message.ID
	case ev.Tool != nil:
		t := ev.Tool
		b := &toolBody{ID: ev.ID, Tool: t.Tool, Agent: t.Agent, Task: t.Task, Args: inlineJSON(t.Args.S), Key: t.IdemID, Target: t.Target, Write: t.Write}
		if !t.Result.IsZero() {
			b.Result = &t.Result
		}
		return x.record(ev, string(ev.Kind), ev.Op, b, true)
	case ev.Reply != nil:
		body.Reply = ev.Reply
	case ev.Refusal != nil:
		body.Refusal = ev.Refusal
	case ev.Timer != "":
		body.Timer = ev.Timer
	case ev.Command != nil:
		body.Command = ev.Command
	}
	return x.record(ev, string(ev.Kind), ev.Op, body, true)
}

// record writes one event record with the room's money before the revision,
// for the event itself only.
func (x *exporter) record(ev engine.Event, kind, op string, body any, money bool) error {
	b, err := engine.Canonical(body)
	if err != nil {
		return err
	}
	r := trace.Event{AtUS: ev.AtUS, Kind: kind, Op: op, Body: b}
	if money {
		r.Money = &trace.Money{Charged: ev.Money.Charged, Held: ev.Money.Held, Unknown: ev.Money.Unknown}
	}
	if !money {
		r.Cause = ev.ID
	}
	return x.w.Event(r)
}

func (x *exporter) command(ev engine.Event, c *engine.Command) error {
	var body any
	switch c.Kind {
	case engine.CmdSay:
		for _, to := range orNobody(c.Say.To) {
			x.messages = append(x.messages, trace.Message{AtUS: ev.AtUS, ID: c.Say.ID, From: c.Say.From, To: to, Text: c.Say.Text.S})
		}
		body = map[string]any{"id": c.Say.ID, "from": c.Say.From, "to": c.Say.To, "status": c.Say.Status, "text": c.Say.Text.S}
	case engine.CmdClaim:
		x.claim = &trace.Claim{AtUS: ev.AtUS, By: c.Claim.By, TextSHA256: engine.Digest([]byte(c.Claim.Text.S))}
		body = map[string]any{"by": c.Claim.By, "text_sha256": x.claim.TextSHA256}
	case engine.CmdWithdraw:
		x.claim = nil
		body = map[string]any{}
	case engine.CmdArtifact:
		a := c.Artifact
		x.artifacts[a.Name] = trace.Artifact{Name: a.Name, Version: a.Version, By: a.By, Text: a.Text.S}
		body = map[string]any{"name": a.Name, "version": a.Version, "by": a.By, "task": a.Task, "text": a.Text}
	case engine.CmdNote:
		body = &noteBody{Note: c.Note.Kind, Body: inlineJSON(c.Note.Body.S)}
	case engine.CmdEnd:
		body = c.End
	case engine.CmdPost:
		body = map[string]any{"id": c.Post.ID, "from": c.Post.From, "text": c.Post.Text.S}
	case engine.CmdAnswer:
		body = c.Answer
	case engine.CmdModel, engine.CmdTool, engine.CmdTimer:
		return nil // operations have records of their own; timers come back as events
	default:
		return fmt.Errorf("command kind %q is unknown", c.Kind)
	}
	return x.record(ev, string(c.Kind), "", body, false)
}

func (x *exporter) end() error {
	for _, m := range x.log.Sent {
		x.messages = append(x.messages, trace.Message{AtUS: m.AtUS, ID: m.Op, From: m.From, To: m.To, Via: m.Via, Text: m.Text})
	}
	slices.SortStableFunc(x.messages, func(a, b trace.Message) int {
		return cmp.Or(cmp.Compare(a.AtUS, b.AtUS), cmp.Compare(a.ID, b.ID), cmp.Compare(a.To, b.To))
	})
	artifacts := make([]trace.Artifact, 0, len(x.artifacts))
	for _, name := range sortedKeys(x.artifacts) {
		artifacts = append(artifacts, x.artifacts[name])
	}
	h := x.log.Head
	_, err := x.w.End(trace.End{
		AtUS: h.ClosedAtUS, Termination: h.Termination, Claim: x.claim, Documents: x.log.Documents,
		Messages: append([]trace.Message{}, x.messages...), Artifacts: artifacts, RoomDigest: h.Digest,
		Money: trace.Money{Charged: h.Money.Charged, Held: h.Money.Held, Unknown: h.Money.Unknown},
	})
	return err
}

// inlineJSON is s as JSON when it is a JSON document that has a canonical
// form, else as a string.
func inlineJSON(s string) any {
	if c, err := engine.CanonicalJSON([]byte(s)); err == nil {
		return json.RawMessage(c)
	}
	return s
}

func orNobody(to []string) []string {
	if len(to) == 0 {
		return []string{""}
	}
	return to
}
