package freeze

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
)

func manifestOf(trees []Tree) *Manifest {
	m := small()
	m.Trees = trees
	return m
}

// small is a manifest with something in each part.
func small() *Manifest {
	m := &Manifest{
		Schema: Schema, Name: "small", Source: Source{Campaign: "qualify/c.yaml", Policy: "builtin:default", Exclude: []string{"docs"}},
		Trees: []Tree{{Path: "src", Files: []File{
			{Name: "src/a.go", Size: 3, SHA256: digest([]byte("one")), LF: digest([]byte("lf"))},
			{Name: "src/b", Size: 1, SHA256: digest([]byte("a")), Link: true, To: "a"},
			{Name: "src/run", Size: 3, SHA256: digest([]byte("run")), Exec: true},
		}}},
		Binaries:  []Binary{{Platform: "linux/amd64", SHA256: digest([]byte("bin")), Size: 9, Go: "go1.26", Module: "m v1", Settings: map[string]string{"vcs.revision": "abc"}}},
		Modules:   map[string]string{"example.org/m": "v1.2.3 h1:x"},
		Prompts:   map[string]string{"legacy/system": "sha256:1"},
		Prices:    map[string]string{"m/input": "3000000"},
		Models:    map[string]string{"name": "m"},
		Corpus:    Corpus{Name: "builtin", Splits: map[string]Split{"holdout": {Digest: "sha256:2", Cases: map[string]string{"f/c": "sha256:3"}, Gold: map[string]string{"f/c": "sha256:4"}}}, Sealed: map[string]string{"file": "sha256:10", "lint/findings": "0"}},
		Evaluator: map[string]string{"code": "vcs:abc"},
		Policy:    map[string]string{"digest": "sha256:5"},
	}
	for i := range m.Trees {
		m.Trees[i].H1 = m.Trees[i].h1()
	}
	return m
}

func canonical(t testing.TB, m *Manifest) []byte {
	t.Helper()
	b, err := m.Canonical()
	ok(t, err)
	return b
}

func TestQ4_TheIDIsTheDigestOfTheManifest(t *testing.T) {
	t.Parallel()
	b := canonical(t, small())
	m, err := Parse(append(bytes.Clone(b), '\n'))
	ok(t, err)
	if diff := cmp.Diff(small(), m); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	id, err := m.ID()
	ok(t, err)
	if want := "f_" + engine.Digest(b); id != want {
		t.Errorf("id %s, want %s", id, want)
	}
}

// TestQ4_EveryBitOfAManifestCounts flips each bit of a manifest: it is then
// either no manifest, or another one, with another id and a named difference.
func TestQ4_EveryBitOfAManifestCounts(t *testing.T) {
	t.Parallel()
	b := canonical(t, small())
	want, err := small().ID()
	ok(t, err)
	parsed := 0
	for i := range b {
		for bit := range 8 {
			flipped := bytes.Clone(b)
			flipped[i] ^= 1 << bit
			m, err := Parse(flipped)
			if err != nil {
				if !errors.Is(err, ErrManifest) {
					t.Fatalf("byte %d bit %d: %v is not ErrManifest", i, bit, err)
				}
				continue
			}
			parsed++
			if id, err := m.ID(); err != nil || id == want {
				t.Fatalf("byte %d bit %d: id %s, %v", i, bit, id, err)
			}
			if len(Diff(small(), m)) == 0 {
				t.Fatalf("byte %d bit %d: no difference is named: %s", i, bit, flipped)
			}
		}
	}
	if parsed == 0 {
		t.Error("no flip gave another manifest; the test shows nothing of Diff")
	}
}

func TestQ4_OtherSpellingsOfAManifestAreRefused(t *testing.T) {
	t.Parallel()
	b := string(canonical(t, small()))
	for _, bad := range []string{
		"", "{}", "null", "[]", " " + b, b + "\n\n", b + b, strings.Replace(b, `"name":"small"`, `"name":"sm\u0061ll"`, 1),
		strings.Replace(b, `"size":9`, `"size":9.0`, 1), strings.Replace(b, `"schema"`, `"extra":1,"schema"`, 1),
		strings.Replace(b, Schema, "qualify/freeze/v2", 1), strings.Replace(b, `"to":"a"`, `"to":"a","to":"a"`, 1),
	} {
		if _, err := Parse([]byte(bad)); !errors.Is(err, ErrManifest) {
			t.Errorf("%.60q: %v", bad, err)
		}
	}
}

// TestQ4_EachChangeIsNamedWithBothValues changes each part in turn.
func TestQ4_EachChangeIsNamedWithBothValues(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(m *Manifest)
		want   []string // lines of Verify
	}{
		{"nothing", func(*Manifest) {}, nil},
		{"file", func(m *Manifest) { m.Trees[0].Files[0].SHA256 = digest([]byte("two")) }, []string{
			"file src/a.go: sha256:" + digest([]byte("one")) + " → sha256:" + digest([]byte("two")),
			"tree src: " + small().Trees[0].H1 + " → ",
		}},
		{"file gone", func(m *Manifest) { m.Trees[0].Files = m.Trees[0].Files[:2] }, []string{
			"file src/run: sha256:" + digest([]byte("run")) + " executable → (absent)",
			"tree src: ",
		}},
		{"file new", func(m *Manifest) {
			m.Trees[0].Files = append(m.Trees[0].Files, File{Name: "src/z", SHA256: digest(nil)})
		}, []string{"file src/z: (absent) → sha256:" + digest(nil), "tree src: "}},
		{"module", func(m *Manifest) { m.Modules["example.org/m"] = "v1.2.4 h1:y" }, []string{"module example.org/m: v1.2.3 h1:x → v1.2.4 h1:y"}},
		{"prompt", func(m *Manifest) { m.Prompts["legacy/system"] = "sha256:9" }, []string{"prompt legacy/system: sha256:1 → sha256:9"}},
		{"price", func(m *Manifest) { m.Prices["m/input"] = "2999999" }, []string{"price m/input: 3000000 → 2999999"}},
		{"model", func(m *Manifest) { m.Models["name"] = "n" }, []string{"model name: m → n"}},
		{"evaluator", func(m *Manifest) { m.Evaluator["code"] = "vcs:d" }, []string{"evaluator code: vcs:abc → vcs:d"}},
		{"policy", func(m *Manifest) { m.Policy["digest"] = "sha256:6" }, []string{"policy digest: sha256:5 → sha256:6"}},
		{"case", func(m *Manifest) { m.Corpus.Splits["holdout"].Cases["f/c"] = "sha256:7" }, []string{"case holdout/f/c: sha256:3 → sha256:7"}},
		{"sealed corpus", func(m *Manifest) { m.Corpus.Sealed["file"] = "sha256:11" }, []string{"sealed corpus file: sha256:10 → sha256:11"}},
		{"audit of a sealed corpus", func(m *Manifest) { m.Corpus.Sealed["lint/findings"] = "1" }, []string{"sealed corpus lint/findings: 0 → 1"}},
		{"corpus no longer sealed", func(m *Manifest) { m.Corpus.Sealed = nil }, []string{
			"sealed corpus file: sha256:10 → (absent)", "sealed corpus lint/findings: 0 → (absent)",
		}},
		{"gold", func(m *Manifest) { delete(m.Corpus.Splits["holdout"].Gold, "f/c") }, []string{"gold holdout/f/c: sha256:4 → (absent)"}},
		{"split", func(m *Manifest) { m.Corpus.Splits["dev"] = Split{Digest: "sha256:8"} }, []string{"split dev: (absent) → sha256:8"}},
		{"binary", func(m *Manifest) { m.Binaries[0].SHA256 = digest([]byte("other")) }, []string{
			"binary linux/amd64: sha256:" + digest([]byte("bin")) + " go1.26 abc → sha256:" + digest([]byte("other")) + " go1.26 abc",
		}},
		{"platform", func(m *Manifest) { m.Binaries[0].Platform = "plan9/arm" }, []string{
			"binary plan9/arm: (absent) → sha256:" + digest([]byte("bin")) + " go1.26 abc (the freeze allows no binary for this platform)",
		}},
		{"no binary", func(m *Manifest) { m.Binaries = nil }, []string{"binary running: 1 allowed → (absent)"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			now := small()
			tc.change(now)
			for i := range now.Trees {
				now.Trees[i].H1 = now.Trees[i].h1()
			}
			ds := Verify(small(), now)
			if len(ds) != len(tc.want) {
				t.Fatalf("found %v, want %q", ds, tc.want)
			}
			for i, d := range ds {
				if !strings.HasPrefix(d.String(), tc.want[i]) {
					t.Errorf("line %d is %q, want %q", i, d, tc.want[i])
				}
			}
			if len(Diff(small(), now)) == 0 != (tc.want == nil) {
				t.Errorf("Diff and Verify disagree: %v", Diff(small(), now))
			}
		})
	}
}

// TestQ4_AnyAllowedBinaryMayRun: the present runs one of the frozen binaries,
// which is no difference to Verify and one to Diff.
func TestQ4_AnyAllowedBinaryMayRun(t *testing.T) {
	t.Parallel()
	frozen := small()
	frozen.Binaries = append(frozen.Binaries, Binary{Platform: "linux/arm64", SHA256: digest([]byte("arm"))}, Binary{Platform: "linux/arm64", SHA256: digest([]byte("arm2"))})
	for i := range frozen.Binaries {
		now := small()
		now.Binaries = frozen.Binaries[i : i+1]
		if ds := Verify(frozen, now); len(ds) > 0 {
			t.Errorf("binary %d: %v", i, ds)
		}
		if ds := Diff(frozen, now); len(ds) == 0 {
			t.Errorf("binary %d: Diff finds nothing", i)
		}
	}
	now := small()
	now.Binaries = []Binary{{Platform: "linux/arm64", SHA256: frozen.Binaries[0].SHA256}}
	if ds := Verify(frozen, now); len(ds) != 1 || !strings.Contains(ds[0].Old, " or ") {
		t.Errorf("a binary listed for another platform: %v", ds)
	}
}

func TestQ4_BuildIsTheSameEachTime(t *testing.T) {
	t.Parallel()
	dir := tmp(t, map[string]string{"src/a.go": "one", "go.mod": "m"})
	running, mods, err := Running()
	ok(t, err)
	in := Inputs{Name: "c", Root: dir, Include: []string{"src", "go.mod"}, Binaries: []Binary{running, running}, Modules: mods}
	build := func(in Inputs) (*Manifest, string) {
		m, err := Build(t.Context(), in)
		ok(t, err)
		id, err := m.ID()
		ok(t, err)
		return m, id
	}
	a, first := build(in)
	slices.Reverse(in.Include)
	_, second := build(in)
	if first != second {
		t.Errorf("ids %s and %s", first, second)
	}
	if len(a.Binaries) != 1 {
		t.Errorf("one binary given twice is listed %d times", len(a.Binaries))
	}
	p, err := Parse(canonical(t, a))
	ok(t, err)
	if diff := cmp.Diff([]string{"go.mod", "src"}, p.Includes()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	put(t, dir, "src/a.go", "onE")
	b, _ := build(in)
	if ds := Verify(a, b); len(ds) != 2 || ds[0].Name != "src/a.go" {
		t.Errorf("one changed byte: %v", ds)
	}
	if _, err := Build(t.Context(), Inputs{Root: filepath.Join(dir, "gone")}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a root that is not there: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Build(ctx, in); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestQ4_BinariesAreDescribed: the running binary read as itself and as a file
// is one, and a changed byte makes it another.
func TestQ4_BinariesAreDescribed(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	ok(t, err)
	running, _, err := Running()
	ok(t, err)
	file, err := ReadBinary(self)
	ok(t, err)
	if running.SHA256 != file.SHA256 || running.Size != file.Size || running.Go != runtime.Version() || running.Platform != runtime.GOOS+"/"+runtime.GOARCH {
		t.Errorf("running %+v, file %+v", running, file)
	}
	if file.Platform != running.Platform {
		t.Errorf("platform %s, want %s", file.Platform, running.Platform)
	}
	f, err := os.Open(self)
	ok(t, err)
	_, mods, err := describe(f, &debug.BuildInfo{Deps: []*debug.Module{
		{Path: "a", Version: "v1", Sum: "h1:a"}, {Path: "b", Version: "v2", Sum: "h1:b", Replace: &debug.Module{Path: "../b"}},
	}})
	ok(t, errors.Join(err, f.Close()))
	if diff := cmp.Diff(map[string]string{"a": "v1 h1:a", "b": "v2 h1:b replaced by ../b  "}, mods); diff != "" {
		t.Errorf("modules (-want +got):\n%s", diff)
	}
	dir := tmp(t, map[string]string{"no.txt": "text"})
	if _, err := ReadBinary(filepath.Join(dir, "no.txt")); err == nil || !strings.Contains(err.Error(), "no binary of the go command") {
		t.Errorf("a text file: %v", err)
	}
	if _, err := ReadBinary(filepath.Join(dir, "gone")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	in, err := os.Open(self)
	ok(t, err)
	defer in.Close() //nolint:errcheck // read only
	out, err := os.Create(filepath.Join(dir, "copy"))
	ok(t, err)
	_, err = io.Copy(out, in)
	ok(t, err)
	_, err = out.WriteString("x")
	ok(t, err)
	ok(t, out.Close())
	changed, err := ReadBinary(out.Name())
	ok(t, err)
	if changed.SHA256 == running.SHA256 {
		t.Error("a changed binary has the same digest")
	}
}
