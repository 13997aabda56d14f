package gold_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/corpus"
	"github.com/agentrooms/qualify/corpus/gold"
	"github.com/agentrooms/qualify/engine"
)

// with is a gold file with one check, which is not required when it is left to
// a judge, and some expected effects.
func with(t testing.TB, check string, expected ...string) *gold.Gold {
	t.Helper()
	required := !strings.Contains(check, "judge")
	text := fmt.Sprintf("schema: qualify/gold/v1\ncase: x\ncriteria:\n  - {id: c, required: %v, check: %s}\n", required, check)
	if len(expected) > 0 {
		text += "expected_effects:\n  - " + strings.Join(expected, "\n  - ") + "\n"
	}
	g, err := gold.Parse("f/x.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// effect is a confirmed effect with its real identity; volatile text does not
// count.
func effect(t testing.TB, tool, args string) gold.Effect {
	t.Helper()
	id, err := engine.EffectIdentity(tool, []byte(args), []string{"text"}, "")
	if err != nil {
		t.Fatal(err)
	}
	return gold.Effect{Tool: tool, Args: json.RawMessage(args), Identity: id, State: gold.StateConfirmed}
}

func outcome(t testing.TB) gold.Outcome {
	suppressed := effect(t, "pay", `{"to":"bo","cents":5}`)
	suppressed.Suppressed = true
	refuted := effect(t, "pay", `{"to":"cy","cents":5}`)
	refuted.State = "refuted"
	return gold.Outcome{
		Documents: map[string]json.RawMessage{
			"a":   json.RawMessage(`{"n":25.0,"s":"Hello  World","l":[1,{"k":2}],"o":{"x/y":null}}`),
			"bad": json.RawMessage(`{`),
		},
		Messages: []gold.Message{
			{From: "clerk", To: "ana", Via: "note", Text: "i-17 and i-19\nchanged"},
			{From: "clerk", To: "ana, bo", Text: "All is DONE."},
		},
		Artifacts: []gold.Artifacted{{Name: "r", Version: 1, Text: "old [src-1]"}, {Name: "r", Version: 2, Text: "new [src-2]"}},
		Effects:   []gold.Effect{effect(t, "pay", `{"to":"bo","cents":5}`), suppressed, refuted, effect(t, "log", `{"line":"x"}`)},
	}
}

func TestEvaluate_Checks(t *testing.T) {
	t.Parallel()
	tests := []struct {
		check string
		want  gold.Verdict
	}{
		{`{document: /a/n, equals: 25}`, gold.VerdictMet},
		{`{document: /a/n, equals: 26}`, gold.VerdictUnmet},
		{`{document: /a/n, is_not: 26}`, gold.VerdictMet},
		{`{document: /a/n, is_not: 25.00}`, gold.VerdictUnmet},
		{`{document: /a/none, is_not: 25}`, gold.VerdictMet},
		{`{document: /a/none, equals: 25}`, gold.VerdictUnmet},
		{`{document: /a/none, is: absent}`, gold.VerdictMet},
		{`{document: /a/o/x~1y, is: present}`, gold.VerdictMet},
		{`{document: /none, is: absent}`, gold.VerdictMet},
		{`{document: /a/s, contains: "hello world"}`, gold.VerdictMet},
		{`{document: /a/l, contains: {k: 2.0}}`, gold.VerdictMet},
		{`{document: /a/l, contains: 2}`, gold.VerdictUnmet},
		{`{document: /a/l/1/k, equals: 2}`, gold.VerdictMet},
		{`{document: /a/o, contains: x/y}`, gold.VerdictMet},
		{`{document: /bad/x, equals: 1}`, gold.VerdictError},
		{`{effect: {tool: pay}}`, gold.VerdictMet},
		{`{effect: {tool: pay, args: {cents: 5.0}, times: 1}}`, gold.VerdictMet},
		{`{effect: {tool: pay, args: {to: cy}}}`, gold.VerdictUnmet},
		{`{effect: {tool: pay, times: 2}}`, gold.VerdictUnmet},
		{`{message: {to: ana, via: note, contains_all: [i-17, "i-19 changed"]}}`, gold.VerdictMet},
		{`{message: {to: ana, via: room, contains_all: [i-17]}}`, gold.VerdictUnmet},
		{`{message: {to: bo, via: room, contains_all: [done]}}`, gold.VerdictMet},
		{`{message: {to: ana, from: eve}}`, gold.VerdictUnmet},
		{`{message: {to: ana, contains_all: [done], contains_none: [all]}}`, gold.VerdictUnmet},
		{`{artifact: {name: r, contains_all: ["[src-2]"], contains_none: ["[src-1]"]}}`, gold.VerdictMet},
		{`{artifact: {name: r, contains_all: ["[src-1]"]}}`, gold.VerdictUnmet},
		{`{artifact: {name: none}}`, gold.VerdictUnmet},
		{`{all: [{effect: {tool: pay}}, {effect: {tool: log}}]}`, gold.VerdictMet},
		{`{all: [{effect: {tool: pay}}, {effect: {tool: fly}}]}`, gold.VerdictUnmet},
		{`{any: [{effect: {tool: fly}}, {effect: {tool: log}}]}`, gold.VerdictMet},
		{`{any: [{effect: {tool: fly}}]}`, gold.VerdictUnmet},
		{`{not: {effect: {tool: fly}}}`, gold.VerdictMet},
		{`{not: {effect: {tool: pay}}}`, gold.VerdictUnmet},
		{`{no_other_effects: true}`, gold.VerdictUnmet},
	}
	for _, tt := range tests {
		t.Run(tt.check, func(t *testing.T) {
			t.Parallel()
			got := gold.Evaluate(with(t, tt.check), outcome(t)).Criteria[0]
			if got.Verdict != tt.want || got.Why == "" {
				t.Errorf("%s (%s), want %s", got.Verdict, got.Why, tt.want)
			}
		})
	}
}

// Field report 25: a grader that is out of order is an error wherever it
// stands, and no negation turns it into a pass.
func TestF25_GraderErrorIsNeverAPass(t *testing.T) {
	t.Parallel()
	checks := []string{
		`{judge: {rubric: q}}`,
		`{not: {judge: {rubric: q}}}`,
		`{not: {not: {judge: {rubric: q}}}}`,
		`{any: [{effect: {tool: pay}}, {judge: {rubric: q}}]}`,
		`{not: {all: [{effect: {tool: fly}}, {judge: {rubric: q}}]}}`,
		`{not: {document: /bad/x, equals: 1}}`,
		`{any: [{not: {document: /bad/x, equals: 1}}, {effect: {tool: pay}}]}`,
	}
	for _, check := range checks {
		t.Run(check, func(t *testing.T) {
			t.Parallel()
			g := with(t, check)
			if got := gold.Evaluate(g, outcome(t)).Criteria[0]; got.Verdict != gold.VerdictError {
				t.Errorf("no judgement: %s (%s)", got.Verdict, got.Why)
			}
			broken := outcome(t)
			broken.Judged = map[string]gold.Verdict{"c": gold.VerdictError}
			if got := gold.Evaluate(g, broken).Criteria[0]; got.Verdict != gold.VerdictError {
				t.Errorf("judgement in error: %s (%s)", got.Verdict, got.Why)
			}
		})
	}
}

func TestEvaluate_JudgementIsReportedApart(t *testing.T) {
	t.Parallel()
	out := outcome(t)
	out.Judged = map[string]gold.Verdict{"c": gold.VerdictMet}
	r := gold.Evaluate(with(t, `{judge: {rubric: q}}`), out)
	if !r.Criteria[0].Judge || r.Criteria[0].Verdict != gold.VerdictMet {
		t.Errorf("%+v", r.Criteria[0])
	}
	if r.Completion() != gold.VerdictError {
		t.Errorf("a case in which nothing is required is %s", r.Completion())
	}
}

// Field report 31: somebody says that it is done and nothing was written.
func TestF31_AClaimWithoutAWriteIsNotComplete(t *testing.T) {
	t.Parallel()
	g := with(t, `{document: /files/report, is: present}`)
	out := gold.Outcome{
		Documents: map[string]json.RawMessage{"files": json.RawMessage(`{}`)},
		Messages:  []gold.Message{{From: "clerk", To: "ana", Text: "Done. Wrote file report."}},
	}
	r := gold.Evaluate(g, out)
	if r.Completion() != gold.VerdictUnmet {
		t.Errorf("completion %s", r.Completion())
	}
	if met, required := r.Share(); met != 0 || required != 1 {
		t.Errorf("share %d of %d", met, required)
	}
}

// Field report 22: expected [a, a].
func TestF22_EqualRepeatedEffects(t *testing.T) {
	t.Parallel()
	a := effect(t, "pay", `{"to":"bo","cents":5}`)
	tests := []struct {
		made       int
		share      float64
		duplicates []int
	}{
		{0, 0, nil}, {1, 0.5, nil}, {2, 1, nil}, {3, 1, []int{2}}, {4, 1, []int{2, 3}},
	}
	for _, form := range [][]string{
		{`{tool: pay, args: {to: bo}, times: 2}`},
		{`{tool: pay, args: {to: bo}}`, `{tool: pay, args: {cents: 5}}`},
	} {
		g := with(t, `{effect: {tool: pay}}`, form...)
		for _, tt := range tests {
			out := gold.Outcome{}
			for range tt.made {
				out.Effects = append(out.Effects, a)
			}
			r := gold.Evaluate(g, out)
			share, ok := r.Effects.Share()
			if !ok || share != tt.share {
				t.Errorf("%v made %d times: share %v %v, want %v", form, tt.made, share, ok, tt.share)
			}
			if diff := cmp.Diff(tt.duplicates, r.Effects.Duplicates); diff != "" || len(r.Effects.Collateral) > 0 {
				t.Errorf("%v made %d times: %s, collateral %v", form, tt.made, diff, r.Effects.Collateral)
			}
		}
	}
	if _, ok := gold.Evaluate(with(t, `{effect: {tool: pay}}`), gold.Outcome{}).Effects.Share(); ok {
		t.Error("a share of nothing expected (field report 23)")
	}
}

// Field report 30, seen by the ledger: with the key sent the repeat is
// suppressed, without it one effect is a duplicate.
func TestF30_DuplicateOnlyWithoutKey(t *testing.T) {
	t.Parallel()
	g := with(t, `{effect: {tool: pay}}`, `{tool: pay, args: {to: bo}}`)
	first := effect(t, "pay", `{"to":"bo","cents":25}`)
	again := effect(t, "pay", `{"cents":25.0,"to":"bo"}`) // the same identity, written otherwise
	kept := again
	kept.Suppressed = true
	if d := gold.Evaluate(g, gold.Outcome{Effects: []gold.Effect{first, kept}}).Effects.Duplicates; len(d) != 0 {
		t.Errorf("suppressed repeat: duplicates %v", d)
	}
	if diff := cmp.Diff([]int{1}, gold.Evaluate(g, gold.Outcome{Effects: []gold.Effect{first, again}}).Effects.Duplicates); diff != "" {
		t.Error(diff)
	}
}

func TestQ1_DuplicateAndCollateral(t *testing.T) {
	t.Parallel()
	bo, cy := `{"to":"bo","cents":5}`, `{"to":"cy","cents":5}`
	tests := []struct {
		name                   string
		check                  string
		expected               []string
		made                   []string
		duplicates, collateral []int
	}{
		{"nobody asked", `{effect: {tool: log}}`, nil, []string{bo}, nil, []int{0}},
		{"nobody asked, twice", `{effect: {tool: log}}`, nil, []string{bo, bo}, []int{1}, []int{0}},
		{"a criterion allows it", `{effect: {tool: pay, args: {to: bo}}}`, nil, []string{bo, cy}, nil, []int{1}},
		{"a criterion forbids it", `{not: {effect: {tool: pay, args: {to: bo}}}}`, nil, []string{bo}, nil, []int{0}},
		{"a repeat takes no other's place", `{effect: {tool: pay}}`, []string{`{tool: pay, times: 2}`}, []string{bo, bo, cy}, []int{1}, nil},
		{"the narrow entry first", `{effect: {tool: log}}`, []string{`{tool: pay}`, `{tool: pay, args: {to: cy}}`}, []string{cy, bo}, nil, nil},
		{"beyond the times", `{effect: {tool: log}}`, []string{`{tool: pay}`}, []string{bo, cy}, nil, []int{1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var out gold.Outcome
			for _, m := range tt.made {
				out.Effects = append(out.Effects, effect(t, "pay", m))
			}
			r := gold.Evaluate(with(t, tt.check, tt.expected...), out)
			if diff := cmp.Diff(tt.duplicates, r.Effects.Duplicates); diff != "" {
				t.Error("duplicates", diff)
			}
			if diff := cmp.Diff(tt.collateral, r.Effects.Collateral); diff != "" {
				t.Error("collateral", diff)
			}
		})
	}
}

// TestQ1_ARepeatOfAnAllowedEffectIsADuplicate: allowed entries excuse other
// effects, and the multiplicity of one identity is that of expected_effects.
func TestQ1_ARepeatOfAnAllowedEffectIsADuplicate(t *testing.T) {
	t.Parallel()
	right, wrong, worse := `{"to":"bo","cents":5}`, `{"to":"bo","cents":6}`, `{"to":"bo","cents":7}`
	tests := []struct {
		name                   string
		made                   []string
		duplicates, collateral []int
	}{
		{"a wrong one put right", []string{wrong, right}, nil, nil},
		{"two wrong ones put right", []string{wrong, worse, right}, nil, nil},
		{"the right one twice", []string{right, right}, []int{1}, nil},
		{"a wrong one twice", []string{wrong, wrong, right}, []int{1}, nil},
		{"more wrong ones than allowed", []string{wrong, worse, `{"to":"bo","cents":8}`}, nil, []int{2}},
	}
	for _, tt := range tests {
		g := with(t, `{no_other_effects: true}`, `{tool: pay, args: {to: bo, cents: 5}}`)
		g.Allowed = []gold.Expected{{Tool: "pay", Args: corpus.Value(`{"to":"bo"}`), Times: 2}}
		var out gold.Outcome
		for _, m := range tt.made {
			out.Effects = append(out.Effects, effect(t, "pay", m))
		}
		r := gold.Evaluate(g, out)
		if diff := cmp.Diff(tt.duplicates, r.Effects.Duplicates); diff != "" {
			t.Errorf("%s: duplicates %s", tt.name, diff)
		}
		if diff := cmp.Diff(tt.collateral, r.Effects.Collateral); diff != "" {
			t.Errorf("%s: collateral %s", tt.name, diff)
		}
	}
}

func TestEvaluate_UnreadableEffectsAreAnErrorAndNotZero(t *testing.T) {
	t.Parallel()
	g := with(t, `{no_other_effects: true}`, `{tool: pay}`)
	r := gold.Evaluate(g, gold.Outcome{Effects: []gold.Effect{{Tool: "pay", Args: json.RawMessage(`[`), State: gold.StateConfirmed}}})
	if r.EffectsError == "" || r.Criteria[0].Verdict != gold.VerdictError {
		t.Errorf("%+v", r)
	}
}

func TestResult_Completion(t *testing.T) {
	t.Parallel()
	mk := func(list ...gold.Verdict) gold.Result {
		r := gold.Result{Criteria: []gold.CriterionResult{{ID: "optional", Verdict: gold.VerdictUnmet}}}
		for _, v := range list {
			r.Criteria = append(r.Criteria, gold.CriterionResult{Required: true, Verdict: v})
		}
		return r
	}
	m, u, e := gold.VerdictMet, gold.VerdictUnmet, gold.VerdictError
	tests := []struct {
		list []gold.Verdict
		want gold.Verdict
	}{
		{nil, e}, {[]gold.Verdict{m}, m}, {[]gold.Verdict{m, u}, u}, {[]gold.Verdict{e, m}, e}, {[]gold.Verdict{e, u}, u}, {[]gold.Verdict{m, m}, m},
	}
	for _, tt := range tests {
		if got := mk(tt.list...).Completion(); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.list, got, tt.want)
		}
	}
}

// A random tree of checks: negating twice changes nothing, and an error
// anywhere makes the whole an error.
func TestEvaluate_NegationAndErrorsProperty(t *testing.T) {
	t.Parallel()
	out := outcome(t)
	rapid.Check(t, func(rt *rapid.T) {
		hasError := false
		var tree func(depth int) string
		tree = func(depth int) string {
			kind := rapid.IntRange(0, 5).Draw(rt, "kind")
			if depth == 0 {
				kind %= 3
			}
			switch kind {
			case 0:
				return `{effect: {tool: pay}}`
			case 1:
				return `{effect: {tool: fly}}`
			case 2:
				if rapid.Bool().Draw(rt, "error") {
					hasError = true
					return `{document: /bad/x, equals: 1}`
				}
				return `{document: /a/n, equals: 25}`
			case 3:
				return `{not: ` + tree(depth-1) + `}`
			case 4:
				return `{all: [` + tree(depth-1) + `, ` + tree(depth-1) + `]}`
			}
			return `{any: [` + tree(depth-1) + `, ` + tree(depth-1) + `]}`
		}
		check := tree(3)
		got := gold.Evaluate(with(t, check), out).Criteria[0].Verdict
		if hasError != (got == gold.VerdictError) {
			rt.Fatalf("%s is %s", check, got)
		}
		if twice := gold.Evaluate(with(t, `{not: {not: `+check+`}}`), out).Criteria[0].Verdict; twice != got {
			rt.Fatalf("%s is %s, negated twice %s", check, got, twice)
		}
	})
}
