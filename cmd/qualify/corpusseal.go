package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/corpus/gold"
	"github.com/agentrooms/qualify/corpus/lint"
	"github.com/agentrooms/qualify/corpus/seal"
)

func (a *app) corpusKeygenCmd() *cobra.Command {
	var out string
	c := &cobra.Command{
		Use:   "keygen -o FILE",
		Short: "Make a key that opens sealed corpora",
		Long: `Make a key for sealed corpora: an age identity in FILE, readable by you only. A
file that exists is never replaced. The recipient that is printed, age1…, is
public: corpus seal --to encrypts for it. A key lost is a corpus lost; keep a copy
of FILE apart from the machine, and out of the repository.`,
		Args: exactArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			if out == "" {
				return usagef("%sname the FILE of the key with -o%s", inCommand(c), seeHelp(c))
			}
			k, err := age.GenerateX25519Identity()
			if err != nil {
				return fmt.Errorf("make a key: %w", err)
			}
			text := fmt.Sprintf("# public key: %s\n%s\n", k.Recipient(), k)
			if err := createKey(out, []byte(text), 0o600); err != nil {
				return err
			}
			a.printf("%s\n", k.Recipient())
			a.talkf("key in %s; give the recipient above to those who seal", out)
			return nil
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "`FILE` of the key")
	return c
}

// sealFlags are the flags of corpus seal.
type sealFlags struct {
	out          string
	to           []string
	withFindings bool
}

func (a *app) corpusSealCmd() *cobra.Command {
	var f sealFlags
	c := &cobra.Command{
		Use:   "seal FOLDER -o FILE --to RECIPIENT",
		Short: "Encrypt a private corpus into one file",
		Long: `Encrypt the cases and gold of a corpus folder into one file, which stands for the
folder wherever a corpus is named: in --corpus and in campaign files. Who reads
it needs a key of one of the recipients, given by --corpus-key FILE or
QUALIFY_CORPUS_KEY.

The corpus is loaded and audited first, as by corpus lint. Findings refuse it,
exit 5, unless --with-findings; the file says how many there were. Without any
key the file shows what it holds by id, split, path, size and digest; titles and
texts are sealed (corpus list --corpus FILE).`,
		Args: exactArgs("FOLDER"),
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case f.out == "":
				return usagef("%sname the sealed FILE with -o%s", inCommand(c), seeHelp(c))
			case len(f.to) == 0:
				return usagef("%sname who can open it with --to; qualify corpus keygen makes a key%s", inCommand(c), seeHelp(c))
			}
			return a.corpusSeal(args[0], f)
		},
	}
	fl := c.Flags()
	fl.StringVarP(&f.out, "output", "o", "", "`FILE` to write")
	fl.StringArrayVar(&f.to, "to", nil, "`RECIPIENT` age1…, or a file of them, one a line; several may open the corpus")
	fl.BoolVar(&f.withFindings, "with-findings", false, "seal it although the audit finds faults")
	return c
}

func (a *app) corpusSeal(folder string, f sealFlags) error {
	to, files, err := recipients(f.to)
	if err != nil {
		return err
	}
	if _, err := a.checkOutput(f.out, files...); err != nil {
		return err
	}
	if err := outsideOf(folder, f.out); err != nil {
		return err
	}
	content, findings, err := readToSeal(folder)
	if err != nil {
		return err
	}
	if n := len(findings); n > 0 && !f.withFindings {
		first := findings[0]
		return failf(exitRefused, "corpus %s: the audit has %s, the first: %s: %s: %s; qualify corpus lint lists all, --with-findings seals it as it is",
			folder, plural(n, "finding"), cmp.Or(first.Case, first.Where, folder), first.Rule, first.Text)
	}
	var b bytes.Buffer
	m, err := seal.Seal(&b, content, to...)
	if err != nil {
		return usagef("corpus %s: %w", folder, err)
	}
	if err := writeFile(f.out, b.Bytes()); err != nil {
		return err
	}
	a.printf("%s: %s, %s, %s, for %s\n", f.out, digestOf(b.Bytes()),
		plural(m.Lint.Cases, "case"), plural(m.Lint.Findings, "finding"), plural(len(to), "recipient"))
	return nil
}

// readToSeal reads and audits a corpus folder.
func readToSeal(folder string) (seal.Content, []lint.Finding, error) {
	if err := isFolder(folder); err != nil {
		return seal.Content{}, nil, err
	}
	files, err := seal.Snapshot(os.DirFS(folder))
	var cs cases
	if err == nil {
		cs.corpus, err = corpus.Load(files)
	}
	if err != nil {
		return seal.Content{}, nil, usagef("corpus %s: %w", folder, firstFault(err))
	}
	if cs.gold, err = goldIn(files); err != nil {
		return seal.Content{}, nil, usagef("gold of corpus %s: %w", folder, firstFault(err))
	}
	if len(cs.gold.All()) == 0 {
		return seal.Content{}, nil, usagef("corpus %s: has no gold, so nothing can be scored; put gold/<family>/<case>.yaml into it", folder)
	}
	digests, err := goldDigests(&cs)
	if err != nil {
		return seal.Content{}, nil, err
	}
	found := lint.Run(cs.corpus, cs.gold)
	audit := seal.Lint{Cases: len(cs.corpus.Cases), Findings: len(found), Rules: map[string]int{}}
	for _, f := range found {
		audit.Rules[f.Rule]++
	}
	return seal.Content{Files: files, Gold: digests, Lint: audit}, found, nil
}

// goldDigests are the digests of the gold of all cases, by case id.
func goldDigests(cs *cases) (map[string]string, error) {
	d, err := corpusDigests("", cs)
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	for _, s := range d.Splits {
		for id, digest := range s.Gold {
			out[id] = digest
		}
	}
	return out, nil
}

// outsideOf refuses an output inside the folder that it is made of.
func outsideOf(folder, out string) error {
	dir, err := filepath.EvalSymlinks(filepath.Dir(out))
	if err != nil {
		return usagef("output %s: %w", out, cause(err))
	}
	root, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return usagef("corpus %s: %w", folder, cause(err))
	}
	if _, err := insideRoot(root, dir, "output"); err == nil {
		return usagef("output %s: lies in the corpus; name a file outside of %s", out, folder)
	}
	return nil
}

// recipients reads --to; files are the files among what it names.
func recipients(to []string) (out []age.Recipient, files []string, err error) {
	for _, t := range to {
		text := t
		switch {
		case isSecretKey(t):
			return nil, nil, usagef("--to: that is a secret key; give its recipient, age1…, which qualify corpus keygen printed, and make a new key if others may have seen this one")
		case !strings.HasPrefix(t, "age1"):
			data, _, err := readAtMost(t, mostKeyFile)
			if err != nil {
				return nil, nil, err
			}
			text, files = string(data), append(files, t)
		}
		rs, err := age.ParseRecipients(strings.NewReader(text))
		if err != nil { // age's error may quote what could be a key
			return nil, nil, usagef("--to %s: is no age recipient, and no file of them, one age1… a line", t)
		}
		out = append(out, rs...)
	}
	return out, files, nil
}

func (a *app) corpusUnsealCmd() *cobra.Command {
	var out string
	var keys []string
	c := &cobra.Command{
		Use:   "unseal FILE --key KEY -o FOLDER",
		Short: "Write a sealed corpus out as a new folder",
		Long: `Decrypt a sealed corpus, compare every digest, and write its files into a new
FOLDER, readable by you only. Nothing else needs this: commands read sealed
corpora as they are, in memory.`,
		Args: exactArgs("FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			if out == "" {
				return usagef("%sname the new FOLDER with -o%s", inCommand(c), seeHelp(c))
			}
			a.corpusKeys.paths = append(a.corpusKeys.paths, keys...)
			return a.corpusUnseal(args[0], out)
		},
	}
	c.Flags().StringVarP(&out, "output", "o", "", "new `FOLDER` to write")
	c.Flags().StringArrayVar(&keys, "key", nil, "`FILE` with the key; the same as --corpus-key")
	return c
}

func (a *app) corpusUnseal(name, folder string) (err error) {
	if _, err := os.Lstat(folder); err == nil {
		return failf(exitRefused, "%s: is there already; name a new folder", folder)
	}
	sealed, err := a.openSealed(name)
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(folder), ".qualify-unseal-") // mode 0700
	if err != nil {
		return usagef("output %s: %w", folder, cause(err))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(tmp))
		}
	}()
	for _, f := range sealed.Manifest.Files {
		if err := writeUnsealed(tmp, f.Path, sealed.Opened); err != nil {
			return fmt.Errorf("write %s: %w", folder, err)
		}
	}
	if err := os.Rename(tmp, folder); err != nil {
		return fmt.Errorf("write %s: %w", folder, err)
	}
	a.talkf("%s holds the corpus in plain text: %s", folder, plural(len(sealed.Manifest.Files), "file"))
	return nil
}

func writeUnsealed(folder, name string, sealed *seal.Opened) error {
	path := filepath.Join(folder, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	in, err := sealed.Files.Open(name)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return errors.Join(err, in.Close())
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close(), in.Close())
}

// goldIn reads the gold of a corpus tree; a tree without the folder has none.
func goldIn(fsys fs.FS) (*gold.Set, error) {
	if _, err := fs.Stat(fsys, "gold"); err != nil {
		return new(gold.Set), nil //nolint:nilerr // lint and scoring say which gold is missing
	}
	return gold.LoadBeside(fsys)
}
