package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/engine/budget"
	"github.com/agentrooms/qualify/engine/store"
)

//go:embed template/campaign.yaml
var campaignTemplate []byte

// corpusTemplate is the starter corpus: one dev and two holdout cases of three
// families, with their gold.
//
//go:embed template/cases
var corpusTemplate embed.FS

const (
	campaignFile = "campaign.yaml"
	ignoreEntry  = "/.qualify/" // of .gitignore: the folder of the default store
)

func (a *app) initCmd() *cobra.Command {
	var ceiling, folder string
	c := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a campaign file that runs, and make the store with the owner's ceiling",
		Long: `Write campaign.yaml, a commented campaign that runs as it is, into DIR (the
current folder), add the store's folder to .gitignore, and make the store with
the owner's ceiling: the most that all real models together may ever cost.
With --corpus FOLDER the campaign runs a corpus of your own: three small cases
to begin with, one dev and two holdout, are written into DIR/FOLDER with their
gold. Without it the campaign runs the built-in cases.

Nothing is overwritten: a campaign.yaml, a case of other content, or another
ceiling, that is there already is refused (exit 5). The store is
DIR/.qualify/qualify.db unless --store or QUALIFY_STORE names one.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("init: unexpected argument %q%s", args[1], seeHelp(c))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			limit := int64(campaigns.DefaultOwnerMicros)
			if ceiling != "" {
				v, err := budget.ParseUSD(ceiling)
				if err != nil {
					return usagef("--ceiling-usd: %w", err)
				}
				limit = v
			}
			if c.Flags().Changed("corpus") && (!corpusFolder.MatchString(folder) || strings.EqualFold(folder, campaignFile)) {
				return usagef("--corpus %q: name a folder of DIR, such as cases: a letter, then letters, digits, '.', '_' and '-'", folder)
			}
			if !c.Flag("store").Changed && os.Getenv("QUALIFY_STORE") == "" {
				a.storeURL = "sqlite:" + filepath.Join(dir, ".qualify", "qualify.db")
			}
			return a.initDir(c.Context(), starter{dir, folder}, limit, ceiling != "")
		},
	}
	c.Flags().StringVar(&folder, "corpus", "", "also write a corpus to begin with into `FOLDER` of DIR, for the campaign to run")
	c.Flags().StringVar(&ceiling, "ceiling-usd", "", "the owner's ceiling in `USD` (5.00)")
	return c
}

// initDir makes all that a first campaign needs. The campaign file comes last, so
// that a run of init that failed half-way can simply be repeated.
func (a *app) initDir(ctx context.Context, to starter, limit int64, asked bool) error {
	dir, path := to.dir, filepath.Join(to.dir, campaignFile)
	if _, err := os.Lstat(path); err == nil {
		return failf(exitRefused, "%s exists and is not overwritten; name another folder, or run it as it is", path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return usagef("%w", err)
	}
	if u, err := parseStoreURL(a.storeURL); err != nil {
		return err
	} else if u.bundle {
		return neverWritten(u.path)
	}
	cases, err := to.corpus()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return usagef("%w", err)
	}
	c, err := a.initStore(ctx, limit, asked)
	if err != nil {
		return err
	}
	ignored, err := ignoreStore(filepath.Join(dir, ".gitignore"))
	if err != nil {
		return err
	}
	for _, f := range cases {
		if err := os.MkdirAll(filepath.Dir(f.path), 0o755); err != nil {
			return usagef("%w", err)
		}
		if err := writeNew(f.path, f.content); err != nil {
			return err
		}
	}
	if err := writeNew(path, to.campaign()); err != nil {
		return err
	}
	a.printf("%s: a campaign with the simulated model; it runs as it is\n", oneLine(path))
	if to.folder != "" {
		a.printf("%s: a corpus to begin with, 1 dev and 2 holdout cases with gold\n", oneLine(filepath.Join(dir, to.folder)))
	}
	if ignored {
		a.printf("%s: %s added\n", oneLine(filepath.Join(dir, ".gitignore")), ignoreEntry)
	}
	a.printf("%s: the store; the owner's ceiling for real models is %s USD\n", oneLine(a.storeURL), usd(c.Limit))
	next := "qualify run " + shellWord(path)
	if a.storeURL != defaultStore {
		next += " --store " + shellWord(a.storeURL)
	}
	a.printf("next: %s\n", next)
	return nil
}

// starter is where a first campaign is written: into dir, with a corpus of its
// own in folder unless that is "".
type starter struct{ dir, folder string }

// corpusFolder is a name that is a folder on every system and needs no more
// than quotes in YAML. It cannot be that of the store, which begins with a dot.
var corpusFolder = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]*$`)

// campaign is the campaign file. The folder is quoted, because YAML and the
// word builtin give some names another meaning.
func (s starter) campaign() []byte {
	if s.folder == "" {
		return campaignTemplate
	}
	return bytes.Replace(campaignTemplate, []byte("\ncorpus: builtin\n"), []byte("\ncorpus: \"./"+s.folder+"\"\n"), 1)
}

// starterFile is one file of the starter corpus, and where it is to be written.
type starterFile struct {
	path    string
	content []byte
}

// corpus lists the files of the starter corpus that are not there yet. One that
// is there with other content is refused before anything is written.
func (s starter) corpus() ([]starterFile, error) {
	if s.folder == "" {
		return nil, nil
	}
	files, err := fs.Sub(corpusTemplate, "template/cases")
	if err != nil {
		return nil, err
	}
	var out []starterFile
	err = fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		path := filepath.Join(s.dir, s.folder, filepath.FromSlash(name))
		switch have, err := os.ReadFile(path); {
		case errors.Is(err, fs.ErrNotExist):
			out = append(out, starterFile{path, content})
		case err != nil:
			return usagef("%w; name another folder with --corpus", err)
		case !bytes.Equal(have, content):
			return failf(exitRefused, "%s exists with other content and is not overwritten; name another folder with --corpus", path)
		}
		return nil
	})
	return out, err
}

// initStore makes the store with the owner's ceiling. A ceiling that is there
// already stays; asking for another is refused.
func (a *app) initStore(ctx context.Context, limit int64, asked bool) (c store.Ceiling, err error) {
	s, err := a.openStore(ctx, creating)
	if err != nil {
		return c, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	c, err = s.EnsureCeiling(ctx, campaigns.OwnerCeiling, store.FundsReal, limit)
	if err != nil {
		return c, fmt.Errorf("ceiling %s: %w", campaigns.OwnerCeiling, err)
	}
	if asked && c.Limit != limit {
		return c, failf(exitRefused, "store %s has an owner's ceiling of %s USD already; `%s` sets another",
			a.storeURL, usd(c.Limit), a.grantCommand(campaigns.Grant{Ceiling: c.Name, Funds: c.Funds, Total: limit}))
	}
	return c, nil
}

// ignoreStore adds the entry to a .gitignore, which it makes if need be, and
// reports whether it did; one that has the entry stays as it is.
func ignoreStore(path string) (bool, error) {
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, usagef("%w", err)
	}
	have := func(line string) bool { return strings.Trim(strings.TrimSpace(line), "/") == ".qualify" }
	if slices.ContainsFunc(strings.Split(string(old), "\n"), have) {
		return false, nil
	}
	text := ignoreEntry + "\n"
	if len(old) > 0 && !strings.HasSuffix(string(old), "\n") {
		text = "\n" + text
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return false, usagef("%w", err)
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return false, fmt.Errorf("add to %s: %w", path, err)
	}
	return true, nil
}

// writeNew writes a file that must not exist. One that could not be written
// whole is removed again.
func writeNew(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return failf(exitRefused, "%s exists and is not overwritten", path)
	}
	if err != nil {
		return usagef("%w", err)
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(path))
	}
	return nil
}
