// Package scripted is a provider that plays fixed replies. It is for tests,
// demonstrations and the fault scenarios of the runtime; its evidence word is
// "deterministic check".
//
// Stability: may change.
package scripted

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
)

// Answer is what really happens when a call is made. Its outcome is OK or
// Failed; usage nil means that the provider omits it.
type Answer struct {
	Reply model.Reply
	// Lost loses the reply on its way: the caller sees outcome Unknown, the
	// provider's journal knows better.
	Lost bool
}

// Text is an answer of words with usage as given.
func Text(text string, usage engine.Usage, durationUS int64) Answer {
	return Answer{Reply: model.Reply{Outcome: model.OK, Text: text, Finish: "stop", Usage: &usage, DurationUS: durationUS}}
}

// Config of a provider. Either Func or Replies is set.
type Config struct {
	// Func answers a call from its content alone. It must be pure: Lookup
	// recomputes with it, in another process too.
	Func func(call model.Call) (Answer, error)
	// Replies are played per format, one for each operation in the order of
	// their first calls. The order is kept in memory, so these serve one
	// process and one call at a time; a call beyond the list fails.
	Replies map[string][]Answer
	// Journal records the calls. Lookup then answers exactly; without one it
	// takes every operation it is asked about for executed.
	Journal model.Journal
	// Opaque makes the provider of class opaque: it cannot be asked.
	Opaque bool
	// Unbounded makes Bound fail, as for an API without a token limit.
	Unbounded bool
}

// Provider plays a script. Safe for concurrent use.
type Provider struct {
	cfg Config

	mu     sync.Mutex
	places map[string]int // operation → place in its format's list
	next   map[string]int // format → calls so far
}

var _ model.Provider = (*Provider)(nil)

// New makes a provider. An error names what is missing.
func New(cfg Config) (*Provider, error) {
	if (cfg.Func == nil) == (cfg.Replies == nil) {
		return nil, errors.New("scripted provider: set exactly one of Func and Replies")
	}
	return &Provider{cfg: cfg, places: map[string]int{}, next: map[string]int{}}, nil
}

// Name implements model.Provider.
func (p *Provider) Name() string { return "scripted" }

// Evidence implements model.Provider.
func (p *Provider) Evidence() model.Evidence { return model.Deterministic }

// Class implements model.Provider.
func (p *Provider) Class() model.Class {
	if p.cfg.Opaque {
		return model.Opaque
	}
	return model.Lookup
}

// Bound implements model.Provider.
func (p *Provider) Bound(call model.Call) (engine.Usage, error) {
	if p.cfg.Unbounded {
		return engine.Usage{}, fmt.Errorf("scripted provider: %w", model.ErrUnbounded)
	}
	return model.BoundTokens(call)
}

// Call implements model.Provider.
func (p *Provider) Call(ctx context.Context, call model.Call) (model.Reply, error) {
	if err := ctx.Err(); err != nil {
		return model.Reply{}, fmt.Errorf("scripted provider: %w", err)
	}
	if p.cfg.Journal != nil {
		digest, err := call.Digest()
		if err != nil {
			return model.Reply{}, err
		}
		if err := p.cfg.Journal.Record(call.Op, digest); err != nil {
			return model.Reply{}, err
		}
	}
	a, err := p.answer(call)
	if err != nil {
		return model.Reply{}, err
	}
	return a.seen(), nil
}

// Lookup implements model.Finder. An opaque provider answers with an error.
func (p *Provider) Lookup(ctx context.Context, call model.Call) (model.Found, error) {
	if err := ctx.Err(); err != nil {
		return model.Found{}, fmt.Errorf("scripted provider: %w", err)
	}
	if p.cfg.Opaque {
		return model.Found{}, errors.New("scripted provider: opaque, cannot be asked about operations")
	}
	if p.cfg.Journal != nil && !p.cfg.Journal.Has(call.Op) {
		return model.Found{Proof: "the provider's journal has no call of this operation"}, nil
	}
	a, err := p.answer(call)
	if err != nil {
		return model.Found{}, err
	}
	return model.Found{Executed: true, Seen: a.seen(), Reply: a.Reply}, nil
}

func (a Answer) seen() model.Reply {
	if a.Lost {
		return model.Reply{Outcome: model.Unknown, DurationUS: a.Reply.DurationUS}
	}
	return a.Reply
}

func (p *Provider) answer(call model.Call) (Answer, error) {
	if p.cfg.Func != nil {
		return p.cfg.Func(call)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n, ok := p.places[call.Op]
	if !ok {
		n = p.next[call.Format]
		p.next[call.Format]++
		p.places[call.Op] = n
	}
	list := p.cfg.Replies[call.Format]
	if n >= len(list) {
		return Answer{Reply: model.Reply{
			Outcome: model.Failed, Code: engine.CodeNotFound, Usage: &engine.Usage{},
			Error: fmt.Sprintf("the script has no reply %d of format %s", n+1, call.Format),
		}}, nil
	}
	return list[n], nil
}
