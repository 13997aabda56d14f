package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/sqlite"
)

func (a *app) storeCmd() *cobra.Command {
	return a.group("store", "The store itself", a.storeStatusCmd(), a.storeBackupCmd())
}

// storeCounts is store.Counts as store status --json gives it.
type storeCounts struct {
	Rooms      int64 `json:"rooms"`
	Revisions  int64 `json:"revisions"`
	Operations int64 `json:"operations"`
	Effects    int64 `json:"effects"`
	Blobs      int64 `json:"blobs"`
	Campaigns  int64 `json:"campaigns"`
	Trials     int64 `json:"trials"`
	Traces     int64 `json:"traces"`
	LedgerRows int64 `json:"ledger_rows"`
}

// storeFile is one file of the store with its size in bytes.
type storeFile struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
}

// storeDoc is store status --json.
type storeDoc struct {
	Schema   schemaRef         `json:"schema"`
	URL      string            `json:"url"`
	Driver   string            `json:"driver"`
	Version  int               `json:"schema_version"`
	Pragmas  map[string]string `json:"pragmas"`
	Files    []storeFile       `json:"files"` // main file, write-ahead log, shared memory: those that exist
	Bytes    int64             `json:"bytes"` // their sum
	Counts   storeCounts       `json:"counts"`
	Ceilings []ceilingDoc      `json:"ceilings"`
}

func (a *app) storeStatusCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Print what the store is, how large it is and what it holds",
		Args:  exactArgs(),
		RunE: func(c *cobra.Command, _ []string) error {
			return a.withStore(c.Context(), func(s store.Store) error {
				d, err := a.readStoreDoc(c.Context(), s)
				if err != nil {
					return err
				}
				if asJSON {
					return a.printJSON(d)
				}
				a.printStore(d)
				return nil
			})
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func (a *app) readStoreDoc(ctx context.Context, s store.Store) (*storeDoc, error) {
	stats, err := s.Stats(ctx)
	if err != nil {
		return nil, err
	}
	d := &storeDoc{
		Schema: schemaRef{"qualify.store", 1}, URL: a.storeURL, Driver: stats.Detail["driver"], Version: stats.Schema,
		Pragmas: map[string]string{}, Files: []storeFile{},
	}
	if counter, ok := s.(store.Inspector); ok {
		n, err := counter.Counts(ctx)
		if err != nil {
			return nil, err
		}
		d.Counts = storeCounts(n)
	}
	if file, ok := s.(*sqlite.Store); ok {
		all, err := file.Pragmas(ctx)
		if err != nil {
			return nil, err
		}
		for _, p := range all {
			d.Pragmas[p.Name] = p.Value
		}
		for _, suffix := range []string{"", "-wal", "-shm"} {
			info, err := os.Stat(stats.Detail["path"] + suffix)
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			d.Files = append(d.Files, storeFile{stats.Detail["path"] + suffix, info.Size()})
			d.Bytes += info.Size()
		}
	}
	d.Ceilings, err = ceilings(ctx, s)
	return d, err
}

func (a *app) printStore(d *storeDoc) {
	a.table("store\t"+oneLine(d.URL), func(row func(...string)) {
		row("driver", d.Driver)
		row("schema", strconv.Itoa(d.Version))
		for _, f := range d.Files {
			row("file", fmt.Sprintf("%s  %d bytes", f.Path, f.Bytes))
		}
		for _, name := range slices.Sorted(maps.Keys(d.Pragmas)) {
			row("pragma "+name, d.Pragmas[name])
		}
		n := d.Counts
		for _, c := range []struct {
			name string
			n    int64
		}{
			{"campaigns", n.Campaigns},
			{"trials", n.Trials},
			{"traces", n.Traces},
			{"rooms", n.Rooms},
			{"revisions", n.Revisions},
			{"operations", n.Operations},
			{"effects", n.Effects},
			{"blobs", n.Blobs},
			{"ledger rows", n.LedgerRows},
		} {
			row(c.name, strconv.FormatInt(c.n, 10))
		}
	})
	a.printf("\n")
	a.printCeilings(d.Ceilings)
}

// copier is a store that can copy itself to a file while it is written to.
type copier interface {
	CopyTo(ctx context.Context, target string) error
}

func (a *app) storeBackupCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "backup PATH",
		Short: "Write a consistent copy of the store to a new file",
		Long: `Write a consistent copy of the store to a new file. Other processes may write to
the store meanwhile: the copy is the store as it was at one moment. It is checked
page by page and flushed to the disk before it gets its name. A file that is
there already is never overwritten (exit 5). The copy is a store of its own:
name it with --store sqlite:PATH.

Until then it is .NAME.*.part beside PATH. A backup that is killed leaves that
behind; the next one to the same PATH removes it.`,
		Args: exactArgs("PATH"),
		RunE: func(c *cobra.Command, args []string) error {
			target := args[0]
			if target == "" {
				return usagef("backup: PATH is empty; name the file to write")
			}
			if info, err := os.Stat(filepath.Dir(target)); err != nil || !info.IsDir() {
				return usagef("backup %s: %s is no folder; make it first", target, filepath.Dir(target))
			}
			return a.withStore(c.Context(), func(s store.Store) error {
				cp, ok := s.(copier)
				if !ok {
					return usagef("--store %s is a file that never changes: copy it", a.storeURL)
				}
				err := cp.CopyTo(c.Context(), target)
				if errors.Is(err, store.ErrExists) {
					return failf(exitRefused, "%s exists and is not overwritten; name another file", target)
				}
				if err != nil {
					return err
				}
				info, err := os.Stat(target)
				if err != nil {
					return err
				}
				a.printf("%s: %d bytes, checked; a copy of %s\n", oneLine(target), info.Size(), oneLine(a.storeURL))
				return nil
			})
		},
	}
}
