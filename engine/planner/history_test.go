package planner

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/engine/store/memory"
)

// reached are the rules and codes that the histories must reach, each at least
// once: R44 to R55, every row of R45's table, and every code of R70.
func reached() []string {
	return append([]string{
		"R44 held", "R44 readmitted", "R44 evidence only", "R45 not begun", "R45 receipt applied", "R45 uncertain", "R45 other digest", "R45 settled",
		"R46 equal", "R46 other", "R47 executed", "R47 not executed", "R47 no evidence", "R48 held", "R48 taken", "R48 lost", "R49 restart",
		"R50 reviewer", "R50 nobody", "R51 invalid", "R52 met", "R52 unmet", "R52 unknown", "R53 unchanged", "R53 needs a report", "R54 three",
		"R55 not over the owner", "R71 lost", "I10 redelivered",
	}, []string{
		engine.CodeNotFound, engine.CodeForbidden, engine.CodeConflict, engine.CodeStaleRevision, engine.CodeInvalidPlan,
		engine.CodeBudgetExhausted, engine.CodeBudgetHalted, engine.CodeUnboundedCost, engine.CodeReviewInvalid,
		engine.CodeLimitReached, engine.CodeUncertain, engine.CodeInvalidTransition,
	}...)
}

// TestI1_I2_I3_I4_I5_I6_I7_I8_I9_I10_I11_I12_HoldAfterEveryCommit plays random
// histories on a store: replies good and bad, owner messages and commands, lost,
// late and repeated results, lost compare-and-sets, crashes between any two
// writes, reconciliation and grants. All twelve invariants are asserted after
// every commit, and the money against a naive sum over all operations. rapid
// prints the seed of a failure and shrinks it.
func TestI1_I2_I3_I4_I5_I6_I7_I8_I9_I10_I11_I12_HoldAfterEveryCommit(t *testing.T) {
	t.Parallel()
	want := 20_000
	if os.Getenv("QUALIFY_LONG") != "" {
		want = 1_000_000
	}
	tally, events, rooms := map[string]int{}, 0, 0
	enough := func() bool {
		missing := slices.ContainsFunc(reached(), func(what string) bool { return tally[what] == 0 })
		return events >= want && !missing || events >= 3*want // what is rare gets more histories, not a second try
	}
	for !enough() && !t.Failed() {
		rapid.Check(t, func(rt *rapid.T) {
			if enough() {
				return
			}
			h := newHistory(t, rt, tally)
			for range rapid.IntRange(200, 600).Draw(rt, "steps") {
				h.step()
			}
			h.whole()
			rooms++
			events += int(h.head.Rev) + 1
		})
	}
	t.Logf("%d events in %d rooms", events, rooms)
	for _, what := range reached() {
		t.Logf("%-24s %d", what, tally[what])
		if tally[what] == 0 {
			t.Errorf("no history reached %s", what)
		}
	}
}

// hop is an operation as its host knows it.
type hop struct {
	call      engine.Call
	digest    string
	reserved  int64
	marked    bool
	receipt   *store.Receipt
	event     *engine.Event // what the receipt causes, not yet delivered
	delivered bool
	settled   bool
	charged   int64
	uncertain bool
	acked     bool
	control   int    // of its objective when it was asked for (I11)
	objective string // "" for what belongs to none
}

// history is a room on a store, driven at random.
type history struct {
	*driver
	rt    *rapid.T
	tally map[string]int
	test  *testing.T
	st    *memory.Store
	clock time.Time
	lease int

	head    store.Head
	snapRev int64
	snap    string
	ops     map[string]*hop
	order   []*hop
	queue   []engine.Event // refused reservations
	outbox  map[string]string
	mood    string
	good    int
	keys    []string
	rows    []store.Row
}

func newHistory(t *testing.T, rt *rapid.T, tally map[string]int) *history {
	spec := testSpec()
	spec.Reviewers = rapid.IntRange(1, 2).Draw(rt, "reviewers")
	spec.Identity = rapid.SampledFrom([]Identity{IdentityPlan, IdentityObjective}).Draw(rt, "identity")
	spec.Objectives = rapid.IntRange(1, 3).Draw(rt, "objectives")
	h := &history{
		driver: &driver{
			t: rt, spec: spec, blobs: map[string]string{}, used: map[engine.OpKey]bool{}, said: map[string]bool{}, digests: map[string]string{},
			versions: map[string]int{}, controls: map[string]int{}, done: map[string]bool{}, answers: map[string]engine.Answer{}, outputs: map[string]int{},
		},
		rt: rt, tally: tally, test: t, clock: time.Unix(1000, 0), ops: map[string]*hop{}, outbox: map[string]string{},
		mood: rapid.SampledFrom([]string{"fine", "fine", "wild", "unmet", "unmet", "same", "blocked", "unknown", "lost"}).Draw(rt, "mood"),
		good: rapid.IntRange(4, 10).Draw(rt, "goodness"),
	}
	h.st = memory.New(memory.Options{Now: func() time.Time { return h.clock }})
	h.m = h.fresh()
	h.state, h.snap, h.snapRev = h.snapshot(h.m), h.snapshot(h.m), -1
	limit := rapid.SampledFrom([]int64{3_000, 200_000, 1_000_000, 1_000_000}).Draw(rt, "limit")
	h.must(h.st.CreateRoom(t.Context(), store.NewRoom{Room: "room", Money: engine.Money{Limit: limit}, Funds: store.FundsSimulated, Machine: Version}))
	h.head = store.Head{Room: "room", Rev: -1, Money: engine.Money{Limit: limit}}
	_, err := h.st.AcquireLease(t.Context(), "room", "token-0", "first", time.Minute)
	h.must(err)
	h.deliver(engine.Event{Kind: engine.EvStarted})
	return h
}

func (h *history) must(err error) {
	h.rt.Helper()
	if err != nil {
		h.rt.Fatalf("%v", err)
	}
}

func (h *history) count(what string) { h.tally[what]++ }

func (h *history) draw(n int, label string) int { return rapid.IntRange(0, n-1).Draw(h.rt, label) }

// step does one thing that may happen.
func (h *history) step() {
	if len(h.queue) > 0 && h.draw(3, "refusal first") > 0 {
		ev := h.queue[0]
		h.queue = h.queue[1:]
		h.deliver(ev)
		return
	}
	switch n := h.draw(100, "step"); {
	case n < 66 && len(h.open) > 0:
		h.outcome(h.ops[engine.OperationID("room", h.open[h.draw(len(h.open), "call")].Key)])
	case n < 76 || len(h.open) == 0 && n < 50:
		h.speak()
	case n < 90:
		h.command1()
	case n < 93:
		h.restart()
	case n < 96:
		h.conflict()
	case n < 98:
		h.reconcileSome()
	case n < 99:
		h.leases()
	default:
		h.facts = nil
		if h.draw(2, "revokes") == 0 {
			h.facts = &engine.Facts{Eligible: rapid.SampledFrom([][]string{{"keeper", "writer"}, {"auditor", "second", "writer"}, {"auditor", "keeper", "writer"}}).Draw(h.rt, "eligible")}
		}
	}
}

// speak delivers a message.
func (h *history) speak() {
	if len(h.open) > 0 && (len(h.m.st.Inbox) > 6 || len(h.m.st.Open) > 0 && h.draw(4, "silent") > 0) {
		return
	}
	kind := rapid.SampledFrom([]string{engine.MsgRequest, engine.MsgRequest, engine.MsgReply, engine.MsgCorrection, engine.MsgProposal}).Draw(h.rt, "type")
	from := rapid.SampledFrom([]string{"ana", "ana", "ana", "ana", "keeper", "stranger"}).Draw(h.rt, "from")
	text := rapid.SampledFrom([]string{"do it", "do it", "do it", "@keeper please"}).Draw(h.rt, "text")
	msg := &engine.OwnerMessage{ID: fmt.Sprintf("m%d", h.n), Type: kind, From: from, Text: engine.Plain(text)}
	if len(h.m.st.Open) > 0 && h.draw(4, "names") == 0 {
		msg.Objective = h.m.st.Open[0].ID
	}
	h.deliver(engine.Event{Kind: engine.EvOwnerMessage, Message: msg})
}

// outcome moves one open operation on: a dispatch mark, a receipt, its event,
// or all of them at once.
func (h *history) outcome(o *hop) {
	if o == nil {
		h.rt.Fatalf("an open call is no operation")
	}
	id := engine.OperationID("room", o.call.Key)
	if !o.marked {
		if h.draw(12, "refused") == 0 {
			code := rapid.SampledFrom([]string{engine.CodeLimitReached, engine.CodeForbidden, engine.CodeUnboundedCost, engine.CodeStaleRevision}).Draw(h.rt, "code")
			ev := engine.Event{Kind: engine.EvDispatchRefused, Refusal: &engine.Refusal{Code: code, Reason: "because"}}
			h.returns(o, ev, &store.Receipt{Outcome: store.OutcomeFailed})
			h.report(o)
			return
		}
		h.must(h.st.MarkDispatched(h.test.Context(), "room", id))
		o.marked = true
		if err := h.st.MarkDispatched(h.test.Context(), "room", id); !errors.Is(err, store.ErrAlreadyDispatched) {
			h.rt.Fatalf("I2: operation %s is dispatched twice: %v", id, err)
		}
		if h.draw(4, "stays") == 0 {
			return // the call is under way
		}
	}
	if o.receipt == nil {
		ev, rec := h.answer(o)
		h.returns(o, ev, rec)
		if h.draw(5, "receipt only") == 0 {
			h.putReceipt(o)
			return
		}
	}
	h.report(o)
}

// returns gives an operation its receipt.
func (h *history) returns(o *hop, ev engine.Event, rec *store.Receipt) {
	id := engine.OperationID("room", o.call.Key)
	ev.Op, ev.Key = id, &o.call.Key
	for _, t := range ev.Texts() {
		h.seal(t)
	}
	b, err := engine.Canonical(ev)
	h.must(err)
	rec.Op, rec.RequestDigest, rec.Result = id, o.digest, b
	o.receipt, o.event = rec, &ev
}

func (h *history) putReceipt(o *hop) {
	h.must(h.st.PutReceipt(h.test.Context(), "room", *o.receipt, nil))
	h.settle(o)
	h.must(h.st.PutReceipt(h.test.Context(), "room", *o.receipt, nil))
	h.count("R46 equal")
	other := *o.receipt
	other.Result = []byte(`{"other":true}`)
	if err := h.st.PutReceipt(h.test.Context(), "room", other, nil); !errors.Is(err, store.ErrReceiptMismatch) {
		h.rt.Fatalf("R46: another receipt of %s: %v", o.receipt.Op, err)
	}
	h.count("R46 other")
	h.account()
}

// settle follows a receipt in the naive account.
func (h *history) settle(o *hop) {
	if o.settled || o.uncertain {
		return
	}
	if o.receipt.Outcome == store.OutcomeUnknown {
		o.uncertain = true
		return
	}
	o.settled, o.charged = true, o.receipt.ChargedMicros
}

// report delivers the event of an operation that has returned.
func (h *history) report(o *hop) {
	ev := *o.event
	o.event, o.delivered = nil, true
	h.deliver(ev, o)
}

// answer is what becomes of a call, and what it costs.
func (h *history) answer(o *hop) (engine.Event, *store.Receipt) {
	c := o.call
	fine := h.draw(11, "luck") <= h.good
	lost := h.mood == "lost" && h.draw(4, "lost") == 0 || h.draw(40, "lost") == 0
	if c.Tool != nil {
		r := &engine.ToolResult{Tool: c.Tool.Tool, Args: c.Tool.Args, Write: c.Tool.Tool != "list"}
		switch {
		case lost:
			return engine.Event{Kind: engine.EvToolUnknown, Tool: r}, &store.Receipt{Outcome: store.OutcomeUnknown}
		case !fine:
			r.Result = engine.Plain("busy")
			return engine.Event{Kind: engine.EvToolError, Tool: r}, &store.Receipt{Outcome: store.OutcomeFailed}
		}
		r.Result = engine.Plain("result")
		return engine.Event{Kind: engine.EvToolOK, Tool: r}, &store.Receipt{Outcome: store.OutcomeOK}
	}
	if lost {
		return engine.Event{Kind: engine.EvModelUnknown}, &store.Receipt{Outcome: store.OutcomeUnknown}
	}
	rec := &store.Receipt{Outcome: store.OutcomeOK, ChargedMicros: o.reserved, UsageSource: "bound"}
	switch h.draw(60, "usage") {
	case 0: // missing: charged at the bound, never as zero
	case 1:
		if h.mood == "wild" {
			rec.ChargedMicros += 7 // an overrun
		}
	default:
		rec.ChargedMicros, rec.UsageSource = int64(h.draw(int(o.reserved)+1, "actual")), "actual"
	}
	if !fine && h.draw(4, "fails") == 0 {
		rec.Outcome = store.OutcomeFailed
		return engine.Event{Kind: engine.EvModelFailed, Reply: &engine.ModelReply{Error: "down"}}, rec
	}
	return engine.Event{Kind: engine.EvModelReply, Reply: h.moody(c, fine)}, rec
}

// moody is a reply of the room's mood.
func (h *history) moody(c engine.Call, fine bool) *engine.ModelReply {
	if !fine && h.draw(3, "spoilt") == 0 {
		return h.randomReply(h.rt, c, false)
	}
	switch c.Request.Format {
	case engine.FormatPlan:
		return h.randomPlan(h.rt, c, fine)
	case engine.FormatReview:
		var req engine.ReviewRequest
		h.must(json.Unmarshal([]byte(c.Request.Messages[0].Text.S), &req))
		v := engine.VerdictMet
		switch {
		case h.mood == "unmet", h.mood == "same":
			v = engine.VerdictUnmet
		case h.mood == "unknown" || h.draw(12, "unsure") == 0:
			v = engine.VerdictUnknown
		case h.draw(5, "strict") == 0:
			v = engine.VerdictUnmet
		}
		r := engine.ReviewReply{Schema: engine.FormatReview, Report: req.Report}
		for _, cr := range req.Criteria {
			r.Verdicts = append(r.Verdicts, engine.CriterionVerdict{Criterion: cr.ID, Verdict: v})
		}
		if !fine {
			r.Report.Version++
		}
		return jsonReply(h.rt, r)
	default:
		r := engine.TurnReply{Status: engine.StatusDone, Text: fmt.Sprintf("done %d", h.n)}
		if h.mood == "same" {
			r.Text = "done"
		} else if len(c.Request.Tools) > 0 && h.draw(3, "works") == 0 {
			return &engine.ModelReply{ToolCalls: []engine.ToolCall{{Tool: c.Request.Tools[0], Args: engine.JSONText([]byte(`{"n":1}`))}}}
		}
		if h.mood == "blocked" && c.Agent == "keeper" {
			r.Status = engine.StatusBlocked
		}
		return jsonReply(h.rt, r)
	}
}

// command1 delivers one command of the owner: mostly one that fits, sometimes
// stale, repeated, changed, or nobody's.
func (h *history) command1() {
	c := &engine.OwnerCommand{Key: fmt.Sprintf("key-%d", h.n), From: "ana"}
	c.Kind = rapid.SampledFrom([]string{
		engine.CommandPause, engine.CommandPause, engine.CommandPause, engine.CommandResume, engine.CommandCancel, engine.CommandGrant, engine.CommandReadmit,
	}).Draw(h.rt, "command")
	if c.Kind == engine.CommandCancel && h.draw(4, "spares") > 0 {
		return
	}
	var o *objective
	if n := len(h.m.st.Open); n > 0 {
		o = h.m.st.Open[h.draw(n, "objective")]
		c.Objective, c.Expected = o.ID, o.ControlRevision
	}
	if o != nil && len(o.Held) > 0 && o.Status != StatusPaused && h.draw(3, "later") > 0 {
		c.Kind = engine.CommandReadmit
	} else if o != nil && o.Status == StatusPaused && h.draw(3, "goes on") > 0 {
		c.Kind = engine.CommandResume
	}
	switch c.Kind {
	case engine.CommandGrant:
		h.granting(c)
	case engine.CommandReadmit:
		c.Objective = ""
		if o != nil && len(o.Held) > 0 {
			c.Op = o.Held[h.draw(len(o.Held), "result")].Op
		}
	}
	switch h.draw(14, "twist") {
	case 0:
		c.Expected += 3
	case 1:
		c.From = "keeper"
	case 2:
		if len(h.keys) > 0 {
			c.Key = h.keys[h.draw(len(h.keys), "key")]
		}
	case 3:
		c.Objective, c.Op = "obj_nobody", "op_nobody"
	case 4:
		if n := len(h.m.st.Closed); n > 0 && c.Objective != "" {
			x := h.m.st.Closed[h.draw(n, "closed")]
			c.Objective, c.Expected = x.ID, x.Control
		}
	}
	h.give(c)
}

func (h *history) give(c *engine.OwnerCommand) {
	h.keys = append(h.keys, c.Key)
	known, err := h.st.Lookup(h.test.Context(), "room", engine.SpaceCommand, []string{c.Key})
	h.must(err)
	before := h.state
	if v, ok := known[c.Key]; ok {
		c.Earlier = &engine.Answer{}
		h.must(json.Unmarshal([]byte(v), c.Earlier))
	}
	cmds := h.deliver(engine.Event{Kind: engine.EvOwnerCommand, Command: c})
	if c.Earlier != nil && h.state != before {
		h.rt.Fatalf("R69: a repeated key moved the state")
	}
	for _, x := range cmds {
		if a := x.Answer; a != nil && a.Code != "" {
			h.count(a.Code)
		}
	}
}

// granting carries a grant out on the store, as the runtime does.
func (h *history) granting(c *engine.OwnerCommand) {
	c.Objective, c.Expected = "", 0
	c.Total = h.head.Money.Limit + int64(h.draw(3, "more"))*5_000
	if h.draw(8, "less") == 0 {
		c.Total = 1
	}
	var ack []*hop
	for _, o := range h.order {
		if o.charged > o.reserved && !o.acked {
			ack = append(ack, o)
			c.Overruns = append(c.Overruns, o.receipt.Op)
		}
	}
	head, err := h.st.GrantRoom(h.test.Context(), "room", c.Total, c.Overruns)
	c.Found = &engine.CommandFound{}
	switch {
	case errors.Is(err, store.ErrBelowSpent):
		c.Found.Code, c.Found.Reason = engine.CodeConflict, "below what is spent"
	default:
		h.must(err)
		for _, o := range ack {
			o.acked = true
		}
		h.head.Money, h.head.Halted = head.Money, head.Halted
	}
	h.account()
}

// reconcileSome brings evidence about an operation of unknown outcome, or
// none.
func (h *history) reconcileSome() {
	var fit []*hop
	for _, o := range h.order {
		if o.uncertain {
			fit = append(fit, o)
		}
	}
	if len(fit) == 0 {
		return
	}
	o := fit[h.draw(len(fit), "operation")]
	c := &engine.OwnerCommand{
		CommandRequest: engine.CommandRequest{Kind: engine.CommandReconcile, Op: o.receipt.Op}, Key: fmt.Sprintf("key-%d", h.n), From: "ana",
		Found: &engine.CommandFound{},
	}
	r := store.Reconciliation{Proof: "the server's log"}
	switch h.draw(3, "evidence") {
	case 0:
		h.count("R47 no evidence")
	case 1:
		r.Executed, r.ChargedMicros = true, o.reserved/2
		c.Found.Outcome = engine.ReconciledExecuted
		h.count("R47 executed")
	default:
		c.Found.Outcome = engine.ReconciledNotExecuted
		h.count("R47 not executed")
	}
	if c.Found.Outcome != "" {
		h.must(h.st.Reconcile(h.test.Context(), "room", c.Op, r))
		o.uncertain, o.settled, o.charged = false, true, r.ChargedMicros
		h.refreshHead()
	}
	h.account()
	h.give(c)
}

func (h *history) refreshHead() {
	l, err := h.st.Load(h.test.Context(), "room")
	h.must(err)
	h.head = l.Head
}

// leases: while a process holds the room no other takes it; after its lease
// has expired another does, with the next generation, and the first has lost
// it (R48).
func (h *history) leases() {
	ctx, mine, other := h.test.Context(), fmt.Sprintf("token-%d", h.lease), fmt.Sprintf("token-%d", h.lease+1)
	if _, err := h.st.AcquireLease(ctx, "room", other, "other", time.Minute); !errors.Is(err, store.ErrExists) {
		h.rt.Fatalf("R48: a held lease was taken: %v", err)
	}
	h.count("R48 held")
	h.clock = h.clock.Add(2 * time.Minute)
	_, err := h.st.AcquireLease(ctx, "room", other, "other", time.Minute)
	h.must(err)
	h.count("R48 taken")
	if _, err := h.st.RenewLease(ctx, "room", mine, time.Minute); !errors.Is(err, store.ErrLeaseLost) {
		h.rt.Fatalf("R48: a lost lease was renewed: %v", err)
	}
	h.count("R48 lost")
	h.lease++
}

// reload makes the machine anew from the newest snapshot and the rows after
// it.
func (h *history) reload() {
	m := h.fresh()
	h.must(m.Restore([]byte(h.snap)))
	for _, t := range m.Texts() {
		if t.Sealed() {
			t.S = h.blobs[t.Blob.Digest]
		}
	}
	rows, err := h.st.Rows(h.test.Context(), "room", h.snapRev, 0)
	h.must(err)
	for _, r := range rows {
		var ev engine.Event
		h.must(json.Unmarshal(r.Event, &ev))
		for _, t := range ev.Texts() {
			if t.Sealed() {
				t.S = h.blobs[t.Blob.Digest]
			}
		}
		h.handle(m, ev)
	}
	if got := h.snapshot(m); engine.Digest([]byte(got)) != h.head.StateDigest {
		h.rt.Fatalf("R14: the rows fold to another state")
	}
	h.m = m
}

// restart is the death of the process: what is in memory is gone, and recovery
// goes by marks and receipts alone (R45).
func (h *history) restart() {
	h.count("R49 restart")
	h.reload()
	for _, o := range slices.Clone(h.order) {
		switch {
		case o.delivered && o.receipt != nil && o.settled && !o.uncertain:
			if h.draw(10, "again") == 0 {
				h.must(h.st.PutReceipt(h.test.Context(), "room", *o.receipt, nil))
				h.count("R45 settled")
			}
		case o.delivered:
		case !o.marked && o.receipt == nil:
			h.count("R45 not begun")
		case o.receipt != nil:
			h.count("R45 receipt applied")
			h.report(o)
		default:
			wrong := store.Receipt{Op: engine.OperationID("room", o.call.Key), RequestDigest: "other", Outcome: store.OutcomeOK, Result: []byte("{}")}
			if err := h.st.PutReceipt(h.test.Context(), "room", wrong, nil); !errors.Is(err, store.ErrReceiptMismatch) {
				h.rt.Fatalf("R45: a receipt of another request: %v", err)
			}
			h.count("R45 other digest")
			h.count("R45 uncertain")
			ev := engine.Event{Kind: engine.EvModelUnknown}
			if o.call.Tool != nil {
				ev = engine.Event{Kind: engine.EvToolUnknown, Tool: &engine.ToolResult{Tool: o.call.Tool.Tool, Args: o.call.Tool.Args, Write: true}}
			}
			h.returns(o, ev, &store.Receipt{Outcome: store.OutcomeUnknown})
			h.report(o)
		}
	}
}

// conflict is a lost compare-and-set: what this process has folded is dropped
// and derived again from what the other one wrote (R5, R71).
func (h *history) conflict() {
	if len(h.open) == 0 || len(h.queue) > 0 {
		return
	}
	c := h.open[0]
	ev := engine.Event{ID: "lost", Kind: engine.EvModelUnknown, Key: &c.Key, Op: engine.OperationID("room", c.Key)}
	if c.Tool != nil {
		ev.Kind, ev.Tool = engine.EvToolUnknown, &engine.ToolResult{Tool: c.Tool.Tool, Args: c.Tool.Args}
	}
	stale := h.head
	h.handle(h.m, ev) // folded in memory, never committed
	h.reload()        // the other process has its own machine
	h.deliver(engine.Event{Kind: engine.EvOwnerMessage, Message: &engine.OwnerMessage{ID: fmt.Sprintf("m%d", h.n), Type: engine.MsgReply, From: "stranger", Text: engine.Plain("hm")}})
	row := store.Row{Rev: stale.Rev + 1, Machine: Version, Event: []byte("{}"), Commands: []byte("[]"), CommandsDigest: engine.Digest([]byte("[]")), Prev: stale.Digest}
	row.Digest = store.RowDigest(row)
	if _, err := h.st.Commit(h.test.Context(), store.Commit{Room: "room", ExpectRev: stale.Rev, ExpectHead: stale.Digest, Row: row}); !errors.Is(err, store.ErrConflict) {
		h.rt.Fatalf("R71: a stale commit: %v", err)
	}
	h.count("R71 lost")
}

// deliver folds and commits one event, with the receipts of the operations
// named, and asserts what must hold after every commit.
func (h *history) deliver(ev engine.Event, returned ...*hop) []engine.Command {
	h.n++
	if ev.ID == "" {
		ev.ID = fmt.Sprintf("ev-%d", h.n)
	}
	ev.AtUS, ev.Facts, ev.Money = int64(h.n), h.facts, h.head.Money
	for _, t := range ev.Texts() {
		h.seal(t)
	}
	controls := map[string]int{}
	for _, o := range h.m.st.Open {
		controls[o.ID] = o.ControlRevision
	}
	h.cmds = h.sealAll(h.handle(h.m, ev))
	h.state = h.snapshot(h.m)
	row := store.Row{Rev: h.head.Rev + 1, Machine: Version, Prev: h.head.Digest, StateDigest: engine.Digest([]byte(h.state))}
	var err error
	row.Event, err = engine.Canonical(ev)
	h.must(err)
	c := store.Commit{Room: "room", ExpectRev: h.head.Rev, ExpectHead: h.head.Digest}
	var fresh []*hop
	stripped := make([]engine.Command, 0, len(h.cmds))
	for _, cmd := range h.cmds {
		h.check(cmd)
		if cmd.Say != nil {
			b, err := engine.Canonical(cmd.Say)
			h.must(err)
			if _, twice := h.outbox[cmd.Say.ID]; twice {
				h.rt.Fatalf("I10: notification %s is made twice", cmd.Say.ID)
			}
			h.outbox[cmd.Say.ID] = string(b)
			c.Outbox = append(c.Outbox, store.OutboxEntry{ID: cmd.Say.ID, Body: b})
		}
		if a := cmd.Answer; a != nil && !a.Repeated {
			b, err := engine.Canonical(a)
			h.must(err)
			c.Index = append(c.Index, store.IndexEntry{Space: engine.SpaceCommand, Key: a.Key, Value: string(b)})
		}
		if cmd.Call != nil {
			o := &hop{call: h.open[len(h.open)-1], digest: engine.Digest([]byte(fmt.Sprint(cmd.Call.Key)))}
			if cmd.Call.Tool == nil {
				o.reserved = int64(20 + h.draw(300, "reservation"))
			}
			h.bind(o)
			fresh = append(fresh, o)
			c.Ops = append(c.Ops, store.Op{
				ID: engine.OperationID("room", o.call.Key), Key: o.call.Key, Agent: o.call.Agent, Role: o.call.Role, Task: o.call.Task,
				RequestDigest: o.digest, ReservedMicros: o.reserved, Status: store.OpReserved,
			})
			call := *cmd.Call
			call.Request = nil
			cmd.Call = &call
		}
		stripped = append(stripped, cmd)
	}
	row.Commands, err = engine.Canonical(stripped)
	h.must(err)
	row.CommandsDigest = engine.Digest(row.Commands)
	row.Digest = store.RowDigest(row)
	c.Row = row
	for _, o := range returned {
		c.Receipts = append(c.Receipts, *o.receipt)
	}
	done, err := h.st.Commit(h.test.Context(), c)
	h.must(err)
	h.head = done.Head
	h.rows = append(h.rows, row)
	for _, o := range returned {
		h.settle(o)
	}
	for i, o := range fresh {
		id := engine.OperationID("room", o.call.Key)
		if a := done.Admissions[i]; !a.Reserved {
			h.count(a.Code)
			key := o.call.Key
			h.queue = append(h.queue, engine.Event{Kind: engine.EvReservationRefused, Op: id, Key: &key, Refusal: &engine.Refusal{Code: a.Code, Reason: "money"}})
			h.open = slices.DeleteFunc(h.open, func(c engine.Call) bool { return c.Key == o.call.Key })
			continue
		}
		h.ops[id] = o
		h.order = append(h.order, o)
	}
	if ev.Key != nil {
		h.open = slices.DeleteFunc(h.open, func(c engine.Call) bool { return c.Key == *ev.Key })
	}
	h.invariants()
	h.late(&ev, controls)
	h.rules(&ev)
	h.account()
	if h.n%16 == 0 {
		h.snap, h.snapRev = h.state, h.head.Rev
		h.must(h.st.PutSnapshot(h.test.Context(), "room", store.Snapshot{Rev: h.head.Rev, Machine: Version, State: []byte(h.state)}))
	}
	if h.n%128 == 0 {
		h.whole()
	}
	return h.cmds
}

// bind notes which objective a call works for, and its control revision.
func (h *history) bind(o *hop) {
	for _, x := range h.m.st.Open {
		s := x.slot(o.call.Key)
		w := slices.ContainsFunc(x.Works, func(w *work) bool { return w.busy() && w.Session.Owns(o.call.Key) })
		if s != nil || w {
			o.objective, o.control = x.ID, x.ControlRevision
		}
	}
}

// late asserts I11: a result bound to an older control revision is held, or of
// work that has ended; it is never used.
func (h *history) late(ev *engine.Event, controls map[string]int) {
	o := h.ops[ev.Op]
	if o == nil || ev.Kind == engine.EvDispatchRefused || ev.Kind == engine.EvReservationRefused || o.objective == "" {
		return
	}
	now, open := controls[o.objective]
	if !open || now == o.control {
		return
	}
	for _, c := range h.cmds {
		if c.Note != nil && (c.Note.Kind == NoteHeld || c.Note.Kind == NoteLate || c.Note.Kind == NoteStray) {
			return
		}
	}
	h.rt.Fatalf("I11: the result of %s is bound to control revision %d of %s, which is at %d, and is used: %v", ev.Op, o.control, o.objective, now, h.lines())
}

// rules counts what the last commit reached.
func (h *history) rules(ev *engine.Event) {
	for _, c := range h.cmds {
		if c.Note == nil {
			continue
		}
		codes, _ := recordedCodes(h.rt, c.Note)
		for _, code := range codes {
			h.count(code)
		}
		body := c.Note.Body.S
		switch c.Note.Kind {
		case NoteHeld:
			h.count("R44 held")
		case NoteReadmitted:
			h.count("R44 readmitted")
		case NoteLate:
			h.count("R44 evidence only")
		case NoteReview:
			h.count("R50 reviewer")
		case NoteInvalid:
			h.count("R51 invalid")
		case NoteVerdict:
			if strings.Contains(body, "unchanged output") {
				h.count("R53 unchanged")
			}
			if ev.Kind == engine.EvModelReply && (strings.Contains(body, `"current":false`) || h.m.st.ownerWaits(nil)) {
				h.count("R55 not over the owner")
			}
		case NoteRefused:
			if strings.Contains(body, "cannot be reviewed again") {
				h.count("R53 needs a report")
			}
		case NoteReplan:
			if strings.Contains(body, "review_unmet") {
				h.count("R52 unmet")
			}
		case NoteObjective:
			for trigger, rule := range map[Trigger]string{
				TriggerNoReviewer: "R50 nobody", TriggerAllMet: "R52 met", TriggerUnknown: "R52 unknown", TriggerFailedReports: "R54 three",
			} {
				if strings.Contains(body, `"`+string(trigger)+`"`) {
					h.count(rule)
				}
			}
		}
	}
}

// account compares the store's account with the naive sums (I1, R36-R42).
func (h *history) account() {
	var charged, held, unknown int64
	for _, o := range h.order {
		switch {
		case o.settled:
			charged += o.charged
		default:
			held += o.reserved
		}
		if o.uncertain {
			unknown += o.reserved
		}
	}
	head := h.head.Money
	if head.Charged != charged || head.Held != held || head.Unknown != unknown {
		// A receipt stored outside a commit moves the account too.
		h.refreshHead()
		head = h.head.Money
	}
	if head.Charged != charged || head.Held != held || head.Unknown != unknown {
		h.rt.Fatalf("I1: the account is %+v, the operations charged %d, hold %d, %d of them unknown", head, charged, held, unknown)
	}
}

// whole asserts what needs everything stored: I1, I2, I6, I7 and I10.
func (h *history) whole() {
	l, err := h.st.Load(h.test.Context(), "room")
	h.must(err)
	rows, err := h.st.Rows(h.test.Context(), "room", -1, 0)
	h.must(err)
	if len(rows) != len(h.rows) || l.Head.Rev != int64(len(rows)-1) {
		h.rt.Fatalf("I7: %d rows at revision %d, %d were committed", len(rows), l.Head.Rev, len(h.rows))
	}
	for i := range rows {
		if rows[i].Rev != int64(i) || rows[i].Digest != h.rows[i].Digest {
			h.rt.Fatalf("I7: revision %d is not the one that was committed", i)
		}
	}
	for i := range l.Ops {
		op := &l.Ops[i]
		o := h.ops[op.ID]
		if o == nil {
			if op.Status != store.OpRefused || op.ChargedMicros != 0 {
				h.rt.Fatalf("I2: operation %s is %s and nobody asked for it", op.ID, op.Status)
			}
			continue
		}
		if op.ReservedMicros != o.reserved || o.settled && op.ChargedMicros != o.charged {
			h.rt.Fatalf("I6: operation %s reserved %d charged %d, was %d and %d", op.ID, op.ReservedMicros, op.ChargedMicros, o.reserved, o.charged)
		}
	}
	entries, err := h.st.Outbox(h.test.Context(), "room")
	h.must(err)
	for i, e := range entries {
		if h.outbox[e.ID] != string(e.Body) {
			h.rt.Fatalf("I10: notification %s has another content", e.ID)
		}
		if i%2 == 0 { // sent, and the acknowledgement is lost for the others
			h.must(h.st.Delivered(h.test.Context(), "room", e.ID))
		} else {
			h.count("I10 redelivered")
		}
	}
}
