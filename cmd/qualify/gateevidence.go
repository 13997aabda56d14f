package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/corpus/lint"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/gate"
	"github.com/agentrooms/qualify/freeze"
)

// gateInput is a stored campaign as the gate judges it. Scores are not kept:
// each trace becomes one compact row.
type gateInput struct {
	plan     *campaigns.Plan
	cases    *cases
	at       *campaigns.Standing
	table    *evaluator.Table
	controls []evaluator.TrialScore
	log      []store.SealRow
	seal     freeze.Verification // of the log
	held     freeze.Holdout      // what the log says of the campaign
}

// readGateInput scores every closed trial of a campaign again from its trace.
// It reads no stored figure but the account.
func (a *app) readGateInput(ctx context.Context, s store.Store, which, corpusName string) (*gateInput, error) {
	if which == "" {
		return nil, errNoName
	}
	camp, plan, cs, err := a.reopen(ctx, s, which, corpusName)
	if err != nil {
		return nil, err
	}
	if err := a.logScore(ctx, s, plan); err != nil {
		return nil, err
	}
	in := &gateInput{plan: plan, cases: cs}
	if in.at, err = plan.Stand(ctx, s, camp); err != nil {
		return nil, err
	}
	if in.log, err = s.SealLog(ctx); err != nil {
		return nil, fmt.Errorf("seal log: %w", err)
	}
	rows := freezeRows(in.log)
	in.seal, in.held = freeze.VerifyLog(rows), freeze.HoldoutOf(rows, plan.ID)
	if in.table, err = evaluator.NewTable(armNames(plan), tableCases(plan.SelectedCases()), plan.Trials); err != nil {
		return nil, usagef("campaign %s: %w", camp.Name, err)
	}
	if err := in.score(ctx, s); err != nil {
		return nil, err
	}
	return in, nil
}

func armNames(p *campaigns.Plan) []string {
	names := make([]string, 0, len(p.Arms))
	for _, x := range p.Arms {
		names = append(names, x.Name)
	}
	return names
}

func tableCases(cs []*corpus.Case) []evaluator.TableCase {
	out := make([]evaluator.TableCase, 0, len(cs))
	for _, c := range cs {
		out = append(out, evaluator.TableCase{ID: c.ID, Family: c.Family, Tags: c.Tags})
	}
	return out
}

func (in *gateInput) score(ctx context.Context, s store.Store) error {
	cut := in.cut()
	sc := newScorer(in.plan, in.cases)
	for _, seat := range in.plan.Seats() {
		rec, closed := in.at.Closed[seat.Key()]
		if cut[seat.Key()] {
			if seat.Control() {
				continue // a void one: the check of controls misses it
			}
			if err := in.table.Mark(seat.Arm.Name, seat.Case.ID, seat.Index, evaluator.TrialNotRun); err != nil {
				return err
			}
			continue
		}
		if !closed {
			continue
		}
		_, content, err := s.Trace(ctx, in.plan.ID, seat.Key())
		if err == nil {
			err = sc.score(seat, rec, content)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, errNoGold):
			return err
		case err != nil:
			return usagef("campaign %s: trace of %s: %w; qualify trace verify lists all that is wrong", in.plan.ID, seat.Key(), err)
		}
		list := sc.scores[seat.Arm.Name]
		sc.scores[seat.Arm.Name] = list[:0]
		if seat.Control() {
			in.controls = append(in.controls, list[0])
		} else if err := in.table.Add(&list[0]); err != nil {
			return err
		}
	}
	return nil
}

// evidence is what the gate judges, with the checks that this build can make.
func (in *gateInput) evidence(p *gate.Policy) (gate.Evidence, error) {
	b := budgetOf(in.at)
	budget := gate.Check{State: gate.CheckHolds, Detail: "charged + held <= limit at every ledger row"}
	if !b.Holds {
		budget = gate.Check{State: gate.CheckBroken, Detail: "charged + held <= limit does not hold at every ledger row; qualify budget verify shows where"}
	}
	frozen, err := in.checkFreeze(p)
	if err != nil {
		return gate.Evidence{}, err
	}
	status, void := in.at.Campaign.Status, len(in.held.VoidTrials())
	if void > 0 {
		status = campaigns.StatusDone // it was not a ceiling that stopped it
	}
	return gate.Evidence{
		Table: in.table, Order: cellsOf(in.plan), Word: in.plan.Evidence, Status: status, Void: void, Registered: in.plan.PolicyDigest(),
		Checks: map[string]gate.Check{
			gate.CheckFreeze:   frozen,
			gate.CheckHoldout:  in.checkHoldout(),
			gate.CheckLog:      in.checkLog(),
			gate.CheckBudget:   budget,
			gate.CheckOracle:   in.checkOracle(),
			gate.CheckControls: in.checkControls(),
			gate.CheckMatched:  in.checkMatched(),
			gate.CheckTraces:   {State: gate.CheckHolds, Detail: "every trace is the one in its trial record"},
		},
	}, nil
}

// cellsOf is the registered order of the plan's cells.
func cellsOf(p *campaigns.Plan) []evaluator.Cell {
	var out []evaluator.Cell
	for _, t := range p.Schedule() {
		if t.Arms[0].Role != campaigns.RoleAblation {
			out = append(out, evaluator.Cell{Case: t.Case.ID, Trial: t.Index})
		}
	}
	return out
}

// checkOracle runs the audit of the corpus, for the campaign's cases and for
// what concerns the corpus as a whole.
func (in *gateInput) checkOracle() gate.Check {
	var found []string
	mine := map[string]bool{}
	for _, c := range in.plan.SelectedCases() {
		mine[c.ID] = true
	}
	for _, f := range lint.RunOf(in.cases.corpus, in.cases.gold, func(id string) bool { return mine[id] }) {
		found = append(found, strings.TrimPrefix(f.Case+": ", ": ")+f.Rule+": "+f.Text)
	}
	if len(found) > 0 {
		return gate.Check{State: gate.CheckBroken, Detail: fmt.Sprintf("the audit finds %d faults; the first: %s", len(found), found[0])}
	}
	return gate.Check{State: gate.CheckHolds, Detail: "the audit of the corpus finds nothing"}
}

// checkControls holds when both control arms ran every case and completed none
// (Q6).
func (in *gateInput) checkControls() gate.Check {
	if !in.plan.Controls {
		return gate.Check{State: gate.CheckNotTested, Detail: "the campaign ran without controls"}
	}
	planned := 0
	for _, seat := range in.plan.Seats() {
		if seat.Control() {
			planned++
		}
	}
	_, faults := evaluator.Controls(in.controls)
	switch {
	case len(faults) > 0:
		f := faults[0]
		return gate.Check{State: gate.CheckBroken, Detail: fmt.Sprintf("control %s completes case %s: the oracle passes what nobody did", f.Control, f.Case)}
	case len(in.controls) < planned:
		return gate.Check{State: gate.CheckNotTested, Detail: fmt.Sprintf("%d of %d control trials have ended", len(in.controls), planned)}
	}
	return gate.Check{State: gate.CheckHolds, Detail: fmt.Sprintf("%d control trials, none completed", planned)}
}

// checkMatched proves again that the arms differ in nothing but what is under
// test, and that this is the plan that was registered.
func (in *gateInput) checkMatched() gate.Check {
	if err := campaigns.CheckPlan(in.at.Campaign); err != nil {
		return gate.Check{State: gate.CheckBroken, Detail: err.Error()}
	}
	if _, err := in.plan.Reprove(); err != nil {
		return gate.Check{State: gate.CheckBroken, Detail: err.Error()}
	}
	return gate.Check{State: gate.CheckHolds, Detail: "the arms differ only in " + strings.Join(in.plan.UnderTest, ", ")}
}

// document is the verdict with what it is about.
func (in *gateInput) document(v gate.Verdict) (*gate.Document, error) {
	p, b := in.plan, budgetOf(in.at)
	doc := gate.NewDocument(v)
	doc.Tool = toolName
	doc.Campaign = evaluator.RunCampaign{ID: p.ID, Name: p.Name, Registration: in.at.Campaign.Registration}
	doc.Status = in.at.Campaign.Status
	doc.Corpus = evaluator.RunCorpus{Digest: p.CorpusDigest, Split: p.Filter.Split, Cases: len(p.Cases), Families: len(corpus.Families(p.SelectedCases()))}
	doc.Model, doc.Prices, doc.Seed, doc.Trials = p.Model, p.PricesDigest, p.Seed, p.Trials
	doc.Budget, doc.TraceSetDigest = gate.ProofOf(&b), in.at.SetDigest
	if c := in.at.Ceiling.Name; c != "" && c != campaigns.OwnCeiling(p.ID) {
		doc.Outside = append(doc.Outside, "budget") // others may draw on it later
	}
	for _, h := range p.Hypotheses {
		doc.Hypotheses = append(doc.Hypotheses, v.Hypothesis(h.Text, h.Rules, h.Primary))
	}
	for i, name := range in.table.Arms {
		ms, err := in.table.Summaries(i)
		if err != nil {
			return nil, err
		}
		doc.Metrics = append(doc.Metrics, gate.ArmMetrics{Arm: name, Metrics: ms})
	}
	if h := &in.held; h.Freeze != "" {
		doc.Freeze = gate.Freeze{
			ID: h.Freeze, Openings: &h.Openings, Word: freezeWord, Void: h.VoidTrials(),
			Log: &gate.Log{Rows: h.Rows, Head: h.Head, Openings: h.All},
		}
		doc.Outside = append(doc.Outside, "log")
	}
	cut := cutKeys(in.at)
	for _, t := range in.at.Dropped {
		if slices.ContainsFunc(t.Arms, func(x campaigns.Arm) bool { return cut[campaigns.TrialKey(t.Case.ID, x.Name, t.Index)] }) {
			doc.DroppedTriples = append(doc.DroppedTriples, t.ID())
		}
	}
	return doc, nil
}
