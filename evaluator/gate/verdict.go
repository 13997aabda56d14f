package gate

import (
	"math"
	"strconv"
	"strings"

	"github.com/agentrooms/qualify/evaluator"
)

// Outcome is the verdict on a rule or on the whole.
type Outcome string

// Outcomes. Inconclusive is never shown as one of the others.
const (
	Pass         Outcome = "PASS"
	Fail         Outcome = "FAIL"
	Inconclusive Outcome = "INCONCLUSIVE"
)

// Code names why a verdict is what it is; scripts may depend on it.
type Code string

// Codes.
const (
	CodeLimit        Code = "limit_broken" // the whole interval, or the point, lies beyond the limit
	CodeStraddles    Code = "straddles"    // the interval holds the limit
	CodeMDE          Code = "mde"          // what could be detected is larger than the margin
	CodeFamilies     Code = "few_families" // fewer than 6
	CodeVariation    Code = "no_variation" // nothing varies: there is no error to judge by
	CodeMissing      Code = "missing_triples"
	CodeVoid         Code = "void"          // results of a holdout whose freeze did not hold
	CodeCeiling      Code = "ceiling"       // a ceiling ended the campaign
	CodeUnfinished   Code = "unfinished"    // running, interrupted or cancelled
	CodeLook         Code = "no_look"       // no declared look is due, or the rule registers no boundary
	CodeSimulated    Code = "simulated"     // not measured, under a policy for measured evidence
	CodePolicy       Code = "other_policy"  // not the one that the campaign registered
	CodeKind         Code = "evidence_kind" // not simulated, under a policy for simulations
	CodeNotEvaluable Code = "not_evaluable" // unknown is not zero
	CodeGrader       Code = "grader_error"  // never a pass
	CodeNotTested    Code = "not_tested"    // a precondition that nobody checked
	CodeBroken       Code = "broken"        // a precondition that does not hold
	CodeCensored     Code = "censored"      // the arm's values are only lower bounds
	CodeLadder       Code = "ladder"        // an earlier step did not pass
	CodeMultiplicity Code = "multiplicity"  // shown alone, not after adjustment
	CodeRule         Code = "rule"          // of the whole: the rule named decides
)

// Reason says why, in one line.
type Reason struct {
	Code Code   `json:"code"`
	Text string `json:"text"`
	Rule string `json:"rule,omitempty"` // of the whole: the rule it comes from
}

// Verdict is what a policy says of a campaign's evidence. Keys of its JSON are
// stable, statistics carry at most 9 decimals, and nothing in it depends on machine,
// order or parallelism.
type Verdict struct {
	Verdict Outcome `json:"verdict"`
	// Label is the verdict as people read it, with the evidence word where the
	// evidence is not measured: "INCONCLUSIVE (simulated)".
	Label    string    `json:"label"`
	Evidence string    `json:"evidence"`
	Reasons  []Reason  `json:"reasons"`
	Policy   PolicyRef `json:"policy"`
	// Registered is the digest of the policy that the campaign registered before its
	// first trial; "" for none.
	Registered    string            `json:"registered_policy,omitempty"`
	Sequential    LookFigures       `json:"sequential"`
	Estimand      string            `json:"estimand"`
	Arms          []ArmDenominators `json:"arms"` // those that the rules name
	Preconditions []CheckVerdict    `json:"preconditions"`
	Rules         []RuleVerdict     `json:"rules"`
}

// PolicyRef names the policy that judged.
type PolicyRef struct {
	Name         string        `json:"name"`
	Kind         Kind          `json:"kind"`
	Digest       string        `json:"digest"`
	Alpha        evaluator.Num `json:"alpha"` // one-sided
	Power        evaluator.Num `json:"power"`
	Multiplicity Multiplicity  `json:"multiplicity"`
}

// LookFigures tell how far the campaign was when it was judged, and how much of
// alpha is used up by judging it now.
type LookFigures struct {
	Method       Method          `json:"method"`
	Spending     string          `json:"spending,omitempty"`
	At           []evaluator.Num `json:"at,omitempty"`
	Planned      int             `json:"planned"`     // cells: a case and trial index in all arms of the comparison
	Complete     int             `json:"complete"`    // cells that are done or lost, in all of these arms
	Used         int             `json:"used"`        // the first cells of the schedule, that figures with an interval rest on; 0 before the first look
	Information  evaluator.Num   `json:"information"` // Used over Planned
	Look         int             `json:"look,omitempty"`
	NominalAlpha evaluator.Num   `json:"nominal_alpha"` // one-sided level of every bound now
	SpentAlpha   evaluator.Num   `json:"spent_alpha"`
}

// ArmDenominators is the line that closes over the planned trials (Q2).
type ArmDenominators struct {
	Arm string `json:"arm"`
	evaluator.Denominators
}

// CheckVerdict is the verdict on a precondition. Its evidence is a
// deterministic check.
type CheckVerdict struct {
	ID       string     `json:"id"`
	Severity Severity   `json:"severity"`
	State    CheckState `json:"state"`
	Verdict  Outcome    `json:"verdict"`
	Hole     bool       `json:"hole"` // not tested
	Evidence string     `json:"evidence"`
	Reasons  []Reason   `json:"reasons"`
}

// RuleVerdict is the verdict on a rule with the figure it rests on.
type RuleVerdict struct {
	ID         string         `json:"id"`
	Step       Step           `json:"step"`
	Severity   Severity       `json:"severity"`
	Verdict    Outcome        `json:"verdict"`
	Hole       bool           `json:"hole"` // the figure is not evaluable
	Reasons    []Reason       `json:"reasons"`
	Metric     string         `json:"metric"`
	Unit       string         `json:"unit"`
	Better     string         `json:"better"`
	Arm        string         `json:"arm"`
	Comparison Comparison     `json:"comparison"`
	Baseline   string         `json:"baseline,omitempty"`
	Scope      string         `json:"scope"`
	Bound      Bound          `json:"bound"`
	Limit      *evaluator.Num `json:"limit,omitempty"`
	Margin     *evaluator.Num `json:"margin,omitempty"`
	Why        string         `json:"why"`
	Figure     Figure         `json:"figure"`
}

// Figure is the statistic of a rule: the arm's mean, or its difference from the
// baseline (arm − baseline), with one-sided bounds. What is nil does not apply.
type Figure struct {
	Evidence string         `json:"evidence"`
	Method   string         `json:"method"`
	Value    *evaluator.Num `json:"value"`
	Arm      *evaluator.Num `json:"arm,omitempty"`      // mean of the arm over the pairs
	Baseline *evaluator.Num `json:"baseline,omitempty"` // mean of the other arm
	Ratio    *evaluator.Num `json:"ratio,omitempty"`    // Arm over Baseline
	N        int            `json:"n"`                  // trials, or cases of a comparison
	Pairs    int            `json:"pairs,omitempty"`
	Families int            `json:"families"`
	Excluded int            `json:"excluded"` // outside the denominator: infrastructure, not run
	Lacking  int            `json:"lacking"`  // not evaluable
	Censored int            `json:"censored"` // only lower bounds
	SE       *evaluator.Num `json:"se"`
	DF       *evaluator.Num `json:"df"`
	Level    evaluator.Num  `json:"level"` // of each bound, one-sided
	Lower    *evaluator.Num `json:"lower"`
	Upper    *evaluator.Num `json:"upper"`
	// P is one-sided, of "not good enough"; PAdjusted is for AdjustedOver
	// comparisons.
	P            *evaluator.Num `json:"p"`
	PAdjusted    *evaluator.Num `json:"p_adjusted,omitempty"`
	AdjustedOver int            `json:"adjusted_over,omitempty"`
	// MDE is the smallest true difference shown with the policy's power at the
	// error achieved; of a ratio, a share of the baseline's mean.
	MDE   *evaluator.Num `json:"smallest_detectable,omitempty"`
	These *TheseCases    `json:"these_cases,omitempty"`
	// Wealth is the greatest that the e-process of the rule has reached.
	Wealth *evaluator.Num `json:"e_value,omitempty"`
	Notes  []string       `json:"notes"`
}

// TheseCases is the error of the same difference when the cases are no sample
// but all there is: the noise of trials only.
type TheseCases struct {
	SE    evaluator.Num `json:"se"`
	Lower evaluator.Num `json:"lower"`
	Upper evaluator.Num `json:"upper"`
}

// label is the verdict with its evidence word.
func label(o Outcome, evidence string, kind Kind) string {
	switch {
	case evidence == evaluator.EvidenceMeasured:
		return string(o)
	case kind == KindSimulation:
		return string(o) + " (" + evidence + ", policy for simulations)"
	}
	return string(o) + " (" + evidence + ")"
}

// texts joins the texts of reasons.
func texts(rs []Reason) string {
	out := make([]string, len(rs))
	for i, r := range rs {
		out[i] = r.Text
	}
	return strings.Join(out, "; ")
}

// say writes a statistic for a reason: four significant digits, because the
// figure beside it has them all.
func say[F ~float64](f F) string {
	r := evaluator.Num(f).Round()
	if math.Abs(r) >= 1e4 {
		return strconv.FormatFloat(r, 'f', 0, 64)
	}
	s, err := strconv.ParseFloat(strconv.FormatFloat(r, 'g', 4, 64), 64)
	if err != nil {
		return evaluator.Num(f).String()
	}
	return evaluator.Num(s).String()
}

func sayAt(n *evaluator.Num) string {
	if n == nil {
		return "unknown"
	}
	return say(*n)
}
