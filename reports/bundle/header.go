package bundle

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

const (
	blockSize = 512
	maxSize   = 1<<33 - 1 // eleven octal digits
	nameSize  = 100
	prefixMax = 155
)

// field is one field of a ustar header.
type field struct {
	name     string
	from, to int
}

// fields are all fields of a header block. The checksum is the last: it differs
// with any other, which then says more.
var fields = [...]field{
	{"name", 0, 100},
	{"mode", 100, 108},
	{"owner", 108, 116},
	{"group", 116, 124},
	{"size", 124, 136},
	{"time", 136, 148},
	{"type", 156, 157},
	{"link target", 157, 257},
	{"magic", 257, 263},
	{"version", 263, 265},
	{"owner name", 265, 297},
	{"group name", 297, 329},
	{"major device", 329, 337},
	{"minor device", 337, 345},
	{"path prefix", 345, 500},
	{"reserved", 500, 512},
	{"checksum", 148, 156},
}

// entryHeader is the header block of a part.
func entryHeader(path string, size int64) (*[blockSize]byte, error) {
	if size < 0 || size > maxSize {
		return nil, fmt.Errorf("it has %d bytes; a part is smaller than 8 GiB", size)
	}
	prefix, name, ok := split(path)
	if !ok {
		return nil, fmt.Errorf("a path has at most %d bytes, or a slash with at most %d before it and %d behind it; give it a shorter name",
			nameSize, prefixMax, nameSize)
	}
	var b [blockSize]byte
	copy(b[0:], name)
	copy(b[100:], "0000644\x00")
	copy(b[108:], "0000000\x00")
	copy(b[116:], "0000000\x00")
	copy(b[124:], fmt.Sprintf("%011o\x00", size))
	copy(b[136:], "00000000000\x00")
	b[156] = '0'
	copy(b[257:], "ustar\x0000")
	copy(b[329:], "0000000\x00")
	copy(b[337:], "0000000\x00")
	copy(b[345:], prefix)
	copy(b[148:], fmt.Sprintf("%06o\x00 ", checksum(&b)))
	return &b, nil
}

// checksum adds the bytes of a header, its checksum counted as spaces.
func checksum(b *[blockSize]byte) int {
	sum := 8 * int(' ')
	for i, c := range b {
		if i < 148 || i >= 156 {
			sum += int(c)
		}
	}
	return sum
}

// split parts a path into the two fields of a header, as GNU tar does.
func split(path string) (prefix, name string, ok bool) {
	if len(path) <= nameSize {
		return "", path, true
	}
	i := strings.LastIndexByte(path[:min(len(path), prefixMax+1)], '/')
	if i <= 0 || len(path)-i-1 > nameSize {
		return "", "", false
	}
	return path[:i], path[i+1:], true
}

// kinds names the types of entries that are no parts.
var kinds = map[byte]string{
	0: "an entry of the old tar format", '1': "a hard link", '2': "a symbolic link", '3': "a character device",
	'4': "a block device", '5': "a folder", '6': "a named pipe", '7': "a contiguous file",
	'x': "a PAX record", 'g': "a global PAX record", 'L': "a GNU long name", 'K': "a GNU long link",
	'S': "a sparse file", 'V': "a volume label", 'M': "a continued file", 'D': "a GNU folder",
}

// parseHeader reads a header block and refuses it unless it is the one that
// entryHeader makes of what it says. The path is returned with an error too, as
// far as it can be read. Whether it is a good path is not looked at.
func parseHeader(b *[blockSize]byte) (path string, size int64, err error) {
	if string(b[257:265]) != "ustar\x0000" {
		return "", 0, fmt.Errorf("here is no ustar header (magic %q)", b[257:265])
	}
	path = text(b[0:100])
	if prefix := text(b[345:500]); prefix != "" {
		path = prefix + "/" + path
	}
	if kind := b[156]; kind != '0' {
		name, ok := kinds[kind]
		if !ok {
			name = fmt.Sprintf("of type %q", kind)
		}
		return path, 0, fmt.Errorf("it is %s; a part is a regular file", name)
	}
	if size, err = strconv.ParseInt(string(b[124:135]), 8, 64); err != nil {
		return path, 0, fmt.Errorf("its size is %q; want 11 octal digits", b[124:136])
	}
	want, err := entryHeader(path, size)
	if err != nil {
		return path, size, err
	}
	for _, f := range fields {
		if is, must := b[f.from:f.to], want[f.from:f.to]; !bytes.Equal(is, must) {
			return path, size, fmt.Errorf("its %s is %q; want %q", f.name, is, must)
		}
	}
	return path, size, nil
}

// text is a field up to its first NUL.
func text(field []byte) string {
	if i := bytes.IndexByte(field, 0); i >= 0 {
		field = field[:i]
	}
	return string(field)
}
