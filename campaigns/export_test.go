package campaigns

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/runtime"
	"github.com/agentrooms/qualify/engine/store"
	"github.com/agentrooms/qualify/evaluator/trace"
)

// TestExport_TheClaimThatStands: the end names the last claim made, and none
// when it was withdrawn; every claim and withdrawal is an event besides.
func TestExport_TheClaimThatStands(t *testing.T) {
	t.Parallel()
	claim := func(by string) engine.Command {
		return engine.Command{Kind: engine.CmdClaim, Claim: &engine.Claim{By: by, Text: engine.Plain("done")}}
	}
	withdraw := engine.Command{Kind: engine.CmdWithdraw}
	text := engine.Digest([]byte("done"))
	for name, c := range map[string]struct {
		commands []engine.Command
		events   []string
		want     *trace.Claim
	}{
		"none":            {nil, nil, nil},
		"made":            {[]engine.Command{claim("a")}, []string{"claim"}, &trace.Claim{AtUS: 0, By: "a", TextSHA256: text}},
		"withdrawn":       {[]engine.Command{claim("a"), withdraw}, []string{"claim", "withdraw"}, nil},
		"made once more":  {[]engine.Command{claim("a"), withdraw, claim("b")}, []string{"claim", "withdraw", "claim"}, &trace.Claim{AtUS: 2, By: "b", TextSHA256: text}},
		"made over again": {[]engine.Command{claim("a"), claim("b")}, []string{"claim", "claim"}, &trace.Claim{AtUS: 1, By: "b", TextSHA256: text}},
	} {
		log := &runtime.History{Head: store.Head{Digest: "r", Termination: "completed", ClosedAtUS: 9, Rev: int64(len(c.commands)) - 1}}
		for i, cmd := range c.commands {
			log.Entries = append(log.Entries, engine.LogEntry{
				Rev: int64(i), Event: engine.Event{ID: "e", Kind: engine.EvTimer, Timer: "t", AtUS: int64(i)}, Commands: []engine.Command{cmd},
			})
		}
		b, err := Export(trace.Header{Arm: "x", Case: "c"}, log, nil)
		if err != nil {
			t.Fatal(err)
		}
		tr, err := trace.Read(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		var events []string
		for i := range tr.Events {
			if k := tr.Events[i].Kind; k != string(engine.EvTimer) {
				events = append(events, k)
			}
		}
		if diff := cmp.Diff(c.events, events); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(c.want, tr.End.Claim); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
