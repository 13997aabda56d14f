package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/agentrooms/qualify/engine/store"
)

// prepared is a cached statement: its cache closes it, its users do not.
type prepared struct{ st *sql.Stmt }

// statements caches the prepared statements of the read pool by their text.
// Its lock may be held while waiting for a connection, so nobody who holds a
// connection may ask it.
type statements struct {
	db *sql.DB
	mu sync.Mutex
	by map[string]prepared
}

func (c *statements) get(ctx context.Context, query string) (prepared, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p, ok := c.by[query]; ok {
		return p, nil
	}
	st, err := c.db.PrepareContext(ctx, query)
	if err != nil {
		return prepared{}, driverError("prepare "+firstWords(query), err)
	}
	if c.by == nil {
		c.by = map[string]prepared{}
	}
	p := prepared{st}
	c.by[query] = p
	return p, nil
}

func (c *statements) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for _, p := range c.by {
		errs = append(errs, driverError("close statement", p.st.Close()))
	}
	c.by = nil
	return errors.Join(errs...)
}

// view is one consistent sight of the file.
type view struct {
	store *Store
	tx    *sql.Tx // nil: each statement sees the newest state
}

// read runs one or several queries. snapshot makes them see one state.
func (s *Store) read(ctx context.Context, what string, snapshot bool, f func(view) error) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		return fmt.Errorf("%s: %w", what, store.ErrClosed)
	}
	v := view{store: s}
	if !snapshot {
		return f(v)
	}
	tx, err := s.reads.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return driverError(what, err)
	}
	defer func() { _ = tx.Rollback() }() // nothing to keep
	v.tx = tx
	return f(v)
}

// stmt returns the prepared statement of a constant text. One that is needed
// inside a transaction is prepared on its own connection and ends with it: to
// prepare on the pool there would wait for a further connection, which never
// comes free when every connection is held by a transaction that waits so.
func (v view) stmt(ctx context.Context, query string) (prepared, error) {
	if v.tx == nil {
		return v.store.cache.get(ctx, query)
	}
	st, err := v.tx.PrepareContext(ctx, query)
	if err != nil {
		return prepared{}, driverError("prepare "+firstWords(query), err)
	}
	return prepared{st}, nil
}

func (v view) row(ctx context.Context, query string, args []any, dest ...any) (bool, error) {
	p, err := v.stmt(ctx, query)
	if err != nil {
		return false, err
	}
	err = p.st.QueryRowContext(ctx, args...).Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, driverError(firstWords(query), err)
	}
	return true, nil
}

// each calls f for every row of the query.
func (v view) each(ctx context.Context, query string, args []any, f func(scan func(...any) error) error) error {
	p, err := v.stmt(ctx, query)
	if err != nil {
		return err
	}
	return p.each(ctx, query, args, f)
}

// each calls f for every row of the statement, whose text is query.
func (p prepared) each(ctx context.Context, query string, args []any, f func(scan func(...any) error) error) error {
	rows, err := p.st.QueryContext(ctx, args...)
	if err != nil {
		return driverError(firstWords(query), err)
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		if err := f(rows.Scan); err != nil {
			return driverError(firstWords(query), err)
		}
	}
	return driverError(firstWords(query), rows.Err())
}
