package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/trace"
	"github.com/agentrooms/qualify/freeze"
)

// scorer scores the traces of a campaign as its trials close, by gold, and
// sums them up. It reads nothing but traces: what an arm says of itself enters
// no figure that the oracle decides.
type scorer struct {
	plan   *campaigns.Plan
	cases  *cases
	scores map[string][]evaluator.TrialScore // by arm
}

func newScorer(p *campaigns.Plan, cs *cases) *scorer {
	return &scorer{plan: p, cases: cs, scores: map[string][]evaluator.TrialScore{}}
}

// add scores one closed trial of a run. Calls never overlap.
func (s *scorer) add(d campaigns.Done) error {
	if d.Read != nil {
		return s.scoreRead(d.Seat, d.Record, d.Read)
	}
	return s.score(d.Seat, d.Record, d.Trace)
}

// score scores the trace of a seat, which must be the one that its record
// names.
func (s *scorer) score(seat campaigns.Seat, rec store.Trial, content []byte) error {
	t, err := trace.Read(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("trial %s: %w", seat.Key(), err)
	}
	return s.scoreRead(seat, rec, t)
}

// scoreRead is score for a trace that is read already.
func (s *scorer) scoreRead(seat campaigns.Seat, rec store.Trial, t *trace.Trace) error {
	switch {
	case t.Key() != seat.Key():
		return fmt.Errorf("trial %s: the trace is of trial %s", seat.Key(), t.Key())
	case t.Header.Campaign != s.plan.PlanDigest:
		return fmt.Errorf("trial %s: the trace is of another plan", seat.Key())
	case t.Digest() != rec.TraceDigest || t.End.Termination != rec.Termination:
		return fmt.Errorf("trial %s: the trace is not the one in the trial record", seat.Key())
	}
	cs, g, err := s.cases.of(seat.Case.ID)
	if err != nil {
		return err
	}
	facts := evaluator.CaseFacts{Faults: cs.FaultKindsByID()}
	score, err := evaluator.ScoreTrial(t, facts, g)
	if err != nil {
		return err
	}
	s.scores[seat.Arm.Name] = append(s.scores[seat.Arm.Name], score)
	return nil
}

// planned lists the trials that an arm was to run; cut ones are not run (Q3).
func (s *scorer) planned(arm string, cut map[string]bool) []evaluator.Planned {
	var out []evaluator.Planned
	for _, c := range s.plan.SelectedCases() {
		for i := range s.plan.Trials {
			key := campaigns.TrialKey(c.ID, arm, i)
			out = append(out, evaluator.Planned{Key: key, Case: c.ID, Family: c.Family, Trial: i, NotRun: cut[key]})
		}
	}
	return out
}

// storedDocument is the document of the campaign as the store has it, with the
// figures of the traces scored so far.
func (s *scorer) storedDocument(ctx context.Context, st store.Records, gauge runtime.GaugeReading, stats store.Stats) (*evaluator.RunDocument, error) {
	camp, err := st.Campaign(ctx, s.plan.ID)
	if err != nil {
		return nil, fmt.Errorf("campaign %s: %w", s.plan.ID, err)
	}
	at, err := s.plan.Stand(ctx, st, camp)
	if err != nil {
		return nil, err
	}
	held, err := holdoutOf(ctx, st, s.plan.ID)
	if err != nil {
		return nil, err
	}
	return s.document(at, gauge, stats, held)
}

// document is the run document of a campaign where it stands; gauge and stats
// are those of this process. It reads stored figures of nothing but money:
// every other one is computed from the traces that were scored.
func (s *scorer) document(at *campaigns.Standing, gauge runtime.GaugeReading, stats store.Stats, held freeze.Holdout) (*evaluator.RunDocument, error) {
	p := s.plan
	doc := evaluator.NewRunDocument()
	doc.Tool, doc.Evidence = toolName, p.Evidence
	s.place(doc, at)
	cut := cutKeys(at)
	maps.Copy(cut, voidKeys(p, &held))
	if doc.Freeze = runFreeze(&held); doc.Freeze != nil {
		doc.Outside = append(doc.Outside, "freeze") // the log that tells of it grows with every use
	}
	doc.Campaign = evaluator.RunCampaign{ID: p.ID, Name: p.Name, Registration: at.Campaign.Registration}
	doc.Corpus = evaluator.RunCorpus{
		Digest: p.CorpusDigest, Split: p.Filter.Split, Cases: len(p.Cases), Families: len(corpus.Families(p.SelectedCases())),
	}
	doc.Model, doc.Prices, doc.Seed, doc.Trials = p.Model, p.PricesDigest, p.Seed, p.Trials
	doc.TraceSetDigest = at.SetDigest
	doc.Budget = budgetOf(at)
	if at.Ceiling.Name == "" {
		doc.Warnings = append(doc.Warnings, "no money was drawn yet: there is no account to prove")
	} else if at.Ceiling.Name != campaigns.OwnCeiling(p.ID) {
		doc.Outside = append(doc.Outside, "budget") // others may draw on it after this run
	}
	for _, u := range at.Others {
		doc.SharedCeiling = append(doc.SharedCeiling, ceilingUser(u))
	}
	for _, a := range p.Arms {
		sum, err := evaluator.Aggregate(evaluator.Arm{Name: a.Name, Mode: a.Mode, Role: a.Role}, s.counted(a.Name, cut), s.planned(a.Name, cut))
		if err != nil {
			return nil, err
		}
		if a.Role == campaigns.RoleAblation {
			doc.Ablations = append(doc.Ablations, sum)
		} else {
			doc.Arms = append(doc.Arms, sum)
		}
	}
	var controls []evaluator.TrialScore
	seen := map[string]bool{}
	for _, seat := range p.Seats() {
		if seat.Control() && !seen[seat.Arm.Name] {
			seen[seat.Arm.Name] = true
			controls = append(controls, s.scores[seat.Arm.Name]...)
		}
	}
	doc.Controls, doc.OracleFaults = evaluator.Controls(controls)
	doc.Peak = evaluator.Peak{Trials: int(gauge.PeakTrials), Calls: int(gauge.PeakCalls)}
	doc.Store = evaluator.StoreFigures{Driver: stats.Detail["driver"], Commits: stats.Commits, Writes: stats.Writes, LongestWaitMS: stats.LongestWait.Milliseconds()}
	doc.Allotments.Granted = len(at.Allotments)
	return doc, nil
}

// Rules by which trials without a figure are counted (Q2, Q3).
const (
	ruleStopped   = "triples cut by a limit are not run, in every arm; nothing is imputed"
	ruleRunning   = "the campaign is not finished: trials of triples that are not complete are not run, in every arm; nothing is imputed"
	ruleCancelled = "the campaign was ended by hand: planned trials without a trace count as unclaimed unmet"
	ruleEnded     = "the campaign ended: planned trials without a trace count as unclaimed unmet"
)

// place says in the document how far the campaign is.
func (s *scorer) place(doc *evaluator.RunDocument, at *campaigns.Standing) {
	doc.Status = campaigns.StatusDone
	if len(at.Dropped) == 0 {
		return
	}
	part := &evaluator.Partial{Open: []string{}}
	doc.Partial = part
	for _, seat := range s.plan.Seats() {
		if seat.Control() {
			continue
		}
		part.Planned++
		if _, ok := at.Closed[seat.Key()]; ok {
			part.Done++
		}
	}
	for key := range cutKeys(at) {
		if _, ok := at.Closed[key]; ok {
			part.LeftOut++
		}
	}
	var ids []string
	for _, t := range at.Dropped {
		ids = append(ids, t.ID())
	}
	switch at.Campaign.Status {
	case campaigns.StatusCancelled:
		doc.Status, doc.Exit, part.Rule = campaigns.StatusCancelled, exitRefused, ruleCancelled
	case campaigns.StatusDone:
		part.Rule = ruleEnded
	case campaigns.StatusStopped:
		doc.Status, doc.Exit, part.Rule = campaigns.StatusStopped, exitLimit, ruleStopped
		doc.DroppedTriples = ids
	default:
		doc.Status, doc.Exit, part.Rule = campaigns.StatusRunning, exitInterrupted, ruleRunning
		part.Open = ids
	}
}

// cutKeys are the trials that enter no figure. A triple that a limit cut is not
// run in all arms; so is one that is not complete yet, because comparing what
// has come so far would favour the arm whose trials end sooner. A trial missing
// for any other reason counts against its arm (Q3).
func cutKeys(at *campaigns.Standing) map[string]bool {
	cut := map[string]bool{}
	if at.Campaign.Status == campaigns.StatusCancelled || at.Campaign.Status == campaigns.StatusDone {
		return cut
	}
	for _, t := range at.Dropped {
		for _, a := range t.Arms {
			cut[campaigns.TrialKey(t.Case.ID, a.Name, t.Index)] = true
		}
	}
	return cut
}

// counted are the scores of an arm without those of cut triples.
func (s *scorer) counted(arm string, cut map[string]bool) []evaluator.TrialScore {
	return slices.DeleteFunc(slices.Clone(s.scores[arm]), func(x evaluator.TrialScore) bool { return cut[x.Key] })
}

// budgetOf is the account of the campaign's ceiling with its proof over every
// ledger row.
func budgetOf(at *campaigns.Standing) evaluator.Budget {
	c := at.Ceiling
	b := evaluator.Budget{
		Funds: string(c.Funds), Ceiling: c.Name, Limit: c.Limit, Charged: c.Charged, Held: c.Held, MaxSum: c.MaxSum, Overruns: c.Overruns,
	}
	for _, a := range at.Allotments {
		b.Unknown += a.Kept
	}
	b.Prove(c.Name == "" || proveLedger(c, at.Ledger) == "")
	return b
}

func ceilingUser(u campaigns.CeilingUse) evaluator.CeilingUser {
	out := evaluator.CeilingUser{ID: u.Campaign.ID, Name: u.Campaign.Name, Status: u.Campaign.Status, Allotments: len(u.Allotments)}
	for _, a := range u.Allotments {
		if !a.Released {
			out.Held += a.Sum
			continue
		}
		out.Charged += a.Charged
		out.Held += a.Kept
	}
	return out
}
