package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
)

// provider hands the engine's calls to the ports of one room: plans to the
// Reasoner, turns to the Executor, reviews to the Verifier.
type provider struct {
	room  Ref
	ports *Ports
}

var (
	_ model.Provider = (*provider)(nil)
	_ model.Pricer   = (*provider)(nil)
	_ model.Finder   = (*provider)(nil)
)

func (*provider) Name() string             { return "host" }
func (*provider) Evidence() model.Evidence { return model.Measured }

// Class: evidence may exist for any call. Where it does not, Lookup says so
// and the outcome is unknown, as for any party that cannot be asked.
func (*provider) Class() model.Class { return model.Lookup }

// Bound is not used: the ports price themselves (BoundMicros).
func (*provider) Bound(model.Call) (engine.Usage, error) { return engine.Usage{}, model.ErrUnbounded }

func (p *provider) call(c model.Call) Call {
	return Call{
		Op: c.Op, Room: p.room, Participant: c.Agent, Task: c.Task, Format: c.Format,
		System: c.System, Messages: c.Messages, Tools: c.Tools,
	}
}

// BoundMicros implements model.Pricer.
func (p *provider) BoundMicros(c model.Call) (int64, error) {
	var bound func(Call) (int64, error)
	switch c.Format {
	case engine.FormatPlan:
		bound = p.ports.Reasoner.Bound
	case engine.FormatReview:
		bound = p.ports.Verifier.Bound
	default:
		bound = p.ports.Executor.Bound
	}
	micros, err := bound(p.call(c))
	if err != nil {
		return 0, fmt.Errorf("%w: %w", model.ErrUnbounded, err)
	}
	return micros, nil
}

// Call implements model.Provider.
func (p *provider) Call(ctx context.Context, c model.Call) (model.Reply, error) {
	res, err := p.ask(ctx, c)
	if errors.Is(err, ErrNotMade) {
		return notMade(err.Error()), nil
	}
	if err != nil {
		return model.Reply{}, err
	}
	return res.reply(), nil
}

func (p *provider) ask(ctx context.Context, c model.Call) (Result, error) {
	switch call := p.call(c); c.Format {
	case engine.FormatPlan:
		var q engine.PlanRequest
		if err := question(c, &q); err != nil {
			return Result{}, err
		}
		return p.ports.Reasoner.Propose(ctx, call, q)
	case engine.FormatReview:
		var q engine.ReviewRequest
		if err := question(c, &q); err != nil {
			return Result{}, err
		}
		return p.ports.Verifier.Review(ctx, call, q)
	default:
		return p.ports.Executor.Execute(ctx, call)
	}
}

// question reads what the engine asks, from the newest message of a call.
func question(c model.Call, into any) error {
	if len(c.Messages) == 0 {
		return fmt.Errorf("operation %s asks nothing: %w", c.Op, ErrNotMade)
	}
	if err := json.Unmarshal([]byte(c.Messages[len(c.Messages)-1].Text), into); err != nil {
		return fmt.Errorf("operation %s: %w: %w", c.Op, ErrNotMade, err)
	}
	return nil
}

func (r Result) reply() model.Reply {
	out := model.Reply{Outcome: model.OK, Text: r.Text, Finish: "stop", Usage: r.Usage, Micros: r.Micros}
	if r.Failed != "" {
		out.Outcome, out.Text, out.Finish = model.Failed, "", ""
		out.Error, out.Code = r.Failed, engine.CodeAdapter
	}
	return out
}

// notMade is a failure that cost nothing.
func notMade(why string) model.Reply {
	free := int64(0)
	return model.Reply{Outcome: model.Failed, Error: why, Code: engine.CodeAdapter, Micros: &free}
}

// Lookup implements model.Finder.
func (p *provider) Lookup(ctx context.Context, c model.Call) (model.Found, error) {
	lost := model.Found{Executed: true, Seen: model.Reply{Outcome: model.Unknown}}
	if p.ports.Reconciler == nil {
		return lost, nil
	}
	e, err := p.ports.Reconciler.Evidence(ctx, Operation{Op: c.Op, Room: p.room, Format: c.Format, Participant: c.Agent, Task: c.Task})
	if err != nil {
		return model.Found{}, fmt.Errorf("evidence of operation %s: %w", c.Op, err)
	}
	switch e.Outcome {
	case engine.ReconciledNotExecuted:
		return model.Found{Proof: e.Proof}, nil
	case engine.ReconciledExecuted:
		if e.Result == nil {
			return lost, nil
		}
		r := *e.Result
		if r.Micros == nil {
			r.Micros = e.Micros
		}
		return model.Found{Executed: true, Seen: r.reply(), Reply: r.reply()}, nil
	case "":
		return lost, nil
	default:
		return model.Found{}, fmt.Errorf("evidence of operation %s: outcome %q is none", c.Op, e.Outcome)
	}
}
