package planner

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"github.com/agentrooms/qualify/engine"
)

// FuzzParseEnvelope: whatever the text, a proposal is either refused with
// issues of the closed set or has what its decision needs.
func FuzzParseEnvelope(f *testing.F) {
	f.Add(`{"schema":"plan/v1","bound_objective_revision":0,"bound_control_revision":0,"decision":"noop","explanation":"x"}`)
	f.Add("```json\n{\"plan\":[{\"key\":\"a\"}]}\n```")
	f.Fuzz(func(t *testing.T, text string) {
		env, issues := ParseEnvelope(text)
		for _, i := range bounded(issues) {
			if i.Code != IssueFormat && i.Code != IssueUnknownField {
				t.Fatalf("code %q", i.Code)
			}
		}
		if len(issues) > 0 {
			return
		}
		planned := env.Decision == engine.DecideObjective || env.Decision == engine.DecideRevisePlan
		if env.Schema != engine.FormatPlan || planned != (len(env.Plan) > 0) {
			t.Fatalf("accepted: %+v", env)
		}
		spec := testSpec()
		c := &candidate{spec: &spec, criteria: spec.Criteria, eligible: func(string) bool { return true }, objective: "o", version: 1}
		plan, refused, err := c.admit(env.Plan)
		if err != nil || (plan == nil) == (len(refused) == 0) {
			t.Fatalf("plan %v, issues %v, error %v", plan, refused, err)
		}
	})
}

// FuzzParseVerdict: an accepted verdict names the report and judges every
// criterion once.
func FuzzParseVerdict(f *testing.F) {
	ref := engine.ReportRef{Ref: "r", Version: 1, SourceSet: "s"}
	f.Add(`{"schema":"review/v1","report":{"ref":"r","version":1,"source_set":"s"},"verdicts":[{"criterion":"c1","verdict":"met","evidence":"e"},{"criterion":"c2","verdict":"unmet","evidence":""}]}`)
	f.Add(`{"schema":"review/v1","report":{"ref":"r","version":2,"source_set":"s"},"verdicts":[]}`)
	f.Fuzz(func(t *testing.T, text string) {
		criteria := testSpec().Criteria
		reply, err := ParseVerdict(text, ref, criteria)
		if err != nil {
			if engine.CodeOf(err) != engine.CodeReviewInvalid {
				t.Fatalf("code of %v", err)
			}
			return
		}
		if reply.Report != ref || len(reply.Verdicts) != len(criteria) {
			t.Fatalf("accepted: %+v", reply)
		}
		for i, v := range reply.Verdicts {
			if v.Criterion != criteria[i].ID || verdictRank(v.Verdict) == 2 && v.Verdict != engine.VerdictUnknown {
				t.Fatalf("verdict %d: %+v", i, v)
			}
		}
	})
}

// FuzzEvent: whatever bytes a log holds, an event that decodes has one
// canonical form, and a machine in any stage folds it or refuses it with an
// error; it never panics, and an event of nobody changes nothing it may not.
func FuzzEvent(f *testing.F) {
	f.Add([]byte(`{"id":"e","kind":"owner_message","at_us":1,"message":{"id":"m","type":"correction","from":"ana","text":{"media":"text/plain","text":"no"}},"money":{"limit":0,"charged":0,"held":0,"unknown":0}}`), 0)
	f.Add([]byte(`{"id":"e","kind":"owner_command","command":{"kind":"pause","objective":"o","key":"k","from":"ana"}}`), 1)
	f.Add([]byte(`{"id":"e","kind":"owner_command","command":{"kind":"readmit","op":"x","key":"k","from":"ana","earlier":{"key":"k","digest":"d"}}}`), 3)
	f.Add([]byte(`{"id":"e","kind":"model_reply","key":{"kind":"interpret","cause":"ev-2","attempt":0,"ordinal":0},"reply":{"text":{"media":"text/plain","text":"{}"}}}`), 0)
	f.Add([]byte(`{"id":"e","kind":"tool_ok","key":{"kind":"tool","cause":"x","attempt":0,"ordinal":0},"tool":{"tool":"fix"}}`), 2)
	f.Add([]byte(`{"id":"e","kind":"dispatch_refused","key":{"kind":"review","cause":"x","attempt":0,"ordinal":0}}`), 3)
	var stages []string
	var open [][]engine.Call
	blobs := map[string]string{}
	stage := func(d *driver) {
		stages, open = append(stages, d.state), append(open, slices.Clone(d.open))
		for k, v := range d.blobs {
			blobs[k] = v
		}
	}
	d := start(f, testSpec())
	d.owner(engine.MsgRequest, "go")
	stage(d)
	stage(planned(f, testSpec(), fixStep(), reportStep("fix")))
	d = planned(f, testSpec(), fixStep(), reportStep("fix"))
	d.reply("keeper", "", engine.ToolCall{ID: "x", Tool: "fix", Args: engine.JSONText([]byte(`{"id":"i-17"}`))})
	stage(d)
	stage(reviewing(f, testSpec()))
	f.Fuzz(func(t *testing.T, b []byte, n int) {
		var ev engine.Event
		if json.Unmarshal(b, &ev) != nil {
			return
		}
		once, err := engine.Canonical(ev)
		if err != nil {
			return // numbers or text that no log can hold
		}
		var again engine.Event
		if err := json.Unmarshal(once, &again); err != nil {
			t.Fatalf("the canonical form does not decode: %v", err)
		}
		if twice, err := engine.Canonical(again); err != nil || !bytes.Equal(once, twice) {
			t.Fatalf("two canonical forms: %s and %s (%v)", once, twice, err)
		}
		i := int(uint(n) % uint(len(stages)))
		m, err := New(testSpec())
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Restore([]byte(stages[i])); err != nil {
			t.Fatal(err)
		}
		for _, x := range m.Texts() {
			if x.Sealed() {
				x.S = blobs[x.Blob.Digest]
			}
		}
		if ev.Key != nil && n%3 == 0 && len(open[i]) > 0 {
			ev.Key = &open[i][0].Key // an outcome of what is in flight
		}
		cmds, err := m.Handle(ev)
		if err != nil {
			return
		}
		if _, err := m.Snapshot(); err != nil {
			t.Fatalf("snapshot: %v", err)
		}
		if _, err := engine.Canonical(cmds); err != nil {
			t.Fatalf("commands: %v", err)
		}
	})
}

// FuzzAdmission: whatever steps are proposed, a plan is admitted whole or not
// at all, and an admitted one keeps the rules of admission (R25, R29, R32, I5).
func FuzzAdmission(f *testing.F) {
	for _, steps := range [][]engine.PlanStep{
		{fixStep(), reportStep("fix")},
		{fixStep(), reportStep("report")},
		{with(fixStep(), func(s *engine.PlanStep) { s.TaskID = "old" }), reportStep("fix")},
		{with(fixStep(), func(s *engine.PlanStep) { s.ActionLevel = "execute" }), fixStep()},
	} {
		b, err := json.Marshal(steps)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b, true)
		f.Add(b, false)
	}
	f.Fuzz(func(t *testing.T, b []byte, byObjective bool) {
		var steps []engine.PlanStep
		if json.Unmarshal(b, &steps) != nil {
			return
		}
		spec := testSpec()
		spec.Identity = IdentityPlan
		if byObjective {
			spec.Identity = IdentityObjective
		}
		old := keptTask{ID: "old", Digest: "d", Completed: true}
		c := &candidate{
			spec: &spec, criteria: spec.Criteria, eligible: func(id string) bool { return id != "second" }, objective: "o", version: 2,
			tasks: []keptTask{old, {ID: "objective:o:fix", Digest: "d"}},
		}
		plan, issues, err := c.admit(steps)
		if err != nil {
			t.Fatal(err)
		}
		if (plan == nil) == (len(issues) == 0) {
			t.Fatalf("plan %v with issues %v", plan, issues)
		}
		if total := len(bounded(issues)); total > maxIssues {
			t.Fatalf("%d issues are shown", total)
		}
		if plan == nil {
			return
		}
		keys, ids, reports := map[string]bool{}, map[string]bool{}, 0
		covered := map[string]bool{}
		for _, s := range plan.Steps {
			for _, dep := range s.Deps {
				if !keys[dep] {
					t.Fatalf("step %q stands before its dependency %q", s.Key, dep)
				}
			}
			if keys[s.Key] || ids[s.TaskID] || s.Digest == "" || s.Participant == "second" || actionRank(s.ActionLevel) < 0 {
				t.Fatalf("admitted: %+v", s)
			}
			if s.Retained && (s.TaskID != old.ID || s.Digest != old.Digest) {
				t.Fatalf("kept: %+v", s)
			}
			keys[s.Key], ids[s.TaskID] = true, true
			if s.Report {
				reports++
			}
			for _, cr := range s.Criteria {
				covered[cr] = true
			}
		}
		if reports != 1 || len(covered) != len(spec.Criteria) || len(plan.Steps) != len(steps) || plan.Predecessor != 1 {
			t.Fatalf("admitted: %+v", plan)
		}
	})
}
