package main

import (
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
