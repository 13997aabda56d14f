package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/archive"
	"github.com/agentrooms/qualify/evaluator/gate"
	"github.com/agentrooms/qualify/freeze"
	"github.com/agentrooms/qualify/reports"
	"github.com/agentrooms/qualify/reports/attest"
	"github.com/agentrooms/qualify/reports/bundle"
)

// bundleCheck is one thing that must hold of a bundle.
type bundleCheck struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	// Skipped says that this version could not look: nothing was found wrong, and
	// nothing right.
	Skipped bool   `json:"skipped,omitempty"`
	Detail  string `json:"detail"` // what was found, what is wrong, or why it was skipped
}

// bundleDoc is report verify --json. What a bundle says is told only as far as
// it holds.
type bundleDoc struct {
	Schema   schemaRef     `json:"schema"`
	OK       bool          `json:"ok"`
	File     string        `json:"file"`
	Digest   string        `json:"digest"` // of the tar
	Withheld []string      `json:"withheld"`
	Campaign string        `json:"campaign"`
	Verdict  gate.Outcome  `json:"verdict"`
	Label    string        `json:"label"`
	Evidence string        `json:"evidence"`
	Freeze   string        `json:"freeze"`
	Checks   []bundleCheck `json:"checks"`
}

func (a *app) reportVerifyCmd() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "verify FILE",
		Short: "Verify a bundle: every bit, every trace down to its rows, every sum, and the verdict",
		Long: `Verify a bundle as qualify report bundle wrote it, packed anew or not, without
store or network: it must be the canonical encoding of what it holds; the seal
log and every trace must be whole and every room give its trace again, where its
contents are not withheld; every sum of money must follow from receipts; and
verdict and report must be what the policy of the bundle gives for its traces.

That shows that a bundle agrees with itself. Who vouches for it is shown by an
attestation: qualify attest verify ATTESTATION FILE --key PUBLIC.

Exit 1 when something does not hold.`,
		Args: exactArgs("FILE"),
		RunE: func(c *cobra.Command, args []string) error {
			checked, err := a.checkBundle(c.Context(), args[0])
			if err != nil {
				return err
			}
			if asJSON {
				err = a.printJSON(checked.doc)
			} else {
				a.printBundle(&checked.doc)
			}
			if err == nil && !checked.doc.OK {
				err = verdict(exitFail)
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	return c
}

// bundleFault is an error of opening a bundle that is a finding about its
// bytes; others are about the machine, or the file is none at all.
func bundleFault(err error) bool {
	return errors.Is(err, bundle.ErrFormat) || errors.Is(err, store.ErrCorrupt)
}

// checkedBundle is a bundle that was looked through, with what follows from it.
type checkedBundle struct {
	doc      bundleDoc
	verdict  *gate.Document // computed; nil where it could not be
	log      []freeze.Row
	manifest *freeze.Manifest // of the campaign's freeze; nil without
}

// checkBundle verifies a bundle whole. What is wrong with it is in the document;
// an error is something else.
func (a *app) checkBundle(ctx context.Context, path string) (c *checkedBundle, err error) {
	c = &checkedBundle{doc: bundleDoc{Schema: schemaRef{"qualify.bundle", 1}, File: path, Withheld: []string{}, Checks: []bundleCheck{}}}
	b, err := openBundle(path)
	if bundleFault(err) {
		c.doc.Checks = append(c.doc.Checks, bundleCheck{Name: checkContainer, Detail: err.Error()})
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	c.doc.Digest, c.doc.Withheld = b.bundle.Digest(), append(c.doc.Withheld, b.bundle.Withheld()...)
	camp, err := b.only(ctx)
	if err != nil {
		return nil, err
	}
	c.doc.Campaign, c.doc.OK = camp.ID, true
	for _, check := range []struct {
		name string
		run  func(context.Context, *app, *bundleStore, store.Campaign) (string, error)
	}{
		{checkContainer, c.parts}, {"seal log", c.sealLog}, {"traces", c.traces}, {"account", c.account}, {"verdict", c.judged}, {"report", c.report},
	} {
		detail, err := check.run(ctx, a, b, camp)
		var own *exitError
		skipped := errors.Is(err, errNotCompared)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.As(err, &own) && own.code == exitRefused:
			return nil, err // a corpus without its key, not a fault of the bundle
		case skipped:
			detail = err.Error()
		case err != nil:
			detail, c.doc.OK = err.Error(), false
		}
		c.doc.Checks = append(c.doc.Checks, bundleCheck{check.name, err == nil, skipped, detail})
	}
	return c, nil
}

const checkContainer = "container"

// errNotCompared is the error of a check that this version cannot make.
var errNotCompared = errors.New("not compared")

// fault is the first check that does not hold.
func (c *checkedBundle) fault() error {
	for _, k := range c.doc.Checks {
		if !k.OK && !k.Skipped {
			return fmt.Errorf("%s: %s", k.Name, k.Detail)
		}
	}
	return nil
}

// skipped reports whether the report was not compared.
func (c *checkedBundle) skipped() bool {
	return slices.ContainsFunc(c.doc.Checks, func(k bundleCheck) bool { return k.Skipped })
}

// parts refuses parts that no bundle has, since nothing would look at them, and
// misses those that every bundle has.
func (c *checkedBundle) parts(_ context.Context, a *app, b *bundleStore, _ store.Campaign) (string, error) {
	known, err := a.singleParts(b)
	if err != nil {
		return "", err
	}
	names := b.bundle.Names()
	for _, name := range names {
		rest, isRecord := strings.CutPrefix(name, partRecords)
		if !known[name] && (!isRecord || !archive.HasPlace(rest)) {
			return "", fmt.Errorf("part %s is none that a bundle has", name)
		}
	}
	for _, name := range []string{partPolicy, partReport, partVerdict} {
		if _, found := slices.BinarySearch(names, name); !found {
			return "", fmt.Errorf("part %s is missing", name)
		}
	}
	return plural(len(names), "part") + ", canonical", nil
}

// singleParts are the parts beside the records: policy, report, verdict, and a
// sealed corpus or the files of the cases and their gold.
func (a *app) singleParts(b *bundleStore) (map[string]bool, error) {
	known := map[string]bool{partPolicy: true, partReport: true, partVerdict: true}
	if _, err := b.bundle.Stat(partSealed); err == nil {
		known[partSealed] = true
		return known, nil
	}
	cs, err := a.bundledCases(b)
	if err != nil {
		return nil, err
	}
	for _, k := range cs.corpus.Cases {
		known[partCorpus+k.File()] = true
		if g, ok := cs.gold.Get(k.ID); ok {
			known[partCorpus+"gold/"+g.File()] = true
		}
	}
	return known, nil
}

// sealLog recomputes the seal log, wants it to tell of the campaign what the
// records hold, and finds the campaign's freeze in it.
func (c *checkedBundle) sealLog(ctx context.Context, _ *app, b *bundleStore, camp store.Campaign) (string, error) {
	rows, err := b.SealLog(ctx)
	if err != nil {
		return "", err
	}
	c.log = freezeRows(rows)
	v := freeze.VerifyLog(c.log)
	if n := len(v.Faults); n > 0 {
		return "", fmt.Errorf("%s; the first: %s", plural(n, "fault"), v.Faults[0])
	}
	trials, err := b.Trials(ctx, camp.ID)
	if err != nil {
		return "", err
	}
	set, err := campaigns.SetDigest(trials)
	if err == nil {
		err = toldAsStored(rows, camp, set)
	}
	if err != nil {
		return "", err
	}
	c.doc.Freeze = freeze.HoldoutOf(c.log, camp.ID).Freeze
	c.manifest = v.Manifest(c.doc.Freeze)
	return fmt.Sprintf("%s, head %s", plural(v.Rows, "row"), orNone(v.Head)), nil
}

// traces verifies every trace and rebuilds every room whose contents are there.
func (c *checkedBundle) traces(ctx context.Context, a *app, b *bundleStore, camp store.Campaign) (string, error) {
	trials, err := b.Trials(ctx, camp.ID)
	if err != nil {
		return "", err
	}
	results, err := a.verifyStored(ctx, b, camp, trials, builtinName)
	if err != nil {
		return "", err
	}
	withheld, lacking := 0, 0
	for _, r := range results {
		if !r.OK {
			return "", fmt.Errorf("%s: %s", r.Name, r.Fault)
		}
		if r.Withheld != "" {
			withheld++
		}
		if r.Absent > 0 {
			lacking++
		}
	}
	detail := plural(len(results), "trace") + ", each with the rows behind it"
	switch {
	case withheld+lacking == 0:
		return detail + " and every state rebuilt", nil
	case b.bundle.Has(withheldBodies):
		return fmt.Sprintf("%s; the states of %d are not rebuilt, since bodies are withheld", detail, withheld), nil
	}
	return "", fmt.Errorf("contents of %s are missing, and the bundle does not say that bodies are withheld", plural(max(withheld, lacking), "room"))
}

// account derives every sum again.
func (c *checkedBundle) account(ctx context.Context, _ *app, b *bundleStore, camp store.Campaign) (string, error) {
	doc, err := verifyBudget(ctx, b, camp.ID)
	if err != nil {
		return "", err
	}
	if n := len(doc.Faults); n > 0 {
		f := doc.Faults[0]
		return "", fmt.Errorf("%s; the first: %s %s: %s", plural(n, "difference"), f.What, f.Name, f.Text)
	}
	return fmt.Sprintf("%s, %s, %s", plural(doc.LedgerRows, "ledger row"), plural(doc.Allotments, "allotment"), plural(doc.Operations, "operation")), nil
}

// judged computes the verdict and compares it with the one in the bundle, byte
// for byte but for the version of the tool.
func (c *checkedBundle) judged(ctx context.Context, a *app, b *bundleStore, camp store.Campaign) (string, error) {
	said, err := b.verdict()
	if err != nil {
		return "", err
	}
	p, err := b.policy()
	if err != nil {
		return "", err
	}
	if c.verdict, err = a.judge(ctx, b, camp.ID, p, builtinName); err != nil {
		return "", err
	}
	was, is := *said, *c.verdict
	was.Outside, is.Outside = []string{"tool"}, []string{"tool"} // a bundle holds account and log as they were
	if err := attest.SameVerdict(&was, &is); err != nil {
		return "", err
	}
	if !slices.Equal(said.Outside, c.verdict.Outside) {
		return "", fmt.Errorf("%s lists %v as outside of its identity, not %v", partVerdict, said.Outside, c.verdict.Outside)
	}
	c.doc.Verdict, c.doc.Label, c.doc.Evidence = said.Verdict.Verdict, said.Label, said.Evidence
	return fmt.Sprintf("%s by policy %s, computed again", said.Label, said.Policy.Name), nil
}

// verdict reads the verdict that the bundle states.
func (b *bundleStore) verdict() (*gate.Document, error) {
	data, err := b.bundle.ReadFile(partVerdict)
	if err != nil {
		return nil, err
	}
	body, ok := bytes.CutSuffix(data, []byte("\n"))
	doc := new(gate.Document)
	if err := engine.DecodeCanonical(body, doc); err != nil || !ok {
		return nil, errors.Join(fmt.Errorf("%s is no canonical verdict with one line end", partVerdict), err)
	}
	return doc, nil
}

// report computes the report again. Another version of the tool may lay it out
// in another way; then anything may stand in it.
func (c *checkedBundle) report(ctx context.Context, a *app, b *bundleStore, camp store.Campaign) (string, error) {
	said, err := b.verdict()
	if err != nil {
		return "", err
	}
	st, err := a.readStored(ctx, b, camp.ID, builtinName)
	if err != nil {
		return "", err
	}
	var now bytes.Buffer
	if err := reports.RunMarkdown(&now, st.doc); err != nil {
		return "", err
	}
	was, err := b.bundle.ReadFile(partReport)
	switch {
	case err != nil:
		return "", err
	case bytes.Equal(was, now.Bytes()):
		return "follows from the traces", nil
	case said.Tool != toolName:
		return "", fmt.Errorf("%w: %s says to be by %s; this is %s, which lays it out in its own way", errNotCompared, partReport, said.Tool, toolName)
	}
	return "", fmt.Errorf("%s is not the report that follows from the traces", partReport)
}

func (a *app) printBundle(d *bundleDoc) {
	for _, c := range d.Checks {
		word := "ok   "
		switch {
		case c.Skipped:
			word = "SKIP "
		case !c.OK:
			word = "FAIL "
		}
		a.printf("%s %s: %s\n", word, c.Name, oneLine(c.Detail))
	}
	if d.Digest != "" {
		a.printf("bundle %s\n", d.Digest)
	}
}
