package freeze

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Origin is the first line of every checkpoint of a seal log.
const Origin = "github.com/agentrooms/qualify/seal-log"

// Checkpoint is a signed statement about the first Size rows of a log: the
// Merkle tree hash (RFC 6962) over their lines, as Export writes them without
// the line end.
type Checkpoint struct {
	Size   int64
	Root   tlog.Hash
	Signed bool // by a known key
}

// text is the body of a checkpoint as C2SP tlog-checkpoint has it: origin, size
// and root, one a line.
func (c Checkpoint) text() string {
	return Origin + "\n" + strconv.FormatInt(c.Size, 10) + "\n" + base64.StdEncoding.EncodeToString(c.Root[:]) + "\n"
}

// tree is the Merkle tree over the rows of a log.
type tree struct {
	size   int64
	stored []tlog.Hash
}

func newTree() *tree { return new(tree) }

// ReadHashes implements tlog.HashReader.
func (t *tree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, 0, len(indexes))
	for _, i := range indexes {
		if i < 0 || i >= int64(len(t.stored)) {
			return nil, fmt.Errorf("hash %d is not in the tree", i)
		}
		out = append(out, t.stored[i])
	}
	return out, nil
}

func (t *tree) add(r *Row) error {
	if b, err := AppendLine(nil, *r); err == nil {
		return t.addRecord(b[:len(b)-1])
	}
	return t.addRecord(r.Body) // a fault of the chain already; the tree goes on
}

func (t *tree) addRecord(data []byte) error {
	hs, err := tlog.StoredHashes(t.size, data, t)
	if err != nil {
		return fmt.Errorf("tree: %w", err)
	}
	t.stored = append(t.stored, hs...)
	t.size++
	return nil
}

func (t *tree) root(size int64) (tlog.Hash, error) {
	if size > t.size {
		return tlog.Hash{}, fmt.Errorf("%w: has %d rows, not %d", ErrLog, t.size, size)
	}
	h, err := tlog.TreeHash(size, t)
	if err != nil {
		return tlog.Hash{}, fmt.Errorf("tree: %w", err)
	}
	return h, nil
}

func treeOf(rows []Row) (*tree, error) {
	t := newTree()
	for i := range rows {
		if err := t.add(&rows[i]); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// Sign makes a checkpoint over all rows: a note in the format of
// golang.org/x/mod/sumdb/note, whose text is a C2SP checkpoint. A log with
// faults is not signed.
func Sign(rows []Row, key note.Signer) ([]byte, error) {
	if v := VerifyLog(rows); len(v.Faults) > 0 {
		return nil, fmt.Errorf("%w: %s; a log with faults is not signed", ErrLog, v.Faults[0])
	}
	t, err := treeOf(rows)
	if err != nil {
		return nil, err
	}
	root, err := t.root(t.size)
	if err != nil {
		return nil, err
	}
	msg, err := note.Sign(&note.Note{Text: Checkpoint{Size: t.size, Root: root}.text()}, key)
	if err != nil {
		return nil, fmt.Errorf("sign checkpoint: %w", err)
	}
	return msg, nil
}

// CheckCheckpoint finds out whether a log still begins with the rows that a
// checkpoint was signed over: a log that was cut off is shorter, one that was
// edited or forked has another root. Errors are ErrLog.
func CheckCheckpoint(rows []Row, msg []byte, keys ...note.Verifier) (Checkpoint, error) {
	c, err := openCheckpoint(msg, keys)
	if err != nil {
		return Checkpoint{}, err
	}
	if int64(len(rows)) < c.Size {
		return c, fmt.Errorf("%w: the checkpoint covers %d rows, the log has %d: it was cut off, or is an older copy", ErrLog, c.Size, len(rows))
	}
	t, err := treeOf(rows[:c.Size])
	if err != nil {
		return c, err
	}
	root, err := t.root(c.Size)
	if err != nil {
		return c, err
	}
	if root != c.Root {
		return c, fmt.Errorf("%w: the first %d rows are not those of the checkpoint: the log was edited, or forked before its end", ErrLog, c.Size)
	}
	return c, nil
}

// openCheckpoint reads a checkpoint. With keys, one of them must have signed
// it; without, its signatures are not judged.
func openCheckpoint(msg []byte, keys []note.Verifier) (Checkpoint, error) {
	n, err := note.Open(msg, note.VerifierList(keys...))
	var unknown *note.UnverifiedNoteError
	switch {
	case errors.As(err, &unknown) && len(keys) == 0:
		n = unknown.Note
	case errors.As(err, &unknown):
		return Checkpoint{}, fmt.Errorf("%w: checkpoint: not signed by %s", ErrLog, keys[0].Name())
	case err != nil:
		return Checkpoint{}, fmt.Errorf("%w: checkpoint: %w", ErrLog, err)
	}
	for _, sig := range slices.Concat(n.Sigs, n.UnverifiedSigs) {
		// The library takes any spelling of a signature's base64.
		if _, err := base64.StdEncoding.Strict().DecodeString(sig.Base64); err != nil {
			return Checkpoint{}, fmt.Errorf("%w: checkpoint: signature of %s: %w", ErrLog, sig.Name, err)
		}
	}
	lines := strings.Split(n.Text, "\n")
	if len(lines) != 4 || lines[0] != Origin {
		return Checkpoint{}, fmt.Errorf("%w: checkpoint: is none of a seal log", ErrLog)
	}
	c := Checkpoint{Signed: len(n.Sigs) > 0}
	if c.Size, err = strconv.ParseInt(lines[1], 10, 64); err != nil || c.Size < 0 {
		return Checkpoint{}, fmt.Errorf("%w: checkpoint: size %q is no number of rows", ErrLog, lines[1])
	}
	root, err := base64.StdEncoding.Strict().DecodeString(lines[2])
	if err != nil || len(root) != len(c.Root) {
		return Checkpoint{}, fmt.Errorf("%w: checkpoint: root %q is no hash", ErrLog, lines[2])
	}
	copy(c.Root[:], root)
	if c.text() != n.Text {
		return Checkpoint{}, fmt.Errorf("%w: checkpoint: not in canonical form", ErrLog)
	}
	return c, nil
}

// NewKey makes an Ed25519 key for checkpoints: the text of the private key and
// of the key that verifies. Name must not hold spaces or '+'.
func NewKey(name string, random io.Reader) (private, public string, err error) {
	private, public, err = note.GenerateKey(random, name)
	if err == nil {
		_, err = note.NewVerifier(public)
	}
	if err != nil {
		return "", "", fmt.Errorf("key %q: %w; a name has no space and no '+'", name, err)
	}
	return private, public, nil
}
