package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/engine/budget"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/freeze"
	"github.com/agentrooms/qualify/reports"
)

// builtinPrefix names a built-in campaign in place of a file: builtin:demo.
const builtinPrefix = "builtin:"

// Environment of tests: a named crash point really ends the process, and the
// provider's own journal outlives it.
const (
	envCrashAt = "QUALIFY_CRASH_AT"
	envJournal = "QUALIFY_PROVIDER_JOURNAL"
)

// runFlags are the flags of qualify run.
type runFlags struct {
	modes, cases []string
	split        string
	freeze       string // id, its beginning, or a manifest file
	reopen       string
	sealLog      string
	trials       int
	parallel     int
	maxUSD       string
	estimate     bool
	offline      bool
	json         bool
}

func (a *app) runCmd() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run CAMPAIGN.yaml",
		Short: "Run or resume a campaign, then print its comparison",
		Long: `Run or resume a campaign, then print its comparison. CAMPAIGN.yaml is a file,
or builtin:demo for the campaign that ships with qualify. The same command
resumes an interrupted campaign; a finished one prints its comparison again.

Holdout cases run only under a freeze that qualify freeze create made of the same
campaign file: --split holdout --freeze ID. Everything that it covers is read
before the first trial, between batches and after the last; whatever has changed
stops the run and voids the batch. The first trial opens the holdout, which is
logged; another campaign opens it again only with --reopen REASON.

--case, --mode, --split and --trials decide what the trials contain, so with other
values it is another campaign; so it is with another build of qualify.`,
		Args: exactArgs("CAMPAIGN.yaml"),
		RunE: func(c *cobra.Command, args []string) error {
			if c.Flags().Changed("trials") && (f.trials < 1 || f.trials > campaigns.MaxTrials) {
				return usagef("--trials %d: a campaign needs at least 1 trial per case and arm, and takes at most %d", f.trials, campaigns.MaxTrials)
			}
			if c.Flags().Changed("parallel") && (f.parallel < 1 || f.parallel > campaigns.MaxParallel) {
				return usagef("--parallel %d: use 1 to %d", f.parallel, campaigns.MaxParallel)
			}
			return a.run(c.Context(), args[0], f)
		},
	}
	fl := c.Flags()
	fl.StringSliceVar(&f.modes, "mode", nil, "only arms of these `MODES`, comma-separated")
	fl.StringSliceVar(&f.cases, "case", nil, "only cases that match these `GLOBS`, comma-separated")
	fl.StringVar(&f.split, "split", "", "`SPLIT` of the corpus, in place of the file's")
	fl.StringVar(&f.freeze, "freeze", "", "run the holdout under the freeze `ID`, or the beginning of one")
	fl.StringVar(&f.reopen, "reopen", "", "open a holdout again that another campaign has opened, for this `REASON`")
	sealLogFlag(c, &f.sealLog)
	fl.IntVar(&f.trials, "trials", 0, "`N` trials per case and arm, in place of the file's")
	fl.IntVar(&f.parallel, "parallel", 0, "run at most `N` trials at once, in place of the file's")
	fl.StringVar(&f.maxUSD, "max-usd", "", "stop before spending more than `USD`, within the ceilings")
	fl.BoolVar(&f.estimate, "estimate", false, "print what the campaign would run and could cost at most, and stop")
	fl.BoolVar(&f.offline, "offline", false, "refuse providers that need a network")
	fl.BoolVar(&f.json, "json", false, "print one JSON document")
	return c
}

// readCampaign reads a campaign file or a built-in one; base is what its
// corpus folder is relative to.
func readCampaign(name string) (f *campaigns.File, base string, err error) {
	if b, ok := strings.CutPrefix(name, builtinPrefix); ok {
		data, ok := campaigns.Builtin(b)
		if !ok {
			return nil, "", usagef("%s: no such built-in campaign; this build has %s", name, builtinPrefix+strings.Join(campaigns.BuiltinNames(), ", "+builtinPrefix))
		}
		f, err = campaigns.ParseFile(name, data)
		return f, ".", err
	}
	file, err := openInput(name)
	switch _, shipped := campaigns.Builtin(name); {
	case err != nil && shipped:
		return nil, "", usagef("%w; the one that ships is %s%s", err, builtinPrefix, name)
	case errors.Is(err, fs.ErrNotExist):
		return nil, "", usagef("%w; qualify init writes one", err)
	case err != nil:
		return nil, "", err
	}
	data, err := io.ReadAll(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, "", usagef("%w", err)
	}
	f, err = campaigns.ParseFile(name, data)
	switch {
	case errors.Is(err, campaigns.ErrUnpriced):
		return nil, "", failf(exitRefused, "%w", err)
	case err != nil:
		return nil, "", usagef("%w", err)
	}
	return f, filepath.Dir(name), nil
}

// resolvePlan reads a campaign and its corpus and fixes the plan of this build.
// Holdout cases are refused.
func (a *app) resolvePlan(name string, over campaigns.Override) (*campaigns.Plan, *cases, error) {
	return a.resolvePlanWith(name, over, false)
}

// resolvePlanWith is resolvePlan, with holdout cases where holdout is set.
func (a *app) resolvePlanWith(name string, over campaigns.Override, holdout bool) (*campaigns.Plan, *cases, error) {
	file, base, err := readCampaign(name)
	if err != nil {
		return nil, nil, err
	}
	cs, err := a.loadCases(file.Corpus, base)
	if err != nil {
		return nil, nil, err
	}
	build, err := readBuild()
	if err != nil {
		return nil, nil, err
	}
	plan, err := campaigns.Resolve(file, campaigns.ResolveInput{
		Path: name, Corpus: cs.corpus, Modes: knownModes(), Providers: knownProviders(), CodeVersion: build.Code(), Override: over,
		Policy: policyReader(base), Holdout: holdout,
	})
	switch {
	case errors.Is(err, campaigns.ErrHoldout):
		return nil, nil, failf(exitRefused, "%s: %w; `qualify freeze create %s` makes one, then give its id with --freeze", name, err, shellWord(name))
	case err != nil:
		return nil, nil, usagef("%w", err)
	}
	return plan, cs, nil
}

func (a *app) run(ctx context.Context, name string, f runFlags) error {
	var maxMicros int64
	if f.maxUSD != "" {
		v, err := budget.ParseUSD(f.maxUSD)
		if err != nil {
			return usagef("--max-usd: %w", err)
		}
		if v == 0 {
			return usagef("--max-usd 0: nothing could run; use a positive amount")
		}
		maxMicros = v
	}
	plan, cs, err := a.resolvePlanWith(name, campaigns.Override{Modes: f.modes, Cases: f.cases, Split: f.split, Trials: f.trials}, f.freeze != "" || f.estimate)
	if err != nil {
		return err
	}
	if err := f.checkHoldoutFlags(plan); err != nil {
		return err
	}
	if f.offline && plan.Evidence == string(model.Measured) {
		return failf(exitRefused, "--offline: provider %s needs a network", plan.Provider)
	}
	if f.estimate {
		return a.estimate(plan, f.json)
	}
	return a.runPlan(ctx, name, plan, cs, f, maxMicros)
}

func (a *app) runPlan(ctx context.Context, name string, plan *campaigns.Plan, cs *cases, f runFlags, maxMicros int64) (err error) {
	crash, err := runtime.ParseCrash(os.Getenv(envCrashAt))
	if err != nil {
		return usagef("%s: %w", envCrashAt, err)
	}
	moments, err := a.recordClock(model.Evidence(plan.Evidence))
	if err != nil {
		return err
	}
	var journal model.Journal
	if path := os.Getenv(envJournal); path != "" {
		j, err := model.OpenFileJournal(path)
		if err != nil {
			return usagef("%s: %w", envJournal, err)
		}
		defer func() { err = errors.Join(err, j.Close()) }()
		journal = j
	}
	providers, err := simulatedProviders(plan, cs, journal)
	if err != nil {
		return err
	}
	st, err := a.openStore(ctx, creating)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if !plan.Holdout() { // the seal log says what ran on a holdout before
		if err := a.noteOlder(ctx, st, plan); err != nil {
			return err
		}
	}
	run := crashing(a.mirroring(st, f.sealLog), crash) // what the campaign writes to
	sealed, err := a.sealedRun(ctx, name, plan, run, moments, &f)
	if err != nil {
		return err
	}

	scorer := newScorer(plan, cs)
	gauge := new(runtime.Gauge)
	clock := runtime.Virtual
	if plan.Clock == campaigns.ClockWall {
		clock = runtime.Wall
	}
	owner, err := campaignOwner()
	if err != nil {
		return err
	}
	show := newProgress(a.err, os.Getenv, armsOf(plan), time.Now)
	defer show.close()
	runner := &campaigns.Runner{
		Plan: plan, Store: run, Log: sealed, Providers: providers, Clock: clock, Gauge: gauge,
		Parallel: f.parallel, MaxMicros: maxMicros, Crash: crash, Owner: owner,
		OnTrial: scorer.add, Progress: show.update, OnShared: func(c store.Ceiling) { a.noteShared(plan, c) },
	}
	var doc *evaluator.RunDocument
	runner.Document = func(ctx context.Context, out *campaigns.Outcome) ([]byte, error) {
		stats, err := st.Stats(ctx)
		if err != nil {
			return nil, fmt.Errorf("store: %w", err)
		}
		if doc, err = scorer.storedDocument(ctx, st, gauge.Read(), stats); err != nil {
			return nil, err
		}
		doc.Allotments.Waits, doc.Allotments.LongestWaitMS = out.Waits.Count, out.Waits.Longest.Milliseconds()
		return json.Marshal(doc)
	}
	_, stopped := runner.Run(ctx)
	show.close()
	var limit *campaigns.LimitError
	var owned *campaigns.OwnedError
	switch {
	case errors.As(stopped, &limit):
		if limit.Grant != nil {
			limit.Lift = fmt.Sprintf("lift it with `%s`, then run the same command again", a.grantCommand(*limit.Grant))
		}
		stopped = failf(exitLimit, "campaign %s %w", plan.ID, stopped)
	case errors.As(stopped, &owned):
		return failf(exitRefused, "campaign %s is run by %s; its lease runs until %s unless it is renewed",
			plan.ID, shownOwner(owned.Owner), owned.Until.Format(time.RFC3339))
	case errors.Is(stopped, campaigns.ErrCancelled):
		return failf(exitRefused, "campaign %s was cancelled and stays so; to run it again give it another name in its file", plan.ID)
	case errors.Is(stopped, store.ErrLeaseLost):
		return failf(exitRefused, "%s; what ran until then is saved", lostTo(ctx, st, plan.ID))
	case ctx.Err() != nil:
		return failf(exitInterrupted, "campaign %s is saved; run the same command to go on", plan.ID)
	case errors.Is(stopped, freeze.ErrHoldout), errors.Is(stopped, freeze.ErrLog), errors.Is(stopped, freeze.ErrConflict):
		return failf(exitRefused, "campaign %s: %w", plan.ID, stopped)
	case stopped != nil:
		return fmt.Errorf("campaign %s: %w", plan.ID, stopped)
	}
	if f.json {
		err = a.printJSON(doc)
	} else {
		err = reports.RunTable(a.out, doc)
	}
	if err != nil {
		return err
	}
	return stopped
}

// lostTo says who has taken a campaign over.
func lostTo(ctx context.Context, st store.Records, id string) string {
	leases, err := st.Leases(ctx)
	if err == nil {
		for _, l := range leases {
			if l.Name == campaigns.LeaseName(id) {
				return fmt.Sprintf("campaign %s was taken over by %s", id, shownOwner(l.Owner))
			}
		}
	}
	return fmt.Sprintf("the lease of campaign %s was lost to another process", id)
}

// grantCommand is the command that makes a grant.
func (a *app) grantCommand(g campaigns.Grant) string {
	words := []string{"qualify budget grant", usd(g.Total)}
	if g.Ceiling != campaigns.OwnerCeiling || g.Funds != store.FundsReal {
		words = append(words, "--ceiling", shellWord(g.Ceiling))
	}
	if g.Ceiling == campaigns.OwnerCeiling && g.Funds != store.FundsReal { // both funds may have one of this name
		words = append(words, "--funds", string(g.Funds))
	}
	for _, ref := range g.Ack {
		words = append(words, "--ack", shellWord(ref))
	}
	return strings.Join(append(words, "--store", shellWord(a.storeURL)), " ")
}

// shellWord quotes a word for a POSIX shell where it needs it.
func shellWord(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:@%+=,"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// estimate prints what a plan would run and the most it could cost.
func (a *app) estimate(p *campaigns.Plan, asJSON bool) error {
	var sum int64
	triples := p.Schedule()
	trials := 0
	for _, t := range triples {
		sum += t.Sum()
		trials += len(t.Arms)
	}
	doc := struct {
		Schema   schemaRef `json:"schema"`
		Campaign string    `json:"campaign"`
		Cases    int       `json:"cases"`
		Arms     int       `json:"arms"`
		Trials   int       `json:"trials"`
		Triples  int       `json:"triples"`
		Most     int64     `json:"most_micros"`
		Ceiling  int64     `json:"ceiling_micros"`
		Fits     bool      `json:"fits"`
	}{schemaRef{"qualify.estimate", 1}, p.ID, len(p.Cases), len(p.Arms), trials, len(triples), sum, p.CapMicros, sum <= p.CapMicros}
	if asJSON {
		return a.printJSON(doc)
	}
	a.printf("campaign %s: %s, %s, %s in %s\n", p.ID, plural(doc.Cases, "case"), plural(doc.Arms, "arm"), plural(trials, "trial"), plural(len(triples), "allotment"))
	a.printf("at most %s USD (the sum of all trial budgets); ceiling_usd %s\n", usd(sum), usd(p.CapMicros))
	return nil
}
