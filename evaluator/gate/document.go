package gate

import (
	"github.com/agentrooms/qualify/evaluator"
)

// Document is what `qualify gate --json` prints: the verdict with what it is
// about. Keys are stable. The same traces and the same policy give the same
// bytes on any machine and at any parallelism, but for what OutsideIdentity
// lists.
type Document struct {
	Schema   evaluator.Document    `json:"schema"`
	Tool     string                `json:"tool"`
	Exit     int                   `json:"exit"` // 0 PASS, 1 FAIL, 2 INCONCLUSIVE
	Campaign evaluator.RunCampaign `json:"campaign"`
	Status   string                `json:"status"`
	Corpus   evaluator.RunCorpus   `json:"corpus"`
	Model    string                `json:"model"`
	Prices   string                `json:"prices"`
	Seed     uint64                `json:"seed"`
	Trials   int                   `json:"trials"` // of each case, in each arm
	Freeze   Freeze                `json:"freeze"`
	Budget   BudgetProof           `json:"budget"`
	// TraceSetDigest names the traces that every figure was computed from.
	TraceSetDigest string `json:"trace_set_digest"`
	Verdict
	// Hypotheses are those that the campaign registered, in the order of its file.
	Hypotheses []HypothesisVerdict `json:"hypotheses,omitempty"`
	// Metrics are those of every arm, ablations too, as the traces give them.
	Metrics        []ArmMetrics              `json:"metrics"`
	DroppedTriples []string                  `json:"dropped_triples"`
	Outside        evaluator.OutsideIdentity `json:"outside_identity"`
}

// ArmMetrics are the means of one arm.
type ArmMetrics struct {
	Arm     string                    `json:"arm"`
	Metrics []evaluator.MetricSummary `json:"metrics"`
}

// Freeze names the freeze under which the campaign ran. Without one its id is
// empty, Openings nil and Word "not tested".
type Freeze struct {
	ID       string `json:"id"`
	Openings *int   `json:"holdout_openings"`
	Word     string `json:"word"`
	// Log is the seal log that tells so; nil without a freeze. It grows with every
	// use, so it stands outside the identity of a verdict.
	Log *Log `json:"log,omitempty"`
	// Void are the keys of void trials. They enter no figure.
	Void []string `json:"void,omitempty"`
}

// Log is a seal log at the moment of a verdict.
type Log struct {
	Rows     int    `json:"rows"`
	Head     string `json:"head"`
	Openings int    `json:"holdout_openings"` // under any freeze
}

// BudgetProof is the account of the ceiling in USD micros. The greatest sum
// ever held is left out: it depends on what ran at the same time.
type BudgetProof struct {
	Funds    string   `json:"funds"`
	Limit    int64    `json:"limit_micros"`
	Charged  int64    `json:"charged_micros"`
	Held     int64    `json:"held_micros"`
	Unknown  int64    `json:"unknown_micros"`
	Overruns []string `json:"overruns,omitempty"`
	Holds    bool     `json:"holds"`
}

// NewDocument is a document of a verdict with its schema and exit code.
func NewDocument(v Verdict) *Document {
	return &Document{
		Schema: evaluator.Document{Name: "qualify.verdict", Version: 1}, Verdict: v, Exit: ExitCode(v.Verdict),
		DroppedTriples: []string{}, Metrics: []ArmMetrics{}, Outside: evaluator.OutsideIdentity{"tool"},
		Freeze: Freeze{Word: evaluator.EvidenceNotTested},
	}
}

// ExitCode of a verdict (DESIGN §7).
func ExitCode(o Outcome) int {
	switch o {
	case Pass:
		return 0
	case Fail:
		return 1
	case Inconclusive:
	}
	return 2
}

// ProofOf is the part of an account that a verdict carries.
func ProofOf(b *evaluator.Budget) BudgetProof {
	return BudgetProof{
		Funds: b.Funds, Limit: b.Limit, Charged: b.Charged, Held: b.Held, Unknown: b.Unknown, Overruns: b.Overruns, Holds: b.Holds,
	}
}
