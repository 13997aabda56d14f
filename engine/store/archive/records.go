package archive

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/engine/store"
)

// enter refuses a call whose context has ended.
func enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	return nil
}

func (s *Store) ceiling(name string, funds store.Funds) *store.Ceiling {
	i, ok := slices.BinarySearchFunc(s.ceilings, store.Ceiling{Name: name, Funds: funds}, store.CompareCeilings)
	if !ok {
		return nil
	}
	return &s.ceilings[i]
}

// Ceilings implements store.Records: those that the campaign drew on.
func (s *Store) Ceilings(ctx context.Context) ([]store.Ceiling, error) {
	if err := enter(ctx); err != nil {
		return nil, err
	}
	out := slices.Clone(s.ceilings)
	for i := range out {
		out[i] = out[i].Clone()
	}
	return out, nil
}

// some lists the allotments that are wanted, in order of grant.
func (s *Store) some(want func(*store.Allotment) bool) []store.Allotment {
	var out []store.Allotment
	for i := range s.allotments {
		if a := &s.allotments[i]; want(a) {
			out = append(out, *a)
		}
	}
	return out
}

// Allotments implements store.Records. Of another campaign they are those on the
// ceilings that this one drew on.
func (s *Store) Allotments(ctx context.Context, campaign string) ([]store.Allotment, error) {
	if err := enter(ctx); err != nil {
		return nil, err
	}
	return s.some(func(a *store.Allotment) bool { return a.Campaign == campaign }), nil
}

// OpenAllotments implements store.Records.
func (s *Store) OpenAllotments(ctx context.Context, ceiling string, funds store.Funds) (store.Ceiling, []store.Allotment, error) {
	if err := enter(ctx); err != nil {
		return store.Ceiling{}, nil, err
	}
	c := s.ceiling(ceiling, funds)
	if c == nil {
		return store.Ceiling{}, nil, fmt.Errorf("ceiling %s of %s funds: %w", ceiling, funds, store.ErrNotFound)
	}
	return c.Clone(), s.some(func(a *store.Allotment) bool { return a.Ceiling == ceiling && a.Funds == funds && !a.Released }), nil
}

// CampaignWeight implements store.Records: the sum over the allotments.
func (s *Store) CampaignWeight(ctx context.Context, campaign string, funds store.Funds) (int64, error) {
	if err := enter(ctx); err != nil {
		return 0, err
	}
	var weight int64
	for i := range s.allotments {
		if a := &s.allotments[i]; a.Campaign == campaign && a.Funds == funds {
			weight += a.Weight()
		}
	}
	return weight, nil
}

// Queue implements store.Records: nobody waits.
func (s *Store) Queue(ctx context.Context, _ string, _ store.Funds) ([]store.Ticket, error) {
	return nil, enter(ctx)
}

// Ledger implements store.Records: the rows of the ceilings that the campaign
// drew on, with the numbers they have in the store they came from.
func (s *Store) Ledger(ctx context.Context, after int64, limit int) ([]store.LedgerRow, error) {
	if err := enter(ctx); err != nil {
		return nil, err
	}
	from := slices.IndexFunc(s.ledger, func(r store.LedgerRow) bool { return r.N > after })
	if from < 0 {
		return nil, nil
	}
	rows := s.ledger[from:]
	if limit > 0 && limit < len(rows) {
		rows = rows[:limit]
	}
	return slices.Clone(rows), nil
}

// Campaign implements store.Records.
func (s *Store) Campaign(ctx context.Context, id string) (store.Campaign, error) {
	if err := enter(ctx); err != nil {
		return store.Campaign{}, err
	}
	for i := range s.campaigns {
		if s.campaigns[i].ID == id {
			return s.campaigns[i].Clone(), nil
		}
	}
	return store.Campaign{}, fmt.Errorf("campaign %s: %w", id, store.ErrNotFound)
}

// Campaigns implements store.Records.
func (s *Store) Campaigns(ctx context.Context, name string) ([]store.Campaign, error) {
	if err := enter(ctx); err != nil {
		return nil, err
	}
	var out []store.Campaign
	for i := range s.campaigns {
		if c := &s.campaigns[i]; name == "" || c.Name == name {
			out = append(out, c.Clone())
		}
	}
	return out, nil
}

// Trials implements store.Records.
func (s *Store) Trials(ctx context.Context, campaign string) ([]store.Trial, error) {
	if err := enter(ctx); err != nil {
		return nil, err
	}
	if campaign != s.campaign {
		return nil, nil
	}
	return slices.Clone(s.trials), nil
}

// Trace implements store.Records. The content is not judged.
func (s *Store) Trace(ctx context.Context, campaign, key string) (string, []byte, error) {
	if err := enter(ctx); err != nil {
		return "", nil, err
	}
	digest, ok := s.traces[key]
	if !ok || campaign != s.campaign {
		return "", nil, fmt.Errorf("trace %s of %s: %w", key, campaign, store.ErrNotFound)
	}
	content, err := readFile(s.files, traceName(key))
	if err != nil {
		return "", nil, err
	}
	return digest, bytes.Clone(content), nil
}

// Leases implements store.Records: nobody holds one.
func (s *Store) Leases(ctx context.Context) ([]store.Lease, error) { return nil, enter(ctx) }

// SealLog implements store.Records. Whether it chains is not judged.
func (s *Store) SealLog(ctx context.Context) ([]store.SealRow, error) {
	if err := enter(ctx); err != nil {
		return nil, err
	}
	out := slices.Clone(s.seals)
	for i := range out {
		out[i].Body = bytes.Clone(out[i].Body)
	}
	return out, nil
}

// Stats implements store.Store. Nothing was ever written.
func (s *Store) Stats(ctx context.Context) (store.Stats, error) {
	bodies := "included"
	if s.withheld {
		bodies = "withheld"
	}
	return store.Stats{Detail: map[string]string{"driver": "bundle", "campaign": s.campaign, "bodies": bodies}}, enter(ctx)
}

// Close implements store.Store. It does nothing: the files are the caller's.
func (s *Store) Close() error { return nil }
