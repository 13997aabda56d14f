package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// checkOutput refuses, before anything is computed, a file that could not be
// written, because its folder is missing or takes no files, or because it is no
// file; a link, which would be replaced and not followed; and a file whose
// content would be lost although it is needed: one that the command also reads,
// a file of the store, or a key of sealed corpora. Inputs may name folders, whose
// YAML files are guarded, and what is no file. It reports whether a file is there
// already. "" is stdout.
func (a *app) checkOutput(path string, inputs ...string) (exists bool, err error) {
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSymlink != 0 {
		return false, usagef("output %s: is a link; name the file that it leads to", path)
	}
	return a.checkAppended(path, inputs...)
}

// checkAppended is checkOutput for a file that is appended to, where a link is
// followed.
func (a *app) checkAppended(path string, inputs ...string) (exists bool, err error) {
	if path == "" {
		return false, nil
	}
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err != nil {
		return false, usagef("output %s: folder %s: %w", path, dir, cause(err))
	} else if !info.IsDir() {
		return false, usagef("output %s: %s is no folder", path, dir)
	}
	if a.isStoreFile(path) {
		return false, failf(exitRefused, "output %s: is a file of the store %s, and would be lost; name another file", path, a.storeURL)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		probe, err := createBeside(path)
		if err != nil {
			return false, usagef("output %s: no file can be made in folder %s: %w", path, dir, cause(err))
		}
		return false, errors.Join(probe.Close(), os.Remove(probe.Name()))
	case err != nil:
		return false, usagef("output %s: %w", path, cause(err))
	case !info.Mode().IsRegular():
		return false, usagef("output %s: is no regular file; name a file", path)
	}
	for _, in := range slices.Concat(inputs, a.corpusKeyFiles(), a.bundleFile()) {
		if reads(in, path, info) {
			return false, failf(exitRefused, "output %s: this command reads that file, and would replace it; name another file", path)
		}
	}
	return true, nil
}

// isStoreFile reports whether a path is the SQLite store of --store, or one of
// the files that SQLite keeps beside it, whether that is there at this moment or
// not. A URL that is wrong is for those to say who open the store.
func (a *app) isStoreFile(path string) bool {
	u, err := parseStoreURL(a.storeURL)
	return err == nil && !u.bundle && slices.ContainsFunc([]string{"", "-wal", "-shm", "-journal"}, func(end string) bool {
		return sameFile(path, u.path+end)
	})
}

// bundleFile is the bundle of --store, if it is one.
func (a *app) bundleFile() []string {
	if u, err := parseStoreURL(a.storeURL); err == nil && u.bundle {
		return []string{u.path}
	}
	return nil
}

// sameFile reports whether two paths name one file, or would once it is made.
func sameFile(a, b string) bool {
	have, errA := os.Stat(a)
	other, errB := os.Stat(b)
	if errA == nil && errB == nil {
		return os.SameFile(have, other)
	}
	if errA == nil || errB == nil || filepath.Base(a) != filepath.Base(b) {
		return false
	}
	dirA, errA := os.Stat(filepath.Dir(a))
	dirB, errB := os.Stat(filepath.Dir(b))
	return errA == nil && errB == nil && os.SameFile(dirA, dirB)
}

// reads reports whether an input is the file at path, or a folder with it among
// its YAML files.
func reads(input, path string, info os.FileInfo) bool {
	read, err := os.Stat(input)
	switch {
	case err != nil:
		return false
	case !read.IsDir():
		return os.SameFile(info, read)
	case !slices.Contains([]string{".yaml", ".yml"}, strings.ToLower(filepath.Ext(path))):
		return false
	}
	dir, err := filepath.Abs(filepath.Dir(path))
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	for err == nil {
		if at, err := os.Stat(dir); err == nil && os.SameFile(at, read) {
			return true
		}
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
	}
	return false
}
