package bundle

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// contents are parts by path.
type contents map[string][]byte

// pack writes a bundle.
func pack(t testing.TB, c contents, withheld ...string) []byte {
	t.Helper()
	out, err := packed(c, withheld...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func packed(c contents, withheld ...string) ([]byte, error) {
	var out bytes.Buffer
	w := NewWriter(&out, withheld...)
	for _, name := range slices.Sorted(maps.Keys(c)) {
		if err := w.Add(name, c[name]); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// open opens the bytes of a bundle.
func open(data []byte) (*Bundle, error) { return Open(bytes.NewReader(data), int64(len(data))) }

// opened opens a bundle that is good.
func opened(t testing.TB, data []byte) *Bundle {
	t.Helper()
	b, err := open(data)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// read is all that a bundle holds.
func read(t testing.TB, b *Bundle) contents {
	t.Helper()
	out := contents{}
	for _, name := range b.Names() {
		data, err := b.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		out[name] = data
	}
	return out
}

// refused wants an error that is ErrFormat and has these words.
func refused(t testing.TB, err error, words string) {
	t.Helper()
	if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), words) {
		t.Errorf("got %v; want %v with %q", err, ErrFormat, words)
	}
}

// lines are n lines of JSON as traces and rows have them, the same for a seed.
func lines(seed uint64, n int) []byte {
	r := rand.New(rand.NewPCG(seed, 8))
	var out []byte
	for i := range n {
		sum := sha256.Sum256([]byte{byte(seed), byte(i), byte(i >> 8)})
		out = fmt.Appendf(out, `{"digest":"sha256:%x","kind":%q,"n":%d,"prev":"sha256:%x","usage":{"input":%d,"output":%d}}`+"\n",
			sum, []string{"event", "operation", "effect"}[r.IntN(3)], i, sha256.Sum256(sum[:]), r.IntN(9000), r.IntN(900))
	}
	return out
}

// like is a bundle as a small campaign makes it; n scales its size.
func like(n int) contents {
	c := contents{
		"corpus/mail/mail-01.yaml":      []byte("id: mail-01\ntitle: Réponse\n"),
		"corpus/gold/mail/mail-01.yaml": []byte("case: mail-01\n"),
		"policy.yaml":                   []byte("kind: simulation\n"),
		"records/account.json":          []byte("{}\n"),
		"records/campaign.json":         []byte("{\"name\":\"small\"}\n"),
		"records/empty.jsonl":           nil,
		"records/ledger.jsonl":          lines(1, n),
		"report.md":                     []byte("# Report\n"),
		"verdict.json":                  []byte("{\"verdict\":\"PASS\"}\n"),
	}
	for i, arm := range []string{"legacy", "planner", "selective"} {
		c["records/traces/mail-01/"+arm+"/0.jsonl"] = lines(uint64(10+i), n)
		c["records/rooms/mail-01/"+arm+"/0.json"] = lines(uint64(20+i), n/2)
	}
	return c
}

// TestQ8_ABundleIsReadAsItWasWritten: any parts, any order of lengths, come back
// as they were, and packing them again gives the same bytes.
func TestQ8_ABundleIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		c := drawn(t)
		var withheld []string
		if rapid.Bool().Draw(t, "withheld") {
			withheld = []string{Bodies}
		}
		data, err := packed(c, withheld...)
		if err != nil {
			t.Fatal(err)
		}
		b, err := open(data)
		if err != nil {
			t.Fatal(err)
		}
		got := contents{}
		for _, name := range b.Names() {
			if got[name], err = b.ReadFile(name); err != nil {
				t.Fatal(err)
			}
		}
		if !maps.EqualFunc(c, got, bytes.Equal) {
			t.Error("contents are not what they were")
		}
		if diff := cmp.Diff(append([]string{}, slices.Sorted(maps.Keys(c))...), b.Names()); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(append([]string{}, withheld...), b.Withheld()); diff != "" {
			t.Error(diff)
		}
		if b.Has(Bodies) != (withheld != nil) || b.Has("") {
			t.Error("Has is not what Withheld says")
		}
		if sum := sha256.Sum256(data); b.Digest() != "sha256:"+hex.EncodeToString(sum[:]) {
			t.Error(b.Digest())
		}
		again, err := packed(got, b.Withheld()...)
		if err != nil || !bytes.Equal(again, data) {
			t.Errorf("packed again it is different: %v", err)
		}
		agrees(t, data, c)
	})
}

// drawn are parts under good paths, long ones too.
func drawn(t *rapid.T) contents {
	elem := rapid.OneOf(rapid.StringMatching(`[a-z0-9_-]{1,12}(\.json)?`), rapid.StringMatching(`[a-zé]{40,60}`), rapid.Just("x"))
	paths := rapid.SliceOfN(rapid.SliceOfN(elem, 1, 4), 0, 12).Draw(t, "paths")
	sizes := rapid.OneOf(rapid.IntRange(0, 40), rapid.SampledFrom([]int{511, 512, 513, 1024}), rapid.IntRange(0, 200_000))
	c := contents{}
	n := newNames()
	var names []string
	for _, p := range paths {
		names = append(names, strings.Join(p, "/"))
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if _, _, ok := split(name); !ok || n.add(name) != nil {
			continue
		}
		size := sizes.Draw(t, "size")
		c[name] = bytes.Repeat([]byte{byte(size), byte(size >> 8), 0}, size/3+1)[:size]
	}
	return c
}

// agrees lets archive/tar read a bundle.
func agrees(t *rapid.T, data []byte, c contents) {
	r := tar.NewReader(bytes.NewReader(data))
	want := append(slices.Sorted(maps.Keys(c)), IndexName)
	for i := 0; ; i++ {
		h, err := r.Next()
		if errors.Is(err, io.EOF) && i == len(want) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if h.Format != tar.FormatUSTAR && !strings.Contains(h.Name, "é") { // it wants ASCII in ustar
			t.Errorf("%s is in format %s", h.Name, h.Format)
		}
		if h.Name != want[i] || h.Typeflag != tar.TypeReg || h.Mode != 0o644 || h.ModTime.Unix() != 0 || h.Uname+h.Gname != "" {
			t.Errorf("entry %d: %+v", i, h)
		}
		if h.Name != IndexName && !bytes.Equal(body, c[h.Name]) {
			t.Errorf("%s has other content", h.Name)
		}
	}
}

// TestQ8_TheFormOfABundle pins the bytes of one bundle.
func TestQ8_TheFormOfABundle(t *testing.T) {
	t.Parallel()
	data := pack(t, contents{"a.txt": []byte("hi\n"), "a/b": nil}, Bodies)
	index := `{"parts":[` +
		`{"path":"a.txt","sha256":"98ea6e4f216f2fb4b69fff9b3a44842c38686ca685f3f55dc48c5d3fb1107be4","size":3},` +
		`{"path":"a/b","sha256":"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855","size":0}],` +
		`"schema":"qualify/bundle/v1","withheld":["bodies"]}` + "\n"
	if diff := cmp.Diff(index, string(data[4*blockSize:4*blockSize+len(index)])); diff != "" {
		t.Error(diff)
	}
	header := strings.Join([]string{
		"a.txt" + strings.Repeat("\x00", 95), "0000644\x00", "0000000\x00", "0000000\x00", "00000000003\x00", "00000000000\x00",
		"010157\x00 ", "0", strings.Repeat("\x00", 100), "ustar\x00", "00", strings.Repeat("\x00", 64), "0000000\x00", "0000000\x00",
		strings.Repeat("\x00", 167),
	}, "")
	if diff := cmp.Diff(header, string(data[:blockSize])); diff != "" {
		t.Error(diff)
	}
	if len(data) != 7*blockSize { // 3 headers, 1 of content, 1 of the index, 2 of the end
		t.Errorf("%d blocks", len(data)/blockSize)
	}
	b := opened(t, data)
	got, err := b.ReadFile(IndexName)
	if err != nil || string(got) != index {
		t.Errorf("%s: %s, %v", IndexName, got, err)
	}
	if diff := cmp.Diff([]string{"a.txt", "a/b"}, b.Names()); diff != "" {
		t.Error(diff)
	}
}

// TestQ8_AnEmptyBundle has an index of no parts.
func TestQ8_AnEmptyBundle(t *testing.T) {
	t.Parallel()
	b := opened(t, pack(t, contents{}))
	index, err := b.ReadFile(IndexName)
	if err != nil || string(index) != `{"parts":[],"schema":"qualify/bundle/v1","withheld":[]}`+"\n" || len(b.Names()) > 0 {
		t.Errorf("%s, %v, %v", index, b.Names(), err)
	}
}

// TestQ8_AnErrorOfTheWriterStays: no bundle is complete without a part that was
// refused.
func TestQ8_AnErrorOfTheWriterStays(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := NewWriter(&out)
	if err := w.Add("b", nil); err != nil {
		t.Fatal(err)
	}
	refused(t, w.Add("a", nil), `"a": it comes after "b"`)
	refused(t, w.Add("c", nil), `"a": it comes after "b"`)
	refused(t, w.Close(), `"a": it comes after "b"`)
	if _, err := open(out.Bytes()); err == nil {
		t.Error("a bundle without its end opens")
	}

	refused(t, NewWriter(io.Discard, "prompts").Close(), `withheld "prompts" is not known`)
	refused(t, NewWriter(io.Discard, Bodies, Bodies).Add("a", nil), "twice")

	w = NewWriter(io.Discard)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if w.Add("a", nil) == nil || w.Close() == nil {
		t.Error("a closed bundle grows")
	}
}

// failing writes left bytes and then fails.
type failing struct {
	left int
	err  error
}

func (f *failing) Write(p []byte) (int, error) {
	if len(p) > f.left {
		return 0, f.err
	}
	f.left -= len(p)
	return len(p), nil
}

// TestQ8_ADiskThatIsFullIsNoFault of the bundle: the error is the writer's, at
// whatever byte.
func TestQ8_ADiskThatIsFullIsNoFault(t *testing.T) {
	t.Parallel()
	full := errors.New("disk full")
	c := contents{"a": []byte("x"), "b": nil}
	size := len(pack(t, c))
	for left := 0; left < size; left += 100 {
		w := NewWriter(&failing{left, full})
		errs := []error{w.Add("a", c["a"]), w.Add("b", c["b"]), w.Close()}
		if err := errs[2]; !errors.Is(err, full) || errors.Is(err, ErrFormat) {
			t.Errorf("after %d bytes: %v", left, err)
		}
	}
}

// TestQ8_WithheldBodiesAreNotThere, neither written nor read.
func TestQ8_WithheldBodiesAreNotThere(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"records/bodies", "records/bodies/a/legacy/0.jsonl"} {
		_, err := packed(contents{name: []byte("x")}, Bodies)
		refused(t, err, "said to be withheld")
		data := pack(t, contents{name: []byte("x")})
		opened(t, data)
		_, err = open(reindexed(t, data, func(x *index) { x.Withheld = []string{Bodies} }))
		refused(t, err, "it says that bodies are withheld; \""+name)
	}
	opened(t, pack(t, contents{"records/bodies.json": []byte("x")}, Bodies))
}
