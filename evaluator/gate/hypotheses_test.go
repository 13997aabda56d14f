package gate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestQ4_AHypothesisIsDecidedByItsRules: by the worst of them, and only by those
// of the policy that was registered.
func TestQ4_AHypothesisIsDecidedByItsRules(t *testing.T) {
	t.Parallel()
	v := Verdict{
		Registered: "sha256:p", Policy: PolicyRef{Digest: "sha256:p"},
		Rules: []RuleVerdict{{ID: "good", Verdict: Pass}, {ID: "well", Verdict: Pass}, {ID: "open", Verdict: Inconclusive}, {ID: "bad", Verdict: Fail}},
	}
	for _, tc := range []struct {
		rules []string
		want  Outcome
	}{
		{[]string{"good"}, Pass},
		{[]string{"good", "well"}, Pass},
		{[]string{"good", "open"}, Inconclusive},
		{[]string{"open", "bad", "good"}, Fail},
		{[]string{"bad"}, Fail},
		{[]string{"good", "gone"}, Inconclusive},
		{[]string{"gone", "bad"}, Fail},
		{nil, Inconclusive},
	} {
		want := HypothesisVerdict{Text: "x", Rules: append([]string{}, tc.rules...), Primary: true, Outcome: tc.want}
		if diff := cmp.Diff(want, v.Hypothesis("x", tc.rules, true)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tc.rules, diff)
		}
	}
	for _, registered := range []string{"", "sha256:other"} {
		v.Registered = registered
		for _, rule := range []string{"good", "bad"} {
			if h := v.Hypothesis("x", []string{rule}, false); h.Outcome != Inconclusive || h.Primary {
				t.Errorf("registered %q: rule %s of another policy gives %+v", registered, rule, h)
			}
		}
	}
}
