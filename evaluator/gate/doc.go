// Package gate turns the evidence of a campaign into a verdict by a release
// policy (qualification Q5): PASS, FAIL or INCONCLUSIVE, with reasons.
//
// A policy is a YAML file of rules over the metrics of package evaluator;
// Parse reads one strictly, Builtin gives those that ship with the tool.
// Evidence is plain data, a row a planned trial; Evaluate is a pure function of
// the two, so equal traces and policy give equal verdicts on every machine and
// at any parallelism. It trusts no stored summary: every figure is computed
// from the rows.
//
// The unit of inference is the family of cases (statistics §0). The rules form
// a ladder of three steps, safety, non-inferiority, superiority, each tested at
// the full alpha; a later step cannot pass before an earlier one. What a rule
// cannot evaluate, it fails: unknown is not zero, and a grader error never
// passes, under negation either.
//
// Stability: internal to qualify; the JSON document and the policy format are
// stable.
package gate
