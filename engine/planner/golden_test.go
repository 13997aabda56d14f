package planner_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/model/scripted"
	"github.com/agentrooms/qualify/engine/planner"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
)

const second = int64(1_000_000) // microseconds

// scene is a golden scenario: a room that the real runtime plays on a store,
// with a model that is a pure function of what it is asked.
type scene struct {
	change func(*planner.Spec)
	lines  []engine.OwnerSay
	// plan answers the coordinator; a string is sent as it is.
	plan func(engine.PlanRequest) any
	// work answers a specialist with a turn; calls is how often it has spoken in
	// this conversation.
	work func(agent string, calls int) engine.TurnReply
	// verdict of a reviewer on every criterion.
	verdict func(reviewer string, req engine.ReviewRequest) string
	took    func(agent string) int64 // seconds of a call
	usage   func(agent string, u *engine.Usage) *engine.Usage
	budget  int64
	end     string // termination word
	want    func(t *testing.T, g *played)
}

func goldenSpec() planner.Spec {
	return planner.Spec{
		RoomSpec: engine.RoomSpec{
			Goal: "Make the books agree", Owner: "ana", Parallel: 2,
			Agents: []engine.Participant{
				{ID: "keeper", Agent: "agent-k", Role: engine.RoleSpecialist, Description: "edits"},
				{ID: "writer", Agent: "agent-w", Role: engine.RoleSpecialist, Description: "writes"},
				{ID: "auditor", Agent: "agent-a", Role: engine.RoleReviewer, Description: "checks"},
				{ID: "second", Agent: "agent-s", Role: engine.RoleReviewer, Description: "checks too"},
			},
			Criteria: []engine.Criterion{{ID: "c1", Text: "amounts agree"}, {ID: "c2", Text: "a note is written"}},
		},
		CoordinatorPrompt: "plan", ReviewerPrompt: "review",
	}
}

func say(id, kind, text string, at int64) engine.OwnerSay {
	return engine.OwnerSay{EventID: "owner/" + id, AtUS: at * second, Message: engine.OwnerMessage{ID: id, Type: kind, From: "ana", Text: engine.Plain(text)}}
}

func order(key string, r engine.CommandRequest, at int64) engine.OwnerSay {
	return engine.OwnerSay{EventID: "owner/" + key, AtUS: at * second, Command: &engine.OwnerCommand{CommandRequest: r, Key: key, From: "ana"}}
}

const roomName = "golden/planner/0"

// objectiveOf is the id of the objective that an owner's message opens.
func objectiveOf(message string) string { return engine.StableID("obj_", "owner/"+message) }

// callOf is the first model call of a task of the objective.
func callOf(message string, version int, step string) string {
	cause := fmt.Sprintf("objective:%s:%d:%s", objectiveOf(message), version, step)
	return engine.OperationID(roomName, engine.OpKey{Kind: engine.OpSpecialist, Cause: cause})
}

func planStep(key, participant string, report bool, deps ...string) engine.PlanStep {
	return engine.PlanStep{
		Key: key, Participant: participant, Instruction: "do " + key, ActionLevel: engine.ActionRead, Deps: deps,
		Criteria: []string{"c1", "c2"}, Report: report,
	}
}

// proposal binds a decision to what the coordinator was shown.
func proposal(req engine.PlanRequest, decision string, steps ...engine.PlanStep) engine.PlanEnvelope {
	return engine.PlanEnvelope{
		Schema: engine.FormatPlan, BoundObjectiveRevision: req.ObjectiveRevision, BoundControlRevision: req.ControlRevision,
		Decision: decision, Plan: steps, Title: "books", Explanation: "because",
	}
}

// usual plans "fix, then report", and a fresh pair of steps at every replan.
func usual(req engine.PlanRequest) any {
	if req.PlanVersion == 0 {
		return proposal(req, engine.DecideObjective, planStep("fix", "keeper", false), planStep("report", "writer", true, "fix"))
	}
	return anew(req, "keeper")
}

// anew replaces the whole plan.
func anew(req engine.PlanRequest, worker string) engine.PlanEnvelope {
	n := fmt.Sprint(req.PlanVersion + 1)
	return proposal(req, engine.DecideRevisePlan, planStep("fix"+n, worker, false), planStep("report"+n, "writer", true, "fix"+n))
}

func done(agent string, _ int) engine.TurnReply {
	return engine.TurnReply{Status: engine.StatusDone, Text: agent + " is done"}
}

func always(v string) func(string, engine.ReviewRequest) string {
	return func(string, engine.ReviewRequest) string { return v }
}

// answer is the model of all parties.
func (s scene) answer(c model.Call) (scripted.Answer, error) {
	last := c.Messages[len(c.Messages)-1].Text
	_, rest, _ := strings.Cut(c.System, engine.PromptYouAre)
	who, _, _ := strings.Cut(rest, "\n")
	var reply any
	switch c.Format {
	case engine.FormatPlan:
		var req engine.PlanRequest
		if err := json.Unmarshal([]byte(last), &req); err != nil {
			return scripted.Answer{}, err
		}
		reply = s.plan(req)
	case engine.FormatReview:
		var req engine.ReviewRequest
		if err := json.Unmarshal([]byte(last), &req); err != nil {
			return scripted.Answer{}, err
		}
		r := engine.ReviewReply{Schema: engine.FormatReview, Report: req.Report}
		for _, cr := range req.Criteria {
			r.Verdicts = append(r.Verdicts, engine.CriterionVerdict{Criterion: cr.ID, Verdict: s.verdict(who, req), Evidence: "seen"})
		}
		reply = r
	default:
		calls := 0
		for _, m := range c.Messages {
			if m.Role == engine.MsgAssistant {
				calls++
			}
		}
		reply = s.work(who, calls)
	}
	text, ok := reply.(string)
	if !ok {
		b, err := json.Marshal(reply)
		if err != nil {
			return scripted.Answer{}, err
		}
		text = string(b)
	}
	took := second
	if s.took != nil {
		took = s.took(who) * second
	}
	a := scripted.Text(text, engine.Usage{Input: int64(len(last)) / 8, Output: int64(len(text)) / 8}, took)
	if s.usage != nil {
		a.Reply.Usage = s.usage(who, a.Reply.Usage)
	}
	return a, nil
}

// speaker says the lines of a scene.
type speaker struct{ lines []engine.OwnerSay }

func (o *speaker) Fold(e engine.LogEntry) {
	o.lines = slices.DeleteFunc(o.lines, func(l engine.OwnerSay) bool { return l.EventID == e.Event.ID })
}

func (o *speaker) Next() (engine.OwnerSay, bool) {
	if len(o.lines) == 0 {
		return engine.OwnerSay{}, false
	}
	return o.lines[0], true
}

func (o *speaker) Exhausted() bool { return false }

func (s scene) config(t testing.TB, st store.Rooms, j model.Journal, opaque bool, hook func(runtime.Point) error) runtime.Config {
	t.Helper()
	spec := goldenSpec()
	if s.change != nil {
		s.change(&spec)
	}
	p, err := scripted.New(scripted.Config{Func: s.answer, Journal: j, Opaque: opaque})
	if err != nil {
		t.Fatal(err)
	}
	budget := s.budget
	if budget == 0 {
		budget = 10_000_000
	}
	cfg := runtime.Config{
		Folds: runtime.Folds{
			Name:    roomName,
			Machine: func() (engine.Machine, error) { return planner.New(spec) },
			Owner:   func(engine.World) (engine.Owner, error) { return &speaker{slices.Clone(s.lines)}, nil },
		},
		Store: st, Room: "room", Salt: []byte("salt"), Funds: store.FundsSimulated, Provider: p, Model: "m", MaxOutputTokens: 400,
		Prices: model.Prices{"m": {Rates: model.Rates{Input: 2_500_000, Output: 10_000_000, Reasoning: 10_000_000}}},
		Limits: runtime.Limits{BudgetMicros: budget, Revisions: 2000},
	}
	if hook != nil {
		cfg.Crash = &runtime.Crash{Hook: hook}
	}
	return cfg
}

// kept is everything that must not depend on where a process died.
type kept struct {
	Result   runtime.Result
	Head     store.Head
	Rows     []store.Row
	Ops      []store.Op
	Calls    int
	Repeated []string
}

// played is a room and what it said.
type played struct {
	kept
	notes   map[string][]string
	says    []string
	answers []engine.Answer
}

func trail(t testing.TB, cfg runtime.Config, j *model.MemoryJournal) *played {
	t.Helper()
	l, err := cfg.Store.Load(t.Context(), cfg.Room)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := cfg.Store.Rows(t.Context(), cfg.Room, -1, 0)
	if err != nil {
		t.Fatal(err)
	}
	return &played{kept: kept{Head: l.Head, Rows: rows, Ops: l.Ops, Calls: j.Total(), Repeated: j.Repeated()}}
}

// read gathers what the rows say, from a replay of the room.
func (p *played) read(t testing.TB, cfg runtime.Config) {
	t.Helper()
	h, err := runtime.Replay(t.Context(), cfg.Store, cfg.Room, cfg.Folds)
	if err != nil {
		t.Fatal(err)
	}
	p.notes = map[string][]string{}
	for _, e := range h.Entries {
		for _, c := range e.Commands {
			switch {
			case c.Note != nil:
				p.notes[c.Note.Kind] = append(p.notes[c.Note.Kind], c.Note.Body.S)
			case c.Say != nil:
				p.says = append(p.says, c.Say.Status+": "+c.Say.Text.S)
			case c.Answer != nil:
				p.answers = append(p.answers, *c.Answer)
			}
		}
	}
}

var errDied = errors.New("the process died")

// play runs the scene, dying at the passages that die names, counted over all
// processes; check sees the room at every death and at the end.
func (s scene) play(t testing.TB, opaque bool, die func(passage int, p runtime.Point) bool) (*played, int) {
	t.Helper()
	st, j := memory.New(memory.Options{}), &model.MemoryJournal{}
	n, deaths := 0, 0
	for {
		cfg := s.config(t, st, j, opaque, func(p runtime.Point) error {
			if n++; die != nil && die(n, p) {
				return errDied
			}
			return nil
		})
		res, err := runtime.Run(t.Context(), cfg)
		if err != nil && !errors.Is(err, errDied) {
			t.Fatal(err)
		}
		g := trail(t, cfg, j)
		g.Result = res
		g.Result.Claim, g.Result.ModelCalls, g.Result.ToolCalls, g.Result.History = nil, 0, 0, nil
		invariants(t, g, j)
		if err == nil {
			g.read(t, cfg)
			return g, n
		}
		if deaths++; deaths > 1000 {
			t.Fatal("the room makes no progress")
		}
	}
}

// invariants asserts I1, I2, I6 and I7 on what a store holds.
func invariants(t testing.TB, g *played, j *model.MemoryJournal) {
	t.Helper()
	var charged, held, unknown int64
	for _, o := range g.Ops {
		open := o.Status == store.OpReserved || o.Status == store.OpDispatched || o.Status == store.OpUncertain
		switch {
		case open && o.ChargedMicros != 0:
			t.Fatalf("I1: operation %s is charged and held", o.ID)
		case open:
			held += o.ReservedMicros
		default:
			charged += o.ChargedMicros
		}
		if o.Status == store.OpUncertain {
			unknown += o.ReservedMicros
		}
		if n := j.Count(o.ID); n > 1 || n == 1 && (o.Status == store.OpReserved || o.Status == store.OpRefused) {
			t.Fatalf("I2: operation %s, %s, was called %d times", o.ID, o.Status, n)
		}
	}
	if m := g.Head.Money; m.Charged != charged || m.Held != held || m.Unknown != unknown {
		t.Fatalf("I1: the account %+v, the operations charged %d held %d unknown %d", m, charged, held, unknown)
	}
	for i, r := range g.Rows {
		if r.Rev != int64(i) {
			t.Fatalf("I7: revision %d at place %d", r.Rev, i)
		}
	}
	if len(g.Repeated) > 0 {
		t.Fatalf("I2: repeated calls %v", g.Repeated)
	}
}

// scenes are the golden scenarios of the issue.
func scenes() map[string]scene {
	ask := []engine.OwnerSay{say("m1", engine.MsgRequest, "please fix the books", 0)}
	again := func(id string, l engine.OwnerSay, at int64) engine.OwnerSay {
		l.EventID, l.AtUS = "owner/"+id, at*second
		return l
	}
	control := func(key, kind string, expected int, at int64) engine.OwnerSay {
		return order(key, engine.CommandRequest{Kind: kind, Objective: objectiveOf("m1"), Expected: expected}, at)
	}
	failing := func(agent string, calls int) engine.TurnReply {
		if agent == "keeper" {
			return engine.TurnReply{Status: engine.StatusBlocked, Text: "no access"}
		}
		return done(agent, calls)
	}
	return map[string]scene{
		"plan": {lines: ask, plan: usual, work: done, verdict: always("met"), end: runtime.Completed, want: func(t *testing.T, g *played) {
			g.expect(t, map[engine.OpKind]int{engine.OpInterpret: 1, engine.OpSpecialist: 2, engine.OpReview: 1})
		}},
		"replan": {
			lines: ask, work: failing, verdict: always("met"), end: runtime.Completed,
			plan: func(req engine.PlanRequest) any {
				if req.Reason == "task_failed" {
					return anew(req, "writer")
				}
				return usual(req)
			},
			want: func(t *testing.T, g *played) {
				g.expect(t, map[engine.OpKind]int{engine.OpInterpret: 2, engine.OpSpecialist: 3, engine.OpReview: 1})
			},
		},
		"repair": {
			lines: ask, work: done, verdict: always("met"), end: runtime.Completed,
			plan: func(req engine.PlanRequest) any {
				if len(req.Feedback) == 0 {
					return "I would begin with the books."
				}
				if req.Feedback[0].Code == planner.IssueFormat {
					return proposal(req, engine.DecideObjective, planStep("fix", "keeper", false), planStep("fix", "writer", true))
				}
				return usual(req)
			},
			want: func(t *testing.T, g *played) {
				g.expect(t, map[engine.OpKind]int{engine.OpInterpret: 3, engine.OpSpecialist: 2, engine.OpReview: 1})
			},
		},
		"three failed versions": {
			lines: ask, plan: usual, verdict: always("unmet"), end: runtime.Escalated,
			work: func(agent string, _ int) engine.TurnReply {
				return engine.TurnReply{Status: engine.StatusDone, Text: agent}
			},
			change: func(s *planner.Spec) { s.Identity = planner.IdentityObjective },
			want: func(t *testing.T, g *played) {
				// The words of the report never change, so only the first version is
				// sent to a reviewer: its verdict stands for the others (R53).
				g.expect(t, map[engine.OpKind]int{engine.OpInterpret: 3, engine.OpSpecialist: 6, engine.OpReview: 1})
				if n := len(g.notes[planner.NoteVerdict]); n != 3 {
					t.Errorf("%d verdicts", n)
				}
			},
		},
		"pause during a call": {
			lines: append(slices.Clone(ask), control("p", engine.CommandPause, 0, 5), control("r", engine.CommandResume, 1, 20),
				order("a", engine.CommandRequest{Kind: engine.CommandReadmit, Op: callOf("m1", 1, "fix"), Expected: 2}, 30)),
			plan: usual, work: done, verdict: always("met"), end: runtime.Completed,
			took: func(who string) int64 {
				if who == "keeper" {
					return 10
				}
				return 1
			},
			want: func(t *testing.T, g *played) {
				g.expect(t, map[engine.OpKind]int{engine.OpInterpret: 1, engine.OpSpecialist: 2, engine.OpReview: 1})
				if len(g.answers) != 3 || g.answers[2].Admission != string(planner.AdmissionReadmitted) || len(g.notes[planner.NoteHeld]) != 1 {
					t.Errorf("%+v", g.answers)
				}
			},
		},
		"a key is used again": {
			lines: append(slices.Clone(ask), control("k", engine.CommandPause, 0, 15), again("k2", control("k", engine.CommandPause, 0, 0), 16),
				again("k3", control("k", engine.CommandCancel, 1, 0), 17), control("r", engine.CommandResume, 1, 60),
				order("a", engine.CommandRequest{Kind: engine.CommandReadmit, Op: callOf("m1", 1, "fix"), Expected: 2}, 70), again("k4", control("k", engine.CommandPause, 0, 0), 200)),
			plan: usual, work: done, verdict: always("met"), end: runtime.Completed, took: func(string) int64 { return 10 },
			want: func(t *testing.T, g *played) {
				var got []string
				for _, a := range g.answers {
					got = append(got, fmt.Sprintf("%s %s %t %s", a.Key, a.Code, a.Repeated, a.Status))
				}
				want := []string{"k  false paused", "k  true paused", "k CONFLICT true ", "r  false active", "a  false active", "k  true paused"}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			},
		},
		"two objectives on one budget": {
			lines: append(slices.Clone(ask), say("m2", engine.MsgRequest, "and a note for Ben", 2)),
			plan: func(req engine.PlanRequest) any {
				if len(req.Messages) == 2 && req.Reason == "message" {
					return proposal(req, engine.DecideObjective, planStep("ben", "keeper", true))
				}
				return usual(req)
			},
			work: done, verdict: always("met"), end: runtime.Completed,
			want: func(t *testing.T, g *played) {
				g.expect(t, map[engine.OpKind]int{engine.OpInterpret: 2, engine.OpSpecialist: 3, engine.OpReview: 2})
			},
		},
		"correction racing a review": {
			lines: append(slices.Clone(ask), say("m2", engine.MsgCorrection, "leave i-18 alone", 25)),
			plan:  usual, work: done, verdict: always("met"), end: runtime.Completed,
			took: func(who string) int64 {
				return map[string]int64{"coordinator": 20, "auditor": 10, "keeper": 1, "writer": 1}[who]
			},
			want: func(t *testing.T, g *played) {
				g.expect(t, map[engine.OpKind]int{engine.OpInterpret: 2, engine.OpSpecialist: 4, engine.OpReview: 2})
				if len(g.notes[planner.NoteVerdict]) != 2 || !strings.Contains(g.notes[planner.NoteVerdict][0], `"current":false`) {
					t.Errorf("%v", g.notes[planner.NoteVerdict])
				}
			},
		},
		"two reports with distinct reviewers": {
			lines: append(slices.Clone(ask), say("m2", engine.MsgRequest, "then let the auditor count the boxes", 60)),
			plan: func(req engine.PlanRequest) any {
				if len(req.Messages) == 2 {
					return proposal(req, engine.DecideObjective, planStep("count", "auditor", true))
				}
				return usual(req)
			},
			work: done, verdict: always("met"), end: runtime.Completed,
			want: func(t *testing.T, g *played) {
				g.expect(t, map[engine.OpKind]int{engine.OpInterpret: 2, engine.OpSpecialist: 3, engine.OpReview: 2})
				var reviewers []string
				for _, o := range g.Ops {
					if o.Key.Kind == engine.OpReview {
						reviewers = append(reviewers, o.Agent)
					}
				}
				if diff := cmp.Diff([]string{"auditor", "second"}, reviewers); diff != "" {
					t.Error(diff)
				}
			},
		},
		"a grant lets the loop go on": {
			lines: append(slices.Clone(ask), order("g", engine.CommandRequest{Kind: engine.CommandGrant, Total: 10_000_000}, 60),
				order("g2", engine.CommandRequest{Kind: engine.CommandGrant, Total: 1}, 61)),
			plan: usual, work: done, verdict: always("met"), end: runtime.Completed, budget: 8_000,
			want: func(t *testing.T, g *played) {
				if g.Head.Money.Limit != 10_000_000 || len(g.answers) != 2 || g.answers[0].Code != "" || g.answers[1].Code != engine.CodeConflict || len(g.notes[planner.NoteBlocked]) != 1 {
					t.Errorf("%+v %+v %v", g.Head.Money, g.answers, g.notes[planner.NoteBlocked])
				}
			},
		},
		"an overrun halts until it is acknowledged": {
			lines: append(slices.Clone(ask), order("more", engine.CommandRequest{Kind: engine.CommandGrant, Total: 20_000_000}, 60),
				order("ack", engine.CommandRequest{Kind: engine.CommandGrant, Total: 20_000_000, Overruns: []string{callOf("m1", 1, "fix")}}, 120)),
			plan: usual, work: done, verdict: always("met"), end: runtime.Completed,
			usage: func(who string, u *engine.Usage) *engine.Usage {
				if who == "keeper" {
					u.Output = 1_000_000
				}
				return u
			},
			want: func(t *testing.T, g *played) {
				// More money alone starts nothing while the overrun is open (A5).
				if n := len(g.notes[planner.NoteBlocked]); n != 2 || len(g.answers) != 2 || g.answers[0].Code != "" || g.answers[1].Code != "" {
					t.Errorf("%d refusals, %+v", n, g.answers)
				}
				if m := g.Head.Money; m.Charged < 10_000_000 || m.Held != 0 {
					t.Errorf("%+v", m)
				}
			},
		},
		"missing usage": {
			lines: ask, plan: usual, work: done, verdict: always("met"), end: runtime.Completed,
			usage: func(string, *engine.Usage) *engine.Usage { return nil },
			want: func(t *testing.T, g *played) {
				for _, o := range g.Ops {
					if o.ChargedMicros != o.ReservedMicros || o.ChargedMicros == 0 || o.Receipt.UsageSource != "bound" {
						t.Errorf("%s is charged %d of %d by %q", o.Key.Kind, o.ChargedMicros, o.ReservedMicros, o.Receipt.UsageSource)
					}
				}
			},
		},
		"cancel during a call": {
			lines: append(slices.Clone(ask), control("c", engine.CommandCancel, 0, 5)),
			plan:  usual, work: done, verdict: always("met"), end: runtime.GaveUp,
			took: func(string) int64 { return 4 },
			want: func(t *testing.T, g *played) {
				g.expect(t, map[engine.OpKind]int{engine.OpInterpret: 1, engine.OpSpecialist: 1})
			},
		},
	}
}

func (p *played) expect(t *testing.T, want map[engine.OpKind]int) {
	t.Helper()
	got := map[engine.OpKind]int{}
	for _, o := range p.Ops {
		if o.Status != store.OpRefused {
			got[o.Key.Kind]++
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("operations:\n%s\nsaid: %v", diff, p.says)
	}
}

// R45, R49, I1, I2, I6, I7: every golden scenario, stopped at every passage
// (after every commit, mark, call and receipt) and restarted, comes to the
// same rows, states, calls and money, when the model can be asked what became
// of a call.
func TestR49_R65_GoldenScenariosStoppedAnywhereAreTheSame(t *testing.T) {
	t.Parallel()
	for name, s := range scenes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, passages := s.play(t, false, nil)
			if want.Result.Termination != s.end {
				t.Fatalf("ended by %s (%s), want %s; said %v", want.Result.Termination, want.Result.Fault, s.end, want.says)
			}
			s.want(t, want)
			if want.Head.Money.Held != 0 {
				t.Fatalf("%+v", want.Head.Money)
			}
			for at := 1; at <= passages; at++ {
				got, _ := s.play(t, false, func(n int, _ runtime.Point) bool { return n == at })
				if diff := differs(want, got); diff != "" {
					t.Fatalf("stopped at passage %d of %d (-whole +stopped):\n%s", at, passages, diff)
				}
			}
			// And at every passage in turn: no process lives longer than one.
			got, _ := s.play(t, false, func(_ int, p runtime.Point) bool { return p == runtime.AfterCommit })
			if diff := differs(want, got); diff != "" {
				t.Fatalf("stopped after every commit (-whole +stopped):\n%s", diff)
			}
		})
	}
}

// differs is cmp.Diff, quick when there is nothing to say.
func differs(want, got *played) string {
	if reflect.DeepEqual(want.kept, got.kept) {
		return ""
	}
	return cmp.Diff(want.kept, got.kept)
}

// R42, R45, R47, I2: with a model that cannot be asked, a stop leaves at most
// one call per operation, and the whole hold of what is uncertain until it is
// reconciled by proof; then no money is held.
func TestR42_GoldenScenariosOnOpaqueModelsCallOnceAndHold(t *testing.T) {
	t.Parallel()
	for name, s := range scenes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, passages := s.play(t, true, nil)
			uncertain := 0
			for at := 1; at <= passages; at++ {
				st, j := memory.New(memory.Options{}), &model.MemoryJournal{}
				n := 0
				for {
					cfg := s.config(t, st, j, true, func(runtime.Point) error {
						if n++; n == at {
							return errDied
						}
						return nil
					})
					_, err := runtime.Run(t.Context(), cfg)
					if err != nil && !errors.Is(err, errDied) {
						t.Fatal(err)
					}
					g := trail(t, cfg, j)
					invariants(t, g, j)
					if err != nil {
						continue
					}
					uncertain += proves(t, st, g, j)
					break
				}
			}
			if uncertain == 0 {
				t.Error("no stop left an uncertain call: the scene proves nothing")
			}
		})
	}
}

// proves reconciles what is uncertain with the server's own log.
func proves(t *testing.T, st *memory.Store, g *played, j *model.MemoryJournal) int {
	t.Helper()
	n := 0
	for _, o := range g.Ops {
		if o.Status != store.OpUncertain {
			continue
		}
		n++
		r := store.Reconciliation{Proof: "the server's log"}
		if j.Has(o.ID) {
			r.Executed, r.ChargedMicros, r.UsageSource = true, o.ReservedMicros, "bound"
		}
		if err := st.Reconcile(t.Context(), g.Head.Room, o.ID, r); err != nil {
			t.Fatal(err)
		}
	}
	l, err := st.Load(t.Context(), g.Head.Room)
	if err != nil {
		t.Fatal(err)
	}
	if m := l.Head.Money; m.Held != 0 || m.Unknown != 0 || m.Charged < g.Head.Money.Charged {
		t.Fatalf("after reconciliation: %+v", m)
	}
	return n
}

// A4, R38: usage that is missing is charged at the bound and the result is
// used. A5, R39: an overrun halts the room until the owner's grant names it.
// Both scenes are stopped everywhere by TestR49_R65 too.
func TestA4_A5_MissingUsageAndOverruns(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"missing usage", "an overrun halts until it is acknowledged"} {
		s := scenes()[name]
		g, _ := s.play(t, false, nil)
		if g.Result.Termination != s.end {
			t.Errorf("%s: ended by %s", name, g.Result.Termination)
		}
		s.want(t, g)
	}
}

// R4, R5, R14, I7: the complete state of every revision is rebuilt from the
// rows by a fresh machine, and has the digest that the row states.
func TestR4_R5_I7_EveryRevisionRebuildsTheCompleteState(t *testing.T) {
	t.Parallel()
	for name, s := range scenes() {
		st, j := memory.New(memory.Options{}), &model.MemoryJournal{}
		cfg := s.config(t, st, j, false, nil)
		if _, err := runtime.Run(t.Context(), cfg); err != nil {
			t.Fatal(err)
		}
		rows, err := st.Rows(t.Context(), cfg.Room, -1, 0)
		if err != nil {
			t.Fatal(err)
		}
		m, err := cfg.Machine()
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range rows {
			var ev engine.Event
			if err := json.Unmarshal(r.Event, &ev); err != nil {
				t.Fatal(err)
			}
			load(t, st, cfg.Room, ev.Texts())
			if _, err := m.Handle(ev); err != nil {
				t.Fatal(err)
			}
			snap, err := m.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			if engine.Digest(snap) != r.StateDigest {
				t.Fatalf("%s: revision %d is rebuilt to another state", name, i)
			}
			if len(snap) > 1<<20 {
				t.Fatalf("%s: a state of %d bytes (R8)", name, len(snap))
			}
		}
	}
}

func load(t *testing.T, st *memory.Store, room string, texts []*engine.Text) {
	t.Helper()
	for _, x := range texts {
		if x.Loaded() {
			continue
		}
		b, err := st.Blobs(t.Context(), room, []string{x.Blob.Digest})
		if err != nil {
			t.Fatal(err)
		}
		x.S = string(b[x.Blob.Digest])
	}
}

// R40: a room on an allotment cannot be granted more than it: the owner's
// ceiling is drawn in allotments only.
func TestR40_AGrantStaysInsideTheAllotment(t *testing.T) {
	t.Parallel()
	s := scenes()["a grant lets the loop go on"]
	cfg := s.config(t, memory.New(memory.Options{}), &model.MemoryJournal{}, false, nil)
	cfg.Allotment = "allotment-1"
	if _, err := runtime.Run(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	g := &played{}
	g.read(t, cfg)
	l, err := cfg.Store.Load(t.Context(), cfg.Room)
	if err != nil {
		t.Fatal(err)
	}
	if l.Head.Money.Limit != s.budget || len(g.answers) != 2 || g.answers[0].Code != engine.CodeForbidden {
		t.Fatalf("%+v %+v", l.Head.Money, g.answers)
	}
}
