package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// writeFile replaces a file in one step: temporary file, flush, rename. Whatever
// fails, what was there before is there still, whole, and nothing else is left.
// Its permissions are those that the user's umask leaves.
func writeFile(path string, content []byte) error { return replaceFile(realDisk, path, content) }

// disk is what replaceFile does to a file system, each step apart, so that
// tests can let each fail.
type disk struct {
	create func(path string) (diskFile, error) // a new file in the folder of path
	rename func(from, to string) error
	remove func(path string) error
}

type diskFile interface {
	io.Writer
	Name() string
	Sync() error
	Close() error
}

var realDisk = disk{
	create: func(path string) (diskFile, error) { return createBeside(path) },
	rename: os.Rename,
	remove: os.Remove,
}

func replaceFile(d disk, path string, content []byte) error {
	tmp, err := d.create(path)
	if err != nil {
		return usagef("write %s: %w", path, err)
	}
	_, err = tmp.Write(content)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = d.rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), d.remove(tmp.Name()))
	}
	return nil
}

// createBeside makes a new file in the folder of path.
func createBeside(path string) (*os.File, error) {
	for n := 0; ; n++ {
		name := filepath.Join(filepath.Dir(path), fmt.Sprintf(".qualify-%d-%d", os.Getpid(), n))
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}
