package strictyaml_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/corpus/strictyaml"
)

type file struct {
	Name  string    `yaml:"name"`
	Count int       `yaml:"count"`
	Parts []float64 `yaml:"parts"`
}

// Each fault has its place, and its owner's words where it has any.
func TestFaultsHaveTheirPlaceAndTheirOwnersWords(t *testing.T) {
	t.Parallel()
	words := func(k strictyaml.Kind, plain, want string) string {
		switch k {
		case strictyaml.WrongType:
			return plain + "; want " + want
		case strictyaml.Other:
			return plain
		case strictyaml.Empty, strictyaml.UnknownField, strictyaml.Tag, strictyaml.NoValue, strictyaml.MoreDocuments:
		}
		return plain + "; mend it"
	}
	for _, tt := range []struct{ name, text, plain, worded string }{
		{"sound", "name: a\ncount: 2\nparts: [0.5]\n", "", ""},
		{"empty", "# nothing\n", "f: the file is empty", "f: the file is empty; mend it"},
		{"list", "[1]", "f:1: the file must be a mapping", "f:1: the file must be a mapping"},
		{"unknown field", "name: a\ntitle: b\n", `f:2: unknown field "title"`, `f:2: unknown field "title"; mend it`},
		{"wrong type", "name: a\ncount: x\n", "f:2: wrong type: str `x`", "f:2: wrong type: str `x`; want int"},
		{"fraction", "count: 2.5\n", "f:1: wrong type: 2.5 is no whole number", "f:1: wrong type: 2.5 is no whole number"},
		{"two faults", "name: [a]\nparts: 1\n", "f:1: wrong type: seq\nf:2: wrong type: int `1`", "f:1: wrong type: seq; want string\nf:2: wrong type: int `1`; want []float64"},
		{"no value", "parts:\n- 1\n-\n", "f:3: a list entry without a value", "f:3: a list entry without a value; mend it"},
		{"tag", "name: !!str 5\n", "f:1: the tag !!str is not read here; write the plain value", "f:1: the tag !!str is not read here; write the plain value; mend it"},
		{"tagged key", "!!str name: a\n", "f:1: the tag !!str is not read here; write the plain value", "f:1: the tag !!str is not read here; write the plain value; mend it"},
		{"alias", "name: &a b\nparts: *a\n", "f:2: aliases are not read here; write the value out", "f:2: aliases are not read here; write the value out"},
		{"alias as a key", "name: &a count\n*a : 1\n", "f:2: aliases are not read here; write the value out", "f:2: aliases are not read here; write the value out"},
		{"merge key", "<<: {name: a}\n", "f:1: merge keys are not read here; write the fields out", "f:1: merge keys are not read here; write the fields out"},
		{"two documents", "name: a\n---\nname: b\n", "f:2: the file holds more than one document", "f:2: the file holds more than one document; mend it"},
		{"syntax, parser", "name: a\nparts: [1\ncount: 2\n", "f:2: did not find expected ',' or ']'", "f:2: did not find expected ',' or ']'"},
		{"syntax, scanner", "name: a\n  count: 2\n", "f:2: mapping values are not allowed in this context", "f:2: mapping values are not allowed in this context"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, x := range []struct {
				words strictyaml.Words
				want  string
			}{{nil, tt.plain}, {words, tt.worded}} {
				got := ""
				if err := strictyaml.Decode("f", []byte(tt.text), new(file), x.words).Errors.Err(); err != nil {
					got = err.Error()
				}
				if diff := cmp.Diff(x.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
			}
		})
	}
}

// A place that ends early is that of the last node that is there.
func TestPlacesByPath(t *testing.T) {
	t.Parallel()
	s := strictyaml.Decode("f", []byte("name: a\nparts:\n- 1\n- 2\n"), new(file), nil)
	for _, tt := range []struct {
		path []any
		line int
		has  bool
	}{
		{nil, 1, true},
		{[]any{"parts"}, 2, true},
		{[]any{"parts", 1}, 4, true},
		{[]any{"parts", 2}, 2, false},
		{[]any{"parts", -1}, 2, false},
		{[]any{"count"}, 1, false},
		{[]any{"name", "x"}, 1, false},
	} {
		if line, has := s.Line(tt.path...), s.Has(tt.path...); line != tt.line || has != tt.has {
			t.Errorf("%v: line %d, %v; want %d, %v", tt.path, line, has, tt.line, tt.has)
		}
	}
}
