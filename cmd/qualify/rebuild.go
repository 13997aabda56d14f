package main

import (
	"context"
	"errors"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/evaluator/trace"
)

// rebuilder prepares the rebuilding of a campaign's rooms.
type rebuilder func(s store.Store, camp store.Campaign, corpusName string) (*rebuilding, error)

// rebuilding is what a campaign's plan says of its trials.
type rebuilding struct {
	planned []string // keys of all trials, in schedule order
	// record compares a trial record with its place in the plan and its trace.
	record func(store.Trial, trace.Info) error
	// trace folds a trial's events through a fresh machine, world and owner,
	// compares the state digest of every revision, names the first that
	// differs, and returns the trace that the rows stand for.
	trace func(context.Context, store.Trial) ([]byte, error)
	// withheld compares the room of a trial with its trace where contents are
	// withheld.
	withheld func(context.Context, store.Trial, []byte) error
}

var errNotPlanned = errors.New("the campaign's plan has no such trial")

// rebuildRooms is the rebuilder of this build: its modes, and a corpus that
// still holds the campaign's cases unchanged.
func (a *app) rebuildRooms(s store.Store, camp store.Campaign, corpusName string) (_ *rebuilding, err error) {
	var cs *corpus.Corpus
	if b, ok := s.(*bundleStore); ok && corpusName == builtinName {
		own, err := a.bundledCases(b)
		if err != nil {
			return nil, err
		}
		cs = own.corpus
	} else if cs, err = a.readCorpus(corpusName); err != nil {
		return nil, err
	}
	if err := campaigns.CheckPlan(camp); err != nil {
		return nil, err
	}
	plan, err := campaigns.Reopen(camp, cs, knownModes())
	if err != nil {
		return nil, usagef("%w; name the corpus it ran on with --corpus", err)
	}
	seats := map[string]campaigns.Seat{}
	r := &rebuilding{}
	for _, seat := range plan.Seats() {
		seats[seat.Key()] = seat
		r.planned = append(r.planned, seat.Key())
	}
	r.record = func(t store.Trial, info trace.Info) error {
		seat, ok := seats[t.Key]
		if !ok {
			return errNotPlanned
		}
		return plan.CheckRecord(t, seat, info)
	}
	r.trace = func(ctx context.Context, t store.Trial) ([]byte, error) {
		seat, ok := seats[t.Key]
		if !ok {
			return nil, errNotPlanned
		}
		return plan.Retrace(ctx, s, seat)
	}
	r.withheld = func(ctx context.Context, t store.Trial, content []byte) error {
		seat, ok := seats[t.Key]
		if !ok {
			return errNotPlanned
		}
		return plan.CheckWithheld(ctx, s, seat, content)
	}
	return r, nil
}
