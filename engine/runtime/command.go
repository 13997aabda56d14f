package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

// ownerEvent is the event of what the owner says or orders next.
func ownerEvent(say engine.OwnerSay) engine.Event {
	if say.Command != nil {
		c := *say.Command
		return engine.Event{ID: say.EventID, Kind: engine.EvOwnerCommand, Command: &c}
	}
	m := say.Message
	return engine.Event{ID: say.EventID, Kind: engine.EvOwnerMessage, Message: &m}
}

// resolveCommand fills in what the machine cannot know (R69): the answer that
// the command's key had before, and for a grant the account's answer. The
// account changes before the row is committed; a repeat after a crash changes
// nothing more.
func (r *run) resolveCommand(ctx context.Context, c *engine.OwnerCommand) error {
	if c.Key == "" {
		return faultf("owner: command %s has no idempotency key", c.Kind)
	}
	known, err := r.cfg.Store.Lookup(ctx, r.cfg.Room, engine.SpaceCommand, []string{c.Key})
	if err != nil {
		return fmt.Errorf("look up command %s: %w", c.Key, err)
	}
	c.Earlier = nil
	if v, ok := known[c.Key]; ok {
		c.Earlier = &engine.Answer{}
		if err := json.Unmarshal([]byte(v), c.Earlier); err != nil {
			return fmt.Errorf("answer to command %s: %w", c.Key, err)
		}
		return nil
	}
	if c.Kind != engine.CommandGrant || c.Found != nil {
		return nil
	}
	c.Found, err = r.grant(ctx, c.CommandRequest)
	return err
}

// grant sets the room's limit (R39, R40). A room whose money comes from an
// allotment cannot grow beyond it: the ceiling is drawn in allotments only.
func (r *run) grant(ctx context.Context, c engine.CommandRequest) (*engine.CommandFound, error) {
	if r.cfg.Allotment != "" && c.Total > r.head.Money.Limit {
		return &engine.CommandFound{Code: engine.CodeForbidden, Reason: "the room's money comes from allotment " + r.cfg.Allotment + " and cannot grow beyond it"}, nil
	}
	head, err := r.cfg.Store.GrantRoom(context.WithoutCancel(ctx), r.cfg.Room, c.Total, c.Overruns)
	if errors.Is(err, store.ErrNotFound) && len(c.Overruns) > 0 {
		// A process that died after this grant and before its row has done it.
		done, derr := r.granted(ctx, c)
		if derr != nil {
			return nil, derr
		}
		if done {
			return &engine.CommandFound{}, nil
		}
	}
	switch {
	case err == nil:
		r.head.Money, r.head.Halted = head.Money, head.Halted
		return &engine.CommandFound{}, nil
	case errors.Is(err, store.ErrBelowSpent):
		return &engine.CommandFound{Code: engine.CodeConflict, Reason: "the total is below what is charged and held"}, nil
	case errors.Is(err, store.ErrNotFound):
		return &engine.CommandFound{Code: engine.CodeNotFound, Reason: "an overrun that is not open was acknowledged"}, nil
	case errors.Is(err, store.ErrInvalid):
		return &engine.CommandFound{Code: engine.CodeValidation, Reason: "the total is no amount"}, nil
	default:
		return nil, fmt.Errorf("grant %d: %w", c.Total, err)
	}
}

// granted reports that the account is as the grant would leave it.
func (r *run) granted(ctx context.Context, c engine.CommandRequest) (bool, error) {
	l, err := r.cfg.Store.LoadOps(ctx, r.cfg.Room, c.Overruns)
	if err != nil {
		return false, fmt.Errorf("load operations: %w", err)
	}
	acknowledged := map[string]bool{}
	for i := range l.Ops {
		acknowledged[l.Ops[i].ID] = l.Ops[i].Acknowledged
	}
	for _, op := range c.Overruns {
		if !acknowledged[op] {
			return false, nil
		}
	}
	return l.Head.Money.Limit == c.Total, nil
}

// indexOf is what the store must remember of a step for ever: the ids of the
// owner's events, and the answers to commands by their keys.
func indexOf(st *step) ([]store.IndexEntry, error) {
	var index []store.IndexEntry
	var said any
	switch ev := &st.event; {
	case ev.Message != nil:
		said = ev.Message
	case ev.Command != nil:
		said = ev.Command
	}
	if said != nil {
		b, err := engine.Canonical(said)
		if err != nil {
			return nil, faultf("event %s: %w", st.event.ID, err)
		}
		index = append(index, store.IndexEntry{Space: spaceEvent, Key: st.event.ID, Value: engine.Digest(b)})
	}
	for i := range st.commands {
		a := st.commands[i].Answer
		if a == nil || a.Repeated {
			continue
		}
		b, err := engine.Canonical(a)
		if err != nil {
			return nil, faultf("answer to %s: %w", a.Key, err)
		}
		index = append(index, store.IndexEntry{Space: engine.SpaceCommand, Key: a.Key, Value: string(b)})
	}
	return index, nil
}
