// Package evaluator scores traces: the metrics of one trial
// (qualification Q1), their summary per arm with closed denominators (Q2), and
// recorded traces of foreign formats.
//
// Unknown is not zero: a metric whose input is missing is listed as not
// evaluable with the missing input named, and is left out of every mean.
// Scoring is a pure function of traces and gold; only LoadProfile reads a file.
//
// Stability: internal to qualify; the JSON documents it declares are stable.
package evaluator
