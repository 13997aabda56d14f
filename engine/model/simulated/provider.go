package simulated

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
)

// Name of the provider, as campaign files write it.
const Name = "simulated"

// Config makes a provider for one trial.
type Config struct {
	Key     Key
	Oracle  Oracle
	Rates   Rates   // the zero value spoils nothing
	Latency Latency // the zero value answers at once
	// Journal, when given, records every call before it is answered; Lookup
	// then knows a call as executed exactly if it is there. Without one, every
	// operation asked for counts as executed: the answer is the same whenever
	// it is made.
	Journal model.Journal
}

// Provider is the simulated model for one trial. It holds no state of its own
// and is safe for concurrent use.
type Provider struct {
	key     Key
	gold    *gold
	rates   Rates
	latency Latency
	journal model.Journal
}

var (
	_ model.Provider = (*Provider)(nil)
	_ model.Finder   = (*Provider)(nil)
)

// New checks the configuration. The error names every fault of the oracle, or
// the rate or latency that is out of range.
func New(cfg Config) (*Provider, error) {
	g, err := compile(cfg.Oracle)
	if err != nil {
		return nil, fmt.Errorf("simulated model for case %s: %w", cfg.Key.Case, err)
	}
	if err := cfg.Rates.validate(); err != nil {
		return nil, fmt.Errorf("simulated model: %w", err)
	}
	if err := cfg.Latency.validate(); err != nil {
		return nil, fmt.Errorf("simulated model: %w", err)
	}
	return &Provider{key: cfg.Key, gold: g, rates: cfg.Rates, latency: cfg.Latency, journal: cfg.Journal}, nil
}

// Name implements model.Provider.
func (*Provider) Name() string { return Name }

// Evidence implements model.Provider.
func (*Provider) Evidence() model.Evidence { return model.Simulated }

// Class implements model.Provider: outcomes can be asked for.
func (*Provider) Class() model.Class { return model.Lookup }

// Bound implements model.Provider by model.BoundTokens. The simulated
// tokenizer needs fewer tokens than bytes, and no reply is longer than
// MaxOutputTokens, so no usage exceeds it.
func (*Provider) Bound(call model.Call) (engine.Usage, error) { return model.BoundTokens(call) }

// Call implements model.Provider. It answers at once, in the same way every
// time; an error means that the journal refused the call.
func (p *Provider) Call(_ context.Context, call model.Call) (model.Reply, error) {
	if p.journal != nil {
		digest, err := call.Digest()
		if err != nil {
			return model.Reply{}, fmt.Errorf("simulated model: %w", err)
		}
		if err := p.journal.Record(call.Op, digest); err != nil {
			return model.Reply{}, fmt.Errorf("simulated model: %w", err)
		}
	}
	return p.seen(call, p.reply(call)), nil
}

// Lookup implements model.Finder.
func (p *Provider) Lookup(_ context.Context, call model.Call) (model.Found, error) {
	if p.journal != nil && !p.journal.Has(call.Op) {
		return model.Found{Proof: "the provider's journal has no call of this operation"}, nil
	}
	r := p.reply(call)
	return model.Found{Executed: true, Seen: p.seen(call, r), Reply: r}, nil
}

// reply is what really happens: the answer with the provider's own record of
// its usage.
func (p *Provider) reply(call model.Call) model.Reply {
	d := dice{key: p.key, op: call.Op}
	a, ok := p.answer(d, call)
	r := model.Reply{Outcome: model.OK, DurationUS: p.latency.quantile(int64(d.below(uint64(always), "latency")))}
	if !ok {
		r.Outcome, r.Code, r.Error = model.Failed, engine.CodeValidation, fmt.Sprintf("the simulated model knows no format %q", call.Format)
	}
	if a.call == nil && p.rates.MalformedJSON > 0 && d.hit(p.rates.MalformedJSON, "malformed_json") {
		a.text = cut(a.text, len(a.text)/2)
	}
	r.Finish = "stop"
	if a.call != nil {
		r.Finish = "tool_calls"
	}
	if room := call.MaxOutputTokens * bytesPerToken; call.MaxOutputTokens > 0 && a.size() > room {
		r.Finish = "length"
		if a.call != nil {
			a.call.args = cut(a.call.args, max(0, room-len(a.call.tool)))
		} else {
			a.text = cut(a.text, room)
		}
	}
	r.Text = a.text
	if a.call != nil {
		r.ToolCalls = []model.ToolCall{{ID: "call-" + call.Op, Tool: a.call.tool, Args: a.call.args}}
	}
	u := usage(call, a)
	r.Usage = &u
	return r
}

// seen is what reaches the caller of a reply.
func (p *Provider) seen(call model.Call, r model.Reply) model.Reply {
	d := dice{key: p.key, op: call.Op}
	if d.hit(p.rates.LostReply, "lost_reply") {
		return model.Reply{Outcome: model.Unknown, DurationUS: r.DurationUS, Error: "the reply was lost"}
	}
	if d.hit(p.rates.MissingUsage, "missing_usage") {
		r.Usage = nil
	}
	return r
}

func (p *Provider) answer(d dice, call model.Call) (answer, bool) {
	switch call.Format {
	case engine.FormatTurn:
		return p.turn(d, call), true
	case engine.FormatPlan:
		return p.plan(d, call), true
	case engine.FormatReview:
		return p.review(d, call), true
	case engine.FormatRoute:
		return p.route(call), true
	default:
		return answer{}, false
	}
}

// cut keeps at most n bytes of whole characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
