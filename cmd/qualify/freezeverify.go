package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentrooms/qualify/freeze"
)

// freezeFindings is freeze verify --json and freeze diff --json.
type freezeFindings struct {
	Schema      schemaRef           `json:"schema"`
	Freeze      string              `json:"freeze"`
	With        string              `json:"with"` // present, or the other freeze
	Files       int                 `json:"files"`
	Whole       bool                `json:"whole"` // every byte was read
	OK          bool                `json:"ok"`
	Differences []freeze.Difference `json:"differences"`
}

func (a *app) freezeVerifyCmd() *cobra.Command {
	var root, sealLog, cache string
	var asJSON bool
	c := &cobra.Command{
		Use:   "verify [FREEZE]",
		Short: "Compare a freeze with the present and name each difference",
		Long: `Build the manifest of a freeze anew and name everything in which the present
differs, with its old and new value. FREEZE is an id, the beginning of one, or
a manifest file; without it the newest freeze of the seal log. The seal log is
verified too. Exit 1 when anything differs.

Every byte is read. With --incremental FILE, files whose size, times and inode
have not changed since the last time are taken as unchanged: quick, for work
between two freezes, and no evidence. A holdout is never verified like that.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return freezeFault(a.freezeVerify(c.Context(), firstOf(args), root, sealLog, cache, asJSON))
		},
	}
	c.Flags().StringVar(&root, "root", ".", "frozen `FOLDER`")
	c.Flags().StringVar(&cache, "incremental", "", "remember digests in `FILE` and read only what may have changed; no evidence")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	sealLogReadFlag(c, &sealLog)
	return c
}

// firstOf is the first argument, "" without one.
func firstOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

func (a *app) freezeVerify(ctx context.Context, which, root, sealLog, cachePath string, asJSON bool) error {
	f, _, err := a.findFreeze(ctx, which, sealLog)
	if err != nil {
		return err
	}
	cache, err := readCache(cachePath)
	if err != nil {
		return err
	}
	ds, err := a.verifyPresent(ctx, f.Manifest, root, cache)
	if err != nil {
		return err
	}
	if err := writeCache(cachePath, cache); err != nil {
		return err
	}
	return a.printFindings(freezeFindings{
		schemaRef{"qualify.freeze_differences", 1}, f.ID, "present", countFiles(f.Manifest), cache == nil, len(ds) == 0, ds,
	}, asJSON)
}

// verifyPresent compares a frozen manifest with the present. What is no longer
// there to be hashed is a difference, not an error.
func (a *app) verifyPresent(ctx context.Context, m *freeze.Manifest, root string, cache *freeze.Cache) ([]freeze.Difference, error) {
	in, err := a.presentInputsOf(m, root)
	if err != nil {
		return nil, err
	}
	in.Cache, in.Gone = cache, true
	now, err := freeze.Build(ctx, in)
	if err != nil {
		return nil, err
	}
	return freeze.Verify(m, now), nil
}

func readCache(path string) (*freeze.Cache, error) {
	if path == "" {
		return nil, nil //nolint:nilnil // no cache reads every byte
	}
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, usagef("--incremental %s: %w", path, cause(err))
	}
	c, err := freeze.NewCache(data, time.Now())
	if err != nil {
		return nil, usagef("--incremental %s: %w", path, err)
	}
	return c, nil
}

func writeCache(path string, c *freeze.Cache) error {
	if c == nil {
		return nil
	}
	b, err := c.Bytes()
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return writeFile(path, b)
}

func (a *app) freezeDiffCmd() *cobra.Command {
	var sealLog string
	var asJSON bool
	c := &cobra.Command{
		Use:   "diff FREEZE FREEZE",
		Short: "Name each difference of two freezes",
		Long: `Name everything in which the second freeze differs from the first. Each is an
id of the seal log, the beginning of one, or a manifest file. Exit 1 when they
differ, as diff does.`,
		Args: exactArgs("FREEZE", "FREEZE"),
		RunE: func(c *cobra.Command, args []string) error {
			return freezeFault(a.freezeDiff(c.Context(), args[0], args[1], sealLog, asJSON))
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	sealLogReadFlag(c, &sealLog)
	return c
}

func (a *app) freezeDiff(ctx context.Context, one, other, sealLog string, asJSON bool) error {
	x, _, err := a.findFreeze(ctx, one, sealLog)
	if err != nil {
		return err
	}
	y, _, err := a.findFreeze(ctx, other, sealLog)
	if err != nil {
		return err
	}
	ds := freeze.Diff(x.Manifest, y.Manifest)
	return a.printFindings(freezeFindings{
		schemaRef{"qualify.freeze_differences", 1}, x.ID, y.ID, countFiles(y.Manifest), true, len(ds) == 0, ds,
	}, asJSON)
}

func (a *app) printFindings(doc freezeFindings, asJSON bool) error {
	if doc.Differences == nil {
		doc.Differences = []freeze.Difference{}
	}
	if asJSON {
		if err := a.printJSON(doc); err != nil {
			return err
		}
	} else {
		for _, d := range doc.Differences {
			a.printf("%s\n", oneLine(d.String()))
		}
		how := ""
		if !doc.Whole {
			how = " (not every byte was read: no evidence)"
		}
		a.printf("%s and %s: %s, %s%s\n", doc.Freeze, doc.With, plural(len(doc.Differences), "difference"), plural(doc.Files, "file"), how)
	}
	if !doc.OK {
		return verdict(exitFail)
	}
	return nil
}

func countFiles(m *freeze.Manifest) int {
	n := 0
	for _, t := range m.Trees {
		n += len(t.Files)
	}
	return n
}

func (a *app) freezeShowCmd() *cobra.Command {
	var sealLog string
	var asJSON, asManifest, files bool
	c := &cobra.Command{
		Use:   "show [FREEZE]",
		Short: "Print what a freeze covers",
		Long: `Print what a freeze covers. FREEZE is an id, the beginning of one, or a manifest
file; without it the newest freeze of the seal log. With --manifest the manifest
itself is printed, in the canonical form whose digest is the id.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if asJSON && asManifest || files && (asJSON || asManifest) {
				return usagef("freeze show: --json, --manifest and --files are three forms; give one of them")
			}
			f, head, err := a.findFreeze(c.Context(), firstOf(args), sealLog)
			if err != nil {
				return freezeFault(err)
			}
			doc := freezeDoc{schemaRef{"qualify.freeze", 1}, f.ID, f.N, f.At, head, false, f.Manifest}
			switch {
			case asManifest:
				b, err := f.Manifest.Canonical()
				if err != nil {
					return err
				}
				a.printf("%s\n", b)
			case asJSON:
				return a.printJSON(doc)
			default:
				a.showFreeze(doc, files)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	c.Flags().BoolVar(&asManifest, "manifest", false, "print the manifest in canonical form")
	c.Flags().BoolVar(&files, "files", false, "list every file")
	sealLogReadFlag(c, &sealLog)
	return c
}

// showFreeze prints a freeze for people.
func (a *app) showFreeze(doc freezeDoc, files bool) {
	m := doc.Manifest
	line := func(what, format string, args ...any) {
		a.printf("%s\n", oneLine(fmt.Sprintf("%-9s  %s", what, fmt.Sprintf(format, args...))))
	}
	line("freeze", "%s", doc.Freeze)
	if doc.Row > 0 {
		line("sealed", "row %d of the seal log, %s", doc.Row, doc.At)
		line("head", "%s", doc.Head)
	}
	line("campaign", "%s (%s)", m.Name, m.Source.Campaign)
	for _, t := range m.Trees {
		line("tree", "%s  %s, %s", t.H1, t.Path, plural(len(t.Files), "file"))
		for i := range t.Files {
			if f := &t.Files[i]; files {
				line("file", "%s  %s%s", f.SHA256, f.Name, fileMarks(f))
			}
		}
	}
	for _, b := range m.Binaries {
		line("binary", "sha256:%s  %s, %s, %d bytes", b.SHA256, b.Platform, b.Go, b.Size)
	}
	for _, name := range slices.Sorted(maps.Keys(m.Corpus.Splits)) {
		s := m.Corpus.Splits[name]
		line("split", "%s  %s, %s, %d with gold", s.Digest, name, plural(len(s.Cases), "case"), len(s.Gold))
	}
	if m.Corpus.Sealed != nil {
		line("corpus", "%s  sealed file, %s findings in its audit", m.Corpus.Sealed["file"], m.Corpus.Sealed["lint/findings"])
	}
	line("policy", "%s  %s", m.Policy["digest"], m.Source.Policy)
	line("evaluator", "%s, code %s", m.Evaluator["version"], m.Evaluator["code"])
	line("model", "%s %s, %d settings, %d prices", m.Models["provider"], m.Models["name"], len(m.Models), len(m.Prices))
	line("also", "%d prompts, %d modules", len(m.Prompts), len(m.Modules))
	if len(m.Source.Exclude) > 0 {
		line("left out", "%s", strings.Join(m.Source.Exclude, ", "))
	}
}

func fileMarks(f *freeze.File) string {
	switch {
	case f.Link:
		return " → " + strconv.Quote(f.To)
	case f.Exec:
		return " (executable)"
	}
	return ""
}
