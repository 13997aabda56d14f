package store

import (
	"fmt"
	"time"
)

// CheckLease refuses a lease without name, token or time: ErrInvalid.
func CheckLease(name, token string, ttl time.Duration) error {
	if name == "" || token == "" || ttl <= 0 {
		return fmt.Errorf("lease %q, token %q, ttl %s: %w", name, token, ttl, ErrInvalid)
	}
	return nil
}

// LeaseTime is t as stores keep it: UTC, whole microseconds.
func LeaseTime(t time.Time) time.Time { return time.UnixMicro(t.UnixMicro()).UTC() }

// HeldBy reports whether token owns the lease at store time now. It does up to
// and including the time of expiry (R48).
func (l Lease) HeldBy(token string, now time.Time) bool {
	return l.Token != "" && l.Token == token && !now.After(l.ExpiresAt)
}

// Acquire is the lease after want asked for it at store time now. A live lease
// of the same token is renewed under its generation; a free or expired one is
// taken with the next generation. ErrExists, with the live lease, when another
// token holds it.
func Acquire(have Lease, now time.Time, want Lease) (Lease, error) {
	if have.HeldBy(have.Token, now) {
		if have.Token != want.Token {
			return have, fmt.Errorf("lease %s is held by %s until %s: %w", want.Name, have.Owner, have.ExpiresAt.Format(time.RFC3339), ErrExists)
		}
		want.Generation = have.Generation
		return want, nil
	}
	want.Generation = have.Generation + 1
	return want, nil
}

// Break is the lease after it was broken under a generation. It reports false
// for one that is free under that generation already. ErrLeaseLost: the lease
// has gone on to another generation.
func Break(have Lease, generation int64) (Lease, bool, error) {
	if have.Generation != generation {
		return have, false, fmt.Errorf("break lease %s: generation %d, not %d: %w", have.Name, have.Generation, generation, ErrLeaseLost)
	}
	if have.Token == "" {
		return have, false, nil
	}
	return Lease{Name: have.Name, Generation: have.Generation, ExpiresAt: time.UnixMicro(0).UTC()}, true, nil
}
