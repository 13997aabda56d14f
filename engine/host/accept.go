package host

import (
	"context"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/runtime"
)

// Accepted is the inbox entry of an event (R14).
type Accepted struct {
	Event string // id of the event in the room
	Seq   int64  // revision that took it in
	Again bool   // it had come before: nothing was written
}

// Prefixes of the ids that the service gives to events; no persisted message
// may have one.
const (
	proposalPrefix = "proposal:"
	commandPrefix  = "command:"
)

// messageTypes are the types of persisted messages.
var messageTypes = []string{
	engine.MsgRequest, engine.MsgReply, engine.MsgCorrection, engine.MsgRedirect, engine.MsgInterrupt, engine.MsgManualEdit, engine.MsgTakeover,
}

// AcceptEvent takes a persisted message into the room's inbox, by its identity
// alone: author, type and text come from the Events port (R13). The same id
// again returns the entry it made, and writes and costs nothing (R14).
//
// Errors: NOT_FOUND, the room or the message; FORBIDDEN, the message is of
// another tenant or room, or its author is neither the owner nor a participant
// who is authorized now; VALIDATION_ERROR, an id or type that no message has;
// CONFLICT, ten compare-and-sets in a row were lost.
func (s *Service) AcceptEvent(ctx context.Context, tenant, room, eventID string) (Accepted, error) {
	ref, l, d, err := s.room(ctx, tenant, room)
	if err != nil {
		return Accepted{}, err
	}
	if err := checkID("a message", eventID); err != nil {
		return Accepted{}, err
	}
	if runtime.Inner(eventID) || strings.HasPrefix(eventID, proposalPrefix) || strings.HasPrefix(eventID, commandPrefix) {
		return Accepted{}, engine.Errorf(engine.CodeValidation, "%q is no id of a persisted message: the room uses it itself", eventID)
	}
	if a, known, err := runtime.Recall(ctx, s.cfg.Store, l.Room, eventID, ""); known || err != nil {
		return accepted(eventID, a, d, err)
	}
	p, err := s.cfg.Ports.Events.Event(ctx, ref, eventID)
	if err != nil {
		return Accepted{}, resolved(err, "event", eventID)
	}
	if err := s.admit(ctx, ref, d, eventID, &p); err != nil {
		return Accepted{}, err
	}
	if p.Type == "" {
		p.Type = engine.MsgRequest
	}
	if !slices.Contains(messageTypes, p.Type) {
		return Accepted{}, engine.Errorf(engine.CodeValidation, "event %s is of type %q; known are %s", eventID, p.Type, strings.Join(messageTypes, ", "))
	}
	return s.take(ctx, l, d, eventID, &p)
}

// RecordSpecialistProposal takes a specialist's persisted contribution into
// the inbox: material for the reasoner, not a plan, and not an owner's word
// (R18, R19). The specialist must be authorized now; it is asked again when
// the proposal is read.
//
// Errors as AcceptEvent; FORBIDDEN also when the author is the owner or no
// participant.
func (s *Service) RecordSpecialistProposal(ctx context.Context, tenant, room, contributionID string) (Accepted, error) {
	ref, l, d, err := s.room(ctx, tenant, room)
	if err != nil {
		return Accepted{}, err
	}
	if err := checkID("a contribution", contributionID); err != nil {
		return Accepted{}, err
	}
	id := proposalPrefix + contributionID
	if a, known, err := runtime.Recall(ctx, s.cfg.Store, l.Room, id, ""); known || err != nil {
		return accepted(id, a, d, err)
	}
	p, err := s.cfg.Ports.Events.Contribution(ctx, ref, contributionID)
	if err != nil {
		return Accepted{}, resolved(err, "contribution", contributionID)
	}
	if p.Author == d.Owner {
		return Accepted{}, engine.Errorf(engine.CodeForbidden, "contribution %s is the owner's; owners write messages", contributionID)
	}
	if err := s.admit(ctx, ref, d, contributionID, &p); err != nil {
		return Accepted{}, err
	}
	p.Type = engine.MsgProposal
	return s.take(ctx, l, d, id, &p)
}

// admit checks that a record is of this room and its author may speak now.
func (s *Service) admit(ctx context.Context, ref Ref, d Definition, id string, p *Persisted) error {
	switch {
	case p.Room != ref:
		return engine.Errorf(engine.CodeForbidden, "%s belongs to another room", id)
	case p.ID != id:
		return engine.Errorf(engine.CodeForbidden, "the record of %s is that of %s", id, p.ID)
	case p.Author == d.Owner:
		return nil
	}
	now, err := s.cfg.Ports.Authority.Eligible(ctx, ref)
	if err != nil {
		return coded(err)
	}
	return mayAct(p.Author, id, d, now)
}

func mayAct(author, id string, d Definition, now []string) error {
	known := slices.ContainsFunc(d.Agents, func(a engine.Participant) bool { return a.ID == author })
	if known && slices.Contains(now, author) {
		return nil
	}
	return engine.Errorf(engine.CodeForbidden, "%q, who wrote %s, is not authorized in the room now", author, id)
}

func (s *Service) take(ctx context.Context, l runtime.Live, d Definition, id string, p *Persisted) (Accepted, error) {
	m := engine.OwnerMessage{ID: p.ID, Type: p.Type, From: p.Author, Objective: p.Objective, Text: engine.Plain(p.Text)}
	b, err := engine.Canonical(m)
	if err != nil {
		return Accepted{}, err
	}
	a, err := s.append(ctx, l, runtime.Intake{
		Event: engine.Event{ID: id, Kind: engine.EvOwnerMessage, Message: &m}, Digest: engine.Digest(b),
	})
	return accepted(id, a, d, err)
}

// accepted is the answer that a revision gives, the first time and ever after.
// Authority can go between its check and the commit; the row has what was true
// at the commit.
func accepted(id string, a runtime.Answer, d Definition, err error) (Accepted, error) {
	if err != nil {
		return Accepted{}, coded(err)
	}
	ev := a.Entry.Event
	if m, f := ev.Message, ev.Facts; m != nil && f != nil && m.From != d.Owner {
		if err := mayAct(m.From, id, d, f.Eligible); err != nil {
			return Accepted{}, err
		}
	}
	return Accepted{Event: id, Seq: a.Rev, Again: a.Again}, nil
}
