package bundle

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/mod/module"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// maxDepth is how many elements a path may have. It bounds what a bundle made to
// exhaust memory can cost: each element of a path is remembered.
const maxDepth = 16

// names holds the paths of a bundle to the rules of the package comment: each
// can be unpacked everywhere, and they come in byte order.
type names struct {
	last string // the path before
	seen map[place]spelling
	fold cases.Caser
}

// place is an element in a folder, by what is equal on some systems.
type place struct {
	folder int // 0 is the top
	key    string
}

// spelling is how the first path had it.
type spelling struct {
	elem   string
	folder int // its number as a folder; 0 is a part
}

// newNames knows the index: no part is called like it.
func newNames() *names {
	return &names{seen: map[place]spelling{{key: IndexName}: {elem: IndexName}}, fold: cases.Fold()}
}

// add takes the next path or says what is wrong with it.
func (n *names) add(name string) error {
	if err := checkPath(name); err != nil {
		return err
	}
	switch {
	case name == IndexName:
		return errors.New("the index is no part of its own")
	case name == n.last:
		return errors.New("it is there twice")
	case name < n.last:
		return fmt.Errorf("it comes after %q; parts go in byte order of their paths", n.last)
	}
	n.last = name
	folder := 0
	for from, more := 0, true; more; {
		var elem string
		elem, _, more = strings.Cut(name[from:], "/")
		at := place{folder, n.key(elem)}
		was, ok := n.seen[at]
		switch {
		case !ok:
			was.elem = elem
			if more {
				was.folder = len(n.seen) + 1
			}
			n.seen[at] = was
		case was.elem != elem:
			return fmt.Errorf("on some systems %q is the same as %q; rename one", name[:from]+elem, name[:from]+was.elem)
		case !more || was.folder == 0:
			return fmt.Errorf("%q is a part and a folder", name[:from]+elem)
		}
		folder = was.folder
		from += len(elem) + 1
	}
	return nil
}

// key is equal for elements that differ in case or Unicode form only.
func (n *names) key(elem string) string {
	for i := range len(elem) {
		if elem[i] >= utf8.RuneSelf {
			return norm.NFC.String(n.fold.String(norm.NFD.String(elem)))
		}
	}
	return strings.ToLower(elem)
}

// checkPath refuses a path that cannot be unpacked everywhere.
func checkPath(name string) error {
	if err := module.CheckFilePath(name); err != nil {
		if bad := (*module.InvalidPathError)(nil); errors.As(err, &bad) {
			err = bad.Err
		}
		return fmt.Errorf("it cannot be unpacked everywhere: %w", err)
	}
	if strings.Count(name, "/") >= maxDepth {
		return fmt.Errorf("it has more than %d elements", maxDepth)
	}
	for elem := range strings.SplitSeq(name, "/") {
		if strings.HasSuffix(elem, " ") {
			return fmt.Errorf("it cannot be unpacked everywhere: %q ends in a space", elem)
		}
	}
	return nil
}
