package runtime

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/store"
)

// dispatch starts every queued operation in commit order. Model calls run on
// their own; tools run one after another in this goroutine, each receipt
// durable before the next call.
func (r *run) dispatch(ctx context.Context) error {
	for len(r.queue) > 0 {
		if err := r.dispatchNext(ctx); err != nil {
			return err
		}
	}
	return nil
}

// dispatchNext starts the first queued operation.
func (r *run) dispatchNext(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := r.storeReceipts(ctx); err != nil {
		return err
	}
	if err := r.start(ctx, r.queue[0]); err != nil {
		return err
	}
	r.queue = r.queue[1:]
	return nil
}

func (r *run) start(ctx context.Context, o *operation) error {
	if o.phase == waiting {
		if refusal := r.refusal(o); refusal != nil {
			return r.returned(o, &body{Kind: engine.EvDispatchRefused, Refusal: refusal}, store.Receipt{Outcome: store.OutcomeFailed, FinishUS: o.startUS})
		}
	}
	if o.call.Tool != nil {
		return r.startTool(ctx, o)
	}
	return r.startModel(ctx, o)
}

// refusal says why a reserved operation may not be dispatched (R12, R41): a
// limit, a cost without bound or price, lost authority. Nil lets it go.
func (r *run) refusal(o *operation) *engine.Refusal {
	refuse := func(code, format string, args ...any) *engine.Refusal {
		return &engine.Refusal{Code: code, Reason: fmt.Sprintf(format, args...)}
	}
	l := r.cfg.Limits
	if o.call.Tool != nil {
		if l.ToolCalls > 0 && r.toolCalls >= l.ToolCalls {
			return refuse(engine.CodeLimitReached, "%d tool calls are made", l.ToolCalls)
		}
	} else {
		if l.ModelCalls > 0 && r.modelCalls >= l.ModelCalls {
			return refuse(engine.CodeLimitReached, "%d model calls are made", l.ModelCalls)
		}
		switch bound, err := r.bound(o); {
		case err != nil:
			return refuse(engine.CodeUnboundedCost, "%s", oneLine(err.Error()))
		case bound > o.reserved: // prices or limits have changed since the commit
			return refuse(engine.CodeUnboundedCost, "the bound is %d micros now, %d are reserved", bound, o.reserved)
		}
	}
	if r.cfg.Authorized != nil && !r.cfg.Authorized(o.call.Agent) {
		return refuse(engine.CodeForbidden, "%s is not authorized", o.call.Agent)
	}
	return nil
}

// bound is the largest cost of a model operation in micros.
func (r *run) bound(o *operation) (int64, error) {
	if err := r.ask(o); err != nil {
		return 0, err
	}
	if p, ok := r.cfg.Provider.(model.Pricer); ok {
		micros, err := p.BoundMicros(*o.asked)
		if err == nil && micros < 0 {
			err = fmt.Errorf("the bound is %d micros: %w", micros, model.ErrUnbounded)
		}
		return micros, err
	}
	u, err := r.cfg.Provider.Bound(*o.asked)
	if err != nil {
		return 0, err
	}
	return r.cfg.Prices.Bound(r.cfg.Model, u)
}

// reservation is what a new model operation holds. One that is sure to be
// refused at dispatch holds nothing.
func (r *run) reservation(o *operation) int64 {
	if n := r.cfg.Limits.ModelCalls; n > 0 && r.modelCalls >= n {
		return 0
	}
	micros, err := r.bound(o)
	if err != nil {
		return 0
	}
	return micros
}

// ask builds the provider's call from the operation's request.
func (r *run) ask(o *operation) error {
	if o.asked != nil {
		return nil
	}
	if r.cfg.Provider == nil {
		return faultf("operation %s asks a model, the room has none", o.id)
	}
	q := o.call.Request
	if err := r.texts.sealAll(q.Texts()); err != nil { // loads what is sealed
		return faultf("operation %s: %w", o.id, err)
	}
	c := model.Call{
		Op: o.id, Format: q.Format, System: q.System.S, Model: r.cfg.Model, Params: r.cfg.Params,
		MaxOutputTokens: r.cfg.MaxOutputTokens, Messages: make([]model.Message, 0, len(q.Messages)),
		Agent: o.call.Agent, Task: o.call.Task,
	}
	for i := range q.Messages {
		m := &q.Messages[i]
		mm := model.Message{Role: m.Role, From: m.From, Text: m.Text.S, ToolCallID: m.ToolCallID}
		for j := range m.ToolCalls {
			tc := &m.ToolCalls[j]
			mm.ToolCalls = append(mm.ToolCalls, model.ToolCall{ID: tc.ID, Tool: tc.Tool, Args: tc.Args.S})
		}
		c.Messages = append(c.Messages, mm)
	}
	for _, name := range q.Tools {
		spec, ok := r.tools[name]
		if !ok {
			return faultf("operation %s offers tool %q, which the world does not have", o.id, name)
		}
		c.Tools = append(c.Tools, model.Tool{Name: spec.Name, Description: spec.Description, Schema: json.RawMessage(spec.Schema)})
	}
	o.asked = &c
	return nil
}

// mark makes the dispatch mark durable.
func (r *run) mark(ctx context.Context, o *operation) error {
	if err := r.cfg.Store.MarkDispatched(context.WithoutCancel(ctx), r.cfg.Room, o.id); err != nil {
		return fmt.Errorf("dispatch %s: %w", o.id, err)
	}
	r.record.dispatched(o.id)
	o.phase = marked
	r.count(o)
	return r.cfg.Crash.pass(AfterMark)
}

// callResult is what a provider answered.
type callResult struct {
	o     *operation
	reply model.Reply
	err   error
}

func (r *run) startModel(ctx context.Context, o *operation) error {
	if err := r.ask(o); err != nil {
		return err
	}
	if o.phase == waiting {
		if err := r.mark(ctx, o); err != nil {
			return err
		}
	} else if done, err := r.recoverModel(ctx, o); done || err != nil {
		return err
	}
	o.phase = calling
	r.inFlight++
	leave := r.cfg.Gauge.call()
	provider, call, results := r.cfg.Provider, *o.asked, r.results
	ctx = r.calls.begin(context.WithoutCancel(ctx), o.id) // a call under way is finished
	go func() {
		reply, err := guarded("provider", func() (model.Reply, error) { return provider.Call(ctx, call) })
		leave()
		results <- callResult{o, reply, err}
	}()
	return nil
}

// recoverModel finds out what became of a call that was dispatched before a
// restart. It reports true when the operation has its outcome; false means
// that the call provably did not happen.
func (r *run) recoverModel(ctx context.Context, o *operation) (bool, error) {
	finder, ok := r.cfg.Provider.(model.Finder)
	if r.cfg.Provider.Class() != model.Lookup || !ok {
		return true, r.settleCall(callResult{o: o, reply: model.Reply{Outcome: model.Unknown}})
	}
	found, err := finder.Lookup(context.WithoutCancel(ctx), *o.asked)
	if err != nil {
		return false, fmt.Errorf("look up operation %s: %w", o.id, err)
	}
	if !found.Executed {
		return false, nil
	}
	return true, r.settleCall(callResult{o: o, reply: found.Seen})
}

// gather waits for every call in flight and returns the results in commit
// order.
func (r *run) gather() []callResult {
	var batch []callResult
	for ; r.inFlight > 0; r.inFlight-- {
		batch = append(batch, <-r.results)
	}
	slices.SortFunc(batch, func(a, b callResult) int { return byCommit(a.o, b.o) })
	return batch
}

func (r *run) settle(batch []callResult) error {
	for _, res := range batch {
		if err := r.cfg.Crash.pass(AfterCall); err != nil {
			return err
		}
		if err := r.settleCall(res); err != nil {
			return err
		}
	}
	return nil
}

// settleCall makes the receipt of a model call: the actual cost where usage is
// known, the bound where it is missing or has no price (R38), nothing yet
// where the outcome is unknown (R42).
func (r *run) settleCall(res callResult) error {
	o, reply := res.o, res.reply
	if res.err != nil {
		reply = model.Reply{Outcome: model.Unknown}
	}
	rec := store.Receipt{Usage: reply.Usage, FinishUS: o.startUS + max(reply.DurationUS, 0)}
	if r.cfg.Clock == Wall {
		rec.FinishUS = max(o.startUS, r.watch.us())
	}
	b := &body{}
	switch reply.Outcome {
	case model.OK:
		rec.Outcome, b.Kind = store.OutcomeOK, engine.EvModelReply
	case model.Failed:
		rec.Outcome, b.Kind = store.OutcomeFailed, engine.EvModelFailed
	case model.Unknown:
		rec.Outcome, rec.Usage, b.Kind = store.OutcomeUnknown, nil, engine.EvModelUnknown
		return r.returned(o, b, rec)
	default:
		return r.returned(o, &body{Kind: engine.EvModelUnknown}, store.Receipt{Outcome: store.OutcomeUnknown, FinishUS: rec.FinishUS})
	}
	rec.ChargedMicros, rec.UsageSource = r.charge(o, &reply)
	b.Reply = &engine.ModelReply{
		Text: engine.Plain(reply.Text), Finish: reply.Finish, Usage: reply.Usage, Charged: rec.ChargedMicros, Source: rec.UsageSource,
		Error: oneLine(reply.Error), Code: reply.Code,
	}
	for _, c := range reply.ToolCalls {
		b.Reply.ToolCalls = append(b.Reply.ToolCalls, engine.ToolCall{ID: c.ID, Tool: c.Tool, Args: resultText([]byte(c.Args))})
	}
	return r.returned(o, b, rec)
}

// Usage sources of a charge.
const (
	sourceActual = "actual"
	sourceBound  = "bound"
)

func (r *run) charge(o *operation, reply *model.Reply) (int64, string) {
	if _, ok := r.cfg.Provider.(model.Pricer); ok {
		if reply.Micros == nil || *reply.Micros < 0 {
			return o.reserved, sourceBound
		}
		return *reply.Micros, sourceActual
	}
	if reply.Usage == nil {
		return o.reserved, sourceBound
	}
	micros, err := r.cfg.Prices.Cost(r.cfg.Model, *reply.Usage)
	if err != nil {
		return o.reserved, sourceBound
	}
	return micros, sourceActual
}

// resultText is b as a text of the media type it has.
func resultText(b []byte) engine.Text {
	if json.Valid(b) {
		return engine.JSONText(b)
	}
	return engine.Plain(string(b))
}

// startTool runs one tool operation, or finds out what became of it: the
// effects are the journal of the simulated world.
func (r *run) startTool(ctx context.Context, o *operation) error {
	if r.world == nil {
		return faultf("operation %s uses a tool, the room has no world", o.id)
	}
	if err := r.texts.load(&o.call.Tool.Args); err != nil {
		return faultf("operation %s: %w", o.id, err)
	}
	t, err := r.resolveTool(o, r.cfg.SendKeys)
	if err != nil {
		return faultf("operation %s: %w", o.id, err)
	}
	if o.phase == waiting {
		if err := r.mark(ctx, o); err != nil {
			return err
		}
	}
	var out engine.ToolOutcome
	if done := r.effects[o.id]; len(done) > 0 {
		out, err = guarded("world", func() (engine.ToolOutcome, error) { return r.world.Recover(t.request, done[len(done)-1]) })
		if err != nil {
			return faultf("world: recover %s: %w", o.id, err)
		}
	} else {
		out, err = guarded("world", func() (engine.ToolOutcome, error) {
			return r.world.Do(context.WithoutCancel(ctx), t.request)
		})
		if err != nil {
			return faultf("world: %s: %w", t.request.Tool, err)
		}
		if err := r.cfg.Crash.pass(AfterCall); err != nil {
			return err
		}
		if out.Effect != nil {
			if err := r.putEffect(ctx, o, out.Effect); err != nil {
				return err
			}
		}
	}
	if err := r.toolReturned(o, &t, &out); err != nil {
		return err
	}
	r.called(o, &t)
	return nil
}

// putEffect makes an effect durable, then folds it.
func (r *run) putEffect(ctx context.Context, o *operation, rec *engine.EffectRecord) error {
	if rec.Op != o.id {
		return faultf("world: the effect of %s names operation %q", o.id, rec.Op)
	}
	e, err := r.toStore(r.cfg.Room, 0, rec)
	if err != nil {
		return faultf("effect of %s: %w", o.id, err)
	}
	if err := r.cfg.Store.PutEffect(context.WithoutCancel(ctx), e, r.texts.fresh); err != nil {
		return fmt.Errorf("effect of %s: %w", o.id, err)
	}
	r.record.effect(e)
	r.texts.fresh = nil
	if err := r.cfg.Crash.pass(AfterEffect); err != nil {
		return err
	}
	return r.apply(fromStore(&e))
}

func (r *run) toolReturned(o *operation, t *toolCall, out *engine.ToolOutcome) error {
	result := t.result
	b := &body{Tool: &result, Fault: out.Fault}
	rec := store.Receipt{FinishUS: o.startUS + max(out.DurationUS, 0)}
	if r.cfg.Clock == Wall {
		rec.FinishUS = max(o.startUS, r.watch.us())
	}
	switch out.Outcome {
	case engine.ToolOK:
		rec.Outcome, b.Kind, result.Result = store.OutcomeOK, engine.EvToolOK, resultText(out.Result)
	case engine.ToolError:
		rec.Outcome, b.Kind, result.Result = store.OutcomeFailed, engine.EvToolError, engine.Plain(string(out.Result))
	case engine.ToolUnknown:
		rec.Outcome, b.Kind = store.OutcomeUnknown, engine.EvToolUnknown
	default:
		return faultf("world: %s came to outcome %q", t.request.Tool, out.Outcome)
	}
	return r.returned(o, b, rec)
}

// returned gives an operation its receipt, to be stored with the next write.
func (r *run) returned(o *operation, b *body, rec store.Receipt) error {
	if err := r.texts.sealAll(b.texts()); err != nil {
		return faultf("result of %s: %w", o.id, err)
	}
	result, err := engine.Canonical(b)
	if err != nil {
		return faultf("result of %s: %w", o.id, err)
	}
	rec.Op, rec.RequestDigest, rec.StartUS, rec.Result = o.id, o.digest, o.startUS, result
	o.body, o.receipt, o.phase = b, &rec, returned
	r.pending = append(r.pending, o)
	return nil
}

// storeReceipts makes the receipts at hand durable without a row.
func (r *run) storeReceipts(ctx context.Context) error {
	slices.SortFunc(r.pending, byCommit)
	for len(r.pending) > 0 {
		o := r.pending[0]
		if err := r.cfg.Store.PutReceipt(context.WithoutCancel(ctx), r.cfg.Room, *o.receipt, r.texts.fresh); err != nil {
			return fmt.Errorf("receipt of %s: %w", o.id, err)
		}
		r.record.settled(o.receipt)
		r.texts.fresh = nil
		r.head.Money = settled(r.head.Money, o)
		r.pending = r.pending[1:]
		if err := r.cfg.Crash.pass(AfterReceipt); err != nil {
			return err
		}
	}
	return nil
}

// settled is the account after an operation's receipt.
func settled(m engine.Money, o *operation) engine.Money {
	if o.receipt.Outcome == store.OutcomeUnknown {
		m.Unknown += o.reserved
		return m
	}
	m.Held -= o.reserved
	m.Charged += o.receipt.ChargedMicros
	return m
}
