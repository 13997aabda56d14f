package main

import (
	"context"

	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
)

// crashStore passes the crash point after_write behind every write of a store,
// so that tests can end the process after each single one: room commits, marks
// and receipts, but also allotments, traces and trial records.
type crashStore struct {
	store.Store
	crash *runtime.Crash
}

// crashing wraps a store when a crash point of writes is set.
func crashing(st store.Store, c *runtime.Crash) store.Store {
	if c == nil || c.Point != runtime.AfterWrite {
		return st
	}
	return crashStore{st, c}
}

// after passes the point behind a write that succeeded.
func (s crashStore) after(err error) error {
	if err != nil {
		return err
	}
	return s.crash.Pass(runtime.AfterWrite)
}

func (s crashStore) CreateRoom(ctx context.Context, r store.NewRoom) error {
	return s.after(s.Store.CreateRoom(ctx, r))
}

func (s crashStore) Commit(ctx context.Context, c store.Commit) (*store.Committed, error) {
	res, err := s.Store.Commit(ctx, c)
	return res, s.after(err)
}

func (s crashStore) MarkDispatched(ctx context.Context, room, op string) error {
	return s.after(s.Store.MarkDispatched(ctx, room, op))
}

func (s crashStore) PutReceipt(ctx context.Context, room string, r store.Receipt, blobs []store.Blob) error {
	return s.after(s.Store.PutReceipt(ctx, room, r, blobs))
}

func (s crashStore) PutEffect(ctx context.Context, e store.Effect, blobs []store.Blob) error {
	return s.after(s.Store.PutEffect(ctx, e, blobs))
}

func (s crashStore) Reconcile(ctx context.Context, room, op string, r store.Reconciliation) error {
	return s.after(s.Store.Reconcile(ctx, room, op, r))
}

func (s crashStore) PutSnapshot(ctx context.Context, room string, snap store.Snapshot) error {
	return s.after(s.Store.PutSnapshot(ctx, room, snap))
}

func (s crashStore) CloseRoom(ctx context.Context, room, termination string, atUS int64) error {
	return s.after(s.Store.CloseRoom(ctx, room, termination, atUS))
}

func (s crashStore) Delivered(ctx context.Context, room, id string) error {
	return s.after(s.Store.Delivered(ctx, room, id))
}

func (s crashStore) EnsureCeiling(ctx context.Context, name string, funds store.Funds, limit int64) (store.Ceiling, error) {
	c, err := s.Store.EnsureCeiling(ctx, name, funds, limit)
	return c, s.after(err)
}

func (s crashStore) Allot(ctx context.Context, a store.Allotment) (store.Allotment, error) {
	a, err := s.Store.Allot(ctx, a)
	return a, s.after(err)
}

func (s crashStore) Release(ctx context.Context, id string, charged, keep int64) (store.Allotment, error) {
	a, err := s.Store.Release(ctx, id, charged, keep)
	return a, s.after(err)
}

func (s crashStore) Enqueue(ctx context.Context, a store.Allotment) (store.Ticket, error) {
	t, err := s.Store.Enqueue(ctx, a)
	return t, s.after(err)
}

func (s crashStore) Dequeue(ctx context.Context, ceiling string, funds store.Funds, campaign string) error {
	return s.after(s.Store.Dequeue(ctx, ceiling, funds, campaign))
}

func (s crashStore) PutCampaign(ctx context.Context, c store.Campaign) error {
	return s.after(s.Store.PutCampaign(ctx, c))
}

func (s crashStore) SetCampaignStatus(ctx context.Context, id, status string, totals []byte) error {
	return s.after(s.Store.SetCampaignStatus(ctx, id, status, totals))
}

func (s crashStore) PutTrial(ctx context.Context, t store.Trial) error {
	return s.after(s.Store.PutTrial(ctx, t))
}

func (s crashStore) PutTrace(ctx context.Context, campaign, key, digest string, content []byte) error {
	return s.after(s.Store.PutTrace(ctx, campaign, key, digest, content))
}

func (s crashStore) AppendSeal(ctx context.Context, kind string, body []byte) (store.SealRow, error) {
	r, err := s.Store.AppendSeal(ctx, kind, body)
	return r, s.after(err)
}

func (s crashStore) AppendSealAfter(ctx context.Context, head, kind string, body []byte) (store.SealRow, error) {
	r, err := s.Store.AppendSealAfter(ctx, head, kind, body)
	return r, s.after(err)
}
