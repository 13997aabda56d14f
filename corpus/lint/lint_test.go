package lint_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/corpus/gold"
	"github.com/agentrooms/qualify/corpus/lint"
)

const caseText = `schema: qualify/case/v1
id: shop-one-01
family: shop
split: dev
title: A small case
room:
  goal: Set the price and log it.
  owner: {id: ana, name: Ana}
  agents:
    - {id: clerk, agent: agent-clerk, role: specialist, description: sets prices, tools: [show, set_price, note]}
    - {id: eye, agent: agent-eye, role: reviewer, description: checks prices, tools: [show]}
  criteria:
    - {id: c-price, text: The price is right}
    - {id: c-told, text: Ana knows}
  limits: {budget_usd: "0.08", model_calls: 40, tool_calls: 40, minutes: 60, parallel: 2}
world:
  documents:
    prices: {tea: {cents: 250}}
    notes: []
tools:
  - {name: show, action: read, description: d, params: {type: object, additionalProperties: false, properties: {}}, op: {kind: query, from: /prices}}
  - {name: set_price, action: write, description: d, params: {type: object, additionalProperties: false, required: [item, cents], properties: {item: {type: string}, cents: {type: integer}}}, op: {kind: update, at: "/prices/{item}", set: {cents: "{cents}"}}, identity: {target: [item]}}
  - {name: note, action: draft, description: d, params: {type: object, additionalProperties: false, required: [to, text], properties: {to: {type: string}, text: {type: string}}}, op: {kind: send, at: /notes, to: "{to}", text: "{text}"}, identity: {target: [to], volatile: [text]}}
owner:
  think_seconds: 20
  messages: [{id: m1, text: "Tea costs 300 now."}]
  corrections:
    - {id: k1, type: correction, text: "Tea is not at 300.", when: {after: claim, document: /prices/tea/cents, is_not: 300}, max: 2}
  patience: 2
faults:
  - {id: f1, tool: set_price, target: tea, call: 1, kind: ack_lost_after_commit}
`

const goldText = `schema: qualify/gold/v1
case: shop-one-01
criteria:
  - {id: c-price, required: true, check: {document: /prices/tea/cents, equals: 300}}
  - {id: c-told, required: true, check: {message: {to: ana, via: note, contains_all: ["300"]}}}
expected_effects:
  - {tool: set_price, args: {item: tea, cents: 300}}
  - {tool: note, args: {to: ana}}
solution:
  - {step: s1, by: clerk, call: show}
  - {step: s2, by: clerk, call: set_price, args: {item: tea, cents: 300}, after: [s1], meets: [c-price]}
  - {step: s3, by: clerk, call: note, args: {to: ana, text: "Tea is at 300."}, after: [s2], meets: [c-told], report: true}
`

// run lints one case; every pair of edits replaces once, in case or gold.
func run(t *testing.T, caseEdits, goldEdits []string) []lint.Finding {
	t.Helper()
	edit := func(text string, edits []string) string {
		for i := 0; i+1 < len(edits); i += 2 {
			next := strings.Replace(text, edits[i], edits[i+1], 1)
			if next == text {
				t.Fatalf("nothing to edit: %q", edits[i])
			}
			text = next
		}
		return text
	}
	c, err := corpus.Load(fstest.MapFS{"shop/shop-one-01.yaml": {Data: []byte(edit(caseText, caseEdits))}})
	if err != nil {
		t.Fatal(err)
	}
	set, err := gold.Load(fstest.MapFS{"shop/shop-one-01.yaml": {Data: []byte(edit(goldText, goldEdits))}})
	if err != nil {
		t.Fatal(err)
	}
	return lint.Run(c, set)
}

func TestQ6_ACleanCaseHasNoFindings(t *testing.T) {
	t.Parallel()
	if diff := cmp.Diff([]lint.Finding(nil), run(t, nil, nil)); diff != "" {
		t.Error(diff)
	}
}

func TestQ6_Rules(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		inCase    []string
		inGold    []string
		rule, has string
	}{
		{"wrong value in the solution", nil, []string{"cents: 300}, after", "cents: 301}, after"}, lint.RuleGoldRun, "leaves criterion c-price unmet"},
		{"the gold run is corrected by the owner", nil, []string{"cents: 300}, after", "cents: 301}, after"}, lint.RuleGoldRun, "draws the owner's correction k1"},
		{"a criterion nothing can satisfy", nil, []string{"equals: 300", "equals: three"}, lint.RuleGoldRun, "leaves criterion c-price unmet"},
		{"a step that fails", nil, []string{"item: tea, cents: 300}, after", "item: oil, cents: 300}, after"}, lint.RuleGoldRun, "there is nothing at /prices/oil"},
		{"an expected effect never made", nil, []string{"  - {tool: note, args: {to: ana}}", "  - {tool: note, args: {to: ana}, times: 2}"}, lint.RuleGoldRun, "makes note 1 times, expected 2"},
		{"an effect nobody expects", nil, []string{"  - {tool: note, args: {to: ana}}\n", ""}, lint.RuleGoldRun, "no expected effect allows note"},
		{"a fault no walk meets", []string{"call: 1, kind", "call: 3, kind"}, nil, lint.RuleFaultIdle, "fault f1"},
		{"a fault on a target nobody calls", []string{"target: tea", "target: oil"}, nil, lint.RuleFaultIdle, "fault f1"},
		{"faults nobody can outlast", []string{
			"  - {id: f1, tool: set_price, target: tea, call: 1, kind: ack_lost_after_commit}",
			"  - {id: f1, tool: show, call: 1, kind: error_before_commit}\n  - {id: f2, tool: show, call: 2, kind: error_before_commit}\n  - {id: f3, tool: show, call: 3, kind: error_before_commit}\n  - {id: f4, tool: show, call: 4, kind: error_before_commit}\n  - {id: f5, tool: show, call: 5, kind: error_before_commit}",
		}, nil, lint.RuleFaultRun, "does not answer in 5 attempts"},
		{"doing nothing completes", []string{"tea: {cents: 250}", "tea: {cents: 300}"}, []string{"required: true, check: {message", "required: false, check: {message"}, lint.RuleDoNothing, "doing nothing completes"},
		{"a bare claim completes", nil, []string{"equals: 300", "equals: 250", "via: note, contains_all: [\"300\"]", "contains_all: [done]"}, lint.RuleClaimOnly, "a bare claim completes the case"},
		{"true whatever happens", nil, []string{"{document: /prices/tea/cents, equals: 300}", "{document: /prices/tea, is: present}"}, lint.RuleAlwaysTrue, "criterion c-price is true at the start"},
		{"an expected effect of an unknown tool", nil, []string{"  - {tool: note, args", "  - {tool: fax, args"}, lint.RuleExpectedEffect, `no tool "fax" can make the effect`},
		{"an expected effect of a reading tool", nil, []string{"  - {tool: note, args: {to: ana}}", "  - {tool: show}"}, lint.RuleExpectedEffect, "tool show reads"},
		{"a free argument no tool takes", nil, []string{"  - {tool: note, args: {to: ana}}", "  - {tool: note, args: {to: ana}, free: [colour]}"}, lint.RuleExpectedEffect, `tool note takes no argument "colour"`},
		{"an expected argument no tool takes", nil, []string{"  - {tool: note, args: {to: ana}}", "  - {tool: note, args: {whom: ana}}"}, lint.RuleExpectedEffect, `tool note takes no argument "whom"`},
		{"a tool nobody holds", []string{"tools: [show, set_price, note]", "tools: [show, set_price]"}, nil, lint.RuleUnusedTool, "no agent holds tool note"},
		{"a tool nobody needs", nil, []string{"  - {step: s1, by: clerk, call: show}\n", "", "after: [s1], ", ""}, lint.RuleUnusedTool, "the solution never calls show"},
		{"an unknown criterion", nil, []string{"id: c-told", "id: c-heard", "meets: [c-told]", "meets: [c-heard]"}, lint.RuleReference, `unknown criterion "c-heard"`},
		{"a criterion without check", []string{"    - {id: c-told, text: Ana knows}", "    - {id: c-told, text: Ana knows}\n    - {id: c-more, text: More}"}, nil, lint.RuleReference, `criterion "c-more" has no check`},
		{"an unknown participant", nil, []string{"step: s3, by: clerk", "step: s3, by: ghost"}, lint.RuleReference, `by unknown participant "ghost"`},
		{"a reviewer who works", nil, []string{"step: s1, by: clerk", "step: s1, by: eye"}, lint.RuleReference, "who is a reviewer"},
		{"a tool without permission", []string{"tools: [show, set_price, note]", "tools: [show, note]", "tools: [show]}", "tools: [show, set_price]}"}, nil, lint.RuleReference, "clerk may not call set_price"},
		{"arguments the schema refuses", nil, []string{"cents: 300}, after", "cents: many}, after"}, lint.RuleReference, "invalid arguments"},
		{"an unknown owner message", nil, []string{"meets: [c-told], report", "meets: [c-told], since: m9, report"}, lint.RuleReference, `unknown owner message "m9"`},
		{"an unknown document", nil, []string{"/prices/tea/cents", "/costs/tea/cents"}, lint.RuleReference, `unknown document "costs"`},
		{"messages of a tool that sends none", nil, []string{"via: note", "via: set_price"}, lint.RuleReference, "set_price, which sends none"},
		{"no report", nil, []string{", report: true", ""}, lint.RulePlan, "must be the report"},
		{"a criterion no step meets", nil, []string{"meets: [c-told], ", ""}, lint.RulePlan, `meets criterion "c-told"`},
		{"a reviewer who shares the author's identity", []string{"agent: agent-eye", "agent: agent-clerk"}, nil, lint.RuleReviewer, "no reviewer"},
		{"an owner message never said", []string{`messages: [{id: m1, text: "Tea costs 300 now."}]`, `messages: [{id: m1, text: "Tea costs 300 now."}, {id: m2, text: "Hm.", when: {after: message, contains: lunch}}]`}, nil, lint.RuleGoldRun, "the owner never says m2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := run(t, tt.inCase, tt.inGold)
			for _, f := range got {
				if f.Rule == tt.rule && strings.Contains(f.Text, tt.has) && f.Case == "shop-one-01" && f.Where != "" {
					return
				}
			}
			t.Errorf("no finding [%s] with %q in %+v", tt.rule, tt.has, got)
		})
	}
}

// Field report 20: an empty list of criteria must not score 1.0.
func TestF20_EmptyCriteriaAreALintError(t *testing.T) {
	t.Parallel()
	got := run(t,
		[]string{"  criteria:\n    - {id: c-price, text: The price is right}\n    - {id: c-told, text: Ana knows}\n", "  criteria: []\n"},
		[]string{
			"criteria:\n  - {id: c-price, required: true, check: {document: /prices/tea/cents, equals: 300}}\n  - {id: c-told, required: true, check: {message: {to: ana, via: note, contains_all: [\"300\"]}}}\n", "criteria: []\n",
			", meets: [c-price]", "", ", meets: [c-told]", "",
		})
	var rules []string
	for _, f := range got {
		rules = append(rules, f.Rule)
	}
	if diff := cmp.Diff([]string{lint.RuleNoCriteria, lint.RuleNoCriteria}, rules); diff != "" {
		t.Error(diff, got)
	}
}

// Field report 20: doing nothing and a bare claim complete no built-in case.
func TestF20_ControlsCompleteNoBuiltinCase(t *testing.T) {
	t.Parallel()
	c, set := builtin(t)
	for _, k := range c.Cases {
		g, _ := set.Get(k.ID)
		docs := gold.Outcome{}
		for _, said := range []string{"", "Done.", "Everything is complete: I did all you asked for."} {
			out := docs
			if said != "" {
				out.Messages = []gold.Message{{From: "agent", To: k.Room.Owner.ID, Text: said}}
			}
			if v := gold.Evaluate(g, out).Completion(); v != gold.VerdictUnmet {
				t.Errorf("%s: saying %q and doing nothing is %s", k.ID, said, v)
			}
		}
	}
}

func TestQ6_GoldAndCasesMustPair(t *testing.T) {
	t.Parallel()
	c, err := corpus.Load(fstest.MapFS{"shop/shop-one-01.yaml": {Data: []byte(caseText)}})
	if err != nil {
		t.Fatal(err)
	}
	set, err := gold.Load(fstest.MapFS{"shop/shop-two-01.yaml": {Data: []byte(strings.Replace(goldText, "shop-one-01", "shop-two-01", 1))}})
	if err != nil {
		t.Fatal(err)
	}
	want := []lint.Finding{
		{Case: "shop-one-01", Rule: lint.RuleNoGold, Where: "shop/shop-one-01.yaml", Text: "the case has no gold file"},
		{Case: "shop-two-01", Rule: lint.RuleNoGold, Where: "shop/shop-two-01.yaml:2", Text: "gold of a case that does not exist"},
	}
	if diff := cmp.Diff(want, lint.Run(c, set)); diff != "" {
		t.Error(diff)
	}
}

func TestIssue2_MoreThanTwoCasesWithTheSameActions(t *testing.T) {
	t.Parallel()
	cases, golds := fstest.MapFS{}, fstest.MapFS{}
	for _, id := range []string{"shop-one-01", "shop-two-01", "shop-three-01"} {
		cases["shop/"+id+".yaml"] = &fstest.MapFile{Data: []byte(strings.Replace(caseText, "shop-one-01", id, 1))}
		golds["shop/"+id+".yaml"] = &fstest.MapFile{Data: []byte(strings.Replace(goldText, "shop-one-01", id, 1))}
	}
	c, err := corpus.Load(cases)
	if err != nil {
		t.Fatal(err)
	}
	set, err := gold.Load(golds)
	if err != nil {
		t.Fatal(err)
	}
	got := lint.Run(c, set)
	same, near := 0, 0
	for _, f := range got {
		switch f.Rule {
		case lint.RuleSameActions:
			same++
		case lint.RuleNearDuplicate:
			near++
		default:
			t.Errorf("finding %+v", f)
		}
	}
	if same != 1 || near != 3 {
		t.Errorf("%d findings of same actions, %d of near duplicates; want 1, and 3 pairs", same, near)
	}
	if n := len(lint.Coverage(c, set)); n == 0 {
		t.Error("one family covers every kind twice")
	}
}
