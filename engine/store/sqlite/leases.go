package sqlite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/agentrooms/qualify/engine/store"
)

// now is the time of the database's clock, read inside the transaction.
func (w *writer) now(ctx context.Context) (time.Time, error) {
	if w.store.opts.Now != nil {
		return store.LeaseTime(w.store.opts.Now()), nil
	}
	var us int64
	_, err := w.row(ctx, sqlNow, nil, &us)
	return time.UnixMicro(us).UTC(), err
}

func (w *writer) lease(ctx context.Context, name string) (store.Lease, error) {
	l := store.Lease{Name: name}
	var us int64
	found, err := w.row(ctx, sqlLease, []any{name}, &l.Token, &l.Owner, &l.Generation, &us)
	if found {
		l.ExpiresAt = time.UnixMicro(us).UTC()
	}
	return l, err
}

func (w *writer) putLease(ctx context.Context, l store.Lease) error {
	clear(w.fences) // what has been found out about leases may have changed
	return w.exec(ctx, sqlPutLease, l.Name, l.Token, l.Owner, l.Generation, l.ExpiresAt.UnixMicro())
}

// AcquireLease implements store.Records.
func (s *Store) AcquireLease(ctx context.Context, name, token, owner string, ttl time.Duration) (store.Lease, error) {
	if err := store.CheckLease(name, token, ttl); err != nil {
		return store.Lease{}, err
	}
	var out, holder store.Lease
	err := s.write(ctx, "acquire lease", false, func(ctx context.Context, w *writer) error {
		now, err := w.now(ctx)
		if err != nil {
			return err
		}
		have, err := w.lease(ctx, name)
		if err != nil {
			return err
		}
		want := store.Lease{Name: name, Token: token, Owner: owner, ExpiresAt: store.LeaseTime(now.Add(ttl))}
		l, err := store.Acquire(have, now, want)
		if err != nil {
			holder = l
			return err
		}
		out = l
		return w.putLease(ctx, l)
	})
	switch {
	case errors.Is(err, store.ErrExists):
		return holder, err
	case err != nil:
		return store.Lease{}, err
	}
	return out, nil
}

// RenewLease implements store.Records.
func (s *Store) RenewLease(ctx context.Context, name, token string, ttl time.Duration) (store.Lease, error) {
	return s.extendLease(ctx, "renew lease", name, token, ttl, func(l store.Lease, now time.Time) error {
		if !l.HeldBy(token, now) {
			return fmt.Errorf("renew lease %s: %w", name, store.ErrLeaseLost)
		}
		return nil
	})
}

// KeepLease implements store.Records.
func (s *Store) KeepLease(ctx context.Context, name, token string, ttl time.Duration) (store.Lease, error) {
	return s.extendLease(ctx, "keep lease", name, token, ttl, func(l store.Lease, _ time.Time) error {
		return store.Fence{Name: name, Token: token}.Check(l)
	})
}

// extendLease gives a lease that passes the check a new end.
func (s *Store) extendLease(ctx context.Context, what, name, token string, ttl time.Duration, check func(store.Lease, time.Time) error) (store.Lease, error) {
	if err := store.CheckLease(name, token, ttl); err != nil {
		return store.Lease{}, err
	}
	var out store.Lease
	err := s.write(ctx, what, false, func(ctx context.Context, w *writer) error {
		now, err := w.now(ctx)
		if err != nil {
			return err
		}
		l, err := w.lease(ctx, name)
		if err != nil {
			return err
		}
		if err := check(l, now); err != nil {
			return err
		}
		l.ExpiresAt = store.LeaseTime(now.Add(ttl))
		out = l
		return w.putLease(ctx, l)
	})
	if err != nil {
		return store.Lease{}, err
	}
	return out, nil
}

// ReleaseLease implements store.Records.
func (s *Store) ReleaseLease(ctx context.Context, name, token string) error {
	return s.write(ctx, "release lease", false, func(ctx context.Context, w *writer) error {
		l, err := w.lease(ctx, name)
		if err != nil {
			return err
		}
		if token == "" || l.Token != token {
			return fmt.Errorf("release lease %s: %w", name, store.ErrLeaseLost)
		}
		return w.putLease(ctx, store.Lease{Name: name, Generation: l.Generation, ExpiresAt: time.UnixMicro(0)})
	})
}

// BreakLease implements store.Records.
func (s *Store) BreakLease(ctx context.Context, name string, generation int64) error {
	return s.write(ctx, "break lease", false, func(ctx context.Context, w *writer) error {
		have, err := w.lease(ctx, name)
		if err != nil {
			return err
		}
		l, changed, err := store.Break(have, generation)
		if err != nil || !changed {
			return err
		}
		return w.putLease(ctx, l)
	})
}

// Leases implements store.Records.
func (s *Store) Leases(ctx context.Context) ([]store.Lease, error) {
	var out []store.Lease
	err := s.read(ctx, "leases", true, func(v view) error {
		now, err := v.now(ctx)
		if err != nil {
			return err
		}
		return v.each(ctx, sqlLeases, nil, func(scan func(...any) error) error {
			var l store.Lease
			var us int64
			if err := scan(&l.Name, &l.Token, &l.Owner, &l.Generation, &us); err != nil {
				return err
			}
			l.ExpiresAt = time.UnixMicro(us).UTC()
			if l.HeldBy(l.Token, now) {
				out = append(out, l)
			}
			return nil
		})
	})
	return out, err
}

// now is the time of the database's clock.
func (v view) now(ctx context.Context) (time.Time, error) {
	if v.store.opts.Now != nil {
		return store.LeaseTime(v.store.opts.Now()), nil
	}
	var us int64
	_, err := v.row(ctx, sqlNow, nil, &us)
	return time.UnixMicro(us).UTC(), err
}

// AppendSeal implements store.Records. It is flushed to the disk whatever the
// funds, because a freeze proves something only if it cannot be lost.
func (s *Store) AppendSeal(ctx context.Context, kind string, body []byte) (store.SealRow, error) {
	return s.appendSeal(ctx, nil, kind, body)
}

// AppendSealAfter implements store.Records. The head is compared in the
// transaction that appends.
func (s *Store) AppendSealAfter(ctx context.Context, head, kind string, body []byte) (store.SealRow, error) {
	return s.appendSeal(ctx, &head, kind, body)
}

// appendSeal appends to the seal log, behind the row of digest head if given.
func (s *Store) appendSeal(ctx context.Context, head *string, kind string, body []byte) (store.SealRow, error) {
	body = bytes.Clone(body)
	var out store.SealRow
	err := s.write(ctx, "append seal", true, func(ctx context.Context, w *writer) error {
		var last store.SealRow
		if _, err := w.row(ctx, sqlLastSeal, nil, &last.N, &last.Digest); err != nil {
			return err
		}
		r, err := store.NextSeal(last, head, kind, body)
		if err != nil {
			return err
		}
		out = r
		return w.exec(ctx, sqlInsertSeal, r.N, r.Kind, r.Body, r.Prev, r.Digest)
	})
	if err != nil {
		return store.SealRow{}, err
	}
	out.Body = bytes.Clone(out.Body)
	return out, nil
}

// SealLog implements store.Records.
func (s *Store) SealLog(ctx context.Context) ([]store.SealRow, error) {
	var out []store.SealRow
	err := s.read(ctx, "seal log", false, func(v view) error {
		return v.each(ctx, sqlSeals, nil, func(scan func(...any) error) error {
			var r store.SealRow
			if err := scan(&r.N, &r.Kind, &r.Body, &r.Prev, &r.Digest); err != nil {
				return err
			}
			out = append(out, r)
			return nil
		})
	})
	return out, err
}
