package bundle

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// entry is one entry of a bundle as it stands: header, content, padding.
type entry struct {
	path  string
	bytes []byte
}

func (e entry) content() []byte {
	_, size, _ := parseHeader((*[blockSize]byte)(e.bytes))
	return e.bytes[blockSize : blockSize+size]
}

// entriesOf takes a good bundle apart; the index is the last.
func entriesOf(t testing.TB, data []byte) []entry {
	t.Helper()
	var out []entry
	for {
		path, size, err := parseHeader((*[blockSize]byte)(data))
		if err != nil {
			t.Fatal(err)
		}
		n := blockSize + size + padding(size)
		out = append(out, entry{path, bytes.Clone(data[:n])})
		if data = data[n:]; path == IndexName {
			return out
		}
	}
}

// made is an entry with a right header.
func made(t testing.TB, path string, content []byte) entry {
	t.Helper()
	h, err := entryHeader(path, int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	return entry{path, slices.Concat(h[:], content, zeros[:padding(int64(len(content)))])}
}

// joined puts entries together, with an end.
func joined(list ...entry) []byte {
	var out []byte
	for _, e := range list {
		out = append(out, e.bytes...)
	}
	return append(out, zeros[:]...)
}

// forged is what somebody writes who knows the format: entries under an index
// that agrees with them.
func forged(t testing.TB, list ...entry) []byte {
	t.Helper()
	x := &index{Parts: []part{}, Schema: schema, Withheld: []string{}}
	for _, e := range list {
		sum := sha256.Sum256(e.content())
		x.Parts = append(x.Parts, part{e.path, hex.EncodeToString(sum[:]), int64(len(e.content()))})
	}
	data, err := x.encode()
	if err != nil {
		t.Fatal(err)
	}
	return joined(append(slices.Clone(list), made(t, IndexName, data))...)
}

// reindexed is a bundle with its index changed.
func reindexed(t testing.TB, data []byte, change func(*index)) []byte {
	t.Helper()
	list := entriesOf(t, data)
	x := new(index)
	if err := json.Unmarshal(list[len(list)-1].content(), x); err != nil {
		t.Fatal(err)
	}
	change(x)
	again, err := x.encode()
	if err != nil {
		t.Fatal(err)
	}
	list[len(list)-1] = made(t, IndexName, again)
	return joined(list...)
}

// TestQ8_EveryBitOfABundleCounts flips each bit of a bundle and wants Open to
// find it: 8 KB; 47 KB when QUALIFY_LONG is set. Under the race detector one bit
// of each byte.
func TestQ8_EveryBitOfABundleCounts(t *testing.T) {
	t.Parallel()
	c := contents{
		"a/b":       []byte("x"),
		"a/c.jsonl": lines(3, 8),
		"policy":    nil,
		"é":         bytes.Repeat([]byte("0123456789abcdef"), 64),
	}
	if os.Getenv("QUALIFY_LONG") != "" {
		c = like(25)
	}
	good := pack(t, c, Bodies)
	opened(t, good)
	t.Logf("%d bytes", len(good))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			bad := bytes.Clone(good)
			for i := int(next.Add(1) - 1); i < len(bad); i = int(next.Add(1) - 1) {
				for bit := range 8 {
					if underRace && bit != i%8 {
						continue
					}
					bad[i] ^= 1 << bit
					if _, err := open(bad); !errors.Is(err, ErrFormat) {
						t.Errorf("bit %d of byte %d (%q to %q): %v", bit, i, good[i], bad[i], err)
					}
					bad[i] = good[i]
				}
			}
		})
	}
	wg.Wait()
}

// TestQ8_EveryByteOfABundleCounts deletes and repeats each byte, with the length
// that gives and with the length as it was, and cuts the bundle at every byte.
// Under the race detector every fourth.
func TestQ8_EveryByteOfABundleCounts(t *testing.T) {
	t.Parallel()
	good := pack(t, contents{"a": []byte("xy"), "b/c": bytes.Repeat([]byte("z"), 513), "d": nil})
	opened(t, good)
	found := func(what string, i int, bad []byte) {
		if bytes.Equal(bad, good) {
			return // a byte among equal ones
		}
		if _, err := open(bad); !errors.Is(err, ErrFormat) {
			t.Errorf("byte %d %s: %v", i, what, err)
		}
	}
	for i := range good {
		if underRace && i%4 > 0 {
			continue
		}
		deleted := slices.Delete(bytes.Clone(good), i, i+1)
		found("deleted", i, deleted)
		found("deleted, zero behind", i, append(deleted, 0))
		doubled := slices.Insert(bytes.Clone(good), i, good[i])
		found("repeated", i, doubled)
		found("repeated, last cut", i, doubled[:len(good)])
		found("repeated, padded", i, append(doubled, zeros[:blockSize-1]...))
		found("and all behind it cut", i, good[:i])
	}
	for i := 0; i < len(good); i += blockSize {
		found("block deleted", i, slices.Delete(bytes.Clone(good), i, i+blockSize))
		found("block repeated", i, slices.Insert(bytes.Clone(good), i, good[i:i+blockSize]...))
		found("block of zeros before", i, slices.Insert(bytes.Clone(good), i, zeros[:blockSize]...))
	}
	for _, n := range []int{1, blockSize - 1, blockSize, 2 * blockSize, 10_240 - len(good)%10_240} {
		found("and zeros behind", n, append(bytes.Clone(good), make([]byte, n)...))
	}
	found("and a second bundle behind", 0, slices.Concat(good, good))
}

// TestQ8_ForgedBundlesAreRefused: bundles that somebody wrote who recomputes
// every digest and checksum.
func TestQ8_ForgedBundlesAreRefused(t *testing.T) {
	t.Parallel()
	good := pack(t, contents{"a": []byte("1"), "b": []byte("2"), "c": []byte("3")})
	list := entriesOf(t, good)
	a, b, c, index := list[0], list[1], list[2], list[3]
	if !bytes.Equal(forged(t, a, b, c), good) {
		t.Fatal("the forger does not know the format")
	}
	header := func(change func(h *[blockSize]byte)) []byte { // b with another header, its checksum right
		e := entry{"b", bytes.Clone(b.bytes)}
		h := (*[blockSize]byte)(e.bytes)
		change(h)
		copy(h[148:], octal(checksum(h), 6)+"\x00 ")
		return joined(a, e, c, index)
	}
	set := func(at int, s string) []byte { return header(func(h *[blockSize]byte) { copy(h[at:], s) }) }
	padded := entry{"b", bytes.Clone(b.bytes)}
	padded.bytes[blockSize+7] = 'x'
	spelled := func(text string) []byte { return joined(a, made(t, IndexName, []byte(text))) }
	one := `{"path":"a","sha256":"6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b","size":1}`
	if !bytes.Equal(spelled(`{"parts":[`+one+`],"schema":"qualify/bundle/v1","withheld":[]}`+"\n"), forged(t, a)) {
		t.Fatal("the spelling of the index is not what it was")
	}

	for _, tc := range []struct {
		name  string
		data  []byte
		words string
	}{
		{"swapped", joined(b, a, c, index), `"a": it comes after "b"`},
		{"swapped, index too", forged(t, b, a, c), `"a": it comes after "b"`},
		{"twice", forged(t, a, a, b), `"a": it is there twice`},
		{"missing", joined(a, c, index), `bundle.json": it names "b", which is not there`},
		{"last missing", joined(a, b, index), `it names "c", which is not there`},
		{"extra", joined(a, b, made(t, "bb", nil), c, index), `it does not name "bb", which is there`},
		{"extra last", joined(a, b, c, made(t, "d", nil), index), `it does not name "d", which is there`},
		{"other content", joined(a, made(t, "b", []byte("9")), c, index), `the SHA-256 of "b"`},
		{"other size", joined(a, made(t, "b", []byte("22")), c, index), `"b" has 1 bytes; they are 2`},
		{"renamed", joined(a, made(t, "bb", []byte("2")), c, index), `it names "b", which is not there`},
		{"index first", joined(index, a, b, c), "bundle.json"},
		{"index not last", joined(a, b, index, c), "bundle.json"},
		{"index twice", joined(a, b, c, index, index), "follow bundle.json"},
		{"no index", joined(a, b, c), "no bundle.json before"},
		{"no end", joined(a, b, c, index)[:4*2*blockSize], "it ends without the 1024 zeros"},
		{"other bytes at the end", append(joined(a, b, c, index)[:len(good)-1], 'x'), "other bytes than zeros end it"},
		{"nothing", nil, "without bundle.json"},
		{"zeros only", zeros[:], "no bundle.json before"},
		{"text", bytes.Repeat([]byte("text"), 256), "no ustar header"},

		{"content in the padding", joined(a, padded, c, index), `"b": it is padded`},
		{"mode 0755", set(100, "0000755"), `"b": its mode is "0000755\x00"; want "0000644\x00"`},
		{"mode spelled with spaces", set(100, "   644 "), "its mode is"},
		{"time", set(136, "00000000001"), `its time is "00000000001`},
		{"owner", set(108, "0001750"), `its owner is "0001750`},
		{"group", set(116, "0001750"), `its group is "0001750`},
		{"owner name", set(265, "root"), `its owner name is "root`},
		{"group name", set(297, "wheel"), `its group name is "wheel`},
		{"device", set(329, "0000001"), `its major device is`},
		{"minor device", set(337, "0000001"), `its minor device is`},
		{"GNU magic", set(257, "ustar  "), `magic "ustar  `},
		{"old tar", set(257, "\x00\x00\x00\x00\x00\x00\x00\x00"), "no ustar header"},
		{"old type", set(156, "\x00"), "old tar format"},
		{"link target", set(157, "a"), `its link target is "a`},
		{"text in the reserved bytes", set(505, "x"), `its reserved is`},
		{"text behind the name", set(10, "x"), `its name is "b\x00`},
		{"prefix without need", set(345, "p"), `"p/b": its name is`},
		{"checksum", func() []byte {
			e := entry{"b", bytes.Clone(b.bytes)}
			copy(e.bytes[148:], "000000")
			return joined(a, e, c, index)
		}(), "its checksum is"},
		{"checksum spelled otherwise", func() []byte {
			e := entry{"b", bytes.Clone(b.bytes)}
			copy(e.bytes[154:], " \x00")
			return joined(a, e, c, index)
		}(), "its checksum is"},
		{"size in binary", set(124, "\x80\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"), "want 11 octal digits"},
		{"size negative", set(124, "-0000000001"), "it has -1 bytes"},
		{"size with a sign", set(124, "+0000000001"), `its size is "+0000000001`},
		{"size with spaces", set(124, "         1 "), "want 11 octal digits"},
		{"size beyond the end", set(124, "77777777777"), "it should have 8589934591 bytes; "},
		{"size short by one", set(124, "00000000000"), "no ustar header"},
		{"hard link", set(156, "1"), "it is a hard link"},
		{"symbolic link", set(156, "2"), "it is a symbolic link"},
		{"character device", set(156, "3"), "it is a character device"},
		{"block device", set(156, "4"), "it is a block device"},
		{"folder", set(156, "5"), "it is a folder"},
		{"pipe", set(156, "6"), "it is a named pipe"},
		{"contiguous", set(156, "7"), "it is a contiguous file"},
		{"PAX", set(156, "x"), "it is a PAX record"},
		{"global PAX", set(156, "g"), "it is a global PAX record"},
		{"GNU long name", set(156, "L"), "it is a GNU long name"},
		{"GNU long link", set(156, "K"), "it is a GNU long link"},
		{"sparse", set(156, "S"), "it is a sparse file"},
		{"unknown type", set(156, "Z"), `it is of type 'Z'`},

		{"index without line end", spelled(`{"parts":[` + one + `],"schema":"qualify/bundle/v1","withheld":[]}`), "line end"},
		{"index with two", spelled(`{"parts":[` + one + `],"schema":"qualify/bundle/v1","withheld":[]}` + "\n\n"), "canonical form"},
		{"index with spaces", spelled(`{"parts": [` + one + `],"schema":"qualify/bundle/v1","withheld":[]}` + "\n"), "canonical form"},
		{"index in other order", spelled(`{"schema":"qualify/bundle/v1","parts":[` + one + `],"withheld":[]}` + "\n"), "canonical form"},
		{"index with a field more", spelled(`{"note":"","parts":[` + one + `],"schema":"qualify/bundle/v1","withheld":[]}` + "\n"), "unknown field"},
		{"index with a field less", spelled(`{"parts":[` + one + `],"schema":"qualify/bundle/v1"}` + "\n"), "canonical form"},
		{"index with a field twice", spelled(`{"parts":[],"parts":[` + one + `],"schema":"qualify/bundle/v1","withheld":[]}` + "\n"), "twice"},
		{"index with null", spelled(`{"parts":[` + one + `],"schema":"qualify/bundle/v1","withheld":null}` + "\n"), "null"},
		{"index of another schema", spelled(`{"parts":[` + one + `],"schema":"qualify/bundle/v2","withheld":[]}` + "\n"), "v2"},
		{"index with an unknown word", spelled(`{"parts":[` + one + `],"schema":"qualify/bundle/v1","withheld":["x"]}` + "\n"), `"x" is not known`},
		{"index with a word twice", spelled(`{"parts":[` + one + `],"schema":"qualify/bundle/v1","withheld":["bodies","bodies"]}` + "\n"), "twice"},
		{"index of capital digits", spelled(`{"parts":[{"path":"a","sha256":"` +
			"6B86B273FF34FCE19D6B804EFF5A3F5747ADA4EAA22F1D49C01E52DDB7875B4B" +
			`","size":1}],"schema":"qualify/bundle/v1","withheld":[]}` + "\n"), "SHA-256"},
		{"index that is no JSON", spelled("parts\n"), "bundle.json"},
		{"index of a size to choke on", spelled(string(bytes.Repeat([]byte(" "), 1<<20))), "too many for the 1 parts"},
		{"index that is empty", spelled(""), "line end"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			_, err := open(tc.data)
			refused(t, err, tc.words)
		})
	}
}

func octal(n, width int) string {
	out := make([]byte, width)
	for i := range out {
		out[width-1-i] = byte('0' + n&7)
		n >>= 3
	}
	return string(out)
}

// TestQ8_PathsThatCannotBeUnpackedEverywhere are refused when a bundle is
// written and when one is read.
func TestQ8_PathsThatCannotBeUnpackedEverywhere(t *testing.T) {
	t.Parallel()
	long := func(n int) string { return string(bytes.Repeat([]byte("n"), n)) }
	for _, tc := range []struct {
		name  string
		paths []string // in order
		words string   // "" is good
	}{
		{"plain", []string{"a", "a-b/c.json", "b/c/d", "b/c/e"}, ""},
		{"letters", []string{"naïve", "Ärger/日本.md"}, ""},
		{"hidden", []string{".github/x"}, ""},
		{"dash", []string{"-rf"}, ""},
		{"one folder twice", []string{"a/b/x", "a/b/y", "a/c/x", "b/b/x"}, ""},
		{"case of a folder deep down", []string{"a/B/c/d", "a/b/c/e"}, `on some systems "a/b" is the same as "a/B"`},
		{"before the slash", []string{"a", "a.b/c", "a0"}, ""},
		{"as long as a name", []string{long(100)}, ""},
		{"as long as it goes", []string{long(155) + "/" + long(100)}, ""},

		{"as deep as it goes", []string{strings.Repeat("a/", 15) + "a"}, ""},

		{"too deep", []string{strings.Repeat("a/", 16) + "a"}, "more than 16 elements"},
		{"too long", []string{long(101)}, "a path has at most 100 bytes"},
		{"long behind the slash", []string{"a/" + long(101)}, "a path has at most 100 bytes"},
		{"long before the slash", []string{long(156) + "/" + long(99)}, "a path has at most 100 bytes"},
		{"empty", []string{""}, "empty"},
		{"absolute", []string{"/etc/passwd"}, "empty path element"},
		{"parent", []string{"../x"}, `".."`},
		{"parent inside", []string{"a/../b"}, `".."`},
		{"self", []string{"./a"}, `"."`},
		{"folder", []string{"a/"}, "trailing slash"},
		{"double slash", []string{"a//b"}, "double slash"},
		{"no UTF-8", []string{"a\xff"}, "UTF-8"},
		{"backslash", []string{`a\b`}, `'\\'`},
		{"drive", []string{"C:x"}, "':'"},
		{"stream", []string{"a:b"}, "':'"},
		{"question mark", []string{"a?"}, "'?'"},
		{"star", []string{"a*"}, "'*'"},
		{"quote", []string{`a"`}, `'"'`},
		{"less", []string{"a<b"}, "'<'"},
		{"pipe", []string{"a|b"}, "'|'"},
		{"line end", []string{"a\nb"}, `'\n'`},
		{"tabulator", []string{"a\tb"}, `'\t'`},
		{"delete", []string{"a\x7fb"}, `'\x7f'`},
		{"right to left", []string{"a\u202eb"}, `'\u202e'`},
		{"combining", []string{"e\u0301"}, "invalid char '\u0301'"},
		{"dot at the end", []string{"a./b"}, "trailing dot"},
		{"space at the end", []string{"a /b"}, `"a " ends in a space`},
		{"device", []string{"a/nul"}, "Windows"},
		{"device with extension", []string{"COM1.json"}, "Windows"},

		{"twice", []string{"a", "a"}, "twice"},
		{"order", []string{"b", "a"}, `"a": it comes after "b"`},
		{"order of bytes", []string{"a/b", "a.b"}, `"a.b": it comes after "a/b"`},
		{"case", []string{"A", "a"}, `on some systems "a" is the same as "A"`},
		{"case of a folder", []string{"A/x", "a/y"}, `on some systems "a" is the same as "A"`},
		{"case within a folder", []string{"x/B/y", "x/b"}, `on some systems "x/b" is the same as "x/B"`},
		{"case of a letter with a mark", []string{"Éa", "éa"}, "on some systems"},
		{"case that changes the length", []string{"strasse", "straße"}, "on some systems"},
		{"part and folder", []string{"a", "a/b"}, `"a" is a part and a folder`},
		{"folder and part", []string{"a", "a-b", "a/b"}, `"a" is a part and a folder`},
		{"part and folder in other case", []string{"A", "a/b"}, `on some systems "a" is the same as "A"`},
		{"the index", []string{"bundle.json"}, "the index is no part of its own"},
		{"the index in other case", []string{"Bundle.json"}, "on some systems"},
		{"the index as a folder", []string{"bundle.json/x"}, `"bundle.json" is a part and a folder`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			w := NewWriter(&out)
			var list []entry
			for _, p := range tc.paths {
				_ = w.Add(p, []byte("x")) // the error stays
				list = append(list, loose(p))
			}
			err := w.Close()
			if tc.words == "" {
				if err != nil {
					t.Fatal(err)
				}
				opened(t, out.Bytes())
				return
			}
			refused(t, err, tc.words)
			if tc.name == "the index" || len(tc.paths[0]) > nameSize {
				return // such an entry is the index; such a path has no header
			}
			_, err = open(forged(t, list...))
			refused(t, err, tc.words)
		})
	}
}

// loose is an entry of one byte whose path nobody looked at.
func loose(path string) entry {
	h, err := entryHeader(path, 1)
	if err != nil {
		return entry{}
	}
	return entry{path, slices.Concat(h[:], []byte("x"), zeros[:blockSize-1])}
}

// TestQ8_PartsAreSmallerThan8GiB: more has no place in a header.
func TestQ8_PartsAreSmallerThan8GiB(t *testing.T) {
	t.Parallel()
	for size, good := range map[int64]bool{0: true, 1<<33 - 1: true, 1 << 33: false, -1: false} {
		h, err := entryHeader("a", size)
		if (err == nil) != good {
			t.Errorf("%d bytes: %v", size, err)
		}
		if err != nil {
			continue
		}
		if path, got, err := parseHeader(h); path != "a" || got != size || err != nil {
			t.Errorf("%d bytes: %q, %d, %v", size, path, got, err)
		}
	}
}
