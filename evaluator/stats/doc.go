// Package stats holds the statistics of the evaluator. The unit of inference is
// the family; trials only make the mean of a case less noisy.
//
//   - rates of independent units: Proportion, ZeroEventUpper, PoissonUpper
//   - binary pairs, one trial each: PairedTable (McNemar, Newcombe, Tango)
//   - anything in families: ClusteredMean, PairedDifference, sign flips, the
//     cluster bootstrap, ClusteredMcNemar
//   - trials of a case: PassAt, PassHat; times: quantiles with censoring; money:
//     ratios of totals
//   - more than one test: Holm, BenjaminiHochberg, the max-statistic
//   - more than one look: SpendingLooks for declared looks; Betting and the other
//     e-processes for stopping at any time
//
// Functions are pure and refuse what is undefined with a typed error instead of
// returning a number; none returns NaN or an infinity. docs/statistics.md lists
// the source of each method and how far it agrees with published numbers.
//
// Stability: internal to qualify; may change.
package stats
