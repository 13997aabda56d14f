package store

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
)

// roomWith is a room of 1000 that holds 100 for one operation in the state.
func roomWith(status OpStatus) (Head, Op) {
	h := Head{Room: "r", Rev: 3, Money: engine.Money{Limit: 1000, Charged: 50, Held: 100}}
	op := Op{ID: "op", RequestDigest: "d", ReservedMicros: 100, Status: status, Request: []byte("{}")}
	if status == OpUncertain {
		h.Money.Unknown = 100
	}
	return h, op
}

var statuses = []OpStatus{OpReserved, OpRefused, OpDispatched, OpSettledOK, OpSettledFailed, OpUncertain, OpReleased}

// TestR9_R37_MovesByReceipt is the whole table: every state, outcome and a few
// charges. Whatever is not listed is refused and changes nothing.
func TestR9_R37_MovesByReceipt(t *testing.T) {
	t.Parallel()
	type move struct {
		from    OpStatus
		outcome Outcome
		charged int64
	}
	type result struct {
		to      OpStatus
		money   engine.Money
		halted  bool
		startUS int64
	}
	allowed := map[move]result{
		{OpReserved, OutcomeFailed, 0}:     {OpReleased, engine.Money{Limit: 1000, Charged: 50}, false, 0},
		{OpDispatched, OutcomeOK, 0}:       {OpSettledOK, engine.Money{Limit: 1000, Charged: 50}, false, 7},
		{OpDispatched, OutcomeOK, 100}:     {OpSettledOK, engine.Money{Limit: 1000, Charged: 150}, false, 7},
		{OpDispatched, OutcomeOK, 101}:     {OpSettledOK, engine.Money{Limit: 1000, Charged: 151}, true, 7},
		{OpDispatched, OutcomeFailed, 0}:   {OpSettledFailed, engine.Money{Limit: 1000, Charged: 50}, false, 7},
		{OpDispatched, OutcomeFailed, 100}: {OpSettledFailed, engine.Money{Limit: 1000, Charged: 150}, false, 7},
		{OpDispatched, OutcomeFailed, 101}: {OpSettledFailed, engine.Money{Limit: 1000, Charged: 151}, true, 7},
		{OpDispatched, OutcomeUnknown, 0}:  {OpUncertain, engine.Money{Limit: 1000, Charged: 50, Held: 100, Unknown: 100}, false, 7},
	}
	for _, from := range statuses {
		for _, outcome := range []Outcome{OutcomeOK, OutcomeFailed, OutcomeUnknown, "maybe"} {
			for _, charged := range []int64{-1, 0, 100, 101} {
				name := fmt.Sprintf("%s, %s, %d", from, outcome, charged)
				h, op := roomWith(from)
				before, opBefore := h, op
				changed, err := Settle(&h, &op, &Receipt{Op: "op", RequestDigest: "d", Outcome: outcome, ChargedMicros: charged, StartUS: 7})
				want, ok := allowed[move{from, outcome, charged}]
				if !ok {
					if !errors.Is(err, ErrInvalid) || changed || cmp.Diff(before, h) != "" || cmp.Diff(opBefore, op) != "" {
						t.Errorf("%s: changed %t, error %v", name, changed, err)
					}
					continue
				}
				if err != nil || !changed {
					t.Errorf("%s: changed %t, error %v", name, changed, err)
					continue
				}
				got := result{op.Status, h.Money, h.Halted, op.DispatchedAtUS}
				if got != want || op.ChargedMicros != charged || op.Request != nil || op.Receipt == nil {
					t.Errorf("%s: %+v of %+v, want %+v", name, got, op, want)
				}
			}
		}
	}
}

func TestR46_ReceiptIsAppendOnly(t *testing.T) {
	t.Parallel()
	h, op := roomWith(OpDispatched)
	r := Receipt{Op: "op", RequestDigest: "d", Outcome: OutcomeOK, ChargedMicros: 40, Usage: &engine.Usage{Input: 1}, Result: []byte("{}")}
	if changed, err := Settle(&h, &op, &r); err != nil || !changed {
		t.Fatal(changed, err)
	}
	before, opBefore := h, op
	equal := r
	equal.Usage, equal.Result = &engine.Usage{Input: 1}, []byte("{}")
	if changed, err := Settle(&h, &op, &equal); err != nil || changed {
		t.Errorf("equal receipt: changed %t, %v", changed, err)
	}
	for name, change := range map[string]func(*Receipt){
		"request": func(r *Receipt) { r.RequestDigest = "e" }, "outcome": func(r *Receipt) { r.Outcome = OutcomeFailed },
		"start": func(r *Receipt) { r.StartUS++ }, "finish": func(r *Receipt) { r.FinishUS++ }, "charge": func(r *Receipt) { r.ChargedMicros++ },
		"source": func(r *Receipt) { r.UsageSource = "bound" }, "usage": func(r *Receipt) { r.Usage = &engine.Usage{Input: 2} },
		"no usage": func(r *Receipt) { r.Usage = nil }, "result": func(r *Receipt) { r.Result = nil },
	} {
		other := r
		change(&other)
		if changed, err := Settle(&h, &op, &other); !errors.Is(err, ErrReceiptMismatch) || changed {
			t.Errorf("another %s: changed %t, %v", name, changed, err)
		}
	}
	if diff := cmp.Diff(before, h) + cmp.Diff(opBefore, op); diff != "" {
		t.Error(diff)
	}
}

func TestR45_ReceiptOfAnotherRequestKeepsTheHold(t *testing.T) {
	t.Parallel()
	h, op := roomWith(OpDispatched)
	before := h
	_, err := Settle(&h, &op, &Receipt{Op: "op", RequestDigest: "other", Outcome: OutcomeOK})
	if !errors.Is(err, ErrReceiptMismatch) || cmp.Diff(before, h) != "" || op.Status != OpDispatched {
		t.Errorf("error %v, head %+v, status %s", err, h, op.Status)
	}
}

func TestR9_R45_DispatchOnlyOnce(t *testing.T) {
	t.Parallel()
	for _, from := range statuses {
		h, op := roomWith(from)
		err := Dispatch(&h, &op)
		want, target := from, ErrAlreadyDispatched
		if from == OpReserved {
			want, target = OpDispatched, nil
		}
		if !errors.Is(err, target) || op.Status != want {
			t.Errorf("%s: %v, status %s", from, err, op.Status)
		}
	}
	h, op := roomWith(OpReserved)
	h.Closed = true
	if err := Dispatch(&h, &op); !errors.Is(err, ErrClosed) || op.Status != OpReserved {
		t.Errorf("closed room: %v, status %s", err, op.Status)
	}
}

func TestR9_R47_OnlyUncertainOperationsAreReconciled(t *testing.T) {
	t.Parallel()
	for _, from := range statuses {
		for _, r := range []Reconciliation{{Executed: true, ChargedMicros: 70, Proof: "bill"}, {Proof: "journal"}, {ChargedMicros: 1}, {Executed: true, ChargedMicros: -1}} {
			h, op := roomWith(from)
			before := h
			changed, err := Resolve(&h, &op, &r)
			if from != OpUncertain || r.ChargedMicros < 0 || !r.Executed && r.ChargedMicros > 0 {
				if !errors.Is(err, ErrInvalid) || changed || cmp.Diff(before, h) != "" || op.Status != from {
					t.Errorf("%s %+v: changed %t, %v", from, r, changed, err)
				}
				continue
			}
			want := OpReleased
			if r.Executed {
				want = OpSettledOK
			}
			money := engine.Money{Limit: 1000, Charged: 50 + r.ChargedMicros}
			if err != nil || !changed || op.Status != want || op.ChargedMicros != r.ChargedMicros || h.Money != money {
				t.Errorf("%+v: changed %t, %v, %+v, %+v", r, changed, err, op, h.Money)
			}
		}
	}
}

func TestRowDigestCoversEveryField(t *testing.T) {
	t.Parallel()
	row := Row{Rev: 1, Machine: "m@1", Event: []byte("e"), Commands: []byte("c"), CommandsDigest: "cd", StateDigest: "sd", Prev: "p"}
	if want := engine.Digest([]byte("qualify/row/v1\n1\n3:m@1\n1:e\n1:c\ncd\nsd\np")); RowDigest(row) != want {
		t.Errorf("digest %s, want %s", RowDigest(row), want)
	}
	seen := map[string]string{RowDigest(row): "unchanged"}
	for name, change := range map[string]func(*Row){
		"rev": func(r *Row) { r.Rev = 2 }, "machine": func(r *Row) { r.Machine = "m@2" }, "event": func(r *Row) { r.Event = []byte("f") },
		"commands": func(r *Row) { r.Commands = []byte("d") }, "commands digest": func(r *Row) { r.CommandsDigest = "x" },
		"state digest": func(r *Row) { r.StateDigest = "x" }, "prev": func(r *Row) { r.Prev = "q" },
		"moved byte": func(r *Row) { r.Event, r.Commands = []byte("ec"), nil },
	} {
		other := row
		change(&other)
		d := RowDigest(other)
		if before, ok := seen[d]; ok {
			t.Errorf("%s has the digest of %s", name, before)
		}
		seen[d] = name
	}
	other := row
	other.Digest = "x"
	if RowDigest(other) != RowDigest(row) {
		t.Error("the digest covers itself")
	}
}
