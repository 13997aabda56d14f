package stats

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Pair is one case in two arms: A and B are its means over the same trials.
// Family is the cluster, the unit of inference.
type Pair struct {
	Family string
	A, B   float64
}

// SEMethod names the standard error that a test rests on, as reports print it.
type SEMethod string

const (
	// CR1 is the clustered error with the factor √(C/(C−1)), tested with
	// C−1 degrees of freedom: the primary method (statistics §0).
	CR1 SEMethod = "CR1"
	// CR2 is the bias-reduced clustered error with Satterthwaite degrees of
	// freedom, for families of unequal size.
	CR2 SEMethod = "CR2"
)

// Difference describes A − B over cases, families as clusters. Differences of
// cases weigh equally, however many trials a case or cases a family has.
type Difference struct {
	Clustered            // of the case differences: Mean, IID, CR0, CR1, N cases, Clusters families
	MeanA, MeanB float64 // of the arms
	SEA, SEB     float64 // errors of the arms' means, families ignored
	CR2          float64 // bias-reduced clustered error
	DF2          float64 // its Satterthwaite degrees of freedom, at most C−1
	Level        float64 // of the intervals of T1 and T2

	// Correlation of A and B over cases: IID² = SEA² + SEB² − 2ρ·SEA·SEB.
	// nil when an arm does not vary.
	Correlation *float64
	// DesignEffect is (CR1/IID)²; nil when the differences do not vary.
	DesignEffect *float64
	// ICC is the share of variance between families (one-way ANOVA estimate;
	// it may be negative); nil when every family has one case or nothing varies.
	ICC *float64
	// Imbalance is the cases of the largest family over the average.
	Imbalance float64

	T1, T2 Inference // two-sided tests of 0 by CR1 and by CR2
}

// Inference is a two-sided t test of 0 and the interval of the same error.
type Inference struct {
	Method SEMethod
	SE, DF float64
	T, P   float64
	Lo, Hi float64
}

// PairedDifference describes and tests the mean of A − B. level is the
// confidence of the intervals, in (0, 1). The order of pairs does not matter,
// to the last bit.
//
// Assumptions: families are independent; within a family anything goes. The t
// approximation is good when no family holds much more than twice the average
// number of cases (see Imbalance); beyond that prefer CR2.
//
// Errors: ErrNoData, ErrNotFinite, ErrRange. With ErrOneCluster the means,
// N and Clusters are set. With ErrTooFewFamilies and ErrNoVariation everything
// is set but T1 and T2: the description stands, the test does not.
//
// Sources: Miller 2024 (arXiv 2411.00640) §2–4; CR2: Bell and McCaffrey 2002.
func PairedDifference(pairs []Pair, level float64) (Difference, error) {
	if !(level > 0 && level < 1) {
		return Difference{}, fmt.Errorf("paired difference: %w: level %v", ErrRange, level)
	}
	sorted := sortedPairs(pairs)
	n := len(sorted)
	a, b, diff, family := make([]float64, n), make([]float64, n), make([]float64, n), make([]string, n)
	for i, p := range sorted {
		a[i], b[i], diff[i], family[i] = p.A, p.B, p.A-p.B, p.Family
	}
	for _, v := range [][]float64{a, b, diff} {
		if err := checkFinite(v); err != nil {
			return Difference{}, fmt.Errorf("paired difference: %w", err)
		}
	}
	d := Difference{MeanA: stat.Mean(a, nil), MeanB: stat.Mean(b, nil), Level: level}
	c, err := ClusteredMean(diff, family)
	if d.Clustered = c; err != nil {
		return d, fmt.Errorf("paired difference: %w", err)
	}
	// A difference of great numbers carries their rounding.
	scale := largest(a, b)
	c.CR0, c.CR1, c.IID = snap(c.CR0, scale), snap(c.CR1, scale), snap(c.IID, scale)
	d.Clustered = c
	d.SEA = snap(stat.StdErr(stat.StdDev(a, nil), float64(n)), largest(a))
	d.SEB = snap(stat.StdErr(stat.StdDev(b, nil), float64(n)), largest(b))
	if rho := stat.Correlation(a, b, nil); d.SEA > 0 && d.SEB > 0 && finite(rho) {
		d.Correlation = new(min(max(rho, -1), 1))
	}
	if de, err := c.Deff(); err == nil {
		d.DesignEffect = &de
	}
	groups := grouped(diff, family)
	if d.IID > 0 {
		d.ICC = icc(groups)
	}
	d.Imbalance = imbalance(groups)
	d.CR2, d.DF2 = cr2(groups)
	d.CR2 = snap(d.CR2, scale)
	if err := checkFamilies("paired difference", d.Clusters); err != nil {
		return d, err
	}
	if d.T1, err = d.Test(CR1); err != nil {
		return d, err
	}
	d.T2, err = d.Test(CR2)
	return d, err
}

// Test is the two-sided test of 0 by one method, with d.Level. Errors:
// ErrTooFewFamilies, ErrNoVariation, ErrRange (unknown method or level).
func (d Difference) Test(m SEMethod) (Inference, error) {
	se, df, err := d.error(m)
	if err != nil {
		return Inference{}, err
	}
	if !(d.Level > 0 && d.Level < 1) {
		return Inference{}, fmt.Errorf("paired difference: %w: level %v", ErrRange, d.Level)
	}
	t, half := d.Mean/se, tTwoSided(d.Level, df)*se
	return Inference{
		Method: m, SE: se, DF: df, T: t, P: min(1, 2*student(df).Survival(math.Abs(t))), Lo: d.Mean - half, Hi: d.Mean + half,
	}, nil
}

// OneSided is a test of H0: A − B ≤ −Margin against A − B > −Margin.
type OneSided struct {
	Method SEMethod
	Margin float64
	SE, DF float64
	T, P   float64
	Lower  float64 // one-sided lower bound of A − B at 1−alpha
	Reject bool    // p < alpha, which is Lower > −Margin
}

// NonInferior tests H0: A − B ≤ −margin at the one-sided alpha:
// t = (mean + margin)/SE. A margin of 0 is the test of superiority, a negative
// one of superiority by at least −margin. For a metric of which less is better
// exchange the arms.
//
// Not to be replaced by the absence of a significant difference: the bound is
// compared with the margin (statistics §17.3). Errors: ErrTooFewFamilies,
// ErrNoVariation, ErrRange.
func (d Difference) NonInferior(margin, alpha float64, m SEMethod) (OneSided, error) {
	if !(alpha > 0 && alpha < 1) || math.IsNaN(margin) || math.IsInf(margin, 0) {
		return OneSided{}, fmt.Errorf("non-inferiority: %w: margin %v, alpha %v", ErrRange, margin, alpha)
	}
	se, df, err := d.error(m)
	if err != nil {
		return OneSided{}, err
	}
	t := (d.Mean + margin) / se
	p := student(df).Survival(t)
	return OneSided{
		Method: m, Margin: margin, SE: se, DF: df, T: t, P: p,
		Lower: d.Mean - tUpper(alpha, df)*se, Reject: p < alpha,
	}, nil
}

// Equivalence is the outcome of two one-sided tests.
type Equivalence struct {
	Lower, Upper OneSided // of A − B > −margin, and of B − A > −margin
	P            float64  // the greater of the two
	Lo, Hi       float64  // interval of level 1−2·alpha
	Reject       bool     // the interval lies within (−margin, margin)
}

// Equivalent is TOST (Schuirmann 1987): both one-sided tests at alpha, that is
// the interval of level 1−2·alpha inside (−margin, margin). margin > 0. Errors
// as NonInferior.
func (d Difference) Equivalent(margin, alpha float64, m SEMethod) (Equivalence, error) {
	if !(margin > 0) {
		return Equivalence{}, fmt.Errorf("equivalence: %w: margin %v", ErrRange, margin)
	}
	lower, err := d.NonInferior(margin, alpha, m)
	if err != nil {
		return Equivalence{}, err
	}
	swapped := d
	swapped.Mean = -d.Mean
	upper, err := swapped.NonInferior(margin, alpha, m)
	if err != nil {
		return Equivalence{}, err
	}
	return Equivalence{
		Lower: lower, Upper: upper, P: max(lower.P, upper.P), Lo: lower.Lower, Hi: -upper.Lower,
		Reject: lower.Reject && upper.Reject,
	}, nil
}

// error is the standard error and degrees of freedom of a method.
func (d Difference) error(m SEMethod) (se, df float64, err error) {
	if err := checkFamilies("paired difference", d.Clusters); err != nil {
		return 0, 0, err
	}
	switch m {
	case CR1:
		se, df = d.CR1, float64(d.Clusters-1)
	case CR2:
		se, df = d.CR2, d.DF2
	default:
		return 0, 0, fmt.Errorf("paired difference: %w: method %q", ErrRange, m)
	}
	if !(se > 0) || !(df > 0) {
		return 0, 0, refuse("paired difference", ErrNoVariation, "%d cases in %d families", d.N, d.Clusters)
	}
	return se, df, nil
}

func sortedPairs(pairs []Pair) []Pair {
	s := slices.Clone(pairs)
	slices.SortFunc(s, func(x, y Pair) int {
		return cmp.Or(cmp.Compare(x.Family, y.Family), cmp.Compare(x.A, y.A), cmp.Compare(x.B, y.B))
	})
	return s
}

// grouped splits values by family, in the order of the family names.
func grouped(values []float64, family []string) [][]float64 {
	by := map[string][]float64{}
	for i, v := range values {
		by[family[i]] = append(by[family[i]], v)
	}
	names := make([]string, 0, len(by))
	for k := range by {
		names = append(names, k)
	}
	slices.Sort(names)
	out := make([][]float64, len(names))
	for i, k := range names {
		out[i] = by[k]
	}
	return out
}

// icc is the one-way ANOVA estimate (Donner 1986) for groups of any sizes.
func icc(groups [][]float64) *float64 {
	var n, n2, sum, between, within float64
	for _, g := range groups {
		n += float64(len(g))
		n2 += float64(len(g) * len(g))
		for _, v := range g {
			sum += v
		}
	}
	c := float64(len(groups))
	if c < 2 || n == c {
		return nil
	}
	grand := sum / n
	for _, g := range groups {
		m := stat.Mean(g, nil)
		between += float64(len(g)) * (m - grand) * (m - grand)
		for _, v := range g {
			within += (v - m) * (v - m)
		}
	}
	msb, msw, n0 := between/(c-1), within/(n-c), (n-n2/n)/(c-1)
	rho := (msb - msw) / (msb + (n0-1)*msw)
	if !finite(rho) {
		return nil
	}
	return &rho
}

// imbalance is the size of the largest group over the average size.
func imbalance(groups [][]float64) float64 {
	n, most := 0, 0
	for _, g := range groups {
		n, most = n+len(g), max(most, len(g))
	}
	return float64(most*len(groups)) / float64(n)
}
