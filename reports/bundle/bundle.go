package bundle

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
)

// Bundle is an open bundle. It holds the index only; contents are read when
// asked for. It is as safe for concurrent use as the reader below it.
type Bundle struct {
	r      io.ReaderAt
	files  []file // by path, the index among them
	index  *index
	digest string
}

// file is a part, or the index, and where its content stands.
type file struct {
	part
	offset int64
}

// Open reads a bundle of size bytes once, from beginning to end, and refuses
// it by ErrFormat unless it is exactly what a Writer makes of its parts: every
// header, every padding, the order, the index, every part's size and digest, the
// end. An error of the reader is no ErrFormat. The memory it takes grows with the
// number of parts, not with their sizes.
func Open(r io.ReaderAt, size int64) (*Bundle, error) {
	if size < 0 || size%blockSize != 0 {
		return nil, fmt.Errorf("%w: %d bytes are no multiple of %d: cut off, or more than a bundle", ErrFormat, size, blockSize)
	}
	s := &scanner{
		src:  bufio.NewReaderSize(io.NewSectionReader(r, 0, size), int(min(size, scanBuffer))),
		size: size,
		sum:  sha256.New(),
	}
	b := &Bundle{r: r}
	if err := b.scan(s); err != nil {
		return nil, err
	}
	b.digest = "sha256:" + hex.EncodeToString(s.sum.Sum(nil))
	return b, nil
}

// scan reads all entries and the end.
func (b *Bundle) scan(s *scanner) error {
	seen := newNames()
	var parts []part
	for {
		name, size, err := s.header()
		if err != nil {
			return err
		}
		f := file{part: part{Path: name, Size: size}, offset: s.at}
		if name == IndexName {
			data, err := s.indexData(size, parts)
			if err != nil {
				return err
			}
			if b.index, err = readIndex(data, parts); err != nil {
				return fault(IndexName, err)
			}
			sum := sha256.Sum256(data)
			f.SHA256 = hex.EncodeToString(sum[:])
			at, _ := slices.BinarySearchFunc(b.files, IndexName, byPath)
			b.files = slices.Insert(b.files, at, f)
			return s.end()
		}
		if err := seen.add(name); err != nil {
			return fault(name, err)
		}
		if f.SHA256, err = s.content(name, size); err != nil {
			return err
		}
		b.files = append(b.files, f)
		parts = append(parts, f.part)
	}
}

// Names are the paths of all parts in byte order, without the index.
func (b *Bundle) Names() []string {
	out := make([]string, len(b.index.Parts))
	for i := range b.index.Parts {
		out[i] = b.index.Parts[i].Path
	}
	return out
}

// Withheld are the words for what was left out on purpose.
func (b *Bundle) Withheld() []string { return slices.Clone(b.index.Withheld) }

// Has reports whether a word is among Withheld.
func (b *Bundle) Has(word string) bool { return slices.Contains(b.index.Withheld, word) }

// Digest is "sha256:" and the SHA-256 of the bundle's bytes, uncompressed.
func (b *Bundle) Digest() string { return b.digest }

// find returns the part, or index, of a path.
func (b *Bundle) find(name string) (*file, bool) {
	i, ok := slices.BinarySearchFunc(b.files, name, byPath)
	if !ok {
		return nil, false
	}
	return &b.files[i], true
}

func byPath(f file, path string) int { return strings.Compare(f.Path, path) }

// read reads a part and compares it with its digest again: what lies below may
// have changed since Open.
func (b *Bundle) read(f *file) ([]byte, error) {
	if int64(int(f.Size)) != f.Size {
		return nil, fmt.Errorf("%d bytes do not fit in memory", f.Size)
	}
	data := make([]byte, f.Size)
	if n, err := b.r.ReadAt(data, f.offset); n < len(data) {
		if err == nil || errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%w: its bytes changed since the bundle was opened", ErrFormat)
		}
		return nil, err
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != f.SHA256 {
		return nil, fmt.Errorf("%w: its bytes changed since the bundle was opened", ErrFormat)
	}
	return data, nil
}

const scanBuffer = 64 << 10

// scanner reads a bundle block by block and digests all of it.
type scanner struct {
	src      *bufio.Reader
	at, size int64
	sum      hash.Hash
}

// next returns the following n bytes, at most scanBuffer; they are good until the
// next call.
func (s *scanner) next(n int) ([]byte, error) {
	if int64(n) > s.size-s.at {
		return nil, fmt.Errorf("%w: it ends at byte %d in the middle", ErrFormat, s.size)
	}
	b, err := s.src.Peek(n)
	switch {
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("%w: it ends at byte %d in the middle", ErrFormat, s.at+int64(len(b)))
	case err != nil:
		return nil, fmt.Errorf("read the bundle at byte %d: %w", s.at, err)
	}
	if _, err := s.src.Discard(n); err != nil {
		return nil, fmt.Errorf("read the bundle at byte %d: %w", s.at, err)
	}
	s.sum.Write(b)
	s.at += int64(n)
	return b, nil
}

// header reads the next header block and sees that its content can follow.
func (s *scanner) header() (path string, size int64, err error) {
	if s.at == s.size {
		return "", 0, fmt.Errorf("%w: it ends at byte %d without %s", ErrFormat, s.at, IndexName)
	}
	at := s.at
	b, err := s.next(blockSize)
	if err != nil {
		return "", 0, err
	}
	if zero(b) {
		return "", 0, fmt.Errorf("%w: zeros at byte %d and no %s before", ErrFormat, at, IndexName)
	}
	path, size, err = parseHeader((*[blockSize]byte)(b))
	switch {
	case err != nil && path == "":
		return "", 0, fmt.Errorf("%w: at byte %d: %w", ErrFormat, at, err)
	case err != nil:
		return "", 0, fault(path, err)
	case size+padding(size) > s.size-s.at:
		return "", 0, fault(path, fmt.Errorf("it should have %d bytes; %d are left in all", size, s.size-s.at))
	}
	return path, size, nil
}

// content reads a part and its padding and returns the SHA-256 in hex.
func (s *scanner) content(path string, size int64) (string, error) {
	sum := sha256.New()
	for left := size; left > 0; {
		b, err := s.next(int(min(left, scanBuffer)))
		if err != nil {
			return "", err
		}
		sum.Write(b)
		left -= int64(len(b))
	}
	return hex.EncodeToString(sum.Sum(nil)), s.padded(path, size)
}

// padded reads the padding after content of a size.
func (s *scanner) padded(path string, size int64) error {
	b, err := s.next(int(padding(size)))
	if err == nil && !zero(b) {
		err = fault(path, errors.New("it is padded with other bytes than zeros"))
	}
	return err
}

// indexData reads the index of these parts.
func (s *scanner) indexData(size int64, parts []part) ([]byte, error) {
	most, err := longest(parts)
	if err != nil {
		return nil, err
	}
	if size > most {
		return nil, fault(IndexName, fmt.Errorf("it has %d bytes, too many for the %d parts before it; parts are missing", size, len(parts)))
	}
	data := make([]byte, 0, size)
	for int64(len(data)) < size {
		b, err := s.next(int(min(size-int64(len(data)), scanBuffer)))
		if err != nil {
			return nil, err
		}
		data = append(data, b...)
	}
	return data, s.padded(IndexName, size)
}

// end reads the two blocks of zeros and wants nothing behind them.
func (s *scanner) end() error {
	switch left := s.size - s.at; {
	case left < int64(len(zeros)):
		return fmt.Errorf("%w: it ends without the %d zeros behind %s", ErrFormat, len(zeros), IndexName)
	case left > int64(len(zeros)):
		return fmt.Errorf("%w: %d bytes follow %s; it is the last entry, with %d zeros behind it", ErrFormat, left, IndexName, len(zeros))
	}
	b, err := s.next(len(zeros))
	if err == nil && !zero(b) {
		err = fmt.Errorf("%w: other bytes than zeros end it", ErrFormat)
	}
	return err
}

// fault is ErrFormat at a path.
func fault(path string, err error) error { return fmt.Errorf("%w: %q: %w", ErrFormat, path, err) }

func zero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
