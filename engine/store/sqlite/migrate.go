package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

// applicationID marks the file as a store of qualify ("QLFY").
const applicationID = 0x514c4659

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migration is one step of the schema. Steps are append-only: a step that a
// file has applied must still have the digest it had then.
type migration struct {
	name, text string
}

func (m migration) digest() string { return engine.Digest([]byte(m.text)) }

func builtinMigrations() ([]migration, error) {
	return readSteps(migrationFiles, "migrations")
}

const (
	sqlUserVersion   = `PRAGMA user_version`
	sqlApplicationID = `PRAGMA application_id`
	sqlObjects       = `SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE 'sqlite\_%' ESCAPE '\'`
	sqlApplied       = `SELECT name, sha256 FROM schema_step ORDER BY version`
	sqlMakeSteps     = `CREATE TABLE schema_step (version INTEGER PRIMARY KEY, name TEXT NOT NULL, sha256 TEXT NOT NULL) STRICT`
	sqlInsertStep    = `INSERT INTO schema_step (version, name, sha256) VALUES (?, ?, ?)`
)

func intOf(ctx context.Context, c *sql.Conn, query string) (int, error) {
	var n int
	err := c.QueryRowContext(ctx, query).Scan(&n)
	return n, driverError(query, err)
}

// version reads the schema version and refuses files that this program must
// not touch: of another application, changed steps, or newer.
func version(ctx context.Context, c *sql.Conn, steps []migration) (int, error) {
	v, err := intOf(ctx, c, sqlUserVersion)
	if err != nil {
		return 0, err
	}
	objects, err := intOf(ctx, c, sqlObjects)
	if err != nil {
		return 0, err
	}
	if objects == 0 && v == 0 {
		return 0, nil
	}
	app, err := intOf(ctx, c, sqlApplicationID)
	if err != nil {
		return 0, err
	}
	if app != applicationID {
		return 0, fmt.Errorf("this SQLite file belongs to another application: %w", store.ErrCorrupt)
	}
	if v > len(steps) {
		return v, fmt.Errorf("schema %d, this program knows %d: %w", v, len(steps), store.ErrSchemaNewer)
	}
	return v, checkSteps(ctx, c, v, steps)
}

func checkSteps(ctx context.Context, c *sql.Conn, v int, steps []migration) error {
	rows, err := c.QueryContext(ctx, sqlApplied)
	if err != nil {
		return driverError("read schema steps", err)
	}
	defer func() { _ = rows.Close() }()
	n := 0
	for rows.Next() {
		var name, sum string
		if err := rows.Scan(&name, &sum); err != nil {
			return driverError("read schema steps", err)
		}
		if n >= v || steps[n].digest() != sum {
			return fmt.Errorf("schema step %d (%s) is not the one this program knows: %w", n+1, name, store.ErrCorrupt)
		}
		n++
	}
	if err := rows.Err(); err != nil {
		return driverError("read schema steps", err)
	}
	if n != v {
		return fmt.Errorf("schema %d with %d recorded steps: %w", v, n, store.ErrCorrupt)
	}
	return nil
}

// migrate brings the file to the newest schema in one transaction. A file that
// holds data is copied first; the path of the copy is returned.
func migrate(ctx context.Context, c *sql.Conn, path string, steps []migration) (backup string, err error) {
	v, err := version(ctx, c, steps)
	if err != nil || v == len(steps) {
		return "", err
	}
	if v > 0 {
		if backup, err = backUp(ctx, c, path, v); err != nil {
			return "", err
		}
	}
	return backup, inTransaction(ctx, c, "migration", func() error { return applySteps(ctx, c, steps) })
}

// applySteps runs inside the transaction; another process may have migrated
// while this one waited for the lock.
func applySteps(ctx context.Context, c *sql.Conn, steps []migration) error {
	v, err := version(ctx, c, steps)
	if err != nil {
		return err
	}
	if v == 0 {
		for _, q := range []string{sqlMakeSteps, fmt.Sprintf("PRAGMA application_id = %d", applicationID)} {
			if _, err := c.ExecContext(ctx, q); err != nil {
				return driverError("start schema", err)
			}
		}
	}
	for ; v < len(steps); v++ {
		m := steps[v]
		if _, err := c.ExecContext(ctx, m.text); err != nil {
			return driverError("schema step "+m.name, err)
		}
		if _, err := c.ExecContext(ctx, sqlInsertStep, v+1, m.name, m.digest()); err != nil {
			return driverError("record schema step "+m.name, err)
		}
	}
	_, err = c.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", len(steps)))
	return driverError("set schema version", err)
}

// backUp writes a consistent copy beside the file, with the file's permissions.
// It gets its name once it is whole and flushed, so that a crash leaves nothing
// half that looks like a copy.
func backUp(ctx context.Context, c *sql.Conn, path string, v int) (target string, err error) {
	err = aside(path, func(temp *os.File) error {
		name := temp.Name()
		if err := temp.Close(); err != nil {
			return err
		}
		if _, err := c.ExecContext(ctx, "VACUUM INTO ?", name); err != nil {
			return driverError("copy", err)
		}
		if err := likeFile(name, path); err != nil {
			return err
		}
		if err := flush(name); err != nil {
			return err
		}
		for n := 1; ; n++ {
			target = fmt.Sprintf("%s.schema%d.%d.bak", path, v, n)
			if err := place(name, target); errors.Is(err, store.ErrExists) {
				continue
			} else if err != nil {
				return err
			}
			return flushNames(filepath.Dir(path))
		}
	})
	if err != nil {
		return "", fmt.Errorf("back up before migration: %w", err)
	}
	return target, nil
}
