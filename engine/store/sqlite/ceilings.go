package sqlite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/engine/store"
)

type ceilingRow struct {
	c        store.Ceiling
	overruns string
}

func (r *ceilingRow) fields() []any {
	c := &r.c
	return []any{&c.Name, &c.Funds, &c.Limit, &c.Charged, &c.Held, &c.MaxSum, &c.Halted, &r.overruns}
}

func (r *ceilingRow) finish() (store.Ceiling, error) {
	if err := json.Unmarshal([]byte(r.overruns), &r.c.Overruns); err != nil {
		return r.c, fmt.Errorf("ceiling %s: overruns: %w: %w", r.c.Name, store.ErrCorrupt, err)
	}
	return r.c, nil
}

func (w *writer) ceiling(ctx context.Context, name string, funds store.Funds) (c store.Ceiling, found bool, err error) {
	var r ceilingRow
	found, err = w.row(ctx, sqlCeiling, []any{name, string(funds)}, r.fields()...)
	if err != nil || !found {
		return c, found, err
	}
	c, err = r.finish()
	return c, true, err
}

func noCeiling(name string, funds store.Funds) error {
	return fmt.Errorf("ceiling %s of %s funds: %w", name, funds, store.ErrNotFound)
}

// putCeiling stores the ceiling after a move, with the ledger rows of it.
func (w *writer) putCeiling(ctx context.Context, c *store.Ceiling, rows ...store.LedgerRow) error {
	refs := c.Overruns
	if refs == nil {
		refs = []string{}
	}
	overruns, err := json.Marshal(refs)
	if err != nil {
		return fmt.Errorf("encode overruns: %w", err)
	}
	if err := w.exec(ctx, sqlPutCeiling, c.Name, string(c.Funds), c.Limit, c.Charged, c.Held, c.MaxSum, c.Halted, string(overruns)); err != nil {
		return err
	}
	for i := range rows {
		r := &rows[i]
		if err := w.exec(ctx, sqlInsertLedger, r.Ceiling, string(r.Funds), r.Kind, r.Ref, r.Campaign, r.DeltaCharged, r.DeltaHeld,
			r.Limit, r.Charged, r.Held); err != nil {
			return err
		}
	}
	return nil
}

// EnsureCeiling implements store.Records.
func (s *Store) EnsureCeiling(ctx context.Context, name string, funds store.Funds, limit int64) (store.Ceiling, error) {
	made, row, err := store.NewCeiling(name, funds, limit)
	if err != nil {
		return store.Ceiling{}, err
	}
	var out store.Ceiling
	err = s.write(ctx, "ceiling "+name, funds == store.FundsReal, func(ctx context.Context, w *writer) error {
		have, found, err := w.ceiling(ctx, name, funds)
		if err != nil {
			return err
		}
		if found {
			out = have
			return nil
		}
		out = made
		return w.putCeiling(ctx, &made, row)
	})
	if err != nil {
		return store.Ceiling{}, err
	}
	return out, nil
}

// Grant implements store.Records.
func (s *Store) Grant(ctx context.Context, name string, funds store.Funds, total int64, ackOps []string) (store.Ceiling, error) {
	ack := slices.Clone(ackOps)
	var out store.Ceiling
	err := s.write(ctx, "grant", funds == store.FundsReal, func(ctx context.Context, w *writer) error {
		c, found, err := w.ceiling(ctx, name, funds)
		if err != nil {
			return err
		}
		if !found {
			return noCeiling(name, funds)
		}
		rows, err := c.Grant(total, ack)
		if err != nil {
			return err
		}
		out = c
		return w.putCeiling(ctx, &c, rows...)
	})
	if err != nil {
		return store.Ceiling{}, err
	}
	return out, nil
}

// Ceilings implements store.Records: by name, then funds.
func (s *Store) Ceilings(ctx context.Context) ([]store.Ceiling, error) {
	var out []store.Ceiling
	err := s.read(ctx, "ceilings", false, func(v view) error {
		return v.each(ctx, sqlCeilings, nil, func(scan func(...any) error) error {
			var r ceilingRow
			if err := scan(r.fields()...); err != nil {
				return err
			}
			c, err := r.finish()
			out = append(out, c)
			return err
		})
	})
	return out, err
}

func allotmentFields(a *store.Allotment) []any {
	return []any{&a.ID, &a.Ceiling, &a.Funds, &a.Campaign, &a.Sum, &a.CampaignCap, &a.Released, &a.Charged, &a.Kept}
}

// Allot implements store.Records.
func (s *Store) Allot(ctx context.Context, a store.Allotment) (store.Allotment, error) {
	if err := store.CheckAllotment(&a); err != nil {
		return store.Allotment{}, err
	}
	a.Released, a.Charged, a.Kept = false, 0, 0
	var out store.Allotment
	err := s.write(ctx, "allot", a.Funds == store.FundsReal, func(ctx context.Context, w *writer) error {
		var have store.Allotment
		found, err := w.row(ctx, sqlAllotment, []any{a.ID}, allotmentFields(&have)...)
		if err != nil {
			return err
		}
		if found {
			if !store.SameAllotment(&have, &a) {
				return fmt.Errorf("allotment %s: %w", a.ID, store.ErrExists)
			}
			out = have
			return nil
		}
		out = a
		return w.draw(ctx, &a)
	})
	if err != nil {
		return store.Allotment{}, err
	}
	return out, nil
}

func (w *writer) draw(ctx context.Context, a *store.Allotment) error {
	c, found, err := w.ceiling(ctx, a.Ceiling, a.Funds)
	if err != nil {
		return err
	}
	if !found {
		return noCeiling(a.Ceiling, a.Funds)
	}
	waiting, _, err := w.queue(ctx, a.Ceiling, a.Funds)
	if err != nil {
		return err
	}
	if err := store.CheckTurn(a, waiting); err != nil {
		return err
	}
	var used int64
	if _, err := w.row(ctx, sqlPurse, []any{a.Campaign, string(a.Funds)}, &used); err != nil {
		return err
	}
	row, err := c.Draw(a, used)
	if err != nil {
		return err
	}
	if err := w.exec(ctx, sqlInsertAllotment, a.ID, a.Ceiling, string(a.Funds), a.Campaign, a.Sum, a.CampaignCap); err != nil {
		return err
	}
	if err := w.weigh(ctx, nil, a); err != nil {
		return err
	}
	if err := w.exec(ctx, sqlDropTicket, a.Ceiling, string(a.Funds), a.Campaign); err != nil {
		return err
	}
	return w.putCeiling(ctx, &c, row)
}

// Release implements store.Records.
func (s *Store) Release(ctx context.Context, id string, charged, keep int64) (store.Allotment, error) {
	var a store.Allotment
	found := false
	err := s.read(ctx, "release", false, func(v view) (err error) {
		found, err = v.row(ctx, sqlAllotment, []any{id}, allotmentFields(&a)...)
		return err
	})
	if err == nil && !found {
		err = fmt.Errorf("allotment %s: %w", id, store.ErrNotFound)
	}
	if err != nil {
		return store.Allotment{}, err
	}
	var out store.Allotment
	err = s.write(ctx, "release", a.Funds == store.FundsReal, func(ctx context.Context, w *writer) (err error) {
		out, err = w.release(ctx, id, charged, keep)
		return err
	})
	if err != nil {
		return store.Allotment{}, err
	}
	return out, nil
}

func (w *writer) release(ctx context.Context, id string, charged, keep int64) (store.Allotment, error) {
	var a store.Allotment
	if found, err := w.row(ctx, sqlAllotment, []any{id}, allotmentFields(&a)...); err != nil {
		return a, err
	} else if !found {
		return a, fmt.Errorf("allotment %s: %w", id, store.ErrNotFound)
	}
	if a.Released {
		if a.Charged != charged || a.Kept != keep {
			return a, fmt.Errorf("allotment %s: released with charged %d, kept %d: %w", id, a.Charged, a.Kept, store.ErrConflict)
		}
		return a, nil
	}
	c, found, err := w.ceiling(ctx, a.Ceiling, a.Funds)
	if err != nil {
		return a, err
	}
	if !found {
		return a, noCeiling(a.Ceiling, a.Funds)
	}
	before := a
	rows, err := c.Return(&a, charged, keep)
	if err != nil {
		return a, err
	}
	if err := w.weigh(ctx, &before, &a); err != nil {
		return a, err
	}
	if err := w.exec(ctx, sqlReleaseAllotment, charged, keep, id); err != nil {
		return a, err
	}
	return a, w.putCeiling(ctx, &c, rows...)
}

// Allotments implements store.Records: in order of grant.
func (s *Store) Allotments(ctx context.Context, campaign string) ([]store.Allotment, error) {
	var out []store.Allotment
	w := words{}
	err := s.read(ctx, "allotments", false, func(v view) error {
		return v.each(ctx, sqlAllotments, []any{campaign}, func(scan func(...any) error) error {
			var a store.Allotment
			if err := scan(allotmentFields(&a)...); err != nil {
				return err
			}
			w.share(&a.Ceiling, &a.Campaign)
			out = append(out, a)
			return nil
		})
	})
	return out, err
}

// OpenAllotments implements store.Records.
func (s *Store) OpenAllotments(ctx context.Context, ceiling string, funds store.Funds) (store.Ceiling, []store.Allotment, error) {
	var c store.Ceiling
	var out []store.Allotment
	err := s.read(ctx, "open allotments", true, func(v view) error {
		var r ceilingRow
		found, err := v.row(ctx, sqlCeiling, []any{ceiling, string(funds)}, r.fields()...)
		if err != nil {
			return err
		}
		if !found {
			return noCeiling(ceiling, funds)
		}
		if c, err = r.finish(); err != nil {
			return err
		}
		return v.each(ctx, sqlOpenAllotments, []any{ceiling, string(funds)}, func(scan func(...any) error) error {
			var a store.Allotment
			if err := scan(allotmentFields(&a)...); err != nil {
				return err
			}
			out = append(out, a)
			return nil
		})
	})
	if err != nil {
		return store.Ceiling{}, nil, err
	}
	return c, out, nil
}

// Ledger implements store.Records.
func (s *Store) Ledger(ctx context.Context, after int64, limit int) ([]store.LedgerRow, error) {
	if limit <= 0 {
		limit = -1
	}
	var out []store.LedgerRow
	err := s.read(ctx, "ledger", false, func(v view) error {
		return v.each(ctx, sqlLedger, []any{after, limit}, func(scan func(...any) error) error {
			var r store.LedgerRow
			if err := scan(&r.N, &r.Ceiling, &r.Funds, &r.Kind, &r.Ref, &r.Campaign, &r.DeltaCharged, &r.DeltaHeld,
				&r.Limit, &r.Charged, &r.Held); err != nil {
				return err
			}
			out = append(out, r)
			return nil
		})
	})
	return out, err
}
