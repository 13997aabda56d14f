package seal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"filippo.io/age"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/engine"
)

// MaxSize bounds a sealed corpus, and its archive, in bytes: both are held in
// memory.
const MaxSize = 1 << 28

// Content is what Seal takes.
type Content struct {
	Files fs.FS             // as Snapshot gives them
	Gold  map[string]string // case id to the digest of its gold, "sha256:…"; only for cases there are
	Lint  Lint
}

// Seal writes the sealed form of a corpus that any of the recipients can open.
// The encryption draws fresh keys, so sealing the same twice gives two files.
//
// Errors: corpus.Errors for cases that cannot be loaded; contents that do not
// fit together; recipients of kinds that age does not mix; errors of w.
func Seal(w io.Writer, c Content, to ...age.Recipient) (*Manifest, error) {
	if len(to) == 0 {
		return nil, errors.New("seal corpus: no recipient is given")
	}
	contents, files, err := contentsOf(c)
	if err != nil {
		return nil, err
	}
	archive, err := pack(contents, files)
	if err != nil {
		return nil, err
	}
	payload, err := encrypt(archive, to)
	if err != nil {
		return nil, err
	}
	m := &Manifest{Contents: *contents, Payload: Payload{Size: int64(len(payload)), SHA256: digest(payload)}}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("seal corpus: %w", err)
	}
	line, err := engine.Canonical(m)
	if err != nil {
		return nil, fmt.Errorf("seal corpus: %w", err)
	}
	line = append(line, '\n')
	if len(archive) > MaxSize || len(line)+len(payload) > MaxSize {
		return nil, fmt.Errorf("seal corpus: it has over %d bytes", MaxSize)
	}
	if _, err := w.Write(append(line, payload...)); err != nil {
		return nil, fmt.Errorf("seal corpus: %w", err)
	}
	return m, nil
}

// contentsOf digests a corpus.
func contentsOf(c Content) (*Contents, []file, error) {
	cases, err := corpus.Load(c.Files)
	if err != nil {
		return nil, nil, err
	}
	files, err := filesOf(c.Files)
	if err != nil {
		return nil, nil, fmt.Errorf("seal corpus: %w", err)
	}
	out := &Contents{Schema: Schema, Files: []File{}, Lint: c.Lint}
	if out.Lint.Rules == nil {
		out.Lint.Rules = map[string]int{}
	}
	for _, f := range files {
		out.Files = append(out.Files, File{f.path, int64(len(f.data)), digest(f.data)})
	}
	if out.Digest, out.Splits, err = splitsOf(cases); err != nil {
		return nil, nil, err
	}
	for id, d := range c.Gold {
		k, ok := cases.Case(id)
		if !ok {
			return nil, nil, fmt.Errorf("seal corpus: gold of %s, which is no case", id)
		}
		out.Splits[k.Split].Gold[id] = d
	}
	return out, files, nil
}

// splitsOf digests the cases of a corpus, without gold.
func splitsOf(c *corpus.Corpus) (whole string, splits map[string]Split, err error) {
	splits = map[string]Split{}
	for _, k := range c.Cases {
		s, ok := splits[k.Split]
		if !ok {
			s = Split{Cases: map[string]string{}, Gold: map[string]string{}}
			if s.Digest, err = c.SplitDigest(k.Split); err != nil {
				return "", nil, err
			}
			splits[k.Split] = s
		}
		if s.Cases[k.ID], err = k.Digest(); err != nil {
			return "", nil, err
		}
	}
	whole, err = c.Digest()
	return whole, splits, err
}

func encrypt(archive []byte, to []age.Recipient) ([]byte, error) {
	var b bytes.Buffer
	w, err := age.Encrypt(&b, to...)
	if err != nil {
		return nil, fmt.Errorf("encrypt corpus: %w", err)
	}
	if _, err := w.Write(archive); err != nil {
		return nil, fmt.Errorf("encrypt corpus: %w", err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("encrypt corpus: %w", err)
	}
	return b.Bytes(), nil
}

func digest(b []byte) string { return "sha256:" + engine.Digest(b) }
