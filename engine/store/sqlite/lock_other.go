//go:build !unix

package sqlite

import (
	"errors"
	"os"
)

// tryLock is errors.ErrUnsupported: this version knows no lock between processes
// here, so it never takes what another process left for stale.
func tryLock(*os.File) (bool, error) { return false, errors.ErrUnsupported }
