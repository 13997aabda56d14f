package store

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/budget"
)

// This file is the one table of how a room's head and operations may move.
// Implementations call it inside their transaction, so that all of them agree.

// Account is the room's account.
func (h *Head) Account() budget.Account {
	return budget.Account{Limit: h.Money.Limit, Charged: h.Money.Charged, Held: h.Money.Held, Unknown: h.Money.Unknown, Halted: h.Halted}
}

// SetAccount takes the account after a transition.
func (h *Head) SetAccount(a budget.Account) {
	h.Money = engine.Money{Limit: a.Limit, Charged: a.Charged, Held: a.Held, Unknown: a.Unknown}
	h.Halted = a.Halted
}

// CheckNewRoom refuses a room that no store may hold: ErrInvalid.
func CheckNewRoom(r NewRoom) error {
	switch {
	case r.Room == "":
		return fmt.Errorf("room without id: %w", ErrInvalid)
	case r.Money.Limit < 0:
		return fmt.Errorf("room %s: limit %d: %w", r.Room, r.Money.Limit, ErrInvalid)
	case !r.Funds.Valid():
		return fmt.Errorf("room %s: funds %q: %w", r.Room, r.Funds, ErrInvalid)
	}
	return nil
}

// Valid reports whether f is one of the two kinds.
func (f Funds) Valid() bool { return f == FundsReal || f == FundsSimulated }

// HeadOf is the head of a room that was just made. Its salt is r's own.
func HeadOf(r NewRoom) Head {
	return Head{
		Room: r.Room, Rev: -1, Money: engine.Money{Limit: r.Money.Limit}, Funds: r.Funds, Salt: r.Salt,
		Machine: r.Machine, Allotment: r.Allotment,
	}
}

// CheckCommit judges what needs no look at the store: the row's place in the
// chain and its digests, and the shape of operations and receipts. ErrInvalid.
func CheckCommit(c *Commit) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("commit room=%s rev=%d: %s: %w", c.Room, c.Row.Rev, fmt.Sprintf(format, args...), ErrInvalid)
	}
	switch {
	case c.Row.Rev != c.ExpectRev+1:
		return bad("revision does not follow %d", c.ExpectRev)
	case c.Row.Prev != c.ExpectHead:
		return bad("prev is not the expected head")
	case engine.Digest(c.Row.Commands) != c.Row.CommandsDigest:
		return bad("commands digest is wrong")
	case RowDigest(c.Row) != c.Row.Digest:
		return bad("row digest is wrong")
	}
	for i := range c.Ops {
		if op := &c.Ops[i]; op.ID == "" || op.ReservedMicros < 0 {
			return bad("operation %q reserves %d", op.ID, op.ReservedMicros)
		}
	}
	for i := range c.Receipts {
		if err := checkReceipt(&c.Receipts[i]); err != nil {
			return bad("%v", err)
		}
	}
	for i := range c.Outbox {
		if c.Outbox[i].ID == "" {
			return bad("outbox entry without id")
		}
	}
	return nil
}

func checkReceipt(r *Receipt) error {
	switch {
	case r.Outcome != OutcomeOK && r.Outcome != OutcomeFailed && r.Outcome != OutcomeUnknown:
		return fmt.Errorf("receipt of %s: outcome %q", r.Op, r.Outcome)
	case r.ChargedMicros < 0:
		return fmt.Errorf("receipt of %s: charge %d", r.Op, r.ChargedMicros)
	case r.Outcome == OutcomeUnknown && r.ChargedMicros != 0:
		return fmt.Errorf("receipt of %s: an unknown outcome charges %d", r.Op, r.ChargedMicros)
	}
	return nil
}

// CheckHead is the compare-and-set: ErrClosed for a closed room, ErrConflict
// when the head is not the one the commit builds on.
func CheckHead(h *Head, c *Commit) error {
	if h.Closed {
		return fmt.Errorf("commit room=%s rev=%d: room is closed: %w", c.Room, c.Row.Rev, ErrClosed)
	}
	if h.Rev != c.ExpectRev || h.Digest != c.ExpectHead {
		return fmt.Errorf("commit room=%s rev=%d: head is at %d: %w", c.Room, c.Row.Rev, h.Rev, ErrConflict)
	}
	return nil
}

// Advance moves the head to a committed row.
func (h *Head) Advance(r *Row) {
	h.Rev, h.Digest, h.StateDigest, h.Machine = r.Rev, r.Digest, r.StateDigest, r.Machine
}

// Admit judges one new operation against the room's account and sets its
// status. An operation without price moves no money and is admitted always,
// also by a halted room; one that arrives refused stays refused. Refused
// operations hold nothing (R36).
func Admit(h *Head, op *Op) Admission {
	switch {
	case op.Status == OpRefused:
		return Admission{Op: op.ID}
	case op.ReservedMicros == 0:
		op.Status = OpReserved
		return Admission{Op: op.ID, Reserved: true}
	}
	a, err := h.Account().Reserve(op.ReservedMicros)
	if err != nil {
		op.Status = OpRefused
		code := engine.CodeBudgetExhausted
		if errors.Is(err, budget.ErrHalted) {
			code = engine.CodeBudgetHalted
		}
		return Admission{Op: op.ID, Code: code}
	}
	h.SetAccount(a)
	op.Status = OpReserved
	return Admission{Op: op.ID, Reserved: true}
}

// Dispatch sets the dispatch mark: ErrAlreadyDispatched unless reserved,
// ErrClosed in a closed room.
func Dispatch(h *Head, op *Op) error {
	if op.Status != OpReserved {
		return fmt.Errorf("dispatch room=%s op=%s: state is %s: %w", h.Room, op.ID, op.Status, ErrAlreadyDispatched)
	}
	if h.Closed {
		return fmt.Errorf("dispatch room=%s op=%s: room is closed: %w", h.Room, op.ID, ErrClosed)
	}
	op.Status = OpDispatched
	return nil
}

// Settle applies a receipt to its operation and to the room's account (R37,
// R39, R42). It reports false for an equal repeat, which changes nothing. A
// receipt of a call that was never dispatched can only say that it failed, at
// no charge: the hold is released. ErrReceiptMismatch: another receipt is
// stored, or the request is another one. ErrInvalid: no such move.
func Settle(h *Head, op *Op, r *Receipt) (bool, error) {
	fail := func(reason string, err error) (bool, error) {
		return false, fmt.Errorf("receipt room=%s op=%s: %s: %w", h.Room, op.ID, reason, err)
	}
	if err := checkReceipt(r); err != nil {
		return fail(err.Error(), ErrInvalid)
	}
	if op.Receipt != nil {
		if EqualReceipts(op.Receipt, r) {
			return false, nil
		}
		return fail("another one is stored", ErrReceiptMismatch)
	}
	if r.RequestDigest != op.RequestDigest {
		return fail("request digest differs", ErrReceiptMismatch)
	}
	var status OpStatus
	account := h.Account()
	var err error
	switch {
	case op.Status == OpReserved && r.Outcome == OutcomeFailed && r.ChargedMicros == 0:
		status = OpReleased
		account, err = account.Release(op.ReservedMicros)
	case op.Status != OpDispatched:
		return fail(fmt.Sprintf("outcome %s, charge %d in state %s", r.Outcome, r.ChargedMicros, op.Status), ErrInvalid)
	case r.Outcome == OutcomeUnknown:
		status = OpUncertain
		account, err = account.Hold(op.ReservedMicros)
	default:
		status = OpSettledFailed
		if r.Outcome == OutcomeOK {
			status = OpSettledOK
		}
		account, err = account.Settle(op.ID, op.ReservedMicros, r.ChargedMicros)
	}
	if err != nil {
		return fail(err.Error(), ErrInvalid)
	}
	h.SetAccount(account)
	if op.Status == OpDispatched {
		op.DispatchedAtUS = r.StartUS
	}
	op.Status, op.ChargedMicros, op.Request = status, r.ChargedMicros, nil
	receipt := *r
	op.Receipt = &receipt
	return true, nil
}

// Resolve settles an uncertain operation by proof (R47); it reports false for
// an equal repeat. ErrReceiptMismatch: reconciled differently before.
// ErrInvalid: the operation is not uncertain, or a charge for a call that did
// not happen.
func Resolve(h *Head, op *Op, r *Reconciliation) (bool, error) {
	fail := func(reason string, err error) (bool, error) {
		return false, fmt.Errorf("reconcile room=%s op=%s: %s: %w", h.Room, op.ID, reason, err)
	}
	if op.Reconciled != nil {
		if EqualReconciliations(op.Reconciled, r) {
			return false, nil
		}
		return fail("reconciled otherwise before", ErrReceiptMismatch)
	}
	if op.Status != OpUncertain {
		return fail("state is "+string(op.Status), ErrInvalid)
	}
	if r.ChargedMicros < 0 || !r.Executed && r.ChargedMicros != 0 {
		return fail(fmt.Sprintf("executed %t, charge %d", r.Executed, r.ChargedMicros), ErrInvalid)
	}
	account, err := h.Account().Resolve(op.ID, op.ReservedMicros, r.ChargedMicros)
	if err != nil {
		return fail(err.Error(), ErrInvalid)
	}
	h.SetAccount(account)
	op.Status, op.ChargedMicros = OpReleased, r.ChargedMicros
	if r.Executed {
		op.Status = OpSettledOK
	}
	rec := *r
	op.Reconciled = &rec
	return true, nil
}

// Overran reports whether the operation was charged more than it reserved.
func (o *Op) Overran() bool { return o.ChargedMicros > o.ReservedMicros }

// Grant sets a new total of the room's account and acknowledges overruns by
// operation id; open are the operations that overran and are not acknowledged
// (R39, R40). Errors as Rooms.GrantRoom.
func (h *Head) Grant(total int64, open, ack []string) error {
	a := h.Account()
	for _, op := range open {
		a.Overruns = append(a.Overruns, budget.Overrun{Ref: op})
	}
	a, err := a.Grant(total, ack)
	switch {
	case errors.Is(err, budget.ErrBelowSpent):
		return fmt.Errorf("room %s: total %s, charged and held %s: %w",
			h.Room, budget.FormatUSD(total), budget.FormatUSD(h.Money.Charged+h.Money.Held), ErrBelowSpent)
	case errors.Is(err, budget.ErrNoOverrun):
		return fmt.Errorf("room %s: %w: %w", h.Room, err, ErrNotFound)
	case err != nil:
		return fmt.Errorf("room %s: %w: %w", h.Room, err, ErrInvalid)
	}
	h.SetAccount(a)
	return nil
}

// EqualReceipts compares all that is stored; an empty result equals none.
func EqualReceipts(a, b *Receipt) bool {
	return a.Op == b.Op && a.RequestDigest == b.RequestDigest && a.Outcome == b.Outcome &&
		a.StartUS == b.StartUS && a.FinishUS == b.FinishUS && a.ChargedMicros == b.ChargedMicros &&
		a.UsageSource == b.UsageSource && equalUsage(a.Usage, b.Usage) && bytes.Equal(a.Result, b.Result)
}

// EqualReconciliations compares all that is stored.
func EqualReconciliations(a, b *Reconciliation) bool {
	return a.Executed == b.Executed && a.ChargedMicros == b.ChargedMicros && equalUsage(a.Usage, b.Usage) &&
		a.UsageSource == b.UsageSource && a.Proof == b.Proof
}

// EqualEffects compares all that is stored.
func EqualEffects(a, b *Effect) bool {
	return StoredEffect(*a, 0) == StoredEffect(*b, 0)
}

// StoredEffect is the effect as stores keep it: at place seq, and its sealed
// texts by reference only.
func StoredEffect(e Effect, seq int64) Effect {
	e.Seq = seq
	for _, t := range []*engine.Text{&e.Args, &e.Patch, &e.Result} {
		if t.Sealed() {
			t.S = ""
		}
	}
	return e
}

func equalUsage(a, b *engine.Usage) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// CheckSnapshot is ErrConflict unless s is the state of the head.
func CheckSnapshot(h *Head, s *Snapshot) error {
	if s.Rev != h.Rev || h.Rev < 0 || engine.Digest(s.State) != h.StateDigest {
		return fmt.Errorf("snapshot room=%s rev=%d: not the state of head %d: %w", h.Room, s.Rev, h.Rev, ErrConflict)
	}
	return nil
}

// SortLoaded puts operations and effects into the order that Loaded states.
func SortLoaded(l *Loaded) {
	slices.SortFunc(l.Ops, func(a, b Op) int { return cmp.Or(cmp.Compare(a.Rev, b.Rev), cmp.Compare(a.Ordinal, b.Ordinal)) })
	slices.SortFunc(l.Effects, func(a, b Effect) int { return cmp.Compare(a.Seq, b.Seq) })
}

// CloseHead closes the room with a termination word. It reports false when it
// is closed with the same word already; another word is ErrConflict.
func CloseHead(h *Head, termination string, atUS int64) (bool, error) {
	if !h.Closed {
		h.Closed, h.Termination, h.ClosedAtUS = true, termination, atUS
		return true, nil
	}
	if h.Termination != termination {
		return false, fmt.Errorf("close room=%s: closed as %s, not %s: %w", h.Room, h.Termination, termination, ErrConflict)
	}
	return false, nil
}
