package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/evaluator"
	"github.com/agentrooms/qualify/evaluator/gate"
)

// decodeInto reads a JSON document that a command printed.
func decodeInto(t *testing.T, out string, doc any) {
	t.Helper()
	if err := json.Unmarshal([]byte(out), doc); err != nil {
		t.Fatal(err)
	}
}

// TestQ6_AControlThatCompletesACaseIsTold: where the oracle of a case is met by
// doing nothing, the report lists the case and the gate holds both of its
// preconditions broken.
func TestQ6_AControlThatCompletesACaseIsTold(t *testing.T) {
	t.Parallel()
	s := stage{t.TempDir()}
	s.want(t, exitOK, "init", s.dir, "--corpus", "cases")
	gold := s.path("cases/gold/parcels/parcels-front-desk-01.yaml")
	editFile(t, gold, "{document: /parcels/p-2/shelf, equals: b}", "{document: /parcels/p-2/shelf, equals: a}")
	editFile(t, gold, "required: true, check: {message:", "required: false, check: {message:")
	store, cases := "sqlite:"+filepath.Join(s.dir, "q.db"), s.path("cases")
	var run evaluator.RunDocument
	decodeInto(t, s.want(t, exitOK, "run", s.path("campaign.yaml"), "--trials", "1", "--store", store, "--json"), &run)
	want := []evaluator.OracleFault{
		{Case: "parcels-front-desk-01", Control: "claim-only"}, {Case: "parcels-front-desk-01", Control: "do-nothing"},
	}
	if diff := cmp.Diff(want, run.OracleFaults); diff != "" {
		t.Errorf("oracle faults (-want +got):\n%s", diff)
	}
	var doc gate.Document
	decodeInto(t, s.want(t, exitFail, "gate", "first", "--corpus", cases, "--policy", "builtin:simulation", "--store", store, "--json"), &doc)
	for id, words := range map[string]string{
		gate.CheckControls: "control claim-only completes case parcels-front-desk-01", gate.CheckOracle: "parcels-front-desk-01: claim-only",
	} {
		text := ""
		for _, c := range doc.Preconditions {
			if c.ID == id {
				for _, r := range c.Reasons {
					text += r.Text + "\n"
				}
			}
		}
		if stateOf(t, &doc, id) != gate.CheckBroken || !strings.Contains(text, words) {
			t.Errorf("%s: %s, %q; want it broken by %q", id, stateOf(t, &doc, id), text, words)
		}
	}
}
