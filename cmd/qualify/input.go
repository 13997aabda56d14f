package main

import (
	"errors"
	"io/fs"
	"os"
)

// openInput opens a file that the user named. Whatever is wrong with it is
// bad input: missing, a directory, empty, unreadable.
func openInput(path string) (*os.File, error) {
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, usagef("%s: no such file", path)
	case err != nil:
		return nil, usagef("%w", err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
		err = usagef("%w", err)
	case info.IsDir():
		err = usagef("%s: is a directory; name a file", path)
	case info.Mode().IsRegular() && info.Size() == 0:
		err = usagef("%s: the file is empty", path)
	default:
		return f, nil
	}
	return nil, errors.Join(err, f.Close())
}
