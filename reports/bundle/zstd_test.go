package bundle

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"
	"pgregory.net/rapid"
)

// compressed is data as Compress makes it, written in pieces.
func compressed(t testing.TB, data []byte, piece int) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := Compress(&out)
	if err != nil {
		t.Fatal(err)
	}
	for p := range slices.Chunk(data, piece) {
		if _, err := w.Write(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// again decompresses.
func again(data []byte, most int64) ([]byte, error) {
	var out bytes.Buffer
	err := Decompress(&out, bytes.NewReader(data), most)
	if int64(out.Len()) > max(most, 0) {
		return nil, fmt.Errorf("%d bytes written of at most %d", out.Len(), most)
	}
	return out.Bytes(), err
}

// raw is a frame of one raw block, by hand (RFC 8878).
func raw(descriptor byte, rest []byte, blocks ...[]byte) []byte {
	out := append([]byte{0x28, 0xb5, 0x2f, 0xfd, descriptor}, rest...)
	for _, b := range blocks {
		out = append(out, b...)
	}
	return out
}

// block is a block of a frame by hand.
func block(last bool, kind, size int, content string) []byte {
	head := uint32(size<<3 | kind<<1)
	if last {
		head |= 1
	}
	return append([]byte{byte(head), byte(head >> 8), byte(head >> 16)}, content...)
}

func TestQ8_CompressedAndBack(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		data := rapid.SliceOfN(rapid.Byte(), 0, 3000).Draw(t, "data")
		data = bytes.Repeat(data, rapid.SampledFrom([]int{1, 1, 7, 100}).Draw(t, "times"))
		var out bytes.Buffer
		w, err := Compress(&out)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(data); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := again(out.Bytes(), int64(len(data)))
		if err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%d of %d bytes: %v", len(got), len(data), err)
		}
		if len(data) > 0 {
			_, err = again(out.Bytes(), int64(len(data))-1)
			if !errors.Is(err, ErrFormat) {
				t.Fatal(err)
			}
		}
	})
}

// TestQ8_CompressionIsDeterministic whatever the sizes of the writes and the
// number of processors. Not parallel: it sets that number.
func TestQ8_CompressionIsDeterministic(t *testing.T) {
	data := pack(t, like(300))
	want := compressed(t, data, len(data))
	for _, piece := range []int{1, 511, 512, 128 << 10} {
		if !bytes.Equal(compressed(t, data, piece), want) {
			t.Errorf("in pieces of %d it is different", piece)
		}
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if !bytes.Equal(compressed(t, data, len(data)), want) {
		t.Error("on one processor it is different")
	}
	if len(want) > len(data)/2 {
		t.Errorf("%d bytes become %d", len(data), len(want))
	}
}

// TestQ8_ARepackedBundleVerifies: any encoder, any level, one digest.
func TestQ8_ARepackedBundleVerifies(t *testing.T) {
	t.Parallel()
	data := pack(t, like(300))
	want := opened(t, data).Digest()
	verify := func(t *testing.T, small []byte) {
		t.Helper()
		got, err := again(small, int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		if b := opened(t, got); b.Digest() != want {
			t.Errorf("digest %s; want %s", b.Digest(), want)
		}
	}
	t.Run("own", func(t *testing.T) {
		t.Parallel()
		verify(t, compressed(t, data, 1000))
	})
	for _, level := range []zstd.EncoderLevel{zstd.SpeedFastest, zstd.SpeedDefault, zstd.SpeedBetterCompression, zstd.SpeedBestCompression} {
		t.Run(level.String(), func(t *testing.T) {
			t.Parallel()
			enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderCRC(level != zstd.SpeedDefault))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = enc.Close() }()
			verify(t, enc.EncodeAll(data, nil))
		})
	}
}

// TestQ8_ARepackedBundleVerifiesByTheTool: the zstd tool at several levels.
func TestQ8_ARepackedBundleVerifiesByTheTool(t *testing.T) {
	t.Parallel()
	data := pack(t, like(300))
	want := opened(t, data).Digest()
	levels := [][]string{{"-1"}, {"-19"}, {"-3", "--no-check"}, {"-3", "--long"}, {"-3", "-T2"}, {"--fast=5", "--rsyncable"}}
	if os.Getenv("QUALIFY_LONG") != "" {
		levels = append(levels, []string{"-22", "--ultra"}) // takes a gigabyte
	}
	for _, args := range levels {
		got, err := again(tooled(t, data, "zstd", args...), int64(len(data)))
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		if b := opened(t, got); b.Digest() != want {
			t.Errorf("%v: digest %s; want %s", args, b.Digest(), want)
		}
	}
}

// tooled is what a program makes of data.
func tooled(t *testing.T, data []byte, program string, args ...string) []byte {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("no %s here", program)
	}
	cmd := exec.CommandContext(t.Context(), path, append(args, "--stdout", "--quiet")...)
	cmd.Stdin = bytes.NewReader(data)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestQ8_TheZstdToolReadsABundle.
func TestQ8_TheZstdToolReadsABundle(t *testing.T) {
	t.Parallel()
	data := pack(t, like(300))
	if got := tooled(t, compressed(t, data, 1000), "zstd", "--decompress"); !bytes.Equal(got, data) {
		t.Error("it reads something else")
	}
}

// TestQ8_ManyFramesOfOneToolAreRefused: pzstd puts skippable frames between its
// own.
func TestQ8_ManyFramesOfOneToolAreRefused(t *testing.T) {
	t.Parallel()
	data := pack(t, like(300))
	_, err := again(tooled(t, data, "pzstd", "-p", "2"), int64(len(data)))
	refused(t, err, "skippable zstd frame; compress it anew")
}

// TestQ8_WhatIsNotOneFrameIsRefused, and nothing hides beside the frame.
func TestQ8_WhatIsNotOneFrameIsRefused(t *testing.T) {
	t.Parallel()
	data := pack(t, like(4))
	good := compressed(t, data, 1000)
	skippable := append([]byte{0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0}, "psst"[:3]...)
	bomb := compressed(t, make([]byte, 64<<20), 1<<20)
	if len(bomb) > 64<<10 {
		t.Fatalf("a bomb of %d bytes", len(bomb))
	}
	dictionary := raw(0x01, []byte{0x58, 7}, block(true, 0, 1, "x"))
	var far [8]byte
	binary.LittleEndian.PutUint64(far[:], 1<<40)

	for _, tc := range []struct {
		name  string
		data  []byte
		words string
	}{
		{"nothing", nil, "it is empty"},
		{"tar", data, "no zstd frame"},
		{"magic only", good[:4], "no zstd frame"},
		{"cut in the header", good[:5], "no zstd frame"},
		{"cut in a block", good[:len(good)/2], "cut off"},
		{"no checksum", good[:len(good)-4], "cut off"},
		{"half a checksum", good[:len(good)-2], "cut off"},
		{"one byte more", append(bytes.Clone(good), 0), "bytes follow"},
		{"line end behind", append(bytes.Clone(good), '\n'), "bytes follow"},
		{"twice", slices.Concat(good, good), "bytes follow"},
		{"empty frame behind", slices.Concat(good, compressed(t, nil, 1)), "bytes follow"},
		{"empty frame before", slices.Concat(compressed(t, nil, 1), good), "bytes follow"},
		{"skippable frame behind", slices.Concat(good, skippable), "bytes follow"},
		{"skippable frame before", slices.Concat(skippable, good), "skippable"},
		{"skippable frame only", skippable, "skippable"},
		{"bomb", bomb, "more than 4194304 bytes"},
		{"dictionary", dictionary, "dictionary 7"},
		{"window of 256 MiB", raw(0x00, []byte{18 << 3}, block(true, 0, 1, "x")), "needs 268435456 bytes"},
		{"window of 3 TiB", raw(0x00, []byte{0xff}, block(true, 0, 1, "x")), "bytes to be decoded"},
		{"one segment of 1 TiB", raw(0xe0, far[:], block(true, 0, 1, "x")), "bytes to be decoded"},
		{"size beyond the limit", raw(0xc0, append([]byte{0x58}, far[:]...), block(true, 0, 1, "x")), "more than 4194304 bytes"},
		{"other size than said", raw(0x20, []byte{2}, block(true, 0, 1, "x")), "its zstd frame"},
		{"no last block", raw(0x00, []byte{0x58}, block(false, 0, 1, "x")), "cut off"},
		{"empty blocks without end", raw(0x00, []byte{0x58}, bytes.Repeat(block(false, 0, 0, ""), 5000)), "cut off"},
		{"reserved block", raw(0x00, []byte{0x58}, block(true, 3, 1, "x")), "its zstd frame"},
		{"reserved bit", raw(0x08, []byte{0x58}, block(true, 0, 1, "x")), "no zstd frame"},
		{"block longer than the file", raw(0x00, []byte{0x58}, block(true, 0, 100, "x")), "cut off"},
		{"block longer than blocks are", raw(0x00, []byte{0x58}, block(true, 0, 1<<20, "x")), "its zstd frame"},
		{"checksum of something else", func() []byte {
			b := bytes.Clone(good)
			b[len(b)-1] ^= 1
			return b
		}(), "its zstd frame"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := again(tc.data, 4<<20)
			refused(t, err, tc.words)
			if len(got) > 4<<20 {
				t.Errorf("%d bytes", len(got))
			}
		})
	}
	for name, frame := range map[string][]byte{
		"raw":         raw(0x00, []byte{0x58}, block(true, 0, 3, "xxx")),
		"repeated":    raw(0x00, []byte{0x58}, block(true, 1, 3, "x")),
		"two blocks":  raw(0x00, []byte{0x58}, block(false, 1, 2, "x"), block(true, 0, 1, "x")),
		"empty block": raw(0x00, []byte{0x58}, block(false, 1, 3, "x"), block(true, 0, 0, "")),
		"widest":      raw(0x00, []byte{17 << 3}, block(true, 0, 3, "xxx")), // what -22 --ultra writes
		"one segment": raw(0x20, []byte{3}, block(true, 0, 3, "xxx")),
	} {
		if got, err := again(frame, 3); err != nil || string(got) != "xxx" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := again(good, -1); !errors.Is(err, ErrFormat) {
		t.Errorf("at most -1: %v", err)
	}
}

// TestQ8_EveryBitOfACompressedBundle: flipping one gives either the same bundle
// or an error, never another bundle. Under the race detector one bit of each byte.
func TestQ8_EveryBitOfACompressedBundle(t *testing.T) {
	t.Parallel()
	data := pack(t, contents{"a": lines(1, 1)})
	good := compressed(t, data, 1000)
	same := 0
	for i := range good {
		for bit := range 8 {
			if underRace && bit != i%8 {
				continue
			}
			bad := bytes.Clone(good)
			bad[i] ^= 1 << bit
			got, err := again(bad, int64(len(data)))
			switch {
			case err == nil && bytes.Equal(got, data):
				same++
			case err == nil:
				if _, err := open(got); err == nil {
					t.Errorf("bit %d of byte %d gives another bundle", bit, i)
				}
			case !errors.Is(err, ErrFormat):
				t.Errorf("bit %d of byte %d: %v", bit, i, err)
			}
		}
	}
	if same > len(good)/2 { // an unused bit, and distances into equal bytes
		t.Errorf("%d of %d bits change nothing", same, 8*len(good))
	}
}

// TestQ8_ErrorsOfReadersAndWritersPass through Compress and Decompress as they
// are, at whatever byte.
func TestQ8_ErrorsOfReadersAndWritersPass(t *testing.T) {
	t.Parallel()
	data := make([]byte, 300<<10)
	r := rand.New(rand.NewPCG(1, 8))
	for i := range data {
		data[i] = byte(r.IntN(64))
	}
	good := compressed(t, data, 1000)
	for at := 0; at <= len(good); at += 5000 {
		src := io.MultiReader(bytes.NewReader(good[:at]), iotest.ErrReader(context.DeadlineExceeded))
		if err := Decompress(io.Discard, src, 1<<20); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrFormat) {
			t.Errorf("reader fails at %d: %v", at, err)
		}
	}
	full := errors.New("disk full")
	for left := 0; left < len(data); left += 50_000 {
		if err := Decompress(&failing{left, full}, bytes.NewReader(good), 1<<20); !errors.Is(err, full) || errors.Is(err, ErrFormat) {
			t.Errorf("writer fails at %d: %v", left, err)
		}
	}
	for _, src := range []io.Reader{iotest.OneByteReader(bytes.NewReader(good)), iotest.DataErrReader(bytes.NewReader(good)), iotest.HalfReader(bytes.NewReader(good))} {
		var out bytes.Buffer
		if err := Decompress(&out, src, 1<<20); err != nil || !bytes.Equal(out.Bytes(), data) {
			t.Errorf("%T: %v", src, err)
		}
	}
	w, err := Compress(&failing{10, full})
	if err != nil {
		t.Fatal(err)
	}
	_, errWrite := w.Write(data)
	if err := errors.Join(errWrite, w.Close()); !errors.Is(err, full) {
		t.Error(err)
	}
}
