package evaluator

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/agentrooms/qualify/evaluator/stats"
	"github.com/agentrooms/qualify/evaluator/trace"
)

// Evidence words of DESIGN §9 as documents carry them.
const (
	EvidenceMeasured  = "measured"
	EvidenceRecorded  = "recorded"
	EvidenceSimulated = "simulated"
	EvidenceNotTested = "not tested"
)

// ScoreOptions fix how recorded files are scored.
type ScoreOptions struct {
	Tool    string  // name and version of the program, for the document
	Arm     string  // arm of every file; "" for file names without extension
	Effects Effects // zero: the built-in profile that fits
}

// armInput collects what is pooled into one arm.
type armInput struct {
	name     string
	files    []*trace.File
	profile  *Profile
	why      string // why there is no profile
	profiles []string
}

// ScoreRecorded scores imported files. Files of one arm are pooled; a repeated
// (task, trial) among them is an error that names both places. The result does
// not depend on the order of the records.
func ScoreRecorded(files []*trace.File, o ScoreOptions) (*ScoreDocument, error) {
	doc := &ScoreDocument{
		Schema: Document{"qualify.score", 1}, Tool: o.Tool,
		Files: []ScoreFile{}, Arms: []ScoreArm{}, Warnings: []string{},
	}
	var arms []*armInput
	for _, f := range files {
		name := o.Arm
		if name == "" {
			name = ArmName(f.Path)
		}
		p, why, err := o.Effects.choose(toolsCalled(f))
		if err != nil {
			return nil, err
		}
		used := EffectsNone
		if p != nil {
			used = p.Name
		}
		doc.Files = append(doc.Files, ScoreFile{f.Path, f.SHA256, f.Format, name, used})
		i := slices.IndexFunc(arms, func(a *armInput) bool { return a.name == name })
		if i < 0 {
			i = len(arms)
			arms = append(arms, &armInput{name: name, profile: p, why: why})
		}
		a := arms[i]
		a.files = append(a.files, f)
		if !slices.Contains(a.profiles, used) {
			a.profiles = append(a.profiles, used)
		}
		if len(a.profiles) > 1 {
			a.profile, a.why = nil, "the files of this arm have different effect profiles: "+strings.Join(a.profiles, ", ")
		}
	}
	for _, a := range arms {
		arm, warnings, err := a.score()
		if err != nil {
			return nil, err
		}
		doc.Arms = append(doc.Arms, *arm)
		for _, w := range warnings {
			doc.Warnings = append(doc.Warnings, "arm "+a.name+": "+w)
		}
	}
	return doc, nil
}

// ArmName is the arm of a file: its name without the last extension.
func ArmName(path string) string {
	base := filepath.Base(path)
	if s := strings.TrimSuffix(base, filepath.Ext(base)); s != "" {
		return s
	}
	return base
}

func toolsCalled(f *trace.File) []string {
	set := map[string]bool{}
	for i := range f.Records {
		for j := range f.Records[i].Calls {
			set[f.Records[i].Calls[j].Tool] = true
		}
	}
	return sortedKeys(set)
}

// pool joins the records of all files, refusing a repeated (task, trial), and
// sorts them by task and trial.
func (a *armInput) pool() ([]*trace.Recorded, error) {
	type key struct {
		task  string
		trial int
	}
	type place struct {
		file *trace.File
		rec  int
	}
	seen := map[key]place{}
	var out []*trace.Recorded
	for _, f := range a.files {
		for i := range f.Records {
			r := &f.Records[i]
			k := key{r.Task, r.Trial}
			if first, dup := seen[k]; dup {
				return nil, &trace.InputError{Path: f.Path, Err: fmt.Errorf(
					"record %d: task %s, trial %d is already record %d of %s, in the same arm %q",
					r.Record, r.Task, r.Trial, first.rec, first.file.Path, a.name)}
			}
			seen[k] = place{f, r.Record}
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(x, y *trace.Recorded) int {
		return cmp.Or(cmp.Compare(x.Task, y.Task), cmp.Compare(x.Trial, y.Trial))
	})
	return out, nil
}

func (a *armInput) score() (*ScoreArm, []string, error) {
	recs, err := a.pool()
	if err != nil {
		return nil, nil, err
	}
	arm := &ScoreArm{Name: a.name, Evidence: EvidenceRecorded, Traces: len(recs), NotEvaluable: []NotEvaluable{}}
	var warnings []string
	if warnings, err = arm.completion(recs, warnings); err != nil {
		return nil, nil, err
	}
	if warnings, err = arm.counts(recs, a.profile, warnings); err != nil {
		return nil, nil, err
	}
	if a.profile == nil {
		for _, m := range []string{"tool_errors", "writes", "repeated_work", "duplicate_effects", "collateral_effects", "unfinished"} {
			arm.lack(m, a.why, 0)
		}
	} else {
		arm.userCost(recs, a.profile)
	}
	for _, f := range a.files {
		for _, l := range f.Lacks {
			arm.lack(l.Metric, l.Reason, 0)
		}
	}
	return arm, warnings, nil
}

// lack lists a metric as not evaluable, once per reason.
func (arm *ScoreArm) lack(metric, reason string, count int) {
	n := NotEvaluable{metric, reason, count}
	if !slices.Contains(arm.NotEvaluable, n) {
		arm.NotEvaluable = append(arm.NotEvaluable, n)
	}
}

func (arm *ScoreArm) completion(recs []*trace.Recorded, warnings []string) ([]string, error) {
	values := make([]float64, len(recs))
	clusters := make([]string, len(recs))
	perTask := map[string][]bool{}
	trials := map[int]bool{}
	for i, r := range recs {
		clusters[i] = r.Task
		if r.Met {
			values[i] = 1
			arm.Denominators.Met++
		}
		perTask[r.Task] = append(perTask[r.Task], r.Met)
		trials[r.Trial] = true
		if r.Error != "" {
			arm.Exceptions++
		}
	}
	arm.Denominators.Planned = len(recs)
	arm.Denominators.Unmet = len(recs) - arm.Denominators.Met
	arm.Cases = len(perTask)
	arm.Completion = Completion{SEMethod: "CR1", Cluster: "case", N: len(recs), Clusters: len(perTask), Met: arm.Denominators.Met}
	c, err := stats.ClusteredMean(values, clusters)
	switch {
	case err == nil:
		arm.Completion.Rate, arm.Completion.SE = numPtr(c.Mean), numPtr(c.CR1)
	case errors.Is(err, stats.ErrOneCluster):
		arm.Completion.Rate = numPtr(c.Mean)
		arm.lack("completion.se", err.Error(), 0)
	default:
		return nil, fmt.Errorf("arm %s: completion: %w", arm.Name, err)
	}
	if arm.Exceptions > 0 {
		warnings = append(warnings, fmt.Sprintf("%d of %d traces record an exception and count as unmet", arm.Exceptions, len(recs)))
	}
	return arm.pass(perTask, len(trials), warnings)
}

// pass fills in pass@k and pass^k for k up to the least number of trials.
func (arm *ScoreArm) pass(perTask map[string][]bool, distinct int, warnings []string) ([]string, error) {
	least, most := 0, 0
	for _, rs := range perTask {
		if least == 0 || len(rs) < least {
			least = len(rs)
		}
		most = max(most, len(rs))
	}
	arm.Trials = least
	arm.PassRule = "n = trials per case (equal)"
	if least != most {
		arm.PassRule = "n = trials of each case; k up to the least number of trials"
		warnings = append(warnings, fmt.Sprintf("cases have %d to %d trials; trials and k stop at %d", least, most, least))
	}
	arm.PassHat, arm.PassAt = map[string]Num{}, map[string]Num{}
	published := map[string]Num{}
	for k := 1; k <= least; k++ {
		var at, hat, pub float64
		for _, task := range sortedKeys(perTask) {
			n, c := len(perTask[task]), 0
			for _, met := range perTask[task] {
				if met {
					c++
				}
			}
			a, errAt := stats.PassAt(n, c, k)
			h, errHat := stats.PassHat(n, c, k)
			p, errPub := stats.PassHat(max(distinct, n), c, k)
			if err := errors.Join(errAt, errHat, errPub); err != nil {
				return nil, fmt.Errorf("arm %s: pass of task %s: %w", arm.Name, task, err)
			}
			at, hat, pub = at+a, hat+h, pub+p
		}
		tasks, key := float64(len(perTask)), strconv.Itoa(k)
		arm.PassAt[key], arm.PassHat[key], published[key] = Num(at/tasks), Num(hat/tasks), Num(pub/tasks)
	}
	for k := range published {
		if published[k].String() != arm.PassHat[k].String() {
			arm.PassHatPublished = published
		}
	}
	if arm.PassHatPublished != nil {
		per := fmt.Sprintf("%d to %d trials", least, most)
		if least == most {
			per = fmt.Sprintf("%d of them", least)
		}
		warnings = append(warnings, fmt.Sprintf("the publisher's pass^k takes n = %d, the distinct trial indices of the file; a case has %s", distinct, per))
	}
	return warnings, nil
}

func (arm *ScoreArm) counts(recs []*trace.Recorded, p *Profile, warnings []string) ([]string, error) {
	ground := groundTruth(recs)
	var toolErrors, unfinished, unanswered, orphans, needsGround int
	var writes Writes
	var work, dup, coll CountIn
	for _, r := range recs {
		c, err := countCalls(r, p, ground[r.Task])
		if err != nil {
			return nil, fmt.Errorf("arm %s: task %s, trial %d: %w", arm.Name, r.Task, r.Trial, err)
		}
		arm.ToolCalls += c.calls
		arm.RepeatedCalls.add(c.repeated)
		if c.reusedIDs {
			arm.ReusedCallIDs.Traces++
		}
		unanswered += c.unanswered
		orphans += r.Orphans
		toolErrors += c.errors
		writes.Attempted += c.attempted
		writes.Confirmed += c.confirmed
		work.add(c.repeatedOK)
		dup.add(c.duplicates)
		coll.add(c.collateral)
		if c.unfinished {
			unfinished++
		}
		if c.needsGround {
			needsGround++
		}
	}
	if unanswered > 0 {
		warnings = append(warnings, fmt.Sprintf("%d tool calls have no result; they are neither errors nor confirmed", unanswered))
	}
	if orphans > 0 {
		warnings = append(warnings, fmt.Sprintf("%d tool results belong to no call", orphans))
	}
	if p == nil {
		return warnings, nil
	}
	arm.ToolErrors, arm.Unfinished, arm.Writes, arm.RepeatedWork = &toolErrors, &unfinished, &writes, &work
	if needsGround > 0 {
		arm.lack("duplicate_effects", "no ground-truth actions are recorded", needsGround)
		arm.lack("collateral_effects", "no ground-truth actions are recorded", needsGround)
		return warnings, nil
	}
	arm.DuplicateEffects, arm.Collateral = &dup, &coll
	return warnings, nil
}

// groundTruth is the recorded ground truth by task. A record that ended in an
// exception has none; the other trials of its task tell it.
func groundTruth(recs []*trace.Recorded) map[string][]trace.RecordedAction {
	out := map[string][]trace.RecordedAction{}
	for _, r := range recs {
		if _, known := out[r.Task]; !known && r.Expected != nil {
			out[r.Task] = r.Expected
		}
	}
	return out
}

func (arm *ScoreArm) userCost(recs []*trace.Recorded, p *Profile) {
	if p.UserCost.Unit == "" {
		arm.lack("user_cost", "the effect profile declares no unit", 0)
		return
	}
	u := UserCost{Unit: p.UserCost.Unit}
	for _, r := range recs {
		if r.UserCost == nil {
			u.Missing++
			continue
		}
		u.N++
		u.Sum += Num(*r.UserCost)
	}
	arm.UserCost = &u
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
