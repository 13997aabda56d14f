package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

// codes of a store's errors. A lost race or a closed room is a CONFLICT; what
// has no code of its own is the adapter's (C11).
var codes = []struct {
	is   error
	code string
}{
	{store.ErrNotFound, engine.CodeNotFound},
	{store.ErrConflict, engine.CodeConflict},
	{store.ErrExists, engine.CodeConflict},
	{store.ErrReceiptMismatch, engine.CodeConflict},
	{store.ErrClosed, engine.CodeConflict},
	{store.ErrBelowSpent, engine.CodeConflict},
	{store.ErrHalted, engine.CodeBudgetHalted},
	{store.ErrExhausted, engine.CodeBudgetExhausted},
	{store.ErrSchemaNewer, engine.CodeVersionMismatch},
	{store.ErrSchemaOlder, engine.CodeVersionMismatch},
}

// coded gives err the code of R70 that it stands for, unless it has one. The
// end of a context keeps its own meaning.
func coded(err error) error {
	if err == nil || engine.CodeOf(err) != "" || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	code := engine.CodeAdapter
	for _, c := range codes {
		if errors.Is(err, c.is) {
			code = c.code
			break
		}
	}
	return &codedError{code: engine.Error{Code: code, Message: err.Error()}, err: err}
}

// codedError is err with a code.
type codedError struct {
	code engine.Error
	err  error
}

func (e *codedError) Error() string   { return e.code.Error() }
func (e *codedError) Unwrap() []error { return []error{&e.code, e.err} }

// resolved judges an error of the Events port.
func resolved(err error, what, id string) error {
	if errors.Is(err, ErrUnknown) || errors.Is(err, store.ErrNotFound) {
		return engine.Errorf(engine.CodeNotFound, "%s %s is not on record", what, id)
	}
	return coded(fmt.Errorf("%s %s: %w", what, id, err))
}
