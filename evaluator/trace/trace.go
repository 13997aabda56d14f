package trace

import (
	"bytes"
	"errors"
	"io"
)

// Trace is a whole trace in memory, each kind of record in trace order. The
// line of a record in its file is N+1.
type Trace struct {
	Header  Header
	Events  []Event
	Ops     []Op
	Effects []Effect
	Owners  []Owner
	End     End
}

// Key is the trial key of the trace: case/arm/trial.
func (t *Trace) Key() string { return Key(t.Header.Case, t.Header.Arm, t.Header.Trial) }

// Digest is the digest of the end record; it covers the whole trace.
func (t *Trace) Digest() string { return t.End.Digest }

// Read reads and verifies a whole trace. Errors are *LineError.
func Read(r io.Reader) (*Trace, error) {
	t := new(Trace)
	rd := NewReader(r)
	for {
		rec, err := rd.Next()
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err != nil {
			return nil, err
		}
		t.add(rec)
	}
}

func (t *Trace) add(rec Record) {
	switch {
	case rec.Header != nil:
		t.Header = *rec.Header
	case rec.Event != nil:
		t.Events = append(t.Events, *rec.Event)
	case rec.Op != nil:
		t.Ops = append(t.Ops, *rec.Op)
	case rec.Effect != nil:
		t.Effects = append(t.Effects, *rec.Effect)
	case rec.Owner != nil:
		t.Owners = append(t.Owners, *rec.Owner)
	case rec.End != nil:
		t.End = *rec.End
	}
}

// keep adds a record that was written as line, as it would be read from there.
// Most are what they were. One is read back if the line has not, verbatim, what
// the record has: JSON that had to be rewritten, or text that was no UTF-8.
func (t *Trace) keep(rec Record, line []byte) error {
	same := !bytes.Contains(line, []byte(replacement))
	switch {
	case rec.Event != nil:
		same = same && verbatim(line, `"body":`, rec.Event.Body)
	case rec.Effect != nil:
		same = same && verbatim(line, `"args":`, rec.Effect.Args)
	case rec.End != nil:
		same = false
	}
	if !same {
		read, err := decodeLine(line)
		if err != nil {
			return err
		}
		rec = read
	}
	t.add(rec)
	return nil
}

// replacement stands in a line for each byte that was not UTF-8.
const replacement = "\uFFFD"

// verbatim reports whether a member of the record has this value, byte for
// byte.
func verbatim(line []byte, member string, value []byte) bool {
	at := topMember(line, member)
	return at >= 0 && bytes.HasPrefix(line[at+len(member):], value)
}

// Info sums up a verified trace.
type Info struct {
	Header      Header
	Records     int            // lines, header and end included
	ByRec       map[string]int // lines by record kind
	Termination string
	AtUS        int64  // trial time of the end
	Digest      string // of the end record
	RoomDigest  string // head of the room's chain
	Money       Money  // of the room at its close
}

// Verify reads a whole trace without keeping it. Errors are *LineError and
// name the first line that is wrong.
func Verify(r io.Reader) (Info, error) {
	info := Info{ByRec: map[string]int{}}
	rd := NewReader(r)
	for {
		rec, err := rd.Next()
		if errors.Is(err, io.EOF) {
			return info, nil
		}
		if err != nil {
			return Info{}, err
		}
		info.Records++
		switch {
		case rec.Header != nil:
			info.Header = *rec.Header
			info.ByRec[RecHeader]++
		case rec.Event != nil:
			info.ByRec[RecEvent]++
		case rec.Op != nil:
			info.ByRec[RecOp]++
		case rec.Effect != nil:
			info.ByRec[RecEffect]++
		case rec.Owner != nil:
			info.ByRec[RecOwner]++
		case rec.End != nil:
			info.ByRec[RecEnd]++
			info.Termination, info.AtUS = rec.End.Termination, rec.End.AtUS
			info.Digest, info.RoomDigest, info.Money = rec.End.Digest, rec.End.RoomDigest, rec.End.Money
		}
	}
}
