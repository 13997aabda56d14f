package simulated

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
)

func planRequest(change ...func(*engine.PlanRequest)) engine.PlanRequest {
	req := engine.PlanRequest{
		Schema: engine.FormatPlan, Goal: "Make the books agree", ObjectiveRevision: 3, ControlRevision: 2, Reason: "message",
		Criteria: []engine.Criterion{{ID: "c-amount"}, {ID: "c-note"}, {ID: "c-extra"}},
		Messages: []engine.PlanMessage{{ID: "m1", Type: engine.MsgRequest, From: "ana", Text: "Make the books agree."}},
	}
	for _, f := range change {
		f(&req)
	}
	return req
}

// ask sends a document in a format and returns the raw reply.
func ask(t testing.TB, p *Provider, format, op string, doc any) string {
	t.Helper()
	b, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	r, err := p.Call(t.Context(), model.Call{
		Op: op, Format: format, System: "You coordinate.", MaxOutputTokens: 4000,
		Messages: []model.Message{{Role: engine.MsgUser, Text: string(b)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r.Text
}

func propose(t testing.TB, p *Provider, op string, req engine.PlanRequest) engine.PlanEnvelope {
	t.Helper()
	var env engine.PlanEnvelope
	if text := ask(t, p, engine.FormatPlan, op, req); json.Unmarshal([]byte(text), &env) != nil {
		t.Fatalf("no envelope: %s", text)
	}
	return env
}

// defects checks a plan as admission does, by other means.
func defects(req engine.PlanRequest, plan []engine.PlanStep) []string {
	var out []string
	at, reports, covered := map[string]int{}, 0, map[string]bool{}
	for i, s := range plan {
		if _, twice := at[s.Key]; twice || s.Key == "" {
			out = append(out, "key "+s.Key)
		}
		at[s.Key] = i
		if s.Report {
			reports++
		}
		for _, c := range s.Criteria {
			covered[c] = true
		}
	}
	if reports != 1 {
		out = append(out, fmt.Sprint("reports: ", reports))
	}
	for _, c := range req.Criteria {
		if !covered[c.ID] {
			out = append(out, "uncovered "+c.ID)
		}
	}
	gone := map[string]bool{} // peel off steps whose predecessors are gone
	for range plan {
		for _, s := range plan {
			if !slices.ContainsFunc(s.Deps, func(d string) bool { return !gone[d] }) {
				gone[s.Key] = true
			}
		}
	}
	if len(gone) != len(at) {
		out = append(out, "cycle or dangling dependency")
	}
	for _, s := range plan {
		if s.Participant == "nobody-known" {
			out = append(out, "participant")
		}
	}
	return out
}

// orders lists what each plan step orders, as "participant: tool …".
func orders(g *gold, plan []engine.PlanStep) []string {
	out := []string{}
	for _, s := range plan {
		m := g.readMarks(s.Instruction)
		out = append(out, fmt.Sprintf("%s: %s", s.Participant, strings.Join(append(m.todo, m.report...), " ")))
	}
	return out
}

func TestPlanFromTheOracle(t *testing.T) {
	t.Parallel()
	p := provider(t, relay())
	req := planRequest()
	env := propose(t, p, "op", req)
	if env.Decision != engine.DecideObjective || env.BoundObjectiveRevision != 3 || env.BoundControlRevision != 2 || env.Schema != engine.FormatPlan {
		t.Errorf("envelope %+v", env)
	}
	if d := defects(req, env.Plan); d != nil {
		t.Error(d)
	}
	if diff := cmp.Diff([]string{"keeper: s1 s2 s3", "writer: s4", "keeper: s5", "auditor: s6"}, orders(p.gold, env.Plan)); diff != "" {
		t.Error(diff)
	}
	first, last := env.Plan[0], env.Plan[3]
	if diff := cmp.Diff([]string{"add", "fix", "list"}, first.Tools); diff != "" || first.ActionLevel != engine.ActionWrite {
		t.Errorf("tools %v, level %s", first.Tools, first.ActionLevel)
	}
	if !last.Report || last.ArtifactKind != "report" || !slices.Contains(last.Criteria, "c-extra") || last.ActionLevel != engine.ActionDraft {
		t.Errorf("report step %+v", last)
	}
}

func TestOrdinaryQuestionNeedsNoPlan(t *testing.T) {
	t.Parallel()
	o := Oracle{Steps: []Step{{ID: "s1", By: "writer", Say: "It opens at nine."}}}
	env := propose(t, provider(t, o), "op", planRequest())
	if env.Decision != engine.DecideAnswer || env.Text != "It opens at nine." || env.Plan != nil {
		t.Errorf("%+v", env)
	}
	env = propose(t, provider(t, o, rates(Rates{SkipStep: always})), "op", planRequest())
	if env.Decision != engine.DecideAnswer || env.Text == "" || strings.Contains(env.Text, "nine") {
		t.Errorf("skipped: %+v", env)
	}
	o.Steps[0] = Step{ID: "s1", By: "writer", Tool: "note", Args: raw(`{}`)}
	if env = propose(t, provider(t, o), "op", planRequest()); env.Decision != engine.DecideObjective || len(env.Plan) != 1 {
		t.Errorf("with a tool: %+v", env)
	}
}

// progressOf turns a plan into finished tasks whose calls came back ok, except
// those that broken names, which get its outcome.
func progressOf(t testing.TB, p *Provider, plan []engine.PlanStep, broken map[string]string) []engine.TaskProgress {
	t.Helper()
	var out []engine.TaskProgress
	for _, s := range plan {
		tp := engine.TaskProgress{
			Task: "task-" + s.Key, Step: s.Key, Participant: s.Participant, Instruction: s.Instruction, Criteria: s.Criteria,
			Status: taskCompleted, Current: true, ExpectedOutput: s.ExpectedOutput, ArtifactKind: s.ArtifactKind,
			Deps: s.Deps, ActionLevel: s.ActionLevel, Tools: s.Tools, Report: s.Report,
		}
		for _, id := range p.gold.readMarks(s.Instruction).todo {
			st := p.gold.at(id)
			outcome, args := engine.ToolOK, st.canon
			if b, ok := broken[id]; ok && b == "wrong" {
				args = `{"id":"wrong"}`
			} else if ok {
				outcome = b
			}
			if st.words() {
				if outcome == "left out" {
					continue
				}
				tp.Result += st.Say
				if st.Artifact != nil {
					tp.Result += st.Artifact.Text
				}
			} else if outcome != "left out" {
				tp.Calls = append(tp.Calls, engine.CallEvidence{Tool: st.Tool, Args: raw(args), Outcome: outcome})
			}
		}
		out = append(out, tp)
	}
	return out
}

func TestSuccessorPlanOrdersWhatIsMissing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		oracle Oracle
		broken map[string]string
		reason string
		kept   int
		want   []string
	}{
		{"a wrong call", relay(), map[string]string{"s2": "wrong"}, "review_unmet", 0, []string{"keeper: s2", "auditor: s6"}},
		{"a call left out", ledger(), map[string]string{"s4": "left out"}, "review_unmet", 1, []string{"keeper: s1 s2 s3", "writer: s4"}},
		{"an error", relay(), map[string]string{"s5": engine.ToolError}, "task_failed", 2, []string{"keeper: s1 s2 s3", "writer: s4", "keeper: s5", "auditor: s6"}},
		{"an unknown outcome beside a fault", ledger(), map[string]string{"s2": engine.ToolUnknown, "s4": "wrong"}, "review_unmet", 0, []string{"writer: s4"}},
		{"an unknown outcome, words report", relay(), map[string]string{"s2": engine.ToolUnknown, "s6": "left out"}, "message", 0, []string{"keeper: s2", "auditor: s6"}},
		{"only an unknown outcome", ledger(), map[string]string{"s2": engine.ToolUnknown}, "review_unmet", 0, []string{"keeper: s2"}},
		{"nothing, words report", relay(), nil, "review_unmet", 3, []string{"keeper: s1 s2 s3", "writer: s4", "keeper: s5", "auditor: s6"}},
		{"nothing, a call reports", ledger(), nil, "review_unmet", 1, []string{"keeper: s1 s2 s3", "writer: s4"}},
	} {
		p := provider(t, c.oracle)
		first := propose(t, p, "op1", planRequest())
		req := planRequest(func(r *engine.PlanRequest) {
			r.ObjectiveID, r.PlanVersion, r.Reason = "o", 1, c.reason
			r.Messages[0].Type = engine.MsgCorrection
			r.Progress = progressOf(t, p, first.Plan, c.broken)
		})
		env := propose(t, p, "op2", req)
		if env.Decision != engine.DecideRevisePlan {
			t.Errorf("%s: decision %s", c.name, env.Decision)
		}
		if d := defects(req, env.Plan); d != nil {
			t.Errorf("%s: %v", c.name, d)
		}
		if diff := cmp.Diff(c.want, orders(p.gold, env.Plan)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
		for i, s := range env.Plan {
			if keeps := s.TaskID != ""; keeps != (i < c.kept) {
				t.Errorf("%s: step %d (%s) has task id %q, want the first %d kept", c.name, i, s.Key, s.TaskID, c.kept)
			}
			if i < c.kept { // R29: a kept task's content is unchanged
				want := first.Plan[slices.IndexFunc(first.Plan, func(f engine.PlanStep) bool { return f.Key == s.Key })]
				want.TaskID = "task-" + s.Key
				if diff := cmp.Diff(want, s); diff != "" {
					t.Errorf("%s: %s", c.name, diff)
				}
			} else if p.gold.readMarks(s.Instruction).round != 2 {
				t.Errorf("%s: new step %s does not name the round: %s", c.name, s.Key, s.Instruction)
			}
		}
	}
}

// A call of unknown outcome is ordered again beside other faults when the
// reviewer did not accept its criterion, or the owner speaks of it.
func TestDoubtedOutcomesAreOrderedAgain(t *testing.T) {
	t.Parallel()
	p := provider(t, ledger())
	first := propose(t, p, "op1", planRequest())
	for _, c := range []struct {
		name    string
		verdict string
		said    string
		want    []string
	}{
		{"accepted, unspoken", engine.VerdictMet, "Hm.", []string{"writer: s4"}},
		{"not accepted", engine.VerdictUnmet, "Hm.", []string{"keeper: s2", "writer: s4"}},
		{"spoken of", engine.VerdictMet, "17 has the old amount.", []string{"keeper: s2", "writer: s4"}},
	} {
		env := propose(t, p, "op2", planRequest(func(r *engine.PlanRequest) {
			r.PlanVersion, r.Reason = 1, "review_unmet"
			r.Progress = progressOf(t, p, first.Plan, map[string]string{"s2": engine.ToolUnknown, "s4": "wrong"})
			r.Messages = append(r.Messages, engine.PlanMessage{ID: "k", Type: engine.MsgCorrection, From: "ana", Text: c.said})
			r.Review = &engine.ReviewReply{Verdicts: []engine.CriterionVerdict{{Criterion: "c-amount", Verdict: c.verdict}}}
		}))
		if diff := cmp.Diff(c.want, orders(p.gold, env.Plan)); diff != "" {
			t.Errorf("%s: %s", c.name, diff)
		}
	}
}

// A call that came back ok under a superseded plan is not ordered again.
func TestHistoryCountsAsDone(t *testing.T) {
	t.Parallel()
	p := provider(t, ledger())
	first := propose(t, p, "op1", planRequest())
	progress := progressOf(t, p, first.Plan, map[string]string{"s2": "wrong"})
	for i := range progress {
		progress[i].Current = false
	}
	env := propose(t, p, "op2", planRequest(func(r *engine.PlanRequest) {
		r.PlanVersion, r.Reason, r.Progress = 2, "review_unmet", progress
	}))
	if diff := cmp.Diff([]string{"keeper: s2"}, orders(p.gold, env.Plan)); diff != "" {
		t.Error(diff)
	}
}

func TestMessagesMidway(t *testing.T) {
	t.Parallel()
	o := relay()
	o.Messages["m2"] = "Forget i-19."
	o.Steps[2].Until = "m2"
	p := provider(t, o)
	first := propose(t, p, "op1", planRequest())
	running := progressOf(t, p, first.Plan, nil)
	for i := range running {
		running[i].Status, running[i].Calls, running[i].Result = taskRunning, nil, ""
	}
	for _, c := range []struct{ name, kind, text, want string }{
		{"a word that changes nothing", engine.MsgRequest, "How is it going?", engine.DecideNoop},
		{"a change", engine.MsgRequest, "Forget i-19.", engine.DecideRevisePlan},
		{"a correction", engine.MsgCorrection, "Not like that.", engine.DecideRevisePlan},
	} {
		req := planRequest(func(r *engine.PlanRequest) {
			r.PlanVersion, r.Progress = 1, running
			r.Messages = append(r.Messages, engine.PlanMessage{ID: "x", Type: c.kind, From: "ana", Text: c.text})
		})
		env := propose(t, p, "op2", req)
		if env.Decision != c.want {
			t.Errorf("%s: %s, want %s", c.name, env.Decision, c.want)
		}
		if c.want == engine.DecideRevisePlan {
			if d := defects(req, env.Plan); d != nil {
				t.Errorf("%s: %v", c.name, d)
			}
			if drops := !strings.Contains(fmt.Sprint(orders(p.gold, env.Plan)), "s3"); drops != (c.text == "Forget i-19.") {
				t.Errorf("%s: orders %v", c.name, orders(p.gold, env.Plan))
			}
		}
	}
}

func TestPlanFaults(t *testing.T) {
	t.Parallel()
	p := provider(t, relay(), rates(Rates{PlanFault: always}))
	seen := map[string]int{}
	for i := range 80 {
		req := planRequest()
		text := ask(t, p, engine.FormatPlan, fmt.Sprint("op", i), req)
		var env engine.PlanEnvelope
		if json.Unmarshal([]byte(text), &env) != nil {
			seen[faultJSON]++
			continue
		}
		d := strings.Join(defects(req, env.Plan), ", ")
		ordered := strings.Fields(strings.Join(orders(p.gold, env.Plan), " "))
		switch {
		case d == "participant":
			seen[faultParticipant]++
		case d == "cycle or dangling dependency":
			seen[faultCycle]++
		case strings.HasPrefix(d, "uncovered "):
			seen[faultCriterion]++
		case d == "" && env.Plan[0].TaskID != "":
			seen[faultIdentity]++
		case d == "" && len(ordered) == 4+5: // four participants, five of six steps
			seen[faultForgotten]++
		default:
			t.Errorf("op%d: no fault that is known: %q %s", i, d, text)
		}
	}
	if len(seen) != 6 {
		t.Errorf("kinds seen in 80 plans: %v, want all six", seen)
	}
	repaired := planRequest(func(r *engine.PlanRequest) {
		r.Reason, r.Feedback = "repair", []engine.PlanIssue{{Code: "format", Text: "unreadable"}}
	})
	if d := defects(repaired, propose(t, p, "op0", repaired).Plan); d != nil {
		t.Errorf("with feedback: %v", d)
	}
}

// Whatever the oracle, a plan from it is acyclic, covers all criteria, has one
// report, and orders every step in force exactly once.
func TestPlanProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		o := anyOracle(rt)
		p, err := New(Config{Oracle: o})
		if err != nil {
			rt.Fatal(err)
		}
		req := planRequest(func(r *engine.PlanRequest) { r.Messages[0].Text = "m0" })
		env := propose(t, p, "op", req)
		if env.Decision == engine.DecideAnswer {
			return
		}
		if d := defects(req, env.Plan); d != nil {
			rt.Fatalf("%v in %+v", d, env.Plan)
		}
		var got, want []string
		for _, s := range env.Plan {
			for _, id := range p.gold.readMarks(s.Instruction).todo {
				if p.gold.at(id).By != s.Participant {
					rt.Fatalf("%s ordered from %s", id, s.Participant)
				}
				got = append(got, id)
			}
		}
		for _, s := range o.Steps {
			want = append(want, s.ID)
		}
		slices.Sort(got)
		slices.Sort(want)
		if diff := cmp.Diff(want, got); diff != "" {
			rt.Fatal(diff)
		}
	})
}

// anyOracle draws an oracle of one to eight steps of three participants.
func anyOracle(rt *rapid.T) Oracle {
	o := Oracle{Criteria: []string{"c-amount", "c-note"}, NeedsPlan: rapid.Bool().Draw(rt, "plan"), Tools: ledger().Tools, Messages: map[string]string{}}
	n := rapid.IntRange(1, 8).Draw(rt, "steps")
	for i := range n {
		s := Step{ID: fmt.Sprint("s", i), By: rapid.SampledFrom([]string{"keeper", "writer", "auditor"}).Draw(rt, "by")}
		if rapid.IntRange(0, 3).Draw(rt, "words") == 0 {
			s.Say = fmt.Sprintf("Word of s%d.", i)
		} else {
			s.Tool = rapid.SampledFrom(allTools).Draw(rt, "tool")
			s.Args = raw(fmt.Sprintf(`{"id":"i-%d"}`, rapid.IntRange(0, 2).Draw(rt, "id")))
		}
		for j := range i {
			if rapid.IntRange(0, 2).Draw(rt, "after") == 0 {
				s.After = append(s.After, fmt.Sprint("s", j))
			}
		}
		s.Meets = rapid.SampledFrom([][]string{nil, {"c-amount"}, {"c-note", "c-amount"}}).Draw(rt, "meets")
		s.Report = rapid.Bool().Draw(rt, "report")
		o.Steps = append(o.Steps, s)
	}
	return o
}
