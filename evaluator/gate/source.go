package gate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Fault is one mistake in a policy file: what, where, what to do.
type Fault struct {
	File string
	Line int // from 1; 0 when the whole file is meant
	Text string
}

// Error is one line, file:line: text.
func (f *Fault) Error() string {
	if f.Line == 0 {
		return f.File + ": " + f.Text
	}
	return f.File + ":" + strconv.Itoa(f.Line) + ": " + f.Text
}

// Faults lists every mistake found, in reading order.
type Faults []*Fault

func (l Faults) Error() string {
	lines := make([]string, len(l))
	for i, f := range l {
		lines[i] = f.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the single mistakes.
func (l Faults) Unwrap() []error {
	out := make([]error, len(l))
	for i, f := range l {
		out[i] = f
	}
	return out
}

// err is the list as an error, nil when it is empty.
func (l Faults) err() error {
	if len(l) == 0 {
		return nil
	}
	return l
}

// source is a policy file while it is checked: it knows the line of each node.
type source struct {
	file   string
	root   *yaml.Node
	faults Faults
}

// decode decodes one YAML document strictly: unknown and repeated fields,
// aliases, merge keys, tags and a second document are faults.
func decode(file string, data []byte, out any) *source {
	s := &source{file: file}
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		s.yaml(err)
		return s
	}
	if len(doc.Content) == 0 {
		s.addf(0, "the file is empty; qualify gate --print-default prints a policy to begin with")
		return s
	}
	s.root = doc.Content[0]
	if s.root.Kind != yaml.MappingNode {
		s.addf(s.root.Line, "the file must be a mapping")
		return s
	}
	if s.plain(s.root); len(s.faults) > 0 {
		return s
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(out); err != nil {
		s.yaml(err)
		return s
	}
	var more yaml.Node
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		s.addf(more.Line, "the file holds more than one document; keep one")
	}
	return s
}

// plain refuses what makes YAML mean more than it says.
func (s *source) plain(n *yaml.Node) {
	switch {
	case n.Kind == yaml.AliasNode:
		s.addf(n.Line, "aliases are not read here; write the value out")
		return
	case n.Style&yaml.TaggedStyle != 0:
		s.addf(n.Line, "tags are not read here; write the plain value")
		return
	}
	for i, c := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 && c.ShortTag() == "!!merge" {
			s.addf(c.Line, "merge keys are not read here; write the fields out")
			continue
		}
		if n.Kind == yaml.SequenceNode && c.ShortTag() == "!!null" {
			s.addf(c.Line, "a list entry without a value; take it out")
			continue
		}
		s.plain(c)
	}
}

var (
	atLine       = regexp.MustCompile(`^(?:yaml: )?line (\d+): (.*)$`)
	unknownField = regexp.MustCompile(`^field (.+) not found in type \S+$`)
	wrongType    = regexp.MustCompile("^cannot unmarshal (\\S+)(?: (`.*`))? into (\\S+)$")
)

// yaml takes over the errors of the YAML package, each with its line.
func (s *source) yaml(err error) {
	texts := []string{err.Error()}
	var te *yaml.TypeError
	if errors.As(err, &te) {
		texts = te.Errors
	}
	for _, t := range texts {
		t, line := strings.ReplaceAll(t, "\n", " "), 0
		if m := atLine.FindStringSubmatch(t); m != nil {
			if n, err := strconv.Atoi(m[1]); err == nil {
				line = n
			}
			t = m[2]
		}
		if m := unknownField.FindStringSubmatch(t); m != nil {
			t = fmt.Sprintf("unknown field %q; qualify gate --print-default shows the fields there are", m[1])
		} else if m := wrongType.FindStringSubmatch(t); m != nil {
			t = strings.TrimSpace("wrong type: "+strings.TrimPrefix(m[1], "!!")+" "+m[2]) + "; want " + kindWord(m[3])
		}
		s.addf(line, "%s", t)
	}
}

func kindWord(goType string) string {
	switch {
	case strings.HasPrefix(goType, "[]"):
		return "a list"
	case strings.HasPrefix(goType, "float") || strings.HasPrefix(goType, "int"):
		return "a number"
	case goType == "string":
		return "a text"
	}
	return "a mapping"
}

func (s *source) addf(line int, format string, args ...any) {
	s.faults = append(s.faults, &Fault{File: s.file, Line: line, Text: fmt.Sprintf(format, args...)})
}

// line is the line of the node at a path of keys and indices; where the path
// ends early, that of the last node that is there.
func (s *source) line(path ...any) int {
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
		} else if i, ok := p.(int); ok && n.Kind == yaml.SequenceNode && i < len(n.Content) {
			next, line = n.Content[i], n.Content[i].Line
		}
		if next == nil {
			return line
		}
		n = next
	}
	return line
}
