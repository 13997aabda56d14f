package sqlite

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/storetest"
)

// The statements of every call build no table of their own.
func TestHotStatementsBuildNoTables(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, filepath.Join(t.TempDir(), "s.db"), Options{Create: true})
	for _, q := range []string{sqlAdvanceHead, sqlInsertRow, sqlInsertOp, sqlSettleOp, sqlDispatchOp, sqlUpdateMoney, sqlInsertBlob, sqlInsertEffect} {
		args := make([]any, strings.Count(q, "?"))
		explain := func() error {
			rows, err := s.reads.QueryContext(t.Context(), "EXPLAIN "+q, args...)
			if err != nil {
				return err
			}
			defer func() { _ = rows.Close() }()
			for rows.Next() {
				var at, p1, p2, p3, p5 int
				var op string
				var p4, comment any
				if err := rows.Scan(&at, &op, &p1, &p2, &p3, &p4, &p5, &comment); err != nil {
					return err
				}
				if op == "OpenEphemeral" {
					t.Errorf("%s opens a table at step %d", firstWords(q), at)
				}
			}
			return rows.Err()
		}
		must(t, explain())
	}
}

// What may stand in status and outcome is what the first step declared.
func TestChecksOfOperationsHold(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "s.db")
	s := mustOpen(t, path, Options{Create: true})
	must(t, s.CreateRoom(ctx, storetest.NewRoom("r", 100)))
	c := storetest.Next(store.Head{Room: "r", Rev: -1}, "first")
	c.Ops = []store.Op{storetest.Op("r", "a", 1)}
	_, err := s.Commit(ctx, c)
	must(t, err)
	set := func(column, value string) error {
		return s.write(ctx, "set", false, func(ctx context.Context, w *writer) error {
			return w.exec(ctx, "UPDATE operation SET "+column+" = "+value)
		})
	}
	for _, status := range []store.OpStatus{
		store.OpReserved, store.OpRefused, store.OpDispatched, store.OpSettledOK, store.OpSettledFailed, store.OpUncertain, store.OpReleased,
	} {
		if err := set("status", "'"+string(status)+"'"); err != nil {
			t.Error(err)
		}
	}
	for _, outcome := range []string{"'ok'", "'failed'", "'unknown'", "NULL"} {
		if err := set("outcome", outcome); err != nil {
			t.Error(err)
		}
	}
	for column, value := range map[string]string{"status": "'done'", "outcome": "'maybe'", "reserved": "-1", "acknowledged": "2"} {
		if err := set(column, value); !errors.Is(err, store.ErrInvalid) {
			t.Errorf("%s = %s: %v", column, value, err)
		}
	}
	var sound string
	must(t, s.reads.QueryRowContext(ctx, "PRAGMA integrity_check").Scan(&sound))
	if sound != "ok" {
		t.Error(sound)
	}
}
