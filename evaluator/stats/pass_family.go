package stats

import (
	"fmt"
	"math"
)

// CaseTrials counts the trials of one case.
type CaseTrials struct {
	Family, Case string
	Met, Unmet   int // evaluated trials
	Unevaluable  int // trials of which the oracle can say neither
}

// Convention says how unevaluable trials enter pass@k and pass^k. Harnesses
// differ in it (field report 18), so a figure without it cannot be compared.
type Convention string

const (
	// ExcludeUnevaluable takes n as the evaluated trials of each case: an
	// unevaluable trial is as if it had not been planned.
	ExcludeUnevaluable Convention = "unevaluable trials excluded"
	// FailUnevaluable takes n as all trials of each case: an unevaluable trial
	// counts as a failure.
	FailUnevaluable Convention = "unevaluable trials count as failures"
)

// PassFigure is a mean over cases with its clustered interval.
type PassFigure struct {
	Clustered
	Interval   *Interval // clamped to [0, 1]; nil when refused
	NoInterval error     // why there is none
}

// PassEstimate is pass@k and pass^k of a set of cases under one convention.
type PassEstimate struct {
	K           int
	Convention  Convention
	Least, Most int // trials of a case under the convention
	At, Hat     PassFigure
}

// PassK estimates pass@k and pass^k as means over cases of the unbiased
// estimates, with CR1 intervals by family: trials are never n.
//
// k may not pass the trials of any case: the mean over the cases that have
// enough would be that of another set of cases. ErrKBeyondN names the first
// such case, also one without any evaluated trial, which would otherwise
// vanish. Other errors: ErrNoData, ErrRange. An interval that cannot be had
// (fewer than 6 families, no variation) is no error: NoInterval says why.
func PassK(cases []CaseTrials, k int, convention Convention, level float64) (PassEstimate, error) {
	method := fmt.Sprintf("pass at k = %d, %s", k, convention)
	out := PassEstimate{K: k, Convention: convention}
	if len(cases) == 0 {
		return out, refuse(method, ErrNoData, "no cases")
	}
	if err := checkLevel(method, level); err != nil {
		return out, err
	}
	if convention != ExcludeUnevaluable && convention != FailUnevaluable {
		return out, refuse(method, ErrRange, "convention %q", convention)
	}
	at, hat, family := make([]float64, len(cases)), make([]float64, len(cases)), make([]string, len(cases))
	out.Least = math.MaxInt
	for _, c := range cases {
		if c.Met < 0 || c.Unmet < 0 || c.Unevaluable < 0 {
			return out, refuse(method, ErrRange, "case %q of family %q: %+v", c.Case, c.Family, c)
		}
		n := c.trials(convention)
		out.Least, out.Most = min(out.Least, n), max(out.Most, n)
	}
	for i, c := range cases {
		n := c.trials(convention)
		if k > n {
			return out, refuse(method, ErrKBeyondN, "case %q of family %q has %d (%d unevaluable)", c.Case, c.Family, n, c.Unevaluable)
		}
		var err error
		if at[i], err = PassAt(n, c.Met, k); err != nil {
			return out, &Refusal{Method: method, Rule: err}
		}
		if hat[i], err = PassHat(n, c.Met, k); err != nil {
			return out, &Refusal{Method: method, Rule: err}
		}
		family[i] = c.Family
	}
	out.At, out.Hat = passFigure(at, family, level), passFigure(hat, family, level)
	return out, nil
}

func (c CaseTrials) trials(convention Convention) int {
	n := c.Met + c.Unmet
	if convention == FailUnevaluable {
		n += c.Unevaluable
	}
	return n
}

func passFigure(values []float64, family []string, level float64) PassFigure {
	const method = "interval of pass"
	c, err := ClusteredMean(values, family)
	f := PassFigure{Clustered: c}
	if err == nil {
		err = checkFamilies(method, c.Clusters)
	}
	if err != nil {
		f.NoInterval = err
		return f
	}
	t, err := c.TTest(level)
	if err != nil {
		f.NoInterval = refuse(method, err, "%d cases in %d families", c.N, c.Clusters)
		return f
	}
	f.Interval = &Interval{clamp01(t.Lo), clamp01(t.Hi)}
	return f
}

// PassRow is one k under one convention; Refused is set instead of figures
// where PassK refuses.
type PassRow struct {
	PassEstimate
	Refused error
}

// PassTable gives every k from 1 to the most trials of a case under both
// conventions, ExcludeUnevaluable first. Without unevaluable trials the two
// rows of a k are equal but for their name. ErrNoData, ErrRange.
func PassTable(cases []CaseTrials, level float64) ([]PassRow, error) {
	if len(cases) == 0 {
		return nil, refuse("pass table", ErrNoData, "no cases")
	}
	if err := checkLevel("pass table", level); err != nil {
		return nil, err
	}
	most := 0
	for _, c := range cases {
		if c.Met < 0 || c.Unmet < 0 || c.Unevaluable < 0 {
			return nil, refuse("pass table", ErrRange, "case %q of family %q: %+v", c.Case, c.Family, c)
		}
		most = max(most, c.trials(FailUnevaluable))
	}
	var out []PassRow
	for k := 1; k <= most; k++ {
		for _, convention := range []Convention{ExcludeUnevaluable, FailUnevaluable} {
			e, err := PassK(cases, k, convention, level)
			out = append(out, PassRow{e, err})
		}
	}
	return out, nil
}
