package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/mod/sumdb/note"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/freeze"
)

// logFlags are the flags of freeze log.
type logFlags struct {
	sealLog, export, checkpoint, key, head, sign, newKey string

	compare      []string
	verify, json bool
}

func (a *app) freezeLogCmd() *cobra.Command {
	var f logFlags
	c := &cobra.Command{
		Use:   "log [FILE]",
		Short: "Print, verify, sign, export and compare the seal log",
		Long: `Print the seal log of the store, or of a FILE that --export or --seal-log wrote.

--verify recomputes it: every digest and the chain, the form of each entry, that
each follows what it refers to, and each checkpoint. Exit 1 when anything is
wrong. A log that was cut off at its end, or written anew as a whole, is whole
in itself; what is kept elsewhere shows it:
  --checkpoint FILE   a checkpoint that --sign printed
  --key KEY           the log must hold a checkpoint signed by this key
  --head DIGEST       the log must hold the row of this digest
  --compare OTHER     a copy of the log: sqlite:PATH, bundle:FILE, or a file
Each of them implies --verify.

Rows are in the order of the chain. When each was written is what its writer
said: "(set)" marks a time that SOURCE_DATE_EPOCH set, for a log of evidence that
is not measured and comes out the same each time.

--seal-log FILE reads the copy in FILE too, and brings it up to the log of the
store: commands without that flag leave the copy behind, such as gate and report
on a holdout. Nothing is written when --verify finds a fault.

--sign KEYFILE signs all rows, prints the checkpoint (a C2SP checkpoint in a
signed note) and appends it to the log. --new-key FILE makes a key: the private
one in FILE, the one that verifies in FILE.pub.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return freezeFault(a.freezeLog(c.Context(), firstOf(args), f))
		},
	}
	fl := c.Flags()
	fl.BoolVar(&f.verify, "verify", false, "recompute the log; exit 1 when anything is wrong")
	fl.StringVar(&f.checkpoint, "checkpoint", "", "the log must go on from the signed checkpoint in `FILE`")
	fl.StringVar(&f.key, "key", "", "`KEY` that verifies checkpoints, or a file that holds it")
	fl.StringVar(&f.head, "head", "", "the log must hold the row of this `DIGEST`")
	fl.StringSliceVar(&f.compare, "compare", nil, "another copy of the log, `OTHER`: sqlite:PATH, bundle:FILE or a file")
	fl.StringVar(&f.export, "export", "", "write the log to `FILE` as JSON Lines")
	fl.StringVar(&f.sign, "sign", "", "sign the log with the private key in `KEYFILE` and print the checkpoint")
	fl.StringVar(&f.newKey, "new-key", "", "make a key in `FILE` and FILE.pub")
	fl.BoolVar(&f.json, "json", false, "print one JSON document")
	sealLogFlag(c, &f.sealLog)
	return c
}

func (f logFlags) verifies() bool {
	return f.verify || f.checkpoint != "" || f.key != "" || f.head != "" || len(f.compare) > 0
}

func (a *app) freezeLog(ctx context.Context, file string, f logFlags) error {
	switch {
	case file != "" && f.sealLog != "":
		return usagef("freeze log: give FILE or --seal-log, not both")
	case file != "" && f.sign != "":
		return usagef("freeze log: --sign appends to the log of the store; leave FILE out, and give the file with --seal-log")
	case f.newKey != "" && (f.sign != "" || f.export != "" || f.verifies() || file != ""):
		return usagef("freeze log: --new-key only makes a key; leave the rest out")
	case f.sign != "" && (f.export != "" || f.verifies()):
		return usagef("freeze log: --sign refuses a log with faults anyhow; verify, compare and export it before or after")
	case f.newKey != "":
		return a.newSealKey(f.newKey)
	case f.sign != "":
		return a.signSealLog(ctx, f.sign, f.sealLog)
	}
	if _, err := a.checkOutput(f.export, file, f.sealLog); err != nil {
		return err
	}
	rows, err := a.logRows(ctx, file, f.sealLog)
	if f.verifies() && errors.Is(err, freeze.ErrLog) {
		return a.printLogFaults(freeze.Verification{Faults: []freeze.Fault{{Text: err.Error()}}}, f.json)
	}
	if err != nil {
		return err
	}
	if f.export != "" {
		if err := exportLog(f.export, rows); err != nil {
			return err
		}
	}
	if f.verifies() {
		err = a.verifyLog(ctx, rows, f)
	} else {
		err = a.printLog(rows, f)
	}
	if err != nil || f.sealLog == "" {
		return err
	}
	return a.bringUp(ctx, f.sealLog, rows)
}

// bringUp appends to the copy of the log in a file what it lacks of rows. A file
// that lacks nothing need not be writable.
func (a *app) bringUp(ctx context.Context, path string, rows []freeze.Row) error {
	log := freeze.FileLog{Path: path}
	if file, err := log.SealLog(ctx); err != nil || len(file) >= len(rows) {
		return err
	}
	n, err := log.TakeOver(ctx, rows)
	if n > 0 {
		a.talkf("note: %s took over %s of the seal log from the store", path, plural(n, "row"))
	}
	return err
}

// logRows reads the log of a file alone, or of the store with its copy.
func (a *app) logRows(ctx context.Context, file, sealLog string) ([]freeze.Row, error) {
	if file == "" {
		return a.readSealLog(ctx, sealLog)
	}
	if _, err := os.Stat(file); err != nil {
		return nil, usagef("%s: %w", file, cause(err))
	}
	return freeze.FileLog{Path: file}.SealLog(ctx)
}

func exportLog(path string, rows []freeze.Row) error {
	var b bytes.Buffer
	if err := freeze.Export(&b, rows); err != nil {
		return err
	}
	return writeFile(path, b.Bytes())
}

// logLine is a row in freeze log --json.
type logLine struct {
	N      int64           `json:"n"`
	Kind   string          `json:"kind"`
	Body   json.RawMessage `json:"body"`
	Prev   string          `json:"prev"`
	Digest string          `json:"digest"`
}

func (a *app) printLog(rows []freeze.Row, f logFlags) error {
	if f.json {
		lines := []logLine{}
		for _, r := range rows {
			body := json.RawMessage(r.Body)
			if !json.Valid(body) {
				return fmt.Errorf("%w: row %d: its body is no JSON; --verify lists all that is wrong", freeze.ErrLog, r.N)
			}
			lines = append(lines, logLine{r.N, r.Kind, body, r.Prev, r.Digest})
		}
		return a.printJSON(struct {
			Schema schemaRef `json:"schema"`
			Head   string    `json:"head"`
			Rows   []logLine `json:"rows"`
		}{schemaRef{"qualify.seal_log", 1}, freeze.Head(rows), lines})
	}
	a.table("n\tkind\twhat\twhen\tdigest", func(row func(...string)) {
		for _, r := range rows {
			what, when := subject(r)
			row(strconv.FormatInt(r.N, 10), r.Kind, what, when, r.Digest)
		}
	})
	return nil
}

// subject is what a row is about, in few words, and when it was written, where
// it says so.
func subject(r freeze.Row) (what, when string) {
	var b struct {
		Campaign    string `json:"campaign"`
		Predecessor string `json:"predecessor"`
		Freeze      string `json:"freeze"`
		Verdict     string `json:"verdict"`
		Reopen      string `json:"reopen"`
		Use         string `json:"use"`
		Checkpoint  string `json:"checkpoint"`
		freeze.Moment
	}
	if json.Unmarshal(r.Body, &b) != nil {
		return "(unreadable)", ""
	}
	parts := []string{b.Campaign, clipID(b.Freeze), b.Verdict, b.Use}
	if b.Predecessor != "" {
		parts = append(parts, "after "+b.Predecessor)
	}
	if b.Reopen != "" {
		parts = append(parts, "reopened: "+b.Reopen)
	}
	if b.Checkpoint != "" {
		parts = append(parts, "rows 1 to "+strconv.FormatInt(r.N-1, 10))
	}
	if b.Clock == freeze.ClockSet {
		b.At += " (set)"
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " "), b.At
}

// clipID is the beginning of an id, enough to give to a command.
func clipID(id string) string { return id[:min(len(id), 14)] }

// verifyLog recomputes a log and holds it to what is kept elsewhere.
func (a *app) verifyLog(ctx context.Context, rows []freeze.Row, f logFlags) error {
	var keys []note.Verifier
	if f.key != "" {
		k, err := readVerifierKey(f.key)
		if err != nil {
			return err
		}
		keys = append(keys, k)
	}
	inLog := keys
	if f.checkpoint != "" {
		inLog = nil // the checkpoint is given; the log need not hold one
	}
	v := freeze.VerifyLog(rows, inLog...)
	add := func(format string, args ...any) {
		v.Faults = append(v.Faults, freeze.Fault{Text: fmt.Sprintf(format, args...)})
	}
	if f.checkpoint != "" {
		msg, _, err := readAtMost(f.checkpoint, mostKeyFile)
		if err != nil {
			return err
		}
		c, err := freeze.CheckCheckpoint(rows, msg, keys...)
		if err != nil {
			add("%s: %v", f.checkpoint, err)
		} else if c.Signed {
			v.Signed = max(v.Signed, c.Size)
		}
	}
	if f.head != "" && !slices.ContainsFunc(rows, func(r freeze.Row) bool { return r.Digest == f.head }) {
		add("no row has digest %s: the log was cut off, is an older copy, or another log", f.head)
	}
	for _, other := range f.compare {
		theirs, err := a.otherLog(ctx, other)
		switch {
		case errors.Is(err, freeze.ErrLog):
			add("%s: %v", other, err)
			continue
		case err != nil:
			return err
		}
		switch c := freeze.Compare(rows, theirs); {
		case c.Forked:
			add("%s: %d rows in common, then both go on differently: the log has forked or was edited", other, c.Common)
		case c.B > 0:
			add("%s: has %s more: this log was cut off, or is an older copy; freeze log --seal-log FILE brings a copy up from its store", other, plural(c.B, "row"))
		case c.A > 0:
			a.talkf("note: %s is an older copy: it has the first %d of %d rows", other, c.Common, len(rows))
		}
	}
	return a.printLogFaults(v, f.json)
}

// otherLog reads a copy of the log to compare with.
func (a *app) otherLog(ctx context.Context, other string) ([]freeze.Row, error) {
	scheme, _, _ := strings.Cut(other, ":") // whoever gives the URL of a server gives its password, which no line may show
	if !slices.Contains([]string{"sqlite", "bundle", "postgres", "postgresql"}, scheme) {
		return a.logRows(ctx, other, "")
	}
	b := *a
	b.storeURL = other
	return b.readSealLog(ctx, "")
}

func (a *app) printLogFaults(v freeze.Verification, asJSON bool) error {
	if v.Faults == nil {
		v.Faults = []freeze.Fault{}
	}
	if asJSON {
		err := a.printJSON(struct {
			Schema   schemaRef      `json:"schema"`
			OK       bool           `json:"ok"`
			Rows     int            `json:"rows"`
			Head     string         `json:"head"`
			Openings int            `json:"openings"`
			Signed   int64          `json:"signed_rows"`
			Faults   []freeze.Fault `json:"faults"`
		}{schemaRef{"qualify.seal_log_verification", 1}, len(v.Faults) == 0, v.Rows, v.Head, v.Openings, v.Signed, v.Faults})
		if err != nil {
			return err
		}
	} else {
		for _, f := range v.Faults {
			a.printf("%s\n", oneLine(f.String()))
		}
		signed := "no checkpoint checked against a key"
		if v.Signed > 0 {
			signed = fmt.Sprintf("the first %d under a signed checkpoint", v.Signed)
		}
		a.printf("%s, %s, %s, %s\nhead %s\n", plural(v.Rows, "row"), signed, plural(v.Openings, "holdout opening"), plural(len(v.Faults), "fault"),
			cmp.Or(v.Head, "none"))
	}
	if len(v.Faults) > 0 {
		return verdict(exitFail)
	}
	return nil
}

// readVerifierKey reads a key that verifies, from the command line or a file.
func readVerifierKey(text string) (note.Verifier, error) {
	from := "--key"
	if fileExists(text) {
		data, _, err := readAtMost(text, mostKeyFile)
		if err != nil {
			return nil, err
		}
		text, from = strings.TrimSpace(string(data)), text
	}
	k, err := note.NewVerifier(text)
	if err != nil {
		return nil, usagef("%s: %w; give the text of FILE.pub that --new-key made, or that file", from, err)
	}
	return k, nil
}

// newSealKey makes a key for checkpoints. Neither file may be there already.
func (a *app) newSealKey(path string) error {
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	private, public, err := freeze.NewKey(name, rand.Reader)
	if err != nil {
		return usagef("--new-key %s: %w", path, err)
	}
	if err := createKeyPair(path, []byte(private+"\n"), []byte(public+"\n")); err != nil {
		return err
	}
	a.printf("%s\n", public)
	return nil
}

// signSealLog signs the log, appends the checkpoint and prints it.
func (a *app) signSealLog(ctx context.Context, keyFile, sealLog string) error {
	data, _, err := readAtMost(keyFile, mostKeyFile)
	if err != nil {
		return err
	}
	key, err := note.NewSigner(strings.TrimSpace(string(data)))
	if err != nil {
		return usagef("%s: is no private key: %w; qualify freeze log --new-key FILE makes one", keyFile, err)
	}
	return a.withStoreTo(ctx, creating, func(s store.Store) error {
		var msg []byte // it covers all rows before it, so none may come between
		_, _, err := freeze.Decide(ctx, a.sealLog(s, sealLog), func(rows []freeze.Row) (string, any, error) {
			var err error
			msg, err = freeze.Sign(rows, key)
			return freeze.KindCheckpoint, freeze.CheckpointEntry{Checkpoint: string(msg)}, err
		})
		if err != nil {
			return err
		}
		_, err = a.out.Write(msg)
		return err
	})
}
