package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/corpus/lint"
)

func (a *app) corpusCmd() *cobra.Command {
	return a.group("corpus", "Cases: what they are and whether they are sound",
		a.corpusListCmd(), a.corpusShowCmd(), a.corpusLintCmd(), a.corpusKeygenCmd(), a.corpusSealCmd(), a.corpusUnsealCmd())
}

// corpusFlag adds --corpus.
func corpusFlag(c *cobra.Command, name *string) {
	c.Flags().StringVar(name, "corpus", builtinName, "`FOLDER` of the corpus, a sealed file, or builtin")
}

// campaignCorpusFlag adds --corpus to a command on a stored campaign, whose
// corpus a bundle brings along.
func campaignCorpusFlag(c *cobra.Command, name *string) {
	corpusFlag(c, name)
	f := c.Flags().Lookup("corpus")
	f.Usage, f.DefValue = f.Usage+" (that of the bundle, or builtin)", ""
}

// caseLine is one case in a list.
type caseLine struct {
	ID     string   `json:"id"`
	Family string   `json:"family"`
	Split  string   `json:"split"`
	Title  string   `json:"title"`
	Tags   []string `json:"tags"`
	Agents int      `json:"agents"`
	Tools  int      `json:"tools"`
	Faults int      `json:"faults"`
	Digest string   `json:"digest"`
}

func (a *app) corpusListCmd() *cobra.Command {
	var from, split string
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the cases of a corpus",
		Long: `List the cases of a corpus. Of a sealed one without its key, ids, splits and
digests are listed; titles are sealed.`,
		Args: exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			if locked, err := a.isLocked(from); err != nil {
				return err
			} else if locked {
				return a.listSealed(from, split, asJSON)
			}
			cs, err := a.readCorpus(from)
			if err != nil {
				return err
			}
			digest, err := cs.Digest()
			if err != nil {
				return err
			}
			lines := []caseLine{}
			for _, k := range cs.Cases {
				if split != "" && k.Split != split {
					continue
				}
				d, err := k.Digest()
				if err != nil {
					return err
				}
				lines = append(lines, caseLine{
					k.ID, k.Family, k.Split, k.Title, append([]string{}, k.Tags...), len(k.Room.Agents), len(k.Tools), len(k.Faults), d,
				})
			}
			if split != "" && len(lines) == 0 {
				return usagef("--split %q: no case of the corpus is in it", split)
			}
			if asJSON {
				return a.printJSON(struct {
					Schema schemaRef  `json:"schema"`
					Corpus string     `json:"corpus"`
					Digest string     `json:"digest"`
					Cases  []caseLine `json:"cases"`
				}{schemaRef{"qualify.corpus", 1}, from, digest, lines})
			}
			a.table("case\tfamily\tsplit\tagents\ttools\tfaults\ttitle", func(row func(...string)) {
				for _, l := range lines {
					row(l.ID, l.Family, l.Split, strconv.Itoa(l.Agents), strconv.Itoa(l.Tools), strconv.Itoa(l.Faults), l.Title)
				}
			})
			return nil
		},
	}
	corpusFlag(c, &from)
	c.Flags().StringVar(&split, "split", "", "only cases of this `SPLIT`")
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func (a *app) corpusShowCmd() *cobra.Command {
	var from string
	var asJSON bool
	c := &cobra.Command{
		Use:   "show CASE",
		Short: "Print one case file",
		Args:  exactArgs("CASE"),
		RunE: func(_ *cobra.Command, args []string) error {
			cs, tree, err := a.openCorpus(from)
			if err != nil {
				return err
			}
			k, ok := cs.Case(args[0])
			if !ok {
				var ids []string
				for _, k := range cs.Cases {
					ids = append(ids, k.ID)
				}
				hint := "qualify corpus list shows what it has"
				if near := nearest(args[0], ids); near != "" {
					hint = "did you mean " + near + "?"
				}
				return usagef("corpus %s has no case %q; %s", from, args[0], hint)
			}
			if asJSON {
				digest, err := k.Digest()
				if err != nil {
					return err
				}
				return a.printJSON(struct {
					Schema schemaRef    `json:"schema"`
					Digest string       `json:"digest"`
					Case   *corpus.Case `json:"case"`
				}{schemaRef{"qualify.case", 1}, digest, k})
			}
			text, err := fs.ReadFile(tree, k.File())
			if err != nil {
				return fmt.Errorf("read case %s: %w", k.ID, err)
			}
			_, err = a.out.Write(text)
			return err
		},
	}
	corpusFlag(c, &from)
	c.Flags().BoolVar(&asJSON, "json", false, "print the parsed case as one JSON document")
	return c
}

func (a *app) corpusLintCmd() *cobra.Command {
	var from string
	var asJSON bool
	c := &cobra.Command{
		Use:   "lint",
		Short: "Check that cases and their gold prove something",
		Long: `Check a corpus: the gold solution completes each case, doing nothing and only
claiming complete none, references hold, and criteria, faults and tools have a
use. The gold solution with one action left out, done twice or changed must
fail something, and no two cases may say the same but for names and numbers,
within a split or across. Exit 1 when anything is found, faults of the files
included.`,
		Args: exactArgs(),
		RunE: func(*cobra.Command, []string) error {
			cs, err := a.loadCases(from, ".")
			lines := []lint.Finding{}
			var faults corpus.Errors
			n := 0
			switch {
			case errors.As(err, &faults):
				for _, f := range faults {
					lines = append(lines, lint.Finding{Rule: "file", Where: place(f), Text: f.Text})
				}
			case err != nil:
				return err
			default:
				n = len(cs.corpus.Cases)
				lines = append(lines, lint.Run(cs.corpus, cs.gold)...)
			}
			return a.printLint(from, n, lines, asJSON)
		},
	}
	corpusFlag(c, &from)
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

func (a *app) printLint(from string, checked int, lines []lint.Finding, asJSON bool) error {
	if asJSON {
		err := a.printJSON(struct {
			Schema   schemaRef      `json:"schema"`
			Corpus   string         `json:"corpus"`
			Cases    int            `json:"cases"`
			Findings []lint.Finding `json:"findings"`
		}{schemaRef{"qualify.lint", 1}, from, checked, lines})
		if err != nil {
			return err
		}
	} else {
		for _, l := range lines {
			a.printf("%s\n", oneLine(strings.Join([]string{cmp.Or(l.Where, l.Case, from), l.Rule, l.Text}, ": ")))
		}
		a.printf("%s checked, %s\n", plural(checked, "case"), plural(len(lines), "finding"))
	}
	if len(lines) > 0 {
		return verdict(exitFail)
	}
	return nil
}

// place is file:line of a fault, or the file alone.
func place(f *corpus.FileError) string {
	if f.Line > 0 {
		return f.File + ":" + strconv.Itoa(f.Line)
	}
	return f.File
}

// readCorpus reads a corpus without its gold.
func (a *app) readCorpus(from string) (*corpus.Corpus, error) {
	cs, _, err := a.openCorpus(from)
	return cs, err
}

// openCorpus reads a corpus without its gold, and gives the tree of its files.
func (a *app) openCorpus(from string) (*corpus.Corpus, fs.FS, error) {
	if from == builtinName {
		cs, err := corpus.Builtin()
		return cs, corpus.BuiltinFS(), err
	}
	tree, sealed, err := a.corpusTree(from)
	if err != nil {
		return nil, nil, err
	}
	if sealed != nil {
		return sealed.Corpus, tree, nil
	}
	cs, err := corpus.Load(tree)
	if err != nil {
		return nil, nil, usagef("corpus %s: %w", from, firstFault(err))
	}
	return cs, tree, nil
}

// firstFault shortens a list of file faults to its first and their number, so
// that it fits one line.
func firstFault(err error) error {
	var faults corpus.Errors
	if errors.As(err, &faults) && len(faults) > 1 {
		return fmt.Errorf("%w (and %d more; qualify corpus lint lists them)", faults[0], len(faults)-1)
	}
	return err
}
