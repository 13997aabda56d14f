package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/agentrooms/qualify/engine"
)

type rawJSON = json.RawMessage

var emptyObject = rawJSON("{}")

// Faults of a trace; a LineError wraps exactly one of them, or a JSON error.
var (
	ErrOrder        = errors.New("record out of order")
	ErrUnknown      = errors.New("unknown record or field")
	ErrNotCanonical = errors.New("line is not canonical JSON")
	ErrChain        = errors.New("broken digest chain")
	ErrTruncated    = errors.New("trace has no end record")
)

// maxLine bounds one line of a trace in bytes; a longer one is refused.
const maxLine = 256 << 20

// LineError is a fault of a trace at a line, counted from 1.
type LineError struct {
	Line int
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("trace line %d: %v", e.Line, e.Err) }

// Unwrap returns the fault.
func (e *LineError) Unwrap() error { return e.Err }

// Record is one line of a trace; exactly one field is set.
type Record struct {
	Header *Header
	Event  *Event
	Op     *Op
	Effect *Effect
	Owner  *Owner
	End    *End
}

// Reader reads a trace strictly: the line must equal the canonical encoding of
// the record it holds, records must be numbered without a gap between one
// header and one end, and every digest must match. So any change of any bit of
// a trace is an error.
type Reader struct {
	r    *bufio.Reader
	line int
	prev string
	done bool
	err  error
}

// NewReader returns a reader of r.
func NewReader(r io.Reader) *Reader { return &Reader{r: bufio.NewReader(r)} }

// Next returns the next record, io.EOF after the end record, or a *LineError.
// The first error sticks.
func (r *Reader) Next() (Record, error) {
	if r.err != nil {
		return Record{}, r.err
	}
	rec, err := r.next()
	if err != nil {
		r.err = err
		if !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			var le *LineError
			if !errors.As(err, &le) {
				r.err = &LineError{r.line, err}
			}
		}
		return Record{}, r.err
	}
	return rec, nil
}

func (r *Reader) next() (Record, error) {
	line, err := r.readLine()
	if errors.Is(err, io.EOF) {
		if !r.done {
			return Record{}, &LineError{r.line + 1, ErrTruncated}
		}
		return Record{}, io.EOF
	}
	r.line++
	if err != nil {
		return Record{}, err
	}
	if r.done {
		return Record{}, fmt.Errorf("%w: line after the end record", ErrOrder)
	}
	rec, err := decodeLine(line)
	if err != nil {
		return Record{}, err
	}
	v := rec.view()
	if (r.line == 1) != (rec.Header != nil) {
		return Record{}, fmt.Errorf("%w: the header must be the first record, once", ErrOrder)
	}
	if v.n != nil && *v.n != r.line-1 {
		return Record{}, fmt.Errorf("%w: n is %d, want %d", ErrOrder, *v.n, r.line-1)
	}
	if err := v.checkEncoding(line); err != nil {
		return Record{}, err
	}
	if *v.prev != r.prev {
		return Record{}, fmt.Errorf("%w: prev is not the digest of the line before", ErrChain)
	}
	if err := v.checkDigest(line); err != nil {
		return Record{}, err
	}
	r.prev = *v.digest
	r.done = rec.End != nil
	return rec, nil
}

// readLine returns a line without its newline; io.EOF only when nothing is
// left.
func (r *Reader) readLine() ([]byte, error) {
	var line []byte
	for {
		part, err := r.r.ReadSlice('\n')
		line = append(line, part...)
		if len(line) > maxLine {
			return nil, fmt.Errorf("longer than %d bytes", maxLine)
		}
		switch {
		case err == nil:
			return line[:len(line)-1], nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil, io.EOF
		case errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%w: no newline at the end of the last line", ErrNotCanonical)
		default:
			return nil, err
		}
	}
}

func decodeLine(line []byte) (Record, error) {
	var kind struct {
		Rec string `json:"rec"`
	}
	if err := json.Unmarshal(line, &kind); err != nil {
		return Record{}, fmt.Errorf("not a JSON record: %w", err)
	}
	var rec Record
	var into any
	switch kind.Rec {
	case RecHeader:
		rec.Header = new(Header)
		into = rec.Header
	case RecEvent:
		rec.Event = new(Event)
		into = rec.Event
	case RecOp:
		rec.Op = new(Op)
		into = rec.Op
	case RecEffect:
		rec.Effect = new(Effect)
		into = rec.Effect
	case RecOwner:
		rec.Owner = new(Owner)
		into = rec.Owner
	case RecEnd:
		rec.End = new(End)
		into = rec.End
	default:
		return Record{}, fmt.Errorf("%w: rec %q", ErrUnknown, kind.Rec)
	}
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return Record{}, fmt.Errorf("%w: %s record: %w", ErrUnknown, kind.Rec, err)
	}
	if rec.Header != nil && rec.Header.Schema != Schema {
		return Record{}, fmt.Errorf("%w: schema %q, want %q", ErrUnknown, rec.Header.Schema, Schema)
	}
	return rec, nil
}

// view gives uniform access to the fields that every record has.
type view struct {
	rec    any
	n      *int
	prev   *string
	digest *string
}

func (r *Record) view() view {
	switch {
	case r.Header != nil:
		return view{r.Header, nil, &r.Header.Prev, &r.Header.Digest}
	case r.Event != nil:
		return view{r.Event, &r.Event.N, &r.Event.Prev, &r.Event.Digest}
	case r.Op != nil:
		return view{r.Op, &r.Op.N, &r.Op.Prev, &r.Op.Digest}
	case r.Effect != nil:
		return view{r.Effect, &r.Effect.N, &r.Effect.Prev, &r.Effect.Digest}
	case r.Owner != nil:
		return view{r.Owner, &r.Owner.N, &r.Owner.Prev, &r.Owner.Digest}
	default:
		return view{r.End, &r.End.N, &r.End.Prev, &r.End.Digest}
	}
}

func (v view) checkEncoding(line []byte) error {
	want, err := engine.Canonical(v.rec)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNotCanonical, err)
	}
	if !bytes.Equal(want, line) {
		at := 0
		for at < len(want) && at < len(line) && want[at] == line[at] {
			at++
		}
		return fmt.Errorf("%w: differs at byte %d", ErrNotCanonical, at)
	}
	return nil
}

// checkDigest compares the digest that a record states with that of its line,
// which is known to be its canonical form.
func (v view) checkDigest(line []byte) error {
	got, _, ok := lineDigest(line, *v.digest)
	if !ok || got != *v.digest {
		return fmt.Errorf("%w: digest does not match the record", ErrChain)
	}
	return nil
}
