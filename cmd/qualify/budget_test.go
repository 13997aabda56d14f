package main

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
)

// runWith runs a command line against a store in memory.
func runWith(t *testing.T, s store.Store, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, talk bytes.Buffer
	code = guard(&talk, func() error {
		a := newApp(strings.NewReader(""), &out, &talk)
		a.open = func(context.Context, string, storeAccess) (store.Store, error) { return keepOpen{s}, nil }
		a.rebuild = storedAgain(nil, "")
		err := a.execute(t.Context(), args)
		if ferr := a.out.Flush(); ferr != nil {
			return ferr
		}
		return err
	})
	return code, out.String(), talk.String()
}

// keepOpen is a store that outlives the command that closes it.
type keepOpen struct{ store.Store }

func (keepOpen) Close() error { return nil }

// spend makes a ledger: a ceiling of 1 USD, one allotment that keeps 0.05 for
// an uncertain call, and one that overran by 0.02.
func spend(t *testing.T) store.Store {
	t.Helper()
	s := memory.New(memory.Options{})
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.PutCampaign(ctx, store.Campaign{ID: "c_1", Name: "demo", PlanDigest: "sha256:p", Plan: []byte("{}"), Status: "running"}))
	_, err := s.EnsureCeiling(ctx, "demo", store.FundsSimulated, 1_000_000)
	must(err)
	for _, a := range []struct {
		id                 string
		sum, charged, keep int64
	}{{"a1", 300_000, 200_000, 50_000}, {"a2", 100_000, 120_000, 0}} {
		_, err = s.Allot(ctx, store.Allotment{ID: a.id, Ceiling: "demo", Funds: store.FundsSimulated, Campaign: "c_1", Sum: a.sum})
		must(err)
		_, err = s.Release(ctx, a.id, a.charged, a.keep)
		must(err)
	}
	return s
}

func TestBudgetShow(t *testing.T) {
	t.Parallel()
	s := spend(t)
	code, out, talk := runWith(t, s, "budget", "show", "--json")
	if code != exitOK || talk != "" {
		t.Fatalf("exit %d, stderr %q", code, talk)
	}
	var doc struct{ Ceilings []ceilingDoc }
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	want := []ceilingDoc{{
		Name: "demo", Funds: "simulated", Limit: 1_000_000, Charged: 320_000, Held: 50_000, Unknown: 50_000,
		Available: 630_000, MaxSum: 370_000, Halted: true, Overruns: []string{"a2"}, Holds: true,
	}}
	if diff := cmp.Diff(want, doc.Ceilings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	code, out, _ = runWith(t, s, "budget", "show")
	if code != exitOK || !strings.Contains(out, "holds, halted by a2") {
		t.Errorf("exit %d:\n%s", code, out)
	}
}

func TestBudgetLedger(t *testing.T) {
	t.Parallel()
	s := spend(t)
	code, out, _ := runWith(t, s, "budget", "ledger", "--json", "--after", "1")
	var doc struct{ Rows []ledgerDoc }
	if err := json.Unmarshal([]byte(out), &doc); err != nil || code != exitOK {
		t.Fatalf("exit %d: %v", code, err)
	}
	var kinds []string
	for _, r := range doc.Rows {
		kinds = append(kinds, r.Kind)
	}
	if diff := cmp.Diff([]string{"allot", "release", "allot", "release", "overrun"}, kinds); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	code, _, talk := runWith(t, s, "budget", "ledger", "--limit", "-1")
	if code != exitUsage || !strings.Contains(talk, "negative") {
		t.Errorf("exit %d, stderr %q", code, talk)
	}
}

// TestProofFindsEveryChangedRow changes each amount of each row in turn; the
// proof must fail each time.
func TestProofFindsEveryChangedRow(t *testing.T) {
	t.Parallel()
	s := spend(t)
	all, err := s.Ceilings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows, err := s.Ledger(t.Context(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if fault := proveLedger(all[0], rows); fault != "" {
		t.Fatalf("the untouched ledger fails: %s", fault)
	}
	for i := range rows {
		for name, change := range map[string]func(*store.LedgerRow){
			"delta charged": func(r *store.LedgerRow) { r.DeltaCharged++ },
			"delta held":    func(r *store.LedgerRow) { r.DeltaHeld-- },
			"charged":       func(r *store.LedgerRow) { r.Charged-- },
			"held":          func(r *store.LedgerRow) { r.Held++ },
			"limit":         func(r *store.LedgerRow) { r.Limit++ },
		} {
			changed := slices.Clone(rows)
			change(&changed[i])
			if proveLedger(all[0], changed) == "" {
				t.Errorf("row %d: a changed %s goes unnoticed", i, name)
			}
		}
		if proveLedger(all[0], slices.Delete(slices.Clone(rows), i, i+1)) == "" {
			t.Errorf("row %d: its loss goes unnoticed", i)
		}
	}
}

func TestProofExceedsOnlyByOverruns(t *testing.T) {
	t.Parallel()
	c := store.Ceiling{Name: "x", Funds: store.FundsReal, Limit: 100, Charged: 130, MaxSum: 130}
	rows := []store.LedgerRow{
		{N: 1, Ceiling: "x", Funds: store.FundsReal, Kind: "ceiling", Limit: 100},
		{N: 2, Ceiling: "x", Funds: store.FundsReal, Kind: "allot", DeltaHeld: 100, Limit: 100, Held: 100},
		{N: 3, Ceiling: "x", Funds: store.FundsReal, Kind: "release", DeltaCharged: 100, DeltaHeld: -100, Limit: 100, Charged: 100},
		{N: 4, Ceiling: "x", Funds: store.FundsReal, Kind: "overrun", DeltaCharged: 30, Limit: 100, Charged: 130},
	}
	if fault := proveLedger(c, rows); fault != "" {
		t.Errorf("an overrun that is listed: %s", fault)
	}
	rows[3].Kind = "release"
	if fault := proveLedger(c, rows); !strings.Contains(fault, "pass the limit by 30 micros") {
		t.Errorf("an excess without overrun: %q", fault)
	}
}
