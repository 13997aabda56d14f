package memory

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/agentrooms/qualify/engine/store"
)

func (s *Store) append(rows ...store.LedgerRow) {
	for _, r := range rows {
		r.N = int64(len(s.ledger)) + 1
		s.ledger = append(s.ledger, r)
	}
	s.writes++
}

func (s *Store) ceiling(name string, funds store.Funds) (*store.Ceiling, error) {
	c, ok := s.ceilings[ceilingKey{name, funds}]
	if !ok {
		return nil, fmt.Errorf("ceiling %s of %s funds: %w", name, funds, store.ErrNotFound)
	}
	return c, nil
}

// EnsureCeiling implements store.Records.
func (s *Store) EnsureCeiling(ctx context.Context, name string, funds store.Funds, limit int64) (store.Ceiling, error) {
	made, row, err := store.NewCeiling(name, funds, limit)
	if err != nil {
		return store.Ceiling{}, err
	}
	if err := s.enterWrite(ctx); err != nil {
		return store.Ceiling{}, err
	}
	defer s.mu.Unlock()
	if c, ok := s.ceilings[ceilingKey{name, funds}]; ok {
		return c.Clone(), nil
	}
	s.ceilings[ceilingKey{name, funds}] = &made
	s.append(row)
	return made.Clone(), nil
}

// Grant implements store.Records.
func (s *Store) Grant(ctx context.Context, name string, funds store.Funds, total int64, ackOps []string) (store.Ceiling, error) {
	if err := s.enterWrite(ctx); err != nil {
		return store.Ceiling{}, err
	}
	defer s.mu.Unlock()
	c, err := s.ceiling(name, funds)
	if err != nil {
		return store.Ceiling{}, err
	}
	rows, err := c.Grant(total, ackOps)
	if err != nil {
		return store.Ceiling{}, err
	}
	s.append(rows...)
	return c.Clone(), nil
}

// Ceilings implements store.Records: by name, then funds.
func (s *Store) Ceilings(ctx context.Context) ([]store.Ceiling, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var out []store.Ceiling
	for _, c := range s.ceilings {
		out = append(out, c.Clone())
	}
	slices.SortFunc(out, store.CompareCeilings)
	return out, nil
}

// Allot implements store.Records.
func (s *Store) Allot(ctx context.Context, a store.Allotment) (store.Allotment, error) {
	if err := store.CheckAllotment(&a); err != nil {
		return store.Allotment{}, err
	}
	if err := s.enterWrite(ctx); err != nil {
		return store.Allotment{}, err
	}
	defer s.mu.Unlock()
	if have, ok := s.allotment[a.ID]; ok {
		if !store.SameAllotment(have, &a) {
			return store.Allotment{}, fmt.Errorf("allotment %s: %w", a.ID, store.ErrExists)
		}
		return *have, nil
	}
	c, err := s.ceiling(a.Ceiling, a.Funds)
	if err != nil {
		return store.Allotment{}, err
	}
	if err := store.CheckTurn(&a, s.queue(a.Ceiling, a.Funds)); err != nil {
		return store.Allotment{}, err
	}
	a.Released, a.Charged, a.Kept = false, 0, 0
	purse := purseKey{a.Campaign, a.Funds}
	row, err := c.Draw(&a, s.weights[purse])
	if err != nil {
		return store.Allotment{}, err
	}
	s.weights[purse] = store.Weigh(s.weights[purse], nil, &a)
	s.dequeue(a.Ceiling, a.Funds, a.Campaign)
	s.allotments = append(s.allotments, &a)
	s.allotment[a.ID] = &a
	s.append(row)
	return a, nil
}

// Release implements store.Records.
func (s *Store) Release(ctx context.Context, id string, charged, keep int64) (store.Allotment, error) {
	if err := s.enterWrite(ctx); err != nil {
		return store.Allotment{}, err
	}
	defer s.mu.Unlock()
	a, ok := s.allotment[id]
	if !ok {
		return store.Allotment{}, fmt.Errorf("allotment %s: %w", id, store.ErrNotFound)
	}
	if a.Released {
		if a.Charged != charged || a.Kept != keep {
			return store.Allotment{}, fmt.Errorf("allotment %s: released with charged %d, kept %d: %w", id, a.Charged, a.Kept, store.ErrConflict)
		}
		return *a, nil
	}
	c, err := s.ceiling(a.Ceiling, a.Funds)
	if err != nil {
		return store.Allotment{}, err
	}
	before := *a
	rows, err := c.Return(a, charged, keep)
	if err != nil {
		return store.Allotment{}, err
	}
	purse := purseKey{a.Campaign, a.Funds}
	s.weights[purse] = store.Weigh(s.weights[purse], &before, a)
	s.append(rows...)
	return *a, nil
}

// Allotments implements store.Records: in order of grant.
func (s *Store) Allotments(ctx context.Context, campaign string) ([]store.Allotment, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var out []store.Allotment
	for _, a := range s.allotments {
		if a.Campaign == campaign {
			out = append(out, *a)
		}
	}
	return out, nil
}

// OpenAllotments implements store.Records.
func (s *Store) OpenAllotments(ctx context.Context, ceiling string, funds store.Funds) (store.Ceiling, []store.Allotment, error) {
	if err := s.enter(ctx); err != nil {
		return store.Ceiling{}, nil, err
	}
	defer s.mu.Unlock()
	c, err := s.ceiling(ceiling, funds)
	if err != nil {
		return store.Ceiling{}, nil, err
	}
	var out []store.Allotment
	for _, a := range s.allotments {
		if a.Ceiling == ceiling && a.Funds == funds && !a.Released {
			out = append(out, *a)
		}
	}
	return c.Clone(), out, nil
}

// Ledger implements store.Records.
func (s *Store) Ledger(ctx context.Context, after int64, limit int) ([]store.LedgerRow, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	rows := s.ledger[min(max(after, 0), int64(len(s.ledger))):]
	if limit > 0 && limit < len(rows) {
		rows = rows[:limit]
	}
	return slices.Clone(rows), nil
}

func (s *Store) findCampaign(id string) (*store.Campaign, error) {
	c, ok := s.campaign[id]
	if !ok {
		return nil, fmt.Errorf("campaign %s: %w", id, store.ErrNotFound)
	}
	return c, nil
}

// PutCampaign implements store.Records.
func (s *Store) PutCampaign(ctx context.Context, c store.Campaign) error {
	if err := s.enterWrite(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if have, ok := s.campaign[c.ID]; ok {
		if !store.SameCampaign(have, &c) {
			return fmt.Errorf("campaign %s: %w", c.ID, store.ErrExists)
		}
		return nil
	}
	c = c.Clone()
	c.CreatedSeq = int64(len(s.campaigns)) + 1
	s.campaigns = append(s.campaigns, &c)
	s.campaign[c.ID] = &c
	s.writes++
	return nil
}

// SetCampaignStatus implements store.Records.
func (s *Store) SetCampaignStatus(ctx context.Context, id, status string, totals []byte) error {
	if err := s.enterWrite(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	c, err := s.findCampaign(id)
	if err != nil {
		return err
	}
	c.Status = status
	if totals != nil {
		c.Totals = bytes.Clone(totals)
	}
	s.writes++
	return nil
}

// Campaign implements store.Records.
func (s *Store) Campaign(ctx context.Context, id string) (store.Campaign, error) {
	if err := s.enter(ctx); err != nil {
		return store.Campaign{}, err
	}
	defer s.mu.Unlock()
	c, err := s.findCampaign(id)
	if err != nil {
		return store.Campaign{}, err
	}
	return c.Clone(), nil
}

// Campaigns implements store.Records.
func (s *Store) Campaigns(ctx context.Context, name string) ([]store.Campaign, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var out []store.Campaign
	for _, c := range s.campaigns {
		if name == "" || c.Name == name {
			out = append(out, c.Clone())
		}
	}
	return out, nil
}

// PutTrial implements store.Records.
func (s *Store) PutTrial(ctx context.Context, t store.Trial) error {
	if err := s.enterWrite(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if _, err := s.findCampaign(t.Campaign); err != nil {
		return err
	}
	k := trialKey{t.Campaign, t.Key}
	if have, ok := s.trials[k]; ok {
		if have == t {
			return nil
		}
		if have.Terminal() {
			return fmt.Errorf("trial %s of %s is %s: %w", t.Key, t.Campaign, have.Status, store.ErrConflict)
		}
	}
	s.trials[k] = t
	s.writes++
	return nil
}

// Trials implements store.Records.
func (s *Store) Trials(ctx context.Context, campaign string) ([]store.Trial, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	var out []store.Trial
	for k, t := range s.trials {
		if k.campaign == campaign {
			out = append(out, t)
		}
	}
	slices.SortFunc(out, store.CompareTrials)
	return out, nil
}

// PutTrace implements store.Records.
func (s *Store) PutTrace(ctx context.Context, campaign, key, digest string, content []byte) error {
	if err := s.enterWrite(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	if _, err := s.findCampaign(campaign); err != nil {
		return err
	}
	k := trialKey{campaign, key}
	if have, ok := s.traces[k]; ok {
		if have.digest != digest || !bytes.Equal(have.content, content) {
			return fmt.Errorf("trace %s of %s: %w", key, campaign, store.ErrExists)
		}
		return nil
	}
	s.traces[k] = trace{digest, bytes.Clone(content)}
	s.writes++
	return nil
}

// Trace implements store.Records.
func (s *Store) Trace(ctx context.Context, campaign, key string) (string, []byte, error) {
	if err := s.enter(ctx); err != nil {
		return "", nil, err
	}
	defer s.mu.Unlock()
	t, ok := s.traces[trialKey{campaign, key}]
	if !ok {
		return "", nil, fmt.Errorf("trace %s of %s: %w", key, campaign, store.ErrNotFound)
	}
	return t.digest, bytes.Clone(t.content), nil
}

// AcquireLease implements store.Records.
func (s *Store) AcquireLease(ctx context.Context, name, token, owner string, ttl time.Duration) (store.Lease, error) {
	if err := store.CheckLease(name, token, ttl); err != nil {
		return store.Lease{}, err
	}
	if err := s.enterWrite(ctx); err != nil {
		return store.Lease{}, err
	}
	defer s.mu.Unlock()
	now := store.LeaseTime(s.now())
	l, err := store.Acquire(s.leases[name], now, store.Lease{Name: name, Token: token, Owner: owner, ExpiresAt: store.LeaseTime(now.Add(ttl))})
	if err != nil {
		return l, err
	}
	s.leases[name] = l
	s.writes++
	return l, nil
}

// RenewLease implements store.Records.
func (s *Store) RenewLease(ctx context.Context, name, token string, ttl time.Duration) (store.Lease, error) {
	return s.extendLease(ctx, name, token, ttl, func(l store.Lease, now time.Time) error {
		if !l.HeldBy(token, now) {
			return fmt.Errorf("renew lease %s: %w", name, store.ErrLeaseLost)
		}
		return nil
	})
}

// KeepLease implements store.Records.
func (s *Store) KeepLease(ctx context.Context, name, token string, ttl time.Duration) (store.Lease, error) {
	return s.extendLease(ctx, name, token, ttl, func(l store.Lease, _ time.Time) error {
		return store.Fence{Name: name, Token: token}.Check(l)
	})
}

// extendLease gives a lease that passes the check a new end.
func (s *Store) extendLease(ctx context.Context, name, token string, ttl time.Duration, check func(store.Lease, time.Time) error) (store.Lease, error) {
	if err := store.CheckLease(name, token, ttl); err != nil {
		return store.Lease{}, err
	}
	if err := s.enterWrite(ctx); err != nil {
		return store.Lease{}, err
	}
	defer s.mu.Unlock()
	now := store.LeaseTime(s.now())
	l := s.leases[name]
	if err := check(l, now); err != nil {
		return store.Lease{}, err
	}
	l.ExpiresAt = store.LeaseTime(now.Add(ttl))
	s.leases[name] = l
	s.writes++
	return l, nil
}

// ReleaseLease implements store.Records.
func (s *Store) ReleaseLease(ctx context.Context, name, token string) error {
	if err := s.enterWrite(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	l := s.leases[name]
	if token == "" || l.Token != token {
		return fmt.Errorf("release lease %s: %w", name, store.ErrLeaseLost)
	}
	s.leases[name] = store.Lease{Name: name, Generation: l.Generation}
	s.writes++
	return nil
}

// BreakLease implements store.Records.
func (s *Store) BreakLease(ctx context.Context, name string, generation int64) error {
	if err := s.enterWrite(ctx); err != nil {
		return err
	}
	defer s.mu.Unlock()
	have := s.leases[name]
	have.Name = name
	l, changed, err := store.Break(have, generation)
	if err != nil || !changed {
		return err
	}
	s.leases[name] = l
	s.writes++
	return nil
}

// Leases implements store.Records.
func (s *Store) Leases(ctx context.Context) ([]store.Lease, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	now := store.LeaseTime(s.now())
	var out []store.Lease
	for _, l := range s.leases {
		if l.HeldBy(l.Token, now) {
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b store.Lease) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// AppendSeal implements store.Records.
func (s *Store) AppendSeal(ctx context.Context, kind string, body []byte) (store.SealRow, error) {
	return s.appendSeal(ctx, nil, kind, body)
}

// AppendSealAfter implements store.Records.
func (s *Store) AppendSealAfter(ctx context.Context, head, kind string, body []byte) (store.SealRow, error) {
	return s.appendSeal(ctx, &head, kind, body)
}

// appendSeal appends to the seal log, behind the row of digest head if given.
func (s *Store) appendSeal(ctx context.Context, head *string, kind string, body []byte) (store.SealRow, error) {
	if err := s.enterWrite(ctx); err != nil {
		return store.SealRow{}, err
	}
	defer s.mu.Unlock()
	var last store.SealRow
	if n := len(s.seals); n > 0 {
		last = s.seals[n-1]
	}
	r, err := store.NextSeal(last, head, kind, bytes.Clone(body))
	if err != nil {
		return store.SealRow{}, err
	}
	s.seals = append(s.seals, r)
	s.writes++
	r.Body = bytes.Clone(r.Body)
	return r, nil
}

// SealLog implements store.Records.
func (s *Store) SealLog(ctx context.Context) ([]store.SealRow, error) {
	if err := s.enter(ctx); err != nil {
		return nil, err
	}
	defer s.mu.Unlock()
	out := slices.Clone(s.seals)
	for i := range out {
		out[i].Body = bytes.Clone(out[i].Body)
	}
	return out, nil
}
