package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"strings"

	driver "modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/agentrooms/qualify/engine/store"
)

// fault is an error of the driver, as opposed to a refusal by the rules of the
// store. It undoes the batch it happens in.
type fault struct{ err error }

func (f *fault) Error() string { return f.err.Error() }
func (f *fault) Unwrap() error { return f.err }

// driverError is the one place where errors of the driver become sentinels of
// the store. what names the action, without content.
func driverError(what string, err error) error {
	if err == nil {
		return nil
	}
	sentinel := error(nil)
	var e *driver.Error
	switch {
	case errors.Is(err, sql.ErrConnDone), errors.Is(err, sql.ErrTxDone):
		sentinel = store.ErrClosed
	case errors.As(err, &e):
		sentinel = sentinelOf(e.Code())
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("sqlite: %s: %w", what, err)
	}
	if sentinel != nil {
		return &fault{fmt.Errorf("sqlite: %s: %w: %w", what, sentinel, err)}
	}
	return &fault{fmt.Errorf("sqlite: %s: %w", what, err)}
}

func sentinelOf(code int) error {
	switch code {
	case lib.SQLITE_CONSTRAINT_UNIQUE, lib.SQLITE_CONSTRAINT_PRIMARYKEY, lib.SQLITE_CONSTRAINT_ROWID:
		return store.ErrExists
	}
	switch code & 0xff {
	case lib.SQLITE_CORRUPT, lib.SQLITE_NOTADB:
		return store.ErrCorrupt
	case lib.SQLITE_READONLY:
		return store.ErrReadOnly
	case lib.SQLITE_FULL:
		return store.ErrFull
	case lib.SQLITE_CONSTRAINT, lib.SQLITE_MISMATCH:
		return store.ErrInvalid
	}
	return nil
}

func isFault(err error) bool {
	var f *fault
	return errors.As(err, &f)
}

// isShut reports that SQLite may not write what it needs beside the file, not
// even to read it.
func isShut(err error) bool {
	var e *driver.Error
	return errors.As(err, &e) && (e.Code()&0xff == lib.SQLITE_READONLY || e.Code()&0xff == lib.SQLITE_CANTOPEN)
}

// reasonOf is why the system does not let the file be opened, where that is
// what the driver's error comes from: the driver does not tell.
func reasonOf(err error, path string) error {
	var e *driver.Error
	if !errors.As(err, &e) || e.Code()&0xff != lib.SQLITE_CANTOPEN {
		return err
	}
	f, reason := os.Open(path)
	if reason != nil {
		return reason
	}
	return errors.Join(err, f.Close())
}

// isNoTransaction reports that there was nothing to roll back.
func isNoTransaction(err error) bool {
	var e *driver.Error
	return errors.As(err, &e) && e.Code() == lib.SQLITE_ERROR && strings.Contains(e.Error(), "no transaction is active")
}

// isBusy reports that another process held the file for the whole timeout.
func isBusy(err error) bool {
	var e *driver.Error
	return errors.As(err, &e) && e.Code()&0xff == lib.SQLITE_BUSY
}
