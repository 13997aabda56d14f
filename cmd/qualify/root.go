package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/agentrooms/qualify/engine/store"
)

// modulePath is the path of this module as in go.mod.
const modulePath = "github.com/agentrooms/qualify"

// defaultStore is the store used without --store and QUALIFY_STORE.
const defaultStore = "sqlite:.qualify/qualify.db"

// app is one run of the command: its streams and global flags.
type app struct {
	in       io.Reader
	out      *bufio.Writer // data; flushed by run, and by commands that report while they work
	err      io.Writer     // talk and progress
	storeURL string
	durable  bool
	// corpusKeys open sealed corpora.
	corpusKeys keyring
	env        func(string) string // the environment
	rebuild    rebuilder
	open       func(ctx context.Context, path string, access storeAccess) (store.Store, error)
	clockTold  bool            // that moments of records are set
	scored     map[string]bool // campaigns whose scoring this command has logged
	started    bool            // flags and arguments were accepted: errors from here on are the command's
}

func newApp(stdin io.Reader, stdout, stderr io.Writer) *app {
	a := &app{in: stdin, out: bufio.NewWriter(stdout), err: stderr, env: os.Getenv, scored: map[string]bool{}}
	a.open, a.rebuild = a.openSQLite, a.rebuildRooms
	return a
}

// execute parses args and runs the command they name. Whatever fails before
// the command itself starts is bad usage.
func (a *app) execute(ctx context.Context, args []string) error {
	root := a.root() //nolint:contextcheck // commands take the context that ExecuteContext gives them
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	var own *exitError
	if err == nil || a.started || errors.As(err, &own) {
		return err
	}
	return usagef("%w", err)
}

// root builds the command tree.
func (a *app) root() *cobra.Command {
	root := a.group("qualify", "Replay one corpus through three coordination modes and score the traces",
		a.runCmd(),
		a.attestCmd(),
		a.budgetCmd(),
		a.compareCmd(),
		a.gateCmd(),
		a.campaignCmd(),
		a.corpusCmd(),
		a.reportCmd(),
		a.doctorCmd(),
		a.freezeCmd(),
		a.initCmd(),
		a.scoreCmd(),
		a.storeCmd(),
		a.traceCmd(),
		a.versionCmd(),
	)
	root.Long = root.Short + `.

Data goes to stdout, talk and progress to stderr. Exit codes: 0 done or PASS,
1 FAIL, 2 INCONCLUSIVE, 3 bad usage or input, 4 internal fault, 5 refused by a
protection, 6 stopped by a limit, 130 interrupted, 141 reader of stdout gone.`
	root.SilenceErrors, root.SilenceUsage = true, true
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetIn(a.in)
	root.SetOut(a.out)
	root.SetErr(a.err)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpCommand(helpCmd())
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		a.started = true
		return refuseEmptyFlags(c)
	}
	root.PersistentFlags().StringVar(&a.storeURL, "store", cmp.Or(os.Getenv("QUALIFY_STORE"), defaultStore), "store `URL`: sqlite:PATH, or bundle:PATH to read a bundle (or QUALIFY_STORE)")
	root.PersistentFlags().StringArrayVar(&a.corpusKeys.paths, "corpus-key", nil, "`FILE` with a key that opens a sealed corpus (or "+envCorpusKey+")")
	root.PersistentFlags().BoolVar(&a.durable, "durable", false, "flush every commit to disk, for simulated funds too")
	return root
}

// group is a command that only holds others. Called without one of them, or
// with a name it does not know, it is bad usage.
func (a *app) group(use, short string, sub ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("%sno command given%s", inCommand(c), seeHelp(c))
			}
			return unknownCommand(c, args[0])
		},
	}
	c.AddCommand(sub...)
	return c
}

// unknownCommand names the word that is no command of c and the nearest one.
func unknownCommand(c *cobra.Command, word string) error {
	hint := ""
	c.SuggestionsMinimumDistance = 2
	if near := c.SuggestionsFor(word); len(near) > 0 {
		hint = "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return usagef("unknown command %q for %s%s%s", word, c.CommandPath(), hint, seeHelp(c))
}

// flagError names a flag error's command and, for an unknown flag, the nearest
// flag.
func flagError(c *cobra.Command, err error) error {
	hint := ""
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		if near := nearestFlag(c, unknown.GetSpecifiedName()); near != "" {
			hint = "; did you mean --" + near + "?"
		}
	}
	return usagef("%s%w%s%s", inCommand(c), err, hint, seeHelp(c))
}

// refuseEmptyFlags refuses a flag that is given without a value: a script with
// an unset variable, --max-usd "$MAX", must not run without its limit.
func refuseEmptyFlags(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		given := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			given = list.GetSlice()
		}
		if err == nil && (len(given) == 0 || slices.Contains(given, "")) {
			err = usagef("%s--%s has an empty value; leave it out, or give one%s", inCommand(c), f.Name, seeHelp(c))
		}
	})
	return err
}

// inCommand is the words of a subcommand and a colon, "" for the root: error
// lines begin with the program's name anyhow.
func inCommand(c *cobra.Command) string {
	if !c.HasParent() {
		return ""
	}
	return strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ") + ": "
}

func seeHelp(c *cobra.Command) string { return " (see " + c.CommandPath() + " --help)" }

// nearestFlag is the flag of c nearest to name, "" when none is near.
func nearestFlag(c *cobra.Command, name string) string {
	var names []string
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return nearest(name, names)
}

// nearest is the candidate within two edits of word, or that word begins; ""
// when there is none.
func nearest(word string, candidates []string) string {
	best, bestDist := "", 3
	for _, c := range candidates {
		d := editDistance(word, c)
		if len(word) > 1 && strings.HasPrefix(c, word) {
			d = min(d, 1)
		}
		if d < bestDist {
			best, bestDist = c, d
		}
	}
	return best
}

// editDistance is the Levenshtein distance of two strings, in bytes.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diag := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diag, row[j] = row[j], min(row[j]+1, row[j-1]+1, diag+cost)
		}
	}
	return row[len(b)]
}

// helpCmd is cobra's help command with unknown topics refused.
func helpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Help about any command",
		RunE: func(c *cobra.Command, args []string) error {
			target, rest, err := c.Root().Find(args)
			if err != nil {
				return usagef("%w", err)
			}
			if len(rest) > 0 {
				return unknownCommand(target, rest[0])
			}
			target.InitDefaultHelpFlag()
			return target.Help()
		},
	}
}

// exactArgs accepts exactly the named arguments.
func exactArgs(names ...string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		switch {
		case len(args) < len(names):
			return usagef("%smissing %s%s", inCommand(c), strings.Join(names[len(args):], " "), seeHelp(c))
		case len(args) > len(names):
			return usagef("%sunexpected argument %q%s", inCommand(c), args[len(names)], seeHelp(c))
		}
		return nil
	}
}

// someArgs accepts one or more arguments of the named kind.
func someArgs(name string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("%smissing %s%s", inCommand(c), name, seeHelp(c))
		}
		return nil
	}
}
