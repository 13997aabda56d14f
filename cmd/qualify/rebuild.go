package main

import (
	"context"
	"fmt"

	"github.com/agentrooms/qualify/campaigns"
	"github.com/agentrooms/qualify/engine/store"
)

// rebuilder prepares the rebuilding of a campaign's rooms. The function it
// returns folds a trial's events through a fresh machine, world and owner,
// compares the state digest of every revision, names the first that differs,
// and returns the trace that the rows stand for.
type rebuilder func(s store.Store, camp store.Campaign, corpusName string) (func(context.Context, store.Trial) ([]byte, error), error)

// rebuildRooms is the rebuilder of this build: its modes, and a corpus that
// still holds the campaign's cases unchanged.
func rebuildRooms(s store.Store, camp store.Campaign, corpusName string) (func(context.Context, store.Trial) ([]byte, error), error) {
	cs, err := readCorpus(corpusName)
	if err != nil {
		return nil, err
	}
	plan, err := campaigns.Reopen(camp, cs, knownModes())
	if err != nil {
		return nil, usagef("%w; name the corpus it ran on with --corpus", err)
	}
	return func(ctx context.Context, t store.Trial) ([]byte, error) {
		seat, ok := plan.SeatOf(t)
		if !ok {
			return nil, fmt.Errorf("the campaign's plan has no such trial")
		}
		return plan.Retrace(ctx, s, seat)
	}, nil
}
