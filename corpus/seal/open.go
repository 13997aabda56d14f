package seal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"

	"filippo.io/age"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/engine"
)

// Opened is a sealed corpus that was opened.
type Opened struct {
	Manifest *Manifest
	Files    fs.FS // cases, and gold in the folder gold
	Corpus   *corpus.Corpus
}

// ReadManifest reads what a sealed corpus says without its key, and compares
// size and digest of the encrypted part. What else the manifest says is proved
// only by Open. The error is ErrFormat or one of r.
func ReadManifest(r io.Reader) (*Manifest, error) {
	m, _, err := readFile(r)
	return m, err
}

// Open decrypts a sealed corpus with any of the identities and compares every
// digest but those of gold; CheckGold does that.
//
// Errors: ErrFormat for a file that is not, or no longer, what Seal wrote;
// ErrKey when no identity opens it; corpus.Errors for cases that this version
// cannot read; errors of r.
func Open(r io.Reader, with ...age.Identity) (*Opened, error) {
	m, payload, err := readFile(r)
	if err != nil {
		return nil, err
	}
	archive, err := decrypt(payload, with)
	if err != nil {
		return nil, err
	}
	inside, files, err := unpack(archive)
	if err != nil {
		return nil, err
	}
	if err := compare(&m.Contents, inside, files); err != nil {
		return nil, err
	}
	fsys, err := memory(files)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	cases, err := corpus.Load(fsys)
	if err != nil {
		return nil, err
	}
	if err := compareCases(&m.Contents, cases); err != nil {
		return nil, err
	}
	return &Opened{m, fsys, cases}, nil
}

// readFile takes a file apart and holds its payload to the manifest.
func readFile(r io.Reader) (*Manifest, []byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read sealed corpus: %w", err)
	}
	if len(data) > MaxSize {
		return nil, nil, fmt.Errorf("%w: it has over %d bytes", ErrFormat, MaxSize)
	}
	line, payload, ok := bytes.Cut(data, []byte{'\n'})
	if !ok {
		return nil, nil, fmt.Errorf("%w: it has no first line", ErrFormat)
	}
	m, err := parseManifest(line)
	if err != nil {
		return nil, nil, err
	}
	if n := int64(len(payload)); n != m.Payload.Size {
		return nil, nil, fmt.Errorf("%w: %d bytes follow its manifest, which says %d", ErrFormat, n, m.Payload.Size)
	}
	if d := digest(payload); d != m.Payload.SHA256 {
		return nil, nil, fmt.Errorf("%w: what follows its manifest is %s, which says %s", ErrFormat, d, m.Payload.SHA256)
	}
	return m, payload, nil
}

func decrypt(payload []byte, with []age.Identity) ([]byte, error) {
	if len(with) == 0 {
		return nil, ErrKey
	}
	r, err := age.Decrypt(bytes.NewReader(payload), with...)
	if noMatch := (*age.NoIdentityMatchError)(nil); errors.As(err, &noMatch) {
		return nil, ErrKey
	}
	if err != nil {
		return nil, fmt.Errorf("%w: age: %w", ErrFormat, err)
	}
	archive, err := io.ReadAll(io.LimitReader(r, MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("%w: age: %w", ErrFormat, err)
	}
	if len(archive) > MaxSize {
		return nil, fmt.Errorf("%w: its archive has over %d bytes", ErrFormat, MaxSize)
	}
	return archive, nil
}

// compare holds the manifest outside to the one inside, and both to the files.
func compare(outside, inside *Contents, files []file) error {
	a, err := engine.Canonical(outside)
	if err != nil {
		return err
	}
	b, err := engine.Canonical(inside)
	if err != nil {
		return err
	}
	if !bytes.Equal(a, b) {
		return fmt.Errorf("%w: its first line is not the manifest it was sealed with", ErrFormat)
	}
	if len(files) != len(outside.Files) {
		return fmt.Errorf("%w: it holds %d files, its manifest names %d", ErrFormat, len(files), len(outside.Files))
	}
	for i, f := range files {
		if now, want := (File{f.path, int64(len(f.data)), digest(f.data)}), outside.Files[i]; now != want {
			return fmt.Errorf("%w: file %s of %d bytes, %s, is in the manifest %s of %d bytes, %s",
				ErrFormat, now.Path, now.Size, now.SHA256, want.Path, want.Size, want.SHA256)
		}
	}
	return nil
}

// compareCases holds the manifest to the cases.
func compareCases(m *Contents, cases *corpus.Corpus) error {
	whole, splits, err := splitsOf(cases)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(splits)) {
		now, want := splits[name], m.Splits[name]
		for _, id := range slices.Sorted(maps.Keys(now.Cases)) {
			if now.Cases[id] != want.Cases[id] {
				return fmt.Errorf("%w: case %s has digest %s, the manifest says %s", ErrFormat, id, now.Cases[id], orNone(want.Cases[id]))
			}
		}
		if now.Digest != want.Digest || !maps.Equal(now.Cases, want.Cases) {
			return fmt.Errorf("%w: split %s is not the one of its manifest", ErrFormat, name)
		}
	}
	if whole != m.Digest || len(splits) != len(m.Splits) {
		return fmt.Errorf("%w: the corpus is %s, its manifest says %s", ErrFormat, whole, m.Digest)
	}
	return nil
}
