package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/engine/budget"
	"github.com/agentrooms/qualify/engine/store"
)

//go:embed template/campaign.yaml
var campaignTemplate []byte

const (
	campaignFile = "campaign.yaml"
	ignoreEntry  = "/.qualify/" // of .gitignore: the folder of the default store
)

func (a *app) initCmd() *cobra.Command {
	var ceiling string
	c := &cobra.Command{
		Use:   "init [DIR]",
		Short: "Write a campaign file that runs, and make the store with the owner's ceiling",
		Long: `Write campaign.yaml, a commented campaign that runs as it is, into DIR (the
current folder), add the store's folder to .gitignore, and make the store with
the owner's ceiling: the most that all real models together may ever cost.
Nothing is overwritten: a campaign.yaml, or another ceiling, that is there
already is refused (exit 5). The store is DIR/.qualify/qualify.db unless --store
or QUALIFY_STORE names one.`,
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
			if !c.Flag("store").Changed && os.Getenv("QUALIFY_STORE") == "" {
				a.storeURL = "sqlite:" + filepath.Join(dir, ".qualify", "qualify.db")
			}
			return a.initDir(c.Context(), dir, limit, ceiling != "")
		},
	}
	c.Flags().StringVar(&ceiling, "ceiling-usd", "", "the owner's ceiling in `USD` (5.00)")
	return c
}

// initDir makes all that a first campaign needs. The campaign file comes last, so
// that a run of init that failed half-way can simply be repeated.
func (a *app) initDir(ctx context.Context, dir string, limit int64, asked bool) error {
	path := filepath.Join(dir, campaignFile)
	if _, err := os.Lstat(path); err == nil {
		return failf(exitRefused, "%s exists and is not overwritten; name another folder, or run it as it is", path)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return usagef("%w", err)
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
	if err := writeNew(path, campaignTemplate); err != nil {
		return err
	}
	a.printf("%s: a campaign with the simulated model; it runs as it is\n", oneLine(path))
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
