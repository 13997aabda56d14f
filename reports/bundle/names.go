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

// names holds the paths of a bundle to the rules of the package comment: each
// can be unpacked everywhere, and they come in byte order.
type names struct {
	last    string            // the path before
	spelled map[string]string // by key: a path, or a folder with a slash behind it
	fold    cases.Caser
}

// newNames knows the index: no part is called like it.
func newNames() *names {
	return &names{spelled: map[string]string{IndexName: IndexName}, fold: cases.Fold()}
}

// add takes the next path or says what is wrong with it.
func (n *names) add(name string) error {
	if err := checkPath(name); err != nil {
		return err
	}
	switch {
	case name == IndexName:
		return fmt.Errorf("the index is no part of its own")
	case name == n.last:
		return fmt.Errorf("it is there twice")
	case name < n.last:
		return fmt.Errorf("it comes after %q; parts go in byte order of their paths", n.last)
	}
	for i, c := range name {
		if c == '/' {
			if err := n.take(name[:i+1]); err != nil {
				return err
			}
		}
	}
	if err := n.take(name); err != nil {
		return err
	}
	n.last = name
	return nil
}

// take notes a path, or a folder with a slash behind it.
func (n *names) take(name string) error {
	clean := strings.TrimSuffix(name, "/")
	key := n.key(clean)
	other, ok := n.spelled[key]
	switch {
	case !ok:
		n.spelled[key] = name
		return nil
	case other == name: // a folder again: paths are in order and so come once
		return nil
	case strings.TrimSuffix(other, "/") == clean:
		return fmt.Errorf("%q is a part and a folder", clean)
	}
	return fmt.Errorf("on some systems %q is the same as %q; rename one", clean, strings.TrimSuffix(other, "/"))
}

// key is equal for names that differ in case or Unicode form only.
func (n *names) key(name string) string {
	for i := range len(name) {
		if name[i] >= utf8.RuneSelf {
			return norm.NFC.String(n.fold.String(norm.NFD.String(name)))
		}
	}
	return strings.ToLower(name)
}

// checkPath refuses a path that cannot be unpacked everywhere.
func checkPath(name string) error {
	if err := module.CheckFilePath(name); err != nil {
		if bad := (*module.InvalidPathError)(nil); errors.As(err, &bad) {
			err = bad.Err
		}
		return fmt.Errorf("it cannot be unpacked everywhere: %w", err)
	}
	for elem := range strings.SplitSeq(name, "/") {
		if strings.HasSuffix(elem, " ") {
			return fmt.Errorf("it cannot be unpacked everywhere: %q ends in a space", elem)
		}
	}
	return nil
}
