package world_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/corpus/world"
	"github.com/agentrooms/qualify/engine"
)

// depot is a case with a tool for every operation; %s takes owner and faults.
const depot = `schema: qualify/case/v1
id: depot-01
family: depot
split: dev
title: Every operation
room:
  goal: Keep the depot.
  owner: {id: ana, name: Ana}
  agents:
    - {id: clerk, agent: agent-clerk, role: specialist, description: keeps things, tools: [list, get, add, log, keep, swap, set, make, drop, toss, mail, memo]}
    - {id: eye, agent: agent-eye, role: reviewer, description: looks, tools: [list]}
  criteria: [{id: c, text: All is well}]
  limits: {budget_usd: "0.08", model_calls: 40, tool_calls: 40, minutes: 60, parallel: 2}
world:
  documents:
    items: {a/b: {kind: box, n: 1}, "c~d": {kind: bag, n: 2}, plain: {kind: box, n: 3.50}}
    log: []
    box: {}
tools:
  - {name: list, action: read, description: d, params: {type: object, additionalProperties: false, properties: {kind: {type: string}}}, op: {kind: query, from: /items, where: {kind: "{kind}"}, fields: [n]}}
  - {name: get, action: read, description: d, params: {type: object, additionalProperties: false, required: [id], properties: {id: {type: string}}}, op: {kind: get, at: "/items/{id}"}, identity: {target: [id]}}
  - {name: add, action: write, description: d, params: {type: object, additionalProperties: false, required: [id, n], properties: {id: {type: string}, n: {type: number}, note: {type: string}}}, op: {kind: insert, at: "/items/{id}", value: {kind: box, n: "{n}", note: "{note}", label: "item {id} x{n}"}}, identity: {target: [id]}}
  - {name: log, action: write, description: d, params: {type: object, additionalProperties: false, required: [line], properties: {line: {type: string}}}, op: {kind: insert, at: /log/-, value: "{line}"}}
  - {name: keep, action: write, description: d, params: {type: object, additionalProperties: false, required: [id], properties: {id: {type: string}}}, op: {kind: insert, at: "/items/{id}", value: {n: 0}, exists: keep}, identity: {target: [id]}}
  - {name: swap, action: write, description: d, params: {type: object, additionalProperties: false, required: [id], properties: {id: {type: string}}}, op: {kind: insert, at: "/items/{id}", value: {n: 9}, exists: replace}, identity: {target: [id]}}
  - {name: set, action: write, description: d, params: {type: object, additionalProperties: false, required: [id, n], properties: {id: {type: string}, n: {type: integer}}}, op: {kind: update, at: "/items/{id}", set: {n: "{n}"}}, identity: {target: [id]}}
  - {name: make, action: write, description: d, params: {type: object, additionalProperties: false, required: [id, n], properties: {id: {type: string}, n: {type: integer}}}, op: {kind: update, at: "/items/{id}", set: {n: "{n}"}, missing: create}, identity: {target: [id]}}
  - {name: drop, action: write, description: d, params: {type: object, additionalProperties: false, required: [id], properties: {id: {type: string}}}, op: {kind: delete, at: "/items/{id}"}, identity: {target: [id]}}
  - {name: toss, action: write, description: d, params: {type: object, additionalProperties: false, required: [id], properties: {id: {type: string}}}, op: {kind: delete, at: "/items/{id}", missing: ignore}, identity: {target: [id]}}
  - {name: mail, action: draft, description: d, params: {type: object, additionalProperties: false, required: [to, text], properties: {to: {type: string}, text: {type: string}}}, op: {kind: send, at: /box, to: "{to}", text: "{text}"}, identity: {target: [to], volatile: [text]}}
  - {name: memo, action: draft, description: d, params: {type: object, additionalProperties: false, required: [text], properties: {text: {type: string}}}, op: {kind: send, at: /log, to: all, text: "Memo: {text}"}}
owner:
%s
%s`

const quietOwner = `  think_seconds: 20
  messages: [{id: m1, text: Go.}]`

// bench drives a world as the runtime does.
type bench struct {
	t   *testing.T
	c   *corpus.Case
	w   *world.World
	n   int
	log []step
}

// step is one call with its outcome, as the log of a room would hold it.
type step struct {
	req engine.ToolRequest
	out engine.ToolOutcome
}

func load(t *testing.T, owner, faults string) *corpus.Case {
	t.Helper()
	if faults != "" {
		faults = "faults:\n" + faults
	}
	c, err := corpus.Parse("depot/depot-01.yaml", []byte(fmt.Sprintf(depot, owner, faults)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func newBench(t *testing.T, c *corpus.Case) *bench {
	t.Helper()
	w, err := world.New(c, 7)
	if err != nil {
		t.Fatal(err)
	}
	return &bench{t: t, c: c, w: w}
}

func (b *bench) request(tool, args, key string) engine.ToolRequest {
	b.n++
	req := engine.ToolRequest{
		Room: "r", Op: fmt.Sprintf("op_%d", b.n), Tool: tool, Args: []byte(args), Key: key, Agent: "clerk", Task: "t", AtUS: int64(b.n) * 1_000_000,
	}
	if t, ok := b.c.Tool(tool); ok {
		req.Target = engine.Target(req.Args, t.Identity.Target)
		req.Identity, _ = engine.EffectIdentity(tool, req.Args, t.Identity.Volatile, req.Target)
	}
	return req
}

func (b *bench) do(tool, args, key string) engine.ToolOutcome {
	b.t.Helper()
	req := b.request(tool, args, key)
	out, err := b.w.Do(context.Background(), req)
	if err != nil {
		b.t.Fatalf("%s %s: %v", tool, args, err)
	}
	if out.Effect != nil {
		if err := b.w.Apply(*out.Effect); err != nil {
			b.t.Fatalf("%s %s: apply: %v", tool, args, err)
		}
	}
	b.w.Called(req.Tool, req.Target)
	b.log = append(b.log, step{req, out})
	return out
}

func (b *bench) docs() string {
	b.t.Helper()
	docs, err := b.w.Documents()
	if err != nil {
		b.t.Fatal(err)
	}
	text, err := engine.Canonical(docs)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// confirmed counts effects that changed something.
func (b *bench) confirmed() int {
	n := 0
	for _, s := range b.log {
		if e := s.out.Effect; e != nil && e.State == "confirmed" && !e.Suppressed {
			n++
		}
	}
	return n
}

func indent(lines ...string) string { return strings.Join(lines, "\n") }
