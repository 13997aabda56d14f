package bundle

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"testing"
)

// FuzzOpen: Open never panics, its errors are ErrFormat, and whatever it takes is
// exactly what a Writer makes of it again. The same of the input with checksums
// and index made right, which gets further. Run it with -fuzzminimizetime=1x:
// minimizing archives takes longer than it helps.
func FuzzOpen(f *testing.F) {
	for _, c := range []contents{{}, {"a": nil}, {"a": []byte("x"), "b/c": lines(1, 2)}, odd()} {
		f.Add(pack(f, c))
		f.Add(pack(f, c, Bodies))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, data := range [][]byte{data, repaired(t, data)} {
			b, err := open(data)
			if err != nil {
				if !errors.Is(err, ErrFormat) {
					t.Errorf("%v is no %v", err, ErrFormat)
				}
				continue
			}
			if got := pack(t, read(t, b), b.Withheld()...); !bytes.Equal(got, data) {
				t.Errorf("read %q, written %q", data, got)
			}
		}
	})
}

// repaired gives the entries that data begins with right checksums and an index.
func repaired(t *testing.T, data []byte) []byte {
	var list []entry
	for len(data) >= blockSize {
		h := [blockSize]byte(data)
		copy(h[148:], octal(checksum(&h), 6)+"\x00 ")
		path := text(h[:100])
		if prefix := text(h[345:500]); prefix != "" {
			path = prefix + "/" + path
		}
		size, err := strconv.ParseInt(string(h[124:135]), 8, 64)
		n := blockSize + size + padding(size)
		if err != nil || size < 0 || n > int64(len(data)) || path == IndexName {
			break
		}
		list = append(list, entry{path, slices.Concat(h[:], data[blockSize:n])})
		data = data[n:]
	}
	return forged(t, list...)
}

// FuzzDecompress: Decompress never panics, never writes more than it may, and its
// errors are ErrFormat.
func FuzzDecompress(f *testing.F) {
	f.Add(compressed(f, lines(1, 2), 100))
	f.Add(compressed(f, nil, 1))
	f.Add(raw(0x00, []byte{0x58}, block(false, 1, 2, "x"), block(true, 0, 1, "x")))
	f.Add(raw(0x20, []byte{3}, block(true, 0, 3, "xxx")))
	f.Fuzz(func(t *testing.T, data []byte) {
		if _, err := again(data, 1<<16); err != nil && !errors.Is(err, ErrFormat) {
			t.Errorf("%v is no %v", err, ErrFormat)
		}
	})
}
