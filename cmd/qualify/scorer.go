package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/trace"
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

// add scores one closed trial. Calls never overlap.
func (s *scorer) add(d campaigns.Done) error {
	t, err := trace.Read(bytes.NewReader(d.Trace))
	if err != nil {
		return fmt.Errorf("trial %s: %w", d.Record.Key, err)
	}
	cs, g, err := s.cases.of(d.Seat.Case.ID)
	if err != nil {
		return err
	}
	facts := evaluator.CaseFacts{Faults: cs.FaultKindsByID()}
	score, err := evaluator.ScoreTrial(t, facts, g)
	if err != nil {
		return err
	}
	s.scores[d.Seat.Arm.Name] = append(s.scores[d.Seat.Arm.Name], score)
	return nil
}

// planned lists the trials that an arm was to run; those of a triple that a
// limit cut are not run, in every arm (Q3).
func (s *scorer) planned(arm string, dropped []campaigns.Triple) []evaluator.Planned {
	cut := map[string]bool{}
	for _, t := range dropped {
		for _, a := range t.Arms {
			cut[campaigns.TrialKey(t.Case.ID, a.Name, t.Index)] = true
		}
	}
	var out []evaluator.Planned
	for _, c := range s.plan.SelectedCases() {
		for i := range s.plan.Trials {
			key := campaigns.TrialKey(c.ID, arm, i)
			out = append(out, evaluator.Planned{Key: key, Case: c.ID, Family: c.Family, Trial: i, NotRun: cut[key]})
		}
	}
	return out
}

// document is the run document of a campaign that is finished or stopped by a
// limit. rows is the store's whole ledger.
func (s *scorer) document(out *campaigns.Outcome, gauge runtime.GaugeReading, stats store.Stats, rows []store.LedgerRow) (*evaluator.RunDocument, error) {
	p := s.plan
	doc := evaluator.NewRunDocument()
	doc.Tool, doc.Evidence, doc.Status = toolName, p.Evidence, "done"
	if len(out.Dropped) > 0 {
		doc.Status, doc.Exit = "stopped", exitLimit
	}
	for _, t := range out.Dropped {
		doc.DroppedTriples = append(doc.DroppedTriples, t.ID())
	}
	doc.Campaign = evaluator.RunCampaign{ID: p.ID, Name: p.Name}
	doc.Corpus = evaluator.RunCorpus{
		Digest: p.CorpusDigest, Split: p.Filter.Split, Cases: len(p.Cases), Families: len(corpus.Families(p.SelectedCases())),
	}
	doc.Model, doc.Prices, doc.Seed, doc.Trials = p.Model, p.PricesDigest, p.Seed, p.Trials
	doc.TraceSetDigest = out.SetDigest
	doc.Budget = budgetOf(out, rows)
	for _, a := range p.Arms {
		sum, err := evaluator.Aggregate(evaluator.Arm{Name: a.Name, Mode: a.Mode, Role: a.Role}, s.scores[a.Name], s.planned(a.Name, out.Dropped))
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
	for _, seat := range p.Seats() {
		if seat.Control() {
			controls = append(controls, s.scores[seat.Arm.Name]...)
			s.scores[seat.Arm.Name] = nil
		}
	}
	doc.Controls, doc.OracleFaults = evaluator.Controls(controls)
	doc.Peak = evaluator.Peak{Trials: int(gauge.PeakTrials), Calls: int(gauge.PeakCalls)}
	doc.Store = evaluator.StoreFigures{Driver: stats.Detail["driver"], Commits: stats.Commits, Writes: stats.Writes}
	return doc, nil
}

// budgetOf is the account of the campaign's ceiling with its proof over every
// ledger row.
func budgetOf(out *campaigns.Outcome, rows []store.LedgerRow) evaluator.Budget {
	c := out.Ceiling
	b := evaluator.Budget{
		Funds: string(c.Funds), Ceiling: c.Name, Limit: c.Limit, Charged: c.Charged, Held: c.Held, MaxSum: c.MaxSum, Overruns: c.Overruns,
	}
	for _, a := range out.Allotments {
		b.Unknown += a.Kept
	}
	b.Prove(proveLedger(c, rows) == "")
	return b
}

// ledgerRows reads the whole ledger.
func ledgerRows(ctx context.Context, st store.Records) ([]store.LedgerRow, error) {
	rows, err := st.Ledger(ctx, 0, 0)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	return rows, nil
}
