package seal

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/engine"
)

// Schema is the schema name of manifests.
const Schema = "qualify/sealed-corpus/v1"

var (
	// ErrFormat means that bytes are no sealed corpus, or no longer the one that
	// was made: cut off, changed, or not what its manifest says.
	ErrFormat = errors.New("not a sound sealed corpus")
	// ErrKey means that no key given opens a sealed corpus.
	ErrKey = errors.New("no key given opens the sealed corpus")
)

// Contents is what a sealed corpus holds. Every digest is "sha256:" and hex.
type Contents struct {
	Schema string           `json:"schema"`
	Digest string           `json:"digest"` // corpus.Corpus.Digest
	Splits map[string]Split `json:"splits"`
	Files  []File           `json:"files"` // sorted by path in byte order
	Lint   Lint             `json:"lint"`
}

// Split is one split: its digest, case id to the digest of the case, and case id
// to the digest of its gold.
type Split struct {
	Digest string            `json:"digest"`
	Cases  map[string]string `json:"cases"`
	Gold   map[string]string `json:"gold"`
}

// File is one file of the corpus, as it was before sealing.
type File struct {
	Path   string `json:"path"`
	Size   int64  `json:"size"` // bytes
	SHA256 string `json:"sha256"`
}

// Lint is what the audit found in the corpus when it was sealed: cases audited,
// findings, and findings by rule.
type Lint struct {
	Cases    int            `json:"cases"`
	Findings int            `json:"findings"`
	Rules    map[string]int `json:"rules"`
}

// Payload is the encrypted part of the file.
type Payload struct {
	Size   int64  `json:"size"` // bytes
	SHA256 string `json:"sha256"`
}

// Manifest is the first line of a sealed corpus.
type Manifest struct {
	Contents
	Payload Payload `json:"payload"`
}

// Case is one case of a sealed corpus as its manifest shows it.
type Case struct {
	ID, Family, Split, Digest string
}

// Cases lists the cases by family and id, as a corpus does.
func (c *Contents) Cases() []Case {
	family := map[string]string{}
	for _, f := range c.Files {
		if fam, id, ok := caseOf(f.Path); ok {
			family[id] = fam
		}
	}
	var out []Case
	for split, s := range c.Splits {
		for id, digest := range s.Cases {
			out = append(out, Case{id, family[id], split, digest})
		}
	}
	slices.SortFunc(out, func(a, b Case) int {
		if n := strings.Compare(a.Family, b.Family); n != 0 {
			return n
		}
		return strings.Compare(a.ID, b.ID)
	})
	return out
}

// CheckGold compares the digests of gold, by case id, with those of the
// manifest. Gold is not for this package to read. The error is ErrFormat.
func (c *Contents) CheckGold(gold map[string]string) error {
	want := map[string]string{}
	for _, s := range c.Splits {
		maps.Copy(want, s.Gold)
	}
	for _, id := range slices.Sorted(maps.Keys(want)) {
		if gold[id] != want[id] {
			return fmt.Errorf("%w: gold of case %s: its digest is %s, the manifest says %s", ErrFormat, id, orNone(gold[id]), want[id])
		}
	}
	for _, id := range slices.Sorted(maps.Keys(gold)) {
		if want[id] == "" {
			return fmt.Errorf("%w: gold of case %s: the manifest does not name it", ErrFormat, id)
		}
	}
	return nil
}

func orNone(digest string) string {
	if digest == "" {
		return "missing"
	}
	return digest
}

// parseManifest reads the first line of a file, without its end.
func parseManifest(line []byte) (*Manifest, error) {
	m := new(Manifest)
	if err := engine.DecodeCanonical(line, m); err != nil {
		return nil, fmt.Errorf("%w: its first line: %w", ErrFormat, err)
	}
	if m.Schema != Schema {
		return nil, fmt.Errorf("%w: its schema is %q, this version reads %s", ErrFormat, m.Schema, Schema)
	}
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("%w: its manifest: %w", ErrFormat, err)
	}
	return m, nil
}

var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

// check holds a manifest to itself, as far as that needs no key.
func (m *Manifest) check() error {
	digests := []string{m.Digest, m.Payload.SHA256}
	files := map[string]bool{}
	for i, f := range m.Files {
		if !isCorpusPath(f.Path) {
			return fmt.Errorf("%q is no path of a corpus", f.Path)
		}
		if i > 0 && m.Files[i-1].Path >= f.Path {
			return fmt.Errorf("file %s is out of order", f.Path)
		}
		if f.Size < 0 || f.Size > MaxSize {
			return fmt.Errorf("file %s has %d bytes", f.Path, f.Size)
		}
		files[f.Path] = true
		digests = append(digests, f.SHA256)
	}
	cases := m.Cases()
	seen := map[string]bool{}
	for _, c := range cases {
		if seen[c.ID] {
			return fmt.Errorf("case %s is in two splits", c.ID)
		}
		seen[c.ID] = true
		if !files[c.Family+"/"+c.ID+".yaml"] {
			return fmt.Errorf("case %s has no file", c.ID)
		}
		digests = append(digests, c.Digest)
	}
	for name, s := range m.Splits {
		if s.Cases == nil || s.Gold == nil || len(s.Cases) == 0 {
			return fmt.Errorf("split %q has no cases", name)
		}
		digests = append(digests, s.Digest)
		for id, d := range s.Gold {
			if s.Cases[id] == "" {
				return fmt.Errorf("split %q has gold of %s, and no such case", name, id)
			}
			digests = append(digests, d)
		}
	}
	for _, d := range digests {
		if !digestForm.MatchString(d) {
			return fmt.Errorf("%q is no digest", d)
		}
	}
	if len(cases) == 0 {
		return errors.New("it names no case")
	}
	return m.Lint.check(len(cases))
}

func (l *Lint) check(cases int) error {
	sum := 0
	for rule, n := range l.Rules {
		if n < 1 || rule == "" {
			return fmt.Errorf("lint: %d findings of rule %q", n, rule)
		}
		sum += n
	}
	switch {
	case l.Rules == nil:
		return errors.New("lint: its rules are missing")
	case l.Cases != cases:
		return fmt.Errorf("lint: %d cases were audited, the corpus has %d", l.Cases, cases)
	case l.Findings != sum:
		return fmt.Errorf("lint: %d findings, by rule %d", l.Findings, sum)
	}
	return nil
}

// goldFolder holds the gold of a corpus, in the mirror of its families.
const goldFolder = "gold"

// isCorpusPath reports whether the loaders of cases or gold read a path.
func isCorpusPath(p string) bool {
	_, _, ok := caseOf(strings.TrimPrefix(p, goldFolder+"/"))
	return ok
}

// caseOf takes the path of a case apart; not ok for any other path, those of
// gold included.
func caseOf(p string) (family, id string, ok bool) {
	family, name, found := strings.Cut(p, "/")
	id, yaml := strings.CutSuffix(name, ".yaml")
	ok = found && yaml && nameForm.MatchString(family) && nameForm.MatchString(id) && !corpus.Reserved(family)
	return family, id, ok
}

// nameForm is the form of ids of cases and families, short enough for ustar to
// name every file.
var nameForm = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,89}$`)
