package main

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strings"

	"filippo.io/age"

	"github.com/agentrooms/qualify/corpus/seal"
	"github.com/agentrooms/qualify/engine"
)

// envCorpusKey names the file with the key of sealed corpora, for want of
// --corpus-key.
const envCorpusKey = "QUALIFY_CORPUS_KEY"

// keyring is the keys that open sealed corpora. The files are read once, when the
// first sealed corpus is: a key that is taken away while a run goes on stops
// nothing.
type keyring struct {
	paths []string // --corpus-key
	read  bool
	keys  []age.Identity
}

// corpusIdentities reads the keys; none given is no error.
func (a *app) corpusIdentities() ([]age.Identity, error) {
	k := &a.corpusKeys
	if k.read {
		return k.keys, nil
	}
	paths, from := a.corpusKeyFiles(), "--corpus-key"
	if len(k.paths) == 0 {
		from = envCorpusKey
	}
	var keys []age.Identity
	for _, path := range paths {
		if isSecretKey(path) { // which no line may show
			return nil, usagef("%s takes the name of a file with the key, not the key itself", from)
		}
		data, mode, err := readAtMost(path, mostKeyFile)
		if err != nil {
			return nil, usagef("%s: %w", from, err)
		}
		ids, err := age.ParseIdentities(bytes.NewReader(data))
		if err != nil { // age's error may quote the key
			return nil, usagef("%s %s: is no file of age identities, one AGE-SECRET-KEY-1… a line; qualify corpus keygen makes one", from, path)
		}
		if warning := readableByOthers(path, mode); warning != "" {
			a.talkf("%s", warning)
		}
		keys = append(keys, ids...)
	}
	k.keys, k.read = keys, true
	return keys, nil
}

// corpusKeyFiles are the files with the keys: those of --corpus-key, else that of
// the environment.
func (a *app) corpusKeyFiles() []string {
	if env := a.env(envCorpusKey); len(a.corpusKeys.paths) == 0 && env != "" {
		return []string{env}
	}
	return a.corpusKeys.paths
}

// isSecretKey reports whether a text looks like a key and not like the name of a
// file with one.
func isSecretKey(text string) bool {
	return strings.HasPrefix(strings.ToUpper(strings.TrimSpace(text)), "AGE-SECRET-KEY-")
}

// sealedCorpus is a sealed corpus that was opened, with its file.
type sealedCorpus struct {
	*seal.Opened
	digest string // of file
	file   []byte
}

// openSealed opens a sealed corpus with the keys given.
func (a *app) openSealed(name string) (*sealedCorpus, error) {
	data, err := readSealed(name)
	if err != nil {
		return nil, err
	}
	return a.unseal(name, data)
}

// unseal opens the content of a sealed file with the keys given.
func (a *app) unseal(name string, data []byte) (*sealedCorpus, error) {
	keys, err := a.corpusIdentities()
	if err != nil {
		return nil, err
	}
	o, err := seal.Open(bytes.NewReader(data), keys...)
	switch {
	case errors.Is(err, seal.ErrKey) && len(keys) == 0:
		return nil, failf(exitRefused, "corpus %s: is sealed; give its key with --corpus-key FILE or %s", name, envCorpusKey)
	case errors.Is(err, seal.ErrKey):
		return nil, failf(exitRefused, "corpus %s: %w; it was sealed for others", name, err)
	case err != nil:
		return nil, sealFault(name, err)
	}
	return &sealedCorpus{o, digestOf(data), data}, nil
}

// sealedManifest reads what a sealed corpus says without a key.
func sealedManifest(name string) (*seal.Manifest, string, error) {
	data, err := readSealed(name)
	if err != nil {
		return nil, "", err
	}
	m, err := seal.ReadManifest(bytes.NewReader(data))
	if err != nil {
		return nil, "", sealFault(name, err)
	}
	return m, digestOf(data), nil
}

// sealFault says what is wrong with a sealed file, and what to do where its bytes
// are not those that were written.
func sealFault(name string, err error) error {
	if errors.Is(err, seal.ErrFormat) {
		return usagef("corpus %s: %w; get the file again, or seal the folder again", name, err)
	}
	return usagef("corpus %s: %w", name, firstFault(err))
}

// readSealed reads a file that should be a sealed corpus.
func readSealed(name string) ([]byte, error) {
	data, _, err := readAtMost(name, seal.MaxSize)
	if err != nil {
		return nil, usagef("corpus %w", err)
	}
	if len(data) == 0 || data[0] != '{' {
		return nil, usagef("corpus %s: is a file and no sealed corpus; name the folder that holds the families, or what qualify corpus seal made of it", name)
	}
	return data, nil
}

func digestOf(data []byte) string { return "sha256:" + engine.Digest(data) }

// isFolder refuses what is no folder.
func isFolder(name string) error {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return usagef("corpus %s: %w", name, cause(err))
	case !info.IsDir():
		return usagef("corpus %s: is a file; name the folder that holds the families", name)
	}
	return nil
}

// corpusTree is the tree of a corpus that is not built in: a folder, or a sealed
// file, which sealed then says.
func (a *app) corpusTree(name string) (tree fs.FS, sealed *sealedCorpus, err error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, nil, usagef("corpus %s: %w", name, cause(err))
	case info.IsDir():
		return os.DirFS(name), nil, nil
	}
	if sealed, err = a.openSealed(name); err != nil {
		return nil, nil, err
	}
	return sealed.Files, sealed, nil
}

// checkSealedGold holds the gold of a sealed corpus to its manifest.
func checkSealedGold(cs *cases) error {
	digests, err := goldDigests(cs)
	if err != nil {
		return err
	}
	return cs.sealed.Manifest.CheckGold(digests)
}

// isLocked reports whether a corpus is a file and no key is given.
func (a *app) isLocked(name string) (bool, error) {
	info, err := os.Stat(name)
	if name == builtinName || err != nil || info.IsDir() {
		return false, nil //nolint:nilerr // reading the corpus will say what is wrong
	}
	keys, err := a.corpusIdentities()
	return len(keys) == 0, err
}

// listSealed lists what a sealed corpus shows without its key.
func (a *app) listSealed(name, split string, asJSON bool) error {
	m, digest, err := sealedManifest(name)
	if err != nil {
		return err
	}
	if _, ok := m.Splits[split]; split != "" && !ok {
		return usagef("--split %q: no case of the corpus is in it", split)
	}
	if asJSON {
		return a.printJSON(struct {
			Schema   schemaRef      `json:"schema"`
			Corpus   string         `json:"corpus"`
			File     string         `json:"file"` // digest of the sealed file
			Manifest *seal.Manifest `json:"manifest"`
		}{schemaRef{"qualify.sealed_corpus", 1}, name, digest, m})
	}
	a.table("case\tfamily\tsplit\tgold\tdigest", func(row func(...string)) {
		for _, c := range m.Cases() {
			if split == "" || c.Split == split {
				row(c.ID, c.Family, c.Split, goldMark(m.Splits[c.Split].Gold[c.ID]), c.Digest)
			}
		}
	})
	a.talkf("%s is sealed, titles and texts too; its key opens it (--corpus-key FILE or %s). %s in the audit before it was sealed; none of this is proved without the key",
		name, envCorpusKey, plural(m.Lint.Findings, "finding"))
	return nil
}

// goldMark says whether a case has gold.
func goldMark(digest string) string {
	if digest == "" {
		return "none"
	}
	return "sealed"
}
