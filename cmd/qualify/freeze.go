package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/evaluator/gate"
	"github.com/agentrooms/qualify/freeze"
)

func (a *app) freezeCmd() *cobra.Command {
	return a.group("freeze", "Fix what a qualification is about, and the log that proves when",
		a.freezeCreateCmd(), a.freezeVerifyCmd(), a.freezeShowCmd(), a.freezeDiffCmd(), a.freezeLogCmd())
}

// sealLogFlag adds --seal-log.
func sealLogFlag(c *cobra.Command, path *string) {
	c.Flags().StringVar(path, "seal-log", "", "keep a copy of the seal log in `FILE`, for a repository")
}

// sealLogReadFlag adds --seal-log to a command that writes no row.
func sealLogReadFlag(c *cobra.Command, path *string) {
	c.Flags().StringVar(path, "seal-log", "", "also read the copy of the seal log in `FILE`")
}

// freezeFault gives errors of package freeze their exit codes.
func freezeFault(err error) error {
	switch {
	case errors.Is(err, freeze.ErrLog), errors.Is(err, freeze.ErrConflict):
		return failf(exitRefused, "%w", err)
	case errors.Is(err, freeze.ErrManifest), errors.Is(err, freeze.ErrChanged), errors.Is(err, freeze.ErrUnfreezable), errors.Is(err, freeze.ErrPaths), errors.As(err, new(*fs.PathError)):
		return usagef("%w", err)
	}
	return err
}

// createFlags are the flags of freeze create.
type createFlags struct {
	root, policy, sealLog, out string
	include, exclude, binaries []string
	json                       bool
}

func (a *app) freezeCreateCmd() *cobra.Command {
	var f createFlags
	c := &cobra.Command{
		Use:   "create CAMPAIGN.yaml",
		Short: "Hash all that could change a result, and seal the manifest",
		Long: `Hash all that could change a result, and append the manifest to the seal log:
the files that freeze.include of the campaign and --include name, go.mod and
go.sum of the root, the running binary and others that may run, modules,
prompts, prices, model settings, every split of the corpus with its gold,
evaluator and policy. The id is the digest of the manifest, which holds no time
and no absolute path: the same content has the same id everywhere.

Every byte is read. A file that changes meanwhile, that cannot be read, a
special file, a link to what is not covered and names that some systems take
for one are refused. Paths are relative to the root: freeze.root of the
campaign, or the folder of the campaign file.`,
		Args: exactArgs("CAMPAIGN.yaml"),
		RunE: func(c *cobra.Command, args []string) error {
			return freezeFault(a.freezeCreate(c.Context(), args[0], f))
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.root, "root", "", "`FOLDER` that paths are relative to, in place of the campaign's")
	fl.StringSliceVar(&f.include, "include", nil, "also freeze this file or folder, `PATH` relative to the root")
	fl.StringSliceVar(&f.exclude, "exclude", nil, "leave out files and folders of this `PATTERN`")
	fl.StringSliceVar(&f.binaries, "binary", nil, "also allow the binary `FILE` to run, for another platform")
	fl.StringVar(&f.policy, "policy", "", "policy `FILE` inside the root, or "+policyPrefix+strings.Join(gate.BuiltinNames(), ", "+policyPrefix)+" (that of the campaign, or "+policyPrefix+gate.PolicyDefault+")")
	fl.StringVarP(&f.out, "output", "o", "", "also write the manifest to `FILE`")
	fl.BoolVar(&f.json, "json", false, "print one JSON document")
	sealLogFlag(c, &f.sealLog)
	return c
}

// freezeDoc is freeze create --json and freeze show --json.
type freezeDoc struct {
	Schema   schemaRef        `json:"schema"`
	Freeze   string           `json:"freeze"`
	Row      int64            `json:"row"` // of the seal log; 0 for a manifest that is in none
	At       string           `json:"at"`
	Head     string           `json:"head"` // of the seal log
	Added    bool             `json:"added"`
	Manifest *freeze.Manifest `json:"manifest"`
}

func (a *app) freezeCreate(ctx context.Context, name string, f createFlags) error {
	if _, err := a.checkOutput(f.out, append([]string{name, f.policy, f.sealLog}, f.binaries...)...); err != nil {
		return err
	}
	in, err := a.freezeInputs(name, f)
	if err != nil {
		return err
	}
	m, err := freeze.Build(ctx, in)
	if err != nil {
		return err
	}
	clock, err := a.recordClock(knownProviders()[in.Models["provider"]])
	if err != nil {
		return err
	}
	return a.withStoreTo(ctx, creating, func(s store.Store) error {
		log := a.sealLog(s, f.sealLog)
		sealed, added, err := freeze.Seal(ctx, log, m, clock.moment())
		if err != nil {
			return err
		}
		rows, err := log.SealLog(ctx)
		if err != nil {
			return err
		}
		if err := writeManifest(f.out, m); err != nil {
			return err
		}
		doc := freezeDoc{schemaRef{"qualify.freeze", 1}, sealed.ID, sealed.N, sealed.At, freeze.Head(rows), added, m}
		if f.json {
			return a.printJSON(doc)
		}
		a.showFreeze(doc, false)
		if !added {
			a.talkf("nothing has changed since: the log has this freeze already")
		}
		return nil
	})
}

// writeManifest writes the canonical manifest, if a file is asked for.
func writeManifest(path string, m *freeze.Manifest) error {
	if path == "" {
		return nil
	}
	b, err := m.Canonical()
	if err != nil {
		return err
	}
	return writeFile(path, append(b, '\n'))
}

// storeLog is the seal log of a store as package freeze reads it.
type storeLog struct{ records store.Records }

var _ freeze.Log = storeLog{}

// SealLog implements freeze.Log.
func (l storeLog) SealLog(ctx context.Context) ([]freeze.Row, error) {
	rows, err := l.records.SealLog(ctx)
	if err != nil {
		return nil, fmt.Errorf("seal log: %w", err)
	}
	return freezeRows(rows), nil
}

// AppendSeal implements freeze.Log.
func (l storeLog) AppendSeal(ctx context.Context, kind string, body []byte) (freeze.Row, error) {
	r, err := l.records.AppendSeal(ctx, kind, body)
	return freeze.Row(r), err
}

// AppendSealAfter implements freeze.Log.
func (l storeLog) AppendSealAfter(ctx context.Context, head, kind string, body []byte) (freeze.Row, error) {
	r, err := l.records.AppendSealAfter(ctx, head, kind, body)
	if errors.Is(err, store.ErrConflict) {
		err = fmt.Errorf("%w: %w", freeze.ErrConflict, err)
	}
	return freeze.Row(r), err
}

// sealLog is the seal log of a store, with a copy in a file if path is given.
func (a *app) sealLog(s store.Records, path string) freeze.Log {
	if path == "" {
		return storeLog{s}
	}
	return freeze.Mirror{Store: storeLog{s}, File: freeze.FileLog{Path: path}, Noted: func(n int, toStore bool) {
		from, to := "the store", path
		if toStore {
			from, to = to, from
		}
		a.talkf("note: %s took over %s of the seal log from %s", to, plural(n, "row"), from)
	}}
}

// readSealLog reads the seal log of the store, of a file, or of both; then the
// longer is the log, and two that go on differently are refused. Nothing is
// written. A store that is not there is passed over where there is a file.
func (a *app) readSealLog(ctx context.Context, path string) ([]freeze.Row, error) {
	var rows []freeze.Row
	err := a.withStore(ctx, func(s store.Store) error {
		var err error
		rows, err = storeLog{s}.SealLog(ctx)
		return err
	})
	if path == "" {
		return rows, err
	}
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	if _, err := os.Stat(path); err != nil {
		return nil, usagef("--seal-log %s: %w; qualify freeze log --export %s writes one", path, cause(err), shellWord(path))
	}
	file, err := freeze.FileLog{Path: path}.SealLog(ctx)
	if err != nil {
		return nil, err
	}
	c := freeze.Compare(rows, file)
	switch {
	case c.Forked:
		return nil, fmt.Errorf("%w: %s and the log of the store have %d rows in common and go on differently: they are two logs", freeze.ErrLog, path, c.Common)
	case c.B > 0:
		return file, nil
	}
	return rows, nil
}

// findFreeze finds a manifest: a file, an id of the seal log or the beginning
// of one, "" for the newest.
func (a *app) findFreeze(ctx context.Context, which, sealLog string) (f freeze.Frozen, head string, err error) {
	if which != "" && !strings.HasPrefix(which, freeze.IDPrefix) || fileExists(which) {
		if f, err = readManifest(which); errors.Is(err, fs.ErrNotExist) {
			err = usagef("%s: is no manifest file, and no id of a freeze, which begins with %s; qualify freeze log lists those there are", nameOf(which), freeze.IDPrefix)
		}
		return f, "", err
	}
	rows, err := a.readSealLog(ctx, sealLog)
	if err != nil {
		return freeze.Frozen{}, "", err
	}
	v := freeze.VerifyLog(rows)
	if len(v.Faults) > 0 {
		return freeze.Frozen{}, "", fmt.Errorf("%w: %s; qualify freeze log --verify lists all that is wrong", freeze.ErrLog, v.Faults[0])
	}
	all := v.Freezes
	if len(all) == 0 {
		return freeze.Frozen{}, "", usagef("the seal log holds no freeze yet; qualify freeze create makes one")
	}
	if which == "" {
		return all[len(all)-1], freeze.Head(rows), nil
	}
	match := slices.DeleteFunc(slices.Clone(all), func(f freeze.Frozen) bool { return !strings.HasPrefix(f.ID, which) })
	switch len(match) {
	case 0:
		return freeze.Frozen{}, "", usagef("the seal log holds no freeze %s; qualify freeze log lists those there are", which)
	case 1:
		return match[0], freeze.Head(rows), nil
	}
	return freeze.Frozen{}, "", usagef("%s is the beginning of %d freezes; give more of it (qualify freeze log lists them)", which, len(match))
}

func fileExists(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

// mostManifest bounds a manifest file, in bytes.
const mostManifest = 1 << 29

// readManifest reads a manifest file.
func readManifest(path string) (freeze.Frozen, error) {
	data, _, err := readAtMost(path, mostManifest)
	if err != nil {
		return freeze.Frozen{}, err
	}
	m, err := freeze.Parse(data)
	if err != nil {
		return freeze.Frozen{}, usagef("%s: %w", path, err)
	}
	id, err := m.ID()
	return freeze.Frozen{ID: id, Manifest: m}, err
}

// insideRoot is the path of a file relative to the root, with slashes.
func insideRoot(root, file, what string) (string, error) {
	absRoot, err := filepath.Abs(root)
	if err != nil {
		return "", err
	}
	absFile, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	rel, err := filepath.Rel(absRoot, absFile)
	if err != nil || !filepath.IsLocal(rel) {
		return "", usagef("%s %s lies outside of the root %s; set freeze.root or --root to a folder that holds it", what, file, root)
	}
	return filepath.ToSlash(rel), nil
}
