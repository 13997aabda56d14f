package planner

import (
	"encoding/json"
	"fmt"

	"github.com/agentrooms/qualify/engine"
)

var (
	reviewFields  = []string{"schema", "report", "verdicts"}
	reportFields  = []string{"ref", "version", "source_set"}
	verdictFields = []string{"criterion", "verdict", "evidence"}
)

// ParseVerdict reads a reviewer's reply. It is valid only if it names exactly
// the report it was given and lists every criterion exactly once with met,
// unmet or unknown (R51); the error, of code REVIEW_INVALID, says what is
// wrong. The verdicts come back in the order of criteria. It never panics.
func ParseVerdict(text string, report engine.ReportRef, criteria []engine.Criterion) (engine.ReviewReply, error) {
	invalid := func(format string, args ...any) (engine.ReviewReply, error) {
		return engine.ReviewReply{}, engine.Errorf(engine.CodeReviewInvalid, format, args...)
	}
	b, err := readObject(text)
	if err != nil {
		return invalid("%v", err)
	}
	var reply engine.ReviewReply
	unknown, err := decode(b, &reply, reviewFields)
	if err != nil {
		return invalid("%v", err)
	}
	if len(unknown) == 0 {
		unknown, err = unknownNested(b)
		if err != nil {
			return invalid("%v", err)
		}
	}
	if len(unknown) > 0 {
		return invalid("unknown field %q", unknown[0])
	}
	if reply.Schema != engine.FormatReview {
		return invalid("schema must be %q", engine.FormatReview)
	}
	if reply.Report != report {
		return invalid("the reply names report %q version %d, not exactly the report under review", cutBytes(reply.Report.Ref, maxKeyLen), reply.Report.Version)
	}
	given := map[string]engine.CriterionVerdict{}
	for _, v := range reply.Verdicts {
		if _, twice := given[v.Criterion]; twice {
			return invalid("criterion %q is judged twice", cutBytes(v.Criterion, maxKeyLen))
		}
		if v.Verdict != engine.VerdictMet && v.Verdict != engine.VerdictUnmet && v.Verdict != engine.VerdictUnknown {
			return invalid("verdict %q is none of met, unmet, unknown", cutBytes(v.Verdict, maxKeyLen))
		}
		given[v.Criterion] = v
	}
	ordered := make([]engine.CriterionVerdict, 0, len(criteria))
	for _, c := range criteria {
		v, ok := given[c.ID]
		if !ok {
			return invalid("criterion %q is not judged", c.ID)
		}
		v.Evidence = cutBytes(v.Evidence, maxShownResult)
		ordered = append(ordered, v)
	}
	if len(given) != len(criteria) {
		return invalid("a criterion that was not asked for is judged")
	}
	reply.Verdicts = ordered
	return reply, nil
}

func unknownNested(reply []byte) ([]string, error) {
	var raw struct {
		Report   json.RawMessage   `json:"report"`
		Verdicts []json.RawMessage `json:"verdicts"`
	}
	if err := json.Unmarshal(reply, &raw); err != nil {
		return nil, fmt.Errorf("verdict: %w", err)
	}
	if raw.Report == nil {
		return nil, fmt.Errorf("report is missing")
	}
	unknown, err := unknownFields(raw.Report, reportFields)
	if err != nil || len(unknown) > 0 {
		return unknown, err
	}
	for _, v := range raw.Verdicts {
		if unknown, err = unknownFields(v, verdictFields); err != nil || len(unknown) > 0 {
			return unknown, err
		}
	}
	return nil, nil
}

// combine joins the verdicts of several reviewers on one report: unknown
// dominates unmet, unmet dominates met (R52), criterion by criterion. All must
// list the same criteria in the same order.
func combine(replies []engine.ReviewReply) engine.ReviewReply {
	out := replies[0]
	out.Verdicts = append([]engine.CriterionVerdict(nil), out.Verdicts...)
	for _, r := range replies[1:] {
		for i, v := range r.Verdicts {
			if verdictRank(v.Verdict) > verdictRank(out.Verdicts[i].Verdict) {
				out.Verdicts[i] = v
			}
		}
	}
	return out
}

func verdictRank(v string) int {
	switch v {
	case engine.VerdictMet:
		return 0
	case engine.VerdictUnmet:
		return 1
	default:
		return 2
	}
}

// overall is the worst verdict of a reply: met only when all are (R52).
func overall(r engine.ReviewReply) string {
	worst := engine.VerdictMet
	for _, v := range r.Verdicts {
		if verdictRank(v.Verdict) > verdictRank(worst) {
			worst = v.Verdict
		}
	}
	return worst
}
