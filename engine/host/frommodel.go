package host

import (
	"context"
	"fmt"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
)

// ModelConfig is a model that stands behind ports, with its prices.
type ModelConfig struct {
	Provider model.Provider
	Prices   model.Prices // integer micros per million tokens
	Model    string       // name at the provider and in the price table
	// MaxOutputTokens of one call; required, because it bounds what a call
	// costs (R41).
	MaxOutputTokens int
	Params          map[string]string
}

// Model adapts any provider of package engine/model to the ports that cost
// money (R41b). Tokens become micros by integer prices, each component rounded
// up. Usage that the provider omits stays unknown, never zero, and so does
// usage that the table cannot price: the bound is charged.
type Model struct{ cfg ModelConfig }

var (
	_ Reasoner = (*Model)(nil)
	_ Executor = (*Model)(nil)
	_ Verifier = (*Model)(nil)
)

// FromModel makes the adapter. An error of code VALIDATION_ERROR says what is
// missing; a model without prices is refused here and not at the first call.
func FromModel(cfg ModelConfig) (*Model, error) {
	switch _, priced := cfg.Prices[cfg.Model]; {
	case cfg.Provider == nil:
		return nil, engine.Errorf(engine.CodeValidation, "host: a model port needs a provider")
	case cfg.MaxOutputTokens <= 0:
		return nil, engine.Errorf(engine.CodeValidation, "host: model %q needs max_output_tokens: without it a call has no bound", cfg.Model)
	case !priced:
		return nil, engine.Errorf(engine.CodeUnboundedCost, "host: model %q has no price", cfg.Model)
	}
	return &Model{cfg: cfg}, nil
}

func (m *Model) call(c Call) model.Call {
	return model.Call{
		Op: c.Op, Format: c.Format, System: c.System, Messages: c.Messages, Model: m.cfg.Model, Params: m.cfg.Params,
		MaxOutputTokens: m.cfg.MaxOutputTokens, Agent: c.Participant, Task: c.Task,
	}
}

// Bound implements Reasoner, Executor and Verifier.
func (m *Model) Bound(c Call) (int64, error) {
	u, err := m.cfg.Provider.Bound(m.call(c))
	if err != nil {
		return 0, err
	}
	return m.cfg.Prices.Bound(m.cfg.Model, u)
}

// Propose implements Reasoner.
func (m *Model) Propose(ctx context.Context, c Call, _ engine.PlanRequest) (Result, error) {
	return m.ask(ctx, c)
}

// Execute implements Executor. A model alone has no tools to use; a host that
// has some wraps this port with its own.
func (m *Model) Execute(ctx context.Context, c Call) (Result, error) { return m.ask(ctx, c) }

// Review implements Verifier.
func (m *Model) Review(ctx context.Context, c Call, _ engine.ReviewRequest) (Result, error) {
	return m.ask(ctx, c)
}

func (m *Model) ask(ctx context.Context, c Call) (Result, error) {
	reply, err := m.cfg.Provider.Call(ctx, m.call(c))
	if err != nil {
		return Result{}, fmt.Errorf("model %s: %w", m.cfg.Model, err)
	}
	res := m.priced(reply)
	switch reply.Outcome {
	case model.OK:
		res.Text = reply.Text
	case model.Failed:
		if res.Failed = reply.Error; res.Failed == "" {
			res.Failed = "the model failed"
		}
	case model.Unknown:
		return Result{}, fmt.Errorf("model %s: the reply to operation %s was lost", m.cfg.Model, c.Op)
	default:
		return Result{}, fmt.Errorf("model %s: outcome %q of operation %s", m.cfg.Model, reply.Outcome, c.Op)
	}
	return res, nil
}

// priced is what a reply used and cost.
func (m *Model) priced(reply model.Reply) Result {
	res := Result{Usage: reply.Usage, Micros: reply.Micros}
	if reply.Usage == nil {
		return res
	}
	if micros, err := m.cfg.Prices.Cost(m.cfg.Model, *reply.Usage); err == nil {
		res.Micros = &micros
	}
	return res
}

// Evidence tells what became of an operation, from a provider of class lookup:
// it serves a Reconciler port. c must be the call as it was made.
func (m *Model) Evidence(ctx context.Context, c Call) (Evidence, error) {
	finder, ok := m.cfg.Provider.(model.Finder)
	if m.cfg.Provider.Class() != model.Lookup || !ok {
		return Evidence{}, nil
	}
	f, err := finder.Lookup(ctx, m.call(c))
	if err != nil {
		return Evidence{}, fmt.Errorf("look up operation %s: %w", c.Op, err)
	}
	if !f.Executed {
		return Evidence{Outcome: engine.ReconciledNotExecuted, Proof: f.Proof}, nil
	}
	res := m.priced(f.Reply)
	res.Text = f.Reply.Text
	if f.Reply.Outcome == model.Failed {
		res.Text, res.Failed = "", f.Reply.Error
	}
	return Evidence{Outcome: engine.ReconciledExecuted, Micros: res.Micros, Usage: res.Usage, Proof: "the provider's own record of the call", Result: &res}, nil
}
