package simulated

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
)

func TestLoneAgentWalksTheSolution(t *testing.T) {
	t.Parallel()
	k := newTalk(t, provider(t, relay()), "agent")
	k.say(owner, "Make the books agree.")
	got := k.turn()
	if diff := cmp.Diff([]string{list1, fix, add, note, list2}, k.uses()); diff != "" {
		t.Error(diff)
	}
	want := engine.TurnReply{Status: engine.StatusDone, Text: "The books agree.", Artifact: &engine.ArtifactText{Name: "report", Text: "i-17 and i-19 are right"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNoRequestNoWork(t *testing.T) {
	t.Parallel()
	for from, text := range map[string]string{"coordinator": "Good morning. [done s1]", room: "Not readable: [todo s1]"} {
		k := newTalk(t, provider(t, ledger()), "keeper")
		k.say(from, text)
		if got := k.turn(); got.Status != engine.StatusBlocked || len(k.made) > 0 {
			t.Errorf("%s: %+v after %v", from, got, k.made)
		}
	}
	k := newTalk(t, provider(t, ledger()), "keeper")
	if got := k.turn(); got.Status != engine.StatusBlocked || len(k.made) > 0 {
		t.Errorf("no message: %+v after %v", got, k.made)
	}
}

func TestSpecialistDoesExactlyItsOrder(t *testing.T) {
	t.Parallel()
	k := newTalk(t, provider(t, ledger()), "keeper")
	k.say("coordinator", "Please: [todo s1 s3 nonsense] [round 2]")
	got := k.turn()
	if diff := cmp.Diff([]string{list1, add}, k.uses()); diff != "" {
		t.Error(diff)
	}
	if got.Status != engine.StatusDone || !strings.Contains(got.Text, "Round 2") {
		t.Errorf("closing %+v; want done, naming the round", got)
	}
}

func TestReportOnlyCallsNothing(t *testing.T) {
	t.Parallel()
	k := newTalk(t, provider(t, ledger()), "writer")
	k.say("coordinator", "[report s4] [round 3]")
	if got := k.turn(); got.Status != engine.StatusDone || len(k.made) > 0 || !strings.Contains(got.Text, "Round 3") {
		t.Errorf("%+v after %v", got, k.made)
	}
}

func TestMissingToolBlocks(t *testing.T) {
	t.Parallel()
	k := newTalk(t, provider(t, ledger()), "agent")
	k.tools = []string{"list", "fix", "note"}
	k.say(owner, "Make the books agree.")
	if got := k.turn(); got.Status != engine.StatusBlocked || !strings.Contains(got.Text, "add") {
		t.Errorf("%+v", got)
	}
	for _, u := range k.made {
		if u.tool == "add" {
			t.Error("called a tool that was not offered")
		}
	}
}

// Removing any one tool result makes the model repeat exactly that call.
func TestRemovedResultIsAskedForAgain(t *testing.T) {
	t.Parallel()
	p := provider(t, relay())
	k := newTalk(t, p, "agent")
	k.say(owner, "Make the books agree.")
	k.turn()
	end := len(k.messages) - 1 // without the closing reply
	for i, m := range k.messages[:end] {
		if m.Role != engine.MsgTool {
			continue
		}
		call := k.call()
		call.Messages = append(append(call.Messages[:0:0], k.messages[:i]...), k.messages[i+1:end]...)
		r, err := p.Call(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		lost := k.messages[i-1].ToolCalls[0]
		if len(r.ToolCalls) != 1 || r.ToolCalls[0].Tool != lost.Tool || r.ToolCalls[0].Args != lost.Args {
			t.Errorf("result of %s %s removed: the model answers %q %v", lost.Tool, lost.Args, r.Text, r.ToolCalls)
		}
	}
}

func TestErrorsAreRetriedTwiceThenBlock(t *testing.T) {
	t.Parallel()
	for failures, want := range map[int]string{1: engine.StatusDone, 2: engine.StatusDone, 3: engine.StatusBlocked} {
		k := newTalk(t, provider(t, ledger()), "agent")
		left := failures
		k.result = func(u toolUse) string {
			if u.tool == "fix" && left > 0 {
				left--
				return engine.ToolErrorPrefix + "busy"
			}
			return "ok"
		}
		k.say(owner, "Make the books agree.")
		got := k.turn()
		if got.Status != want {
			t.Errorf("%d errors: %+v, want status %s", failures, got, want)
		}
		if want == engine.StatusDone {
			wantUses := []string{list1}
			for range failures + 1 {
				wantUses = append(wantUses, fix)
			}
			if diff := cmp.Diff(append(wantUses, add, note), k.uses()); diff != "" {
				t.Errorf("%d errors: %s", failures, diff)
			}
		}
	}
}

func TestUnknownOutcome(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		rate Rate
		lost int
		want []string
	}{
		{"believed", 0, 1, []string{list1, fix, add, note}},
		{"repeated", always, 1, []string{list1, fix, fix, add, note}},
		{"repeated twice at most", always, 9, []string{list1, fix, fix, fix, add, note}},
	} {
		k := newTalk(t, provider(t, ledger(), rates(Rates{RetryAfterUnknown: c.rate})), "agent")
		left := c.lost
		k.result = func(u toolUse) string {
			if u.tool == "fix" && left > 0 {
				left--
				return engine.ToolUnknownResult
			}
			return "ok"
		}
		k.say(owner, "Make the books agree.")
		k.turn()
		if diff := cmp.Diff(c.want, k.uses()); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// A decision on an unknown outcome is read the same at every later call: two
// intended equal effects stay two, whether the first was repeated or believed.
func TestUnknownOutcomeOfTwoEqualEffects(t *testing.T) {
	t.Parallel()
	o := ledger()
	o.Steps = []Step{
		{ID: "a", By: "keeper", Tool: "add", Args: raw(`{"id":"x","cents":1}`)},
		{ID: "b", By: "keeper", Tool: "add", Args: raw(`{"id":"x","cents":1}`), After: []string{"a"}},
	}
	seen := map[int]bool{}
	for seed := range uint64(20) {
		k := newTalk(t, provider(t, o, rates(Rates{RetryAfterUnknown: always / 2}), func(c *Config) { c.Key.Seed = seed }), "agent")
		first := true
		k.result = func(toolUse) string {
			if first {
				first = false
				return engine.ToolUnknownResult
			}
			return "ok"
		}
		k.say(owner, "Make the books agree.")
		k.turn()
		if n := len(k.made); n != 2 && n != 3 {
			t.Fatalf("seed %d: %d calls", seed, n)
		}
		seen[len(k.made)] = true
	}
	if !seen[2] || !seen[3] {
		t.Errorf("only %v calls seen in 20 seeds at one half", seen)
	}
}

// Nor does a later call take the decision back: the step after it is done, and
// nothing else.
func TestUnknownOutcomeIsDecidedOnce(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for seed := range uint64(20) {
		o := ledger()
		o.Steps = []Step{
			{ID: "a", By: "keeper", Tool: "add", Args: raw(`{"id":"x"}`)},
			{ID: "b", By: "keeper", Tool: "add", Args: raw(`{"id":"y"}`)},
		}
		k := newTalk(t, provider(t, o, rates(Rates{RetryAfterUnknown: always / 2}), func(c *Config) { c.Key.Seed = seed }), "agent")
		k.result = func(toolUse) string {
			if len(k.made) == 1 {
				return engine.ToolUnknownResult
			}
			return "ok"
		}
		k.say(owner, "Make the books agree.")
		k.turn()
		seen[strings.Join(k.uses(), ", ")] = true
	}
	want := map[string]bool{`add {"id":"x"}, add {"id":"y"}`: true, `add {"id":"x"}, add {"id":"x"}, add {"id":"y"}`: true}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}

func TestSkipStep(t *testing.T) {
	t.Parallel()
	k := newTalk(t, provider(t, relay(), rates(Rates{SkipStep: always})), "agent")
	k.say(owner, "Make the books agree.")
	got := k.turn()
	if len(k.made) > 0 || got.Status != engine.StatusDone || got.Artifact != nil || strings.Contains(got.Text, "agree") {
		t.Errorf("everything skipped: %+v after %v", got, k.made)
	}
}

// A step left out stays left out until the owner comes back; then it is done.
func TestSkippedAndWrongStepsAreRepairedByACorrection(t *testing.T) {
	t.Parallel()
	k := newTalk(t, provider(t, ledger()), "agent")
	k.say(owner, "Make the books agree.")
	use := func(tool, args, result string) {
		k.made = append(k.made, toolUse{tool, args})
		id := "call_" + string(rune('0'+len(k.made)))
		k.messages = append(k.messages, assistantCall(id, tool, args), toolResult(id, result))
	}
	use("list", `{"book":"shop"}`, "ok")               // wrong
	use("add", `{ "cents":250.0,"id": "i-19"}`, "ok")  // right, written otherwise; fix left out
	use("note", `{"to":"ana","text":"changed"}`, "ok") // wrong
	if got := k.turn(); got.Status != engine.StatusDone {
		t.Fatalf("believes all done, so must claim: %+v", got)
	}
	k.made = nil
	k.say(owner, "17 still has the old amount.")
	k.n = 10
	if got := k.turn(); got.Status != engine.StatusDone {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff([]string{list1, fix, note}, k.uses()); diff != "" {
		t.Error(diff)
	}
}

// When the owner complains and every call came back right, the one whose
// outcome is unknown is the suspect.
func TestCorrectionMakesUnknownOutcomesSuspect(t *testing.T) {
	t.Parallel()
	k := newTalk(t, provider(t, ledger()), "agent")
	k.result = func(u toolUse) string {
		if u.tool == "add" && len(k.made) == 3 {
			return engine.ToolUnknownResult
		}
		return "ok"
	}
	k.say(owner, "Make the books agree.")
	k.turn()
	k.made = nil
	k.say(owner, "Something is missing.")
	k.turn()
	if diff := cmp.Diff([]string{add}, k.uses()); diff != "" {
		t.Error(diff)
	}
}

// When the owner speaks of a call of unknown outcome, it is made again beside
// the other faults; otherwise those come first.
func TestCorrectionSpeaksOfAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	for said, want := range map[string][]string{"i-19 is not there.": {add, note}, "Hm.": {note}} {
		k := newTalk(t, provider(t, ledger()), "agent")
		k.say(owner, "Make the books agree.")
		for i, u := range []struct{ tool, args, result string }{
			{"list", `{"book":"bank"}`, "ok"},
			{"fix", `{"id":"i-17","cents":4700}`, "ok"},
			{"add", `{"id":"i-19","cents":250}`, engine.ToolUnknownResult},
			{"note", `{"to":"ana","text":"x"}`, "ok"},
		} {
			id := "early_" + string(rune('0'+i))
			k.messages = append(k.messages, assistantCall(id, u.tool, u.args), toolResult(id, u.result))
		}
		k.turn()
		k.say(owner, said)
		k.turn()
		if diff := cmp.Diff(want, k.uses()); diff != "" {
			t.Errorf("%s: %s", said, diff)
		}
	}
}

func TestWrongArgument(t *testing.T) {
	t.Parallel()
	k := newTalk(t, provider(t, ledger(), rates(Rates{WrongArgument: always})), "agent")
	k.say(owner, "Make the books agree.")
	k.turn()
	if len(k.made) != 4 {
		t.Fatalf("made %v", k.uses())
	}
	for i, right := range []string{list1, fix, add, note} {
		if got := k.uses()[i]; got == right || strings.Fields(got)[0] != strings.Fields(right)[0] {
			t.Errorf("call %d is %s; want the tool of %s with other arguments", i, got, right)
		}
	}
}

func TestSpoil(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, schema, args, want string }{
		{"enum", `{"book":{"enum":["shop","bank"]}}`, `{"book":"bank"}`, `{"book":"shop"}`},
		{"enum of one", `{"to":{"enum":["ana"]}}`, `{"to":"ana"}`, `{"to":"ana"}`},
		{"integer", `{"n":{"type":"integer"}}`, `{"n":4}`, `{"n":5}`},
		{"integer at its maximum", `{"n":{"type":"integer","maximum":4}}`, `{"n":4}`, `{"n":3}`},
		{"integer that has no room", `{"n":{"type":"integer","minimum":4,"maximum":4}}`, `{"n":4}`, `{"n":4}`},
		{"largest integer", `{"n":{"type":"integer"}}`, `{"n":9223372036854775807}`, `{"n":9223372036854775806}`},
		{"boolean", `{"b":{"type":"boolean"}}`, `{"b":true}`, `{"b":false}`},
		{"text", `{"s":{"type":"string"}}`, `{"s":"größe"}`, `{"s":"gr"}`},
		{"short text", `{"s":{"type":"string"}}`, `{"s":"x"}`, `{"s":"x"}`},
		{"text with a least length", `{"s":{"type":"string","minLength":4}}`, `{"s":"abcd"}`, `{"s":"abcd"}`},
		{"pattern is left alone", `{"s":{"type":"string","pattern":"^a"}}`, `{"s":"abcd"}`, `{"s":"abcd"}`},
		{"fraction is left alone", `{"x":{"type":"number"}}`, `{"x":1.5}`, `{"x":1.5}`},
		{"unknown parameter", `{}`, `{"x":1}`, `{"x":1}`},
		{"broken schema", `{`, `{"x":1}`, `{"x":1}`},
	} {
		tl := tools("list")
		tl[0].Schema = raw(`{"type":"object","properties":` + c.schema + `}`)
		if got := spoil(dice{}, toolUse{"list", c.args}, tl); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if got := spoil(dice{}, toolUse{"gone", `{"x":1}`}, nil); got != `{"x":1}` {
		t.Errorf("tool not offered: %s", got)
	}
}

func TestEarlyClaim(t *testing.T) {
	t.Parallel()
	p := provider(t, ledger(), rates(Rates{EarlyClaim: always}))
	lone := newTalk(t, p, "agent")
	lone.say(owner, "Make the books agree.")
	if got := lone.turn(); got.Status != engine.StatusDone || len(lone.made) > 0 {
		t.Errorf("alone: %+v after %v", got, lone.made)
	}
	// Handing over is work left, too.
	k := newTalk(t, p, "writer", "keeper")
	k.say(owner, "Make the books agree.")
	if got := k.turn(); got.Status != engine.StatusDone || strings.Contains(got.Text, "@") {
		t.Errorf("with colleagues: %+v", got)
	}
}

func TestMalformedJSONIsAnsweredAgain(t *testing.T) {
	t.Parallel()
	p := provider(t, ledger(), rates(Rates{MalformedJSON: always}))
	k := newTalk(t, p, "agent")
	k.say(owner, "Make the books agree.")
	for range 5 {
		k.step()
	}
	if len(k.made) != 4 {
		t.Fatalf("tool calls must not be affected: %v", k.uses())
	}
	if last := k.messages[len(k.messages)-1]; last.From != room {
		t.Fatalf("the closing reply was readable: %+v", last)
	}
	k.p = provider(t, ledger())
	if got := k.turn(); got.Status != engine.StatusDone || len(k.made) != 4 {
		t.Errorf("after feedback: %+v, %v", got, k.uses())
	}
}

func TestSinceAndUntil(t *testing.T) {
	t.Parallel()
	o := ledger()
	o.Messages["m2"] = "Leave i-19 out, and look at the shop book."
	o.Steps[2].Until = "m2"
	o.Steps = append(o.Steps, Step{ID: "s5", By: "keeper", Tool: "list", Args: raw(`{"book":"shop"}`), Since: "m2"})
	p := provider(t, o)

	k := newTalk(t, p, "agent")
	k.say(owner, "Make the books agree.")
	k.turn()
	if diff := cmp.Diff([]string{list1, fix, add, note}, k.uses()); diff != "" {
		t.Errorf("before the change: %s", diff)
	}
	k.say(owner, o.Messages["m2"])
	k.turn()
	if diff := cmp.Diff([]string{list1, fix, add, note, list2}, k.uses()); diff != "" {
		t.Errorf("after it: %s", diff)
	}

	mid := newTalk(t, p, "agent")
	mid.say(owner, "Make the books agree.")
	mid.step()
	mid.step()
	mid.say(owner, o.Messages["m2"])
	mid.turn()
	if diff := cmp.Diff([]string{list1, fix, note, list2}, mid.uses()); diff != "" {
		t.Errorf("change midway: %s", diff)
	}
}

func TestOrdinaryQuestionIsAnswered(t *testing.T) {
	t.Parallel()
	o := Oracle{Steps: []Step{{ID: "s1", By: "writer", Say: "It opens at nine."}}}
	k := newTalk(t, provider(t, o), "agent")
	k.say(owner, "When does it open?")
	if diff := cmp.Diff(engine.TurnReply{Status: engine.StatusAnswer, Text: "It opens at nine."}, k.turn()); diff != "" {
		t.Error(diff)
	}
}
