package model

import (
	"fmt"

	"github.com/agentrooms/qualify/engine"
)

// Token overheads of BoundTokens, larger than what any known chat format adds.
const (
	overheadCall     = 64 // conversation frame, reply prefix
	overheadMessage  = 16 // role and separators
	overheadToolCall = 32
	overheadTool     = 64 // one declared tool: wrapper around its schema
)

// BoundTokens bounds a call for a byte-level tokenizer: such a tokenizer
// yields at most one token per byte of UTF-8; each message, tool call and
// tool schema adds its overhead (DESIGN §4). The output bound is
// MaxOutputTokens, reasoning included. ErrUnbounded without one.
func BoundTokens(call Call) (engine.Usage, error) {
	if call.MaxOutputTokens <= 0 {
		return engine.Usage{}, fmt.Errorf("operation %s has no max_output_tokens: %w", call.Op, ErrUnbounded)
	}
	n := overheadCall + len(call.System)
	for _, m := range call.Messages {
		n += overheadMessage + len(m.Role) + len(m.Rendered()) + len(m.ToolCallID)
		for _, c := range m.ToolCalls {
			n += overheadToolCall + len(c.ID) + len(c.Tool) + len(c.Args)
		}
	}
	for _, t := range call.Tools {
		n += overheadTool + len(t.Name) + len(t.Description) + len(t.Schema)
	}
	return engine.Usage{Input: int64(n), Output: int64(call.MaxOutputTokens)}, nil
}

// Digest names the content of a call, operation id apart: the digest of its
// canonical JSON. Equal requests of two operations have one digest.
func (c Call) Digest() (string, error) {
	c.Op = ""
	b, err := engine.Canonical(c)
	if err != nil {
		return "", fmt.Errorf("digest of call: %w", err)
	}
	return engine.Digest(b), nil
}
