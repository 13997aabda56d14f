package campaigns

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/corpus"
)

// asking puts a policy and hypotheses at the head of a campaign file: "policy" is
// line 1, "hypotheses" line 2, the first of them line 3.
func asking(hypotheses string) func(string) string {
	return func(s string) string { return "policy: p.yaml\nhypotheses:\n" + hypotheses + s }
}

// twoRules is a policy of rules "more" on completion and "cheap" on cost.
func twoRules(in *ResolveInput) {
	in.Policy = func(name string, _ *Plan) (*RegisteredPolicy, error) {
		return &RegisteredPolicy{
			Source: name, Name: "p", Kind: "simulation", Digest: "sha256:of-p", Alpha: .05, Power: .8, Multiplicity: "holm",
			Method: "looks", At: []float64{.5, 1}, Spending: "pocock",
			Rules: []RegisteredRule{{ID: "more", Metric: "completion"}, {ID: "cheap", Metric: "cost_charged_micros"}},
		}, nil
	}
}

// TestQ4_HypothesesOfAFileAreChecked: each fault is one line with its place.
func TestQ4_HypothesesOfAFileAreChecked(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ text, want string }{
		"no policy":         {"hypotheses:\n  - {text: More., rules: [more]}\n", "c.yaml:1: hypotheses: need a policy"},
		"no text":           {"policy: p.yaml\nhypotheses:\n  - {rules: [more]}\n", "c.yaml:3: hypotheses.0.text: is empty"},
		"blank":             {"policy: p.yaml\nhypotheses:\n  - {text: \" \", rules: [more]}\n", "c.yaml:3: hypotheses.0.text: is empty"},
		"two lines":         {"policy: p.yaml\nhypotheses:\n  - text: |-\n      One\n      and two.\n    rules: [more]\n", "c.yaml:3: hypotheses.0.text: is more than one line"},
		"a line end":        {"policy: p.yaml\nhypotheses:\n  - text: |\n      One\n    rules: [more]\n", "c.yaml:3: hypotheses.0.text: is more than one line"},
		"a separator":       {"policy: p.yaml\nhypotheses:\n  - {text: \"One\\u2028two\", rules: [more]}\n", "c.yaml:3: hypotheses.0.text: is more than one line"},
		"too long":          {"policy: p.yaml\nhypotheses:\n  - {text: " + strings.Repeat("ä", mostHypothesis+1) + ", rules: [more]}\n", "c.yaml:3: hypotheses.0.text: has 301 characters; use at most 300"},
		"no rules":          {"policy: p.yaml\nhypotheses:\n  - {text: More., rules: []}\n", "c.yaml:3: hypotheses.0.rules: is empty"},
		"a rule twice":      {"policy: p.yaml\nhypotheses:\n  - text: More.\n    rules:\n      - more\n      - more\n", `c.yaml:6: hypotheses.0.rules.1: "more" stands there twice`},
		"two primaries":     {"policy: p.yaml\nhypotheses:\n  - {text: More., rules: [more], primary: true}\n  - {text: Less., rules: [more]}\n  - {text: Same., rules: [more], primary: true}\n", "c.yaml:5: hypotheses.2.primary: line 3 has the primary hypothesis already"},
		"no word for yes":   {"policy: p.yaml\nhypotheses:\n  - {text: More., rules: [more], primary: maybe}\n", "c.yaml:3: wrong type"},
		"an unknown field":  {"policy: p.yaml\nhypotheses:\n  - {text: More., rules: [more], why: x}\n", `c.yaml:3: unknown field "why"`},
		"three primaries":   {"policy: p.yaml\nhypotheses:\n  - {text: A., rules: [a], primary: true}\n  - {text: B., rules: [a], primary: true}\n  - {text: C., rules: [a], primary: true}\n", "c.yaml:5: hypotheses.2.primary: line 3 has"},
		"policy left empty": {"policy: \"\"\nhypotheses:\n  - {text: More., rules: [more]}\n", "c.yaml:2: hypotheses: need a policy"},
	} {
		if _, err := ParseFile("c.yaml", []byte(tt.text+demoText(t))); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v\nwant one with %q", name, err, tt.want)
		}
	}
	for name, text := range map[string]string{
		"the longest": asking("  - {text: " + strings.Repeat("ä", mostHypothesis) + ", rules: [more]}\n")(demoText(t)),
		"none":        "hypotheses: []\n" + demoText(t),
	} {
		if _, err := ParseFile("c.yaml", []byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestQ4_HypothesesNameRulesOfTheRegisteredPolicy: each rule that is not there is
// a fault with its line.
func TestQ4_HypothesesNameRulesOfTheRegisteredPolicy(t *testing.T) {
	t.Parallel()
	_, err := resolve(t, asking("  - {text: More., rules: [more, moer]}\n  - text: Less.\n    rules: [chaep]\n"), twoRules)
	want := `c.yaml:3: hypotheses.0.rules.1: "moer" is no rule of the policy p; it has more, cheap
c.yaml:5: hypotheses.1.rules.0: "chaep" is no rule of the policy p; it has more, cheap`
	if err == nil || err.Error() != want {
		t.Errorf("error %v\nwant %s", err, want)
	}
	p := mustResolve(t, nil, nil)
	unparsed := &File{Hypotheses: []Hypothesis{{Text: "More.", Rules: []string{"more"}}}}
	if err := p.resolveHypotheses(unparsed, "f"); err == nil || err.Error() != `f: hypotheses.0.rules.0: "more" is no rule of the policy` {
		t.Errorf("a file that was not parsed: %v", err)
	}
}

// TestQ4_HypothesesAreRegistered with what the campaign promises beside its
// policy; they are part of its identity and survive reopening. A file without
// them keeps its digests.
func TestQ4_HypothesesAreRegistered(t *testing.T) {
	t.Parallel()
	const cheap = "  - {text: \"It costs less: by <half>.\", rules: [cheap, more]}\n"
	none := mustResolve(t, func(s string) string { return "policy: p.yaml\n" + s }, twoRules)
	p := mustResolve(t, asking("  - {text: It does more., rules: [more], primary: true}\n"+cheap), twoRules)
	secondary := mustResolve(t, asking("  - {text: It does more., rules: [more]}\n"+cheap), twoRules)
	if bytes.Contains(none.Canonical, []byte("hypotheses")) || none.PrimaryMetric() != "" {
		t.Errorf("without hypotheses: %s", none.Canonical)
	}
	if p.ID == none.ID || p.ID == secondary.ID || p.Registration == secondary.Registration || secondary.PrimaryMetric() != "" {
		t.Errorf("ids %s, %s, %s", none.ID, p.ID, secondary.ID)
	}
	var record Registration
	if err := json.Unmarshal(p.registration, &record); err != nil {
		t.Fatal(err)
	}
	want := &Protocol{
		Hypotheses: []Hypothesis{
			{Text: "It does more.", Rules: []string{"more"}, Primary: true},
			{Text: "It costs less: by <half>.", Rules: []string{"cheap", "more"}},
		},
		PrimaryMetric: "completion", Families: corpus.Families(p.cases), Exclusions: []string{},
		Stopping: Stopping{Rule: "looks", Trials: len(p.Cases) * 5, At: []float64{.5, 1}},
	}
	if diff := cmp.Diff(want, record.Protocol); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := json.Unmarshal(none.registration, &record); err != nil {
		t.Fatal(err)
	}
	want.Hypotheses, want.PrimaryMetric = []Hypothesis{}, ""
	if diff := cmp.Diff(want, record.Protocol); diff != "" {
		t.Errorf("without hypotheses (-want +got):\n%s", diff)
	}
	again := reopened(t, p)
	if diff := cmp.Diff(p.Hypotheses, again.Hypotheses); diff != "" {
		t.Error(diff)
	}
	if _, err := again.Reprove(); err != nil {
		t.Error(err)
	}
	again.Hypotheses[1].Primary, again.Hypotheses[0].Primary = true, false // chosen afterwards
	if _, err := again.Reprove(); err == nil || !strings.Contains(err.Error(), "registration") {
		t.Errorf("another primary hypothesis is proven: %v", err)
	}
}

// TestQ4_ARegistrationOfAnEarlierBuildIsProvenStill: a plan that holds its policy
// by the digest alone gives the record that it gave then, without a protocol.
func TestQ4_ARegistrationOfAnEarlierBuildIsProvenStill(t *testing.T) {
	t.Parallel()
	p := mustResolve(t, func(s string) string { return "policy: p.yaml\n" + s }, func(in *ResolveInput) {
		in.Policy = func(string, *Plan) (*RegisteredPolicy, error) {
			return &RegisteredPolicy{Source: "p.yaml", Name: "p", Digest: "sha256:of-p", Fits: true, Rules: []RegisteredRule{{ID: "more", Has: 7, Fits: true}}}, nil
		}
	})
	const policy = `"policy":{"digest":"sha256:of-p","fits":true,"name":"p","rules":[{"cases":null,"families":null,"fits":true,"has":7,"id":"more","trials":null}],"source":"p.yaml"}`
	for what, b := range map[string][]byte{"plan": p.Canonical, "record": p.registration} {
		if !bytes.Contains(b, []byte(policy)) || bytes.Contains(b, []byte("protocol")) {
			t.Errorf("%s: %s", what, b)
		}
	}
	if _, err := p.Reprove(); err != nil {
		t.Error(err)
	}
}
