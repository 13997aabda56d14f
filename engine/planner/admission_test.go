package planner

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
)

func with(s engine.PlanStep, change func(*engine.PlanStep)) engine.PlanStep {
	change(&s)
	return s
}

func issueCodes(issues []engine.PlanIssue) []string {
	var out []string
	for _, i := range issues {
		out = append(out, i.Code+":"+i.Step)
	}
	return out
}

func TestR25_WholePlanAdmission(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		steps []engine.PlanStep
		want  []string
	}{
		{"good", []engine.PlanStep{fixStep(), reportStep("fix")}, nil},
		{"later dependency is no circle", []engine.PlanStep{reportStep("fix"), fixStep()}, nil},
		{"unknown participant", []engine.PlanStep{fixStep(), with(reportStep(), func(s *engine.PlanStep) { s.Participant = "nobody"; s.Tools = nil })}, []string{"unknown_participant:report"}},
		{"unauthorized participant", []engine.PlanStep{fixStep(), with(reportStep(), func(s *engine.PlanStep) { s.Participant = "second"; s.Tools = nil })}, []string{"unknown_participant:report"}},
		{"circle", []engine.PlanStep{with(fixStep(), func(s *engine.PlanStep) { s.Deps = []string{"report"} }), reportStep("fix")}, []string{"cycle:fix"}},
		{"self", []engine.PlanStep{fixStep(), reportStep("report")}, []string{"cycle:report"}},
		{"missing dependency", []engine.PlanStep{fixStep(), reportStep("gone")}, []string{"format:report"}},
		{"key twice", []engine.PlanStep{fixStep(), fixStep(), reportStep()}, []string{"id_conflict:fix"}},
		{"bad key", []engine.PlanStep{with(fixStep(), func(s *engine.PlanStep) { s.Key = "a:b" }), reportStep()}, []string{"format:a:b"}},
		{"no report", []engine.PlanStep{fixStep(), with(reportStep(), func(s *engine.PlanStep) { s.Report = false })}, []string{"format:"}},
		{"two reports", []engine.PlanStep{with(fixStep(), func(s *engine.PlanStep) { s.Report = true }), reportStep()}, []string{"format:"}},
		{"uncovered criterion", []engine.PlanStep{fixStep(), with(reportStep(), func(s *engine.PlanStep) { s.Criteria = nil })}, []string{"uncovered_criterion:"}},
		{"unknown criterion", []engine.PlanStep{fixStep(), with(reportStep(), func(s *engine.PlanStep) { s.Criteria = []string{"c2", "c9"} })}, []string{"format:report"}},
		{"tool of another", []engine.PlanStep{fixStep(), with(reportStep(), func(s *engine.PlanStep) { s.Tools = []string{"fix"}; s.ActionLevel = "write" })}, []string{"action_level:report"}},
		{"unknown tool", []engine.PlanStep{fixStep(), with(reportStep(), func(s *engine.PlanStep) { s.Tools = []string{"hack"} })}, []string{"action_level:report"}},
		{"level below the tool", []engine.PlanStep{with(fixStep(), func(s *engine.PlanStep) { s.ActionLevel = "read" }), reportStep()}, []string{"action_level:fix"}},
		{"external_write", []engine.PlanStep{fixStep(), with(reportStep(), func(s *engine.PlanStep) { s.ActionLevel = "external_write" })}, []string{"action_level:report"}},
		{"execute", []engine.PlanStep{with(fixStep(), func(s *engine.PlanStep) { s.ActionLevel = "execute" }), reportStep()}, []string{"action_level:fix"}},
		{"empty instruction", []engine.PlanStep{with(fixStep(), func(s *engine.PlanStep) { s.Instruction = "" }), reportStep()}, []string{"format:fix"}},
		{"kept without having been", []engine.PlanStep{with(fixStep(), func(s *engine.PlanStep) { s.TaskID = "objective:x:1:fix" }), reportStep()}, []string{"unresolved_reuse:fix"}},
		{
			"all reported together",
			[]engine.PlanStep{with(fixStep(), func(s *engine.PlanStep) { s.ActionLevel = "execute"; s.Criteria = nil }), with(reportStep("gone"), func(s *engine.PlanStep) { s.Participant = "nobody"; s.Tools = nil })},
			[]string{"action_level:fix", "format:report", "unknown_participant:report", "uncovered_criterion:"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			d := start(t, testSpec())
			d.facts = &engine.Facts{Eligible: []string{"auditor", "double", "keeper", "writer"}}
			d.owner(engine.MsgRequest, "go")
			d.plan(create(tc.steps...))
			if tc.want == nil {
				if d.status() != StatusActive || d.objective().Plan.Version != 1 || d.count(engine.OpSpecialist) == 0 {
					t.Fatalf("not admitted: %v", d.lines())
				}
				return
			}
			var body struct {
				Code   string             `json:"code"`
				Issues []engine.PlanIssue `json:"issues"`
			}
			if err := json.Unmarshal([]byte(d.note(NoteRefused)), &body); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, issueCodes(body.Issues)); diff != "" || body.Code != engine.CodeInvalidPlan {
				t.Fatalf("%s (-want +got):\n%s", body.Code, diff)
			}
			// All or nothing: nothing of a refused plan exists.
			if d.objective() != nil || len(d.m.st.Tasks) > 0 || len(d.tasks()) > 0 || d.count(engine.OpSpecialist) > 0 || d.notes(NotePlan) > 0 {
				t.Fatalf("something of the refused plan exists: %s", d.snapshot(d.m))
			}
		})
	}
}

func TestR25_StepsAreLimitedTo16(t *testing.T) {
	t.Parallel()
	for n, ok := range map[int]bool{16: true, 17: false} {
		steps := []engine.PlanStep{reportStep()}
		for i := 1; i < n; i++ {
			steps = append(steps, with(fixStep(), func(s *engine.PlanStep) { s.Key = fmt.Sprintf("s%d", i) }))
		}
		d := planned(t, testSpec(), steps...)
		if got := d.objective() != nil; got != ok {
			t.Errorf("%d steps: admitted %v, want %v", n, got, ok)
		}
	}
}

func TestR25_LastStepExternalWriteLeavesNothingOfFive(t *testing.T) {
	t.Parallel()
	d := reviewing(t, testSpec())
	d.verdict("auditor", "met", "unmet")
	before := d.objective().Plan.Version
	steps := []engine.PlanStep{d.keep("fix")}
	for i := range 3 {
		steps = append(steps, with(fixStep(), func(s *engine.PlanStep) { s.Key = fmt.Sprintf("s%d", i) }))
	}
	steps = append(steps, with(reportStep(), func(s *engine.PlanStep) { s.ActionLevel = "external_write" }))
	d.plan(revise(steps...))
	if got := d.objective().Plan.Version; got != before || len(d.open) != 0 || d.status() != StatusVerifying {
		t.Fatalf("version %d, %d open calls, status %s", got, len(d.open), d.status())
	}
}

func TestR11_WritesNeedTheAllowList(t *testing.T) {
	t.Parallel()
	spec := testSpec()
	spec.AllowWrite = nil
	d := planned(t, spec, fixStep(), reportStep("fix"))
	if d.objective() != nil || !strings.Contains(d.note(NoteRefused), "not allow-listed") {
		t.Fatalf("a write tool was admitted: %v", d.lines())
	}
	spec.AllowWrite = []string{"pay"}
	if d = planned(t, spec, fixStep(), reportStep("fix")); d.objective() != nil {
		t.Fatal("a write tool outside the list was admitted")
	}
	draft := with(fixStep(), func(s *engine.PlanStep) { s.ActionLevel = "draft"; s.Tools = []string{"list"} })
	if d = planned(t, spec, draft, reportStep("fix")); d.status() != StatusActive {
		t.Fatalf("read and draft are the default: %v", d.lines())
	}
}

func TestR30_TaskDigestCoversTheWorkAndNothingElse(t *testing.T) {
	t.Parallel()
	base := Step{Key: "a", Participant: "p", Instruction: "i", ExpectedOutput: "e", ArtifactKind: "k", ActionLevel: "read", Tools: []string{"x", "y"}, Criteria: []string{"c1"}}
	digest := func(s Step, deps ...string) string {
		t.Helper()
		d, err := taskDigest(s, deps)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	want := digest(base, "t1", "t2")
	same := base
	same.Key, same.TaskID, same.Retained, same.Tools = "b", "id", true, []string{"y", "x"}
	if digest(same, "t2", "t1") != want {
		t.Error("key, id, status or order entered the digest")
	}
	for name, change := range map[string]func(*Step){
		"participant": func(s *Step) { s.Participant = "q" }, "instruction": func(s *Step) { s.Instruction = "i." },
		"output": func(s *Step) { s.ExpectedOutput = "" }, "kind": func(s *Step) { s.ArtifactKind = "" },
		"level": func(s *Step) { s.ActionLevel = "draft" }, "tools": func(s *Step) { s.Tools = []string{"x"} },
		"criteria": func(s *Step) { s.Criteria = nil }, "report": func(s *Step) { s.Report = true },
	} {
		s := base
		change(&s)
		if digest(s, "t1", "t2") == want {
			t.Errorf("a change of %s leaves the digest", name)
		}
	}
	if digest(base, "t1", "t3") == want {
		t.Error("another dependency leaves the digest")
	}
}

func TestR32_VersionsFollowTheirPredecessor(t *testing.T) {
	t.Parallel()
	head := &Plan{Version: 2, Predecessor: 1, Steps: []Step{{Key: "a"}}}
	for _, tc := range []struct {
		name string
		next Plan
		ok   bool
		code string
	}{
		{"successor", Plan{Version: 3, Predecessor: 2}, true, ""},
		{"replay", Plan{Version: 2, Predecessor: 1, Steps: []Step{{Key: "a"}}}, false, ""},
		{"same version, other steps", Plan{Version: 2, Predecessor: 1, Steps: []Step{{Key: "b"}}}, false, engine.CodeConflict},
		{"gap", Plan{Version: 4, Predecessor: 3}, false, engine.CodeConflict},
		{"wrong predecessor", Plan{Version: 3, Predecessor: 1}, false, engine.CodeConflict},
		{"older", Plan{Version: 1, Predecessor: 0}, false, engine.CodeConflict},
	} {
		if ok, err := succeed(head, tc.next); ok != tc.ok || engine.CodeOf(err) != tc.code {
			t.Errorf("%s: %v %v", tc.name, ok, err)
		}
	}
	if ok, err := succeed(nil, Plan{Version: 1}); !ok || err != nil {
		t.Errorf("first: %v %v", ok, err)
	}
}

func TestR63_StatusTable(t *testing.T) {
	t.Parallel()
	all := []Status{StatusActive, StatusVerifying, StatusWaitingUser, StatusWaitingIntervention, StatusNeedsAttention, StatusPaused, StatusCompleted, StatusCancelled}
	want := map[string]Status{
		"active/tasks_complete": StatusVerifying, "active/hold": StatusWaitingUser, "verifying/hold": StatusWaitingUser,
		"waiting_user/owner_interpreted": StatusActive, "verifying/all_met": StatusCompleted,
		"active/plan_admitted": StatusActive, "verifying/plan_admitted": StatusActive,
		"verifying/failed_reports": StatusNeedsAttention, "active/barren_replans": StatusNeedsAttention, "verifying/barren_replans": StatusNeedsAttention,
		"verifying/unknown_verdict": StatusWaitingIntervention, "verifying/no_reviewer": StatusWaitingIntervention, "verifying/no_valid_review": StatusWaitingIntervention,
		"waiting_intervention/owner_correction": StatusActive, "needs_attention/owner_correction": StatusActive,
		"waiting_intervention/owner_resume_answer": StatusActive, "needs_attention/owner_resume_answer": StatusActive,
		"waiting_intervention/owner_resume": StatusActive, "needs_attention/owner_resume": StatusActive,
		"paused/owner_unpause": "", // the status that the pause remembered
		"paused/owner_cancel":  StatusCancelled,
	}
	for _, s := range running {
		want[string(s)+"/owner_pause"], want[string(s)+"/owner_cancel"] = StatusPaused, StatusCancelled
	}
	got := map[string]Status{}
	for _, from := range all {
		for trigger := range objectiveMoves {
			to, err := from.Next(trigger)
			if err == nil {
				got[string(from)+"/"+string(trigger)] = to
			} else if engine.CodeOf(err) != engine.CodeInvalidTransition || to != from {
				t.Errorf("%s %s: %s %v", from, trigger, to, err)
			}
			if from.Terminal() && err == nil {
				t.Errorf("%s leaves %s", trigger, from)
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestNew_RefusesBadSpecs(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Spec){
		"no criteria":         func(s *Spec) { s.Criteria = nil },
		"criterion twice":     func(s *Spec) { s.Criteria = append(s.Criteria, s.Criteria[0]) },
		"no owner":            func(s *Spec) { s.Owner = "" },
		"agent twice":         func(s *Spec) { s.Agents = append(s.Agents, s.Agents[0]) },
		"agent = coordinator": func(s *Spec) { s.Coordinator = "keeper" },
		"unknown allowed":     func(s *Spec) { s.AllowWrite = []string{"nothing"} },
		"identity":            func(s *Spec) { s.Identity = "free" },
		"objectives":          func(s *Spec) { s.Objectives = -1 },
		"alias twice":         func(s *Spec) { s.Agents[0].Aliases, s.Agents[1].Aliases = []string{"b"}, []string{"B"} },
	} {
		spec := testSpec()
		change(&spec)
		if _, err := New(spec); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	spec := testSpec()
	spec.Options = map[string]string{"reviewers": "2", "coordinator": "lead", "task_identity": "objective", "objectives": "2"}
	got, err := spec.WithOptions()
	if err != nil || got.Reviewers != 2 || got.Coordinator != "lead" || got.Identity != IdentityObjective || got.Objectives != 2 {
		t.Fatal(got.Reviewers, got.Coordinator, got.Identity, err)
	}
	for k, v := range map[string]string{"reviewers": "0", "coordinator": "", "speed": "1", "objectives": "0"} {
		spec.Options = map[string]string{k: v}
		if _, err := spec.WithOptions(); engine.CodeOf(err) != engine.CodeValidation {
			t.Errorf("%s=%q: %v", k, v, err)
		}
	}
}
