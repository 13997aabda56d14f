package corpus

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Reserved folder names of a corpus tree; they are never families.
var reserved = []string{"gold", "world", "lint"}

// Reserved reports whether a folder name can never be a family.
func Reserved(name string) bool { return slices.Contains(reserved, name) }

// Corpus is a set of checked cases, sorted by family and id.
type Corpus struct {
	Cases []*Case
}

// Case returns the case with an id.
func (c *Corpus) Case(id string) (*Case, bool) {
	for _, k := range c.Cases {
		if k.ID == id {
			return k, true
		}
	}
	return nil, false
}

// Load reads every <family>/<case>.yaml of a tree. Reserved folders, files at
// the top and folders without YAML files are passed over; a file that is not
// YAML in a family folder is a fault, so that a misnamed case is not silently
// left out.
//
// The error is an Errors with every fault of every file, or an error of fsys.
func Load(fsys fs.FS) (*Corpus, error) {
	files, errs, err := CaseFiles(fsys)
	if err != nil {
		return nil, err
	}
	out := &Corpus{}
	type place struct {
		file string
		line int
	}
	first := map[string]place{}
	for _, f := range files {
		data, err := fs.ReadFile(fsys, f)
		if err != nil {
			return nil, fmt.Errorf("read case %s: %w", f, err)
		}
		c, src := parse(f, data)
		if c != nil && c.ID != "" {
			line := src.Line("id")
			if p, ok := first[c.ID]; ok {
				src.Addf(line, "case id %q is already used at %s:%d", c.ID, p.file, p.line)
			} else {
				first[c.ID] = place{f, line}
			}
		}
		errs = append(errs, src.Errors...)
		out.Cases = append(out.Cases, c)
	}
	if len(files) == 0 && len(errs) == 0 {
		errs = append(errs, &FileError{File: ".", Text: "no case found: a corpus is a tree <family>/<case>.yaml"})
	}
	if err := errs.Err(); err != nil {
		return nil, err
	}
	slices.SortFunc(out.Cases, func(a, b *Case) int {
		if n := strings.Compare(a.Family, b.Family); n != 0 {
			return n
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out, nil
}

// Parse reads one case from the file <family>/<case>.yaml. The error is an
// Errors.
func Parse(file string, data []byte) (*Case, error) {
	c, src := parse(file, data)
	if err := src.Errors.Err(); err != nil {
		return nil, err
	}
	return c, nil
}

func parse(file string, data []byte) (*Case, *Source) {
	c := &Case{file: file}
	src := DecodeYAML(file, data, c)
	if len(src.Errors) == 0 {
		check(c, src)
	}
	return c, src
}

// CaseFiles lists the case files of a corpus tree, those that Load reads, as
// YAMLFiles does.
func CaseFiles(fsys fs.FS) ([]string, Errors, error) { return YAMLFiles(fsys, reserved) }

// YAMLFiles lists the files <folder>/<name>.yaml of a tree in order, without
// those below the folders in skip, and a fault for every other file in such a
// folder (Go sources excepted).
func YAMLFiles(fsys fs.FS, skip []string) ([]string, Errors, error) {
	var files []string
	var errs Errors
	dirs, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, nil, fmt.Errorf("read corpus: %w", err)
	}
	for _, d := range dirs {
		if !d.IsDir() || slices.Contains(skip, d.Name()) || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" {
			continue
		}
		entries, err := fs.ReadDir(fsys, d.Name())
		if err != nil {
			return nil, nil, fmt.Errorf("read family %s: %w", d.Name(), err)
		}
		for _, e := range entries {
			p := path.Join(d.Name(), e.Name())
			switch {
			case !e.IsDir() && path.Ext(p) == ".yaml":
				if info, err := fs.Stat(fsys, p); err != nil {
					return nil, nil, fmt.Errorf("look at %s: %w", p, err)
				} else if !info.Mode().IsRegular() {
					errs = append(errs, &FileError{File: p, Text: "is no regular file"}) // a pipe or device could block for ever
					continue
				}
				files = append(files, p)
			case path.Ext(p) == ".go" || strings.HasPrefix(e.Name(), "."):
			default:
				errs = append(errs, &FileError{File: p, Text: "a family folder holds <case>.yaml files only"})
			}
		}
	}
	return files, errs, nil
}
