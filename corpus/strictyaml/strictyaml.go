// Package strictyaml decodes one YAML document strictly and knows the line of
// everything in it, so that each fault of a file is one clear line with its
// place. It is the one decoder of the files that people write: cases, gold,
// campaigns, policies. It does no I/O.
//
// Stability: internal to qualify.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Fault is one mistake in a file: one clear line with its place.
type Fault struct {
	File string
	Line int // from 1; 0 when the whole file is meant
	Text string
}

func (f *Fault) Error() string {
	if f.Line == 0 {
		return f.File + ": " + f.Text
	}
	return f.File + ":" + strconv.Itoa(f.Line) + ": " + f.Text
}

// Faults lists every fault found, one line each, in reading order.
type Faults []*Fault

func (l Faults) Error() string {
	lines := make([]string, len(l))
	for i, f := range l {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the single faults.
func (l Faults) Unwrap() []error {
	out := make([]error, len(l))
	for i, f := range l {
		out[i] = f
	}
	return out
}

// Err is the list as an error, nil when it is empty.
func (l Faults) Err() error {
	if len(l) == 0 {
		return nil
	}
	return l
}

// Kind is what is wrong with a file before its meaning is asked.
type Kind int

// Kinds of which a file's owner may want to say more than the plain text.
const (
	Other Kind = iota
	Empty
	UnknownField
	WrongType
	Tag
	NoValue // an entry of a list
	MoreDocuments
)

// Words gives the text of a fault of a kind, from the plain one. want is the Go
// type wanted, of WrongType only. A nil Words leaves every text as it is.
type Words func(k Kind, plain, want string) string

// Source is one YAML file while it is checked: it knows the line of every
// node and gathers faults.
type Source struct {
	File   string
	Errors Faults
	root   *yaml.Node
	words  Words
}

// Decode decodes one YAML document strictly into out (KnownFields): an unknown
// or repeated field, a wrong type, a fraction for a whole number, a list entry
// without value, an alias, a merge key, a tag and a second document are faults
// of the returned Source. out is usable only when there are none.
func Decode(file string, data []byte, out any, words Words) *Source {
	s := &Source{File: file, words: words}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		s.fault(err)
		return s
	}
	if len(doc.Content) == 0 {
		s.say(0, Empty, "the file is empty", "")
		return s
	}
	s.root = doc.Content[0]
	if s.root.Kind != yaml.MappingNode {
		s.Addf(s.root.Line, "the file must be a mapping")
		return s
	}
	if s.strict(s.root, reflect.TypeOf(out)); len(s.Errors) > 0 {
		return s
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(out); err != nil {
		s.fault(err)
		return s
	}
	var more yaml.Node
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		s.say(more.Line, MoreDocuments, "the file holds more than one document", "")
	}
	return s
}

// say adds a fault in the words of the file's owner.
func (s *Source) say(line int, k Kind, text, want string) {
	if s.words != nil {
		text = s.words(k, text, want)
	}
	s.Errors = append(s.Errors, &Fault{File: s.File, Line: line, Text: text})
}

var (
	lineOf       = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)
	unknownField = regexp.MustCompile(`^field (.+) not found in type \S+$`)
	parserFault  = regexp.MustCompile(`^did not find expected (key|node content|'-' indicator|',' or|<)`)
	wrongType    = regexp.MustCompile("^cannot unmarshal (\\S+)(?: (`.*`))? into (.*)$")
)

// fault splits an error of the YAML package into lines with places.
func (s *Source) fault(err error) {
	texts := []string{err.Error()}
	var te *yaml.TypeError
	if errors.As(err, &te) {
		texts = te.Errors
	}
	for _, t := range texts {
		t = strings.ReplaceAll(t, "\n", " ")
		line := 0
		if m := lineOf.FindStringSubmatch(t); m != nil {
			if n, err := strconv.Atoi(m[1]); err == nil {
				line = n
			}
			t = m[2]
			if parserFault.MatchString(t) {
				line++ // the library counts lines from 0 in faults of its parser, from 1 in others
			}
		}
		if m := unknownField.FindStringSubmatch(t); m != nil {
			s.say(line, UnknownField, fmt.Sprintf("unknown field %q", m[1]), "")
		} else if m := wrongType.FindStringSubmatch(t); m != nil {
			s.say(line, WrongType, strings.TrimSpace("wrong type: "+strings.TrimPrefix(m[1], "!!")+" "+m[2]), m[3])
		} else {
			s.say(line, Other, t, "")
		}
	}
}

// Addf adds a fault at a line.
func (s *Source) Addf(line int, format string, args ...any) {
	s.Errors = append(s.Errors, &Fault{File: s.File, Line: line, Text: fmt.Sprintf(format, args...)})
}

// Line is the line of the node at a path of keys (string) and indices (int);
// where the path ends early, the line of the last node that is there.
func (s *Source) Line(path ...any) int {
	line, _ := s.find(path)
	return line
}

// Has reports whether the file gives a node at a path of keys and indices.
func (s *Source) Has(path ...any) bool {
	_, found := s.find(path)
	return found
}

func (s *Source) find(path []any) (line int, found bool) {
	n := s.root
	if n == nil {
		return 0, false
	}
	line = n.Line
	for _, p := range path {
		var next *yaml.Node
		if key, ok := p.(string); ok && n.Kind == yaml.MappingNode {
			for i := 0; i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == key {
					next, line = n.Content[i+1], n.Content[i].Line
				}
			}
		} else if i, ok := p.(int); ok && n.Kind == yaml.SequenceNode && i >= 0 && i < len(n.Content) {
			next, line = n.Content[i], n.Content[i].Line
		}
		if next == nil {
			return line, false
		}
		n = next
	}
	return line, true
}
