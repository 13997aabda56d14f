package freeze

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/agentrooms/qualify/engine"
)

// Schema is the schema name of manifests.
const Schema = "qualify/freeze/v1"

// IDPrefix begins the id of every freeze.
const IDPrefix = "f_"

// ErrManifest means that a document is no manifest of this version, or not in
// canonical form.
var ErrManifest = errors.New("not a freeze manifest")

// Manifest is what a freeze covers. Nil lists and maps are written as empty
// ones by Build; every digest is of SHA-256.
type Manifest struct {
	Schema string `json:"schema"`
	Name   string `json:"name"` // of the campaign
	Source Source `json:"source"`
	Trees  []Tree `json:"trees"` // sorted by path, none inside another
	// Binaries are the builds that may run under the freeze, sorted by platform,
	// then digest.
	Binaries  []Binary          `json:"binaries"`
	Modules   map[string]string `json:"modules"` // module path to "version h1:sum"
	Prompts   map[string]string `json:"prompts"` // "mode/name" to "sha256:…"
	Prices    map[string]string `json:"prices"`  // "model/rate" to micros per million tokens
	Models    map[string]string `json:"models"`  // setting to value
	Corpus    Corpus            `json:"corpus"`
	Evaluator map[string]string `json:"evaluator"` // part to value or digest
	Policy    map[string]string `json:"policy"`    // "name", "digest"
	// Plan is the digest of what the campaign will run on a split that opens only
	// under the freeze, by split: a plan that was made later is not in it.
	Plan map[string]string `json:"plan,omitempty"`
}

// Source says where the parts were read, so that they can be read again. Paths
// have slashes and are relative to the frozen root; "builtin:…" is inside the
// binary.
type Source struct {
	Campaign string   `json:"campaign"`
	Policy   string   `json:"policy"`
	Exclude  []string `json:"exclude"` // patterns that the trees leave out
}

// Tree is one file or folder of the list of what to freeze.
type Tree struct {
	Path  string `json:"path"`  // relative to the root; "." is the root itself
	H1    string `json:"h1"`    // as golang.org/x/mod/sumdb/dirhash.Hash1 over the files by name
	Files []File `json:"files"` // sorted by name
}

// File is one file, or one symbolic link with its target as content.
type File struct {
	Name   string `json:"name"` // relative to the root
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"` // hex
	// LF is the digest with CRLF line ends read as LF, "" where the file has
	// none or is too large to tell. It makes "line ends only" provable.
	LF   string `json:"lf,omitempty"`
	Exec bool   `json:"exec,omitempty"` // anybody may execute it
	Link bool   `json:"link,omitempty"`
	To   string `json:"to,omitempty"` // target of the link as written
}

// Corpus is a corpus, each split apart.
type Corpus struct {
	Name   string           `json:"name"`
	Splits map[string]Split `json:"splits"`
	// Sealed is set when the corpus was read from a sealed file: "file" is the
	// digest of the file, "lint/…" what the audit had found when it was sealed.
	Sealed map[string]string `json:"sealed,omitempty"`
}

// Split is one split of a corpus: case id to digest, and case id to the digest
// of its gold.
type Split struct {
	Digest string            `json:"digest"`
	Cases  map[string]string `json:"cases"`
	Gold   map[string]string `json:"gold"`
}

// Canonical is the manifest as canonical JSON.
func (m *Manifest) Canonical() ([]byte, error) {
	b, err := engine.Canonical(m)
	if err != nil {
		return nil, fmt.Errorf("freeze manifest: %w", err)
	}
	return b, nil
}

// ID names the manifest: IDPrefix and the SHA-256 of its canonical JSON.
func (m *Manifest) ID() (string, error) {
	b, err := m.Canonical()
	if err != nil {
		return "", err
	}
	return IDPrefix + engine.Digest(b), nil
}

// Parse reads a manifest. Anything but the canonical JSON of a manifest, with at
// most one line end behind it, is ErrManifest: unknown fields, other white
// space, other orders, other spellings of the same value.
func Parse(data []byte) (*Manifest, error) {
	body := bytes.TrimSuffix(data, []byte("\n"))
	m := new(Manifest)
	if err := engine.DecodeCanonical(body, m); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	if m.Schema != Schema {
		return nil, fmt.Errorf("%w: schema is %q, this version reads %s", ErrManifest, m.Schema, Schema)
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrManifest, err)
	}
	return m, nil
}

// check holds the trees to their own summary.
func (m *Manifest) check() error {
	for i := range m.Trees {
		t := &m.Trees[i]
		if i > 0 && m.Trees[i-1].Path >= t.Path {
			return fmt.Errorf("tree %q is out of order", t.Path)
		}
		for j := 1; j < len(t.Files); j++ {
			if t.Files[j-1].Name >= t.Files[j].Name {
				return fmt.Errorf("tree %q: file %q is out of order", t.Path, t.Files[j].Name)
			}
		}
		if h := t.h1(); h != t.H1 {
			return fmt.Errorf("tree %q: its h1 is %s, its files give %s", t.Path, t.H1, h)
		}
	}
	return nil
}
