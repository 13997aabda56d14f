package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"

	"github.com/agentrooms/qualify/engine/store"
)

const (
	sqlDeleteLedgerSteps = `DELETE FROM ledger_step WHERE ledger = ?`
	sqlViews             = `SELECT name FROM sqlite_schema WHERE type = 'view' ORDER BY name`
	sqlTables            = `SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\_%' ESCAPE '\' ORDER BY name`
	sqlLiveLeases        = `SELECT count(*) FROM lease WHERE token <> '' AND expires_us >= (` + sqlNow + `)`
	sqlCountCampaigns    = `SELECT count(*) FROM campaign`
)

// Confirmation is the text that Rollback demands before it destroys a ledger
// of the file at path: it names the application, the ledger, its version and
// the file with its whole path, so that what is typed for one store never destroys another.
// Errors as State; store.ErrInvalid when the ledger is not applied.
func Confirmation(ctx context.Context, path string, l Ledger) (string, error) {
	states, err := State(ctx, path)
	if err != nil {
		return "", err
	}
	for _, s := range states {
		if s.Ledger == l && s.Version > 0 {
			return confirmation(path, l, s.Version)
		}
	}
	return "", fmt.Errorf("store %s has no ledger %q: %w", path, l, store.ErrInvalid)
}

func confirmation(path string, l Ledger, version int) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("path: %w", err)
	}
	return fmt.Sprintf("destroy %08x/%s/%d in %s", applicationID, l, version, abs), nil
}

// Rollback takes a ledger of the file at path back to nothing, in one
// transaction. For Rooms this deletes every room, with all state, history,
// receipts and money of the planner. confirm must be the text of Confirmation.
//
// Errors, with nothing changed: store.ErrInvalid (another confirmation, a
// ledger that another one stands on, or a file that holds campaigns, which this
// is not for), ErrExists (a process has a room), ErrNotFound.
func Rollback(ctx context.Context, path string, l Ledger, confirm string) error {
	err := withConn(ctx, path, false, func(c *sql.Conn) error {
		return inTransaction(ctx, c, "rollback of "+string(l), func() error { return rollBack(ctx, c, path, l, confirm) })
	})
	if err != nil {
		return fmt.Errorf("roll store %s back: %w", path, err)
	}
	return nil
}

func rollBack(ctx context.Context, c *sql.Conn, path string, l Ledger, confirm string) error {
	states, err := statesOf(ctx, c)
	if err != nil {
		return err
	}
	at := map[Ledger]int{}
	for _, s := range states {
		at[s.Ledger] = s.Version
	}
	words, err := confirmation(path, l, at[l])
	switch {
	case err != nil:
		return err
	case at[l] == 0:
		return fmt.Errorf("ledger %q is not applied: %w", l, store.ErrInvalid)
	case confirm != words:
		return fmt.Errorf("this destroys ledger %s for ever; confirm with %q: %w", l, words, store.ErrInvalid)
	case l == Rooms && at[Calls] > 0:
		return fmt.Errorf("ledger %s stands on %s; roll it back first: %w", Calls, Rooms, store.ErrInvalid)
	}
	if l == Rooms {
		return dropRooms(ctx, c)
	}
	if err := dropAll(ctx, c, "VIEW", sqlViews); err != nil {
		return err
	}
	_, err = c.ExecContext(ctx, sqlDeleteLedgerSteps, string(l))
	return driverError("record the rollback", err)
}

func dropRooms(ctx context.Context, c *sql.Conn) error {
	live, err := intOf(ctx, c, sqlLiveLeases)
	if err != nil {
		return err
	}
	if live > 0 {
		return fmt.Errorf("%d leases are live: a process is at work on this store: %w", live, store.ErrExists)
	}
	campaigns, err := intOf(ctx, c, sqlCountCampaigns)
	if err != nil {
		return err
	}
	if campaigns > 0 {
		return fmt.Errorf("the store holds %d campaigns; nothing is destroyed: %w", campaigns, store.ErrInvalid)
	}
	if _, err := c.ExecContext(ctx, "PRAGMA defer_foreign_keys = 1"); err != nil {
		return driverError("defer foreign keys", err)
	}
	if err := dropAll(ctx, c, "TABLE", sqlTables); err != nil {
		return err
	}
	_, err = c.ExecContext(ctx, "PRAGMA user_version = 0")
	return driverError("set schema version", err)
}

// dropAll drops everything of a kind that the query names.
func dropAll(ctx context.Context, c *sql.Conn, kind, query string) error {
	names, err := textsOf(ctx, c, "list what is to be dropped", query)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := c.ExecContext(ctx, fmt.Sprintf("DROP %s %q", kind, name)); err != nil {
			return driverError("drop "+name, err)
		}
	}
	return nil
}
