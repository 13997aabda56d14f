package scripted_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/model/modeltest"
	"github.com/agentrooms/qualify/engine/model/scripted"
)

func calls(n int) []model.Call {
	out := make([]model.Call, n)
	for i := range out {
		out[i] = model.Call{
			Op: "op_" + strings.Repeat("a", i+1), Format: engine.FormatTurn, System: "You are: a",
			Messages: []model.Message{{Role: engine.MsgUser, From: "ana (owner)", Text: strings.Repeat("x", i+1)}},
			Model:    "m", MaxOutputTokens: 100,
		}
	}
	return out
}

func script(call model.Call) (scripted.Answer, error) {
	n := int64(len(call.Messages[0].Text))
	a := scripted.Text("reply to "+call.Messages[0].Text, engine.Usage{Input: n, Output: n}, n)
	switch n {
	case 2:
		a.Lost = true
	case 3:
		a.Reply.Usage = nil
	case 4:
		a.Reply = model.Reply{Outcome: model.Failed, Error: "busy", Usage: &engine.Usage{Input: n}}
	}
	return a, nil
}

func TestConformance(t *testing.T) {
	t.Parallel()
	t.Run("func with journal", func(t *testing.T) {
		t.Parallel()
		modeltest.Run(t, func(t *testing.T) modeltest.Subject {
			j, err := model.OpenFileJournal(filepath.Join(t.TempDir(), "calls"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = j.Close() })
			return modeltest.Subject{Provider: provider(t, scripted.Config{Func: script, Journal: j}), Calls: calls(5), Journal: j}
		})
	})
	t.Run("list", func(t *testing.T) {
		t.Parallel()
		modeltest.Run(t, func(t *testing.T) modeltest.Subject {
			list := []scripted.Answer{scripted.Text("one", engine.Usage{Input: 1, Output: 1}, 5), scripted.Text("two", engine.Usage{Input: 2, Output: 1}, 6)}
			p := provider(t, scripted.Config{Replies: map[string][]scripted.Answer{engine.FormatTurn: list}})
			return modeltest.Subject{Provider: p, Calls: calls(2)}
		})
	})
	t.Run("opaque", func(t *testing.T) {
		t.Parallel()
		modeltest.Run(t, func(t *testing.T) modeltest.Subject {
			return modeltest.Subject{Provider: provider(t, scripted.Config{Func: script, Opaque: true}), Calls: calls(4), Stateless: true}
		})
	})
}

func provider(t *testing.T, cfg scripted.Config) *scripted.Provider {
	t.Helper()
	p, err := scripted.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestLookupTellsBothReadingsOfALostReply(t *testing.T) {
	t.Parallel()
	p := provider(t, scripted.Config{Func: script, Journal: &model.MemoryJournal{}})
	call := calls(2)[1]
	seen, err := p.Call(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	found, err := p.Lookup(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	want := model.Found{
		Executed: true,
		Seen:     model.Reply{Outcome: model.Unknown, DurationUS: 2},
		Reply:    model.Reply{Outcome: model.OK, Text: "reply to xx", Finish: "stop", Usage: &engine.Usage{Input: 2, Output: 2}, DurationUS: 2},
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want.Seen, seen); diff != "" {
		t.Error(diff)
	}
}

func TestListRunsOut(t *testing.T) {
	t.Parallel()
	p := provider(t, scripted.Config{Replies: map[string][]scripted.Answer{engine.FormatTurn: {}}})
	r, err := p.Call(t.Context(), calls(1)[0])
	if err != nil || r.Outcome != model.Failed || !strings.Contains(r.Error, "no reply 1") {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	if _, err := scripted.New(scripted.Config{}); err == nil {
		t.Error("a provider without script was made")
	}
	p := provider(t, scripted.Config{Func: script, Unbounded: true, Opaque: true})
	if _, err := p.Bound(calls(1)[0]); !errors.Is(err, model.ErrUnbounded) {
		t.Errorf("bound: %v", err)
	}
	if _, err := p.Lookup(t.Context(), calls(1)[0]); err == nil {
		t.Error("an opaque provider answered a lookup")
	}
}
