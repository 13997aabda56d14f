package bundle

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
)

// ErrFormat means bytes that are no bundle in canonical form, or a part that
// cannot be in one. The error that wraps it names the path and what is wrong.
var ErrFormat = errors.New("not a bundle in canonical form")

var errClosed = errors.New("the bundle is closed")

var zeros [2 * blockSize]byte

// Writer writes a bundle. After an error every further call gives that error,
// so no bundle is ever complete with a part missing. Not for concurrent use.
type Writer struct {
	w     io.Writer
	names *names
	index *index
	err   error
}

// NewWriter begins a bundle. Withheld are the words for what is left out on
// purpose: Bodies or none; another one is an error of the first call.
func NewWriter(w io.Writer, withheld ...string) *Writer {
	x, err := newIndex(withheld)
	return &Writer{w: w, names: newNames(), index: x, err: err}
}

// Add writes a part. Paths go in byte order. A path that breaks a rule of the
// package comment is refused by ErrFormat.
func (w *Writer) Add(path string, content []byte) error {
	if w.err == nil {
		w.err = w.add(path, content)
	}
	return w.err
}

func (w *Writer) add(path string, content []byte) error {
	err := w.names.add(path)
	if err == nil {
		sum := sha256.Sum256(content)
		err = w.index.add(part{Path: path, SHA256: hex.EncodeToString(sum[:]), Size: int64(len(content))})
	}
	if err != nil {
		return fmt.Errorf("%w: %q: %w", ErrFormat, path, err)
	}
	return w.entry(path, content)
}

// entry writes header, content and padding.
func (w *Writer) entry(path string, content []byte) error {
	header, err := entryHeader(path, int64(len(content)))
	if err != nil {
		return fmt.Errorf("%w: %q: %w", ErrFormat, path, err)
	}
	for _, b := range [][]byte{header[:], content, zeros[:padding(int64(len(content)))]} {
		if _, err := w.w.Write(b); err != nil {
			return fmt.Errorf("write %q to the bundle: %w", path, err)
		}
	}
	return nil
}

// Close writes the index and the end. It does not close the writer below.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	if w.err = w.finish(); w.err != nil {
		return w.err
	}
	w.err = errClosed
	return nil
}

func (w *Writer) finish() error {
	data, err := w.index.encode()
	if err != nil {
		return err
	}
	if err := w.entry(IndexName, data); err != nil {
		return err
	}
	if _, err := w.w.Write(zeros[:]); err != nil {
		return fmt.Errorf("write the end of the bundle: %w", err)
	}
	return nil
}

// padding is how many zeros follow content of a size.
func padding(size int64) int64 { return -size & (blockSize - 1) }
