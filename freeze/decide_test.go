package freeze

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
	"github.com/agentrooms/qualify/engine/store/sqlite"
)

// TestQ4_WhatIsDecidedIsDecidedAgain: a row that comes between reading and
// appending makes Decide read again, as often as it comes but not for ever; what
// is decided against is not appended.
func TestQ4_WhatIsDecidedIsDecidedAgain(t *testing.T) {
	t.Parallel()
	other := entry{KindUse, struct{}{}}
	for _, tc := range []struct {
		races, asked int
		err          error
	}{{0, 1, nil}, {1, 2, nil}, {mostTries - 1, mostTries, nil}, {mostTries, mostTries, ErrConflict}} {
		l := new(racing)
		for range tc.races {
			l.before = append(l.before, other)
		}
		asked := 0
		r, added, err := Decide(t.Context(), l, func(rows []Row) (string, any, error) {
			asked++
			return "count", len(rows) + 1, nil
		})
		if !errors.Is(err, tc.err) || asked != tc.asked || added != (tc.err == nil) {
			t.Errorf("%d rows between: asked %d times, added %t, %v", tc.races, asked, added, err)
		}
		if tc.err == nil && (r.N != int64(tc.races)+1 || string(r.Body) != fmt.Sprint(r.N)) {
			t.Errorf("%d rows between: row %d says %s", tc.races, r.N, r.Body)
		}
	}
	refusal := errors.New("no")
	l := new(listLog)
	for what, f := range map[string]func([]Row) (string, any, error){
		"nothing":   func([]Row) (string, any, error) { return "", nil, nil },
		"a refusal": func([]Row) (string, any, error) { return KindUse, nil, refusal },
		"no JSON":   func([]Row) (string, any, error) { return KindUse, func() {}, nil },
	} {
		_, added, err := Decide(t.Context(), l, f)
		if added || len(l.rows) > 0 || (err == nil) != (what == "nothing") || what == "a refusal" && !errors.Is(err, refusal) {
			t.Errorf("%s: added %t, %v", what, added, err)
		}
	}
	if _, _, err := Decide(t.Context(), new(failing), func([]Row) (string, any, error) { return KindUse, 1, nil }); err == nil || errors.Is(err, ErrConflict) {
		t.Errorf("a full disk: %v", err)
	}
}

// TestQ4_AnOpeningBetweenIsSeen: another campaign opens the holdout before our
// start row, or between it and our opening. We are refused at once, and the log
// is sound.
func TestQ4_AnOpeningBetweenIsSeen(t *testing.T) {
	t.Parallel()
	for when, before := range map[string]func(theirs []entry) []entry{
		"before the start":   func(theirs []entry) []entry { return theirs },
		"before the opening": func(theirs []entry) []entry { return []entry{theirs[0], {}, theirs[1]} },
	} {
		h := newHeld(t)
		r := h.run(t, "c_1")
		h.run(t, "c_2") // registers it
		ok(t, r.Enter(t.Context(), none(1)))
		l := &racing{before: before([]entry{{KindCampaignStart, StartEntry{"c_2", h.id, at}}, {KindOpening, OpeningEntry{h.id, "c_2", at, "", ""}}})}
		l.rows = h.log.rows
		r.Log = l
		if err := r.Begin(t.Context(), false, 1); !errors.Is(err, ErrHoldout) || !strings.Contains(err.Error(), "campaign c_2 opened the holdout") {
			t.Errorf("%s: %v", when, err)
		}
		sound(t, l.rows)
		if got := HoldoutOf(l.rows, "c_1"); got.Opened || got.All != 1 {
			t.Errorf("%s: %+v", when, got)
		}
	}
}

// records is the seal log of a store.
type records struct{ store.Store }

func (l records) SealLog(ctx context.Context) ([]Row, error) {
	rows, err := l.Store.SealLog(ctx)
	var out []Row
	for _, r := range rows {
		out = append(out, Row(r))
	}
	return out, err
}

func (l records) AppendSeal(ctx context.Context, kind string, body []byte) (Row, error) {
	r, err := l.Store.AppendSeal(ctx, kind, body)
	return Row(r), err
}

func (l records) AppendSealAfter(ctx context.Context, head, kind string, body []byte) (Row, error) {
	r, err := l.Store.AppendSealAfter(ctx, head, kind, body)
	if errors.Is(err, store.ErrConflict) {
		err = ErrConflict
	}
	return Row(r), err
}

// TestQ4_OneOfManyOpensTheHoldout: many campaigns under one freeze enter, and
// then begin in the same moment. One opens the holdout; the others are refused;
// nothing is wrong with the log. The log is in memory, in one SQLite file with a
// connection for each, and in a file that mirrors a store of each.
func TestQ4_OneOfManyOpensTheHoldout(t *testing.T) {
	t.Parallel()
	const campaigns = 6
	file := func(t *testing.T, create bool, path string) Log {
		t.Helper()
		s, err := sqlite.Open(t.Context(), path, sqlite.Options{Create: create})
		ok(t, err)
		t.Cleanup(func() { ok(t, s.Close()) })
		return records{s}
	}
	for _, tc := range []struct {
		name   string
		rounds int
		logs   func(t *testing.T) []Log
	}{
		{"memory", 50, func(t *testing.T) []Log {
			t.Helper()
			s := records{memory.New(memory.Options{Now: time.Now})}
			t.Cleanup(func() { ok(t, s.Close()) })
			return []Log{s}
		}},
		{"sqlite", 3, func(t *testing.T) []Log {
			t.Helper()
			path := filepath.Join(t.TempDir(), "q.db")
			var out []Log
			for i := range campaigns {
				out = append(out, file(t, i == 0, path))
			}
			return out
		}},
		{"mirror", 5, func(t *testing.T) []Log {
			t.Helper()
			path := filepath.Join(t.TempDir(), "seal.jsonl")
			var out []Log
			for range campaigns {
				out = append(out, Mirror{Store: new(listLog), File: FileLog{path}})
			}
			return out
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for range tc.rounds {
				oneOpens(t, campaigns, tc.logs(t))
			}
		})
	}
}

func oneOpens(t *testing.T, campaigns int, logs []Log) {
	t.Helper()
	m := little()
	m.Plan = map[string]string{"holdout": "sha256:1"}
	var runs []*Run
	for i := range campaigns {
		l := logs[i%len(logs)]
		f, _, err := Seal(t.Context(), l, m, at)
		ok(t, err)
		h := held{id: f.ID}
		r := h.runOn(t, l, fmt.Sprint("c_", i))
		ok(t, r.Enter(t.Context(), none(1)))
		_, err = Append(t.Context(), l, KindCampaignStart, StartEntry{r.Campaign, r.Freeze, at}) // so that all come to the opening at once
		ok(t, err)
		runs = append(runs, r)
	}
	var g errgroup.Group
	start, errs := make(chan struct{}), make([]error, campaigns)
	for i, r := range runs {
		g.Go(func() error {
			<-start
			errs[i] = r.Begin(t.Context(), false, 1)
			return nil
		})
	}
	close(start)
	ok(t, g.Wait())
	var winner string
	for i, err := range errs {
		switch {
		case err == nil && winner == "":
			winner = runs[i].Campaign
		case !errors.Is(err, ErrHoldout) || !strings.Contains(err.Error(), "opened the holdout under freeze"):
			t.Errorf("%s, after %s: %v", runs[i].Campaign, winner, err)
		}
	}
	rows := rowsOf(t, logs[0])
	sound(t, rows)
	if got := HoldoutOf(rows, winner); !got.Opened || got.All != 1 {
		t.Errorf("opened by %q: %+v", winner, got)
	}
	for _, l := range logs {
		if diff := cmp.Diff(rows, rowsOf(t, l)); diff != "" {
			t.Errorf("the logs differ:\n%s", diff)
		}
	}
}
