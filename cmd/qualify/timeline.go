package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/engine/planner"
	"github.com/agentrooms/qualify/evaluator/trace"
)

// describeEvent writes an event of a timeline in words: plan versions, refused
// proposals, moves of objectives, verdicts, readmissions, escalations and what
// was said. What it has no words for, or cannot read, it shows as it stands in
// the trace.
func describeEvent(e *trace.Event) (label, text string) {
	var b struct {
		Note string          `json:"note"`
		Body json.RawMessage `json:"body"`
		spoken
	}
	raw := fmt.Sprintf("%s %s", e.Kind, e.Body)
	if json.Unmarshal(e.Body, &b) != nil {
		return "event", raw
	}
	switch e.Kind {
	case "note":
		if label, text := describeNote(b.Note, b.Body); text != "" {
			return label, text
		}
	case "say":
		return "say", fmt.Sprintf("%s to %s (%s): %s", b.From, strings.Join(b.To, ", "), b.Status, b.Text)
	case "post":
		return "post", b.From + ": " + b.Text
	case "claim":
		return "claim", "by " + b.By
	case "artifact":
		return "artifact", fmt.Sprintf("%s version %d by %s", b.Name, b.Version, b.By)
	case "withdraw":
		return "withdraw", "the claim no longer stands"
	case "end":
		return "rest", b.Reason
	case "answer":
		return "answer", fmt.Sprintf("to %s: %s", b.Key, orOK(b.Code, b.Reason))
	}
	return "event", raw
}

// spoken is what the bodies of says, posts, claims, ends and answers hold.
type spoken struct {
	From   string   `json:"from"`
	To     []string `json:"to"`
	Status string   `json:"status"`
	Text   string   `json:"text"`
	By     string   `json:"by"`
	Reason string   `json:"reason"`
	Key    string   `json:"key"`
	Code   string   `json:"code"`

	Name    string `json:"name"` // of an artifact
	Version int    `json:"version"`
}

// noteBody is what the notes of the planner hold that a timeline shows.
type noteBody struct {
	Objective      string `json:"objective"`
	From           string `json:"from"`
	To             string `json:"to"`
	Trigger        string `json:"trigger"`
	Title          string `json:"title"`
	Explanation    string `json:"explanation"`
	Interpretation int    `json:"interpretation"`
	Issues         []struct {
		Code string `json:"code"`
		Step string `json:"step"`
		Text string `json:"text"`
	} `json:"issues"`
	Plan struct {
		Version int            `json:"version"`
		Steps   []planner.Step `json:"steps"`
	} `json:"plan"`
	Decision string `json:"decision"`
	Overall  string `json:"overall"`
	Report   struct {
		Version int `json:"version"`
	} `json:"report"`
	Verdicts []struct {
		Criterion string `json:"criterion"`
		Verdict   string `json:"verdict"`
	} `json:"verdicts"`
	Asked   []string `json:"reviewers"`
	Reason  string   `json:"reason"`
	Op      string   `json:"op"`
	Task    string   `json:"task"`
	Status  string   `json:"status"`
	Why     string   `json:"why"`
	Kind    string   `json:"kind"`
	Code    string   `json:"code"`
	Outcome string   `json:"outcome"`
	Event   string   `json:"event"`
	Bound   int      `json:"bound_control_revision"`
	Control int      `json:"control_revision"`

	Reviewer     string   `json:"reviewer"`
	Error        string   `json:"error"`
	Artifact     string   `json:"artifact"`
	Revision     int      `json:"objective_revision"`
	Message      string   `json:"message"`
	Participants []string `json:"participants"`
	Basis        string   `json:"basis"`
}

// describeNote has words for a note of the planner; "" for any other.
func describeNote(kind string, raw json.RawMessage) (label, text string) {
	var n noteBody
	if json.Unmarshal(raw, &n) != nil {
		return "", ""
	}
	switch kind {
	case planner.NotePlan:
		return "plan", describePlan(&n)
	case planner.NoteRefused:
		return "repair", fmt.Sprintf("proposal %d refused: %s", n.Interpretation, issueList(&n))
	case planner.NoteStale:
		return "repair", "proposal is stale and is asked for again"
	case planner.NoteObjective:
		label := "state"
		if n.To == string(planner.StatusWaitingIntervention) || n.To == string(planner.StatusNeedsAttention) {
			label = "escalate"
		}
		return label, fmt.Sprintf("%s: %s to %s (%s)", n.Objective, orDash(n.From), n.To, n.Trigger)
	case planner.NoteAttention, planner.NoteUnknown:
		return "escalate", fmt.Sprintf("%s could not be interpreted (%s)", n.Event, kind)
	case planner.NoteVerdict:
		return "verdict", fmt.Sprintf("report version %d: %s by %s: %s", n.Report.Version, n.Overall, strings.Join(n.Asked, ", "), verdictList(&n))
	case planner.NoteReview:
		return "review", fmt.Sprintf("report version %d goes to %s", n.Report.Version, strings.Join(n.Asked, ", "))
	case planner.NoteReplan:
		return "replan", fmt.Sprintf("%s needs a new plan (%s)", n.Objective, n.Reason)
	case planner.NoteDecision:
		return "decide", n.Decision + ": " + n.Explanation
	case planner.NoteTask:
		return "task", strings.TrimSuffix(fmt.Sprintf("%s %s: %s", n.Task, n.Status, n.Why), ": ")
	case planner.NoteHeld:
		return "held", fmt.Sprintf("result of %s for %s waits for readmission, control revision %d is now %d", n.Op, n.Task, n.Bound, n.Control)
	case planner.NoteReadmitted:
		return "readmit", fmt.Sprintf("result of %s for %s", n.Op, n.Task)
	case planner.NoteReconciled:
		return "proof", fmt.Sprintf("%s was %s", n.Op, n.Outcome)
	case planner.NoteLate:
		return "evidence", fmt.Sprintf("result of %s for %s came without authority", n.Op, n.Task)
	case planner.NoteInvalid:
		return "review", fmt.Sprintf("no valid verdict on report version %d by %s: %s", n.Report.Version, n.Reviewer, n.Why)
	case planner.NoteFailed:
		return "repair", fmt.Sprintf("interpretation of %s failed: %s", n.Event, n.Error)
	case planner.NoteRejected:
		about := []string{n.Event, n.Decision, n.From, n.Reviewer, n.Artifact}
		about = slices.DeleteFunc(about, func(s string) bool { return s == "" })
		return "reject", fmt.Sprintf("%s: %s %s", strings.Join(about, " "), n.Code, n.Why)
	case planner.NoteCorrection:
		return "correct", fmt.Sprintf("%s: objective revision %d by %s", n.Objective, n.Revision, n.Event)
	case planner.NoteRoute:
		return "route", fmt.Sprintf("%s to %s (%s)", n.Message, strings.Join(n.Participants, ", "), n.Basis)
	case planner.NoteStray:
		return "evidence", fmt.Sprintf("outcome of %s (%s) that nothing waits for", n.Op, n.Kind)
	case planner.NoteCommand:
		return "command", fmt.Sprintf("%s by %s: %s", n.Kind, n.From, orOK(n.Code, n.Why))
	case planner.NoteBlocked, planner.NoteStalled:
		return "blocked", fmt.Sprintf("%s %s %s", n.Code, n.Reason, n.Task)
	default:
		return "", ""
	}
}

func describePlan(n *noteBody) string {
	steps := make([]string, 0, len(n.Plan.Steps))
	for _, s := range n.Plan.Steps {
		step := s.Key + " (" + s.Participant
		if s.Retained {
			step += ", kept"
		}
		if s.Report {
			step += ", report"
		}
		steps = append(steps, step+")")
	}
	return fmt.Sprintf("version %d: %s; %s (%s)", n.Plan.Version, strings.Join(steps, ", "), n.Explanation, n.Title)
}

func issueList(n *noteBody) string {
	issues := make([]string, 0, len(n.Issues))
	for _, i := range n.Issues {
		issues = append(issues, strings.TrimSpace(i.Code+" "+i.Step)+": "+i.Text)
	}
	return strings.Join(issues, "; ")
}

func verdictList(n *noteBody) string {
	verdicts := make([]string, 0, len(n.Verdicts))
	for _, v := range n.Verdicts {
		verdicts = append(verdicts, v.Criterion+" "+v.Verdict)
	}
	return strings.Join(verdicts, ", ")
}

func orOK(code, reason string) string {
	if code == "" {
		return "done"
	}
	return strings.TrimSpace(code + " " + reason)
}
