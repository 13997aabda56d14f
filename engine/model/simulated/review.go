package simulated

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/agentrooms/qualify/engine"
	"github.com/agentrooms/qualify/engine/model"
)

// lastRequest is the newest user message that holds a JSON object: requests of
// format plan, review and route carry their document so, and repair feedback in
// words may follow it.
func lastRequest(call model.Call) string {
	for _, m := range slices.Backward(call.Messages) {
		if m.Role == engine.MsgUser && strings.HasPrefix(strings.TrimSpace(m.Text), "{") {
			return m.Text
		}
	}
	return ""
}

// review answers a review/v1 call. A criterion is good exactly if every step in
// force that meets it is proved by the evidence or the report; one that no step
// meets is good. Each verdict is then drawn apart: a bad one passes at
// PassesBad, a good one fails at FailsGood.
func (p *Provider) review(d dice, call model.Call) answer {
	var req engine.ReviewRequest
	if err := json.Unmarshal([]byte(lastRequest(call)), &req); err != nil {
		return document(map[string]string{"error": "the request holds no review request"})
	}
	inForce := p.gold.inForce(ownerTexts(req.Messages))
	proved := judge(inForce, req.Evidence, req.ReportText)
	out := engine.ReviewReply{Schema: engine.FormatReview, Report: req.Report, Verdicts: []engine.CriterionVerdict{}}
	for _, c := range req.Criteria {
		var missing []string
		for _, s := range inForce {
			if slices.Contains(s.Meets, c.ID) && proved[s.ID] != proofDone {
				missing = append(missing, s.name())
			}
		}
		v := engine.CriterionVerdict{Criterion: c.ID, Verdict: engine.VerdictMet, Evidence: "The calls and texts shown do it."}
		if len(missing) > 0 {
			v.Verdict, v.Evidence = engine.VerdictUnmet, "Not shown: "+strings.Join(missing, ", ")
			if d.hit(p.rates.PassesBad, "passes_bad:"+c.ID) {
				v.Verdict, v.Evidence = engine.VerdictMet, "It looks complete."
			}
		} else if d.hit(p.rates.FailsGood, "fails_good:"+c.ID) {
			v.Verdict, v.Evidence = engine.VerdictUnmet, "I am not convinced."
		}
		out.Verdicts = append(out.Verdicts, v)
	}
	return document(out)
}

// name is the step in a word or two.
func (s *step) name() string {
	if s.Tool != "" {
		return s.Tool
	}
	if s.Artifact != nil {
		return "document " + s.Artifact.Name
	}
	return "an answer"
}
