package simulated

import (
	"slices"
	"strings"

	"github.com/agentrooms/qualify/engine"
)

// State of a step by the evidence of tasks.
type proof int

const (
	proofMissing proof = iota
	proofUnknown       // its exact call was made, the outcome is unknown
	proofDone          // its exact call came back ok, or its words are there
)

// judge finds for each step what the tasks prove. Every call proves one step
// at most, in order; what a call did stands, whatever became of its plan.
// Words are proved by the texts or by the result of a completed task of the
// current plan: results of superseded ones are not delivered any more.
func judge(steps []*step, tasks []engine.TaskProgress, texts ...string) map[string]proof {
	out := map[string]proof{}
	for _, want := range []string{engine.ToolOK, engine.ToolUnknown} {
		for _, t := range tasks {
			for _, k := range t.Calls {
				if k.Outcome == want {
					prove(out, steps, k, want)
				}
			}
		}
	}
	for _, t := range tasks {
		if t.Current && t.Status == taskCompleted {
			texts = append(texts, t.Result)
		}
	}
	for _, s := range steps {
		if s.words() && s.saidIn(texts) {
			out[s.ID] = proofDone
		}
	}
	return out
}

func prove(out map[string]proof, steps []*step, k engine.CallEvidence, outcome string) {
	canon, err := engine.CanonicalJSON(k.Args)
	if err != nil {
		return
	}
	i := slices.IndexFunc(steps, func(s *step) bool { return out[s.ID] == proofMissing && s.same(k.Tool, string(canon)) })
	if i < 0 {
		return
	}
	out[steps[i].ID] = proofUnknown
	if outcome == engine.ToolOK {
		out[steps[i].ID] = proofDone
	}
}

// saidIn reports whether the step's words, and its artifact's text, stand in
// the texts.
func (s *step) saidIn(texts []string) bool {
	said := func(words string) bool {
		return slices.ContainsFunc(texts, func(t string) bool { return strings.Contains(t, words) })
	}
	return said(s.Say) && (s.Artifact == nil || said(s.Artifact.Text))
}

// ownerTexts are the texts of messages.
func ownerTexts(messages []engine.PlanMessage) []string {
	var out []string
	for _, m := range messages {
		out = append(out, m.Text)
	}
	return out
}
