package runtime_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/store"
)

// keysOf lists the idempotency keys of the tool results, as small letters in
// order of first appearance, with the outcome.
func keysOf(t *testing.T, p played) []string {
	t.Helper()
	names := map[string]string{}
	var out []string
	for _, e := range p.history.Entries {
		if e.Event.Tool == nil {
			continue
		}
		k := e.Event.Tool.IdemID
		if k != "" && names[k] == "" {
			names[k] = string(rune('A' + len(names)))
		}
		out = append(out, names[k]+" "+string(e.Event.Kind))
	}
	return out
}

// A retry after an unknown outcome repeats the key, an intended second effect
// does not (DESIGN §2).
func TestIdempotencyKeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		turns  []turn
		faults map[string]string
		want   []string
		docs   string
		keyed  string // documents when keys are sent
	}{
		{"twice on purpose", []turn{"add a 1", "add a 1", "done"}, nil, []string{"A tool_ok", "B tool_ok"}, `{"a":2}`, `{"a":2}`},
		{"twice in one reply", []turn{"add a 1;add a 1", "done"}, nil, []string{"A tool_ok", "B tool_ok"}, `{"a":2}`, `{"a":2}`},
		{
			"retry after a lost acknowledgement",
			[]turn{"add a 1", "add a 1", "done"},
			map[string]string{"add/1": "ack_lost"},
			[]string{"A tool_unknown", "A tool_ok"},
			`{"a":2}`, `{"a":1}`,
		},
		{
			"retry, then on purpose",
			[]turn{"add a 1", "add a 1", "add a 1", "done"},
			map[string]string{"add/1": "ack_lost"},
			[]string{"A tool_unknown", "A tool_ok", "B tool_ok"},
			`{"a":3}`, `{"a":2}`,
		},
		{
			"retry after an error",
			[]turn{"add a 1", "add a 1", "done"},
			map[string]string{"add/1": "error"},
			[]string{"A tool_error", "A tool_ok"},
			`{"a":1}`, `{"a":1}`,
		},
		{"other arguments", []turn{"add a 1;add a 2;add b 1", "done"}, nil, []string{"A tool_ok", "B tool_ok", "C tool_ok"}, `{"a":3,"b":1}`, `{"a":3,"b":1}`},
		{"reads have none", []turn{"get a;get a", "done"}, nil, []string{" tool_ok", " tool_ok"}, `{}`, `{}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, keys := range []bool{false, true} {
				p := scene{script: map[string][]turn{"a": c.turns}, faults: c.faults, keys: keys}.play(t)
				docs := c.docs
				if keys {
					docs = c.keyed
				}
				got := keysOf(t, p)
				// Both calls of one commit finish at once; their events go by id.
				if diff := cmp.Diff(sorted(c.want), sorted(got)); diff != "" {
					t.Errorf("keys sent %v:\n%s", keys, diff)
				}
				if d := string(p.history.Documents["counters"]); d != docs {
					t.Errorf("keys sent %v: documents %s, want %s", keys, d, docs)
				}
				for _, e := range p.history.Effects {
					if (e.Key != "") != keys {
						t.Errorf("keys sent %v: effect with key %q", keys, e.Key)
					}
				}
			}
		})
	}
}

// An unknown tool outcome is settled at the close by the world's journal: the
// effect records.
func TestR47_UnknownToolOutcomesAreReconciledAtTheClose(t *testing.T) {
	t.Parallel()
	p := scene{
		script: map[string][]turn{"a": {"add a 1", "add a 2", "done"}},
		faults: map[string]string{"add/1": "ack_lost", "add/2": "lost"},
	}.play(t)
	for i, want := range []store.Reconciliation{
		{Executed: true, Proof: "effect record of the world"},
		{Proof: "the world has no effect record of this operation"},
	} {
		o := op(t, p.history, engine.OpTool, i)
		if diff := cmp.Diff(&want, o.Reconciled); diff != "" {
			t.Errorf("operation %d:\n%s", i, diff)
		}
		if o.Receipt.Fault == "" || o.Receipt.Outcome != store.OutcomeUnknown {
			t.Errorf("receipt %+v", o.Receipt)
		}
	}
	if len(p.history.Effects) != 1 || p.history.Effects[0].Args.S != `{"id":"a","n":1}` || p.history.Effects[0].Ack != "lost" {
		t.Errorf("effects %+v", p.history.Effects)
	}
}

// Bad arguments are an ordinary outcome.
func TestToolArgumentsAreRawBytes(t *testing.T) {
	t.Parallel()
	p := scene{script: map[string][]turn{"a": {"add a x", "done"}}}.play(t)
	tool := p.history.Entries[3].Event.Tool
	if p.history.Entries[3].Event.Kind != engine.EvToolError || tool.Args.S != `{"id":"a","n":x}` || tool.IdemID != "" || tool.Target != "" || !tool.Write {
		t.Errorf("%s %+v", p.history.Entries[3].Event.Kind, tool)
	}
}
