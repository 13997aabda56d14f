package runtime

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

// body is the content of a receipt's Result: the event to be, without its
// time, money and facts, and the fault that fired.
type body struct {
	Kind    engine.EventKind   `json:"kind"`
	Reply   *engine.ModelReply `json:"reply,omitempty"`
	Tool    *engine.ToolResult `json:"tool,omitempty"`
	Refusal *engine.Refusal    `json:"refusal,omitempty"`
	Fault   string             `json:"fault,omitempty"`
}

func (b *body) event() engine.Event {
	return engine.Event{Kind: b.Kind, Reply: b.Reply, Tool: b.Tool, Refusal: b.Refusal}
}

func (b *body) texts() []*engine.Text {
	ev := b.event()
	return ev.Texts()
}

func parseBody(r *store.Receipt) (*body, error) {
	var b body
	if err := json.Unmarshal(r.Result, &b); err != nil {
		return nil, fmt.Errorf("receipt of %s: %w", r.Op, err)
	}
	return &b, nil
}

// saidBy reports whether an event says what the receipt says. The fault is the
// receipt's alone.
func (b *body) saidBy(ev *engine.Event) (bool, error) {
	said := *b
	said.Fault = ""
	want, err := engine.Canonical(&said)
	if err != nil {
		return false, err
	}
	got, err := engine.Canonical(&body{Kind: ev.Kind, Reply: ev.Reply, Tool: ev.Tool, Refusal: ev.Refusal})
	return bytes.Equal(want, got), err
}

// Event ids that the runtime gives; owner messages bring their own.
const (
	startID     = "start"
	opPrefix    = "ev/"
	timerPrefix = "timer/" // then the timer's id and the revision that set it
)

// eventOfOp is the id of the one event that an operation causes.
func eventOfOp(op string) string { return opPrefix + op }

const maxErrorLine = 300

// oneLine makes s, a message from outside, printable on one line of bounded
// length, without what looks like a secret (C12). Cutting comes last, so that
// it leaves no half of a secret that is no longer seen as one.
func oneLine(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == '\u2028' || r == '\u2029' {
			return ' '
		}
		return r
	}, s)
	s = engine.Redact(strings.Join(strings.Fields(s), " "))
	if len(s) <= maxErrorLine {
		return s
	}
	cut := maxErrorLine
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "…"
}

// wordAndFault splits the termination as stored: a harness error carries the
// fault's text behind the word.
func wordAndFault(stored string) (word, fault string) {
	word, fault, _ = strings.Cut(stored, ": ")
	return word, fault
}

// faultError is a fault of the harness, a machine or a world: it closes the
// room, and its text is kept.
type faultError struct{ err error }

func (e *faultError) Error() string { return e.err.Error() }
func (e *faultError) Unwrap() error { return e.err }

func faultf(format string, args ...any) error { return &faultError{fmt.Errorf(format, args...)} }

// guarded runs f and turns a panic into a fault: one bad trial must not take
// the others with it.
func guarded[T any](what string, f func() (T, error)) (v T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = faultf("%s panicked: %v", what, p)
		}
	}()
	return f()
}
