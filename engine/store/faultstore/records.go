package faultstore

import (
	"context"
	"time"

	"github.com/agentrooms/qualify/engine/store"
)

// EnsureCeiling implements store.Records.
func (s *Store) EnsureCeiling(ctx context.Context, name string, funds store.Funds, limit int64) (store.Ceiling, error) {
	return call(ctx, s, "EnsureCeiling", func() (store.Ceiling, error) { return s.inner.EnsureCeiling(ctx, name, funds, limit) })
}

// Grant implements store.Records.
func (s *Store) Grant(ctx context.Context, name string, funds store.Funds, total int64, ackOps []string) (store.Ceiling, error) {
	return call(ctx, s, "Grant", func() (store.Ceiling, error) { return s.inner.Grant(ctx, name, funds, total, ackOps) })
}

// Ceilings implements store.Records.
func (s *Store) Ceilings(ctx context.Context) ([]store.Ceiling, error) {
	return call(ctx, s, "Ceilings", func() ([]store.Ceiling, error) { return s.inner.Ceilings(ctx) })
}

// Allot implements store.Records.
func (s *Store) Allot(ctx context.Context, a store.Allotment) (store.Allotment, error) {
	return call(ctx, s, "Allot", func() (store.Allotment, error) { return s.inner.Allot(ctx, a) })
}

// Release implements store.Records.
func (s *Store) Release(ctx context.Context, id string, charged, keep int64) (store.Allotment, error) {
	return call(ctx, s, "Release", func() (store.Allotment, error) { return s.inner.Release(ctx, id, charged, keep) })
}

// Allotments implements store.Records.
func (s *Store) Allotments(ctx context.Context, campaign string) ([]store.Allotment, error) {
	return call(ctx, s, "Allotments", func() ([]store.Allotment, error) { return s.inner.Allotments(ctx, campaign) })
}

// OpenAllotments implements store.Records.
func (s *Store) OpenAllotments(ctx context.Context, ceiling string, funds store.Funds) (store.Ceiling, []store.Allotment, error) {
	type open struct {
		ceiling    store.Ceiling
		allotments []store.Allotment
	}
	o, err := call(ctx, s, "OpenAllotments", func() (open, error) {
		c, as, err := s.inner.OpenAllotments(ctx, ceiling, funds)
		return open{c, as}, err
	})
	return o.ceiling, o.allotments, err
}

// CampaignWeight implements store.Records.
func (s *Store) CampaignWeight(ctx context.Context, campaign string, funds store.Funds) (int64, error) {
	return call(ctx, s, "CampaignWeight", func() (int64, error) { return s.inner.CampaignWeight(ctx, campaign, funds) })
}

// Enqueue implements store.Records.
func (s *Store) Enqueue(ctx context.Context, a store.Allotment) (store.Ticket, error) {
	return call(ctx, s, "Enqueue", func() (store.Ticket, error) { return s.inner.Enqueue(ctx, a) })
}

// Dequeue implements store.Records.
func (s *Store) Dequeue(ctx context.Context, ceiling string, funds store.Funds, campaign string) error {
	return do(ctx, s, "Dequeue", func() error { return s.inner.Dequeue(ctx, ceiling, funds, campaign) })
}

// Queue implements store.Records.
func (s *Store) Queue(ctx context.Context, ceiling string, funds store.Funds) ([]store.Ticket, error) {
	return call(ctx, s, "Queue", func() ([]store.Ticket, error) { return s.inner.Queue(ctx, ceiling, funds) })
}

// Ledger implements store.Records.
func (s *Store) Ledger(ctx context.Context, after int64, limit int) ([]store.LedgerRow, error) {
	return call(ctx, s, "Ledger", func() ([]store.LedgerRow, error) { return s.inner.Ledger(ctx, after, limit) })
}

// PutCampaign implements store.Records.
func (s *Store) PutCampaign(ctx context.Context, c store.Campaign) error {
	return do(ctx, s, "PutCampaign", func() error { return s.inner.PutCampaign(ctx, c) })
}

// SetCampaignStatus implements store.Records.
func (s *Store) SetCampaignStatus(ctx context.Context, id, status string, totals []byte) error {
	return do(ctx, s, "SetCampaignStatus", func() error { return s.inner.SetCampaignStatus(ctx, id, status, totals) })
}

// Campaign implements store.Records.
func (s *Store) Campaign(ctx context.Context, id string) (store.Campaign, error) {
	return call(ctx, s, "Campaign", func() (store.Campaign, error) { return s.inner.Campaign(ctx, id) })
}

// Campaigns implements store.Records.
func (s *Store) Campaigns(ctx context.Context, name string) ([]store.Campaign, error) {
	return call(ctx, s, "Campaigns", func() ([]store.Campaign, error) { return s.inner.Campaigns(ctx, name) })
}

// PutTrial implements store.Records.
func (s *Store) PutTrial(ctx context.Context, t store.Trial) error {
	return do(ctx, s, "PutTrial", func() error { return s.inner.PutTrial(ctx, t) })
}

// Trials implements store.Records.
func (s *Store) Trials(ctx context.Context, campaign string) ([]store.Trial, error) {
	return call(ctx, s, "Trials", func() ([]store.Trial, error) { return s.inner.Trials(ctx, campaign) })
}

// PutTrace implements store.Records.
func (s *Store) PutTrace(ctx context.Context, campaign, key string, digest string, content []byte) error {
	return do(ctx, s, "PutTrace", func() error { return s.inner.PutTrace(ctx, campaign, key, digest, content) })
}

// Trace implements store.Records.
func (s *Store) Trace(ctx context.Context, campaign, key string) (string, []byte, error) {
	type trace struct {
		digest  string
		content []byte
	}
	t, err := call(ctx, s, "Trace", func() (trace, error) {
		digest, content, err := s.inner.Trace(ctx, campaign, key)
		return trace{digest, content}, err
	})
	return t.digest, t.content, err
}

// AcquireLease implements store.Records.
func (s *Store) AcquireLease(ctx context.Context, name, token, owner string, ttl time.Duration) (store.Lease, error) {
	return call(ctx, s, "AcquireLease", func() (store.Lease, error) { return s.inner.AcquireLease(ctx, name, token, owner, ttl) })
}

// RenewLease implements store.Records.
func (s *Store) RenewLease(ctx context.Context, name, token string, ttl time.Duration) (store.Lease, error) {
	return call(ctx, s, "RenewLease", func() (store.Lease, error) { return s.inner.RenewLease(ctx, name, token, ttl) })
}

// ReleaseLease implements store.Records.
func (s *Store) ReleaseLease(ctx context.Context, name, token string) error {
	return do(ctx, s, "ReleaseLease", func() error { return s.inner.ReleaseLease(ctx, name, token) })
}

// KeepLease implements store.Records.
func (s *Store) KeepLease(ctx context.Context, name, token string, ttl time.Duration) (store.Lease, error) {
	return call(ctx, s, "KeepLease", func() (store.Lease, error) { return s.inner.KeepLease(ctx, name, token, ttl) })
}

// BreakLease implements store.Records.
func (s *Store) BreakLease(ctx context.Context, name string, generation int64) error {
	return do(ctx, s, "BreakLease", func() error { return s.inner.BreakLease(ctx, name, generation) })
}

// Leases implements store.Records.
func (s *Store) Leases(ctx context.Context) ([]store.Lease, error) {
	return call(ctx, s, "Leases", func() ([]store.Lease, error) { return s.inner.Leases(ctx) })
}

// AppendSeal implements store.Records.
func (s *Store) AppendSeal(ctx context.Context, kind string, body []byte) (store.SealRow, error) {
	return call(ctx, s, "AppendSeal", func() (store.SealRow, error) { return s.inner.AppendSeal(ctx, kind, body) })
}

// AppendSealAfter implements store.Records.
func (s *Store) AppendSealAfter(ctx context.Context, head, kind string, body []byte) (store.SealRow, error) {
	return call(ctx, s, "AppendSealAfter", func() (store.SealRow, error) { return s.inner.AppendSealAfter(ctx, head, kind, body) })
}

// SealLog implements store.Records.
func (s *Store) SealLog(ctx context.Context) ([]store.SealRow, error) {
	return call(ctx, s, "SealLog", func() ([]store.SealRow, error) { return s.inner.SealLog(ctx) })
}

// Stats implements store.Store.
func (s *Store) Stats(ctx context.Context) (store.Stats, error) {
	return call(ctx, s, "Stats", func() (store.Stats, error) { return s.inner.Stats(ctx) })
}
