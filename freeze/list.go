package freeze

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// node is one file or link of a listing.
type node struct {
	folder string // relative to the root, "." for the root itself
	base   string
	stat   stat
	file   File // name and kind from the listing, digests from hash
}

// listing is every file that the included paths cover at one moment.
type listing struct {
	nodes   []node // sorted by folder within a tree until check sorts them by name
	folders map[string]bool
	trees   []span
}

// span is the part of the nodes that one included path covers.
type span struct {
	path     string
	from, to int
}

// alwaysOut are folders that hold no source and change by themselves.
var alwaysOut = map[string]bool{".git": true, ".qualify": true}

// list reads the names and file data of all included paths.
func list(ctx context.Context, root *os.Root, o HashOptions) (*listing, error) {
	include, err := cleanIncludes(o.Include)
	if err != nil {
		return nil, err
	}
	for _, p := range o.Exclude {
		if _, err := path.Match(p, ""); err != nil || p == "" {
			return nil, fmt.Errorf("%w: exclude %q: no pattern of file names", ErrPaths, p)
		}
	}
	l := &listing{folders: map[string]bool{}}
	var found faults
	for _, p := range include {
		from, faultsBefore := len(l.nodes), len(found.list)
		if err := l.walk(ctx, root, p, o, &found); err != nil {
			return nil, err
		}
		if len(l.nodes) == from && len(found.list) == faultsBefore {
			if o.Gone {
				continue
			}
			found.add(fmt.Errorf("%w: include %s: holds no file", ErrPaths, p))
		}
		slices.SortFunc(l.nodes[from:], func(a, b node) int { return cmp.Compare(a.file.Name, b.file.Name) })
		l.trees = append(l.trees, span{p, from, len(l.nodes)})
	}
	if err := found.err(); err != nil {
		return nil, err
	}
	return l, nil
}

// cleanIncludes checks and sorts the included paths.
func cleanIncludes(paths []string) ([]string, error) {
	if len(paths) == 0 {
		return nil, fmt.Errorf("%w: nothing to freeze: name files and folders with freeze.include of the campaign file or with --include", ErrPaths)
	}
	out := make([]string, 0, len(paths))
	for _, p := range paths {
		c := path.Clean(p)
		if p == "" || !fs.ValidPath(c) {
			return nil, fmt.Errorf("%w: include %q: no path inside the root; write it relative to the root, with slashes", ErrPaths, p)
		}
		out = append(out, c)
	}
	slices.Sort(out)
	for i, p := range out {
		for _, q := range out[i+1:] {
			if p == q || p == "." || strings.HasPrefix(q, p+"/") {
				return nil, fmt.Errorf("%w: include %s: is covered by include %s already; leave it out", ErrPaths, q, p)
			}
		}
	}
	return out, nil
}

// walk adds one included path.
func (l *listing) walk(ctx context.Context, root *os.Root, p string, o HashOptions, found *faults) error {
	for up := path.Dir(p); up != "."; up = path.Dir(up) {
		if info, err := root.Lstat(up); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			found.add(fmt.Errorf("include %s: %w: %s is a link; name the folder that it leads to", p, ErrUnfreezable, up))
			return nil
		}
	}
	info, err := root.Lstat(p)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		if !o.Gone {
			found.add(fmt.Errorf("include %s: %w; make it first, or leave it out", p, fs.ErrNotExist))
		}
		return nil
	case err != nil:
		found.add(fmt.Errorf("include %s: %w", p, plain(err)))
		return nil
	}
	if !info.IsDir() {
		dir, err := root.OpenRoot(path.Dir(p))
		if err != nil {
			found.add(unreadable(path.Dir(p), err))
			return nil
		}
		l.add(dir, path.Dir(p), path.Base(p), info, found)
		return dir.Close()
	}
	dir, err := root.OpenRoot(p)
	if err != nil {
		found.add(unreadable(p, err))
		return nil
	}
	return l.folder(ctx, dir, p, info, o.Exclude, found)
}

// folder adds what a folder holds, and closes it.
func (l *listing) folder(ctx context.Context, dir *os.Root, name string, listed fs.FileInfo, exclude []string, found *faults) (err error) {
	defer func() { err = errors.Join(err, dir.Close()) }()
	if err := ctx.Err(); err != nil {
		return err
	}
	f, err := dir.Open(".")
	if err != nil {
		found.add(unreadable(name, err))
		return nil
	}
	opened, err := f.Stat()
	if err == nil && !os.SameFile(listed, opened) {
		err = fmt.Errorf("%s: %w", name, ErrChanged)
	}
	var entries []string
	if err == nil {
		entries, err = f.Readdirnames(-1)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		found.add(unreadable(name, err))
		return nil
	}
	l.folders[name] = true
	for _, base := range entries {
		full := path.Join(name, base)
		if excluded(full, exclude) {
			continue
		}
		info, err := dir.Lstat(base)
		switch {
		case err != nil:
			found.add(vanished(full, err))
		case !info.IsDir():
			l.add(dir, name, base, info, found)
		case !alwaysOut[base]:
			sub, err := dir.OpenRoot(base)
			if err != nil {
				found.add(unreadable(full, err))
				continue
			}
			if err := l.folder(ctx, sub, full, info, exclude, found); err != nil {
				return err
			}
		}
	}
	return nil
}

// add adds one file or link.
func (l *listing) add(dir *os.Root, folder, base string, info fs.FileInfo, found *faults) {
	n := node{folder: folder, base: base, stat: statOf(info)}
	n.file = File{Name: path.Join(folder, base), Size: info.Size()}
	switch mode := info.Mode(); {
	case !utf8.ValidString(n.file.Name) || strings.ContainsAny(n.file.Name, "\n\r"):
		found.add(fmt.Errorf("%q: %w: its name is no valid UTF-8 on one line; rename it", n.file.Name, ErrUnfreezable))
		return
	case mode.IsRegular():
		n.file.Exec = mode.Perm()&0o111 != 0
	case mode&fs.ModeSymlink != 0:
		to, err := dir.Readlink(base)
		if err != nil {
			found.add(vanished(n.file.Name, err))
			return
		}
		n.file.Link, n.file.To, n.file.Size = true, to, int64(len(to))
	default:
		found.add(fmt.Errorf("%s: %w: it is neither file, folder nor link (%s); exclude it", n.file.Name, ErrUnfreezable, mode.Type()))
		return
	}
	l.nodes = append(l.nodes, n)
}

func excluded(name string, patterns []string) bool {
	for _, p := range patterns {
		of := name
		if !strings.Contains(p, "/") {
			of = path.Base(name)
		}
		if ok, err := path.Match(strings.Trim(p, "/"), of); err == nil && ok {
			return true
		}
	}
	return false
}

// check refuses names that some system would take for one, and links that lead
// to what is not covered.
func (l *listing) check() error {
	var found faults
	names := maps.Clone(l.folders)
	for i := range l.nodes {
		names[l.nodes[i].file.Name] = true
	}
	found.list = append(found.list, collisions(names)...)
	for i := range l.nodes {
		f := &l.nodes[i].file
		if !f.Link {
			continue
		}
		to := path.Join(l.nodes[i].folder, f.To)
		switch {
		case path.IsAbs(f.To) || !utf8.ValidString(f.To) || !fs.ValidPath(to):
			found.add(fmt.Errorf("%s: %w: it is a link to %q, outside of the root; exclude it or put the content there", f.Name, ErrUnfreezable, f.To))
		case !names[to]:
			found.add(fmt.Errorf("%s: %w: it is a link to %q, which the freeze does not cover; include the target or exclude the link", f.Name, ErrUnfreezable, f.To))
		}
	}
	return found.err()
}

// collisions finds paths that differ in case or Unicode form only.
func collisions(names map[string]bool) []error {
	fold := cases.Fold()
	first := make(map[string]string, len(names))
	var out []error
	for _, name := range slices.Sorted(maps.Keys(names)) {
		key := strings.ToLower(name)
		if !ascii(name) {
			key = norm.NFC.String(fold.String(norm.NFD.String(name)))
		}
		if other, ok := first[key]; ok {
			out = append(out, fmt.Errorf("%s: %w: on some systems it is the same file as %s; rename one", name, ErrUnfreezable, other))
			continue
		}
		first[key] = name
	}
	return out
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// same compares two listings of the same paths, taken before and after hashing.
func (l *listing) same(after *listing) error {
	var found faults
	now := make(map[string]*node, len(after.nodes))
	for i := range after.nodes {
		now[after.nodes[i].file.Name] = &after.nodes[i]
	}
	for i := range l.nodes {
		b := &l.nodes[i]
		a := now[b.file.Name]
		switch {
		case a == nil:
			found.add(fmt.Errorf("%s: vanished: %w", b.file.Name, ErrChanged))
		case a.stat != b.stat || a.file.To != b.file.To:
			found.add(fmt.Errorf("%s: %w", b.file.Name, ErrChanged))
		}
		delete(now, b.file.Name)
	}
	for name := range now {
		found.add(fmt.Errorf("%s: appeared: %w", name, ErrChanged))
	}
	return found.err()
}

// unreadable words the error of something that is there and cannot be read.
func unreadable(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return vanished(name, err)
	}
	return fmt.Errorf("%s: cannot be read: %w; a freeze covers every byte, so make it readable or exclude it", name, plain(err))
}

// vanished words the error of something that was listed and is gone.
func vanished(name string, err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		return unreadable(name, err)
	}
	return fmt.Errorf("%s: vanished: %w", name, ErrChanged)
}

// plain drops the path from a file error; the message names it already.
func plain(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
