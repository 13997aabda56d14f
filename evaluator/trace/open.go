package trace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Faults of a file that a user named, before anything of it is read.
var (
	errNoName    = errors.New("the file name is empty")
	errFolder    = errors.New("is a directory; name a file")
	errNoFile    = errors.New("is no regular file but a pipe, a socket or a device; name a file")
	errEmptyFile = errors.New("the file is empty")
)

// missingError is fs.ErrNotExist in plain words.
type missingError struct{}

func (missingError) Error() string        { return "no such file" }
func (missingError) Is(target error) bool { return target == fs.ErrNotExist }

// Open opens a regular file of at least one byte for reading. Anything else is
// refused before it is opened, so that a pipe without a writer or an endless
// device never blocks the caller. Errors leave the path out.
func Open(path string) (*os.File, error) {
	if path == "" {
		return nil, errNoName
	}
	info, err := os.Stat(path)
	if err == nil {
		err = regular(info)
	}
	if err != nil {
		return nil, plainPathError(err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, plainPathError(err)
	}
	if info, err = f.Stat(); err == nil {
		err = regular(info) // the name may stand for another file by now
	}
	if err != nil {
		return nil, errors.Join(plainPathError(err), f.Close())
	}
	return f, nil
}

// ReadFile reads a file that Open accepts.
func ReadFile(path string) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(f)
	if err = errors.Join(plainPathError(err), f.Close()); err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	return data, nil
}

func regular(info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return errFolder
	case !info.Mode().IsRegular():
		return errNoFile
	case info.Size() == 0: // a file of /proc, too, whose content may never end
		return errEmptyFile
	}
	return nil
}

// plainPathError drops the path, which the caller states.
func plainPathError(err error) error {
	var pe *fs.PathError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return missingError{}
	case errors.As(err, &pe):
		return pe.Err
	}
	return err
}
