package main

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/agentrooms/qualify/evaluator/trace"
)

// openInput opens a file that the user named. Whatever is wrong with it is
// bad input: missing, a directory, a pipe or device, empty, unreadable.
func openInput(path string) (*os.File, error) {
	f, err := trace.Open(path)
	if err != nil {
		return nil, usagef("%s: %w", nameOf(path), err)
	}
	return f, nil
}

// nameOf is a path as an error line shows it.
func nameOf(path string) string {
	if path == "" {
		return `""`
	}
	return path
}

// readAtMost reads a file that the user named, of at most so many bytes.
func readAtMost(path string, most int64) ([]byte, fs.FileMode, error) {
	f, err := openInput(path)
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	var data []byte
	if err == nil {
		data, err = io.ReadAll(io.LimitReader(f, most+1))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return nil, 0, usagef("%s: %w", path, cause(err))
	}
	if int64(len(data)) > most {
		return nil, 0, usagef("%s: is over %d bytes", path, most)
	}
	return data, info.Mode(), nil
}
