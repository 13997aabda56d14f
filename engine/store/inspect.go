package store

import "context"

// Inspector is the ability of a store to say how much it holds. Both stores of
// this module have it; a decorator need not.
type Inspector interface {
	// Counts counts what is stored, in one consistent state.
	Counts(ctx context.Context) (Counts, error)
}

// Counts of a store: records of each kind.
type Counts struct {
	Rooms      int64
	Revisions  int64
	Operations int64
	Effects    int64
	Blobs      int64
	Campaigns  int64
	Trials     int64 // records, whatever their status
	Traces     int64
	LedgerRows int64
}
