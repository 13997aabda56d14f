package evaluator

import (
	"fmt"

	"github.com/agentrooms/qualify/corpus/gold"
	"github.com/agentrooms/qualify/evaluator/trace"
)

// Terminations of a trial (qualification Q1).
const (
	TermCompleted      = "completed"
	TermGaveUp         = "gave_up"
	TermOwnerPatience  = "owner_patience"
	TermStepLimit      = "step_limit"
	TermTimeLimit      = "time_limit"
	TermBudget         = "budget"
	TermEscalated      = "escalated"
	TermInfrastructure = "infrastructure"
	TermHarnessError   = "harness_error"
)

func knownTermination(s string) bool {
	switch s {
	case TermCompleted, TermGaveUp, TermOwnerPatience, TermStepLimit, TermTimeLimit, TermBudget, TermEscalated, TermInfrastructure, TermHarnessError:
		return true
	}
	return false
}

// cutByLimit reports whether a limit ended the trial, so that its latency is
// only known to be at least as long.
func cutByLimit(termination string) bool {
	return termination == TermStepLimit || termination == TermTimeLimit || termination == TermBudget
}

// Outcome is a trial's place in the denominators (Q2).
type Outcome string

// Places in the denominators. Met: every required criterion.
const (
	ClaimedMet     Outcome = "claimed_met"
	ClaimedUnmet   Outcome = "claimed_unmet"
	UnclaimedMet   Outcome = "unclaimed_met"
	UnclaimedUnmet Outcome = "unclaimed_unmet"
	Infrastructure Outcome = "infrastructure"
	GraderError    Outcome = "grader_error"
	NotRun         Outcome = "not_run"
)

// CaseFacts is what the evaluator needs of a case beside its gold. It holds
// nothing that a mode's behaviour could change.
type CaseFacts struct {
	Faults map[string]string // fault id to kind, to name faults that fired
	// Judged are recorded judgements by criterion id; a missing one is a
	// grader error of that criterion.
	Judged map[string]gold.Verdict
}

// TrialScore holds every metric of Q1 for one trial. A nil metric is not
// evaluable and named in NotEvaluable.
type TrialScore struct {
	Key      string `json:"key"`
	Digest   string `json:"digest"` // of the trace
	Arm      string `json:"arm"`
	Mode     string `json:"mode"`
	Case     string `json:"case"`
	Family   string `json:"family"`
	Split    string `json:"split"`
	Trial    int    `json:"trial"`
	Evidence string `json:"evidence"`

	Outcome     Outcome     `json:"outcome"`
	Termination string      `json:"termination"`
	Claimed     bool        `json:"claimed"` // a claim stands at the end
	Claims      int         `json:"claims"`  // made
	Withdrawn   int         `json:"withdrawn_claims"`
	Met         int         `json:"criteria_met"` // of the required ones
	Required    int         `json:"criteria_required"`
	Criteria    []Criterion `json:"criteria"`

	// ClaimLine is the trace line of the last claim made, 0 without one;
	// CorrectionLines and RepeatedLines are those of what the counts of the same
	// name count.
	ClaimLine       int   `json:"claim_line,omitempty"`
	CorrectionLines []int `json:"correction_lines,omitempty"`
	RepeatedLines   []int `json:"repeated_lines,omitempty"`

	Corrections  *Corrections   `json:"owner_corrections,omitempty"`
	RepeatedWork *RepeatedWork  `json:"repeated_work,omitempty"`
	Effects      *EffectFigures `json:"effects,omitempty"`
	Latency      *Latency       `json:"latency,omitempty"`
	Cost         Cost           `json:"cost_micros"`
	Faults       map[string]int `json:"faults"` // fired, by kind
	Calls        map[string]int `json:"calls"`  // dispatched operations by kind
	NotEvaluable []NotEvaluable `json:"not_evaluable"`
}

// Criterion is the verdict on one criterion.
type Criterion struct {
	ID       string `json:"id"`
	Required bool   `json:"required"`
	Judge    bool   `json:"judge,omitempty"` // model judgement, reported apart
	Verdict  string `json:"verdict"`
	Why      string `json:"why"`
}

// Corrections of the owner. One event is counted once.
type Corrections struct {
	Count      int            `json:"count"`       // from the first owner message on
	AfterClaim int            `json:"after_claim"` // from the first claim on: compared between arms
	ByType     map[string]int `json:"by_type"`
}

// RepeatedWork counts work that was dispatched again after it had succeeded.
type RepeatedWork struct {
	Count int `json:"count"` // Calls + Tasks
	Calls int `json:"calls"` // tool calls of equal tool and arguments
	Tasks int `json:"tasks"` // tasks of equal digest
}

// EffectFigures count the effect ledger. Lines name records of the trace file.
type EffectFigures struct {
	Confirmed  int  `json:"confirmed"` // effects that changed the world
	Duplicates *int `json:"duplicate_confirmed,omitempty"`
	Suppressed int  `json:"duplicate_suppressed"`
	Unknown    int  `json:"unknown"` // intended, neither confirmed nor refuted
	Collateral *int `json:"collateral,omitempty"`
	// Expected and Made count the effects that the case expects and those of
	// them that took place; where none is expected the share is not applicable.
	Expected        int   `json:"expected"`
	Made            int   `json:"made"`
	DuplicateLines  []int `json:"duplicate_lines"`
	CollateralLines []int `json:"collateral_lines"`
}

// Latency of a trial in microseconds of trial time.
type Latency struct {
	US       int64 `json:"us"` // first owner message to terminal status
	Censored bool  `json:"censored"`
	ModelUS  int64 `json:"model_us"` // summed over calls, also when they overlap
	ToolUS   int64 `json:"tool_us"`
	// QueueUS is the time operations waited between commit and dispatch; nil
	// when the trace does not record it.
	QueueUS *int64 `json:"queue_us,omitempty"`
}

// Cost of a trial in USD micros. ByRole and HeldByRole are nil when the
// operations do not add up to the room's account.
type Cost struct {
	Charged    int64            `json:"charged"`
	Held       int64            `json:"held"`
	Unknown    int64            `json:"unknown"` // part of Held whose operation is uncertain
	ByRole     map[string]int64 `json:"by_role"`
	HeldByRole map[string]int64 `json:"held_by_role"`
}

// Share is Made over Expected; ok is false when nothing is expected.
func (f *EffectFigures) Share() (share float64, ok bool) {
	if f.Expected == 0 {
		return 0, false
	}
	return float64(f.Made) / float64(f.Expected), true
}

// ScoreTrial scores one verified trace by the gold of its case. It is a pure
// function. Errors: gold of another case, and a trace whose content no exporter
// of this tool writes (unknown termination or effect state).
func ScoreTrial(t *trace.Trace, facts CaseFacts, g *gold.Gold) (TrialScore, error) {
	h := t.Header
	s := TrialScore{
		Key: t.Key(), Digest: t.Digest(), Arm: h.Arm, Mode: h.Mode, Case: h.Case, Family: h.Family,
		Split: h.Split, Trial: h.Trial, Evidence: h.Evidence, Termination: t.End.Termination,
		Claimed: t.End.Claim != nil, Faults: map[string]int{}, Calls: map[string]int{}, NotEvaluable: []NotEvaluable{},
	}
	if g.Case != h.Case {
		return s, fmt.Errorf("score %s: gold is of case %q", s.Key, g.Case)
	}
	if !knownTermination(s.Termination) {
		return s, fmt.Errorf("score %s: unknown termination %q", s.Key, s.Termination)
	}
	for _, e := range t.Effects {
		if e.State != trace.StateIntent && e.State != trace.StateConfirmed && e.State != trace.StateRefuted {
			return s, fmt.Errorf("score %s: line %d: unknown effect state %q", s.Key, e.N+1, e.State)
		}
	}
	s.claims(t)
	s.judge(t, facts, g)
	s.corrections(t)
	s.repeatedWork(t)
	s.latency(t)
	s.cost(t)
	s.faults(t, facts)
	return s, nil
}

func (s *TrialScore) lack(metric, format string, args ...any) {
	s.NotEvaluable = append(s.NotEvaluable, NotEvaluable{Metric: metric, Reason: fmt.Sprintf(format, args...)})
}

func (s *TrialScore) claims(t *trace.Trace) {
	for i := range t.Events {
		switch t.Events[i].Kind {
		case eventClaim:
			s.Claims++
			s.ClaimLine = t.Events[i].N + 1
		case eventWithdraw:
			s.Withdrawn++
		}
	}
}

// Kinds of events that carry a mode's claim.
const (
	eventClaim    = "claim"
	eventWithdraw = "withdraw"
)

// FalseCompletion reports a claim without completion.
func (s *TrialScore) FalseCompletion() bool { return s.Outcome == ClaimedUnmet }

// SilentCompletion reports completion without a claim.
func (s *TrialScore) SilentCompletion() bool { return s.Outcome == UnclaimedMet }

// HonestFailure reports neither completion nor a claim.
func (s *TrialScore) HonestFailure() bool { return s.Outcome == UnclaimedUnmet }

// Completed reports that every required criterion is met.
func (s *TrialScore) Completed() bool { return s.Outcome == ClaimedMet || s.Outcome == UnclaimedMet }
