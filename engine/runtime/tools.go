package runtime

import (
	"fmt"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

// toolCall is a tool operation resolved against the tool's declaration.
type toolCall struct {
	request engine.ToolRequest
	result  engine.ToolResult // without Result
	scope   string            // of counting confirmed effects; "" for reads and bad arguments
}

// resolveTool works out target, identity and idempotency key of a tool
// operation, given what is confirmed so far. The number of earlier calls of
// the identity in the same task that are known confirmed enters the key, so a
// retry after an unknown outcome repeats it and an intended second effect does
// not.
func (s *state) resolveTool(o *operation, sendKeys bool) (toolCall, error) {
	use := o.call.Tool
	spec := s.tools[use.Tool] // zero for an unknown tool: the world says so
	args := []byte(use.Args.S)
	t := toolCall{
		request: engine.ToolRequest{
			Room: s.name, Op: o.id, Tool: use.Tool, Args: args, Target: engine.Target(args, spec.Target),
			Agent: o.call.Agent, Task: o.call.Task, AtUS: o.startUS,
		},
	}
	write := spec.Action == engine.ActionWrite || spec.Action == engine.ActionDraft
	identity, err := engine.EffectIdentity(use.Tool, args, spec.Volatile, t.request.Target)
	key := ""
	if err == nil {
		t.request.Identity = identity
		if write {
			t.scope = fmt.Sprintf("%d:%s%s", len(o.call.Task), o.call.Task, identity)
			key, err = engine.IdempotencyKey(s.name, o.call.Task, use.Tool, args, spec.Volatile, s.confirmed[t.scope])
			if err != nil {
				return t, err
			}
		}
	}
	if sendKeys {
		t.request.Key = key
	}
	t.result = engine.ToolResult{
		Tool: use.Tool, Args: use.Args, Target: t.request.Target, IdemID: key,
		Agent: o.call.Agent, Task: o.call.Task, Write: write,
	}
	return t, nil
}

// called counts a tool operation that took place.
func (s *state) called(o *operation, t *toolCall) {
	s.world.Called(t.request.Tool, t.request.Target)
	if o.body.Kind == engine.EvToolOK && t.scope != "" {
		s.confirmed[t.scope]++
	}
}

// apply folds a durable effect record.
func (s *state) apply(rec engine.EffectRecord) error {
	s.effects[rec.Op] = append(s.effects[rec.Op], rec)
	_, err := guarded("world", func() (struct{}, error) { return struct{}{}, s.world.Apply(rec) })
	if err != nil {
		return faultf("world: apply effect of %s: %w", rec.Op, err)
	}
	return nil
}

// toStore seals an effect record for the store.
func (s *state) toStore(room string, n int, r *engine.EffectRecord) (store.Effect, error) {
	e := store.Effect{
		Room: room, Op: r.Op, N: n, AtUS: r.AtUS, Identity: r.Identity, Key: r.Key, Tool: r.Tool, Target: r.Target, Agent: r.Agent,
		Args: engine.JSONText(r.Args), State: store.EffectState(r.State), Suppressed: r.Suppressed, Ack: r.Ack,
		Patch: engine.JSONText(r.Patch), Result: resultText(r.Result),
	}
	return e, s.texts.sealAll([]*engine.Text{&e.Args, &e.Patch, &e.Result})
}

// fromStore is the record that a stored effect stands for, texts loaded.
func fromStore(e *store.Effect) engine.EffectRecord {
	return engine.EffectRecord{
		Op: e.Op, AtUS: e.AtUS, Identity: e.Identity, Key: e.Key, Tool: e.Tool, Target: e.Target, Agent: e.Agent,
		Args: bytesOf(e.Args), State: string(e.State), Suppressed: e.Suppressed, Ack: e.Ack,
		Patch: bytesOf(e.Patch), Result: bytesOf(e.Result),
	}
}

func bytesOf(t engine.Text) []byte {
	if t.S == "" {
		return nil
	}
	return []byte(t.S)
}
