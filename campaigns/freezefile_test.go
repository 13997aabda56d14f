package campaigns

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/freeze"
)

// What a campaign file may name is what package freeze takes: the two tell it
// by rules of their own.
func TestQ4_PathsOfAFreezeAreThoseOfPackageFreeze(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	rapid.Check(t, func(r *rapid.T) {
		name := rapid.StringOfN(rapid.RuneFrom([]rune(`ab./[]*?\-^`)), 0, 6, -1).Draw(r, "name")
		for _, f := range []FreezeFile{{Include: []string{name}}, {Include: []string{"a"}, Exclude: []string{name}}} {
			c := &fileChecker{src: new(corpus.Source)}
			(&File{Freeze: f}).checkFreeze(c)
			_, err := freeze.HashTrees(t.Context(), dir, freeze.HashOptions{Include: f.Include, Exclude: f.Exclude})
			theirs := errors.Is(err, freeze.ErrPaths) && strings.Contains(err.Error(), fmt.Sprintf("%q", name))
			if ours := len(c.src.Errors) > 0; ours != theirs {
				r.Fatalf("%+v: refused %t, by freeze %t (%v)", f, ours, theirs, err)
			}
		}
	})
}
