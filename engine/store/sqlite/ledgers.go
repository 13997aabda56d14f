package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/agentrooms/qualify/engine/store"
)

// Ledger names a part of the schema that has versions of its own (R59).
type Ledger string

// Ledgers of a store. Each is applied by Migrate and by nothing else but
// Options.Create and Options.Migrate, which serve programs that own their file.
const (
	// Rooms is rooms with their state, history, receipts and leases, and the
	// records of campaigns.
	Rooms Ledger = "rooms"
	// Calls shows the calls of rooms as runs of single-task processes (R48). It
	// stands on Rooms.
	Calls Ledger = "calls"
)

//go:embed calls/*.sql
var callFiles embed.FS

// Ledgers lists all ledgers in the order in which they stand on each other.
func Ledgers() []Ledger { return []Ledger{Rooms, Calls} }

// LedgerState is how far a file's ledger is.
type LedgerState struct {
	Ledger  Ledger
	Version int // applied steps
	Newest  int // steps this program knows
}

// steps of a ledger that this program knows.
func (l Ledger) steps() ([]migration, error) {
	switch l {
	case Rooms:
		return builtinMigrations()
	case Calls:
		return readSteps(callFiles, "calls")
	default:
		return nil, fmt.Errorf("ledger %q is unknown; known are %v: %w", l, Ledgers(), store.ErrInvalid)
	}
}

const (
	sqlLedgerTable      = `SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'ledger_step'`
	sqlMakeLedgers      = `CREATE TABLE IF NOT EXISTS ledger_step (ledger TEXT NOT NULL, version INTEGER NOT NULL, name TEXT NOT NULL, sha256 TEXT NOT NULL, PRIMARY KEY (ledger, version)) STRICT, WITHOUT ROWID`
	sqlLedgerSteps      = `SELECT sha256 FROM ledger_step WHERE ledger = ? ORDER BY version`
	sqlInsertLedgerStep = `INSERT INTO ledger_step (ledger, version, name, sha256) VALUES (?, ?, ?, ?)`
)

// ledgerVersion reads how far a ledger is, and refuses steps that are not the
// ones this program knows.
func ledgerVersion(ctx context.Context, c *sql.Conn, l Ledger, steps []migration) (int, error) {
	if l == Rooms {
		return version(ctx, c, steps)
	}
	if n, err := intOf(ctx, c, sqlLedgerTable); err != nil || n == 0 {
		return 0, err
	}
	applied, err := textsOf(ctx, c, "read schema steps", sqlLedgerSteps, string(l))
	if err != nil {
		return 0, err
	}
	if len(applied) > len(steps) {
		return len(applied), fmt.Errorf("ledger %s is at %d, this program knows %d: %w", l, len(applied), len(steps), store.ErrSchemaNewer)
	}
	for i, sum := range applied {
		if steps[i].digest() != sum {
			return 0, fmt.Errorf("ledger %s, step %d is not the one this program knows: %w", l, i+1, store.ErrCorrupt)
		}
	}
	return len(applied), nil
}

// textsOf lists the texts that a query of one column finds.
func textsOf(ctx context.Context, c *sql.Conn, what, query string, args ...any) ([]string, error) {
	rows, err := c.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, driverError(what, err)
	}
	defer func() { _ = rows.Close() }()
	var out []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, driverError(what, err)
		}
		out = append(out, text)
	}
	return out, driverError(what, rows.Err())
}

// checkLedgers refuses a file whose ledgers are behind those that the opener
// needs. Opening never applies one.
func checkLedgers(ctx context.Context, c *sql.Conn, need []Ledger) error {
	for _, l := range need {
		if l == Rooms {
			continue // prepareSchema has seen to it
		}
		steps, err := l.steps()
		if err != nil {
			return err
		}
		v, err := ledgerVersion(ctx, c, l, steps)
		if err != nil {
			return err
		}
		if v < len(steps) {
			return fmt.Errorf("ledger %s is at %d, this program needs %d (sqlite.Migrate applies it): %w", l, v, len(steps), store.ErrSchemaOlder)
		}
	}
	return nil
}

// withConn runs f on a connection of its own to the file at path, made when
// absent and told to.
func withConn(ctx context.Context, path string, create bool, f func(c *sql.Conn) error) (err error) {
	opts := Options{Create: create}.withDefaults()
	if _, err := prepareFile(path, opts); err != nil {
		return err
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("path: %w", err)
	}
	s := newStore(abs, opts, 0)
	db, err := sql.Open("sqlite", s.dsn(false))
	if err != nil {
		return driverError("open", err)
	}
	defer func() { err = errors.Join(err, driverError("close", db.Close())) }()
	c, err := db.Conn(ctx)
	if err != nil {
		return driverError("open", err)
	}
	defer func() { err = errors.Join(err, driverError("close", c.Close())) }()
	return f(c)
}

// inTransaction runs f in one immediate transaction.
func inTransaction(ctx context.Context, c *sql.Conn, what string, f func() error) error {
	if _, err := c.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return driverError("begin "+what, err)
	}
	err := f()
	if err == nil {
		_, err = c.ExecContext(ctx, "COMMIT")
		err = driverError("commit "+what, err)
	}
	if err == nil {
		return nil
	}
	_, rollback := c.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
	if rollback = driverError("roll back "+what, rollback); isNoTransaction(rollback) {
		rollback = nil
	}
	return errors.Join(err, rollback)
}

// State reads how far the ledgers of the file at path are. It changes nothing.
// Errors: store.ErrNotFound, ErrSchemaNewer, ErrCorrupt.
func State(ctx context.Context, path string) ([]LedgerState, error) {
	var out []LedgerState
	err := withConn(ctx, path, false, func(c *sql.Conn) (err error) {
		out, err = statesOf(ctx, c)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("ledgers of store %s: %w", path, err)
	}
	return out, nil
}

func statesOf(ctx context.Context, c *sql.Conn) ([]LedgerState, error) {
	var out []LedgerState
	for _, l := range Ledgers() {
		steps, err := l.steps()
		if err != nil {
			return nil, err
		}
		v, err := ledgerVersion(ctx, c, l, steps)
		if err != nil {
			return nil, err
		}
		out = append(out, LedgerState{Ledger: l, Version: v, Newest: len(steps)})
	}
	return out, nil
}

// Migrate brings the named ledgers of the file at path to the newest version,
// each in one transaction; with none named, all of them. The file is made when
// absent. Before Rooms changes in a file that holds data, a copy is put beside
// it. Migrating again changes nothing. Errors: store.ErrInvalid (a ledger is
// unknown, or what it stands on is missing), ErrSchemaNewer, ErrCorrupt.
func Migrate(ctx context.Context, path string, ledgers ...Ledger) ([]LedgerState, error) {
	if len(ledgers) == 0 {
		ledgers = Ledgers()
	}
	for _, l := range ledgers {
		if _, err := l.steps(); err != nil {
			return nil, fmt.Errorf("migrate store %s: %w", path, err)
		}
	}
	err := withConn(ctx, path, true, func(c *sql.Conn) error {
		if _, err := c.ExecContext(ctx, "PRAGMA journal_mode = WAL"); err != nil {
			return driverError("switch to WAL", err)
		}
		for _, l := range Ledgers() {
			if !slices.Contains(ledgers, l) {
				continue
			}
			if err := migrateLedger(ctx, c, path, l); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("migrate store %s: %w", path, err)
	}
	return State(ctx, path)
}

func migrateLedger(ctx context.Context, c *sql.Conn, path string, l Ledger) error {
	steps, err := l.steps()
	if err != nil {
		return err
	}
	if l == Rooms {
		_, err := migrate(ctx, c, path, steps)
		return err
	}
	return inTransaction(ctx, c, "migration of "+string(l), func() error {
		rooms, err := Rooms.steps()
		if err != nil {
			return err
		}
		if v, err := ledgerVersion(ctx, c, Rooms, rooms); err != nil || v == 0 {
			return errors.Join(err, fmt.Errorf("ledger %s stands on %s, which is not applied: %w", l, Rooms, store.ErrInvalid))
		}
		v, err := ledgerVersion(ctx, c, l, steps)
		if err != nil {
			return err
		}
		if _, err := c.ExecContext(ctx, sqlMakeLedgers); err != nil {
			return driverError("start ledgers", err)
		}
		for ; v < len(steps); v++ {
			if _, err := c.ExecContext(ctx, steps[v].text); err != nil {
				return driverError("ledger step "+steps[v].name, err)
			}
			if _, err := c.ExecContext(ctx, sqlInsertLedgerStep, string(l), v+1, steps[v].name, steps[v].digest()); err != nil {
				return driverError("record ledger step "+steps[v].name, err)
			}
		}
		return nil
	})
}

func readSteps(files fs.FS, dir string) ([]migration, error) {
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	var out []migration
	for _, e := range entries {
		b, err := fs.ReadFile(files, dir+"/"+e.Name())
		if err != nil {
			return nil, fmt.Errorf("read migration: %w", err)
		}
		out = append(out, migration{name: e.Name(), text: string(b)})
	}
	return out, nil
}
