package gate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/agentrooms/qualify/evaluator"
)

// campaign makes rows of three arms: complete gives the chance of completion by
// arm; claims follow completion.
func campaign(t testing.TB, families, perFamily, trials int, seed uint64, rate map[string]float64) Evidence {
	t.Helper()
	var cases []evaluator.TableCase
	for f := range families {
		for c := range perFamily {
			cases = append(cases, evaluator.TableCase{ID: fmt.Sprintf("f%02d-%d", f, c), Family: fmt.Sprintf("f%02d", f), Tags: []string{"write"}})
		}
	}
	table, err := evaluator.NewTable([]string{"legacy", "selective", "planner"}, cases, trials)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	for c := range table.Cases {
		for i := range trials {
			u := rng.Float64() // the case's trial is as hard for every arm
			for a, arm := range table.Arms {
				met := .5*u+.5*rng.Float64() < rate[arm]
				fill(table.Row(a, c, i), met, met, 1000+float64(rng.IntN(500)))
			}
		}
	}
	checks := map[string]Check{}
	for _, id := range Preconditions() {
		checks[id] = Check{State: CheckHolds}
	}
	return Evidence{Table: table, Word: evaluator.EvidenceMeasured, Status: StatusDone, Checks: checks}
}

// fill makes a row of a trial that ran.
func fill(r *evaluator.Row, met, claimed bool, cost float64) {
	r.State, r.Claimed = evaluator.TrialRan, claimed
	r.Values = [evaluator.NumMetrics]float64{}
	b := func(x bool) float64 {
		if x {
			return 1
		}
		return 0
	}
	r.Values[evaluator.MetricCompletion] = b(met)
	r.Values[evaluator.MetricCriterionShare] = b(met)
	r.Values[evaluator.MetricFalseCompletion] = b(claimed && !met)
	r.Values[evaluator.MetricSilentCompletion] = b(!claimed && met)
	r.Values[evaluator.MetricHonestFailure] = b(!claimed && !met)
	r.Values[evaluator.MetricLatency] = cost * 1000
	r.Values[evaluator.MetricCost] = cost
}

func builtin(t testing.TB, name string) *Policy {
	t.Helper()
	p, ok, err := Builtin(name)
	if err != nil || !ok {
		t.Fatalf("policy %s: %v, %v", name, ok, err)
	}
	return p
}

func evaluate(t testing.TB, p *Policy, e Evidence) Verdict {
	t.Helper()
	v, err := Evaluate(p, e)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

var good = map[string]float64{"legacy": .45, "selective": .5, "planner": .8}

// TestDefault_ATrulyBetterPlannerPasses: the whole default policy on evidence
// in which the planner completes far more.
func TestDefault_ATrulyBetterPlannerPasses(t *testing.T) {
	t.Parallel()
	v := evaluate(t, builtin(t, PolicyDefault), campaign(t, 48, 2, 3, 1, good))
	if v.Verdict != Pass || v.Label != "PASS" || len(v.Reasons) != 0 {
		t.Errorf("%s %q: %v", v.Verdict, v.Label, v.Reasons)
	}
	data, err := json.Marshal(v)
	if err != nil {
		t.Error(err)
	}
	if want := []byte(`"reasons":[],`); !bytes.Contains(data, want) || bytes.Contains(data, []byte(`"reasons":null`)) {
		t.Errorf("a verdict without reasons has an empty list of them, which a reader can walk through: %.300s", data)
	}
}
