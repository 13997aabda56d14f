package world

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/engine"
)

// Acknowledgements of an effect record.
const (
	ackOK   = "ok"
	ackLost = "lost"
)

const stateConfirmed = "confirmed"

// errBusy is the reply of a call that fails before anything happens.
const errBusy = "the service is unavailable; nothing was changed"

// World implements engine.World for one trial of a case. It is used from one
// goroutine.
type World struct {
	c      *corpus.Case
	seed   uint64
	docs   any // map of documents by name
	before any // documents before the last change, for stale reads
	keys   map[string]engine.EffectRecord
	calls  map[call]int
	sent   []engine.SentMessage
	cached map[string]json.RawMessage
}

var _ engine.World = (*World)(nil)

// call names a counter: of a tool, or of one target of it.
type call struct {
	tool, target string
	perTarget    bool
}

// New returns the world of a case at its start. The seed moves virtual
// durations only.
func New(c *corpus.Case, seed uint64) (*World, error) {
	docs, err := c.Documents()
	if err != nil {
		return nil, fmt.Errorf("world of case %s: %w", c.ID, err)
	}
	for i := range c.Tools {
		if c.Tools[i].Args() == nil {
			return nil, fmt.Errorf("world of case %s: tool %s was not loaded by package corpus", c.ID, c.Tools[i].Name)
		}
	}
	return &World{
		c: c, seed: seed, docs: docs, before: docs,
		keys: map[string]engine.EffectRecord{}, calls: map[call]int{},
	}, nil
}

// Tools lists the tools, sorted by name.
func (w *World) Tools() []engine.ToolSpec { return w.c.ToolSpecs() }

// Do computes the outcome of a call against the present fold.
func (w *World) Do(_ context.Context, r engine.ToolRequest) (engine.ToolOutcome, error) {
	out := engine.ToolOutcome{DurationUS: w.duration(r.Tool)}
	t, ok := w.c.Tool(r.Tool)
	if !ok {
		out.Outcome, out.Result = engine.ToolError, []byte(fmt.Sprintf("there is no tool %q", r.Tool))
		return out, nil
	}
	args, err := t.Args().Check(r.Args)
	if err != nil {
		return refused(out, err), nil
	}
	faults := w.faultsAt(r.Tool, r.Target)
	if f := firstOf(faults, corpus.FaultSlow); f != nil {
		out.Fault = f.ID
		out.DurationUS *= slowFactor(f)
	}
	if f := firstOf(faults, corpus.FaultErrorBeforeCommit); f != nil {
		out.Fault, out.Outcome, out.Result = f.ID, engine.ToolError, []byte(errBusy)
		return out, nil
	}
	if f := firstOf(faults, corpus.FaultLostBeforeCommit); f != nil {
		return lost(out, f.ID), nil
	}
	docs := w.docs
	if f := firstOf(faults, corpus.FaultStaleRead); f != nil {
		out.Fault = f.ID
		docs = w.before
	}
	rec, result, err := w.effect(t, r, args, docs)
	if no := refusal(""); errors.As(err, &no) {
		return refused(out, no), nil
	}
	if err != nil {
		return engine.ToolOutcome{}, fmt.Errorf("tool %s: %w", r.Tool, err)
	}
	out.Outcome, out.Result, out.Effect = engine.ToolOK, result, rec
	if f := firstOf(faults, corpus.FaultAckLostAfterCommit); f != nil && rec != nil {
		rec.Ack = ackLost
		out = lost(out, f.ID)
	}
	return out, nil
}

// refused turns an outcome into an error that the caller sees.
func refused(out engine.ToolOutcome, why error) engine.ToolOutcome {
	out.Outcome, out.Result = engine.ToolError, []byte(why.Error())
	return out
}

// lost turns an outcome into an unknown one.
func lost(out engine.ToolOutcome, fault string) engine.ToolOutcome {
	out.Outcome, out.Result, out.Fault = engine.ToolUnknown, nil, fault
	out.DurationUS = max(out.DurationUS, lostLeastUS)
	return out
}

func slowFactor(f *corpus.Fault) int64 {
	if f.Factor == 0 {
		return defaultSlow
	}
	return int64(f.Factor)
}

// effect runs the operation and makes the record of what it changes, nil for
// a read or an operation that changes nothing. A repeated key answers as the
// first call did.
func (w *World) effect(t *corpus.Tool, r engine.ToolRequest, args map[string]any, docs any) (*engine.EffectRecord, []byte, error) {
	canon, err := engine.CanonicalJSON(r.Args)
	if err != nil {
		return nil, nil, refusal(err.Error())
	}
	rec := &engine.EffectRecord{
		Op: r.Op, AtUS: r.AtUS, Identity: r.Identity, Key: r.Key, Tool: r.Tool, Target: r.Target,
		Agent: r.Agent, Args: canon, State: stateConfirmed, Ack: ackOK,
	}
	if first, ok := w.keys[r.Key]; ok && r.Key != "" && !t.Op.Reads() {
		rec.Suppressed, rec.Result = true, slices.Clone(first.Result)
		return rec, slices.Clone(first.Result), nil
	}
	a, err := run(&t.Op, args, docs)
	if err != nil {
		return nil, nil, err
	}
	result, err := engine.Canonical(a.result)
	if err != nil {
		return nil, nil, err
	}
	if len(a.changes) == 0 {
		return nil, result, nil
	}
	if rec.Patch, err = engine.Canonical(a.changes); err != nil {
		return nil, nil, err
	}
	rec.Result = slices.Clone(result)
	return rec, result, nil
}

// Apply folds one committed effect record. Records that are not confirmed,
// and suppressed ones, change nothing.
func (w *World) Apply(e engine.EffectRecord) error {
	if e.State != stateConfirmed || e.Suppressed {
		return nil
	}
	var list []change
	if err := json.Unmarshal(e.Patch, &list); err != nil {
		return fmt.Errorf("apply effect of %s: patch: %w", e.Op, err)
	}
	docs, sent, err := applyChanges(w.docs, list)
	if err != nil {
		return fmt.Errorf("apply effect of %s: %w", e.Op, err)
	}
	w.before, w.docs, w.cached = w.docs, docs, nil
	for _, m := range sent {
		w.sent = append(w.sent, engine.SentMessage{
			AtUS: e.AtUS, Op: e.Op, From: e.Agent, To: m.To, Via: e.Tool, Text: m.Text,
		})
	}
	if e.Key != "" {
		w.keys[e.Key] = e
	}
	return nil
}

// Called counts one finished call.
func (w *World) Called(tool, target string) {
	w.calls[call{tool: tool}]++
	w.calls[call{tool, target, true}]++
}

// Recover is the outcome that a committed effect record stands for: what Do
// answered when it made the record. It must be asked before Called counts the
// call.
func (w *World) Recover(r engine.ToolRequest, e engine.EffectRecord) (engine.ToolOutcome, error) {
	if e.Tool != r.Tool || e.Op != r.Op {
		return engine.ToolOutcome{}, fmt.Errorf("effect record of %s (%s) does not belong to %s (%s)", e.Op, e.Tool, r.Op, r.Tool)
	}
	out := engine.ToolOutcome{
		Outcome: engine.ToolOK, Result: slices.Clone(e.Result), DurationUS: w.duration(r.Tool), Effect: &e,
	}
	faults := w.faultsAt(r.Tool, r.Target)
	if f := firstOf(faults, corpus.FaultSlow); f != nil {
		out.Fault = f.ID
		out.DurationUS *= slowFactor(f)
	}
	if e.Ack == ackLost {
		out = lost(out, out.Fault)
		if f := firstOf(faults, corpus.FaultAckLostAfterCommit); f != nil {
			out.Fault = f.ID
		}
	}
	return out, nil
}

// Documents returns the present documents as canonical JSON by name.
func (w *World) Documents() (map[string]json.RawMessage, error) {
	if w.cached == nil {
		docs, ok := w.docs.(map[string]any)
		if !ok {
			return nil, errors.New("the world's documents are no object")
		}
		cached := make(map[string]json.RawMessage, len(docs))
		for name, v := range docs {
			raw, err := engine.Canonical(v)
			if err != nil {
				return nil, fmt.Errorf("document %s: %w", name, err)
			}
			cached[name] = raw
		}
		w.cached = cached
	}
	return maps.Clone(w.cached), nil
}

// Messages lists what tools have sent, oldest first.
func (w *World) Messages() []engine.SentMessage { return slices.Clone(w.sent) }

// at returns the value at a pointer into the documents.
func (w *World) at(pointer string) (any, bool) {
	tokens, err := corpus.ParsePointer(pointer)
	if err != nil {
		return nil, false
	}
	return corpus.Resolve(w.docs, tokens)
}
