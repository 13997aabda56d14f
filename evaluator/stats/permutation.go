package stats

import (
	"math"
	"math/rand/v2"
)

// ExactFamilies is the greatest number of families whose 2^C sign flips are
// all counted; beyond it they are drawn.
const ExactFamilies = 20

// exactTriples is the same for the 3!^C relabellings of three arms. One family
// may keep its labels, because renaming the arms changes no maximum.
const exactTriples = 8

// tieTolerance counts a permuted statistic as tied with the observed one: it
// is a share of the greatest value the statistic can take.
const tieTolerance = 1e-9

// SignFlip is a family sign-flip test of zero difference.
type SignFlip struct {
	Families  int
	Statistic float64 // ΣT over families
	P         float64 // two-sided; never below Floor
	Greater   float64 // one-sided, against a positive difference
	Floor     float64 // the smallest two-sided p there is: 2/2^C, or 1/(1+Draws)
	Exact     bool
	Resampling
}

// SignFlipTest flips the signs of family sums: all 2^C flips up to
// ExactFamilies families, else Draws of them with p = (1+#)/(1+Draws). N of the
// sums is not used.
//
// Assumption: under the null a family's sum is as likely to be its negative,
// which holds when the arms are exchangeable within a family. It does not test
// a mean of asymmetric differences against zero.
//
// Errors: ErrNoData, ErrNotFinite, ErrTooFewFamilies, ErrNoVariation (all sums
// zero), ErrRange. Source: Fisher 1935 §21; Phipson and Smyth 2010 for the
// drawn p.
func SignFlipTest(families []FamilySum, r Resampling) (SignFlip, error) {
	const method = "sign-flip test"
	r, err := r.withDefaults(method)
	if err != nil {
		return SignFlip{}, err
	}
	merged, err := mergeFamilies(families)
	if err != nil {
		return SignFlip{}, &Refusal{Method: method, Rule: err}
	}
	out := SignFlip{Families: len(merged), Exact: len(merged) <= ExactFamilies}
	sums := make([]float64, len(merged))
	var scale float64
	for i, f := range merged {
		sums[i] = f.T
		out.Statistic += f.T
		scale += math.Abs(f.T)
	}
	if err := checkFamilies(method, out.Families); err != nil {
		return out, err
	}
	if scale == 0 {
		return out, refuse(method, ErrNoVariation, "every family sum is zero")
	}
	f := flips{sums: sums, observed: out.Statistic, tolerance: tieTolerance * scale}
	if out.Exact {
		f.all(0, 0)
		total := math.Ldexp(1, out.Families)
		out.P, out.Greater, out.Floor = float64(f.extreme)/total, float64(f.greater)/total, 2/total
		return out, nil
	}
	out.Resampling = r
	f.draw(r)
	total := float64(1 + r.Draws)
	out.P, out.Greater, out.Floor = float64(1+f.extreme)/total, float64(1+f.greater)/total, 1/total
	return out, nil
}

// flips counts flipped sums that reach the observed one.
type flips struct {
	sums      []float64
	observed  float64
	tolerance float64
	extreme   int // |T*| ≥ |T|
	greater   int // T* ≥ T
}

func (f *flips) count(t float64) {
	if math.Abs(t) >= math.Abs(f.observed)-f.tolerance {
		f.extreme++
	}
	if t >= f.observed-f.tolerance {
		f.greater++
	}
}

func (f *flips) all(i int, t float64) {
	if i == len(f.sums) {
		f.count(t)
		return
	}
	f.all(i+1, t+f.sums[i])
	f.all(i+1, t-f.sums[i])
}

func (f *flips) draw(r Resampling) {
	src := rand.NewPCG(r.Seed, r.Stream)
	for range r.Draws {
		var t float64
		var bits uint64
		for i, s := range f.sums {
			if i%64 == 0 {
				bits = src.Uint64()
			}
			if bits&1 == 0 {
				s = -s
			}
			t += s
			bits >>= 1
		}
		f.count(t)
	}
}

// FamilyTriple holds the sums of one family in three arms, over the same cases
// and trials.
type FamilyTriple struct {
	Family string
	Sum    [3]float64
}

// PairP is the comparison of arms I and J (indices into FamilyTriple.Sum) of
// three.
type PairP struct {
	I, J      int
	Statistic float64 // ΣSum[I] − ΣSum[J]
	Alone     float64 // two-sided sign-flip p of this pair by itself
	Max       float64 // p by the maximum over the three pairs
	// Adjusted is the greater of Alone and Max. It controls the chance of any
	// false pair: when the three arms are equal by Max, and when just two are
	// by Alone, which Max by itself would not warrant.
	Adjusted float64
}

// ThreeArms is the comparison of three arms at once.
type ThreeArms struct {
	Families int
	Omnibus  float64 // p of "all three arms are equal", by the maximum
	Pairs    [3]PairP
	Exact    bool
	Resampling
}

// MaxStatistic permutes the labels of the arms within families and compares
// each pair with the distribution of max |ΣSum[i] − ΣSum[j]|. All 3!^C
// relabellings are counted up to 8 families, else Draws of them.
//
// Assumption: under the null the three arms are exchangeable within a family.
// Errors as SignFlipTest; ErrNoVariation when all arms agree in every family.
// Source: Westfall and Young 1993, single step.
func MaxStatistic(families []FamilyTriple, r Resampling) (ThreeArms, error) {
	const method = "max-statistic"
	r, err := r.withDefaults(method)
	if err != nil {
		return ThreeArms{}, err
	}
	triples, err := mergeTriples(families)
	if err != nil {
		return ThreeArms{}, &Refusal{Method: method, Rule: err}
	}
	out := ThreeArms{Families: len(triples), Exact: len(triples) <= exactTriples}
	if !out.Exact {
		out.Resampling = r
	}
	if err := checkFamilies(method, out.Families); err != nil {
		return out, err
	}
	var total [3]float64
	var scale float64
	for _, f := range triples {
		scale += max(f[0], f[1], f[2]) - min(f[0], f[1], f[2])
		for k := range total {
			total[k] += f[k]
		}
	}
	if scale == 0 {
		return out, refuse(method, ErrNoVariation, "the arms agree in every family")
	}
	m := maxima{triples: triples, tolerance: tieTolerance * scale}
	for k, ij := range pairsOfThree {
		m.observed[k] = math.Abs(total[ij[0]] - total[ij[1]])
	}
	var of float64
	if out.Exact {
		m.all(1, triples[0])
		of = math.Pow(6, float64(out.Families-1))
	} else {
		m.draw(r)
		of = float64(1 + r.Draws)
		for k := range m.reached {
			m.reached[k]++
		}
	}
	out.Omnibus = 1
	for k, ij := range pairsOfThree {
		p := PairP{I: ij[0], J: ij[1], Statistic: total[ij[0]] - total[ij[1]], Max: float64(m.reached[k]) / of}
		if p.Alone, err = pairAlone(families, ij, r); err != nil {
			return out, err
		}
		p.Adjusted = max(p.Alone, p.Max)
		out.Pairs[k] = p
		out.Omnibus = min(out.Omnibus, p.Max)
	}
	return out, nil
}

var pairsOfThree = [3][2]int{{0, 1}, {0, 2}, {1, 2}}

// pairAlone is the sign-flip p of two of the arms; 1 when they agree in every
// family.
func pairAlone(families []FamilyTriple, ij [2]int, r Resampling) (float64, error) {
	sums := make([]FamilySum, len(families))
	agree := true
	for i, f := range families {
		sums[i] = FamilySum{f.Family, f.Sum[ij[0]] - f.Sum[ij[1]], 1}
		agree = agree && sums[i].T == 0
	}
	if agree {
		return 1, nil
	}
	s, err := SignFlipTest(sums, r)
	return s.P, err
}

func mergeTriples(families []FamilyTriple) ([][3]float64, error) {
	var out [][3]float64
	for k := range 3 {
		sums := make([]FamilySum, len(families))
		for i, f := range families {
			sums[i] = FamilySum{f.Family, f.Sum[k], 1}
		}
		merged, err := mergeFamilies(sums)
		if err != nil {
			return nil, err
		}
		if out == nil {
			out = make([][3]float64, len(merged))
		}
		for i, f := range merged {
			out[i][k] = f.T
		}
	}
	return out, nil
}

// maxima counts relabellings whose greatest pairwise difference reaches that
// of each observed pair.
type maxima struct {
	triples   [][3]float64
	observed  [3]float64 // |difference| of pairsOfThree
	tolerance float64
	reached   [3]int
}

func (m *maxima) count(t [3]float64) {
	most := max(t[0], t[1], t[2]) - min(t[0], t[1], t[2])
	for k, o := range m.observed {
		if most >= o-m.tolerance {
			m.reached[k]++
		}
	}
}

var relabellings = [6][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}

func (m *maxima) all(i int, t [3]float64) {
	if i == len(m.triples) {
		m.count(t)
		return
	}
	f := m.triples[i]
	for _, l := range relabellings {
		m.all(i+1, [3]float64{t[0] + f[l[0]], t[1] + f[l[1]], t[2] + f[l[2]]})
	}
}

func (m *maxima) draw(r Resampling) {
	rng := rand.New(rand.NewPCG(r.Seed, r.Stream))
	for range r.Draws {
		var t [3]float64
		for _, f := range m.triples {
			l := relabellings[rng.IntN(6)]
			t[0] += f[l[0]]
			t[1] += f[l[1]]
			t[2] += f[l[2]]
		}
		m.count(t)
	}
}
