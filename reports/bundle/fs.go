package bundle

import (
	"bytes"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

var (
	_ fs.ReadFileFS = (*Bundle)(nil)
	_ fs.ReadDirFS  = (*Bundle)(nil)
	_ fs.StatFS     = (*Bundle)(nil)
)

// ReadFile returns the bytes of a part, or of the index. They are compared with
// the part's digest again; ErrFormat if they changed since Open. An unknown path
// is fs.ErrNotExist.
func (b *Bundle) ReadFile(name string) ([]byte, error) {
	data, err := b.readFile(name)
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return data, nil
}

func (b *Bundle) readFile(name string) ([]byte, error) {
	if !fs.ValidPath(name) {
		return nil, fs.ErrInvalid
	}
	f, ok := b.find(name)
	if !ok {
		return nil, fs.ErrNotExist
	}
	return b.read(f)
}

// Open opens a part, the index or a folder. The content of a part is read and
// checked at once.
func (b *Bundle) Open(name string) (fs.File, error) {
	info, err := b.stat("open", name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		entries, err := b.ReadDir(name)
		if err != nil {
			return nil, err
		}
		return &openFolder{info: info, path: name, left: entries}, nil
	}
	data, err := b.readFile(name)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return &openPart{Reader: bytes.NewReader(data), info: info}, nil
}

// Stat describes a part, the index or a folder: mode 0644 or 0555 and the time
// 1970-01-01 00:00:00 UTC for all.
func (b *Bundle) Stat(name string) (fs.FileInfo, error) { return b.stat("stat", name) }

func (b *Bundle) stat(op, name string) (info, error) {
	if !fs.ValidPath(name) {
		return info{}, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	if f, ok := b.find(name); ok {
		return info{name: path.Base(name), size: f.Size, mode: 0o644}, nil
	}
	if from, to := b.under(name); from < to {
		return info{name: path.Base(name), mode: fs.ModeDir | 0o555}, nil
	}
	return info{}, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
}

// under is the range of the files in a folder; "." holds all.
func (b *Bundle) under(folder string) (from, to int) {
	if folder == "." {
		return 0, len(b.files)
	}
	from, _ = slices.BinarySearchFunc(b.files, folder+"/", byPath)
	to, _ = slices.BinarySearchFunc(b.files, folder+"0", byPath) // '0' comes next after '/'
	return from, to
}

// ReadDir lists a folder by name.
func (b *Bundle) ReadDir(name string) ([]fs.DirEntry, error) {
	about, err := b.stat("readdir", name)
	if err != nil {
		return nil, err
	}
	if !about.IsDir() {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrInvalid}
	}
	prefix := name + "/"
	if name == "." {
		prefix = ""
	}
	var out []fs.DirEntry
	from, to := b.under(name)
	for _, f := range b.files[from:to] {
		child, _, folder := strings.Cut(strings.TrimPrefix(f.Path, prefix), "/")
		switch {
		case !folder:
			out = append(out, info{name: child, size: f.Size, mode: 0o644})
		case len(out) == 0 || out[len(out)-1].Name() != child: // what lies in one folder stands together
			out = append(out, info{name: child, mode: fs.ModeDir | 0o555})
		}
	}
	slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return out, nil
}

// info describes a part or a folder.
type info struct {
	name string
	size int64
	mode fs.FileMode
}

func (i info) Name() string               { return i.name }
func (i info) Size() int64                { return i.size }
func (i info) Mode() fs.FileMode          { return i.mode }
func (i info) Type() fs.FileMode          { return i.mode.Type() }
func (i info) ModTime() time.Time         { return time.Unix(0, 0).UTC() }
func (i info) IsDir() bool                { return i.mode.IsDir() }
func (i info) Sys() any                   { return nil }
func (i info) Info() (fs.FileInfo, error) { return i, nil }
func (i info) String() string             { return fs.FormatFileInfo(i) }

// openPart is an open part; it can seek.
type openPart struct {
	*bytes.Reader
	info info
}

func (f *openPart) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *openPart) Close() error               { return nil }

// openFolder is an open folder.
type openFolder struct {
	info info
	path string
	left []fs.DirEntry
}

func (d *openFolder) Stat() (fs.FileInfo, error) { return d.info, nil }
func (d *openFolder) Close() error               { return nil }

// Read of a folder is an error.
func (d *openFolder) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.path, Err: fs.ErrInvalid}
}

// ReadDir returns the next n entries, or all that are left for n <= 0.
func (d *openFolder) ReadDir(n int) ([]fs.DirEntry, error) {
	if n > 0 && len(d.left) == 0 {
		return nil, io.EOF
	}
	if n <= 0 || n > len(d.left) {
		n = len(d.left)
	}
	out := d.left[:n:n]
	d.left = d.left[n:]
	return out, nil
}
