package host_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/host"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
	"github.com/agentrooms/qualify/engine/store/sqlite"
)

// Four processes at once on one room, with leases of a few milliseconds that
// now and then run out under a call: on both stores no operation is called
// twice, and the history verifies (R5, R48, R65, R71).
func TestR65_ManyServicesAtOnce(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(t *testing.T) host.Store{
		"memory": func(*testing.T) host.Store { return memory.New(memory.Options{Now: time.Now}) },
		"sqlite": func(t *testing.T) host.Store {
			t.Helper()
			path := filepath.Join(t.TempDir(), "s.db")
			if _, err := sqlite.Migrate(t.Context(), path); err != nil {
				t.Fatal(err)
			}
			st, err := sqlite.Open(t.Context(), path, sqlite.Options{Ledgers: sqlite.Ledgers()})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = st.Close() })
			return st
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rounds := 5
			if os.Getenv("QUALIFY_LONG") != "" {
				rounds = 60
			}
			st := open(t)
			h := newHouse()
			h.propose = func(q engine.PlanRequest) engine.PlanEnvelope {
				if q.ObjectiveID != "" && q.Reason == "message" && len(q.Messages)%2 == 0 {
					return decide(q, engine.DecideExplain, "at work")
				}
				return twoSteps(q, "clerk", "editor")
			}
			h.during = func(ctx context.Context, c host.Call) (*host.Result, error) {
				free := int64(1)
				select {
				case <-time.After(time.Duration(4*pick(4, "", c.Op)) * time.Millisecond):
					return nil, nil
				case <-ctx.Done():
					return &host.Result{Failed: "stopped", Micros: &free}, nil
				}
			}
			service := func(n int) *host.Service {
				of := st
				if n%2 == 1 { // cannot renew its lease
					of = stalled{st}
				}
				s, err := host.New(host.Config{Store: of, Ports: h.ports(), Process: fmt.Sprint("process ", n), Lease: 6 * time.Millisecond})
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			if err := service(0).Open(t.Context(), tenant, room, definition()); err != nil {
				t.Fatal(err)
			}
			for i := range 4 * rounds {
				h.post(fmt.Sprintf("q%d", i), "ana", []string{engine.MsgRequest, engine.MsgCorrection}[i%7/6], "and now?")
			}
			ctx := context.Background()
			var wg sync.WaitGroup
			for n := range 4 {
				s := service(n + 1)
				rng := rand.New(rand.NewPCG(7, uint64(n)))
				wg.Go(func() {
					for i := range rounds {
						var err error
						switch rng.IntN(6) {
						case 0, 1:
							_, err = s.AcceptEvent(ctx, tenant, room, fmt.Sprintf("q%d", rng.IntN(4*rounds)))
						case 2:
							var v host.Snapshot
							if v, err = s.Snapshot(ctx, tenant, room); err == nil && len(v.Planner.Objectives) > 0 {
								o := v.Planner.Objectives[0]
								order := order(fmt.Sprint(n, "/", i))
								if o.Status == "paused" {
									_, err = s.Resume(ctx, tenant, room, order, o.ID, o.ControlRevision)
								} else {
									_, err = s.Pause(ctx, tenant, room, order, o.ID, o.ControlRevision)
								}
							}
						default:
							_, err = s.Tick(ctx, tenant, room)
						}
						if errors.Is(err, errNoAnswer) {
							continue // it cannot tell whether it has the room, and judges no call of others
						}
						if !slices.Contains(ordinary, engine.CodeOf(err)) || err != nil && engine.CodeOf(err) == "" {
							t.Errorf("process %d, round %d: %v", n, i, err)
						}
					}
				})
			}
			wg.Wait()
			last := service(8)
			for range 200 {
				done, err := last.Tick(ctx, tenant, room)
				if err != nil {
					t.Fatal(err)
				}
				if !done.Busy && !done.More {
					break
				}
				time.Sleep(2 * time.Millisecond)
			}
			v, err := last.Snapshot(ctx, tenant, room)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range v.Operations {
				if o.Status != store.OpUncertain {
					t.Errorf("at rest with %+v", o)
				}
			}
			h.once(t)
			if err := last.Verify(ctx, tenant, room); err != nil {
				t.Error(err)
			}
			l, err := st.Load(ctx, "planner/"+tenant+"/"+room)
			if err != nil {
				t.Fatal(err)
			}
			late := 0
			for i := range l.Ops {
				if l.Ops[i].Reconciled != nil {
					late++
				}
			}
			t.Logf("%s: revision %d, %d calls, %d settled by a late reply, %d of unknown outcome, %+v", name, v.Rev, len(h.calls()), late, len(v.Operations), v.Money)
		})
	}
}
