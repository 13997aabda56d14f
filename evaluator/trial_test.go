package evaluator

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/corpus/gold"
	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/evaluator/trace"
)

const goldText = `schema: qualify/gold/v1
case: demo-01
criteria:
  - {id: c-set, required: true, check: {document: /book/n, equals: 2}}
  - {id: c-note, required: true, check: {message: {to: ana, contains_all: [two]}}}
  - {id: c-extra, required: false, check: {document: /book/m, is: present}}
expected_effects:
  - {tool: put, args: {n: 2}}
  - {tool: note, args: {to: ana}, times: 2}
solution:
  - {step: s1, by: a, call: put, args: {n: 2}, meets: [c-set]}
`

func demoGold(t testing.TB) *gold.Gold {
	t.Helper()
	g, err := gold.Parse("demo-01.yaml", []byte(goldText))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// tape builds traces of the demo case.
type tape struct {
	t       testing.TB
	header  trace.Header
	records []func(*trace.Writer) error
	end     trace.End
	ops     int
}

func newTape(t testing.TB) *tape {
	return &tape{
		t:      t,
		header: trace.Header{Arm: "x", Mode: "legacy", Case: "demo-01", Family: "demo", Evidence: EvidenceSimulated, Clock: "virtual"},
		end: trace.End{
			AtUS: 900, Termination: TermCompleted,
			Documents: map[string]json.RawMessage{"book": json.RawMessage(`{"n":2}`)},
			Messages:  []trace.Message{{ID: "m", From: "a", To: "ana", Text: "it is two now"}},
		},
	}
}

func (p *tape) add(f func(*trace.Writer) error) *tape {
	p.records = append(p.records, f)
	return p
}

func (p *tape) owner(id, typ string, at int64) *tape {
	return p.add(func(w *trace.Writer) error { return w.Owner(trace.Owner{AtUS: at, ID: id, Type: typ, From: "ana"}) })
}

func (p *tape) event(kind string, at int64) *tape {
	return p.add(func(w *trace.Writer) error { return w.Event(trace.Event{AtUS: at, Kind: kind}) })
}

func (p *tape) claim(at int64) *tape {
	p.end.Claim = &trace.Claim{AtUS: at, By: "a"}
	return p.event("claim", at)
}

func (p *tape) withdraw(at int64) *tape {
	p.end.Claim = nil
	return p.event("withdraw", at)
}

// op adds an operation from start to finish and, for tools, its event.
func (p *tape) op(o trace.Op, kind engine.EventKind, args string) *tape {
	p.ops++
	o.Op = fmt.Sprint("op_", p.ops)
	return p.add(func(w *trace.Writer) error {
		if err := w.Op(o); err != nil || kind == "" {
			return err
		}
		body, err := engine.Canonical(map[string]any{"tool": o.Tool, "args": json.RawMessage(args)})
		if err != nil {
			return err
		}
		return w.Event(trace.Event{AtUS: o.AtUS, Kind: string(kind), Op: o.Op, Body: body})
	})
}

func (p *tape) effect(e trace.Effect) *tape {
	if e.Identity == "" {
		id, err := engine.EffectIdentity(e.Tool, e.Args, nil, e.Target)
		if err != nil {
			p.t.Fatal(err)
		}
		e.Identity = id
	}
	if e.State == "" {
		e.State = trace.StateConfirmed
	}
	return p.add(func(w *trace.Writer) error { return w.Effect(e) })
}

func (p *tape) read() *trace.Trace {
	p.t.Helper()
	var b bytes.Buffer
	w := trace.NewWriter(&b)
	err := w.Header(p.header)
	for _, f := range p.records {
		if err == nil {
			err = f(w)
		}
	}
	if err == nil {
		_, err = w.End(p.end)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	tr, err := trace.Read(&b)
	if err != nil {
		p.t.Fatal(err)
	}
	return tr
}

func (p *tape) score() TrialScore {
	p.t.Helper()
	s, err := ScoreTrial(p.read(), CaseFacts{Faults: map[string]string{"f1": "slow"}}, demoGold(p.t))
	if err != nil {
		p.t.Fatal(err)
	}
	return s
}

func put(n string) trace.Effect {
	return trace.Effect{Tool: "put", Target: "book", Args: json.RawMessage(`{"n":` + n + `}`)}
}

func note(text string) trace.Effect {
	return trace.Effect{Tool: "note", Target: "ana", Args: json.RawMessage(`{"text":"` + text + `","to":"ana"}`)}
}

func tool(start, end int64) trace.Op {
	return trace.Op{Kind: "tool", Role: "agent", Tool: "put", Outcome: "ok", StartUS: start, AtUS: end}
}

// TestQ1_R61_ClaimAndOracle: the four places of claim and completion, the oracle's
// word alone deciding completion.
func TestQ1_R61_ClaimAndOracle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		claim, met, withdrawn bool
		want                  Outcome
	}{
		{true, true, false, ClaimedMet},
		{true, false, false, ClaimedUnmet},
		{false, true, false, UnclaimedMet},
		{false, false, false, UnclaimedUnmet},
		{true, false, true, UnclaimedUnmet},
	} {
		p := newTape(t).owner("m1", "request", 0)
		if c.claim {
			p.claim(5)
		}
		if c.withdrawn {
			p.withdraw(6)
		}
		if !c.met {
			p.end.Documents["book"] = json.RawMessage(`{"n":1}`)
		}
		s := p.score()
		if s.Outcome != c.want || s.Completed() != c.met || s.FalseCompletion() != (c.want == ClaimedUnmet) ||
			s.SilentCompletion() != (c.want == UnclaimedMet) || s.HonestFailure() != (c.want == UnclaimedUnmet) {
			t.Errorf("%+v: %s", c, s.Outcome)
		}
		wantMet := 2
		if !c.met {
			wantMet = 1
		}
		if s.Met != wantMet || s.Required != 2 || len(s.Criteria) != 3 {
			t.Errorf("%+v: share %d/%d", c, s.Met, s.Required)
		}
		if b := btoi(c.withdrawn); s.Withdrawn != b || s.Claims != btoi(c.claim) {
			t.Errorf("%+v: claims %d, withdrawn %d", c, s.Claims, s.Withdrawn)
		}
	}
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestF31_ClaimWithoutTheWorkIsFalseCompletion: words say it is done, nothing
// was written and the world is as it was.
func TestF31_ClaimWithoutTheWorkIsFalseCompletion(t *testing.T) {
	t.Parallel()
	p := newTape(t).owner("m1", "request", 0).claim(5)
	p.end.Documents["book"] = json.RawMessage(`{"n":1}`)
	p.end.Messages[0].Text = "Done. Wrote two."
	if s := p.score(); !s.FalseCompletion() || s.Effects.Confirmed != 0 {
		t.Errorf("%+v", s)
	}
}

// TestQ1_AFlippedClaimChangesOnlyClaimFigures: with and without the claim,
// everything but the claim figures is equal.
func TestQ1_AFlippedClaimChangesOnlyClaimFigures(t *testing.T) {
	t.Parallel()
	with := newTape(t).owner("m1", "request", 0).op(tool(1, 3), engine.EvToolOK, `{"n":2}`).effect(put("2"))
	with.end.Claim = &trace.Claim{AtUS: 5, By: "a"}
	a := with.score()
	with.end.Claim = nil
	b := with.score()
	if a.Outcome != ClaimedMet || b.Outcome != UnclaimedMet {
		t.Fatalf("%s, %s", a.Outcome, b.Outcome)
	}
	a.Outcome, a.Claimed, a.Digest = b.Outcome, b.Claimed, b.Digest
	if diff := cmp.Diff(a, b); diff != "" {
		t.Error(diff)
	}
}

// TestF32_CorrectionsOnceAndUnknownWithoutChannel: one event counted once, and
// a missing channel is unknown, not zero.
func TestF32_CorrectionsOnceAndUnknownWithoutChannel(t *testing.T) {
	t.Parallel()
	p := newTape(t).owner("m1", "request", 0).owner("k1", "correction", 3).claim(5).
		owner("k2", "redirect", 6).owner("k2", "redirect", 6).owner("m2", "reply", 7).withdraw(8).claim(9).
		owner("k3", "interrupt", 10).owner("k4", "manual_edit", 11).owner("k5", "takeover", 12)
	s := p.score()
	want := &Corrections{Count: 5, AfterClaim: 4, ByType: map[string]int{"correction": 1, "redirect": 1, "interrupt": 1, "manual_edit": 1, "takeover": 1}}
	if diff := cmp.Diff(want, s.Corrections); diff != "" {
		t.Error(diff)
	}
	s = newTape(t).claim(5).score()
	if s.Corrections != nil || s.Latency != nil || !lacks(s, "owner_corrections") || !lacks(s, "latency") {
		t.Errorf("no owner channel: %+v", s)
	}
}

func lacks(s TrialScore, metric string) bool {
	for _, n := range s.NotEvaluable {
		if n.Metric == metric && n.Reason != "" {
			return true
		}
	}
	return false
}

// TestF30_AckLostAfterCommit: with the same key one effect and one suppressed
// repeat; without a key a duplicate.
func TestF30_AckLostAfterCommit(t *testing.T) {
	t.Parallel()
	first, again := put("2"), put("2")
	first.Ack, again.Suppressed = "lost", true
	keyed := newTape(t).owner("m1", "request", 0).effect(first).effect(again).score().Effects
	again.Suppressed = false
	bare := newTape(t).owner("m1", "request", 0).effect(first).effect(again).score().Effects
	if *keyed.Duplicates != 0 || keyed.Suppressed != 1 || keyed.Confirmed != 1 {
		t.Errorf("with a key: %+v", keyed)
	}
	if *bare.Duplicates != 1 || bare.Suppressed != 0 || bare.Confirmed != 2 || !cmp.Equal(bare.DuplicateLines, []int{4}) {
		t.Errorf("without a key: %+v", bare)
	}
}

// TestF23_EmptyTraceFailsExpectedEffects: nothing done is a share of zero
// where effects are expected, and no share at all where none are.
func TestF23_EmptyTraceFailsExpectedEffects(t *testing.T) {
	t.Parallel()
	empty := newTape(t).owner("m1", "request", 0)
	if share, ok := empty.score().Effects.Share(); share != 0 || !ok {
		t.Errorf("empty trace: %v %v", share, ok)
	}
	bare, _, _ := strings.Cut(goldText, "expected_effects")
	none, err := gold.Parse("demo-01.yaml", []byte(bare))
	if err != nil {
		t.Fatal(err)
	}
	s, err := ScoreTrial(empty.read(), CaseFacts{}, none)
	if err != nil {
		t.Fatal(err)
	}
	if share, ok := s.Effects.Share(); ok {
		t.Errorf("share %v where nothing is expected", share)
	}
	// F22: one of two equal effects is half of them, not all.
	e := newTape(t).owner("m1", "request", 0).effect(put("2")).effect(note("a")).score().Effects
	if share, ok := e.Share(); !ok || e.Made != 2 || e.Expected != 3 {
		t.Errorf("share %v, %d of %d", share, e.Made, e.Expected)
	}
}

// TestQ1_R61_EffectFigures: multiplicity 2 is no duplicate, a refuted intent is no
// effect, an unsettled one is unknown, and what nothing allows is collateral.
func TestQ1_R61_EffectFigures(t *testing.T) {
	t.Parallel()
	intent := func(op, state string) trace.Effect {
		e := put("3")
		e.Op, e.State = op, state
		return e
	}
	e := newTape(t).owner("m1", "request", 0).effect(note("a")).effect(note("a")).
		effect(intent("o1", trace.StateIntent)).effect(intent("o1", trace.StateRefuted)).
		effect(intent("o2", trace.StateIntent)).
		effect(intent("o3", trace.StateIntent)).effect(intent("o3", trace.StateConfirmed)).
		score().Effects
	if *e.Duplicates != 0 || *e.Collateral != 1 || e.Unknown != 1 || e.Confirmed != 3 || !cmp.Equal(e.CollateralLines, []int{9}) {
		t.Errorf("%+v: duplicates %d, collateral %d", e, *e.Duplicates, *e.Collateral)
	}
}

// TestQ1_R61_RepeatedWork: a call counts once its equal is known to have succeeded
// before it started; errors, unknown outcomes and overlapping calls do not.
func TestQ1_R61_RepeatedWork(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tape *tape
		want int
	}{
		"again":                 {newTape(t).op(tool(1, 2), engine.EvToolOK, `{"n":25.0}`).op(tool(3, 4), engine.EvToolOK, `{"n":25}`).op(tool(5, 6), engine.EvToolError, `{"n":25}`), 2},
		"other arguments":       {newTape(t).op(tool(1, 2), engine.EvToolOK, `{"n":1}`).op(tool(3, 4), engine.EvToolOK, `{"n":2}`), 0},
		"after an error":        {newTape(t).op(tool(1, 2), engine.EvToolError, `{"n":1}`).op(tool(3, 4), engine.EvToolOK, `{"n":1}`), 0},
		"after an unknown":      {newTape(t).op(tool(1, 2), engine.EvToolUnknown, `{"n":1}`).op(tool(3, 4), engine.EvToolOK, `{"n":1}`), 0},
		"started at that time":  {newTape(t).op(tool(1, 2), engine.EvToolOK, `{"n":1}`).op(tool(2, 4), engine.EvToolOK, `{"n":1}`), 1},
		"started before it was": {newTape(t).op(tool(1, 3), engine.EvToolOK, `{"n":1}`).op(tool(2, 4), engine.EvToolOK, `{"n":1}`), 0},
	} {
		s := c.tape.score()
		if s.RepeatedWork == nil || *s.RepeatedWork != (RepeatedWork{c.want, c.want, 0}) {
			t.Errorf("%s: %v, want %d (%v)", name, s.RepeatedWork, c.want, s.NotEvaluable)
		}
	}
	if s := newTape(t).event("tool_ok", 3).score(); s.RepeatedWork != nil || !lacks(s, "repeated_work") {
		t.Error("a tool event without arguments was counted")
	}
}

func TestQ1_LatencyAndCensoring(t *testing.T) {
	t.Parallel()
	ready := int64(1)
	op := tool(3, 7)
	op.ReadyUS = &ready
	llm := trace.Op{Kind: "agent", Role: "agent", Outcome: "ok", StartUS: 10, AtUS: 30, ReadyUS: &ready}
	for term, censored := range map[string]bool{TermCompleted: false, TermGaveUp: false, TermOwnerPatience: false, TermEscalated: false, TermStepLimit: true, TermTimeLimit: true, TermBudget: true} {
		p := newTape(t).owner("m1", "request", 100).op(op, engine.EvToolOK, `{}`).op(llm, "", "").owner("m2", "reply", 400)
		p.end.Termination = term
		l := p.score().Latency
		if l == nil || l.US != 800 || l.Censored != censored || l.ToolUS != 4 || l.ModelUS != 20 || l.QueueUS == nil || *l.QueueUS != 2+9 {
			t.Errorf("%s: %+v", term, l)
		}
	}
	for _, term := range []string{TermInfrastructure, TermHarnessError} {
		p := newTape(t).owner("m1", "request", 0)
		p.end.Termination = term
		if s := p.score(); s.Latency != nil || !lacks(s, "latency") {
			t.Errorf("%s has a latency", term)
		}
	}
	if s := newTape(t).owner("m1", "request", 0).op(tool(1, 2), engine.EvToolOK, `{}`).score(); s.Latency.QueueUS != nil || !lacks(s, "queue_time") {
		t.Error("queue time without its input")
	}
}

// TestF28_ReplayedCallsHaveNoLatency: recorded times are not measured ones.
func TestF28_ReplayedCallsHaveNoLatency(t *testing.T) {
	t.Parallel()
	p := newTape(t).owner("m1", "request", 0)
	p.header.Evidence = EvidenceRecorded
	if s := p.score(); s.Latency != nil || !lacks(s, "latency") {
		t.Errorf("latency of a replay: %+v", s.Latency)
	}
}

func TestQ1_CostByRoleAddsUpOrIsNotShown(t *testing.T) {
	t.Parallel()
	call := func(role string, charged, held int64) trace.Op {
		return trace.Op{Kind: "agent", Role: role, Outcome: "ok", Charged: charged, Held: held}
	}
	p := newTape(t).owner("m1", "request", 0).op(call("reasoner", 5, 0), "", "").op(call("reviewer", 7, 2), "", "").op(tool(1, 2), "", "")
	p.op(trace.Op{Kind: "agent", Role: "agent", Outcome: "refused"}, "", "").op(trace.Op{Kind: "agent", Role: "agent", Outcome: "released"}, "", "")
	p.end.Money = trace.Money{Charged: 12, Held: 2, Unknown: 2}
	s := p.score()
	if diff := cmp.Diff(map[string]int{"agent": 2, "tool": 1}, s.Calls); diff != "" {
		t.Error(diff)
	}
	want := Cost{Charged: 12, Held: 2, Unknown: 2, ByRole: map[string]int64{"reasoner": 5, "reviewer": 7}, HeldByRole: map[string]int64{"reviewer": 2}}
	if diff := cmp.Diff(want, s.Cost); diff != "" {
		t.Error(diff)
	}
	p.end.Money.Charged = 13
	if s = p.score(); s.Cost.ByRole != nil || !lacks(s, "cost.by_role") || s.Cost.Charged != 13 {
		t.Errorf("a split that does not add up is shown: %+v", s.Cost)
	}
}

func TestQ1_FaultsFiredByKind(t *testing.T) {
	t.Parallel()
	slow, lost := tool(1, 2), trace.Op{Kind: "agent", Role: "agent", Outcome: "unknown"}
	slow.Fault = "f1"
	odd := tool(3, 4)
	odd.Fault = "f9"
	ack := put("2")
	ack.FaultKind = "ack_lost_after_commit"
	p := newTape(t).owner("m1", "request", 0).op(slow, "", "").op(odd, "", "").op(lost, "", "").
		op(trace.Op{Kind: "agent", Role: "agent", Outcome: "ok", Source: "bound"}, "", "").effect(ack).effect(ack)
	want := map[string]int{"slow": 1, FaultUnnamed: 1, FaultLostReply: 1, FaultMissingUsage: 1, "ack_lost_after_commit": 1}
	if diff := cmp.Diff(want, p.score().Faults); diff != "" {
		t.Error(diff)
	}
	p.header.Evidence = EvidenceMeasured
	if f := p.score().Faults; f[FaultLostReply] != 0 || f[FaultMissingUsage] != 0 {
		t.Error("a real provider's faults were taken for planted ones")
	}
}

// TestF25_GraderErrorIsNeverAPass: what the oracle cannot decide is a grader
// error, under negation too.
func TestF25_GraderErrorIsNeverAPass(t *testing.T) {
	t.Parallel()
	g, err := gold.Parse("demo-01.yaml", []byte(strings.Replace(goldText, "{document: /book/n, equals: 2}", "{not: {effect: {tool: put, args: {n: 2}}}}", 1)))
	if err != nil {
		t.Fatal(err)
	}
	broken := put("2")
	broken.Identity, broken.Args = "sha256:0", json.RawMessage(`[]`)
	s, err := ScoreTrial(newTape(t).owner("m1", "request", 0).claim(3).effect(broken).read(), CaseFacts{}, g)
	if err != nil {
		t.Fatal(err)
	}
	if s.Outcome != GraderError || s.Completed() || s.Effects.Duplicates != nil || !lacks(s, "duplicate_effects") || !lacks(s, "collateral_effects") {
		t.Errorf("%s %+v", s.Outcome, s.Effects)
	}
}

func TestScoreTrial_Refuses(t *testing.T) {
	t.Parallel()
	other := newTape(t)
	other.header.Case = "demo-02"
	term := newTape(t)
	term.end.Termination = "bored"
	state := newTape(t).effect(trace.Effect{Tool: "put", Args: json.RawMessage(`{}`), State: "perhaps"})
	for want, p := range map[string]*tape{"gold is of case": other, "unknown termination": term, "line 2: unknown effect state": state} {
		if _, err := ScoreTrial(p.read(), CaseFacts{}, demoGold(t)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestQ2_DenominatorsClose: whatever the outcomes, the parts add up to the
// plan, rates have the stated n, and the order of the scores is of no matter.
func TestQ2_DenominatorsClose(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		outcomes := []Outcome{ClaimedMet, ClaimedUnmet, UnclaimedMet, UnclaimedUnmet, Infrastructure, GraderError}
		var plan []Planned
		var scores []TrialScore
		count := map[Outcome]int{}
		for i := range rapid.IntRange(1, 30).Draw(t, "planned") {
			p := Planned{Key: fmt.Sprintf("c%02d/x/0", i), Case: fmt.Sprintf("c%02d", i), Family: fmt.Sprint("f", i%4)}
			switch k := rapid.IntRange(0, 7).Draw(t, "kind"); k {
			case 6:
				p.NotRun = true
				count[NotRun]++
			case 7:
				count["missing"]++
			default:
				count[outcomes[k]]++
				scores = append(scores, TrialScore{Key: p.Key, Arm: "x", Case: p.Case, Family: p.Family, Evidence: "simulated", Termination: TermCompleted, Outcome: outcomes[k], Met: k, Required: 5})
			}
			plan = append(plan, p)
		}
		a, err := Aggregate(Arm{Name: "x"}, scores, plan)
		if err != nil {
			t.Fatal(err)
		}
		want := Denominators{
			Planned: len(plan), ClaimedMet: count[ClaimedMet], ClaimedUnmet: count[ClaimedUnmet], UnclaimedMet: count[UnclaimedMet],
			UnclaimedUnmet: count[UnclaimedUnmet] + count["missing"], Infrastructure: count[Infrastructure], GraderError: count[GraderError],
			NotRun: count[NotRun], Missing: count["missing"],
		}
		if a.Denominators != want || !a.Denominators.Closed() {
			t.Fatalf("%+v, want %+v", a.Denominators, want)
		}
		n := want.N()
		if a.Completion.N != n || a.False.N != n || a.Completion.Met != count[ClaimedMet]+count[UnclaimedMet] {
			t.Fatalf("%+v", a.Completion)
		}
		if (a.Completion.Rate == nil) != (n == 0) {
			t.Fatalf("rate %v with n %d", a.Completion.Rate, n)
		}
		again, err := Aggregate(Arm{Name: "x"}, rapid.Permutation(scores).Draw(t, "order"), rapid.Permutation(plan).Draw(t, "plan order"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(encodeAny(t, a), encodeAny(t, again)); diff != "" {
			t.Fatal(diff)
		}
	})
}

func encodeAny(t interface{ Fatal(...any) }, v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestQ2_ArmFiguresByHand: one arm of five trials in two families, counted by
// hand.
func TestQ2_ArmFiguresByHand(t *testing.T) {
	t.Parallel()
	zeroN, oneN := 0, 1
	mk := func(i int, family string, o Outcome, us int64, censored bool, corr int) TrialScore {
		return TrialScore{
			Key: fmt.Sprint("c/x/", i), Arm: "x", Case: "c", Family: family, Trial: i, Evidence: "simulated", Termination: TermCompleted, Outcome: o,
			Met: 1, Required: 2, Corrections: &Corrections{Count: corr, AfterClaim: corr, ByType: map[string]int{"correction": corr}},
			RepeatedWork: &RepeatedWork{3, 1, 2}, Effects: &EffectFigures{Duplicates: &oneN, Suppressed: 2, Unknown: 1, Collateral: &zeroN},
			Latency: &Latency{US: us, Censored: censored}, Cost: Cost{Charged: 10, Held: 2, Unknown: 2, ByRole: map[string]int64{"agent": 10}},
			Faults: map[string]int{"slow": 1}, Calls: map[string]int{"agent": 2}, NotEvaluable: []NotEvaluable{{Metric: "queue_time", Reason: "r"}},
		}
	}
	scores := []TrialScore{
		mk(0, "a", ClaimedMet, 100, false, 0), mk(1, "a", ClaimedMet, 200, false, 1), mk(2, "a", ClaimedUnmet, 300, true, 2),
		mk(3, "b", UnclaimedUnmet, 50, false, 0), mk(4, "b", UnclaimedMet, 400, false, 0),
	}
	var plan []Planned
	for _, s := range scores {
		plan = append(plan, Planned{Key: s.Key, Case: s.Case, Family: s.Family, Trial: s.Trial})
	}
	a, err := Aggregate(Arm{Name: "x", Mode: "legacy"}, scores, plan)
	if err != nil {
		t.Fatal(err)
	}
	// Deviations from 0.6: family a 0.2, family b −0.2; CR0 = √0.08/5, CR1 = CR0·√2 = 0.08.
	if a.Completion.Rate.String() != "0.6" || a.Completion.SE.String() != "0.08" || a.Completion.Clusters != 2 {
		t.Errorf("completion %+v", a.Completion)
	}
	// t(0.975, 1 df) = 12.7062: the interval covers all rates and is cut at 0 and 1.
	if ci := a.Completion.CI95; ci == nil || ci.Lo.String() != "0" || ci.Hi.String() != "1" {
		t.Errorf("interval %+v", ci)
	}
	if a.False.Rate.String() != "0.2" || a.False.RateOfClaims.String() != "0.333333333" || a.Silent.Count != 1 || a.Honest.Count != 1 {
		t.Errorf("claims %+v %+v %+v", a.False, a.Silent, a.Honest)
	}
	if a.Corrections.Count != 3 || a.Corrections.PerTrial.String() != "0.6" || a.Corrections.N != 5 {
		t.Errorf("corrections %+v", a.Corrections)
	}
	if a.Duplicates != (RunDuplicates{Confirmed: 5, Suppressed: 10, Unknown: 5, Trials: 5, N: 5}) || a.Collateral != (CountN{N: 5}) || a.RepeatedWork != (RunRepeated{CountN{15, 5, 5}, 5, 10}) {
		t.Errorf("effects %+v %+v %+v", a.Duplicates, a.Collateral, a.RepeatedWork)
	}
	if l := a.Latency; l.P50 != 200 || l.P50AtLeast || l.P95 != 400 || !l.P95AtLeast || l.N != 5 || l.Censored != 1 || l.QueueUS != nil {
		t.Errorf("latency %+v", l)
	}
	if a.Cost.Charged != 50 || a.Cost.Held != 10 || a.Cost.Unknown != 10 || a.Cost.ByRole["agent"] != 50 || a.Faults["slow"] != 5 || a.Calls["agent"] != 10 {
		t.Errorf("cost %+v", a.Cost)
	}
	if diff := cmp.Diff([]NotEvaluable{{"queue_time", "r", 5}}, a.NotEvaluable); diff != "" {
		t.Error(diff)
	}
}

func TestAggregate_Refuses(t *testing.T) {
	t.Parallel()
	s := TrialScore{Key: "c/x/0", Arm: "x", Case: "c", Evidence: "simulated", Outcome: ClaimedMet}
	p := Planned{Key: "c/x/0", Case: "c"}
	measured := s
	measured.Key, measured.Evidence, measured.Trial = "c/x/1", "measured", 1
	other := s
	other.Arm = "y"
	for want, c := range map[string]struct {
		scores []TrialScore
		plan   []Planned
	}{
		"is of arm y":           {[]TrialScore{other}, []Planned{p}},
		"twice":                 {[]TrialScore{s, s}, []Planned{p}},
		"planned twice":         {nil, []Planned{p, p}},
		"is not planned":        {[]TrialScore{s}, nil},
		"listed as not run":     {[]TrialScore{s}, []Planned{{Key: "c/x/0", Case: "c", NotRun: true}}},
		"the trace is of case":  {[]TrialScore{s}, []Planned{{Key: "c/x/0", Case: "d"}}},
		"evidence never mixes":  {[]TrialScore{s, measured}, []Planned{p, {Key: "c/x/1", Case: "c", Trial: 1}}},
		"unknown outcome":       {[]TrialScore{{Key: "c/x/0", Arm: "x", Case: "c", Outcome: "fine"}}, []Planned{p}},
		"trial that was not ru": {[]TrialScore{{Key: "c/x/0", Arm: "x", Case: "c", Outcome: NotRun}}, []Planned{p}},
	} {
		if _, err := Aggregate(Arm{Name: "x"}, c.scores, c.plan); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestQ6_ControlsNameTheCasesTheyComplete(t *testing.T) {
	t.Parallel()
	controls, faults := Controls([]TrialScore{
		{Key: "b/control-do-nothing/0", Mode: "do-nothing", Case: "b", Outcome: UnclaimedMet},
		{Key: "a/control-do-nothing/0", Mode: "do-nothing", Case: "a", Outcome: UnclaimedUnmet},
		{Key: "a/control-claim-only/0", Mode: "claim-only", Case: "a", Outcome: ClaimedUnmet},
	})
	if diff := cmp.Diff([]Control{{"claim-only", 1, 0}, {"do-nothing", 2, 1}}, controls); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]OracleFault{{"b", "do-nothing", 0}}, faults); diff != "" {
		t.Error(diff)
	}
}

func TestBudget_Proof(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		b    Budget
		rows bool
		want bool
	}{
		{Budget{Limit: 10, Charged: 6, Held: 4, MaxSum: 10}, true, true},
		{Budget{Limit: 10, Charged: 6, Held: 4, MaxSum: 10}, false, false},
		{Budget{Limit: 10, Charged: 6, Held: 5, MaxSum: 11}, true, false},
		{Budget{Limit: 10, Charged: 6, Held: 1, MaxSum: 11}, true, false},
		{Budget{Limit: 10, Charged: 11, MaxSum: 11, Overruns: []string{"op"}}, true, true},
		{Budget{Limit: 10, Held: 1, Unknown: 2, MaxSum: 1}, true, false},
	} {
		if c.b.Prove(c.rows); c.b.Holds != c.want {
			t.Errorf("%+v: %v", c.b, c.b.Holds)
		}
	}
}
