package corpus

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

// FileError is one fault of a file: one clear line with its place.
type FileError struct {
	File string
	Line int // from 1; 0 when the whole file is meant
	Text string
}

func (e *FileError) Error() string {
	if e.Line == 0 {
		return e.File + ": " + e.Text
	}
	return e.File + ":" + strconv.Itoa(e.Line) + ": " + e.Text
}

// Errors lists every fault found, one line each, in reading order.
type Errors []*FileError

func (l Errors) Error() string {
	lines := make([]string, len(l))
	for i, e := range l {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the single faults.
func (l Errors) Unwrap() []error {
	out := make([]error, len(l))
	for i, e := range l {
		out[i] = e
	}
	return out
}

// Err is the list as an error, nil when it is empty.
func (l Errors) Err() error {
	if len(l) == 0 {
		return nil
	}
	return l
}

// Source is one YAML file while it is checked: it knows the line of every
// node and gathers faults.
type Source struct {
	File   string
	Errors Errors
	root   *yaml.Node
}

// DecodeYAML decodes one YAML document strictly into out (KnownFields): an
// unknown or repeated field, a wrong type, a fraction for a whole number, a
// list entry without value, an alias, a merge key, a tag and a second document
// are faults of the returned Source. out is usable only when there are none.
func DecodeYAML(file string, data []byte, out any) *Source {
	s := &Source{File: file}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		s.fault(err)
		return s
	}
	if doc.Kind == 0 || len(doc.Content) == 0 {
		s.Errors = append(s.Errors, &FileError{File: file, Text: "the file is empty"})
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
		s.Addf(more.Line, "the file holds more than one document")
	}
	return s
}

var (
	lineOf       = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)
	unknownField = regexp.MustCompile(`^field (.+) not found in type \S+$`)
	parserFault  = regexp.MustCompile(`^did not find expected (key|node content|'-' indicator|',' or|<)`)
	wrongType    = regexp.MustCompile("^cannot unmarshal (\\S+)(?: (`.*`))? into .*$")
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
			t = fmt.Sprintf("unknown field %q", m[1])
		} else if m := wrongType.FindStringSubmatch(t); m != nil {
			t = strings.TrimSpace("wrong type: " + strings.TrimPrefix(m[1], "!!") + " " + m[2])
		}
		s.Addf(line, "%s", t)
	}
}

// Addf adds a fault at a line.
func (s *Source) Addf(line int, format string, args ...any) {
	s.Errors = append(s.Errors, &FileError{File: s.File, Line: line, Text: fmt.Sprintf(format, args...)})
}

// Line is the line of the node at a path of keys (string) and indices (int);
// where the path ends early, the line of the last node that is there.
func (s *Source) Line(path ...any) int {
	n := s.root
	if n == nil {
		return 0
	}
	line := n.Line
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
			return line
		}
		n = next
	}
	return line
}

// Has reports whether the file gives a node at a path of keys and indices.
func (s *Source) Has(path ...any) bool {
	n := s.root
	for _, p := range path {
		if n == nil {
			return false
		}
		var next *yaml.Node
		if key, ok := p.(string); ok && n.Kind == yaml.MappingNode {
			for i := 0; i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == key {
					next = n.Content[i+1]
				}
			}
		} else if i, ok := p.(int); ok && n.Kind == yaml.SequenceNode && i >= 0 && i < len(n.Content) {
			next = n.Content[i]
		}
		n = next
	}
	return n != nil
}
