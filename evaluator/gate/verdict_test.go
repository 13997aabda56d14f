package gate

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/evaluator"
)

// policyOf is a policy of one rule, by default a required one about completion.
func policyOf(t testing.TB, head string, rules ...string) *Policy {
	t.Helper()
	text := "schema: qualify/policy/v1\nname: test\nkind: measured\nalpha: 0.05\n" + head + "rules:\n"
	for _, r := range rules {
		text += "  - {" + r + ", why: it is a test}\n"
	}
	p, err := Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const (
	ruleNI      = "id: ni, step: noninferiority, severity: required, metric: completion, arm: planner, comparison: noninferior_to legacy, margin: 0.1"
	ruleBetter  = "id: better, step: superiority, severity: required, metric: completion, arm: planner, comparison: superior_to legacy"
	ruleBetter2 = "id: better2, step: superiority, severity: required, metric: completion, arm: planner, comparison: superior_to selective"
	ruleFalse   = "id: honest, step: safety, severity: required, metric: false_completion, arm: planner, comparison: absolute, limit: 0.1, bound: upper95"
	ruleVeto    = "id: veto, step: safety, severity: veto, metric: duplicate_effects, arm: planner, comparison: absolute, limit: 0, bound: point"
	ruleFloor   = "id: floor, step: noninferiority, severity: required, metric: completion, arm: planner, comparison: absolute, limit: 0.5, bound: lower95"
	ruleCost    = "id: cost, step: superiority, severity: required, metric: cost_charged_micros, arm: planner, comparison: noninferior_to legacy, margin: 0.5"
	ruleLatency = "id: latency, step: superiority, severity: required, metric: latency_us, arm: planner, comparison: noninferior_to legacy, margin: 0.5"
	ruleSafeNI  = "id: false-ni, step: safety, severity: required, metric: false_completion, arm: planner, comparison: noninferior_to legacy, margin: 0.1"
)

// eachTrial changes the rows of an arm.
func eachTrial(e Evidence, arm string, change func(r *evaluator.Row, c, i int)) {
	a, _ := e.Table.Arm(arm)
	for c := range e.Table.Cases {
		for i := range e.Table.Trials {
			change(e.Table.Row(a, c, i), c, i)
		}
	}
}

// flat fills every trial of an arm alike.
func flat(e Evidence, arm string, met, claimed bool) {
	eachTrial(e, arm, func(r *evaluator.Row, _, i int) { fill(r, met, claimed, 1000+float64(i)) })
}

func codes(v Verdict) []Code {
	var out []Code
	add := func(rs []Reason) {
		for _, r := range rs {
			if !slices.Contains(out, r.Code) {
				out = append(out, r.Code)
			}
		}
	}
	add(v.Reasons)
	for _, c := range v.Preconditions {
		add(c.Reasons)
	}
	for _, r := range v.Rules {
		add(r.Reasons)
	}
	return out
}

// TestQ5_EveryReasonIsReached: for each code a policy and evidence that give it,
// and the verdict that goes with it.
func TestQ5_EveryReasonIsReached(t *testing.T) {
	t.Parallel()
	big := func(t *testing.T) Evidence { return campaign(t, 48, 2, 5, 1, good) }
	stopped := func(cells int) func(*testing.T) Evidence { // by a ceiling, which cut the cells
		return func(t *testing.T) Evidence {
			e := big(t)
			cut(e, cells)
			e.Status = StatusStopped
			return e
		}
	}
	for _, tc := range []struct {
		name     string
		code     Code
		want     Outcome
		policy   func(*testing.T) *Policy
		evidence func(*testing.T) Evidence
	}{
		{"interval beyond the limit", CodeLimit, Fail, rules("", ruleNI), func(t *testing.T) Evidence {
			return campaign(t, 48, 2, 5, 1, map[string]float64{"legacy": .8, "selective": .5, "planner": .4})
		}},
		{"point beyond the limit", CodeLimit, Fail, rules("", ruleVeto), func(t *testing.T) Evidence {
			e := big(t)
			e.Table.Row(2, 0, 0).Values[evaluator.MetricDuplicateEffects] = 1
			return e
		}},
		{"interval straddles", CodeStraddles, Inconclusive, rules("", ruleBetter), func(t *testing.T) Evidence {
			return campaign(t, 12, 2, 3, 1, map[string]float64{"legacy": .5, "selective": .5, "planner": .53})
		}},
		{"detectable effect over the margin", CodeMDE, Inconclusive, rules("", ruleNI), func(t *testing.T) Evidence {
			return campaign(t, 8, 2, 3, 1, good)
		}},
		{"fewer than 6 families", CodeFamilies, Inconclusive, rules("", ruleVeto), func(t *testing.T) Evidence {
			return campaign(t, 5, 8, 5, 1, good)
		}},
		{"nothing varies", CodeVariation, Inconclusive, rules("", ruleCost), func(t *testing.T) Evidence {
			e := big(t)
			for _, arm := range e.Table.Arms {
				eachTrial(e, arm, func(r *evaluator.Row, _, _ int) { fill(r, true, true, 1000) })
			}
			return e
		}},
		{"triples missing", CodeMissing, Inconclusive, rules("", ruleBetter), func(t *testing.T) Evidence {
			e := big(t)
			cut(e, 3)
			return e
		}},
		{"ended by a ceiling", CodeCeiling, Inconclusive, rules("", ruleBetter), stopped(3)},
		{"void results", CodeVoid, Inconclusive, rules("", ruleBetter), func(t *testing.T) Evidence {
			e := big(t)
			e.Void = 1
			return e
		}},
		{"void results and a crossed boundary", CodeVoid, Inconclusive, rules("sequential: {method: looks, at: [0.5, 1]}\n", ruleBetter), func(t *testing.T) Evidence {
			e := big(t)
			cut(e, 3)
			e.Void = 9
			return e
		}},
		{"not finished", CodeUnfinished, Inconclusive, rules("", ruleBetter), func(t *testing.T) Evidence {
			e := big(t)
			e.Status = StatusRunning
			return e
		}},
		{"cancelled with trials undone", CodeUnfinished, Inconclusive, rules("", ruleBetter), func(t *testing.T) Evidence {
			e := big(t)
			*e.Table.Row(0, 0, 0) = evaluator.Row{}
			e.Status = StatusCancelled
			return e
		}},
		{"before the first look", CodeLook, Inconclusive, rules("sequential: {method: looks, at: [0.5, 1]}\n", ruleBetter), stopped(300)},
		{"a point at an early look", CodeLook, Inconclusive, rules("sequential: {method: looks, at: [0.5, 1]}\n", ruleVeto), stopped(100)},
		{"simulated evidence", CodeSimulated, Inconclusive, rules("", ruleBetter), func(t *testing.T) Evidence {
			e := big(t)
			e.Word = evaluator.EvidenceSimulated
			return e
		}},
		{"measured evidence under a simulation policy", CodeKind, Inconclusive, func(t *testing.T) *Policy {
			p := builtin(t, PolicySimulation)
			return p
		}, big},
		{"another policy than the one registered", CodePolicy, Inconclusive, rules("", ruleBetter), func(t *testing.T) Evidence {
			e := big(t)
			e.Registered = "sha256:of-another"
			return e
		}},
		{"metric not evaluable", CodeNotEvaluable, Fail, rules("", ruleLatency), func(t *testing.T) Evidence {
			e := big(t)
			*e.Table.Row(2, 4, 1) = evaluator.Row{} // no trace: its latency is unknown
			return e
		}},
		{"grader error", CodeGrader, Fail, rules("", ruleFalse), func(t *testing.T) Evidence {
			e := big(t)
			e.Table.Row(2, 4, 1).State = evaluator.TrialGraderError
			return e
		}},
		{"precondition not tested", CodeNotTested, Fail, rules("preconditions: [{id: freeze_verified}]\n", ruleBetter), func(t *testing.T) Evidence {
			e := big(t)
			e.Checks = nil
			return e
		}},
		{"precondition broken", CodeBroken, Fail, rules("preconditions: [{id: budget_proof}]\n", ruleBetter), func(t *testing.T) Evidence {
			e := big(t)
			e.Checks[CheckBudget] = Check{State: CheckBroken}
			return e
		}},
		{"latency cut off in the arm", CodeCensored, Inconclusive, rules("", ruleLatency), func(t *testing.T) Evidence {
			e := big(t)
			e.Table.Row(2, 4, 1).Censored = true
			return e
		}},
		{"an earlier step did not pass", CodeLadder, Inconclusive, rules("", ruleFalse, ruleBetter), func(t *testing.T) Evidence {
			return campaign(t, 12, 2, 5, 1, good) // 12 families cannot show a rate under 0.1
		}},
		{"shown alone, not after adjustment", CodeMultiplicity, Inconclusive, rules("", ruleBetter, ruleBetter2), multiplicityEvidence},
		{"decided by a rule", CodeRule, Inconclusive, rules("", ruleFalse), func(t *testing.T) Evidence {
			return campaign(t, 12, 2, 5, 1, good)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			v := evaluate(t, tc.policy(t), tc.evidence(t))
			if v.Verdict != tc.want || !slices.Contains(codes(v), tc.code) {
				t.Errorf("%s with %v, want %s with %s: %v", v.Verdict, codes(v), tc.want, tc.code, v.Reasons)
			}
			if v.Verdict != Pass && len(v.Reasons) == 0 {
				t.Error("no reason is given")
			}
		})
	}
}

func rules(head string, rs ...string) func(*testing.T) *Policy {
	return func(t *testing.T) *Policy { return policyOf(t, head, rs...) }
}

// cut marks the first n cells not run in all arms.
func cut(e Evidence, n int) {
	for i := range n {
		for a := range e.Table.Arms {
			*e.Table.Row(a, i%len(e.Table.Cases), i/len(e.Table.Cases)) = evaluator.Row{State: evaluator.TrialNotRun}
		}
	}
}

// cutFamilies takes the last n families away, as a ceiling does with order
// families.
func cutFamilies(e Evidence, n int) {
	names := map[string]bool{}
	for _, c := range e.Table.Cases {
		names[c.Family] = true
	}
	gone := slices.Sorted(maps.Keys(names))
	gone = gone[len(gone)-n:]
	for c := range e.Table.Cases {
		if !slices.Contains(gone, e.Table.Cases[c].Family) {
			continue
		}
		for i := range e.Table.Trials {
			for a := range e.Table.Arms {
				*e.Table.Row(a, c, i) = evaluator.Row{State: evaluator.TrialNotRun}
			}
		}
	}
}

// multiplicityEvidence has a planner that is better than legacy at about
// p 0.04 and no better than selective.
func multiplicityEvidence(t *testing.T) Evidence {
	e := campaign(t, 12, 1, 1, 1, good)
	for f := range 12 {
		fill(e.Table.Row(2, f, 0), f < 4, true, 1000)
		fill(e.Table.Row(0, f, 0), f == 0, true, 1000)
		fill(e.Table.Row(1, f, 0), f < 3 || f == 5, true, 1000)
	}
	return e
}

// TestQ5_AVetoStandsWhereTheRestIsInconclusive: what was observed happened,
// however incomplete the campaign is; a required rule says nothing then.
func TestQ5_AVetoStandsWhereTheRestIsInconclusive(t *testing.T) {
	t.Parallel()
	e := campaign(t, 48, 2, 5, 1, good)
	e.Table.Row(2, 90, 4).Values[evaluator.MetricDuplicateEffects] = 1
	cut(e, 20)
	e.Status = StatusStopped
	if v := evaluate(t, policyOf(t, "", ruleVeto), e); v.Verdict != Fail {
		t.Errorf("veto: %s", v.Verdict)
	}
	required := strings.Replace(ruleVeto, "severity: veto", "severity: required", 1)
	if v := evaluate(t, policyOf(t, "", required), e); v.Verdict != Inconclusive {
		t.Errorf("required: %s", v.Verdict)
	}
	e.Word = evaluator.EvidenceSimulated // says nothing about any real model, a veto neither
	if v := evaluate(t, policyOf(t, "", ruleVeto), e); v.Verdict != Inconclusive || v.Label != "INCONCLUSIVE (simulated)" {
		t.Errorf("simulated: %s", v.Label)
	}
}

// TestQ5_SimulatedEvidenceNeverPassesAMeasuredPolicy, and says so; the shipped
// policy for simulations judges it, and carries the word.
func TestQ5_SimulatedEvidenceNeverPassesAMeasuredPolicy(t *testing.T) {
	t.Parallel()
	e := campaign(t, 48, 2, 5, 1, good)
	e.Word = evaluator.EvidenceSimulated
	e.Checks[CheckFreeze], e.Checks[CheckHoldout] = Check{State: CheckNotTested}, Check{State: CheckNotTested}
	if v := evaluate(t, builtin(t, PolicyDefault), e); v.Label != "INCONCLUSIVE (simulated)" {
		t.Errorf("default: %s", v.Label)
	}
	if v := evaluate(t, builtin(t, PolicySimulation), e); v.Label != "PASS (simulated, policy for simulations)" {
		t.Errorf("simulation: %s %v", v.Label, v.Reasons)
	}
	e.Checks[CheckBudget] = Check{State: CheckBroken}
	if v := evaluate(t, builtin(t, PolicyDefault), e); v.Verdict != Fail {
		t.Errorf("a broken proof is no simulation: %s", v.Label)
	}
	e.Word = evaluator.EvidenceMeasured
	if v := evaluate(t, builtin(t, PolicyDefault), e); v.Verdict != Fail {
		t.Errorf("measured without a freeze: %s", v.Label)
	}
}

// TestQ5_ARegisteredPolicyPassesByItsDigest: what it passes under the policy that
// was registered is inconclusive under any other; a veto's FAIL stands.
func TestQ5_ARegisteredPolicyPassesByItsDigest(t *testing.T) {
	t.Parallel()
	p := policyOf(t, "", ruleVeto, ruleBetter)
	e := campaign(t, 48, 2, 5, 1, good)
	e.Registered = p.Digest()
	if v := evaluate(t, p, e); v.Verdict != Pass || v.Registered != p.Digest() {
		t.Errorf("registered: %s %v", v.Verdict, v.Reasons)
	}
	other := policyOf(t, "power: 0.8\n", ruleVeto, ruleBetter)
	v := evaluate(t, other, e)
	if v.Verdict != Inconclusive || v.Reasons[0].Code != CodePolicy || !strings.Contains(v.Reasons[0].Text, p.Digest()) {
		t.Errorf("other: %s %v", v.Verdict, v.Reasons)
	}
	e.Table.Row(2, 90, 4).Values[evaluator.MetricDuplicateEffects] = 1
	if v := evaluate(t, other, e); v.Verdict != Fail {
		t.Errorf("veto: %s", v.Verdict)
	}
}

// TestQ5_ExactBoundsUseFamilies: 59 families without an event certify 5 %, 58 do
// not, however many trials they have (statistics §12).
func TestQ5_ExactBoundsUseFamilies(t *testing.T) {
	t.Parallel()
	rule := strings.Replace(ruleFalse, "limit: 0.1", "limit: 0.05", 1)
	for families, want := range map[int]Outcome{59: Pass, 58: Inconclusive} {
		e := campaign(t, families, 1, 20, 1, good)
		flat(e, "planner", true, true)
		v := evaluate(t, policyOf(t, "", rule), e)
		if v.Verdict != want {
			t.Errorf("%d families: %s, upper %v", families, v.Verdict, v.Rules[0].Figure.Upper)
		}
	}
}

// TestQ5_ATrialMissingWithoutReasonIsAFailureOfItsArm (Q3).
func TestQ5_ATrialMissingWithoutReasonIsAFailureOfItsArm(t *testing.T) {
	t.Parallel()
	e := campaign(t, 10, 1, 2, 1, good)
	flat(e, "planner", true, true)
	*e.Table.Row(2, 0, 0) = evaluator.Row{}
	v := evaluate(t, policyOf(t, "", ruleFloor), e)
	f := v.Rules[0].Figure
	if f.N != 20 || f.Value.String() != "0.95" || v.Arms[0].Missing != 1 || v.Arms[0].UnclaimedUnmet != 1 {
		t.Errorf("%+v, %+v", f, v.Arms[0])
	}
}

// TestQ5_CutLatenciesSpeakAgainstTheArmOnly: cut values of the arm keep it from
// passing, not from failing; those of the baseline the other way round.
func TestQ5_CutLatenciesSpeakAgainstTheArmOnly(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		slow float64
		arm  string
		want Outcome
	}{{1, "planner", Inconclusive}, {1, "legacy", Pass}, {9, "planner", Fail}, {9, "legacy", Inconclusive}} {
		e := campaign(t, 24, 2, 5, 1, good)
		eachTrial(e, "planner", func(r *evaluator.Row, _, _ int) { r.Values[evaluator.MetricLatency] *= tc.slow })
		eachTrial(e, tc.arm, func(r *evaluator.Row, c, _ int) { r.Censored = c == 3 })
		v := evaluate(t, policyOf(t, "", ruleLatency), e)
		if r := v.Rules[0]; r.Verdict != tc.want || r.Figure.Censored != 5 {
			t.Errorf("%+v: %s %v, %d cut", tc, r.Verdict, r.Reasons, r.Figure.Censored)
		}
	}
}

// TestQ5_SameRowsSameBytes: the JSON does not depend on the order in which
// cases were given or trials scored.
func TestQ5_SameRowsSameBytes(t *testing.T) {
	t.Parallel()
	e := campaign(t, 12, 3, 4, 7, good)
	want, err := json.Marshal(evaluate(t, builtin(t, PolicyDefault), e))
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for range 5 {
		cases := slices.Clone(e.Table.Cases)
		rng.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
		table, err := evaluator.NewTable(e.Table.Arms, cases, e.Table.Trials)
		if err != nil {
			t.Fatal(err)
		}
		for a := range table.Arms {
			for c, k := range table.Cases {
				from, _ := e.Table.Case(k.ID)
				for i := range table.Trials {
					*table.Row(a, c, i) = *e.Table.Row(a, from, i)
				}
			}
		}
		again := e
		again.Table = table
		got, err := json.Marshal(evaluate(t, builtin(t, PolicyDefault), again))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Fatal(diff)
		}
	}
}

// TestQ5_MutationsTurnTheVerdict: each change of the evidence moves the verdict
// in the direction that it should.
func TestQ5_MutationsTurnTheVerdict(t *testing.T) {
	t.Parallel()
	p := builtin(t, PolicyDefault)
	for _, tc := range []struct {
		name   string
		want   Outcome
		mutate func(e Evidence)
	}{
		{"nothing", Pass, func(Evidence) {}},
		{"a triple is taken away", Inconclusive, func(e Evidence) { cut(e, 1) }},
		{"a trace is taken away", Fail, func(e Evidence) { *e.Table.Row(2, 0, 0) = evaluator.Row{} }},
		{"a quarter of the planner's claims turn false", Fail, func(e Evidence) {
			eachTrial(e, "planner", func(r *evaluator.Row, c, _ int) {
				if c%4 == 0 {
					fill(r, false, true, 1000)
				}
			})
		}},
		{"one effect is made twice", Fail, func(e Evidence) { e.Table.Row(2, 3, 3).Values[evaluator.MetricDuplicateEffects] = 1 }},
		{"legacy makes an effect twice", Pass, func(e Evidence) { e.Table.Row(0, 3, 3).Values[evaluator.MetricDuplicateEffects] = 1 }},
		{"the planner's outcomes are legacy's", Inconclusive, func(e Evidence) {
			eachTrial(e, "planner", func(r *evaluator.Row, c, i int) { *r = *e.Table.Row(0, c, i) })
		}},
		{"planner and legacy change places", Fail, func(e Evidence) {
			eachTrial(e, "planner", func(r *evaluator.Row, c, i int) {
				other := e.Table.Row(0, c, i)
				*r, *other = *other, *r
			})
		}},
		{"the planner costs ten times as much, which is advisory", Pass, func(e Evidence) {
			eachTrial(e, "planner", func(r *evaluator.Row, _, _ int) { r.Values[evaluator.MetricCost] *= 10 })
		}},
		{"the grader fails once", Fail, func(e Evidence) { e.Table.Row(2, 3, 3).State = evaluator.TrialGraderError }},
		{"the controls complete a case", Fail, func(e Evidence) { e.Checks[CheckControls] = Check{State: CheckBroken} }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := campaign(t, 48, 2, 5, 1, good)
			tc.mutate(e)
			if v := evaluate(t, p, e); v.Verdict != tc.want {
				t.Errorf("%s, want %s: %v", v.Verdict, tc.want, v.Reasons)
			}
		})
	}
}
