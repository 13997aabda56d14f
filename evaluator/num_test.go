package evaluator

import (
	"encoding/json"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// TestNum_Digits: 9 decimals, 10 significant digits, no trailing zeros.
func TestNum_Digits(t *testing.T) {
	t.Parallel()
	for f, want := range map[float64]string{
		0: "0", math.Copysign(0, -1): "0", -1e-12: "0", 1: "1", -2.5: "-2.5", 1e-9: "0.000000001", .1234567894: "0.123456789",
		9.9999999999: "10", 1.0000000004: "1", 12.3456789012: "12.3456789", 42390617.890090644: "42390617.89", 1234567891: "1234567891",
		99999999999: "100000000000", 12345678901234: "12345678900000", 1e300: Num(1e300).String(), 3: "3", 1e10: "10000000000",
	} {
		if got := Num(f).String(); got != want {
			t.Errorf("%v: %s, want %s", f, got, want)
		}
	}
	if s := Num(1e300).String(); len(s) != 301 || s[:3] != "100" {
		t.Errorf("1e300: %.20s", s)
	}
	for _, f := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if b, err := json.Marshal(Num(f)); err == nil {
			t.Errorf("%v marshals as %s", f, b)
		}
	}
}

// TestNum_LastBitsDoNotShow: pairs that one program printed with and without
// fused multiply-add (GOAMD64=v3 and v1) are the same text.
func TestNum_LastBitsDoNotShow(t *testing.T) {
	t.Parallel()
	for _, x := range [][2]float64{
		{-6867511.516755049, -6867511.516755064},
		{3291800.06675505, 3291800.066755064},
		{42390617.890090644, 42390617.890090637},
		{48307518.771948889, 48307518.771948896},
		{4297246.544958393, 4297246.544958391},
		{2504617.378853818, 2504617.378853973},
	} {
		if a, b := Num(x[0]).String(), Num(x[1]).String(); a != b {
			t.Errorf("%s and %s", a, b)
		}
	}
}

// TestNum_IsStable: what is printed is printed alike once it is read, lies
// within its rounding, and never turns round.
func TestNum_IsStable(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := rapid.Float64().Draw(t, "f")
		g := rapid.Float64Range(-1e12, 1e12).Draw(t, "g")
		for _, x := range []float64{f, g, g / 1e9} {
			r := Num(x).Round()
			if Num(r).String() != Num(x).String() || math.Abs(r-x) > 5.1e-10*math.Max(1, math.Abs(x)) {
				t.Errorf("%v becomes %v, then %v", x, r, Num(r))
			}
		}
		if (f < g) && Num(f).Round() > Num(g).Round() {
			t.Errorf("%v and %v change places", f, g)
		}
	})
}
