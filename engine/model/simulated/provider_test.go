package simulated

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
	"github.com/agentrooms/qualify/engine/model/modeltest"
)

// samples are calls of every format.
func samples(t testing.TB, p *Provider) []model.Call {
	k := newTalk(t, p, "agent")
	k.say(owner, "Make the books agree.")
	k.step()
	calls := []model.Call{k.call()}
	for format, doc := range map[string]any{
		engine.FormatPlan: planRequest(), engine.FormatReview: reviewRequest("", nil),
		engine.FormatRoute: engine.RouteRequest{Candidates: []engine.Participant{{ID: "keeper"}}}, "judge/v1": 1,
	} {
		b, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		calls = append(calls, model.Call{
			Op: "op_" + format, Format: format, System: "Rules.", MaxOutputTokens: 800,
			Messages: []model.Message{{Role: engine.MsgUser, Text: string(b)}},
		})
	}
	return calls
}

func TestConformance(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]Rates{
		"right": {}, "lost": {LostReply: always}, "no usage": {MissingUsage: always},
		"spoiled": {SkipStep: always / 2, WrongArgument: always / 2, MalformedJSON: always / 2, LostReply: always / 2, MissingUsage: always / 2, PlanFault: always / 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			modeltest.Run(t, func(t *testing.T) modeltest.Subject {
				calls := samples(t, provider(t, ledger()))
				j := &model.MemoryJournal{}
				p := provider(t, ledger(), rates(r), func(c *Config) { c.Journal, c.Latency = j, Latency{1800, 6000} })
				return modeltest.Subject{Provider: p, Calls: calls, Journal: j, Stateless: true}
			})
		})
	}
}

func TestLostReplyIsKnownToTheProvider(t *testing.T) {
	t.Parallel()
	for _, call := range samples(t, provider(t, ledger())) {
		right, err := provider(t, ledger()).Call(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		p := provider(t, ledger(), rates(Rates{LostReply: always, MissingUsage: always}))
		seen, err := p.Call(t.Context(), call)
		if err != nil || seen.Outcome != model.Unknown {
			t.Fatalf("%+v, %v", seen, err)
		}
		found, err := p.Lookup(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(model.Found{Executed: true, Seen: seen, Reply: right}, found); diff != "" {
			t.Error(diff)
		}
		if found.Reply.Usage == nil {
			t.Error("the provider's own record has no usage")
		}
	}
}

func TestMissingUsage(t *testing.T) {
	t.Parallel()
	for rate, missing := range map[Rate]bool{0: false, always: true} {
		r, err := provider(t, ledger(), rates(Rates{MissingUsage: rate})).Call(t.Context(), samples(t, provider(t, ledger()))[0])
		if err != nil || (r.Usage == nil) != missing || r.Outcome != model.OK {
			t.Errorf("rate %d: %+v, %v", rate, r, err)
		}
	}
}

func TestUsageCountsBytesAndCache(t *testing.T) {
	t.Parallel()
	call := model.Call{System: strings.Repeat("s", 10), Tools: []model.Tool{{Name: "a", Description: "b", Schema: raw(`{}`)}}, Messages: []model.Message{
		{Role: engine.MsgUser, Text: strings.Repeat("u", 26)},                                            // 40 so far
		{Role: engine.MsgAssistant, ToolCalls: []model.ToolCall{{ID: "ignored", Tool: "a", Args: "{}"}}}, // 3
		{Role: engine.MsgTool, ToolCallID: "ignored", Text: "12"},                                        // 2
	}}
	want := engine.Usage{Input: 12 - 10, CachedRead: 10, Output: 2} // ceil(45/4), 40/4, ceil(5/4)
	if diff := cmp.Diff(want, usage(call, answer{text: "12345"})); diff != "" {
		t.Error(diff)
	}
	if got := usage(call, answer{call: &toolUse{"abcd", "12345"}}).Output; got != 3 {
		t.Errorf("a tool call of 9 bytes has %d tokens", got)
	}
}

func TestOutputLimitCutsTheReply(t *testing.T) {
	t.Parallel()
	for _, call := range samples(t, provider(t, ledger())) {
		call.MaxOutputTokens = 3
		r, err := provider(t, ledger()).Call(t.Context(), call)
		if err != nil {
			t.Fatal(err)
		}
		if r.Outcome == model.OK && r.Finish != "length" || r.Usage.Output > 3 {
			t.Errorf("%s: %+v, %+v", call.Format, r, r.Usage)
		}
	}
}

// Another salt changes draws only: when nothing is drawn, every reply is the
// same; when something is, some replies differ.
func TestSaltChangesOnlyDraws(t *testing.T) {
	t.Parallel()
	differ := 0
	for _, r := range []Rates{{}, {SkipStep: always / 2, WrongArgument: always / 2, EarlyClaim: always / 2}} {
		for _, call := range samples(t, provider(t, relay())) {
			a, err := provider(t, relay(), rates(r), salt("legacy")).Call(t.Context(), call)
			if err != nil {
				t.Fatal(err)
			}
			b, err := provider(t, relay(), rates(r), salt("planner")).Call(t.Context(), call)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(a, b); diff != "" {
				differ++
				if r == (Rates{}) {
					t.Errorf("nothing drawn: %s", diff)
				}
			}
		}
	}
	k1, k2 := 0, 0
	for seed := range uint64(30) {
		for i, name := range []string{"legacy", "planner"} {
			k := newTalk(t, provider(t, relay(), rates(Rates{SkipStep: always / 2}), salt(name), func(c *Config) { c.Key.Seed = seed }), "agent")
			k.say(owner, "Make the books agree.")
			k.turn()
			if i == 0 {
				k1 += len(k.made)
			} else if k2 += len(k.made); k1 != k2 {
				differ++
			}
		}
	}
	if differ == 0 {
		t.Error("two salts draw the same")
	}
}

func TestNewNamesFaults(t *testing.T) {
	t.Parallel()
	bad := func(f func(*Step)) Config {
		o := ledger()
		f(&o.Steps[1])
		return Config{Oracle: o}
	}
	for want, cfg := range map[string]Config{
		"letters":        bad(func(s *Step) { s.ID = "a b" }),
		"twice":          bad(func(s *Step) { s.ID = "s1" }),
		"nobody":         bad(func(s *Step) { s.By = "" }),
		"not both":       bad(func(s *Step) { s.Say = "x" }),
		"no earlier":     bad(func(s *Step) { s.After = []string{"s3"} }),
		"no criterion":   bad(func(s *Step) { s.Meets = []string{"c-x"} }),
		"no text":        bad(func(s *Step) { s.Since = "m9" }),
		"no JSON object": bad(func(s *Step) { s.Args = raw(`[]`) }),
		"canonical JSON": bad(func(s *Step) { s.Args = raw(`{`) }),
		"skip_step":      {Oracle: ledger(), Rates: Rates{SkipStep: always + 1}},
		"fails_good":     {Oracle: ledger(), Rates: Rates{FailsGood: -1}},
		"median":         {Oracle: ledger(), Latency: Latency{2, 1}},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// For any conversation whatever: usage within the bound, a reply that parses
// unless it was to be malformed or was cut, and the same reply every time.
func TestRepliesProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		p, err := New(Config{Oracle: anyOracle(rt), Rates: anyRates(rt), Key: Key{Seed: rapid.Uint64().Draw(rt, "seed")}})
		if err != nil {
			rt.Fatal(err)
		}
		call := anyCall(rt)
		bound, err := p.Bound(call)
		if err != nil {
			rt.Fatal(err)
		}
		found, err := p.Lookup(t.Context(), call)
		if err != nil {
			rt.Fatal(err)
		}
		r := found.Reply
		if model.InputTokens(*r.Usage) > model.InputTokens(bound) || model.OutputTokens(*r.Usage) > model.OutputTokens(bound) {
			rt.Fatalf("usage %+v beyond bound %+v", *r.Usage, bound)
		}
		if r.Usage.Input < 0 || r.Usage.CachedRead < 0 {
			rt.Fatalf("negative usage %+v", *r.Usage)
		}
		readable := len(r.ToolCalls) > 0 || json.Valid([]byte(r.Text))
		if r.Outcome == model.OK && !readable && r.Finish != "length" && p.rates.MalformedJSON == 0 && p.rates.PlanFault == 0 {
			rt.Fatalf("unreadable: %q", r.Text)
		}
		again, err := p.Call(t.Context(), call)
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(found.Seen, again); diff != "" {
			rt.Fatal(diff)
		}
	})
}

func anyRates(rt *rapid.T) Rates {
	rate := func(name string) Rate { return rapid.SampledFrom([]Rate{0, always / 2, always}).Draw(rt, name) }
	return Rates{
		SkipStep: rate("skip"), WrongArgument: rate("wrong"), EarlyClaim: rate("early"), MalformedJSON: rate("malformed"),
		MissingUsage: rate("usage"), LostReply: rate("lost"), RetryAfterUnknown: rate("retry"), PlanFault: rate("plan"),
		PassesBad: rate("passes"), FailsGood: rate("fails"),
	}
}

func anyCall(rt *rapid.T) model.Call {
	text := rapid.SampledFrom([]string{
		"", "Make the books agree.", "[todo s0 s1] [done s2] [later s3]", "[report s0] [round 2] [round x]", "{", "{}", `{"status":"answer","text":"@writer [todo s1]"}`,
		engine.ToolUnknownResult, engine.ToolErrorPrefix + "no", "ok", `{"plan_version":1,"reason":"message","messages":[{"text":"x","type":"correction"}],"criteria":[{"id":"c-note"}],"progress":[{"current":true,"status":"completed","instruction":"[todo s0]","calls":[{"tool":"add","args":{"id":"i-0"},"outcome":"ok"},{"outcome":"ok"}]}]}`,
		engine.PromptYouAre + "keeper\n" + engine.PromptColleagues + "\n- writer: w\n",
	})
	call := model.Call{
		Op: rapid.StringMatching(`op_[a-f]{4}`).Draw(rt, "op"), System: text.Draw(rt, "system"),
		Format:          rapid.SampledFrom([]string{engine.FormatTurn, engine.FormatTurn, engine.FormatPlan, engine.FormatReview, engine.FormatRoute}).Draw(rt, "format"),
		Tools:           tools(rapid.SliceOfN(rapid.SampledFrom(allTools), 0, 4).Draw(rt, "tools")...),
		MaxOutputTokens: rapid.SampledFrom([]int{1, 50, 4000}).Draw(rt, "max"),
	}
	for range rapid.IntRange(0, 8).Draw(rt, "messages") {
		m := model.Message{Role: rapid.SampledFrom([]string{engine.MsgUser, engine.MsgAssistant, engine.MsgTool, "odd"}).Draw(rt, "role"), Text: text.Draw(rt, "text")}
		m.From = rapid.SampledFrom([]string{"", owner, room, "writer"}).Draw(rt, "from")
		if m.Role == engine.MsgAssistant && rapid.Bool().Draw(rt, "calls") {
			m.ToolCalls = []model.ToolCall{{ID: "c", Tool: rapid.SampledFrom(allTools).Draw(rt, "tool"), Args: rapid.SampledFrom([]string{`{"id":"i-0"}`, "", "["}).Draw(rt, "args")}}
		}
		if m.Role == engine.MsgTool {
			m.ToolCallID = rapid.SampledFrom([]string{"c", "d"}).Draw(rt, "id")
		}
		call.Messages = append(call.Messages, m)
	}
	return call
}

// Whatever the oracle and the rates, turns and hand-overs end; with nothing
// spoiled, one agent and a team make the same calls as the oracle, once each.
func TestRoomsEndProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		o := anyOracle(rt)
		var want []string
		for _, s := range o.Steps {
			if s.Tool != "" {
				want = append(want, s.Tool+" "+string(s.Args))
			}
		}
		first := rapid.SampledFrom([]string{"keeper", "writer", "auditor"}).Draw(rt, "first")
		right, err := New(Config{Oracle: o})
		if err != nil {
			rt.Fatal(err)
		}
		lone := newTalk(t, right, "agent")
		lone.say(owner, "Go.")
		lone.turn()
		if diff := cmp.Diff(fmt.Sprint(want), fmt.Sprint(lone.uses())); diff != "" {
			rt.Fatalf("alone: %s", diff)
		}
		tm := newTeam(t, right, "keeper", "writer", "auditor")
		if end := tm.run(t, first, owner, "Go."); end.Status != engine.StatusDone && end.Status != engine.StatusAnswer {
			rt.Fatalf("team ends with %+v", end)
		}
		if len(tm.made) != len(want) {
			rt.Fatalf("team made %v, want %v in some order", tm.made, want)
		}
		r := anyRates(rt)
		r.MalformedJSON, r.LostReply = 0, 0
		spoiled, err := New(Config{Oracle: o, Rates: r, Key: Key{Seed: rapid.Uint64().Draw(rt, "seed")}})
		if err != nil {
			rt.Fatal(err)
		}
		tm = newTeam(t, spoiled, "keeper", "writer", "auditor")
		tm.run(t, first, owner, "Go.")
		tm.run(t, first, owner, "No!")
	})
}
