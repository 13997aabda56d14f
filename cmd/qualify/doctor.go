package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/engine/store"
)

// Space that a campaign should find on the store's file system.
const (
	lowSpace   = 64 << 20 // bytes; less is a problem
	probeBytes = 64 << 10 // written and removed again, to see that writing works
)

// finding is the outcome of one check of doctor.
type finding struct {
	Check string `json:"check"`
	OK    bool   `json:"ok"`
	Text  string `json:"text"`
	Do    string `json:"do,omitempty"` // what to do about a problem
}

// doctor runs checks and gathers what they find.
type doctor struct {
	app      *app
	free     func(dir string) (free uint64, known bool, err error)
	findings []finding
}

func (d *doctor) ok(check, format string, args ...any) {
	d.findings = append(d.findings, finding{Check: check, OK: true, Text: fmt.Sprintf(format, args...)})
}

func (d *doctor) problem(check, do, format string, args ...any) {
	d.findings = append(d.findings, finding{Check: check, Text: fmt.Sprintf(format, args...), Do: do})
}

func (a *app) doctorCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor [CAMPAIGN.yaml]",
		Short: "Check the store, its disk and a campaign file; exit 1 when something needs attention",
		Long: `Check, one line each: that the store can be opened by this version, that it and
its folder can be written to, that there is space on its disk, that its file is
not damaged (every page is read), that no other process runs a campaign of it,
and, with CAMPAIGN.yaml, that the file is sound, its cases are there and its
model has a price. Exit 1 when one of them needs attention, with what to do.
Nothing is changed; a small file is written beside the store and removed again.`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usagef("doctor: unexpected argument %q%s", args[1], seeHelp(c))
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			u, err := parseStoreURL(a.storeURL)
			if err != nil {
				return err
			}
			if u.bundle {
				return usagef("--store %s: doctor looks after stores; qualify report verify looks through a bundle", a.storeURL)
			}
			d := &doctor{app: a, free: freeSpace, findings: []finding{}}
			d.checkFolder(u.path)
			d.checkStore(c.Context(), u.path)
			for _, name := range args {
				d.checkCampaign(name)
			}
			if err := c.Context().Err(); err != nil {
				return err
			}
			return d.report(asJSON)
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func (d *doctor) report(asJSON bool) error {
	well := true
	for _, f := range d.findings {
		well = well && f.OK
	}
	if asJSON {
		if err := d.app.printJSON(struct {
			Schema   schemaRef `json:"schema"`
			OK       bool      `json:"ok"`
			Findings []finding `json:"findings"`
		}{schemaRef{"qualify.doctor", 1}, well, d.findings}); err != nil {
			return err
		}
	} else {
		for _, f := range d.findings {
			word, text := "ok", f.Text
			if !f.OK {
				word, text = "problem", f.Text+"; "+f.Do
			}
			d.app.printf("%-8s %-9s %s\n", word, f.Check, oneLine(text))
		}
	}
	if !well {
		return verdict(exitFail)
	}
	return nil
}

// checkFolder looks at the folder of the store, or at the nearest one that is
// there: may this user write there, and is there space?
func (d *doctor) checkFolder(path string) {
	dir := filepath.Dir(path)
	for {
		info, err := os.Stat(dir)
		if err == nil && info.IsDir() {
			break
		}
		up := filepath.Dir(dir)
		if up == dir || err == nil {
			d.problem("writing", "name a store in a folder with --store", "%s is no folder", dir)
			return
		}
		dir = up
	}
	switch err := probe(dir, path); {
	case err == nil:
		d.ok("writing", "%s and its folder can be written to", path)
	case isFull(err):
		d.problem("space", "free some, or name a store on another disk with --store", "writing to %s fails: %v", dir, err)
		return
	default:
		d.problem("writing", "run as a user who may write there, or name another store with --store", "the store is read-only: %v", err)
	}
	free, known, err := d.free(dir)
	switch {
	case err != nil:
		d.problem("space", "look at the disk", "free space of %s: %v", dir, err)
	case !known:
		d.ok("space", "this system does not tell how much is free")
	case free < lowSpace:
		d.problem("space", "free some, or name a store on another disk with --store",
			"the disk of %s is full: %d MiB free, a campaign should find %d", dir, free>>20, uint64(lowSpace>>20))
	default:
		d.ok("space", "%d MiB free", free>>20)
	}
}

// probe writes a small file into the folder and removes it again, and opens the
// store's file, if there is one, for writing without changing it.
func probe(dir, path string) (err error) {
	f, err := os.CreateTemp(dir, ".qualify-doctor-*")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, probeBytes))
	err = errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
	if err != nil {
		return err
	}
	s, err := os.OpenFile(path, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.Close()
}

// isFull reports that a disk, or a quota on it, is used up.
func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, store.ErrFull)
}

// checker is a store that can look for damage in its file.
type checker interface {
	Check(ctx context.Context) error
}

func (d *doctor) checkStore(ctx context.Context, path string) {
	s, err := d.app.open(ctx, path, existing)
	switch {
	case errors.Is(err, store.ErrNotFound):
		d.ok("store", "%s is not there yet; qualify run makes it", path)
		return
	case errors.Is(err, store.ErrSchemaOlder):
		d.ok("store", "%v; qualify run migrates it, after a backup", err)
		return
	case errors.Is(err, store.ErrSchemaNewer):
		d.problem("store", "use that version of qualify, or name another store with --store", "%v", err)
		return
	case errors.Is(err, store.ErrCorrupt):
		d.problem("store", "restore a copy made by qualify store backup, or name another store with --store", "%v", err)
		return
	case err != nil:
		d.problem("store", "see that the file and its folder can be read and written, or name another store with --store", "%v", err)
		return
	}
	d.look(ctx, s, path)
	if err := s.Close(); err != nil {
		d.problem("store", "look at the disk", "close %s: %v", path, err)
	}
}

// look checks an open store.
func (d *doctor) look(ctx context.Context, s store.Store, path string) {
	stats, err := s.Stats(ctx)
	if err != nil {
		d.problem("store", "look at the disk", "%v", err)
		return
	}
	d.ok("store", "%s, schema %d", path, stats.Schema)
	if c, ok := s.(checker); ok {
		if err := c.Check(ctx); err != nil {
			d.problem("damage", "restore a copy made by qualify store backup, or name another store with --store", "%v", err)
			return
		}
		d.ok("damage", "none found, every page was read")
	}
	leases, err := s.Leases(ctx)
	if err != nil {
		d.problem("lease", "look at the disk", "%v", err)
		return
	}
	self, live := thisProcess(procfs), 0
	for _, l := range leases {
		if self.gone(procfs, l.Owner) {
			d.ok("lease", "%s was left by %s, which runs no more; the next run takes it over", l.Name, shownOwner(l.Owner))
			continue
		}
		live++
		d.problem("lease", "wait until it has ended, or stop that process; it cannot be run twice at once",
			"%s is run by %s, until %s unless renewed", l.Name, shownOwner(l.Owner), l.ExpiresAt.Format(time.RFC3339))
	}
	if live == 0 {
		d.ok("lease", "no other process runs a campaign of this store")
	}
}

// checkCampaign checks a campaign file, the cases it names and its prices.
func (d *doctor) checkCampaign(name string) {
	plan, _, err := d.app.resolvePlanWith(name, campaigns.Override{}, true)
	var faults corpus.Errors
	switch {
	case err == nil:
		under := ""
		if plan.Filter.Split == corpus.SplitHoldout {
			under = "; holdout cases, which run only with --freeze"
		}
		d.ok("campaign", "%s: %s, %s, %s each%s", name, plural(len(plan.Cases), "case"), plural(len(plan.Arms), "arm"), plural(plan.Trials, "trial"), under)
		d.ok("price", "model %s has one", plan.Model)
	case errors.As(err, &faults):
		for _, f := range faults {
			d.fault(f)
		}
	default:
		d.fault(err)
	}
}

// fault is a fault of a campaign file; a missing or bad price is a check of its
// own.
func (d *doctor) fault(err error) {
	var f *corpus.FileError
	if errors.As(err, &f) && strings.HasPrefix(f.Text, "prices: ") {
		d.problem("price", "give the model's price under prices; a call without price is refused", "%v", err)
		return
	}
	if text, do, ok := strings.Cut(err.Error(), "; "); ok && errors.Is(err, fs.ErrNotExist) {
		d.problem("campaign", do, "%s", text) // the error says what to do itself
		return
	}
	d.problem("campaign", "correct the file", "%v", err)
}
