package host_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/host"
	"github.com/agentrooms/qualify/engine/planner"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store/memory"
)

const (
	tenant = "acme"
	room   = "post"
)

var here = host.Ref{Tenant: tenant, Room: room}

// definition is a room in which a clerk collects and an editor reports, and
// two reviewers are at hand.
func definition() host.Definition {
	return host.Definition{
		Goal: "Answer the mail", Owner: "ana", BudgetMicros: 1_000_000, Parallel: 2,
		Criteria: []engine.Criterion{{ID: "c1", Text: "all letters are answered"}},
		Agents: []engine.Participant{
			{ID: "clerk", Agent: "agent-c", Role: engine.RoleSpecialist, Description: "collects", Tools: []string{}},
			{ID: "editor", Agent: "agent-e", Role: engine.RoleSpecialist, Description: "writes", Tools: []string{}},
			{ID: "auditor", Agent: "agent-a", Role: engine.RoleReviewer, Description: "checks", Tools: []string{}},
			{ID: "second", Agent: "agent-s", Role: engine.RoleReviewer, Description: "checks too", Tools: []string{}},
		},
	}
}

// house is a whole host for tests: every port, with what it was asked.
type house struct {
	mu       sync.Mutex
	mail     map[string]host.Persisted
	eligible []string
	owners   []string
	made     map[string]int    // calls by operation
	kinds    map[string]string // format and participant by operation, as "plan coordinator"
	order    []string          // the same, in order of calls
	bounds   int64
	sayings  []host.Notification
	distinct map[string]host.Notification

	propose  func(q engine.PlanRequest) engine.PlanEnvelope
	execute  func(c host.Call) engine.TurnReply
	review   func(q engine.ReviewRequest) engine.ReviewReply
	during   func(ctx context.Context, c host.Call) (*host.Result, error) // in every call; nil, nil goes on
	deliver  func(n host.Notification) error
	evidence func(op host.Operation) (host.Evidence, error)
	asked    []host.Operation
	authErr  error
}

func newHouse() *house {
	h := &house{
		mail: map[string]host.Persisted{}, eligible: []string{"auditor", "clerk", "editor", "second"}, owners: []string{"session-of-ana"},
		made: map[string]int{}, kinds: map[string]string{}, bounds: 2_000, distinct: map[string]host.Notification{},
		propose: func(q engine.PlanRequest) engine.PlanEnvelope { return twoSteps(q, "clerk", "editor") },
		execute: func(c host.Call) engine.TurnReply {
			return engine.TurnReply{Status: engine.StatusDone, Text: "done by " + c.Participant}
		},
		review: func(q engine.ReviewRequest) engine.ReviewReply { return verdict(q, engine.VerdictMet) },
	}
	h.post("m1", "ana", engine.MsgRequest, "Please answer the mail.")
	return h
}

func (h *house) post(id, author, kind, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mail[id] = host.Persisted{ID: id, Room: here, Author: author, Type: kind, Text: text}
}

// twoSteps is a plan of one objective: collect, then report.
func twoSteps(q engine.PlanRequest, collector, reporter string) engine.PlanEnvelope {
	env := engine.PlanEnvelope{
		Schema: engine.FormatPlan, BoundObjectiveRevision: q.ObjectiveRevision, BoundControlRevision: q.ControlRevision,
		Decision: engine.DecideObjective, Title: "mail", Explanation: "collect, then report",
	}
	if q.ObjectiveID != "" && q.PlanVersion > 0 && len(q.Progress) > 0 && q.Reason != "message" {
		env.Decision = engine.DecideRevisePlan
	}
	n := fmt.Sprint(len(q.Messages), q.PlanVersion)
	env.Plan = []engine.PlanStep{
		{Key: "collect" + strings.ReplaceAll(n, " ", "-"), Participant: collector, Instruction: "collect " + n, ExpectedOutput: "a list", Deps: []string{}, ActionLevel: engine.ActionRead, Tools: []string{}, Criteria: []string{}},
		{Key: "report" + strings.ReplaceAll(n, " ", "-"), Participant: reporter, Instruction: "report " + n, ExpectedOutput: "a report", ActionLevel: engine.ActionDraft, Tools: []string{}, Criteria: []string{"c1"}, Report: true},
	}
	env.Plan[1].Deps = []string{env.Plan[0].Key}
	return env
}

// decide is an envelope without a plan.
func decide(q engine.PlanRequest, decision, text string) engine.PlanEnvelope {
	return engine.PlanEnvelope{
		Schema: engine.FormatPlan, BoundObjectiveRevision: q.ObjectiveRevision, BoundControlRevision: q.ControlRevision,
		Decision: decision, Text: text, Explanation: "so it is",
	}
}

func verdict(q engine.ReviewRequest, v string) engine.ReviewReply {
	out := engine.ReviewReply{Schema: engine.FormatReview, Report: q.Report}
	for _, c := range q.Criteria {
		out.Verdicts = append(out.Verdicts, engine.CriterionVerdict{Criterion: c.ID, Verdict: v, Evidence: "as shown"})
	}
	return out
}

func (h *house) Bound(host.Call) (int64, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.bounds < 0 {
		return 0, fmt.Errorf("no bound")
	}
	return h.bounds, nil
}

// begin notes a call; the second one of an operation is a failure of the test.
func (h *house) begin(ctx context.Context, c host.Call) (*host.Result, error) {
	h.mu.Lock()
	h.made[c.Op]++
	kind, _, _ := strings.Cut(c.Format, "/")
	h.kinds[c.Op] = kind + " " + c.Participant
	h.order = append(h.order, kind+" "+c.Participant)
	during := h.during
	h.mu.Unlock()
	if during == nil {
		return nil, nil
	}
	return during(ctx, c)
}

func (h *house) Propose(ctx context.Context, c host.Call, q engine.PlanRequest) (host.Result, error) {
	if r, err := h.begin(ctx, c); r != nil || err != nil {
		return deref(r), err
	}
	return host.Reply(h.propose(q), 1_000)
}

func (h *house) Execute(ctx context.Context, c host.Call) (host.Result, error) {
	if r, err := h.begin(ctx, c); r != nil || err != nil {
		return deref(r), err
	}
	return host.Reply(h.execute(c), 100)
}

func (h *house) Review(ctx context.Context, c host.Call, q engine.ReviewRequest) (host.Result, error) {
	if r, err := h.begin(ctx, c); r != nil || err != nil {
		return deref(r), err
	}
	return host.Reply(h.review(q), 10)
}

func deref(r *host.Result) host.Result {
	if r == nil {
		return host.Result{}
	}
	return *r
}

func (h *house) Event(_ context.Context, _ host.Ref, id string) (host.Persisted, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if m, ok := h.mail[id]; ok {
		return m, nil
	}
	return host.Persisted{}, fmt.Errorf("mail %s: %w", id, host.ErrUnknown)
}

func (h *house) Contribution(ctx context.Context, r host.Ref, id string) (host.Persisted, error) {
	return h.Event(ctx, r, id)
}

func (h *house) Eligible(context.Context, host.Ref) ([]string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.eligible), h.authErr
}

func (h *house) IsOwner(_ context.Context, _ host.Ref, caller string) (bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Contains(h.owners, caller), nil
}

func (h *house) allow(ids ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.eligible = ids
}

func (h *house) Notify(_ context.Context, n host.Notification) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sayings = append(h.sayings, n)
	if h.deliver != nil {
		if err := h.deliver(n); err != nil {
			return err
		}
	}
	h.distinct[n.ID] = n
	return nil
}

func (h *house) Evidence(_ context.Context, op host.Operation) (host.Evidence, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, op)
	if h.evidence == nil {
		return host.Evidence{}, nil
	}
	return h.evidence(op)
}

// calls are the calls made so far, in order, as "plan coordinator".
func (h *house) calls() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.order)
}

// failer is the part of testing.TB and rapid.T that a check needs.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
}

// once fails the test when an operation was handed over twice (I2).
func (h *house) once(t failer) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	for op, n := range h.made {
		if n != 1 {
			t.Errorf("operation %s (%s) was called %d times", op, h.kinds[op], n)
		}
	}
}

func (h *house) ports() host.Ports {
	return host.Ports{Reasoner: h, Executor: h, Verifier: h, Authority: h, Events: h, Notifier: h, Reconciler: h}
}

// clock is a clock of leases and events that a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(time.Millisecond)
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// scene is one room of a house on a store.
type scene struct {
	t     testing.TB
	h     *house
	store host.Store
	clock *clock
	s     *host.Service
}

// begin opens a room on a fresh store in memory.
func begin(t testing.TB, change ...func(*host.Definition)) *scene {
	t.Helper()
	c := newClock()
	x := &scene{t: t, h: newHouse(), clock: c, store: memory.New(memory.Options{Now: c.Now})}
	x.s = x.service(nil)
	d := definition()
	for _, f := range change {
		f(&d)
	}
	x.must(x.s.Open(t.Context(), tenant, room, d))
	s := x.s
	t.Cleanup(func() {
		if err := s.Verify(context.Background(), tenant, room); err != nil {
			t.Errorf("the room's history does not verify: %v", err)
		}
	})
	return x
}

// service makes a further service over the same store and house.
func (x *scene) service(change func(*host.Config)) *host.Service {
	x.t.Helper()
	cfg := host.Config{Store: x.store, Ports: x.h.ports(), Process: "test", Now: x.clock.Now, Lease: time.Second}
	if change != nil {
		change(&cfg)
	}
	s, err := host.New(cfg)
	x.must(err)
	return s
}

func (x *scene) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

func (x *scene) accept(id string) host.Accepted {
	x.t.Helper()
	a, err := x.s.AcceptEvent(x.t.Context(), tenant, room, id)
	x.must(err)
	return a
}

func (x *scene) tick() runtime.Ticked {
	x.t.Helper()
	done, err := x.s.Tick(x.t.Context(), tenant, room)
	x.must(err)
	return done
}

func (x *scene) look() host.Snapshot {
	x.t.Helper()
	v, err := x.s.Snapshot(x.t.Context(), tenant, room)
	x.must(err)
	return v
}

// objective is the newest objective.
func (x *scene) objective() planner.ObjectiveView {
	x.t.Helper()
	v := x.look()
	if len(v.Planner.Objectives) == 0 {
		x.t.Fatalf("no objective: %s", v.State)
	}
	return v.Planner.Objectives[0]
}

func order(key string) host.Order { return host.Order{Key: key, Caller: "session-of-ana"} }

// want fails the test unless err has the code.
func want(t testing.TB, err error, code string) {
	t.Helper()
	if engine.CodeOf(err) != code {
		t.Errorf("error %v, want code %s", err, code)
	}
}
