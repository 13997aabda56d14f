package freeze

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
)

// wholeFile is the size up to which a file is read at once, so that its line
// ends can be compared; larger ones are streamed.
const wholeFile = 1 << 20

// buffers holds *[]byte of wholeFile+1 bytes.
var buffers = sync.Pool{New: func() any {
	b := make([]byte, wholeFile+1)
	return &b
}}

// hash fills in the digests of one file in an open folder. The file must be the
// one that was listed, before and after it is read.
func (n *node) hash(ctx context.Context, dir *os.Root, o HashOptions) error {
	if n.file.Link {
		n.file.SHA256 = digest([]byte(n.file.To))
		return nil
	}
	if sum, ok := o.Cache.get(n.file.Name, n.stat); ok {
		n.file.SHA256, n.file.LF = sum.SHA256, sum.LF
		return nil
	}
	if err := o.probe("open", n.file.Name); err != nil {
		return unreadable(n.file.Name, err)
	}
	// A pipe that took the file's place must not block.
	f, err := dir.OpenFile(n.base, os.O_RDONLY|openNonblock, 0)
	if err != nil {
		if info, lerr := dir.Lstat(n.base); lerr == nil && statOf(info) != n.stat {
			return fmt.Errorf("%s: %w", n.file.Name, ErrChanged)
		}
		return vanished(n.file.Name, err)
	}
	err = n.hashOpen(ctx, f, o)
	if cerr := f.Close(); cerr != nil {
		err = errors.Join(err, unreadable(n.file.Name, cerr))
	}
	if err != nil {
		return err
	}
	o.Cache.put(n.file.Name, n.stat, sums{n.file.SHA256, n.file.LF})
	return nil
}

func (n *node) hashOpen(ctx context.Context, f *os.File, o HashOptions) error {
	changed := fmt.Errorf("%s: %w", n.file.Name, ErrChanged)
	if err := n.unchanged(f); err != nil {
		return err
	}
	kept, ok := buffers.Get().(*[]byte)
	if !ok {
		return errors.New("buffer of another type")
	}
	defer buffers.Put(kept)
	var read int64
	if n.stat.size <= wholeFile {
		m, err := io.ReadFull(f, (*kept)[:min(int64(len(*kept)), n.stat.size+1)])
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return unreadable(n.file.Name, err)
		}
		content := (*kept)[:m]
		read = int64(m)
		n.file.SHA256 = digest(content)
		if bytes.Contains(content, crlf) {
			n.file.LF = digest(bytes.ReplaceAll(content, crlf, crlf[1:]))
		}
	} else {
		h := sha256.New()
		m, err := io.CopyBuffer(struct{ io.Writer }{h}, &bounded{ctx: ctx, r: f, left: n.stat.size + 1}, *kept)
		if err != nil {
			return unreadable(n.file.Name, err)
		}
		read = m
		n.file.SHA256 = hex.EncodeToString(h.Sum(nil))
	}
	if err := o.probe("read", n.file.Name); err != nil {
		return unreadable(n.file.Name, err)
	}
	if read != n.stat.size {
		return changed
	}
	return n.unchanged(f)
}

// unchanged compares an open file with the listing.
func (n *node) unchanged(f *os.File) error {
	info, err := f.Stat()
	switch {
	case err != nil:
		return unreadable(n.file.Name, err)
	case statOf(info) != n.stat:
		return fmt.Errorf("%s: %w", n.file.Name, ErrChanged)
	}
	return nil
}

var crlf = []byte("\r\n")

func digest(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// bounded reads until its context ends, and at most left bytes: a file that
// grows as fast as it is read must not keep the reader for ever.
type bounded struct {
	ctx  context.Context //nolint:containedctx // an io.Reader has no other way to take one
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	if b.left <= 0 {
		return 0, io.EOF
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// stat is what a file system says about a file. Equal values mean, on the
// systems that fill in all fields, that nothing was written to it in between;
// on the others that nothing is known to have been.
type stat struct {
	size         int64
	mode         fs.FileMode
	mtime, ctime int64 // nanoseconds
	dev, ino     uint64
	known        bool // dev, ino and ctime are there
}
