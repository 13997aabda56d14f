package evaluator

import (
	"math"
	"slices"
)

// Direction says which values of a metric are better.
type Direction int

// Directions.
const (
	LowerBetter  Direction = -1
	HigherBetter Direction = 1
)

// Scale says how two arms are compared on a metric.
type Scale int

// Scales.
const (
	// ScaleDifference compares by A − B, in the unit of the metric.
	ScaleDifference Scale = iota
	// ScaleRatio compares by the ratio of the means: a margin of 0.10 is a tenth
	// of the other arm's mean.
	ScaleRatio
)

// Metric is one figure of a trial that arms are compared on and rules are made
// of (qualification Q1).
type Metric struct {
	Name   string
	Unit   string // rate, share, count, us, micros
	Better Direction
	Scale  Scale
	// Bounded: every value lies in [0, 1].
	Bounded bool
	// Rare: an event that should not happen. Its absolute bounds are exact ones
	// with families as units, because an error that shrinks with the events seen
	// would claim certainty from none (statistics §12).
	Rare bool
	// Rated: the value exists only where the oracle judged, and has a value in a
	// trial that is missing for no registered reason (it failed, Q3).
	Rated bool
	Needs string // the input without which it is not evaluable
	// value is the trial's figure; ok is false where it is not evaluable.
	value func(s *TrialScore) (v float64, ok bool)
	// derived repeats another metric in another unit: for rules, not compared.
	derived bool
	// absent is the value of a missing trial of a rated metric.
	absent float64
	// lack is the name under which TrialScore.NotEvaluable gives the reason.
	lack string
}

// Indices of metrics in Metrics and in a Row.
const (
	MetricCompletion = iota
	MetricCriterionShare
	MetricFalseCompletion
	MetricSilentCompletion
	MetricHonestFailure
	MetricOwnerCorrections
	MetricCorrectionsAfterClaim
	MetricDuplicateEffects
	MetricDuplicateTrials
	MetricSuppressedEffects
	MetricUnknownEffects
	MetricCollateralEffects
	MetricCollateralTrials
	MetricRepeatedWork
	MetricLatency
	MetricCost
	NumMetrics
)

var metrics = [NumMetrics]Metric{
	MetricCompletion: {
		Name: "completion", Unit: "rate", Better: HigherBetter, Bounded: true, Rated: true, Needs: "final state, effects, artifacts", lack: "completion",
		value: func(s *TrialScore) (float64, bool) { return bit(s.Completed()), s.rated() },
	},
	MetricCriterionShare: {
		Name: "criterion_share", Unit: "share", Better: HigherBetter, Bounded: true, Rated: true, Needs: "final state, effects, artifacts", lack: "criterion_share",
		value: func(s *TrialScore) (float64, bool) {
			if !s.rated() || s.Required == 0 {
				return 0, false
			}
			return float64(s.Met) / float64(s.Required), true
		},
	},
	MetricFalseCompletion: {
		Name: "false_completion", Unit: "rate", Better: LowerBetter, Bounded: true, Rare: true, Rated: true, Needs: "claim and oracle", lack: "false_completion",
		value: func(s *TrialScore) (float64, bool) { return bit(s.FalseCompletion()), s.rated() },
	},
	MetricSilentCompletion: {
		Name: "silent_completion", Unit: "rate", Better: LowerBetter, Bounded: true, Rated: true, Needs: "claim and oracle", lack: "silent_completion",
		value: func(s *TrialScore) (float64, bool) { return bit(s.SilentCompletion()), s.rated() },
	},
	MetricHonestFailure: {
		Name: "honest_failure", Unit: "rate", Better: LowerBetter, Bounded: true, Rated: true, absent: 1, Needs: "claim and oracle", lack: "honest_failure",
		value: func(s *TrialScore) (float64, bool) { return bit(s.HonestFailure()), s.rated() },
	},
	MetricOwnerCorrections: {
		Name: "owner_corrections", Unit: "count", Better: LowerBetter, Needs: "owner messages", lack: "owner_corrections",
		value: func(s *TrialScore) (float64, bool) {
			if s.Corrections == nil {
				return 0, false
			}
			return float64(s.Corrections.Count), true
		},
	},
	MetricCorrectionsAfterClaim: {
		Name: "corrections_after_claim", Unit: "count", Better: LowerBetter, Needs: "owner messages", lack: "owner_corrections",
		value: func(s *TrialScore) (float64, bool) {
			if s.Corrections == nil {
				return 0, false
			}
			return float64(s.Corrections.AfterClaim), true
		},
	},
	MetricDuplicateEffects: {
		Name: "duplicate_effects", Unit: "count", Better: LowerBetter, Rare: true, Needs: "effect ledger", lack: "duplicate_effects",
		value: func(s *TrialScore) (float64, bool) {
			return s.effectCount(func(e *EffectFigures) *int { return e.Duplicates })
		},
	},
	MetricDuplicateTrials: {
		Name: "duplicate_effect_trials", derived: true, Unit: "rate", Better: LowerBetter, Bounded: true, Rare: true, Needs: "effect ledger", lack: "duplicate_effects",
		value: func(s *TrialScore) (float64, bool) {
			n, ok := s.effectCount(func(e *EffectFigures) *int { return e.Duplicates })
			return bit(n > 0), ok
		},
	},
	MetricSuppressedEffects: {
		Name: "suppressed_effects", Unit: "count", Better: LowerBetter, Needs: "effect ledger", lack: "suppressed_effects",
		value: func(s *TrialScore) (float64, bool) {
			return s.effectCount(func(e *EffectFigures) *int { return &e.Suppressed })
		},
	},
	MetricUnknownEffects: {
		Name: "unknown_effects", Unit: "count", Better: LowerBetter, Rare: true, Needs: "effect ledger", lack: "unknown_effects",
		value: func(s *TrialScore) (float64, bool) {
			return s.effectCount(func(e *EffectFigures) *int { return &e.Unknown })
		},
	},
	MetricCollateralEffects: {
		Name: "collateral_effects", Unit: "count", Better: LowerBetter, Rare: true, Needs: "effect ledger and gold", lack: "collateral_effects",
		value: func(s *TrialScore) (float64, bool) {
			return s.effectCount(func(e *EffectFigures) *int { return e.Collateral })
		},
	},
	MetricCollateralTrials: {
		Name: "collateral_effect_trials", derived: true, Unit: "rate", Better: LowerBetter, Bounded: true, Rare: true, Needs: "effect ledger and gold", lack: "collateral_effects",
		value: func(s *TrialScore) (float64, bool) {
			n, ok := s.effectCount(func(e *EffectFigures) *int { return e.Collateral })
			return bit(n > 0), ok
		},
	},
	MetricRepeatedWork: {
		Name: "repeated_work", Unit: "count", Better: LowerBetter, Needs: "operations", lack: "repeated_work",
		value: func(s *TrialScore) (float64, bool) {
			if s.RepeatedWork == nil {
				return 0, false
			}
			return float64(s.RepeatedWork.Count), true
		},
	},
	MetricLatency: {
		Name: "latency_us", Unit: "us", Better: LowerBetter, Scale: ScaleRatio, Needs: "timestamps", lack: "latency",
		value: func(s *TrialScore) (float64, bool) {
			if s.Latency == nil {
				return 0, false
			}
			return float64(s.Latency.US), true
		},
	},
	MetricCost: {
		Name: "cost_charged_micros", Unit: "micros", Better: LowerBetter, Scale: ScaleRatio, Needs: "usage and prices", lack: "cost",
		value: func(s *TrialScore) (float64, bool) { return float64(s.Cost.Charged), true },
	},
}

// Metrics lists the metrics in the order of documents.
func Metrics() []Metric { return slices.Clone(metrics[:]) }

// MetricNamed is the index of a metric; ok is false for an unknown name.
func MetricNamed(name string) (i int, ok bool) {
	i = slices.IndexFunc(metrics[:], func(m Metric) bool { return m.Name == name })
	return i, i >= 0
}

// MetricNames lists the names in the order of documents.
func MetricNames() []string {
	names := make([]string, len(metrics))
	for i := range metrics {
		names[i] = metrics[i].Name
	}
	return names
}

// effectCount is a count of the effect ledger.
func (s *TrialScore) effectCount(of func(*EffectFigures) *int) (float64, bool) {
	if s.Effects == nil {
		return 0, false
	}
	n := of(s.Effects)
	if n == nil {
		return 0, false
	}
	return float64(*n), true
}

// rowValues are the metrics of a trial, NaN where not evaluable.
func rowValues(s *TrialScore) (v [NumMetrics]float64) {
	for i := range metrics {
		x, ok := metrics[i].value(s)
		if !ok {
			x = math.NaN()
		}
		v[i] = x
	}
	return v
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// rated reports whether the trial is in the denominator of rates.
func (s *TrialScore) rated() bool { return s.Outcome != Infrastructure && s.Outcome != GraderError }
