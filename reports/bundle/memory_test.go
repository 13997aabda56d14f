package bundle

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// vast is a bundle of one part of zeros that is never whole in memory.
type vast struct {
	header *[blockSize]byte
	size   int64
	tail   []byte // index and end
}

func (v vast) length() int64 { return blockSize + v.size + padding(v.size) + int64(len(v.tail)) }

func (v vast) ReadAt(p []byte, off int64) (int, error) {
	n := 0
	for ; n < len(p); n++ {
		switch at := off + int64(n); {
		case at >= v.length():
			return n, io.EOF
		case at < blockSize:
			p[n] = v.header[at]
		case at >= v.length()-int64(len(v.tail)):
			p[n] = v.tail[at-v.length()+int64(len(v.tail))]
		default:
			end := min(int64(len(p)), v.length()-int64(len(v.tail))-off)
			clear(p[n:end])
			n = int(end) - 1
		}
	}
	return n, nil
}

// TestQ8_OpenHoldsNoContents: a part of 100 MB takes what one of no bytes does.
// Not parallel: it counts what all goroutines allocate.
func TestQ8_OpenHoldsNoContents(t *testing.T) {
	const size = 100 << 20
	v := vast{size: size}
	h, err := entryHeader("a", size)
	if err != nil {
		t.Fatal(err)
	}
	v.header = h
	// sha256 of 100 MiB of zeros, by `head -c 104857600 /dev/zero | sha256sum`
	x := &index{Parts: []part{{"a", "20492a4d0d84f8beb1767f6616229f85d44c2827b64bdbfb260ee12fa1109e0e", size}}, Schema: schema, Withheld: []string{}}
	data, err := x.encode()
	if err != nil {
		t.Fatal(err)
	}
	v.tail = slices.Concat(made(t, IndexName, data).bytes, zeros[:])

	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b, err := Open(v, v.length())
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := b.Stat("a"); err != nil || info.Size() != size {
		t.Error(info, err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 2<<20 {
		t.Errorf("Open takes %d bytes for a part of %d", used, size)
	}
}

// TestQ8_DecompressHoldsAWindow: what it takes is bound by the frame's window,
// not by what comes out. Not parallel: it counts what all goroutines allocate.
func TestQ8_DecompressHoldsAWindow(t *testing.T) {
	const size = 100 << 20
	var blocks [][]byte // of 128 KiB of zeros each, as one byte repeated
	for i := range size >> 17 {
		blocks = append(blocks, block(i == size>>17-1, 1, 1<<17, "\x00"))
	}
	small := raw(0x00, []byte{13 << 3}, blocks...) // a window of 8 MiB
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := Decompress(io.Discard, bytes.NewReader(small), size)
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 4*encoderWindow {
		t.Errorf("Decompress takes %d bytes for %d", used, size)
	}
}

// TestQ8_ManyDeepPathsCostLittle: paths of as many elements as they may have, each
// in folders of its own, cost a small multiple of the bundle's bytes. Not
// parallel: it counts what all goroutines allocate.
func TestQ8_ManyDeepPathsCostLittle(t *testing.T) {
	c := contents{}
	for i := range 4000 {
		c[fmt.Sprintf("%05d", i)+strings.Repeat("/"+string(rune('a'+i%26)), maxDepth-1)] = nil
	}
	data := pack(t, c)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b, err := open(data)
	runtime.ReadMemStats(&after)
	if err != nil {
		t.Fatal(err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 16*uint64(len(data)) {
		t.Errorf("Open allocates %d bytes for a bundle of %d", used, len(data))
	} else {
		t.Logf("%.1f bytes for one of %d", float64(used)/float64(len(data)), len(data))
	}
	if len(b.Names()) != len(c) {
		t.Errorf("%d parts", len(b.Names()))
	}
}
