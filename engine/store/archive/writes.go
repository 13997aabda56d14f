package archive

import (
	"context"
	"fmt"
	"time"

	"github.com/agentrooms/qualify/engine/store"
)

// readOnly is the answer to everything that would write.
func readOnly(what string) error {
	return fmt.Errorf("%s: a bundle is never written to: %w", what, store.ErrReadOnly)
}

// CreateRoom implements store.Rooms: ErrReadOnly.
func (s *Store) CreateRoom(context.Context, store.NewRoom) error { return readOnly("create room") }

// Commit implements store.Rooms: ErrReadOnly.
func (s *Store) Commit(context.Context, store.Commit) (*store.Committed, error) {
	return nil, readOnly("commit")
}

// MarkDispatched implements store.Rooms: ErrReadOnly.
func (s *Store) MarkDispatched(context.Context, string, string) error { return readOnly("dispatch") }

// PutReceipt implements store.Rooms: ErrReadOnly.
func (s *Store) PutReceipt(context.Context, string, store.Receipt, []store.Blob) error {
	return readOnly("put receipt")
}

// PutEffect implements store.Rooms: ErrReadOnly.
func (s *Store) PutEffect(context.Context, store.Effect, []store.Blob) error {
	return readOnly("put effect")
}

// Reconcile implements store.Rooms: ErrReadOnly.
func (s *Store) Reconcile(context.Context, string, string, store.Reconciliation) error {
	return readOnly("reconcile")
}

// GrantRoom implements store.Rooms: ErrReadOnly.
func (s *Store) GrantRoom(context.Context, string, int64, []string) (store.Head, error) {
	return store.Head{}, readOnly("grant to a room")
}

// PutSnapshot implements store.Rooms: ErrReadOnly.
func (s *Store) PutSnapshot(context.Context, string, store.Snapshot) error {
	return readOnly("put snapshot")
}

// CloseRoom implements store.Rooms: ErrReadOnly.
func (s *Store) CloseRoom(context.Context, string, string, int64) error {
	return readOnly("close room")
}

// Delivered implements store.Rooms: ErrReadOnly.
func (s *Store) Delivered(context.Context, string, string) error { return readOnly("mark delivered") }

// EnsureCeiling implements store.Records: ErrReadOnly.
func (s *Store) EnsureCeiling(context.Context, string, store.Funds, int64) (store.Ceiling, error) {
	return store.Ceiling{}, readOnly("open a ceiling")
}

// Grant implements store.Records: ErrReadOnly.
func (s *Store) Grant(context.Context, string, store.Funds, int64, []string) (store.Ceiling, error) {
	return store.Ceiling{}, readOnly("grant")
}

// Allot implements store.Records: ErrReadOnly.
func (s *Store) Allot(context.Context, store.Allotment) (store.Allotment, error) {
	return store.Allotment{}, readOnly("allot")
}

// Release implements store.Records: ErrReadOnly.
func (s *Store) Release(context.Context, string, int64, int64) (store.Allotment, error) {
	return store.Allotment{}, readOnly("release")
}

// Enqueue implements store.Records: ErrReadOnly.
func (s *Store) Enqueue(context.Context, store.Allotment) (store.Ticket, error) {
	return store.Ticket{}, readOnly("enqueue")
}

// Dequeue implements store.Records: ErrReadOnly.
func (s *Store) Dequeue(context.Context, string, store.Funds, string) error {
	return readOnly("dequeue")
}

// PutCampaign implements store.Records: ErrReadOnly.
func (s *Store) PutCampaign(context.Context, store.Campaign) error { return readOnly("put campaign") }

// SetCampaignStatus implements store.Records: ErrReadOnly.
func (s *Store) SetCampaignStatus(context.Context, string, string, []byte) error {
	return readOnly("set campaign status")
}

// PutTrial implements store.Records: ErrReadOnly.
func (s *Store) PutTrial(context.Context, store.Trial) error { return readOnly("put trial") }

// PutTrace implements store.Records: ErrReadOnly.
func (s *Store) PutTrace(context.Context, string, string, string, []byte) error {
	return readOnly("put trace")
}

// AcquireLease implements store.Records: ErrReadOnly.
func (s *Store) AcquireLease(context.Context, string, string, string, time.Duration) (store.Lease, error) {
	return store.Lease{}, readOnly("acquire lease")
}

// RenewLease implements store.Records: ErrReadOnly.
func (s *Store) RenewLease(context.Context, string, string, time.Duration) (store.Lease, error) {
	return store.Lease{}, readOnly("renew lease")
}

// ReleaseLease implements store.Records: ErrReadOnly.
func (s *Store) ReleaseLease(context.Context, string, string) error { return readOnly("release lease") }

// KeepLease implements store.Records: ErrReadOnly.
func (s *Store) KeepLease(context.Context, string, string, time.Duration) (store.Lease, error) {
	return store.Lease{}, readOnly("keep lease")
}

// BreakLease implements store.Records: ErrReadOnly.
func (s *Store) BreakLease(context.Context, string, int64) error { return readOnly("break lease") }

// AppendSeal implements store.Records: ErrReadOnly.
func (s *Store) AppendSeal(context.Context, string, []byte) (store.SealRow, error) {
	return store.SealRow{}, readOnly("append to the seal log")
}

// AppendSealAfter implements store.Records: ErrReadOnly.
func (s *Store) AppendSealAfter(context.Context, string, string, []byte) (store.SealRow, error) {
	return store.SealRow{}, readOnly("append to the seal log")
}
