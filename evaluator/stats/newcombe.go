package stats

import "math"

// Newcombe10 is Newcombe's method 10 for the paired difference of two rates
// (Statist. Med. 17, 1998, 2635): Wilson limits of both rates, joined with a
// continuity-corrected φ. One trial per arm and case, independent cases.
// ErrNoData, ErrRange.
func (t PairedTable) Newcombe10(level float64) (Interval, error) {
	return t.newcombe("Newcombe 10", level, true)
}

// Newcombe8 is method 8: as Newcombe10 without the correction of φ. Where no
// pair is discordant and half of them succeed it has no width at all; prefer
// Newcombe10. ErrNoData, ErrRange.
func (t PairedTable) Newcombe8(level float64) (Interval, error) {
	return t.newcombe("Newcombe 8", level, false)
}

func (t PairedTable) newcombe(method string, level float64, corrected bool) (Interval, error) {
	if err := t.check(method); err != nil {
		return Interval{}, err
	}
	a, b, c, d := float64(t.Both), float64(t.AOnly), float64(t.BOnly), float64(t.Neither)
	n := a + b + c + d
	one, two := Proportion{X: a + b, N: n}, Proportion{X: a + c, N: n}
	w1, err := one.Wilson(level)
	if err != nil {
		return Interval{}, err
	}
	w2, err := two.Wilson(level)
	if err != nil {
		return Interval{}, err
	}
	var phi float64
	if margins := (a + b) * (c + d) * (a + c) * (b + d); margins > 0 {
		cross := a*d - b*c
		if corrected && cross > 0 {
			cross = math.Max(cross-n/2, 0)
		}
		phi = cross / math.Sqrt(margins)
	}
	p1, p2, diff := one.X/n, two.X/n, (b-c)/n
	// x² − 2φxy + y², in the form that does not cancel.
	join := func(x, y float64) float64 { return math.Sqrt(math.Max(0, (x-y)*(x-y)+2*(1-phi)*x*y)) }
	return ordered(math.Max(-1, diff-join(p1-w1.Lo, w2.Hi-p2)), math.Min(1, diff+join(w1.Hi-p1, p2-w2.Lo))), nil
}
