package host

import (
	"context"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/runtime"
)

// Message is something readable in a room: what people and participants said,
// and what the coordinator made known of its plans and decisions (R68). The
// words inform; nothing reads them back as state.
type Message struct {
	Rev    int64    `json:"rev"`
	AtUS   int64    `json:"at_us"` // microseconds since 1970
	ID     string   `json:"id"`
	From   string   `json:"from"`
	To     []string `json:"to,omitempty"`
	Type   string   `json:"type,omitempty"`   // of what was taken in: engine.Msg…
	Status string   `json:"status,omitempty"` // of what was said: done, blocked, question, answer
	Posted bool     `json:"posted,omitempty"` // for the room's readers only; the notifier is not given it
	Text   string   `json:"text"`             // empty when its content was withheld
}

// maxPage bounds one page of messages, in revisions.
const maxPage = 1_000

// Messages lists what is readable in a room, oldest first, from the revisions
// after one (-1: from the first), at most limit revisions (0 and more than
// 1,000: 1,000). next is the revision to go on after; it equals after when
// there is nothing more. Errors: NOT_FOUND, and those of the store.
func (s *Service) Messages(ctx context.Context, tenant, room string, after int64, limit int) (list []Message, next int64, err error) {
	_, l, _, err := s.room(ctx, tenant, room)
	if err != nil {
		return nil, after, err
	}
	if limit <= 0 || limit > maxPage {
		limit = maxPage
	}
	entries, err := runtime.ReadLog(ctx, l.Store, l.Room, after, limit)
	if err != nil {
		return nil, after, coded(err)
	}
	next = after
	for i := range entries {
		e := &entries[i]
		next = e.Rev
		if m := e.Event.Message; m != nil {
			list = append(list, Message{Rev: e.Rev, AtUS: e.Event.AtUS, ID: m.ID, From: m.From, Type: m.Type, Text: m.Text.S})
		}
		for j := range e.Commands {
			if c := &e.Commands[j]; c.Say != nil {
				list = append(list, messageOf(e, c.Say, false))
			} else if c.Post != nil {
				list = append(list, messageOf(e, c.Post, true))
			}
		}
	}
	return list, next, nil
}

func messageOf(e *engine.LogEntry, say *engine.Say, posted bool) Message {
	return Message{
		Rev: e.Rev, AtUS: e.Event.AtUS, ID: say.ID, From: say.From, To: say.To, Status: say.Status, Posted: posted, Text: say.Text.S,
	}
}
