package world

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/engine"
)

const secondUS = 1_000_000

// eventPrefix starts the event id of every owner message: owner/m1, owner/k2/1.
// The message id is the rest, so that it is unique in the room too.
const eventPrefix = "owner/"

// Owner implements engine.Owner: it folds the log of one room and says what
// the case's owner says next.
//
// A message whose condition comes true is due think_seconds later. Until it is
// sent it is dropped again when its document condition ceases to hold: nobody
// asks for what has just been done. A correction that has come due after
// patience was used up is not sent, and the owner has given up.
type Owner struct {
	c         *corpus.Case
	w         *World
	pending   []pending
	sent      map[string]int // times by message or correction id
	corrected int            // corrections sent
	seen      int            // messages of tools already looked at
	exhausted bool
	wants     map[*corpus.When]want // conditions read so far
}

var _ engine.Owner = (*Owner)(nil)

// pending is a message that is due.
type pending struct {
	line  line
	atUS  int64
	order int // place in the script, to break ties
}

// line is one message or correction of the script.
type line struct {
	id         string
	event      string // stable event id
	kind       string
	text       string
	when       *corpus.When
	correction bool
	max        int
	order      int
}

// NewOwner returns the owner of a case before anything has happened; messages
// without condition are due at time 0. The world must be the one whose effects
// the log tells of.
func NewOwner(c *corpus.Case, w *World) (*Owner, error) {
	if c == nil || w == nil {
		return nil, fmt.Errorf("an owner needs a case and a world")
	}
	o := &Owner{c: c, w: w, sent: map[string]int{}}
	for _, l := range o.script() {
		if l.when == nil {
			o.pending = append(o.pending, pending{l, 0, l.order})
		}
	}
	return o, nil
}

// script lists everything the owner may still say, with the event id it would
// have.
func (o *Owner) script() []line {
	var out []line
	for _, m := range o.c.Owner.Messages {
		if o.sent[m.ID] > 0 {
			continue
		}
		kind := m.Type
		if kind == "" {
			kind = engine.MsgRequest
		}
		out = append(out, line{id: m.ID, event: eventPrefix + m.ID, kind: kind, text: m.Text, when: m.When, max: 1})
	}
	for _, k := range o.c.Owner.Corrections {
		n := o.sent[k.ID]
		if n >= k.Max {
			continue
		}
		out = append(out, line{
			id: k.ID, event: fmt.Sprintf("%s%s/%d", eventPrefix, k.ID, n+1), kind: k.Type,
			text: k.Text, when: k.When, correction: true, max: k.Max,
		})
	}
	for i := range out {
		out[i].order = i
	}
	return out
}

// Fold takes one committed entry.
func (o *Owner) Fold(e engine.LogEntry) {
	o.heard(e.Event)
	claimed := claims(e.Commands)
	said := o.listen(e.Commands)
	o.pending = slices.DeleteFunc(o.pending, func(p pending) bool {
		return p.line.when != nil && !o.holds(p.line.when)
	})
	for _, l := range o.script() {
		if l.when == nil || !o.holds(l.when) || o.isPending(l.id) {
			continue
		}
		due := e.Event.AtUS + int64(o.c.Owner.ThinkSeconds)*secondUS
		switch l.when.After {
		case corpus.AfterClaim:
			if !claimed {
				continue
			}
		case corpus.AfterMessage:
			if !slices.ContainsFunc(said, func(t string) bool { return contains(t, l.when.Contains) }) {
				continue
			}
		case corpus.AfterTime:
			// Without a document the time is the owner's own; with one the
			// owner reacts to what the document shows.
			if at := int64(l.when.Seconds) * secondUS; l.when.Document == "" || due < at {
				due = max(at, e.Event.AtUS)
			}
		default:
			continue
		}
		o.pending = append(o.pending, pending{l, due, l.order})
	}
	if o.corrected >= o.patience() {
		before := len(o.pending)
		o.pending = slices.DeleteFunc(o.pending, func(p pending) bool { return p.line.correction })
		o.exhausted = o.exhausted || len(o.pending) < before
	}
}

// patience is the number of corrections that are sent.
func (o *Owner) patience() int {
	if len(o.c.Owner.Corrections) == 0 {
		return 1
	}
	return o.c.Owner.Patience
}

// heard takes the owner's own message off the list when it is in the log.
func (o *Owner) heard(ev engine.Event) {
	if ev.Kind != engine.EvOwnerMessage {
		return
	}
	i := slices.IndexFunc(o.pending, func(p pending) bool { return p.line.event == ev.ID })
	if i < 0 {
		return
	}
	l := o.pending[i].line
	o.pending = slices.Delete(o.pending, i, i+1)
	o.sent[l.id]++
	if l.correction {
		o.corrected++
	}
}

// claims reports whether an entry made a claim that stands after it.
func claims(commands []engine.Command) bool {
	stands := false
	for _, c := range commands {
		stands = c.Kind == engine.CmdClaim || stands && c.Kind != engine.CmdWithdraw
	}
	return stands
}

// listen gathers what was newly said in the room or sent to the owner.
func (o *Owner) listen(commands []engine.Command) []string {
	var out []string
	for _, c := range commands {
		if c.Kind == engine.CmdSay && c.Say != nil {
			out = append(out, c.Say.Text.S)
		}
	}
	for ; o.seen < len(o.w.sent); o.seen++ {
		if m := o.w.sent[o.seen]; m.To == o.c.Room.Owner.ID {
			out = append(out, m.Text)
		}
	}
	return out
}

func (o *Owner) isPending(id string) bool {
	return slices.ContainsFunc(o.pending, func(p pending) bool { return p.line.id == id })
}

// holds reports whether the document condition of a trigger holds now.
func (o *Owner) holds(w *corpus.When) bool {
	if w.Document == "" {
		return true
	}
	cond, known := o.wants[w]
	if !known {
		cond = newWant(w)
		if o.wants == nil {
			o.wants = map[*corpus.When]want{}
		}
		o.wants[w] = cond
	}
	got, there := o.w.at(w.Document)
	return cond.is(got, there) != cond.not
}

// want is the condition of a trigger on a document, read once.
type want struct {
	not             bool // is_not
	absent, present bool
	form            []byte // canonical JSON; nil: no value is it
}

func newWant(w *corpus.When) want {
	out, value := want{not: !w.Is.Given()}, w.Is
	if out.not {
		value = w.IsNot
	}
	tree, err := value.Tree()
	if err != nil {
		return out
	}
	switch tree {
	case corpus.Absent:
		out.absent = true
	case corpus.Present:
		out.present = true
	default:
		out.form, _ = engine.Canonical(tree) // what was decoded has a form
	}
	return out
}

func (w *want) is(got any, there bool) bool {
	switch {
	case w.absent:
		return !there
	case w.present || !there:
		return there
	}
	form, err := engine.Canonical(got)
	return err == nil && w.form != nil && bytes.Equal(form, w.form)
}

func contains(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}

// Next is the earliest message still to come; messages due at one time come
// in the order of the script.
func (o *Owner) Next() (engine.OwnerSay, bool) {
	if len(o.pending) == 0 {
		return engine.OwnerSay{}, false
	}
	p := slices.MinFunc(o.pending, func(a, b pending) int {
		return cmp.Or(cmp.Compare(a.atUS, b.atUS), cmp.Compare(a.order, b.order))
	})
	return engine.OwnerSay{
		EventID: p.line.event,
		AtUS:    p.atUS,
		Message: engine.OwnerMessage{
			ID: strings.TrimPrefix(p.line.event, eventPrefix), Type: p.line.kind, From: o.c.Room.Owner.ID, Text: engine.Plain(p.line.text),
		},
	}, true
}

// Exhausted reports that a correction was due and patience was used up.
func (o *Owner) Exhausted() bool { return o.exhausted }
