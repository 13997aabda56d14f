package docs_test

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite requirements.md from the tests in the source")

const (
	module   = "github.com/agentrooms/qualify"
	repoRoot = ".."
)

// source is what the tests of this package read of the Go files of one folder.
type source struct {
	imports []string // packages of this module that non-test files import directly, from the module root, sorted
	code    bool     // has a non-test file
	tests   []string // top-level test functions, and the cases of a conformance suite that carry an id, sorted
}

// readSource parses every Go file of the module, whatever its build
// constraints, by folder from the module root ("." for the root itself).
// Reading in this process, rather than asking the go command, lets the test
// cache notice every change.
func readSource(t *testing.T) map[string]*source {
	t.Helper()
	all := map[string]*source{}
	err := filepath.WalkDir(repoRoot, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			if name != repoRoot && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") {
			return nil
		}
		rel, err := filepath.Rel(repoRoot, filepath.Dir(name))
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(rel)
		if all[dir] == nil {
			all[dir] = &source{}
		}
		return all[dir].add(name)
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		slices.Sort(s.imports)
		s.imports = slices.Compact(s.imports)
		slices.Sort(s.tests)
	}
	return all
}

func (s *source) add(name string) error {
	f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	if strings.HasSuffix(name, "_test.go") {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				s.tests = append(s.tests, fn.Name.Name)
			}
		}
		return nil
	}
	s.code = true
	for _, spec := range f.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		if p == "testing" {
			s.tests = append(s.tests, suiteCases(f)...)
		}
		if p == module {
			s.imports = append(s.imports, ".")
		} else if rel, ok := strings.CutPrefix(p, module+"/"); ok {
			s.imports = append(s.imports, path.Clean(rel))
		}
	}
	return nil
}

// suiteCases returns the cases of a conformance suite whose names carry a
// requirement id. A suite is code that imports testing, and each of its cases
// is a pair of name and function; every implementation runs them all as
// subtests of the name.
func suiteCases(f *ast.File) []string {
	var cases []string
	ast.Inspect(f, func(n ast.Node) bool {
		lit, ok := n.(*ast.CompositeLit)
		if !ok || len(lit.Elts) != 2 {
			return true
		}
		name, isText := lit.Elts[0].(*ast.BasicLit)
		if !isText || name.Kind != token.STRING {
			return true
		}
		switch lit.Elts[1].(type) {
		case *ast.Ident, *ast.FuncLit:
		default:
			return true
		}
		if text, err := strconv.Unquote(name.Value); err == nil && idsOf(text) != nil {
			cases = append(cases, text)
		}
		return true
	})
	return cases
}

// tableRows returns the cells of every row of the Markdown tables in text
// whose first cell is in backquotes or is a plain word, header and rule rows
// left out.
func tableRows(text string) [][]string {
	var rows [][]string
	header := true
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			header = true
			continue
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		switch {
		case strings.HasPrefix(cells[0], "---"):
			header = false
		case !header:
			rows = append(rows, cells)
		}
	}
	return rows
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
