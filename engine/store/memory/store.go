// Package memory is a store that lives and dies with the process: both ports
// of engine/store under one mutex, deep copies in and out. It serves tests and
// dry runs, and is the second implementation that the SQLite store is compared
// with.
//
// Stability: may change between versions.
package memory

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/agentrooms/qualify/engine/store"
)

var _ store.Store = (*Store)(nil)

// Options of a memory store.
type Options struct {
	// Now is the clock of leases. Nil means a clock that stands still: leases
	// are then never lost by time.
	Now func() time.Time
}

// Store keeps everything in maps. Make one with New; it is safe for
// concurrent use.
type Store struct {
	now func() time.Time

	mu         sync.Mutex
	closed     bool
	writes     int64
	rooms      map[string]*room
	ceilings   map[ceilingKey]*store.Ceiling
	allotments []*store.Allotment // in order of grant
	allotment  map[string]*store.Allotment
	weights    map[purseKey]int64 // of each campaign's allotments
	tickets    []store.Ticket     // in order of arrival, dead ones too
	arrivals   int64              // tickets ever given
	ledger     []store.LedgerRow
	campaigns  []*store.Campaign // in order of creation
	campaign   map[string]*store.Campaign
	trials     map[trialKey]store.Trial
	traces     map[trialKey]trace
	leases     map[string]store.Lease
	seals      []store.SealRow
}

type ceilingKey struct {
	name  string
	funds store.Funds
}

type purseKey struct {
	campaign string
	funds    store.Funds
}

type trialKey struct{ campaign, key string }

type trace struct {
	digest  string
	content []byte
}

// New makes an empty store.
func New(opts Options) *Store {
	now := opts.Now
	if now == nil {
		now = func() time.Time { return time.Unix(0, 0) }
	}
	return &Store{
		now:       now,
		rooms:     map[string]*room{},
		ceilings:  map[ceilingKey]*store.Ceiling{},
		allotment: map[string]*store.Allotment{},
		weights:   map[purseKey]int64{},
		campaign:  map[string]*store.Campaign{},
		trials:    map[trialKey]store.Trial{},
		traces:    map[trialKey]trace{},
		leases:    map[string]store.Lease{},
	}
}

// enter locks the store for one call; the caller unlocks when err is nil.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("memory store: %w", err)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return store.ErrClosed
	}
	return nil
}

// enterWrite is enter for a call that writes: it also checks the fence of ctx.
func (s *Store) enterWrite(ctx context.Context) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	f, ok := store.FenceOf(ctx)
	if !ok {
		return nil
	}
	if err := f.Check(s.leases[f.Name]); err != nil {
		s.mu.Unlock()
		return err
	}
	return nil
}

// Stats implements store.Store. Every logical write is a commit of its own.
func (s *Store) Stats(ctx context.Context) (store.Stats, error) {
	if err := s.enter(ctx); err != nil {
		return store.Stats{}, err
	}
	defer s.mu.Unlock()
	return store.Stats{Commits: s.writes, Writes: s.writes, Detail: map[string]string{"driver": "memory"}}, nil
}

// Close implements store.Store. Closing twice is allowed.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}
