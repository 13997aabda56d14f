package evaluator

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/evaluator/trace"
)

func (p *tape) note(at int64, body string) *tape {
	return p.add(func(w *trace.Writer) error {
		return w.Event(trace.Event{AtUS: at, Kind: "note", Body: json.RawMessage(body)})
	})
}

// plan is the note of a plan version; steps are "task digest".
func (p *tape) plan(at int64, steps ...string) *tape {
	parts := make([]string, 0, len(steps))
	for _, s := range steps {
		task, digest, _ := strings.Cut(s, " ")
		parts = append(parts, fmt.Sprintf(`{"digest":%q,"task_id":%q}`, digest, task))
	}
	return p.note(at, `{"body":{"plan":{"steps":[`+strings.Join(parts, ",")+`]}},"note":"plan"}`)
}

func (p *tape) task(at int64, id, status string) *tape {
	return p.note(at, fmt.Sprintf(`{"body":{"status":%q,"task":%q},"note":"task"}`, status, id))
}

func (p *tape) work(id string, start, end int64) *tape {
	return p.op(trace.Op{Kind: "specialist", Role: "specialist", Task: id, Outcome: "ok", StartUS: start, AtUS: end}, "", "")
}

// TestQ1_RepeatedTasks: a task counts once a task of equal digest is known to
// have completed before its first dispatch; kept, failed and changed work does
// not, nor does a second call inside one task.
func TestQ1_RepeatedTasks(t *testing.T) {
	t.Parallel()
	first := func() *tape { return newTape(t).plan(0, "t1 d1", "t2 d2").work("t1", 1, 5).task(5, "t1", "completed") }
	for name, c := range map[string]struct {
		tape *tape
		want int
	}{
		"in a new version":          {first().plan(6, "t3 d1").work("t3", 7, 9).task(9, "t3", "completed"), 1},
		"twice more":                {first().plan(6, "t3 d1", "t4 d1").work("t3", 7, 9).work("t4", 7, 9), 2},
		"calls of one task":         {first().plan(6, "t3 d1").work("t3", 7, 8).work("t3", 8, 9), 1},
		"kept":                      {first().plan(6, "t1 d1", "t3 d3").work("t3", 7, 9), 0},
		"planned, never dispatched": {first().plan(6, "t3 d1"), 0},
		"changed":                   {first().plan(6, "t3 d9").work("t3", 7, 9), 0},
		"after a failure":           {newTape(t).plan(0, "t1 d1").work("t1", 1, 5).task(5, "t1", "failed").plan(6, "t3 d1").work("t3", 7, 9), 0},
		"side by side":              {newTape(t).plan(0, "t1 d1", "t2 d1").work("t1", 1, 5).work("t2", 2, 6).task(5, "t1", "completed").task(6, "t2", "completed"), 0},
		"started at that time":      {first().plan(5, "t3 d1").work("t3", 5, 9), 1},
		"no plan":                   {newTape(t).work("m1", 1, 2).work("m1", 3, 4), 0},
		"other notes":               {newTape(t).note(0, `{"body":"free text","note":"route"}`), 0},
	} {
		s := c.tape.score()
		if s.RepeatedWork == nil || *s.RepeatedWork != (RepeatedWork{Count: c.want, Tasks: c.want}) {
			t.Errorf("%s: %+v, want %d (%v)", name, s.RepeatedWork, c.want, s.NotEvaluable)
		}
	}
	refused := first().plan(6, "t3 d1").op(trace.Op{Kind: "specialist", Role: "specialist", Task: "t3", Outcome: "refused", StartUS: 7, AtUS: 7}, "", "").score()
	if refused.RepeatedWork.Count != 0 {
		t.Error("a refused dispatch was counted")
	}
	both := first().op(tool(1, 2), engine.EvToolOK, `{"n":1}`).plan(6, "t3 d1").work("t3", 7, 8).op(tool(8, 9), engine.EvToolOK, `{"n":1}`).score()
	if *both.RepeatedWork != (RepeatedWork{2, 1, 1}) {
		t.Errorf("the repeated task and its repeated call: %+v", both.RepeatedWork)
	}
	for name, body := range map[string]string{
		"step without digest":   `{"body":{"plan":{"steps":[{"task_id":"t1"}]}},"note":"plan"}`,
		"no plan in it":         `{"body":{},"note":"plan"}`,
		"no task in it":         `{"body":{"status":"completed"},"note":"task"}`,
		"completed out of plan": `{"body":{"status":"completed","task":"t9"},"note":"task"}`,
		"text":                  `{"body":"free text","note":"plan"}`,
	} {
		if s := newTape(t).note(0, body).score(); s.RepeatedWork != nil || !lacks(s, "repeated_work") {
			t.Errorf("%s: counted as %+v", name, s.RepeatedWork)
		}
	}
}

// TestQ1_NothingRanIsNotZero: an arm none of whose trials ran has no figures,
// and each names what it lacks; so has a rate over claims where none was made.
func TestQ1_NothingRanIsNotZero(t *testing.T) {
	t.Parallel()
	lack := func(a ArmSummary, metric string) bool {
		for _, n := range a.NotEvaluable {
			if n.Metric == metric && n.Reason != "" {
				return true
			}
		}
		return false
	}
	a, err := Aggregate(Arm{Name: "x"}, nil, []Planned{{Key: "c/x/0", Case: "c", Family: "f", NotRun: true}})
	if err != nil {
		t.Fatal(err)
	}
	if a.Evidence != EvidenceNotTested || a.Completion.Rate != nil || a.False.Rate != nil || a.Cost.ByRole != nil || a.Corrections != nil || a.Latency != nil {
		t.Errorf("%+v", a)
	}
	for _, m := range []string{
		"completion", "criterion_share", "false_completion", "silent_completion", "honest_failure", "owner_corrections",
		"duplicate_effects", "collateral_effects", "repeated_work", "latency", "cost",
	} {
		if !lack(a, m) {
			t.Errorf("%s is not listed as not evaluable", m)
		}
	}
	s := TrialScore{Key: "c/x/0", Arm: "x", Case: "c", Family: "f", Evidence: EvidenceSimulated, Outcome: UnclaimedUnmet, Cost: Cost{ByRole: map[string]int64{}}}
	if a, err = Aggregate(Arm{Name: "x"}, []TrialScore{s}, []Planned{{Key: "c/x/0", Case: "c", Family: "f"}}); err != nil {
		t.Fatal(err)
	}
	if a.False.RateOfClaims != nil || !lack(a, "false_completion.rate_of_claims") || lack(a, "false_completion") || lack(a, "cost") || a.Cost.ByRole == nil {
		t.Errorf("no claim: %+v", a)
	}
}
