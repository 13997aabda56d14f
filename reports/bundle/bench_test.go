package bundle

import (
	"bytes"
	"io"
	"maps"
	"slices"
	"testing"
)

// BenchmarkWrite and BenchmarkOpen: 7 MB in 2,000 parts. MB are of the bundle.
func BenchmarkWrite(b *testing.B) {
	c := campaign()
	names := slices.Sorted(maps.Keys(c))
	b.SetBytes(int64(len(pack(b, c))))
	b.ReportAllocs()
	for b.Loop() {
		w := NewWriter(io.Discard)
		for _, name := range names {
			if err := w.Add(name, c[name]); err != nil {
				b.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	data := pack(b, campaign())
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := open(data); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompress(b *testing.B) {
	data := pack(b, campaign())
	b.SetBytes(int64(len(data)))
	var n int
	for b.Loop() {
		n = len(compressed(b, data, 64<<10))
	}
	b.ReportMetric(float64(len(data))/float64(n), "ratio")
}

func BenchmarkDecompress(b *testing.B) {
	data := pack(b, campaign())
	small := compressed(b, data, 64<<10)
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if err := Decompress(io.Discard, bytes.NewReader(small), int64(len(data))); err != nil {
			b.Fatal(err)
		}
	}
}

// campaign is a bundle of 2,000 parts.
func campaign() contents {
	c := contents{}
	for i := range 1000 {
		key := string([]byte{byte('a' + i%26), byte('a' + i/26%26)}) + "-case/planner/" + string(rune('0'+i/676))
		c["records/traces/"+key+".jsonl"] = lines(uint64(i), 20)
		c["records/rooms/"+key+".json"] = lines(uint64(i), 5)
	}
	return c
}
