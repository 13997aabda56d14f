package docs_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// allowed is what a package may import of this module: exact packages, whole
// trees ("engine/..."), or anything.
type allowed struct {
	anything bool
	exact    []string
	trees    []string
}

func parseAllowed(cell string) (allowed, error) {
	var a allowed
	switch cell {
	case "anything":
		a.anything = true
		return a, nil
	case "nothing":
		return a, nil
	}
	for word := range strings.SplitSeq(cell, ",") {
		p := strings.Trim(strings.TrimSpace(word), "`")
		if tree, ok := strings.CutSuffix(p, "/..."); ok {
			a.trees = append(a.trees, tree)
		} else if p != "" && !strings.ContainsAny(p, " `") {
			a.exact = append(a.exact, p)
		} else {
			return a, fmt.Errorf("cannot read %q: want nothing, anything, or `package` and `tree/...` separated by commas", cell)
		}
	}
	return a, nil
}

func (a allowed) permits(pkg string) bool {
	if a.anything || slices.Contains(a.exact, pkg) {
		return true
	}
	return slices.ContainsFunc(a.trees, func(tree string) bool {
		return pkg == tree || strings.HasPrefix(pkg, tree+"/")
	})
}

// packageMap reads the table of the section "Package map".
func packageMap(page string) (map[string]allowed, error) {
	_, section, ok := strings.Cut(page, "\n## Package map\n")
	if !ok {
		return nil, fmt.Errorf("no section \"Package map\"")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	m := map[string]allowed{}
	for _, row := range tableRows(section) {
		if len(row) != 3 {
			return nil, fmt.Errorf("row %q: want package, holds, may import", row)
		}
		pkg := strings.Trim(row[0], "`")
		if _, twice := m[pkg]; twice {
			return nil, fmt.Errorf("package %s twice", pkg)
		}
		a, err := parseAllowed(row[2])
		if err != nil {
			return nil, fmt.Errorf("package %s: %w", pkg, err)
		}
		m[pkg] = a
	}
	return m, nil
}

// mapFaults compares the map with the source and lists what disagrees.
func mapFaults(m map[string]allowed, all map[string]*source) []string {
	var faults []string
	for pkg, s := range all {
		if !s.code {
			continue
		}
		a, listed := m[pkg]
		if !listed {
			faults = append(faults, pkg+": not in the package map")
			continue
		}
		for _, imp := range s.imports {
			if !a.permits(imp) {
				faults = append(faults, pkg+": imports "+imp+", which the package map does not allow")
			}
		}
	}
	for pkg := range m {
		if s := all[pkg]; s == nil || !s.code {
			faults = append(faults, pkg+": in the package map but not in the source")
		}
	}
	slices.Sort(faults)
	return faults
}

// TestPackageMapAgreesWithImports: the map of architecture.md lists exactly
// the packages that exist, and no non-test import breaks it.
func TestPackageMapAgreesWithImports(t *testing.T) {
	t.Parallel()
	m, err := packageMap(readPage(t, "architecture.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range mapFaults(m, readSource(t)) {
		t.Error(fault)
	}
}

func TestMapFaultsAreFound(t *testing.T) {
	t.Parallel()
	m, err := packageMap("# x\n\n## Package map\n\n| package | holds | may import |\n|---|---|---|\n" +
		"| `a` | x | nothing |\n| `b` | x | `a`, `c/...` |\n| `gone` | x | nothing |\n| `cmd` | x | anything |\n\n## Planned\n| `z` | x | nothing |\n")
	if err != nil {
		t.Fatal(err)
	}
	got := mapFaults(m, map[string]*source{
		"a":     {code: true, imports: []string{"b"}},
		"b":     {code: true, imports: []string{"a", "c", "c/d", "cd"}},
		"cmd":   {code: true, imports: []string{"a", "b"}},
		"extra": {code: true},
		"tests": {tests: []string{"TestX"}},
	})
	want := []string{
		"a: imports b, which the package map does not allow",
		"b: imports cd, which the package map does not allow",
		"extra: not in the package map",
		"gone: in the package map but not in the source",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
