package engine

import (
	"errors"
	"fmt"
)

// Codes of recorded outcomes and errors (R70).
const (
	CodeNotFound          = "NOT_FOUND"
	CodeForbidden         = "FORBIDDEN"
	CodeConflict          = "CONFLICT"
	CodeStaleRevision     = "STALE_REVISION"
	CodeInvalidPlan       = "INVALID_PLAN"
	CodeInvalidTransition = "INVALID_TRANSITION"
	CodeValidation        = "VALIDATION_ERROR"
	CodeBudgetExhausted   = "BUDGET_EXHAUSTED"
	CodeBudgetHalted      = "BUDGET_HALTED"
	CodeUnboundedCost     = "UNBOUNDED_COST"
	CodeReviewInvalid     = "REVIEW_INVALID"
	CodeLimitReached      = "LIMIT_REACHED"
	CodeUncertain         = "UNCERTAIN"
	CodeVersionMismatch   = "VERSION_MISMATCH"
	CodeAdapter           = "ADAPTER_ERROR" // a provider or store failed without a code of its own (C11)
)

// Error carries a code of R70 and one line for people.
type Error struct {
	Code    string
	Message string
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// Errorf makes an Error with a formatted message.
func Errorf(code, format string, args ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// CodeOf returns the code of the first *Error in err's chain, or "".
func CodeOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}
