package host_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/host"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/model/scripted"
)

// Odd micros per million tokens, so that every component rounds.
func prices() model.Prices {
	return model.Prices{"m": {Rates: model.Rates{Input: 333_333, CachedRead: 111_111, CacheWrite5m: model.Unpriced, CacheWrite1h: model.Unpriced, Output: 777_777, Reasoning: 777_777}}}
}

func modelPort(t testing.TB, a scripted.Answer, change func(*scripted.Config)) *host.Model {
	t.Helper()
	cfg := scripted.Config{Func: func(model.Call) (scripted.Answer, error) { return a, nil }}
	if change != nil {
		change(&cfg)
	}
	p, err := scripted.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	m, err := host.FromModel(host.ModelConfig{Provider: p, Prices: prices(), Model: "m", MaxOutputTokens: 100})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestR41b_TokensBecomeMicrosRoundedUpPerComponent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		usage *engine.Usage
		want  *int64
	}{
		"each component up": {&engine.Usage{Input: 1, CachedRead: 1, Output: 1}, ptr(3)},
		"exact":             {&engine.Usage{Input: 3_000_000}, ptr(999_999)},
		"nothing used":      {&engine.Usage{}, ptr(0)},
		"missing":           {nil, nil},
		"without a price":   {&engine.Usage{Input: 1, CacheWrite5m: 1}, nil},
	} {
		reply := model.Reply{Outcome: model.OK, Text: "hello", Usage: c.usage}
		m := modelPort(t, scripted.Answer{Reply: reply}, nil)
		res, err := m.Propose(t.Context(), host.Call{Op: "op_1"}, engine.PlanRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(host.Result{Text: "hello", Usage: c.usage, Micros: c.want}, res); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func ptr(n int64) *int64 { return &n }

// The bound is one: no usage within it costs more.
func TestR41_TheBoundOfAModelPortIsABound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		c := host.Call{Op: "op", System: rapid.String().Draw(rt, "system"), Messages: []model.Message{{Role: engine.MsgUser, Text: rapid.String().Draw(rt, "text")}}}
		limit := int64(len(c.System) + len(c.Messages[0].Text))
		in := rapid.Int64Range(0, limit).Draw(rt, "input")
		u := engine.Usage{Input: in, CachedRead: rapid.Int64Range(0, limit-in).Draw(rt, "cached")}
		u.Output = rapid.Int64Range(0, 100).Draw(rt, "output")
		u.Reasoning = rapid.Int64Range(0, 100-u.Output).Draw(rt, "reasoning")
		m := modelPort(t, scripted.Answer{Reply: model.Reply{Outcome: model.OK, Usage: &u}}, nil)
		bound, err := m.Bound(c)
		if err != nil {
			rt.Fatal(err)
		}
		res, err := m.Execute(t.Context(), c)
		if err != nil || res.Micros == nil || *res.Micros > bound {
			rt.Fatalf("%+v costs %+v, the bound is %d: %v", u, res, bound, err)
		}
	})
}

func TestR41b_WhatAModelPortCannotSayIsAnError(t *testing.T) {
	t.Parallel()
	p, err := scripted.New(scripted.Config{Replies: map[string][]scripted.Answer{}})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		cfg  host.ModelConfig
		code string
	}{
		"no provider": {host.ModelConfig{Prices: prices(), Model: "m", MaxOutputTokens: 1}, engine.CodeValidation},
		"no bound":    {host.ModelConfig{Provider: p, Prices: prices(), Model: "m"}, engine.CodeValidation},
		"no price":    {host.ModelConfig{Provider: p, Prices: prices(), Model: "n", MaxOutputTokens: 1}, engine.CodeUnboundedCost},
	} {
		_, err := host.FromModel(c.cfg)
		if engine.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	unbounded := modelPort(t, scripted.Answer{}, func(c *scripted.Config) { c.Unbounded = true })
	if _, err := unbounded.Bound(host.Call{Op: "op"}); !errors.Is(err, model.ErrUnbounded) {
		t.Errorf("%v", err)
	}
	lost := modelPort(t, scripted.Answer{Reply: model.Reply{Outcome: model.OK, Text: "x"}, Lost: true}, nil)
	if _, err := lost.Review(t.Context(), host.Call{Op: "op"}, engine.ReviewRequest{}); err == nil || errors.Is(err, host.ErrNotMade) {
		t.Errorf("a lost reply: %v", err)
	}
	failed := modelPort(t, scripted.Answer{Reply: model.Reply{Outcome: model.Failed, Usage: &engine.Usage{Input: 10}}}, nil)
	if res, err := failed.Execute(t.Context(), host.Call{Op: "op"}); err != nil || res.Failed == "" || res.Micros == nil || *res.Micros != 4 {
		t.Errorf("%+v %v", res, err)
	}
}

func TestR47_AModelPortKnowsWhatItsProviderKnows(t *testing.T) {
	t.Parallel()
	j := &model.MemoryJournal{}
	u := engine.Usage{Input: 3}
	m := modelPort(t, scripted.Answer{Reply: model.Reply{Outcome: model.OK, Text: "x", Usage: &u}, Lost: true}, func(c *scripted.Config) { c.Journal = j })
	call := host.Call{Op: "op"}
	e, err := m.Evidence(t.Context(), call)
	if err != nil || e.Outcome != engine.ReconciledNotExecuted || e.Proof == "" {
		t.Errorf("%+v %v", e, err)
	}
	if _, err := m.Execute(t.Context(), call); err == nil {
		t.Fatal("the reply was not lost")
	}
	e, err = m.Evidence(t.Context(), call)
	if err != nil || e.Outcome != engine.ReconciledExecuted || *e.Micros != 1 || e.Result.Text != "x" || !strings.Contains(e.Proof, "record") {
		t.Errorf("%+v %v", e, err)
	}
	opaque := modelPort(t, scripted.Answer{}, func(c *scripted.Config) { c.Opaque = true })
	if e, err := opaque.Evidence(t.Context(), call); err != nil || e.Outcome != "" {
		t.Errorf("%+v %v", e, err)
	}
}

// A room whose reasoner, executor and verifier are one model.
func TestR41b_AModelStandsBehindAllPorts(t *testing.T) {
	t.Parallel()
	x := begin(t)
	m := modelPort(t, scripted.Answer{}, func(c *scripted.Config) {
		c.Func = func(call model.Call) (scripted.Answer, error) { return x.h.script(call) }
	})
	x.s = x.service(func(c *host.Config) { c.Ports.Reasoner, c.Ports.Executor, c.Ports.Verifier = m, m, m })
	x.accept("m1")
	done := x.tick()
	v := x.look()
	if done.Calls != 4 || v.Planner.Claim != "coordinator" || v.Money.Charged != 4*5 || v.Money.Held != 0 {
		t.Errorf("%+v %+v", done, v.Money)
	}
	x.h.once(t)
}

// script answers a model call as the house's ports would.
func (h *house) script(c model.Call) (scripted.Answer, error) {
	text := c.Messages[len(c.Messages)-1].Text
	var v any
	switch c.Format {
	case engine.FormatPlan:
		var q engine.PlanRequest
		if err := parse(text, &q); err != nil {
			return scripted.Answer{}, err
		}
		v = h.propose(q)
	case engine.FormatReview:
		var q engine.ReviewRequest
		if err := parse(text, &q); err != nil {
			return scripted.Answer{}, err
		}
		v = h.review(q)
	default:
		v = h.execute(host.Call{Participant: "someone"})
	}
	r, err := host.Reply(v, 0)
	return scripted.Text(r.Text, engine.Usage{Input: 12, Output: 1}, 1), err
}
