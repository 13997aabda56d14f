package evaluator

import (
	"errors"
	"fmt"

	"github.com/agentrooms/qualify/evaluator/stats"
)

// CostPerCompletion is what one completed trial costs in each arm, failed
// trials paid for too, over the pairs that both arms have: sum of cost over
// number of completions, never the mean of ratios. Ratio is B's over A's; its
// interval is for "cases like these". A nil figure is not evaluable, Reason says
// why.
type CostPerCompletion struct {
	A       *Num      `json:"a_micros"`
	B       *Num      `json:"b_micros"`
	Ratio   *Num      `json:"ratio"`
	Ratio95 *Interval `json:"ratio_ci95"`
	Method  string    `json:"method"`
	Pairs   int       `json:"pairs"`
	Reason  string    `json:"reason,omitempty"`
}

// CostPerCompletion compares arms a and b of the table.
func (t *Table) CostPerCompletion(a, b int) (CostPerCompletion, error) {
	out := CostPerCompletion{Method: "delta method on the logarithm, t by family"}
	totals := map[string]*stats.ArmTotals{}
	var sum stats.ArmTotals
	for c := range t.Cases {
		for i := range t.Trials {
			ra, rb := t.Row(a, c, i), t.Row(b, c, i)
			var v [4]float64
			ok := true
			for k, x := range []struct {
				row    *Row
				metric int
			}{{ra, MetricCost}, {ra, MetricCompletion}, {rb, MetricCost}, {rb, MetricCompletion}} {
				value, state := x.row.Value(x.metric)
				v[k], ok = value, ok && state == ValueOK
			}
			if !ok {
				continue
			}
			out.Pairs++
			f := totals[t.Cases[c].Family]
			if f == nil {
				f = &stats.ArmTotals{Family: t.Cases[c].Family}
				totals[f.Family] = f
			}
			for _, x := range []*stats.ArmTotals{f, &sum} {
				x.CostA, x.MetA, x.CostB, x.MetB = x.CostA+v[2], x.MetA+v[3], x.CostB+v[0], x.MetB+v[1]
			}
		}
	}
	// Sum.A is arm b's, because the ratio is B's over A's.
	if sum.MetB > 0 {
		out.A = numPtr(sum.CostB / sum.MetB)
	}
	if sum.MetA > 0 {
		out.B = numPtr(sum.CostA / sum.MetA)
	}
	families := make([]stats.ArmTotals, 0, len(totals))
	for _, name := range sortedKeys(totals) {
		families = append(families, *totals[name])
	}
	r, err := stats.CostPerSuccessRatio(families, compareLevel)
	if r.Ratio > 0 {
		out.Ratio = numPtr(r.Ratio)
	}
	switch {
	case err == nil:
		out.Ratio95 = &Interval{Num(r.Lo), Num(r.Hi)}
	case out.Pairs == 0:
		out.Reason = "no pair is evaluable in both arms"
	case errors.Is(err, stats.ErrNoSuccess):
		out.Reason = "an arm completed nothing: its cost per completion is undefined"
	case refused(err):
		out.Reason = err.Error()
	default:
		return out, fmt.Errorf("cost per completion: %w", err)
	}
	return out, nil
}
