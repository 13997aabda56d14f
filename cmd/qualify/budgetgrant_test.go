package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
	"github.com/agentrooms/qualify/engine/store/storetest"
)

// spent is a store whose sums all follow: campaign c_1 has drawn allotment
// c_1/x/0 for one room, whose only call overran by 20 micros.
func spent(t *testing.T) (store.Store, store.Op) {
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
	_, err := s.EnsureCeiling(ctx, "pool", store.FundsSimulated, 1000)
	must(err)
	_, err = s.Allot(ctx, store.Allotment{ID: "c_1/x/0", Ceiling: "pool", Funds: store.FundsSimulated, Campaign: "c_1", Sum: 300})
	must(err)
	r := storetest.NewRoom("c_1/x/a/0", 300)
	r.Allotment = "c_1/x/0"
	must(s.CreateRoom(ctx, r))
	op := storetest.Op(r.Room, "call", 100)
	c := storetest.Next(store.Head{Room: r.Room, Rev: -1}, "one")
	c.Ops = []store.Op{op}
	_, err = s.Commit(ctx, c)
	must(err)
	must(s.MarkDispatched(ctx, r.Room, op.ID))
	must(s.PutReceipt(ctx, r.Room, storetest.Receipt(op, store.OutcomeOK, 120), nil))
	must(s.CloseRoom(ctx, r.Room, "budget", 1))
	must(s.PutTrial(ctx, store.Trial{
		Campaign: "c_1", Key: "x/a/0", Room: r.Room, Allotment: "c_1/x/0", Status: store.TrialClosed,
		Money: engine.Money{Limit: 300, Charged: 120},
	}))
	_, err = s.Release(ctx, "c_1/x/0", 120, 0)
	must(err)
	return s, op
}

func TestR40_BudgetGrantSetsTheTotal(t *testing.T) {
	t.Parallel()
	s, _ := spent(t)
	for _, tc := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"0.00012", "--ceiling", "pool"}, exitOK, "0.00012"},
		{[]string{"0.000119", "--ceiling", "pool"}, exitUsage, "below what ceiling pool has charged and holds, 0.00012 USD"},
		{[]string{"5", "--ceiling", "pol"}, exitUsage, "did you mean pool?"},
		{[]string{"5", "--ceiling", "pool", "--funds", "real"}, exitUsage, "no ceiling"},
		{[]string{"5", "--ceiling", "pool", "--funds", "play"}, exitUsage, "use real or simulated"},
		{[]string{"five"}, exitUsage, "five"},
		{[]string{"-5"}, exitUsage, "unknown shorthand"},
		{[]string{}, exitUsage, "missing TOTAL"},
		{[]string{"5", "--ceiling", "pool", "--ack", "a,a"}, exitUsage, "named twice"},
		{[]string{"5", "--ceiling", "pool", "--ack", "op_none"}, exitUsage, "no overrun of this name"},
		{[]string{"7.50"}, exitOK, "owner"}, // the owner's ceiling is made when it is not there
		{[]string{"7.50", "--ceiling", "owner", "--json"}, exitOK, `"limit_micros": 7500000`},
	} {
		code, out, talk := runWith(t, s, append([]string{"budget", "grant"}, tc.args...)...)
		if code != tc.code || !strings.Contains(out+talk, tc.says) {
			t.Errorf("budget grant %v: exit %d, %q, %q; want %d with %q", tc.args, code, out, talk, tc.code, tc.says)
		}
	}
	if _, err := s.EnsureCeiling(t.Context(), "pool", store.FundsReal, 10); err != nil {
		t.Fatal(err)
	}
	code, _, talk := runWith(t, s, "budget", "grant", "5", "--ceiling", "pool")
	if code != exitUsage || !strings.Contains(talk, "choose with --funds") {
		t.Errorf("two ceilings of one name: exit %d, %q", code, talk)
	}
}

// An overrun of a room is acknowledged by its operation, one of a ceiling by
// its allotment; a refused grant acknowledges nothing.
func TestR39_BudgetGrantAcknowledgesOverruns(t *testing.T) {
	t.Parallel()
	s, op := spent(t)
	halted := func() bool {
		t.Helper()
		l, err := s.Load(t.Context(), "c_1/x/a/0")
		if err != nil {
			t.Fatal(err)
		}
		return l.Head.Halted
	}
	for _, tc := range []struct {
		args   []string
		code   int
		halted bool
	}{
		{[]string{"0.0001", "--ack", op.ID}, exitUsage, true}, // below what is spent
		{[]string{"0.001", "--ack", op.ID + ",op_none"}, exitUsage, true},
		{[]string{"0.001", "--ack", op.ID}, exitOK, false},
		{[]string{"0.001", "--ack", op.ID}, exitUsage, false}, // once is enough
	} {
		code, _, talk := runWith(t, s, append([]string{"budget", "grant", "--ceiling", "pool"}, tc.args...)...)
		if code != tc.code || halted() != tc.halted {
			t.Errorf("budget grant %v: exit %d, halted %t, %q", tc.args, code, halted(), talk)
		}
	}
	over := spend(t) // halted by allotment a2
	code, _, talk := runWith(t, over, "budget", "grant", "1", "--ceiling", "demo")
	if code != exitOK || !strings.Contains(talk, "stays halted; acknowledge with --ack a2") {
		t.Errorf("a grant without acknowledgement: exit %d, %q", code, talk)
	}
	if code, out, talk := runWith(t, over, "budget", "grant", "1", "--ceiling", "demo", "--ack", "a2"); code != exitOK || talk != "" || strings.Contains(out, "halted") {
		t.Errorf("acknowledged: exit %d, %q, %q", code, out, talk)
	}
}

// forged gives a store's sums with one of them changed.
type forged struct {
	store.Store
	head  func(*store.Head)
	op    func(*store.Op)
	allot func(*store.Allotment)
	trial func(*store.Trial)
	ceil  func(*store.Ceiling)
	row   func(*store.LedgerRow)
	drawn int64 // on top of what a campaign has drawn
}

func (forged) Close() error { return nil }

func change[T any](f func(*T), list []T, err error) ([]T, error) {
	list = slices.Clone(list)
	if f != nil && len(list) > 0 {
		f(&list[len(list)-1])
	}
	return list, err
}

func (f forged) Load(ctx context.Context, room string) (*store.Loaded, error) {
	l, err := f.Store.Load(ctx, room)
	if err == nil && f.head != nil {
		f.head(&l.Head)
	}
	if err == nil && f.op != nil {
		f.op(&l.Ops[0])
	}
	return l, err
}

func (f forged) Allotments(ctx context.Context, c string) ([]store.Allotment, error) {
	as, err := f.Store.Allotments(ctx, c)
	return change(f.allot, as, err)
}

func (f forged) Trials(ctx context.Context, c string) ([]store.Trial, error) {
	ts, err := f.Store.Trials(ctx, c)
	return change(f.trial, ts, err)
}

func (f forged) Ceilings(ctx context.Context) ([]store.Ceiling, error) {
	cs, err := f.Store.Ceilings(ctx)
	return change(f.ceil, cs, err)
}

func (f forged) Ledger(ctx context.Context, after int64, limit int) ([]store.LedgerRow, error) {
	rs, err := f.Store.Ledger(ctx, after, limit)
	return change(f.row, rs, err)
}

func (f forged) CampaignWeight(ctx context.Context, c string, funds store.Funds) (int64, error) {
	w, err := f.Store.CampaignWeight(ctx, c, funds)
	return w + f.drawn, err
}

// Every sum is derived again: one that is changed by a single micro is found,
// in one line, with exit 1.
func TestBudgetVerifyFindsEveryChangedSum(t *testing.T) {
	t.Parallel()
	s, _ := spent(t)
	code, out, talk := runWith(t, s, "budget", "verify")
	if code != exitOK || out != "1 ceiling, 3 ledger rows, 1 allotment, 1 room, 1 operation: 0 differences\n" || talk != "" {
		t.Fatalf("untouched: exit %d, %q, %q", code, out, talk)
	}
	for what, f := range map[string]forged{
		"charge of a room":          {head: func(h *store.Head) { h.Money.Charged++ }},
		"hold of a room":            {head: func(h *store.Head) { h.Money.Held++ }},
		"unknown of a room":         {head: func(h *store.Head) { h.Money.Unknown++ }},
		"halt of a room":            {head: func(h *store.Head) { h.Halted = false }},
		"charge of an operation":    {op: func(o *store.Op) { o.ChargedMicros-- }},
		"charge of a receipt":       {op: func(o *store.Op) { o.Receipt.ChargedMicros-- }},
		"open operation":            {op: func(o *store.Op) { o.Status = store.OpUncertain }},
		"sum of an allotment":       {allot: func(a *store.Allotment) { a.Sum++ }},
		"charge of an allotment":    {allot: func(a *store.Allotment) { a.Charged++ }},
		"kept of an allotment":      {allot: func(a *store.Allotment) { a.Kept++ }},
		"release of an allotment":   {allot: func(a *store.Allotment) { a.Released = false }},
		"another allotment":         {allot: func(a *store.Allotment) { a.ID = "c_1/y/0" }},
		"charge of a trial":         {trial: func(r *store.Trial) { r.Money.Charged++ }},
		"room of a trial":           {trial: func(r *store.Trial) { r.Room = "c_1/y/a/0" }},
		"charge of a ceiling":       {ceil: func(c *store.Ceiling) { c.Charged++ }},
		"hold of a ceiling":         {ceil: func(c *store.Ceiling) { c.Held++ }},
		"limit of a ceiling":        {ceil: func(c *store.Ceiling) { c.Limit++ }},
		"greatest sum of a ceiling": {ceil: func(c *store.Ceiling) { c.MaxSum++ }},
		"halt of a ceiling":         {ceil: func(c *store.Ceiling) { c.Halted = true }},
		"overruns of a ceiling":     {ceil: func(c *store.Ceiling) { c.Overruns = []string{"c_1/x/0"} }},
		"what a campaign has drawn": {drawn: 1},
		"charge of a ledger row":    {row: func(r *store.LedgerRow) { r.DeltaCharged-- }},
		"kind of a ledger row":      {row: func(r *store.LedgerRow) { r.Kind = "overrun" }},
	} {
		f.Store = s
		code, out, _ := runWith(t, f, "budget", "verify", "--json")
		var doc budgetVerifyDoc
		if err := json.Unmarshal([]byte(out), &doc); err != nil {
			t.Fatal(err)
		}
		if code != exitFail || len(doc.Faults) == 0 {
			t.Errorf("%s: exit %d, %+v", what, code, doc.Faults)
		}
		code, out, talk := runWith(t, f, "budget", "verify")
		if code != exitFail || strings.Count(out, "\n") != len(doc.Faults)+1 || talk != "" {
			t.Errorf("%s: exit %d, %q, %q; want %d lines and the count", what, code, out, talk, len(doc.Faults))
		}
	}
}

// The command that a stop names is one that a shell reads back as it was meant.
func TestGrantCommandIsQuoted(t *testing.T) {
	t.Parallel()
	if d := cmp.Diff(`'it'\''s here'`, shellWord("it's here")); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff("sqlite:.qualify/q-1.db", shellWord("sqlite:.qualify/q-1.db")); d != "" {
		t.Error(d)
	}
	if shellWord("") != "''" || shellWord("a$b") != "'a$b'" {
		t.Error("an empty word or a dollar sign is not quoted")
	}
}
