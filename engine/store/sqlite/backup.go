package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/agentrooms/qualify/engine/store"
)

// CopyTo writes a consistent copy of the store to a new file at target: one
// state, while this and other processes write on. The copy is checked page by
// page and flushed to the disk before it gets its name, so what is at target is
// a whole store or nothing. ErrExists when something is there already: nothing
// is ever overwritten.
func (s *Store) CopyTo(ctx context.Context, target string) error {
	if err := s.copyTo(ctx, target, func(_ string, f func() error) error { return f() }); err != nil {
		return fmt.Errorf("copy store to %s: %w", target, err)
	}
	return nil
}

// copyTo makes the copy in steps, each by way of do, so that tests can let each
// fail before or after it is done.
func (s *Store) copyTo(ctx context.Context, target string, do func(step string, f func() error) error) error {
	if _, err := os.Lstat(target); err == nil {
		return store.ErrExists
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return aside(target, func(temp *os.File) error {
		name := temp.Name()
		for _, step := range []struct {
			name string
			f    func() error
		}{
			{"close", temp.Close},
			{"copy", func() error { return s.vacuumInto(ctx, name) }},
			{"check", func() error { return checkCopy(ctx, name) }},
			{"permissions", func() error { return likeFile(name, s.path) }}, // which may be those of a file that nobody writes
			{"flush", func() error { return flush(name) }},
			{"place", func() error { return place(name, target) }},
			{"flush names", func() error { return flushNames(filepath.Dir(target)) }},
		} {
			if err := do(step.name, step.f); err != nil {
				return err
			}
		}
		return nil
	})
}

// likeFile gives a file the permissions of another.
func likeFile(path, other string) error {
	like, err := os.Stat(other)
	if err != nil {
		return err
	}
	return os.Chmod(path, like.Mode().Perm())
}

// vacuumInto runs on a connection of its own: the writer's is busy writing, and
// those of the readers may not write anywhere.
func (s *Store) vacuumInto(ctx context.Context, path string) error {
	db, err := sql.Open("sqlite", s.dsn(false))
	if err != nil {
		return driverError("open", err)
	}
	_, err = db.ExecContext(ctx, "VACUUM INTO ?", path)
	return errors.Join(driverError("copy", err), driverError("close", db.Close()))
}

// checkCopy opens the copy as any reader would and reads all of it.
func checkCopy(ctx context.Context, path string) error {
	c, err := Open(ctx, path, Options{ReadOnly: true})
	if err != nil {
		return fmt.Errorf("the copy is no sound store: %w", err)
	}
	err = c.Check(ctx)
	return errors.Join(err, c.Close())
}

// place gives the finished file its name unless something has it. Where the
// file system has no hard links the name is claimed first.
func place(temp, target string) error {
	err := os.Link(temp, target)
	switch {
	case err == nil:
		return nil // the caller removes the other name
	case errors.Is(err, fs.ErrExist):
		return store.ErrExists
	}
	claim, err := os.OpenFile(target, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return store.ErrExists
	}
	if err != nil {
		return err
	}
	if err := claim.Close(); err != nil {
		return err
	}
	return os.Rename(temp, target)
}

// flush writes a file, or the names in a folder, through to the disk.
func flush(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// flushNames writes the names in a folder through to the disk, where the system
// can.
func flushNames(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // no folder can be flushed there
	}
	return flush(dir)
}
