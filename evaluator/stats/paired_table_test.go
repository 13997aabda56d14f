package stats

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestS5_NewcombeVectors(t *testing.T) {
	t.Parallel()
	table := PairedTable{20, 12, 2, 16}
	ten, err := table.Newcombe10(.95)
	nearInterval(t, "method 10", ten, err, .0562, .3292, 5e-5)
	nearInterval(t, "method 10", ten, err, .0561564, .3292070, 5.1e-8)
	eight, err := table.Newcombe8(.95)
	nearInterval(t, "method 8", eight, err, .0618, .3242, 5e-5)
	nearInterval(t, "method 8", eight, err, .0618048, .3241623, 5.1e-8)
	edge, err := PairedTable{1, 0, 0, 1}.Newcombe10(.95)
	nearInterval(t, "degenerate", edge, err, -.5734, .5734, 5e-5)
	altman, err := PairedTable{14, 5, 0, 22}.Newcombe10(.95)
	nearInterval(t, "Altman 6.2", altman, err, .0114832, .2264927, 5.1e-8)
}

func TestS5_TangoVectors(t *testing.T) {
	t.Parallel()
	seven := PairedTable{Both: 20, AOnly: 9, BOnly: 3}
	got, err := seven.Tango(.95)
	nearInterval(t, "Table VII", got, err, -.027, .390, 5e-4)
	nearInterval(t, "Table VII", got, err, -.0270905, .3896975, 5.1e-8)
	five := PairedTable{Both: 43, BOnly: 1}
	got, err = five.Tango(.9)
	nearInterval(t, "Table V", got, err, -.096, .037, 5e-4)
	nearInterval(t, "Table V", got, err, -.0956624, .0365169, 5.1e-8)
	ni := value[ZTest](t)(five.NonInferior(.1))
	near(t, "Z of Table V", ni.Z, 1.708564, 5.1e-7)
	near(t, "p of Table V", ni.P, .0437658, 5.1e-8)
	got, err = PairedTable{AOnly: 3}.Tango(.95)
	nearInterval(t, "all for A", got, err, -.1230, 1, 5e-5)
	got, err = PairedTable{BOnly: 3}.Tango(.95)
	nearInterval(t, "all for B", got, err, -1, .1230, 5e-5)
}

func TestS5_TangoNonInferiority(t *testing.T) {
	t.Parallel()
	for _, v := range []struct{ b, c, n, m, z, p, zTol, pTol float64 }{
		{12, 14, 150, .05, 1.060821, .144386, 5.1e-7, 5.1e-7},
		{5, 5, 200, .05, 2.543743, .0054836, 5.1e-7, 5.1e-8},
		{9, 3, 32, .1, 2.551456, .0053637, 5.1e-7, 5.1e-8},
		{0, 0, 50, .05, 1.622214, .0523787, 5.1e-7, 5.1e-8},
	} {
		table := PairedTable{Both: int(v.n - v.b - v.c), AOnly: int(v.b), BOnly: int(v.c)}
		got := value[ZTest](t)(table.NonInferior(v.m))
		near(t, "Z", got.Z, v.z, v.zTol)
		near(t, "p", got.P, v.p, v.pTol)
	}
}

// TestS5_NoDisagreementIsNotNoDoubt: 50 pairs without a discordant one do not
// show non-inferiority at a margin of 5 points.
func TestS5_NoDisagreementIsNotNoDoubt(t *testing.T) {
	t.Parallel()
	table := PairedTable{Both: 50}
	two, err := table.Tango(.95)
	nearInterval(t, "95 %", two, err, -.0713476, .0713476, 5.1e-8)
	one, err := table.Tango(.9)
	nearInterval(t, "90 %", one, err, -.0513332, .0513332, 5.1e-8)
	if p := value[ZTest](t)(table.NonInferior(.05)).P; p <= .05 {
		t.Errorf("non-inferior at p %v", p)
	}
	if z := value[float64](t)(table.TangoZ(0)); z != 0 {
		t.Errorf("Z at no difference: %v", z)
	}
}

func drawTable(t *rapid.T) PairedTable {
	cell := func(name string) int {
		return rapid.OneOf(rapid.IntRange(0, 3), rapid.IntRange(0, 300)).Draw(t, name)
	}
	table := PairedTable{cell("a"), cell("b"), cell("c"), cell("d")}
	if table.N() == 0 {
		table.Neither = 1
	}
	return table
}

// TestS5_PairedIntervalsBehave: each holds the observed difference, lies in
// [−1, 1], grows with the level, and turns round when the arms swap.
func TestS5_PairedIntervalsBehave(t *testing.T) {
	t.Parallel()
	methods := map[string]func(PairedTable, float64) (Interval, error){
		"Newcombe 10": PairedTable.Newcombe10, "Newcombe 8": PairedTable.Newcombe8, "Tango": PairedTable.Tango,
	}
	rapid.Check(t, func(t *rapid.T) {
		table := drawTable(t)
		lo := rapid.Float64Range(.3, .98).Draw(t, "level")
		hi := rapid.Float64Range(lo, .999).Draw(t, "higher level")
		d, err := table.Difference()
		if err != nil {
			t.Fatal(err)
		}
		for name, f := range methods {
			a, err1 := f(table, lo)
			b, err2 := f(table, hi)
			m, err3 := f(table.swap(), lo)
			if err := errors.Join(err1, err2, err3); err != nil {
				t.Fatal(err)
			}
			const ulps = 1e-12
			if a.Lo > d+ulps || a.Hi < d-ulps || a.Lo < -1 || a.Hi > 1 {
				t.Errorf("%s: %v does not hold %v", name, a, d)
			}
			if b.Lo > a.Lo+ulps || b.Hi < a.Hi-ulps {
				t.Errorf("%s: %v at %v is not inside %v at %v", name, a, lo, b, hi)
			}
			if math.Abs(m.Lo+a.Hi) > ulps || math.Abs(m.Hi+a.Lo) > ulps {
				t.Errorf("%s: %v and with swapped arms %v", name, a, m)
			}
		}
	})
}

// TestS5_TangoStatistic: it is the score statistic with the restricted estimate
// found by searching the likelihood, falls with the hypothesis, and its test
// agrees with its interval.
func TestS5_TangoStatistic(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		table := drawTable(t)
		d0 := rapid.Float64Range(-.95, .95).Draw(t, "d0")
		more := rapid.Float64Range(d0, .95).Draw(t, "greater d0")
		z, err1 := table.TangoZ(d0)
		z2, err2 := table.TangoZ(more)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if z2 > z+1e-9 || math.IsNaN(z) || math.IsInf(z, 0) {
			t.Errorf("%+v: Z(%v) = %v, Z(%v) = %v", table, d0, z, more, z2)
		}
		if want := naiveTangoZ(table, d0); math.Abs(z-want) > 1e-5*math.Max(1, math.Abs(want)) {
			t.Errorf("%+v: Z(%v) = %v, by search %v", table, d0, z, want)
		}
		margin, alpha := rapid.Float64Range(0, .5).Draw(t, "margin"), rapid.Float64Range(.01, .3).Draw(t, "alpha")
		test, err1 := table.NonInferior(margin)
		ci, err2 := table.Tango(1 - 2*alpha)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		if math.Abs(test.P-alpha) > 1e-9 && math.Abs(ci.Lo+margin) > 1e-9 && (test.P < alpha) != (ci.Lo > -margin) {
			t.Errorf("%+v: p %v at alpha %v, but the lower limit is %v at margin %v", table, test.P, alpha, ci.Lo, margin)
		}
		if sup, err := table.NonInferior(0); err != nil || table.AOnly+table.BOnly > 0 &&
			math.Abs(sup.Z-float64(table.AOnly-table.BOnly)/math.Sqrt(float64(table.AOnly+table.BOnly))) > 1e-9 {
			t.Errorf("%+v: superiority %v (%v)", table, sup, err)
		}
	})
}

// TestS5_TangoNonInferiorityNearlyHoldsItsLevel sums, over all tables, the
// chance to call A non-inferior when it is worse by exactly the margin.
func TestS5_TangoNonInferiorityNearlyHoldsItsLevel(t *testing.T) {
	t.Parallel()
	logFactorial := func(k int) float64 { return lgamma(float64(k) + 1) }
	for n, most := range map[int]float64{8: .081, 24: .058, 48: .058} {
		const margin = .1
		for pb := 0.0; 2*pb+margin <= 1; pb += .02 {
			pc := pb + margin
			var size float64
			for b := range n + 1 {
				for c := range n - b + 1 {
					table := PairedTable{Both: n - b - c, AOnly: b, BOnly: c}
					if value[ZTest](t)(table.NonInferior(margin)).P <= .05 {
						size += math.Exp(logFactorial(n) - logFactorial(b) - logFactorial(c) - logFactorial(n-b-c) +
							xlogy(float64(b), pb) + xlogy(float64(c), pc) + xlogy(float64(n-b-c), 1-pb-pc))
					}
				}
			}
			if size > most {
				t.Errorf("%d pairs, B-only %.2f: level %v", n, pc, size)
			}
		}
	}
}

// naiveTangoZ maximises the likelihood of the table under pB-only = q,
// pA-only = q + d0 by golden-section search.
func naiveTangoZ(table PairedTable, d0 float64) float64 {
	b, c, n := float64(table.AOnly), float64(table.BOnly), float64(table.N())
	loglik := func(q float64) float64 {
		return xlogy(b, q+d0) + xlogy(c, q) + xlogy(n-b-c, 1-d0-2*q)
	}
	lo, hi := math.Max(0, -d0), (1-d0)/2
	const ratio = .6180339887498949
	for range 200 {
		x, y := hi-ratio*(hi-lo), lo+ratio*(hi-lo)
		if loglik(x) < loglik(y) {
			lo = x
		} else {
			hi = y
		}
	}
	q := (lo + hi) / 2
	diff := b - c - n*d0
	if diff == 0 {
		return 0
	}
	return diff / math.Sqrt(n*(2*q+d0*(1-d0)))
}

func TestS5_Refusals(t *testing.T) {
	t.Parallel()
	interval := func(_ Interval, err error) error { return err }
	number := func(_ float64, err error) error { return err }
	test := func(_ ZTest, err error) error { return err }
	some := PairedTable{1, 1, 1, 1}
	for i, c := range []struct{ got, want error }{
		{interval(PairedTable{}.Newcombe10(.95)), ErrNoData},
		{interval(PairedTable{Both: -1}.Newcombe8(.95)), ErrRange},
		{interval(some.Newcombe10(0)), ErrRange},
		{interval(PairedTable{}.Tango(.95)), ErrNoData},
		{interval(some.Tango(1)), ErrRange},
		{number(some.TangoZ(1)), ErrRange},
		{number(some.TangoZ(math.NaN())), ErrRange},
		{number(PairedTable{}.TangoZ(0)), ErrNoData},
		{test(some.NonInferior(1)), ErrRange},
		{test(some.NonInferior(-.1)), ErrRange},
		{test(PairedTable{}.NonInferior(.1)), ErrNoData},
	} {
		var r *Refusal
		if !errors.Is(c.got, c.want) || !errors.As(c.got, &r) || r.Method == "" {
			t.Errorf("refusal %d: got %v, want %v", i, c.got, c.want)
		}
	}
}
