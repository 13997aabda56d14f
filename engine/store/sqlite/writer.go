package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/agentrooms/qualify/engine/store"
)

// request is one logical write.
type request struct {
	what    string // for error messages
	durable bool   // must be on the disk before it is answered
	fenced  bool   // the caller writes under fence
	fence   store.Fence
	// run checks, then writes, inside the batch's transaction. It may be
	// called again after a rollback, so it sets its results afresh.
	run   func(context.Context, *writer) error
	state atomic.Int32
	done  chan error
}

// States of a request: whoever moves it out of queued owns it.
const (
	queued int32 = iota
	taken
	withdrawn
)

// write queues one logical write and waits for its batch. When ctx ends first,
// the write is withdrawn if still queued; otherwise its outcome is unknown to
// this caller.
func (s *Store) write(ctx context.Context, what string, durable bool, run func(context.Context, *writer) error) error {
	if s.opts.ReadOnly {
		return fmt.Errorf("%s: %w", what, store.ErrReadOnly)
	}
	r := &request{what: what, durable: durable || s.opts.Durable, run: run, done: make(chan error, 1)}
	r.fence, r.fenced = store.FenceOf(ctx)
	asked := s.watch()
	if err := s.enqueue(ctx, r); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	select {
	case err := <-r.done:
		s.waited(asked)
		return err
	case <-ctx.Done():
		r.state.CompareAndSwap(queued, withdrawn)
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
}

func (s *Store) enqueue(ctx context.Context, r *request) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.closed {
		return store.ErrClosed
	}
	select {
	case s.queue <- r:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// writer owns the writing connection. All of it runs on one goroutine.
type writer struct {
	store *Store
	conn  *sql.Conn
	cache map[string]prepared
	desk  desk
	// fences holds the verdicts on fences. They hold until a lease is written,
	// here or, as data_version tells at the start of a batch, by another
	// connection; and a rollback undoes what they may stand on.
	fences map[store.Fence]error

	full    int   // synchronous mode now: 1 full, 0 normal, -1 not set
	version int64 // data_version at the last batch; moves when another connection commits
	others  int   // batches to go during which another process gets a pause
}

// pause is how long the writer leaves the lock alone after a batch while
// another process is about; politeness is for how many batches.
const (
	pause      = 2 * time.Millisecond
	politeness = 16
)

// loop answers requests until the queue is closed and empty.
func (w *writer) loop(ctx context.Context) {
	defer close(w.store.done)
	defer w.end()
	batch := make([]*request, 0, w.store.opts.Batch)
	for r := range w.store.queue {
		batch = w.gather(append(batch[:0], r))
		w.serve(ctx, batch)
		clear(batch)
		if w.others > 0 {
			w.others--
			w.store.yields.Add(1)
			w.wait(ctx, pause)
		}
	}
}

func (w *writer) wait(ctx context.Context, d time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	<-ctx.Done()
}

// gather takes what is waiting and drops what was withdrawn. Callers that the
// last batch has just woken get one turn of the scheduler as long as that
// brings more; nobody is waited for.
func (w *writer) gather(batch []*request) []*request {
	for grown := true; grown; {
		runtime.Gosched()
		n := len(batch)
		batch = w.drain(batch)
		grown = len(batch) > n && len(batch) < cap(batch)
	}
	return own(batch)
}

func (w *writer) drain(batch []*request) []*request {
	for len(batch) < cap(batch) {
		select {
		case r, ok := <-w.store.queue:
			if !ok {
				return batch
			}
			batch = append(batch, r)
		default:
			return batch
		}
	}
	return batch
}

func own(batch []*request) []*request {
	kept := batch[:0]
	for _, r := range batch {
		if r.state.CompareAndSwap(queued, taken) {
			kept = append(kept, r)
		}
	}
	return kept
}

// serve commits a batch, or after a driver fault each of its writes alone.
func (w *writer) serve(ctx context.Context, batch []*request) {
	if len(batch) == 0 {
		return
	}
	results, err := w.transact(ctx, batch)
	switch {
	case err == nil:
		for i, r := range batch {
			r.done <- results[i]
		}
	case len(batch) == 1 || isBusy(err):
		for _, r := range batch {
			r.done <- fmt.Errorf("%s: %w", r.what, err)
		}
	default:
		for i := range batch {
			w.serve(ctx, batch[i:i+1])
		}
	}
}

// transact runs a batch in one transaction. The results are refusals by the
// rules of the store or nil; err is a driver fault, after which nothing of the
// batch is stored.
func (w *writer) transact(ctx context.Context, batch []*request) (results []error, err error) {
	durable := false
	for _, r := range batch {
		durable = durable || r.durable
	}
	if err := w.begin(ctx, durable); err != nil {
		return nil, err
	}
	results = make([]error, len(batch))
	passed := int64(0)
	for i, r := range batch {
		results[i] = w.judge(ctx, r)
		if results[i] == nil {
			results[i] = r.run(ctx, w)
		}
		if isFault(results[i]) {
			return nil, errors.Join(results[i], w.rollback(ctx))
		}
		if results[i] == nil {
			passed++
		}
	}
	if err := w.exec(ctx, "COMMIT"); err != nil {
		return nil, errors.Join(err, w.rollback(ctx))
	}
	w.store.commits.Add(1)
	if durable {
		w.store.flushed.Add(1)
	}
	w.store.logical.Add(passed)
	return results, nil
}

// judge refuses a request whose lease has gone to another. The lease is read
// again only when it can have changed.
func (w *writer) judge(ctx context.Context, r *request) error {
	if !r.fenced {
		return nil
	}
	err, known := w.fences[r.fence]
	if !known {
		l, lerr := w.lease(ctx, r.fence.Name)
		if lerr != nil {
			return lerr
		}
		err = r.fence.Check(l)
		if w.fences == nil {
			w.fences = map[store.Fence]error{}
		}
		w.fences[r.fence] = err
	}
	if err != nil {
		return fmt.Errorf("%s: %w", r.what, err)
	}
	return nil
}

// rollback ends the transaction. SQLite has ended it by itself after some
// faults, a full disk for one.
func (w *writer) rollback(ctx context.Context) error {
	clear(w.fences)
	clear(w.desk)
	if err := w.exec(ctx, "ROLLBACK"); err != nil && !isNoTransaction(err) {
		return err
	}
	return nil
}

func (w *writer) begin(ctx context.Context, durable bool) error {
	mode, text := 0, "PRAGMA synchronous = NORMAL"
	if durable {
		mode, text = 1, "PRAGMA synchronous = FULL"
	}
	if w.full != mode {
		if err := w.exec(ctx, text); err != nil {
			return err
		}
		w.full = mode
	}
	if err := w.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	var v int64
	if _, err := w.row(ctx, "PRAGMA data_version", nil, &v); err != nil {
		return errors.Join(err, w.rollback(ctx))
	}
	if v != w.version {
		clear(w.desk)
		if w.version != 0 {
			w.others = politeness
		}
		w.version = v
		clear(w.fences)
	}
	return nil
}

// stmt returns the prepared statement of a constant text.
func (w *writer) stmt(ctx context.Context, query string) (prepared, error) {
	if p, ok := w.cache[query]; ok {
		return p, nil
	}
	st, err := w.conn.PrepareContext(ctx, query)
	if err != nil {
		return prepared{}, driverError("prepare "+firstWords(query), err)
	}
	if w.cache == nil {
		w.cache = map[string]prepared{}
	}
	p := prepared{st}
	w.cache[query] = p
	return p, nil
}

func (w *writer) exec(ctx context.Context, query string, args ...any) error {
	p, err := w.stmt(ctx, query)
	if err != nil {
		return err
	}
	if _, err = p.st.ExecContext(ctx, args...); err != nil {
		return driverError(firstWords(query), err)
	}
	return nil
}

// row scans the first row into dest and reports whether there is one.
func (w *writer) row(ctx context.Context, query string, args []any, dest ...any) (bool, error) {
	p, err := w.stmt(ctx, query)
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

func (w *writer) end() {
	for _, p := range w.cache {
		_ = p.st.Close() // the connection is closed next, which frees it in any case
	}
	_ = w.conn.Close() // back to its pool, which Close closes and reports
}

// firstWords names a statement in an error without its whole text.
func firstWords(query string) string {
	words := 0
	for i := range len(query) {
		if query[i] == ' ' || query[i] == '\n' || query[i] == '\t' {
			if words++; words == 3 {
				return query[:i]
			}
		}
	}
	return query
}
