package stats

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

func TestS13_ThresholdoutWithoutNoise(t *testing.T) {
	t.Parallel()
	h := value[*Thresholdout](t)(NewThresholdout(.04, 0, 1, 1, 1))
	near(t, "agreement", value[float64](t)(h.Query(.80, .79)), .80, 0)
	if h.Budget() != 1 {
		t.Errorf("agreement costs: budget %d", h.Budget())
	}
	near(t, "disagreement", value[float64](t)(h.Query(.80, .70)), .70, 0)
	if h.Budget() != 0 {
		t.Errorf("disagreement is free: budget %d", h.Budget())
	}
	if _, err := h.Query(.80, .80); !errors.Is(err, ErrHoldoutSpent) {
		t.Errorf("budget 0: %v", err)
	}
}

func TestS13_ThresholdoutNoiseIsSeeded(t *testing.T) {
	t.Parallel()
	run := func(seed uint64) (out []float64) {
		h := value[*Thresholdout](t)(NewThresholdout(.04, .01, 50, seed, 1))
		for i := range 40 {
			out = append(out, value[float64](t)(h.Query(.8, .8-float64(i)/200)))
		}
		return out
	}
	a, b := run(1), run(2)
	if diff := cmp.Diff(a, run(1)); diff != "" {
		t.Error(diff)
	}
	if slices.Equal(a, b) || a[0] != .8 || a[39] == .8 || math.Abs(a[39]-.605) > .2 {
		t.Errorf("%v\n%v", a, b)
	}
}

func TestS13_LadderPublishesOnlyImprovement(t *testing.T) {
	t.Parallel()
	l := &Ladder{Step: .02}
	for i, v := range []struct{ figure, want float64 }{{.713, .72}, {.735, .72}, {.749, .74}, {.5, .74}} {
		got := value[float64](t)(l.Publish(v.figure))
		if math.Abs(got-v.want) > 1e-12 {
			t.Errorf("figure %d, %v: published %v, want %v", i, v.figure, got, v.want)
		}
	}
}

func TestS13_Refusals(t *testing.T) {
	t.Parallel()
	_, eT := NewThresholdout(-1, 0, 1, 1, 1)
	_, eS := NewThresholdout(.1, math.NaN(), 1, 1, 1)
	_, eB := NewThresholdout(.1, 0, -1, 1, 1)
	h := value[*Thresholdout](t)(NewThresholdout(.04, 0, 1, 1, 1))
	_, eQ := h.Query(math.NaN(), 0)
	_, eStep := (&Ladder{}).Publish(1)
	_, eFigure := (&Ladder{Step: .1}).Publish(math.Inf(1))
	for i, c := range []struct{ got, want error }{
		{eT, ErrRange},
		{eS, ErrRange},
		{eB, ErrRange},
		{eQ, ErrNotFinite},
		{eStep, ErrRange},
		{eFigure, ErrNotFinite},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("refusal %d: got %v, want %v", i, c.got, c.want)
		}
	}
}

// TestS14_WhatGonumAndRandSupply pins the draws that a recorded seed stands
// for, and the behaviour of gonum that the package rests on or goes around.
func TestS14_WhatGonumAndRandSupply(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	var got []int
	for range 5 {
		got = append(got, rng.IntN(10))
	}
	if diff := cmp.Diff([]int{7, 6, 7, 7, 2}, got); diff != "" {
		t.Errorf("PCG(1, 2): %s", diff)
	}
	near(t, "empirical p95 of x16", stat.Quantile(.95, stat.Empirical, x16, nil), 213, 0)
	near(t, "interpolated p95 of x16", stat.Quantile(.95, stat.LinInterp, x16, nil), 149.8, 1e-9)
	for _, p := range []float64{0, 1} {
		b := distuv.Binomial{N: 5, P: p}
		near(t, "binomial at its edge", b.CDF(4), 1-p, 0)
		near(t, "binomial at its end", b.CDF(5), 1, 0)
	}
}
