package planner

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/agentrooms/qualify/engine"
)

// recordedCodes are the codes of a note: its own, and those of its issues.
func recordedCodes(t tb, n *engine.Note) (codes, issues []string) {
	t.Helper()
	var body struct {
		Code   string             `json:"code"`
		Issues []engine.PlanIssue `json:"issues"`
	}
	if err := json.Unmarshal([]byte(n.Body.S), &body); err != nil {
		t.Fatalf("note %s: %v", n.Kind, err)
	}
	if body.Code != "" {
		codes = append(codes, body.Code)
	}
	for _, i := range body.Issues {
		issues = append(issues, i.Code)
	}
	return codes, issues
}

// R70: whatever is refused is recorded with a code of the closed set, and
// every fault of a plan with one of R27, and none of it is an error of Handle:
// the driver fails a test whose machine returns one.
func TestR70_RefusalsAreRecordedWithACodeOfTheSet(t *testing.T) {
	t.Parallel()
	failed := func() *driver {
		d := planned(t, testSpec(), fixStep(), reportStep("fix"))
		d.finish("keeper", engine.StatusBlocked, "no access")
		return d
	}
	for name, c := range map[string]struct {
		play func() *driver
		kind string
		want []string
	}{
		"nonsense": {func() *driver {
			d := start(t, testSpec())
			d.owner(engine.MsgRequest, "go")
			d.reply("coordinator", "no JSON")
			return d
		}, NoteRefused, []string{engine.CodeInvalidPlan, IssueFormat}},
		"judgement": {func() *driver {
			return planned(t, testSpec(), fixStep(), with(reportStep("report"), func(s *engine.PlanStep) { s.Criteria = nil }))
		}, NoteRefused, []string{engine.CodeInvalidPlan, IssueUncovered, IssueCycle}},
		"stale": {func() *driver {
			d := failed()
			d.owner(engine.MsgCorrection, "leave i-17 alone")
			d.plan(revise(fixStep(), reportStep("fix")))
			return d
		}, NoteStale, []string{engine.CodeStaleRevision}},
		"unknown outcome": {func() *driver {
			d := start(t, testSpec())
			d.owner(engine.MsgRequest, "go")
			d.end("coordinator", engine.EvModelUnknown)
			return d
		}, NoteUnknown, []string{engine.CodeUncertain}},
		"an objective nobody asked for": {func() *driver {
			d := failed()
			d.plan(create(fixStep(), reportStep("fix")))
			return d
		}, NoteRejected, []string{engine.CodeForbidden}},
		"no authority": {func() *driver {
			d := planned(t, testSpec(), fixStep(), reportStep("fix"))
			d.refuse("keeper", engine.EvDispatchRefused, engine.CodeForbidden)
			return d
		}, NoteTask, []string{engine.CodeForbidden}},
		"no money": {func() *driver {
			d := planned(t, testSpec(), fixStep(), reportStep("fix"))
			d.refuse("keeper", engine.EvReservationRefused, engine.CodeBudgetExhausted)
			return d
		}, NoteBlocked, []string{engine.CodeBudgetExhausted}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, cmd := range c.play().log {
				if cmd.Note != nil && cmd.Note.Kind == c.kind {
					codes, issues := recordedCodes(t, cmd.Note)
					got = append(got, append(codes, issues...)...)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// knownCodes fails unless a note's codes are of the closed sets of R70 and
// R27; the driver asks it about every note of every test.
func knownCodes(t tb, n *engine.Note) {
	t.Helper()
	codes, issues := recordedCodes(t, n)
	for _, c := range codes {
		if !slices.Contains([]string{
			engine.CodeNotFound, engine.CodeForbidden, engine.CodeConflict, engine.CodeStaleRevision, engine.CodeInvalidPlan,
			engine.CodeBudgetExhausted, engine.CodeBudgetHalted, engine.CodeUnboundedCost, engine.CodeReviewInvalid,
			engine.CodeLimitReached, engine.CodeUncertain, engine.CodeInvalidTransition, engine.CodeValidation, engine.CodeAdapter,
		}, c) {
			t.Fatalf("R70: note %s has code %q: %s", n.Kind, c, n.Body.S)
		}
	}
	for _, c := range issues {
		if !slices.Contains([]string{
			IssueFormat, IssueUnknownField, IssueIDConflict, IssueReuse, IssueCycle, IssueParticipant, IssueUncovered, IssueActionLevel,
		}, c) {
			t.Fatalf("R27: note %s has an issue of code %q: %s", n.Kind, c, n.Body.S)
		}
	}
}
