package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/sqlite"
)

// storeAccess says what a command may do to find its store.
type storeAccess int

const (
	existing storeAccess = iota // read only; the store must be there
	changing                    // the store must be there, as this version makes it
	creating                    // made, or migrated after a backup, if need be
)

// storeURL is a parsed --store.
type storeURL struct {
	path   string // of the file
	bundle bool   // it is a bundle, not a SQLite store
}

// parseStoreURL reads sqlite:PATH. Other schemes are refused with exit 3.
func parseStoreURL(s string) (storeURL, error) {
	scheme, rest, ok := strings.Cut(s, ":")
	switch {
	case ok && scheme == "sqlite" && rest != "":
		return storeURL{path: rest}, nil
	case ok && scheme == "bundle" && rest != "":
		return storeURL{path: rest, bundle: true}, nil
	case ok && scheme == "sqlite":
		return storeURL{}, usagef("--store %q: no path; write sqlite:PATH", s)
	case ok && (scheme == "postgres" || scheme == "postgresql"):
		return storeURL{}, usagef("--store postgres://…: this version has no PostgreSQL store; use sqlite:PATH")
	default:
		return storeURL{}, usagef("--store %q: unknown form; write sqlite:PATH, or bundle:PATH to read what qualify report bundle wrote", s)
	}
}

// openStore opens the store that --store names. Close it when done.
func (a *app) openStore(ctx context.Context, access storeAccess) (store.Store, error) {
	u, err := parseStoreURL(a.storeURL)
	if err != nil {
		return nil, err
	}
	if u.bundle {
		return openBundleStore(u.path, access)
	}
	s, err := a.open(ctx, u.path, access)
	switch {
	case err == nil:
		return s, nil
	case errors.Is(err, store.ErrSchemaNewer):
		return nil, fmt.Errorf("%w; use that version of qualify, or another store", err)
	case errors.Is(err, store.ErrSchemaOlder):
		return nil, fmt.Errorf("%w; qualify run migrates it, after a backup", err)
	case errors.Is(err, store.ErrNotFound):
		return nil, usagef("%w; qualify run makes a store, or name another with --store", err)
	case errors.Is(err, store.ErrCorrupt):
		return nil, usagef("%w; name another with --store", err)
	case errors.Is(err, store.ErrReadOnly):
		return nil, failf(exitRefused, "%w; copy the store with all its files to a folder that can be written to, or name another with --store", err)
	case errors.As(err, new(*fs.PathError)):
		return nil, usagef("%w; name another with --store", err) // a name too long, a folder that is a file or may not be written to
	}
	return nil, err
}

// openSQLite opens, or makes, a SQLite store.
func (a *app) openSQLite(ctx context.Context, path string, access storeAccess) (store.Store, error) {
	s, err := sqlite.Open(ctx, path, sqlite.Options{
		ReadOnly: access == existing, Create: access == creating, Migrate: access == creating, Durable: a.durable,
		Watch: time.Now,
	})
	if err != nil {
		return nil, err // a nil *sqlite.Store must not become a store.Store
	}
	return s, nil
}

// withStore runs f with the store of --store, which must exist, and closes it.
// f may only read.
func (a *app) withStore(ctx context.Context, f func(store.Store) error) error {
	return a.withStoreTo(ctx, existing, f)
}

// withStoreTo is withStore with a choice of what f may do.
func (a *app) withStoreTo(ctx context.Context, access storeAccess, f func(store.Store) error) error {
	s, err := a.openStore(ctx, access)
	if err != nil {
		return err
	}
	return errors.Join(f(s), s.Close())
}

// errNoName is the error of a command that takes "" for no campaign: a script
// with an unset variable must not get the newest one.
var errNoName = usagef("the campaign's name is empty; give an id or a name")

// findCampaign finds a campaign by id, or the newest of a name. "" is the
// newest of all.
func findCampaign(ctx context.Context, s store.Records, which string) (store.Campaign, error) {
	if b, ok := s.(*bundleStore); ok {
		return b.find(ctx, which)
	}
	if strings.HasPrefix(which, "c_") {
		c, err := s.Campaign(ctx, which)
		if err == nil || !errors.Is(err, store.ErrNotFound) {
			return c, err
		}
	}
	all, err := s.Campaigns(ctx, "")
	if err != nil {
		return store.Campaign{}, err
	}
	var names []string
	for i := len(all) - 1; i >= 0; i-- {
		if which == "" || all[i].Name == which {
			return all[i], nil
		}
		names = append(names, all[i].Name)
	}
	if which == "" {
		return store.Campaign{}, usagef("the store holds no campaign yet; qualify run starts one")
	}
	hint := "; qualify campaign list shows those it holds"
	if near := nearest(which, names); near != "" {
		hint = "; did you mean " + near + "?"
	}
	return store.Campaign{}, usagef("the store holds no campaign %q%s", which, hint)
}

// reopen finds a campaign as findCampaign does and holds its plan against the
// corpus it ran on, with gold.
func (a *app) reopen(ctx context.Context, s store.Records, which, corpusName string) (store.Campaign, *campaigns.Plan, *cases, error) {
	camp, err := findCampaign(ctx, s, which)
	if err != nil {
		return camp, nil, nil, err
	}
	cs, err := a.corpusOf(s, corpusName)
	if err != nil {
		return camp, nil, nil, err
	}
	plan, err := campaigns.Reopen(camp, cs.corpus, knownModes())
	if err != nil {
		return camp, nil, nil, usagef("%w; name the corpus it ran on with --corpus", err)
	}
	return camp, plan, cs, nil
}
