package seal_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"filippo.io/age"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/corpus/seal"
	"github.com/agentrooms/qualify/engine"
)

// secret stands in every case and gold file of the tests.
const secret = "the tin is behind the flour"

// caseText is a sound case of a family and split.
func caseText(family, id, split, title string) string {
	return fmt.Sprintf(`schema: qualify/case/v1
id: %s
family: %s
split: %s
title: %s
tags: [write]
room:
  goal: Note where %s.
  owner: {id: ravi, name: Ravi}
  agents:
    - {id: clerk, agent: agent-clerk, role: specialist, description: keeps the note, tools: [set_note]}
    - {id: controller, agent: agent-controller, role: reviewer, description: reads the note, tools: []}
  criteria:
    - {id: c-note, text: The note says where the tin is}
  limits: {budget_usd: "0.30", model_calls: 60, tool_calls: 60, minutes: 90, parallel: 2}
world:
  documents:
    desk: {note: {text: ""}}
tools:
  - name: set_note
    action: write
    description: Write the note
    params: {type: object, additionalProperties: false, required: [text], properties: {text: {type: string}}}
    op: {kind: update, at: /desk/note, set: {text: "{text}"}, missing: error}
owner:
  think_seconds: 30
  messages:
    - {id: m1, text: "Please note where the tin is."}
  corrections: []
  patience: 1
faults: []
`, id, family, split, title, secret)
}

// goldText is what the package takes for gold: it does not read it.
func goldText(id string) string {
	return "case: " + id + "\n# " + secret + "\n"
}

// tree is a corpus of n cases, and digests of their gold.
func tree(n int) (fstest.MapFS, map[string]string) {
	fsys, gold := fstest.MapFS{}, map[string]string{}
	for i := range n {
		id, family, split := fmt.Sprintf("desk-note-%03d", i), "desk", "dev"
		if i%2 == 0 {
			family, split = "shelf", "holdout"
			id = fmt.Sprintf("shelf-note-%03d", i)
		}
		fsys[family+"/"+id+".yaml"] = &fstest.MapFile{Data: []byte(caseText(family, id, split, fmt.Sprintf("Note %d", i)))}
		fsys["gold/"+family+"/"+id+".yaml"] = &fstest.MapFile{Data: []byte(goldText(id))}
		gold[id] = "sha256:" + engine.Digest([]byte(goldText(id)))
	}
	return fsys, gold
}

func newKey(t testing.TB) *age.X25519Identity {
	t.Helper()
	k, err := age.GenerateX25519Identity()
	ok(t, err)
	return k
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// contentOf is what to seal of a tree.
func contentOf(t testing.TB, fsys fs.FS, gold map[string]string) seal.Content {
	t.Helper()
	files, err := seal.Snapshot(fsys)
	ok(t, err)
	return seal.Content{Files: files, Gold: gold, Lint: seal.Lint{Cases: len(gold), Findings: 3, Rules: map[string]int{"unproven": 2, "plan": 1}}}
}

// sealed seals a corpus of n cases for a new key.
func sealed(t testing.TB, n int) ([]byte, *age.X25519Identity) {
	t.Helper()
	k := newKey(t)
	fsys, gold := tree(n)
	var b bytes.Buffer
	_, err := seal.Seal(&b, contentOf(t, fsys, gold), k.Recipient())
	ok(t, err)
	return b.Bytes(), k
}

func open(b []byte, with ...age.Identity) (*seal.Opened, error) {
	return seal.Open(bytes.NewReader(b), with...)
}

// filesOf reads a whole tree.
func filesOf(t testing.TB, fsys fs.FS) map[string]string {
	t.Helper()
	out := map[string]string{}
	ok(t, fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := fs.ReadFile(fsys, p)
		out[p] = string(b)
		return err
	}))
	return out
}

func TestQ4_ASealedCorpusOpensToWhatWasSealed(t *testing.T) {
	t.Parallel()
	fsys, gold := tree(5)
	content := contentOf(t, fsys, gold)
	one, other := newKey(t), newKey(t)
	pq, err := age.GenerateHybridIdentity()
	ok(t, err)
	for _, tc := range []struct {
		name string
		to   []age.Recipient
		with [][]age.Identity
	}{
		{"one key", []age.Recipient{one.Recipient()}, [][]age.Identity{{one}, {other, one}}},
		{"two keys", []age.Recipient{one.Recipient(), other.Recipient()}, [][]age.Identity{{one}, {other}}},
		{"a post-quantum key", []age.Recipient{pq.Recipient()}, [][]age.Identity{{pq}, {one, pq}}},
	} {
		var b bytes.Buffer
		m, err := seal.Seal(&b, content, tc.to...)
		ok(t, err)
		if bytes.Contains(b.Bytes(), []byte("tin")) || bytes.Contains(b.Bytes(), []byte("Note")) {
			t.Errorf("%s: plain text in the sealed file", tc.name)
		}
		outside, err := seal.ReadManifest(bytes.NewReader(b.Bytes()))
		ok(t, err)
		if diff := cmp.Diff(m, outside); diff != "" {
			t.Errorf("%s: manifest (-want +got):\n%s", tc.name, diff)
		}
		for _, with := range tc.with {
			o, err := open(b.Bytes(), with...)
			if err != nil {
				t.Errorf("%s: %v", tc.name, err)
				continue
			}
			if diff := cmp.Diff(filesOf(t, fsys), filesOf(t, o.Files)); diff != "" {
				t.Errorf("%s: (-want +got):\n%s", tc.name, diff)
			}
			ok(t, o.Manifest.CheckGold(gold))
			if diff := cmp.Diff(m, o.Manifest); diff != "" {
				t.Errorf("%s: manifest (-want +got):\n%s", tc.name, diff)
			}
		}
	}
}

// TestQ4_TheManifestHasDigestsOfThePlainCorpus compares with those that plans and
// freezes of the plain folder hold.
func TestQ4_TheManifestHasDigestsOfThePlainCorpus(t *testing.T) {
	t.Parallel()
	b, _ := sealed(t, 4)
	m, err := seal.ReadManifest(bytes.NewReader(b))
	ok(t, err)
	fsys, gold := tree(4)
	plain, err := corpus.Load(fsys)
	ok(t, err)
	whole, err := plain.Digest()
	ok(t, err)
	if m.Digest != whole {
		t.Errorf("corpus %s, want %s", m.Digest, whole)
	}
	var order []string
	for _, c := range m.Cases() {
		k, found := plain.Case(c.ID)
		if !found {
			t.Fatalf("no case %s", c.ID)
		}
		d, err := k.Digest()
		ok(t, err)
		if want := (seal.Case{ID: k.ID, Family: k.Family, Split: k.Split, Digest: d}); c != want {
			t.Errorf("%+v, want %+v", c, want)
		}
		if got := m.Splits[k.Split].Gold[k.ID]; got != gold[k.ID] {
			t.Errorf("gold of %s: %s", k.ID, got)
		}
		order = append(order, c.ID)
	}
	for i, k := range plain.Cases {
		if order[i] != k.ID {
			t.Errorf("case %d is %s, want %s", i, order[i], k.ID)
		}
	}
	for name, s := range m.Splits {
		want, err := plain.SplitDigest(name)
		ok(t, err)
		if s.Digest != want {
			t.Errorf("split %s: %s, want %s", name, s.Digest, want)
		}
	}
	for _, f := range m.Files {
		data := fsys[f.Path].Data
		if f.Size != int64(len(data)) || f.SHA256 != "sha256:"+engine.Digest(data) {
			t.Errorf("file %+v", f)
		}
	}
}

// TestQ4_EveryBitOfASealedCorpusCounts flips one random bit of each byte of a
// small sealed corpus, under QUALIFY_LONG every bit: none opens.
func TestQ4_EveryBitOfASealedCorpusCounts(t *testing.T) {
	t.Parallel()
	b, k := sealed(t, 1)
	if _, err := open(b, k); err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	t.Logf("seed %d, %d bytes", seed, len(b))
	bits := rand.New(rand.NewPCG(seed, 1))
	long := os.Getenv("QUALIFY_LONG") != ""
	masks := make([]byte, len(b))
	for i := range masks {
		masks[i] = 1 << bits.IntN(8)
	}
	var wg sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		wg.Go(func() {
			flipped := bytes.Clone(b)
			for i := w; i < len(b); i += workers {
				for bit := range 8 {
					mask := byte(1) << bit
					if mask != masks[i] && !long {
						continue
					}
					flipped[i] ^= mask
					_, err := open(flipped, k)
					if !errors.Is(err, seal.ErrFormat) {
						t.Errorf("byte %d mask %#x: %v", i, mask, err)
					}
					flipped[i] ^= mask
				}
			}
		})
	}
	wg.Wait()
}

// line splits a sealed corpus.
func line(b []byte) (manifest, payload string) {
	m, p, _ := strings.Cut(string(b), "\n")
	return m, p
}

func TestQ4_WhatIsNoSealedCorpusIsNotOpened(t *testing.T) {
	t.Parallel()
	b, k := sealed(t, 1)
	m, payload := line(b)
	other, otherKey := sealed(t, 2)
	otherManifest, otherPayload := line(other)
	for name, bad := range map[string]string{
		"empty":                   "",
		"only a brace":            "{",
		"another document":        "{}\n",
		"two in one":              string(b) + string(b),
		"a byte more":             string(b) + "\n",
		"no payload":              m + "\n",
		"a payload of another":    m + "\n" + otherPayload,
		"a manifest of another":   otherManifest + "\n" + payload,
		"CRLF":                    m + "\r\n" + payload,
		"a space":                 m + " \n" + payload,
		"an empty line":           "\n" + string(b),
		"another schema":          strings.Replace(m, seal.Schema, "qualify/sealed-corpus/v2", 1) + "\n" + payload,
		"a repeated key":          strings.Replace(m, `"digest"`, `"digest":"","digest"`, 1) + "\n" + payload,
		"an unknown field":        strings.Replace(m, `"digest"`, `"colour":"","digest"`, 1) + "\n" + payload,
		"a finding fewer":         strings.Replace(strings.Replace(m, `"findings":3`, `"findings":2`, 1), `"plan":1,`, "", 1) + "\n" + payload,
		"findings of no rule":     strings.Replace(m, `"findings":3`, `"findings":4`, 1) + "\n" + payload,
		"a path out of the tree":  strings.Replace(m, `"gold/shelf/shelf-note-000.yaml"`, `"gold/../shelf-note-000.yaml"`, 1) + "\n" + payload,
		"a case of no file":       strings.Replace(m, `"shelf/shelf-note-000.yaml"`, `"shelf/shelf-note-001.yaml"`, 1) + "\n" + payload,
		"a payload of fewer":      strings.Replace(m, `"size":`+fmt.Sprint(len(payload)), `"size":`+fmt.Sprint(len(payload)-1), 1) + "\n" + payload[:len(payload)-1],
		"null for the whole":      "null\n" + payload,
		"a manifest with no case": `{"digest":"","files":[],"lint":{"cases":0,"findings":0,"rules":{}},"payload":{"sha256":"","size":0},"schema":"qualify/sealed-corpus/v1","splits":{}}` + "\n",
	} {
		if bad == string(b) {
			t.Fatalf("%s: nothing is changed", name)
		}
		if _, err := open([]byte(bad), k, otherKey); !errors.Is(err, seal.ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for n := range b {
		if n%89 != 0 && n < len(b)-3 && (n < len(m)-1 || n > len(m)+2) {
			continue
		}
		if _, err := open(b[:n], k); !errors.Is(err, seal.ErrFormat) {
			t.Fatalf("cut off at %d: %v", n, err)
		}
		if _, err := seal.ReadManifest(bytes.NewReader(b[:n])); !errors.Is(err, seal.ErrFormat) {
			t.Fatalf("the manifest of what is cut off at %d: %v", n, err)
		}
	}
}

func TestQ4_OnlyItsKeysOpenASealedCorpus(t *testing.T) {
	t.Parallel()
	b, k := sealed(t, 1)
	wrong := newKey(t)
	for name, with := range map[string][]age.Identity{"no key": nil, "another key": {wrong}, "two others": {wrong, newKey(t)}} {
		_, err := open(b, with...)
		if !errors.Is(err, seal.ErrKey) || errors.Is(err, seal.ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
		for _, shown := range []string{k.String(), wrong.String()} {
			if err != nil && strings.Contains(err.Error(), shown) {
				t.Errorf("%s: the error shows a key", name)
			}
		}
	}
}

// forged builds a file as somebody could who has the recipient: inside what they
// like, outside a manifest that fits the payload.
func forged(t *testing.T, k *age.X25519Identity, outside seal.Contents, archive []byte) []byte {
	t.Helper()
	var payload bytes.Buffer
	w, err := age.Encrypt(&payload, k.Recipient())
	ok(t, err)
	_, err = w.Write(archive)
	ok(t, errors.Join(err, w.Close()))
	b, err := engine.Canonical(seal.Manifest{Contents: outside, Payload: seal.Payload{
		Size: int64(payload.Len()), SHA256: "sha256:" + engine.Digest(payload.Bytes()),
	}})
	ok(t, err)
	return append(append(b, '\n'), payload.Bytes()...)
}

// entry is one entry of a forged archive.
type entry struct {
	head tar.Header
	data string
}

func archiveOf(t *testing.T, entries []entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := e.head
		if h.Typeflag == 0 || h.Typeflag == tar.TypeReg {
			h.Size = int64(len(e.data))
		}
		ok(t, w.WriteHeader(&h))
		_, err := io.WriteString(w, e.data)
		ok(t, err)
	}
	ok(t, w.Close())
	return b.Bytes()
}

// opened takes a sealed corpus apart, by the age library and archive/tar alone:
// the entries of its archive.
func opened(t *testing.T, b []byte, k *age.X25519Identity) (archive []byte, entries []entry) {
	t.Helper()
	_, payload := line(b)
	r, err := age.Decrypt(strings.NewReader(payload), k)
	ok(t, err)
	archive, err = io.ReadAll(r)
	ok(t, err)
	for tr := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return archive, entries
		}
		ok(t, err)
		data, err := io.ReadAll(tr)
		ok(t, err)
		entries = append(entries, entry{*h, string(data)})
	}
}

// TestQ4_AForgedSealedCorpusIsFound: whoever has the recipient can encrypt what
// they like; what is inside must still be in the one form and fit the manifest.
func TestQ4_AForgedSealedCorpusIsFound(t *testing.T) {
	t.Parallel()
	b, k := sealed(t, 2)
	archive, entries := opened(t, b, k)
	m, err := seal.ReadManifest(bytes.NewReader(b))
	ok(t, err)
	if _, err := open(forged(t, k, m.Contents, archiveOf(t, entries)), k); err != nil {
		t.Fatalf("the forger's tools do not make a sealed corpus: %v", err)
	}
	clone := func() seal.Contents {
		c := m.Contents
		c.Splits = maps.Clone(c.Splits)
		for name, s := range c.Splits {
			c.Splits[name] = seal.Split{Digest: s.Digest, Cases: maps.Clone(s.Cases), Gold: maps.Clone(s.Gold)}
		}
		c.Files = slices.Clone(c.Files)
		c.Lint.Rules = maps.Clone(c.Lint.Rules)
		return c
	}
	no := "sha256:" + strings.Repeat("0", 64)
	// Both manifests name something else.
	for name, edit := range map[string]func(c *seal.Contents){
		"the corpus":       func(c *seal.Contents) { c.Digest = no },
		"a split":          func(c *seal.Contents) { s := c.Splits["dev"]; s.Digest = no; c.Splits["dev"] = s },
		"a case":           func(c *seal.Contents) { c.Splits["dev"].Cases["desk-note-001"] = no },
		"a file":           func(c *seal.Contents) { c.Files[0].SHA256 = no },
		"a size":           func(c *seal.Contents) { c.Files[0].Size++ },
		"a file too many":  func(c *seal.Contents) { c.Files = append(c.Files, seal.File{Path: "zoo/z.yaml", SHA256: no}) },
		"a file too few":   func(c *seal.Contents) { c.Files = slices.Delete(c.Files, 2, 3) },
		"a gold file less": func(c *seal.Contents) { c.Files = slices.Delete(c.Files, 1, 2) },
		"another split": func(c *seal.Contents) {
			c.Splits["test"] = c.Splits["dev"]
			delete(c.Splits, "dev")
		},
	} {
		c := clone()
		edit(&c)
		inside, err := engine.Canonical(c)
		ok(t, err)
		changed := slices.Clone(entries)
		changed[0].data = string(inside)
		if _, err := open(forged(t, k, c, archiveOf(t, changed)), k); !errors.Is(err, seal.ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Only the one outside does, in what nothing else proves.
	for name, edit := range map[string]func(c *seal.Contents){
		"the audit": func(c *seal.Contents) { c.Lint = seal.Lint{Cases: 2, Rules: map[string]int{}} },
		"the gold":  func(c *seal.Contents) { c.Splits["dev"].Gold["desk-note-001"] = no },
		"no gold":   func(c *seal.Contents) { delete(c.Splits["dev"].Gold, "desk-note-001") },
	} {
		c := clone()
		edit(&c)
		if _, err := open(forged(t, k, c, archive), k); !errors.Is(err, seal.ErrFormat) || !strings.Contains(err.Error(), "first line") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// The archive has another form.
	for name, edit := range map[string]func(list []entry) []entry{
		"another mode":       func(l []entry) []entry { l[1].head.Mode = 0o600; return l },
		"an owner":           func(l []entry) []entry { l[1].head.Uid = 7; return l },
		"a name of an owner": func(l []entry) []entry { l[1].head.Uname = "ravi"; return l },
		"a time":             func(l []entry) []entry { l[1].head.ModTime = l[1].head.ModTime.AddDate(1, 0, 0); return l },
		"a PAX record": func(l []entry) []entry {
			l[1].head.Format, l[1].head.PAXRecords = tar.FormatPAX, map[string]string{"A.b": "c"}
			return l
		},
		"another order":     func(l []entry) []entry { l[1], l[2] = l[2], l[1]; return l },
		"no manifest":       func(l []entry) []entry { return l[1:] },
		"a manifest behind": func(l []entry) []entry { return append(l[1:], l[0]) },
		"a file twice":      func(l []entry) []entry { return append(l, l[len(l)-1]) },
		"a file less":       func(l []entry) []entry { return l[:len(l)-1] },
		"a link": func(l []entry) []entry {
			l[1].head.Typeflag, l[1].head.Linkname, l[1].data = tar.TypeSymlink, "/etc/passwd", ""
			l[1].head.Size = 0
			return l
		},
		"a folder": func(l []entry) []entry {
			return append(l, entry{tar.Header{Typeflag: tar.TypeDir, Name: "zoo/", Mode: 0o755}, ""})
		},
		"nothing": func([]entry) []entry { return nil },
	} {
		if _, err := open(forged(t, k, m.Contents, archiveOf(t, edit(slices.Clone(entries)))), k); !errors.Is(err, seal.ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, bad := range map[string][]byte{
		"bytes behind the archive": append(bytes.Clone(archive), make([]byte, 512)...), "no end": archive[:len(archive)-512],
		"no archive": []byte("schema: qualify/case/v1"), "nothing at all": {},
	} {
		if _, err := open(forged(t, k, m.Contents, bad), k); !errors.Is(err, seal.ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestQ4_ASparseFileDoesNotFillTheMemory: GNU tar's sparse files claim sizes that
// the archive does not have.
func TestQ4_ASparseFileDoesNotFillTheMemory(t *testing.T) {
	t.Parallel()
	b, k := sealed(t, 1)
	m, err := seal.ReadManifest(bytes.NewReader(b))
	ok(t, err)
	const size = "1099511627776"
	sparse := "GNU.sparse.major=1 GNU.sparse.minor=0 GNU.sparse.realsize=" + size + " GNU.sparse.name=manifest.json"
	var records strings.Builder
	for _, r := range strings.Fields(sparse) {
		n := len(r) + 2 // the record is "LENGTH RECORD\n", its length included
		n += len(fmt.Sprint(n + 2))
		fmt.Fprintf(&records, "%d %s\n", n, r)
	}
	var raw bytes.Buffer
	w := tar.NewWriter(&raw)
	ok(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "PaxHeaders.0/x", Size: int64(records.Len()), Format: tar.FormatUSTAR}))
	_, err = io.WriteString(w, records.String())
	ok(t, err)
	mapped := "1\n0\n0\n" + strings.Repeat("\x00", 512-6)
	ok(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "x", Size: int64(len(mapped)), Format: tar.FormatUSTAR}))
	_, err = io.WriteString(w, mapped)
	ok(t, errors.Join(err, w.Close()))
	archive := raw.Bytes()
	archive[156] = 'x' // the first entry is an extended header
	sum := 0
	copy(archive[148:156], "        ")
	for _, c := range archive[:512] {
		sum += int(c)
	}
	copy(archive[148:156], fmt.Sprintf("%06o\x00 ", sum))
	h, err := tar.NewReader(bytes.NewReader(archive)).Next()
	if err != nil || fmt.Sprint(h.Size) != size {
		t.Fatalf("the archive claims nothing: %+v, %v", h, err)
	}
	if _, err := open(forged(t, k, m.Contents, archive), k); !errors.Is(err, seal.ErrFormat) {
		t.Errorf("%v", err)
	}
}

// TestQ4_TheArchiveHasOneForm pins the form that doc.go promises, and that the
// real tar unpacks it.
func TestQ4_TheArchiveHasOneForm(t *testing.T) {
	t.Parallel()
	b, k := sealed(t, 2)
	archive, entries := opened(t, b, k)
	want := []string{
		"manifest.json", "desk/desk-note-001.yaml", "gold/desk/desk-note-001.yaml", "gold/shelf/shelf-note-000.yaml", "shelf/shelf-note-000.yaml",
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.head.Name)
		if e.head.Mode != 0o644 || e.head.Uid != 0 || e.head.Gid != 0 || e.head.Uname != "" || e.head.ModTime.Unix() != 0 || e.head.Format&tar.FormatUSTAR == 0 {
			t.Errorf("%+v", e.head)
		}
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	again, k2 := sealed(t, 2)
	if other, _ := opened(t, again, k2); !bytes.Equal(other, archive) {
		t.Error("the same corpus makes two archives")
	}
	bin, err := exec.LookPath("tar")
	if err != nil {
		t.Skip("no tar here")
	}
	dir := t.TempDir()
	cmd := exec.CommandContext(t.Context(), bin, "-xf", "-", "-C", dir)
	cmd.Stdin = bytes.NewReader(archive)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	fsys, _ := tree(2)
	got := filesOf(t, os.DirFS(dir))
	delete(got, "manifest.json")
	if diff := cmp.Diff(filesOf(t, fsys), got); diff != "" {
		t.Errorf("unpacked (-want +got):\n%s", diff)
	}
}

// broken is a tree one of whose files cannot be read.
type broken struct {
	fstest.MapFS
	path string
}

func (b broken) Open(name string) (fs.File, error) {
	if name == b.path {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return b.MapFS.Open(name)
}

// ReadFile keeps fs.ReadFile from going round Open.
func (b broken) ReadFile(name string) ([]byte, error) {
	if name == b.path {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
	}
	return b.MapFS.ReadFile(name)
}

func TestQ4_WhatASealedCorpusCannotHoldIsRefused(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, want string
		change     func(fsys fstest.MapFS) fs.FS
	}{
		{"a file that is no case", "desk/notes.txt: a family folder holds", func(f fstest.MapFS) fs.FS {
			f["desk/notes.txt"] = &fstest.MapFile{}
			return f
		}},
		{"a file that is no gold", "gold/desk/notes.txt: a family folder holds", func(f fstest.MapFS) fs.FS {
			f["gold/desk/notes.txt"] = &fstest.MapFile{}
			return f
		}},
		{"a name with a blank", "desk/two words.yaml: names of families", func(f fstest.MapFS) fs.FS {
			f["desk/two words.yaml"] = &fstest.MapFile{}
			return f
		}},
		{"a name too long", "names of families", func(f fstest.MapFS) fs.FS {
			f["desk/"+strings.Repeat("x", 91)+".yaml"] = &fstest.MapFile{}
			return f
		}},
		{"an unreadable file", "desk/desk-note-001.yaml: permission denied", func(f fstest.MapFS) fs.FS {
			return broken{f, "desk/desk-note-001.yaml"}
		}},
		{"an unreadable gold file", "gold/desk/desk-note-001.yaml: permission denied", func(f fstest.MapFS) fs.FS {
			return broken{f, "gold/desk/desk-note-001.yaml"}
		}},
	} {
		fsys, _ := tree(2)
		if _, err := seal.Snapshot(tc.change(fsys)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
	k := newKey(t)
	fsys, gold := tree(2)
	for _, tc := range []struct {
		name, want string
		edit       func(c *seal.Content)
		to         []age.Recipient
	}{
		{"no recipient", "no recipient", func(*seal.Content) {}, nil},
		{"gold of no case", "gold of elsewhere, which is no case", func(c *seal.Content) { c.Gold = map[string]string{"elsewhere": "sha256:0"} }, []age.Recipient{k.Recipient()}},
		{"gold of no digest", "is no digest", func(c *seal.Content) { c.Gold = map[string]string{"desk-note-001": "sha256:0"} }, []age.Recipient{k.Recipient()}},
		{"an audit of others", "7 cases were audited", func(c *seal.Content) { c.Lint = seal.Lint{Cases: 7} }, []age.Recipient{k.Recipient()}},
	} {
		c := contentOf(t, fsys, gold)
		tc.edit(&c)
		var b bytes.Buffer
		if _, err := seal.Seal(&b, c, tc.to...); err == nil || !strings.Contains(err.Error(), tc.want) || b.Len() > 0 {
			t.Errorf("%s: %v and %d bytes, want %q", tc.name, err, b.Len(), tc.want)
		}
	}
}

// TestQ4_LinksAreNotSealed: a link could bring in what lies outside of the
// folder, or stand for a family that is then left out.
func TestQ4_LinksAreNotSealed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"desk/linked.yaml", "linked", "gold/desk/linked.yaml", "gold/linked", "gold"} {
		dir := t.TempDir()
		fsys, _ := tree(2)
		if name == "gold" {
			maps.DeleteFunc(fsys, func(p string, _ *fstest.MapFile) bool { return strings.HasPrefix(p, "gold/") })
		}
		ok(t, os.CopyFS(dir, fsys))
		target := t.TempDir()
		if strings.HasSuffix(name, ".yaml") {
			target = filepath.Join(target, "x.yaml")
			ok(t, os.WriteFile(target, []byte(caseText("desk", "linked", "dev", "Linked")), 0o600))
		}
		if err := os.Symlink(target, filepath.Join(dir, filepath.FromSlash(name))); err != nil {
			t.Skipf("no symbolic links here: %v", err)
		}
		if _, err := seal.Snapshot(os.DirFS(dir)); err == nil || !strings.Contains(err.Error(), name+": is a symbolic link") {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Where no case lies, a link is nobody's business.
	dir := t.TempDir()
	fsys, _ := tree(2)
	fsys["world/x"], fsys[".git/x"] = &fstest.MapFile{}, &fstest.MapFile{}
	ok(t, os.CopyFS(dir, fsys))
	ok(t, os.Symlink(dir, filepath.Join(dir, "world", "link")))
	ok(t, os.Symlink(dir, filepath.Join(dir, ".git", "link")))
	if _, err := seal.Snapshot(os.DirFS(dir)); err != nil {
		t.Error(err)
	}
}

func TestQ4_GoldOfASealedCorpusIsCompared(t *testing.T) {
	t.Parallel()
	b, _ := sealed(t, 2)
	m, err := seal.ReadManifest(bytes.NewReader(b))
	ok(t, err)
	_, gold := tree(2)
	ok(t, m.CheckGold(gold))
	for name, edit := range map[string]func(map[string]string){
		"another": func(g map[string]string) { g["desk-note-001"] = "sha256:1" },
		"less":    func(g map[string]string) { delete(g, "desk-note-001") },
		"more":    func(g map[string]string) { g["elsewhere"] = "sha256:1" },
	} {
		g := maps.Clone(gold)
		edit(g)
		if err := m.CheckGold(g); !errors.Is(err, seal.ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestQ4_AThousandCasesAreSealed(t *testing.T) {
	t.Parallel()
	b, k := sealed(t, 1000)
	o, err := open(b, k)
	ok(t, err)
	if n := len(o.Corpus.Cases); n != 1000 {
		t.Errorf("%d cases", n)
	}
	if n := len(o.Manifest.Files); n != 2000 {
		t.Errorf("%d files", n)
	}
}

// TestQ4_AnySealedCorpusRoundTrips draws corpora and audits.
func TestQ4_AnySealedCorpusRoundTrips(t *testing.T) {
	t.Parallel()
	k := newKey(t)
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.StringMatching(`[a-z0-9][a-z0-9_-]{0,20}`)
		families := rapid.SliceOfNDistinct(name.Filter(func(s string) bool { return !corpus.Reserved(s) && s != "testdata" }), 1, 3, rapid.ID[string]).Draw(rt, "families")
		ids := rapid.SliceOfNDistinct(name, 1, 6, rapid.ID[string]).Draw(rt, "ids")
		fsys, gold := fstest.MapFS{}, map[string]string{}
		split := map[string]string{}
		for _, f := range families {
			split[f] = rapid.SampledFrom([]string{"dev", "holdout"}).Draw(rt, "split of "+f)
		}
		for _, id := range ids {
			f := rapid.SampledFrom(families).Draw(rt, "family of "+id)
			title := rapid.StringMatching(`[A-Za-zäöü]{1,30}`).Draw(rt, "title of "+id)
			fsys[f+"/"+id+".yaml"] = &fstest.MapFile{Data: []byte(caseText(f, id, split[f], "T"+title))}
			if rapid.Bool().Draw(rt, "gold of "+id) {
				g := rapid.SliceOfN(rapid.Byte(), 0, 2000).Draw(rt, "bytes of the gold of "+id)
				fsys["gold/"+f+"/"+id+".yaml"] = &fstest.MapFile{Data: g}
				gold[id] = "sha256:" + engine.Digest(g)
			}
		}
		audit := seal.Lint{Cases: len(ids), Rules: map[string]int{}}
		for _, r := range rapid.SliceOfDistinct(name, rapid.ID[string]).Draw(rt, "rules") {
			audit.Rules[r] = rapid.IntRange(1, 9).Draw(rt, "findings")
			audit.Findings += audit.Rules[r]
		}
		files, err := seal.Snapshot(fsys)
		if err != nil {
			rt.Fatal(err)
		}
		var b bytes.Buffer
		m, err := seal.Seal(&b, seal.Content{Files: files, Gold: gold, Lint: audit}, k.Recipient())
		if err != nil {
			rt.Fatal(err)
		}
		o, err := open(b.Bytes(), k)
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(m, o.Manifest); diff != "" {
			rt.Errorf("(-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(audit, o.Manifest.Lint); diff != "" {
			rt.Errorf("(-want +got):\n%s", diff)
		}
		if err := o.Manifest.CheckGold(gold); err != nil {
			rt.Error(err)
		}
		if diff := cmp.Diff(filesOf(t, fsys), filesOf(t, o.Files)); diff != "" {
			rt.Errorf("(-want +got):\n%s", diff)
		}
	})
}
