package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/freeze"
)

// checkHoldoutFlags refuses flags of a holdout on a run without one.
func (f *runFlags) checkHoldoutFlags(plan *campaigns.Plan) error {
	switch {
	case plan.Holdout():
		return nil
	case f.freeze != "":
		return usagef("--freeze: split %s needs no freeze; give --split holdout too, or leave it out", plan.Filter.Split)
	case f.reopen != "":
		return usagef("--reopen: split %s is open to every run; leave it out", plan.Filter.Split)
	}
	return nil
}

// sealedRun keeps a run to the seal log.
func (a *app) sealedRun(ctx context.Context, name string, plan *campaigns.Plan, st store.Store, clock recordClock, f *runFlags) (*freeze.Run, error) {
	run := &freeze.Run{
		Log: storeLog{st}, Campaign: plan.ID, Plan: plan.PlanDigest, Reason: "campaign " + plan.Name, Reopen: f.reopen, Now: clock.moment,
	}
	if !plan.Holdout() {
		return run, nil
	}
	path := f.sealLog
	if path != "" && !fileExists(path) {
		path = "" // it is made with the first row
	}
	frozen, _, err := a.findFreeze(ctx, f.freeze, path)
	if err != nil {
		return nil, freezeFault(err)
	}
	// Before the run is: a name that is mistaken is no change of what is frozen.
	root, err := frozenRoot(frozen.Manifest, name)
	if err != nil {
		return nil, failf(exitRefused, "--freeze %s: %w", frozen.ID, err)
	}
	run.Freeze = frozen.ID
	run.Verify = func(ctx context.Context, m *freeze.Manifest) ([]freeze.Difference, error) {
		return a.verifyPresent(ctx, m, root, nil)
	}
	return run, nil
}

// frozenRoot is the folder that a freeze of a campaign file is relative to.
func frozenRoot(m *freeze.Manifest, name string) (string, error) {
	other := fmt.Errorf("the freeze is of campaign %s, not of %s: run that file, or name a freeze of this one; qualify freeze log lists them, and `qualify freeze create %s` makes one",
		m.Source.Campaign, name, shellWord(name))
	if strings.HasPrefix(m.Source.Campaign, builtinPrefix) || strings.HasPrefix(name, builtinPrefix) {
		if m.Source.Campaign != name {
			return "", other
		}
		return ".", nil
	}
	file, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	root, ok := strings.CutSuffix(filepath.ToSlash(file), "/"+m.Source.Campaign)
	if !ok {
		return "", other
	}
	return filepath.FromSlash(root + "/"), nil
}

// mirrored is a store whose seal log is copied to a file.
type mirrored struct {
	store.Store
	log freeze.Log
}

// mirroring wraps a store when a file keeps a copy of its seal log.
func (a *app) mirroring(st store.Store, path string) store.Store {
	if path == "" {
		return st
	}
	return mirrored{st, a.sealLog(st, path)}
}

// SealLog implements store.Records.
func (m mirrored) SealLog(ctx context.Context) ([]store.SealRow, error) {
	rows, err := m.log.SealLog(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]store.SealRow, 0, len(rows))
	for _, r := range rows {
		out = append(out, store.SealRow(r))
	}
	return out, nil
}

// AppendSeal implements store.Records.
func (m mirrored) AppendSeal(ctx context.Context, kind string, body []byte) (store.SealRow, error) {
	r, err := m.log.AppendSeal(ctx, kind, body)
	return store.SealRow(r), err
}

// AppendSealAfter implements store.Records.
func (m mirrored) AppendSealAfter(ctx context.Context, head, kind string, body []byte) (store.SealRow, error) {
	r, err := m.log.AppendSealAfter(ctx, head, kind, body)
	if errors.Is(err, freeze.ErrConflict) {
		err = fmt.Errorf("%w: %w", store.ErrConflict, err)
	}
	return store.SealRow(r), err
}

// freezeRows are the rows of a seal log as package freeze reads them.
func freezeRows(log []store.SealRow) []freeze.Row {
	out := make([]freeze.Row, 0, len(log))
	for _, r := range log {
		out = append(out, freeze.Row(r))
	}
	return out
}

// holdoutOf is what the seal log of a store says of a campaign's holdout.
func holdoutOf(ctx context.Context, s store.Records, id string) (freeze.Holdout, error) {
	rows, err := storeLog{s}.SealLog(ctx)
	if err != nil {
		return freeze.Holdout{}, err
	}
	return freeze.HoldoutOf(rows, id), nil
}

// logScore logs that the results of an opened holdout are computed again, before
// they are; once for a command. A store that cannot be written to is refused.
func (a *app) logScore(ctx context.Context, s store.Records, plan *campaigns.Plan) error {
	if !plan.Holdout() {
		return nil
	}
	if _, bundled := s.(*bundleStore); bundled || a.scored[plan.ID] {
		return nil // whoever has a bundle can compute as often as he likes, as with exported traces
	}
	held, err := holdoutOf(ctx, s, plan.ID)
	if err != nil || !held.Opened {
		return err
	}
	clock, err := a.recordClock(model.Evidence(plan.Evidence))
	if err != nil {
		return err
	}
	a.scored[plan.ID] = true
	return a.withStoreTo(ctx, changing, func(s store.Store) error {
		_, err := freeze.Append(ctx, storeLog{s}, freeze.KindUse, freeze.UseEntry{
			Freeze: held.Freeze, Campaign: plan.ID, Moment: clock.moment(), Use: freeze.UseScore,
		})
		return err
	})
}

// runFreeze is the part of a run document about the holdout; nil without one.
func runFreeze(h *freeze.Holdout) *evaluator.RunFreeze {
	if h.Freeze == "" {
		return nil
	}
	return &evaluator.RunFreeze{
		ID: h.Freeze, Openings: h.Openings, AllOpenings: h.All, Reopen: h.Reopen, Rows: h.Rows, Head: h.Head,
		Verified: h.Whole(), Void: append([]string{}, h.VoidTrials()...), // a list in JSON, never null
	}
}

// voidKeys are the trials of triples with a void result: none of them enters a
// figure, in any arm.
func voidKeys(plan *campaigns.Plan, h *freeze.Holdout) map[string]bool {
	void := h.VoidTrials()
	out := map[string]bool{}
	for _, key := range void {
		out[key] = true
	}
	for _, t := range plan.Schedule() {
		keys := make([]string, 0, len(t.Arms))
		for _, x := range t.Arms {
			keys = append(keys, campaigns.TrialKey(t.Case.ID, x.Name, t.Index))
		}
		if slices.ContainsFunc(keys, func(k string) bool { return out[k] }) {
			for _, k := range keys {
				out[k] = true
			}
		}
	}
	return out
}
