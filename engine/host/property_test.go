package host_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/host"
	"github.com/agentrooms/qualify/engine/planner"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/faultstore"
	"github.com/agentrooms/qualify/engine/store/memory"
)

// Codes that orders and messages may be answered with at random.
var ordinary = []string{
	"", engine.CodeNotFound, engine.CodeForbidden, engine.CodeConflict, engine.CodeStaleRevision,
	engine.CodeInvalidTransition, engine.CodeValidation, engine.CodeUncertain,
}

// Any history of messages, proposals, orders, ticks, lost and late replies,
// changes of authority, deaths of processes, faults of the store and expired
// leases: no operation is handed over twice, the account adds up, nothing is left running, the whole
// history verifies, and the room comes to rest (R36, R39, R42, R49, R65, I1,
// I2).
func TestR49_AnyHistoryVerifies(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		c := newClock()
		whole := memory.New(memory.Options{Now: c.Now})
		x := &scene{t: t, h: newHouse(), clock: c, store: whole}
		ctx := t.Context()
		d := definition()
		d.BudgetMicros = rapid.SampledFrom([]int64{0, 3_000, 40_000, 1_000_000}).Draw(rt, "budget")
		snaps := rapid.SampledFrom([]int64{0, 1, 4_096}).Draw(rt, "snapshots")
		// Ports are called from goroutines of their own: what they answer is a
		// function of a drawn seed and of what they are asked.
		seed := fmt.Sprint(rapid.Uint32().Draw(rt, "seed"))
		x.h.propose = func(q engine.PlanRequest) engine.PlanEnvelope { return anyProposal(seed, q) }
		x.h.execute = func(c host.Call) engine.TurnReply {
			status := []string{engine.StatusDone, engine.StatusDone, engine.StatusBlocked}[pick(3, seed, c.Op)]
			return engine.TurnReply{Status: status, Text: "so"}
		}
		x.h.review = func(q engine.ReviewRequest) engine.ReviewReply {
			words := []string{engine.VerdictMet, engine.VerdictUnmet, engine.VerdictUnknown, "odd"}
			return verdict(q, words[pick(4, seed, q.Report.Ref, fmt.Sprint(q.Report.Version))])
		}
		x.h.during = func(_ context.Context, c host.Call) (*host.Result, error) { return anyOutcome(seed, c) }
		x.h.evidence = func(o host.Operation) (host.Evidence, error) {
			n := int64(1_500)
			return []host.Evidence{
				{}, {Outcome: engine.ReconciledExecuted, Micros: &n, Proof: "log"}, {Outcome: engine.ReconciledExecuted, Proof: "log"},
			}[pick(3, seed, o.Op)], nil
		}
		act := func(what string, f func(s *host.Service) error) {
			die := rapid.IntRange(-20, 12).Draw(rt, what+" dies at")
			passed := 0
			plan := faultstore.Plan{}
			if rapid.IntRange(0, 3).Draw(rt, what+" has faults") == 0 {
				plan.Random = &faultstore.Random{
					Seed: rapid.Uint64().Draw(rt, "faults"), PerMille: 80, Reads: true, Max: 2,
					Kinds: []faultstore.Kind{faultstore.FailBefore, faultstore.FailAfter, faultstore.LoseReply, faultstore.DiskFull},
				}
			}
			faults, err := faultstore.New(whole, plan, nil)
			if err != nil {
				rt.Fatal(err)
			}
			err = f(x.service(func(cfg *host.Config) {
				cfg.Store, cfg.SnapshotBytes = faults, snaps
				cfg.Crash = &runtime.Crash{Hook: func(runtime.Point) error {
					if passed++; passed == die {
						return errDied
					}
					return nil
				}}
			}))
			if errors.Is(err, errDied) || len(faults.Fired()) > 0 {
				c.pass(time.Minute)
				if err != nil && !errors.Is(err, errDied) && !errors.Is(err, faultstore.ErrInjected) && !slices.Contains(ordinary, engine.CodeOf(err)) {
					rt.Fatalf("%s with %v: %v", what, faults.Fired(), err)
				}
			} else if !slices.Contains(ordinary, engine.CodeOf(err)) || err != nil && engine.CodeOf(err) == "" {
				rt.Fatalf("%s: %v", what, err)
			}
			x.balance(rt)
		}
		act("open", func(s *host.Service) error { return s.Open(ctx, tenant, room, d) })
		x.s = x.service(nil)
		x.must(x.s.Open(ctx, tenant, room, d))
		for i := range rapid.IntRange(1, 20).Draw(rt, "steps") {
			x.randomStep(rt, i, act)
		}
		// In the end every port answers well, and the room comes to rest.
		x.h.during = nil
		x.h.allow("auditor", "clerk", "editor", "second")
		c.pass(time.Minute)
		for range 20 {
			if done := x.tick(); !done.More {
				break
			}
		}
		v := x.look()
		for _, o := range v.Operations {
			if o.Status != store.OpUncertain && !o.Overrun {
				rt.Fatalf("at rest with %+v", o)
			}
		}
		x.h.once(rt)
		if err := x.s.Verify(ctx, tenant, room); err != nil {
			rt.Fatalf("verify: %v", err)
		}
	})
}

var errDied = errors.New("power cut")

// pick is a number from 0 to n-1 that follows from the seed and the parts.
func pick(n int, seed string, parts ...string) int {
	id := engine.StableID("", append(parts, seed)...)
	return (int(id[0])*31 + int(id[1])) % n
}

func anyProposal(seed string, q engine.PlanRequest) engine.PlanEnvelope {
	switch pick(10, seed, q.Reason, fmt.Sprint(len(q.Messages), q.PlanVersion, q.ObjectiveRevision, q.ControlRevision, len(q.Feedback))) {
	case 0:
		return engine.PlanEnvelope{}
	case 1:
		return decide(q, engine.DecideAnswer, "so it is")
	case 2:
		return decide(q, engine.DecideWait, "")
	case 3:
		return decide(q, engine.DecideAskUser, "how?")
	case 4:
		return twoSteps(q, "eve", "editor")
	case 5:
		env := twoSteps(q, "clerk", "editor")
		env.Decision = engine.DecideRevisePlan
		return env
	default:
		return twoSteps(q, "clerk", "editor")
	}
}

func anyOutcome(seed string, c host.Call) (*host.Result, error) {
	dear := int64(9_000)
	switch pick(14, seed, "outcome", c.Op) {
	case 0, 5:
		return nil, errors.New("time-out")
	case 1:
		return nil, host.ErrNotMade
	case 2:
		return &host.Result{Failed: "busy"}, nil
	case 3:
		return &host.Result{Failed: "dear", Micros: &dear}, nil
	case 4:
		return &host.Result{Text: "nonsense"}, nil
	default:
		return nil, nil
	}
}

func (x *scene) randomStep(rt *rapid.T, i int, act func(string, func(*host.Service) error)) {
	ctx := x.t.Context()
	key := order(rapid.SampledFrom([]string{"a", "b", fmt.Sprint("k", i)}).Draw(rt, "key"))
	v := x.look()
	objective, expected := "obj_none", rapid.IntRange(0, 1).Draw(rt, "expected")
	if n := len(v.Planner.Objectives); n > 0 {
		o := v.Planner.Objectives[rapid.IntRange(0, n-1).Draw(rt, "objective")]
		objective = o.ID
		if rapid.IntRange(0, 4).Draw(rt, "stale") > 0 {
			expected = o.ControlRevision
		}
	}
	op, overruns := "op_none", []string(nil)
	for _, o := range v.Operations {
		if o.Overrun {
			overruns = append(overruns, o.Op)
		}
		op = o.Op
	}
	for _, o := range v.Planner.Objectives {
		for _, p := range o.Pending {
			op = p.Op
		}
	}
	switch rapid.IntRange(0, 13).Draw(rt, "step") {
	case 0, 1:
		id := fmt.Sprintf("m%d", rapid.IntRange(1, 6).Draw(rt, "message"))
		kind := rapid.SampledFrom([]string{engine.MsgRequest, engine.MsgCorrection, engine.MsgReply}).Draw(rt, "kind")
		if _, err := x.h.Event(ctx, here, id); err != nil {
			x.h.post(id, "ana", kind, rapid.SampledFrom([]string{"do it", "@clerk look", "not so"}).Draw(rt, "text"))
		}
		act("accept", func(s *host.Service) error {
			_, err := s.AcceptEvent(ctx, tenant, room, id)
			return err
		})
	case 2:
		x.h.post("p1", "clerk", "", "sort them")
		act("proposal", func(s *host.Service) error {
			_, err := s.RecordSpecialistProposal(ctx, tenant, room, "p1")
			return err
		})
	case 3:
		act("pause", func(s *host.Service) error {
			_, err := s.Pause(ctx, tenant, room, key, objective, expected)
			return err
		})
	case 4:
		act("resume", func(s *host.Service) error {
			_, err := s.Resume(ctx, tenant, room, key, objective, expected)
			return err
		})
	case 5:
		act("cancel", func(s *host.Service) error {
			_, err := s.Cancel(ctx, tenant, room, key, objective, expected)
			return err
		})
	case 6:
		total := rapid.SampledFrom([]int64{0, 10_000, 100_000}).Draw(rt, "total")
		act("grant", func(s *host.Service) error {
			_, err := s.GrantBudget(ctx, tenant, room, key, total, overruns)
			return err
		})
	case 7:
		act("readmit", func(s *host.Service) error {
			_, err := s.Readmit(ctx, tenant, room, key, op, expected)
			return err
		})
	case 8:
		for _, o := range v.Operations {
			if o.Status == store.OpUncertain {
				op = o.Op
			}
		}
		act("reconcile", func(s *host.Service) error {
			_, err := s.Reconcile(ctx, tenant, room, key, op)
			return err
		})
	case 9:
		x.h.allow(rapid.SampledFrom([][]string{{}, {"clerk", "editor"}, {"auditor", "clerk", "editor", "second"}}).Draw(rt, "allowed")...)
	default:
		act("tick", func(s *host.Service) error {
			_, err := s.Tick(ctx, tenant, room)
			return err
		})
	}
}

// balance checks the account against the operations (I1) and the states shown.
func (x *scene) balance(rt *rapid.T) {
	l, err := x.store.Load(x.t.Context(), "planner/"+tenant+"/"+room)
	if errors.Is(err, store.ErrNotFound) {
		return
	}
	if err != nil {
		rt.Fatal(err)
	}
	var want engine.Money
	want.Limit = l.Head.Money.Limit
	for i := range l.Ops {
		o := &l.Ops[i]
		want.Charged += o.ChargedMicros
		switch o.Status {
		case store.OpUncertain:
			want.Unknown += o.ReservedMicros
			want.Held += o.ReservedMicros
		case store.OpReserved, store.OpDispatched:
			want.Held += o.ReservedMicros
		case store.OpRefused, store.OpSettledOK, store.OpSettledFailed, store.OpReleased:
		}
	}
	if l.Head.Money != want {
		rt.Fatalf("the account is %+v, its operations make %+v (I1)", l.Head.Money, want)
	}
	if x.s == nil {
		return
	}
	v, err := x.s.Snapshot(x.t.Context(), tenant, room)
	if engine.CodeOf(err) == engine.CodeNotFound {
		return
	}
	if err != nil {
		rt.Fatal(err)
	}
	for _, o := range v.Planner.Objectives {
		if o.Status == planner.StatusCompleted && len(o.Pending) > 0 {
			rt.Fatalf("a completed objective waits for %+v", o.Pending)
		}
	}
}
