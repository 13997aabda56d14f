package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestQ4_AHoldoutIsNeverVerifiedFromACache: digests are remembered by one command,
// freeze verify --incremental. Creating a freeze, and verifying one before, during
// and after a holdout, reads every byte. No run can show this: whoever has a cache
// finds the edits of a test too, by their times. So it is shown of the source.
func TestQ4_AHoldoutIsNeverVerifiedFromACache(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	uses := map[string]bool{} // "function: what it does with a cache"
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, e.Name(), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				cacheUses(f, uses)
			}
		}
	}
	want := []string{
		"freezeVerify: readCache", "freezeVerify: verifyPresent with a cache", "readCache: NewCache",
		"sealedRun: verifyPresent without", "verifyPresent: sets Cache",
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(uses))); diff != "" {
		t.Errorf("who uses a cache (-want +got):\n%s", diff)
	}
}

// cacheUses notes what a function does with a cache of digests.
func cacheUses(f *ast.FuncDecl, uses map[string]bool) {
	note := func(format string, args ...any) { uses[f.Name.Name+": "+fmt.Sprintf(format, args...)] = true }
	ast.Inspect(f, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.CallExpr:
			sel, ok := x.Fun.(*ast.SelectorExpr)
			id, plain := x.Fun.(*ast.Ident)
			switch {
			case ok && sel.Sel.Name == "NewCache", plain && id.Name == "readCache":
				name := "NewCache"
				if plain {
					name = id.Name
				}
				note("%s", name)
			case ok && sel.Sel.Name == "verifyPresent":
				last, isIdent := x.Args[len(x.Args)-1].(*ast.Ident)
				how := "with a cache"
				if isIdent && last.Name == "nil" {
					how = "without"
				}
				note("verifyPresent %s", how)
			}
		case *ast.AssignStmt:
			for _, to := range x.Lhs {
				if sel, ok := to.(*ast.SelectorExpr); ok && sel.Sel.Name == "Cache" {
					note("sets Cache")
				}
			}
		case *ast.KeyValueExpr:
			if id, ok := x.Key.(*ast.Ident); ok && id.Name == "Cache" {
				note("sets Cache")
			}
		}
		return true
	})
}
