package stats

import (
	"fmt"
	"math"
	"sort"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Split is the variance of case means taken apart (statistics §1).
type Split struct {
	Means   float64 // variance of the case means, n−1 in the denominator
	Within  float64 // mean of the cases' unbiased variances
	Noise   float64 // Within/K, the part of Means that is trial noise
	Between float64 // Means − Noise, at least 0
	Clamped bool    // the unclamped Between was negative
}

// VarianceSplit splits the variance of binary results: successes[i] of trials
// in case i, the same number of trials everywhere. ErrNoData, ErrOneValue
// (fewer than two cases), ErrRange (fewer than two trials, or a count outside
// 0…trials).
func VarianceSplit(successes []int, trials int) (Split, error) {
	switch {
	case len(successes) == 0:
		return Split{}, ErrNoData
	case len(successes) == 1:
		return Split{}, ErrOneValue
	case trials < 2:
		return Split{}, fmt.Errorf("%w: %d trials", ErrRange, trials)
	}
	k := float64(trials)
	means := make([]float64, len(successes))
	within := make([]float64, len(successes))
	for i, c := range successes {
		if c < 0 || c > trials {
			return Split{}, fmt.Errorf("%w: %d successes of %d", ErrRange, c, trials)
		}
		p := float64(c) / k
		means[i], within[i] = p, p*(1-p)*k/(k-1)
	}
	s := Split{Means: stat.Variance(means, nil), Within: stat.Mean(within, nil)}
	s.Noise = s.Within / k
	if s.Between = s.Means - s.Noise; s.Between < 0 {
		s.Between, s.Clamped = 0, true
	}
	return s, nil
}

// Design states the variances of a paired comparison: W2 is the variance of
// the case differences, SA2 and SB2 the within-case variances, KA and KB the
// trials per case.
type Design struct {
	W2, SA2, SB2 float64
	KA, KB       int
	Alpha, Power float64 // two-sided alpha
}

func (d Design) variance() (v, z float64, err error) {
	if d.KA < 1 || d.KB < 1 || d.W2 < 0 || d.SA2 < 0 || d.SB2 < 0 ||
		!(d.Alpha > 0 && d.Alpha < 1) || !(d.Power > 0 && d.Power < 1) {
		return 0, 0, fmt.Errorf("%w: design %+v", ErrRange, d)
	}
	v = d.W2 + d.SA2/float64(d.KA) + d.SB2/float64(d.KB)
	return v, distuv.UnitNormal.Quantile(1-d.Alpha/2) + distuv.UnitNormal.Quantile(d.Power), nil
}

// Cases is the number of independent cases needed to detect delta (Miller
// eq. 9), not rounded up. ErrRange.
func (d Design) Cases(delta float64) (float64, error) {
	v, z, err := d.variance()
	if err != nil {
		return 0, err
	}
	if !(delta > 0) {
		return 0, fmt.Errorf("%w: delta %v", ErrRange, delta)
	}
	return z * z * v / (delta * delta), nil
}

// MDE is the smallest difference that n independent cases detect (Miller
// eq. 10). ErrRange.
func (d Design) MDE(n float64) (float64, error) {
	v, z, err := d.variance()
	if err != nil {
		return 0, err
	}
	if !(n > 0) {
		return 0, fmt.Errorf("%w: n %v", ErrRange, n)
	}
	return z * math.Sqrt(v/n), nil
}

// DiscordantPairs is the number of pairs a McNemar test needs for the
// difference delta when discordant is the rate of discordant pairs (Connor,
// Miettinen), not rounded up. ErrRange.
func DiscordantPairs(discordant, delta, alpha, power float64) (float64, error) {
	if !(alpha > 0 && alpha < 1) || !(power > 0 && power < 1) || !(delta > 0) || !(discordant <= 1) || discordant < delta {
		return 0, fmt.Errorf("%w: discordant %v, delta %v", ErrRange, discordant, delta)
	}
	za, zb := distuv.UnitNormal.Quantile(1-alpha/2), distuv.UnitNormal.Quantile(power)
	root := za*math.Sqrt(discordant) + zb*math.Sqrt(discordant-delta*delta)
	return root * root / (delta * delta), nil
}

// FamilyDesign states a test of a mean over families whose standard error is
// SD/√C with C−1 degrees of freedom; SD is CR1·√C of a pilot. Alpha is that of
// all sides together.
type FamilyDesign struct {
	SD           float64
	Alpha, Power float64
	Sides        Sides
}

// MDE is the smallest true difference that the design detects with so many
// families: (t of alpha + t of power)·SD/√C, Miller's eq. 10 with t for z.
// ErrTooFewFamilies, ErrRange.
func (d FamilyDesign) MDE(families int) (float64, error) {
	const method = "detectable difference"
	if !(d.SD >= 0) || !finite(d.SD) || !(d.Alpha > 0 && d.Alpha < 1) || !(d.Power > d.Alpha && d.Power < 1) ||
		d.Sides != UpperSide && d.Sides != BothSides {
		return 0, refuse(method, ErrRange, "%+v", d)
	}
	if err := checkFamilies(method, families); err != nil {
		return 0, err
	}
	df := float64(families - 1)
	return (tUpper(d.Alpha/float64(d.Sides), df) + tUpper(1-d.Power, df)) * d.SD / math.Sqrt(float64(families)), nil
}

// maxPlanned is the greatest number of families that Families answers with.
const maxPlanned = 1 << 24

// Families is the least number of families, MinFamilies or more, with which
// the design detects delta > 0. ErrRange, also when more than 2^24 are needed.
func (d FamilyDesign) Families(delta float64) (int, error) {
	const method = "families needed"
	if !(delta > 0) || !finite(delta) {
		return 0, refuse(method, ErrRange, "delta %v", delta)
	}
	if _, err := d.MDE(MinFamilies); err != nil {
		return 0, err
	}
	enough := func(i int) bool {
		mde, err := d.MDE(MinFamilies + i)
		return err == nil && mde <= delta
	}
	most := 1
	for !enough(most - 1) {
		if most *= 2; most > maxPlanned {
			return 0, refuse(method, ErrRange, "delta %v with SD %v needs more than %d families", delta, d.SD, maxPlanned)
		}
	}
	return MinFamilies + sort.Search(most-1, enough), nil
}

// MDE is the smallest true difference that the comparison at hand could have
// detected, by its own CR1: (t of alpha + t of power)·CR1. The achieved MDE of
// statistics §0.4. ErrTooFewFamilies, ErrNoVariation, ErrRange.
func (d Difference) MDE(alpha, power float64, sides Sides) (float64, error) {
	se, _, err := d.error(CR1)
	if err != nil {
		return 0, err
	}
	return FamilyDesign{SD: se * math.Sqrt(float64(d.Clusters)), Alpha: alpha, Power: power, Sides: sides}.MDE(d.Clusters)
}

// DesignEffect is 1 + (m−1)·ICC for families of m cases on average: the factor
// on the variance of a mean, and so on the cases that a design needs (Kish
// 1965). At least 0. ErrRange.
func DesignEffect(size, icc float64) (float64, error) {
	if !(size >= 1) || !finite(size) || !(icc >= -1 && icc <= 1) {
		return 0, refuse("design effect", ErrRange, "family size %v, ICC %v", size, icc)
	}
	return max(0, 1+(size-1)*icc), nil
}
