package stats

import (
	"errors"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func discordant(b, c int) PairedTable { return PairedTable{Both: 7, AOnly: b, BOnly: c, Neither: 3} }

func TestS4_McNemarVectors(t *testing.T) {
	t.Parallel()
	for _, v := range []struct {
		b, c                          int
		exact, mid, chi2, cc, decimal float64
	}{
		{6, 16, .052479, .034690, .033006, .055009, 5.1e-7},
		{1, 7, .070313, .039063, .033895, .077100, 5.1e-7},
		{15, 19, .60759136, .49955983, .49271668, .60690543, 5.1e-9},
		{0, 3, .25, .125, .083265, .248213, 5.1e-7},
	} {
		table := discordant(v.b, v.c)
		near(t, "exact", value[float64](t)(table.McNemarExact()), v.exact, v.decimal)
		near(t, "mid-p", value[float64](t)(table.McNemarMidP()), v.mid, v.decimal)
		near(t, "chi2", value[ChiSquare](t)(table.McNemarAsymptotic()).P, v.chi2, v.decimal)
		near(t, "CC", value[ChiSquare](t)(table.McNemarCorrected()).P, v.cc, v.decimal)
	}
}

// TestS4_EqualDiscordantCountsHaveMidPOne: the convention at b = c, and the
// tables without a discordant pair.
func TestS4_EqualDiscordantCountsHaveMidPOne(t *testing.T) {
	t.Parallel()
	for _, m := range []int{0, 1, 5, 100} {
		table := discordant(m, m)
		ps := []float64{
			value[float64](t)(table.McNemarExact()),
			value[float64](t)(table.McNemarMidP()),
			value[ChiSquare](t)(table.McNemarAsymptotic()).P,
			value[ChiSquare](t)(table.McNemarCorrected()).P,
		}
		if diff := cmp.Diff([]float64{1, 1, 1, 1}, ps); diff != "" {
			t.Errorf("b = c = %d (-want +got):\n%s", m, diff)
		}
	}
	if p := value[float64](t)(discordant(0, 0).McNemarAWorse()); p != 1 {
		t.Errorf("one-sided without discordant pairs: %v", p)
	}
}

// TestS4_McNemarAgainstSummedBinomials: every p against terms summed one by
// one, within [0, 1], the same when the arms swap.
func TestS4_McNemarAgainstSummedBinomials(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		b, c := rapid.IntRange(0, 120).Draw(t, "b"), rapid.IntRange(0, 120).Draw(t, "c")
		table, n := discordant(b, c), b+c
		cdf := func(x int) (s float64) {
			for k := range x + 1 {
				s += binomialTerm(n, k, .5)
			}
			return s
		}
		m := min(b, c)
		wantExact := math.Min(1, 2*cdf(m))
		wantMid := 1.0
		if b != c {
			wantMid = 2*cdf(m) - binomialTerm(n, m, .5)
		}
		exact, err1 := table.McNemarExact()
		mid, err2 := table.McNemarMidP()
		worse, err3 := table.McNemarAWorse()
		better, err4 := table.swap().McNemarABetter()
		exact2, err5 := table.swap().McNemarExact()
		if err := errors.Join(err1, err2, err3, err4, err5); err != nil {
			t.Fatal(err)
		}
		same := func(got, want float64) bool { return math.Abs(got-want) <= 1e-10*math.Max(want, 1e-3) }
		if !same(exact, wantExact) || !same(mid, wantMid) || !same(worse, cdf(b)) || worse != better || exact != exact2 {
			t.Errorf("b %d c %d: exact %v want %v, mid %v want %v, worse %v want %v, swapped %v %v",
				b, c, exact, wantExact, mid, wantMid, worse, cdf(b), better, exact2)
		}
		if mid > exact || exact > 1 || mid < 0 {
			t.Errorf("b %d c %d: mid %v, exact %v", b, c, mid, exact)
		}
	})
}

// TestS4_ExactTestsHoldTheirLevel: under the hypothesis the chance of an exact
// p at or under alpha is at most alpha, for every alpha.
func TestS4_ExactTestsHoldTheirLevel(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 40; n++ {
		for _, alpha := range []float64{.01, .025, .05, .1, .3} {
			var two, one float64
			for b := range n + 1 {
				table := discordant(b, n-b)
				if value[float64](t)(table.McNemarExact()) <= alpha {
					two += binomialTerm(n, b, .5)
				}
				if value[float64](t)(table.McNemarAWorse()) <= alpha {
					one += binomialTerm(n, b, .5)
				}
			}
			if two > alpha+1e-12 || one > alpha+1e-12 {
				t.Errorf("n %d: rejects %v and %v at %v", n, two, one, alpha)
			}
		}
	}
}

func bools(rows [][]int) [][]bool {
	out := make([][]bool, len(rows))
	for i, r := range rows {
		for _, x := range r {
			out[i] = append(out[i], x == 1)
		}
	}
	return out
}

// TestS4_CochranQVectors has the two tables of statsmodels, from R's CVST.
func TestS4_CochranQVectors(t *testing.T) {
	t.Parallel()
	four := bools([][]int{
		{1, 0, 1, 1}, {0, 1, 1, 1}, {1, 1, 1, 0}, {0, 1, 0, 0}, {0, 1, 0, 0}, {1, 0, 1, 0}, {0, 1, 0, 0}, {1, 1, 1, 1}, {0, 1, 0, 0},
	})
	five := bools([][]int{
		{0, 0, 1, 1, 0}, {0, 1, 0, 1, 0}, {0, 1, 1, 0, 1}, {1, 0, 0, 0, 1}, {1, 1, 0, 0, 0}, {1, 0, 1, 0, 0}, {0, 1, 0, 0, 0}, {0, 0, 1, 1, 0}, {0, 0, 0, 0, 0},
	})
	q4, q5 := value[ChiSquare](t)(CochranQ(four)), value[ChiSquare](t)(CochranQ(five))
	near(t, "9x4", q4.Stat, 4.2, 1e-12)
	near(t, "9x5", q5.Stat, 1.2174, 1.2e-4)
	if q4.DF != 3 || q5.DF != 4 {
		t.Errorf("degrees of freedom %d and %d", q4.DF, q5.DF)
	}
	flat := value[ChiSquare](t)(CochranQ(bools([][]int{{1, 1, 1}, {0, 0, 0}})))
	if diff := cmp.Diff(ChiSquare{DF: 2, P: 1}, flat); diff != "" {
		t.Errorf("no case tells the arms apart (-want +got):\n%s", diff)
	}
}

// TestS4_CochranQOfTwoArmsIsMcNemar, and with any number of arms Q is finite
// and p in [0, 1].
func TestS4_CochranQOfTwoArmsIsMcNemar(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(rapid.SliceOfN(rapid.Bool(), 2, 2), 1, 40).Draw(t, "rows")
		var table PairedTable
		for _, r := range rows {
			switch {
			case r[0] && r[1]:
				table.Both++
			case r[0]:
				table.AOnly++
			case r[1]:
				table.BOnly++
			default:
				table.Neither++
			}
		}
		q, err1 := CochranQ(rows)
		m, err2 := table.McNemarAsymptotic()
		if err1 != nil || err2 != nil || math.Abs(q.Stat-m.Stat) > 1e-9 || math.Abs(q.P-m.P) > 1e-9 || !(q.P >= 0 && q.P <= 1) {
			t.Fatalf("Q %+v (%v), McNemar %+v (%v)", q, err1, m, err2)
		}
	})
}

// TestS4_ClusteredMcNemar: with one pair a family Durkalski's statistic is
// McNemar's; copying the trials of a family leaves it as it is, where McNemar
// would count them as evidence.
func TestS4_ClusteredMcNemar(t *testing.T) {
	t.Parallel()
	var fams, copied []DiscordantFamily
	for i := range 12 {
		f := DiscordantFamily{Pairs: 1}
		switch {
		case i < 7:
			f.AOnly = 1
		case i < 8:
			f.BOnly = 1
		}
		fams = append(fams, f)
		copied = append(copied, DiscordantFamily{f.AOnly * 9, f.BOnly * 9, 9})
	}
	want := value[ChiSquare](t)(PairedTable{Both: 4, AOnly: 7, BOnly: 1}.McNemarAsymptotic())
	got, again := value[ChiSquare](t)(ClusteredMcNemar(fams)), value[ChiSquare](t)(ClusteredMcNemar(copied))
	near(t, "X2", got.Stat, want.Stat, 1e-12)
	near(t, "p", got.P, want.P, 1e-12)
	near(t, "X2 of copied trials", again.Stat, got.Stat, 1e-12)
	near(t, "X2 = 36/8", got.Stat, 4.5, 1e-12)
}

func TestS4_Refusals(t *testing.T) {
	t.Parallel()
	number := func(_ float64, err error) error { return err }
	chi := func(_ ChiSquare, err error) error { return err }
	flat := make([]DiscordantFamily, 6)
	for i := range flat {
		flat[i].Pairs = 2
	}
	bad := append([]DiscordantFamily{{AOnly: 2, BOnly: 1, Pairs: 2}}, flat...)
	for i, c := range []struct{ got, want error }{
		{number(PairedTable{}.McNemarExact()), ErrNoData},
		{number(PairedTable{Both: 3, AOnly: -1}.McNemarMidP()), ErrRange},
		{number(PairedTable{}.McNemarAWorse()), ErrNoData},
		{number(PairedTable{Both: math.MaxInt, Neither: 1}.McNemarExact()), ErrRange},
		{number(PairedTable{}.Difference()), ErrNoData},
		{chi(PairedTable{}.McNemarAsymptotic()), ErrNoData},
		{chi(PairedTable{}.McNemarCorrected()), ErrNoData},
		{chi(CochranQ(nil)), ErrNoData},
		{chi(CochranQ([][]bool{{true}})), ErrRange},
		{chi(CochranQ([][]bool{{true, false}, {true}})), ErrLength},
		{chi(ClusteredMcNemar(flat[:5])), ErrTooFewFamilies},
		{chi(ClusteredMcNemar(flat)), ErrNoVariation},
		{chi(ClusteredMcNemar(bad)), ErrRange},
		{chi(ClusteredMcNemar(append(flat, DiscordantFamily{math.MaxInt, math.MaxInt, math.MaxInt}))), ErrRange},
	} {
		var r *Refusal
		if !errors.Is(c.got, c.want) || !errors.As(c.got, &r) || r.Method == "" {
			t.Errorf("refusal %d: got %v, want %v", i, c.got, c.want)
		}
	}
}
