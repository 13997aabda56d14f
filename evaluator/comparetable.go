package evaluator

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// TrialState is what became of a planned trial (Q2).
type TrialState uint8

// States of a trial. The zero state is that of a planned trial without a trace
// and without a registered reason: it counts unclaimed unmet (Q3).
const (
	TrialMissing TrialState = iota
	TrialRan
	TrialNotRun         // cut by a ceiling, in all arms
	TrialInfrastructure // registered fault before dispatch
	TrialGraderError    // ran, and the oracle could not judge
	TrialUnplanned      // not planned in this arm (comparison of two campaigns)
)

// Row holds the metrics of one trial, compactly: a table of a million of them
// takes about 140 MB.
type Row struct {
	State    TrialState
	Claimed  bool // a claim stands at the end; of TrialRan
	Censored bool // a limit ended the trial: its latency is at least the value
	// Values by metric index, NaN where not evaluable; only TrialRan and
	// TrialGraderError have any.
	Values [NumMetrics]float64
}

// TableCase is one case of a table.
type TableCase struct {
	ID     string
	Family string
	Tags   []string
}

// Table holds every planned trial of a set of arms over the same cases: plain
// data, no pointers into scores. It is the whole evidence of figures that
// comparisons and gates need. A Table is not safe for use while it is filled.
type Table struct {
	Arms   []string
	Cases  []TableCase
	Trials int // indices per case, 0 … Trials−1

	// Lacks count why metrics are not evaluable, by arm and metric.
	lacks map[[2]int][]NotEvaluable

	rows     []Row
	arms     map[string]int
	cases    map[string]int
	evidence string
}

// NewTable is a table in which every trial of every arm is planned and
// missing. Cases are put in the order of their ids. Errors: no arm, no case,
// trials below 1, a name twice.
func NewTable(arms []string, cases []TableCase, trials int) (*Table, error) {
	t := &Table{
		Arms: slices.Clone(arms), Cases: slices.Clone(cases), Trials: trials,
		arms: map[string]int{}, cases: map[string]int{}, lacks: map[[2]int][]NotEvaluable{},
	}
	if len(arms) == 0 || len(cases) == 0 || trials < 1 {
		return nil, fmt.Errorf("table of %d arms, %d cases, %d trials: each must be at least 1", len(arms), len(cases), trials)
	}
	slices.SortFunc(t.Cases, func(a, b TableCase) int { return cmp.Compare(a.ID, b.ID) })
	for i, a := range t.Arms {
		if _, twice := t.arms[a]; twice {
			return nil, fmt.Errorf("table: arm %s twice", a)
		}
		t.arms[a] = i
	}
	for i, c := range t.Cases {
		if _, twice := t.cases[c.ID]; twice {
			return nil, fmt.Errorf("table: case %s twice", c.ID)
		}
		t.cases[c.ID] = i
	}
	t.rows = make([]Row, len(arms)*len(cases)*trials)
	return t, nil
}

// Row is the row of a trial by indices of arm, case and trial; the caller may
// fill it. Indices out of range panic, as those of a slice do.
func (t *Table) Row(arm, caseIndex, trial int) *Row {
	return &t.rows[(arm*len(t.Cases)+caseIndex)*t.Trials+trial]
}

// Arm is the index of an arm; ok is false for an unknown one.
func (t *Table) Arm(name string) (i int, ok bool) {
	i, ok = t.arms[name]
	return i, ok
}

// Case is the index of a case; ok is false for an unknown one.
func (t *Table) Case(id string) (i int, ok bool) {
	i, ok = t.cases[id]
	return i, ok
}

// Evidence is the evidence word that all rows added share, "" for none.
func (t *Table) Evidence() string { return t.evidence }

// Add puts in the score of a trial; the table keeps nothing of it. Errors: an
// arm, case or trial that is not in the table, a family that is not the case's,
// a trial twice, another evidence word than the trials before.
func (t *Table) Add(s *TrialScore) error {
	r, c, err := t.find(s.Arm, s.Case, s.Trial)
	if err != nil {
		return err
	}
	switch {
	case t.Cases[c].Family != s.Family:
		return fmt.Errorf("trial %s: the trace is of family %s, the case is in %s", s.Key, s.Family, t.Cases[c].Family)
	case r.State != TrialMissing:
		return fmt.Errorf("arm %s: case %s, trial %d twice", s.Arm, s.Case, s.Trial)
	case t.evidence != "" && t.evidence != s.Evidence:
		return fmt.Errorf("trial %s is %s, others are %s: evidence never mixes", s.Key, s.Evidence, t.evidence)
	}
	if err := r.fill(s); err != nil {
		return err
	}
	t.evidence = s.Evidence
	t.reasons(s)
	return nil
}

// fill takes over what a row needs of a score.
func (r *Row) fill(s *TrialScore) error {
	state := TrialRan
	switch s.Outcome {
	case Infrastructure:
		state = TrialInfrastructure
	case GraderError:
		state = TrialGraderError
	case ClaimedMet, ClaimedUnmet, UnclaimedMet, UnclaimedUnmet:
	case NotRun:
		return fmt.Errorf("trial %s: a trace cannot be of a trial that was not run", s.Key)
	default:
		return fmt.Errorf("trial %s: unknown outcome %q", s.Key, s.Outcome)
	}
	*r = Row{State: state, Claimed: s.Outcome == ClaimedMet || s.Outcome == ClaimedUnmet, Censored: s.Latency != nil && s.Latency.Censored, Values: rowValues(s)}
	return nil
}

// Mark gives a trial without a trace its state: TrialNotRun or TrialUnplanned.
// Errors as Add.
func (t *Table) Mark(arm, caseID string, trial int, state TrialState) error {
	r, _, err := t.find(arm, caseID, trial)
	if err != nil {
		return err
	}
	if r.State != TrialMissing {
		return fmt.Errorf("arm %s: case %s, trial %d has a trace and is listed as not run", arm, caseID, trial)
	}
	r.State = state
	return nil
}

// Cell is a case and trial index, in all arms.
type Cell struct {
	Case  string
	Trial int
}

// Only is a copy of the table in which the cells that keep does not select are
// not run in any arm.
func (t *Table) Only(keep func(caseIndex, trial int) bool) *Table {
	out := *t
	out.rows = slices.Clone(t.rows)
	for c := range t.Cases {
		for i := range t.Trials {
			if keep(c, i) {
				continue
			}
			for a := range t.Arms {
				*out.Row(a, c, i) = Row{State: TrialNotRun}
			}
		}
	}
	return &out
}

func (t *Table) find(arm, caseID string, trial int) (*Row, int, error) {
	a, okA := t.arms[arm]
	c, okC := t.cases[caseID]
	if !okA || !okC || trial < 0 || trial >= t.Trials {
		return nil, 0, fmt.Errorf("arm %s: case %s, trial %d is not planned", arm, caseID, trial)
	}
	return t.Row(a, c, trial), c, nil
}

// reasons counts why a trial's metrics are not evaluable.
func (t *Table) reasons(s *TrialScore) {
	if len(s.NotEvaluable) == 0 {
		return
	}
	for i := range metrics {
		for _, n := range s.NotEvaluable {
			if n.Metric == metrics[i].lack {
				t.lack([2]int{t.arms[s.Arm], i}, n.Reason)
			}
		}
	}
}

func (t *Table) lack(key [2]int, reason string) {
	list := t.lacks[key]
	for i := range list {
		if list[i].Reason == reason {
			list[i].Count++
			return
		}
	}
	t.lacks[key] = append(list, NotEvaluable{Metric: metrics[key[1]].Name, Reason: reason, Count: 1})
}

// Lacks are the reasons why a metric is not evaluable in trials of an arm, in
// the order of their texts.
func (t *Table) Lacks(arm, metric int) []NotEvaluable {
	out := slices.Clone(t.lacks[[2]int{arm, metric}])
	slices.SortFunc(out, func(a, b NotEvaluable) int { return cmp.Compare(a.Reason, b.Reason) })
	return out
}

// ValueState tells whether a trial's metric enters a figure.
type ValueState uint8

// States of a value.
const (
	ValueOK       ValueState = iota
	ValueExcluded            // outside the denominator: not run, infrastructure, not planned
	ValueLacking             // not evaluable: the input is missing, or the grader erred
)

// Value is a trial's metric. A missing trial counts as a failure where the
// oracle would have judged (Q3), and has no other figure: unknown is not zero.
func (r *Row) Value(metric int) (float64, ValueState) {
	m := &metrics[metric]
	switch r.State {
	case TrialNotRun, TrialInfrastructure, TrialUnplanned:
		return 0, ValueExcluded
	case TrialMissing:
		if m.Rated {
			return m.absent, ValueOK
		}
		return 0, ValueLacking
	case TrialGraderError:
		if m.Rated {
			return 0, ValueLacking
		}
	case TrialRan:
	}
	v := r.Values[metric]
	if math.IsNaN(v) {
		return 0, ValueLacking
	}
	return v, ValueOK
}

// Denominators counts an arm's trials over the cases that in selects; nil
// selects all.
func (t *Table) Denominators(arm int, in func(*TableCase) bool) Denominators {
	var d Denominators
	for c := range t.Cases {
		if in != nil && !in(&t.Cases[c]) {
			continue
		}
		for i := range t.Trials {
			r := t.Row(arm, c, i)
			if r.State == TrialUnplanned {
				continue
			}
			d.Planned++
			switch r.State {
			case TrialMissing:
				d.Missing++
				d.UnclaimedUnmet++
			case TrialNotRun:
				d.NotRun++
			case TrialInfrastructure:
				d.Infrastructure++
			case TrialGraderError:
				d.GraderError++
			case TrialRan:
				met := r.Values[MetricCompletion] == 1
				switch {
				case r.Claimed && met:
					d.ClaimedMet++
				case r.Claimed:
					d.ClaimedUnmet++
				case met:
					d.UnclaimedMet++
				default:
					d.UnclaimedUnmet++
				}
			case TrialUnplanned:
			}
		}
	}
	return d
}

// pairTable is a table of two arms, A and B, over the cases that both sides
// have traces of. Rows that nobody fills are not planned.
func pairTable(as, bs map[pair]*TrialScore) (*Table, error) {
	var cases []TableCase
	seen, trials := map[string]bool{}, 0
	for p, s := range as {
		if bs[p] == nil {
			continue
		}
		trials = max(trials, p.trial+1)
		if !seen[p.caseID] {
			seen[p.caseID] = true
			cases = append(cases, TableCase{ID: p.caseID, Family: s.Family})
		}
	}
	if len(cases) == 0 {
		return new(Table), nil
	}
	t, err := NewTable([]string{"A", "B"}, cases, trials)
	if err != nil {
		return nil, err
	}
	for i := range t.rows {
		t.rows[i].State = TrialUnplanned
	}
	return t, nil
}
