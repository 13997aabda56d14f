package stats

import (
	"math"

	"gonum.org/v1/gonum/stat/distuv"
)

// PairedTable counts pairs of binary results of two arms on the same case: one
// trial per arm and case, cases independent. With repeated trials or with
// families use the clustered difference instead: McNemar on them counts trials
// as evidence (statistics §4).
type PairedTable struct {
	Both, AOnly, BOnly, Neither int // a, b, c, d of the literature
}

// mostPairs keeps sums and products of counts exact enough.
const mostPairs = 1 << 40

// N is the number of pairs.
func (t PairedTable) N() int { return t.Both + t.AOnly + t.BOnly + t.Neither }

// Difference is the success rate of A less that of B. ErrNoData, ErrRange.
func (t PairedTable) Difference() (float64, error) {
	if err := t.check("paired difference"); err != nil {
		return 0, err
	}
	return float64(t.AOnly-t.BOnly) / float64(t.N()), nil
}

// ChiSquare is a statistic, its degrees of freedom and the chance of one at
// least as large.
type ChiSquare struct {
	Stat float64
	DF   int
	P    float64
}

// McNemarExact is the two-sided exact conditional p: min(1, 2·P(B ≤ min(b,c)))
// for B ~ Bin(b+c, ½) (McNemar 1947); 1 when no pair is discordant. It never
// exceeds its level and is conservative. ErrNoData, ErrRange.
func (t PairedTable) McNemarExact() (float64, error) {
	if err := t.check("McNemar exact"); err != nil {
		return 0, err
	}
	if t.AOnly == t.BOnly {
		return 1, nil
	}
	return math.Min(1, 2*t.half(min(t.AOnly, t.BOnly))), nil
}

// McNemarMidP is the two-sided mid-p (Fagerland, Lydersen and Laake 2013): the
// exact p less the probability of the observed table. At b = c it is 1, as
// 2·P(B ≤ m) − P(B = m) gives; other packages halve the point probability
// there (1 − ½P(B = m)), which never changes a verdict. ErrNoData, ErrRange.
func (t PairedTable) McNemarMidP() (float64, error) {
	if err := t.check("McNemar mid-p"); err != nil {
		return 0, err
	}
	if t.AOnly == t.BOnly {
		return 1, nil
	}
	m := min(t.AOnly, t.BOnly)
	return clamp01(t.half(m) + t.half(m-1)), nil
}

// McNemarAsymptotic is (b−c)²/(b+c) against χ² with one degree of freedom; 0
// and p = 1 when no pair is discordant. ErrNoData, ErrRange.
func (t PairedTable) McNemarAsymptotic() (ChiSquare, error) { return t.asymptotic("McNemar", 0) }

// McNemarCorrected is Edwards's continuity correction, (|b−c|−1)²/(b+c), the
// difference not under 0. More conservative than the exact test; here for
// comparison with published tables. ErrNoData, ErrRange.
func (t PairedTable) McNemarCorrected() (ChiSquare, error) {
	return t.asymptotic("McNemar with continuity correction", 1)
}

// McNemarAWorse is the one-sided exact p for "A passes less often than B":
// P(B ≤ b) for B ~ Bin(b+c, ½); 1 when no pair is discordant. ErrNoData,
// ErrRange.
func (t PairedTable) McNemarAWorse() (float64, error) {
	if err := t.check("McNemar one-sided"); err != nil {
		return 0, err
	}
	return t.half(t.AOnly), nil
}

// McNemarABetter is the one-sided exact p for "A passes more often than B".
// ErrNoData, ErrRange.
func (t PairedTable) McNemarABetter() (float64, error) { return t.swap().McNemarAWorse() }

func (t PairedTable) asymptotic(method string, correction float64) (ChiSquare, error) {
	if err := t.check(method); err != nil {
		return ChiSquare{}, err
	}
	nd := float64(t.AOnly + t.BOnly)
	if nd == 0 {
		return ChiSquare{DF: 1, P: 1}, nil
	}
	diff := math.Max(0, math.Abs(float64(t.AOnly-t.BOnly))-correction)
	return chiSquare(diff*diff/nd, 1), nil
}

// half is P(B ≤ x) for B ~ Bin(b+c, ½), by symmetry P(B ≥ b+c−x), which keeps
// the digits of a small tail.
func (t PairedTable) half(x int) float64 {
	n := float64(t.AOnly + t.BOnly)
	return atLeast(n-float64(x), n, .5)
}

func (t PairedTable) swap() PairedTable {
	t.AOnly, t.BOnly = t.BOnly, t.AOnly
	return t
}

func (t PairedTable) check(method string) error {
	if min(t.Both, t.AOnly, t.BOnly, t.Neither) < 0 || max(t.Both, t.AOnly, t.BOnly, t.Neither) > mostPairs {
		return refuse(method, ErrRange, "%+v, counts go from 0 to 2^40", t)
	}
	if t.N() == 0 {
		return refuse(method, ErrNoData, "0 pairs")
	}
	return nil
}

func chiSquare(stat float64, df int) ChiSquare {
	return ChiSquare{Stat: stat, DF: df, P: distuv.ChiSquared{K: float64(df)}.Survival(stat)}
}

// CochranQ tests whether k ≥ 2 arms succeed equally often: rows[i][j] is the
// result of case i in arm j, one trial each, cases independent (Cochran 1950).
// The reference χ² with k−1 degrees of freedom is asymptotic in the cases whose
// arms disagree. For k = 2 it is McNemarAsymptotic. Q is 0 and p is 1 when no
// case tells the arms apart. ErrNoData, ErrLength, ErrRange.
func CochranQ(rows [][]bool) (ChiSquare, error) {
	const method = "Cochran Q"
	if len(rows) == 0 {
		return ChiSquare{}, refuse(method, ErrNoData, "0 cases")
	}
	k := len(rows[0])
	if k < 2 {
		return ChiSquare{}, refuse(method, ErrRange, "%d arms", k)
	}
	columns := make([]float64, k)
	var total, rowSquares float64
	for i, row := range rows {
		if len(row) != k {
			return ChiSquare{}, refuse(method, ErrLength, "case %d has %d arms, the first has %d", i+1, len(row), k)
		}
		var sum float64
		for j, ok := range row {
			if ok {
				sum++
				columns[j]++
			}
		}
		total += sum
		rowSquares += sum * sum
	}
	arms := float64(k)
	if arms*total == rowSquares {
		return ChiSquare{DF: k - 1, P: 1}, nil
	}
	var columnSquares float64
	for _, c := range columns {
		columnSquares += c * c
	}
	return chiSquare((arms-1)*(arms*columnSquares-total*total)/(arms*total-rowSquares), k-1), nil
}

// DiscordantFamily counts the pairs of one family: where only A passed, where
// only B passed, and all of them.
type DiscordantFamily struct{ AOnly, BOnly, Pairs int }

// ClusteredMcNemar is Durkalski's test for clustered matched pairs (Durkalski,
// Palesch, Lipsitz and Rust 2003): X² = (ΣD)²/ΣD² with D = (b−c)/n per family,
// against χ² with one degree of freedom. It assumes independent families and is
// asymptotic in their number; X² never exceeds it, so few families make the test
// conservative. ErrTooFewFamilies; ErrNoVariation when no family
// differs; ErrRange.
func ClusteredMcNemar(families []DiscordantFamily) (ChiSquare, error) {
	const method = "clustered McNemar"
	if err := checkFamilies(method, len(families)); err != nil {
		return ChiSquare{}, err
	}
	var sum, squares float64
	for i, f := range families {
		if f.Pairs < 1 || f.AOnly < 0 || f.BOnly < 0 || f.AOnly > f.Pairs || f.BOnly > f.Pairs-f.AOnly {
			return ChiSquare{}, refuse(method, ErrRange, "family %d: %+v", i+1, f)
		}
		d := float64(f.AOnly-f.BOnly) / float64(f.Pairs)
		sum += d
		squares += d * d
	}
	if squares == 0 {
		return ChiSquare{}, refuse(method, ErrNoVariation, "no family differs")
	}
	return chiSquare(sum*sum/squares, 1), nil
}
