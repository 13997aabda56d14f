package trace

import (
	"errors"
	"fmt"
	"io"

	"github.com/agentrooms/qualify/engine"
)

// Writer chains records and writes them as canonical JSON Lines. It fills in
// rec, n, prev and digest of every record; whatever the caller put there is
// overwritten, so the same records always give the same bytes.
//
// The first error sticks: every later call returns it.
type Writer struct {
	w    io.Writer
	n    int
	prev string
	open bool
	done bool
	err  error
	line []byte // of the last record
	kept *Trace // the records written, with Keep
}

// Keep has the writer keep every record it writes, as Read would return it.
// Records share what the caller handed in, which must not be changed. Call it
// before the header.
func (w *Writer) Keep() { w.kept = new(Trace) }

// Trace is what was written since Keep, once the end is; nil before.
func (w *Writer) Trace() *Trace {
	if !w.done || w.err != nil {
		return nil
	}
	return w.kept
}

// NewWriter returns a writer to w. It does not buffer.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w} }

// Header opens the trace. It must be the first record, once.
func (w *Writer) Header(h Header) error {
	if w.err == nil && (w.open || w.done) {
		w.err = errors.New("trace writer: second header")
	}
	if w.err != nil {
		return w.err
	}
	h.Rec, h.Schema, h.Prev, h.Digest = RecHeader, Schema, "", ""
	w.open = true
	return w.put(Record{Header: &h}, &h.Digest)
}

// Event appends an event. A nil body is written as an empty object.
func (w *Writer) Event(e Event) error {
	e.Rec, e.Digest = RecEvent, ""
	if e.Body == nil {
		e.Body = emptyObject
	}
	return w.next(Record{Event: &e}, &e.N, &e.Prev, &e.Digest)
}

// Op appends an operation.
func (w *Writer) Op(o Op) error {
	o.Rec, o.Digest = RecOp, ""
	return w.next(Record{Op: &o}, &o.N, &o.Prev, &o.Digest)
}

// Effect appends an effect record. Nil args are written as an empty object.
func (w *Writer) Effect(e Effect) error {
	e.Rec, e.Digest = RecEffect, ""
	if e.Args == nil {
		e.Args = emptyObject
	}
	return w.next(Record{Effect: &e}, &e.N, &e.Prev, &e.Digest)
}

// Owner appends an owner message.
func (w *Writer) Owner(o Owner) error {
	o.Rec, o.Digest = RecOwner, ""
	return w.next(Record{Owner: &o}, &o.N, &o.Prev, &o.Digest)
}

// End closes the trace and returns its digest, which is the digest of the end
// record and covers every line before it.
func (w *Writer) End(e End) (string, error) {
	e.Rec, e.Digest = RecEnd, ""
	if e.Documents == nil {
		e.Documents = map[string]rawJSON{}
	}
	if e.Messages == nil {
		e.Messages = []Message{}
	}
	if e.Artifacts == nil {
		e.Artifacts = []Artifact{}
	}
	if err := w.next(Record{End: &e}, &e.N, &e.Prev, &e.Digest); err != nil {
		return "", err
	}
	w.done = true
	return w.prev, nil
}

func (w *Writer) next(rec Record, n *int, prev, digest *string) error {
	if w.err == nil && !w.open {
		w.err = errors.New("trace writer: no header yet")
	}
	if w.err == nil && w.done {
		w.err = errors.New("trace writer: record after the end")
	}
	if w.err != nil {
		return w.err
	}
	w.n++
	*n, *prev = w.n, w.prev
	return w.put(rec, digest)
}

// noDigest holds the place of a digest until it is known.
const noDigest = "0000000000000000000000000000000000000000000000000000000000000000"

// put writes the line of rec and fills in its digest, which covers the record
// without it.
func (w *Writer) put(rec Record, digest *string) error {
	*digest = noDigest
	line, err := engine.AppendCanonical(w.line[:0], rec.view().rec)
	if err == nil {
		line = append(line, '\n')
		w.line = line
		line = line[:len(line)-1]
		if d, at, ok := lineDigest(line, noDigest); ok {
			copy(line[at:], d)
			*digest, w.prev = d, d
			_, err = w.w.Write(w.line)
		} else {
			err = errors.New("a record without digest")
		}
	}
	if err == nil && w.kept != nil {
		err = w.kept.keep(rec, line)
	}
	if err != nil {
		w.err = fmt.Errorf("trace writer: record %d: %w", w.n, err)
	}
	return w.err
}
