package docs_test

import (
	"cmp"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

const (
	requirementsPage = "requirements.md"
	undescribed      = "(describe)"
	unproved         = "(none)"
)

// requirement is one row of the table.
type requirement struct {
	id, demands string
	tests       []string // package.Test, sorted
}

var idPattern = regexp.MustCompile(`^([RCQIFSDAG][0-9]+[a-z]?)_?`)

// idsOf returns the requirement ids that a test's name carries:
// TestR36_…, TestR36R38_…, TestR36_R38_…. The last id ends with an underscore,
// so TestF1Score and TestI18n carry none.
func idsOf(test string) []string {
	rest := strings.TrimPrefix(test, "Test")
	var ids []string
	ended := false
	for {
		m := idPattern.FindStringSubmatch(rest)
		if m == nil {
			break
		}
		ids = append(ids, m[1])
		ended = strings.HasSuffix(m[0], "_")
		rest = rest[len(m[0]):]
	}
	if !ended {
		return nil
	}
	return ids
}

// testsByID collects every test of the source that carries an id.
func testsByID(all map[string]*source) map[string][]string {
	byID := map[string][]string{}
	for pkg, s := range all {
		for _, test := range s.tests {
			for _, id := range idsOf(test) {
				byID[id] = append(byID[id], pkg+"."+test)
			}
		}
	}
	for _, tests := range byID {
		slices.Sort(tests)
	}
	return byID
}

// parseRequirements reads the rows of a page.
func parseRequirements(page string) ([]requirement, error) {
	var rows []requirement
	for _, cells := range tableRows(page) {
		if len(cells) != 3 {
			return nil, fmt.Errorf("row %q: want id, what it demands, tests", cells)
		}
		r := requirement{id: cells[0], demands: cells[1]}
		if cells[2] != unproved {
			for test := range strings.SplitSeq(cells[2], ", ") {
				r.tests = append(r.tests, strings.Trim(test, "`"))
			}
		}
		rows = append(rows, r)
	}
	return rows, nil
}

// families are the tables of the page, in order: the letter of their ids and
// the heading.
var families = []struct{ letter, title string }{
	{"R", "Planner engine"},
	{"I", "Invariants"},
	{"A", "Choices where the source is ambiguous"},
	{"C", "Operational coordination"},
	{"D", "Defects of the reference not to repeat"},
	{"G", "Coordination in Go"},
	{"Q", "Qualification"},
	{"S", "Statistics"},
	{"F", "Public fault reports"},
}

// renderRequirements writes the page: introduction kept, one table per family
// of ids, rows in order of number.
func renderRequirements(intro string, rows []requirement) string {
	var b strings.Builder
	b.WriteString(strings.TrimRight(intro, "\n") + "\n")
	for _, f := range families {
		var own []requirement
		for _, r := range rows {
			if strings.HasPrefix(r.id, f.letter) {
				own = append(own, r)
			}
		}
		if len(own) == 0 {
			continue
		}
		slices.SortFunc(own, func(x, y requirement) int {
			return cmp.Or(cmp.Compare(idNumber(x.id), idNumber(y.id)), strings.Compare(x.id, y.id))
		})
		fmt.Fprintf(&b, "\n## %s\n\n| id | demands | proved by |\n|---|---|---|\n", f.title)
		for _, r := range own {
			tests := unproved
			if len(r.tests) > 0 {
				tests = "`" + strings.Join(r.tests, "`, `") + "`"
			}
			fmt.Fprintf(&b, "| %s | %s | %s |\n", r.id, r.demands, tests)
		}
	}
	return b.String()
}

func idNumber(id string) int {
	n, err := strconv.Atoi(strings.TrimRight(id[1:], "abcdefghijklmnopqrstuvwxyz"))
	if err != nil {
		return 0
	}
	return n
}

// merge keeps the described rows and gives every row the tests of the source.
func merge(rows []requirement, byID map[string][]string) []requirement {
	var out []requirement
	known := map[string]bool{}
	for _, r := range rows {
		known[r.id] = true
		out = append(out, requirement{r.id, r.demands, byID[r.id]})
	}
	for id, tests := range byID {
		if !known[id] {
			out = append(out, requirement{id, undescribed, tests})
		}
	}
	return out
}

// requirementFaults lists what is wrong with rows, given the tests that exist.
func requirementFaults(rows []requirement, byID map[string][]string) []string {
	var faults []string
	listed := map[string]bool{}
	for _, r := range rows {
		if listed[r.id] {
			faults = append(faults, r.id+": listed twice")
		}
		listed[r.id] = true
		if r.demands == "" || r.demands == undescribed {
			faults = append(faults, r.id+": what it demands is not described")
		}
		if len(r.tests) == 0 {
			faults = append(faults, r.id+": no test proves it")
		}
		for _, test := range r.tests {
			if !slices.Contains(byID[r.id], test) {
				faults = append(faults, r.id+": names "+test+", which does not exist")
			}
		}
		for _, test := range byID[r.id] {
			if !slices.Contains(r.tests, test) {
				faults = append(faults, r.id+": does not name "+test)
			}
		}
	}
	for id := range byID {
		if !listed[id] {
			faults = append(faults, id+": tested by "+strings.Join(byID[id], ", ")+" but not listed")
		}
	}
	slices.Sort(faults)
	return faults
}

// TestRequirementsAgreeWithTests: every id of requirements.md is described and
// names tests that exist, and every test whose name carries an id is named.
// With -update the tests of the page are rewritten first; descriptions are
// written by hand.
func TestRequirementsAgreeWithTests(t *testing.T) {
	t.Parallel()
	page := readPage(t, requirementsPage)
	rows, err := parseRequirements(page)
	if err != nil {
		t.Fatal(err)
	}
	byID := testsByID(readSource(t))
	if *update {
		rows = merge(rows, byID)
		intro, _, _ := strings.Cut(page, "\n## ")
		if err := os.WriteFile(requirementsPage, []byte(renderRequirements(intro, rows)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, fault := range requirementFaults(rows, byID) {
		t.Error(fault)
	}
	if t.Failed() {
		t.Log("make golden rewrites the tests of the page; descriptions are written by hand")
	}
}

func TestSuiteCasesAreFound(t *testing.T) {
	t.Parallel()
	f, err := parser.ParseFile(token.NewFileSet(), "suite.go", `package suite
import "testing"
type testCase struct { name string; run func(*testing.T) }
var cases = []testCase{
	{"R40_GrantSetsTheTotal", testGrant},
	{"CampaignCap", testCap},
	{"R41_NotAFunction", nil == nil},
	{"R42_R43_Literal", func(t *testing.T) {}},
}
var words = map[string]string{"R42_AKey": "x"}
`, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff([]string{"R40_GrantSetsTheTotal", "R42_R43_Literal"}, suiteCases(f)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestIDsOfTestNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][]string{
		"TestR38_MissingUsage":  {"R38"},
		"R40_GrantSetsTheTotal": {"R40"},
		"TestR36R41_Bounds":     {"R36", "R41"},
		"TestR36_R41_Bounds":    {"R36", "R41"},
		"TestR33b_Bridge":       {"R33b"},
		"TestF1Score":           nil,
		"TestI18n":              nil,
		"TestRoomsAreIndependt": nil,
		"TestQ2":                nil,
	} {
		if diff := gocmp.Diff(want, idsOf(name)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestRequirementFaultsAreFound(t *testing.T) {
	t.Parallel()
	byID := map[string][]string{"R1": {"a.TestR1_X", "b.TestR1_Y"}, "R2": {"a.TestR2_X"}, "F9": {"a.TestF9_X"}}
	page := "# x\n\n| id | demands | proved by |\n|---|---|---|\n" +
		"| R1 | one | `a.TestR1_X`, `a.TestR1_Gone` |\n| R2 | (describe) | `a.TestR2_X` |\n| R3 | three | (none) |\n"
	rows, err := parseRequirements(page)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"F9: tested by a.TestF9_X but not listed",
		"R1: does not name b.TestR1_Y",
		"R1: names a.TestR1_Gone, which does not exist",
		"R2: what it demands is not described",
		"R3: no test proves it",
	}
	if diff := gocmp.Diff(want, requirementFaults(rows, byID)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUpdateKeepsDescriptionsAndIsStable(t *testing.T) {
	t.Parallel()
	byID := map[string][]string{"R10": {"a.TestR10_X"}, "R9": {"a.TestR9_X", "b.TestR9_Y"}, "F3": {"c.TestF3_Z"}}
	rows := merge([]requirement{{id: "R9", demands: "nine", tests: []string{"a.TestR9_Old"}}}, byID)
	page := renderRequirements("# Page\n\nWords.\n", rows)
	again, err := parseRequirements(page)
	if err != nil {
		t.Fatal(err)
	}
	want := "# Page\n\nWords.\n" +
		"\n## Planner engine\n\n| id | demands | proved by |\n|---|---|---|\n| R9 | nine | `a.TestR9_X`, `b.TestR9_Y` |\n| R10 | (describe) | `a.TestR10_X` |\n" +
		"\n## Public fault reports\n\n| id | demands | proved by |\n|---|---|---|\n| F3 | (describe) | `c.TestF3_Z` |\n"
	if diff := gocmp.Diff(want, renderRequirements("# Page\n\nWords.\n", again)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
