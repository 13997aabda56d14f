package stats

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/stat/distuv"
	"pgregory.net/rapid"
)

// auc is the lognormal example of SAS PROC TTEST (Wellek): test and reference.
func auc() []FamilyTotals {
	test := []float64{103.4, 59.92, 68.17, 94.54, 69.48, 72.17, 74.37, 84.44, 96.74, 94.26, 48.52, 95.68}
	ref := []float64{90.11, 77.71, 77.71, 97.51, 58.21, 101.3, 79.84, 96.06, 89.30, 97.22, 61.62, 85.80}
	var out []FamilyTotals
	for i := range test {
		out = append(out, FamilyTotals{fmt.Sprintf("%02d", i), test[i], ref[i]})
	}
	return out
}

func TestS11_LogRatioOfSAS(t *testing.T) {
	t.Parallel()
	r := value[LogRatio](t)(FamilyLogRatio(auc(), .9))
	near(t, "ratio", r.Ratio, .9411989, 5e-8)
	near(t, "CV", r.CV, .1676389, 5e-8)
	near(t, "90 % lo", r.Lo, .8633735, 5e-8)
	near(t, "90 % hi", r.Hi, 1.0260396, 5e-8)
	w := value[LogRatio](t)(FamilyLogRatio(auc(), .95))
	near(t, "95 % lo", w.Lo, .8467276, 5e-8)
	near(t, "95 % hi", w.Hi, 1.0462107, 5e-8)
	e := value[RatioTest](t)(r.Within(.8, 1.25))
	near(t, "t lower", e.TLower, 3.382203, 5e-7)
	near(t, "p lower", e.PLower, .0030593, 5e-8)
	near(t, "t upper", e.TUpper, -5.904174, 5e-7)
	near(t, "p upper", e.PUpper, 5.1248e-5, 5e-10)
	near(t, "p", e.P, .0030593, 5e-8)
}

func TestS11_FiellerVectors(t *testing.T) {
	t.Parallel()
	z := distuv.UnitNormal.Quantile(.975)
	m := Moments{A: 10, B: 5, VarA: 1, VarB: .25}
	r := value[Ratio](t)(Fieller(m, z))
	near(t, "lo", r.Lo, 1.5089540, 5e-8)
	near(t, "hi", r.Hi, 2.6508429, 5e-8)
	near(t, "g", r.G, .0384146, 5e-8)
	m.Cov = .2
	r = value[Ratio](t)(Fieller(m, z))
	near(t, "lo with covariance", r.Lo, 1.6074230, 5e-8)
	// The specification has 2.4884552; the root is 2.48845514.
	near(t, "hi with covariance", r.Hi, 2.488455143538084, 1e-12)
	near(t, "hi with covariance of the specification", r.Hi, 2.4884552, 6e-8)

	a := value[Ratio](t)(FamilyRatio(auc(), .95))
	near(t, "AUC lo", a.Lo, .8538446, 5e-8)
	near(t, "AUC hi", a.Hi, 1.0487329, 5e-8)
	near(t, "AUC g", a.G, .0109904, 5e-8)
	near(t, "AUC log-delta lo", a.LogDelta.Lo, .8578011, 5e-8)
	near(t, "AUC log-delta hi", a.LogDelta.Hi, 1.0519326, 5e-8)
	b := value[Ratio](t)(FamilyRatio(auc(), .9))
	near(t, "AUC 90 % lo", b.Lo, .8714688, 5e-8)
	// The specification has 1.0301874; the root is 1.03018734.
	near(t, "AUC 90 % hi", b.Hi, 1.0301873373333, 1e-9)
	near(t, "AUC 90 % hi of the specification", b.Hi, 1.0301874, 7e-8)
}

// TestS17_RatioOfMeansIsNotTheMeanOfRatios (§17.9).
func TestS17_RatioOfMeansIsNotTheMeanOfRatios(t *testing.T) {
	t.Parallel()
	var fams []FamilyTotals
	for i, b := range []float64{1, 1, 1, 1, 1, 100} {
		fams = append(fams, FamilyTotals{fmt.Sprint(i), b * []float64{2, 2.1, 1.9, 2, 2, .5}[i], b})
	}
	_, err := FamilyRatio(fams, .95)
	geo := value[LogRatio](t)(FamilyLogRatio(fams, .95))
	if !errors.Is(err, ErrUnbounded) || geo.Ratio < 1.5 {
		t.Errorf("%v %+v", err, geo)
	}
	r, _ := FamilyRatio(fams, .95)
	near(t, "ratio of the money", r.Ratio, 60./105, 1e-12)
}

func TestS11_CostPerSuccess(t *testing.T) {
	t.Parallel()
	fams := []FamilyTotals{{"a", 900, 3}, {"b", 500, 0}, {"c", 1200, 4}, {"d", 800, 2}, {"e", 1000, 4}, {"f", 700, 2}, {"g", 900, 3}}
	r := value[Ratio](t)(CostPerSuccess(fams, .95))
	near(t, "all cost over the successes", r.Ratio, 6000./18, 1e-9) // the cost of family b, without a success, too
	if !(r.Lo < r.Ratio && r.Ratio < r.Hi) || r.Families != 7 || r.Level != .95 {
		t.Errorf("%+v", r)
	}
	var both []ArmTotals
	for _, f := range fams {
		both = append(both, ArmTotals{f.Family, 2 * f.A, f.B, f.A, f.B})
	}
	_, err := CostPerSuccessRatio(both, .95)
	if !errors.Is(err, ErrNoVariation) {
		t.Errorf("twice the cost in every family: %v", err)
	}
	both[1].CostA = 700
	q := value[Ratio](t)(CostPerSuccessRatio(both, .95))
	near(t, "ratio", q.Ratio, 11700./6000, 1e-9)
	// Without successes in play it is the log-delta interval of the costs but
	// for the centre of the totals.
	for i := range both {
		both[i].MetA, both[i].MetB = 1, 1
	}
	q = value[Ratio](t)(CostPerSuccessRatio(both, .95))
	var costs []FamilyTotals
	for _, f := range both {
		costs = append(costs, FamilyTotals{f.Family, f.CostA, f.CostB})
	}
	d := value[Ratio](t)(FamilyRatio(costs, .95)).LogDelta
	near(t, "log-delta lo", q.Lo, d.Lo, 1e-9)
	near(t, "log-delta hi", q.Hi, d.Hi, 1e-9)
}

func TestS11_RatioRefusals(t *testing.T) {
	t.Parallel()
	seven := make([]FamilyTotals, 7)
	same, negative, none := slices.Clone(seven), slices.Clone(seven), slices.Clone(seven)
	for i := range seven {
		name := fmt.Sprint(i)
		seven[i] = FamilyTotals{name, float64(i + 1), float64(2*i + 1)}
		same[i] = FamilyTotals{name, 3 * .1, .1}
		negative[i] = FamilyTotals{name, -1, 1}
		none[i] = FamilyTotals{name, 1, 0}
	}
	g, eG := Fieller(Moments{A: 1, B: 1, VarA: 1, VarB: 1}, 2)
	if g.Ratio != 1 || g.G != 4 {
		t.Errorf("%+v", g)
	}
	_, eB := Fieller(Moments{A: 1}, 2)
	_, eNaN := Fieller(Moments{A: math.NaN(), B: 1}, 2)
	_, eVar := Fieller(Moments{A: 1, B: 1, VarA: -1}, 2)
	_, eCov := Fieller(Moments{A: 1, B: 1, VarA: 1, VarB: 1, Cov: 2}, 2)
	_, eCrit := Fieller(Moments{A: 1, B: 1, VarA: 1, VarB: .1}, 0)
	_, eExact := Fieller(Moments{A: 1, B: 1}, 2)
	_, eFew := FamilyRatio(seven[:5], .95)
	_, eNone := FamilyRatio(nil, .95)
	_, eLevel := FamilyRatio(seven, 2)
	_, eSame := FamilyRatio(same, .95)
	_, eSuccess := CostPerSuccess(none, .95)
	_, eCost := CostPerSuccess(negative, .95)
	_, lNone := FamilyLogRatio(nil, .95)
	_, lFew := FamilyLogRatio(seven[:5], .95)
	_, lPos := FamilyLogRatio(none, .95)
	_, lSame := FamilyLogRatio(same, .95)
	_, lLevel := FamilyLogRatio(seven, 0)
	_, wLimits := LogRatio{SE: 1, DF: 6}.Within(1.25, .8)
	_, wSE := LogRatio{DF: 6}.Within(.8, 1.25)
	arms := func(ca, ma, cb, mb float64, n int) (out []ArmTotals) {
		for i := range n {
			out = append(out, ArmTotals{fmt.Sprint(i), ca * float64(i+1), ma, cb, mb})
		}
		return out
	}
	_, qNone := CostPerSuccessRatio(nil, .95)
	_, qLevel := CostPerSuccessRatio(nil, 0)
	_, qMet := CostPerSuccessRatio(arms(1, 1, 1, 0, 7), .95)
	_, qCost := CostPerSuccessRatio(arms(0, 1, 1, 1, 7), .95)
	_, qNeg := CostPerSuccessRatio(arms(1, -1, 1, 1, 7), .95)
	_, qFew := CostPerSuccessRatio(arms(1, 1, 1, 1, 5), .95)
	for i, c := range []struct{ got, want error }{
		{eG, ErrUnbounded},
		{eB, ErrUnbounded},
		{eNaN, ErrNotFinite},
		{eVar, ErrRange},
		{eCov, ErrRange},
		{eCrit, ErrRange},
		{eExact, ErrNoVariation},
		{eFew, ErrTooFewFamilies},
		{eNone, ErrNoData},
		{eLevel, ErrRange},
		{eSame, ErrNoVariation},
		{eSuccess, ErrNoSuccess},
		{eCost, ErrRange},
		{lNone, ErrNoData},
		{lFew, ErrTooFewFamilies},
		{lPos, ErrNotPositive},
		{lSame, ErrNoVariation},
		{lLevel, ErrRange},
		{wLimits, ErrRange},
		{wSE, ErrNoVariation},
		{qNone, ErrNoData},
		{qLevel, ErrRange},
		{qMet, ErrNoSuccess},
		{qCost, ErrNotPositive},
		{qNeg, ErrRange},
		{qFew, ErrTooFewFamilies},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("refusal %d: got %v, want %v", i, c.got, c.want)
		}
	}
}

// TestS11_RatioProperties: the order of families and the unit of money do not
// matter, exchanging the arms inverts the interval, and each limit is where
// the t statistic of A − θB has the critical value.
func TestS11_RatioProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var fams []FamilyTotals
		for i := range rapid.IntRange(MinFamilies, 15).Draw(t, "families") {
			fams = append(fams, FamilyTotals{fmt.Sprint(i), rapid.Float64Range(.1, 9).Draw(t, "a"), rapid.Float64Range(.1, 9).Draw(t, "b")})
		}
		r, err := FamilyRatio(fams, .95)
		shuffled, err2 := FamilyRatio(rapid.Permutation(fams).Draw(t, "order"), .95)
		if diff := cmp.Diff(r, shuffled); diff != "" || (err == nil) != (err2 == nil) {
			t.Fatalf("order matters: %s%v %v", diff, err, err2)
		}
		if err != nil {
			if !errors.Is(err, ErrUnbounded) && !errors.Is(err, ErrNoVariation) {
				t.Fatal(err)
			}
			return
		}
		if !(r.Lo <= r.Ratio && r.Ratio <= r.Hi) || !finite(r.Lo) || !finite(r.Hi) || !(r.G < 1) {
			t.Fatalf("%+v", r)
		}
		micros := slices.Clone(fams)
		turned := slices.Clone(fams)
		for i, f := range fams {
			micros[i].A, micros[i].B = f.A*1e9, f.B*1e9
			turned[i].A, turned[i].B = f.B, f.A
		}
		m, err := FamilyRatio(micros, .95)
		if err != nil || math.Abs(m.Lo-r.Lo) > 1e-9*math.Abs(r.Hi) || math.Abs(m.Hi-r.Hi) > 1e-9*math.Abs(r.Hi) {
			t.Fatalf("the unit matters: %+v %+v %v", r, m, err)
		}
		if inv, err := FamilyRatio(turned, .95); err == nil && r.Lo > 1e-3 {
			if math.Abs(inv.Lo*r.Hi-1) > 1e-6 || math.Abs(inv.Hi*r.Lo-1) > 1e-6 {
				t.Fatalf("not inverse: %+v %+v", r, inv)
			}
		}
		crit := tTwoSided(.95, float64(len(fams)-1))
		for _, theta := range []float64{r.Lo, r.Hi} {
			var d []float64
			for _, f := range fams {
				d = append(d, f.A-theta*f.B)
			}
			mean, v := meanVar(d)
			if got := math.Abs(mean) / math.Sqrt(v/float64(len(d))); math.Abs(got-crit) > 1e-4*crit {
				t.Fatalf("|t| at %v is %v, want %v", theta, got, crit)
			}
		}
	})
}
