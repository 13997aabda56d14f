// Package stats holds the statistics of the evaluator: standard errors that
// respect clusters, pass@k and pass^k, and quantiles with censoring.
//
// Functions are pure and refuse what is undefined with a typed error instead
// of returning a number. Sources: Miller 2024 (arXiv 2411.00640) for clustered
// errors and power, Chen et al. 2021 for pass@k, arXiv 2406.12045 for pass^k.
//
// Stability: internal to qualify; may change.
package stats
