package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
)

// Order is who orders something, and the key that makes it happen once.
type Order struct {
	// Key is the idempotency key, unique in the room for ever: the same key
	// with the same order gets the same answer, with another one CONFLICT (R69).
	Key string
	// Caller is who orders, as the program authenticated it; the Authority port
	// says whether that is the owner.
	Caller string
}

// Pause stops an objective: no new work, calls under way are asked to stop,
// and what they still return needs readmission (R43, R44). expected is the
// control revision that the owner saw; another one is STALE_REVISION.
//
// Errors of all commands: NOT_FOUND (room, objective, operation), FORBIDDEN
// (not the owner), STALE_REVISION, INVALID_TRANSITION, CONFLICT (the key was
// used for another order, or ten compare-and-sets in a row were lost),
// VALIDATION_ERROR. The answer holds the code too.
func (s *Service) Pause(ctx context.Context, tenant, room string, o Order, objective string, expected int) (engine.Answer, error) {
	return s.order(ctx, tenant, room, o, engine.CommandRequest{Kind: engine.CommandPause, Objective: objective, Expected: expected})
}

// Resume puts a paused objective back where it was. It readmits nothing (R44).
func (s *Service) Resume(ctx context.Context, tenant, room string, o Order, objective string, expected int) (engine.Answer, error) {
	return s.order(ctx, tenant, room, o, engine.CommandRequest{Kind: engine.CommandResume, Objective: objective, Expected: expected})
}

// Cancel ends an objective for good. Calls under way are asked to stop and
// charged; holds of unknown outcomes stay (R42).
func (s *Service) Cancel(ctx context.Context, tenant, room string, o Order, objective string, expected int) (engine.Answer, error) {
	return s.order(ctx, tenant, room, o, engine.CommandRequest{Kind: engine.CommandCancel, Objective: objective, Expected: expected})
}

// GrantBudget sets the room's total budget in USD micros and acknowledges
// overruns by operation id; a halted room goes on when all are acknowledged
// (R39, R40). A total below what is charged and held is CONFLICT.
func (s *Service) GrantBudget(ctx context.Context, tenant, room string, o Order, total int64, overruns []string) (engine.Answer, error) {
	return s.order(ctx, tenant, room, o, engine.CommandRequest{Kind: engine.CommandGrant, Total: total, Overruns: overruns})
}

// Readmit lets one result count that came after a control change (R44).
func (s *Service) Readmit(ctx context.Context, tenant, room string, o Order, op string, expected int) (engine.Answer, error) {
	return s.order(ctx, tenant, room, o, engine.CommandRequest{Kind: engine.CommandReadmit, Op: op, Expected: expected})
}

// Reconcile settles an operation of unknown outcome by the evidence of the
// Reconciler port: executed is charged, proof that it was not executed
// releases the hold, once (R47). Without evidence nothing changes and nothing
// is remembered under the key: the error's code is UNCERTAIN. An operation
// whose outcome is known is CONFLICT.
func (s *Service) Reconcile(ctx context.Context, tenant, room string, o Order, op string) (engine.Answer, error) {
	return s.order(ctx, tenant, room, o, engine.CommandRequest{Kind: engine.CommandReconcile, Op: op})
}

func (s *Service) order(ctx context.Context, tenant, room string, o Order, r engine.CommandRequest) (engine.Answer, error) {
	ref, l, d, err := s.room(ctx, tenant, room)
	if err != nil {
		return engine.Answer{}, err
	}
	if err := checkID("the idempotency key of "+r.Kind, o.Key); err != nil {
		return engine.Answer{}, err
	}
	owner, err := s.cfg.Ports.Authority.IsOwner(ctx, ref, o.Caller)
	if err != nil {
		return engine.Answer{}, coded(fmt.Errorf("who is the owner: %w", err))
	}
	if !owner {
		return engine.Answer{}, engine.Errorf(engine.CodeForbidden, "only the owner may order %s", r.Kind)
	}
	digest, err := r.Digest()
	if err != nil {
		return engine.Answer{}, err
	}
	if a, known, err := s.answered(ctx, l.Room, o.Key, digest); known || err != nil {
		return a, err
	}
	command := &engine.OwnerCommand{CommandRequest: r, Key: o.Key, From: d.Owner}
	if r.Kind == engine.CommandReconcile {
		if command.Found, err = s.reconcile(ctx, ref, l.Room, r.Op); err != nil {
			return engine.Answer{}, err
		}
	}
	got, err := s.append(ctx, l, runtime.Intake{
		Event: engine.Event{ID: commandPrefix + o.Key, Kind: engine.EvOwnerCommand, Command: command}, Digest: digest,
	})
	if err != nil {
		return engine.Answer{}, err
	}
	for i := range got.Entry.Commands {
		if a := got.Entry.Commands[i].Answer; a != nil && a.Key == o.Key {
			a.Repeated = a.Repeated || got.Again
			return *a, a.Err()
		}
	}
	return engine.Answer{}, fmt.Errorf("revision %d of room %s answers no command %s", got.Rev, room, o.Key)
}

// answered is the answer that a key was given before.
func (s *Service) answered(ctx context.Context, id, key, digest string) (engine.Answer, bool, error) {
	found, err := s.cfg.Store.Lookup(ctx, id, engine.SpaceCommand, []string{key})
	if err != nil {
		return engine.Answer{}, false, coded(err)
	}
	text, ok := found[key]
	if !ok {
		return engine.Answer{}, false, nil
	}
	var a engine.Answer
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		return a, false, fmt.Errorf("answer to command %s: %w", key, err)
	}
	if a.Digest != digest {
		return engine.Answer{}, false, engine.Errorf(engine.CodeConflict, "key %s was used for another order", key)
	}
	a.Repeated = true
	return a, true, a.Err()
}

// reconcile settles an uncertain operation by evidence and says what it found.
// A repeat after a crash finds it settled and says the same.
func (s *Service) reconcile(ctx context.Context, ref Ref, id, op string) (*engine.CommandFound, error) {
	o, err := s.operation(ctx, id, op)
	if err != nil {
		return nil, err
	}
	if o.Reconciled != nil {
		return s.again(ctx, ref, o)
	}
	if o.Status != store.OpUncertain {
		return nil, engine.Errorf(engine.CodeConflict, "operation %s is %s: nothing is to be reconciled", op, o.Status)
	}
	e, err := s.evidence(ctx, ref, o)
	if err != nil {
		return nil, err
	}
	rec := store.Reconciliation{Executed: e.Outcome == engine.ReconciledExecuted, Proof: oneLine(e.Proof)}
	switch {
	case e.Outcome == "":
		return nil, engine.Errorf(engine.CodeUncertain, "there is no evidence of operation %s; its hold stays", op)
	case e.Proof == "", !rec.Executed && e.Outcome != engine.ReconciledNotExecuted:
		return nil, engine.Errorf(engine.CodeValidation, "evidence of operation %s: outcome %q with proof %q", op, e.Outcome, e.Proof)
	case e.Micros != nil && *e.Micros < 0:
		return nil, engine.Errorf(engine.CodeValidation, "evidence of operation %s: a cost of %d micros", op, *e.Micros)
	case rec.Executed:
		rec.ChargedMicros, rec.UsageSource, rec.Usage = o.ReservedMicros, "bound", e.Usage
		if e.Micros != nil {
			rec.ChargedMicros, rec.UsageSource = *e.Micros, "actual"
		}
	}
	err = s.cfg.Store.Reconcile(ctx, id, op, rec)
	if errors.Is(err, store.ErrReceiptMismatch) { // someone else was quicker
		if o, err = s.operation(ctx, id, op); err == nil && o.Reconciled != nil {
			return found(o.Reconciled.Executed, e.Result), nil
		}
	}
	if err != nil {
		return nil, coded(err)
	}
	return found(rec.Executed, e.Result), nil
}

// again says what is known of an operation that was settled by proof before:
// by an order that a crash cut short, or by a reply that came late. The money
// is settled; the port may still have the reply that the work waits for.
func (s *Service) again(ctx context.Context, ref Ref, o store.Op) (*engine.CommandFound, error) {
	if !o.Reconciled.Executed {
		return found(false, nil), nil
	}
	e, err := s.evidence(ctx, ref, o)
	if err != nil {
		return nil, err
	}
	return found(true, e.Result), nil
}

const maxProof = 500 // characters

// oneLine is a text from outside on one line of bounded length, without what
// looks like a secret (C12).
func oneLine(text string) string {
	text = engine.Redact(strings.Join(strings.Fields(strings.ToValidUTF8(text, "?")), " "))
	if runes := []rune(text); len(runes) > maxProof {
		return string(runes[:maxProof]) + "…"
	}
	return text
}

// evidence is what the Reconciler port, if there is one, knows of a stored
// operation. Only of one that it says was executed it has a result.
func (s *Service) evidence(ctx context.Context, ref Ref, o store.Op) (Evidence, error) {
	if s.cfg.Ports.Reconciler == nil {
		return Evidence{}, nil
	}
	e, err := s.cfg.Ports.Reconciler.Evidence(ctx, Operation{
		Op: o.ID, Room: ref, Role: o.Role, Participant: o.Agent, Task: o.Task, BoundMicros: o.ReservedMicros, RequestDigest: o.RequestDigest,
	})
	if err != nil {
		return Evidence{}, coded(fmt.Errorf("evidence of operation %s: %w", o.ID, err))
	}
	if e.Outcome != engine.ReconciledExecuted {
		e.Result = nil
	}
	return e, nil
}

// found is the runtime's part of a reconciling order. A result that says that
// the executor failed is no reply: what it cost is settled all the same.
func found(executed bool, res *Result) *engine.CommandFound {
	if executed {
		f := &engine.CommandFound{Outcome: engine.ReconciledExecuted}
		if res != nil && res.Failed == "" {
			f.Reply = &engine.ModelReply{Text: engine.Plain(res.Text)}
		}
		return f
	}
	return &engine.CommandFound{Outcome: engine.ReconciledNotExecuted}
}

func (s *Service) operation(ctx context.Context, id, op string) (store.Op, error) {
	l, err := s.cfg.Store.LoadOps(ctx, id, []string{op})
	if err != nil {
		return store.Op{}, coded(err)
	}
	if len(l.Ops) == 0 {
		return store.Op{}, engine.Errorf(engine.CodeNotFound, "the room has no operation %s", op)
	}
	return l.Ops[0], nil
}
