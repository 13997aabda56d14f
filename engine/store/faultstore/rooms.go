package faultstore

import (
	"context"

	"github.com/agentrooms/qualify/engine/store"
)

// CreateRoom implements store.Rooms.
func (s *Store) CreateRoom(ctx context.Context, r store.NewRoom) error {
	return do(ctx, s, "CreateRoom", func() error { return s.inner.CreateRoom(ctx, r) })
}

// Load implements store.Rooms.
func (s *Store) Load(ctx context.Context, room string) (*store.Loaded, error) {
	return call(ctx, s, "Load", func() (*store.Loaded, error) { return s.inner.Load(ctx, room) })
}

// LoadTail implements store.Rooms.
func (s *Store) LoadTail(ctx context.Context, room string) (*store.Loaded, error) {
	return call(ctx, s, "LoadTail", func() (*store.Loaded, error) { return s.inner.LoadTail(ctx, room) })
}

// LoadOps implements store.Rooms.
func (s *Store) LoadOps(ctx context.Context, room string, ids []string) (*store.Loaded, error) {
	return call(ctx, s, "LoadOps", func() (*store.Loaded, error) { return s.inner.LoadOps(ctx, room, ids) })
}

// Rows implements store.Rooms.
func (s *Store) Rows(ctx context.Context, room string, after int64, limit int) ([]store.Row, error) {
	return call(ctx, s, "Rows", func() ([]store.Row, error) { return s.inner.Rows(ctx, room, after, limit) })
}

// Commit implements store.Rooms.
func (s *Store) Commit(ctx context.Context, c store.Commit) (*store.Committed, error) {
	return call(ctx, s, "Commit", func() (*store.Committed, error) { return s.inner.Commit(ctx, c) })
}

// MarkDispatched implements store.Rooms.
func (s *Store) MarkDispatched(ctx context.Context, room, op string) error {
	return do(ctx, s, "MarkDispatched", func() error { return s.inner.MarkDispatched(ctx, room, op) })
}

// PutReceipt implements store.Rooms.
func (s *Store) PutReceipt(ctx context.Context, room string, r store.Receipt, blobs []store.Blob) error {
	return do(ctx, s, "PutReceipt", func() error { return s.inner.PutReceipt(ctx, room, r, blobs) })
}

// PutEffect implements store.Rooms.
func (s *Store) PutEffect(ctx context.Context, e store.Effect, blobs []store.Blob) error {
	return do(ctx, s, "PutEffect", func() error { return s.inner.PutEffect(ctx, e, blobs) })
}

// Reconcile implements store.Rooms.
func (s *Store) Reconcile(ctx context.Context, room, op string, r store.Reconciliation) error {
	return do(ctx, s, "Reconcile", func() error { return s.inner.Reconcile(ctx, room, op, r) })
}

// GrantRoom implements store.Rooms.
func (s *Store) GrantRoom(ctx context.Context, room string, total int64, ackOps []string) (store.Head, error) {
	return call(ctx, s, "GrantRoom", func() (store.Head, error) { return s.inner.GrantRoom(ctx, room, total, ackOps) })
}

// PutSnapshot implements store.Rooms.
func (s *Store) PutSnapshot(ctx context.Context, room string, snap store.Snapshot) error {
	return do(ctx, s, "PutSnapshot", func() error { return s.inner.PutSnapshot(ctx, room, snap) })
}

// CloseRoom implements store.Rooms.
func (s *Store) CloseRoom(ctx context.Context, room, termination string, atUS int64) error {
	return do(ctx, s, "CloseRoom", func() error { return s.inner.CloseRoom(ctx, room, termination, atUS) })
}

// Blobs implements store.Rooms.
func (s *Store) Blobs(ctx context.Context, room string, digests []string) (map[string][]byte, error) {
	return call(ctx, s, "Blobs", func() (map[string][]byte, error) { return s.inner.Blobs(ctx, room, digests) })
}

// Outbox implements store.Rooms.
func (s *Store) Outbox(ctx context.Context, room string) ([]store.OutboxEntry, error) {
	return call(ctx, s, "Outbox", func() ([]store.OutboxEntry, error) { return s.inner.Outbox(ctx, room) })
}

// Delivered implements store.Rooms.
func (s *Store) Delivered(ctx context.Context, room, id string) error {
	return do(ctx, s, "Delivered", func() error { return s.inner.Delivered(ctx, room, id) })
}

// Lookup implements store.Rooms.
func (s *Store) Lookup(ctx context.Context, room, space string, keys []string) (map[string]string, error) {
	return call(ctx, s, "Lookup", func() (map[string]string, error) { return s.inner.Lookup(ctx, room, space, keys) })
}

// ListRooms implements store.Rooms.
func (s *Store) ListRooms(ctx context.Context, prefix string) ([]store.Head, error) {
	return call(ctx, s, "ListRooms", func() ([]store.Head, error) { return s.inner.ListRooms(ctx, prefix) })
}
