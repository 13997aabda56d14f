package modes_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/modes"
	"github.com/agentrooms/qualify/modes/modetest"
)

func spec() engine.RoomSpec {
	return engine.RoomSpec{
		Goal: "Keep the book.", Owner: "ana", Parallel: 1,
		Agents: []engine.Participant{{ID: "keeper", Agent: "agent-keeper", Role: modes.RoleSpecialist, Tools: []string{"put", "get"}}},
		Tools:  []engine.ToolSpec{{Name: "put"}, {Name: "get"}},
	}
}

func TestDoNothingNeverActsNorClaims(t *testing.T) {
	t.Parallel()
	d := modetest.Start(t, modes.DoNothing(), spec())
	for _, kind := range []string{engine.MsgRequest, engine.MsgCorrection, engine.MsgReply} {
		if got := d.Owner(kind, "m-"+kind, "please"); len(got) > 0 {
			t.Fatalf("commands: %v", modetest.Lines(got))
		}
	}
	rapid.Check(t, func(rt *rapid.T) {
		modetest.Random(rt, modes.DoNothing(), spec(), func(n int, label string) int { return rapid.IntRange(0, n-1).Draw(rt, label) })
	})
}

func TestClaimOnlyClaimsAtOnceAndActsNever(t *testing.T) {
	t.Parallel()
	d := modetest.Start(t, modes.ClaimOnly(), spec())
	got := modetest.Lines(d.Message("stranger", engine.MsgRequest, "x1", "please"))
	got = append(got, modetest.Lines(d.Owner(engine.MsgRequest, "m1", "please"))...)
	got = append(got, modetest.Lines(d.Owner(engine.MsgReply, "r1", "yes"))...)
	got = append(got, modetest.Lines(d.Owner(engine.MsgCorrection, "k1", "no"))...)
	want := []string{
		"claim claim-only: Everything is done.",
		"withdraw claim-only: reopened by correction k1",
		"claim claim-only: Everything is done.",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	rapid.Check(t, func(rt *rapid.T) {
		modetest.Random(rt, modes.ClaimOnly(), spec(), func(n int, label string) int { return rapid.IntRange(0, n-1).Draw(rt, label) })
	})
}

func TestControlsHaveNamesAndNoPrompts(t *testing.T) {
	t.Parallel()
	for want, m := range map[string]modes.Mode{modes.NameDoNothing: modes.DoNothing(), modes.NameClaimOnly: modes.ClaimOnly()} {
		if m.Name() != want || len(m.Prompts()) != 0 {
			t.Errorf("%s: name %q, prompts %v", want, m.Name(), m.Prompts())
		}
		machine, err := m.New(spec())
		if err != nil {
			t.Fatal(err)
		}
		if machine.Version() != want+"@1" {
			t.Errorf("version %q", machine.Version())
		}
		if _, err := m.New(engine.RoomSpec{}); engine.CodeOf(err) != engine.CodeValidation {
			t.Errorf("%s: empty room: %v", want, err)
		}
		if _, err := machine.Handle(engine.Event{Kind: engine.EvOwnerMessage}); want == modes.NameClaimOnly && err == nil {
			t.Error("folded a message event without a message")
		}
	}
}

func TestAllToolsIsTheSortedUnion(t *testing.T) {
	t.Parallel()
	got := modes.AllTools([]engine.Participant{{Tools: []string{"c", "a"}}, {Tools: []string{"b", "a"}}})
	if diff := cmp.Diff([]string{"a", "b", "c"}, got); diff != "" {
		t.Fatal(diff)
	}
}
