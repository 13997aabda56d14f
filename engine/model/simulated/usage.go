package simulated

import (
	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
)

// bytesPerToken is the simulated tokenizer: a token is four bytes, the last
// one counts in full.
const bytesPerToken = 4

func tokens(bytes int) int64 { return (int64(bytes) + bytesPerToken - 1) / bytesPerToken }

// usage counts the tokens of a call and its answer. What was sent before the
// last answer of the conversation, tools and system prompt included, is read
// from the provider's cache; nothing is charged for writing it.
func usage(call model.Call, a answer) engine.Usage {
	total := len(call.System)
	for _, t := range call.Tools {
		total += len(t.Name) + len(t.Description) + len(t.Schema)
	}
	cached := 0
	for _, m := range call.Messages {
		if m.Role == engine.MsgAssistant {
			cached = total
		}
		total += len(m.Rendered())
		for _, c := range m.ToolCalls {
			total += len(c.Tool) + len(c.Args)
		}
	}
	read := int64(cached / bytesPerToken)
	return engine.Usage{Input: tokens(total) - read, CachedRead: read, Output: tokens(a.size())}
}

// answer is what the model says: a text, or one tool call.
type answer struct {
	text string
	call *toolUse
}

type toolUse struct{ tool, args string }

func (a answer) size() int {
	if a.call != nil {
		return len(a.call.tool) + len(a.call.args)
	}
	return len(a.text)
}
