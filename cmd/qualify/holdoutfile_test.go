package main

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/freeze"
)

// interrupted runs the holdout until a trial has ended that no verification
// stands behind yet.
func (h heldOut) interrupted(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	code, talk := commandOn(ctx, func(s store.Store) store.Store { return &between{s, cancel} }, h.args("--freeze", h.id, "--parallel", "1")...)
	if code != exitInterrupted {
		t.Fatalf("exit %d: %s", code, talk)
	}
}

// TestQ4_AMistakenFileVoidsNothing: a campaign file by another name is refused
// under the freeze, and told what to do. A holdout that is open and half done
// stays as it was, and goes on by the right name.
func TestQ4_AMistakenFileVoidsNothing(t *testing.T) {
	t.Parallel()
	h := newHeldOut(t, "2")
	copied, err := os.ReadFile(h.path("qualify/campaign.yaml"))
	must(t, err)
	must(t, os.WriteFile(h.path("qualify/other.yaml"), copied, 0o600))
	mistaken := h.args("--freeze", h.id)
	mistaken[1] = h.path("qualify/other.yaml")
	refused := func(when string) {
		t.Helper()
		before := h.rows(t)
		code, out, talk := command(t, mistaken...)
		want := "the freeze is of campaign qualify/campaign.yaml, not of " + h.path("qualify/other.yaml") + ": run that file, or name a freeze of this one"
		if code != exitRefused || out != "" || strings.Count(talk, "\n") != 1 || !strings.Contains(talk, want) || !strings.Contains(talk, "qualify freeze create") {
			t.Errorf("%s: exit %d, %s", when, code, talk)
		}
		if after := h.rows(t); len(after) != len(before) {
			t.Errorf("%s: the log has grown by %v", when, kindsOf(after[len(before):]))
		}
	}
	refused("before it is opened")
	h.interrupted(t)
	refused("half done")
	h.run(t, exitOK)
	if held := freeze.HoldoutOf(h.rows(t), registered(t, h.rows(t))); !held.Whole() || held.All != 1 {
		t.Errorf("%+v", held)
	}
}
