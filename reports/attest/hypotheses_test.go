package attest

import (
	"errors"
	"strings"
	"testing"

	"github.com/agentrooms/qualify/evaluator/gate"
)

// TestQ8_AHypothesisThatItsRulesDoNotDecideIsNotAttested: its outcome follows
// from the rules in the same document.
func TestQ8_AHypothesisThatItsRulesDoNotDecideIsNotAttested(t *testing.T) {
	t.Parallel()
	d := document(t)
	d.Registered = d.Policy.Digest
	right := d.Hypothesis("It does some.", []string{d.Rules[0].ID}, true)
	for _, o := range []gate.Outcome{gate.Pass, gate.Inconclusive, gate.Fail, ""} {
		h := right
		h.Outcome = o
		d.Hypotheses = []gate.HypothesisVerdict{right, h}
		claim := claimOf(d)
		_, _, err := claim.statements()
		switch {
		case o == right.Outcome && err != nil:
			t.Errorf("%q: %v", o, err)
		case o != right.Outcome && (!errors.Is(err, ErrStatement) || !strings.Contains(err.Error(), "hypothesis 2 is "+string(o)+", and its rules say "+string(right.Outcome))):
			t.Errorf("%q: %v", o, err)
		}
	}
}
