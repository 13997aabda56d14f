package freeze

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/agentrooms/qualify/engine"
)

// Row is one row of a seal log, as stores keep it. Digest covers the others.
type Row struct {
	N      int64  `json:"n"` // from 1, without gaps
	Kind   string `json:"kind"`
	Body   []byte `json:"body"` // canonical JSON
	Prev   string `json:"prev"` // digest of the row before, "" in the first
	Digest string `json:"digest"`
}

// Log is the port to a seal log. AppendSeal gives the new row the next number
// and chains it to the last; it returns after the row is safe on disk. SealLog
// lists all rows in order. AppendSealAfter appends only if the digest of the
// last row is still head ("" for an empty log), and else is ErrConflict; Decide
// is the way to use it.
type Log interface {
	SealLog(ctx context.Context) ([]Row, error)
	AppendSeal(ctx context.Context, kind string, body []byte) (Row, error)
	AppendSealAfter(ctx context.Context, head, kind string, body []byte) (Row, error)
}

// ErrLog means that a seal log is not what was appended to it, or that two
// copies of it are none of the same log.
var ErrLog = errors.New("seal log")

// ErrConflict means that a row was appended to a seal log after it was read.
var ErrConflict = errors.New("the seal log has changed since it was read")

// RowDigest is the chain digest of a row: SHA-256 over every field but the
// digest. Stores compute the same; a test of cmd/qualify holds them to it.
func RowDigest(r Row) string {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "qualify/seal/v1\n%d\n%d:%s\n%d:", r.N, len(r.Kind), r.Kind, len(r.Body)) // a hash takes every byte
	_, _ = h.Write(r.Body)
	_, _ = fmt.Fprintf(h, "\n%s", r.Prev)
	return hex.EncodeToString(h.Sum(nil))
}

// chained is the row that follows last (the zero Row for the first).
func chained(last Row, kind string, body []byte) Row {
	r := Row{N: last.N + 1, Kind: kind, Body: bytes.Clone(body), Prev: last.Digest}
	r.Digest = RowDigest(r)
	return r
}

// Head is the digest of the last row, "" of an empty log.
func Head(rows []Row) string {
	if len(rows) == 0 {
		return ""
	}
	return rows[len(rows)-1].Digest
}

// Fault is one thing that is wrong with a log.
type Fault struct {
	N    int64  `json:"n"` // row; 0 for the log as a whole
	Text string `json:"text"`
}

// String is one line.
func (f Fault) String() string {
	if f.N == 0 {
		return f.Text
	}
	return fmt.Sprintf("row %d: %s", f.N, f.Text)
}

// checkChain finds what breaks the chain. Each row is compared with the row
// before as it stands, so one edit gives one or two faults, not one for every
// row behind it.
func checkChain(rows []Row) []Fault {
	var out []Fault
	var last Row
	for i := range rows {
		r := &rows[i]
		place := int64(i) + 1
		switch {
		case r.N != place:
			out = append(out, Fault{place, fmt.Sprintf("is numbered %d: rows were left out, doubled or reordered", r.N)})
		case r.Prev != last.Digest:
			out = append(out, Fault{place, fmt.Sprintf("follows %s, but the row before is %s", orNone(r.Prev), orNone(last.Digest))})
		}
		if d := RowDigest(*r); d != r.Digest {
			out = append(out, Fault{place, fmt.Sprintf("its digest is %s, its content gives %s: it was edited", orNone(r.Digest), d)})
		}
		if c, err := engine.CanonicalJSON(r.Body); err != nil || !bytes.Equal(c, r.Body) {
			out = append(out, Fault{place, "its body is no canonical JSON"})
		}
		last = *r
	}
	return out
}

func orNone(s string) string {
	if s == "" {
		return "no row"
	}
	return s
}

// line is a row in a file: the body stands as JSON, so that a review of the
// repository can read it.
type line struct {
	N      int64           `json:"n"`
	Kind   string          `json:"kind"`
	Body   json.RawMessage `json:"body"`
	Prev   string          `json:"prev"`
	Digest string          `json:"digest"`
}

// AppendLine appends a row as one line of JSON Lines in canonical form. A row
// whose body is no canonical JSON is ErrLog.
func AppendLine(dst []byte, r Row) ([]byte, error) {
	if c, err := engine.CanonicalJSON(r.Body); err != nil || !bytes.Equal(c, r.Body) {
		return nil, fmt.Errorf("%w: row %d: its body is no canonical JSON", ErrLog, r.N)
	}
	dst, err := engine.AppendCanonical(dst, line{r.N, r.Kind, r.Body, r.Prev, r.Digest})
	if err != nil {
		return nil, fmt.Errorf("%w: row %d: %w", ErrLog, r.N, err)
	}
	return append(dst, '\n'), nil
}

// Export writes rows as JSON Lines.
func Export(w io.Writer, rows []Row) error {
	for i := range rows {
		b, err := AppendLine(nil, rows[i])
		if err != nil {
			return err
		}
		if _, err := w.Write(b); err != nil {
			return err
		}
	}
	return nil
}

// ParseRows reads what Export wrote. Every line must be the canonical form of
// its row and end with a line end, so that no byte can change unseen; the chain
// is VerifyLog's. Errors are ErrLog and name the line.
func ParseRows(data []byte) ([]Row, error) {
	rows := []Row{}
	for n := 1; len(data) > 0; n++ {
		end := bytes.IndexByte(data, '\n')
		if end < 0 {
			return nil, fmt.Errorf("%w: line %d has no line end: it is cut off, or was being written when the machine stopped; if nothing refers to it, remove its %d bytes", ErrLog, n, len(data))
		}
		var l line
		if err := engine.DecodeCanonical(data[:end], &l); err != nil {
			return nil, fmt.Errorf("%w: line %d: %w", ErrLog, n, err)
		}
		rows = append(rows, Row{l.N, l.Kind, bytes.Clone(l.Body), l.Prev, l.Digest})
		data = data[end+1:]
	}
	return rows, nil
}

// Comparison says how two copies of a log relate.
type Comparison struct {
	Common int  // rows that both begin with
	A, B   int  // rows that only the one, only the other has behind those
	Forked bool // both go on after Common: they are two logs
}

// Compare compares two copies of a log row by row.
func Compare(a, b []Row) Comparison {
	n := 0
	for n < len(a) && n < len(b) && equalRows(a[n], b[n]) {
		n++
	}
	c := Comparison{Common: n, A: len(a) - n, B: len(b) - n}
	c.Forked = c.A > 0 && c.B > 0
	return c
}

func equalRows(a, b Row) bool {
	return a.N == b.N && a.Kind == b.Kind && a.Prev == b.Prev && a.Digest == b.Digest && bytes.Equal(a.Body, b.Body)
}
