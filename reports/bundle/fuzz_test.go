package bundle

import (
	"bytes"
	"errors"
	"testing"
)

// FuzzOpen: Open never panics, its errors are ErrFormat, and whatever it takes is
// exactly what a Writer makes of it again.
func FuzzOpen(f *testing.F) {
	for _, c := range []contents{{}, {"a": nil}, {"a": []byte("x"), "b/c": lines(1, 2)}, odd()} {
		f.Add(pack(f, c))
		f.Add(pack(f, c, Bodies))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		b, err := open(data)
		if err != nil {
			if !errors.Is(err, ErrFormat) {
				t.Errorf("%v is no %v", err, ErrFormat)
			}
			return
		}
		if got := pack(t, read(t, b), b.Withheld()...); !bytes.Equal(got, data) {
			t.Errorf("read %q, written %q", data, got)
		}
	})
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
