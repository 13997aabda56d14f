package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/gate"
	"github.com/agentrooms/qualify/evaluator/trace"
	"github.com/agentrooms/qualify/freeze"
	"github.com/agentrooms/qualify/reports/attest"
)

// recompute computes the attested verdict again, from the store or from trace
// files. What differs is a finding; what cannot be read is an error.
func (a *app) recompute(ctx context.Context, attested *gate.Document, f *attestVerifyFlags) error {
	p, err := attestedPolicy(attested.Policy, f.policy)
	if err != nil {
		return err
	}
	var computed *gate.Document
	if f.traces != "" {
		computed, err = a.judgeTraces(ctx, attested, p, f.traces, f.campaign)
	} else {
		computed, err = a.judged(ctx, attested.Campaign.ID, p, true, f.corpus)
	}
	if err != nil {
		return err
	}
	if err := attest.SameVerdict(attested, computed); err != nil {
		return found("%w", err)
	}
	return nil
}

// recomputeBundle computes the attested verdict again from a bundle, of which
// everything must hold. What differs is a finding.
func (a *app) recomputeBundle(ctx context.Context, v *attest.Verified, path string) (*checkedBundle, error) {
	b, err := a.checkBundle(ctx, path)
	if err != nil {
		return nil, err
	}
	if err := b.fault(); err != nil {
		return nil, found("bundle %s: %w", path, err)
	}
	if err := attest.SameVerdict(v.Document, b.verdict); err != nil {
		return nil, found("bundle %s: %w", path, err)
	}
	said := v.Document.Freeze
	if said.Log != nil && !holdsHead(b.log, *said.Log) {
		return nil, found("bundle %s: its seal log of %s does not go on from the attested head %s of %s: it is another log, or an older copy; a bundle that was written after signing has that row", path, plural(len(b.log), "row"), said.Log.Head, plural(said.Log.Rows, "row"))
	}
	if said.ID == "" {
		return b, nil
	}
	if err := attest.CheckFreeze(b.manifest, v.Document, v.Subjects); err != nil {
		return nil, found("bundle %s: %w", path, err)
	}
	return b, nil
}

// holdsHead reports whether a log begins with one of this length and head.
func holdsHead(rows []freeze.Row, l gate.Log) bool {
	return l.Rows > 0 && l.Rows <= len(rows) && rows[l.Rows-1].Digest == l.Head
}

// attestedPolicy is the policy that judged: the named one, which must be it, or
// the one of this build with its digest.
func attestedPolicy(want gate.PolicyRef, name string) (*gate.Policy, error) {
	names := []string{name}
	if name == "" {
		names = nil
		for _, b := range gate.BuiltinNames() {
			names = append(names, policyPrefix+b)
		}
	}
	for _, n := range names {
		p, err := readPolicy(n)
		if err != nil {
			return nil, err
		}
		if p.Digest() == want.Digest {
			return p, nil
		}
	}
	if name != "" {
		return nil, usagef("--policy %s: the verdict is by policy %s, %s, and this is another", name, want.Name, want.Digest)
	}
	return nil, usagef("the verdict is by policy %s, %s, which does not ship with this build; give its file with --policy", want.Name, want.Digest)
}

// traceFiles is a store that holds nothing but the traces that qualify trace
// export wrote into a folder.
type traceFiles struct {
	store.Store // nil: judging reads traces, nothing else
	folder      string
}

// Trace implements store.Records.
func (f traceFiles) Trace(_ context.Context, _, key string) (digest string, content []byte, err error) {
	rel := filepath.FromSlash(key) + ".jsonl"
	if !filepath.IsLocal(rel) {
		return "", nil, fmt.Errorf("trial key %q is no relative path", key)
	}
	content, err = trace.ReadFile(filepath.Join(f.folder, rel))
	return "", content, err
}

// judgeTraces computes a verdict from trace files, the campaign file, corpus and
// policy alone. What traces cannot show is taken as attested: how the campaign
// ended, the account, and the preconditions in takenAsAttested.
func (a *app) judgeTraces(ctx context.Context, attested *gate.Document, p *gate.Policy, folder, file string) (*gate.Document, error) {
	over := campaigns.Override{}
	if attested.Freeze.ID != "" {
		over.Split = attested.Corpus.Split
	}
	plan, cs, err := a.resolvePlanWith(file, over, attested.Freeze.ID != "")
	if err != nil {
		return nil, err
	}
	if plan.Registration != attested.Campaign.Registration {
		return nil, usagef("--campaign %s: its registration is %s, the verdict is about %s: another campaign file, corpus or price table", file, plan.Registration, attested.Campaign.Registration)
	}
	files := traceFiles{folder: folder}
	in := &gateInput{plan: plan, cases: cs, held: freeze.Holdout{Voids: []freeze.Void{{VoidEntry: freeze.VoidEntry{Trials: attested.Freeze.Void}}}}}
	if in.at, err = standingOf(ctx, plan, files, attested.Status); err != nil {
		return nil, err
	}
	if in.at.SetDigest != attested.TraceSetDigest {
		return nil, found("the traces in %s are the set %s, the verdict is about %s", folder, in.at.SetDigest, attested.TraceSetDigest)
	}
	if in.table, err = evaluator.NewTable(armNames(plan), tableCases(plan.SelectedCases()), plan.Trials); err != nil {
		return nil, usagef("campaign %s: %w", plan.Name, err)
	}
	if err := in.score(ctx, files); err != nil {
		return nil, err
	}
	evidence, err := in.evidence(p) //nolint:contextcheck // the audit of the oracle takes no context: it is over in a moment
	if err != nil {
		return nil, err
	}
	for _, c := range attested.Preconditions {
		if slices.Contains(takenAsAttested(), c.ID) {
			detail := ""
			if len(c.Reasons) > 0 {
				detail = c.Reasons[0].Text
			}
			evidence.Checks[c.ID] = gate.Check{State: c.State, Detail: detail}
		}
	}
	v, err := gate.Evaluate(p, evidence)
	if err != nil {
		return nil, usagef("%w", err)
	}
	doc, err := in.document(v)
	if err != nil {
		return nil, err
	}
	doc.Campaign.ID = attested.Campaign.ID // it depends on the build that ran
	doc.Budget, doc.Freeze, doc.Outside = attested.Budget, attested.Freeze, attested.Outside
	return doc, nil
}

// takenAsAttested are the preconditions that only store and seal log can show.
func takenAsAttested() []string {
	return []string{gate.CheckFreeze, gate.CheckLog, gate.CheckHoldout, gate.CheckBudget}
}

// standingOf is where a campaign stands by its trace files. Each is verified; a
// file that is wrong is a finding.
func standingOf(ctx context.Context, plan *campaigns.Plan, files traceFiles, status string) (*campaigns.Standing, error) {
	at := &campaigns.Standing{
		Campaign: store.Campaign{
			ID: plan.ID, Name: plan.Name, Plan: plan.Canonical, PlanDigest: plan.PlanDigest, Registration: plan.Registration, Status: status,
		},
		Closed: map[string]store.Trial{},
	}
	var set []trace.SetEntry
	for _, seat := range plan.Seats() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		key := seat.Key()
		_, content, err := files.Trace(ctx, plan.ID, key)
		if errors.Is(err, fs.ErrNotExist) {
			continue // the digest of the set shows whether it was there
		}
		if err != nil {
			return nil, usagef("trace of %s: %w", key, err)
		}
		info, err := trace.Verify(bytes.NewReader(content))
		if err != nil {
			return nil, found("trace of %s: %w", key, err)
		}
		at.Closed[key] = store.Trial{Campaign: plan.ID, Key: key, TraceDigest: info.Digest, Termination: info.Termination}
		set = append(set, trace.SetEntry{Key: key, Digest: info.Digest})
	}
	if len(set) == 0 {
		return nil, usagef("--traces %s: holds no trace of campaign %s; qualify trace export -o FOLDER writes them", files.folder, plan.Name)
	}
	var err error
	at.SetDigest, err = trace.SetDigest(set)
	for _, t := range plan.Schedule() {
		for _, arm := range t.Arms {
			if _, ok := at.Closed[campaigns.TrialKey(t.Case.ID, arm.Name, t.Index)]; !ok {
				at.Dropped = append(at.Dropped, t)
				break
			}
		}
	}
	return at, err
}
