package evaluator

// RunDocument is what `qualify run --json` prints. Keys are stable. Everything
// but what OutsideIdentity lists is byte-identical for one campaign, at any
// parallelism, interrupted or not.
type RunDocument struct {
	Schema         Document        `json:"schema"`
	Tool           string          `json:"tool"`
	Evidence       string          `json:"evidence"`
	Campaign       RunCampaign     `json:"campaign"`
	Status         string          `json:"status"` // running, done, stopped, cancelled
	Exit           int             `json:"exit"`
	Verdict        string          `json:"verdict"`
	Corpus         RunCorpus       `json:"corpus"`
	Model          string          `json:"model"`
	Prices         string          `json:"prices"`
	Seed           uint64          `json:"seed"`
	Trials         int             `json:"trials"`
	Budget         Budget          `json:"budget"`
	TraceSetDigest string          `json:"trace_set_digest"`
	Freeze         *RunFreeze      `json:"freeze,omitempty"` // nil where no holdout was run
	Arms           []ArmSummary    `json:"arms"`
	Ablations      []ArmSummary    `json:"ablations"` // shown apart: in no triple and no verdict
	Controls       []Control       `json:"controls"`
	OracleFaults   []OracleFault   `json:"oracle_faults"`
	DroppedTriples []string        `json:"dropped_triples"` // case/trial, cut by a ceiling in every arm
	Partial        *Partial        `json:"partial,omitempty"`
	SharedCeiling  []CeilingUser   `json:"shared_ceiling"`
	Peak           Peak            `json:"peak"`
	Store          StoreFigures    `json:"store"`
	Allotments     Allotments      `json:"allotments"`
	Outside        OutsideIdentity `json:"outside_identity"`
	Warnings       []string        `json:"warnings"`
}

// VerdictNotTested is the verdict of a run that no gate has judged.
const VerdictNotTested = "not tested (qualify gate gives one)"

// RunCampaign names a campaign.
type RunCampaign struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	Registration string `json:"registration"` // "" when none
}

// RunFreeze says under which freeze a holdout was run, and what the seal log
// tells of it.
type RunFreeze struct {
	ID          string   `json:"id"`
	Openings    int      `json:"holdout_openings"` // under the freeze, by any campaign
	AllOpenings int      `json:"all_openings"`     // in the whole log
	Reopen      string   `json:"reopen,omitempty"` // why this campaign opened it again
	Rows        int      `json:"log_rows"`
	Head        string   `json:"log_head"`
	Verified    bool     `json:"verified"` // before the first trial, between batches and after the last
	Void        []string `json:"void"`     // keys of void trials; they enter no figure
}

// Partial says how much of an unfinished campaign its figures cover, so that
// no table of one can be taken for the whole.
type Partial struct {
	Done    int `json:"done"` // planned trials that are closed; controls not counted
	Planned int `json:"planned"`
	// LeftOut counts closed trials whose triple is not complete: they enter no
	// figure, because arms are compared on the same triples only.
	LeftOut int      `json:"left_out"`
	Open    []string `json:"open_triples"` // case/trial, not yet complete; empty when the run was stopped or cancelled
	Rule    string   `json:"rule"`         // how the trials without a figure are counted
}

// CeilingUser is another campaign, failed and diagnostic ones too, that drew on
// the same ceiling. Amounts are USD micros.
type CeilingUser struct {
	ID         string `json:"id"`
	Name       string `json:"name"`
	Status     string `json:"status"`
	Allotments int    `json:"allotments"`
	Charged    int64  `json:"charged_micros"`
	Held       int64  `json:"held_micros"` // open allotments, and uncertain operations of closed ones
}

// RunCorpus names the cases that were run.
type RunCorpus struct {
	Digest   string `json:"digest"`
	Split    string `json:"split"`
	Families int    `json:"families"`
	Cases    int    `json:"cases"`
}

// Budget is the account of the ceiling that the campaign drew on, in USD
// micros. Holds: charged + held ≤ limit at every ledger row, or exceeded
// exactly by the listed overruns.
type Budget struct {
	Funds    string   `json:"funds"`
	Ceiling  string   `json:"ceiling,omitempty"`
	Limit    int64    `json:"limit_micros"`
	Charged  int64    `json:"charged_micros"`
	Held     int64    `json:"held_micros"`
	Unknown  int64    `json:"unknown_micros"`
	MaxSum   int64    `json:"max_sum_micros"`
	Overruns []string `json:"overruns,omitempty"`
	Holds    bool     `json:"holds"`
}

// Prove sets Holds from the account's own figures; rows is whether the proof
// held at every ledger row.
func (b *Budget) Prove(rows bool) {
	over := len(b.Overruns) > 0
	b.Holds = rows && b.Unknown <= b.Held && (over || b.Charged+b.Held <= b.Limit && b.MaxSum <= b.Limit)
}

// Control is a control arm (Q6). Completed counts its completed trials; each
// is an oracle fault.
type Control struct {
	Name      string `json:"name"`
	Trials    int    `json:"trials"`
	Completed int    `json:"completed"`
}

// OracleFault is a case that a control completed.
type OracleFault struct {
	Case    string `json:"case"`
	Control string `json:"control"`
	Trial   int    `json:"trial"`
}

// Peak tells how much was in flight at once.
type Peak struct {
	Trials int `json:"trials"`
	Calls  int `json:"calls"`
}

// StoreFigures count what the store did in this process.
type StoreFigures struct {
	Driver  string `json:"driver"`
	Commits int64  `json:"commits"` // database transactions that wrote
	Writes  int64  `json:"writes"`  // logical writes that shared them
	// LongestWaitMS is the longest that a write waited for its answer, in
	// milliseconds of wall time.
	LongestWaitMS int64 `json:"longest_wait_ms"`
}

// Allotments count the sums drawn on the ceiling. Waits are those of the head
// of the queue in this process: sums that were not there at once.
type Allotments struct {
	Granted       int   `json:"granted"`
	Waits         int   `json:"waits"`
	LongestWaitMS int64 `json:"longest_wait_ms"` // wall time
}

// OutsideIdentity lists the keys, as dotted paths, that may differ between two
// runs of one campaign.
type OutsideIdentity []string

// NewRunDocument is a document with its schema, empty lists and the marks of
// what lies outside byte identity; the caller fills in the rest.
func NewRunDocument() *RunDocument {
	return &RunDocument{
		Schema: Document{"qualify.run", 1}, Verdict: VerdictNotTested,
		Arms: []ArmSummary{}, Ablations: []ArmSummary{}, Controls: []Control{}, OracleFaults: []OracleFault{},
		DroppedTriples: []string{}, SharedCeiling: []CeilingUser{}, Warnings: []string{},
		Outside: OutsideIdentity{"tool", "budget.max_sum_micros", "shared_ceiling", "peak", "store", "allotments.waits", "allotments.longest_wait_ms"},
	}
}

// ArmSummary sums up the trials of one arm. A nil statistic is not evaluable.
type ArmSummary struct {
	Name           string          `json:"name"`
	Mode           string          `json:"mode"`
	Role           string          `json:"role,omitempty"` // ablation, or empty
	Evidence       string          `json:"evidence"`       // not tested when no trial ran
	Denominators   Denominators    `json:"denominators"`
	Termination    map[string]int  `json:"termination"`
	Completion     RunCompletion   `json:"completion"`
	CriterionShare MeanOf          `json:"criterion_share"`
	False          FalseCompletion `json:"false_completion"`
	Silent         CountRate       `json:"silent_completion"`
	Honest         CountRate       `json:"honest_failure"`
	Withdrawn      int             `json:"withdrawn_claims"`
	Corrections    *RunCorrections `json:"owner_corrections"`
	Duplicates     RunDuplicates   `json:"duplicate_effects"`
	Collateral     CountN          `json:"collateral_effects"`
	RepeatedWork   RunRepeated     `json:"repeated_work"`
	Latency        *RunLatency     `json:"latency_us"`
	Cost           RunCost         `json:"cost_micros"`
	Calls          map[string]int  `json:"calls"`
	Faults         map[string]int  `json:"faults"` // fired, by kind
	Families       []ArmFamily     `json:"families"`
	// Links name the trace lines behind counted findings, as case/arm/trial:line,
	// by the Link constants.
	Links        map[string][]string `json:"links"`
	NotEvaluable []NotEvaluable      `json:"not_evaluable"`
}

// Denominators close over the planned trials (Q2).
type Denominators struct {
	Planned        int `json:"planned"`
	ClaimedMet     int `json:"claimed_met"`
	ClaimedUnmet   int `json:"claimed_unmet"`
	UnclaimedMet   int `json:"unclaimed_met"`
	UnclaimedUnmet int `json:"unclaimed_unmet"`
	Infrastructure int `json:"infrastructure"`
	GraderError    int `json:"grader_error"`
	NotRun         int `json:"not_run"`
	// Missing trials have no trace and no registered reason; they are part of
	// UnclaimedUnmet (Q3).
	Missing int `json:"missing"`
}

// N is the denominator of rates: planned without infrastructure, grader errors
// and trials not run.
func (d Denominators) N() int { return d.Planned - d.Infrastructure - d.GraderError - d.NotRun }

// Closed reports whether the parts add up to Planned.
func (d Denominators) Closed() bool {
	return d.Planned == d.ClaimedMet+d.ClaimedUnmet+d.UnclaimedMet+d.UnclaimedUnmet+d.Infrastructure+d.GraderError+d.NotRun
}

// RunCompletion is a completion rate with its error, clustered by family.
type RunCompletion struct {
	Rate     *Num   `json:"rate"`
	SE       *Num   `json:"se"`
	SEMethod string `json:"se_method"`
	// CI95 is the interval Rate ± t·SE, t of Clusters−1 degrees of freedom,
	// cut at 0 and 1; nil where SE is undefined or zero.
	CI95     *Interval `json:"ci95"`
	Cluster  string    `json:"cluster"`
	Clusters int       `json:"clusters"`
	N        int       `json:"n"`
	Met      int       `json:"met"`
}

// Interval is a confidence interval.
type Interval struct {
	Lo Num `json:"lo"`
	Hi Num `json:"hi"`
}

// FalseCompletion counts claims that the oracle refutes: over n and over the
// claims among them.
type FalseCompletion struct {
	Count        int  `json:"count"`
	Rate         *Num `json:"rate"`
	N            int  `json:"n"`
	Claims       int  `json:"claims"`
	RateOfClaims *Num `json:"rate_of_claims"`
}

// CountRate is a count over n.
type CountRate struct {
	Count int  `json:"count"`
	Rate  *Num `json:"rate"`
	N     int  `json:"n"`
}

// MeanOf is a mean over n trials.
type MeanOf struct {
	Mean *Num `json:"mean"`
	N    int  `json:"n"`
}

// CountN is a count over the n trials in which it was evaluable.
type CountN struct {
	Count  int `json:"count"`
	Trials int `json:"trials"` // trials that have any
	N      int `json:"n"`
}

func (c *CountN) add(v *int) {
	if v == nil {
		return
	}
	c.N++
	c.Count += *v
	if *v > 0 {
		c.Trials++
	}
}

// RunRepeated counts repeated work over the n trials in which it was
// evaluable; Count is the sum of Calls and Tasks.
type RunRepeated struct {
	CountN
	Calls int `json:"calls"`
	Tasks int `json:"tasks"`
}

// RunCorrections counts the owner's corrections.
type RunCorrections struct {
	Count              int            `json:"count"`
	PerTrial           *Num           `json:"per_trial"`
	AfterClaim         int            `json:"after_claim"`
	AfterClaimPerTrial *Num           `json:"after_claim_per_trial"`
	ByType             map[string]int `json:"by_type"`
	N                  int            `json:"n"`
}

// RunDuplicates counts repeats of effects. Confirmed is over N trials.
type RunDuplicates struct {
	Confirmed  int `json:"confirmed"`
	Suppressed int `json:"suppressed"`
	Unknown    int `json:"unknown"`
	Trials     int `json:"trials"` // with a confirmed duplicate
	N          int `json:"n"`
}

// RunLatency are quantiles over trials in microseconds of trial time. At least
// marks a quantile that censoring reaches: the true one is not smaller.
type RunLatency struct {
	P50        int64 `json:"p50"`
	P95        int64 `json:"p95"`
	P99        int64 `json:"p99"`
	P50AtLeast bool  `json:"p50_at_least"`
	P95AtLeast bool  `json:"p95_at_least"`
	P99AtLeast bool  `json:"p99_at_least"`
	// P95CI95 is the 95 % interval of P95 by a bootstrap of families; nil with fewer
	// than 6 of them.
	P95CI95  *LatencyBounds `json:"p95_ci95"`
	N        int            `json:"n"`
	Censored int            `json:"censored"`
	Rule     string         `json:"rule"`
	ModelUS  int64          `json:"model_us"` // summed
	ToolUS   int64          `json:"tool_us"`
	QueueUS  *int64         `json:"queue_us"` // nil unless every trial records it
}

// LatencyBounds bound a quantile, in microseconds. Hi is nil where the trials
// give no upper bound: unbounded, never the longest time that was seen.
type LatencyBounds struct {
	Lo *int64 `json:"lo"`
	Hi *int64 `json:"hi"`
}

// RunCost is the arm's money in USD micros. ByRole is nil when some trial's
// operations do not add up to its account.
type RunCost struct {
	Charged int64            `json:"charged"`
	Held    int64            `json:"held"`
	Unknown int64            `json:"unknown"`
	ByRole  map[string]int64 `json:"by_role"`
	N       int              `json:"n"`
}
