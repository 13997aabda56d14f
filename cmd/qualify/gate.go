package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/evaluator/gate"
	"github.com/agentrooms/qualify/reports"
)

// gateFlags are the flags of qualify gate.
type gateFlags struct {
	policy, corpus, format string
	junit, summary         string
	plan, printDefault     bool
	json, policyGiven      bool
	require                requireFlags
}

var gateFormats = []string{formatTable, formatMarkdown, formatJSON}

func (a *app) gateCmd() *cobra.Command {
	var f gateFlags
	c := &cobra.Command{
		Use:   "gate CAMPAIGN",
		Short: "Judge a campaign by a release policy: PASS, FAIL or INCONCLUSIVE",
		Long: `Judge a stored campaign by a release policy. CAMPAIGN is an id or a name (the
newest of that name). Every figure is computed again from the stored traces and
the gold of the corpus; no stored summary is read. Without --policy it is the
policy that the campaign registered, else the one that --print-default shows;
builtin:simulation is the one for simulated evidence, which no policy for
measured evidence can pass.

With --plan nothing is judged: it prints the families and trials that each rule
needs to be able to pass, for a campaign file, builtin:demo or a stored campaign;
the policy is the one that the file names, unless --policy names another.

With --require-attestation a PASS does not suffice: the attestation must be
signed by the public keys given (or by --signatures of them), be good at this
moment, be about the same verdict byte for byte, hold every --artifact and
--subject among its subjects, and say PASSED by measured evidence, or of a
simulation with --allow-simulation. Else the last line says what blocks the
release, and the exit code is 1. Name the policy that the release asks for with
--policy: without it the campaign chooses by what it is judged.

Exit 0 PASS, 1 FAIL or no such attestation, 2 INCONCLUSIVE; with --plan 0.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.consistent(c, args); err != nil {
				return err
			}
			policy, err := readPolicy(f.policy)
			if err != nil {
				return err
			}
			if f.printDefault {
				_, err := a.out.Write(policy.Text())
				return err
			}
			f.policyGiven = c.Flags().Changed("policy")
			return a.gate(c.Context(), args[0], policy, f)
		},
	}
	fl := c.Flags()
	policyFlag(c, &f.policy)
	fl.BoolVar(&f.plan, "plan", false, "print what each rule needs to be able to pass, before money is spent")
	fl.BoolVar(&f.printDefault, "print-default", false, "print the default policy, or that of --policy, and stop")
	fl.StringVar(&f.format, "format", formatTable, "`FORMAT`: "+strings.Join(gateFormats, ", "))
	fl.BoolVar(&f.json, "json", false, "print one JSON document")
	fl.StringVar(&f.junit, "junit", "", "also write JUnit XML, one test case a rule, to `FILE`")
	fl.StringVar(&f.summary, "summary", "", "also append Markdown to `FILE`, such as $GITHUB_STEP_SUMMARY")
	campaignCorpusFlag(c, &f.corpus)
	f.require.add(c)
	return c
}

// consistent refuses flags that say nothing together, and settles the format.
func (f *gateFlags) consistent(c *cobra.Command, args []string) error {
	if f.json {
		if c.Flags().Changed("format") && f.format != formatJSON {
			return usagef("--json and --format %s: give one of them", f.format)
		}
		f.format = formatJSON
	}
	switch {
	case !slices.Contains(gateFormats, f.format):
		return usagef("--format %q: this version writes %s", f.format, strings.Join(gateFormats, ", "))
	case f.printDefault && len(args) > 0:
		return usagef("--print-default takes no campaign; it prints a policy")
	case !f.printDefault && len(args) == 0:
		return usagef("gate: missing CAMPAIGN%s", seeHelp(c))
	case f.require.required() && (f.printDefault || f.plan):
		return usagef("gate: --require-attestation needs a verdict; leave it out, or leave --plan and --print-default out")
	}
	return f.require.consistent(c)
}

// policyPrefix names a policy that ships with the tool in place of a file.
const policyPrefix = "builtin:"

// readPolicy reads a policy file or one that ships with the tool.
func readPolicy(name string) (*gate.Policy, error) {
	if b, ok := strings.CutPrefix(name, policyPrefix); ok {
		p, ok, err := gate.Builtin(b)
		if !ok {
			return nil, usagef("%s: no such policy; this build has %s", name, policyPrefix+strings.Join(gate.BuiltinNames(), ", "+policyPrefix))
		}
		return p, err
	}
	data, _, err := readAtMost(name, mostPolicy)
	if err != nil {
		return nil, err
	}
	p, err := gate.Parse(name, data)
	if err != nil {
		return nil, usagef("%w", err)
	}
	return p, nil
}

// mostPolicy bounds a policy file, in bytes.
const mostPolicy = 1 << 20

func (a *app) gate(ctx context.Context, which string, p *gate.Policy, f gateFlags) error {
	if f.plan {
		if f.junit != "" || f.summary != "" {
			return usagef("--plan judges nothing: leave --junit and --summary out")
		}
		return a.gatePlan(ctx, which, p, f)
	}
	if err := f.checkFiles(a); err != nil {
		return err
	}
	required, err := f.require.request()
	if err != nil {
		return err
	}
	return a.withStore(ctx, func(s store.Store) error {
		if !f.policyGiven {
			var err error
			if p, err = policyOfCampaign(ctx, s, which, p); err != nil {
				return err
			}
		}
		in, err := a.readGateInput(ctx, s, which, f.corpus)
		if err != nil {
			return err
		}
		doc, err := in.judge(p) //nolint:contextcheck // the audit of the oracle takes no context: it is over in a moment
		if err != nil {
			return err
		}
		var r *reports.Release
		if required != nil {
			if r, err = required.release(doc, in.seal.Manifest(in.held.Freeze)); err != nil {
				return err
			}
		}
		if err := writeRelease(a.out, f.format, doc, r); err != nil {
			return err
		}
		if err := a.gateFiles(doc, r, f); err != nil {
			return err
		}
		if code := exitOf(doc, r); code != exitOK {
			return verdict(code)
		}
		return nil
	})
}

// judge computes the verdict on a stored campaign.
func (a *app) judge(ctx context.Context, s store.Store, which string, p *gate.Policy, corpusName string) (*gate.Document, error) {
	in, err := a.readGateInput(ctx, s, which, corpusName)
	if err != nil {
		return nil, err
	}
	return in.judge(p) //nolint:contextcheck // the audit of the oracle takes no context: it is over in a moment
}

// judge computes the verdict on what was read.
func (in *gateInput) judge(p *gate.Policy) (*gate.Document, error) {
	if err := in.checkHead(p); err != nil {
		return nil, err
	}
	evidence, err := in.evidence(p)
	if err != nil {
		return nil, err
	}
	v, err := gate.Evaluate(p, evidence)
	var faults gate.Faults
	if errors.As(err, &faults) {
		return nil, usagef("%w", err)
	}
	if err != nil {
		return nil, err
	}
	return in.document(v)
}

func writeGate(w io.Writer, format string, doc *gate.Document) error {
	switch format {
	case formatJSON:
		return reports.JSON(w, doc)
	case formatMarkdown:
		return reports.VerdictMarkdown(w, doc)
	}
	return reports.VerdictTable(w, doc)
}

// gateFiles writes what is asked for beside stdout.
func (a *app) gateFiles(doc *gate.Document, r *reports.Release, f gateFlags) error {
	if f.junit != "" {
		content, err := junitOfGate(doc, r)
		if err != nil {
			return err
		}
		if err := writeFile(f.junit, content); err != nil {
			return err
		}
	}
	if f.summary == "" {
		return nil
	}
	var b bytes.Buffer
	if err := writeRelease(&b, formatMarkdown, doc, r); err != nil {
		return err
	}
	return appendSummary(f.summary, b.Bytes())
}

// checkFiles refuses, before anything is judged, files that could not be written.
func (f *gateFlags) checkFiles(a *app) error {
	inputs := append(f.require.inputs(), f.policy, f.corpus)
	if _, err := a.checkOutput(f.junit, inputs...); err != nil {
		return err
	}
	exists, err := a.checkAppended(f.summary, inputs...)
	if err != nil {
		return err
	}
	if f.summary != "" && filepath.Clean(f.summary) == filepath.Clean(f.junit) {
		return usagef("--junit and --summary name the same file %s; name two", f.summary)
	}
	if !exists {
		return nil
	}
	out, err := os.OpenFile(f.summary, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return usagef("--summary %s: %w", f.summary, cause(err))
	}
	return out.Close()
}

// mostSummary keeps a step summary under the 1 MiB at which the runner of
// GitHub Actions refuses the whole file.
const mostSummary = 1<<20 - 1024

// appendSummary appends to a step summary what still fits, cut at a line.
func appendSummary(path string, text []byte) (err error) {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644) //nolint:gosec // a summary is for everybody
	if err != nil {
		return usagef("--summary %s: %w", path, cause(err))
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	info, err := out.Stat()
	if err != nil {
		return usagef("--summary %s: %w", path, cause(err))
	}
	const note = "\n(The rest is left out: a step summary holds 1 MiB. The JSON of the verdict has it all.)\n"
	if room := mostSummary - info.Size(); int64(len(text)) > room {
		cut := room - int64(len(note))
		if cut < 0 {
			return nil // full: even the note, again and again, would pass the limit
		}
		text = text[:bytes.LastIndexByte(text[:cut], '\n')+1]
		text = append(slices.Clone(text), note...)
	}
	if _, err = out.Write(text); err != nil {
		return fmt.Errorf("--summary %s: %w", path, err)
	}
	return nil
}

// gatePlan prints what the rules need, for a campaign that ran or is to run.
func (a *app) gatePlan(ctx context.Context, which string, p *gate.Policy, f gateFlags) error {
	design, name, own, err := a.design(ctx, which, f.corpus)
	if err == nil && own != "" && !f.policyGiven {
		p, err = readPolicy(own)
	}
	if err != nil {
		return err
	}
	doc, err := gate.Plan(p, design)
	var faults gate.Faults
	if errors.As(err, &faults) {
		return usagef("%w", err)
	}
	if err != nil {
		return err
	}
	doc.Tool, doc.Campaign = toolName, name
	switch f.format {
	case formatJSON:
		return a.printJSON(doc)
	case formatMarkdown:
		return reports.GatePlanMarkdown(a.out, doc)
	}
	return reports.GatePlanTable(a.out, doc)
}

// design is the size of a campaign, a file, a built-in one, or one in the store,
// with its name and where the policy lies that it names, "" for none.
func (a *app) design(ctx context.Context, which, corpusName string) (d gate.Design, name, policy string, err error) {
	_, statErr := os.Stat(which)
	if strings.HasPrefix(which, builtinPrefix) || strings.HasSuffix(which, ".yaml") || strings.HasSuffix(which, ".yml") || statErr == nil {
		plan, _, err := a.resolvePlanWith(which, campaigns.Override{}, true) // a plan opens no case
		if err != nil {
			return d, "", "", err
		}
		if plan.Policy != nil {
			policy = policyPlace(plan.Policy.Source, filepath.Dir(which))
		}
		return designOf(plan), plan.Name, policy, nil
	}
	err = a.withStore(ctx, func(s store.Store) error {
		_, plan, _, err := a.reopen(ctx, s, which, corpusName)
		if err != nil {
			return err
		}
		d, name = designOf(plan), plan.Name
		if plan.Policy != nil && strings.HasPrefix(plan.Policy.Source, policyPrefix) {
			policy = plan.Policy.Source // a file lies where nobody said
		}
		return nil
	})
	return d, name, policy, err
}

func designOf(p *campaigns.Plan) gate.Design {
	return gate.Design{Arms: armNames(p), Cases: tableCases(p.SelectedCases()), Trials: p.Trials}
}
