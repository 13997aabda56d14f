package host

import (
	"context"
	"encoding/json"

	"github.com/agentrooms/qualify/engine"
)

// catalogue states a room's tools. Nothing is done through it: executors use
// the tools themselves, inside the call that they bound and account for.
type catalogue []engine.ToolSpec

var (
	_ engine.World       = catalogue(nil)
	_ engine.Snapshotter = catalogue(nil)
)

const executorsOwn = "tools of this room are used by the executor itself, inside its call"

// Tools implements engine.World.
func (c catalogue) Tools() []engine.ToolSpec { return c }

// Do implements engine.World.
func (catalogue) Do(context.Context, engine.ToolRequest) (engine.ToolOutcome, error) {
	return engine.ToolOutcome{Outcome: engine.ToolError, Result: []byte(executorsOwn)}, nil
}

// Apply implements engine.World.
func (catalogue) Apply(engine.EffectRecord) error { return nil }

// Called implements engine.World.
func (catalogue) Called(string, string) {}

// Recover implements engine.World.
func (catalogue) Recover(engine.ToolRequest, engine.EffectRecord) (engine.ToolOutcome, error) {
	return engine.ToolOutcome{Outcome: engine.ToolError, Result: []byte(executorsOwn)}, nil
}

// Documents implements engine.World.
func (catalogue) Documents() (map[string]json.RawMessage, error) {
	return map[string]json.RawMessage{}, nil
}

// Messages implements engine.World.
func (catalogue) Messages() []engine.SentMessage { return nil }

// Snapshot implements engine.Snapshotter: there is no state.
func (catalogue) Snapshot() ([]byte, error) { return []byte("{}"), nil }

// Restore implements engine.Snapshotter.
func (catalogue) Restore([]byte) error { return nil }
