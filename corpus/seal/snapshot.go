package seal

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"golang.org/x/tools/txtar"

	"github.com/agentrooms/qualify/corpus"
)

// Snapshot reads the files of cases and gold of a corpus folder into memory, so
// that what is audited is what is sealed whatever happens to the folder
// meanwhile. What the loaders pass over is left out.
//
// Errors: corpus.Errors for files that have no place in a corpus, symbolic links
// among them; errors of fsys. A corpus without gold is one without the folder
// gold in the snapshot.
func Snapshot(fsys fs.FS) (fs.FS, error) {
	faults, err := linksIn(fsys)
	if err != nil {
		return nil, err
	}
	paths, more, err := corpus.CaseFiles(fsys)
	if err != nil {
		return nil, err
	}
	faults = append(faults, more...)
	golds, more, err := goldFiles(fsys)
	if err != nil {
		return nil, err
	}
	faults = append(faults, more...)
	paths = append(paths, golds...)
	slices.Sort(paths)
	var files []file
	for _, p := range paths {
		if !isCorpusPath(p) {
			faults = append(faults, &corpus.FileError{File: p, Text: "names of families and cases are at most 90 lower case letters, digits, - and _"})
			continue
		}
		data, err := fs.ReadFile(fsys, p)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", p, err)
		}
		files = append(files, file{p, data})
	}
	if err := faults.Err(); err != nil {
		return nil, err
	}
	return memory(files)
}

func goldFiles(fsys fs.FS) ([]string, corpus.Errors, error) {
	if _, err := fs.Stat(fsys, goldFolder); errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	inner, err := fs.Sub(fsys, goldFolder)
	if err != nil {
		return nil, nil, fmt.Errorf("gold folder: %w", err)
	}
	names, faults, err := corpus.YAMLFiles(inner, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("gold: %w", err)
	}
	for i := range names {
		names[i] = path.Join(goldFolder, names[i])
	}
	for _, f := range faults {
		f.File = path.Join(goldFolder, f.File)
	}
	return names, faults, nil
}

// linksIn finds the symbolic links where cases and gold lie. The loaders read a
// link to a file and pass over one to a folder; a sealed corpus holds neither, so
// that it never takes in what lies outside of its folder.
func linksIn(fsys fs.FS) (corpus.Errors, error) {
	var out corpus.Errors
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("read corpus: %w", err)
		}
		hidden := p != "." && strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"
		switch {
		case hidden && d.IsDir():
			return fs.SkipDir
		case hidden:
			return nil
		case d.IsDir() && corpus.Reserved(p) && p != goldFolder:
			return fs.SkipDir
		case d.Type()&fs.ModeSymlink != 0:
			out = append(out, &corpus.FileError{File: p, Text: "is a symbolic link; put the file itself there"})
		}
		return nil
	})
	return out, err
}

// file is one file of a corpus in memory.
type file struct {
	path string
	data []byte
}

// memory is a file system of files in memory.
func memory(files []file) (fs.FS, error) {
	a := new(txtar.Archive)
	for _, f := range files {
		a.Files = append(a.Files, txtar.File{Name: f.path, Data: f.data})
	}
	fsys, err := txtar.FS(a)
	if err != nil {
		return nil, fmt.Errorf("files of the corpus: %w", err)
	}
	return fsys, nil
}

// filesOf lists the files of a snapshot by path.
func filesOf(fsys fs.FS) ([]file, error) {
	var out []file
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(fsys, p)
		out = append(out, file{p, data})
		return err
	})
	slices.SortFunc(out, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return out, err
}
