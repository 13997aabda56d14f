package simulated

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// marks are the step names that simulated agents write to each other; see the
// package comment.
type marks struct {
	todo, done, later, report []string
	heard                     []string // ids of owner messages
	round                     int
}

var markPattern = regexp.MustCompile(`\[(todo|done|later|report|heard|round)((?: [A-Za-z0-9._-]+)+)\]`)

// readMarks finds the marks of a text. Names that are no step, or no message,
// of this oracle are passed over.
func (g *gold) readMarks(text string) marks {
	var m marks
	for _, found := range markPattern.FindAllStringSubmatch(text, -1) {
		names := strings.Fields(found[2])
		if found[1] == "round" {
			if n, err := strconv.Atoi(names[0]); err == nil {
				m.round = n
			}
			continue
		}
		if found[1] == "heard" {
			m.heard = append(m.heard, slices.DeleteFunc(names, func(id string) bool { return g.messages[id] == "" })...)
			continue
		}
		names = slices.DeleteFunc(names, func(id string) bool { return g.at(id) == nil })
		switch found[1] {
		case "todo":
			m.todo = append(m.todo, names...)
		case "done":
			m.done = append(m.done, names...)
		case "later":
			m.later = append(m.later, names...)
		case "report":
			m.report = append(m.report, names...)
		}
	}
	return m
}

// mark writes one mark.
func mark(verb string, ids []string) string { return "[" + verb + " " + strings.Join(ids, " ") + "]" }
