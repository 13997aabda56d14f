package gold

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/corpus"
)

// Set holds the gold of many cases, sorted by case id.
type Set struct {
	list []*Gold
}

// Get returns the gold of a case.
func (s *Set) Get(caseID string) (*Gold, bool) {
	i, ok := slices.BinarySearchFunc(s.list, caseID, func(g *Gold, id string) int { return strings.Compare(g.Case, id) })
	if !ok {
		return nil, false
	}
	return s.list[i], true
}

// All lists the gold files by case id.
func (s *Set) All() []*Gold { return slices.Clone(s.list) }

// Load reads every <family>/<case>.yaml of a gold tree. The error is a
// corpus.Errors with every fault, or an error of fsys.
func Load(fsys fs.FS) (*Set, error) {
	files, errs, err := corpus.YAMLFiles(fsys, nil)
	if err != nil {
		return nil, err
	}
	first := map[string]string{}
	set := &Set{}
	for _, f := range files {
		data, err := fs.ReadFile(fsys, f)
		if err != nil {
			return nil, fmt.Errorf("read gold %s: %w", f, err)
		}
		g, src := parse(f, data)
		if g.Case != "" {
			if other, ok := first[g.Case]; ok {
				src.Addf(src.Line("case"), "gold of case %q is already given at %s", g.Case, other)
			} else {
				first[g.Case] = fmt.Sprintf("%s:%d", f, src.Line("case"))
			}
		}
		errs = append(errs, src.Errors...)
		set.list = append(set.list, g)
	}
	if err := errs.Err(); err != nil {
		return nil, err
	}
	slices.SortFunc(set.list, func(a, b *Gold) int { return strings.Compare(a.Case, b.Case) })
	return set, nil
}

// LoadBeside reads the gold of a corpus folder, which lies in its subfolder
// gold.
func LoadBeside(fsys fs.FS) (*Set, error) {
	inner, err := fs.Sub(fsys, "gold")
	if err != nil {
		return nil, fmt.Errorf("gold folder: %w", err)
	}
	return Load(inner)
}

// Parse reads one gold file. The error is a corpus.Errors.
func Parse(file string, data []byte) (*Gold, error) {
	g, src := parse(file, data)
	if err := src.Errors.Err(); err != nil {
		return nil, err
	}
	return g, nil
}

func parse(file string, data []byte) (*Gold, *corpus.Source) {
	g := &Gold{}
	g.src = corpus.DecodeYAML(file, data, g)
	if len(g.src.Errors) == 0 {
		if !g.src.Has("needs_plan") {
			g.NeedsPlan = true
		}
		v := validator{g, g.src}
		v.run()
	}
	return g, g.src
}

// validator finds what is wrong with a gold file by itself; what does not fit
// its case is for corpus/lint.
type validator struct {
	g   *Gold
	src *corpus.Source
}

func (v validator) at(p []any, format string, args ...any) {
	v.src.Addf(v.src.Line(p...), format, args...)
}

func sub(p []any, more ...any) []any { return append(slices.Clone(p), more...) }

func (v validator) run() {
	g := v.g
	if g.Schema != Schema {
		v.at([]any{"schema"}, "schema %q must be %s", g.Schema, Schema)
	}
	if stem := strings.TrimSuffix(path.Base(v.src.File), ".yaml"); g.Case != stem {
		v.at([]any{"case"}, "case %q differs from the file name %q", g.Case, stem)
	}
	criteria := map[string]int{}
	for i := range g.Criteria {
		c := &g.Criteria[i]
		p := []any{"criteria", i}
		v.unique(criteria, sub(p, "id"), "criterion id", c.ID)
		if !v.src.Has(sub(p, "required")...) {
			v.at(p, "criterion %q does not say required: true or false", c.ID)
		}
		v.check(sub(p, "check"), &c.Check)
		if c.Required && c.Check.judged() {
			v.at(sub(p, "check"), "criterion %q is required and so must not be left to a judge", c.ID)
		}
	}
	for i := range g.Expected {
		v.expected([]any{"expected_effects", i}, &g.Expected[i])
	}
	for i := range g.Allowed {
		v.expected([]any{"allowed_effects", i}, &g.Allowed[i])
	}
	v.solution(criteria)
}

func (v validator) unique(seen map[string]int, p []any, what, id string) {
	line := v.src.Line(p...)
	if id == "" {
		v.at(p, "%s is missing", what)
		return
	}
	if first, ok := seen[id]; ok {
		v.at(p, "%s %q is already used at %s:%d", what, id, v.src.File, first)
		return
	}
	seen[id] = line
}

func (v validator) expected(p []any, e *Expected) {
	if !v.src.Has(sub(p, "times")...) {
		e.Times = 1
	}
	if e.Tool == "" {
		v.at(p, "an effect names no tool")
	}
	if e.Times < 1 {
		v.at(sub(p, "times"), "times must be at least 1")
	}
	v.object(sub(p, "args"), &e.Args)
	for i, name := range e.Free {
		if v.src.Has(sub(p, "args", name)...) {
			v.at(sub(p, "free", i), "argument %q cannot be free and have a value in args", name)
		}
	}
}

// object checks that args are an object and fills in {}.
func (v validator) object(p []any, args *corpus.Value) {
	if !args.Given() {
		*args = corpus.Value("{}")
		return
	}
	if (*args)[0] != '{' {
		v.at(p, "args must be a mapping")
	}
}

func (v validator) solution(criteria map[string]int) {
	steps := map[string]int{}
	for i := range v.g.Solution {
		s := &v.g.Solution[i]
		p := []any{"solution", i}
		for _, a := range s.After {
			if _, ok := steps[a]; !ok {
				v.at(sub(p, "after"), "step %q comes after %q, which is no earlier step", s.ID, a)
			}
		}
		v.unique(steps, sub(p, "step"), "step", s.ID)
		if s.By == "" {
			v.at(p, "step %q does not say by whom", s.ID)
		}
		final := s.Say != "" || s.Artifact != nil
		if final == (s.Call != "") {
			v.at(p, "step %q needs either call or say and artifact", s.ID)
		}
		if s.Call == "" && s.Args.Given() {
			v.at(sub(p, "args"), "step %q has args without call", s.ID)
		}
		if s.Call != "" {
			v.object(sub(p, "args"), &s.Args)
		}
		if s.Artifact != nil && (s.Artifact.Name == "" || s.Artifact.Text == "") {
			v.at(sub(p, "artifact"), "the artifact of step %q needs name and text", s.ID)
		}
		for _, m := range s.Meets {
			if _, ok := criteria[m]; !ok {
				v.at(sub(p, "meets"), "step %q meets unknown criterion %q", s.ID, m)
			}
		}
	}
}
