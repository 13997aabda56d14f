package sqlite

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/engine/store"
)

func campaignFields(c *store.Campaign) []any {
	return []any{&c.ID, &c.Name, &c.PlanDigest, &c.Registration, &c.Plan, &c.Status, &c.Totals, &c.CreatedSeq}
}

func noCampaign(id string) error { return fmt.Errorf("campaign %s: %w", id, store.ErrNotFound) }

func (w *writer) campaignExists(ctx context.Context, id string) error {
	var one int
	found, err := w.row(ctx, sqlCampaignExists, []any{id}, &one)
	if err == nil && !found {
		err = noCampaign(id)
	}
	return err
}

// PutCampaign implements store.Records.
func (s *Store) PutCampaign(ctx context.Context, c store.Campaign) error {
	c = c.Clone()
	return s.write(ctx, "put campaign", false, func(ctx context.Context, w *writer) error {
		var have store.Campaign
		found, err := w.row(ctx, sqlCampaign, []any{c.ID}, campaignFields(&have)...)
		if err != nil {
			return err
		}
		if found {
			if !store.SameCampaign(&have, &c) {
				return fmt.Errorf("campaign %s: %w", c.ID, store.ErrExists)
			}
			return nil
		}
		return w.exec(ctx, sqlInsertCampaign, c.ID, c.Name, c.PlanDigest, c.Registration, c.Plan, c.Status, c.Totals)
	})
}

// SetCampaignStatus implements store.Records.
func (s *Store) SetCampaignStatus(ctx context.Context, id, status string, totals []byte) error {
	var keep any // NULL keeps the totals
	if totals != nil {
		keep = bytes.Clone(totals)
	}
	return s.write(ctx, "set campaign status", false, func(ctx context.Context, w *writer) error {
		if err := w.campaignExists(ctx, id); err != nil {
			return err
		}
		return w.exec(ctx, sqlCampaignStatus, status, keep, id)
	})
}

// Campaign implements store.Records.
func (s *Store) Campaign(ctx context.Context, id string) (store.Campaign, error) {
	var c store.Campaign
	err := s.read(ctx, "campaign", false, func(v view) error {
		found, err := v.row(ctx, sqlCampaign, []any{id}, campaignFields(&c)...)
		if err == nil && !found {
			err = noCampaign(id)
		}
		return err
	})
	return c, err
}

// Campaigns implements store.Records.
func (s *Store) Campaigns(ctx context.Context, name string) ([]store.Campaign, error) {
	var out []store.Campaign
	err := s.read(ctx, "campaigns", false, func(v view) error {
		return v.each(ctx, sqlCampaigns, []any{name}, func(scan func(...any) error) error {
			var c store.Campaign
			if err := scan(campaignFields(&c)...); err != nil {
				return err
			}
			out = append(out, c)
			return nil
		})
	})
	return out, err
}

func trialFields(t *store.Trial) []any {
	return []any{
		&t.Campaign, &t.Key, &t.Order, &t.Arm, &t.Case, &t.Index, &t.Room, &t.Allotment, &t.Status, &t.Termination, &t.TraceDigest,
		&t.Money.Limit, &t.Money.Charged, &t.Money.Held, &t.Money.Unknown,
	}
}

// PutTrial implements store.Records.
func (s *Store) PutTrial(ctx context.Context, t store.Trial) error {
	return s.write(ctx, "put trial", false, func(ctx context.Context, w *writer) error {
		if err := w.campaignExists(ctx, t.Campaign); err != nil {
			return err
		}
		var have store.Trial
		found, err := w.row(ctx, sqlTrial, []any{t.Campaign, t.Key}, trialFields(&have)...)
		if err != nil {
			return err
		}
		if found && have == t {
			return nil
		}
		if found && have.Terminal() {
			return fmt.Errorf("trial %s of %s is %s: %w", t.Key, t.Campaign, have.Status, store.ErrConflict)
		}
		return w.exec(ctx, sqlPutTrial, t.Campaign, t.Key, t.Order, t.Arm, t.Case, t.Index, t.Room, t.Allotment, t.Status,
			t.Termination, t.TraceDigest, t.Money.Limit, t.Money.Charged, t.Money.Held, t.Money.Unknown)
	})
}

// Trials implements store.Records.
//
// A resume reads the trials of a whole campaign, so they are read in the order
// of their index and sorted here, which takes SQLite longer, and what they have
// in common is kept once.
func (s *Store) Trials(ctx context.Context, campaign string) ([]store.Trial, error) {
	var out []store.Trial
	w := words{}
	err := s.read(ctx, "trials", true, func(v view) error {
		var n int
		if _, err := v.row(ctx, sqlCountTrials, []any{campaign}, &n); err != nil {
			return err
		}
		out = make([]store.Trial, 0, n)
		return v.each(ctx, sqlTrials, []any{campaign}, func(scan func(...any) error) error {
			var t store.Trial
			if err := scan(trialFields(&t)...); err != nil {
				return err
			}
			w.share(&t.Campaign, &t.Arm, &t.Case, &t.Allotment, &t.Status, &t.Termination)
			out = append(out, t)
			return nil
		})
	})
	slices.SortFunc(out, store.CompareTrials)
	return out, err
}

// PutTrace implements store.Records.
func (s *Store) PutTrace(ctx context.Context, campaign, key, digest string, content []byte) error {
	content = bytes.Clone(content)
	return s.write(ctx, "put trace", false, func(ctx context.Context, w *writer) error {
		if err := w.campaignExists(ctx, campaign); err != nil {
			return err
		}
		var haveDigest string
		var have []byte
		found, err := w.row(ctx, sqlTrace, []any{campaign, key}, &haveDigest, &have)
		if err != nil {
			return err
		}
		if found {
			if haveDigest != digest || !bytes.Equal(have, content) {
				return fmt.Errorf("trace %s of %s: %w", key, campaign, store.ErrExists)
			}
			return nil
		}
		return w.exec(ctx, sqlInsertTrace, campaign, key, digest, content)
	})
}

// Trace implements store.Records.
func (s *Store) Trace(ctx context.Context, campaign, key string) (digest string, content []byte, err error) {
	err = s.read(ctx, "trace", false, func(v view) error {
		found, err := v.row(ctx, sqlTrace, []any{campaign, key}, &digest, &content)
		if err == nil && !found {
			err = fmt.Errorf("trace %s of %s: %w", key, campaign, store.ErrNotFound)
		}
		return err
	})
	return digest, content, err
}
