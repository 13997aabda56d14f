package stats

import (
	"fmt"
	"math"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// notFinite finds a NaN or an infinity in a result.
func notFinite(v reflect.Value, path string) string {
	switch k := v.Kind(); {
	case k == reflect.Float64 && !finite(v.Float()):
		return fmt.Sprintf("%s = %v", path, v.Float())
	case (k == reflect.Pointer || k == reflect.Interface) && !v.IsNil():
		return notFinite(v.Elem(), path)
	case k == reflect.Struct:
		for i := range v.NumField() {
			if s := notFinite(v.Field(i), path+"."+v.Type().Field(i).Name); s != "" {
				return s
			}
		}
	case k == reflect.Slice || k == reflect.Array:
		for i := range v.Len() {
			if s := notFinite(v.Index(i), fmt.Sprintf("%s[%d]", path, i)); s != "" {
				return s
			}
		}
	}
	return ""
}

// TestS17_NoResultIsNaNOrInfinite feeds extreme but finite numbers: whatever
// the error, every figure of a result is finite.
func TestS17_NoResultIsNaNOrInfinite(t *testing.T) {
	t.Parallel()
	number := rapid.OneOf(
		rapid.SampledFrom([]float64{0, 1, -1, 1e-300, -1e-300, 1e300, math.MaxFloat64, 5e-324, 1e90, -1e90, 1e89, -7e88, 1e-90, 1e-160, .1, 1e15}),
		rapid.Float64Range(-1e90, 1e90),
		rapid.Float64Range(-9, 9),
	)
	rapid.Check(t, func(t *rapid.T) {
		level := rapid.SampledFrom([]float64{1e-12, .5, .95, .9999, 1 - 1e-15}).Draw(t, "level")
		n := rapid.IntRange(1, 9).Draw(t, "families")
		var pairs []Pair
		var totals []FamilyTotals
		var sums []FamilySum
		var triples []FamilyTriple
		var arms []ArmTotals
		var moments []CaseMoments
		var values []float64
		for i := range rapid.IntRange(n, n+6).Draw(t, "cases") {
			a, b, c, d := number.Draw(t, "a"), number.Draw(t, "b"), number.Draw(t, "c"), number.Draw(t, "d")
			f := fmt.Sprint(i % n)
			pairs = append(pairs, Pair{f, a, b})
			totals = append(totals, FamilyTotals{f, math.Abs(a), math.Abs(b)})
			sums = append(sums, FamilySum{f, a, math.Abs(b)})
			triples = append(triples, FamilyTriple{f, [3]float64{a, b, c}})
			arms = append(arms, ArmTotals{f, math.Abs(a), math.Abs(b), math.Abs(c), math.Abs(d)})
			m := CaseMoments{Family: f}
			m.Add(a, b)
			m.Add(c, d)
			moments = append(moments, m)
			values = append(values, a)
		}
		r := Resampling{Draws: 20, Seed: 1}
		check := func(what string, v any, err error) {
			if s := notFinite(reflect.ValueOf(v), what); s != "" {
				t.Fatalf("%s (error: %v)", s, err)
			}
		}
		d, err := PairedDifference(pairs, level)
		check("PairedDifference", d, err)
		for _, m := range []SEMethod{CR1, CR2} {
			ni, err := d.NonInferior(values[0], 1-level, m)
			check("NonInferior", ni, err)
			eq, err := d.Equivalent(math.Abs(values[0]), 1-level, m)
			check("Equivalent", eq, err)
		}
		mde, err := d.MDE(.05, .8, BothSides)
		check("MDE", mde, err)
		split, err := SplitPairs(moments)
		check("SplitPairs", split, err)
		flip, err := SignFlipTest(sums, r)
		check("SignFlipTest", flip, err)
		three, err := MaxStatistic(triples, r)
		check("MaxStatistic", three, err)
		boot, err := ClusterBootstrap(sums, level, r)
		check("ClusterBootstrap", boot, err)
		abc, err := ClusterABC(sums, level)
		check("ClusterABC", abc, err)
		ratio, err := FamilyRatio(totals, level)
		check("FamilyRatio", ratio, err)
		cost, err := CostPerSuccess(totals, level)
		check("CostPerSuccess", cost, err)
		both, err := CostPerSuccessRatio(arms, level)
		check("CostPerSuccessRatio", both, err)
		logs, err := FamilyLogRatio(totals, level)
		check("FamilyLogRatio", logs, err)
		within, err := logs.Within(.5, 2)
		check("Within", within, err)
		hd, err := HarrellDavis(values, .95)
		check("HarrellDavis", hd, err)
		order, err := OrderInterval(values, .5, level)
		check("OrderInterval", order, err)
		m := Moments{values[0], pairs[0].B, totals[0].A, totals[0].B, 0}
		f, err := Fieller(m, 1.96)
		check("Fieller", f, err)
	})
}
