package freeze

import (
	"context"
	"errors"
	"fmt"
)

// Mirror is a log that is kept in a store and copied to a file. The store's rows
// are the log; before each use the shorter of the two is brought up to the
// longer, row by row and digest by digest, so a new store takes over the log of
// a repository. Where both go on differently the log has forked: nothing is
// written, and the error is ErrLog.
//
// The copy is made under the lock of the file. A process that appends to the
// store without the file leaves it behind; the next use brings it up.
type Mirror struct {
	Store Log
	File  FileLog
	// Noted, if set, is told how many rows were copied where.
	Noted func(rows int, toStore bool)
}

var _ Log = Mirror{}

// SealLog implements Log.
func (m Mirror) SealLog(ctx context.Context) ([]Row, error) {
	var out []Row
	err := m.File.locked(ctx, func(file []Row, write func(...Row) error) error {
		var err error
		out, err = m.level(ctx, file, write)
		return err
	})
	return out, err
}

// AppendSeal implements Log.
func (m Mirror) AppendSeal(ctx context.Context, kind string, body []byte) (Row, error) {
	return m.append(ctx, func([]Row) (Row, error) { return m.Store.AppendSeal(ctx, kind, body) })
}

// AppendSealAfter implements Log. Both logs must end with the row of that
// digest, or be brought up to one that does.
func (m Mirror) AppendSealAfter(ctx context.Context, head, kind string, body []byte) (Row, error) {
	return m.append(ctx, func(rows []Row) (Row, error) {
		if Head(rows) != head {
			return Row{}, fmt.Errorf("%s: %w", m.File.Path, ErrConflict)
		}
		return m.Store.AppendSealAfter(ctx, head, kind, body)
	})
}

// append runs to, which appends a row to the store behind rows, and copies the
// row to the file.
func (m Mirror) append(ctx context.Context, to func(rows []Row) (Row, error)) (Row, error) {
	var out Row
	err := m.File.locked(ctx, func(file []Row, write func(...Row) error) error {
		rows, err := m.level(ctx, file, write)
		if err != nil {
			return err
		}
		if out, err = to(rows); err != nil {
			return err
		}
		if out.N == int64(len(rows))+1 {
			return write(out)
		}
		// Another process appended to the store in between.
		_, err = m.level(ctx, rows, write)
		return err
	})
	if err != nil {
		return Row{}, err
	}
	return out, nil
}

// level makes both the longer one and returns it. When another process appends
// to the store meanwhile, it compares anew.
func (m Mirror) level(ctx context.Context, file []Row, write func(...Row) error) (rows []Row, err error) {
	for range mostTries {
		rows, err = m.levelOnce(ctx, file, write)
		if !errors.Is(err, ErrConflict) {
			break
		}
	}
	return rows, err
}

func (m Mirror) levelOnce(ctx context.Context, file []Row, write func(...Row) error) ([]Row, error) {
	stored, err := m.Store.SealLog(ctx)
	if err != nil {
		return nil, err
	}
	c := Compare(stored, file)
	if c.Forked {
		return nil, m.forked(c.Common)
	}
	if c.A > 0 {
		if faults := checkChain(stored); len(faults) > 0 {
			return nil, fmt.Errorf("%w: of the store: %s", ErrLog, faults[0])
		}
		if err := write(stored[c.Common:]...); err != nil {
			return nil, err
		}
		m.note(c.A, false)
		return stored, nil
	}
	for _, r := range file[c.Common:] {
		got, err := m.Store.AppendSealAfter(ctx, r.Prev, r.Kind, r.Body)
		if err != nil {
			return nil, err
		}
		if got.Digest != r.Digest {
			return nil, m.forked(int(r.N) - 1)
		}
	}
	if c.B > 0 {
		m.note(c.B, true)
	}
	return file, nil
}

func (m Mirror) forked(common int) error {
	return fmt.Errorf("%w: %s and the log of the store have %d rows in common and go on differently: they are two logs; use the store that the file came from, or a new one", ErrLog, m.File.Path, common)
}

func (m Mirror) note(rows int, toStore bool) {
	if m.Noted != nil {
		m.Noted(rows, toStore)
	}
}
