package gate

import (
	"errors"
	"testing"

	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/evaluator"
)

// FuzzParsePolicy: no file makes the parser panic, and what it refuses it names.
func FuzzParsePolicy(f *testing.F) {
	f.Add([]byte(soundPolicy))
	for _, name := range BuiltinNames() {
		f.Add(builtin(f, name).Text())
	}
	f.Add([]byte("schema: qualify/policy/v1\nrules: [{id: &a x}, *a]\n"))
	cases := []evaluator.TableCase{{ID: "a", Family: "f", Tags: []string{"write"}}, {ID: "b", Family: "g"}}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse("p.yaml", data)
		var faults Faults
		if err != nil {
			if !errors.As(err, &faults) || err.Error() == "" {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		if err := p.Fits([]string{"legacy", "planner", "selective"}, cases); err != nil && !errors.As(err, &faults) {
			t.Fatal(err)
		}
	})
}

// TestQ5_AnyEvidenceGivesAVerdictWithReasons: whatever states and values the
// rows have, the verdict is one of three, denominators close, and nothing but a
// PASS is without a reason.
func TestQ5_AnyEvidenceGivesAVerdictWithReasons(t *testing.T) {
	t.Parallel()
	heads := []string{"", "multiplicity: max_stat\n", "sequential: {method: e_process}\n", "sequential: {method: looks, at: [0.3, 0.7, 1], spending: pocock}\n"}
	states := []evaluator.TrialState{evaluator.TrialRan, evaluator.TrialRan, evaluator.TrialRan, evaluator.TrialMissing, evaluator.TrialNotRun, evaluator.TrialInfrastructure, evaluator.TrialGraderError}
	statuses := []string{StatusDone, StatusRunning, StatusStopped, StatusCancelled}
	rapid.Check(t, func(rt *rapid.T) {
		rules := []string{ruleVeto, ruleFalse, ruleSafeNI, ruleNI, ruleFloor, ruleBetter, ruleBetter2}
		head := rapid.SampledFrom(heads).Draw(rt, "method")
		if head != heads[2] {
			rules = append(rules, ruleCost, ruleLatency)
		}
		p := policyOf(t, head, rules...)
		e := campaign(t, rapid.IntRange(1, 12).Draw(rt, "families"), rapid.IntRange(1, 2).Draw(rt, "cases"), rapid.IntRange(1, 2).Draw(rt, "trials"), 1, good)
		e.Status = rapid.SampledFrom(statuses).Draw(rt, "status")
		odd := rapid.IntRange(0, 3).Draw(rt, "odd")
		for a := range e.Table.Arms {
			for c := range e.Table.Cases {
				for i := range e.Table.Trials {
					r := e.Table.Row(a, c, i)
					met, claim := rapid.Bool().Draw(rt, "met"), rapid.Bool().Draw(rt, "claim")
					fill(r, met, claim, float64(rapid.IntRange(0, 3).Draw(rt, "cost")))
					if odd == 0 {
						r.State = rapid.SampledFrom(states).Draw(rt, "state")
					}
				}
			}
		}
		v, err := Evaluate(p, e)
		if err != nil {
			rt.Fatal(err)
		}
		for _, r := range v.Rules {
			if (r.Verdict == Pass) != (len(r.Reasons) == 0) || r.Hole && r.Verdict != Fail {
				rt.Fatalf("%s: %s, %v", r.ID, r.Verdict, r.Reasons)
			}
			f := r.Figure
			if f.Lower != nil && f.Upper != nil && f.Value != nil && f.Ratio == nil && (*f.Lower > *f.Value+1e-9 || *f.Upper < *f.Value-1e-9) && f.Method != "Tango score, each family one pair" {
				rt.Fatalf("%s: %v is not in %v to %v (%s)", r.ID, f.Value, f.Lower, f.Upper, f.Method)
			}
		}
		if (v.Verdict == Pass) != (len(v.Reasons) == 0) {
			rt.Fatalf("%s: %v", v.Verdict, v.Reasons)
		}
		for _, a := range v.Arms {
			if !a.Closed() {
				rt.Fatalf("%+v", a)
			}
		}
	})
}
