package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine/store"
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
	url, cases := "sqlite:"+filepath.Join(s.dir, "q.db"), s.path("cases")
	var run evaluator.RunDocument
	decodeInto(t, s.want(t, exitOK, "run", s.path("campaign.yaml"), "--trials", "1", "--store", url, "--json"), &run)
	want := []evaluator.OracleFault{
		{Case: "parcels-front-desk-01", Control: "claim-only"}, {Case: "parcels-front-desk-01", Control: "do-nothing"},
	}
	if diff := cmp.Diff(want, run.OracleFaults); diff != "" {
		t.Errorf("oracle faults (-want +got):\n%s", diff)
	}
	var doc gate.Document
	decodeInto(t, s.want(t, exitFail, "gate", "first", "--corpus", cases, "--policy", "builtin:simulation", "--store", url, "--json"), &doc)
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

// TestQ3_TheGateProvesTheArmsAgain: a stored plan whose arms differ in what is not
// under test, one that was registered otherwise, and one that was edited break
// arms_matched; the difference is told with both values.
func TestQ3_TheGateProvesTheArmsAgain(t *testing.T) {
	t.Parallel()
	s := stage{t.TempDir()}
	s.want(t, exitOK, "init", s.dir, "--corpus", "cases")
	url := "sqlite:" + filepath.Join(s.dir, "q.db")
	s.want(t, exitOK, "run", s.path("campaign.yaml"), "--trials", "1", "--store", url)
	a := newApp(nil, os.Stdout, os.Stderr)
	a.storeURL = url
	for name, tc := range map[string]struct {
		edit func(*gateInput)
		want string // "" where it holds
	}{
		"as it ran":                  {func(*gateInput) {}, ""},
		"less is under test":         {func(in *gateInput) { in.plan.UnderTest = []string{"idempotency", "options"} }, `differ in mode ("legacy" and "selective")`},
		"registered otherwise":       {func(in *gateInput) { in.plan.Seed++ }, "the registration is sha256:"},
		"the stored plan was edited": {func(in *gateInput) { in.at.Campaign.PlanDigest = "sha256:0" }, "plan digest: "},
	} {
		err := a.withStore(t.Context(), func(st store.Store) error {
			in, err := a.readGateInput(t.Context(), st, "first", s.path("cases"))
			if err != nil {
				return err
			}
			tc.edit(in)
			got := in.checkMatched()
			if holds := got.State == gate.CheckHolds; holds != (tc.want == "") || !strings.Contains(got.Detail, tc.want) {
				t.Errorf("%s: %s: %s; want %q", name, got.State, got.Detail, tc.want)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
