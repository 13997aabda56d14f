package store

import "errors"

// Sentinels. Every implementation maps its driver's errors to these in one
// place; callers test with errors.Is.
var (
	ErrNotFound          = errors.New("not found")
	ErrExists            = errors.New("already exists")
	ErrConflict          = errors.New("revision conflict")  // lost compare-and-set: reload and re-derive
	ErrReceiptMismatch   = errors.New("receipt mismatch")   // another receipt is stored for this operation
	ErrAlreadyDispatched = errors.New("already dispatched") // the dispatch mark exists
	ErrHalted            = errors.New("budget halted")
	ErrBelowSpent        = errors.New("limit below charged and held")
	ErrExhausted         = errors.New("ceiling exhausted")     // the allotment does not fit now
	ErrQueued            = errors.New("others wait before it") // the allotment is not granted out of turn
	ErrSchemaNewer       = errors.New("store was made by a newer version")
	ErrSchemaOlder       = errors.New("store needs migration")
	ErrLeaseLost         = errors.New("lease lost")
	ErrClosed            = errors.New("store is closed")
	ErrInvalid           = errors.New("invalid write") // a bug of the caller: no state of the store would admit it
	ErrReadOnly          = errors.New("store is read-only")
	ErrCorrupt           = errors.New("store is damaged") // or no store at all
	ErrFull              = errors.New("the disk is full") // nothing of the write is stored; it can be made again
)
