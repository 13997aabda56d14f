package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	_ "modernc.org/sqlite" // the driver of database/sql named sqlite

	"github.com/agentrooms/qualify/engine/store"
)

var _ store.Store = (*Store)(nil)

// Options of a SQLite store. The zero value opens an existing file of the
// newest schema for reading and writing.
type Options struct {
	Create   bool // make the file, and its folder, when absent
	Migrate  bool // bring an older file to the newest schema, after a copy beside it
	ReadOnly bool // refuse every write with store.ErrReadOnly
	Durable  bool // flush every commit to the disk, not only those of real funds
	// Ledgers that the opener needs beside Rooms. One that the file lacks, or
	// has in an older version, is ErrSchemaOlder; Create and Migrate see to
	// Rooms alone.
	Ledgers []Ledger
	// BusyTimeout is how long a statement waits for another process; zero
	// means 60 seconds.
	BusyTimeout time.Duration
	// Batch is the largest number of logical writes in one transaction; zero
	// means 256.
	Batch int
	// Watch is the clock that the waits of writes are measured with; nil
	// measures none (Stats.LongestWait is then 0).
	Watch func() time.Time
	// Now replaces the database's clock as the clock of leases, for tests.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	if o.BusyTimeout == 0 {
		o.BusyTimeout = 60 * time.Second
	}
	if o.Batch == 0 {
		o.Batch = 256
	}
	return o
}

func (o Options) validate() error {
	switch {
	case o.ReadOnly && (o.Create || o.Migrate):
		return fmt.Errorf("a read-only store cannot be made or migrated: %w", store.ErrInvalid)
	case o.BusyTimeout < 0 || o.Batch < 0:
		return fmt.Errorf("busy timeout %s, batch %d: %w", o.BusyTimeout, o.Batch, store.ErrInvalid)
	}
	return nil
}

// readers is the number of connections for reads.
const readers = 4

// Store is an open SQLite store, safe for concurrent use. Close it.
type Store struct {
	path   string
	opts   Options
	schema int
	backup string // copy made by the migration of this opening

	immutable bool // read without log and locks: nothing can be written beside the file

	reads *sql.DB
	cache statements // of reads
	rooms sync.Map   // id → roomInfo; what never changes about a room

	gate   sync.RWMutex // guards closed and sends on queue
	closed bool
	queue  chan *request
	done   chan struct{} // closed when the writer has ended
	writes *sql.DB

	commits, logical, flushed atomic.Int64 // transactions, logical writes, transactions flushed to the disk
	yields                    atomic.Int64 // pauses made for another process
	longest                   atomic.Int64 // nanoseconds a write has waited at most
}

// roomInfo is the part of a room that never changes.
type roomInfo struct {
	n     int64
	funds store.Funds
}

// Open opens the store in the file at path. Errors, each in one line:
// store.ErrNotFound (no file and no Create), ErrSchemaNewer, ErrSchemaOlder
// (no Migrate), ErrCorrupt (damaged, or no store), ErrInvalid (options).
func Open(ctx context.Context, path string, opts Options) (*Store, error) {
	steps, err := builtinMigrations()
	if err != nil {
		return nil, err
	}
	s, err := open(ctx, path, opts, steps)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	return s, nil
}

func open(ctx context.Context, path string, opts Options, steps []migration) (*Store, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	fresh, err := prepareFile(path, opts)
	if err != nil {
		return nil, err
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("path: %w", err)
	}
	s := newStore(abs, opts, len(steps))
	err = s.connect(ctx, fresh, steps)
	if opts.ReadOnly && isShut(err) && noLog(abs) {
		// A closed store in a folder that cannot be written to, as on an
		// archive: there is no log to read and nobody to lock out.
		s = newStore(abs, opts, len(steps))
		s.immutable = true
		err = s.connect(ctx, fresh, steps)
	}
	if err != nil {
		return nil, reasonOf(err, abs)
	}
	return s, nil
}

func newStore(path string, opts Options, schema int) *Store {
	return &Store{
		path: path, opts: opts, schema: schema,
		queue: make(chan *request, 4*opts.Batch), done: make(chan struct{}),
	}
}

// noLog reports that no write-ahead log with content lies beside the file.
func noLog(path string) bool {
	info, err := os.Stat(path + "-wal")
	return errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0
}

// prepareFile sees to it that there is a regular file or may be one.
func prepareFile(path string, opts Options) (fresh bool, err error) {
	st, err := os.Stat(path)
	switch {
	case err == nil && !st.Mode().IsRegular():
		return false, fmt.Errorf("not a file: %w", store.ErrCorrupt)
	case err == nil:
		return st.Size() == 0, nil
	case !errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("look at the file: %w", err)
	case !opts.Create:
		return false, store.ErrNotFound
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, fmt.Errorf("make the folder: %w", err)
	}
	// Made here, so that a folder that refuses it is named with its reason;
	// SQLite takes an empty file for a new one.
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return false, fmt.Errorf("make the file: %w", err)
	}
	return true, f.Close()
}

func (s *Store) dsn(readOnly bool) string {
	q := url.Values{}
	q.Add("_pragma", "busy_timeout("+strconv.FormatInt(s.opts.BusyTimeout.Milliseconds(), 10)+")")
	q.Add("_pragma", "foreign_keys(1)")
	q.Add("_pragma", "cache_size(-16384)")
	q.Add("_pragma", "temp_store(2)")
	// Pages that many commits touch are copied into the file once per checkpoint.
	q.Add("_pragma", "wal_autocheckpoint(12000)")
	q.Add("_pragma", "journal_size_limit(67108864)")
	if readOnly {
		q.Add("_pragma", "query_only(1)")
	}
	if s.opts.ReadOnly {
		q.Set("mode", "ro")
	}
	if s.immutable {
		q.Set("immutable", "1")
	}
	return (&url.URL{Scheme: "file", Path: filepath.ToSlash(s.path), RawQuery: q.Encode()}).String()
}

// connect opens the connections, checks and migrates the schema, and starts
// the writer.
func (s *Store) connect(ctx context.Context, fresh bool, steps []migration) (err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, s.disconnect())
		}
	}()
	if s.reads, err = sql.Open("sqlite", s.dsn(true)); err != nil {
		return driverError("open", err)
	}
	s.reads.SetMaxOpenConns(readers)
	s.reads.SetMaxIdleConns(readers)
	s.cache.db = s.reads
	if s.writes, err = sql.Open("sqlite", s.dsn(false)); err != nil {
		return driverError("open", err)
	}
	s.writes.SetMaxOpenConns(1)
	conn, err := s.writes.Conn(ctx)
	if err != nil {
		return driverError("open", err)
	}
	if err := s.prepareSchema(ctx, conn, fresh, steps); err != nil {
		return errors.Join(err, conn.Close())
	}
	if s.opts.ReadOnly {
		close(s.done)
		return driverError("open", conn.Close())
	}
	w := &writer{store: s, conn: conn, full: -1}
	go w.loop(context.WithoutCancel(ctx))
	return nil
}

func (s *Store) prepareSchema(ctx context.Context, conn *sql.Conn, fresh bool, steps []migration) error {
	v, err := version(ctx, conn, steps)
	if err != nil {
		return err
	}
	if s.opts.ReadOnly && v < len(steps) {
		return fmt.Errorf("schema %d, this program needs %d (sqlite.Migrate applies it): %w", v, len(steps), store.ErrSchemaOlder)
	}
	if v < len(steps) && !s.opts.Migrate && (!fresh && v > 0 || !s.opts.Create) {
		return fmt.Errorf("schema %d, this program needs %d (sqlite.Migrate applies it): %w", v, len(steps), store.ErrSchemaOlder)
	}
	if s.opts.ReadOnly {
		return checkLedgers(ctx, conn, s.opts.Ledgers)
	}
	if err := switchToWAL(ctx, conn); err != nil {
		return err
	}
	if s.backup, err = migrate(ctx, conn, s.path, steps); err != nil {
		return err
	}
	return checkLedgers(ctx, conn, s.opts.Ledgers)
}

// walTries bounds how often switchToWAL finds another connection at the same.
const walTries = 100

// switchToWAL makes sure that the file has a write-ahead log. SQLite asks the busy
// handler in vain here, since the switch begins as a read: of two connections that
// switch at once, one fails. Beginning a write does wait for the other.
func switchToWAL(ctx context.Context, conn *sql.Conn) error {
	var mode string
	for tries := 1; ; tries++ {
		err := conn.QueryRowContext(ctx, "PRAGMA journal_mode = WAL").Scan(&mode)
		if isBusy(err) && tries < walTries {
			if _, err = conn.ExecContext(ctx, "BEGIN IMMEDIATE; ROLLBACK"); err == nil {
				continue
			}
		}
		if err != nil {
			return driverError("switch to WAL", err)
		}
		if mode != "wal" {
			return fmt.Errorf("the file system allows no write-ahead log (journal mode %s): %w", mode, store.ErrInvalid)
		}
		return nil
	}
}

// has reports that the store was opened with a ledger, which it then has.
func (s *Store) has(l Ledger) bool { return l == Rooms || slices.Contains(s.opts.Ledgers, l) }

func (s *Store) disconnect() error {
	var errs []error
	errs = append(errs, s.cache.close())
	for _, db := range []*sql.DB{s.reads, s.writes} {
		if db != nil {
			errs = append(errs, driverError("close", db.Close()))
		}
	}
	return errors.Join(errs...)
}

// Backup is the path of the copy that Open made before it migrated the file,
// or "".
func (s *Store) Backup() string { return s.backup }

// Close implements store.Store: writes already queued are done first. Closing
// twice is allowed.
func (s *Store) Close() error {
	s.gate.Lock()
	if s.closed {
		s.gate.Unlock()
		<-s.done
		return nil
	}
	s.closed = true
	close(s.queue)
	s.gate.Unlock()
	<-s.done
	return s.disconnect()
}

// watch reads the clock of waits.
func (s *Store) watch() time.Time {
	if s.opts.Watch == nil {
		return time.Time{}
	}
	return s.opts.Watch()
}

// waited notes the wait of a write that was asked for at a time of watch.
func (s *Store) waited(asked time.Time) {
	if s.opts.Watch == nil {
		return
	}
	d := int64(s.opts.Watch().Sub(asked))
	for {
		have := s.longest.Load()
		if d <= have || s.longest.CompareAndSwap(have, d) {
			return
		}
	}
}

// Stats implements store.Store.
func (s *Store) Stats(context.Context) (store.Stats, error) {
	return store.Stats{
		Commits: s.commits.Load(), Writes: s.logical.Load(), Schema: s.schema, LongestWait: time.Duration(s.longest.Load()),
		Detail: map[string]string{
			"driver": "sqlite", "path": s.path, "journal_mode": "wal", "durable": strconv.FormatBool(s.opts.Durable),
			"flushed_commits": strconv.FormatInt(s.flushed.Load(), 10),
			"yields":          strconv.FormatInt(s.yields.Load(), 10),
			"busy_timeout":    s.opts.BusyTimeout.String(),
		},
	}, nil
}
