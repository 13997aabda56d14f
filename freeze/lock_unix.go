//go:build unix

package freeze

import (
	"errors"
	"os"
	"syscall"
)

// lock waits for the lock on an open file: shared for readers, alone for
// writers. Closing the file gives it back, a killed process too.
func lock(f *os.File, alone bool) error {
	how := syscall.LOCK_SH
	if alone {
		how = syscall.LOCK_EX
	}
	for {
		err := syscall.Flock(int(f.Fd()), how)
		if !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// syncFolder makes a new name in a folder safe on disk.
func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
