package freeze

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
)

// held is a log with a freeze of one plan, and runs of its holdout.
type held struct {
	log *listLog
	id  string
}

func newHeld(t *testing.T) held {
	t.Helper()
	m := little()
	m.Plan = map[string]string{"holdout": "sha256:1"}
	l := new(listLog)
	f, _, err := Seal(t.Context(), l, m, at)
	ok(t, err)
	return held{l, f.ID}
}

// run is a run of a campaign that finds found at each verification, the last
// one again and again.
func (h held) run(t *testing.T, campaign string, found ...any) *Run {
	t.Helper()
	return h.runOn(t, h.log, campaign, found...)
}

// runOn is run on another log, which holds the freeze.
func (h held) runOn(t *testing.T, l Log, campaign string, found ...any) *Run {
	t.Helper()
	if !anyRow(rowsOf(t, l), KindRegistration, campaign) {
		e := registration(campaign)
		e.Record = []byte(`{"plan":"sha256:1"}`)
		e.Digest = "sha256:" + engine.Digest(e.Record)
		_, err := Append(t.Context(), l, KindRegistration, e)
		ok(t, err)
	}
	return &Run{
		Log: l, Campaign: campaign, Plan: "sha256:1", Freeze: h.id, Reason: "release",
		Now: func() Moment { return MomentOf(time.Date(2026, 11, 30, 15, 0, 0, 0, time.UTC), "") },
		Verify: func(context.Context, *Manifest) ([]Difference, error) {
			if len(found) == 0 {
				return nil, nil
			}
			now := found[0]
			if len(found) > 1 {
				found = found[1:]
			}
			switch x := now.(type) {
			case error:
				return nil, x
			case string:
				return []Difference{{Part: "file", Name: x, Old: "1", New: "2"}}, nil
			}
			return nil, nil
		},
	}
}

func kinds(rows []Row) []string {
	var out []string
	for _, r := range rows {
		out = append(out, r.Kind)
	}
	return out
}

func none(n int) [][]string { return make([][]string, n) }

// TestQ4_WhatCannotBeVerifiedHasChanged: an error of the verification stops a
// run as a difference does, and voids what has ended since the last one.
func TestQ4_WhatCannotBeVerifiedHasChanged(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for name, found := range map[string]any{"a difference": "src/a.go", "an error": errors.New("disk gone")} {
		h := newHeld(t)
		r := h.run(t, "c_1", nil, nil, found)
		ok(t, r.Enter(ctx, none(3)))
		ok(t, r.Begin(ctx, false, 3))
		ok(t, r.Batch(ctx, 1, 3, [][]string{{"a", "b"}, nil, nil}))
		err := r.Batch(ctx, 2, 3, [][]string{{"a", "b"}, {"c", "d"}, nil})
		if !errors.Is(err, ErrHoldout) || !strings.Contains(err.Error(), "void results from batch 1 on: 2") {
			t.Errorf("%s: %v", name, err)
		}
		sound(t, h.log.rows)
		got := HoldoutOf(h.log.rows, "c_1")
		if diff := cmp.Diff([]string{"c", "d"}, got.VoidTrials()); diff != "" || got.Verified != 1 || got.Whole() {
			t.Errorf("%s: %+v (-want +got):\n%s", name, got, diff)
		}
		if err := h.run(t, "c_1").Enter(ctx, none(3)); !errors.Is(err, ErrHoldout) || !strings.Contains(err.Error(), "are void (row") {
			t.Errorf("%s, run again: %v", name, err)
		}
	}
}

// TestQ4_AResumeVoidsWhatWasNotVerified: a run that was cut off leaves trials
// that no verification stands behind; when the next run finds a change they are
// void, and those before the last verification are not.
func TestQ4_AResumeVoidsWhatWasNotVerified(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	h := newHeld(t)
	r := h.run(t, "c_1")
	ok(t, r.Enter(ctx, none(2)))
	ok(t, r.Begin(ctx, false, 2))
	ok(t, r.Batch(ctx, 1, 2, [][]string{{"a"}, nil}))
	if got := HoldoutOf(h.log.rows, "c_1"); got.Whole() {
		t.Errorf("whole before the last verification: %+v", got)
	}
	err := h.run(t, "c_1", "src/a.go").Enter(ctx, [][]string{{"a"}, {"b"}})
	if !errors.Is(err, ErrHoldout) || !strings.Contains(err.Error(), "file src/a.go: 1 → 2; void results from batch 1 on: 1") {
		t.Errorf("%v", err)
	}
	got := HoldoutOf(h.log.rows, "c_1")
	if !slices.Equal(got.VoidTrials(), []string{"b"}) {
		t.Errorf("%+v", got)
	}
	sound(t, h.log.rows)
}

// TestQ4_AChangeInTheLastBatchIsFound: behind the last trial everything is
// verified once more, and what differs voids the last batch. So it does where a
// limit stopped the run before its end.
func TestQ4_AChangeInTheLastBatchIsFound(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, complete := range []bool{true, false} {
		h := newHeld(t)
		r := h.run(t, "c_1", nil, nil, "src/a.go")
		ok(t, r.Enter(ctx, none(2)))
		ok(t, r.Begin(ctx, false, 2))
		ok(t, r.Batch(ctx, 1, 2, [][]string{{"a"}, nil}))
		err := r.After(ctx, complete, 2, [][]string{{"a"}, {"b"}})
		if !errors.Is(err, ErrHoldout) || !strings.Contains(err.Error(), "file src/a.go: 1 → 2; void results from batch 1 on: 1") {
			t.Errorf("complete %t: %v", complete, err)
		}
		got := HoldoutOf(h.log.rows, "c_1")
		if !slices.Equal(got.VoidTrials(), []string{"b"}) || got.Whole() {
			t.Errorf("complete %t: %+v", complete, got)
		}
		sound(t, h.log.rows)
	}
}

// TestQ4_AnInterruptVoidsNothing: whoever interrupts a run has changed nothing.
func TestQ4_AnInterruptVoidsNothing(t *testing.T) {
	t.Parallel()
	h := newHeld(t)
	r := h.run(t, "c_1", nil, errors.New("interrupted"))
	ok(t, r.Enter(t.Context(), none(2)))
	ok(t, r.Begin(t.Context(), false, 2))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := r.Batch(ctx, 1, 2, [][]string{{"a"}, nil}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if got := HoldoutOf(h.log.rows, "c_1"); len(got.Voids) > 0 {
		t.Errorf("%+v", got)
	}
}

// TestQ4_TheWholeHoldout: the rows of a run, of a resume, and of the same run
// once more.
func TestQ4_TheWholeHoldout(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	h := newHeld(t)
	all := [][]string{{"a"}, {"b"}}
	r := h.run(t, "c_1")
	ok(t, r.Enter(ctx, none(2)))
	ok(t, r.Begin(ctx, false, 2))
	r = h.run(t, "c_1") // cut off, and resumed
	ok(t, r.Enter(ctx, none(2)))
	ok(t, r.Begin(ctx, false, 2))
	ok(t, r.Batch(ctx, 1, 2, [][]string{{"a"}, nil}))
	ok(t, r.After(ctx, true, 2, all))
	ok(t, r.End(ctx, "done", "sha256:9"))
	r = h.run(t, "c_1") // prints again
	ok(t, r.Enter(ctx, all))
	ok(t, r.Begin(ctx, true, 2))
	ok(t, r.Batch(ctx, 1, 2, all))
	ok(t, r.After(ctx, true, 2, all))
	ok(t, r.End(ctx, "done", "sha256:9"))
	want := []string{
		KindFreeze, KindRegistration, KindCampaignStart, KindOpening, KindVerified,
		KindUse, KindVerified, KindVerified, KindVerified, KindCampaignEnd, KindUse,
	}
	if diff := cmp.Diff(want, kinds(h.log.rows)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	sound(t, h.log.rows)
	got := HoldoutOf(h.log.rows, "c_1")
	if !got.Whole() || got.Openings != 1 || got.All != 1 {
		t.Errorf("%+v", got)
	}
}

// TestQ4_WhoMayOpen: another freeze, another plan, another campaign and a log
// with faults are refused; of two that enter at once one opens.
func TestQ4_WhoMayOpen(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	h := newHeld(t)
	first, second := h.run(t, "c_1"), h.run(t, "c_2")
	ok(t, first.Enter(ctx, none(1)))
	ok(t, second.Enter(ctx, none(1)))
	ok(t, first.Begin(ctx, false, 1))
	refused := func(what string, err error, want string) {
		t.Helper()
		if !errors.Is(err, ErrHoldout) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", what, err, want)
		}
	}
	refused("both entered", second.Begin(ctx, false, 1), "campaign c_1 opened the holdout")
	refused("a second campaign", h.run(t, "c_2").Enter(ctx, none(1)), "give --reopen REASON")
	other := h.run(t, "c_1")
	m := little()
	m.Name = "other"
	f, _, err := Seal(ctx, h.log, m, at)
	ok(t, err)
	other.Freeze = f.ID
	refused("another freeze", other.Enter(ctx, none(1)), "ran under freeze "+h.id)
	none1 := h.run(t, "c_9")
	none1.Freeze = f.ID
	refused("a freeze that fixes no plan", none1.Enter(ctx, none(1)), "does not hold the plan")
	gone := h.run(t, "c_9")
	gone.Freeze = "f_0"
	refused("no such freeze", gone.Enter(ctx, none(1)), "holds no freeze f_0")
	again := h.run(t, "c_2")
	again.Reopen = "the grader was wrong"
	ok(t, again.Enter(ctx, none(1)))
	ok(t, again.Begin(ctx, false, 1))
	sound(t, h.log.rows)
	if got := HoldoutOf(h.log.rows, "c_2"); got.Openings != 2 || got.Reopen != "the grader was wrong" {
		t.Errorf("%+v", got)
	}
	h.log.rows[0].Digest = "0"
	if err := h.run(t, "c_1").Enter(ctx, none(1)); !errors.Is(err, ErrLog) {
		t.Errorf("a log with faults: %v", err)
	}
}

// TestQ4_AnEndNeedsAStart: a campaign that the log does not know has no end in
// it; one that has started ends once by each way.
func TestQ4_AnEndNeedsAStart(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	h := newHeld(t)
	r := h.run(t, "c_1")
	ok(t, r.End(ctx, "cancelled", ""))
	if diff := cmp.Diff([]string{KindFreeze, KindRegistration}, kinds(h.log.rows)); diff != "" {
		t.Errorf("registered only (-want +got):\n%s", diff)
	}
	ok(t, r.Enter(ctx, none(1)))
	ok(t, r.Begin(ctx, false, 1))
	for _, status := range []string{"stopped", "cancelled", "cancelled"} {
		ok(t, r.End(ctx, status, ""))
	}
	if got := kinds(h.log.rows); !slices.Equal(got[len(got)-2:], []string{KindCampaignEnd, KindCampaignEnd}) || len(got) != 7 {
		t.Errorf("rows %v", got)
	}
	sound(t, h.log.rows)
}
