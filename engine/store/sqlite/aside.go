package sqlite

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Names beside the target of a copy: .TARGET.RANDOM.part is the copy until it is
// whole, and .TARGET.RANDOM.lock is locked as long as the process that makes it
// lives.
const (
	partSuffix = ".part"
	lockSuffix = ".lock"
)

// aside gives f a new, empty file in the folder of path, whose name nobody takes
// for a store's. What f leaves under that name is removed. A process that is
// killed leaves it; the next one with the same path removes it, on systems where
// a lock tells that the first runs no more.
func aside(path string, f func(temp *os.File) error) (err error) {
	sweep(path)
	claim, err := claimAside(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removed(claim.Name()), claim.Close()) }()
	temp, err := os.OpenFile(strings.TrimSuffix(claim.Name(), lockSuffix)+partSuffix, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, removed(temp.Name())) }()
	return f(temp)
}

// claimAside makes a lock file for one copy and locks it, where the system can.
func claimAside(path string) (*os.File, error) {
	for {
		claim, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*"+lockSuffix)
		if err != nil {
			return nil, err
		}
		locked, err := tryLock(claim)
		if errors.Is(err, errors.ErrUnsupported) {
			return claim, nil
		}
		if locked && err == nil && stillNamed(claim) {
			return claim, nil
		}
		// Another process swept it away between its making and its lock.
		if err = errors.Join(err, claim.Close()); err != nil {
			return nil, err
		}
	}
}

// stillNamed reports whether an open file still has its name.
func stillNamed(f *os.File) bool {
	own, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(f.Name())
	return err == nil && os.SameFile(own, there)
}

// sweep removes what killed processes left of copies to path. Whatever it cannot
// prove to be such, or cannot remove, stays: it is in nobody's way.
func sweep(path string) {
	dir, prefix := filepath.Dir(path), "."+filepath.Base(path)+"."
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		random, ok := strings.CutPrefix(e.Name(), prefix)
		random, isLock := strings.CutSuffix(random, lockSuffix)
		if !ok || !isLock || random == "" || strings.Trim(random, "0123456789") != "" || !e.Type().IsRegular() {
			continue
		}
		sweepOne(filepath.Join(dir, prefix+random))
	}
}

// sweepOne removes one copy under way whose maker runs no more.
func sweepOne(name string) {
	claim, err := os.OpenFile(name+lockSuffix, os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer claim.Close() //nolint:errcheck // nothing was written
	if locked, err := tryLock(claim); !locked || err != nil {
		return
	}
	for _, more := range []string{"-journal", "-wal", "-shm", ""} { // of SQLite, while it copies and checks
		if removed(name+partSuffix+more) != nil {
			return
		}
	}
	_ = removed(claim.Name()) // last: without it nothing else would be found
}

// removed removes a file; one that is not there is no error.
func removed(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
