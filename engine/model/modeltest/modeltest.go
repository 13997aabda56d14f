// Package modeltest is the conformance suite of model providers. A provider
// is done when it passes.
//
// Stability: may change.
package modeltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
)

// Subject is a fresh provider with calls it can answer. Operation ids differ
// and include at least one call. Journal is the provider's own, nil when it
// keeps none.
type Subject struct {
	Provider model.Provider
	Calls    []model.Call
	Journal  model.Journal
	// Stateless says that a reply depends on the call alone, so that repeats
	// and fresh providers must agree. It is implied by class lookup.
	Stateless bool
}

// Run runs the suite; each test makes its own subject.
func Run(t *testing.T, make func(t *testing.T) Subject) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(*testing.T, Subject)
	}{
		{"identity", identity},
		{"bound covers usage", boundCovers},
		{"unbounded without output limit", unbounded},
		{"replies are well formed", wellFormed},
		{"an operation id repeats its reply", repeats},
		{"lookup agrees with the call", lookup},
		{"lookup before the call", lookupBefore},
		{"the journal counts every call", journal},
		{"concurrent calls", concurrent},
		{"a dead context", deadContext},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := make(t)
			if len(s.Calls) == 0 {
				t.Fatal("the subject has no calls")
			}
			c.test(t, s)
		})
	}
}

func identity(t *testing.T, s Subject) {
	if s.Provider.Name() == "" {
		t.Error("no name")
	}
	if e := s.Provider.Evidence(); !slices.Contains([]model.Evidence{model.Measured, model.Simulated, model.Deterministic, model.Recorded}, e) {
		t.Errorf("evidence word %q is not one of DESIGN §9", e)
	}
	switch _, finder := s.Provider.(model.Finder); s.Provider.Class() {
	case model.Lookup:
		if !finder {
			t.Error("class lookup without Lookup")
		}
	case model.Opaque:
	default:
		t.Errorf("class %q", s.Provider.Class())
	}
}

func boundCovers(t *testing.T, s Subject) {
	for _, call := range s.Calls {
		bound, err := s.Provider.Bound(call)
		if err != nil {
			t.Fatalf("bound of %s: %v", call.Op, err)
		}
		r := mustCall(t, s, call)
		for _, u := range usages(t, s, call, r) {
			if model.InputTokens(u) > model.InputTokens(bound) || model.OutputTokens(u) > model.OutputTokens(bound) {
				t.Errorf("%s: usage %+v is beyond the bound %+v", call.Op, u, bound)
			}
		}
	}
}

// usages are all usages the provider states for a call.
func usages(t *testing.T, s Subject, call model.Call, r model.Reply) []engine.Usage {
	var us []engine.Usage
	if r.Usage != nil {
		us = append(us, *r.Usage)
	}
	if f, ok := s.Provider.(model.Finder); ok && s.Provider.Class() == model.Lookup {
		found, err := f.Lookup(t.Context(), call)
		if err != nil {
			t.Fatalf("lookup of %s: %v", call.Op, err)
		}
		if found.Reply.Usage != nil {
			us = append(us, *found.Reply.Usage)
		}
	}
	return us
}

func unbounded(t *testing.T, s Subject) {
	call := s.Calls[0]
	call.MaxOutputTokens = 0
	if _, err := s.Provider.Bound(call); !errors.Is(err, model.ErrUnbounded) {
		t.Errorf("bound without max_output_tokens: %v, want ErrUnbounded", err)
	}
}

func wellFormed(t *testing.T, s Subject) {
	for _, call := range s.Calls {
		before := fmt.Sprintf("%#v", call)
		r := mustCall(t, s, call)
		if after := fmt.Sprintf("%#v", call); before != after {
			t.Errorf("%s: the call was changed:\n%s", call.Op, cmp.Diff(before, after))
		}
		if !slices.Contains([]model.Outcome{model.OK, model.Failed, model.Unknown}, r.Outcome) {
			t.Errorf("%s: outcome %q", call.Op, r.Outcome)
		}
		if r.DurationUS < 0 {
			t.Errorf("%s: negative duration %d", call.Op, r.DurationUS)
		}
		if r.Outcome == model.Unknown && (r.Text != "" || r.ToolCalls != nil || r.Usage != nil) {
			t.Errorf("%s: a lost reply carries content: %+v", call.Op, r)
		}
		if r.Outcome == model.Failed && r.Error == "" {
			t.Errorf("%s: failed without a reason", call.Op)
		}
		ids := map[string]bool{}
		for _, c := range r.ToolCalls {
			if c.ID == "" || ids[c.ID] {
				t.Errorf("%s: tool call id %q is empty or repeated", call.Op, c.ID)
			}
			ids[c.ID] = true
		}
	}
}

func repeats(t *testing.T, s Subject) {
	if !s.Stateless && s.Provider.Class() != model.Lookup {
		return
	}
	for _, call := range s.Calls {
		if diff := cmp.Diff(mustCall(t, s, call), mustCall(t, s, call)); diff != "" {
			t.Errorf("%s: two calls of one operation differ:\n%s", call.Op, diff)
		}
	}
}

func lookup(t *testing.T, s Subject) {
	f, ok := s.Provider.(model.Finder)
	if !ok || s.Provider.Class() != model.Lookup {
		return
	}
	for _, call := range s.Calls {
		r := mustCall(t, s, call)
		found, err := f.Lookup(t.Context(), call)
		if err != nil {
			t.Fatalf("lookup of %s: %v", call.Op, err)
		}
		if !found.Executed {
			t.Fatalf("%s was called, lookup says not executed: %s", call.Op, found.Proof)
		}
		if diff := cmp.Diff(r, found.Seen); diff != "" {
			t.Errorf("%s: lookup does not tell what the caller saw:\n%s", call.Op, diff)
		}
		if found.Reply.Outcome != model.OK && found.Reply.Outcome != model.Failed {
			t.Errorf("%s: lookup says outcome %q, must be what really happened", call.Op, found.Reply.Outcome)
		}
	}
}

func lookupBefore(t *testing.T, s Subject) {
	f, ok := s.Provider.(model.Finder)
	if !ok || s.Journal == nil || s.Provider.Class() != model.Lookup {
		return
	}
	for _, call := range s.Calls {
		found, err := f.Lookup(t.Context(), call)
		if err != nil {
			t.Fatalf("lookup of %s: %v", call.Op, err)
		}
		if found.Executed || found.Proof == "" {
			t.Errorf("%s was never called: executed %v, proof %q", call.Op, found.Executed, found.Proof)
		}
		if s.Journal.Has(call.Op) {
			t.Errorf("%s: a lookup was recorded as a call", call.Op)
		}
	}
}

func journal(t *testing.T, s Subject) {
	if s.Journal == nil {
		return
	}
	for _, call := range s.Calls {
		mustCall(t, s, call)
		if n := s.Journal.Count(call.Op); n != 1 {
			t.Errorf("%s: journal counts %d calls, want 1", call.Op, n)
		}
	}
	if n := s.Journal.Total(); n != len(s.Calls) {
		t.Errorf("journal counts %d calls in all, want %d", n, len(s.Calls))
	}
	mustCall(t, s, s.Calls[0])
	if diff := cmp.Diff([]string{s.Calls[0].Op}, s.Journal.Repeated()); diff != "" {
		t.Errorf("repeated operations:\n%s", diff)
	}
}

func concurrent(t *testing.T, s Subject) {
	replies := make([]model.Reply, len(s.Calls))
	errs := make([]error, len(s.Calls))
	var wg sync.WaitGroup
	for i, call := range s.Calls {
		wg.Go(func() { replies[i], errs[i] = s.Provider.Call(context.WithoutCancel(t.Context()), call) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if s.Provider.Class() != model.Lookup {
		return
	}
	for i, call := range s.Calls {
		if diff := cmp.Diff(mustCall(t, s, call), replies[i]); diff != "" {
			t.Errorf("%s: a concurrent call differs from a lone one:\n%s", call.Op, diff)
		}
	}
}

func deadContext(t *testing.T, s Subject) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := s.Provider.Call(ctx, s.Calls[0]); err == nil && r.Outcome == model.OK && s.Provider.Evidence() == model.Measured {
		t.Errorf("a call under a cancelled context succeeded: %+v", r)
	}
}

func mustCall(t *testing.T, s Subject, call model.Call) model.Reply {
	t.Helper()
	r, err := s.Provider.Call(t.Context(), call)
	if err != nil {
		t.Fatalf("call of %s: %v", call.Op, err)
	}
	return r
}
