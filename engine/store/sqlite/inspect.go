package sqlite

import (
	"context"
	"fmt"
	"strings"

	"github.com/agentrooms/qualify/engine/store"
)

var _ store.Inspector = (*Store)(nil)

// sqlCounts counts every kind of record in one statement, so in one state.
const sqlCounts = `SELECT (SELECT count(*) FROM room), (SELECT count(*) FROM revision), (SELECT count(*) FROM operation),
  (SELECT count(*) FROM effect), (SELECT count(*) FROM blob), (SELECT count(*) FROM campaign),
  (SELECT count(*) FROM trial), (SELECT count(*) FROM trace), (SELECT count(*) FROM ledger)`

// Counts implements store.Inspector.
func (s *Store) Counts(ctx context.Context) (store.Counts, error) {
	var c store.Counts
	err := s.read(ctx, "counts", false, func(v view) error {
		_, err := v.row(ctx, sqlCounts, nil, &c.Rooms, &c.Revisions, &c.Operations, &c.Effects, &c.Blobs, &c.Campaigns,
			&c.Trials, &c.Traces, &c.LedgerRows)
		return err
	})
	return c, err
}

// Pragma is one setting or measure of the file, by its name in SQLite.
type Pragma struct {
	Name  string
	Value string
}

// pragmas are what Pragmas reads. The writer sets synchronous for each batch,
// full for real funds, so a reader's value says nothing about it.
var pragmas = []string{
	"journal_mode", "busy_timeout", "foreign_keys", "wal_autocheckpoint", "journal_size_limit", "cache_size",
	"page_size", "page_count", "freelist_count", "user_version", "application_id",
}

// Pragmas reads the settings of a reading connection and the measures of the
// file.
func (s *Store) Pragmas(ctx context.Context) ([]Pragma, error) {
	var out []Pragma
	err := s.read(ctx, "pragmas", false, func(v view) error {
		for _, name := range pragmas {
			p := Pragma{Name: name}
			if _, err := v.row(ctx, "PRAGMA "+name, nil, &p.Value); err != nil {
				return err
			}
			out = append(out, p)
		}
		return nil
	})
	return out, err
}

// Check reads every page of the file. ErrCorrupt names the first faults that
// SQLite finds; a file it finds none in can still hold rows that were changed
// by hand, which their chain of digests shows.
func (s *Store) Check(ctx context.Context) error {
	return s.read(ctx, "check", false, func(v view) error {
		var faults []string
		err := v.each(ctx, "PRAGMA quick_check(3)", nil, func(scan func(...any) error) error {
			var line string
			if err := scan(&line); err != nil {
				return err
			}
			faults = append(faults, line)
			return nil
		})
		if err != nil {
			return err
		}
		if len(faults) == 1 && faults[0] == "ok" {
			return nil
		}
		return fmt.Errorf("check store %s: %s: %w", s.path, strings.Join(faults, "; "), store.ErrCorrupt)
	})
}
