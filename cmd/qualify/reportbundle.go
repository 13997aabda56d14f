package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/corpus/gold"
	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/archive"
	"github.com/agentrooms/qualify/evaluator/gate"
	"github.com/agentrooms/qualify/reports"
	"github.com/agentrooms/qualify/reports/bundle"
)

// bundleFlags are the flags of report bundle.
type bundleFlags struct {
	out, policy, corpus string
	withhold            []string
	wholeCorpus         bool
	policyGiven         bool
}

func (a *app) reportBundleCmd() *cobra.Command {
	var f bundleFlags
	c := &cobra.Command{
		Use:   "bundle CAMPAIGN -o FILE.tar.zst",
		Short: "Write everything a third party needs to judge a campaign again",
		Long: `Write a campaign as one file with everything that its verdict follows from: the
plan, cases and gold of its split, traces, the rows and contents of every room,
the account, the seal log, the policy, and the verdict and report that follow.
Whoever has it needs no store: --store bundle:FILE is one, read only, for gate,
report, compare, trace, budget and attest. What was written is read back and
judged again before the command ends.

--withhold bodies leaves out what models and tools were sent and answered. The
traces keep what is judged: calls of tools with their arguments, what was said
in the room, documents and artifacts at the end. Verdict and report follow from
them all the same; only the states behind them cannot be rebuilt.

The tar inside is canonical: the same store gives the same bytes, and every bit
counts. Packing it anew, with another level of zstd or none, changes nothing.`,
		Args: exactArgs("CAMPAIGN"),
		RunE: func(c *cobra.Command, args []string) error {
			if f.out == "" {
				return usagef("%sname the FILE to write with -o%s", inCommand(c), seeHelp(c))
			}
			for _, w := range f.withhold {
				if w != withheldBodies {
					return usagef("%s--withhold %q: what can be withheld is %s%s", inCommand(c), w, withheldBodies, seeHelp(c))
				}
			}
			f.policyGiven = c.Flags().Changed("policy")
			return a.reportBundle(c.Context(), args[0], f)
		},
	}
	fl := c.Flags()
	fl.StringVarP(&f.out, "output", "o", "", "write to `FILE`, replacing it")
	fl.StringSliceVar(&f.withhold, "withhold", nil, "leave `WHAT` out: "+withheldBodies)
	fl.BoolVar(&f.wholeCorpus, "whole-corpus", false, "hold the cases of other splits too")
	policyFlag(c, &f.policy)
	campaignCorpusFlag(c, &f.corpus)
	return c
}

func (a *app) reportBundle(ctx context.Context, which string, f bundleFlags) error {
	policy, err := readPolicy(f.policy)
	if err != nil {
		return err
	}
	replaces, err := a.checkOutput(f.out, f.policy, f.corpus)
	if err != nil {
		return err
	}
	return a.withStore(ctx, func(s store.Store) error {
		if b, ok := s.(*bundleStore); ok && b.BodiesWithheld() {
			f.withhold = []string{withheldBodies} // they are not there to be written
		}
		if !f.policyGiven {
			if policy, err = policyOfCampaign(ctx, s, which, policy); err != nil {
				return err
			}
		}
		id, err := a.bundleOf(ctx, s, which, policy, &f)
		if err != nil {
			return err
		}
		a.printf("%s\n", id)
		verb := "is in"
		if replaces {
			verb = "replaces what was in"
		}
		a.talkf("the bundle of campaign %s %s %s", which, verb, f.out)
		return nil
	})
}

// bundleOf writes the bundle of a campaign as it stands at one moment: verdict and
// report are of the records that it holds, whatever other processes do to the
// store meanwhile. That the results of a holdout are computed again stands in the
// log before.
func (a *app) bundleOf(ctx context.Context, s store.Store, which string, policy *gate.Policy, f *bundleFlags) (digest string, err error) {
	if which == "" {
		return "", errNoName
	}
	_, plan, _, err := a.reopen(ctx, s, which, f.corpus)
	if err != nil {
		return "", err
	}
	if err := a.logScore(ctx, s, plan); err != nil {
		return "", err
	}
	records, done, err := fixRecords(ctx, s, plan, f)
	if errors.Is(err, store.ErrConflict) {
		err = failf(exitRefused, "%w", err)
	}
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, done()) }()
	if _, never := s.(*bundleStore); !never { // a bundle changes never, and has its own corpus
		fixed, err := archive.Open(recordFiles{records})
		if err != nil {
			return "", err
		}
		s = fixed
	}
	return a.writeBundle(ctx, s, records, plan.ID, policy, f)
}

// fixRecords copies the records of a campaign, at one moment, into a bundle of
// nothing else in a temporary file. Call done when it is not needed any more.
func fixRecords(ctx context.Context, s store.Store, plan *campaigns.Plan, f *bundleFlags) (records *bundle.Bundle, done func() error, err error) {
	tmp, drop, err := tempFile()
	if err != nil {
		return nil, nil, usagef("the records are first written to the folder for temporary files, and %w; set TMPDIR to a folder that takes files", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, drop())
		}
	}()
	w := bundle.NewWriter(tmp, f.withhold...)
	o := archive.Options{WithholdBodies: slices.Contains(f.withhold, withheldBodies), Ceiling: plan.CeilingName(), Funds: plan.Funds}
	err = archive.Export(ctx, s, plan.ID, o, func(name string, content []byte) error { return w.Add(partRecords+name, content) })
	if err != nil {
		return nil, nil, err
	}
	if err := w.Close(); err != nil {
		return nil, nil, err
	}
	info, err := tmp.Stat()
	if err != nil {
		return nil, nil, err
	}
	records, err = bundle.Open(tmp, info.Size())
	return records, drop, err
}

// writeBundle writes the bundle beside its place, verifies it there, and only
// then moves it to its place. It returns the digest of the tar.
func (a *app) writeBundle(ctx context.Context, s store.Store, records *bundle.Bundle, id string, policy *gate.Policy, f *bundleFlags) (digest string, err error) {
	content, err := a.bundleContent(ctx, s, id, policy, f)
	if err != nil {
		return "", err
	}
	tmp, err := createBeside(f.out)
	if err != nil {
		return "", usagef("write %s: %w", f.out, cause(err))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	err = content.write(records, tmp)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return "", fmt.Errorf("write %s: %w", f.out, err)
	}
	checked, err := a.checkBundle(ctx, tmp.Name())
	if err != nil {
		return "", err
	}
	if err := checked.fault(); err != nil {
		return "", failf(exitRefused, "the bundle does not hold what the store does, %w; verify the store with qualify trace verify and budget verify, give --whole-corpus if the audit of the corpus needs other splits, and try again if another process used the store", err)
	}
	return checked.doc.Digest, os.Rename(tmp.Name(), f.out)
}

// bundleContent is what a bundle holds beside the records.
type bundleContent struct {
	withhold []string
	corpus   []corpusPart // in order of path
	policy   []byte
	report   []byte
	verdict  []byte
}

type corpusPart struct {
	path string
	data []byte
}

func (a *app) bundleContent(ctx context.Context, s store.Store, which string, policy *gate.Policy, f *bundleFlags) (*bundleContent, error) {
	in, err := a.readGateInput(ctx, s, which, f.corpus)
	if err != nil {
		return nil, err
	}
	doc, err := in.judge(policy) //nolint:contextcheck // the audit of the oracle takes no context: it is over in a moment
	if err != nil {
		return nil, err
	}
	c := &bundleContent{withhold: f.withhold, policy: policy.Text()}
	if c.verdict, err = engine.Canonical(doc); err != nil {
		return nil, err
	}
	c.verdict = append(c.verdict, '\n')
	var b bytes.Buffer
	st, err := a.readStored(ctx, s, in.plan.ID, f.corpus)
	if err != nil {
		return nil, err
	}
	if err := reports.RunMarkdown(&b, st.doc); err != nil {
		return nil, err
	}
	c.report = b.Bytes()
	if in.cases.sealed != nil {
		c.corpus = []corpusPart{{partSealed, in.cases.sealed.file}}
		return c, nil
	}
	c.corpus, err = a.corpusParts(s, f.corpus, in.cases, func(k *corpus.Case) bool { return f.wholeCorpus || k.Split == in.plan.Filter.Split })
	return c, err
}

// corpusParts are the files of some cases and of their gold.
func (a *app) corpusParts(s store.Records, name string, cs *cases, wanted func(*corpus.Case) bool) ([]corpusPart, error) {
	caseFS, goldFS, err := a.corpusTrees(s, name)
	if err != nil {
		return nil, err
	}
	var out []corpusPart
	add := func(fsys fs.FS, file, to string) error {
		data, err := fs.ReadFile(fsys, file)
		if err != nil {
			return usagef("corpus %s: %s: %w", name, file, cause(err))
		}
		out = append(out, corpusPart{to, data})
		return nil
	}
	for _, k := range cs.corpus.Cases {
		if !wanted(k) {
			continue
		}
		if err := add(caseFS, k.File(), partCorpus+k.File()); err != nil {
			return nil, err
		}
		g, ok := cs.gold.Get(k.ID)
		if !ok {
			continue
		}
		if err := add(goldFS, g.File(), partCorpus+"gold/"+g.File()); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b corpusPart) int { return strings.Compare(a.path, b.path) })
	return out, nil
}

// corpusTrees are the folders that hold cases and gold.
func (a *app) corpusTrees(s store.Records, name string) (cases, answers fs.FS, err error) {
	var whole fs.FS
	switch b, ok := s.(*bundleStore); {
	case ok && name == builtinName:
		if whole, err = fs.Sub(b.bundle, path.Clean(partCorpus)); err != nil {
			return nil, nil, err
		}
	case name == builtinName:
		return corpus.BuiltinFS(), gold.BuiltinFS(), nil
	default:
		if whole, _, err = a.corpusTree(name); err != nil {
			return nil, nil, err
		}
	}
	answers, err = fs.Sub(whole, "gold")
	return whole, answers, err
}

// write writes the bundle. Parts come in order of path.
func (c *bundleContent) write(records *bundle.Bundle, to io.Writer) error {
	z, err := bundle.Compress(to)
	if err != nil {
		return err
	}
	w := bundle.NewWriter(z, c.withhold...)
	for _, p := range c.corpus {
		if err := w.Add(p.path, p.data); err != nil {
			return err
		}
	}
	if err := w.Add(partPolicy, c.policy); err != nil {
		return err
	}
	for _, name := range records.Names() {
		data, err := records.ReadFile(name)
		if err != nil {
			return err
		}
		if err := w.Add(name, data); err != nil {
			return err
		}
	}
	if err := w.Add(partReport, c.report); err != nil {
		return err
	}
	if err := w.Add(partVerdict, c.verdict); err != nil {
		return err
	}
	return errors.Join(w.Close(), z.Close())
}
