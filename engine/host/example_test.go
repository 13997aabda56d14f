package host_test

import (
	"context"
	"fmt"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/host"
	"github.com/agentrooms/qualify/engine/store/memory"
)

// desk is a whole host: it reasons by rule, lets its clerk write, and has an
// auditor read the result. A real one asks models or people.
type desk struct{ mail map[string]host.Persisted }

func (desk) Bound(host.Call) (int64, error) { return 2_000, nil } // at most 0.002 USD a call

func (desk) Propose(_ context.Context, _ host.Call, q engine.PlanRequest) (host.Result, error) {
	return host.Reply(engine.PlanEnvelope{
		Schema: engine.FormatPlan, BoundObjectiveRevision: q.ObjectiveRevision, BoundControlRevision: q.ControlRevision,
		Decision: engine.DecideObjective, Title: "A letter", Explanation: "one step is enough",
		Plan: []engine.PlanStep{{
			Key: "write", Participant: "clerk", Instruction: q.Messages[0].Text, ExpectedOutput: "a letter", Deps: []string{},
			ActionLevel: engine.ActionDraft, Tools: []string{}, Criteria: []string{"polite"}, Report: true,
		}},
	}, 1_200)
}

func (desk) Execute(context.Context, host.Call) (host.Result, error) {
	return host.Reply(engine.TurnReply{Status: engine.StatusDone, Text: "Dear Sir, thank you."}, 900)
}

func (desk) Review(_ context.Context, _ host.Call, q engine.ReviewRequest) (host.Result, error) {
	verdict := engine.CriterionVerdict{Criterion: "polite", Verdict: engine.VerdictMet, Evidence: "it says thank you"}
	return host.Reply(engine.ReviewReply{Schema: engine.FormatReview, Report: q.Report, Verdicts: []engine.CriterionVerdict{verdict}}, 700)
}

func (d desk) Event(_ context.Context, _ host.Ref, id string) (host.Persisted, error) {
	if m, ok := d.mail[id]; ok {
		return m, nil
	}
	return host.Persisted{}, host.ErrUnknown
}

func (d desk) Contribution(ctx context.Context, r host.Ref, id string) (host.Persisted, error) {
	return d.Event(ctx, r, id)
}

func (desk) Eligible(context.Context, host.Ref) ([]string, error) {
	return []string{"auditor", "clerk"}, nil
}

func (desk) IsOwner(_ context.Context, _ host.Ref, w string) (bool, error) { return w == "ana", nil }

func (desk) Notify(_ context.Context, n host.Notification) error {
	fmt.Printf("%s, %s: %s\n", n.From, n.Status, n.Text)
	return nil
}

// A room from message to verdict.
func Example() {
	ctx := context.Background()
	d := desk{mail: map[string]host.Persisted{"m1": {ID: "m1", Room: host.Ref{Tenant: "acme", Room: "post"}, Author: "ana", Text: "Thank them."}}}
	s, err := host.New(host.Config{Store: memory.New(memory.Options{}), Ports: host.Ports{Reasoner: d, Executor: d, Verifier: d, Authority: d, Events: d, Notifier: d}})
	check(err)
	check(s.Open(ctx, "acme", "post", host.Definition{
		Goal: "Answer the mail", Owner: "ana", BudgetMicros: 50_000, Criteria: []engine.Criterion{{ID: "polite", Text: "The letter is polite."}},
		Agents: []engine.Participant{{ID: "clerk", Agent: "agent-c", Role: "specialist"}, {ID: "auditor", Agent: "agent-a", Role: engine.RoleReviewer}},
	}))
	_, err = s.AcceptEvent(ctx, "acme", "post", "m1")
	check(err)
	done, err := s.Tick(ctx, "acme", "post")
	check(err)
	now, err := s.Snapshot(ctx, "acme", "post")
	fmt.Printf("%d calls, %d of %d micros, error %v\n", done.Calls, now.Money.Charged, now.Money.Limit, err)
	// Output:
	// coordinator, done: Dear Sir, thank you.
	// 3 calls, 2800 of 50000 micros, error <nil>
}
