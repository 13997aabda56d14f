package stats

import (
	"math"

	"gonum.org/v1/gonum/stat"
)

// FamilyTotals holds the totals of a family of which a ratio ΣA/ΣB is made:
// the cost of two arms, or cost and successes of one arm.
type FamilyTotals struct {
	Family string
	A, B   float64
}

// Ratio is a ratio with its interval.
type Ratio struct {
	Families int
	Ratio    float64
	Interval
	Level float64
	// G is Fieller's t²·Var(B)/B²: from 1 on the interval is unbounded. It is
	// small when the denominator is well known.
	G float64
	// LogDelta is the interval of the delta method on the logarithm, for
	// comparison; nil when the ratio is not above zero or floating point does
	// not hold the interval.
	LogDelta *Interval
}

// Moments are two estimates with the variances and covariance of their errors.
type Moments struct{ A, B, VarA, VarB, Cov float64 }

// Fieller is the interval of A/B at the critical value crit: the roots of
// (B²−crit²·VarB)θ² − 2(AB−crit²·Cov)θ + (A²−crit²·VarA) = 0.
//
// Assumption: the errors of A and B are jointly normal. Errors: ErrNotFinite,
// ErrRange, ErrNoVariation (no error in either), and ErrUnbounded when g ≥ 1,
// with which Ratio and G are set unless B is 0. Source: Fieller 1954.
func Fieller(m Moments, crit float64) (Ratio, error) {
	const method = "Fieller ratio"
	for _, v := range []float64{m.A, m.B, m.VarA, m.VarB, m.Cov, crit} {
		if !finite(v) {
			return Ratio{}, refuse(method, ErrNotFinite, "%+v", m)
		}
	}
	if m.VarA < 0 || m.VarB < 0 || m.Cov*m.Cov > m.VarA*m.VarB*(1+1e-9) || !(crit > 0) {
		return Ratio{}, refuse(method, ErrRange, "%+v, critical value %v", m, crit)
	}
	if m.B == 0 {
		return Ratio{}, refuse(method, ErrUnbounded, "the denominator is 0")
	}
	t2 := crit * crit
	r := Ratio{Ratio: m.A / m.B, G: t2 * m.VarB / (m.B * m.B)}
	if err := checkResult(method, r.Ratio, r.G); err != nil {
		return Ratio{}, err
	}
	if r.G >= 1 {
		return r, refuse(method, ErrUnbounded, "g = %.4g", r.G)
	}
	// Divided by B², so that great totals lose nothing.
	b2 := m.B * m.B
	a, half, c := 1-r.G, r.Ratio-t2*m.Cov/b2, r.Ratio*r.Ratio-t2*m.VarA/b2
	root := half*half - a*c
	if err := checkResult(method, root); err != nil {
		return r, err
	}
	if root <= 1e-24*half*half {
		return r, refuse(method, ErrNoVariation, "%+v", m)
	}
	root = math.Sqrt(root)
	in := Interval{(half - root) / a, (half + root) / a}
	if err := checkResult(method, in.Lo, in.Hi); err != nil {
		return r, err
	}
	r.Interval = in
	if r.Ratio > 0 {
		v := m.VarA/(m.A*m.A) + m.VarB/b2 - 2*m.Cov/(m.A*m.B)
		w := crit * math.Sqrt(max(0, v))
		if d := (Interval{r.Ratio * math.Exp(-w), r.Ratio * math.Exp(w)}); checkResult(method, d.Lo, d.Hi) == nil {
			r.LogDelta = &d
		}
	}
	return r, nil
}

// FamilyRatio is ΣA/ΣB with Fieller's interval, t of C−1 degrees of freedom and
// the clustered covariance of family totals with the factor C/(C−1). It is the
// ratio of arithmetic means, the ratio in which money is spent; the mean of
// ratios is another figure (statistics §17.9).
//
// Assumption: families are independent. Errors as Fieller; ErrNoData,
// ErrTooFewFamilies.
func FamilyRatio(families []FamilyTotals, level float64) (Ratio, error) {
	const method = "family ratio"
	if err := checkLevel(method, level); err != nil {
		return Ratio{}, err
	}
	fams, err := mergeTotals(families)
	if err != nil {
		return Ratio{}, &Refusal{Method: method, Rule: err}
	}
	r := Ratio{Families: len(fams), Level: level}
	if err := checkFamilies(method, len(fams)); err != nil {
		return r, err
	}
	c := float64(len(fams))
	a, b := make([]float64, len(fams)), make([]float64, len(fams))
	for i, f := range fams {
		a[i], b[i] = f.A, f.B
	}
	// Means of family totals: their ratio is that of the totals.
	m := Moments{
		A: stat.Mean(a, nil), B: stat.Mean(b, nil), VarA: stat.Variance(a, nil) / c, VarB: stat.Variance(b, nil) / c,
		Cov: stat.Covariance(a, b, nil) / c,
	}
	got, err := Fieller(m, tTwoSided(level, c-1))
	got.Families, got.Level = r.Families, level
	return got, err
}

// CostPerSuccess is the cost of all runs, failed ones included, over the
// successes: FamilyRatio with A the cost and B the successes. ErrNoSuccess at
// none, ErrRange for a negative count or cost.
func CostPerSuccess(families []FamilyTotals, level float64) (Ratio, error) {
	var successes float64
	for _, f := range families {
		if f.A < 0 || f.B < 0 {
			return Ratio{}, refuse("cost per success", ErrRange, "family %q: cost %v, successes %v", f.Family, f.A, f.B)
		}
		successes += f.B
	}
	if len(families) > 0 && successes == 0 {
		return Ratio{}, refuse("cost per success", ErrNoSuccess, "%d families", len(families))
	}
	return FamilyRatio(families, level)
}

// ArmTotals holds the cost and the successes of a family in two arms.
type ArmTotals struct {
	Family                   string
	CostA, MetA, CostB, MetB float64
}

// CostPerSuccessRatio is the cost per success of A over that of B, paired by
// family: the delta method on the logarithm of (ΣCostA/ΣMetA)/(ΣCostB/ΣMetB),
// t of C−1 degrees of freedom. G is not set.
//
// Assumption: the four totals are far from zero against their errors; with few
// successes prefer ClusterBootstrap. Errors: ErrNoData, ErrNotFinite, ErrRange,
// ErrNoSuccess (either arm), ErrNotPositive (no cost), ErrTooFewFamilies,
// ErrNoVariation.
func CostPerSuccessRatio(families []ArmTotals, level float64) (Ratio, error) {
	const method = "ratio of costs per success"
	if err := checkLevel(method, level); err != nil {
		return Ratio{}, err
	}
	var parts [4][]FamilyTotals
	for _, f := range families {
		for k, v := range []float64{f.CostA, f.MetA, f.CostB, f.MetB} {
			if v < 0 {
				return Ratio{}, refuse(method, ErrRange, "family %q: %v", f.Family, v)
			}
			parts[k] = append(parts[k], FamilyTotals{Family: f.Family, A: v})
		}
	}
	var influence []float64
	logRatio, sign := 0.0, [4]float64{1, -1, -1, 1}
	for k := range parts {
		fams, err := mergeTotals(parts[k])
		if err != nil {
			return Ratio{}, &Refusal{Method: method, Rule: err}
		}
		if influence == nil {
			influence = make([]float64, len(fams))
		}
		var total float64
		for _, f := range fams {
			total += f.A
		}
		if total == 0 {
			rule := ErrNotPositive
			if k%2 == 1 {
				rule = ErrNoSuccess
			}
			return Ratio{}, refuse(method, rule, "arm %s", "AABB"[k:k+1])
		}
		logRatio += sign[k] * math.Log(total)
		for i, f := range fams {
			influence[i] += sign[k] * f.A / total
		}
	}
	c := float64(len(influence))
	r := Ratio{Families: len(influence), Ratio: math.Exp(logRatio), Level: level}
	if err := checkResult(method, r.Ratio); err != nil {
		return Ratio{}, err
	}
	if err := checkFamilies(method, r.Families); err != nil {
		return r, err
	}
	var ss float64
	for _, e := range influence {
		ss += e * e
	}
	se := snap(math.Sqrt(ss*c/(c-1)), 1)
	if se == 0 {
		return r, refuse(method, ErrNoVariation, "%d families", r.Families)
	}
	w := tTwoSided(level, c-1) * se
	in := Interval{r.Ratio * math.Exp(-w), r.Ratio * math.Exp(w)}
	if err := checkResult(method, in.Lo, in.Hi); err != nil {
		return r, err
	}
	r.Interval, r.LogDelta = in, &in
	return r, nil
}

// LogRatio is a paired ratio of geometric means.
type LogRatio struct {
	Families int
	Ratio    float64 // exp of the mean of log(A/B)
	Interval
	Level float64
	CV    float64 // of one family's ratio: √(exp(s²)−1)
	// SE and Mean are on the scale of the logarithm.
	Mean, SE float64
	DF       int
}

// FamilyLogRatio is exp(m ± t·s/√C) of log(A/B) over families. It answers "by
// what factor, typically", not "by what factor does the bill change"; for money
// use FamilyRatio.
//
// Assumption: log ratios of families are roughly normal and weigh equally.
// Errors: ErrNoData, ErrNotFinite, ErrNotPositive, ErrTooFewFamilies,
// ErrNoVariation, ErrRange.
func FamilyLogRatio(families []FamilyTotals, level float64) (LogRatio, error) {
	const method = "log ratio"
	if err := checkLevel(method, level); err != nil {
		return LogRatio{}, err
	}
	fams, err := mergeTotals(families)
	if err != nil {
		return LogRatio{}, &Refusal{Method: method, Rule: err}
	}
	logs := make([]float64, len(fams))
	for i, f := range fams {
		if !(f.A > 0) || !(f.B > 0) {
			return LogRatio{}, refuse(method, ErrNotPositive, "family %q: %v and %v", f.Family, f.A, f.B)
		}
		logs[i] = math.Log(f.A) - math.Log(f.B)
	}
	m := stat.Mean(logs, nil)
	if err := checkResult(method, math.Exp(m)); err != nil {
		return LogRatio{}, err
	}
	r := LogRatio{Families: len(fams), Ratio: math.Exp(m), Mean: m, Level: level, DF: len(fams) - 1}
	if err := checkFamilies(method, len(fams)); err != nil {
		return r, err
	}
	sd := stat.StdDev(logs, nil)
	r.SE = snap(stat.StdErr(sd, float64(len(fams))), max(1, largest(logs)))
	if r.SE == 0 {
		return r, refuse(method, ErrNoVariation, "every family has the ratio %v", r.Ratio)
	}
	w := tTwoSided(level, float64(r.DF)) * r.SE
	in, cv := Interval{math.Exp(m - w), math.Exp(m + w)}, math.Sqrt(math.Expm1(sd*sd))
	if err := checkResult(method, in.Lo, in.Hi, cv); err != nil {
		return r, err
	}
	r.Interval, r.CV = in, cv
	return r, nil
}

// RatioTest is a pair of one-sided t tests of a ratio against limits.
type RatioTest struct {
	TLower, PLower float64 // of ratio > lower
	TUpper, PUpper float64 // of ratio < upper
	P              float64 // the greater
}

// Within tests that the ratio lies between two limits, 0 < lower < upper
// (TOST). ErrRange, ErrNoVariation.
func (r LogRatio) Within(lower, upper float64) (RatioTest, error) {
	if !(lower > 0) || !(upper > lower) || !finite(upper) {
		return RatioTest{}, refuse("log ratio", ErrRange, "limits %v and %v", lower, upper)
	}
	if !(r.SE > 0) {
		return RatioTest{}, refuse("log ratio", ErrNoVariation, "%d families", r.Families)
	}
	d := student(float64(r.DF))
	t := RatioTest{TLower: (r.Mean - math.Log(lower)) / r.SE, TUpper: (r.Mean - math.Log(upper)) / r.SE}
	t.PLower, t.PUpper = d.Survival(t.TLower), d.CDF(t.TUpper)
	t.P = max(t.PLower, t.PUpper)
	return t, nil
}

func mergeTotals(families []FamilyTotals) ([]FamilyTotals, error) {
	sums := make([]FamilySum, len(families))
	for i, f := range families {
		sums[i] = FamilySum{f.Family, f.A, f.B}
	}
	merged, err := mergeFamilies(sums)
	if err != nil {
		return nil, err
	}
	out := make([]FamilyTotals, len(merged))
	for i, f := range merged {
		out[i] = FamilyTotals{f.Family, f.T, f.N}
	}
	return out, nil
}
