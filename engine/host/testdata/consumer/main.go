// Command consumer is a program that embeds the planner and knows nothing but
// its public API. It makes a store, applies both ledgers and checks them, has
// two objectives carried out with two reports by distinct reviewers, drops the
// coordinator and makes it anew in between, and counts every call.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/host"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/sqlite"
)

// office is the program's own side: its mail and its people.
type office struct {
	calls     map[string]int // by operation
	reviewers []string
	tasks     map[string]int // task → turns
	mail      map[string]string
}

func (*office) Bound(host.Call) (int64, error) { return 10_000, nil }

func (o *office) Propose(_ context.Context, c host.Call, q engine.PlanRequest) (host.Result, error) {
	o.calls[c.Op]++
	worker := map[int]string{1: "clerk", 2: "auditor"}[len(q.Messages)] // the second report is the auditor's own
	key := fmt.Sprintf("part-%d", len(q.Messages))
	return host.Reply(engine.PlanEnvelope{
		Schema: engine.FormatPlan, BoundObjectiveRevision: q.ObjectiveRevision, BoundControlRevision: q.ControlRevision,
		Decision: engine.DecideObjective, Title: key, Explanation: "collect and report",
		Plan: []engine.PlanStep{
			{Key: "collect-" + key, Participant: "clerk", Instruction: "collect " + key, ExpectedOutput: "a list", Deps: []string{}, ActionLevel: engine.ActionRead, Tools: []string{}, Criteria: []string{}},
			{Key: key, Participant: worker, Instruction: "report " + key, ExpectedOutput: "a report", Deps: []string{"collect-" + key}, ActionLevel: engine.ActionDraft, Tools: []string{}, Criteria: []string{"done"}, Report: true},
		},
	}, 3_000)
}

func (o *office) Execute(_ context.Context, c host.Call) (host.Result, error) {
	o.calls[c.Op]++
	o.tasks[c.Task]++
	return host.Reply(engine.TurnReply{Status: engine.StatusDone, Text: "report by " + c.Participant}, 2_000)
}

func (o *office) Review(_ context.Context, c host.Call, q engine.ReviewRequest) (host.Result, error) {
	o.calls[c.Op]++
	o.reviewers = append(o.reviewers, c.Participant)
	return host.Reply(engine.ReviewReply{
		Schema: engine.FormatReview, Report: q.Report,
		Verdicts: []engine.CriterionVerdict{{Criterion: "done", Verdict: engine.VerdictMet, Evidence: "the report is there"}},
	}, 1_000)
}

func (o *office) Event(_ context.Context, r host.Ref, id string) (host.Persisted, error) {
	text, ok := o.mail[id]
	if !ok {
		return host.Persisted{}, host.ErrUnknown
	}
	return host.Persisted{ID: id, Room: r, Author: "owner", Type: engine.MsgRequest, Text: text}, nil
}

func (o *office) Contribution(ctx context.Context, r host.Ref, id string) (host.Persisted, error) {
	return o.Event(ctx, r, id)
}

func (*office) Eligible(context.Context, host.Ref) ([]string, error) {
	return []string{"auditor", "clerk", "controller"}, nil
}

func (*office) IsOwner(context.Context, host.Ref, string) (bool, error) { return false, nil }

func (*office) Notify(context.Context, host.Notification) error { return nil }

func main() {
	if err := run(context.Background(), filepath.Join(os.Args[1], "planner.db")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, path string) error {
	if _, err := sqlite.Open(ctx, path, sqlite.Options{Ledgers: sqlite.Ledgers()}); !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("opening made a store: %v", err)
	}
	applied, err := sqlite.Migrate(ctx, path, sqlite.Rooms, sqlite.Calls)
	if err != nil {
		return err
	}
	for _, l := range applied {
		fmt.Printf("ledger %s: %t\n", l.Ledger, l.Version > 0 && l.Version == l.Newest)
	}
	o := &office{calls: map[string]int{}, tasks: map[string]int{}, mail: map[string]string{"m1": "the first report", "m2": "the second report"}}
	for _, mail := range []string{"m1", "m2"} {
		if err := serve(ctx, path, o, mail, 0); err != nil {
			return err
		}
	}
	made := len(o.calls)
	// The coordinator is dropped and made anew: nothing is left to do, and what
	// came before is known.
	if err := serve(ctx, path, o, "m1", made); err != nil {
		return err
	}
	if err := serve(ctx, path, o, "m2", made); err != nil {
		return err
	}
	most := 0
	for _, n := range o.calls {
		most = max(most, n)
	}
	doubled := 0
	for _, n := range o.tasks {
		doubled += n - 1
	}
	fmt.Printf("%d operations, at most %d call each; %d tasks, %d doubled\n", made, most, len(o.tasks), doubled)
	fmt.Printf("reviewers: %s, distinct %t\n", strings.Join(o.reviewers, ", "), len(slices.Compact(slices.Sorted(slices.Values(o.reviewers)))) == len(o.reviewers))
	return destroy(ctx, path)
}

// serve is a whole life of a coordinator: opened, one message, worked to rest,
// dropped. atMost, when not 0, is how many calls there may be in the end.
func serve(ctx context.Context, path string, o *office, mail string, atMost int) (err error) {
	st, err := sqlite.Open(ctx, path, sqlite.Options{Ledgers: sqlite.Ledgers()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	s, err := host.New(host.Config{Store: st, Ports: host.Ports{Reasoner: o, Executor: o, Verifier: o, Authority: o, Events: o, Notifier: o}})
	if err != nil {
		return err
	}
	if err := s.Open(ctx, "tenant", "room", host.Definition{
		Goal: "Reports", Owner: "owner", BudgetMicros: 500_000, Criteria: []engine.Criterion{{ID: "done", Text: "a report is there"}},
		Agents: []engine.Participant{
			{ID: "clerk", Agent: "a-clerk", Role: engine.RoleSpecialist, Tools: []string{}},
			{ID: "auditor", Agent: "a-auditor", Role: engine.RoleReviewer, Tools: []string{}},
			{ID: "controller", Agent: "a-controller", Role: engine.RoleReviewer, Tools: []string{}},
		},
	}); err != nil {
		return err
	}
	if _, err := s.AcceptEvent(ctx, "tenant", "room", mail); err != nil {
		return err
	}
	done, err := s.Tick(ctx, "tenant", "room")
	if err != nil {
		return err
	}
	v, err := s.Snapshot(ctx, "tenant", "room")
	if err != nil {
		return err
	}
	runs, err := st.Runs(ctx, "planner/tenant/room")
	if err != nil {
		return err
	}
	completed := 0
	for _, r := range runs {
		if r.Status == store.RunCompleted {
			completed++
		}
	}
	if !json.Valid(v.State) || len(v.Operations) > 0 || atMost > 0 && len(o.calls) != atMost {
		return fmt.Errorf("after %s: %d calls, open %+v", mail, len(o.calls), v.Operations)
	}
	fmt.Printf("%s: %d calls now, %d runs completed, %d micros, claim %q\n", mail, done.Calls, completed, v.Money.Charged, v.Planner.Claim)
	return nil
}

// destroy takes both ledgers back, which only the words for this store do.
func destroy(ctx context.Context, path string) error {
	for _, l := range []sqlite.Ledger{sqlite.Calls, sqlite.Rooms} {
		if err := sqlite.Rollback(ctx, path, l, "yes"); !errors.Is(err, store.ErrInvalid) {
			return fmt.Errorf("destroyed by any word: %v", err)
		}
		words, err := sqlite.Confirmation(ctx, path, l)
		if err != nil {
			return err
		}
		if err := sqlite.Rollback(ctx, path, l, words); err != nil {
			return err
		}
	}
	left, err := sqlite.State(ctx, path)
	if err != nil {
		return err
	}
	fmt.Printf("after the rollback: %s %d, %s %d\n", left[0].Ledger, left[0].Version, left[1].Ledger, left[1].Version)
	return nil
}
