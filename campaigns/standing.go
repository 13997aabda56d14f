package campaigns

import (
	"context"
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/evaluator/trace"
)

// Statuses of a stored campaign.
const (
	StatusRunning   = "running" // or interrupted: nothing has ended it
	StatusDone      = "done"
	StatusStopped   = "stopped" // by a limit
	StatusCancelled = "cancelled"
)

// OwnCeiling is the simulated ceiling of one campaign that names no shared one.
func OwnCeiling(id string) string { return "campaign/" + id }

// Standing is where a stored campaign stands: finished, stopped, cancelled or
// still running. It is read without running anything.
type Standing struct {
	// Outcome as a run would give it; Dropped are the triples that are not
	// complete, and SetDigest covers the closed trials, controls too.
	Outcome
	Campaign store.Campaign
	Closed   map[string]store.Trial // trials with a terminal record, by key
	Ledger   []store.LedgerRow      // the whole ledger, at the moment of Ceiling
	Others   []CeilingUse           // other campaigns that drew on the same ceiling, oldest first
}

// CeilingUse is what a campaign drew on a ceiling.
type CeilingUse struct {
	Campaign   store.Campaign
	Allotments []store.Allotment
}

// Stand reads where the campaign of the plan stands. While another process
// runs it, the account is one that really was: ceiling and ledger agree.
// Before any money is drawn Ceiling is empty.
func (p *Plan) Stand(ctx context.Context, st store.Records, camp store.Campaign) (*Standing, error) {
	s := &Standing{Campaign: camp, Closed: map[string]store.Trial{}}
	trials, err := st.Trials(ctx, p.ID)
	if err != nil {
		return nil, fmt.Errorf("trials of %s: %w", p.ID, err)
	}
	for _, t := range trials {
		if t.Status == TrialClosed {
			s.Closed[t.Key] = t
		}
	}
	if s.SetDigest, err = SetDigest(trials); err != nil {
		return nil, err
	}
	for _, t := range p.Schedule() {
		if slices.ContainsFunc(t.seats(), func(x Seat) bool { _, ok := s.Closed[x.Key()]; return !ok }) {
			s.Dropped = append(s.Dropped, t)
		}
	}
	return s, s.money(ctx, st, p)
}

// SetDigest is the digest of the traces of the closed ones among trials.
func SetDigest(trials []store.Trial) (string, error) {
	var set []trace.SetEntry
	for i := range trials {
		if t := &trials[i]; t.Status == TrialClosed {
			set = append(set, trace.SetEntry{Key: t.Key, Digest: t.TraceDigest})
		}
	}
	return trace.SetDigest(set)
}

// accountTries bounds how often a ceiling and its ledger are read until no
// other process has moved money in between.
const accountTries = 200

func (s *Standing) money(ctx context.Context, st store.Records, p *Plan) error {
	var err error
	if s.Allotments, err = st.Allotments(ctx, p.ID); err != nil {
		return fmt.Errorf("allotments of %s: %w", p.ID, err)
	}
	name, funds := p.CeilingName(), p.Funds
	if len(s.Allotments) > 0 {
		name, funds = s.Allotments[0].Ceiling, s.Allotments[0].Funds
	}
	if s.Others, err = ceilingUsers(ctx, st, p.ID, name, funds); err != nil {
		return err
	}
	find := func() (store.Ceiling, bool, error) {
		all, err := st.Ceilings(ctx)
		if err != nil {
			return store.Ceiling{}, false, fmt.Errorf("ceilings: %w", err)
		}
		i := slices.IndexFunc(all, func(c store.Ceiling) bool { return c.Name == name && c.Funds == funds })
		if i < 0 {
			return store.Ceiling{Funds: funds}, false, nil
		}
		return all[i], true, nil
	}
	for range accountTries {
		before, found, err := find()
		if err != nil || !found {
			s.Ceiling = before
			return err
		}
		var last int64
		if n := len(s.Ledger); n > 0 {
			last = s.Ledger[n-1].N
		}
		tail, err := st.Ledger(ctx, last, 0)
		if err != nil {
			return fmt.Errorf("ledger: %w", err)
		}
		s.Ledger = append(s.Ledger, tail...)
		after, _, err := find()
		if err != nil {
			return err
		}
		if sameAccount(before, after) {
			s.Ceiling = after
			return nil
		}
	}
	return fmt.Errorf("ceiling %s: other processes move money faster than its ledger can be read; try again", name)
}

func sameAccount(a, b store.Ceiling) bool {
	return a.Limit == b.Limit && a.Charged == b.Charged && a.Held == b.Held && a.MaxSum == b.MaxSum && slices.Equal(a.Overruns, b.Overruns)
}

// ceilingUsers lists the campaigns but one that drew on a ceiling.
func ceilingUsers(ctx context.Context, st store.Records, except, name string, funds store.Funds) ([]CeilingUse, error) {
	all, err := st.Campaigns(ctx, "")
	if err != nil {
		return nil, fmt.Errorf("campaigns: %w", err)
	}
	var out []CeilingUse
	for _, c := range all {
		if c.ID == except {
			continue
		}
		as, err := st.Allotments(ctx, c.ID)
		if err != nil {
			return nil, fmt.Errorf("allotments of %s: %w", c.ID, err)
		}
		as = slices.DeleteFunc(as, func(a store.Allotment) bool { return a.Ceiling != name || a.Funds != funds })
		if len(as) > 0 {
			out = append(out, CeilingUse{c, as})
		}
	}
	return out, nil
}
