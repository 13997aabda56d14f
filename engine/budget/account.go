package budget

import (
	"errors"
	"fmt"
	"slices"
)

// Refusals of an account's transitions.
var (
	ErrExhausted  = errors.New("budget exhausted")             // the reservation is more than is available
	ErrHalted     = errors.New("budget halted")                // an overrun is not acknowledged
	ErrBelowSpent = errors.New("limit below charged and held") // a grant may not undo what is spent
	ErrAmount     = errors.New("impossible amount")            // negative, zero to reserve, or more than is held
	ErrNoOverrun  = errors.New("no such overrun")              // acknowledged without having happened
)

// Account is a sum of money under a limit, in USD micros. The zero value is an
// account without money. Values are never changed in place.
type Account struct {
	Limit   int64
	Charged int64 // settled
	Held    int64 // reserved and not yet settled
	Unknown int64 // part of Held whose calls have an unknown outcome (R42)
	Halted  bool  // no reservation until a grant acknowledges the overruns (R39)
	// Overruns that no grant has acknowledged, oldest first.
	Overruns []Overrun
}

// Overrun is a charge above its reservation.
type Overrun struct {
	Ref    string // operation or allotment
	Excess int64  // charge minus reservation
}

// Available is Limit − Charged − Held; negative after an overrun beyond the
// limit (R36, R39).
func (a Account) Available() int64 { return a.Limit - a.Charged - a.Held }

// Reserve holds r. It succeeds exactly when the account is not halted and
// 0 < r ≤ Available; equality is allowed (R36). Errors: ErrHalted,
// ErrExhausted, ErrAmount.
func (a Account) Reserve(r int64) (Account, error) {
	switch {
	case r <= 0:
		return a, fmt.Errorf("reserve %d: %w", r, ErrAmount)
	case a.Halted:
		return a, ErrHalted
	case r > a.Available():
		return a, fmt.Errorf("reserve %d of %d available: %w", r, a.Available(), ErrExhausted)
	}
	a.Held += r
	return a, nil
}

// Settle releases a hold of reserved and charges actual, in one step (R37).
// actual above reserved is an overrun: it is charged in full, never clamped,
// recorded under ref, and halts the account (R39). Settling works while
// halted: a call already made is always charged. Errors: ErrAmount,
// ErrOverflow.
func (a Account) Settle(ref string, reserved, actual int64) (Account, error) {
	if reserved < 0 || actual < 0 || reserved > a.Held-a.Unknown {
		return a, fmt.Errorf("settle %s, %d reserved of %d held, %d actual: %w", ref, reserved, a.Held-a.Unknown, actual, ErrAmount)
	}
	return a.charge(ref, reserved, actual)
}

// Release gives a hold back uncharged: the call provably did not happen.
// Error: ErrAmount.
func (a Account) Release(reserved int64) (Account, error) {
	return a.Settle("", reserved, 0)
}

// Hold marks a hold as belonging to a call of unknown outcome. It stays held,
// whole, until Resolve (R42). Error: ErrAmount.
func (a Account) Hold(reserved int64) (Account, error) {
	if reserved < 0 || reserved > a.Held-a.Unknown {
		return a, fmt.Errorf("hold %d of %d held: %w", reserved, a.Held-a.Unknown, ErrAmount)
	}
	a.Unknown += reserved
	return a, nil
}

// Resolve settles a hold of unknown outcome by proof: actual is 0 when the
// call did not happen (R47). Overruns as in Settle. Errors: ErrAmount,
// ErrOverflow.
func (a Account) Resolve(ref string, reserved, actual int64) (Account, error) {
	if reserved < 0 || actual < 0 || reserved > a.Unknown {
		return a, fmt.Errorf("resolve %s, %d reserved of %d unknown, %d actual: %w", ref, reserved, a.Unknown, actual, ErrAmount)
	}
	b, err := a.charge(ref, reserved, actual)
	if err != nil {
		return a, err
	}
	b.Unknown -= reserved
	return b, nil
}

func (a Account) charge(ref string, reserved, actual int64) (Account, error) {
	held := a.Held - reserved
	charged, err := add(a.Charged, actual)
	if err != nil {
		return a, fmt.Errorf("charge %s: %w", ref, err)
	}
	if _, err := add(charged, held); err != nil {
		return a, fmt.Errorf("charge %s: %w", ref, err)
	}
	a.Held, a.Charged = held, charged
	if actual > reserved {
		a.Halted = true
		a.Overruns = append(slices.Clip(a.Overruns), Overrun{Ref: ref, Excess: actual - reserved})
	}
	return a, nil
}

// Grant sets a new total limit. From A to B it adds exactly B−A to what is
// available; charged and held are untouched, and nothing renews by itself
// (R40). A total below charged and held is ErrBelowSpent. ack names overruns
// the owner acknowledges (ErrNoOverrun for one that is not open); the halt is
// cleared when none is left, and then Available is not negative (R39).
func (a Account) Grant(total int64, ack []string) (Account, error) {
	if total < 0 {
		return a, fmt.Errorf("grant %d: %w", total, ErrAmount)
	}
	if spent := a.Charged + a.Held; total < spent {
		return a, fmt.Errorf("grant %d with %d charged and held: %w", total, spent, ErrBelowSpent)
	}
	open := slices.Clone(a.Overruns)
	for _, ref := range ack {
		n := len(open)
		open = slices.DeleteFunc(open, func(o Overrun) bool { return o.Ref == ref })
		if len(open) == n {
			return a, fmt.Errorf("acknowledge %s: %w", ref, ErrNoOverrun)
		}
	}
	a.Limit, a.Overruns = total, open
	if len(open) == 0 {
		a.Halted = false
	}
	return a, nil
}
