package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// ABC is the approximate bootstrap interval of ΣT/ΣN over families: what BCa
// tends to, from derivatives and without a random draw.
type ABC struct {
	Families int
	Estimate float64
	SE       float64 // of the infinitesimal jackknife
	Level    float64
	Interval
	Z0, Accel   float64
	Undercovers bool // fewer than UndercoversBelow families
}

// ClusterABC is the deterministic cousin of ClusterBootstrap: the same
// assumptions and the same lack of coverage with few families, no seed, and a
// cost of one pass over the families.
//
// Errors: ErrNoData, ErrNotFinite, ErrRange, ErrTooFewFamilies, ErrNoVariation,
// and ErrUnbounded when a limit reaches a denominator of zero. Source: DiCiccio
// and Efron 1992.
func ClusterABC(families []FamilySum, level float64) (ABC, error) {
	const method = "ABC interval"
	if err := checkLevel(method, level); err != nil {
		return ABC{}, err
	}
	fams, err := mergeFamilies(families)
	if err != nil {
		return ABC{}, &Refusal{Method: method, Rule: err}
	}
	c := float64(len(fams))
	out := ABC{Families: len(fams), Level: level, Undercovers: len(fams) < UndercoversBelow}
	var t, n, scale float64
	for _, f := range fams {
		t += f.T / c
		n += f.N / c
		scale = max(scale, math.Abs(f.T))
	}
	if !(n > 0) {
		return out, refuse(method, ErrRange, "the denominator is %v", n)
	}
	if err := checkResult(method, t/n); err != nil {
		return out, err
	}
	out.Estimate = t / n
	if err := checkFamilies(method, out.Families); err != nil {
		return out, err
	}
	// l is the influence of a family, its derivative in the direction of that
	// family; bias sums the second derivatives.
	l := make([]float64, len(fams))
	var squares, cubes, bias float64
	for i, f := range fams {
		l[i] = (f.T - out.Estimate*f.N) / n
		squares += l[i] * l[i]
		cubes += l[i] * l[i] * l[i]
		bias -= (f.N - n) / n * l[i] / (c * c)
	}
	se := snap(math.Sqrt(squares)/c, scale/n)
	if se == 0 {
		return out, refuse(method, ErrNoVariation, "every family gives %v", out.Estimate)
	}
	accel := cubes / (6 * math.Pow(squares, 1.5))
	if err := checkResult(method, se, accel); err != nil {
		return out, err
	}
	out.SE, out.Accel = se, accel
	// u and v are the slopes of ΣT and ΣN in the least favourable direction.
	var u, v float64
	for i, f := range fams {
		u += l[i] * f.T / (c * c * se)
		v += l[i] * f.N / (c * c * se)
	}
	curvature := -v / n
	unit := distuv.UnitNormal
	z0 := unit.Quantile(min(max(2*unit.CDF(accel)*unit.CDF(-(bias/se-curvature)), 0), 1))
	if err := checkResult(method, z0); err != nil {
		return out, err
	}
	out.Z0 = z0
	at := func(q float64) (float64, bool) {
		w := out.Z0 + unit.Quantile(q)
		d := 1 - out.Accel*w
		lambda := w / (d * d)
		below := n + lambda*v
		x := (t + lambda*u) / below
		return x, d > 0 && below > 0 && finite(x)
	}
	lo, okLo := at((1 - level) / 2)
	hi, okHi := at(1 - (1-level)/2)
	if !okLo || !okHi || lo > hi {
		return out, refuse(method, ErrUnbounded, "z0 %.4g, acceleration %.4g", out.Z0, out.Accel)
	}
	out.Interval = Interval{lo, hi}
	return out, nil
}
