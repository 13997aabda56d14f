package freeze

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// mostLog bounds a log file, in bytes.
const mostLog = 1 << 30

// FileLog is a seal log in a JSON Lines file, for a repository. Writers of
// several processes take turns by a lock on the file; a row is flushed to the
// disk before AppendSeal returns. A file that is not there is an empty log.
type FileLog struct{ Path string }

var _ Log = FileLog{}

// SealLog implements Log. The chain is not checked; see VerifyLog.
func (l FileLog) SealLog(ctx context.Context) ([]Row, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if info, err := os.Stat(l.Path); err == nil {
		if err := regular(info, l.Path); err != nil {
			return nil, err // before it is opened: a pipe without a writer would block
		}
	}
	f, err := os.Open(l.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return []Row{}, nil
	}
	if err != nil {
		return nil, err
	}
	err = lock(f, false)
	var rows []Row
	if err == nil {
		rows, err = readLog(f, l.Path)
	}
	return rows, errors.Join(err, f.Close()) // closing unlocks
}

// AppendSeal implements Log. A file that does not end in a whole row, or whose
// chain is broken, is left as it is: ErrLog.
func (l FileLog) AppendSeal(ctx context.Context, kind string, body []byte) (Row, error) {
	return l.append(ctx, nil, kind, body)
}

// AppendSealAfter implements Log, as AppendSeal does; the head is compared under
// the lock.
func (l FileLog) AppendSealAfter(ctx context.Context, head, kind string, body []byte) (Row, error) {
	return l.append(ctx, &head, kind, body)
}

// append appends a row, behind the row of digest head if given.
func (l FileLog) append(ctx context.Context, head *string, kind string, body []byte) (Row, error) {
	var out Row
	err := l.locked(ctx, func(rows []Row, write func(...Row) error) error {
		if head != nil && *head != Head(rows) {
			return fmt.Errorf("%s: %w", l.Path, ErrConflict)
		}
		out = chained(last(rows), kind, body)
		return write(out)
	})
	if err != nil {
		return Row{}, err
	}
	return out, nil
}

// TakeOver appends what the file lacks of rows, a log that goes on from it, and
// returns how many rows that were: none where the file is the longer one. Where
// both go on differently, or rows are no chain, nothing is written: ErrLog.
func (l FileLog) TakeOver(ctx context.Context, rows []Row) (n int, err error) {
	if faults := checkChain(rows); len(faults) > 0 {
		return 0, fmt.Errorf("%w: %s; %s is left as it is", ErrLog, faults[0], l.Path)
	}
	err = l.locked(ctx, func(file []Row, write func(...Row) error) error {
		c := Compare(rows, file)
		switch {
		case c.Forked:
			return fmt.Errorf("%w: %s has %d rows in common with the log and goes on differently: they are two logs", ErrLog, l.Path, c.Common)
		case c.A == 0:
			return nil
		}
		n = c.A
		return write(rows[c.Common:]...)
	})
	if err != nil {
		return 0, err
	}
	return n, nil
}

// locked runs f with the rows of the file and a function that appends to it,
// alone among all processes.
func (l FileLog) locked(ctx context.Context, f func(rows []Row, write func(...Row) error) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	_, statErr := os.Lstat(l.Path)
	file, err := os.OpenFile(l.Path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644) //nolint:gosec // a log is for everybody to read
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }() // closing unlocks
	if err := lock(file, true); err != nil {
		return fmt.Errorf("lock %s: %w", l.Path, err)
	}
	rows, err := readLog(file, l.Path)
	if err != nil {
		return err
	}
	if faults := checkChain(rows); len(faults) > 0 {
		return fmt.Errorf("%s: %w: %s; nothing is appended to it", l.Path, ErrLog, faults[0])
	}
	wrote := false
	err = f(rows, func(more ...Row) error {
		var b []byte
		for _, r := range more {
			if b, err = AppendLine(b, r); err != nil {
				return err
			}
		}
		wrote = true
		if err := appendWhole(file, b); err != nil {
			return fmt.Errorf("append to %s: %w", l.Path, err)
		}
		return nil
	})
	if err == nil && wrote && errors.Is(statErr, fs.ErrNotExist) {
		err = syncFolder(filepath.Dir(l.Path))
	}
	return err
}

// appender is what appendWhole needs of a file.
type appender interface {
	io.Writer
	Stat() (fs.FileInfo, error)
	Sync() error
	Truncate(size int64) error
}

// appendWhole appends b and flushes it, or leaves the file as it was.
func appendWhole(f appender, b []byte) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if _, err = f.Write(b); err == nil {
		err = f.Sync()
	}
	if err != nil {
		return errors.Join(err, f.Truncate(info.Size()))
	}
	return nil
}

func last(rows []Row) Row {
	if len(rows) == 0 {
		return Row{}
	}
	return rows[len(rows)-1]
}

func regular(info fs.FileInfo, path string) error {
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: %w: is no regular file; name a file", path, ErrLog)
	}
	return nil
}

func readLog(f *os.File, path string) ([]Row, error) {
	info, err := f.Stat()
	if err == nil {
		err = regular(info, path)
	}
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, mostLog+1))
	if err != nil {
		return nil, err
	}
	if len(data) > mostLog {
		return nil, fmt.Errorf("%s: %w: is over %d bytes", path, ErrLog, mostLog)
	}
	rows, err := ParseRows(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; name another file, or bring this one back whole", path, err)
	}
	return rows, nil
}
