package simulated

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
)

// room is the speaker of repair feedback; it asks for nothing but another
// reply.
const room = "room"

// ownerSuffix marks the owner among the speakers of user messages.
const ownerSuffix = " (owner)"

// conversation is what the messages of a turn call say.
type conversation struct {
	me         string
	colleagues set
	known      []string // texts of the owner, seen or heard of
	requests   []request
	calls      []seenCall
	told       set // steps that others say are done
	handed     set // steps that I have handed over
	round      int
	ends       []int // positions of replies that ended a turn
}

// request is a message that asks for steps.
type request struct {
	at    int
	owner bool // asks for everything in force
	text  string
	marks marks
}

// seenCall is a tool call of the conversation with its outcome.
type seenCall struct {
	id         string
	tool, args string // as written
	canon      string // canonical arguments; "" when they are no JSON
	outcome    string // engine.Tool…; "" when no result is there
	at         int    // position of the message that asked for it
	resultAt   int
}

func (c seenCall) same(o seenCall) bool { return c.tool == o.tool && c.args == o.args }

// readConversation reads a turn call.
func (g *gold) readConversation(call model.Call) *conversation {
	c := &conversation{colleagues: set{}, told: set{}, handed: set{}}
	c.readSystem(call.System)
	for i, m := range call.Messages {
		switch m.Role {
		case engine.MsgUser:
			c.readUser(g, i, m)
		case engine.MsgAssistant:
			c.readOwn(g, i, m)
		case engine.MsgTool:
			c.readResult(i, m)
		}
	}
	return c
}

// readSystem finds the marker lines of engine/protocol.go.
func (c *conversation) readSystem(system string) {
	listing := false
	for line := range strings.Lines(system) {
		line = strings.TrimRight(line, "\r\n")
		if id, ok := strings.CutPrefix(line, engine.PromptYouAre); ok {
			c.me = strings.TrimSpace(id)
		}
		if line == engine.PromptColleagues {
			listing = true
			continue
		}
		entry, ok := strings.CutPrefix(line, "- ")
		if listing && ok {
			id, _, _ := strings.Cut(entry, ":")
			c.colleagues.add(strings.TrimSpace(id))
		} else {
			listing = false
		}
	}
}

func (c *conversation) readUser(g *gold, at int, m model.Message) {
	if m.From == room {
		return
	}
	if strings.HasSuffix(m.From, ownerSuffix) {
		c.known = append(c.known, m.Text)
		c.requests = append(c.requests, request{at: at, owner: true, text: m.Text})
		return
	}
	marks := g.readMarks(m.Text)
	c.told.add(marks.done...)
	for _, id := range marks.heard {
		c.known = append(c.known, g.messages[id])
	}
	if marks.round > 0 {
		c.round = marks.round
	}
	if len(marks.todo)+len(marks.report) > 0 {
		c.requests = append(c.requests, request{at: at, marks: marks})
	}
}

func (c *conversation) readOwn(g *gold, at int, m model.Message) {
	for _, tc := range m.ToolCalls {
		canon, err := engine.CanonicalJSON([]byte(tc.Args))
		if err != nil {
			canon = nil
		}
		c.calls = append(c.calls, seenCall{id: tc.ID, tool: tc.Tool, args: tc.Args, canon: string(canon), at: at, resultAt: -1})
	}
	if len(m.ToolCalls) > 0 {
		return
	}
	var reply engine.TurnReply
	if json.Unmarshal([]byte(m.Text), &reply) != nil || reply.Status == "" {
		return
	}
	c.ends = append(c.ends, at)
	c.handed.add(g.readMarks(reply.Text).todo...)
}

// readResult gives a tool message to the newest call of its id that has no
// result yet.
func (c *conversation) readResult(at int, m model.Message) {
	for i := len(c.calls) - 1; i >= 0; i-- {
		if k := &c.calls[i]; k.id == m.ToolCallID && k.outcome == "" {
			k.outcome, k.resultAt = outcomeOf(m.Text), at
			return
		}
	}
}

func outcomeOf(result string) string {
	if result == engine.ToolUnknownResult {
		return engine.ToolUnknown
	}
	if strings.HasPrefix(result, engine.ToolErrorPrefix) {
		return engine.ToolError
	}
	return engine.ToolOK
}

// under returns the requests since the last end of a turn.
func (c *conversation) under() []request {
	last := -1
	if len(c.ends) > 0 {
		last = c.ends[len(c.ends)-1]
	}
	return slices.DeleteFunc(slices.Clone(c.requests), func(r request) bool { return r.at < last })
}
