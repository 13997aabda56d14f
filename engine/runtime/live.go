package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/agentrooms/qualify/engine/store"
)

// Leases is the part of store.Records that rooms need to be ticked by one
// process at a time.
type Leases interface {
	AcquireLease(ctx context.Context, name, token, owner string, ttl time.Duration) (store.Lease, error)
	KeepLease(ctx context.Context, name, token string, ttl time.Duration) (store.Lease, error)
	ReleaseLease(ctx context.Context, name, token string) error
}

// Live is the configuration of a room that stays open: events come from
// outside (Append) whenever they come, any process works the room to rest
// (Tick), and nothing ever closes it. Config.Clock must be Wall and
// Config.Owner nil; times are microseconds since 1970. Limits are not used
// but for the budget, which new rooms start with.
type Live struct {
	Config

	// Authority lists the participants authorized now. It is read before every
	// commit and before every dispatch (R12); its error stops the work with
	// nothing changed. Nil authorizes all. It replaces Config.Eligible and
	// Config.Authorized.
	Authority func(ctx context.Context) ([]string, error)
	// Always lists agents that need no authority: the engine's own voice.
	Always []string
	// Leases of the same store. Required by Tick.
	Leases Leases
	// Lease is how long this process owns the room without renewing it; zero
	// means 30 s (R43). It is renewed every third of it while a Tick works.
	Lease time.Duration
	// Holder names this process to people.
	Holder string
	// Now is the clock of events; nil is the machine's. Leases go by the
	// store's clock.
	Now func() time.Time
	// Wake may end a wait for calls early, for what another part of this
	// process has appended to the room.
	Wake <-chan struct{}
	// Events bounds how many events one Tick folds; zero means 1,000.
	Events int
}

const (
	defaultLease  = 30 * time.Second
	defaultEvents = 1_000
	// A room that stays open is loaded for every event, by whatever process has
	// it, so a short tail is worth more there than a write less.
	liveSnapshotBytes = 16 << 10
)

func (l Live) withDefaults() (Live, error) {
	if l.Clock != Wall || l.Owner != nil {
		return l, errors.New("runtime: a room that stays open runs on wall time and has no scripted owner")
	}
	if l.SnapshotBytes == 0 {
		l.SnapshotBytes = liveSnapshotBytes
	}
	var err error
	if l.Config, err = l.Config.withDefaults(); err != nil {
		return l, err
	}
	if l.Lease == 0 {
		l.Lease = defaultLease
	}
	if l.Events == 0 {
		l.Events = defaultEvents
	}
	if l.Lease < 0 || l.Events < 0 {
		return l, fmt.Errorf("runtime: lease %s, %d events", l.Lease, l.Events)
	}
	l.Eligible, l.Authorized = nil, nil
	return l, nil
}

// authorize reads who is authorized now and has the run go by it.
func (l *Live) authorize(ctx context.Context, r *run) ([]string, error) {
	if l.Authority == nil {
		return nil, nil
	}
	ids, err := l.Authority(ctx)
	if err != nil {
		return nil, fmt.Errorf("room %s: who is authorized: %w", l.Room, err)
	}
	r.cfg.Eligible = func() []string { return ids }
	r.cfg.Authorized = func(agent string) bool { return l.allows(ids, agent) }
	return ids, nil
}

func (l *Live) allows(ids []string, agent string) bool {
	return l.Authority == nil || slices.Contains(l.Always, agent) || slices.Contains(ids, agent)
}

// RoomLease is the name of the lease under which a room is ticked.
func RoomLease(room string) string { return "room/" + room }
