package stats

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Clustered is a mean with its standard errors. CR0 is Miller's clustered
// error, CR1 = CR0·√(C/(C−1)); IID ignores the clusters.
type Clustered struct {
	Mean     float64
	IID      float64
	CR0      float64
	CR1      float64
	N        int // observations
	Clusters int
}

// ClusteredMean is the mean of values and its errors, clusters[i] naming the
// cluster of values[i] (statistics §1). The order of the observations does not
// matter beyond rounding.
//
// Errors: ErrNoData, ErrLength, ErrNotFinite, ErrRange (an observation beyond
// ±1e90); and ErrOneCluster, with which
// Mean, N and Clusters are still set, because the mean of one cluster is
// defined and its error is not.
func ClusteredMean(values []float64, clusters []string) (Clustered, error) {
	if len(values) != len(clusters) {
		return Clustered{}, fmt.Errorf("%w: %d and %d", ErrLength, len(values), len(clusters))
	}
	if err := checkFinite(values); err != nil {
		return Clustered{}, err
	}
	c := Clustered{Mean: stat.Mean(values, nil), N: len(values)}
	sums := map[string]float64{}
	for i, v := range values {
		sums[clusters[i]] += v - c.Mean
	}
	c.Clusters = len(sums)
	if c.Clusters < 2 {
		return c, ErrOneCluster
	}
	names := make([]string, 0, len(sums))
	for k := range sums {
		names = append(names, k)
	}
	slices.Sort(names)
	var ss float64
	for _, k := range names {
		ss += sums[k] * sums[k]
	}
	n, k := float64(c.N), float64(c.Clusters)
	scale := largest(values)
	c.CR0 = snap(math.Sqrt(ss)/n, scale)
	c.CR1 = c.CR0 * math.Sqrt(k/(k-1))
	c.IID = snap(stat.StdErr(stat.StdDev(values, nil), n), scale)
	return c, nil
}

// snap turns an error that is nothing but rounding into zero, so that values
// without variation are refused and never tested: scale is the greatest
// magnitude that entered the sums.
func snap(se, scale float64) float64 {
	if se <= 1e-12*scale {
		return 0
	}
	return se
}

func largest(values ...[]float64) float64 {
	var most float64
	for _, vs := range values {
		for _, v := range vs {
			most = max(most, math.Abs(v))
		}
	}
	return most
}

// Deff is the design effect (CR1/IID)²: the factor by which clustering
// inflates the variance. ErrNoVariation when IID is zero.
func (c Clustered) Deff() (float64, error) {
	if c.IID == 0 {
		return 0, ErrNoVariation
	}
	r := c.CR1 / c.IID
	return r * r, nil
}

// TTest is a test of mean = 0 with Clusters−1 degrees of freedom.
type TTest struct {
	T, P   float64 // two-sided
	Lo, Hi float64 // interval of the given level
	DF     int
}

// TTest tests the mean against zero with CR1 and t of C−1 degrees of freedom;
// level is the confidence of the interval, in (0, 1). ErrOneCluster,
// ErrNoVariation, ErrRange.
func (c Clustered) TTest(level float64) (TTest, error) {
	if c.Clusters < 2 {
		return TTest{}, ErrOneCluster
	}
	if !(level > 0 && level < 1) {
		return TTest{}, fmt.Errorf("%w: level %v", ErrRange, level)
	}
	if c.CR1 == 0 {
		return TTest{}, ErrNoVariation
	}
	df := float64(c.Clusters - 1)
	t, half := c.Mean/c.CR1, tTwoSided(level, df)*c.CR1
	return TTest{T: t, P: 2 * student(df).Survival(math.Abs(t)), Lo: c.Mean - half, Hi: c.Mean + half, DF: c.Clusters - 1}, nil
}

// SEIID is the standard error of a mean of independent values. ErrNoData,
// ErrNotFinite, ErrRange, ErrOneValue.
func SEIID(values []float64) (float64, error) {
	if err := checkFinite(values); err != nil {
		return 0, err
	}
	if len(values) < 2 {
		return 0, ErrOneValue
	}
	return stat.StdErr(stat.StdDev(values, nil), float64(len(values))), nil
}

// maxMagnitude is the greatest observation that is taken: sums of the cubes of
// any number of them stay finite.
const maxMagnitude = 1e90

// checkResult refuses figures that floating point could not hold.
func checkResult(method string, figures ...float64) error {
	for _, f := range figures {
		if !finite(f) {
			return refuse(method, ErrRange, "the values are too far apart in magnitude")
		}
	}
	return nil
}

func checkFinite(values []float64) error {
	if len(values) == 0 {
		return ErrNoData
	}
	for i, v := range values {
		if !finite(v) {
			return fmt.Errorf("%w: observation %d", ErrNotFinite, i+1)
		}
		if math.Abs(v) > maxMagnitude {
			return fmt.Errorf("%w: observation %d is %v", ErrRange, i+1, v)
		}
	}
	return nil
}
