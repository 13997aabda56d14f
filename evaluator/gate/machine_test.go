package gate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/agentrooms/qualify/evaluator"
)

// TestQ5_FiguresAreTheSameBytesOnAnyMachine pins the figures of 30 campaigns
// with large latencies and costs. Their last bits differ between machines that
// multiply and add in one step (arm64, GOAMD64=v3) and those that do not; what is
// printed must not. A change of a method changes the digest too: then run it with
// GOAMD64=v3 as well, and pin the new one only where both agree.
func TestQ5_FiguresAreTheSameBytesOnAnyMachine(t *testing.T) {
	t.Parallel()
	const want = "610cd132be54bf5264d218760027df4f179fd30d04cc1471d094d8e3c9b2e420"
	p, rng, sum := builtin(t, PolicyDefault), rand.New(rand.NewPCG(5, 6)), sha256.New()
	write := func(v any, err error) {
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		sum.Write(b)
	}
	for k := range 30 {
		e := campaign(t, 8+rng.IntN(30), 3, 5, uint64(k), good)
		for _, arm := range e.Table.Arms {
			eachTrial(e, arm, func(r *evaluator.Row, _, _ int) {
				r.Values[evaluator.MetricLatency] = float64(1_000_000 + rng.Int64N(90_000_000))
				r.Values[evaluator.MetricCost] = float64(10_000 + rng.Int64N(50_000))
				r.Values[evaluator.MetricCriterionShare] = float64(rng.IntN(8)) / 7
			})
		}
		v, err := Evaluate(p, e)
		for i := range v.Rules {
			write(v.Rules[i].Figure, err)
		}
		write(e.Table.Summaries(2))
		write(e.Table.Differences(0, 2))
		write(e.Table.CostPerCompletion(0, 2))
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != want {
		t.Errorf("the figures are %s, want %s", got, want)
	}
}
