package bundle

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"
)

const (
	// encoderWindow is how far back Compress refers: what RFC 8878 asks every
	// decoder to support.
	encoderWindow = 8 << 20
	// decoderWindow is how far back Decompress lets an encoder refer: what the
	// zstd tool allows unasked, and what -22 --ultra needs.
	decoderWindow = 128 << 20
)

// Compress begins one Zstandard frame with a checksum. The bytes follow from
// what is written and from the version of the library alone, whatever the sizes
// of the writes and the number of processors. Close ends the frame and does not
// close w.
func Compress(w io.Writer) (io.WriteCloser, error) {
	enc, err := zstd.NewWriter(w,
		zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderLevel(zstd.SpeedBetterCompression),
		zstd.WithWindowSize(encoderWindow),
		zstd.WithEncoderCRC(true),
		zstd.WithZeroFrames(true),
	)
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	return enc, nil
}

// Decompress writes what one Zstandard frame holds to dst, at most `most` bytes.
// It refuses by ErrFormat an empty input, what is longer than `most`, a frame that
// is damaged, cut off, needs a dictionary or more than 128 MiB to be decoded, and
// anything before or behind it, skippable and further frames too. What was written
// before an error is not to be used. Errors of src and dst are no ErrFormat.
func Decompress(dst io.Writer, src io.Reader, most int64) error {
	in := &frame{src: bufio.NewReaderSize(src, scanBuffer)}
	header, err := in.begin()
	if err != nil {
		return err
	}
	if header.HasFCS && header.FrameContentSize > uint64(max(most, 0)) {
		return tooLong(most)
	}
	dec, err := zstd.NewReader(in,
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(decoderWindow))
	if err != nil {
		return in.fault(err)
	}
	defer dec.Close()
	out := &limited{dst: dst, left: most}
	if _, err := io.Copy(out, onlyReader{dec}); err != nil {
		switch {
		case out.err != nil:
			return fmt.Errorf("write what was compressed: %w", out.err)
		case out.full:
			return tooLong(most)
		}
		return in.fault(err)
	}
	return in.finish()
}

func tooLong(most int64) error {
	return fmt.Errorf("%w: uncompressed it has more than %d bytes", ErrFormat, most)
}

// onlyReader hides WriteTo, so that io.Copy bounds what is at hand at once.
type onlyReader struct{ io.Reader }

// limited passes on a number of bytes and then fails.
type limited struct {
	dst  io.Writer
	left int64
	full bool
	err  error // of dst
}

func (l *limited) Write(p []byte) (int, error) {
	if int64(len(p)) > l.left {
		l.full = true
		return 0, io.ErrShortWrite
	}
	n, err := l.dst.Write(p)
	l.left -= int64(n)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	l.err = err
	return n, err
}

// frame reads the bytes of one Zstandard frame and ends with it. It follows the
// headers of frame and blocks (RFC 8878, 3.1.1), so that a decoder below never
// sees what comes behind.
type frame struct {
	src      *bufio.Reader
	left     int64 // of the piece that is being passed on
	checksum bool
	last     bool  // the last block is being passed on
	ended    bool  // checksum included
	err      error // of src
}

// begin looks at the header of the frame and refuses what is none.
func (f *frame) begin() (*zstd.Header, error) {
	b, err := f.src.Peek(zstd.HeaderMaxSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read what is compressed: %w", err)
	}
	if len(b) == 0 {
		return nil, fmt.Errorf("%w: it is empty", ErrFormat)
	}
	h := new(zstd.Header)
	if err := h.Decode(b); err != nil {
		return nil, fmt.Errorf("%w: no zstd frame: %w", ErrFormat, err)
	}
	needs := h.WindowSize
	if h.SingleSegment {
		needs = h.FrameContentSize
	}
	switch {
	case h.Skippable:
		return nil, fmt.Errorf("%w: it begins with a skippable zstd frame; compress it anew as one frame", ErrFormat)
	case h.DictionaryID != 0:
		return nil, fmt.Errorf("%w: its zstd frame needs dictionary %d; compress it without one", ErrFormat, h.DictionaryID)
	case needs > decoderWindow:
		return nil, fmt.Errorf("%w: its zstd frame needs %d bytes to be decoded, more than %d; compress it without --long", ErrFormat, needs, decoderWindow)
	}
	f.left, f.checksum = int64(h.HeaderSize), h.HasCheckSum
	return h, nil
}

// Read passes on the frame.
func (f *frame) Read(p []byte) (int, error) {
	for f.left == 0 {
		if f.ended {
			return 0, io.EOF
		}
		if err := f.piece(); err != nil {
			return 0, f.keep(err)
		}
	}
	n, err := f.src.Read(p[:min(int64(len(p)), f.left)])
	f.left -= int64(n)
	if n > 0 {
		err = nil // src gives it again
	}
	return n, f.keep(err)
}

// piece finds out how long the next piece is: a block with its header, or the
// checksum.
func (f *frame) piece() error {
	if f.last {
		f.ended = true
		if f.checksum {
			f.left = 4
		}
		return nil
	}
	b, err := f.src.Peek(3)
	if err != nil {
		return err
	}
	head := uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16
	f.last = head&1 == 1
	f.left = 3 + int64(head>>3)
	if kind := head >> 1 & 3; kind == 1 { // one byte, repeated
		f.left = 3 + 1
	}
	return nil
}

// keep notes an error of src; its end within a frame is unexpected.
func (f *frame) keep(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF):
		return io.ErrUnexpectedEOF
	}
	f.err = err
	return err
}

// fault is an error of the decoder, by its cause.
func (f *frame) fault(err error) error {
	if f.err != nil {
		return fmt.Errorf("read what is compressed: %w", f.err)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: its zstd frame is cut off", ErrFormat)
	}
	return fmt.Errorf("%w: its zstd frame: %w", ErrFormat, err)
}

// finish sees that the frame is over and nothing comes behind it.
func (f *frame) finish() error {
	if !f.ended || f.left > 0 {
		return fmt.Errorf("%w: its zstd frame is cut off", ErrFormat)
	}
	switch _, err := f.src.Peek(1); {
	case err == nil:
		return fmt.Errorf("%w: bytes follow its zstd frame; a bundle is one frame", ErrFormat)
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("read what is compressed: %w", err)
	}
	return nil
}
